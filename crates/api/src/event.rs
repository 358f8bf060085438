//! The stream of events.

use crate::Time;
use crate::lease::{Application, DrainCause, Liveness, Mode, State};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What kind of thing happened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A lease began.
    Granted,
    /// A reserved lease went into use.
    Activated,
    /// A lease moved to a new holder or session.
    Rebound,
    /// An attachment was replaced.
    Amended,
    /// Proof of life stopped, or an operator drained the lease.
    Draining,
    /// Proof of life resumed, or an operator took the drain back.
    Revived,
    /// The holder gave the lease back.
    Released,
    /// Authority was withdrawn.
    Revoked,
    /// The resources of a revoked lease became reusable.
    Reclaimed,
    /// A reservation ran out.
    Expired,
    /// A session became durable.
    SessionOpened,
    /// A session ended.
    SessionClosed,
    /// A pool was created or resized.
    PoolDefined,
    /// A pool was removed.
    PoolRemoved,
    /// The reader was too slow; begin again where `resume` says.
    Lagged,
    /// The daemon stops; the stream ends.
    Closing,
}

/// One thing that happened.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Event {
    /// Its position in the log.
    pub lsn: u64,
    /// When.
    pub at: Time,
    /// What kind of thing.
    pub kind: EventKind,
    /// The lease it concerns, as the event left it.
    pub lease: Option<EventLease>,
    /// The session it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The pool it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
}

/// What an event tells of its lease. What it does not tell is null.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventLease {
    /// Its id.
    pub lease_id: String,
    /// Who holds it.
    pub holder: Option<String>,
    /// What it covers.
    pub resources: Option<Vec<String>>,
    /// Where it is in its life.
    pub state: Option<State>,
    /// Its standing.
    pub liveness: Option<Liveness>,
    /// Why it drains.
    pub drain_cause: Option<DrainCause>,
    /// How its holder proves that it lives.
    pub mode: Option<Mode>,
    /// Its epoch.
    pub epoch: Option<u64>,
    /// Its fence.
    pub fence: Option<u64>,
    /// How long one proof of life lasts.
    pub ttl_ms: Option<u64>,
    /// How long silence is forgiven.
    pub grace_ms: Option<u64>,
    /// When it was granted.
    pub granted_at: Option<Time>,
    /// Why it ended, or is being ended.
    pub reason: Option<String>,
    /// Why, in words.
    pub reason_text: Option<String>,
    /// The session that keeps it.
    pub session: Option<String>,
    /// Which application it belongs to.
    #[serde(flatten, with = "crate::former::maybe_application")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::former::maybe_application::Written"))]
    pub application: Option<Application>,
    /// The holder's own.
    pub attachment: Option<Value>,
}

/// The reader was too slow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lagged {
    /// Where to begin again.
    pub resume: u64,
}

/// Which events, and from where.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// Events after this position; without it, what happens from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// Only those of this holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Only those that leave a lease in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// Only those that leave a lease with this liveness.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub liveness: Option<Liveness>,
    /// Only those of leases of this mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Only those of leases that cover a resource whose name begins so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_prefix: Option<String>,
    /// Only those of this application; `face` is the former name.
    #[serde(default, alias = "face", skip_serializing_if = "Option::is_none")]
    pub application: Option<Application>,
}
