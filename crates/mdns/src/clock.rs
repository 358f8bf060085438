//! The one place of this crate that reads a clock: for deadlines of its own work, and wall-clock time for people.

use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) use tokio::time::Instant;

/// The present instant, for deadlines.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Milliseconds since 1970, for people.
#[expect(clippy::disallowed_methods, reason = "this is the file that may")]
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
