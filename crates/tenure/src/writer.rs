//! Whether a daemon is writing a log, found out without touching its lock.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Who is writing.
pub(crate) struct Writer {
    pub(crate) pid: u32,
    pub(crate) since_wall_ms: u64,
}

impl Writer {
    /// `None`: nobody, as far as this machine can tell.
    pub(crate) fn of(directory: &Path) -> Option<Self> {
        let lock = directory.join("lock");
        let inode = fs::metadata(&lock).ok()?.ino();
        // Trying the lock would take it for a moment, and a daemon that is just starting would be turned away.
        let locks = fs::read_to_string("/proc/locks").ok()?;
        if !locks.lines().any(|line| is_lock_on(line, inode)) {
            return None;
        }
        let text = fs::read_to_string(&lock).ok()?;
        let (pid, since) = text.trim_end().split_once(' ')?;
        Some(Self { pid: pid.parse().ok()?, since_wall_ms: since.parse().ok()? })
    }
}

/// A line is `1: FLOCK  ADVISORY  WRITE 1234 fd:01:5678 0 EOF`. Device numbers differ between here and `stat` on some
/// file systems, so the inode alone decides.
fn is_lock_on(line: &str, inode: u64) -> bool {
    let mut fields = line.split_whitespace();
    fields.nth(1) == Some("FLOCK")
        && fields.nth(3).and_then(|file| file.rsplit(':').next()) == Some(inode.to_string().as_str())
}

#[cfg(test)]
mod tests {
    use super::is_lock_on;

    #[test]
    fn only_a_held_lock_on_that_file_counts() {
        let line = "1: FLOCK  ADVISORY  WRITE 1234 fd:01:5678 0 EOF";
        assert!(is_lock_on(line, 5678));
        assert!(!is_lock_on(line, 678));
        assert!(!is_lock_on("1: POSIX  ADVISORY  WRITE 1234 fd:01:5678 0 EOF", 5678));
        // Somebody who waits for it does not hold it.
        assert!(!is_lock_on("1: -> FLOCK  ADVISORY  WRITE 1234 fd:01:5678 0 EOF", 5678));
        assert!(!is_lock_on("", 5678));
    }
}
