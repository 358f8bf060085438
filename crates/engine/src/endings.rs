//! Ends that follow from one event but are too many for one turn: the leases of a closed session or of a
//! removed pool. The event is durable, so that a restart goes on where this stopped.

use crate::engine::Engine;
use std::collections::VecDeque;
use tenure_kernel::{
    Action, Actor, Evidence, LeaseId, LeaseState, LeaseView, Reason, ReclaimBy, Release, Revoke, SessionId,
    Text, Tick, Token,
};
use tenure_liveness::SessionOver;

#[derive(Debug, Default)]
pub(crate) struct Endings {
    queue: VecDeque<Ending>,
}

#[derive(Debug)]
enum Ending {
    /// Every lease of a closed session.
    Session(SessionId),
    /// Leases of a session whose own grace is over.
    Grace(SessionOver),
    /// Every lease on a member of a removed pool.
    Pool(Text),
    /// Leases that were live when the log was restored from a backup.
    Restored(Vec<LeaseId>),
    /// Sessions that were open then: what their holders have seen belongs to the log that was lost.
    RestoredSessions(Vec<SessionId>),
}

/// How one lease is to end.
enum How {
    Release,
    Revoke(Reason, Evidence),
}

impl Endings {
    pub(crate) fn session(&mut self, session: SessionId) {
        self.queue.push_back(Ending::Session(session));
    }

    pub(crate) fn pool(&mut self, name: Text) {
        self.queue.push_back(Ending::Pool(name));
    }

    /// Leases first, so that they end as restored and not with their session.
    pub(crate) fn restored(&mut self, leases: Vec<LeaseId>, sessions: Vec<SessionId>) {
        if !leases.is_empty() {
            self.queue.push_back(Ending::Restored(leases));
        }
        if !sessions.is_empty() {
            self.queue.push_back(Ending::RestoredSessions(sessions));
        }
    }

    fn put_back(&mut self, over: bool, ending: Ending) {
        if !over {
            self.queue.push_front(ending);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

impl Engine {
    /// A grace of a session is over.
    pub(crate) fn session_over(&mut self, over: SessionOver) {
        if let Some(due) = self.session_due(over) {
            self.counters.expiry_lateness_ms.record(self.tick.ms_since(due));
        }
        self.endings.queue.push_back(Ending::Grace(over));
        if over.closes {
            let reason = Reason::SessionExpired;
            self.order(Action::CloseSession { session: over.session, reason });
        }
    }

    /// When the end of a session's grace was due, where the evidence tells.
    fn session_due(&self, over: SessionOver) -> Option<Tick> {
        let silent_from = match over.evidence {
            Evidence::Disconnected { at } => at,
            Evidence::Silence { last_seen, .. } => {
                last_seen.after_ms(self.kernel.session(over.session)?.ttl_ms().into())
            }
            Evidence::None | Evidence::Lifetime { .. } | Evidence::Drained { .. } => return None,
        };
        Some(silent_from.after_ms(over.grace_ms.into()))
    }

    /// Ends up to `room` leases of what is in the queue.
    pub(crate) fn go_on_ending(&mut self, room: usize) {
        let mut left = room;
        while left > 0 {
            let room = left.min(self.journal.room_for_ends());
            if room == 0 {
                return;
            }
            let Some(ending) = self.endings.queue.pop_front() else { return };
            left = left.saturating_sub(self.go_on_with(ending, room).max(1));
        }
    }

    /// Does up to `room` of one thing and puts the rest back; returns how much it did.
    fn go_on_with(&mut self, ending: Ending, room: usize) -> usize {
        match ending {
            Ending::Restored(mut leases) => {
                let now = leases.split_off(leases.len().saturating_sub(room));
                self.endings.put_back(leases.is_empty(), Ending::Restored(leases));
                for lease in &now {
                    if self.kernel.live(*lease).is_some_and(has_authority) {
                        self.end(*lease, How::Revoke(Reason::Restored, Evidence::None));
                    }
                }
                now.len()
            }
            Ending::RestoredSessions(mut sessions) => {
                let now = sessions.split_off(sessions.len().saturating_sub(room));
                self.endings.put_back(sessions.is_empty(), Ending::RestoredSessions(sessions));
                for session in &now {
                    if self.kernel.session(*session).is_some_and(|open| open.closed().is_none()) {
                        self.order(Action::CloseSession { session: *session, reason: Reason::Restored });
                    }
                }
                now.len()
            }
            Ending::Session(_) | Ending::Grace(_) | Ending::Pool(_) => {
                let chosen = self.choose(&ending, room);
                self.endings.put_back(chosen.is_empty(), ending);
                let count = chosen.len();
                for (lease, how) in chosen {
                    self.end(lease, how);
                }
                count
            }
        }
    }

    fn choose(&self, ending: &Ending, room: usize) -> Vec<(LeaseId, How)> {
        match ending {
            Ending::Session(session) => {
                let closed = self.kernel.session(*session).and_then(|session| session.closed());
                let explicit = closed == Some(Reason::Explicit);
                self.kernel
                    .leases_of(*session)
                    .filter(|view| if explicit { has_authority(*view) } else { in_use(*view) })
                    .take(room)
                    .map(|view| (view.id(), if explicit { How::Release } else { expired(Evidence::None) }))
                    .collect()
            }
            Ending::Grace(over) => self
                .kernel
                .leases_of(over.session)
                .filter(|view| in_use(*view) && view.terms().grace_ms <= over.grace_ms)
                .take(room)
                .map(|view| (view.id(), expired(over.evidence)))
                .collect(),
            Ending::Pool(name) => {
                // A lease may cover several members; it ends once.
                let mut leases: Vec<LeaseId> = self
                    .kernel
                    .holders_of_pool(name)
                    .filter(|view| has_authority(*view))
                    .map(|view| view.id())
                    .take(room)
                    .collect();
                leases.sort_unstable();
                leases.dedup();
                let how = || How::Revoke(Reason::PoolRemoved, Evidence::None);
                leases.into_iter().map(|lease| (lease, how())).collect()
            }
            Ending::Restored(_) | Ending::RestoredSessions(_) => Vec::new(),
        }
    }

    fn end(&mut self, lease: LeaseId, how: How) {
        let Some(view) = self.kernel.live(lease) else { return };
        match how {
            How::Release if view.terms().gate => {
                self.order(given_back(lease, Text::const_new("session closed")));
            }
            How::Release => {
                let token = Token::new(lease, view.epoch());
                self.order(Action::Release(Release { token, text: Text::const_new("session closed") }));
            }
            How::Revoke(reason, evidence) => {
                self.order(daemon_revoke(lease, reason, evidence, Text::default()));
            }
        }
    }

    /// Liveness says that a lease is over.
    pub(crate) fn lease_over(&mut self, lease: LeaseId, reason: Reason, evidence: Evidence) {
        let Some(view) = self.kernel.live(lease) else { return };
        if let Some(due) = due(view, evidence) {
            self.counters.expiry_lateness_ms.record(self.tick.ms_since(due));
        }
        let text = match evidence {
            Evidence::Drained { .. } => Text::const_new("drained"),
            Evidence::None
            | Evidence::Silence { .. }
            | Evidence::Disconnected { .. }
            | Evidence::Lifetime { .. } => Text::default(),
        };
        self.order(daemon_revoke(lease, reason, evidence, text));
    }
}

fn expired(evidence: Evidence) -> How {
    How::Revoke(Reason::SessionExpired, evidence)
}

/// The holder gives back a lease that has a gate.
pub(crate) fn given_back(lease: LeaseId, text: Text) -> Action {
    Action::Revoke(Revoke {
        lease,
        epoch: None,
        reason: Reason::Explicit,
        text,
        actor: Actor::Holder,
        evidence: Evidence::None,
        reclaim_by: ReclaimBy::Daemon,
    })
}

pub(crate) fn daemon_revoke(lease: LeaseId, reason: Reason, evidence: Evidence, text: Text) -> Action {
    Action::Revoke(Revoke {
        lease,
        epoch: None,
        reason,
        text,
        actor: Actor::Daemon,
        evidence,
        reclaim_by: ReclaimBy::Daemon,
    })
}

pub(crate) fn has_authority(view: LeaseView<'_>) -> bool {
    match view.state() {
        LeaseState::Reserved { .. } | LeaseState::Active { .. } => true,
        LeaseState::Revoking(_) => false,
    }
}

fn in_use(view: LeaseView<'_>) -> bool {
    match view.state() {
        LeaseState::Active { .. } => true,
        LeaseState::Reserved { .. } | LeaseState::Revoking(_) => false,
    }
}

/// When the end was due, where the evidence tells.
fn due(view: LeaseView<'_>, evidence: Evidence) -> Option<Tick> {
    let terms = view.terms();
    match evidence {
        Evidence::Silence { last_seen, .. } => {
            Some(last_seen.after_ms(terms.ttl_ms.into()).after_ms(terms.grace_ms.into()))
        }
        Evidence::Disconnected { at } => Some(at.after_ms(terms.grace_ms.into())),
        Evidence::Lifetime { since } => Some(since.after_ms(terms.max_lifetime_ms)),
        Evidence::None | Evidence::Drained { .. } => None,
    }
}
