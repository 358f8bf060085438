//! What stands between revoke and reclaim, and what follows an end. A gate is confirmed or timed out, and
//! the reclaim says which; a notice is kept until it is settled, across restarts.

use crate::engine::Engine;
use crate::journal::Out;
use crate::report::Report;
use std::collections::{BTreeMap, BTreeSet};
use tenure_kernel::{
    Action, Actor, Command, Decision, Face, GateReport, Internal, LeaseId, LeaseState, Reclaim, ReclaimBy,
    Revoked, Stamp, Tick,
};

/// Gates that time out in one turn.
const GATES_TIMED_OUT_MAX: usize = 256;
/// Notices given up in one turn.
const NOTICES_GIVEN_UP_MAX: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Gates {
    open: BTreeMap<LeaseId, Tick>,
    deadlines: BTreeSet<(Tick, LeaseId)>,
    settled: BTreeMap<LeaseId, GateReport>,
}

impl Gates {
    fn open(&mut self, lease: LeaseId, until: Tick) {
        self.open.insert(lease, until);
        self.deadlines.insert((until, lease));
    }

    fn settle(&mut self, lease: LeaseId, report: GateReport) -> bool {
        let Some(until) = self.open.remove(&lease) else { return false };
        self.deadlines.remove(&(until, lease));
        self.settled.insert(lease, report);
        true
    }

    /// How the gate of a lease went; `None` while it is open.
    fn report(&self, lease: LeaseId) -> Option<GateReport> {
        if self.open.contains_key(&lease) {
            return None;
        }
        Some(self.settled.get(&lease).copied().unwrap_or(GateReport::None))
    }

    pub(crate) fn remaining_ms(&self, lease: LeaseId, now: Tick) -> u64 {
        self.open.get(&lease).map_or(0, |until| until.ms_since(now))
    }

    pub(crate) fn forget(&mut self, lease: LeaseId) {
        if let Some(until) = self.open.remove(&lease) {
            self.deadlines.remove(&(until, lease));
        }
        self.settled.remove(&lease);
    }

    pub(crate) fn next_deadline(&self) -> Option<Tick> {
        self.deadlines.first().map(|(until, _)| *until)
    }
}

/// Notices not yet settled, by the age of the end they tell of.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    ended: BTreeMap<LeaseId, Tick>,
    by_age: BTreeSet<(Tick, LeaseId)>,
}

impl Notices {
    pub(crate) fn sent(&mut self, lease: LeaseId, ended: Tick) {
        self.ended.insert(lease, ended);
        self.by_age.insert((ended, lease));
    }

    pub(crate) fn settled(&mut self, lease: LeaseId) {
        if let Some(ended) = self.ended.remove(&lease) {
            self.by_age.remove(&(ended, lease));
        }
    }

    fn oldest(&self) -> Option<(Tick, LeaseId)> {
        self.by_age.first().copied()
    }
}

impl Engine {
    pub(crate) fn after_revoke(&mut self, stamp: Stamp, revoked: &Revoked) {
        let view = self.kernel.live(revoked.lease).expect("invariant: a revoked lease is live");
        // Who gave it back need not be told.
        let told = revoked.actor != Actor::Holder;
        let session = view.session().filter(|id| told && self.liveness.connection_is_open(*id));
        if let Some(session) = session {
            let push = crate::answer::Push::Lost {
                session,
                lease: revoked.lease,
                epoch: revoked.epoch,
                reason: revoked.reason,
            };
            self.journal.emit(stamp.lsn, Out::Push(push), &mut self.leaving);
        }
        if view.terms().gate {
            self.open_gate(revoked.lease);
        }
        self.try_reclaim(revoked.lease);
    }

    /// Starts the gate of a revoking lease, once its revoke is durable.
    pub(crate) fn open_gate(&mut self, lease: LeaseId) {
        let of_stream = self.kernel.live(lease).is_some_and(|view| view.terms().face == Face::Streams);
        let within_ms = if of_stream { self.config.hook_timeout_ms } else { self.config.gate_timeout_ms };
        self.gates.open(lease, self.tick.after_ms(within_ms));
        self.note(&tenure_kernel::Note::GateOpened { lease });
        let depends_on = self.journal.newest();
        self.journal.emit(depends_on, Out::OpenGate(lease), &mut self.leaving);
    }

    pub(crate) fn gate_done(&mut self, lease: LeaseId, report: GateReport) {
        if self.gates.settle(lease, report) {
            self.try_reclaim(lease);
        }
    }

    pub(crate) fn gate_deadlines(&mut self) {
        for _ in 0..GATES_TIMED_OUT_MAX {
            let first = self.gates.deadlines.first().copied();
            let Some((_, lease)) = first.filter(|(until, _)| *until <= self.tick && self.journal.room() > 0)
            else {
                return;
            };
            self.counters.gates_timed_out += 1;
            self.gates.settle(lease, GateReport::TimedOut);
            self.try_reclaim(lease);
        }
    }

    /// Reclaims a revoking lease if the daemon may and gate, promise and delay allow.
    pub(crate) fn try_reclaim(&mut self, lease: LeaseId) {
        let Some(view) = self.kernel.live(lease) else { return };
        let by_daemon = match view.state() {
            LeaseState::Revoking(revocation) => match revocation.reclaim_by {
                ReclaimBy::Daemon => true,
                ReclaimBy::Operator => false,
            },
            LeaseState::Reserved { .. } | LeaseState::Active { .. } => false,
        };
        let Some(gate) = self.gates.report(lease) else { return };
        let Some(ground) = self.liveness.reclaim_ground(view, self.tick) else { return };
        if by_daemon {
            let reclaim = Reclaim { lease, epoch: None, actor: Actor::Daemon, ground, gate };
            self.order(Action::Reclaim(reclaim));
        }
    }

    pub(crate) fn gate_report(&self, lease: LeaseId) -> Option<GateReport> {
        self.gates.report(lease)
    }

    /// Submits a command of the daemon's own, which the rules cannot refuse.
    pub(crate) fn order(&mut self, action: Action) -> Stamp {
        let command = Command::plain(action);
        match self.kernel.decide(self.journal.peek(self.tick), &command) {
            Ok(Decision::Event(event)) => self.apply(&event),
            Ok(Decision::Replay(_)) => unreachable!("invariant: the daemon's commands have no operation id"),
            Err(rejection) => panic!("invariant: {command:?} was rejected: {rejection:?}"),
        }
    }

    pub(crate) fn settle_notice(&mut self, lease: LeaseId) {
        let settled = self.kernel.decide_internal(self.journal.peek(self.tick), &Internal::Notified(lease));
        if let Some(event) = settled {
            self.apply(&event);
        }
    }

    /// When the oldest notice is given up.
    pub(crate) fn next_notice_deadline(&self) -> Option<Tick> {
        self.notices.oldest().map(|(ended, _)| ended.after_ms(self.config.notice_give_up_ms))
    }

    /// Gives up notices that nobody could deliver for a day.
    pub(crate) fn notice_deadlines(&mut self) {
        for _ in 0..NOTICES_GIVEN_UP_MAX {
            let due = self.next_notice_deadline().is_some_and(|until| until <= self.tick);
            let Some((_, lease)) = self.notices.oldest().filter(|_| due && self.journal.room() > 0) else {
                return;
            };
            self.counters.notices_given_up += 1;
            self.settle_notice(lease);
            let report = Out::Report(Report::NoticeGivenUp { lease });
            self.journal.emit(self.journal.newest(), report, &mut self.leaving);
        }
    }
}
