//! The real disk: positioned reads and writes, fdatasync, flock.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, flock, statvfs};
use rustix::io::Errno;

use super::{Disk, DiskFile, DiskLock, LockError, LockHolder, OpenMode};

/// The file system of this machine. Paths are used as they are given.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

/// Names of holders and attachments are in these files: they are their owner's alone.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

struct RealFile(File);

struct RealLock {
    /// Closing the descriptor lets go of the lock; the file itself stays, since removing it would race with the next one.
    _file: File,
}

impl DiskLock for RealLock {}

impl Disk for RealDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        if path.as_os_str().is_empty() || path.is_dir() {
            return Ok(());
        }
        let parent = path.parent().unwrap_or(Path::new(""));
        self.create_dir(parent)?;
        match fs::DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        self.sync_dir(parent)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                // A name that is not UTF-8 is not one of ours.
                names.extend(entry.file_name().into_string());
            }
        }
        Ok(names)
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        File::open(directory)?.sync_all()
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true);
        match mode {
            OpenMode::Read => {}
            OpenMode::Write => {
                options.write(true);
            }
            OpenMode::Create => {
                options.write(true).create_new(true).mode(FILE_MODE);
            }
        }
        Ok(Box::new(RealFile(options.open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn free_bytes(&self, directory: &Path) -> io::Result<u64> {
        let space = statvfs(directory)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    fn lock(&self, path: &Path, holder: LockHolder) -> Result<Box<dyn DiskLock>, LockError> {
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE)
            .open(path)
            .map_err(LockError::Io)?;
        // flock belongs to the open file description, so a second open in this very process is refused as well.
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(LockError::Held(read_holder(&file))),
            Err(error) => return Err(LockError::Io(error.into())),
        }
        let text = format!("{} {}\n", holder.pid, holder.since_wall_ms);
        file.set_len(0).and_then(|()| file.write_all_at(text.as_bytes(), 0)).map_err(LockError::Io)?;
        Ok(Box::new(RealLock { _file: file }))
    }
}

impl DiskFile for RealFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.0.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

fn read_holder(file: &File) -> Option<LockHolder> {
    let mut bytes = [0; 64];
    let length = file.read_at(&mut bytes, 0).ok()?;
    let text = std::str::from_utf8(&bytes[..length]).ok()?;
    let (pid, since) = text.trim_end().split_once(' ')?;
    Some(LockHolder { pid: pid.parse().ok()?, since_wall_ms: since.parse().ok()? })
}
