//! Bytes of events, notes and state. Written by hand so that no derive and no library can change them;
//! `docs/internals/formats/` has the tables. Numbers are LEB128, texts and bytes carry their length, enums one byte.
//! Reading takes any bytes: it never panics and never allocates by a length it has not checked.

mod action;
mod event;
mod note;
mod primitive;
mod state;
mod words;

/// The newest format that this program reads: of events, of states, and of what nodes share in their store. Whatever an
/// older program cannot read raises it. `docs/internals/formats/cluster.md` lists what each one brought.
pub const FORMAT: u32 = 2;
/// The format of everything that does not name one.
pub const FIRST_FORMAT: u32 = 1;

pub use action::encode_action;
pub use event::{decode_event, encode_event};
pub use note::{decode_note, encode_note};
pub use state::{decode_state, encode_state};

/// Why bytes could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end too soon.
    #[error("the bytes end in the middle of a field")]
    Short,
    /// Bytes are left over.
    #[error("{0} bytes are left over")]
    Trailing(usize),
    /// A number does not fit.
    #[error("a number is out of range")]
    Range,
    /// Text that is not UTF-8.
    #[error("a text is not UTF-8")]
    Text,
    /// An enum byte that this version does not know.
    #[error("unknown {what} code {code}")]
    Unknown {
        /// Which enum.
        what: &'static str,
        /// The byte.
        code: u8,
    },
    /// Written in a newer format than this program reads.
    #[error(
        "format {found} is newer than format {reads}, the newest that this program reads: use a newer tenure"
    )]
    Newer {
        /// The format it names.
        found: u32,
        /// The newest one that this program reads.
        reads: u32,
    },
    /// The parts of a state do not fit each other.
    #[error("the state contradicts itself: {0}")]
    Inconsistent(&'static str),
}
