//! The stream of events as server-sent events.

use super::body::{Pieces, stream};
use super::{Answered, media, passing};
use crate::node::{EVENTS_PATH, ToldElsewhere};
use crate::routes::Parts;
use crate::server::Shared;
use crate::transports::closing::{closing, last_events};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request};
use hyper::body::Incoming;
use std::sync::Arc;
use std::time::Duration;
use tenure_api::{Error, ErrorCode, EventsQuery};
use tenure_engine::kernel::Text;
use tenure_faces::{Counted, EventStream, Streamed};

/// How long a stream may say nothing.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Begins a stream; what is wrong with the position is said before it begins.
pub(super) async fn begin(
    shared: &Arc<Shared>,
    mut query: EventsQuery,
    headers: &HeaderMap,
    place: Counted<Text>,
) -> Result<Answered, Error> {
    if let Some(last) = headers.get("last-event-id") {
        let last = last
            .to_str()
            .map_err(|_| Error::new(ErrorCode::InvalidRequest, "the Last-Event-ID is not plain text"))?;
        // What a browser has seen counts more than where it once began.
        query.from = Some(shared.faces().event_position(last).await?);
    }
    match shared.faces().events(query.clone()).await {
        Ok(events) => Ok(tell(shared, events, Some(place))),
        Err(error) if error.code == ErrorCode::LsnTrimmed => match told_elsewhere(shared, query).await? {
            Some(told) => Ok(pass_on(shared, told, place)),
            None => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// Whether a request is another node's, on behalf of its own caller.
pub(super) fn is_passed(request: &Request<Incoming>) -> bool {
    request.method() == Method::GET && request.uri().path() == EVENTS_PATH
}

/// Tells another node what it has not kept. What is not kept here either is not asked for any further.
pub(super) async fn answer_node(shared: &Arc<Shared>, request: Request<Incoming>) -> Result<Answered, Error> {
    passing::admit(shared, &request)?;
    let query = Parts { params: &[], query: request.uri().query().unwrap_or(""), body: &[] }.query()?;
    let events = shared.faces().events(query).await?;
    // The node that asks counts its own callers.
    Ok(tell(shared, events, None))
}

async fn told_elsewhere(shared: &Shared, query: EventsQuery) -> Result<Option<ToldElsewhere>, Error> {
    match shared.node() {
        Ok(node) => node.events_elsewhere(query).await,
        Err(_) => Ok(None),
    }
}

fn tell(shared: &Arc<Shared>, events: EventStream, place: Option<Counted<Text>>) -> Answered {
    let (pieces, body) = stream();
    let pieces = match place {
        Some(place) => pieces.holding(place),
        None => pieces,
    };
    shared.tasks().spawn(pump(Arc::clone(shared), events, pieces));
    media(HeaderValue::from_static("text/event-stream"), body)
}

fn pass_on(shared: &Arc<Shared>, told: ToldElsewhere, place: Counted<Text>) -> Answered {
    let (pieces, body) = stream();
    shared.tasks().spawn(pump_on(Arc::clone(shared), told, pieces.holding(place)));
    media(HeaderValue::from_static("text/event-stream"), body)
}

async fn pump_on(shared: Arc<Shared>, mut told: ToldElsewhere, pieces: Pieces) {
    let stopping = shared.stopping();
    loop {
        tokio::select! {
            piece = told.recv() => {
                let Some(piece) = piece else { return };
                if !pieces.send(piece).await {
                    return;
                }
            }
            () = pieces.closed() => return,
            () = stopping.cancelled() => return say_closing(&shared, &pieces).await,
        }
    }
}

async fn say_closing(shared: &Shared, pieces: &Pieces) {
    let last = closing(shared);
    let data = serde_json::to_string(&last).expect("invariant: events can be written");
    pieces.send(format!("event: closing\ndata: {data}\n\n").into()).await;
}

async fn pump(shared: Arc<Shared>, mut events: EventStream, pieces: Pieces) {
    let stopping = shared.stopping();
    if !pieces.send(Bytes::from_static(b": watching\n\n")).await {
        return;
    }
    loop {
        let piece = tokio::select! {
            next = events.next() => match next {
                Some(streamed) => {
                    let over = !matches!(streamed, Streamed::Event(_));
                    let sent = pieces.send(piece(&shared, &streamed)).await;
                    if over || !sent {
                        return;
                    }
                    continue;
                }
                None => return,
            },
            () = tokio::time::sleep(KEEP_ALIVE) => Bytes::from_static(b": still here\n\n"),
            () = pieces.closed() => return,
            () = stopping.cancelled() => {
                for streamed in last_events(&mut events).await {
                    if !pieces.send(piece(&shared, &streamed)).await {
                        return;
                    }
                }
                return say_closing(&shared, &pieces).await;
            }
        };
        if !pieces.send(piece).await {
            return;
        }
    }
}

fn piece(shared: &Shared, streamed: &Streamed) -> Bytes {
    let written = "invariant: events can be written";
    match streamed {
        Streamed::Event(event) => {
            let id = shared.faces().event_id(event.lsn);
            let kind = serde_json::to_value(event.kind).expect(written);
            let data = serde_json::to_string(event).expect(written);
            format!("id: {id}\nevent: {}\ndata: {data}\n\n", kind.as_str().unwrap_or_default()).into()
        }
        Streamed::Lagged(lagged) => {
            let data = serde_json::to_string(lagged).expect(written);
            format!("event: lagged\ndata: {data}\n\n").into()
        }
        Streamed::Trimmed(error) => {
            let data = serde_json::to_string(error).expect(written);
            format!("event: error\ndata: {data}\n\n").into()
        }
    }
}
