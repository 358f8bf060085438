//! Sessions of the surface `/api/v3`: one lease, usually over slots of a pool, that ends by itself when its client is
//! gone. In code they are called streams, because a session is what keeps leases alive.

use crate::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a client intends.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", deny_unknown_fields)]
pub enum Intent {
    /// A session with its slots.
    #[serde(rename = "stream.start")]
    Start(StreamStart),
    /// The end of one.
    #[serde(rename = "stream.stop")]
    Stop(StreamStop),
}

/// How a session is asked for.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StreamStart {
    /// What the session is about, in the client's words; at most 1024 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_ref: Option<String>,
    /// Pool that slots are taken from; the configured one where neither `pool` nor `resources` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// How many slots; 1 unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 64)))]
    pub count: Option<u32>,
    /// Resources by name, besides the slots or instead of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Seconds within which the session must be activated; without it, it runs at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 86400)))]
    pub start_timeout: Option<u64>,
    /// Whatever the client wants to keep with it; at most 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Who holds it; the principal unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Seconds to queue for a slot where none is free; without it the answer is a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 3600)))]
    pub wait: Option<u64>,
    /// Comes back with the session; at most 256 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
}

/// Which session is to end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StreamStop {
    /// Its id.
    pub session_id: String,
}

/// Where a session is in its life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StreamState {
    /// Queued for a slot.
    New,
    /// Has its slots and must be activated.
    Starting,
    /// In use.
    Running,
    /// Silent, or told to end by an operator; honoured for a while yet.
    Draining,
    /// Ended.
    Stopped,
    /// Ended without having been of use, or failed by its client.
    Failed,
}

/// Whether an intent made a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum IntentStatus {
    /// It was carried out.
    Accepted,
    /// It had been carried out before; the session is shown as it is now.
    IdempotentReplay,
}

/// A session.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stream {
    /// Its id, a UUID.
    pub session_id: String,
    /// Only in the answer to an intent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<IntentStatus>,
    /// Where it is in its life.
    pub state: StreamState,
    /// Valid before this instant: last proof of life + ttl + grace, or the deadline to activate. Of an ended
    /// session, when it ended.
    pub lease_expires_at: Time,
    /// Seconds between heartbeats.
    pub heartbeat_interval: u64,
    /// When the last one came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heartbeat: Option<Time>,
    /// Seconds that one heartbeat lasts.
    pub lease_ttl: u64,
    /// How long the client may act, counted from before it sent its request; only while the session is in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_ms: Option<u64>,
    /// The daemon's clock.
    pub server_time: Time,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_ref: Option<String>,
    /// Slots and resources it covers.
    pub resources: Vec<String>,
    /// What guarded stores compare; null while it is queued.
    pub fence: Option<u64>,
    /// Rises with each change of authority; null while it is queued.
    pub epoch: Option<u64>,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// As it was asked with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// When it was asked for.
    pub created_at: Time,
    /// As it was asked with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Who holds it, in words that the client chose.
    pub client: String,
    /// Whether it belongs to the principal that asks; only where one session is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<bool>,
    /// Its place in the queue, 1 for the next; only while it is queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_position: Option<u64>,
    /// Its lease on the native surface; null while it is queued.
    pub lease_id: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// As of this position in the log.
    pub lsn: u64,
}

/// A page of sessions.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamList {
    /// Queued ones, live ones in order of lease, ended ones in order of their ends.
    pub sessions: Vec<Stream>,
    /// Where to go on; null at the end. A page may be short.
    pub next_cursor: Option<String>,
    /// As of this position in the log.
    pub lsn: u64,
}

/// Which sessions.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StreamQuery {
    /// Only those in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StreamState>,
    /// At most this many, 1 to 1000 [default: 100].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1000)))]
    pub limit: Option<u64>,
    /// `next_cursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A client says that it lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StreamHeartbeat {
    /// Only if this is still the session's epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
}

/// A client takes its session into use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StreamActivate {
    /// Only if this is still the session's epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
}

/// A client gives up.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StreamFail {
    /// Why; at most 249 bytes.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 249)))]
    pub reason: String,
}

/// A heartbeat counted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamRenewed {
    /// The session.
    pub session_id: String,
    /// Valid before this instant.
    pub lease_expires_at: Time,
    /// Always true.
    pub acknowledged: bool,
    /// The daemon's clock.
    pub server_time: Time,
    /// Seconds until the next one is due.
    pub next_heartbeat_in: u64,
    /// How long the client may act, counted from before it sent its request; null before the session is in use.
    pub valid_ms: Option<u64>,
    /// As of this position in the log.
    pub lsn: u64,
}

/// What a stream of one session tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum StreamNews {
    /// The session as it is; always first.
    #[serde(rename = "snapshot")]
    Snapshot,
    /// A heartbeat came; told at most once a second.
    #[serde(rename = "lease.renewed")]
    Renewed,
    /// A third of the ttl is left.
    #[serde(rename = "lease.expiring")]
    Expiring,
    /// It ended for silence.
    #[serde(rename = "lease.expired")]
    Expired,
    /// Its state changed.
    #[serde(rename = "state")]
    State,
}

impl StreamNews {
    /// Wire word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Renewed => "lease.renewed",
            Self::Expiring => "lease.expiring",
            Self::Expired => "lease.expired",
            Self::State => "state",
        }
    }
}

impl StreamState {
    /// Wire word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Draining => "draining",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Stopped | Self::Failed)
    }
}

/// An error as `application/problem+json` (RFC 9457), which everything under `/api/v3` answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Problem {
    /// `urn:tenure:error:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// What the code means.
    pub title: String,
    /// Status over HTTP.
    pub status: u16,
    /// Which error.
    pub code: crate::ErrorCode,
    /// What failed, and why.
    pub detail: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Path of the daemon's page that explains the code: `/docs/errors#CODE`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub docs: String,
    /// Names this request in the daemon's log.
    pub request_id: String,
    /// The session it is about; null where it is about none.
    pub session_id: Option<String>,
    /// More, depending on the code: `pool`, `size`, `in_use`, `state`, `reason`, ….
    #[serde(flatten)]
    pub details: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intent_is_told_by_its_type_and_refuses_what_it_does_not_know() {
        let start: Intent =
            serde_json::from_str(r#"{"type":"stream.start","pool":"gpu","count":2}"#).expect("ok");
        let Intent::Start(start) = start else { panic!("another intent") };
        assert_eq!((start.pool.as_deref(), start.count), (Some("gpu"), Some(2)));
        let refused = |text: &str| serde_json::from_str::<Intent>(text).expect_err("refused").to_string();
        assert!(refused(r#"{"type":"stream.start","pol":"gpu"}"#).contains("pol"));
        assert!(refused(r#"{"type":"stream.pause"}"#).contains("stream.pause"));
        assert!(refused(r#"{"type":"stream.stop"}"#).contains("session_id"));
        assert!(refused("{}").contains("type"));
    }

    #[test]
    fn words_on_the_wire_are_those_of_serde() {
        for state in [
            StreamState::New,
            StreamState::Starting,
            StreamState::Running,
            StreamState::Draining,
            StreamState::Stopped,
            StreamState::Failed,
        ] {
            assert_eq!(serde_json::to_value(state).expect("a word"), state.as_str());
        }
        for news in [
            StreamNews::Snapshot,
            StreamNews::Renewed,
            StreamNews::Expiring,
            StreamNews::Expired,
            StreamNews::State,
        ] {
            assert_eq!(serde_json::to_value(news).expect("a word"), news.as_str());
        }
    }
}
