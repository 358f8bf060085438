//! Walks every frame of a log in order and checks everything there is to check. Reads only; recovery and the offline
//! tools both stand on it.
//!
//! Invariant: a frame is yielded only if it continues the one before it by LSN, chain and epoch.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::damage::{Damage, DamageCause, ReadError};
use crate::disk::{OpenMode, SharedDisk};
use crate::end::LogEnd;
use crate::file::catalog::Segment;
use crate::file::segment::{SEAL_AT, SEGMENT_HEADER_BYTES, SealFound};
use crate::file::tail::{self, Tail, TailAt};
use crate::file::window::Window;
use crate::frame::{Frame, FrameError, FrameHeader};
use crate::ids::Lsn;
use crate::planted::{self, Planted};

/// A frame and where it stands.
#[derive(Clone, Debug)]
pub struct LocatedFrame<'a> {
    /// The segment's first LSN, which names its file.
    pub segment: Lsn,
    /// The offset of the frame in that file.
    pub offset: u64,
    /// The frame.
    pub frame: Frame<'a>,
}

/// Where a scan came to the end of the log.
#[derive(Debug)]
pub(crate) struct ScanEnd {
    pub(crate) end: LogEnd,
    pub(crate) offset: u64,
    pub(crate) tail: Tail,
    /// Where the last frame of the last segment stands; `None`: that segment has no frame.
    pub(crate) last_frame: Option<Range<u64>>,
}

pub(crate) struct Scanner {
    disk: SharedDisk,
    directory: PathBuf,
    segments: Vec<Segment>,
    index: usize,
    window: Window,
    offset: u64,
    end: LogEnd,
    before_last: (LogEnd, u64),
}

impl Scanner {
    /// Starts at the first frame of `segments[index]`.
    pub(crate) fn new(
        disk: SharedDisk,
        directory: &Path,
        segments: Vec<Segment>,
        index: usize,
    ) -> Result<Self, ReadError> {
        let window = open_window(&disk, directory, &segments[index])?;
        let end = segments[index].header.end();
        let offset = SEGMENT_HEADER_BYTES;
        let before_last = (end, offset);
        Ok(Self { disk, directory: directory.to_owned(), segments, index, window, offset, end, before_last })
    }

    /// Whether there is another frame. Moves on to the segment that holds it.
    pub(crate) fn has_next(&mut self) -> Result<bool, ReadError> {
        self.next_frame_header().map(|header| header.is_some())
    }

    /// The next frame; `None` once the last valid one has been yielded. What follows is not judged yet.
    pub(crate) fn next_frame(&mut self) -> Result<Option<LocatedFrame<'_>>, ReadError> {
        match self.next_frame_header()? {
            Some(header) => self.accept(header).map(Some),
            None => Ok(None),
        }
    }

    fn next_frame_header(&mut self) -> Result<Option<FrameHeader>, ReadError> {
        loop {
            let segment = &self.segments[self.index];
            let (name, salt) = (segment.name(), segment.header.identity.salt);
            let checked = self
                .window
                .check_frame(self.offset, segment.file_bytes, salt)
                .map_err(ReadError::io(&name))?;
            match checked {
                Ok(header) => return Ok(Some(header)),
                Err(error) if self.index + 1 < self.segments.len() => self.next_segment(error)?,
                Err(_) => return Ok(None),
            }
        }
    }

    /// Looks at what follows the last valid frame. Called once `next_frame` has answered `None`.
    pub(crate) fn finish(mut self) -> Result<ScanEnd, ReadError> {
        let tail = self.judge_tail()?;
        if planted::has(Planted::TornTailCutsValidFrame) && tail.cut.is_some() {
            (self.end, self.offset) = self.before_last;
        }
        let last_frame = (self.offset > SEGMENT_HEADER_BYTES && self.before_last.1 < self.offset)
            .then_some(self.before_last.1..self.offset);
        Ok(ScanEnd { end: self.end, offset: self.offset, tail, last_frame })
    }

    /// Whether what follows the last valid frame is a torn tail or damage.
    pub(crate) fn judge_tail(&mut self) -> Result<Tail, ReadError> {
        let segment = &self.segments[self.index];
        let at = TailAt { segment, offset: self.offset, after_close: self.end.closed };
        let tail = tail::judge(&mut self.window, &at, self.end.last_lsn.next())?;
        let last_is_empty = self.offset == SEGMENT_HEADER_BYTES && tail.cut.is_none();
        self.check_seals(last_is_empty)?;
        Ok(tail)
    }

    fn accept(&mut self, header: FrameHeader) -> Result<LocatedFrame<'_>, ReadError> {
        let segment = &self.segments[self.index];
        if !self.end.is_continued_by(&header) {
            return Err(segment.damage(self.offset, DamageCause::Chain(self.end.last_lsn)).into());
        }
        let offset = self.offset;
        let frame = self.window.lend(offset, header);
        self.before_last = (self.end, offset);
        self.end = LogEnd::after(&header, frame.is_close());
        self.offset += header.frame_bytes() as u64;
        Ok(LocatedFrame { segment: segment.header.first_lsn, offset, frame })
    }

    /// No frame begins at `self.offset` of a segment that has a successor: this must be exactly its end.
    fn next_segment(&mut self, error: FrameError) -> Result<(), ReadError> {
        let segment = &self.segments[self.index];
        let later = &self.segments[self.index + 1];
        let rest = self.offset..segment.file_bytes;
        let used = self.window.last_non_zero(rest).map_err(ReadError::io(&segment.name()))?;
        if used != self.offset {
            return Err(segment.damage(self.offset, DamageCause::BeforeLaterSegment(error)).into());
        }
        if later.header.previous_lsn != self.end.last_lsn
            || later.header.previous_checksum != self.end.checksum
        {
            return Err(segment.damage(self.offset, DamageCause::BeforeLaterSegment(error)).into());
        }
        if let SealFound::Sealed(seal) = segment.seal
            && seal.end != self.offset
        {
            return Err(segment.damage(SEAL_AT, DamageCause::Seal).into());
        }
        self.window = open_window(&self.disk, &self.directory, later)?;
        self.index += 1;
        self.offset = SEGMENT_HEADER_BYTES;
        Ok(())
    }

    /// Only a segment without frames may follow an unsealed one, and it must be the last.
    fn check_seals(&self, last_is_empty: bool) -> Result<(), Damage> {
        let last_but_one = self.segments.len().checked_sub(2);
        for (index, segment) in self.segments.iter().enumerate().take(self.segments.len() - 1) {
            let rotation_interrupted = Some(index) == last_but_one && last_is_empty;
            if !matches!(segment.seal, SealFound::Sealed(_)) && !rotation_interrupted {
                return Err(segment.damage(SEAL_AT, DamageCause::Seal));
            }
        }
        Ok(())
    }
}

fn open_window(disk: &SharedDisk, directory: &Path, segment: &Segment) -> Result<Window, ReadError> {
    let file = disk.open(&segment.path(directory), OpenMode::Read).map_err(ReadError::io(&segment.name()))?;
    Ok(Window::new(file))
}
