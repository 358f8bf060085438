//! Connections that are sessions: open here, or at another node whose word is passed on. Durable only with what they keep
//! first; whether they live is liveness' business.

use crate::answer::{Answer, Refused};
use crate::engine::Engine;
use crate::request::{Submit, Ticket};
use std::borrow::Cow;
use tenure_kernel::{Action, Command, Lsn, OpenSession, Rebind, Rejection, SessionId, SessionView};

impl Engine {
    /// What was asked, whichever connection asked: a retry comes on a new one.
    pub(crate) fn without_connection<'a>(&self, submit: &'a Submit) -> Cow<'a, Action> {
        match &*submit.action {
            Action::Grant(grant)
                if submit.opening.is_some()
                    || grant
                        .policy
                        .session
                        .is_some_and(|session| self.connections.contains_key(&session)) =>
            {
                let mut grant = grant.clone();
                grant.policy.session = None;
                Cow::Owned(Action::Grant(grant))
            }
            Action::Rebind(rebind)
                if rebind.policy.as_ref().and_then(|policy| policy.session).is_some_and(|session| {
                    submit.opening.is_some() || self.connections.contains_key(&session)
                }) =>
            {
                let mut rebind = rebind.clone();
                rebind.policy.iter_mut().for_each(|policy| policy.session = None);
                Cow::Owned(Action::Rebind(rebind))
            }
            action => Cow::Borrowed(action),
        }
    }

    /// Logs a connection's session with its first lease, in the same frame, and only if it gets that.
    pub(crate) fn make_durable(
        &mut self,
        session: Option<SessionId>,
        opening: Option<&OpenSession>,
        command: &Command,
    ) -> Result<(), Refused> {
        let Some(session) = session else { return Ok(()) };
        if self.kernel.session(session).is_some() {
            return Ok(());
        }
        let opening = opening.filter(|open| open.session == session);
        let Some(open) = opening.or_else(|| self.connections.get(&session)).cloned() else { return Ok(()) };
        let mut trial = command.clone();
        match &mut trial.action {
            Action::Grant(grant) => grant.policy.session = None,
            Action::Rebind(Rebind { policy: Some(policy), .. }) => policy.session = None,
            _ => {}
        }
        self.kernel.decide(self.journal.peek(self.tick), &trial)?;
        if self.connections.contains_key(&session) {
            // Its session may have been closed by hand since; the connection is open all the same.
            self.liveness.connection_opened(self.tick, open.session, open.kind, open.grace_ms);
        }
        let opened = self.decide(&Command::plain(Action::OpenSession(open)));
        match opened.answer {
            Answer::Refused(refused) => Err(refused),
            _ => Ok(()),
        }
    }

    /// A connection to this daemon is open. Nothing of it is durable yet.
    pub(crate) fn connection_opened(&mut self, ticket: Ticket, open: OpenSession) {
        if self.kernel.session(open.session).is_some() || self.connections.contains_key(&open.session) {
            let rejection = Rejection::SessionExists { session: open.session };
            return self.refuse(ticket, self.journal.newest(), rejection.into());
        }
        self.liveness.connection_opened(self.tick, open.session, open.kind, open.grace_ms);
        self.connections.insert(open.session, open);
        self.done_now(ticket);
    }

    /// Hears which connections are open elsewhere and which are gone; returns how much work that was.
    pub(crate) fn connections_told(
        &mut self,
        ticket: Ticket,
        open: &[SessionId],
        gone: &[SessionId],
    ) -> usize {
        for session in gone {
            self.connection_closed(*session);
        }
        let (mut unknown, mut effects, mut depends_on) = (Vec::new(), Vec::new(), Lsn(0));
        for session in open {
            if self.liveness.connection_kept(self.tick, *session, &mut effects) {
                let opened = self.kernel.session(*session).map_or(Lsn(0), SessionView::opened_lsn);
                depends_on = depends_on.max(opened);
            } else {
                unknown.push(*session);
            }
        }
        for effect in effects {
            self.carry_out(effect);
        }
        if !unknown.is_empty() {
            depends_on = self.journal.newest();
        }
        self.answer(ticket, depends_on, Answer::ConnectionsKept { unknown });
        (open.len() + gone.len()).max(1)
    }

    /// A connection is gone, here or at another node: what it keeps drains.
    pub(crate) fn connection_closed(&mut self, session: SessionId) {
        if self.stopping {
            return;
        }
        let mut effects = Vec::new();
        self.connections.remove(&session);
        self.liveness.connection_closed(&self.kernel, self.tick, session, &mut effects);
        for effect in effects {
            self.carry_out(effect);
        }
    }
}
