//! Events over a connection, beside everything else on it.

use super::desk::Reply;
use super::{Connection, verbs, written};
use crate::error::CallError;
use std::sync::atomic::Ordering;
use tenure_api::{Answer, Event, EventKind, EventsQuery, Tag, Verb};
use tokio::sync::mpsc;

/// Events that may wait for a slow reader; one more and its stream ends as lagged.
const EVENTS_MAX: usize = 4096;

/// Events as they happen, over a connection.
pub struct Watch {
    connection: Connection,
    tag: u64,
    lines: mpsc::Receiver<Answer>,
    last_lsn: u64,
    ended: bool,
}

impl Connection {
    /// Opens a stream of events.
    ///
    /// # Errors
    /// If the connection is closed; an error of the daemon comes with the first [`Watch::next`].
    pub async fn watch(&self, query: &EventsQuery) -> Result<Watch, CallError> {
        let shared = self.shared();
        let tag = shared.next_tag.fetch_add(1, Ordering::Relaxed);
        let line = written(Verb::Watch(query.clone()), tag)?;
        let (sender, lines) = mpsc::channel(EVENTS_MAX);
        let room = shared.lines.reserve().await.map_err(|_| shared.broken())?;
        if !shared.desk.expect(tag, Reply::Stream(sender)) {
            return Err(shared.broken());
        }
        room.send(line);
        let last_lsn = query.from.unwrap_or(0);
        Ok(Watch { connection: self.clone(), tag, lines, last_lsn, ended: false })
    }
}

impl Watch {
    /// The next event; `None` after the end. An event of kind [`EventKind::Lagged`] means that the reader was too slow:
    /// start again at its `lsn`.
    ///
    /// # Errors
    /// `lsn_trimmed`, or the connection closed.
    pub async fn next(&mut self) -> Result<Option<Event>, CallError> {
        if self.ended {
            return Ok(None);
        }
        let Some(answer) = self.lines.recv().await else {
            self.ended = true;
            if self.connection.is_closed() {
                return Err(self.connection.shared().broken());
            }
            return Ok(Some(lagged(self.last_lsn)));
        };
        match answer {
            Answer::Event(event) => {
                // The last word of a daemon that stops has no position.
                self.last_lsn = self.last_lsn.max(event.lsn);
                Ok(Some(*event))
            }
            Answer::Lagged(from) => {
                self.ended = true;
                Ok(Some(lagged(from.resume)))
            }
            Answer::Stopped(_) => {
                self.ended = true;
                Ok(None)
            }
            Answer::Error(error) => {
                self.ended = true;
                Err(CallError::Rejected(error))
            }
            other => Err(verbs::unexpected(&other)),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let shared = self.connection.shared();
        shared.desk.abandon(self.tag);
        if !self.ended && !self.connection.is_closed() {
            shared.send_later(Verb::Stop(Tag::number(self.tag)));
        }
    }
}

fn lagged(lsn: u64) -> Event {
    Event { lsn, at: String::new(), kind: EventKind::Lagged, lease: None, session: None, pool: None }
}
