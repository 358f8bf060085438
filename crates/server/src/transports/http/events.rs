//! The stream of events as server-sent events.

use super::body::{Pieces, stream};
use super::{Answered, media};
use crate::server::Shared;
use crate::transports::closing::{closing, last_events};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use std::sync::Arc;
use std::time::Duration;
use tenure_api::{Error, ErrorCode, EventsQuery};
use tenure_faces::{EventStream, Streamed};

/// How long a stream may say nothing.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Begins a stream; what is wrong with the position is said before it begins.
pub(super) async fn begin(
    shared: &Arc<Shared>,
    mut query: EventsQuery,
    headers: &HeaderMap,
) -> Result<Answered, Error> {
    if let Some(last) = headers.get("last-event-id") {
        let last = last
            .to_str()
            .map_err(|_| Error::new(ErrorCode::InvalidRequest, "the Last-Event-ID is not plain text"))?;
        // What a browser has seen counts more than where it once began.
        query.from = Some(shared.faces().event_position(last).await?);
    }
    let events = shared.faces().events(query).await?;
    let (pieces, body) = stream();
    let pump = pump(Arc::clone(shared), events, pieces);
    shared.tasks().spawn(pump);
    Ok(media(HeaderValue::from_static("text/event-stream"), body))
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
                let last = closing(&shared);
                let data = serde_json::to_string(&last).expect("invariant: events can be written");
                pieces.send(format!("event: closing\ndata: {data}\n\n").into()).await;
                return;
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
