//! How a stream ends because the daemon stops: with what had happened by then, and with the word that it stops.

use crate::server::Shared;
use std::time::Duration;
use tenure_api::{Event, EventKind};
use tenure_faces::{EventStream, Streamed};

/// Events told after the daemon was told to stop.
const LAST_MAX: usize = 1_024;
/// What has happened is a moment away; nothing new is waited for.
pub(crate) const LAST_WITHIN: Duration = Duration::from_millis(50);

/// Events that happened before the daemon was told to stop and are not told yet.
pub(crate) async fn last_events(events: &mut EventStream) -> Vec<Streamed> {
    let mut last = Vec::new();
    while last.len() < LAST_MAX
        && let Ok(Some(event @ Streamed::Event(_))) = tokio::time::timeout(LAST_WITHIN, events.next()).await
    {
        last.push(event);
    }
    last
}

/// The event that comes last.
pub(crate) fn closing(shared: &Shared) -> Event {
    Event { lsn: 0, at: shared.time_now(), kind: EventKind::Closing, lease: None, session: None, pool: None }
}
