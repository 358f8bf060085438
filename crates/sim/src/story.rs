//! What happened, told from the events alone: a second, naive model of leases that shares no code with the
//! kernel. Invariants read it; the world writes it, frame by frame.

use crate::ledger::Recorded;
use std::collections::BTreeMap;
use tenure_kernel::{
    Actor, Change, Epitaph, Epoch, LeaseId, Lsn, Mode, OpenSession, Policy, Reason, ReclaimBy, ReclaimRule,
    SessionId, StateName, Text, Tick,
};

/// A lease as the events tell it.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) id: LeaseId,
    pub(crate) holder: Text,
    pub(crate) members: Vec<Text>,
    pub(crate) policy: Policy,
    pub(crate) state: StateName,
    pub(crate) epoch: Epoch,
    pub(crate) drained: bool,
    pub(crate) deadline: Option<Tick>,
    pub(crate) reason: Option<Reason>,
    /// Revoked, and an operator wants to reclaim it.
    pub(crate) left_to_operator: bool,
    /// Its holder gave it back, by a revoke.
    pub(crate) given_back: bool,
    pub(crate) revoked_tick: Tick,
    /// It was bound anew, to whichever holder.
    pub(crate) was_rebound: bool,
    /// The longest promise that any of its terms so far could make.
    pub(crate) promise_ms_max: u64,
    /// By then every promise to a holder that it does not have any more has run out.
    pub(crate) formers_until: Tick,
    /// Every step: where, and how things stood after it.
    pub(crate) steps: Vec<Step>,
}

/// One step in the life of a lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) lsn: Lsn,
    pub(crate) epoch: Epoch,
    pub(crate) state: StateName,
}

/// The first effect of an operation id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effected {
    pub(crate) lsn: Lsn,
    pub(crate) tick: Tick,
    pub(crate) keep_ms: u64,
}

/// Everything the events tell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    pub(crate) leases: BTreeMap<LeaseId, Told>,
    /// Which live lease covers a resource.
    pub(crate) covered: BTreeMap<Text, LeaseId>,
    pub(crate) pools: BTreeMap<Text, u32>,
    /// Open ones.
    pub(crate) sessions: BTreeMap<SessionId, OpenSession>,
    pub(crate) operations: BTreeMap<u128, Effected>,
    pub(crate) last: Lsn,
    pub(crate) last_tick: Tick,
}

impl Told {
    pub(crate) fn is_live(&self) -> bool {
        self.state.is_live()
    }

    /// Until when a former holder may act at most. A leader that began at this tick must assume that every
    /// earlier holder was promised the longest time from there. (decision 0052)
    pub(crate) fn formers_until(&self, began: Tick) -> Tick {
        let assumed = if self.was_rebound { began.after_ms(self.promise_ms_max) } else { Tick(0) };
        self.formers_until.max(assumed)
    }

    /// Epoch before the step at `lsn`.
    pub(crate) fn epoch_before(&self, lsn: Lsn) -> Option<Epoch> {
        self.steps.iter().rev().find(|step| step.lsn < lsn).map(|step| step.epoch)
    }

    /// The earliest position from which epoch and state were so.
    pub(crate) fn since(&self, epoch: Epoch, state: StateName) -> Option<Lsn> {
        self.steps.iter().find(|step| step.epoch == epoch && step.state == state).map(|step| step.lsn)
    }

    /// The earliest position from which the epoch was so.
    pub(crate) fn epoch_since(&self, epoch: Epoch) -> Option<Lsn> {
        self.steps.iter().find(|step| step.epoch == epoch).map(|step| step.lsn)
    }

    /// The earliest position from which the state was so.
    pub(crate) fn state_since(&self, state: StateName) -> Option<Lsn> {
        self.steps.iter().find(|step| step.state == state).map(|step| step.lsn)
    }

    fn step(&mut self, lsn: Lsn) {
        self.steps.push(Step { lsn, epoch: self.epoch, state: self.state });
    }
}

impl Story {
    /// The story that these events tell.
    pub(crate) fn of(events: impl Iterator<Item = Recorded>) -> Self {
        let mut story = Self::default();
        events.for_each(|recorded| story.tell(&recorded));
        story
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = &Told> {
        self.leases.values().filter(|lease| lease.is_live())
    }

    /// Goes on by one event. Believes everything; invariants have judged it before.
    pub(crate) fn tell(&mut self, recorded: &Recorded) {
        let Recorded { lsn, tick, event } = recorded;
        self.last = *lsn;
        self.last_tick = *tick;
        if let Some(operation) = &event.operation {
            let effected = Effected { lsn: *lsn, tick: *tick, keep_ms: operation.keep_ms };
            self.operations.insert(operation.key, effected);
        }
        match &event.change {
            Change::Granted(granted) => {
                let id = LeaseId::new(0, *lsn);
                let state = if granted.deadline.is_some() { StateName::Reserved } else { StateName::Active };
                for name in &granted.members {
                    self.covered.insert(name.clone(), id);
                }
                let told = Told {
                    id,
                    holder: granted.holder.clone(),
                    members: granted.members.to_vec(),
                    policy: granted.policy.clone(),
                    state,
                    epoch: Epoch::FIRST,
                    drained: false,
                    deadline: granted.deadline,
                    reason: None,
                    left_to_operator: false,
                    given_back: false,
                    revoked_tick: Tick(0),
                    was_rebound: false,
                    promise_ms_max: self.promise_ms(&granted.policy),
                    formers_until: Tick(0),
                    steps: vec![Step { lsn: *lsn, epoch: Epoch::FIRST, state }],
                };
                self.leases.insert(id, told);
            }
            Change::Activated { lease } => self.change(*lease, *lsn, |told| told.state = StateName::Active),
            Change::Rebound(rebound) => {
                let promise_ms = rebound.policy.as_ref().map_or(0, |policy| self.promise_ms(policy));
                self.change(rebound.lease, *lsn, |told| {
                    if told.holder != rebound.holder {
                        let until = tick.after_ms(told.promise_ms_max);
                        told.formers_until = told.formers_until.max(until);
                    }
                    told.was_rebound = true;
                    told.promise_ms_max = told.promise_ms_max.max(promise_ms);
                    told.epoch = rebound.epoch;
                    told.holder = rebound.holder.clone();
                    if let Some(policy) = &rebound.policy {
                        told.policy = policy.clone();
                    }
                });
            }
            Change::Amended(amended) => self.change(amended.lease, *lsn, |_| {}),
            Change::Drained(steered) => self.change(steered.lease, *lsn, |told| told.drained = true),
            Change::Revived(steered) => self.change(steered.lease, *lsn, |told| told.drained = false),
            Change::Revoked(revoked) => self.change(revoked.lease, *lsn, |told| {
                told.state = StateName::Revoking;
                told.epoch = revoked.epoch;
                told.reason = Some(revoked.reason);
                told.revoked_tick = *tick;
                told.left_to_operator = revoked.reclaim_by == ReclaimBy::Operator;
                told.given_back = revoked.actor == Actor::Holder;
            }),
            Change::Released(released) => self.end(&released.was, *lsn, StateName::Released),
            Change::Reclaimed(reclaimed) => self.end(&reclaimed.was, *lsn, StateName::Revoked),
            Change::Expired(expired) => self.end(&expired.was, *lsn, StateName::Expired),
            Change::SessionOpened(open) => {
                self.sessions.insert(open.session, open.clone());
            }
            Change::PoolDefined { name, size } => {
                self.pools.insert(name.clone(), *size);
            }
            Change::PoolRemoved { name } => {
                self.pools.remove(name);
            }
            Change::SessionClosed { session, .. } => {
                self.sessions.remove(session);
            }
            Change::Notified { .. } | Change::Trimmed { .. } | Change::Configured(_) => {}
        }
    }

    /// How long a promise under these terms lasts at most.
    fn promise_ms(&self, policy: &Policy) -> u64 {
        let of_session = policy.session.and_then(|session| self.sessions.get(&session));
        match (policy.reclaim_rule, policy.mode) {
            (ReclaimRule::AtOnce, _) | (_, Mode::Permanent) => 0,
            (ReclaimRule::AfterPromise, Mode::Heartbeat | Mode::Session) => {
                u64::from(policy.ttl_ms.max(of_session.map_or(0, |open| open.ttl_ms)))
            }
        }
    }

    fn change(&mut self, lease: LeaseId, lsn: Lsn, change: impl FnOnce(&mut Told)) {
        if let Some(told) = self.leases.get_mut(&lease) {
            change(told);
            told.step(lsn);
        }
    }

    fn end(&mut self, was: &Epitaph, lsn: Lsn, state: StateName) {
        if let Some(told) = self.leases.get_mut(&was.lease) {
            told.state = state;
            told.epoch = was.epoch;
            told.step(lsn);
            for name in &told.members {
                if self.covered.get(name) == Some(&was.lease) {
                    self.covered.remove(name);
                }
            }
        }
    }
}
