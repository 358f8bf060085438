//! A real disk whose syncs do not come back for as long as a test wants.

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use tenure_log::disk::{Disk, DiskFile, DiskLock, LockError, LockHolder, OpenMode};
use tenure_log::{RealDisk, SharedDisk};

/// A disk that a test can make stick.
#[derive(Clone, Default)]
pub(crate) struct StuckDisk {
    state: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    is_stuck: bool,
    /// Syncs that wait.
    waiting: usize,
}

struct StuckFile {
    file: Box<dyn DiskFile>,
    disk: StuckDisk,
}

impl StuckDisk {
    pub(crate) fn shared(&self) -> SharedDisk {
        Arc::new(self.clone())
    }

    /// From now on no sync comes back.
    pub(crate) fn stick(&self) {
        self.state.0.lock().unwrap().is_stuck = true;
    }

    pub(crate) fn release(&self) {
        self.state.0.lock().unwrap().is_stuck = false;
        self.state.1.notify_all();
    }

    /// How many syncs wait.
    pub(crate) fn waiting(&self) -> usize {
        self.state.0.lock().unwrap().waiting
    }

    fn wait(&self) {
        let (state, word) = &*self.state;
        let mut state = state.lock().unwrap();
        state.waiting += 1;
        while state.is_stuck {
            state = word.wait(state).unwrap();
        }
        state.waiting -= 1;
    }
}

impl Disk for StuckDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        RealDisk.create_dir(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        RealDisk.list(directory)
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        self.wait();
        RealDisk.sync_dir(directory)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(StuckFile { file: RealDisk.open(path, mode)?, disk: self.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }

    fn free_bytes(&self, directory: &Path) -> io::Result<u64> {
        RealDisk.free_bytes(directory)
    }

    fn lock(&self, path: &Path, holder: LockHolder) -> Result<Box<dyn DiskLock>, LockError> {
        RealDisk.lock(path, holder)
    }
}

impl DiskFile for StuckFile {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.wait();
        self.file.sync()
    }
}
