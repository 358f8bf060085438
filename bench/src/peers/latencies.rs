//! Durations counted in buckets that grow with them: millions take a few kilobytes, and every quantile is right to
//! within a thirty-second.

use std::time::Duration;

/// How often which duration was seen.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    buckets: Vec<u64>,
    count: u64,
    max_ns: u64,
}

/// Buckets of one power of two, as a power of two.
const STEPS_LOG2: u32 = 5;
const STEPS: u64 = 1 << STEPS_LOG2;
/// Buckets that hold every 64-bit value.
const BUCKETS: usize = ((u64::BITS - STEPS_LOG2 + 1) as usize) << STEPS_LOG2;

impl Latencies {
    pub(crate) fn new() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0, max_ns: 0 }
    }

    pub(crate) fn add(&mut self, took: Duration) {
        self.add_ns(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn add_ns(&mut self, ns: u64) {
        self.buckets[bucket(ns)] += 1;
        self.count += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn p50(&self) -> Duration {
        self.quantile(5_000)
    }

    pub(crate) fn p99(&self) -> Duration {
        self.quantile(9_900)
    }

    /// The longest, exactly; zero if there is none.
    pub(crate) fn max(&self) -> Duration {
        Duration::from_nanos(self.max_ns)
    }

    /// What so many of ten thousand do not exceed; zero if there is none.
    pub(crate) fn quantile(&self, of_ten_thousand: u64) -> Duration {
        let rank = (u128::from(self.count) * u128::from(of_ten_thousand)).div_ceil(10_000).max(1);
        let mut seen = 0;
        for (place, count) in self.buckets.iter().enumerate() {
            seen += u128::from(*count);
            if seen >= rank {
                return Duration::from_nanos(upper_end(place).min(self.max_ns));
            }
        }
        self.max()
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

/// Values below [`STEPS`] have a bucket each; above, the highest bits choose it.
fn bucket(ns: u64) -> usize {
    if ns < STEPS {
        return ns as usize;
    }
    let shift = ns.ilog2() - STEPS_LOG2;
    let step = (ns >> shift) & (STEPS - 1);
    ((shift as usize + 1) << STEPS_LOG2) + step as usize
}

/// The largest value of a bucket.
fn upper_end(place: usize) -> u64 {
    let (row, step) = (place >> STEPS_LOG2, place as u64 & (STEPS - 1));
    match row.checked_sub(1) {
        None => step,
        Some(shift) => ((STEPS + step) << shift) + ((1 << shift) - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_at_most_a_thirty_second_below_the_end_of_its_bucket() {
        let near_powers = (0..64).flat_map(|power| {
            let value = 1_u64 << power;
            [value - 1, value, value + 1, value + value / 3]
        });
        for value in near_powers.chain([u64::MAX]) {
            let end = upper_end(bucket(value));
            assert!(end >= value && end - value <= value / STEPS, "{value} is counted as {end}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_ranks() {
        let mut latencies = Latencies::new();
        assert_eq!((latencies.p50(), latencies.max()), (Duration::ZERO, Duration::ZERO));
        (1..=30).for_each(|ns| latencies.add(Duration::from_nanos(ns)));
        assert_eq!(latencies.p50(), Duration::from_nanos(15));
        assert_eq!(latencies.p99(), Duration::from_nanos(30));
        latencies.add(Duration::from_millis(1));
        assert_eq!(latencies.quantile(10_000), Duration::from_millis(1));
        assert_eq!((latencies.count(), latencies.max()), (31, Duration::from_millis(1)));
    }
}
