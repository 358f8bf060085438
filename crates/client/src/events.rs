//! The stream of events. It ends when the daemon stops or the reader is too slow; a resuming stream continues after the
//! last event it returned and misses none.

use crate::backoff::Backoff;
use crate::client::{Client, Manner, with_query};
use crate::error::CallError;
use crate::messages::{Messages, unexpected};
use crate::sse::Message;
use core::time::Duration;
use http::{HeaderName, HeaderValue, Method};
use tenure_api::{Event, EventKind, EventsQuery, Lagged};

/// What they are called in errors.
const OF: &str = "the stream of events";

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Events as they happen.
pub struct Events {
    client: Client,
    query: EventsQuery,
    manner: OnEnd,
    last_id: Option<String>,
    connection: Option<Messages>,
    backoff: Backoff,
    resumptions: u64,
}

/// What the end of a connection means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnEnd {
    Ends,
    Resumes,
}

impl Client {
    /// Opens a stream of events. The connection is open when this returns.
    ///
    /// # Errors
    /// `lsn_trimmed` with `oldest`, or see [`CallError`].
    pub async fn events(&self, query: EventsQuery) -> Result<Events, CallError> {
        let mut events = Events {
            client: self.clone(),
            query,
            manner: OnEnd::Ends,
            last_id: None,
            connection: None,
            backoff: Backoff::new(Duration::from_millis(50), Duration::from_secs(2)),
            resumptions: 0,
        };
        events.connect().await?;
        Ok(events)
    }
}

impl Events {
    /// Makes the stream resume after the last event whenever its connection ends: because the daemon was restarted or
    /// the reader was too slow. With several nodes it may resume at another one. If no event came yet, it reads the
    /// current position first, so that it misses nothing.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn resuming(mut self) -> Result<Self, CallError> {
        if self.query.from.is_none() && self.last_id.is_none() {
            // The connection is open already: what happens from here on comes twice rather than never, and
            // is begun anew from the position.
            self.query.from = Some(self.client.status().await?.synced_lsn);
            self.connect().await?;
        }
        self.manner = OnEnd::Resumes;
        Ok(self)
    }

    /// The next event. `None` when the daemon ended the stream; a resuming stream never returns it.
    ///
    /// An event of kind [`EventKind::Lagged`] means that the reader was too slow: start again at its `lsn`.
    /// [`EventKind::Closing`] means that the daemon stops. A resuming stream returns neither.
    ///
    /// # Errors
    /// If the connection broke or, resuming, if the daemon rejects the continuation: `lsn_trimmed`, `unauthorized`, ….
    pub async fn next(&mut self) -> Result<Option<Event>, CallError> {
        match self.manner {
            OnEnd::Ends => self.next_of_connection().await,
            OnEnd::Resumes => self.next_of_many_connections().await.map(Some),
        }
    }

    /// The id of the last event that was returned; opaque. Pass it to [`Events::after`] of any client's stream.
    #[must_use]
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// How often a resuming stream has reconnected.
    #[must_use]
    pub fn resumptions(&self) -> u64 {
        self.resumptions
    }

    /// Restarts the stream after the event with this id.
    ///
    /// # Errors
    /// `lsn_trimmed` with `oldest`, or see [`CallError`].
    pub async fn after(mut self, last_id: &str) -> Result<Self, CallError> {
        self.last_id = Some(last_id.to_owned());
        self.connect().await?;
        Ok(self)
    }

    async fn connect(&mut self) -> Result<(), CallError> {
        self.connection = None;
        let mut query = self.query.clone();
        let mut manner = Manner::REPEATABLE;
        if let Some(last_id) = &self.last_id {
            query.from = None;
            let value = HeaderValue::from_str(last_id)
                .map_err(|error| CallError::Unsendable(format!("the last id: {error}")))?;
            manner.headers.push((LAST_EVENT_ID, value));
        }
        let path = with_query("/v1/events", &query)?;
        let stream = self.client.ask_stream(Method::GET, &path, manner).await?;
        self.connection = Some(Messages::new(stream, OF));
        Ok(())
    }

    async fn next_of_many_connections(&mut self) -> Result<Event, CallError> {
        loop {
            if self.connection.is_none() {
                match self.connect().await {
                    Ok(()) => self.resumptions += 1,
                    Err(error) => {
                        let pause = pause_before_retry(&error, &mut self.backoff).ok_or(error)?;
                        tokio::time::sleep(pause).await;
                        continue;
                    }
                }
            }
            match self.next_of_connection().await {
                Ok(Some(event)) => match event.kind {
                    EventKind::Lagged => {
                        self.last_id = None;
                        self.query.from = Some(event.lsn);
                    }
                    EventKind::Closing => {}
                    _ => {
                        self.backoff.reset();
                        return Ok(event);
                    }
                },
                Ok(None) => {}
                Err(error @ CallError::Unexpected { .. }) => return Err(error),
                Err(error) => tracing::debug!(%error, "event stream ended"),
            }
            // A daemon that ends every stream at once is not asked without pause.
            self.connection = None;
            tokio::time::sleep(self.backoff.next_pause()).await;
        }
    }

    async fn next_of_connection(&mut self) -> Result<Option<Event>, CallError> {
        let Some(messages) = &mut self.connection else { return Ok(None) };
        let Some(message) = messages.next().await? else {
            messages.leave_node();
            return Ok(None);
        };
        let event = understand(&message)?;
        if event.kind == EventKind::Closing {
            messages.leave_node();
        }
        // Where to resume is a position, not the id of an event that was given.
        if event.kind != EventKind::Lagged && message.id.is_some() {
            self.last_id = message.id;
        }
        Ok(Some(event))
    }
}

fn understand(message: &Message) -> Result<Event, CallError> {
    if message.event == "lagged" {
        let lagged: Lagged = serde_json::from_str(&message.data).map_err(|error| unexpected(OF, error))?;
        return Ok(event_without_lease(EventKind::Lagged, lagged.resume));
    }
    if message.event == "closing" {
        // Nothing in it is needed, so nothing in it can be wrong.
        let closing = serde_json::from_str(&message.data);
        return Ok(closing.unwrap_or_else(|_| event_without_lease(EventKind::Closing, 0)));
    }
    serde_json::from_str(&message.data).map_err(|error| unexpected(OF, error))
}

fn event_without_lease(kind: EventKind, lsn: u64) -> Event {
    Event { lsn, at: String::new(), kind, lease: None, session: None, pool: None }
}

/// `None` where asking again cannot help.
fn pause_before_retry(error: &CallError, backoff: &mut Backoff) -> Option<Duration> {
    match error {
        CallError::Rejected(refused) => {
            let advised = Duration::from_millis(refused.retry_after_ms?);
            Some(advised.max(backoff.next_pause()))
        }
        CallError::Unreachable { .. } | CallError::Broken { .. } | CallError::TimedOut { .. } => {
            Some(backoff.next_pause())
        }
        CallError::Unexpected { .. } | CallError::Unsendable(_) => None,
    }
}
