//! A disk in memory that knows which bytes and names are durable, counts its operations, and fails or crashes at one.
//!
//! After a crash only what was synced is certain. What happens to the rest is chosen by `Loss`.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use tenure_log::SharedDisk;
use tenure_log::disk::{Disk, DiskFile, DiskLock, LockError, LockHolder, OpenMode};

const SECTOR: usize = 512;

/// What happens at the chosen operation. Operations are counted from 0: creations, writes, syncs, renames, removals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The machine stops: the operation is on its way but nothing it does is certain, and nothing happens after it.
    Crash,
    /// Half of a write succeeds, then there is no room.
    NoSpace,
    /// The operation fails. A failed sync forgets what it should have made durable, as Linux does.
    Io,
}

/// What a crash makes of the bytes and names that were not synced.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loss {
    Lost,
    Kept,
    /// Everything kept, but of the last write only this many thousandths.
    TornAt(u16),
    /// Each sector and each name by a coin of its own.
    Subset(u64),
}

/// What was done, for tests that aim at one kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Write,
    Sync,
    Rename,
    Remove,
    SyncDir,
}

#[derive(Clone)]
pub(crate) struct CrashDisk(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    inodes: Vec<Inode>,
    directories: BTreeMap<PathBuf, Directory>,
    locks: BTreeMap<PathBuf, LockHolder>,
    operations: Vec<Operation>,
    fault: Option<(usize, Fault)>,
    crashed: bool,
    last_written: Option<usize>,
    free_bytes: u64,
}

#[derive(Clone, Default)]
struct Inode {
    now: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
}

#[derive(Clone, Default)]
struct Directory {
    now: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    unsynced: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Link(String, usize),
    Unlink(String),
    Rename(String, String, usize),
}

impl CrashDisk {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(State { free_bytes: 1 << 40, ..State::default() })))
    }

    pub(crate) fn shared(&self) -> SharedDisk {
        Arc::new(self.clone())
    }

    pub(crate) fn fail_at(&self, operation: usize, fault: Fault) {
        self.lock_state().fault = Some((operation, fault));
    }

    pub(crate) fn operations(&self) -> Vec<Operation> {
        self.lock_state().operations.clone()
    }

    pub(crate) fn set_free_bytes(&self, bytes: u64) {
        self.lock_state().free_bytes = bytes;
    }

    /// The disk as the next start finds it.
    pub(crate) fn after_crash(&self, loss: Loss) -> Self {
        let state = self.lock_state();
        let mut coin = Coin(match loss {
            Loss::Subset(seed) => seed,
            Loss::Lost | Loss::Kept | Loss::TornAt(_) => 0,
        });
        let inodes = state
            .inodes
            .iter()
            .enumerate()
            .map(|(index, inode)| inode.after_crash(loss, Some(index) == state.last_written, &mut coin))
            .collect();
        let directories = state
            .directories
            .iter()
            .map(|(path, directory)| (path.clone(), directory.after_crash(loss, &mut coin)))
            .collect();
        let free_bytes = state.free_bytes;
        Self(Arc::new(Mutex::new(State { inodes, directories, free_bytes, ..State::default() })))
    }

    /// A copy with everything durable, to be damaged by a test.
    pub(crate) fn copy(&self) -> Self {
        self.after_crash(Loss::Kept)
    }

    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let state = self.lock_state();
        let names = |(path, directory): (&PathBuf, &Directory)| {
            directory.now.keys().map(|name| path.join(name)).collect::<Vec<_>>()
        };
        state.directories.iter().flat_map(names).collect()
    }

    pub(crate) fn bytes(&self, path: &Path) -> Vec<u8> {
        let state = self.lock_state();
        let inode = state.find(path).unwrap();
        state.inodes[inode].now.clone()
    }

    /// Changes a file behind the log's back, durably.
    pub(crate) fn damage(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.lock_state();
        let inode = state.find(path).unwrap();
        let inode = &mut state.inodes[inode];
        change(&mut inode.now);
        inode.durable = inode.now.clone();
    }

    pub(crate) fn delete(&self, path: &Path) {
        let mut state = self.lock_state();
        let (directory, name) = split(path);
        let directory = state.directories.get_mut(&directory).unwrap();
        directory.now.remove(&name).unwrap();
        directory.durable.remove(&name);
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl State {
    /// Counts an operation and says whether it fails.
    fn begin(&mut self, operation: Operation) -> Result<(), Fault> {
        if self.crashed {
            return Err(Fault::Crash);
        }
        let number = self.operations.len();
        self.operations.push(operation);
        match self.fault {
            Some((at, fault)) if at == number => {
                self.crashed = fault == Fault::Crash;
                Err(fault)
            }
            Some(_) | None => Ok(()),
        }
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        let (directory, name) = split(path);
        let found = self.directories.get(&directory).and_then(|directory| directory.now.get(&name));
        found.copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Runs an operation on a directory's names. At a crash it is on its way like everything unsynced.
    fn change(&mut self, operation: Operation, path: &Path, change: Change) -> io::Result<()> {
        let already_crashed = self.crashed;
        let begun = self.begin(operation);
        if begun.is_ok() || begun == Err(Fault::Crash) && !already_crashed {
            let directory = self.directories.get_mut(path).ok_or(io::ErrorKind::NotFound)?;
            apply(&mut directory.now, &change);
            directory.unsynced.push(change);
        }
        begun.map_err(fault_error)
    }
}

impl Inode {
    fn after_crash(&self, loss: Loss, last_written: bool, coin: &mut Coin) -> Self {
        let mut bytes = self.durable.clone();
        for (index, (offset, written)) in self.unsynced.iter().enumerate() {
            let last = last_written && index + 1 == self.unsynced.len();
            match loss {
                Loss::Lost => {}
                Loss::Kept => write(&mut bytes, *offset, written),
                Loss::TornAt(thousandths) if last => {
                    write(&mut bytes, *offset, &written[..written.len() * usize::from(thousandths) / 1000]);
                }
                Loss::TornAt(_) => write(&mut bytes, *offset, written),
                Loss::Subset(_) => {
                    let mut at = 0;
                    while at < written.len() {
                        let until = (SECTOR - (offset + at) % SECTOR + at).min(written.len());
                        if coin.flip() {
                            write(&mut bytes, offset + at, &written[at..until]);
                        }
                        at = until;
                    }
                }
            }
        }
        Self { now: bytes.clone(), durable: bytes, unsynced: Vec::new() }
    }
}

impl Directory {
    fn after_crash(&self, loss: Loss, coin: &mut Coin) -> Self {
        let names = match loss {
            Loss::Lost => self.durable.clone(),
            Loss::Kept | Loss::TornAt(_) => self.now.clone(),
            Loss::Subset(_) => {
                let mut names = self.durable.clone();
                self.unsynced.iter().filter(|_| coin.flip()).for_each(|change| apply(&mut names, change));
                names
            }
        };
        Self { now: names.clone(), durable: names, unsynced: Vec::new() }
    }
}

struct Coin(u64);

impl Coin {
    fn flip(&mut self) -> bool {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 63 == 1
    }
}

fn apply(names: &mut BTreeMap<String, usize>, change: &Change) {
    match change {
        Change::Link(name, inode) => {
            names.insert(name.clone(), *inode);
        }
        Change::Unlink(name) => {
            names.remove(name);
        }
        Change::Rename(from, to, inode) => {
            names.remove(from);
            names.insert(to.clone(), *inode);
        }
    }
}

fn write(bytes: &mut Vec<u8>, offset: usize, written: &[u8]) {
    let end = offset + written.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(written);
}

fn split(path: &Path) -> (PathBuf, String) {
    (path.parent().unwrap().to_owned(), path.file_name().unwrap().to_str().unwrap().to_owned())
}

fn fault_error(fault: Fault) -> io::Error {
    match fault {
        Fault::Crash => io::Error::other("the machine has crashed"),
        Fault::NoSpace => io::ErrorKind::StorageFull.into(),
        Fault::Io => io::Error::other("input/output error"),
    }
}

impl Disk for CrashDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock_state();
        for ancestor in path.ancestors().filter(|ancestor| !ancestor.as_os_str().is_empty()) {
            state.directories.entry(ancestor.to_owned()).or_default();
        }
        Ok(())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let state = self.lock_state();
        let directory = state.directories.get(directory).ok_or(io::ErrorKind::NotFound)?;
        Ok(directory.now.keys().cloned().collect())
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        let mut state = self.lock_state();
        state.begin(Operation::SyncDir).map_err(fault_error)?;
        let directory = state.directories.get_mut(directory).ok_or(io::ErrorKind::NotFound)?;
        directory.durable = directory.now.clone();
        directory.unsynced.clear();
        Ok(())
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.lock_state();
        let found = state.find(path);
        let inode = match mode {
            OpenMode::Read | OpenMode::Write => found?,
            OpenMode::Create if found.is_ok() => return Err(io::ErrorKind::AlreadyExists.into()),
            OpenMode::Create => {
                let (directory, name) = split(path);
                let inode = state.inodes.len();
                state.inodes.push(Inode::default());
                state.change(Operation::Create, &directory, Change::Link(name, inode))?;
                inode
            }
        };
        Ok(Box::new(CrashFile { disk: self.clone(), inode }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.lock_state();
        let inode = state.find(from)?;
        let ((directory, from), (target, to)) = (split(from), split(to));
        assert_eq!(directory, target, "the log renames within one directory");
        state.change(Operation::Rename, &directory, Change::Rename(from, to, inode))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock_state();
        state.find(path)?;
        let (directory, name) = split(path);
        state.change(Operation::Remove, &directory, Change::Unlink(name))
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        Ok(self.lock_state().free_bytes)
    }

    fn lock(&self, path: &Path, holder: LockHolder) -> Result<Box<dyn DiskLock>, LockError> {
        let mut state = self.lock_state();
        if let Some(held) = state.locks.get(path) {
            return Err(LockError::Held(Some(*held)));
        }
        state.locks.insert(path.to_owned(), holder);
        Ok(Box::new(CrashLock { disk: self.clone(), path: path.to_owned() }))
    }
}

struct CrashLock {
    disk: CrashDisk,
    path: PathBuf,
}

impl DiskLock for CrashLock {}

impl Drop for CrashLock {
    fn drop(&mut self) {
        self.disk.lock_state().locks.remove(&self.path);
    }
}

struct CrashFile {
    disk: CrashDisk,
    inode: usize,
}

impl DiskFile for CrashFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.disk.lock_state().inodes[self.inode].now.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.disk.lock_state();
        let bytes = &state.inodes[self.inode].now;
        let from = usize::try_from(offset).unwrap().min(bytes.len());
        let length = buffer.len().min(bytes.len() - from);
        buffer[..length].copy_from_slice(&bytes[from..from + length]);
        Ok(length)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.lock_state();
        let already_crashed = state.crashed;
        let begun = state.begin(Operation::Write);
        let arriving = match begun {
            Ok(()) => bytes,
            Err(Fault::Crash) if !already_crashed => bytes,
            Err(Fault::NoSpace) => &bytes[..bytes.len() / 2],
            Err(Fault::Crash | Fault::Io) => &[],
        };
        state.last_written = Some(self.inode);
        let inode = &mut state.inodes[self.inode];
        write(&mut inode.now, offset as usize, arriving);
        inode.unsynced.push((offset as usize, arriving.to_vec()));
        begun.map_err(fault_error)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.lock_state();
        let begun = state.begin(Operation::Sync);
        let inode = &mut state.inodes[self.inode];
        match begun {
            Ok(()) => {
                // Not `now`: what a failed sync forgot stays forgotten.
                for (offset, written) in std::mem::take(&mut inode.unsynced) {
                    write(&mut inode.durable, offset, &written);
                }
                Ok(())
            }
            Err(Fault::Io | Fault::NoSpace) => {
                inode.unsynced.clear();
                Err(fault_error(Fault::Io))
            }
            Err(Fault::Crash) => Err(fault_error(Fault::Crash)),
        }
    }
}
