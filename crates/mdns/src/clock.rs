//! The one place of this crate that reads a clock: for deadlines of its own work, for sleep that the machine had, and
//! wall-clock time for people.

use core::hash::BuildHasher;
use core::time::Duration;
use std::hash::RandomState;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
pub(crate) use tokio::time::Instant;

/// The present instant.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The clock that the engine goes by. The time that the machine sleeps counts, unlike with [`now`]: other hosts' records
/// run out in it, and other hosts forget ours.
pub(crate) struct Clock {
    /// How long the machine has slept since it was switched on, as far as was noticed.
    slept: Duration,
    /// What a test adds to that.
    #[cfg(test)]
    pretended: Duration,
}

/// The machine slept if the clock that goes on in sleep got so far ahead.
const SLEPT_FOR: Duration = Duration::from_secs(1);

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            slept: slept(),
            #[cfg(test)]
            pretended: Duration::ZERO,
        }
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::now() + self.slept
    }

    /// An instant of this clock as the runtime's timers know it. They stand still in sleep.
    pub(crate) fn for_timer(&self, at: Instant) -> Instant {
        at.checked_sub(self.slept).unwrap_or(at)
    }

    /// Whether the machine has slept since the last call. The clock moves on by that here, and only here.
    pub(crate) fn has_slept(&mut self) -> bool {
        let slept = slept();
        #[cfg(test)]
        let slept = slept + self.pretended;
        let has_slept = slept > self.slept + SLEPT_FOR;
        if has_slept {
            self.slept = slept;
        }
        has_slept
    }

    #[cfg(test)]
    pub(crate) fn pretend(&mut self, slept: Duration) {
        self.pretended += slept;
    }
}

/// How long this machine has slept since it was switched on; rather less than more.
fn slept() -> Duration {
    let read = |clock| {
        let at = clock_gettime(clock);
        Duration::new(u64::try_from(at.tv_sec).unwrap_or(0), u32::try_from(at.tv_nsec).unwrap_or(0))
    };
    let all = read(ClockId::Boottime);
    all.saturating_sub(read(ClockId::Monotonic))
}

/// A number that no other process has, for delays that must differ between hosts.
pub(crate) fn seed() -> u64 {
    RandomState::new().hash_one(unix_ms())
}

/// Milliseconds since 1970, for people.
#[expect(clippy::disallowed_methods, reason = "this is the file that may")]
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
