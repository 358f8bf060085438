//! The disk as the log uses it.

use crate::disk::image::{self, Change, Inode, frame_lsn};
use crate::disk::{DiskFault, SimDisk, State, fault_error, split};
use std::io;
use std::path::{Path, PathBuf};
use tenure_log::disk::{Disk, DiskFile, DiskLock, LockError, LockHolder, OpenMode};

impl Disk for SimDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        for ancestor in path.ancestors().filter(|ancestor| !ancestor.as_os_str().is_empty()) {
            state.image.directories.entry(ancestor.to_owned()).or_default();
        }
        Ok(())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let state = self.state();
        let directory = state.image.directories.get(directory).ok_or(io::ErrorKind::NotFound)?;
        Ok(directory.now.keys().cloned().collect())
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.begin().map_err(fault_error)?;
        let directory = state.image.directories.get_mut(directory).ok_or(io::ErrorKind::NotFound)?;
        directory.durable = directory.now.clone();
        directory.unsynced.clear();
        Ok(())
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        let found = state.image.find(path);
        let inode = match mode {
            OpenMode::Read | OpenMode::Write => found.ok_or(io::ErrorKind::NotFound)?,
            OpenMode::Create if found.is_some() => return Err(io::ErrorKind::AlreadyExists.into()),
            OpenMode::Create => {
                let (directory, name) = split(path)?;
                let inode = state.image.inodes.len();
                state.image.inodes.push(Inode::default());
                state.change(&directory, Change::Link(name, inode))?;
                inode
            }
        };
        Ok(Box::new(SimFile { disk: self.clone(), inode }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        let inode = state.image.find(from).ok_or(io::ErrorKind::NotFound)?;
        let ((directory, from), (target, to)) = (split(from)?, split(to)?);
        assert_eq!(directory, target, "the log renames within one directory");
        state.change(&directory, Change::Rename(from, to, inode))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.image.find(path).ok_or(io::ErrorKind::NotFound)?;
        let (directory, name) = split(path)?;
        state.change(&directory, Change::Unlink(name))
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        let state = self.state();
        Ok(state.capacity.saturating_sub(state.image.used()))
    }

    fn lock(&self, path: &Path, holder: LockHolder) -> Result<Box<dyn DiskLock>, LockError> {
        let mut state = self.state();
        if let Some(held) = state.locks.get(path) {
            return Err(LockError::Held(Some(*held)));
        }
        state.locks.insert(path.to_owned(), holder);
        Ok(Box::new(SimLock { disk: self.clone(), path: path.to_owned(), holder }))
    }
}

struct SimLock {
    disk: SimDisk,
    path: PathBuf,
    holder: LockHolder,
}

impl DiskLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.locks.get(&self.path) == Some(&self.holder) {
            state.locks.remove(&self.path);
        }
    }
}

struct SimFile {
    disk: SimDisk,
    inode: usize,
}

impl SimFile {
    /// How many of the bytes of a write there is room for.
    fn room(&self, state: &State, offset: u64, length: usize) -> usize {
        if state.capacity == u64::MAX {
            return length;
        }
        let now = state.image.inodes[self.inode].now.len() as u64;
        let grows = (offset + length as u64).saturating_sub(now);
        let free = state.capacity.saturating_sub(state.image.used());
        length - (grows.saturating_sub(free) as usize).min(length)
    }
}

impl DiskFile for SimFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.disk.state().image.inodes[self.inode].now.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.disk.state();
        let bytes = &state.image.inodes[self.inode].now;
        let from = (offset as usize).min(bytes.len());
        let length = buffer.len().min(bytes.len() - from);
        buffer[..length].copy_from_slice(&bytes[from..from + length]);
        Ok(length)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let stopped_before = state.stopped;
        let mut begun = state.begin();
        let room = self.room(&state, offset, bytes.len());
        if begun.is_ok() && room < bytes.len() {
            begun = Err(DiskFault::NoSpace);
        }
        let arriving = match begun {
            Ok(()) => bytes,
            Err(DiskFault::Stop) if !stopped_before => bytes,
            Err(DiskFault::NoSpace) => &bytes[..room.min(bytes.len() / 2)],
            Err(DiskFault::Stop | DiskFault::Io) => &[],
        };
        let offset = state.misdirected(self.inode, offset as usize, arriving);
        state.last_written = Some(self.inode);
        // What is written over is not rotten any more.
        let written = offset..offset + arriving.len();
        state.damage.retain(|damage| damage.inode != self.inode || !written.contains(&damage.offset));
        let inode = &mut state.image.inodes[self.inode];
        image::write(&mut inode.now, offset, arriving);
        inode.unsynced.push((offset, arriving.to_vec()));
        begun.map_err(fault_error)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let begun = state.begin();
        let inode = &mut state.image.inodes[self.inode];
        match begun {
            Ok(()) => {
                // Not `now`: what a failed sync forgot stays forgotten.
                for (offset, written) in core::mem::take(&mut inode.unsynced) {
                    image::write(&mut inode.durable, offset, &written);
                    inode.durable_lsn = inode.durable_lsn.max(frame_lsn(&written));
                }
                Ok(())
            }
            Err(DiskFault::Io | DiskFault::NoSpace) => {
                inode.unsynced.clear();
                Err(fault_error(DiskFault::Io))
            }
            Err(DiskFault::Stop) => Err(fault_error(DiskFault::Stop)),
        }
    }
}

impl State {
    /// Where a write lands.
    fn misdirected(&mut self, inode: usize, offset: usize, bytes: &[u8]) -> usize {
        if frame_lsn(bytes) == 0 {
            return offset;
        }
        let Some(by) = self.misdirect.take() else { return offset };
        let elsewhere = offset.saturating_add_signed(by as isize);
        if elsewhere + bytes.len() > self.image.inodes[inode].now.len() || elsewhere == offset {
            return offset;
        }
        self.misdirected = true;
        elsewhere
    }
}
