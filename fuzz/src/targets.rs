//! What the bytes are given to, and what must hold of whatever is accepted.

use std::sync::Arc;
use tempfile::TempDir;
use tenure_kernel::codec;
use tenure_kernel::{Kernel, Setup};
use tenure_log::{OfflineLog, RealDisk};

/// A decoder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// One event.
    Event,
    /// One note.
    Note,
    /// A whole state.
    State,
    /// One frame, with its salt before it.
    Frame,
    /// A segment file, through the offline reader and its verification.
    Segment,
    /// A snapshot file.
    Snapshot,
}

/// What a target keeps between inputs.
pub(crate) struct State {
    directory: TempDir,
}

impl State {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let directory = TempDir::new()?;
        std::fs::create_dir(directory.path().join("log"))?;
        std::fs::create_dir(directory.path().join("snapshots"))?;
        Ok(Self { directory })
    }
}

impl Target {
    pub(crate) const ALL: [Self; 6] =
        [Self::Event, Self::Note, Self::State, Self::Frame, Self::Segment, Self::Snapshot];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Note => "note",
            Self::State => "state",
            Self::Frame => "frame",
            Self::Segment => "segment",
            Self::Snapshot => "snapshot",
        }
    }

    /// How many inputs of a cheap target one of this costs; files cost more than memory.
    pub(crate) fn cost(self) -> u64 {
        match self {
            Self::Event | Self::Note | Self::State | Self::Frame | Self::Snapshot => 1,
            Self::Segment => 40,
        }
    }

    /// Gives it the bytes; says whether they were accepted.
    pub(crate) fn try_input(self, state: &mut State, input: &[u8]) -> bool {
        match self {
            Self::Event => codec::decode_event(input).is_ok_and(|event| {
                let mut bytes = Vec::new();
                codec::encode_event(&event, &mut bytes);
                assert_eq!(bytes, input, "an event has one spelling");
                true
            }),
            Self::Note => codec::decode_note(input).is_ok_and(|note| {
                note.is_some_and(|note| {
                    let mut bytes = Vec::new();
                    codec::encode_note(&note, &mut bytes);
                    assert_eq!(bytes, input, "a note has one spelling");
                    true
                })
            }),
            Self::State => {
                codec::decode_state(Setup::plain(), input).is_ok_and(|kernel| check_state(&kernel))
            }
            Self::Frame => input.split_first_chunk().is_some_and(|(salt, bytes)| {
                let salt = u32::from_le_bytes(*salt);
                let _ = tenure_log::frame::decode_header(bytes, salt);
                tenure_log::frame::decode(bytes, salt).is_ok_and(|frame| {
                    assert_eq!(frame.records().count(), frame.header.count as usize);
                    true
                })
            }),
            Self::Segment => verify(state, input),
            Self::Snapshot => tenure_log::snapshot::decode(input).is_ok(),
        }
    }
}

/// What was accepted either keeps the invariants or is found not to; both without harm.
fn check_state(kernel: &Kernel) -> bool {
    if kernel.check_invariants().is_err() {
        return false;
    }
    let mut bytes = Vec::new();
    codec::encode_state(kernel, &mut |piece| bytes.extend_from_slice(piece));
    let again = codec::decode_state(Setup::plain(), &bytes).expect("what was written can be read");
    let mut twice = Vec::new();
    codec::encode_state(&again, &mut |piece| twice.extend_from_slice(piece));
    assert_eq!(bytes, twice, "a state has one spelling");
    true
}

/// A directory with this one segment, as the offline tools would find it.
fn verify(state: &mut State, input: &[u8]) -> bool {
    let file = state.directory.path().join("log").join(tenure_log::file::segment_name(tenure_log::Lsn(1)));
    if std::fs::write(&file, input).is_err() {
        return false;
    }
    let verified = OfflineLog::verify(Arc::new(RealDisk), state.directory.path());
    verified.is_ok_and(|found| found.damage.is_none())
}
