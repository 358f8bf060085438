//! Snapshots: a state at one LSN as opaque bytes, stored so that a damaged one is noticed and the one before it used.
//!
//! Invariant: a file with a snapshot's name is complete; the newest two are kept. The store is shared by the log and by
//! the thread that builds snapshots.

mod format;
mod read;
mod write;

pub use format::{SNAPSHOT_FOOTER_BYTES, SNAPSHOT_HEADER_BYTES, SnapshotDamage, SnapshotHeader, decode};
pub use read::{LoadError, SnapshotReader};
pub use write::{SnapshotWriter, StoreError};

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::disk::SharedDisk;
use crate::ids::{Lsn, Moment};

/// How many generations are kept.
pub const SNAPSHOTS_KEPT: usize = 2;

const SUFFIX: &str = ".snap";
const TEMPORARY_SUFFIX: &str = ".part";

/// A snapshot file that recovery did not use.
#[derive(Debug)]
pub struct RejectedSnapshot {
    /// Its file name.
    pub file: String,
    /// Why it was not used.
    pub error: LoadError,
}

/// Makes durable what a snapshot builds on.
type Ready = Arc<dyn Fn() -> io::Result<()> + Send + Sync>;

/// The snapshots of one log. Cloning gives another handle to the same store.
#[derive(Clone)]
pub struct SnapshotStore {
    /// Runs before a snapshot is stored.
    ready: Option<Ready>,
    disk: SharedDisk,
    directory: PathBuf,
    log_id: u64,
    generations: Arc<Mutex<Generations>>,
}

#[derive(Default)]
struct Generations {
    /// Oldest first.
    kept: Vec<SnapshotHeader>,
    writers: u64,
}

impl SnapshotStore {
    /// Looks for the newest snapshot of one of `log_ids` (the present identity first) that is whole.
    pub(crate) fn find(
        disk: SharedDisk,
        directory: &Path,
        log_ids: &[u64],
    ) -> io::Result<(Self, Vec<RejectedSnapshot>)> {
        let mut kept = Vec::new();
        let mut rejected = Vec::new();
        for lsn in list(&disk, directory)?.into_iter().rev() {
            // Only the newest is read whole; the older ones matter when it is lost.
            let loaded = if kept.is_empty() {
                read::open(&disk, directory, lsn, log_ids).map(|reader| reader.header())
            } else {
                read::open_header(&disk, directory, lsn, log_ids)
            };
            match loaded {
                Ok(header) => kept.insert(0, header),
                Err(error) => rejected.push(RejectedSnapshot { file: file_name(lsn), error }),
            }
        }
        let log_id = log_ids.first().copied().unwrap_or_default();
        let generations = Arc::new(Mutex::new(Generations { kept, writers: 0 }));
        Ok((Self { ready: None, disk, directory: directory.to_owned(), log_id, generations }, rejected))
    }

    /// The same store for a log that does not sync each frame: `ready` makes durable what the log has, on the thread that
    /// stores a snapshot.
    #[must_use]
    pub fn once_ready(self, ready: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self { ready: Some(Arc::new(ready)), ..self }
    }

    /// Removes what an interrupted store left behind.
    pub(crate) fn remove_unfinished(&self) -> io::Result<()> {
        for name in self.disk.list(&self.directory)? {
            if name.ends_with(TEMPORARY_SUFFIX) {
                self.disk.remove(&self.directory.join(name))?;
            }
        }
        Ok(())
    }

    /// Begins a snapshot of the state right after `lsn`. It exists once [`SnapshotWriter::finish`] has answered.
    pub fn begin(&self, lsn: Lsn, at: Moment) -> Result<SnapshotWriter, StoreError> {
        let mut generations = self.lock();
        if let Some(newest) = generations.kept.last()
            && newest.lsn >= lsn
        {
            return Err(StoreError::NotNewer { lsn, newest: newest.lsn });
        }
        generations.writers += 1;
        let temporary =
            self.directory.join(format!("{:020}.{}{TEMPORARY_SUFFIX}", lsn.0, generations.writers));
        drop(generations);
        if let Some(ready) = &self.ready {
            ready().map_err(StoreError::io("sync the log before"))?;
        }
        SnapshotWriter::create(
            self.clone(),
            temporary,
            SnapshotHeader { log_id: self.log_id, lsn, at, payload_bytes: 0 },
        )
    }

    /// Stores a snapshot that is already one piece of memory.
    pub fn store(&self, lsn: Lsn, at: Moment, bytes: &[u8]) -> Result<SnapshotHeader, StoreError> {
        let mut writer = self.begin(lsn, at)?;
        writer.put(bytes)?;
        writer.finish()
    }

    /// The snapshots that are kept, oldest first.
    pub fn generations(&self) -> Vec<SnapshotHeader> {
        self.lock().kept.clone()
    }

    /// The newest snapshot.
    pub fn newest(&self) -> Option<SnapshotHeader> {
        self.lock().kept.last().copied()
    }

    /// Opens one of the kept snapshots. Its bytes are checked in full before the first one is given out.
    pub fn open(&self, lsn: Lsn) -> Result<SnapshotReader, LoadError> {
        let header = self
            .lock()
            .kept
            .iter()
            .copied()
            .find(|header| header.lsn == lsn)
            .ok_or(LoadError::NotKept(lsn))?;
        read::open(&self.disk, &self.directory, lsn, &[header.log_id])
    }

    /// The LSN up to which records are in the older of two snapshots; 0 while there are fewer than two.
    pub(crate) fn trim_floor(&self) -> Lsn {
        match self.lock().kept.as_slice() {
            [.., older, _newest] => older.lsn,
            [] | [_] => Lsn::ZERO,
        }
    }

    /// Takes a finished snapshot in and removes what is not kept any more.
    fn admit(&self, header: SnapshotHeader) {
        let mut generations = self.lock();
        generations.kept.push(header);
        generations.kept.sort_by_key(|kept| kept.lsn);
        let surplus = generations.kept.len().saturating_sub(SNAPSHOTS_KEPT);
        generations.kept.drain(..surplus);
        let kept: BTreeSet<Lsn> = generations.kept.iter().map(|kept| kept.lsn).collect();
        drop(generations);
        // A file that cannot be removed now costs room, not truth; the next snapshot tries again.
        let found = list(&self.disk, &self.directory).unwrap_or_default();
        for lsn in found.difference(&kept).filter(|lsn| **lsn < header.lsn) {
            let _ = self.disk.remove(&self.directory.join(file_name(*lsn)));
        }
        let _ = self.disk.sync_dir(&self.directory);
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.generations.lock().expect("invariant: nobody panics while holding the list of snapshots")
    }
}

/// Puts a snapshot from elsewhere where the log under `root` will look for it when it is opened. Nobody has it open.
///
/// # Errors
/// When it cannot be stored.
pub fn place(
    disk: &SharedDisk,
    root: &Path,
    log_id: u64,
    lsn: Lsn,
    at: Moment,
    bytes: &[u8],
) -> Result<SnapshotHeader, StoreError> {
    let directory = root.join("snapshots");
    disk.create_dir(root).map_err(StoreError::io("make a directory for"))?;
    disk.create_dir(&directory).map_err(StoreError::io("make a directory for"))?;
    let (store, _) = SnapshotStore::find(disk.clone(), &directory, &[log_id])
        .map_err(StoreError::io("list what is beside"))?;
    store.store(lsn, at, bytes)
}

/// The file name of the snapshot at `lsn`.
pub fn file_name(lsn: Lsn) -> String {
    format!("{:020}{SUFFIX}", lsn.0)
}

fn list(disk: &SharedDisk, directory: &Path) -> io::Result<BTreeSet<Lsn>> {
    let names = disk.list(directory)?;
    let parse = |name: &String| {
        let lsn = name.strip_suffix(SUFFIX)?.parse().ok().map(Lsn)?;
        (file_name(lsn) == *name).then_some(lsn)
    };
    Ok(names.iter().filter_map(parse).collect())
}
