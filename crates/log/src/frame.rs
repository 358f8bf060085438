//! One frame: a batch as it stands in a segment, byte for byte. `docs/internals/formats/log-segment.md` has the table.
//!
//! Decoding takes any bytes, never panics, bounds every length before using it, and accepts a frame only if all of
//! its bytes are covered by a checksum that starts from the log's salt.

use crate::batch::{CLOSE_RECORD, PAYLOAD_BYTES_MAX, RECORDS_PER_FRAME_MAX, Record, Records};
use crate::bytes::{put, u16_at, u32_at, u64_at};
use crate::checksum::{Checksum, crc32c};
use crate::ids::{BatchId, Lsn, Moment};

/// The first four bytes of a frame. None of them is zero and none is ASCII.
pub const FRAME_MAGIC: [u8; 4] = [0xf7, 0xa3, 0xe1, 0x9d];
/// The frame format this code writes and reads.
pub const FRAME_VERSION: u8 = 1;
/// Bytes before the payload.
pub const FRAME_HEADER_BYTES: usize = 80;

const FLAG_OPENING: u8 = 1;
const FLAG_GAP: u8 = 2;
const FLAGS_KNOWN: u8 = FLAG_OPENING | FLAG_GAP;

const HEADER_CHECKSUM_AT: usize = 72;
const FRAME_CHECKSUM_AT: usize = 76;

/// The fields of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The first frame of a writer incarnation; it holds no records.
    pub opening: bool,
    /// LSNs between `previous_lsn` and `first_lsn` were skipped because a frame of unknown content was cut there.
    pub gap: bool,
    /// How many records follow.
    pub count: u32,
    /// The LSN of the first record; of the next frame's first record if there are none.
    pub first_lsn: Lsn,
    /// The last LSN before this frame: `first_lsn - 1`, or less where `gap`.
    pub previous_lsn: Lsn,
    /// When the batch was begun.
    pub at: Moment,
    /// Which incarnation wrote it.
    pub writer_epoch: u64,
    /// The batch's name.
    pub batch: BatchId,
    /// The highest LSN known to be durable when this frame was written.
    pub synced_lsn: Lsn,
    /// Bytes of records after the header.
    pub payload_bytes: u32,
    /// The checksum of the frame before this one: the chain.
    pub previous_checksum: u32,
    /// The checksum over this header and the payload.
    pub checksum: u32,
}

impl FrameHeader {
    /// Header and payload.
    pub fn frame_bytes(&self) -> usize {
        FRAME_HEADER_BYTES + self.payload_bytes as usize
    }

    /// The LSN after the last record.
    pub fn next_lsn(&self) -> Lsn {
        self.first_lsn.plus(u64::from(self.count))
    }

    /// The last LSN of the log once this frame is in it.
    pub fn last_lsn(&self) -> Lsn {
        Lsn(self.next_lsn().0 - 1)
    }
}

/// A valid frame that borrows its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its fields.
    pub header: FrameHeader,
    payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// A frame whose header and payload have passed [`decode`].
    pub(crate) fn checked(header: FrameHeader, payload: &'a [u8]) -> Self {
        Self { header, payload }
    }

    /// The records in order, without copying.
    pub fn records(&self) -> Records<'a> {
        Records::trusted(self.header.first_lsn, self.header.count, self.payload)
    }

    /// The record with this LSN, if it is in this frame.
    pub fn record(&self, lsn: Lsn) -> Option<Record<'a>> {
        let index = lsn.0.checked_sub(self.header.first_lsn.0)?;
        self.records().nth(usize::try_from(index).ok()?)
    }

    /// The records as they stand in the file.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Whether this is the frame of a clean stop.
    pub fn is_close(&self) -> bool {
        self.header.count == 1 && self.payload.first() == Some(&CLOSE_RECORD)
    }
}

/// Why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Fewer bytes than a header.
    #[error("the bytes end within the frame header")]
    HeaderIncomplete,
    /// Not the frame magic.
    #[error("no frame begins here")]
    NoMagic,
    /// The header's checksum does not match.
    #[error("the frame header's checksum does not match")]
    HeaderChecksum,
    /// Written by another version of the format.
    #[error(
        "frame format version {0} is not known to this program, which knows version {FRAME_VERSION}: use the tenure that wrote it, or a newer one"
    )]
    Version(u8),
    /// The checksum is right but the fields contradict each other or exceed a limit.
    #[error("the frame header's fields are out of bounds")]
    HeaderFields,
    /// The payload is cut off.
    #[error("the bytes end within the frame's payload")]
    PayloadIncomplete,
    /// The checksum over header and payload does not match.
    #[error("the frame's checksum does not match")]
    Checksum,
    /// The checksum is right but the payload is not `count` records.
    #[error("the frame's payload does not match its header")]
    Records,
}

/// Appends the frame to `out` and returns its checksum. `header.payload_bytes` and `header.checksum` are computed here.
pub(crate) fn encode(header: &FrameHeader, payload: &[u8], salt: u32, out: &mut Vec<u8>) -> u32 {
    let mut block = [0; FRAME_HEADER_BYTES];
    let flags = if header.opening { FLAG_OPENING } else { 0 } | if header.gap { FLAG_GAP } else { 0 };
    put(&mut block, 0, &FRAME_MAGIC);
    put(&mut block, 4, &[FRAME_VERSION, flags]);
    put(&mut block, 6, &(header.count as u16).to_le_bytes());
    put(&mut block, 8, &header.first_lsn.0.to_le_bytes());
    put(&mut block, 16, &header.previous_lsn.0.to_le_bytes());
    put(&mut block, 24, &header.at.tick.to_le_bytes());
    put(&mut block, 32, &header.at.wall_ms.to_le_bytes());
    put(&mut block, 40, &header.writer_epoch.to_le_bytes());
    put(&mut block, 48, &header.batch.0.to_le_bytes());
    put(&mut block, 56, &header.synced_lsn.0.to_le_bytes());
    put(&mut block, 64, &(payload.len() as u32).to_le_bytes());
    put(&mut block, 68, &header.previous_checksum.to_le_bytes());
    let header_checksum = crc32c(salt, &block[..HEADER_CHECKSUM_AT]);
    put(&mut block, HEADER_CHECKSUM_AT, &header_checksum.to_le_bytes());
    let checksum = frame_checksum(&block, payload, salt);
    put(&mut block, FRAME_CHECKSUM_AT, &checksum.to_le_bytes());
    out.extend_from_slice(&block);
    out.extend_from_slice(payload);
    checksum
}

/// Reads the header at the start of `bytes`. The payload may be missing or damaged; the header's own bytes are not,
/// save the frame checksum, which only [`decode`] can judge.
pub fn decode_header(bytes: &[u8], salt: u32) -> Result<FrameHeader, FrameError> {
    let block = bytes.get(..FRAME_HEADER_BYTES).ok_or(FrameError::HeaderIncomplete)?;
    if block[..4] != FRAME_MAGIC {
        return Err(FrameError::NoMagic);
    }
    if crc32c(salt, &block[..HEADER_CHECKSUM_AT]) != u32_at(block, HEADER_CHECKSUM_AT) {
        return Err(FrameError::HeaderChecksum);
    }
    if block[4] != FRAME_VERSION {
        return Err(FrameError::Version(block[4]));
    }
    let flags = block[5];
    let header = FrameHeader {
        opening: flags & FLAG_OPENING != 0,
        gap: flags & FLAG_GAP != 0,
        count: u32::from(u16_at(block, 6)),
        first_lsn: Lsn(u64_at(block, 8)),
        previous_lsn: Lsn(u64_at(block, 16)),
        at: Moment { tick: u64_at(block, 24), wall_ms: u64_at(block, 32) },
        writer_epoch: u64_at(block, 40),
        batch: BatchId(u64_at(block, 48)),
        synced_lsn: Lsn(u64_at(block, 56)),
        payload_bytes: u32_at(block, 64),
        previous_checksum: u32_at(block, 68),
        checksum: u32_at(block, FRAME_CHECKSUM_AT),
    };
    if flags & !FLAGS_KNOWN == 0 && fields_agree(&header) {
        Ok(header)
    } else {
        Err(FrameError::HeaderFields)
    }
}

/// Reads the frame at the start of `bytes`; what follows it is ignored.
pub fn decode(bytes: &[u8], salt: u32) -> Result<Frame<'_>, FrameError> {
    let header = decode_header(bytes, salt)?;
    let payload = bytes.get(FRAME_HEADER_BYTES..header.frame_bytes()).ok_or(FrameError::PayloadIncomplete)?;
    if frame_checksum(&bytes[..FRAME_HEADER_BYTES], payload, salt) != header.checksum {
        return Err(FrameError::Checksum);
    }
    if !Records::check(header.count, payload) {
        return Err(FrameError::Records);
    }
    Ok(Frame { header, payload })
}

fn fields_agree(header: &FrameHeader) -> bool {
    // Far below overflow, so that no sum of LSN and count can wrap; fences stay below 2^53 anyway.
    const LSN_MAX: u64 = 1 << 62;
    let skipped = if header.gap { u64::from(RECORDS_PER_FRAME_MAX) } else { 0 };
    header.count <= RECORDS_PER_FRAME_MAX
        && header.payload_bytes as usize <= PAYLOAD_BYTES_MAX
        && header.opening == (header.count == 0)
        && (header.opening || !header.gap)
        && header.first_lsn.0 <= LSN_MAX
        && header.previous_lsn.0 <= LSN_MAX
        && header.first_lsn == header.previous_lsn.plus(1 + skipped)
        && header.synced_lsn <= header.previous_lsn
}

fn frame_checksum(header: &[u8], payload: &[u8], salt: u32) -> u32 {
    let mut checksum = Checksum::seeded(salt);
    checksum.update(&header[..FRAME_CHECKSUM_AT]);
    checksum.update(payload);
    checksum.value()
}
