//! Segments made before they are needed, and other work away from the hot path.
//!
//! A spare is a file of zeros, written and synced, so that appending later changes neither its length nor its blocks.
//! Two are kept: the next segment, and one in reserve that lets releases go on when the disk is full. A copy is synced
//! rarely, and nobody waits for it: its spares are holes, which cost the disk nothing.

use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile, OpenMode, SharedDisk, fill_with_zeros};
use crate::ordered::{Chore, ChoreDone};

/// The next segment and one in reserve.
pub(crate) const SPARES_KEPT: usize = 2;

/// Zeros that are synced together.
const PIECE_BYTES: u64 = 1 << 20;
const SUFFIX: &str = ".spare";
const UNFINISHED_SUFFIX: &str = ".part";

/// A file of zeros that waits to become a segment.
#[derive(Debug)]
pub(crate) struct Spare {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

/// What a spare is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fill {
    /// Written, so that the disk has room for what comes there.
    Zeros,
    /// Only told how long it is; the disk finds room when something comes.
    Hole,
}

/// What a chore of the file log did.
#[derive(Debug)]
pub(crate) enum ChoreResult {
    SpareMade(Spare),
    SpareFailed(io::Error),
    Removed,
    /// Files are removed oldest first; these are left.
    RemovalFailed {
        left: Vec<PathBuf>,
        error: io::Error,
    },
}

/// Makes one spare. It has its final name only once all its zeros are durable.
pub(crate) fn make(
    disk: &dyn Disk,
    directory: &Path,
    number: u64,
    bytes: u64,
    fill: Fill,
) -> io::Result<Spare> {
    let unfinished = directory.join(format!("{number}{UNFINISHED_SUFFIX}"));
    let path = directory.join(format!("{number}{SUFFIX}"));
    let made = match fill {
        Fill::Zeros => write_zeros(disk, &unfinished, bytes),
        Fill::Hole => make_hole(disk, &unfinished, bytes),
    };
    let made = made.and_then(|()| disk.rename(&unfinished, &path));
    if let Err(error) = made {
        // On a full disk what was written so far must not stay; an error here is the one above again.
        let _ = disk.remove(&unfinished);
        return Err(error);
    }
    disk.sync_dir(directory)?;
    Ok(Spare { path, bytes })
}

/// Finds the spares an earlier process made, removes unfinished ones and those of another length.
/// Also answers the first number that no file uses.
pub(crate) fn adopt(disk: &dyn Disk, directory: &Path, bytes: u64) -> io::Result<(Vec<Spare>, u64)> {
    let mut numbers = Vec::new();
    for name in disk.list(directory)? {
        if name.ends_with(UNFINISHED_SUFFIX) {
            disk.remove(&directory.join(name))?;
        } else if let Some(number) = name.strip_suffix(SUFFIX).and_then(|digits| digits.parse::<u64>().ok()) {
            numbers.push((number, name));
        }
    }
    numbers.sort_unstable();
    let next_number = numbers.last().map_or(0, |(number, _)| number + 1);
    let mut spares = Vec::new();
    for (_, name) in numbers {
        let path = directory.join(name);
        let length = disk.open(&path, OpenMode::Read)?.length()?;
        if length == bytes && spares.len() < SPARES_KEPT {
            spares.push(Spare { path, bytes });
        } else {
            disk.remove(&path)?;
        }
    }
    Ok((spares, next_number))
}

/// The chore that makes a spare.
pub(crate) fn make_chore(disk: SharedDisk, directory: PathBuf, number: u64, bytes: u64, fill: Fill) -> Chore {
    Chore(Box::new(move || {
        ChoreDone(match make(&*disk, &directory, number, bytes, fill) {
            Ok(spare) => ChoreResult::SpareMade(spare),
            Err(error) => ChoreResult::SpareFailed(error),
        })
    }))
}

/// The chore that removes trimmed segments, or moves them to `archive`.
pub(crate) fn remove_chore(disk: SharedDisk, files: Vec<PathBuf>, archive: Option<PathBuf>) -> Chore {
    Chore(Box::new(move || {
        let mut files = files.into_iter();
        while let Some(file) = files.next() {
            if let Err(error) = remove_one(&*disk, &file, archive.as_deref()) {
                let left = std::iter::once(file).chain(files).collect();
                return ChoreDone(ChoreResult::RemovalFailed { left, error });
            }
        }
        ChoreDone(ChoreResult::Removed)
    }))
}

/// Each removal is durable before the next one: a crash must not leave an older segment without its successor.
fn remove_one(disk: &dyn Disk, file: &Path, archive: Option<&Path>) -> io::Result<()> {
    match disk.open(file, OpenMode::Read) {
        Ok(from) => {
            if let Some(archive) = archive {
                copy_into(disk, &*from, file, archive)?;
            }
            drop(from);
            disk.remove(file)?;
        }
        // An earlier try removed it and failed to sync that.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    disk.sync_dir(file.parent().unwrap_or(Path::new("")))
}

/// Copies instead of renaming: the archive is usually another file system.
fn copy_into(disk: &dyn Disk, from: &dyn DiskFile, file: &Path, archive: &Path) -> io::Result<()> {
    let Some(name) = file.file_name() else { return Ok(()) };
    disk.create_dir(archive)?;
    let path = archive.join(name);
    let unfinished = path.with_extension("part");
    match disk.remove(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let to = disk.open(&unfinished, OpenMode::Create)?;
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    loop {
        let read = from.read_at(&mut buffer, at)?;
        if read == 0 {
            break;
        }
        to.write_at(&buffer[..read], at)?;
        at += read as u64;
    }
    to.sync()?;
    disk.rename(&unfinished, &path)?;
    disk.sync_dir(archive)
}

fn make_hole(disk: &dyn Disk, path: &Path, bytes: u64) -> io::Result<()> {
    let file = disk.open(path, OpenMode::Create)?;
    if let Some(last) = bytes.checked_sub(1) {
        file.write_at(&[0], last)?;
    }
    file.sync()
}

/// Synced piece by piece: frames are synced to the same disk meanwhile, and must not wait behind a whole segment.
fn write_zeros(disk: &dyn Disk, path: &Path, bytes: u64) -> io::Result<()> {
    let file = disk.open(path, OpenMode::Create)?;
    let mut at = 0;
    while at < bytes {
        let piece = (bytes - at).min(PIECE_BYTES);
        fill_with_zeros(&*file, at, at + piece)?;
        file.sync()?;
        at += piece;
    }
    Ok(())
}
