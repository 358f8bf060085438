//! The clocks of one machine against the world's: boot time that drifts, wall time that steps.

use tenure_engine::Now;

/// How much a clock, a node's or a holder's, differs from the world's at most: two of them differ by less than 0.5 %.
pub(super) const DRIFT_PPM_MAX: i64 = 2_500;

/// Clocks of one machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    ppm: i64,
    began: u64,
    boot_ms: u64,
    pub(super) wall_ms: i64,
}

impl Clock {
    pub(super) fn new(ppm: i64, boot_ms: u64) -> Self {
        Self { ppm, began: 0, boot_ms, wall_ms: 1_700_000_000_000 }
    }

    pub(super) fn read(&self, now: u64) -> Now {
        Now { boot_ms: self.boot_ms(now), wall_ms: now.saturating_add_signed(self.wall_ms) }
    }

    pub(super) fn boot_ms(&self, now: u64) -> u64 {
        self.boot_ms + (now - self.began) * self.rate() / 1_000_000
    }

    /// How long the world has to wait until boot time says this.
    pub(super) fn world_until(&self, now: u64, boot_ms: u64) -> u64 {
        match boot_ms.saturating_sub(self.boot_ms(now)) {
            0 => 0,
            left => left * 1_000_000 / self.rate() + 1,
        }
    }

    /// How long the world takes for what this clock calls so long.
    pub(super) fn world_ms(&self, own_ms: u64) -> u64 {
        (own_ms * 1_000_000).div_ceil(self.rate())
    }

    /// The machine started again.
    pub(super) fn reboot(&mut self, now: u64, boot_ms: u64) {
        (self.began, self.boot_ms) = (now, boot_ms);
    }

    fn rate(&self) -> u64 {
        1_000_000_u64.saturating_add_signed(self.ppm)
    }
}
