//! Loading a snapshot: one pass that checks every byte, then the payload as a stream. Never two copies in memory.

use std::io::{self, Read};
use std::path::Path;

use super::file_name;
use super::format::{
    SNAPSHOT_FOOTER_BYTES, SNAPSHOT_HEADER_BYTES, SnapshotDamage, SnapshotHeader, encode_footer,
};
use crate::checksum::Checksum;
use crate::disk::{DiskFile, OpenMode, SharedDisk};
use crate::ids::Lsn;

const BUFFER_BYTES: usize = 256 << 10;

/// Why a snapshot cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It is not what was written.
    #[error(transparent)]
    Damaged(#[from] SnapshotDamage),
    /// It belongs to another log.
    #[error("the snapshot belongs to another log")]
    OtherLog,
    /// It is not one of those that are kept.
    #[error("there is no snapshot at lsn {0}")]
    NotKept(Lsn),
    /// The disk refused.
    #[error("cannot read the snapshot")]
    Io(#[from] io::Error),
}

/// The payload of a snapshot whose bytes have all been checked.
pub struct SnapshotReader {
    file: Box<dyn DiskFile>,
    header: SnapshotHeader,
    at: u64,
}

impl SnapshotReader {
    /// Which state it is.
    pub fn header(&self) -> SnapshotHeader {
        self.header
    }
}

impl Read for SnapshotReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.header.payload_bytes - self.at;
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.file.read_at(&mut buffer[..wanted], SNAPSHOT_HEADER_BYTES as u64 + self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Opens a snapshot and checks every byte of it.
pub(super) fn open(
    disk: &SharedDisk,
    directory: &Path,
    lsn: Lsn,
    log_ids: &[u64],
) -> Result<SnapshotReader, LoadError> {
    let (file, block, header) = open_file(disk, directory, lsn, log_ids)?;
    let mut checksum = Checksum::seeded(0);
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut reader = SnapshotReader { file, header, at: 0 };
    loop {
        match reader.read(&mut buffer)? {
            0 => break,
            bytes => checksum.update(&buffer[..bytes]),
        }
    }
    let mut footer = [0; SNAPSHOT_FOOTER_BYTES];
    let footer_at = SNAPSHOT_HEADER_BYTES as u64 + header.payload_bytes;
    let read = reader.file.read_at(&mut footer, footer_at)?;
    if read < footer.len() || encode_footer(checksum, &block) != footer {
        return Err(SnapshotDamage::Checksum.into());
    }
    reader.at = 0;
    Ok(reader)
}

/// Checks only the header and the length of a snapshot.
pub(super) fn open_header(
    disk: &SharedDisk,
    directory: &Path,
    lsn: Lsn,
    log_ids: &[u64],
) -> Result<SnapshotHeader, LoadError> {
    open_file(disk, directory, lsn, log_ids).map(|(_, _, header)| header)
}

type OpenedFile = (Box<dyn DiskFile>, [u8; SNAPSHOT_HEADER_BYTES], SnapshotHeader);

fn open_file(
    disk: &SharedDisk,
    directory: &Path,
    lsn: Lsn,
    log_ids: &[u64],
) -> Result<OpenedFile, LoadError> {
    let file = disk.open(&directory.join(file_name(lsn)), OpenMode::Read)?;
    let mut block = [0; SNAPSHOT_HEADER_BYTES];
    let read = file.read_at(&mut block, 0)?;
    let header = SnapshotHeader::decode(&block[..read], file.length()?)?;
    if header.lsn != lsn {
        return Err(SnapshotDamage::Header.into());
    }
    if !log_ids.contains(&header.log_id) {
        return Err(LoadError::OtherLog);
    }
    Ok((file, block, header))
}
