//! What happens to one session of `/api/v3`, at any node: the leader tells it, the others pass it on. When another node
//! leads, the stream goes on there after what was told last, so that nothing is lost and nothing told twice.

use crate::elsewhere::FollowedElsewhere;
use crate::stage::{Stage, is_undecided};
use crate::streams::{StreamFollow, ToldSoFar};
use core::time::Duration;
use tenure_api::{self as api, Error, ErrorCode, SlotSessionEvent};
use tenure_engine::host::read_clocks;
use tokio::sync::watch;

/// Pause before the leader is asked again.
const AGAIN: Duration = Duration::from_millis(100);

/// The events of one session.
pub struct SessionEvents {
    stage: Stage,
    session_id: String,
    told: Option<ToldSoFar>,
    /// `None`: it broke off.
    source: Option<Source>,
    changes: watch::Receiver<u64>,
    /// Another node asks, and finds the next leader by itself.
    is_passed: bool,
    is_over: bool,
}

enum Source {
    Here(Box<StreamFollow>),
    Elsewhere(FollowedElsewhere),
}

impl Stage {
    /// Begins to follow a session.
    ///
    /// # Errors
    /// When there is no such session, or no leader in time.
    pub async fn follow_session(&self, session_id: &str) -> Result<SessionEvents, Error> {
        let mut events = self.events_of(session_id, None, false);
        let began_ms = read_clocks().boot_ms;
        loop {
            match events.open().await {
                Ok(()) => return Ok(events),
                Err(error) if is_undecided(&error) => {
                    let passed_ms = read_clocks().boot_ms.saturating_sub(began_ms);
                    if u128::from(passed_ms) > self.patience().as_millis() {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
            events.pause().await;
        }
    }

    /// Goes on with a session that another node follows. Ends when this node does not lead any more.
    ///
    /// # Errors
    /// When there is no such session, or this node does not lead.
    pub async fn follow_session_for_node(
        &self,
        session_id: &str,
        told: Option<ToldSoFar>,
    ) -> Result<SessionEvents, Error> {
        let mut events = self.events_of(session_id, told, true);
        events.open().await?;
        Ok(events)
    }

    fn events_of(&self, session_id: &str, told: Option<ToldSoFar>, is_passed: bool) -> SessionEvents {
        SessionEvents {
            stage: self.clone(),
            session_id: session_id.to_owned(),
            told,
            source: None,
            changes: self.changes(),
            is_passed,
            is_over: false,
        }
    }
}

impl SessionEvents {
    /// The next event; `None` after the session's end was sent, or when no leader knows the session. Nothing is
    /// lost when this is dropped before it is ready.
    pub async fn next(&mut self) -> Option<(SlotSessionEvent, api::SlotSession)> {
        while !self.is_over {
            let Some(source) = &mut self.source else {
                if self.is_passed || !self.stage.is_of_cluster() {
                    self.is_over = true;
                    continue;
                }
                self.pause().await;
                if let Err(error) = self.open().await {
                    self.is_over = !is_undecided(&error);
                }
                continue;
            };
            let next = tokio::select! {
                biased;
                next = source.next() => next,
                // Faces of another moment hear of nothing.
                _ = self.changes.changed() => None,
            };
            match next {
                Some((news, session)) => {
                    self.note(news, &session);
                    return Some((news, session));
                }
                None => self.source = None,
            }
        }
        None
    }

    async fn open(&mut self) -> Result<(), Error> {
        // Changes after this line wake the loop.
        self.changes.mark_unchanged();
        let faces = self.stage.faces();
        let told = self.told.as_ref();
        self.source = Some(match faces.elsewhere() {
            None => Source::Here(Box::new(faces.follow_stream(&self.session_id, told)?)),
            Some(_) if self.is_passed => {
                return Err(Error::new(ErrorCode::NotLeader, "this node is not the leader"));
            }
            Some(elsewhere) => Source::Elsewhere(elsewhere.follow(&self.session_id, told).await?),
        });
        Ok(())
    }

    async fn pause(&mut self) {
        let _ = tokio::time::timeout(AGAIN, self.changes.changed()).await;
    }

    fn note(&mut self, news: SlotSessionEvent, session: &api::SlotSession) {
        let told = self.told.get_or_insert_with(|| ToldSoFar {
            state: session.state,
            last_heartbeat: session.last_heartbeat.clone(),
            warned: false,
            expired: false,
        });
        match news {
            SlotSessionEvent::Snapshot | SlotSessionEvent::State => {
                told.state = session.state;
                self.is_over = session.state.is_terminal();
            }
            SlotSessionEvent::Renewed => {
                told.last_heartbeat.clone_from(&session.last_heartbeat);
                told.warned = false;
            }
            SlotSessionEvent::Expiring => told.warned = true,
            SlotSessionEvent::Expired => told.expired = true,
        }
    }
}

impl Source {
    async fn next(&mut self) -> Option<(SlotSessionEvent, api::SlotSession)> {
        match self {
            Self::Here(follow) => follow.next().await,
            Self::Elsewhere(told) => told.recv().await,
        }
    }
}
