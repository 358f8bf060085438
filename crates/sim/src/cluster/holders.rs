//! Programs that hold things, each with a clock of its own. They count what they are promised exactly, without margin or
//! factor, from before they asked, and prove life while they live.

use super::calls::{Purpose, Way};
use super::clock::{Clock, DRIFT_PPM_MAX};
use super::connecting::Connection;
use super::network::CallId;
use super::world::{Happening, World};
use crate::random::Random;
use crate::violation::Violation;
use tenure_engine::{Answer, Check, LeaseFound, LeaseSnapshot, Refused, Request, Submit};
use tenure_kernel::{
    Action, Bundle, Epoch, Fence, Grant, LeaseId, LeaseState, Lsn, Member, Policy, Release, SessionId, Start,
    Text, Token,
};
use tenure_liveness::Refusal;

/// One program.
pub(super) struct Holder {
    pub(super) name: Text,
    clock: Clock,
    pub(super) hands: Vec<Hand>,
    old: Vec<(LeaseId, Epoch)>,
    pub(super) session: Option<ByHand>,
    /// A connection keeps its leases.
    pub(super) by_connection: bool,
    /// It proves no life by itself: its open connection is all there is.
    pub(super) is_mute: bool,
    pub(super) connection: Option<Connection>,
    pub(super) waiting: usize,
    pub(super) paused_until: u64,
    pub(super) is_dead: bool,
    /// It does nothing but keep what it has.
    pub(super) is_steady: bool,
}

/// A lease as its holder sees it.
#[derive(Clone, Debug)]
pub(super) struct Hand {
    pub(super) lease: LeaseId,
    pub(super) epoch: Epoch,
    pub(super) fence: Fence,
    pub(super) members: Vec<Text>,
    pub(super) ttl_ms: u64,
    pub(super) is_reserved: bool,
    pub(super) session: Option<SessionId>,
    /// It acts on it until here, in the world's time.
    pub(super) until: u64,
    pub(super) asked_at: u64,
}

/// A session as its holder sees it.
#[derive(Clone, Debug)]
pub(super) struct ByHand {
    pub(super) session: SessionId,
    pub(super) ttl_ms: u64,
    pub(super) grace_ms: u64,
    /// Losses up to here were told.
    pub(super) seen: Lsn,
    pub(super) is_open: bool,
    pub(super) asked_at: u64,
}

impl Hand {
    pub(super) fn acts(&self, now: u64) -> bool {
        !self.is_reserved && now < self.until
    }
}

impl Holder {
    pub(super) fn new(number: usize, has_connections: bool, random: &mut Random) -> Self {
        let ppm = random.within(0..=2 * DRIFT_PPM_MAX as u64) as i64 - DRIFT_PPM_MAX;
        Self {
            name: format!("h{number}").into(),
            clock: Clock::new(ppm, 0),
            hands: Vec::new(),
            old: Vec::new(),
            session: None,
            by_connection: has_connections && random.chance(600),
            is_mute: random.chance(300),
            connection: None,
            waiting: 0,
            paused_until: 0,
            is_dead: false,
            is_steady: false,
        }
    }

    pub(super) fn hand(&mut self, lease: LeaseId) -> Option<&mut Hand> {
        self.hands.iter_mut().find(|hand| hand.lease == lease)
    }

    pub(super) fn stop(&mut self, lease: LeaseId) {
        if let Some(index) = self.hands.iter().position(|hand| hand.lease == lease) {
            let hand = self.hands.remove(index);
            if self.old.len() == 64 {
                self.old.remove(0);
            }
            self.old.push((hand.lease, hand.epoch));
        }
    }

    /// Until when it acts on what was promised from before it asked.
    pub(super) fn until(&self, sent: u64, valid_ms: u64) -> u64 {
        sent + self.clock.world_ms(valid_ms)
    }
}

impl World {
    /// One act of a holder; the next one is planned.
    pub(super) fn act(&mut self, number: usize) {
        if self.holders[number].is_dead {
            return;
        }
        let paused = self.holders[number].paused_until.saturating_sub(self.now);
        if paused > 0 {
            return self.at(paused, Happening::Act(number));
        }
        self.prove_life(number);
        if !self.holders[number].is_steady {
            self.do_something(number);
        }
        let wait = self.random.within(20..=self.profile.act_ms_max);
        self.at(wait, Happening::Act(number));
    }

    fn prove_life(&mut self, number: usize) {
        for hand in self.holders[number].hands.clone() {
            let is_due = self.now >= hand.asked_at + hand.ttl_ms / 4 && hand.session.is_none();
            if is_due && !hand.is_reserved && self.random.chance(900) {
                if let Some(hand) = self.holders[number].hand(hand.lease) {
                    hand.asked_at = self.now;
                }
                let request =
                    Request::Heartbeat { lease: hand.lease, epoch: hand.epoch, via: None, asker: None };
                self.call(number, request, Purpose::Heartbeat(hand.lease, hand.epoch), false);
            }
            if hand.until + 20_000 < self.now {
                self.holders[number].stop(hand.lease);
            }
        }
        self.prove_session(number);
        self.keep_by_connection(number);
    }

    fn do_something(&mut self, number: usize) {
        match self.random.below(100) {
            0..40 => self.grant(number),
            40..50 => self.release(number),
            50..70 => self.check(number),
            70..82 => self.look(number),
            82..92 => self.activate(number),
            92..94 if self.profile.work.pauses && !self.healing => {
                let lasts = self.random.within(500..=8_000);
                self.holders[number].paused_until = self.now + lasts;
            }
            94..97 if self.holders[number].by_connection => self.leave(number),
            94..97 if self.profile.work.sessions && !self.holders[number].by_connection => {
                self.open_or_close(number);
            }
            97..99 if self.profile.work.revokes => self.revoke_something(number),
            _ => {}
        }
    }

    fn resource(&mut self) -> Text {
        format!("r{}", self.random.below(self.profile.resources)).into()
    }

    fn grant(&mut self, number: usize) {
        if self.holders[number].hands.len() >= 3 || self.holders[number].waiting >= 3 {
            return;
        }
        let work = self.profile.work;
        let mut names = vec![self.resource()];
        if self.random.chance(250) {
            let name = self.resource();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let ttl_ms = self.random.within(1_000..=self.profile.ttl_ms_max) as u32;
        let grace_ms = self.random.within(0..=self.profile.grace_ms_max) as u32;
        let mut policy = Policy::heartbeat(ttl_ms, grace_ms);
        let mut way = self.any_node();
        if self.holders[number].by_connection {
            let Some(terms) = self.connection_terms(number) else { return };
            (policy, way) = (terms, Way::Connection { only: None });
        } else if let Some(by_hand) = self.holders[number].session.clone().filter(|by_hand| by_hand.is_open)
            && self.random.chance(600)
        {
            policy = Policy::session(by_hand.session, by_hand.ttl_ms as u32, by_hand.grace_ms as u32);
        }
        policy.principal = self.holders[number].name.clone();
        policy.gate = work.gates && self.random.chance(400);
        if work.lifetimes && self.random.chance(200) {
            policy.max_lifetime_ms = self.random.within(500..=8_000);
        }
        let bundle = Bundle { members: names.into_iter().map(Member::Resource).collect() };
        let name = self.holders[number].name.clone();
        let mut grant = Grant::new(bundle, &name, policy);
        if work.reservations && self.random.chance(250) {
            grant.start = Start::Reserved { ttl_ms: self.random.within(300..=4_000) };
        }
        let wait_ms = if work.waits && self.random.chance(500) { self.random.within(200..=4_000) } else { 0 };
        let submit = Submit { wait_ms, ..Submit::now(Action::Grant(grant)) };
        self.submit_over(number, submit, Purpose::Grant, way);
    }

    fn some_hand(&mut self, number: usize) -> Option<Hand> {
        let index = self.random.index(self.holders[number].hands.len())?;
        Some(self.holders[number].hands[index].clone())
    }

    fn release(&mut self, number: usize) {
        let Some(hand) = self.some_hand(number) else { return };
        // From the moment it asks, it does not act on it any more.
        self.holders[number].stop(hand.lease);
        let token = Token::new(hand.lease, hand.epoch);
        let release = Release { token, text: Text::default() };
        self.submit(number, Submit::now(Action::Release(release)), Purpose::Other);
    }

    fn activate(&mut self, number: usize) {
        let Some(hand) = self.some_hand(number).filter(|hand| hand.is_reserved) else { return };
        let token = Token::new(hand.lease, hand.epoch);
        self.submit(number, Submit::now(Action::Activate(token)), Purpose::Activate(hand.lease));
    }

    /// Asks whether a token is good, its own or an old one.
    fn check(&mut self, number: usize) {
        let old = self.holders[number].old.clone();
        let request = match (self.random.below(3), self.some_hand(number), self.random.index(old.len())) {
            (0, Some(hand), _) => Check::Epoch { lease: hand.lease, epoch: hand.epoch },
            (1, Some(hand), _) => Check::Fence { resource: hand.members[0].clone(), fence: hand.fence },
            (_, _, Some(index)) => Check::Epoch { lease: old[index].0, epoch: old[index].1 },
            _ => return,
        };
        self.call(number, Request::Check(request), Purpose::Other, false);
    }

    fn look(&mut self, number: usize) {
        let is_stale_good = self.random.chance(300);
        let request = match (self.random.below(3), self.some_hand(number)) {
            (0, Some(hand)) => Request::Read(hand.lease),
            _ => Request::Resource(self.resource()),
        };
        self.call(number, request, Purpose::Other, is_stale_good);
    }

    /// A holder hears an answer.
    pub(super) fn heard(
        &mut self,
        id: CallId,
        via: Option<SessionId>,
        sent: u64,
        answer: &Answer,
    ) -> Result<(), Violation> {
        // Who has closed its connection reads nothing more there.
        if via.is_some_and(|session| self.left.contains(&session)) {
            return Ok(());
        }
        let Some(call) = self.forget_call(id) else { return Ok(()) };
        let number = call.holder;
        if call.purpose == Purpose::Probe {
            return self.probed(&call.request, answer);
        }
        if self.holders[number].is_dead {
            return Ok(());
        }
        match (call.purpose, answer) {
            (Purpose::Grant | Purpose::Activate(_) | Purpose::Resume(_), Answer::Lease(found)) => {
                if let LeaseFound::Live(lease) = &found.lease {
                    if let Purpose::Resume(_) = call.purpose {
                        self.tally.resumed += 1;
                    }
                    self.take(number, sent, found.lsn, lease)?;
                }
            }
            (Purpose::Heartbeat(lease, epoch), Answer::Renewed { valid_ms, .. }) => {
                let holder = &mut self.holders[number];
                let until = valid_ms.map_or(0, |valid_ms| holder.until(sent, valid_ms));
                if let Some(hand) = holder.hand(lease).filter(|hand| hand.epoch == epoch) {
                    hand.until = hand.until.max(until);
                    let hand = hand.clone();
                    self.checks.nobody_else_holds(self.now, &self.holders, number, &hand)?;
                }
            }
            (Purpose::OpenSession(session) | Purpose::SessionHeartbeat(session), answer) => {
                self.session_heard(number, session, sent, answer)?;
            }
            // The leader has not heard the node for a while, or not yet: it promises nothing more.
            (Purpose::Heartbeat(..), Answer::Refused(Refused::Liveness(Refusal::NoLiveness)))
                if self.holders[number].by_connection => {}
            // The leader has not noticed yet that the former connection is gone: the holder asks again.
            (Purpose::Resume(_), Answer::Refused(Refused::ConnectionOpen)) => {}
            (
                Purpose::Heartbeat(lease, _) | Purpose::Activate(lease) | Purpose::Resume(lease),
                Answer::Refused(refused),
            ) => {
                if matches!(refused, Refused::Rejected(_) | Refused::Liveness(_)) {
                    self.lost(number, lease, &format!("{refused:?}"))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn take(&mut self, number: usize, sent: u64, lsn: Lsn, lease: &LeaseSnapshot) -> Result<(), Violation> {
        let is_reserved = match lease.state {
            LeaseState::Reserved { .. } => true,
            LeaseState::Active { .. } => false,
            LeaseState::Revoking(_) => return Ok(()),
        };
        let holder = &mut self.holders[number];
        let is_over = holder.old.iter().any(|(old, _)| *old == lease.id);
        // Losses up to what it has seen of its session were told already, perhaps this one among them.
        let is_told = lease.policy.session.filter(|_| !holder.by_connection).is_some_and(|session| {
            holder.session.as_ref().is_none_or(|by_hand| by_hand.session != session || lsn <= by_hand.seen)
        });
        if is_over || is_told || lease.holder != holder.name {
            return Ok(());
        }
        let valid_ms = lease.liveness.valid_ms.unwrap_or(0);
        let until = if is_reserved { 0 } else { holder.until(sent, valid_ms) };
        let hand = Hand {
            lease: lease.id,
            epoch: lease.epoch,
            fence: lease.fence,
            members: lease.members.to_vec(),
            ttl_ms: lease.policy.ttl_ms.into(),
            is_reserved,
            session: lease.policy.session,
            until,
            asked_at: self.now,
        };
        match holder.hand(lease.id) {
            Some(known) if known.epoch > hand.epoch => return Ok(()),
            Some(known) => {
                let until = known.until.max(until);
                *known = Hand { until, ..hand.clone() };
            }
            None => holder.hands.push(hand.clone()),
        }
        self.checks.nobody_else_holds(self.now, &self.holders, number, &hand)
    }

    /// A holder is told that its lease is not what it thought: it stops.
    pub(super) fn lost(&mut self, number: usize, lease: LeaseId, why: &str) -> Result<(), Violation> {
        let Some(hand) = self.holders[number].hand(lease).cloned() else { return Ok(()) };
        self.holders[number].stop(lease);
        if self.holders[number].is_steady {
            let text = format!("{} lives and lost lease {lease}: {why}", self.holders[number].name);
            return Err(Violation::new("living_keep_their_leases", text));
        }
        if !hand.is_reserved && self.random.chance(600) {
            let request = Request::Acknowledge { lease, epoch: hand.epoch, asker: None };
            self.call(number, request, Purpose::Other, false);
        }
        Ok(())
    }

    /// Asks for something on behalf of the last look.
    pub(super) fn probe(&mut self, name: &str) {
        let mut grant = Grant::new(Bundle::one(name), "probe", Policy::permanent());
        grant.policy.principal = Text::const_new("probe");
        self.probes_left += 1;
        self.submit(0, Submit::now(Action::Grant(grant)), Purpose::Probe);
    }

    fn probed(&mut self, request: &Request, answer: &Answer) -> Result<(), Violation> {
        self.probes_left -= 1;
        crate::invariants::deaths_end_in_bound::probe_was_granted(request, answer)
    }

    /// A holder that takes one thing and keeps it.
    pub(super) fn hold_steadily(&mut self, number: usize, ttl_ms: u32, grace_ms: u32) {
        let name = self.holders[number].name.clone();
        let (policy, way) = if self.holders[number].by_connection {
            // Which session keeps it, each try says.
            let policy = Policy::session(SessionId(0), ttl_ms, grace_ms);
            (policy, Way::Connection { only: None })
        } else {
            (Policy::heartbeat(ttl_ms, grace_ms), self.any_node())
        };
        let mut grant = Grant::new(Bundle::one(&name), &name, policy);
        grant.policy.principal = name;
        self.submit_over(number, Submit::now(Action::Grant(grant)), Purpose::Grant, way);
    }
}
