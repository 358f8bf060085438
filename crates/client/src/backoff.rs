//! Pauses between retries: exponential, bounded, with jitter. The seed of the jitter can be set for tests.

use core::time::Duration;

/// A source of jitter; the same seed gives the same sequence.
#[derive(Clone, Debug)]
pub struct Jitter(u64);

impl Jitter {
    /// Creates a source from a seed.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// Creates a source with a random seed.
    #[must_use]
    pub fn from_system() -> Self {
        // Without randomness the pauses are in step with those of others; no reason to fail.
        Self::from_seed(getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id())))
    }

    /// A random duration from `duration − duration/part` to `duration + duration/part`.
    pub fn around(&mut self, duration: Duration, part: u32) -> Duration {
        let span = duration / part;
        let least = duration.saturating_sub(span);
        least + span.saturating_mul(2).mul_f64(self.fraction())
    }

    /// A random number from 0 (inclusive) to 1 (exclusive).
    pub fn fraction(&mut self) -> f64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // 53 bits are what an f64 holds exactly.
        (mixed >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Pauses that double from the first to the longest, each with a jitter of half.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    pause: Duration,
    jitter: Jitter,
}

impl Backoff {
    /// Creates pauses from `first` to `longest`.
    #[must_use]
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self::with_jitter(first, longest, Jitter::from_system())
    }

    /// Creates pauses with a given source of jitter.
    #[must_use]
    pub fn with_jitter(first: Duration, longest: Duration, jitter: Jitter) -> Self {
        Self { first, longest, pause: first, jitter }
    }

    /// The pause before the next retry.
    pub fn next_pause(&mut self) -> Duration {
        let pause = self.pause.min(self.longest);
        self.pause = pause.saturating_mul(2);
        self.jitter.around(pause, 2)
    }

    /// Restarts with the first pause.
    pub fn reset(&mut self) {
        self.pause = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_again() {
        let (first, longest) = (Duration::from_millis(100), Duration::from_millis(450));
        let mut backoff = Backoff::with_jitter(first, longest, Jitter::from_seed(1));
        for middle in [100, 200, 400, 450, 450] {
            let pause = backoff.next_pause().as_millis();
            assert!(pause >= middle / 2 && pause <= middle * 3 / 2, "{pause} around {middle}");
        }
        backoff.reset();
        assert!(backoff.next_pause() <= Duration::from_millis(150));
    }

    #[test]
    fn jitter_stays_in_its_part_and_depends_on_the_seed_alone() {
        let second = Duration::from_secs(1);
        let draw = |seed| {
            let mut jitter = Jitter::from_seed(seed);
            (0..1000).map(|_| jitter.around(second, 10)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let drawn = draw(7);
        assert!(drawn.iter().all(|d| (0.9..=1.1).contains(&d.as_secs_f64())));
        assert!(drawn.iter().any(|d| d.as_secs_f64() < 0.92) && drawn.iter().any(|d| d.as_secs_f64() > 1.08));
    }
}
