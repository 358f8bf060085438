//! What happens to one stream, as it happens: a snapshot, then renewals, warnings, changes of state, the end.

use super::facts::read_id;
use super::shown::{LEASE_EXPIRED, Shown};
use crate::dispatch::Faces;
use crate::events::{EventStream, Streamed};
use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use tenure_api::{self as api, Error, EventsQuery, SlotSessionEvent, SlotSessionState};
use tenure_engine::host::read_clocks;
use tenure_history::WireLease;
use tokio::sync::watch;

/// Renewals are told so often at most.
const RENEWED_EVERY_MS: u64 = 1_000;
/// How long to wait for the next look where nothing is due.
const LOOK_EVERY_MS: u64 = 30_000;
/// How long to wait before following the log again where it was lost.
const FOLLOW_AGAIN: Duration = Duration::from_millis(100);

/// What was told of a stream so far. Another leader goes on from here.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ToldSoFar {
    /// The state that was told last.
    pub state: SlotSessionState,
    /// The heartbeat that was told last.
    pub last_heartbeat: Option<api::Time>,
    /// A warning was given since then.
    pub warned: bool,
    /// That it ended for silence was told, and its state not yet.
    pub expired: bool,
}

/// Follows one stream until it ends.
pub(crate) struct StreamFollow {
    faces: Faces,
    id: String,
    changed: watch::Receiver<()>,
    /// The state that was told last; `None`: nothing was told yet.
    last: Option<SlotSessionState>,
    /// That it ended for silence was told by another leader.
    expired: bool,
    /// A warning was given since the last renewal.
    warned: bool,
    /// When a warning is due, in boot time.
    warn_at: Option<u64>,
    /// When the stream may be over.
    end_at: Option<u64>,
    told_renewed: Option<u64>,
    /// The heartbeat that was told last.
    told_beat: Option<api::Time>,
    /// When one that was not told yet may be.
    renewed_at: Option<u64>,
    ready: VecDeque<(SlotSessionEvent, api::SlotSession)>,
    /// Something may have changed that was not looked at: whoever waits may stop waiting at any moment and come again.
    unseen: bool,
    over: bool,
}

impl Faces {
    /// Begins to follow a stream, or goes on after what was told of it.
    ///
    /// # Errors
    /// When there is no such stream.
    pub(crate) fn follow_stream(&self, id: &str, told: Option<&ToldSoFar>) -> Result<StreamFollow, Error> {
        let found = read_id(id).and_then(|id| self.streams().book.follow(&id).map(|found| (id, found)));
        let Some((id, (_, changed))) = found else { return Err(self.no_stream(id)) };
        self.streams().followers.send_modify(|count| *count += 1);
        Ok(StreamFollow {
            faces: self.clone(),
            id,
            changed,
            last: told.map(|told| told.state),
            expired: told.is_some_and(|told| told.expired),
            warned: told.is_some_and(|told| told.warned),
            warn_at: None,
            end_at: None,
            told_renewed: None,
            told_beat: told.and_then(|told| told.last_heartbeat.clone()),
            renewed_at: None,
            ready: VecDeque::new(),
            unseen: true,
            over: false,
        })
    }

    /// Passes on what the log says of streams, whichever surface it was asked on, to those who follow them. Where
    /// nobody does, nothing is watched: every event would have to be decoded for nobody.
    pub async fn watch_streams(self) {
        let mut followers = self.streams().followers.subscribe();
        while followers.wait_for(|count| *count > 0).await.is_ok() {
            let query = EventsQuery { application: Some(api::Application::Slots), ..EventsQuery::default() };
            let Ok(events) = self.events(query).await else {
                tokio::time::sleep(FOLLOW_AGAIN).await;
                continue;
            };
            self.streams().is_watching.store(true, Ordering::Relaxed);
            // What happened before the watch began is looked at by those who came before it.
            self.streams().book.touch_all();
            self.pass_all_on(events, &mut followers).await;
            self.streams().is_watching.store(false, Ordering::Relaxed);
        }
    }

    /// Passes events on until the watch ends or nobody follows a stream any more.
    async fn pass_all_on(&self, mut events: EventStream, followers: &mut watch::Receiver<usize>) {
        loop {
            tokio::select! {
                streamed = events.next() => match streamed {
                    Some(Streamed::Event(event)) => self.pass_on(&event),
                    Some(Streamed::Lagged(_) | Streamed::Trimmed(_)) | None => return,
                },
                nobody = followers.wait_for(|count| *count == 0) => {
                    drop(nobody);
                    return;
                }
            }
        }
    }

    fn pass_on(&self, event: &api::Event) {
        let lease = event.lease.as_ref().and_then(|lease| lease.lease_id.parse::<WireLease>().ok());
        let Some(lease) = lease.and_then(|wire| wire.lease(self.identity())) else { return };
        self.streams().book.touch(lease);
    }
}

impl Drop for StreamFollow {
    fn drop(&mut self) {
        self.faces.streams().followers.send_modify(|count| *count -= 1);
    }
}

impl StreamFollow {
    /// What is told next; `None` when the stream has ended and that was told.
    pub(crate) async fn next(&mut self) -> Option<(SlotSessionEvent, api::SlotSession)> {
        loop {
            if let Some(news) = self.ready.pop_front() {
                return Some(news);
            }
            if self.over {
                return None;
            }
            if !self.unseen {
                self.wait().await;
            }
            // Whatever changes from here on is looked at again.
            (self.unseen, _) = (true, self.changed.mark_unchanged());
            match self.faces.stream(&self.id).await {
                Ok(shown) => self.look(shown),
                Err(_) => self.over = true,
            }
            self.unseen = false;
        }
    }

    /// Waits until there may be something to tell.
    async fn wait(&mut self) {
        let now = read_clocks().boot_ms;
        let due = [self.warn_at, self.end_at, self.renewed_at].into_iter().flatten().min();
        let wait_ms = due.map_or(LOOK_EVERY_MS, |due| due.saturating_sub(now)).min(LOOK_EVERY_MS);
        tokio::select! {
            _ = self.changed.changed() => {}
            () = tokio::time::sleep(Duration::from_millis(wait_ms)) => {}
        }
        self.unseen = true;
    }

    fn look(&mut self, shown: Shown) {
        let Shown { stream, left, .. } = shown;
        let now = read_clocks().boot_ms;
        let Some(last) = self.last.replace(stream.state) else {
            self.set_alarms(left, now);
            self.warned = left.is_some_and(|left| left.of_ttl_ms * 3 <= left.ttl_ms);
            self.over = stream.state.is_terminal();
            self.told_beat = stream.last_heartbeat.clone();
            self.ready.push_back((SlotSessionEvent::Snapshot, stream));
            return;
        };
        let is_renewed = stream.last_heartbeat.is_some() && stream.last_heartbeat != self.told_beat;
        self.renewed_at = None;
        if is_renewed && !stream.state.is_terminal() {
            // Heartbeats that come close together are told together.
            match self.told_renewed.map(|told| told + RENEWED_EVERY_MS).filter(|may| *may > now) {
                Some(may) => self.renewed_at = Some(may),
                None => {
                    self.told_renewed = Some(now);
                    self.told_beat = stream.last_heartbeat.clone();
                    self.ready.push_back((SlotSessionEvent::Renewed, stream.clone()));
                }
            }
        }
        if stream.state != last {
            if stream.reason.as_deref() == Some(LEASE_EXPIRED) && !self.expired {
                self.ready.push_back((SlotSessionEvent::Expired, stream.clone()));
            }
            self.ready.push_back((SlotSessionEvent::State, stream.clone()));
        }
        let nearly_over = left.map(|left| left.of_ttl_ms * 3 <= left.ttl_ms);
        if nearly_over == Some(true) && !self.warned {
            self.ready.push_back((SlotSessionEvent::Expiring, stream.clone()));
        }
        // Renewed, on whichever surface, it may be told again.
        self.warned = nearly_over.unwrap_or(self.warned);
        self.set_alarms(left, now);
        self.over = stream.state.is_terminal();
    }

    fn set_alarms(&mut self, left: Option<super::shown::Left>, now: u64) {
        // A little late rather than a little early, which would mean looking twice.
        let after = |ms: u64| Some(now + ms + 1);
        self.warn_at = left
            .filter(|left| left.of_ttl_ms * 3 > left.ttl_ms)
            .and_then(|left| after(left.of_ttl_ms - left.ttl_ms / 3));
        self.end_at = left.and_then(|left| after(left.until_end_ms.max(1)));
    }
}
