//! Sessions: leases that one heartbeat renews together.

use crate::Time;
use crate::lease::Liveness;
use serde::{Deserialize, Serialize};

/// What keeps a session alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SessionKind {
    /// An open connection to the socket.
    Connection,
    /// An open standard input.
    Stdin,
    /// Heartbeats that the client sends itself: every session that was opened with `POST /v1/sessions`.
    ByHand,
}

/// Request to open a session: one heartbeat renews all its leases.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OpenSession {
    /// Name of the program that opens the session, 1 to 128 bytes.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub holder: String,
    /// Time to live in milliseconds: how long one heartbeat keeps the session and its leases [default: 90000].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1_000, max = 86_400_000)))]
    pub ttl_ms: Option<u64>,
    /// How long the leases are still held after a ttl without a heartbeat, in milliseconds [default: 30000].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 3_600_000)))]
    pub grace_ms: Option<u64>,
    /// Prefix of resource names: other principals may hand over leases to this session if all their resources begin
    /// with it [default: other principals may not hand over leases].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 255)))]
    pub accepts_handover: Option<String>,
    /// Idempotency key: a retry with the same key has no second effect. At most 128 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub operation_id: Option<String>,
}

/// A session or a connection, with the state of its leases.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Session {
    /// Id of the session: `s:`, `pipe:` or `cli:` and hexadecimal digits.
    pub session: String,
    /// Name of the program that opened the session.
    pub holder: String,
    /// What keeps the session alive.
    pub kind: SessionKind,
    /// How long one heartbeat keeps the session. Null for a connection, except in a cluster, where the node of the
    /// connection sends its heartbeats.
    pub ttl_ms: Option<u64>,
    /// How long the leases are still held after the ttl.
    pub grace_ms: u64,
    /// Prefix of resource names: other principals may hand over leases to the session if all their resources begin with
    /// it. Absent if they may not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepts_handover: Option<String>,
    /// Number of leases that the session keeps.
    pub leases: u64,
    /// Liveness; null once the session is closed and its leases are being ended.
    pub liveness: Option<Liveness>,
    /// When the last heartbeat arrived; null if none arrived since the daemon started.
    pub last_seen: Option<Time>,
    /// Since when the daemon waits for a heartbeat, if none arrived since it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unheard_since: Option<Time>,
    /// Validity in milliseconds: the new validity in the answer that opened the session, elsewhere what is left of it;
    /// null for connections.
    pub valid_ms: Option<u64>,
    /// Time until the present phase (ttl or grace) ends.
    pub remaining_ms: Option<u64>,
    /// When the present phase ends.
    pub deadline: Option<Time>,
    /// Time of the daemon's clock.
    pub server_time: Time,
    /// Position in the log that the answer reflects.
    pub lsn: u64,
}

/// A page of sessions in order of id.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionList {
    /// Sessions of this page.
    pub sessions: Vec<Session>,
    /// `cursor` of the next page; null on the last page.
    pub next_cursor: Option<String>,
    /// Position in the log that the answer reflects.
    pub lsn: u64,
}

/// Heartbeat of a session.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SessionHeartbeat {
    /// Position up to which the caller knows the lost leases: `lsn` of the previous answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_lsn: Option<u64>,
}

/// Answer to a heartbeat of a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionRenewed {
    /// Id of the session.
    pub session: String,
    /// Position up to which `ended` is complete; send it as the next `seen_lsn`.
    pub lsn: u64,
    /// Validity: how long the holder may act on the leases of the session, counted from before it sent the request.
    pub valid_ms: u64,
    /// Leases that the session lost since `seen_lsn`; null if the daemon does not remember all of them: list the leases
    /// instead.
    pub ended: Option<Vec<EndedLease>>,
    /// Ids of leases that an operator drained.
    pub draining: Vec<String>,
    /// Time of the daemon's clock.
    pub server_time: Time,
}

/// A lease that a session lost without a request of its holder.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EndedLease {
    /// Id of the lease.
    pub lease_id: String,
    /// Reason code of the end.
    pub reason: String,
}

/// Answer to the close of a session: its leases are released.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionEnd {
    /// Id of the session.
    pub session: String,
    /// Position of the event in the log.
    pub lsn: u64,
}
