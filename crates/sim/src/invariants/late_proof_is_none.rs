//! A timely heartbeat that comes when its lease is over is none, whether the end was recorded or not; who is refused
//! for that finds the end durable. (DESIGN P5; decision 0032)

use super::{Said, Scene, Verdict};
use crate::ledger::Recorded;
use crate::network::Turn;
use crate::story::Story;
use crate::violation::Violation;
use std::collections::{BTreeMap, BTreeSet};
use tenure_engine::{Answer, Input, Out, Refused, Request};
use tenure_kernel::{Action, Change, LeaseId, Lsn, Mode, Policy, Rejection, StateName, Tick};

const NAME: &str = "late_proof_is_none";

/// What proved the life of each lease, counted in ticks as the engine counts.
#[derive(Default)]
pub(super) struct Proofs {
    leases: BTreeMap<LeaseId, Proven>,
    /// Leases that an operator drained or brought back: how long they are honoured is another count.
    steered: BTreeSet<LeaseId>,
}

#[derive(Default)]
struct Proven {
    /// When it went into use.
    since: Option<Tick>,
    /// Answers leave later than they were decided: a later proof may be known before an earlier one is judged.
    proofs: Vec<Proof>,
}

/// One proof of life, with the terms it was given under.
#[derive(Clone, Copy)]
struct Proof {
    at: Tick,
    /// The event it is, or the last one before the turn of a heartbeat.
    lsn: Lsn,
    /// Ttl and grace; `None` where the lease's own heartbeats keep nothing.
    lasts_ms: Option<u64>,
    /// The breaker may postpone its end.
    has_grace: bool,
    /// The end of its lifetime, which nothing postpones.
    ends: Option<Tick>,
}

impl Proofs {
    /// Bringing back a silent lease leaves no event behind, so that the request has to do.
    pub(super) fn arrives(&mut self, input: &Input) {
        if let Request::Submit(submit) = &input.request
            && let Action::Drain(steer) | Action::Revive(steer) = &*submit.action
        {
            self.steered.insert(steer.lease);
        }
    }

    pub(super) fn event(&mut self, scene: &Scene<'_>, recorded: &Recorded) {
        let at = recorded.tick;
        let terms = |lease: &LeaseId| scene.story.leases.get(lease).map(|told| &told.policy);
        match &recorded.event.change {
            Change::Granted(granted) if granted.deadline.is_none() => {
                let lease = LeaseId::new(0, recorded.lsn);
                self.leases.insert(lease, Proven { since: Some(at), proofs: Vec::new() });
                self.begins(lease, at, recorded.lsn, &granted.policy);
            }
            Change::Activated { lease } => {
                self.leases.insert(*lease, Proven { since: Some(at), proofs: Vec::new() });
                terms(lease).into_iter().for_each(|policy| self.begins(*lease, at, recorded.lsn, policy));
            }
            Change::Rebound(rebound) => {
                let policy = rebound.policy.as_ref().or_else(|| terms(&rebound.lease));
                policy.into_iter().for_each(|policy| self.begins(rebound.lease, at, recorded.lsn, policy));
            }
            _ => {}
        }
    }

    pub(super) fn said(&mut self, scene: &Scene<'_>, said: &Said<'_>) -> Verdict {
        let (Out::Answer(_, answer), Some(ask)) = (said.out, said.ask) else { return Ok(()) };
        let (lease, timely) = match &ask.request {
            Request::Heartbeat { lease, .. } => (*lease, false),
            Request::TimelyHeartbeat { lease, .. } => (*lease, true),
            _ => return Ok(()),
        };
        let Some(turn) = ask.turn else { return Ok(()) };
        let over = self.over(lease, turn).filter(|_| timely);
        match (answer, over) {
            (Answer::Renewed { .. }, Some(over)) => {
                let text = format!("lease {lease} was over at {over} and was renewed at {}", turn.tick);
                Err(Violation::new(NAME, text))
            }
            (Answer::Renewed { .. }, None) => {
                self.proves(lease, turn);
                Ok(())
            }
            (Answer::Refused(Refused::Rejected(rejection)), Some(over)) if says_it_ended(rejection) => {
                if ended(scene, lease) {
                    return Ok(());
                }
                let text = format!("lease {lease} was over at {over}, refused at {} and goes on", turn.tick);
                Err(Violation::new(NAME, text))
            }
            _ => Ok(()),
        }
    }

    /// Every holder has a full ttl from here.
    pub(super) fn restarted(&mut self, tick: Tick, story: &Story) {
        let before = core::mem::take(&mut self.leases);
        for told in story.live().filter(|told| told.state == StateName::Active) {
            let since = before.get(&told.id).and_then(|proven| proven.since);
            self.leases.insert(told.id, Proven { since, proofs: Vec::new() });
            self.begins(told.id, tick, Lsn(0), &told.policy);
        }
    }

    /// The lease goes into use, or on under these terms.
    fn begins(&mut self, lease: LeaseId, at: Tick, lsn: Lsn, policy: &Policy) {
        let Some(proven) = self.leases.get_mut(&lease) else { return };
        let silence_ms = u64::from(policy.ttl_ms) + u64::from(policy.grace_ms);
        let lifetime_ms = Some(policy.max_lifetime_ms).filter(|limit| *limit > 0);
        proven.proofs.push(Proof {
            at,
            lsn,
            lasts_ms: (policy.mode == Mode::Heartbeat).then_some(silence_ms),
            has_grace: policy.grace_ms > 0,
            ends: proven.since.zip(lifetime_ms).map(|(since, limit)| since.after_ms(limit)),
        });
    }

    /// A heartbeat that counted.
    fn proves(&mut self, lease: LeaseId, turn: Turn) {
        let Some(proven) = self.leases.get_mut(&lease) else { return };
        if let Some(before) = proven.last_by(turn) {
            proven.proofs.push(Proof { at: turn.tick, lsn: turn.seen, ..before });
        }
    }

    /// When the lease was over, if it was by this turn.
    fn over(&self, lease: LeaseId, turn: Turn) -> Option<Tick> {
        let proof = self.leases.get(&lease)?.last_by(turn)?;
        let postponed = turn.held && proof.has_grace;
        let silence = proof.lasts_ms.filter(|_| !postponed && !self.steered.contains(&lease));
        let silent_end = silence.map(|lasts_ms| proof.at.after_ms(lasts_ms));
        silent_end.into_iter().chain(proof.ends).filter(|end| *end <= turn.tick).min()
    }
}

impl Proven {
    /// The last proof that a turn knew when it began: what it decides itself comes behind the proofs of life.
    fn last_by(&self, turn: Turn) -> Option<Proof> {
        let known = self.proofs.iter().filter(|proof| proof.at <= turn.tick && proof.lsn <= turn.seen);
        known.max_by_key(|proof| (proof.at, proof.lsn)).copied()
    }
}

fn says_it_ended(rejection: &Rejection) -> bool {
    matches!(rejection, Rejection::InvalidState { .. } | Rejection::StaleEpoch { .. })
}

/// Whether the disk holds the revoke, or an end by other means.
fn ended(scene: &Scene<'_>, lease: LeaseId) -> bool {
    let Some(told) = scene.story.leases.get(&lease) else { return true };
    told.steps.iter().any(|step| {
        let in_use = matches!(step.state, StateName::Reserved | StateName::Active);
        !in_use && step.lsn.0 <= scene.durable_lsn
    })
}
