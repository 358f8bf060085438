//! The typed calls of `/api/v3`, one per route: sessions that are one lease each, usually over slots of a pool. What
//! happens to one, as it happens, stands in `stream_events.rs`.

use super::{Client, IDEMPOTENCY_KEY, Manner, segment, with_query};
use crate::error::CallError;
use crate::operation::operation_id;
use crate::transport::Patience;
use core::time::Duration;
use http::{HeaderValue, Method};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_api::{
    Intent, Stream, StreamFail, StreamHeartbeat, StreamList, StreamQuery, StreamRenewed, StreamStart,
};

const SESSIONS: &str = "/api/v3/sessions";

/// Calls of `/api/v3`. What they call a session is a stream here: a session is what keeps leases alive.
impl Client {
    /// Asks for a session and its slots. Whether it runs, starts or queues is in its state.
    ///
    /// The same `key` with the same request gives the same session; without one, only tries of this call do.
    ///
    /// # Errors
    /// `no_capacity` with `pool`, `size` and `in_use`, `operation_conflict`, ….
    pub async fn start_stream(&self, start: &StreamStart, key: Option<&str>) -> Result<Stream, CallError> {
        let key = key.map_or_else(operation_id, str::to_owned);
        let key = HeaderValue::from_str(&key)
            .map_err(|error| CallError::Unsendable(format!("the key: {error}")))?;
        let manner = Manner { headers: vec![(IDEMPOTENCY_KEY, key)], ..Manner::REPEATABLE };
        let intent = Intent::Start(start.clone());
        self.ask(Method::POST, "/api/v3/intents", Some(&intent), manner).await
    }

    /// One session; also one that has ended, for as long as the daemon remembers it.
    ///
    /// # Errors
    /// `session_not_found`, ….
    pub async fn stream(&self, session_id: &str) -> Result<Stream, CallError> {
        self.stream_call(Method::GET, session_id, "", None::<&()>).await
    }

    /// A page of sessions: queued ones, live ones, ended ones.
    ///
    /// # Errors
    /// `forbidden` unless as an admin, ….
    pub async fn streams(&self, query: &StreamQuery) -> Result<StreamList, CallError> {
        self.ask(Method::GET, &with_query(SESSIONS, query)?, None::<&()>, Manner::REPEATABLE).await
    }

    /// Says that the client of a session lives. With an epoch it is refused once that is not the session's any more.
    ///
    /// # Errors
    /// `session_not_found`, `session_expired` and `session_gone` are final; `rate_limited`, ….
    pub async fn heartbeat_stream(
        &self,
        session_id: &str,
        epoch: Option<u64>,
    ) -> Result<StreamRenewed, CallError> {
        self.heartbeat_stream_within(session_id, epoch, Duration::MAX).await
    }

    /// The same, given up after this long: an answer that comes later is of no use.
    ///
    /// # Errors
    /// As [`Client::heartbeat_stream`].
    pub async fn heartbeat_stream_within(
        &self,
        session_id: &str,
        epoch: Option<u64>,
        limit: Duration,
    ) -> Result<StreamRenewed, CallError> {
        let path = format!("{SESSIONS}/{}/heartbeat", segment(session_id));
        let manner = Manner { patience: Patience::AtMost(limit), ..Manner::REPEATABLE };
        self.ask(Method::POST, &path, Some(&StreamHeartbeat { epoch }), manner).await
    }

    /// Takes a session that starts into use.
    ///
    /// # Errors
    /// `session_gone` when it took too long, `invalid_state` while it queues, ….
    pub async fn activate_stream(&self, session_id: &str) -> Result<Stream, CallError> {
        self.stream_call(Method::POST, session_id, "/activate", None::<&()>).await
    }

    /// Ends a session of one's own as failed.
    ///
    /// # Errors
    /// `session_gone` when it has ended, ….
    pub async fn fail_stream(&self, session_id: &str, reason: &str) -> Result<Stream, CallError> {
        let body = StreamFail { reason: reason.to_owned() };
        self.stream_call(Method::POST, session_id, "/fail", Some(&body)).await
    }

    /// Ends a session.
    ///
    /// # Errors
    /// `session_gone` when it has ended, ….
    pub async fn stop_stream(&self, session_id: &str) -> Result<Stream, CallError> {
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
