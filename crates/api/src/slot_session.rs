//! Sessions of the surface `/api/v3`: one lease, usually over slots of a pool, that ends by itself when its client is
//! gone. In `faces` they are called streams.

use crate::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Request to start or stop a slot session.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", deny_unknown_fields)]
pub enum Intent {
    /// Start a slot session and take its slots.
    #[serde(rename = "stream.start")]
    Start(SlotSessionStart),
    /// Stop a slot session.
    #[serde(rename = "stream.stop")]
    Stop(SlotSessionStop),
}

/// Request for a slot session.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SlotSessionStart {
    /// Name of the work, chosen by the client; at most 1024 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_ref: Option<String>,
    /// Pool to take slots from [default: the setting `sessions.default_pool`, if `resources` is empty].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Number of slots [default: 1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 64)))]
    pub count: Option<u32>,
    /// Names of resources to take besides the slots or instead of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Seconds within which the client must activate the session [default: the session runs at once].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 86400)))]
    pub start_timeout: Option<u64>,
    /// JSON metadata of the client; at most 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Name of the holder [default: the principal].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Seconds to wait in the queue if no slot is free [default: the daemon answers with an error at once].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 3600)))]
    pub wait: Option<u64>,
    /// Text that the daemon returns with the session; at most 256 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
}

/// Slot session to stop.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SlotSessionStop {
    /// Id of the session.
    pub session_id: String,
}

/// State of a slot session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SlotSessionState {
    /// The session waits in the queue for a slot.
    New,
    /// The session has its slots; its client must activate it.
    Starting,
    /// The session is in use.
    Running,
    /// Its heartbeats stopped, or an operator drained it; the slots are still held until the grace ends.
    Draining,
    /// The session ended.
    Stopped,
    /// The session ended because its client did not activate it in time or reported a failure.
    Failed,
}

/// Outcome of an intent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum IntentStatus {
    /// The daemon carried it out.
    Accepted,
    /// The daemon had carried it out before, with the same idempotency key; the answer shows the session as it is now.
    IdempotentReplay,
}

/// A slot session: a client that holds slots of a pool.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlotSession {
    /// Id of the session, a UUID.
    pub session_id: String,
    /// Outcome of the intent; only in the answer to an intent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<IntentStatus>,
    /// State of the session.
    pub state: SlotSessionState,
    /// When the session ends without a further heartbeat (last heartbeat + ttl + grace) or activation. The client may
    /// act only for `valid_ms`, which excludes the grace. For an ended session: when it ended.
    pub lease_expires_at: Time,
    /// Seconds between heartbeats.
    pub heartbeat_interval: u64,
    /// When the last heartbeat arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heartbeat: Option<Time>,
    /// Seconds that one heartbeat lasts.
    pub lease_ttl: u64,
    /// Validity: how long the client may act, counted from before it sent its request; only while the session is in
    /// use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_ms: Option<u64>,
    /// Time of the daemon's clock.
    pub server_time: Time,
    /// Name of the work, chosen by the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_ref: Option<String>,
    /// Slots and resources that the session covers.
    pub resources: Vec<String>,
    /// Fencing token, which the protected system compares; null while the session is queued.
    pub fence: Option<u64>,
    /// Epoch of the lease: rises when the lease is withdrawn or changes hands; null while the session is queued.
    pub epoch: Option<u64>,
    /// Why the session ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Text from the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// When the client requested the session.
    pub created_at: Time,
    /// JSON metadata from the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Name of the holder, chosen by the client.
    pub client: String,
    /// True if the session belongs to the principal of the request; only in the answer for one session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<bool>,
    /// Place in the queue, 1 for the next; only while the session is queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_position: Option<u64>,
    /// Id of its lease in `/v1/leases`; null while the session is queued.
    pub lease_id: Option<String>,
    /// When the session ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// Position in the log that the answer reflects.
    pub lsn: u64,
}

/// A page of slot sessions. A page may have fewer sessions than `limit`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlotSessionList {
    /// Queued sessions, then live ones in order of their leases, then ended ones in order of their ends.
    pub sessions: Vec<SlotSession>,
    /// `cursor` of the next page; null on the last page.
    pub next_cursor: Option<String>,
    /// Position in the log that the answer reflects.
    pub lsn: u64,
}

/// Slot sessions to list.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SlotSessionQuery {
    /// Show only sessions in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<SlotSessionState>,
    /// Maximum number of sessions in a page, 1 to 1000 [default: 100].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1000)))]
    pub limit: Option<u64>,
    /// `next_cursor` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Heartbeat of a slot session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SlotSessionHeartbeat {
    /// Epoch of the session; if given, the daemon rejects the call when the session has another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
}

/// Activation of a slot session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SlotSessionActivate {
    /// Epoch of the session; if given, the daemon rejects the call when the session has another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
}

/// Report of the client that its session failed.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SlotSessionFail {
    /// Reason in the words of the client; at most 249 bytes.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 249)))]
    pub reason: String,
}

/// Answer to a heartbeat of a slot session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlotSessionRenewed {
    /// Id of the session.
    pub session_id: String,
    /// When the session ends without a further heartbeat.
    pub lease_expires_at: Time,
    /// Always true.
    pub acknowledged: bool,
    /// Time of the daemon's clock.
    pub server_time: Time,
    /// Seconds until the next heartbeat is due.
    pub next_heartbeat_in: u64,
    /// Validity: how long the client may act, counted from before it sent its request; null before the session is in
    /// use.
    pub valid_ms: Option<u64>,
    /// Position in the log that the answer reflects.
    pub lsn: u64,
}

/// Kind of an event in the stream of one slot session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum SlotSessionEvent {
    /// The session as it is; always the first event.
    #[serde(rename = "snapshot")]
    Snapshot,
    /// A heartbeat arrived; at most one event per second.
    #[serde(rename = "lease.renewed")]
    Renewed,
    /// A third of the ttl is left.
    #[serde(rename = "lease.expiring")]
    Expiring,
    /// The session ended because no heartbeat arrived.
    #[serde(rename = "lease.expired")]
    Expired,
    /// The state of the session changed.
    #[serde(rename = "state")]
    State,
}

impl SlotSessionEvent {
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

impl SlotSessionState {
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

/// An error as `application/problem+json` (RFC 9457), the format of all errors under `/api/v3`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Problem {
    /// `urn:tenure:error:` and the error code.
    #[serde(rename = "type")]
    pub kind: String,
    /// Meaning of the error code.
    pub title: String,
    /// HTTP status.
    pub status: u16,
    /// Error code.
    pub code: crate::ErrorCode,
    /// What failed, with the value, and why.
    pub detail: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Path of the page on the daemon that explains the code: `/docs/errors#CODE`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub docs: String,
    /// Id of this request in the daemon's log.
    pub request_id: String,
    /// Id of the session that the error concerns; null if it concerns none.
    pub session_id: Option<String>,
    /// More fields, depending on the code: `pool`, `size`, `in_use`, `state`, `reason`, `limit`, ….
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
            SlotSessionState::New,
            SlotSessionState::Starting,
            SlotSessionState::Running,
            SlotSessionState::Draining,
            SlotSessionState::Stopped,
            SlotSessionState::Failed,
        ] {
            assert_eq!(serde_json::to_value(state).expect("a word"), state.as_str());
        }
        for news in [
            SlotSessionEvent::Snapshot,
            SlotSessionEvent::Renewed,
            SlotSessionEvent::Expiring,
            SlotSessionEvent::Expired,
            SlotSessionEvent::State,
        ] {
            assert_eq!(serde_json::to_value(news).expect("a word"), news.as_str());
        }
    }
}
