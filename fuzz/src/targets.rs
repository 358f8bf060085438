//! What the bytes are given to, and what must hold of whatever is accepted.

use crate::live::Live;
use std::sync::Arc;
use tempfile::TempDir;
use tenure_api::{AnswerLine, Intent, Line, Register};
use tenure_history::WireLease;
use tenure_kernel::codec;
use tenure_kernel::{Kernel, Setup};
use tenure_log::{OfflineLog, RealDisk};
use tenure_mdns::Trial;

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
    /// A line of the socket, asked or said.
    Line,
    /// A request over HTTP: method, path, query and body.
    Request,
    /// A request to `/api/v3`, in the same form; an intent means one thing.
    Intent,
    /// A service to register, or a full name to look up.
    Service,
    /// What the lease of a stream carries.
    Stream,
    /// A token file.
    Tokens,
    /// An id of a lease or a session.
    Id,
    /// What a cluster's store has under one key, read by a node that follows, claims and writes.
    Stored,
    /// The same, read by a node that starts.
    Boot,
    /// A request or a line, carried out by a live engine, alone and as a node.
    Call,
    /// A packet from the local network, heard by an mDNS engine with services and looks.
    Packet,
}

/// What a target keeps between inputs.
pub(crate) struct State {
    directory: TempDir,
    /// A state that every version can read.
    golden: Vec<u8>,
    /// Started by the first call.
    live: Option<Live>,
    /// Has announced its services by the first packet.
    trial: Option<Trial>,
}

impl State {
    fn live(&mut self) -> &Live {
        self.live.get_or_insert_with(|| Live::new().expect("a daemon can be started"))
    }

    pub(crate) fn new() -> anyhow::Result<Self> {
        let directory = TempDir::new()?;
        std::fs::create_dir(directory.path().join("log"))?;
        // The segments behind the first one, which is the damaged one: a log without them is not read.
        let (log, golden) = (directory.path().join("log"), crate::corpus::segments());
        for file in std::fs::read_dir(golden)? {
            let file = file?;
            std::fs::copy(file.path(), log.join(file.file_name()))?;
        }
        std::fs::create_dir(directory.path().join("snapshots"))?;
        Ok(Self { directory, golden: crate::corpus::state()?, live: None, trial: None })
    }
}

impl Target {
    pub(crate) const ALL: [Self; 17] = [
        Self::Event,
        Self::Note,
        Self::State,
        Self::Frame,
        Self::Segment,
        Self::Snapshot,
        Self::Line,
        Self::Request,
        Self::Intent,
        Self::Service,
        Self::Stream,
        Self::Tokens,
        Self::Id,
        Self::Stored,
        Self::Boot,
        Self::Call,
        Self::Packet,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Note => "note",
            Self::State => "state",
            Self::Frame => "frame",
            Self::Segment => "segment",
            Self::Snapshot => "snapshot",
            Self::Line => "line",
            Self::Request => "request",
            Self::Intent => "intent",
            Self::Service => "service",
            Self::Stream => "stream",
            Self::Tokens => "tokens",
            Self::Id => "id",
            Self::Stored => "stored",
            Self::Boot => "boot",
            Self::Call => "call",
            Self::Packet => "packet",
        }
    }

    /// Whether people and programs write it, rather than the daemon itself.
    pub(crate) fn is_text(self) -> bool {
        match self {
            Self::Line
            | Self::Request
            | Self::Intent
            | Self::Service
            | Self::Tokens
            | Self::Id
            | Self::Call => true,
            // Most values are JSON.
            Self::Stored | Self::Boot => true,
            Self::Event
            | Self::Note
            | Self::State
            | Self::Frame
            | Self::Segment
            | Self::Snapshot
            | Self::Stream
            | Self::Packet => false,
        }
    }

    /// How many inputs of a cheap target one of this costs; files cost more than memory.
    pub(crate) fn cost(self) -> u64 {
        match self {
            Self::Event | Self::Note | Self::State | Self::Frame | Self::Snapshot => 1,
            Self::Line | Self::Request | Self::Intent | Self::Service | Self::Stream => 1,
            Self::Tokens | Self::Id => 1,
            Self::Stored | Self::Packet => 4,
            Self::Call => 10,
            Self::Segment => 40,
            Self::Boot => 200,
        }
    }

    /// Gives it the bytes; says whether they were accepted.
    pub(crate) fn try_input(self, state: &mut State, input: &[u8]) -> bool {
        match self {
            Self::Event => codec::decode_event(input).is_ok_and(|event| {
                let mut bytes = Vec::new();
                codec::encode_event(&event, codec::FORMAT, &mut bytes);
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
            Self::Line => read_line(input) | read_answer(input),
            Self::Request => read_request(input),
            Self::Intent => read_intent(input),
            Self::Service => read_service(input) | read_facts(input),
            Self::Stream => read_stream(input),
            Self::Tokens => str::from_utf8(input).is_ok_and(read_tokens),
            Self::Id => str::from_utf8(input).is_ok_and(read_id),
            Self::Stored => crate::shelf::read_values(input, &state.golden),
            Self::Boot => crate::shelf::boot_from(input, &state.golden, &state.directory),
            Self::Call => state.live().carry_out(input),
            Self::Packet => state.trial.get_or_insert_with(Trial::new).hear(input),
        }
    }
}

fn read_line(input: &[u8]) -> bool {
    Line::parse(input).is_ok_and(|line| {
        let written = serde_json::to_vec(&line).expect("a line can be written");
        let again = Line::parse(&written).expect("what was written can be read");
        assert_eq!(again, line, "a line means one thing");
        true
    })
}

/// A client must survive any answer of a daemon.
fn read_answer(input: &[u8]) -> bool {
    serde_json::from_slice::<AnswerLine>(input).is_ok_and(|said| {
        let written = serde_json::to_vec(&said).expect("an answer can be written");
        let again: AnswerLine = serde_json::from_slice(&written).expect("what was written can be read");
        assert_eq!(again, said, "an answer means one thing");
        true
    })
}

/// A method, a space and a target on the first line; the rest is the body.
fn read_request(input: &[u8]) -> bool {
    let (first, body) = first_line(input);
    let Some((method, target)) = str::from_utf8(first).ok().and_then(|first| first.split_once(' ')) else {
        return false;
    };
    tenure_server::understand(method, target, body).is_ok()
}

pub(crate) fn first_line(input: &[u8]) -> (&[u8], &[u8]) {
    match input.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&input[..end], &input[end + 1..]),
        None => (input, &[]),
    }
}

/// The body is taken for an intent whatever the request was.
fn read_intent(input: &[u8]) -> bool {
    if let Ok(intent) = serde_json::from_slice::<Intent>(first_line(input).1) {
        let written = serde_json::to_vec(&intent).expect("an intent can be written");
        let again: Intent = serde_json::from_slice(&written).expect("what was written can be read");
        assert_eq!(again, intent, "an intent means one thing");
    }
    read_request(input)
}

/// What is accepted fits everything it will be written into.
fn read_service(input: &[u8]) -> bool {
    let looked_up = str::from_utf8(input).is_ok_and(|text| tenure_faces::understand_instance(text).is_ok());
    let Ok(asked) = serde_json::from_slice::<Register>(input) else { return looked_up };
    tenure_faces::understand_registration(&asked).is_ok_and(|names| {
        for (name, resource) in names {
            assert!((1..=63).contains(&name.len()), "{name:?} is no label");
            assert!(resource.len() <= tenure_kernel::limits::NAME_BYTES_MAX, "{resource:?} is no resource");
        }
        true
    })
}

/// Face data stands in the log; what stands there may be damaged.
fn read_facts(input: &[u8]) -> bool {
    tenure_faces::Facts::decode(input).is_some()
}

/// The same for the lease of a stream.
fn read_stream(input: &[u8]) -> bool {
    tenure_faces::StreamFacts::decode(input).is_some_and(|facts| {
        assert_eq!(facts.id().as_bytes(), &input[..facts.id().len()], "the id stands in front");
        true
    })
}

fn read_tokens(text: &str) -> bool {
    tenure_server::parse_tokens(text).is_ok_and(|entries| {
        let written: String = entries.iter().map(|entry| format!("{entry}\n")).collect();
        let again = tenure_server::parse_tokens(&written).expect("what was written can be read");
        assert_eq!(again, entries, "a token file means one thing");
        true
    })
}

fn read_id(text: &str) -> bool {
    let lease = text.parse::<WireLease>().is_ok_and(|lease| {
        assert_eq!(lease.to_string(), text, "an id has one spelling");
        true
    });
    lease | tenure_history::parse_session(text).is_ok()
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
