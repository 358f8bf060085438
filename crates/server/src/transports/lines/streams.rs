//! The streams of one connection. A stream never stops the reading, and once it is ended it says nothing
//! more: what answers its end is the last line with its tag.

use super::super::closing::{closing, last_events};
use super::super::outbox::Outbox;
use super::needs_tag;
use crate::server::Shared;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tenure_api::{Answer, AnswerLine, Browsed, Error, ErrorCode, EventsQuery, Tag};
use tenure_engine::kernel::Text;
use tenure_faces::{Caller, Counted, EventStream, Sightseeing, Streamed};
use tokio_util::sync::CancellationToken;

/// Streams of one connection.
const STREAMS_MAX: usize = 64;

/// What a stream tells of.
pub(super) enum Source {
    /// Leases.
    Events(EventsQuery),
    /// Services of a type.
    Browse(String),
    /// Everything seen of a type.
    Subscribe(String),
}

/// A stream that has begun.
pub(super) enum Running {
    Events(EventStream),
    Browse(Sightseeing),
    Subscribe(Sightseeing),
}

/// One stream.
#[derive(Clone)]
pub(super) struct Stream {
    ended: CancellationToken,
    /// Held while a line is said, so that an end falls between two.
    turn: Arc<Mutex<()>>,
    out: Outbox,
    tag: Option<Tag>,
    /// Given back with the last of the clones.
    _place: Arc<Counted<Text>>,
}

/// Streams that are open.
pub(super) struct Streams {
    by_tag: HashMap<Option<Tag>, Stream>,
    out: Outbox,
    /// Ends them all when nothing can be said any more.
    gone: CancellationToken,
    /// Nothing more is asked: what opens now ends at once.
    is_over: bool,
}

impl Streams {
    pub(super) fn new(out: Outbox, gone: CancellationToken) -> Self {
        Self { by_tag: HashMap::new(), out, gone, is_over: false }
    }

    /// A stream without a tag begins beside none with one. Whether another without a tag is open is known only when
    /// the lines before it are answered.
    pub(super) fn check_untagged(&mut self) -> Result<(), Error> {
        self.by_tag.retain(|_, stream| !stream.is_ended());
        if self.by_tag.keys().any(Option::is_some) { Err(needs_tag("a second stream")) } else { Ok(()) }
    }

    /// Makes room for one more.
    pub(super) fn open(
        &mut self,
        tag: Option<&Tag>,
        admit: impl FnOnce() -> Result<Counted<Text>, Error>,
    ) -> Result<Stream, Error> {
        self.by_tag.retain(|_, stream| !stream.is_ended());
        if self.by_tag.contains_key(&tag.cloned()) {
            return Err(match tag {
                None => needs_tag("a second stream"),
                Some(_) => Error::new(ErrorCode::InvalidRequest, "a stream with this tag is already open"),
            });
        }
        if self.by_tag.len() >= STREAMS_MAX {
            let message = format!("{STREAMS_MAX} streams are open on this connection, which is the limit");
            let error = Error::new(ErrorCode::Overloaded, message);
            return Err(error.with("limit", "watches_per_connection").with("value", STREAMS_MAX));
        }
        let place = admit()?;
        let stream = Stream {
            ended: self.gone.child_token(),
            turn: Arc::default(),
            out: self.out.clone(),
            tag: tag.cloned(),
            _place: Arc::new(place),
        };
        if self.is_over {
            stream.end();
        }
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
            _ => Err(Error::new(ErrorCode::NotFound, "no stream has this tag")),
        }
    }

    /// Ends them all. Where the daemon stops each ends by itself, after its last word.
    pub(super) fn end(&mut self, shared: &Shared) {
        if !shared.stopping().is_cancelled() {
            self.is_over = true;
            self.by_tag.values().for_each(Stream::end);
        }
    }
}

impl Running {
    async fn next(&mut self) -> Option<Answer> {
        match self {
            Self::Events(events) => events.next().await.map(told),
            Self::Browse(sights) => Some(match sights.next_browsed().await? {
                Browsed::Found { found } => Answer::Found(found),
                Browsed::Seen(sighting) => Answer::Discovery(sighting),
            }),
            Self::Subscribe(sights) => sights.next().await.map(Answer::Discovery),
        }
    }
}

fn told(streamed: Streamed) -> Answer {
    match streamed {
        Streamed::Event(event) => Answer::Event(event),
        Streamed::Lagged(lagged) => Answer::Lagged(lagged),
        Streamed::Trimmed(error) => Answer::Error(error),
    }
}

impl Stream {
    /// Begins to watch; what happens from now on will be told.
    pub(super) async fn begin(&self, shared: &Shared, caller: &Caller, source: Source) -> Option<Running> {
        let begun = match source {
            Source::Events(query) => shared.faces().events(query).await.map(Running::Events),
            Source::Browse(of) => shared.faces().browse(caller, Some(&of)).map(Running::Browse),
            Source::Subscribe(of) => shared.faces().browse(caller, Some(&of)).map(Running::Subscribe),
        };
        match begun {
            Ok(running) => Some(running),
            Err(error) => {
                self.end_with(Answer::Error(error));
                None
            }
        }
    }

    /// Tells what happens until the stream ends.
    pub(super) async fn run(self, shared: Arc<Shared>, mut running: Running) {
        let _end = self.ended.clone().drop_guard();
        let stopping = shared.stopping();
        loop {
            let next = tokio::select! {
                next = running.next() => next,
                () = self.ended.cancelled() => return,
                () = stopping.cancelled() => {
                    if let Running::Events(events) = &mut running {
                        last_events(events).await.into_iter().for_each(|last| self.say(told(last)));
                    }
                    return self.say(Answer::Event(Box::new(closing(&shared))));
                }
            };
            match next {
                Some(last @ (Answer::Lagged(_) | Answer::Error(_))) => return self.end_with(last),
                Some(answer) => self.say(answer),
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

    /// Ends the stream by its last line. Its tag is free before a peer can have read that.
    fn end_with(&self, last: Answer) {
        let _turn = self.turn();
        if !self.is_ended() {
            self.ended.cancel();
            self.out.say(&AnswerLine { answer: last, tag: self.tag.clone() });
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
