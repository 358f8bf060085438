//! A disk in memory that knows which bytes and names are durable. It counts its operations, fails or stops
//! at one, loses, tears, misdirects and rots. After a power cut only what was synced is certain.

mod decay;
mod file;
mod image;

pub(crate) use image::Image;

use crate::random::Random;
use image::Change;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use tenure_log::SharedDisk;
use tenure_log::disk::LockHolder;

/// What happens at a chosen operation. Creations, writes, syncs, renames and removals are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// Everything stops: the operation is on its way, nothing it does is certain, nothing happens after it.
    Stop,
    /// Half of a write succeeds, then there is no room.
    NoSpace,
    /// The operation fails. A failed sync forgets what it should have made durable, as Linux does.
    Io,
}

/// What a power cut makes of bytes and names that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All gone.
    Lost,
    /// All there.
    Kept,
    /// All there, but of the last write only a part.
    Torn,
    /// Each sector and each name by a coin of its own.
    Subset,
}

/// Something that was changed behind the log's back, and how it was.
#[derive(Clone, Debug)]
struct Damage {
    inode: usize,
    offset: usize,
    was: Vec<u8>,
}

/// A simulated disk. Cloning gives another handle to the same one.
#[derive(Clone)]
pub struct SimDisk(Arc<Mutex<State>>);

struct State {
    image: Image,
    locks: BTreeMap<PathBuf, LockHolder>,
    operations: u64,
    fault: Option<(u64, DiskFault)>,
    stopped: bool,
    last_written: Option<usize>,
    capacity: u64,
    /// The next frame written lands this far from where it belongs.
    misdirect: Option<i64>,
    /// A frame landed elsewhere since everything was last replaced.
    misdirected: bool,
    damage: Vec<Damage>,
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::new(Image::default())
    }
}

impl SimDisk {
    /// A disk with these files on it.
    #[must_use]
    pub(crate) fn new(image: Image) -> Self {
        Self(Arc::new(Mutex::new(State {
            image,
            locks: BTreeMap::new(),
            operations: 0,
            fault: None,
            stopped: false,
            last_written: None,
            capacity: u64::MAX,
            misdirect: None,
            misdirected: false,
            damage: Vec::new(),
        })))
    }

    /// As the log takes it.
    #[must_use]
    pub fn shared(&self) -> SharedDisk {
        Arc::new(self.clone())
    }

    /// Arms a fault so many operations from now.
    pub fn fail_in(&self, operations: u64, fault: DiskFault) {
        let mut state = self.state();
        state.fault = Some((state.operations + operations, fault));
    }

    /// Takes an armed fault away.
    pub fn disarm(&self) {
        let mut state = self.state();
        state.fault = None;
        state.misdirect = None;
    }

    /// Whether it stopped at an operation.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        self.state().stopped
    }

    /// Room for so many more bytes; `None`: plenty.
    pub fn leave_room(&self, bytes: Option<u64>) {
        let mut state = self.state();
        state.capacity = bytes.map_or(u64::MAX, |bytes| state.image.used() + bytes);
    }

    /// The next frame lands elsewhere.
    pub fn misdirect_next(&self, by: i64) {
        self.state().misdirect = Some(by);
    }

    /// The process that used it is gone; the machine runs on and nothing written is lost.
    pub fn process_died(&self) {
        let mut state = self.state();
        state.locks.clear();
        state.stopped = false;
        state.fault = None;
        state.misdirect = None;
    }

    /// The machine lost its power.
    pub fn power_cut(&self, loss: Loss, random: &mut Random) {
        self.process_died();
        let mut state = self.state();
        let last_written = state.last_written;
        state.image.power_cut(loss, last_written, random);
    }

    /// Whether anything is rotten.
    #[must_use]
    pub fn is_rotten(&self) -> bool {
        !self.state().damage.is_empty()
    }

    /// Whether a frame landed where it does not belong.
    #[must_use]
    pub fn is_misdirected(&self) -> bool {
        self.state().misdirected
    }

    /// Puts everything rotten back as it should be.
    pub fn undo_damage(&self) {
        let mut state = self.state();
        while let Some(damage) = state.damage.pop() {
            state.image.inodes[damage.inode].set(damage.offset, &damage.was);
        }
    }

    /// A copy of everything, as a careful backup makes it.
    pub(crate) fn image(&self) -> Image {
        self.state().image.settled()
    }

    /// Replaces everything.
    pub(crate) fn replace(&self, image: Image) {
        let mut state = self.state();
        state.image = image;
        state.damage.clear();
        state.misdirected = false;
        state.last_written = None;
    }

    /// Last position of any frame whose bytes and whose segment's name are durable.
    #[must_use]
    pub fn durable_lsn(&self) -> u64 {
        self.state().image.durable_lsn()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl State {
    /// Counts an operation and says whether it fails.
    fn begin(&mut self) -> Result<(), DiskFault> {
        if self.stopped {
            return Err(DiskFault::Stop);
        }
        let number = self.operations;
        self.operations += 1;
        match self.fault {
            Some((at, fault)) if number >= at => {
                self.fault = None;
                self.stopped = fault == DiskFault::Stop;
                Err(fault)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Runs an operation on a directory's names. At a stop it is on its way like everything unsynced.
    fn change(&mut self, path: &Path, change: Change) -> io::Result<()> {
        let stopped_before = self.stopped;
        let begun = self.begin();
        if begun.is_ok() || (begun == Err(DiskFault::Stop) && !stopped_before) {
            let directory = self.image.directories.get_mut(path).ok_or(io::ErrorKind::NotFound)?;
            image::apply(&mut directory.now, &change);
            directory.unsynced.push(change);
        }
        begun.map_err(fault_error)
    }
}

fn fault_error(fault: DiskFault) -> io::Error {
    match fault {
        DiskFault::Stop => io::Error::other("the machine has stopped"),
        DiskFault::NoSpace => io::ErrorKind::StorageFull.into(),
        DiskFault::Io => io::Error::other("input/output error"),
    }
}

fn split(path: &Path) -> io::Result<(PathBuf, String)> {
    let name = path.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
    Ok((path.parent().unwrap_or(Path::new("")).to_owned(), name.to_owned()))
}
