//! What happens to one session as server-sent events; between nodes, as lines of JSON.

use super::body::{Pieces, stream};
use super::events::KEEP_ALIVE;
use super::{Answered, media, passing};
use crate::node::{FOLLOW_PATH, FollowedLine, FollowedOn};
use crate::routes::Parts;
use crate::server::Shared;
use crate::transports::closing::closing;
use bytes::Bytes;
use http::{HeaderValue, Method, Request};
use hyper::body::Incoming;
use std::sync::Arc;
use tenure_api::{Error, SlotSession, SlotSessionEvent};
use tenure_faces::SessionEvents;

const WRITTEN: &str = "invariant: sessions can be written";

/// Begins a stream; that there is no such session is said before it begins.
pub(super) async fn begin(shared: &Arc<Shared>, id: &str) -> Result<Answered, Error> {
    let events = shared.stage().follow_session(id).await?;
    let (pieces, body) = stream();
    shared.tasks().spawn(pump(Arc::clone(shared), events, pieces, Form::Events { number: 0 }));
    Ok(media(HeaderValue::from_static("text/event-stream"), body))
}

/// Whether a request is another node's, on behalf of its own caller.
pub(super) fn is_passed(request: &Request<Incoming>) -> bool {
    request.method() == Method::GET && request.uri().path() == FOLLOW_PATH
}

/// Tells another node what happens to a session, while this node leads.
pub(super) async fn answer_node(shared: &Arc<Shared>, request: Request<Incoming>) -> Result<Answered, Error> {
    passing::admit(shared, &request)?;
    let query = request.uri().query().unwrap_or("");
    let asked: FollowedOn = Parts { params: &[], query, body: &[] }.query()?;
    let (session_id, told) = asked.into_parts();
    let events = shared.stage().follow_session_for_node(&session_id, told).await?;
    let (pieces, body) = stream();
    shared.tasks().spawn(pump(Arc::clone(shared), events, pieces, Form::Lines));
    Ok(media(HeaderValue::from_static("application/x-ndjson"), body))
}

/// How news are written.
enum Form {
    /// For callers, counted.
    Events { number: u64 },
    /// For another node.
    Lines,
}

impl Form {
    fn news(&mut self, news: SlotSessionEvent, session: SlotSession) -> Bytes {
        match self {
            Self::Events { number } => {
                *number += 1;
                let data = serde_json::to_string(&session).expect(WRITTEN);
                format!("id: {number}\nevent: {}\ndata: {data}\n\n", news.as_str()).into()
            }
            Self::Lines => {
                let mut line = serde_json::to_vec(&FollowedLine { news, session }).expect(WRITTEN);
                line.push(b'\n');
                line.into()
            }
        }
    }

    fn still_here(&self) -> Bytes {
        match self {
            Self::Events { .. } => Bytes::from_static(b": still here\n\n"),
            Self::Lines => Bytes::from_static(b"\n"),
        }
    }

    /// The daemon stops. Another node goes on at the next leader without a word.
    fn last(&self, shared: &Shared) -> Option<Bytes> {
        match self {
            Self::Events { .. } => {
                let last = serde_json::to_string(&closing(shared)).expect(WRITTEN);
                Some(format!("event: closing\ndata: {last}\n\n").into())
            }
            Self::Lines => None,
        }
    }
}

async fn pump(shared: Arc<Shared>, mut events: SessionEvents, pieces: Pieces, mut form: Form) {
    let stopping = shared.stopping();
    loop {
        let piece = tokio::select! {
            next = events.next() => match next {
                Some((news, session)) => form.news(news, session),
                None => return,
            },
            () = tokio::time::sleep(KEEP_ALIVE) => form.still_here(),
            () = pieces.closed() => return,
            () = stopping.cancelled() => {
                if let Some(last) = form.last(&shared) {
                    pieces.send(last).await;
                }
                return;
            }
        };
        if !pieces.send(piece).await {
            return;
        }
    }
}
