//! Where and how a log is not what was written. Named exactly, since a person has to act on it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::file::SEGMENT_VERSION;
use crate::frame::FrameError;
use crate::ids::Lsn;

/// One place that is provably not what a crash leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file's name.
    pub file: String,
    /// The byte offset in it at which reading cannot go on.
    pub offset: u64,
    /// What is wrong there.
    pub cause: DamageCause,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}: {}", self.file, self.offset, self.cause)
    }
}

impl std::error::Error for Damage {}

/// What is wrong at a damaged place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DamageCause {
    /// The segment header does not decode or its checksum does not match.
    #[error("the segment header is damaged")]
    SegmentHeader,
    /// A segment written by another version of the format.
    #[error(
        "segment format version {0} is not known to this program, which knows version {SEGMENT_VERSION}: use the tenure that wrote it, or a newer one"
    )]
    SegmentVersion(u32),
    /// The header belongs to a segment of another name.
    #[error("the segment's header says it begins at lsn {0}")]
    SegmentName(Lsn),
    /// The file is shorter than it was made.
    #[error("the segment was made {expected} bytes long and has {found}")]
    SegmentTruncated {
        /// Its length by its header.
        expected: u64,
        /// Its length now.
        found: u64,
    },
    /// The end-of-segment mark is damaged, missing or contradicts the frames.
    #[error("the segment's seal is damaged or missing")]
    Seal,
    /// A sealed segment has no successor.
    #[error("the segment that begins at lsn {0} is missing")]
    SegmentMissing(Lsn),
    /// A segment does not continue the one before it.
    #[error("the segment does not continue the one before it, which ends at lsn {0}")]
    SegmentOrder(Lsn),
    /// Invalid bytes with something after them that was written later.
    #[error("{frame}; not a torn tail, since a frame written later begins at offset {later}")]
    BeforeValidFrame {
        /// Why no frame begins here.
        frame: FrameError,
        /// Where the later one begins.
        later: u64,
    },
    /// Invalid bytes that reach further than one frame.
    #[error("{frame}; not a torn tail, since {bytes} bytes follow and a crash leaves at most {bytes_max}")]
    MoreThanOneFrame {
        /// Why no frame begins here.
        frame: FrameError,
        /// How far non-zero bytes reach.
        bytes: u64,
        /// How far a crash can have reached.
        bytes_max: u64,
    },
    /// Invalid bytes in a segment that has a successor.
    #[error("{0}; not a torn tail, since a later segment exists")]
    BeforeLaterSegment(FrameError),
    /// A frame whose checksums are right and whose content is not.
    #[error("{0}, although its checksum is right")]
    Content(FrameError),
    /// A frame that does not continue the one before it.
    #[error("a valid frame that does not follow lsn {0}")]
    Chain(Lsn),
}

/// Why the log could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The disk refused.
    #[error("cannot read {file}")]
    Io {
        /// Which file.
        file: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The log is not what was written.
    #[error("damaged log: {0} (hint: tenure log verify)")]
    Damaged(#[from] Damage),
    /// There is no segment at all.
    #[error("there is no log in {}", directory.display())]
    NoLog {
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// The record is older than the log keeps.
    #[error("records before lsn {oldest} have been trimmed")]
    Trimmed {
        /// The oldest LSN still there.
        oldest: Lsn,
    },
}

impl ReadError {
    pub(crate) fn io(file: &str) -> impl FnOnce(io::Error) -> Self {
        let file = file.to_owned();
        move |source| Self::Io { file, source }
    }
}
