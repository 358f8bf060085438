//! All chance in a run: one xoshiro256** stream from one seed. The same seed draws the same numbers on every
//! machine and in every build.

use core::ops::RangeInclusive;

/// A stream of numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut mix = seed;
        Self { state: core::array::from_fn(|_| splitmix(&mut mix)) }
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let drawn = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        drawn
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0);
        // The bias of a modulus by small bounds is far below anything a run could show.
        self.next_u64() % bound
    }

    /// A number in a range.
    pub fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (first, last) = range.into_inner();
        first + self.below(last - first + 1)
    }

    /// True in so many of a thousand cases.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    /// One of several, which are not none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// An index below `length`; `None` when there is nothing to choose from.
    pub fn index(&mut self, length: usize) -> Option<usize> {
        (length > 0).then(|| self.below(length as u64) as usize)
    }

    /// Sixteen bytes.
    pub fn bytes(&mut self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.next_u64().to_le_bytes());
        bytes[8..].copy_from_slice(&self.next_u64().to_le_bytes());
        bytes
    }
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_stream() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            [random.next_u64(), random.next_u64(), random.next_u64()]
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn ranges_are_reached_at_both_ends() {
        let mut random = Random::new(1);
        let drawn: Vec<u64> = (0..200).map(|_| random.within(3..=5)).collect();
        assert!(
            drawn.contains(&3) && drawn.contains(&5) && drawn.iter().all(|value| (3..=5).contains(value))
        );
    }
}
