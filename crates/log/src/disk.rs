//! The seam to the disk: twelve operations, each with the durability it promises and nothing more.
//!
//! Unsynced writes, creations, renames and removals may be lost, kept or (writes) torn by a crash, in any order.
//! `DiskFile::sync` makes one file's bytes and length durable; `Disk::sync_dir` makes one directory's names durable.

mod real;

pub use real::RealDisk;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    Write,
    /// A file that must not exist yet, for reading and writing.
    Create,
}

/// Who holds a lock: what the next one to try is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// Process id.
    pub pid: u32,
    /// Unix milliseconds at which the lock was taken.
    pub since_wall_ms: u64,
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid {} since {} (unix ms)", self.pid, self.since_wall_ms)
    }
}

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody holds it. `None`: the holder has not written who it is yet.
    #[error("locked by {}", .0.map_or_else(|| "a process that is just starting".to_owned(), |holder| holder.to_string()))]
    Held(Option<LockHolder>),
    /// The lock file cannot be used.
    #[error("cannot use the lock file")]
    Io(#[source] io::Error),
}

/// A held lock; dropping it lets go. The system lets go when the process ends, however it ends.
pub trait DiskLock: Send {}

/// A file system as the log sees it.
pub trait Disk: Send + Sync {
    /// Creates a directory and its parents, durably. An existing directory is fine.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// The names of the files in a directory, in no particular order.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;
    /// Makes earlier creations, renames and removals in this directory durable.
    fn sync_dir(&self, directory: &Path) -> io::Result<()>;
    /// Opens or creates a file. A created file's name is durable only after `sync_dir`.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>>;
    /// Moves a file within one file system, replacing what was there, atomically.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file. Handles that are open go on reading it.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Bytes an ordinary process may still write to the file system of `directory`.
    fn free_bytes(&self, directory: &Path) -> io::Result<u64>;
    /// Takes the lock that `path` stands for, exclusive over all processes and within this one, and notes `holder` in it.
    fn lock(&self, path: &Path, holder: LockHolder) -> Result<Box<dyn DiskLock>, LockError>;
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Its length in bytes.
    fn length(&self) -> io::Result<u64>;
    /// Reads up to `buffer.len()` bytes; fewer only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `bytes`, growing the file if needed. On an error any part of them may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes all bytes written so far durable, and the length that reading them back needs.
    fn sync(&self) -> io::Result<()>;
}

/// A disk shared by the log, its readers and its chores.
pub type SharedDisk = Arc<dyn Disk>;

/// Writes zeros up to `length`, so that later writes change bytes and never the file's shape.
pub(crate) fn fill_with_zeros(file: &dyn DiskFile, from: u64, length: u64) -> io::Result<()> {
    const CHUNK: u64 = 1 << 20;
    let zeros = vec![0; CHUNK.min(length.saturating_sub(from)) as usize];
    let mut at = from;
    while at < length {
        let bytes = CHUNK.min(length - at);
        file.write_at(&zeros[..bytes as usize], at)?;
        at += bytes;
    }
    Ok(())
}
