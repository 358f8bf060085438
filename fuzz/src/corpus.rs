//! Known good bytes: the golden files of kernel and log, which every version must read, and what callers write.

use crate::targets::Target;
use crate::words;
use std::path::{Path, PathBuf};

/// Files whose names begin so belong to the target.
pub(crate) fn of(target: Target) -> anyhow::Result<Vec<Vec<u8>>> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let kernel = crates.join("kernel/tests/golden/v1");
    let log = crates.join("log/tests/golden/v1");
    let files = match target {
        Target::Event => named(&kernel, "event-")?,
        Target::Note => named(&kernel, "note-")?,
        Target::State => named(&kernel, "state-")?,
        Target::Frame | Target::Segment => named(&log.join("log"), "")?,
        Target::Snapshot => named(&log.join("snapshots"), "")?,
        Target::Line => return Ok(texts(words::LINES)),
        Target::Request => return Ok(texts(words::REQUESTS)),
        Target::Call => {
            return Ok([texts(words::LARGEST), texts(words::REQUESTS), texts(words::LINES)].concat());
        }
        Target::Intent => return Ok(texts(words::INTENTS)),
        Target::Service => return Ok(texts(words::SERVICES)),
        Target::Stream => return Ok(words::STREAMS.iter().map(|bytes| bytes.to_vec()).collect()),
        Target::Tokens => return Ok(texts(words::TOKENS)),
        Target::Id => return Ok(texts(words::IDS)),
        Target::Stored | Target::Boot => return Ok(crate::shelf::seeds(&state()?)),
        Target::Packet => return Ok(tenure_mdns::Trial::packets()),
    };
    let mut seeds = Vec::new();
    for file in files {
        let bytes = std::fs::read(&file)?;
        match target {
            // A segment is a header and frames: cut it so that a frame stands at the front.
            Target::Frame => seeds.extend(frames_of(&bytes)),
            Target::Event | Target::Note | Target::State | Target::Segment | Target::Snapshot => {
                seeds.push(bytes)
            }
            Target::Line
            | Target::Request
            | Target::Call
            | Target::Intent
            | Target::Service
            | Target::Stream
            | Target::Tokens
            | Target::Id
            | Target::Stored
            | Target::Boot
            | Target::Packet => {}
        }
    }
    anyhow::ensure!(!seeds.is_empty(), "no golden files for {}", target.name());
    Ok(seeds)
}

/// Where a log's segments are.
pub(crate) fn segments() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/log/tests/golden/v1/log")
}

/// A state with something of everything.
pub(crate) fn state() -> anyhow::Result<Vec<u8>> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    Ok(std::fs::read(crates.join("kernel/tests/golden/v1/state-rich.bin"))?)
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn named(directory: &Path, prefix: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with(prefix) && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Every place of a segment at which a frame decodes, for the salt in its header.
fn frames_of(segment: &[u8]) -> Vec<Vec<u8>> {
    let Ok(header) = tenure_log::file::SegmentHeader::decode(segment) else { return Vec::new() };
    (0..segment.len())
        .filter(|at| tenure_log::frame::decode(&segment[*at..], header.identity.salt).is_ok())
        .map(|at| {
            let mut seed = header.identity.salt.to_le_bytes().to_vec();
            seed.extend_from_slice(&segment[at..(at + 4096).min(segment.len())]);
            seed
        })
        .collect()
}
