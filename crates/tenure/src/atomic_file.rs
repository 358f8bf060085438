//! Files that are replaced whole: whoever reads one sees the old text or the new one, also after a crash.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::process;

/// How a file is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Access {
    pub(crate) mode: u32,
    /// User and group; `None`: those of this process.
    pub(crate) ids: Option<(u32, u32)>,
}

/// Puts a text in the place of a file. A link is followed, so that it stays one.
pub(crate) fn replace(path: &Path, text: &str, access: Access) -> io::Result<()> {
    put(&fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()), text, access)
}

/// The same; a link is replaced, so that a user who can write to the directory does not choose what is overwritten.
pub(crate) fn put(path: &Path, text: &str, access: Access) -> io::Result<()> {
    let directory = directory_of(path);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let draft = directory.join(format!(".{name}.{}.draft", process::id()));
    let written = write(&draft, text, access).and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written?;
    File::open(directory)?.sync_all()
}

/// The directory that a file is in.
pub(crate) fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        Some(_) | None => PathBuf::from("."),
    }
}

fn write(draft: &Path, text: &str, access: Access) -> io::Result<()> {
    // A draft of an earlier process with this id is of no use to anybody.
    match fs::remove_file(draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    if let Some((uid, gid)) = access.ids {
        fchown(&file, Some(uid), Some(gid))?;
    }
    // Whatever the mask says.
    file.set_permissions(Permissions::from_mode(access.mode))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIVATE: Access = Access { mode: 0o600, ids: None };

    #[test]
    fn a_file_is_made_and_replaced_with_its_mode() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        replace(&path, "one", PRIVATE).unwrap();
        replace(&path, "two", Access { mode: 0o640, ids: None }).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o640);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn a_link_stays_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let (real, link) = (directory.path().join("real"), directory.path().join("link"));
        fs::write(&real, "one").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        replace(&link, "two", PRIVATE).unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "two");
        assert!(link.symlink_metadata().unwrap().is_symlink());
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let taken = directory.path().join("taken");
        fs::create_dir_all(taken.join("below")).unwrap();
        assert!(replace(&taken, "x", PRIVATE).is_err());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
