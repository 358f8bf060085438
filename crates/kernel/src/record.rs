//! What a record of the log says. The log carries a kind as one opaque byte; which kinds there are and how their bytes
//! are read stands here alone.

use crate::codec::{DecodeError, decode_event, decode_note};
use crate::event::{Change, Event};
use crate::ids::Tick;
use crate::note::Note;

/// What a record is: enough to know whether it may be skipped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum RecordKind {
    /// Something that happened; replay must understand it.
    Event = 1,
    /// Something observed; advisory, may be skipped.
    Note = 2,
    /// Settings that rules read, so that the same bytes give the same state.
    Config = 3,
    /// The tick of the turn whose records follow, where it differs from the frame's.
    Tick = 4,
    /// The log was closed in order. The log writes it itself.
    Close = 5,
}

impl RecordKind {
    /// Every kind, in the order of their codes.
    pub const ALL: [Self; 5] = [Self::Event, Self::Note, Self::Config, Self::Tick, Self::Close];

    /// The byte in the log.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The kind with this byte, if this version knows one.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// The word for people and tools.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Note => "note",
            Self::Config => "config",
            Self::Tick => "tick",
            Self::Close => "close",
        }
    }

    /// The kind of the record that has this event.
    #[must_use]
    pub fn of_event(event: &Event) -> Self {
        match event.change {
            Change::Configured(_) => Self::Config,
            Change::Granted(_)
            | Change::Activated { .. }
            | Change::Rebound(_)
            | Change::Amended(_)
            | Change::Drained(_)
            | Change::Revived(_)
            | Change::Revoked(_)
            | Change::Released(_)
            | Change::Reclaimed(_)
            | Change::Expired(_)
            | Change::SessionOpened(_)
            | Change::SessionClosed { .. }
            | Change::PoolDefined { .. }
            | Change::PoolRemoved { .. }
            | Change::Notified { .. }
            | Change::Trimmed { .. } => Self::Event,
        }
    }
}

impl From<RecordKind> for u8 {
    fn from(kind: RecordKind) -> Self {
        kind.code()
    }
}

/// What one record says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// Something that happened, or settings that rules read.
    Event(Event),
    /// Something observed. `None`: a note that this version does not know; notes decide nothing, so it is no damage.
    Note(Option<Note>),
    /// From here on the turn's tick is the reader's.
    Tick,
    /// The log was closed in order.
    Close,
}

/// Reads the records of one frame in their order, and knows the tick of each.
#[derive(Clone, Copy, Debug)]
pub struct RecordReader {
    begun: Tick,
    tick: Tick,
}

impl RecordReader {
    /// Before the first record of a frame whose turn had this tick.
    #[must_use]
    pub fn new(begun: Tick) -> Self {
        Self { begun, tick: begun }
    }

    /// Reads the next record.
    ///
    /// # Errors
    /// When this version cannot understand it.
    pub fn read(&mut self, kind: u8, bytes: &[u8]) -> Result<Content, DecodeError> {
        Ok(match known(kind)? {
            RecordKind::Event | RecordKind::Config => Content::Event(decode_event(bytes)?),
            RecordKind::Note => Content::Note(decode_note(bytes)?),
            RecordKind::Tick => {
                let bytes = bytes.try_into().map_err(|_| DecodeError::Short)?;
                self.tick = self.tick.max(Tick(u64::from_le_bytes(bytes)));
                Content::Tick
            }
            RecordKind::Close => Content::Close,
        })
    }

    /// Reads the next record if a state depends on it: an event, which is returned, or a tick. What was only observed is
    /// not even decoded.
    ///
    /// # Errors
    /// When this version cannot understand it.
    pub fn read_decided(&mut self, kind: u8, bytes: &[u8]) -> Result<Option<Event>, DecodeError> {
        match known(kind)? {
            RecordKind::Note | RecordKind::Close => Ok(None),
            RecordKind::Event | RecordKind::Config | RecordKind::Tick => match self.read(kind, bytes)? {
                Content::Event(event) => Ok(Some(event)),
                Content::Note(_) | Content::Tick | Content::Close => Ok(None),
            },
        }
    }

    /// The tick of the record that was read last.
    #[must_use]
    pub fn tick(&self) -> Tick {
        self.tick
    }

    /// How long after the frame was begun.
    #[must_use]
    pub fn since_begun_ms(&self) -> u64 {
        self.tick.ms_since(self.begun)
    }
}

fn known(kind: u8) -> Result<RecordKind, DecodeError> {
    RecordKind::from_code(kind).ok_or(DecodeError::Unknown { what: "record", code: kind })
}
