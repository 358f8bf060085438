//! The stream of events.

use crate::Time;
use crate::lease::{Application, DrainCause, Liveness, Mode, State};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The daemon granted a lease.
    Granted,
    /// The holder activated a reserved lease.
    Activated,
    /// A lease got another holder or session.
    Rebound,
    /// The holder replaced the attachment of a lease.
    Amended,
    /// The heartbeats of a lease stopped, or an operator drained it.
    Draining,
    /// The heartbeats of a lease resumed, or an operator revived it.
    Revived,
    /// The holder released a lease.
    Released,
    /// The daemon or an operator revoked a lease.
    Revoked,
    /// The resources of a revoked lease are free again.
    Reclaimed,
    /// A reservation ended before it was activated.
    Expired,
    /// A session was opened. A connection counts from its first lease.
    SessionOpened,
    /// A session ended.
    SessionClosed,
    /// A pool was created or resized.
    PoolDefined,
    /// A pool was removed.
    PoolRemoved,
    /// The reader was too slow and the stream ends; follow again from `resume`.
    Lagged,
    /// The daemon stops and the stream ends.
    Closing,
}

/// An event: one change in the log, or one change of liveness.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Event {
    /// Position in the log.
    pub lsn: u64,
    /// When the event happened.
    pub at: Time,
    /// Kind of the event.
    pub kind: EventKind,
    /// The lease after the event.
    pub lease: Option<EventLease>,
    /// Id of the session that the event concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Name of the pool that the event concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
}

/// The lease of an event. Fields that the event does not contain are null.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventLease {
    /// Id of the lease.
    pub lease_id: String,
    /// Holder of the lease.
    pub holder: Option<String>,
    /// Resources that the lease covers.
    pub resources: Option<Vec<String>>,
    /// State of the lease.
    pub state: Option<State>,
    /// Liveness; null unless the lease is active.
    pub liveness: Option<Liveness>,
    /// Why the lease drains; null unless it does.
    pub drain_cause: Option<DrainCause>,
    /// How the lease is kept alive.
    pub mode: Option<Mode>,
    /// Epoch of the lease.
    pub epoch: Option<u64>,
    /// Fencing token of the lease.
    pub fence: Option<u64>,
    /// How long one heartbeat keeps the lease.
    pub ttl_ms: Option<u64>,
    /// How long the lease is still held after a ttl without a heartbeat.
    pub grace_ms: Option<u64>,
    /// When it was granted.
    pub granted_at: Option<Time>,
    /// Reason code of the end or revoke.
    pub reason: Option<String>,
    /// Reason in the words of the caller who ended or revoked the lease.
    pub reason_text: Option<String>,
    /// Session or connection that keeps the lease.
    pub session: Option<String>,
    /// API that the lease was taken through.
    #[serde(flatten, with = "crate::former::maybe_application")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::former::maybe_application::Written"))]
    pub application: Option<Application>,
    /// JSON metadata of the holder.
    pub attachment: Option<Value>,
}

/// Message to a reader that was too slow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lagged {
    /// Position to follow from.
    pub resume: u64,
}

/// Options of an event stream.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// Send events after this position [default: only new events].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// Send only events of leases of this holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Send only events that leave a lease in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// Send only events that leave a lease with this liveness.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub liveness: Option<Liveness>,
    /// Send only events of leases of this mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Send only events of leases with a resource whose name begins with this prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_prefix: Option<String>,
    /// Send only events of leases of this application; `face` is the former name.
    #[serde(default, alias = "face", skip_serializing_if = "Option::is_none")]
    pub application: Option<Application>,
}
