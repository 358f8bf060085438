//! Random delays: hosts that do the same at the same moment must not go on doing so. Seeded, so that a run repeats.

use core::time::Duration;

/// SplitMix64.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Another sequence.
    pub(crate) fn branch(&mut self) -> Self {
        Self(self.next())
    }

    /// At least `least` and less than `most`, in whole milliseconds.
    pub(crate) fn within(&mut self, least: Duration, most: Duration) -> Duration {
        let span = u64::try_from(most.saturating_sub(least).as_millis()).unwrap_or(u64::MAX).max(1);
        least + Duration::from_millis(self.next() % span)
    }
}
