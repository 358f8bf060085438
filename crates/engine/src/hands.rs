//! A live lease changes hands: who may have it next, on which terms, and what its former holder hears. Decided in the
//! turn that logs it, so that lease and session cannot change between the look and the act.
//!
//! Invariant: a lease leaves an open connection only by that connection's own request, by a hand-over or release in its
//! name (the connection is pushed `lost`), or by a revoke (which waits for the connection).

use crate::answer::{Answer, LeaseFound, Push, Refused};
use crate::commands::Outcome;
use crate::endings::given_back;
use crate::engine::Engine;
use crate::journal::Out;
use crate::request::Keeper;
use tenure_kernel::planted::{Planted, planted};
use tenure_kernel::{
    Action, Command, LeaseId, LeaseState, LeaseView, Mode, OpenSession, Policy, Reason, ReclaimRule,
    Rejection, SessionId, SessionView, Text, Token,
};
use tenure_liveness::Refusal;

/// The principal of a program of this machine whose user is not known. In a cluster the machine is named: `local@M`.
pub(crate) const LOCAL: &str = "local";
/// A user of this machine: `uid:N`, in a cluster `uid:N@M`.
const USER_PREFIX: &str = "uid:";

/// The caller that asks for a change of hands, and what keeps the lease afterwards.
#[derive(Clone, Copy)]
pub(crate) struct Hands<'a> {
    pub(crate) keeper: Option<Keeper>,
    pub(crate) via: Option<SessionId>,
    pub(crate) opening: Option<&'a OpenSession>,
    pub(crate) asker: Option<&'a Text>,
}

impl Engine {
    /// Checks whether a lease may leave what keeps it, and fills in its next holder and terms.
    pub(crate) fn change_hands(&self, command: &mut Command, hands: Hands<'_>) -> Result<(), Refused> {
        let Action::Rebind(rebind) = &mut command.action else { return Ok(()) };
        // A token that is not current is the kernel's to reject.
        let Some(view) = self.kernel.live(rebind.token.lease).filter(|view| is_current(*view, &rebind.token))
        else {
            return Ok(());
        };
        self.check_former(view, hands)?;
        match hands.keeper {
            None => {}
            Some(Keeper::Connection) => {
                let word_ms = hands.opening.map_or(0, |open| open.ttl_ms);
                rebind.policy = Some(Policy { session: hands.via, ttl_ms: word_ms, ..view.policy() });
            }
            Some(Keeper::Session(id)) => {
                let session = self.session_by_hand(id)?;
                if hands.asker.is_some_and(|asker| !speaks_for(asker, session.principal())) {
                    return Err(Refused::Forbidden);
                }
                rebind.policy = Some(kept_by(view.policy(), session));
            }
            Some(Keeper::Handover(id)) => {
                let session = self.session_by_hand(id)?;
                if !accepts(session, view) {
                    return Err(Refused::Forbidden);
                }
                rebind.holder = Some(session.holder().into());
                let principal = session.principal().into();
                rebind.policy = Some(Policy { principal, ..kept_by(view.policy(), session) });
            }
        }
        Ok(())
    }

    /// The holder on an open connection is not asked and believes until it hears otherwise: nobody else moves its lease.
    fn check_former(&self, view: LeaseView<'_>, hands: Hands<'_>) -> Result<(), Refused> {
        let open = self.open_connection_of(view);
        match hands.keeper {
            Some(Keeper::Connection) => match view.session().and_then(|id| self.kernel.session(id)) {
                Some(session) if session.kept().is_connection() && hands.via.is_some() => match open {
                    Some(_) if !planted(Planted::ResumeTakesOpen) => Err(Refused::ConnectionOpen),
                    Some(_) | None => Ok(()),
                },
                Some(_) | None => Err(Refusal::NoLiveness.into()),
            },
            // In the name of the holder, which has stopped.
            Some(Keeper::Handover(_)) => Ok(()),
            Some(Keeper::Session(_)) | None => {
                let is_asked = hands.keeper.is_some() || hands.asker.is_some();
                let is_elsewhere = open.is_some_and(|connection| hands.via != Some(connection));
                if is_asked && believes(view) && is_elsewhere { Err(Refused::ConnectionOpen) } else { Ok(()) }
            }
        }
    }

    /// The connection that keeps a lease by being open.
    fn open_connection_of(&self, view: LeaseView<'_>) -> Option<SessionId> {
        view.session().filter(|session| self.liveness.connection_is_open(*session))
    }

    /// Whether a holder that was promised something believes in the lease because its connection is open, whatever an
    /// operator has done to the lease.
    pub(crate) fn is_kept_by_open_connection(&self, view: LeaseView<'_>) -> bool {
        believes(view) && self.open_connection_of(view).is_some()
    }

    fn session_by_hand(&self, id: SessionId) -> Result<SessionView<'_>, Refused> {
        match self.kernel.session(id).filter(|session| session.closed().is_none()) {
            Some(session) if session.kept().is_connection() => Err(Refusal::NoLiveness.into()),
            Some(session) => Ok(session),
            None => Err(Rejection::SessionNotFound { session: id }.into()),
        }
    }

    /// Sessions by hand are closed by request; a connection's session closes with its connection, or after it.
    pub(crate) fn check_close(&self, session: SessionId) -> Result<(), Refused> {
        if self.liveness.connection_is_open(session) { Err(Refused::ConnectionOpen) } else { Ok(()) }
    }

    /// Whether no former holder may act on the lease once it is rebound: a hand-over says so, and a holder that keeps its
    /// name and what keeps it is not a former one.
    pub(crate) fn has_former_stopped(&self, action: &Action, keeper: Option<Keeper>) -> bool {
        let Action::Rebind(rebind) = action else { return false };
        let is_same = |view: LeaseView<'_>| {
            rebind.holder.as_ref().is_none_or(|holder| holder == view.holder())
                && rebind.policy.as_ref().is_none_or(|policy| *policy == view.policy())
        };
        matches!(keeper, Some(Keeper::Handover(_)))
            || self.kernel.live(rebind.token.lease).is_some_and(is_same)
    }

    /// Whether what the holder gives back is not free at once: its gate makes it fit for others, or a former holder may
    /// still act on it.
    pub(crate) fn is_given_back_by_revoke(&self, view: LeaseView<'_>) -> bool {
        let gated = view.terms().gate && !planted(Planted::ReleaseSkipsGate);
        gated || self.liveness.former_promised_until(view, self.tick).is_some()
    }

    /// Turns a release into a revoke by the holder.
    pub(crate) fn give_back_by_revoke(&self, command: &mut Command) -> Result<(), Refused> {
        self.kernel.decide(self.journal.peek(self.tick), command)?;
        let Action::Release(release) = &command.action else { return Ok(()) };
        command.action = given_back(release.token.lease, release.text.clone());
        Ok(())
    }

    /// The open connection that an action of another caller takes a lease from.
    pub(crate) fn dispossessed(&self, action: &Action, via: Option<SessionId>) -> Option<SessionId> {
        let lease = if let Action::Rebind(rebind) = action {
            rebind.token.lease
        } else if let Action::Release(release) = action {
            release.token.lease
        } else {
            return None;
        };
        // What is promised nothing does not believe anything.
        let view = self.kernel.live(lease).filter(|view| believes(*view))?;
        self.open_connection_of(view).filter(|connection| via != Some(*connection))
    }

    /// Tells a connection that it does not hold the lease any more.
    pub(crate) fn push_lost(&mut self, connection: SessionId, lease: LeaseId, outcome: &Outcome) {
        let Answer::Lease(given) = &outcome.answer else { return };
        let epoch = match &given.lease {
            LeaseFound::Live(live) if live.policy.session == Some(connection) => return,
            LeaseFound::Live(live) => live.epoch,
            LeaseFound::JustEnded { was, .. } => was.epoch,
            LeaseFound::Ended { ended, .. } => ended.epoch,
            LeaseFound::Retired => return,
        };
        let push = Push::Lost { session: connection, lease, epoch, reason: Reason::Explicit };
        self.journal.emit(outcome.depends_on, Out::Push(push), &mut self.leaving);
    }
}

/// Whether the holder of a lease was promised anything.
fn believes(view: LeaseView<'_>) -> bool {
    view.terms().reclaim_rule == ReclaimRule::AfterPromise
}

fn is_current(view: LeaseView<'_>, token: &Token) -> bool {
    let is_active = match view.state() {
        LeaseState::Active { .. } => true,
        LeaseState::Reserved { .. } | LeaseState::Revoking(_) => false,
    };
    is_active
        && view.epoch() == token.epoch
        && token.holder.as_ref().is_none_or(|holder| holder == view.holder())
}

/// Whether a caller may speak for what a principal holds. `local` is nobody in particular: every program of the machine
/// can come as `local`, so its users may speak for what `local` holds. A user of one machine is not that of another; one
/// whose machine is not named is of the time before there was a cluster, or after (record 0074).
#[must_use]
pub fn speaks_for(caller: &str, principal: &str) -> bool {
    if caller == principal {
        return true;
    }
    let (Some((caller, at)), Some((holder, of))) = (of_machine(caller), of_machine(principal)) else {
        return false;
    };
    let is_one_machine = at.zip(of).is_none_or(|(at, of)| at == of);
    is_one_machine && (caller == holder || holder == LOCAL)
}

/// A principal of a machine, and which one; `None`: one that is the same everywhere.
fn of_machine(principal: &str) -> Option<(&str, Option<&str>)> {
    let (name, machine) = match principal.split_once('@') {
        Some((name, machine)) => (name, Some(machine)),
        None => (principal, None),
    };
    (name == LOCAL || name.starts_with(USER_PREFIX)).then_some((name, machine))
}

/// Who a user was if its name was not known: nobody in particular, of the same machine. `None`: it is no user.
pub(crate) fn as_local(principal: &str) -> Option<Text> {
    let (name, machine) = of_machine(principal)?;
    if name == LOCAL {
        return None;
    }
    Some(machine.map_or_else(|| LOCAL.into(), |machine| format!("{LOCAL}@{machine}").as_str().into()))
}

/// Whether a session takes a lease: one of its own principal, or one that it consented to when it was opened.
fn accepts(session: SessionView<'_>, lease: LeaseView<'_>) -> bool {
    speaks_for(session.principal(), &lease.terms().principal)
        || session
            .accepts_handover()
            .is_some_and(|prefix| lease.members().all(|name| name.starts_with(prefix)))
}

/// The terms of a lease once a session by hand keeps it.
fn kept_by(terms: Policy, session: SessionView<'_>) -> Policy {
    Policy {
        mode: Mode::Session,
        ttl_ms: session.ttl_ms(),
        grace_ms: session.grace_ms(),
        session: Some(session.id()),
        ..terms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // In a cluster uid 1000 of one machine released what uid 1000 of another held.
    #[test]
    fn principals_of_one_machine_are_not_those_of_another() {
        let yes = [
            ("uid:7@a", "uid:7@a"),
            ("uid:7@a", "local@a"),
            ("uid:7", "local"),
            // From before the cluster, or after it.
            ("uid:7@a", "uid:7"),
            ("uid:7@a", "local"),
            ("uid:7", "uid:7@a"),
            ("local@a", "local"),
            ("local", "local@a"),
            ("token:ci", "token:ci"),
        ];
        let no = [
            ("uid:7@a", "uid:7@b"),
            ("uid:7@a", "local@b"),
            ("local@a", "local@b"),
            ("uid:7@a", "uid:8@a"),
            ("uid:7@a", "uid:8"),
            ("local@a", "uid:7@a"),
            ("local", "uid:7"),
            ("token:ci", "local@a"),
            ("token:ci@a", "token:ci"),
            ("cert:CN=x@a", "cert:CN=x"),
            ("uid:7@a", "token:ci"),
        ];
        for (caller, principal) in yes {
            assert!(speaks_for(caller, principal), "{caller} for {principal}");
        }
        for (caller, principal) in no {
            assert!(!speaks_for(caller, principal), "{caller} for {principal}");
        }
        assert_eq!(as_local("uid:7@a").as_deref(), Some("local@a"));
        assert_eq!(as_local("uid:7").as_deref(), Some("local"));
        assert_eq!(as_local("local@a"), None);
        assert_eq!(as_local("token:ci"), None);
    }
}
