//! `why`: what happened to a lease, a resource or a session, a sentence each.

use crate::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Subject of a story; the request has exactly one of the fields.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WhyQuery {
    /// Id of a lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// Name of a resource or a pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Id of a registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<String>,
    /// Id of a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// History of a lease, resource, registration or session, one sentence per record.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Story {
    /// Id or name that the story is about.
    pub subject: String,
    /// Records, oldest first.
    pub entries: Vec<StoryEntry>,
    /// What will happen next; null if nothing is left to happen.
    pub next: Option<String>,
    /// Requests in the queue, the next one first; absent if the queue is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiters: Vec<Waiter>,
    /// Number of older records that the answer does not contain.
    pub left_out: u64,
    /// Oldest position that the daemon keeps.
    pub oldest_lsn: u64,
    /// The daemon's directory of older records, which `tenure log why` reads: the setting `log.archive`, or else the
    /// local log that a node moved aside when its log was adopted or moved. Absent without such a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
    /// Position in the log that the answer reflects.
    pub lsn: u64,
}

/// A request in the queue of a resource.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Waiter {
    /// Holder of the requested lease.
    pub holder: String,
    /// How long the request has waited.
    pub waited_ms: u64,
    /// Number of later requests that got one of its resources, because that resource was free and another one of the
    /// request was not.
    pub passed: u64,
}

/// One record of a story.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoryEntry {
    /// Position in the log.
    pub lsn: u64,
    /// When it happened.
    pub at: Time,
    /// Kind of the event.
    pub kind: String,
    /// Id of the lease that it concerns.
    pub lease_id: Option<String>,
    /// Cause: `holder`, `daemon`, or `operator:` and a principal.
    pub actor: Option<String>,
    /// Evidence on which the daemon acted, such as the last heartbeat.
    pub evidence: Option<Value>,
    /// What happened, in a sentence.
    pub text: String,
}
