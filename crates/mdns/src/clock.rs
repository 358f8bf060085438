//! The one place of this crate that reads a clock: for deadlines of its own work, for sleep that the machine had, and
//! wall-clock time for people.

use core::hash::BuildHasher;
use core::time::Duration;
use std::hash::RandomState;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
pub(crate) use tokio::time::Instant;

/// The present instant, for deadlines.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// How long this machine has slept since it was switched on.
pub(crate) fn slept() -> Duration {
    let read = |clock| {
        let at = clock_gettime(clock);
        Duration::new(u64::try_from(at.tv_sec).unwrap_or(0), u32::try_from(at.tv_nsec).unwrap_or(0))
    };
    let awake = read(ClockId::Monotonic);
    read(ClockId::Boottime).saturating_sub(awake)
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
