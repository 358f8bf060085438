//! Sessions: a holder's conversation whose leases share its liveness.

use crate::Time;
use crate::lease::Liveness;
use serde::{Deserialize, Serialize};

/// What keeps a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SessionKind {
    /// An open socket.
    Connection,
    /// An open standard input.
    Stdin,
    /// Heartbeats.
    ByHand,
}

/// Opens a session by hand.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OpenSession {
    /// Who speaks in it.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub holder: String,
    /// How long one heartbeat lasts (90 s unless told).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1_000, max = 86_400_000)))]
    pub ttl_ms: Option<u64>,
    /// How long silence is forgiven after that (30 s unless told).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 3_600_000)))]
    pub grace_ms: Option<u64>,
    /// Other principals may hand over leases to this session whose resources all begin so; without it none may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 255)))]
    pub accepts_handover: Option<String>,
    /// Makes a retry harmless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub operation_id: Option<String>,
}

/// A session as it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Session {
    /// Its id: `s:`, `pipe:` or `cli:` and hexadecimal digits.
    pub session: String,
    /// Who speaks in it.
    pub holder: String,
    /// What keeps it.
    pub kind: SessionKind,
    /// How long one heartbeat lasts; null for connections. In a cluster theirs come from their node.
    pub ttl_ms: Option<u64>,
    /// How long silence is forgiven.
    pub grace_ms: u64,
    /// Other principals may hand over leases to it whose resources all begin so; absent where none may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepts_handover: Option<String>,
    /// Leases it keeps.
    pub leases: u64,
    /// Null once it is closed and its leases are being ended.
    pub liveness: Option<Liveness>,
    /// Last proof of life; null where none came since the daemon started.
    pub last_seen: Option<Time>,
    /// Since when a proof of life is waited for, where none came since the daemon started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unheard_since: Option<Time>,
    /// What is left of its promise; null for connections. In the answer that opened it: the promise.
    pub valid_ms: Option<u64>,
    /// Until the present phase ends.
    pub remaining_ms: Option<u64>,
    /// When the present phase ends.
    pub deadline: Option<Time>,
    /// The daemon's clock.
    pub server_time: Time,
    /// As of this position in the log.
    pub lsn: u64,
}

/// A page of sessions in order of id.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionList {
    /// The sessions.
    pub sessions: Vec<Session>,
    /// Where to go on; null at the end.
    pub next_cursor: Option<String>,
    /// As of.
    pub lsn: u64,
}

/// A session says that it lives.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SessionHeartbeat {
    /// Losses up to here are known already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_lsn: Option<u64>,
}

/// A session's heartbeat counted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionRenewed {
    /// The session.
    pub session: String,
    /// Everything up to here is told; the next `seen_lsn`.
    pub lsn: u64,
    /// How long its leases may be acted on, from before it asked.
    pub valid_ms: u64,
    /// What it lost since `seen_lsn`; null if more than is remembered: list the leases instead.
    pub ended: Option<Vec<EndedLease>>,
    /// Leases that an operator drained.
    pub draining: Vec<String>,
    /// The daemon's clock.
    pub server_time: Time,
}

/// A lease that a session lost without asking.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EndedLease {
    /// The lease.
    pub lease_id: String,
    /// Why.
    pub reason: String,
}

/// A session was closed; what it held is released.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionEnd {
    /// The session.
    pub session: String,
    /// Position of the event.
    pub lsn: u64,
}
