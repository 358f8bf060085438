//! A connection that is a session, from its opening to whatever ends it.

use crate::caller::{Caller, Freshness, Origin, Scope};
use crate::dispatch::Faces;
use crate::leases::connection_grace_ms;
use crate::refusal::{self, Asked};
use crate::sessions;
use crate::switchboard::LostLease;
use tenure_api::{self as api, Error};
use tenure_engine::kernel::{OpenSession, SessionId, SessionKind, Text};
use tenure_engine::{Answer, Request};
use tenure_history::wire_session;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Drawn session ids that turn out to be taken before it is called a bug.
const DRAWS_MAX: usize = 16;

/// A connection that is a session. However it goes out of scope, the session's end is noticed.
pub struct Opening {
    faces: Faces,
    session: SessionId,
    /// Losses of leases that the connection keeps.
    losses: UnboundedReceiver<LostLease>,
    /// The engine knows nothing of it.
    is_kept: bool,
}

impl Faces {
    /// Opens a session for a connection.
    ///
    /// # Errors
    /// When the engine takes nothing more.
    pub async fn open_connection(
        &self,
        kind: SessionKind,
        principal: &Text,
        scope: Scope,
    ) -> Result<(Opening, Caller), Error> {
        if self.is_of_cluster() {
            return Ok(self.open_kept(kind, principal, scope));
        }
        let session = self
            .open_session(
                |session| {
                    Request::ConnectionOpened(OpenSession {
                        session,
                        holder: principal.clone(),
                        kind,
                        ttl_ms: 0,
                        grace_ms: connection_grace_ms(kind),
                        principal: principal.clone(),
                    })
                },
                || sessions::draw(kind),
            )
            .await?;
        let (line, losses) = unbounded_channel();
        self.switchboard().connect(session, line);
        let origin = Origin::Connection { session, kind };
        let caller = Caller { principal: principal.clone(), scope, origin, freshness: Freshness::Present };
        Ok((Opening { faces: self.clone(), session, losses, is_kept: false }, caller))
    }

    /// In a cluster an open socket proves nothing to whoever writes: its leases are kept by heartbeats.
    fn open_kept(&self, kind: SessionKind, principal: &Text, scope: Scope) -> (Opening, Caller) {
        let (_, losses) = unbounded_channel();
        let (origin, freshness) = (Origin::Http, Freshness::Present);
        let caller = Caller { principal: principal.clone(), scope, origin, freshness };
        (Opening { faces: self.clone(), session: sessions::draw(kind), losses, is_kept: true }, caller)
    }

    /// Opens a session under an id that is not taken.
    pub(crate) async fn open_session(
        &self,
        request: impl Fn(SessionId) -> Request,
        draw: impl Fn() -> SessionId,
    ) -> Result<SessionId, Error> {
        let mut refused = None;
        for _ in 0..DRAWS_MAX {
            let session = draw();
            match self.ask(request(session)).await {
                Answer::Refused(taken) if taken.code() == "session_exists" => refused = Some(taken),
                Answer::Done { .. } => return Ok(session),
                other => return Err(self.not_that(other, Asked::AsAnyone)),
            }
        }
        let refused = refused.expect("invariant: at least one id was drawn");
        Err(refusal::error(&self.lens(), &refused, Asked::AsAnyone))
    }
}

impl Opening {
    /// How the session is written.
    #[must_use]
    pub fn session(&self) -> String {
        wire_session(self.session)
    }

    /// The next loss; waits for ever where there is none.
    pub async fn lost(&mut self) -> api::Lost {
        let Some(lost) = self.losses.recv().await else { return std::future::pending().await };
        api::Lost {
            lease_id: self.faces.lens().lease_id(lost.lease),
            epoch: lost.epoch.0,
            reason: lost.reason.as_str().to_owned(),
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        self.faces.switchboard().disconnect(self.session);
        drop(self.faces.handle().start(Request::ConnectionClosed(self.session)));
    }
}
