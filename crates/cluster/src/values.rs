//! What stands in the keys: JSON, so that an operator can read it with the store's own tools. A value of `writer`, `head`
//! or `beat` never occurs twice; comparisons rest on that.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};
use tenure_log::{BatchId, Identity, LogEnd, Lsn, Moment};

use crate::format::FIRST;
use crate::pieces::Put;
use crate::trust::Peer;

/// The layout of keys and values this code writes and reads.
pub const FORMAT: u32 = 1;
/// No number that is counted from is above this.
const COUNT_MAX: u64 = i64::MAX as u64;
/// 128 bits in hexadecimal digits.
const SECRET_BYTES_MIN: usize = 32;
/// An hour: far above what can be set.
const TTL_MS_MAX: u64 = 60 * 60 * 1_000;

/// Who the log is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// The layout.
    pub format: u32,
    /// Random; two logs never share it.
    pub log_id: u64,
    /// Rises with each adoption and each move.
    #[serde(deserialize_with = "countable")]
    pub generation: u64,
    /// The first part of every id on the wire.
    pub tag: u32,
    /// What is added to an LSN to make a fence.
    #[serde(deserialize_with = "countable")]
    pub fence_base: u64,
    /// Every frame's checksum starts from it.
    pub salt: u32,
    /// The LSN at which this identity began.
    #[serde(deserialize_with = "countable")]
    pub identity_since: u64,
    /// The log this one continues; 0: none.
    pub parent_log_id: u64,
    /// Whether anybody may serve.
    pub state: State,
    /// The secret that nodes send to each other: a program that has it may act for any principal at any node. A role of etcd that only reads
    /// the prefix, and every backup of etcd, has it.
    #[serde(deserialize_with = "long_enough")]
    pub secret: String,
    /// The secret before this one, which nodes accept for a while; empty: there was none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub former_secret: String,
    /// Tags that it had before adoptions, the newest last: ids that have them are still told of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former_tags: Vec<u32>,
    /// After an adoption nothing is granted before this tick.
    #[serde(default, deserialize_with = "countable")]
    pub not_before_tick: u64,
}

/// Whether a log may be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is being copied here; nobody serves.
    Importing,
    /// It is served.
    Active,
}

/// Who may write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writer {
    /// Rises with each claim.
    #[serde(deserialize_with = "countable")]
    pub epoch: u64,
    /// 128 random bits, so that one who does not know what became of its claim can look.
    pub claim: String,
    /// Its name.
    pub node: String,
    /// Which run of it.
    pub incarnation: String,
    /// Where other nodes reach it.
    pub url: String,
    /// How long one step is good for; what counts for everybody.
    #[serde(deserialize_with = "bearable")]
    pub writer_ttl_ms: u64,
    /// The tick at which it began.
    #[serde(deserialize_with = "countable")]
    pub tick: u64,
    /// When, for people.
    #[serde(deserialize_with = "countable")]
    pub wall_ms: u64,
    /// How this claim stands.
    pub standing: Standing,
}

/// How a claim stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It may write.
    Writes,
    /// It said that it stopped: another node may claim at once.
    Resigned,
    /// The log went elsewhere, for good.
    Moved {
        /// Where to.
        to: String,
    },
    /// The store has forgotten something: nobody claims before an operator has adopted what is known.
    Restored {
        /// The node that remembers more.
        by: String,
        /// What is missing.
        what: String,
    },
}

/// Where the log ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The last frame's number; 0: there is none.
    #[serde(deserialize_with = "countable")]
    pub frame: u64,
    /// The last LSN.
    #[serde(deserialize_with = "countable")]
    pub lsn: u64,
    /// The last frame's checksum: the chain.
    pub chain: u32,
    /// Who wrote it.
    #[serde(deserialize_with = "countable")]
    pub epoch: u64,
    /// Its batch.
    #[serde(deserialize_with = "countable")]
    pub batch: u64,
    /// Its tick.
    #[serde(deserialize_with = "countable")]
    pub tick: u64,
    /// When, for people.
    #[serde(deserialize_with = "countable")]
    pub wall_ms: u64,
}

/// The writer's proof of life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    /// Whose.
    #[serde(deserialize_with = "countable")]
    pub epoch: u64,
    /// Rises with each one that is sent, whatever becomes of it.
    #[serde(deserialize_with = "countable")]
    pub counter: u64,
    /// The writer's tick.
    #[serde(deserialize_with = "countable")]
    pub tick: u64,
    /// The last frame it knows of.
    #[serde(deserialize_with = "countable")]
    pub frame: u64,
}

/// Where the log begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floor {
    /// The first frame that is kept.
    #[serde(deserialize_with = "countable")]
    pub frame: u64,
    /// What that frame continues.
    pub end: Head,
    /// The snapshot that covers what is gone; 0: nothing is.
    #[serde(deserialize_with = "countable")]
    pub snapshot_lsn: u64,
    /// A checksum over its bytes.
    pub snapshot_hash: u64,
    /// How many pieces it has; 0: it is of the former layout.
    #[serde(default, skip_serializing_if = "is_none")]
    pub pieces: u32,
    /// How long they are together.
    #[serde(default, skip_serializing_if = "is_none")]
    pub packed_bytes: u64,
    /// The newest format that the program reads that took the snapshot; 0: not known, and the checksum is compared with none.
    #[serde(default, skip_serializing_if = "is_none")]
    pub format: u32,
}

/// A node, as it tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Where other nodes reach it.
    pub url: String,
    /// Which run of it.
    pub incarnation: String,
    /// Networks its services are announced on.
    pub subnets: Vec<String>,
    /// Its newest snapshot.
    #[serde(deserialize_with = "countable")]
    pub snapshot_lsn: u64,
    /// A checksum over that snapshot's bytes.
    pub snapshot_hash: u64,
    /// What program it runs.
    pub version: String,
    /// When it told, for people.
    #[serde(deserialize_with = "countable")]
    pub wall_ms: u64,
    /// Whose memory it has.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub memory: String,
    /// The newest format that it reads, of events, states and what is shared here: see [`crate::format`].
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub format: u32,
    /// An operator has struck it off: nobody waits for what it remembers.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub is_forgotten: bool,
    /// Memories that had this name when an operator removed them: no node waits for them. The node that takes the name later keeps them here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forgotten: Vec<String>,
}

/// A value that is not what its key should have.
#[derive(Debug, thiserror::Error)]
#[error("the value of `{key}` cannot be decoded: {why}")]
pub struct ValueError {
    /// Which key.
    pub key: &'static str,
    /// Why.
    pub why: String,
}

/// The bytes of a value. The same value has the same bytes.
///
/// # Panics
/// Never: these types can be written.
#[must_use]
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("invariant: values can be written")
}

/// Reads a value from any bytes.
///
/// # Errors
/// When they are none.
pub fn decode<T: DeserializeOwned>(key: &'static str, bytes: &[u8]) -> Result<T, ValueError> {
    serde_json::from_slice(bytes).map_err(|error| ValueError { key, why: error.to_string() })
}

/// What nodes read that do not say it.
fn first() -> u32 {
    FIRST
}

fn is_first(format: &u32) -> bool {
    *format == first()
}

/// Whether a number says nothing.
fn is_none<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

/// A number that can be counted on from, however often: half of all numbers are above it.
fn countable<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let number = u64::deserialize(from)?;
    if number > COUNT_MAX {
        return Err(D::Error::custom(format_args!("{number} is too large")));
    }
    Ok(number)
}

/// A secret that nobody guesses.
fn long_enough<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let secret = String::deserialize(from)?;
    if secret.len() < SECRET_BYTES_MIN {
        let bytes = secret.len();
        return Err(D::Error::custom(format_args!(
            "the secret of the nodes has {bytes} characters, but must have at least {SECRET_BYTES_MIN}"
        )));
    }
    Ok(secret)
}

/// A time that a writer can be waited for.
fn bearable<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let ttl_ms = u64::deserialize(from)?;
    if ttl_ms == 0 || ttl_ms > TTL_MS_MAX {
        return Err(D::Error::custom(format_args!("a leader ttl of {ttl_ms} ms is out of range")));
    }
    Ok(ttl_ms)
}

impl Meta {
    /// The log's identity as frames and ids have it.
    #[must_use]
    pub fn identity(&self) -> Identity {
        Identity {
            log_id: self.log_id,
            tag: self.tag,
            fence_base: self.fence_base,
            shard: 0,
            salt: self.salt,
        }
    }

    /// A log's first words.
    #[must_use]
    pub fn of(identity: &Identity, identity_since: Lsn, parent_log_id: u64, secret: String) -> Self {
        Self {
            format: FORMAT,
            log_id: identity.log_id,
            generation: 1,
            tag: identity.tag,
            fence_base: identity.fence_base,
            salt: identity.salt,
            identity_since: identity_since.0,
            parent_log_id,
            state: State::Active,
            secret,
            former_secret: String::new(),
            former_tags: Vec::new(),
            not_before_tick: 0,
        }
    }
}

impl Node {
    /// Whether this entry, under this name, says that no node waits for a memory that is known as that peer's. An entry of a
    /// forgotten node that names no memory, as earlier versions wrote it, is about all of that name.
    #[must_use]
    pub fn forgets(&self, name: &str, memory: &str, peer: &Peer) -> bool {
        let names_none = self.memory.is_empty() && self.forgotten.is_empty();
        self.forgotten.iter().any(|forgotten| forgotten == memory)
            || (self.is_forgotten && (self.memory == memory || (names_none && peer.node == name)))
    }
}

impl Floor {
    /// The same, with the snapshot that was put into the store.
    #[must_use]
    pub fn with(self, lsn: Lsn, put: &Put) -> Self {
        let Put { pieces, bytes: packed_bytes, hash: snapshot_hash } = *put;
        Self { snapshot_lsn: lsn.0, snapshot_hash, pieces, packed_bytes, ..self }
    }
}

impl Head {
    /// The end of a log whose last frame is the one with this number.
    #[must_use]
    pub fn of(frame: u64, end: &LogEnd) -> Self {
        Self {
            frame,
            lsn: end.last_lsn.0,
            chain: end.checksum,
            epoch: end.writer_epoch,
            batch: end.last_batch.0,
            tick: end.at.tick,
            wall_ms: end.at.wall_ms,
        }
    }

    /// What the next frame has to continue.
    #[must_use]
    pub fn end(&self) -> LogEnd {
        LogEnd {
            last_lsn: Lsn(self.lsn),
            checksum: self.chain,
            writer_epoch: self.epoch,
            at: Moment { tick: self.tick, wall_ms: self.wall_ms },
            last_batch: BatchId(self.batch),
            closed: false,
        }
    }
}

impl Writer {
    /// Whether it may write.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.standing == Standing::Writes
    }
}
