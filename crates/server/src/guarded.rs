//! Files that say who may do what, or that hold a secret: which other users can write or read them.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whose a file may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// Root's or the daemon's own user's: the file says who may do what.
    Trusted,
    /// Any user's: the operator named it, and it may come from the program of another user, as certificates do.
    Any,
}

/// Why a file does not count, whatever it holds.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
enum Exposed {
    #[error("users other than its owner can write to it (mode {mode:04o}): run chmod go-w {path}")]
    Writable { path: String, mode: u32 },
    #[error(
        "it belongs to uid {uid}, which is neither root nor the daemon's user: run chown {daemon} {path}"
    )]
    Foreign { path: String, uid: u32, daemon: u32 },
}

const WRITABLE_BY_OTHERS: u32 = 0o022;
const READABLE_BY_ALL: u32 = 0o004;

/// Opens a file that no stranger can have written.
///
/// # Errors
/// When it cannot be opened, when users other than its owner can write to it, and when its owner does not count.
pub fn open_guarded(path: &Path, owner: Owner) -> io::Result<(File, Metadata)> {
    let file = File::open(path)?;
    let found = file.metadata()?;
    let daemon = rustix::process::geteuid().as_raw();
    let shown = || path.display().to_string();
    let exposed = if found.mode() & WRITABLE_BY_OTHERS != 0 {
        Some(Exposed::Writable { path: shown(), mode: found.mode() & 0o7777 })
    } else if owner == Owner::Trusted && found.uid() != 0 && found.uid() != daemon {
        Some(Exposed::Foreign { path: shown(), uid: found.uid(), daemon })
    } else {
        None
    };
    match exposed {
        Some(exposed) => Err(io::Error::new(io::ErrorKind::PermissionDenied, exposed)),
        None => Ok((file, found)),
    }
}

/// Warns of a file that is to be secret and that every user can read.
pub fn warn_if_readable(path: &Path, found: &Metadata) {
    if found.mode() & READABLE_BY_ALL != 0 {
        let mode = format!("{:04o}", found.mode() & 0o7777);
        tracing::warn!(path = %path.display(), mode, "every user can read a secret file; run chmod o= on it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    fn a_file_counts_if_only_its_owner_can_write_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "x").unwrap();
        for (mode, counts) in
            [(0o600, true), (0o640, true), (0o644, true), (0o660, false), (0o602, false), (0o620, false)]
        {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            for owner in [Owner::Trusted, Owner::Any] {
                assert_eq!(open_guarded(&path, owner).is_ok(), counts, "{mode:o} {owner:?}");
            }
        }
        let shown = open_guarded(&path, Owner::Any).unwrap_err().to_string();
        expect!["users other than its owner can write to it (mode 0620): run chmod go-w FILE"]
            .assert_eq(&shown.replace(&path.display().to_string(), "FILE"));
    }

    #[test]
    fn a_file_that_says_who_may_do_what_is_roots_or_the_daemons() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "x").unwrap();
        chown(&path, Some(4_711), None).unwrap();
        assert!(open_guarded(&path, Owner::Any).is_ok());
        let shown = open_guarded(&path, Owner::Trusted).unwrap_err().to_string();
        expect!["it belongs to uid 4711, which is neither root nor the daemon's user: run chown 0 FILE"]
            .assert_eq(&shown.replace(&path.display().to_string(), "FILE"));
        // A link counts as what it leads to.
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(open_guarded(&link, Owner::Trusted).is_err());
    }
}
