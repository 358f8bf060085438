//! Bytes of notes. An unknown kind is skipped by readers: notes decide nothing.

use super::DecodeError;
use super::primitive::{Reader, Writer};
use crate::ids::SessionId;
use crate::note::{Note, Subject};

/// Appends a note.
pub fn encode_note(note: &Note, out: &mut Vec<u8>) {
    let mut w = Writer { out };
    match note {
        Note::Draining { subject, last_seen, until } => {
            w.byte(1);
            write_subject(&mut w, *subject);
            w.tick(*last_seen);
            w.tick(*until);
        }
        Note::Returned { subject } => {
            w.byte(2);
            write_subject(&mut w, *subject);
        }
        Note::GateOpened { lease } => {
            w.byte(3);
            w.lease(*lease);
        }
        Note::BreakerOpened { silent, alive } => {
            w.byte(4);
            w.number((*silent).into());
            w.number((*alive).into());
        }
        Note::BreakerClosed => w.byte(5),
        Note::Stalled { gap_ms } => {
            w.byte(6);
            w.number(*gap_ms);
        }
        Note::Restarted => w.byte(7),
    }
}

/// Reads a note; `None` for a kind that this version does not know.
///
/// # Errors
/// When the bytes are not a note.
pub fn decode_note(bytes: &[u8]) -> Result<Option<Note>, DecodeError> {
    let mut r = Reader::new(bytes);
    let note = match r.byte()? {
        1 => Note::Draining { subject: read_subject(&mut r)?, last_seen: r.tick()?, until: r.tick()? },
        2 => Note::Returned { subject: read_subject(&mut r)? },
        3 => Note::GateOpened { lease: r.lease()? },
        4 => Note::BreakerOpened { silent: r.small()?, alive: r.small()? },
        5 => Note::BreakerClosed,
        6 => Note::Stalled { gap_ms: r.number()? },
        7 => Note::Restarted,
        // A later version's; nobody has to understand a note.
        _later => return Ok(None),
    };
    r.finish()?;
    Ok(Some(note))
}

fn write_subject(w: &mut Writer<'_>, subject: Subject) {
    match subject {
        Subject::Lease(lease) => {
            w.byte(1);
            w.lease(lease);
        }
        Subject::Session(session) => {
            w.byte(2);
            w.number(session.0);
        }
    }
}

fn read_subject(r: &mut Reader<'_>) -> Result<Subject, DecodeError> {
    match r.byte()? {
        1 => Ok(Subject::Lease(r.lease()?)),
        2 => Ok(Subject::Session(SessionId(r.number()?))),
        code => Err(DecodeError::Unknown { what: "subject", code }),
    }
}
