//! What happens to one session as server-sent events.

use super::body::{Pieces, stream};
use super::events::KEEP_ALIVE;
use super::{Answered, media};
use crate::server::Shared;
use crate::transports::closing::closing;
use bytes::Bytes;
use http::HeaderValue;
use std::sync::Arc;
use tenure_api::Error;
use tenure_faces::StreamFollow;

/// Begins a stream; that there is no such session is said before it begins.
pub(super) fn begin(shared: &Arc<Shared>, id: &str) -> Result<Answered, Error> {
    let follow = shared.faces().follow_stream(id)?;
    let (pieces, body) = stream();
    shared.tasks().spawn(pump(Arc::clone(shared), follow, pieces));
    Ok(media(HeaderValue::from_static("text/event-stream"), body))
}

async fn pump(shared: Arc<Shared>, mut follow: StreamFollow, pieces: Pieces) {
    let stopping = shared.stopping();
    let mut number = 0_u64;
    loop {
        let piece: Bytes = tokio::select! {
            next = follow.next() => match next {
                Some((news, session)) => {
                    number += 1;
                    let data = serde_json::to_string(&session).expect("invariant: sessions can be written");
                    format!("id: {number}\nevent: {}\ndata: {data}\n\n", news.as_str()).into()
                }
                None => return,
            },
            () = tokio::time::sleep(KEEP_ALIVE) => Bytes::from_static(b": still here\n\n"),
            () = pieces.closed() => return,
            () = stopping.cancelled() => {
                let last = serde_json::to_string(&closing(&shared)).expect("invariant: events can be written");
                pieces.send(format!("event: closing\ndata: {last}\n\n").into()).await;
                return;
            }
        };
        if !pieces.send(piece).await {
            return;
        }
    }
}
