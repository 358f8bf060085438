//! The streams of one connection. A stream never stops the reading, and once it is ended it says nothing
//! more: what answers its end is the last line with its tag.

use super::super::outbox::Outbox;
use super::needs_tag;
use crate::server::Shared;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tenure_api::{Answer, AnswerLine, Error, ErrorCode, Event, EventKind, EventsQuery, Tag};
use tenure_faces::{EventStream, Streamed};
use tokio_util::sync::CancellationToken;

/// Streams of one connection.
const STREAMS_MAX: usize = 64;

/// One stream.
#[derive(Clone)]
pub(super) struct Stream {
    ended: CancellationToken,
    /// Held while a line is said, so that an end falls between two.
    turn: Arc<Mutex<()>>,
    out: Outbox,
    tag: Option<Tag>,
}

/// Streams that are open.
pub(super) struct Streams {
    by_tag: HashMap<Option<Tag>, Stream>,
    out: Outbox,
    /// Ends them all when the connection does.
    over: CancellationToken,
}

impl Streams {
    pub(super) fn new(out: Outbox, over: CancellationToken) -> Self {
        Self { by_tag: HashMap::new(), out, over }
    }

    /// Makes room for one more. Only one that is alone may be without a tag.
    pub(super) fn open(&mut self, tag: Option<&Tag>) -> Result<Stream, Error> {
        self.by_tag.retain(|_, stream| !stream.is_ended());
        if tag.is_none() && !self.by_tag.is_empty() {
            return Err(needs_tag("a second stream"));
        }
        if self.by_tag.contains_key(&tag.cloned()) {
            let message = "a stream with this tag is open already";
            return Err(Error::new(ErrorCode::InvalidRequest, message));
        }
        if self.by_tag.len() >= STREAMS_MAX {
            let message = format!("a connection has at most {STREAMS_MAX} streams");
            return Err(Error::new(ErrorCode::Overloaded, message));
        }
        let stream = Stream {
            ended: self.over.child_token(),
            turn: Arc::default(),
            out: self.out.clone(),
            tag: tag.cloned(),
        };
        self.by_tag.insert(tag.cloned(), stream.clone());
        Ok(stream)
    }

    /// Ends the stream with this tag.
    pub(super) fn stop(&mut self, tag: Tag) -> Result<Answer, Error> {
        let tag = Some(tag);
        match (self.by_tag.remove(&tag).filter(|stream| !stream.is_ended()), tag) {
            (Some(stream), Some(tag)) => {
                stream.end();
                Ok(Answer::Stopped(tag))
            }
            _ => Err(Error::new(ErrorCode::NotFound, "there is no stream with this tag")),
        }
    }

    /// Ends them all; where the daemon stops, each says so.
    pub(super) fn end(self, shared: &Shared) {
        for stream in self.by_tag.into_values().filter(|stream| !stream.is_ended()) {
            stream.end();
            if shared.stopping().is_cancelled() {
                let answer = Answer::Event(Box::new(closing(shared)));
                self.out.say(&AnswerLine { answer, tag: stream.tag });
            }
        }
    }
}

impl Stream {
    /// Begins to watch; what happens from now on will be told.
    pub(super) async fn begin(&self, shared: &Shared, query: EventsQuery) -> Option<EventStream> {
        match shared.faces().events(query).await {
            Ok(events) => Some(events),
            Err(error) => {
                self.say(Answer::Error(error));
                self.end();
                None
            }
        }
    }

    /// Tells what happens until the stream ends.
    pub(super) async fn run(self, mut events: EventStream) {
        let _end = self.ended.clone().drop_guard();
        loop {
            let next = tokio::select! {
                next = events.next() => next,
                () = self.ended.cancelled() => return,
            };
            match next {
                Some(Streamed::Event(event)) => self.say(Answer::Event(event)),
                Some(Streamed::Lagged(lagged)) => return self.say(Answer::Lagged(lagged)),
                Some(Streamed::Trimmed(error)) => return self.say(Answer::Error(error)),
                None => return,
            }
            // A peer that does not read is not read for: the engine then says that it lags.
            self.out.drained(&self.ended).await;
        }
    }

    fn say(&self, answer: Answer) {
        let _turn = self.turn();
        if !self.is_ended() {
            self.out.say(&AnswerLine { answer, tag: self.tag.clone() });
        }
    }

    fn end(&self) {
        let _turn = self.turn();
        self.ended.cancel();
    }

    fn is_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().expect("invariant: nobody panics while a line is said")
    }
}

/// The last event of a stream that ends because the daemon stops.
pub(crate) fn closing(shared: &Shared) -> Event {
    Event { lsn: 0, at: shared.time_now(), kind: EventKind::Closing, lease: None, session: None, pool: None }
}
