//! The log as a story: what happened to a lease, a resource or a session, told in sentences; every record as it
//! stands; the state as it was; and whether all of it is sound.
//!
//! Reads only what is durable and decides nothing. The one thing written here is an index beside each sealed segment,
//! which makes `why` read little and is never trusted: it narrows, the records decide. Start reading at `story.rs`.

#![forbid(unsafe_code)]

mod fit;
mod ids;
mod index;
mod record;
mod replay;
mod sentence;
mod state_at;
mod story;
mod verify;
mod wall;

pub use fit::Misfit;
pub use ids::{
    LogTag, ParseIdError, WireLease, parse_session, session_id, session_kind, session_prefix, wire_session,
};
pub use index::{
    BLOCK_BYTES, INDEX_HEADER_BYTES, IndexError, IndexProblem, IndexStore, Key, Maintained, SegmentIndex,
    build_index, fnv1a64, index_name,
};
pub use record::{Content, Dump, LoggedRecord, dump};
pub use replay::{Replay, ReplayError};
pub use sentence::{actor_word, change_sentence, duration, note_sentence};
pub use state_at::{Point, StateAt, StateError, state_at};
pub use story::{Entry, History, Story, Subject, WhyLimits};
pub use tenure_log::Identity;
pub use verify::{Finding, Place, Report, SnapshotCheck, Warning, verify};
pub use wall::{ParseTimeError, parse_rfc3339, rfc3339};
