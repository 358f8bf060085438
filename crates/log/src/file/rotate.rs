//! Going on in the next segment.
//!
//! The order is what recovery relies on: the next segment exists durably, then this one is sealed durably, and only
//! then does the next one get its first frame. So a sealed segment without a successor proves that one was lost.

use super::open::place_segment;
use super::repair::write_seal;
use super::segment::{SEGMENT_HEADER_BYTES, Seal, SegmentHeader};
use super::spare::Fill;
use super::{FileLog, durable_part, failed, spare};
use crate::disk::OpenMode;
use crate::ordered::AppendError;

impl FileLog {
    /// Goes on in a new segment with room for a frame of `frame_bytes`.
    pub(super) fn rotate(&mut self, frame_bytes: u64) -> Result<(), AppendError> {
        let first_frame = match self.header.first_frame {
            0 => 0,
            first => first + self.frames,
        };
        let header = SegmentHeader { first_lsn: self.next_lsn, first_frame, ..self.header };
        self.go_on_in(header, frame_bytes)
    }

    /// Makes the segment that `header` begins, seals this one and goes on there. What `header` says about the log before
    /// it and about its length is filled in here.
    pub(super) fn go_on_in(&mut self, header: SegmentHeader, frame_bytes: u64) -> Result<(), AppendError> {
        let spare = match self.spares.is_empty() {
            false => self.spares.remove(0),
            true => self.make_spare_now(frame_bytes)?,
        };
        let header = SegmentHeader {
            previous_lsn: self.end.last_lsn,
            previous_checksum: self.end.checksum,
            writer_epoch: self.end.writer_epoch,
            at: self.end.at,
            file_bytes: spare.bytes,
            ..header
        };
        let next = place_segment(&self.disk, &self.directories.log, spare, &header)
            .map_err(failed("make a segment"))?;
        let seal = Seal {
            last_lsn: self.end.last_lsn,
            next_segment: header.first_lsn,
            end: self.offset,
            checksum: self.end.checksum,
        };
        write_seal(&*self.file, self.header.identity.salt, &seal).map_err(failed("seal a segment"))?;
        let path = next.path(&self.directories.log);
        self.file = self.disk.open(&path, OpenMode::Write).map_err(failed("open a segment"))?;
        (self.header, self.file_bytes, self.offset) = (header, next.file_bytes, SEGMENT_HEADER_BYTES);
        self.frames = 0;
        self.published.lock().push(durable_part(&next, self.offset, self.end.last_lsn));
        Ok(())
    }

    /// After a spare could not be made, another try is worth its cost only once there is room again.
    pub(super) fn spare_may_succeed(&self) -> bool {
        let needed = self.options.segment_bytes + self.options.free_bytes_min;
        !self.spare_failed || self.disk.free_bytes(&self.directories.log).is_ok_and(|free| free >= needed)
    }

    fn make_spare_now(&mut self, frame_bytes: u64) -> Result<spare::Spare, AppendError> {
        let bytes = self.options.inline_bytes().max(SEGMENT_HEADER_BYTES + frame_bytes);
        let number = self.spare_number;
        self.spare_number += 1;
        spare::make(&*self.disk, &self.directories.log, number, bytes, self.fill())
            .map_err(failed("make a segment"))
    }

    /// What segments of this log are made of before anything is in them.
    pub(super) fn fill(&self) -> Fill {
        fill_of(&self.header)
    }
}

pub(super) fn fill_of(header: &SegmentHeader) -> Fill {
    if header.first_frame > 0 { Fill::Hole } else { Fill::Zeros }
}
