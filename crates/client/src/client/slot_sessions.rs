//! The typed calls of `/api/v3`, one per route: slot sessions, each of which is one lease, usually over slots of a
//! pool. Their events are in `slot_session_events.rs`.

use super::{Client, IDEMPOTENCY_KEY, Manner, segment, with_query};
use crate::error::CallError;
use crate::operation::operation_id;
use crate::transport::Patience;
use core::time::Duration;
use http::{HeaderValue, Method};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_api::{
    Intent, SlotSession, SlotSessionFail, SlotSessionHeartbeat, SlotSessionList, SlotSessionQuery,
    SlotSessionRenewed, SlotSessionStart,
};

const SESSIONS: &str = "/api/v3/sessions";

/// Calls about slot sessions (`/api/v3/sessions`).
impl Client {
    /// Starts a slot session. Its state tells whether it runs, starts or queues.
    ///
    /// The same `key` with the same request returns the same session. Without a key, retries within this call do.
    ///
    /// # Errors
    /// `no_capacity` with `pool`, `size` and `in_use`, `operation_conflict`, ….
    pub async fn start_slot_session(
        &self,
        start: &SlotSessionStart,
        key: Option<&str>,
    ) -> Result<SlotSession, CallError> {
        let key = key.map_or_else(operation_id, str::to_owned);
        let key = HeaderValue::from_str(&key)
            .map_err(|error| CallError::Unsendable(format!("the key: {error}")))?;
        let manner = Manner { headers: vec![(IDEMPOTENCY_KEY, key)], ..Manner::REPEATABLE };
        let intent = Intent::Start(start.clone());
        self.ask(Method::POST, "/api/v3/intents", Some(&intent), manner).await
    }

    /// Returns a slot session; also an ended one, for as long as the daemon keeps it.
    ///
    /// # Errors
    /// `session_not_found`, ….
    pub async fn slot_session(&self, session_id: &str) -> Result<SlotSession, CallError> {
        self.stream_call(Method::GET, session_id, "", None::<&()>).await
    }

    /// Returns a page of slot sessions: queued, live and ended ones.
    ///
    /// # Errors
    /// `forbidden` without scope `admin`, ….
    pub async fn slot_sessions(&self, query: &SlotSessionQuery) -> Result<SlotSessionList, CallError> {
        self.ask(Method::GET, &with_query(SESSIONS, query)?, None::<&()>, Manner::REPEATABLE).await
    }

    /// Renews a slot session. With an epoch the call fails if that is no longer the session's.
    ///
    /// # Errors
    /// `session_not_found`, `session_expired` and `session_gone` are final; `rate_limited`, ….
    pub async fn heartbeat_slot_session(
        &self,
        session_id: &str,
        epoch: Option<u64>,
    ) -> Result<SlotSessionRenewed, CallError> {
        self.heartbeat_slot_session_within(session_id, epoch, Duration::MAX).await
    }

    /// Like [`Client::heartbeat_slot_session`], with a limit for the answer.
    ///
    /// # Errors
    /// As [`Client::heartbeat_slot_session`].
    pub async fn heartbeat_slot_session_within(
        &self,
        session_id: &str,
        epoch: Option<u64>,
        limit: Duration,
    ) -> Result<SlotSessionRenewed, CallError> {
        let path = format!("{SESSIONS}/{}/heartbeat", segment(session_id));
        let manner = Manner { patience: Patience::AtMost(limit), ..Manner::REPEATABLE };
        self.ask(Method::POST, &path, Some(&SlotSessionHeartbeat { epoch }), manner).await
    }

    /// Activates a starting slot session.
    ///
    /// # Errors
    /// `session_gone` if its start timed out, `invalid_state` while it queues, ….
    pub async fn activate_slot_session(&self, session_id: &str) -> Result<SlotSession, CallError> {
        self.stream_call(Method::POST, session_id, "/activate", None::<&()>).await
    }

    /// Ends a slot session as failed.
    ///
    /// # Errors
    /// `session_gone` if it has ended, ….
    pub async fn fail_slot_session(&self, session_id: &str, reason: &str) -> Result<SlotSession, CallError> {
        let body = SlotSessionFail { reason: reason.to_owned() };
        self.stream_call(Method::POST, session_id, "/fail", Some(&body)).await
    }

    /// Stops a slot session.
    ///
    /// # Errors
    /// `session_gone` if it has ended, ….
    pub async fn stop_slot_session(&self, session_id: &str) -> Result<SlotSession, CallError> {
        self.stream_call(Method::DELETE, session_id, "", None::<&()>).await
    }

    async fn stream_call<T: DeserializeOwned>(
        &self,
        method: Method,
        session_id: &str,
        verb: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T, CallError> {
        let path = format!("{SESSIONS}/{}{verb}", segment(session_id));
        self.ask(method, &path, body, Manner::REPEATABLE).await
    }
}
