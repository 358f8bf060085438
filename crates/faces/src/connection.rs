//! A connection that is a session, from its opening to whatever ends it.

use crate::caller::{Caller, Freshness, Origin, Scope};
use crate::connections::{NodeConnections, WORD_MS, Word};
use crate::dispatch::Faces;
use crate::leases::connection_grace_ms;
use crate::refusal::Asked;
use crate::sessions;
use crate::stage::Stage;
use crate::switchboard::LostLease;
use tenure_api::{self as api, Error};
use tenure_engine::kernel::{OpenSession, Rejection, SessionId, SessionKind, Text};
use tenure_engine::{Answer, Control, Refused, Request};
use tenure_history::wire_session;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Drawn session ids that turn out to be taken before it is called a bug.
const DRAWS_MAX: usize = 16;

/// A connection that is a session. However it goes out of scope, the session's end is noticed.
pub struct Opening {
    faces: Faces,
    session: SessionId,
    losses: Losses,
    /// Its holder closes it.
    is_left: bool,
}

/// Losses of leases that the connection keeps.
enum Losses {
    /// Told by the engine, which knows the connection.
    Here(UnboundedReceiver<LostLease>),
    /// Told by the node, which gives its word for the connection.
    OfNode(NodeConnections, UnboundedReceiver<Word>),
}

impl Stage {
    /// Opens a session for a connection. On a node whoever writes hears of it only once it keeps something.
    ///
    /// # Errors
    /// When the engine takes nothing more.
    pub async fn open_connection(
        &self,
        kind: SessionKind,
        principal: &Text,
        scope: Scope,
    ) -> Result<(Opening, Caller), Error> {
        let faces = self.faces();
        let (opening, origin) = match self.connections().cloned() {
            None => faces.open_here(kind, principal).await?,
            Some(connections) => {
                let session = sessions::draw(kind);
                let losses = Losses::OfNode(connections.clone(), connections.open(session));
                let origin = Origin::Connection { session, kind, word_ms: WORD_MS };
                (Opening { faces, session, losses, is_left: false }, origin)
            }
        };
        let (account, freshness) = (self.account(principal), Freshness::Present);
        Ok((
            opening,
            Caller { principal: principal.clone(), scope, within: None, origin, freshness, account },
        ))
    }
}

impl Faces {
    async fn open_here(&self, kind: SessionKind, principal: &Text) -> Result<(Opening, Origin), Error> {
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
                        accepts_handover: None,
                    })
                },
                || sessions::draw(kind),
            )
            .await?;
        let (line, losses) = unbounded_channel();
        self.switchboard().connect(session, line);
        let origin = Origin::Connection { session, kind, word_ms: 0 };
        Ok((Opening { faces: self.clone(), session, losses: Losses::Here(losses), is_left: false }, origin))
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
                Answer::Refused(taken @ Refused::Rejected(Rejection::SessionExists { .. })) => {
                    refused = Some(taken);
                }
                Answer::Done { .. } => return Ok(session),
                other => return Err(self.not_that(other, Asked::AsAnyone)),
            }
        }
        let refused = refused.expect("invariant: at least one id was drawn");
        Err(self.refused(&refused, Asked::AsAnyone))
    }
}

impl Opening {
    /// How the session is written.
    #[must_use]
    pub fn session(&self) -> String {
        wire_session(self.session)
    }

    /// Its holder has closed it, which says that the holder has stopped.
    pub fn left(&mut self) {
        self.is_left = true;
    }

    /// The next loss; `None`: the connection keeps nothing any more and is to be closed. Waits for ever where there is
    /// neither.
    pub async fn lost(&mut self) -> Option<api::Lost> {
        let lost = match &mut self.losses {
            Losses::Here(losses) => match losses.recv().await {
                Some(lost) => lost,
                None => return std::future::pending().await,
            },
            Losses::OfNode(_, words) => match words.recv().await {
                Some(Word::Lost(lost)) => lost,
                Some(Word::HangUp) | None => return None,
            },
        };
        Some(api::Lost {
            lease_id: self.faces.lens().lease_id(lost.lease),
            epoch: lost.epoch.0,
            reason: lost.reason.as_str().to_owned(),
        })
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        match &self.losses {
            Losses::Here(_) => {
                self.faces.switchboard().disconnect(self.session);
                self.faces.handle().tell(Control::ConnectionClosed(self.session));
            }
            Losses::OfNode(connections, _) => connections.close(self.session, self.is_left),
        }
    }
}
