//! Keeps one session: heartbeats as often as the daemon asks for them, and what happens meanwhile. Prints nothing.

use std::time::Duration;

use tenure_api::{ErrorCode, SlotSession, SlotSessionEvent};
use tenure_client::clock::{BootInstant, wait_until};
use tenure_client::{CallError, Client, SlotSessionEvents};
use tenure_history::parse_rfc3339;

use crate::connect::{Daemon, Reach};

/// Pauses between heartbeats that were not heard.
const PAUSE_MIN: Duration = Duration::from_millis(200);

/// A session that is kept.
pub(super) struct Keeper<'a> {
    reach: &'a Reach,
    client: Client,
    stream: SlotSession,
    /// `None`: opened again after the next heartbeat that is heard.
    events: Option<SlotSessionEvents>,
    beat_at: BootInstant,
    /// Without another answer nothing is known of the session from here on.
    valid_until: BootInstant,
    /// Of the next heartbeat if this one is not heard either; `None`: the last one was.
    pause: Option<Duration>,
    told_doubt: bool,
}

/// What is to be reported.
pub(super) enum Happening {
    /// The session changed, or is about to.
    News(SlotSessionEvent),
    /// The daemon does not answer, or not so that it helps.
    Unheard(CallError),
    /// It did not answer for as long as it had promised.
    Doubtful,
    /// It answers again.
    HeardAgain,
    /// The daemon says that there is nothing left to keep.
    Over(CallError),
}

impl<'a> Keeper<'a> {
    /// Keeps a session that was asked for at that instant.
    pub(super) async fn begin(
        reach: &'a Reach,
        daemon: &Daemon,
        stream: SlotSession,
        asked_at: BootInstant,
    ) -> Self {
        let client = daemon.client().clone();
        let events = client.slot_session_events(&stream.session_id).await.ok();
        let interval = Duration::from_secs(stream.heartbeat_interval.max(1));
        let mut keeper = Self {
            reach,
            client,
            events,
            beat_at: asked_at.after(interval),
            valid_until: asked_at,
            pause: None,
            told_doubt: false,
            stream,
        };
        let SlotSession { valid_ms, lease_expires_at, server_time, .. } = &keeper.stream;
        keeper.valid_until = asked_at.after(good_for(*valid_ms, lease_expires_at, server_time));
        keeper
    }

    /// The session as it is known.
    pub(super) fn stream(&self) -> &SlotSession {
        &self.stream
    }

    /// Where the session was heard of last.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// What is to be told next. Whoever does not wait for it stops keeping the session.
    pub(super) async fn next(&mut self) -> Happening {
        loop {
            let happening = tokio::select! {
                news = next_news(&mut self.events) => self.hear(news),
                () = wait_until(self.beat_at) => self.beat().await,
            };
            if let Some(happening) = happening {
                return happening;
            }
        }
    }

    fn hear(
        &mut self,
        news: Result<Option<(SlotSessionEvent, SlotSession)>, CallError>,
    ) -> Option<Happening> {
        let Ok(Some((news, stream))) = news else {
            // The next heartbeat tells why.
            self.events = None;
            return None;
        };
        let before = std::mem::replace(&mut self.stream, stream);
        match news {
            SlotSessionEvent::Renewed => None,
            SlotSessionEvent::Snapshot if before.state == self.stream.state => None,
            SlotSessionEvent::Snapshot => Some(Happening::News(SlotSessionEvent::State)),
            SlotSessionEvent::Expiring | SlotSessionEvent::Expired | SlotSessionEvent::State => {
                Some(Happening::News(news))
            }
        }
    }

    async fn beat(&mut self) -> Option<Happening> {
        let interval = Duration::from_secs(self.stream.heartbeat_interval.max(1));
        let asked_at = BootInstant::now();
        let id = self.stream.session_id.clone();
        match self.client.heartbeat_slot_session_within(&id, None, interval).await {
            Ok(renewed) => {
                self.beat_at = asked_at.after(Duration::from_secs(renewed.next_heartbeat_in.max(1)));
                let good_for = good_for(renewed.valid_ms, &renewed.lease_expires_at, &renewed.server_time);
                self.valid_until = asked_at.after(good_for);
                if self.events.is_none() {
                    self.events = self.client.slot_session_events(&id).await.ok();
                }
                self.told_doubt = false;
                self.pause.take().map(|_| Happening::HeardAgain)
            }
            Err(error) if is_final(&error) => match self.client.slot_session(&id).await {
                // How it ended is the same news, whether it is told or found out.
                Ok(stream) if stream.state.is_terminal() => {
                    self.stream = stream;
                    Some(Happening::News(SlotSessionEvent::State))
                }
                Ok(_) | Err(_) => Some(Happening::Over(error)),
            },
            Err(error) => {
                // A daemon that was started again may listen elsewhere.
                if matches!(error, CallError::Unreachable { .. })
                    && let Ok(daemon) = self.reach.find().await
                {
                    self.client = daemon.client().clone();
                }
                let advised = error.retry_after().unwrap_or_default();
                let pause = self.pause.map_or(PAUSE_MIN, |pause| pause * 2).min(interval).max(advised);
                self.beat_at = BootInstant::now().after(pause);
                let is_first = self.pause.replace(pause).is_none();
                if is_first {
                    return Some(Happening::Unheard(error));
                }
                let is_doubtful = BootInstant::now() >= self.valid_until && !self.told_doubt;
                self.told_doubt |= is_doubtful;
                is_doubtful.then_some(Happening::Doubtful)
            }
        }
    }
}

/// How long an answer is good for. A session that is not in use yet has only its deadline.
fn good_for(valid_ms: Option<u64>, until: &str, now: &str) -> Duration {
    let left_ms = || Some(parse_rfc3339(until).ok()?.saturating_sub(parse_rfc3339(now).ok()?));
    Duration::from_millis(valid_ms.or_else(left_ms).unwrap_or(0))
}

async fn next_news(
    events: &mut Option<SlotSessionEvents>,
) -> Result<Option<(SlotSessionEvent, SlotSession)>, CallError> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

/// Asking again gives the same answer.
fn is_final(error: &CallError) -> bool {
    let codes = [
        ErrorCode::SessionNotFound,
        ErrorCode::SessionGone,
        ErrorCode::SessionExpired,
        ErrorCode::Unauthorized,
        ErrorCode::Forbidden,
    ];
    error.code().is_some_and(|code| codes.contains(&code))
}
