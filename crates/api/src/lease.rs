//! Leases: how they are asked for and how they are shown.

use crate::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// How a lease is kept alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// An open connection or a session keeps it.
    Session,
    /// Its holder sends heartbeats within the ttl.
    Heartbeat,
    /// It needs no heartbeat.
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
    /// Revoked; its resources are not free yet.
    Revoking,
    /// Released by its holder.
    Released,
    /// Never activated.
    Expired,
    /// Ended after a revoke.
    Revoked,
}

/// Liveness of an active lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Liveness {
    /// Its heartbeat is current, or none is needed.
    Alive,
    /// In its grace: still valid, and about to end.
    Draining,
}

/// Why a lease drains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DrainCause {
    /// Its heartbeats stopped; the next one revives it.
    Silence,
    /// An operator drained it; it stays so until revived.
    Operator,
}

/// Which application of the daemon a lease belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Application {
    /// Leases taken by `/v1/leases`.
    Leases,
    /// mDNS services.
    Registrations,
    /// Slot sessions (`/api/v3/sessions`); formerly `streams`.
    #[serde(alias = "streams")]
    Slots,
    /// Polling targets.
    Polling,
}

impl Application {
    /// Wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Leases => "leases",
            Self::Registrations => "registrations",
            Self::Slots => "slots",
            Self::Polling => "polling",
        }
    }

    /// The value of the former field `face`.
    pub(crate) fn former(self) -> &'static str {
        match self {
            Self::Slots => "streams",
            other => other.as_str(),
        }
    }
}

/// Takes one or several resources, all or none.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Acquire {
    /// Names of resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 64), inner(length(min = 1, max = 255))))]
    pub resources: Vec<String>,
    /// How many members of each pool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "members_of_pools"))]
    pub pools: BTreeMap<String, u32>,
    /// Who holds it, 1 to 128 bytes.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub holder: String,
    /// How it is kept alive [default: `heartbeat` with a ttl, otherwise as the transport does].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// How long one heartbeat lasts; 0: a permanent lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 86_400_000)))]
    pub ttl_ms: Option<u64>,
    /// How long the lease stays valid after a missed heartbeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 3_600_000)))]
    pub grace_ms: Option<u64>,
    /// Only reserve: the lease expires unless it is activated within this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 86_400_000)))]
    pub reserve_ms: Option<u64>,
    /// The session that keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(regex(pattern = "^(s|pipe|cli):[0-9a-f]{8}$")))]
    pub session: Option<String>,
    /// Wait this long for the resources, at most an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 3_600_000)))]
    pub wait_ms: Option<u64>,
    /// End it after this time even if its holder sends heartbeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1_000, max = 31_536_000_000_u64)))]
    pub max_lifetime_ms: Option<u64>,
    /// Keep the resources taken for this long after a revoke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 3_600_000)))]
    pub reclaim_delay_ms: Option<u64>,
    /// Metadata of the holder, at most 4 KiB as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachment: Option<Value>,
    /// Idempotency key, at most 128 bytes.
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
    /// Idempotency key.
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
    /// Idempotency key.
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
    /// Idempotency key.
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
    /// Idempotency key.
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
    /// Rejected with `stale_epoch` if the lease has another epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// Revoke: `false` keeps the resources taken until a reclaim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim: Option<bool>,
    /// Reclaim: before finalizer, validity or delay allow it; recorded as forced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// Idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub operation_id: Option<String>,
}

/// A lease. Some fields of one that ended long ago are null.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lease {
    /// Its id; never used again.
    pub lease_id: String,
    /// Who holds it.
    pub holder: String,
    /// Its state.
    pub state: State,
    /// Null unless it is active.
    pub liveness: Option<Liveness>,
    /// Null unless it drains.
    pub drain_cause: Option<DrainCause>,
    /// How it is kept alive.
    pub mode: Mode,
    /// Holder calls must send it.
    pub epoch: u64,
    /// Fencing token: guarded stores compare it; it rises per resource.
    pub fence: u64,
    /// Its resources.
    pub resources: Vec<String>,
    /// How long one heartbeat lasts; null where none is needed.
    pub ttl_ms: Option<u64>,
    /// How long it stays valid after a missed heartbeat; null for permanent leases.
    pub grace_ms: Option<u64>,
    /// Validity: how long the holder may act, counted from before it sent the request. In answers to acquire and
    /// heartbeat the new validity, elsewhere what is left of it.
    pub valid_ms: Option<u64>,
    /// Until the present phase ends.
    pub remaining_ms: Option<u64>,
    /// When it was granted.
    pub granted_at: Time,
    /// Last heartbeat; null where none came since the daemon started or an operator revived the lease.
    pub last_seen: Option<Time>,
    /// Since when the daemon waits for a heartbeat, where none came since it started or an operator revived the lease.
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
    /// Which application it belongs to.
    #[serde(flatten, with = "crate::former::application")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::former::application::Written"))]
    pub application: Application,
    /// Metadata of the holder.
    pub attachment: Option<Value>,
    /// Holders that wait for its resources, where one lease is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiters: Option<Vec<String>>,
    /// The outcome of an earlier attempt with the same idempotency key; the lease is shown as it is now.
    #[serde(default, skip_serializing_if = "is_false")]
    pub replayed: bool,
    /// The daemon's clock.
    pub server_time: Time,
    /// As of this position in the log.
    pub lsn: u64,
}

/// A lease was renewed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Renewed {
    /// The lease.
    pub lease_id: String,
    /// Its epoch.
    pub epoch: u64,
    /// Validity: how long the holder may act, counted from before it sent the request; null for leases of a connection,
    /// unless the daemon is a node of a cluster.
    pub valid_ms: Option<u64>,
    /// Until the present phase ends.
    pub remaining_ms: Option<u64>,
    /// An operator drained the lease: finish and release it.
    pub draining: bool,
    /// The daemon's clock.
    pub server_time: Time,
    /// As of this position in the log.
    pub lsn: u64,
}

/// What blocks a grant.
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
    /// Only those with a resource whose name begins with this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_prefix: Option<String>,
    /// Only those of this application; `face` is the former name.
    #[serde(default, alias = "face", skip_serializing_if = "Option::is_none")]
    pub application: Option<Application>,
    /// At most this many, 1 to 1000 [default: 100].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1000)))]
    pub limit: Option<u64>,
    /// `next_cursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A page of live leases in order of id. A page may be short; the last has no cursor.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaseList {
    /// The leases.
    pub leases: Vec<Lease>,
    /// `cursor` of the next page; null at the end.
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
