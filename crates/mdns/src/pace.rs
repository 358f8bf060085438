//! How fast the engine is given work, so that neither its queue of a hundred nor the socket buffers of slow
//! peers overflow when a thousand services come or go at once.

use core::time::Duration;

/// What may go at once after a quiet moment.
const BURST: u32 = 32;
/// 1,000 services a second are 2,000 packets a second on each interface, with the repeats; a peer's default
/// socket buffer holds about 200.
const PER_TICK: u32 = 10;
/// How often the allowance grows.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// An allowance of calls to the engine.
#[derive(Debug)]
pub(crate) struct Pace {
    left: u32,
}

impl Pace {
    /// A full allowance.
    pub(crate) fn new() -> Self {
        Self { left: BURST }
    }

    /// Whether one more may go now.
    pub(crate) fn take(&mut self) -> bool {
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }

    /// Nothing more until the next tick: the engine's queue is full.
    pub(crate) fn pause(&mut self) {
        self.left = 0;
    }

    /// One tick has passed.
    pub(crate) fn tick(&mut self) {
        self.left = BURST.min(self.left.saturating_add(PER_TICK));
    }

    /// Whether ticks are needed.
    pub(crate) fn is_full(&self) -> bool {
        self.left >= BURST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_burst_as_many_go_as_a_tick_allows() {
        let mut pace = Pace::new();
        for _ in 0..BURST {
            assert!(pace.take());
        }
        assert!(!pace.take());
        pace.tick();
        for _ in 0..PER_TICK {
            assert!(pace.take());
        }
        assert!(!pace.take());
        assert!(!pace.is_full());
    }

    #[test]
    fn a_quiet_time_saves_up_no_more_than_a_burst() {
        let mut pace = Pace::new();
        for _ in 0..1_000 {
            pace.tick();
        }
        assert!(pace.is_full());
        pace.pause();
        assert!(!pace.take());
    }
}
