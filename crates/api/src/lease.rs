//! Leases: requests and answers.

use crate::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// How a lease is kept alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// An open connection or a session keeps the lease.
    Session,
    /// The holder sends heartbeats; the lease drains when none arrives within the ttl.
    Heartbeat,
    /// The lease needs no heartbeat.
    Permanent,
}

/// State of a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Held, and not activated yet.
    Reserved,
    /// In use.
    Active,
    /// Revoked; its resources are not free yet.
    Revoking,
    /// Released by its holder.
    Released,
    /// The reservation ended before it was activated.
    Expired,
    /// Ended after a revoke.
    Revoked,
}

/// Liveness of an active lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Liveness {
    /// The holder sent its last heartbeat in time, or needs none.
    Alive,
    /// The holder is silent or an operator drained the lease: still held, and about to end. The grace is not part of
    /// `valid_ms`.
    Draining,
}

/// Why a lease drains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DrainCause {
    /// The heartbeats stopped; the next one revives the lease.
    Silence,
    /// An operator drained the lease; only an operator can revive it.
    Operator,
}

/// API that a lease was taken through.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Application {
    /// Leases taken through `/v1/leases`.
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

/// Request for one or several resources: the daemon grants all of them or none.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Acquire {
    /// Names of resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 64), inner(length(min = 1, max = 255))))]
    pub resources: Vec<String>,
    /// Number of members to take from each pool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "members_of_pools"))]
    pub pools: BTreeMap<String, u32>,
    /// Name of the program that will hold the lease, 1 to 128 bytes.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub holder: String,
    /// How the lease is kept alive [default: `session` if `session` is given, `permanent` if `ttl_ms` is 0, `heartbeat`
    /// over HTTP or with a `ttl_ms`, otherwise `session`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Time to live in milliseconds: how long one heartbeat keeps the lease. 0 asks for a permanent lease [default:
    /// 90000 over HTTP].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 86_400_000)))]
    pub ttl_ms: Option<u64>,
    /// How long the lease is still held after a ttl without a heartbeat, in milliseconds. A heartbeat in this time
    /// saves the lease; `valid_ms` does not include it [default: 30000; 5000 for a standard input].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 3_600_000)))]
    pub grace_ms: Option<u64>,
    /// Reserve the resources only: the lease expires unless the holder activates it within this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 86_400_000)))]
    pub reserve_ms: Option<u64>,
    /// Session whose heartbeats keep the lease; its ttl and grace apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(regex(pattern = "^(s|pipe|cli):[0-9a-f]{8}$")))]
    pub session: Option<String>,
    /// How long to wait in the queue for resources that others hold, at most an hour [default: 0].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 3_600_000)))]
    pub wait_ms: Option<u64>,
    /// The lease ends after this time, even if its holder sends heartbeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1_000, max = 31_536_000_000_u64)))]
    pub max_lifetime_ms: Option<u64>,
    /// How long the resources stay unavailable after a revoke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 3_600_000)))]
    pub reclaim_delay_ms: Option<u64>,
    /// JSON metadata that is stored with the lease and visible to others, at most 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachment: Option<Value>,
    /// Idempotency key: a retry with the same key has no second effect. At most 128 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub operation_id: Option<String>,
}

/// Body of activate, heartbeat, release and acknowledge.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HolderCall {
    /// Epoch of the lease, as the holder knows it.
    pub epoch: u64,
    /// Holder; if given, the daemon rejects the call when the lease has another holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Reason of a release, in the words of the holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Idempotency key: a retry with the same key has no second effect. At most 128 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub operation_id: Option<String>,
}

/// Request to replace the attachment of a lease.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Amend {
    /// Epoch of the lease, as the holder knows it.
    pub epoch: u64,
    /// Holder; if given, the daemon rejects the call when the lease has another holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// The new attachment, at most 4 KiB as JSON.
    pub attachment: Value,
    /// Idempotency key: a retry with the same key has no second effect. At most 128 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub operation_id: Option<String>,
}

/// Request to give a lease another holder, session or attachment. Epoch and fence rise.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Rebind {
    /// Epoch of the lease, as the holder knows it.
    pub epoch: u64,
    /// The new holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub holder: Option<String>,
    /// Session whose heartbeats keep the lease from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(regex(pattern = "^s:[0-9a-f]{8}$")))]
    pub session: Option<String>,
    /// The new attachment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachment: Option<Value>,
    /// Idempotency key: a retry with the same key has no second effect. At most 128 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub operation_id: Option<String>,
}

/// Request to give a lease to the holder of another session in one step.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Handover {
    /// Epoch of the lease, as the holder knows it.
    pub epoch: u64,
    /// Session of the next holder.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = "^s:[0-9a-f]{8}$")))]
    pub to_session: String,
    /// Idempotency key: a retry with the same key has no second effect. At most 128 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub operation_id: Option<String>,
}

/// Body of revoke, reclaim, drain and revive.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OperatorCall {
    /// Reason in the words of the operator; the log keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Epoch of the lease; if given, the daemon answers `stale_epoch` when the lease has another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// For a revoke: `false` keeps the resources unavailable until a reclaim [default: true].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim: Option<bool>,
    /// For a reclaim: free the resources even though finalizer, validity or delay are not over. The log records it as
    /// forced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// Idempotency key: a retry with the same key has no second effect. At most 128 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub operation_id: Option<String>,
}

/// A lease. Some fields of a lease that ended long ago are null.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lease {
    /// Id of the lease; the daemon never uses it again.
    pub lease_id: String,
    /// Holder of the lease.
    pub holder: String,
    /// State of the lease.
    pub state: State,
    /// Liveness; null unless the lease is active.
    pub liveness: Option<Liveness>,
    /// Why the lease drains; null unless it does.
    pub drain_cause: Option<DrainCause>,
    /// How the lease is kept alive.
    pub mode: Mode,
    /// Epoch of the lease: the holder sends it with each call.
    pub epoch: u64,
    /// Fencing token: a number that rises for a resource with each change of holder. The protected system rejects a
    /// lower one.
    pub fence: u64,
    /// Resources that the lease covers.
    pub resources: Vec<String>,
    /// How long one heartbeat keeps the lease; null if it needs none.
    pub ttl_ms: Option<u64>,
    /// How long the lease is still held after a ttl without a heartbeat; null for permanent leases.
    pub grace_ms: Option<u64>,
    /// Validity: how long the holder may act, counted from before it sent the request. Answers to acquire and heartbeat
    /// have the new validity, other answers what is left of it.
    pub valid_ms: Option<u64>,
    /// Time until the present phase (reservation, ttl, grace or revoke) ends.
    pub remaining_ms: Option<u64>,
    /// When the lease was granted.
    pub granted_at: Time,
    /// When the last heartbeat arrived; null if none arrived since the daemon started or an operator revived the lease.
    pub last_seen: Option<Time>,
    /// Since when the daemon waits for a heartbeat, if none arrived since it started or an operator revived the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unheard_since: Option<Time>,
    /// When the present phase ends.
    pub deadline: Option<Time>,
    /// When the lease ended.
    pub ended_at: Option<Time>,
    /// Reason code of the end or revoke.
    pub reason: Option<String>,
    /// Reason in the words of the caller who ended or revoked the lease.
    pub reason_text: Option<String>,
    /// Session or connection that keeps the lease.
    pub session: Option<String>,
    /// API that the lease was taken through.
    #[serde(flatten, with = "crate::former::application")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::former::application::Written"))]
    pub application: Application,
    /// JSON metadata of the holder.
    pub attachment: Option<Value>,
    /// Holders in the queue for its resources, in the answer for one lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiters: Option<Vec<String>>,
    /// Set if the answer is the outcome of an earlier request with the same idempotency key; the other fields show the
    /// lease as it is now.
    #[serde(default, skip_serializing_if = "is_false")]
    pub replayed: bool,
    /// Time of the daemon's clock.
    pub server_time: Time,
    /// Position in the log that the answer reflects.
    pub lsn: u64,
}

/// Answer to a heartbeat of a lease.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Renewed {
    /// Id of the lease.
    pub lease_id: String,
    /// Epoch of the lease.
    pub epoch: u64,
    /// Validity: how long the holder may act, counted from before it sent the request; null for leases of a connection,
    /// unless the daemon is a node of a cluster.
    pub valid_ms: Option<u64>,
    /// Time until the present phase ends.
    pub remaining_ms: Option<u64>,
    /// Set if an operator drained the lease: finish and release it.
    pub draining: bool,
    /// Time of the daemon's clock.
    pub server_time: Time,
    /// Position in the log that the answer reflects.
    pub lsn: u64,
}

/// A lease or a queue that is in the way of a grant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Blocking {
    /// Name of the resource.
    pub resource: String,
    /// Id of the lease that covers the resource; null if only earlier waiters are in the way.
    pub lease_id: Option<String>,
    /// Holder of that lease.
    pub holder: Option<String>,
    /// Since when it is held.
    pub since: Option<Time>,
    /// Time until the present phase of that lease ends.
    pub remaining_ms: Option<u64>,
    /// Number of requests in the queue for the resource.
    pub waiters: u64,
}

/// Which leases to list.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LeaseQuery {
    /// Show only leases of this holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Show only leases in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// Show only leases with this liveness.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub liveness: Option<Liveness>,
    /// Show only leases of this mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Show only leases with a resource whose name begins with this prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_prefix: Option<String>,
    /// Show only leases of this application; `face` is the former name.
    #[serde(default, alias = "face", skip_serializing_if = "Option::is_none")]
    pub application: Option<Application>,
    /// Maximum number of leases in a page, 1 to 1000 [default: 100].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1000)))]
    pub limit: Option<u64>,
    /// `next_cursor` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A page of live leases in order of id. A page may have fewer leases than `limit`; the last page has no cursor.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaseList {
    /// Leases of this page.
    pub leases: Vec<Lease>,
    /// `cursor` of the next page; null on the last page.
    pub next_cursor: Option<String>,
    /// Position in the log that the answer reflects. A watch from here misses no event.
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
