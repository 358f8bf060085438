//! What is seen on the network as server-sent events.

use super::body::{Pieces, stream};
use super::events::KEEP_ALIVE;
use super::{Answered, media};
use crate::server::Shared;
use crate::transports::closing::closing;
use bytes::Bytes;
use http::HeaderValue;
use std::sync::Arc;
use std::time::Duration;
use tenure_api::{BrowseQuery, Error};
use tenure_engine::kernel::Text;
use tenure_faces::{Caller, Counted, Sightseeing};

/// Begins a stream; what is wrong with the type is said before it begins.
pub(super) fn begin(
    shared: &Arc<Shared>,
    caller: &Caller,
    query: &BrowseQuery,
    whole: bool,
    place: Counted<Text>,
) -> Result<Answered, Error> {
    let sights = shared.faces().browse(caller, query.service_type.as_deref())?;
    let idle_for = query.idle_for.filter(|secs| *secs > 0).map(Duration::from_secs);
    let (pieces, body) = stream();
    shared.tasks().spawn(pump(Arc::clone(shared), sights, whole, idle_for, pieces.holding(place)));
    Ok(media(HeaderValue::from_static("text/event-stream"), body))
}

async fn pump(
    shared: Arc<Shared>,
    mut sights: Sightseeing,
    whole: bool,
    idle_for: Option<Duration>,
    pieces: Pieces,
) {
    let stopping = shared.stopping();
    if !pieces.send(Bytes::from_static(b": looking\n\n")).await {
        return;
    }
    let mut number = 0_u64;
    // Goes on over keep-alives: only news begin it anew.
    let mut idle = std::pin::pin!(quiet_for(idle_for));
    loop {
        let data = tokio::select! {
            data = next(&mut sights, whole) => data,
            () = idle.as_mut() => return,
            () = tokio::time::sleep(KEEP_ALIVE) => {
                if !pieces.send(Bytes::from_static(b": still here\n\n")).await {
                    return;
                }
                continue;
            }
            () = pieces.closed() => return,
            () = stopping.cancelled() => None,
        };
        let Some(data) = data else {
            let last = serde_json::to_string(&closing(&shared)).expect("invariant: events can be written");
            pieces.send(format!("event: closing\ndata: {last}\n\n").into()).await;
            return;
        };
        idle.set(quiet_for(idle_for));
        number += 1;
        if !pieces.send(format!("id: {number}\ndata: {data}\n\n").into()).await {
            return;
        }
    }
}

/// Resolves after this long; `None`: never.
async fn quiet_for(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

/// The next thing to say; `None` once the daemon stops.
async fn next(sights: &mut Sightseeing, whole: bool) -> Option<String> {
    let written = "invariant: sightings can be written";
    Some(if whole {
        serde_json::to_string(&sights.next_browsed().await?).expect(written)
    } else {
        serde_json::to_string(&sights.next().await?).expect(written)
    })
}
