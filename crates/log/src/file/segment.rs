//! The two blocks at the start of a segment: its header and its seal. `docs/internals/formats/log-segment.md` has the table.
//!
//! The header is written before the file gets its name and never again. The seal is written once, when the next
//! segment exists and before that one gets its first frame: a sealed segment without a successor proves a loss.

use crate::bytes::{all_zero, put, u32_at, u64_at};
use crate::checksum::crc32c;
use crate::damage::DamageCause;
use crate::end::LogEnd;
use crate::identity::Identity;
use crate::ids::{BatchId, Lsn, Moment};

/// Header and seal; frames begin here.
pub const SEGMENT_HEADER_BYTES: u64 = 2 * BLOCK as u64;
/// The segment format this code writes and reads.
pub const SEGMENT_VERSION: u32 = 1;

pub(crate) const SEAL_AT: u64 = BLOCK as u64;
pub(crate) const BLOCK: usize = 512;

const SUFFIX: &str = ".seg";
const HEADER_MAGIC: &[u8; 8] = b"TENURSEG";
const SEAL_MAGIC: &[u8; 8] = b"TENUREND";
const CHECKSUM_AT: usize = BLOCK - 4;

/// What a segment knows of itself and of the log before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Who the log is from this segment on.
    pub identity: Identity,
    /// The LSN at which this identity began.
    pub identity_since: Lsn,
    /// The log this one was restored from; 0 if it never was.
    pub parent_log_id: u64,
    /// The LSN in the file's name: the first this segment may hold.
    pub first_lsn: Lsn,
    /// The last LSN before this segment.
    pub previous_lsn: Lsn,
    /// The checksum of the last frame before this segment.
    pub previous_checksum: u32,
    /// The writer epoch of the last frame before this segment.
    pub writer_epoch: u64,
    /// The moment of the last frame before this segment.
    pub at: Moment,
    /// How long the file was made; it may grow, never shrink.
    pub file_bytes: u64,
    /// In a copy of a log that numbers its frames: the number of the first frame here. 0 elsewhere.
    pub first_frame: u64,
}

impl SegmentHeader {
    /// What the first frame of this segment has to continue.
    pub(crate) fn end(&self) -> LogEnd {
        LogEnd {
            last_lsn: self.previous_lsn,
            checksum: self.previous_checksum,
            writer_epoch: self.writer_epoch,
            at: self.at,
            last_batch: BatchId::opening(self.writer_epoch),
            closed: false,
        }
    }

    pub(crate) fn encode(&self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        put(&mut block, 0, HEADER_MAGIC);
        put(&mut block, 8, &SEGMENT_VERSION.to_le_bytes());
        put(&mut block, 12, &self.identity.tag.to_le_bytes());
        put(&mut block, 16, &self.identity.log_id.to_le_bytes());
        put(&mut block, 24, &self.identity.fence_base.to_le_bytes());
        put(&mut block, 32, &self.identity.shard.to_le_bytes());
        put(&mut block, 40, &self.identity.salt.to_le_bytes());
        put(&mut block, 44, &self.previous_checksum.to_le_bytes());
        put(&mut block, 48, &self.identity_since.0.to_le_bytes());
        put(&mut block, 56, &self.parent_log_id.to_le_bytes());
        put(&mut block, 64, &self.first_lsn.0.to_le_bytes());
        put(&mut block, 72, &self.previous_lsn.0.to_le_bytes());
        put(&mut block, 80, &self.writer_epoch.to_le_bytes());
        put(&mut block, 88, &self.at.tick.to_le_bytes());
        put(&mut block, 96, &self.at.wall_ms.to_le_bytes());
        put(&mut block, 104, &self.file_bytes.to_le_bytes());
        put(&mut block, 112, &self.first_frame.to_le_bytes());
        let checksum = crc32c(0, &block[..CHECKSUM_AT]);
        put(&mut block, CHECKSUM_AT, &checksum.to_le_bytes());
        block
    }

    /// Reads a header from any bytes.
    pub fn decode(block: &[u8]) -> Result<Self, DamageCause> {
        let block = block.get(..BLOCK).ok_or(DamageCause::SegmentHeader)?;
        if !block.starts_with(HEADER_MAGIC) || crc32c(0, &block[..CHECKSUM_AT]) != u32_at(block, CHECKSUM_AT)
        {
            return Err(DamageCause::SegmentHeader);
        }
        match u32_at(block, 8) {
            SEGMENT_VERSION => {}
            other => return Err(DamageCause::SegmentVersion(other)),
        }
        Ok(Self {
            identity: Identity {
                log_id: u64_at(block, 16),
                tag: u32_at(block, 12),
                fence_base: u64_at(block, 24),
                shard: u64_at(block, 32),
                salt: u32_at(block, 40),
            },
            identity_since: Lsn(u64_at(block, 48)),
            parent_log_id: u64_at(block, 56),
            first_lsn: Lsn(u64_at(block, 64)),
            previous_lsn: Lsn(u64_at(block, 72)),
            previous_checksum: u32_at(block, 44),
            writer_epoch: u64_at(block, 80),
            at: Moment { tick: u64_at(block, 88), wall_ms: u64_at(block, 96) },
            file_bytes: u64_at(block, 104),
            first_frame: u64_at(block, 112),
        })
    }
}

/// How a segment ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// The last LSN in the log at that point.
    pub last_lsn: Lsn,
    /// The name of the segment that follows.
    pub next_segment: Lsn,
    /// The offset after the last frame.
    pub end: u64,
    /// The checksum of the last frame.
    pub checksum: u32,
}

/// The seal block as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SealFound {
    Open,
    Sealed(Seal),
    Invalid,
}

impl Seal {
    pub(crate) fn encode(&self, salt: u32) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        put(&mut block, 0, SEAL_MAGIC);
        put(&mut block, 8, &self.last_lsn.0.to_le_bytes());
        put(&mut block, 16, &self.next_segment.0.to_le_bytes());
        put(&mut block, 24, &self.end.to_le_bytes());
        put(&mut block, 32, &self.checksum.to_le_bytes());
        let checksum = crc32c(salt, &block[..CHECKSUM_AT]);
        put(&mut block, CHECKSUM_AT, &checksum.to_le_bytes());
        block
    }
}

impl SealFound {
    pub(crate) fn decode(block: &[u8], salt: u32) -> Self {
        let Some(block) = block.get(..BLOCK) else { return Self::Invalid };
        if all_zero(block) {
            return Self::Open;
        }
        if !block.starts_with(SEAL_MAGIC) || crc32c(salt, &block[..CHECKSUM_AT]) != u32_at(block, CHECKSUM_AT)
        {
            return Self::Invalid;
        }
        Self::Sealed(Seal {
            last_lsn: Lsn(u64_at(block, 8)),
            next_segment: Lsn(u64_at(block, 16)),
            end: u64_at(block, 24),
            checksum: u32_at(block, 32),
        })
    }
}

/// The file name of the segment that begins at `first_lsn`.
pub fn segment_name(first_lsn: Lsn) -> String {
    format!("{:020}{SUFFIX}", first_lsn.0)
}

/// The LSN in a segment's file name, if it is one.
pub fn parse_segment_name(name: &str) -> Option<Lsn> {
    let digits = name.strip_suffix(SUFFIX)?;
    let lsn = digits.parse().ok().map(Lsn)?;
    (segment_name(lsn) == name).then_some(lsn)
}
