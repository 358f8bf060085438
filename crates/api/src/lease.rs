//! Leases: how they are asked for and how they are shown.

use crate::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// How a holder proves that it lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Its connection is open, or its session is heartbeat.
    Session,
    /// Heartbeats within the ttl.
    Heartbeat,
    /// No proof is asked.
    Permanent,
}

/// Where a lease is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Held, not yet in use.
    Reserved,
    /// In use.
    Active,
    /// Authority withdrawn, resources not yet reusable.
    Revoking,
    /// Given back.
    Released,
    /// Never activated.
    Expired,
    /// Ended after a revoke.
    Revoked,
}

/// Standing of a lease in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Liveness {
    /// Proof of life is current, or none is asked.
    Alive,
    /// Honoured for a while yet.
    Draining,
}

/// Why a lease drains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DrainCause {
    /// Its proof of life stopped; comes back by itself.
    Silence,
    /// An operator asked; stays until revived.
    Operator,
}

/// Which surface a lease belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Face {
    /// The native one.
    Leases,
    /// mDNS services.
    Registrations,
    /// Sessions of `/api/v3`.
    Streams,
    /// Polling targets.
    Polling,
}

/// Asks for a bundle, whole or not at all.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Acquire {
    /// Names of resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 64), inner(length(min = 1, max = 255))))]
    pub resources: Vec<String>,
    /// Any so many members of these pools.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "members_of_pools"))]
    pub pools: BTreeMap<String, u32>,
    /// Who holds it, 1 to 128 bytes.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub holder: String,
    /// How it proves that it lives; without it, what the transport does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// How long one heartbeat lasts; 0 asks for a permanent lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 86_400_000)))]
    pub ttl_ms: Option<u64>,
    /// How long silence is forgiven after that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 3_600_000)))]
    pub grace_ms: Option<u64>,
    /// Only reserve; activate within this long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 86_400_000)))]
    pub reserve_ms: Option<u64>,
    /// The session by hand that keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(regex(pattern = "^(s|pipe|cli):[0-9a-f]{8}$")))]
    pub session: Option<String>,
    /// Wait this long for the bundle, at most an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 3_600_000)))]
    pub wait_ms: Option<u64>,
    /// End it after this long however alive its holder is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1_000, max = 31_536_000_000_u64)))]
    pub max_lifetime_ms: Option<u64>,
    /// Keep the resources unavailable this long after a revoke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 3_600_000)))]
    pub reclaim_delay_ms: Option<u64>,
    /// Anything of the holder's, at most 4 KiB as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachment: Option<Value>,
    /// Makes a retry harmless; at most 128 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub operation_id: Option<String>,
}

/// What a holder presents with activate, heartbeat, release and acknowledge.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HolderCall {
    /// The epoch the holder knows.
    pub epoch: u64,
    /// Checked against the lease where given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Why, in the holder's words (release only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Makes a retry harmless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub operation_id: Option<String>,
}

/// Replaces the attachment.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Amend {
    /// The epoch the holder knows.
    pub epoch: u64,
    /// Checked against the lease where given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// The new attachment, at most 4 KiB as JSON.
    pub attachment: Value,
    /// Makes a retry harmless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub operation_id: Option<String>,
}

/// Gives a lease a new holder, session or attachment. Epoch and fence rise.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Rebind {
    /// The epoch the holder knows.
    pub epoch: u64,
    /// The new holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub holder: Option<String>,
    /// The session by hand that keeps it from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(regex(pattern = "^s:[0-9a-f]{8}$")))]
    pub session: Option<String>,
    /// The new attachment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachment: Option<Value>,
    /// Makes a retry harmless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub operation_id: Option<String>,
}

/// Gives a lease to the holder of another session, in one step.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Handover {
    /// The epoch the holder knows.
    pub epoch: u64,
    /// The session by hand of the next holder.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = "^s:[0-9a-f]{8}$")))]
    pub to_session: String,
    /// Makes a retry harmless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub operation_id: Option<String>,
}

/// An operator's revoke, reclaim, drain or revive.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OperatorCall {
    /// Why, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Refused if the epoch moved meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// Revoke: `false` leaves the reclaim to a call of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim: Option<bool>,
    /// Reclaim: before gate, promise or delay allow; recorded as such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// Makes a retry harmless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub operation_id: Option<String>,
}

/// A lease as it is. Of one that ended long ago some fields are null.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lease {
    /// Its id, for ever.
    pub lease_id: String,
    /// Who holds it.
    pub holder: String,
    /// Where it is in its life.
    pub state: State,
    /// Null unless it is in use.
    pub liveness: Option<Liveness>,
    /// Null unless it drains.
    pub drain_cause: Option<DrainCause>,
    /// How its holder proves that it lives.
    pub mode: Mode,
    /// What holder calls present.
    pub epoch: u64,
    /// What guarded stores compare; rises per resource.
    pub fence: u64,
    /// What it covers.
    pub resources: Vec<String>,
    /// How long one proof of life lasts; null where none is asked for in time.
    pub ttl_ms: Option<u64>,
    /// How long silence is forgiven after that; null for permanent leases.
    pub grace_ms: Option<u64>,
    /// How long the holder may act without another answer, from before it asked. A promise in answers to
    /// grant and heartbeat; elsewhere what is left of the last one.
    pub valid_ms: Option<u64>,
    /// Until the present phase ends.
    pub remaining_ms: Option<u64>,
    /// When it was granted.
    pub granted_at: Time,
    /// Last proof of life; null where none came since the daemon started or an operator revived the lease.
    pub last_seen: Option<Time>,
    /// Since when a proof of life is waited for, where none came since the daemon started or an operator revived the
    /// lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unheard_since: Option<Time>,
    /// When the present phase ends.
    pub deadline: Option<Time>,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// Why it ended, or is being ended.
    pub reason: Option<String>,
    /// Why, in words.
    pub reason_text: Option<String>,
    /// The session that keeps it.
    pub session: Option<String>,
    /// Which surface it belongs to.
    pub face: Face,
    /// The holder's own.
    pub attachment: Option<Value>,
    /// Who waits behind it, where one lease is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiters: Option<Vec<String>>,
    /// The outcome of an earlier try; the lease is shown as it is now.
    #[serde(default, skip_serializing_if = "is_false")]
    pub replayed: bool,
    /// The daemon's clock.
    pub server_time: Time,
    /// As of this position in the log.
    pub lsn: u64,
}

/// A heartbeat counted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Renewed {
    /// The lease.
    pub lease_id: String,
    /// Its epoch.
    pub epoch: u64,
    /// How long the holder may act, from before it asked; null for leases of a connection, unless that is open at a
    /// node of a cluster.
    pub valid_ms: Option<u64>,
    /// Until the present phase ends.
    pub remaining_ms: Option<u64>,
    /// An operator asked the lease to end: wind down.
    pub draining: bool,
    /// The daemon's clock.
    pub server_time: Time,
    /// As of this position in the log.
    pub lsn: u64,
}

/// Who is in the way of a grant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Blocking {
    /// The resource.
    pub resource: String,
    /// The lease that covers it; null if only earlier waiters are in the way.
    pub lease_id: Option<String>,
    /// Its holder.
    pub holder: Option<String>,
    /// Since when.
    pub since: Option<Time>,
    /// Until its present phase ends.
    pub remaining_ms: Option<u64>,
    /// How many wait for the resource.
    pub waiters: u64,
}

/// Which leases to list.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LeaseQuery {
    /// Only those of this holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Only those in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// Only those with this liveness.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub liveness: Option<Liveness>,
    /// Only those of this mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Only those that cover a resource whose name begins so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_prefix: Option<String>,
    /// Only those of this surface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub face: Option<Face>,
    /// At most this many, 1 to 1000 (100 unless told).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1000)))]
    pub limit: Option<u64>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A page of live leases in order of id. A page may be short; the last has no cursor.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaseList {
    /// The leases.
    pub leases: Vec<Lease>,
    /// Where to go on; null at the end.
    pub next_cursor: Option<String>,
    /// As of; a watch from here misses nothing.
    pub lsn: u64,
}

/// At least one of each pool that is named.
#[cfg(feature = "schema")]
fn members_of_pools(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "additionalProperties": { "type": "integer", "minimum": 1, "maximum": 64 },
    })
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_false(value: &bool) -> bool {
    !value
}
