//! The container around a snapshot's bytes. `docs/internals/formats/snapshot.md` has the table.

use crate::bytes::{put, u32_at, u64_at};
use crate::checksum::{Checksum, crc32c};
use crate::ids::{Lsn, Moment};

/// Bytes before the payload.
pub const SNAPSHOT_HEADER_BYTES: usize = 64;
/// Bytes after the payload.
pub const SNAPSHOT_FOOTER_BYTES: usize = 16;

const VERSION: u32 = 1;
const HEADER_MAGIC: &[u8; 8] = b"TENURSNP";
const FOOTER_MAGIC: &[u8; 8] = b"TENURFIN";
const HEADER_CHECKSUM_AT: usize = SNAPSHOT_HEADER_BYTES - 4;
const FOOTER_CHECKSUM_AT: usize = SNAPSHOT_FOOTER_BYTES - 4;

/// Which state a snapshot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// The log it belongs to.
    pub log_id: u64,
    /// The last LSN whose record is in it.
    pub lsn: Lsn,
    /// The moment of that state.
    pub at: Moment,
    /// How long its payload is.
    pub payload_bytes: u64,
}

/// Why bytes are not a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotDamage {
    /// The header does not decode or its checksum does not match.
    #[error("the snapshot's header is damaged")]
    Header,
    /// Written by another version of the format.
    #[error(
        "snapshot format version {0} is not known to this program, which knows version {VERSION}: use the tenure that wrote it, or a newer one"
    )]
    Version(u32),
    /// The file is not as long as its header says.
    #[error("the snapshot's length is not what its header says")]
    Length,
    /// The checksum over everything does not match.
    #[error("the snapshot's checksum does not match")]
    Checksum,
}

impl SnapshotHeader {
    pub(crate) fn encode(&self) -> [u8; SNAPSHOT_HEADER_BYTES] {
        let mut block = [0; SNAPSHOT_HEADER_BYTES];
        put(&mut block, 0, HEADER_MAGIC);
        put(&mut block, 8, &VERSION.to_le_bytes());
        put(&mut block, 16, &self.log_id.to_le_bytes());
        put(&mut block, 24, &self.lsn.0.to_le_bytes());
        put(&mut block, 32, &self.at.tick.to_le_bytes());
        put(&mut block, 40, &self.at.wall_ms.to_le_bytes());
        put(&mut block, 48, &self.payload_bytes.to_le_bytes());
        let checksum = crc32c(0, &block[..HEADER_CHECKSUM_AT]);
        put(&mut block, HEADER_CHECKSUM_AT, &checksum.to_le_bytes());
        block
    }

    /// Reads a header from any bytes; `file_bytes` is the length of the file it begins.
    pub(crate) fn decode(block: &[u8], file_bytes: u64) -> Result<Self, SnapshotDamage> {
        let block = block.get(..SNAPSHOT_HEADER_BYTES).ok_or(SnapshotDamage::Header)?;
        let checksum = crc32c(0, &block[..HEADER_CHECKSUM_AT]);
        if !block.starts_with(HEADER_MAGIC) || checksum != u32_at(block, HEADER_CHECKSUM_AT) {
            return Err(SnapshotDamage::Header);
        }
        match u32_at(block, 8) {
            VERSION => {}
            other => return Err(SnapshotDamage::Version(other)),
        }
        let header = Self {
            log_id: u64_at(block, 16),
            lsn: Lsn(u64_at(block, 24)),
            at: Moment { tick: u64_at(block, 32), wall_ms: u64_at(block, 40) },
            payload_bytes: u64_at(block, 48),
        };
        let around = (SNAPSHOT_HEADER_BYTES + SNAPSHOT_FOOTER_BYTES) as u64;
        match header.payload_bytes.checked_add(around) {
            Some(expected) if expected == file_bytes => Ok(header),
            Some(_) | None => Err(SnapshotDamage::Length),
        }
    }
}

/// The footer for a payload whose checksum has been run so far.
pub(super) fn encode_footer(mut payload: Checksum, header: &[u8]) -> [u8; SNAPSHOT_FOOTER_BYTES] {
    let mut block = [0; SNAPSHOT_FOOTER_BYTES];
    put(&mut block, 0, FOOTER_MAGIC);
    // The payload comes first, because the header, which holds its length, is known only at the end.
    payload.update(header);
    payload.update(&block[..FOOTER_CHECKSUM_AT]);
    put(&mut block, FOOTER_CHECKSUM_AT, &payload.value().to_le_bytes());
    block
}

/// Reads a whole snapshot from any bytes: its header and its payload.
pub fn decode(bytes: &[u8]) -> Result<(SnapshotHeader, &[u8]), SnapshotDamage> {
    let header = SnapshotHeader::decode(bytes, bytes.len() as u64)?;
    let (block, rest) = bytes.split_at(SNAPSHOT_HEADER_BYTES);
    let (payload, footer) = rest.split_at(rest.len() - SNAPSHOT_FOOTER_BYTES);
    let mut checksum = Checksum::seeded(0);
    checksum.update(payload);
    if encode_footer(checksum, block) == footer {
        Ok((header, payload))
    } else {
        Err(SnapshotDamage::Checksum)
    }
}
