//! `why`: what happened to a lease, a resource or a session, a sentence each.

use crate::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Whose story; exactly one is given.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WhyQuery {
    /// A lease by its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// A resource or a pool by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// A registration by its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<String>,
    /// A session by its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// What is known of a subject.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Story {
    /// Whom it is about.
    pub subject: String,
    /// Oldest first.
    pub entries: Vec<StoryEntry>,
    /// What would happen next; null when nothing is left to happen.
    pub next: Option<String>,
    /// Who waits for it, the next one first; left out where nobody does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiters: Vec<Waiter>,
    /// Older records that were left out.
    pub left_out: u64,
    /// The oldest position that is kept.
    pub oldest_lsn: u64,
    /// The daemon's directory of what is older (`log.archive`), which `tenure log why` reads; left out where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
    /// As of this position in the log.
    pub lsn: u64,
}

/// Who waits.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Waiter {
    /// Who is to hold it.
    pub holder: String,
    /// For how long it has waited.
    pub waited_ms: u64,
    /// How many later requests were granted something that it wants, because together they could be.
    pub passed: u64,
}

/// One thing that happened.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoryEntry {
    /// Its position in the log.
    pub lsn: u64,
    /// When.
    pub at: Time,
    /// What kind of thing.
    pub kind: String,
    /// The lease it concerns.
    pub lease_id: Option<String>,
    /// Who caused it.
    pub actor: Option<String>,
    /// What the daemon had seen.
    pub evidence: Option<Value>,
    /// What happened, in a sentence.
    pub text: String,
}
