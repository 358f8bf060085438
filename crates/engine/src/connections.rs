//! Connections that are sessions: open here, or at another node whose word is passed on. Durable only with what they keep
//! first; whether they live is liveness' business.

use crate::answer::{Answer, LeaseFound, Refused};
use crate::engine::Engine;
use crate::request::{Submit, Ticket};
use std::borrow::Cow;
use std::collections::BTreeSet;
use tenure_kernel::planted::{Planted, planted};
use tenure_kernel::{
    Action, Command, Grant, Kept, Lsn, OpenSession, Rebind, Rejection, SessionId, SessionView,
};

impl Engine {
    /// What was asked, whichever connection asked: a retry comes on a new one, perhaps at another node.
    pub(crate) fn without_connection<'a>(&self, submit: &'a Submit) -> Cow<'a, Action> {
        let mut action = Cow::Borrowed(&*submit.action);
        let policy = if let Action::Rebind(rebind) = &*submit.action {
            rebind.policy.as_ref()
        } else {
            submit.action.grant().map(|grant| &grant.policy)
        };
        let session = policy.and_then(|policy| policy.session).filter(|session| {
            submit.via == Some(*session)
                || submit.opening.as_ref().is_some_and(|open| open.session == *session)
                || self.connections.contains_key(session)
        });
        if session.is_some() {
            let action = action.to_mut();
            if let Action::Grant(Grant { policy, .. }) | Action::Rebind(Rebind { policy: Some(policy), .. }) =
                action
            {
                // The ttl is that of the word of the connection's node.
                (policy.session, policy.ttl_ms) = (None, 0);
            }
        }
        action
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
        if let Action::Grant(Grant { policy, .. }) | Action::Rebind(Rebind { policy: Some(policy), .. }) =
            &mut trial.action
        {
            policy.session = None;
        }
        self.kernel.decide(self.journal.peek(self.tick), &trial)?;
        if self.connections.contains_key(&session) {
            // Liveness rebuilt from the log knows of no connection that keeps nothing.
            self.liveness.connection_opened(self.tick, open.session, open.kind, open.grace_ms);
        }
        let opened = self.decide(&Command::plain(Action::OpenSession(open)));
        if let Answer::Refused(refused) = opened.answer { Err(refused) } else { Ok(()) }
    }

    /// An answer as one hears it who asks on this connection, or on none. A lease that another connection keeps is valid
    /// until that one ends, which one who asks elsewhere does not see: it is promised nothing.
    pub(crate) fn as_heard_on(&self, via: Option<SessionId>, mut answer: Answer) -> Answer {
        if let Answer::Lease(given) = &mut answer
            && let LeaseFound::Live(lease) = &mut given.lease
            && let Some(session) = lease.policy.session.filter(|session| Some(*session) != via)
            && self
                .kernel
                .session(session)
                .is_some_and(|open| matches!(open.kept(), Kept::NodeConnection { .. }))
        {
            lease.liveness.valid_ms = lease.liveness.valid_ms.map(|_| 0);
        }
        answer
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
        left: &[SessionId],
    ) -> usize {
        let left: BTreeSet<&SessionId> = left.iter().collect();
        for session in gone {
            self.connection_closed(*session, left.contains(session) || planted(Planted::HangUpAcknowledges));
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

    /// A connection is gone, here or at another node: what it keeps drains. `is_left`: by the word of that node its holder
    /// closed it.
    pub(crate) fn connection_closed(&mut self, session: SessionId, is_left: bool) {
        if self.mode.is_daemon_stopping() {
            return;
        }
        let mut effects = Vec::new();
        self.connections.remove(&session);
        self.liveness.connection_closed(&self.kernel, self.tick, session, is_left, &mut effects);
        for effect in effects {
            self.carry_out(effect);
        }
    }
}
