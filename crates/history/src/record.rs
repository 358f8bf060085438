//! Records of the log as values: what stands at an LSN, decoded, or why it cannot be.

use std::collections::VecDeque;

use tenure_kernel::codec::{DecodeError, decode_event, decode_note};
use tenure_kernel::{Event, Lsn, Note, Tick};
use tenure_log::file::Position;
use tenure_log::{Frame, OfflineFrames, OfflineLog, ReadError, Record, RecordKind};

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
    /// What the log knows of it.
    pub kind: RecordKind,
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
    let begun = Tick(frame.header.at.tick);
    let mut tick = begun;
    for record in frame.records() {
        let content = match read(&record) {
            Ok(Read::Content(content)) => content,
            Ok(Read::Tick(later)) => {
                tick = tick.max(later);
                Content::Tick
            }
            Err(error) => Content::Unreadable { error, bytes: record.bytes.to_vec() },
        };
        each(LoggedRecord {
            lsn: Lsn(record.lsn.0),
            tick,
            wall_ms: frame.header.at.wall_ms.saturating_add(tick.ms_since(begun)),
            frame: position,
            kind: record.kind,
            content,
        });
    }
}

enum Read {
    Content(Content),
    Tick(Tick),
}

fn read(record: &Record<'_>) -> Result<Read, DecodeError> {
    let bytes = record.bytes;
    let content = match record.kind {
        RecordKind::Event | RecordKind::Config => Content::Event(decode_event(bytes)?),
        RecordKind::Note => match decode_note(bytes)? {
            Some(note) => Content::Note(note),
            None => Content::UnknownNote { bytes: bytes.to_vec() },
        },
        RecordKind::Tick => {
            let bytes = bytes.try_into().map_err(|_| DecodeError::Short)?;
            return Ok(Read::Tick(Tick(u64::from_le_bytes(bytes))));
        }
        RecordKind::Close => Content::Close,
    };
    Ok(Read::Content(content))
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
