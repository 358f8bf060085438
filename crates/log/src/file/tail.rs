//! What follows the last valid frame: nothing, a torn frame that is cut, or damage that is refused.
//!
//! A crash can tear at most the one frame that was not synced, and it stands right after the last valid one. So
//! whatever cannot be that frame is damage: a later frame header, or bytes that reach further than that frame could.
//! Several frames of a copy may be unsynced, and all of them can be had again: whatever follows the last valid one is cut.

use std::fmt;

use crate::batch::{FRAME_BYTES_MAX, RECORDS_PER_FRAME_MAX};
use crate::damage::{DamageCause, ReadError};
use crate::file::catalog::Segment;
use crate::file::window::Window;
use crate::frame::{FRAME_HEADER_BYTES, FrameError, FrameHeader};
use crate::ids::Lsn;
use crate::planted::{self, Planted};

/// What a crash left after the last valid frame. It was never acknowledged, or it is the one frame whose damage
/// cannot be told from a torn write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The segment's file name.
    pub file: String,
    /// Where the cut begins.
    pub offset: u64,
    /// The bytes that are given up, up to the last that is not zero. At most one frame, but of a copy all that follows.
    pub bytes: Vec<u8>,
    /// The first LSN the lost frame would have had.
    pub first_lsn: Lsn,
    /// The last LSN it would have had, if its header could still be read.
    pub last_lsn: Option<Lsn>,
    /// It is cut from a copy, which gets it again.
    pub of_copy: bool,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes.len();
        if self.of_copy {
            let (file, offset, lsn) = (&self.file, self.offset, self.first_lsn);
            return write!(
                f,
                "cut {bytes} bytes from the local log in {file} at offset {offset}: lsn {lsn} and after it are copied again"
            );
        }
        write!(f, "cut {bytes} bytes of a torn frame from {} at offset {}: ", self.file, self.offset)?;
        match self.last_lsn {
            Some(last) if last < self.first_lsn => write!(f, "no lsn lost"),
            Some(last) => write!(f, "lsn {} to {last}", self.first_lsn),
            None => write!(f, "lsn {} and at most {} after it", self.first_lsn, RECORDS_PER_FRAME_MAX - 1),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) cut: Option<Cut>,
}

pub(crate) struct TailAt<'a> {
    pub(crate) segment: &'a Segment,
    pub(crate) offset: u64,
    pub(crate) after_close: bool,
}

/// Judges the bytes from `at.offset` to the end of the last segment. `next_lsn` is what a lost frame began with.
pub(crate) fn judge(window: &mut Window, at: &TailAt<'_>, next_lsn: Lsn) -> Result<Tail, ReadError> {
    let name = at.segment.name();
    let salt = at.segment.header.identity.salt;
    let file_end = at.segment.file_bytes;
    let damage = |cause| ReadError::from(at.segment.damage(at.offset, cause));

    let used = window.last_non_zero(at.offset..file_end).map_err(ReadError::io(&name))?;
    if used == at.offset {
        return Ok(Tail { cut: None });
    }
    let frame = match window.check_frame(at.offset, file_end, salt).map_err(ReadError::io(&name))? {
        // The scan found none here a moment ago: an offline look at a log that somebody is writing.
        Ok(_) => return Ok(Tail { cut: None }),
        Err(error) => error,
    };
    match frame {
        FrameError::Version(_) | FrameError::HeaderFields | FrameError::Records => {
            return Err(damage(DamageCause::Content(frame)));
        }
        FrameError::HeaderIncomplete
        | FrameError::NoMagic
        | FrameError::HeaderChecksum
        | FrameError::PayloadIncomplete
        | FrameError::Checksum => {}
    }
    let is_copy = at.segment.header.first_frame > 0;
    let later = window.find_header(at.offset + 1..used, file_end, salt).map_err(ReadError::io(&name))?;
    if let Some(later) = later
        && !is_copy
        && !planted::has(Planted::TornTailCutsValidFrame)
    {
        return Err(damage(DamageCause::BeforeValidFrame { frame, later }));
    }
    let header = window.check_header(at.offset, file_end, salt).map_err(ReadError::io(&name))?.ok();
    let bytes = used - at.offset;
    let bytes_max = torn_bytes_max(header.as_ref(), at.after_close);
    if bytes > bytes_max && !is_copy {
        return Err(damage(DamageCause::MoreThanOneFrame { frame, bytes, bytes_max }));
    }
    Ok(Tail {
        cut: Some(Cut {
            bytes: window.copy(at.offset..used).map_err(ReadError::io(&name))?,
            file: name,
            offset: at.offset,
            first_lsn: header.map_or(next_lsn, |header| header.first_lsn),
            last_lsn: header.filter(|_| !is_copy).map(|header| header.last_lsn()),
            of_copy: is_copy,
        }),
    })
}

/// How far from its first byte a torn write can have reached.
fn torn_bytes_max(header: Option<&FrameHeader>, after_close: bool) -> u64 {
    let bytes = match header {
        // An opening frame is written over what an earlier cut gave up; the rest of that is erased only afterwards.
        Some(header) if header.opening => FRAME_BYTES_MAX,
        Some(header) => header.frame_bytes(),
        // A stopped log is only ever continued by an opening frame.
        None if after_close => FRAME_HEADER_BYTES,
        None => FRAME_BYTES_MAX,
    };
    bytes as u64
}
