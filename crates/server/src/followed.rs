//! Files that an operator replaces while the daemon runs: whether they changed since they were read. The daemon
//! looks at them when it needs them, no more than once a second. Knows nothing of what is in them.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, TryLockError};

/// Files that are read together.
#[derive(Debug)]
pub(crate) struct Followed {
    paths: Vec<PathBuf>,
    look_at_ms: AtomicU64,
    last: Mutex<LastRead>,
}

#[derive(Debug)]
struct LastRead {
    /// Each file as it was before it was read.
    seen: Vec<Seen>,
    failed: bool,
}

/// Differs when the file was changed or replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seen {
    Missing,
    Found { device: u64, inode: u64, bytes: u64, modified_ns: i128, changed_ns: i128 },
}

/// How often the files are looked at.
const LOOK_EVERY_MS: u64 = 1_000;

impl Followed {
    /// Notes the files as they are now. They must be read after this: what changes in between is then read again.
    pub(crate) fn new(paths: Vec<PathBuf>) -> Self {
        let seen = paths.iter().map(Seen::of).collect();
        Self { paths, look_at_ms: AtomicU64::new(0), last: Mutex::new(LastRead { seen, failed: false }) }
    }

    /// Has the files read if they changed, or if the last read failed: a fault may pass without a change. Gives what is
    /// worth a log line: a read that succeeded, and the first failure after a change.
    pub(crate) fn follow<E>(
        &self,
        boot_ms: u64,
        read: impl FnOnce() -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        if !self.is_due(boot_ms) {
            return None;
        }
        let mut last = match self.last.try_lock() {
            Ok(last) => last,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another caller reads them at this moment.
            Err(TryLockError::WouldBlock) => return None,
        };
        let seen: Vec<Seen> = self.paths.iter().map(Seen::of).collect();
        let is_changed = seen != last.seen;
        if !is_changed && !last.failed {
            return None;
        }
        last.seen = seen;
        let outcome = read();
        last.failed = outcome.is_err();
        (is_changed || outcome.is_ok()).then_some(outcome)
    }

    /// Of those who ask within a second, one looks.
    fn is_due(&self, boot_ms: u64) -> bool {
        let due_ms = self.look_at_ms.load(Ordering::Relaxed);
        let next_ms = boot_ms.saturating_add(LOOK_EVERY_MS);
        boot_ms >= due_ms
            && self.look_at_ms.compare_exchange(due_ms, next_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl Seen {
    fn of(path: &PathBuf) -> Self {
        std::fs::metadata(path).map_or(Self::Missing, |found| Self::found(&found))
    }

    fn found(found: &Metadata) -> Self {
        let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Self::Found {
            device: found.dev(),
            inode: found.ino(),
            bytes: found.size(),
            modified_ns: ns(found.mtime(), found.mtime_nsec()),
            changed_ns: ns(found.ctime(), found.ctime_nsec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::fs;
    use tempfile::TempDir;

    /// Two files, and how often they were read.
    struct Desk {
        directory: TempDir,
        followed: Followed,
        reads: Cell<u32>,
    }

    impl Desk {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let paths = ["one", "two"].map(|name| directory.path().join(name));
            fs::write(&paths[0], "1").unwrap();
            Self { directory, followed: Followed::new(paths.to_vec()), reads: Cell::new(0) }
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.directory.path().join("draft"), text).unwrap();
            fs::rename(self.directory.path().join("draft"), self.directory.path().join(name)).unwrap();
        }

        /// What is worth a log line, and how often the files have been read by then.
        fn at(&self, boot_ms: u64, outcome: Result<(), ()>) -> (Option<Result<(), ()>>, u32) {
            let said = self.followed.follow(boot_ms, || {
                self.reads.set(self.reads.get() + 1);
                outcome
            });
            (said, self.reads.get())
        }
    }

    #[test]
    fn a_change_of_any_file_is_seen_at_most_once_a_second() {
        let desk = Desk::new();
        assert_eq!(desk.at(10_000, Ok(())), (None, 0), "nothing changed");
        desk.write("one", "one");
        assert_eq!(desk.at(10_999, Ok(())), (None, 0), "looked at less than a second ago");
        assert_eq!(desk.at(11_000, Ok(())), (Some(Ok(())), 1));
        assert_eq!(desk.at(20_000, Ok(())), (None, 1), "read already");
        desk.write("two", "a file that was missing");
        assert_eq!(desk.at(30_000, Ok(())), (Some(Ok(())), 2));
        fs::remove_file(desk.directory.path().join("one")).unwrap();
        assert_eq!(desk.at(40_000, Ok(())), (Some(Ok(())), 3));
    }

    #[test]
    fn a_failure_is_reported_once_per_change_and_tried_again_without_one() {
        let desk = Desk::new();
        desk.write("one", "broken");
        assert_eq!(desk.at(10_000, Err(())), (Some(Err(())), 1));
        assert_eq!(desk.at(11_000, Err(())), (None, 2), "the same failure");
        desk.write("one", "broken too");
        assert_eq!(desk.at(12_000, Err(())), (Some(Err(())), 3));
        assert_eq!(desk.at(13_000, Ok(())), (Some(Ok(())), 4), "the fault passed");
        assert_eq!(desk.at(14_000, Ok(())), (None, 4));
    }
}
