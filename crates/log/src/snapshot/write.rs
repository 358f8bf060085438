//! Storing a snapshot: written beside, synced, renamed, directory synced. Half a snapshot never has a snapshot's name.

use std::io::{self, Write};
use std::path::PathBuf;

use super::format::{SNAPSHOT_HEADER_BYTES, SnapshotHeader, encode_footer};
use super::{SnapshotStore, file_name};
use crate::checksum::Checksum;
use crate::disk::{DiskFile, OpenMode};
use crate::ids::Lsn;

const BUFFER_BYTES: usize = 1 << 20;

/// Why a snapshot was not stored. The ones before it are as they were.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A newer one, or this one, is there already.
    #[error("a snapshot at lsn {lsn} would not be newer than the one at {newest}")]
    NotNewer {
        /// What was offered.
        lsn: Lsn,
        /// What is there.
        newest: Lsn,
    },
    /// The disk refused.
    #[error("cannot {action} the snapshot")]
    Io {
        /// What was being done.
        action: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl StoreError {
    pub(super) fn io(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        failed(action)
    }
}

/// Takes the bytes of one snapshot as they come, without holding them. Dropped before `finish`, it leaves nothing.
pub struct SnapshotWriter {
    store: SnapshotStore,
    file: Box<dyn DiskFile>,
    temporary: PathBuf,
    header: SnapshotHeader,
    checksum: Checksum,
    buffer: Vec<u8>,
    finished: bool,
}

impl SnapshotWriter {
    pub(super) fn create(
        store: SnapshotStore,
        temporary: PathBuf,
        header: SnapshotHeader,
    ) -> Result<Self, StoreError> {
        let file = store.disk.open(&temporary, OpenMode::Create).map_err(failed("create"))?;
        let (checksum, buffer) = (Checksum::seeded(0), Vec::with_capacity(BUFFER_BYTES));
        Ok(Self { store, file, temporary, header, checksum, buffer, finished: false })
    }

    /// Adds bytes to the payload.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush_buffer()?;
        }
        if bytes.len() > BUFFER_BYTES {
            self.write_payload(bytes)
        } else {
            self.buffer.extend_from_slice(bytes);
            Ok(())
        }
    }

    /// Makes the snapshot durable under its name and lets go of generations that are not kept any more.
    pub fn finish(mut self) -> Result<SnapshotHeader, StoreError> {
        self.flush_buffer()?;
        let header = self.header.encode();
        let footer = encode_footer(std::mem::replace(&mut self.checksum, Checksum::seeded(0)), &header);
        let footer_at = SNAPSHOT_HEADER_BYTES as u64 + self.header.payload_bytes;
        self.file.write_at(&footer, footer_at).map_err(failed("write"))?;
        self.file.write_at(&header, 0).map_err(failed("write"))?;
        self.file.sync().map_err(failed("sync"))?;
        let path = self.store.directory.join(file_name(self.header.lsn));
        self.store.disk.rename(&self.temporary, &path).map_err(failed("rename"))?;
        self.finished = true;
        self.store.disk.sync_dir(&self.store.directory).map_err(failed("sync the directory of"))?;
        self.store.admit(self.header);
        Ok(self.header)
    }

    fn flush_buffer(&mut self) -> Result<(), StoreError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let written = self.write_payload(&buffer);
        buffer.clear();
        self.buffer = buffer;
        written
    }

    fn write_payload(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let at = SNAPSHOT_HEADER_BYTES as u64 + self.header.payload_bytes;
        self.file.write_at(bytes, at).map_err(failed("write"))?;
        self.checksum.update(bytes);
        self.header.payload_bytes += bytes.len() as u64;
        Ok(())
    }
}

impl Write for SnapshotWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.put(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flush_buffer().map_err(io::Error::other)
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        if !self.finished {
            // Best effort: the next start removes what is left.
            let _ = self.store.disk.remove(&self.temporary);
        }
    }
}

fn failed(action: &'static str) -> impl FnOnce(io::Error) -> StoreError {
    move |source| StoreError::Io { action, source }
}
