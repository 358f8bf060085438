//! What every [`Disk`](crate::Disk) must do, checked from outside. The real disk passes it, and so must every pretended
//! one that tests of the log stand on. What a crash loses is not part of it: that is where pretended disks go further.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::disk::{LockError, LockHolder, OpenMode, SharedDisk};

/// A disk and a directory on it that does not exist yet; its parent need not exist either.
pub struct Place {
    /// The disk.
    pub disk: SharedDisk,
    /// The directory.
    pub root: PathBuf,
}

/// Checks everything, each part in a place of its own. Panics with the name of what is broken.
pub fn check(place: &dyn Fn() -> Place) {
    let parts: [fn(&SharedDisk, &Path); 9] = [
        directories_are_made_with_their_parents,
        files_read_back_what_was_written,
        a_write_past_the_end_leaves_zeros_between,
        reading_past_the_end_is_short,
        handles_see_each_others_writes,
        creating_twice_and_opening_nothing_fail,
        renaming_replaces,
        removing_keeps_open_handles_readable,
        a_lock_is_exclusive_and_names_its_holder,
    ];
    for part in parts {
        let Place { disk, root } = place();
        disk.create_dir(&root).expect("create_dir makes a directory");
        part(&disk, &root);
    }
}

fn directories_are_made_with_their_parents(disk: &SharedDisk, root: &Path) {
    let deep = root.join("a/b/c");
    disk.create_dir(&deep).expect("create_dir makes parents");
    disk.create_dir(&deep).expect("create_dir accepts what exists");
    assert!(disk.list(&deep).expect("list reads an empty directory").is_empty());
    let missing = disk.list(&root.join("missing")).expect_err("list rejects a missing directory");
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    disk.open(&deep.join("file"), OpenMode::Create).expect("open creates");
    disk.sync_dir(&deep).expect("sync_dir works");
    assert_eq!(disk.list(&deep).expect("list works"), ["file"]);
    assert!(disk.list(root).expect("list works").is_empty(), "list names files, not directories");
    assert!(disk.free_bytes(root).expect("free_bytes works") > 0);
}

fn files_read_back_what_was_written(disk: &SharedDisk, root: &Path) {
    let file = disk.open(&root.join("file"), OpenMode::Create).expect("open creates");
    assert_eq!(file.length().expect("length works"), 0);
    file.write_at(b"hello world", 0).expect("write_at works");
    file.write_at(b"WORLD", 6).expect("write_at overwrites");
    file.sync().expect("sync works");
    drop(file);
    let file = disk.open(&root.join("file"), OpenMode::Read).expect("open reads");
    assert_eq!(file.length().expect("length works"), 11);
    let mut bytes = [0; 11];
    assert_eq!(file.read_at(&mut bytes, 0).expect("read_at works"), 11);
    assert_eq!(&bytes, b"hello WORLD");
}

fn a_write_past_the_end_leaves_zeros_between(disk: &SharedDisk, root: &Path) {
    let file = disk.open(&root.join("file"), OpenMode::Create).expect("open creates");
    file.write_at(b"x", 5000).expect("write_at grows the file");
    let mut bytes = vec![1; 5001];
    assert_eq!(file.read_at(&mut bytes, 0).expect("read_at works"), 5001);
    assert!(bytes[..5000].iter().all(|byte| *byte == 0), "bytes never written are zero");
    assert_eq!(bytes[5000], b'x');
}

fn reading_past_the_end_is_short(disk: &SharedDisk, root: &Path) {
    let file = disk.open(&root.join("file"), OpenMode::Create).expect("open creates");
    file.write_at(b"abc", 0).expect("write_at works");
    let mut bytes = [0; 8];
    assert_eq!(file.read_at(&mut bytes, 1).expect("read_at works"), 2);
    assert_eq!(file.read_at(&mut bytes, 3).expect("read_at works"), 0);
    assert_eq!(file.read_at(&mut bytes, 100).expect("read_at works"), 0);
}

fn handles_see_each_others_writes(disk: &SharedDisk, root: &Path) {
    let path = root.join("file");
    let writer = disk.open(&path, OpenMode::Create).expect("open creates");
    let reader = disk.open(&path, OpenMode::Read).expect("open reads");
    writer.write_at(b"now", 0).expect("write_at works");
    let mut bytes = [0; 3];
    assert_eq!(
        reader.read_at(&mut bytes, 0).expect("read_at works"),
        3,
        "unsynced bytes are visible at once"
    );
    assert_eq!(&bytes, b"now");
}

fn creating_twice_and_opening_nothing_fail(disk: &SharedDisk, root: &Path) {
    let path = root.join("file");
    for mode in [OpenMode::Read, OpenMode::Write] {
        assert_eq!(disk.open(&path, mode).err().map(|error| error.kind()), Some(ErrorKind::NotFound));
    }
    disk.open(&path, OpenMode::Create).expect("open creates");
    let twice = disk.open(&path, OpenMode::Create).err().map(|error| error.kind());
    assert_eq!(twice, Some(ErrorKind::AlreadyExists));
    assert_eq!(disk.remove(&root.join("other")).err().map(|error| error.kind()), Some(ErrorKind::NotFound));
}

fn renaming_replaces(disk: &SharedDisk, root: &Path) {
    let (from, to) = (root.join("from"), root.join("to"));
    disk.open(&from, OpenMode::Create).and_then(|file| file.write_at(b"new", 0)).expect("write works");
    disk.open(&to, OpenMode::Create).and_then(|file| file.write_at(b"older", 0)).expect("write works");
    disk.rename(&from, &to).expect("rename replaces");
    assert_eq!(disk.list(root).expect("list works"), ["to"]);
    let length = disk.open(&to, OpenMode::Read).and_then(|file| file.length()).expect("open reads");
    assert_eq!(length, 3);
}

fn removing_keeps_open_handles_readable(disk: &SharedDisk, root: &Path) {
    let path = root.join("file");
    let file = disk.open(&path, OpenMode::Create).expect("open creates");
    file.write_at(b"still here", 0).expect("write_at works");
    disk.remove(&path).expect("remove works");
    assert!(disk.list(root).expect("list works").is_empty());
    let mut bytes = [0; 10];
    assert_eq!(file.read_at(&mut bytes, 0).expect("read_at works"), 10);
}

fn a_lock_is_exclusive_and_names_its_holder(disk: &SharedDisk, root: &Path) {
    let path = root.join("lock");
    let first = LockHolder { pid: 4711, since_wall_ms: 1_700_000_000_000 };
    let second = LockHolder { pid: 4712, since_wall_ms: 1_700_000_000_001 };
    let held = disk.lock(&path, first).expect("lock works");
    match disk.lock(&path, second) {
        Err(LockError::Held(holder)) => assert_eq!(holder, Some(first)),
        Err(LockError::Io(error)) => panic!("a held lock is not an IO error: {error}"),
        Ok(_) => panic!("a lock was given twice"),
    }
    drop(held);
    disk.lock(&path, second).expect("a dropped lock can be taken");
}
