//! Ticks from boot time. They never go back, continue from the log after a restart, and a stalled daemon
//! ages nobody: while a deadline is pending, a gap between turns counts for one second at most.

use tenure_kernel::Tick;
use tenure_kernel::planted::{Planted, planted};

/// What the host read from its clocks just before a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Now {
    /// Milliseconds on a clock that counts suspend and never goes back.
    pub boot_ms: u64,
    /// Milliseconds since 1970, for people only.
    pub wall_ms: u64,
}

/// Longest gap between turns that counts in full while deadlines are pending.
pub const STALL_MS: u64 = 1_000;

#[derive(Clone, Debug)]
pub(crate) struct Ticker {
    tick: Tick,
    boot_ms: u64,
}

/// How far time went.
pub(crate) struct Passed {
    pub(crate) now: Tick,
    /// The gap, when it was a stall.
    pub(crate) stalled_ms: Option<u64>,
}

impl Ticker {
    /// Continues from the last logged tick.
    pub(crate) fn new(last: Tick, now: Now) -> Self {
        Self { tick: last, boot_ms: now.boot_ms }
    }

    /// Time that does not count went by.
    pub(crate) fn stand_still(&mut self, now: Now) {
        self.boot_ms = self.boot_ms.max(now.boot_ms);
    }

    pub(crate) fn pass(&mut self, now: Now, deadline_pending: bool) -> Passed {
        // A clock that went back is a clock that stood still.
        let gap_ms = now.boot_ms.saturating_sub(self.boot_ms);
        self.boot_ms = self.boot_ms.max(now.boot_ms);
        let stalled = deadline_pending && gap_ms > STALL_MS;
        let counted_ms = if stalled && !planted(Planted::StallAgesHolders) { STALL_MS } else { gap_ms };
        self.tick = self.tick.after_ms(counted_ms);
        Passed { now: self.tick, stalled_ms: stalled.then_some(gap_ms) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(boot_ms: u64) -> Now {
        Now { boot_ms, wall_ms: 0 }
    }

    #[test]
    fn a_stall_counts_one_second_and_only_while_something_is_pending() {
        let mut ticker = Ticker::new(Tick(70), at(1_000));
        assert_eq!(ticker.pass(at(1_500), true).now, Tick(570));
        let passed = ticker.pass(at(3_601_500), true);
        assert_eq!((passed.now, passed.stalled_ms), (Tick(1_570), Some(3_600_000)));
        let passed = ticker.pass(at(3_605_500), false);
        assert_eq!((passed.now, passed.stalled_ms), (Tick(5_570), None));
    }

    #[test]
    fn a_clock_that_goes_back_stands_still() {
        let mut ticker = Ticker::new(Tick(0), at(5_000));
        assert_eq!(ticker.pass(at(4_000), true).now, Tick(0));
        assert_eq!(ticker.pass(at(5_100), true).now, Tick(100));
    }
}
