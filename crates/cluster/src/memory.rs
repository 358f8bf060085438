//! What a node remembers, on its disk: `cluster.json` in its data directory.
//!
//! Invariant: a directory has one of these, and it alone writes the file. Writes are one after the other, each has what was
//! known when its turn came, and none takes back what is on disk.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use crate::boot::BootError;
use crate::trust::Remembered;
use crate::values::{decode, encode};

const FILE: &str = "cluster.json";

/// The memory in one directory.
#[derive(Debug)]
pub struct Memory {
    root: PathBuf,
    /// What is on disk, as far as it was read or written.
    written: Mutex<Option<Remembered>>,
}

impl Memory {
    /// Nothing is read yet.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), written: Mutex::default() }
    }

    /// The data directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What is on disk. `tenure cluster adopt` may have written there while no node did.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn recall(&self) -> Result<Option<Remembered>, BootError> {
        let mut written = self.written();
        *written = read(&self.root)?;
        Ok(written.clone())
    }

    /// Has on disk, durably, what is `known` when this write's turn has come, and what was there before.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn write_down(&self, known: impl FnOnce() -> Remembered) -> Result<(), BootError> {
        let mut written = self.written();
        if written.is_none() {
            *written = read(&self.root)?;
        }
        let known = known();
        let next = match &*written {
            Some(before) => before.risen(known),
            None => known,
        };
        if written.as_ref() != Some(&next) {
            write(&self.root, &next)?;
            *written = Some(next);
        }
        Ok(())
    }

    fn written(&self) -> MutexGuard<'_, Option<Remembered>> {
        self.written.lock().expect("invariant: nobody panics while writing it down")
    }
}

fn read(root: &Path) -> Result<Option<Remembered>, BootError> {
    let path = root.join(FILE);
    match std::fs::read(&path) {
        Ok(bytes) => Ok(Some(decode("what this machine remembers", &bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(BootError::Io { action: "read", path, source }),
    }
}

/// A file that its owner alone can read.
fn private_file(path: &Path) -> io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// An operator's command may run as another user than the node.
fn keep_owner(of: &Path, file: &std::fs::File) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let Ok(before) = std::fs::metadata(of) else { return Ok(()) };
    let now = file.metadata()?;
    if (before.uid(), before.gid()) == (now.uid(), now.gid()) {
        return Ok(());
    }
    fchown(file, Some(before.uid()), Some(before.gid()))
}

fn write(root: &Path, what: &Remembered) -> Result<(), BootError> {
    let path = root.join(FILE);
    let temporary = root.join(format!("{FILE}.part"));
    let written = || -> io::Result<()> {
        let mut file = private_file(&temporary)?;
        keep_owner(&path, &file)?;
        io::Write::write_all(&mut file, &encode(what))?;
        file.sync_all()?;
        std::fs::rename(&temporary, &path)?;
        std::fs::File::open(root)?.sync_all()
    };
    written().map_err(|source| BootError::Io { action: "write", path: path.clone(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::Progress;

    fn known(generation: u64, revision: u64) -> Remembered {
        let progress = Progress { epoch: 1, revision, ..Progress::default() };
        Remembered { log_id: 1, generation, progress, memory: "m".to_owned(), ..Remembered::default() }
    }

    // Two threads each took what was known and then wrote it: the one that took it first wrote it last.
    #[test]
    fn what_was_known_earlier_and_is_written_later_takes_nothing_back() {
        let root = tempfile::tempdir().unwrap();
        let memory = Memory::at(root.path());
        let earlier = known(1, 10);
        memory.write_down(|| known(1, 20)).unwrap();
        memory.write_down(|| earlier.clone()).unwrap();
        assert_eq!(Memory::at(root.path()).recall().unwrap(), Some(known(1, 20)));
        // Nor does a process that has read nothing yet.
        Memory::at(root.path()).write_down(|| earlier).unwrap();
        assert_eq!(memory.recall().unwrap(), Some(known(1, 20)));
    }

    #[test]
    fn a_later_generation_begins_anew_and_an_earlier_one_does_not_come_back() {
        let root = tempfile::tempdir().unwrap();
        let memory = Memory::at(root.path());
        memory.write_down(|| known(1, 20)).unwrap();
        memory.write_down(|| known(2, 5)).unwrap();
        memory.write_down(|| known(1, 30)).unwrap();
        assert_eq!(memory.recall().unwrap(), Some(known(2, 5)));
    }

    // A node that rebuilt its local log wrote the same temporary file as the thread that remembers.
    #[test]
    fn writes_are_one_after_the_other_and_each_has_what_is_known_when_its_turn_has_come() {
        let root = tempfile::tempdir().unwrap();
        let (memory, newest) = (Memory::at(root.path()), Mutex::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        memory
                            .write_down(|| {
                                let mut newest = newest.lock().unwrap();
                                *newest += 1;
                                known(1, *newest)
                            })
                            .unwrap();
                    }
                });
            }
        });
        assert_eq!(memory.recall().unwrap(), Some(known(1, 80)));
    }
}
