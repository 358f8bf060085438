//! Streams of services found by mDNS. A stream ends after an idle time, if one was requested; a daemon that stops ends
//! it with an error.

use crate::client::{Client, Manner, with_query};
use crate::error::CallError;
use crate::messages::{Messages, unexpected};
use crate::sse::Message;
use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;
use http::Method;
use serde::de::DeserializeOwned;
use tenure_api::{BrowseQuery, Browsed, DiscoveryEvent, Error, ErrorCode};

/// What they are called in errors.
const OF: &str = "the stream of discovery events";

/// A stream of services or service types found on the network.
pub struct DiscoveryStream<T> {
    messages: Messages,
    of: PhantomData<fn() -> T>,
}

impl Client {
    /// Browses for services of a type or, without one, for service types. The stream ends after `idle_for` (whole
    /// seconds, rounded up) without a new result; zero means never.
    ///
    /// # Errors
    /// `invalid_type`, ….
    pub async fn browse(
        &self,
        service_type: Option<&str>,
        idle_for: Duration,
    ) -> Result<DiscoveryStream<Browsed>, CallError> {
        self.look("/v1/mdns/browse", service_type, idle_for).await
    }

    /// Reports every change of a type: found, resolved and removed. Ends like [`Client::browse`].
    ///
    /// # Errors
    /// `invalid_type`, ….
    pub async fn subscribe(
        &self,
        service_type: Option<&str>,
        idle_for: Duration,
    ) -> Result<DiscoveryStream<DiscoveryEvent>, CallError> {
        self.look("/v1/mdns/events", service_type, idle_for).await
    }

    async fn look<T>(
        &self,
        path: &str,
        service_type: Option<&str>,
        idle_for: Duration,
    ) -> Result<DiscoveryStream<T>, CallError> {
        let query = BrowseQuery { service_type: service_type.map(str::to_owned), idle_for: secs(idle_for) };
        let path = with_query(path, &query)?;
        let stream = self.ask_stream(Method::GET, &path, Manner::REPEATABLE).await?;
        Ok(DiscoveryStream { messages: Messages::new(stream, OF), of: PhantomData })
    }
}

impl<T: DeserializeOwned> DiscoveryStream<T> {
    /// The next result; `None` after the idle time. Cancel safe.
    ///
    /// # Errors
    /// `shutting_down` if the daemon stops; or if the connection broke.
    pub async fn next(&mut self) -> Result<Option<T>, CallError> {
        let Some(message) = self.messages.next().await? else { return Ok(None) };
        understand(&message).map(Some).inspect_err(|_| self.messages.leave_node())
    }
}

impl<T> fmt::Debug for DiscoveryStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiscoveryStream").finish_non_exhaustive()
    }
}

fn understand<T: DeserializeOwned>(message: &Message) -> Result<T, CallError> {
    if message.event == "closing" {
        return Err(CallError::Rejected(Error::new(ErrorCode::ShuttingDown, "the daemon stops")));
    }
    serde_json::from_str(&message.data).map_err(|error| unexpected(OF, error))
}

/// Whole seconds, never fewer than asked for; `None` is for ever.
fn secs(idle_for: Duration) -> Option<u64> {
    let whole = idle_for.as_secs() + u64::from(idle_for.subsec_nanos() > 0);
    (whole > 0).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_limit_is_rounded_up_and_zero_is_for_ever() {
        assert_eq!(secs(Duration::ZERO), None);
        assert_eq!(secs(Duration::from_millis(1)), Some(1));
        assert_eq!(secs(Duration::from_secs(5)), Some(5));
        assert_eq!(secs(Duration::from_millis(5_001)), Some(6));
    }

    #[test]
    fn a_message_is_what_is_seen_and_the_last_one_an_end() {
        let message =
            |event: &str, data: &str| Message { id: None, event: event.to_owned(), data: data.to_owned() };
        let found = message("", r#"{"found":{"name":"a","type":"_http._tcp","txt":{"flag":null}}}"#);
        let Browsed::Found { found } = understand(&found).expect("a discovery event") else {
            panic!("found")
        };
        assert_eq!(found.txt.get("flag"), Some(&None));
        let gone = message("", r#"{"event":"removed","service":{"name":"a","type":"_http._tcp"}}"#);
        assert!(matches!(understand(&gone), Ok(Browsed::Seen(_))));
        let closing = understand::<Browsed>(&message("closing", "{}")).expect_err("the end");
        assert_eq!(closing.code(), Some(ErrorCode::ShuttingDown));
        let nonsense = understand::<DiscoveryEvent>(&message("", "{}")).expect_err("nonsense");
        assert!(matches!(nonsense, CallError::Unexpected { .. }));
    }
}
