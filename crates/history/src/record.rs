//! Records of the log as values: what stands at an LSN, decoded, or why it cannot be.

use std::collections::VecDeque;

use tenure_kernel::codec::DecodeError;
use tenure_kernel::{Event, Lsn, Note, RecordKind, RecordReader, Tick};
use tenure_log::file::Position;
use tenure_log::{Frame, OfflineFrames, OfflineLog, ReadError};

/// One record, where it stands and when it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoggedRecord {
    /// Its position in the log.
    pub lsn: Lsn,
    /// The tick of its turn.
    pub tick: Tick,
    /// The same in unix milliseconds, for people.
    pub wall_ms: u64,
    /// Where its frame stands.
    pub frame: Position,
    /// What it is. `None`: a kind that this version does not know.
    pub kind: Option<RecordKind>,
    /// What it says.
    pub content: Content,
}

/// What a record says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// Something that happened; records of kind event and config hold one.
    Event(Event),
    /// Something observed.
    Note(Note),
    /// A note of a kind that this version does not know. Notes decide nothing, so it is no damage.
    UnknownNote {
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// From here on the turn's tick is the record's.
    Tick,
    /// The writer stopped cleanly.
    Close,
    /// The checksum is right, and yet this version cannot read it.
    Unreadable {
        /// Why.
        error: DecodeError,
        /// Its bytes.
        bytes: Vec<u8>,
    },
}

impl LoggedRecord {
    /// The event, if it is one.
    #[must_use]
    pub fn event(&self) -> Option<&Event> {
        match &self.content {
            Content::Event(event) => Some(event),
            Content::Note(_)
            | Content::UnknownNote { .. }
            | Content::Tick
            | Content::Close
            | Content::Unreadable { .. } => None,
        }
    }
}

/// Gives every record of a frame to `each`, in order.
pub(crate) fn each_record(position: Position, frame: &Frame<'_>, mut each: impl FnMut(LoggedRecord)) {
    let mut reader = RecordReader::new(Tick(frame.header.at.tick));
    for record in frame.records() {
        let bytes = || record.bytes.to_vec();
        let content = match reader.read(record.kind, record.bytes) {
            Ok(tenure_kernel::Content::Event(event)) => Content::Event(event),
            Ok(tenure_kernel::Content::Note(Some(note))) => Content::Note(note),
            Ok(tenure_kernel::Content::Note(None)) => Content::UnknownNote { bytes: bytes() },
            Ok(tenure_kernel::Content::Tick) => Content::Tick,
            Ok(tenure_kernel::Content::Close) => Content::Close,
            Err(error) => Content::Unreadable { error, bytes: bytes() },
        };
        each(LoggedRecord {
            lsn: Lsn(record.lsn.0),
            tick: reader.tick(),
            wall_ms: frame.header.at.wall_ms.saturating_add(reader.since_begun_ms()),
            frame: position,
            kind: RecordKind::from_code(record.kind),
            content,
        });
    }
}

/// Every record of a log at rest from one LSN on, oldest first. After an error there is nothing more.
pub struct Dump {
    from: Lsn,
    frames: OfflineFrames,
    read: VecDeque<LoggedRecord>,
    over: bool,
}

/// Every record from `from` on; 0 and 1 both mean the oldest that is kept.
///
/// # Errors
/// When `from` lies below what is kept, or the log cannot be read.
pub fn dump(log: &OfflineLog, from: Lsn) -> Result<Dump, ReadError> {
    let oldest = log.segments().next().map_or(tenure_log::Lsn::ZERO, |segment| segment.first_lsn);
    if from > Lsn(1) && from.0 < oldest.0 {
        return Err(ReadError::Trimmed { oldest });
    }
    let frames = log.frames_from(tenure_log::Lsn(from.0))?;
    Ok(Dump { from, frames, read: VecDeque::new(), over: false })
}

impl Dump {
    /// Reads one more frame; `false` at the end of the log.
    fn next_frame(&mut self) -> Result<bool, ReadError> {
        let Some(located) = self.frames.next_frame()? else { return Ok(false) };
        let position = Position { segment: located.segment, offset: located.offset };
        each_record(position, &located.frame, |record| {
            if record.lsn >= self.from {
                self.read.push_back(record);
            }
        });
        Ok(true)
    }
}

impl Iterator for Dump {
    type Item = Result<LoggedRecord, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.read.is_empty() && !self.over {
            match self.next_frame() {
                Ok(more) => self.over = !more,
                Err(error) => {
                    self.over = true;
                    return Some(Err(error));
                }
            }
        }
        self.read.pop_front().map(Ok)
    }
}
