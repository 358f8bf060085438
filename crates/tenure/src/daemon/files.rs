//! How many files the system lets the daemon have open. Connections are files; so are the log and its snapshots, which
//! must never be without one because too many callers came.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that are not connections: log, snapshots, indexes, a backup, what the async threads need.
const RESERVED: u64 = 128;

/// Lets the process have as many files as it may, and says how many of them connections may be.
pub(super) fn connections_max() -> usize {
    let limit = getrlimit(Resource::Nofile);
    // One that cannot be raised is as it is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(allowed.saturating_sub(RESERVED).max(1)).unwrap_or(usize::MAX)
}
