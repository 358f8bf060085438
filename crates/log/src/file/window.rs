//! A moving view of one segment file: big reads, frames lent from the buffer, nothing allocated per frame.

use std::io;
use std::ops::Range;

use crate::bytes::all_zero;
use crate::disk::DiskFile;
use crate::frame::{self, FRAME_HEADER_BYTES, FRAME_MAGIC, Frame, FrameError, FrameHeader};

/// One read. Twice the largest frame would never need a second read per frame; a quarter of that stays in the cache.
const READ_BYTES: usize = 512 << 10;

pub(crate) struct Window {
    file: Box<dyn DiskFile>,
    start: u64,
    buffer: Vec<u8>,
}

impl Window {
    pub(crate) fn new(file: Box<dyn DiskFile>) -> Self {
        Self { file, start: 0, buffer: Vec::new() }
    }

    /// The bytes from `offset` on: at least `wanted` of them, fewer only where `limit` or the file ends. Bytes at or
    /// above `limit` are never read, so what is buffered cannot grow stale while a writer appends there.
    pub(crate) fn bytes_at(&mut self, offset: u64, wanted: usize, limit: u64) -> io::Result<&[u8]> {
        let held = self.start..self.start + self.buffer.len() as u64;
        let wanted_end = (offset + wanted as u64).min(limit);
        if offset < held.start || wanted_end > held.end {
            self.fill(offset, wanted, limit)?;
        }
        let from = usize::try_from(offset - self.start).unwrap_or(usize::MAX).min(self.buffer.len());
        Ok(&self.buffer[from..])
    }

    fn fill(&mut self, offset: u64, wanted: usize, limit: u64) -> io::Result<()> {
        let bytes = (wanted.max(READ_BYTES) as u64).min(limit.saturating_sub(offset)) as usize;
        self.start = offset;
        self.buffer.resize(bytes, 0);
        match self.file.read_at(&mut self.buffer, offset) {
            Ok(read) => self.buffer.truncate(read),
            Err(error) => {
                self.buffer.clear();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Checks the frame at `offset` in full.
    pub(crate) fn check_frame(
        &mut self,
        offset: u64,
        limit: u64,
        salt: u32,
    ) -> io::Result<Result<FrameHeader, FrameError>> {
        let header = match self.check_header(offset, limit, salt)? {
            Ok(header) => header,
            Err(error) => return Ok(Err(error)),
        };
        let bytes = self.bytes_at(offset, header.frame_bytes(), limit)?;
        Ok(frame::decode(bytes, salt).map(|frame| frame.header))
    }

    /// Checks only the header of the frame at `offset`, for hopping.
    pub(crate) fn check_header(
        &mut self,
        offset: u64,
        limit: u64,
        salt: u32,
    ) -> io::Result<Result<FrameHeader, FrameError>> {
        Ok(frame::decode_header(self.bytes_at(offset, FRAME_HEADER_BYTES, limit)?, salt))
    }

    /// Lends the frame at `offset`, which `check_frame` has just accepted.
    pub(crate) fn lend(&self, offset: u64, header: FrameHeader) -> Frame<'_> {
        let from = (offset - self.start) as usize;
        Frame::checked(header, &self.buffer[from + FRAME_HEADER_BYTES..from + header.frame_bytes()])
    }

    /// The offset after the last non-zero byte in `range`; its start if there is none.
    pub(crate) fn last_non_zero(&mut self, range: Range<u64>) -> io::Result<u64> {
        let mut last = range.start;
        let mut at = range.start;
        while at < range.end {
            let bytes = self.bytes_at(at, READ_BYTES, range.end)?;
            if bytes.is_empty() {
                break;
            }
            if !all_zero(bytes) {
                let index = bytes.iter().rposition(|byte| *byte != 0).expect("invariant: not all are zero");
                last = at + index as u64 + 1;
            }
            at += bytes.len() as u64;
        }
        Ok(last)
    }

    /// The first offset in `range` at which a frame header stands whose checksum is right. Every byte is tried.
    pub(crate) fn find_header(
        &mut self,
        range: Range<u64>,
        limit: u64,
        salt: u32,
    ) -> io::Result<Option<u64>> {
        let mut at = range.start;
        while at < range.end {
            let bytes = self.bytes_at(at, READ_BYTES, limit)?;
            let starts = bytes.len().saturating_sub(FRAME_HEADER_BYTES - 1).min((range.end - at) as usize);
            if starts == 0 {
                break;
            }
            for index in (0..starts).filter(|index| bytes[*index] == FRAME_MAGIC[0]) {
                match frame::decode_header(&bytes[index..], salt) {
                    Err(FrameError::HeaderIncomplete | FrameError::NoMagic | FrameError::HeaderChecksum) => {}
                    Ok(_)
                    | Err(
                        FrameError::Version(_)
                        | FrameError::HeaderFields
                        | FrameError::PayloadIncomplete
                        | FrameError::Checksum
                        | FrameError::Records,
                    ) => return Ok(Some(at + index as u64)),
                }
            }
            at += starts as u64;
        }
        Ok(None)
    }

    /// Copies the bytes of `range`, which the caller has bounded.
    pub(crate) fn copy(&mut self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let length = (range.end - range.start) as usize;
        let bytes = self.bytes_at(range.start, length, range.end)?;
        Ok(bytes[..length.min(bytes.len())].to_vec())
    }
}
