//! Events of one slot session (`/api/v3`): first its current state, then renewals, warnings and changes of state. The
//! stream ends with the session, or with an error when the daemon stops.

use crate::client::{Client, Manner, segment};
use crate::error::CallError;
use crate::messages::{Messages, unexpected};
use crate::sse::Message;
use core::fmt;
use http::Method;
use serde_json::Value;
use tenure_api::{Error, ErrorCode, SlotSession, SlotSessionEvent};

/// What they are called in errors.
const OF: &str = "the events of a session";

/// The events of one slot session.
pub struct SlotSessionEvents {
    messages: Messages,
}

impl Client {
    /// Opens the events of a slot session. The first event is its current state.
    ///
    /// # Errors
    /// `session_not_found`, ….
    pub async fn slot_session_events(&self, session_id: &str) -> Result<SlotSessionEvents, CallError> {
        let path = format!("/api/v3/sessions/{}/events", segment(session_id));
        let stream = self.ask_stream(Method::GET, &path, Manner::REPEATABLE).await?;
        Ok(SlotSessionEvents { messages: Messages::new(stream, OF) })
    }
}

impl SlotSessionEvents {
    /// The next event and the session after it; `None` after the end of the session was returned. Cancel safe.
    ///
    /// # Errors
    /// `shutting_down` if the daemon stops; or if the connection broke.
    pub async fn next(&mut self) -> Result<Option<(SlotSessionEvent, SlotSession)>, CallError> {
        while let Some(message) = self.messages.next().await? {
            let news = understand(&message).inspect_err(|_| self.messages.leave_node())?;
            if news.is_some() {
                return Ok(news);
            }
        }
        Ok(None)
    }
}

impl fmt::Debug for SlotSessionEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotSessionEvents").finish_non_exhaustive()
    }
}

/// `None`: news of a kind that is not known here, from a newer daemon.
fn understand(message: &Message) -> Result<Option<(SlotSessionEvent, SlotSession)>, CallError> {
    if message.event == "closing" {
        return Err(CallError::Rejected(Error::new(ErrorCode::ShuttingDown, "the daemon stops")));
    }
    let Ok(news) = serde_json::from_value(Value::from(message.event.as_str())) else { return Ok(None) };
    let stream = serde_json::from_str(&message.data).map_err(|error| unexpected(OF, error))?;
    Ok(Some((news, stream)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNNING: &str = r#"{"session_id":"5d0c","state":"running","lease_expires_at":"t","heartbeat_interval":5,
        "lease_ttl":60,"server_time":"t","resources":["tuner/1"],"fence":1,"epoch":1,"created_at":"t","client":"c",
        "lease_id":"k3f9-4","lsn":7,"of_a_newer_daemon":true}"#;

    fn message(event: &str, data: &str) -> Message {
        Message { id: None, event: event.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn news_have_a_kind_and_the_session() {
        let (news, stream) = understand(&message("lease.expiring", RUNNING)).expect("news").expect("known");
        assert_eq!((news, stream.resources), (SlotSessionEvent::Expiring, vec!["tuner/1".to_owned()]));
        assert_eq!(understand(&message("from.the.future", "{}")).expect("skipped"), None);
        assert!(understand(&message("state", "{}")).is_err());
        let closing = understand(&message("closing", "{}")).expect_err("the end");
        assert_eq!(closing.code(), Some(ErrorCode::ShuttingDown));
    }
}
