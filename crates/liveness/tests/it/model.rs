//! The contract once more, naively: what is known of every lease and session, and a scan over all of them
//! at every tick. No timers, no laziness, nothing remembered that the contract does not speak of.

use crate::desk::Happened;
use std::collections::BTreeMap;
use tenure_kernel::*;
use tenure_liveness::*;

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum What {
    Silent,
    /// For one of these reasons: where several fall on one tick, any will do.
    Revoked(Vec<Reason>),
    Reclaimed(ReclaimGround),
    Expired,
    SessionSilent,
    SessionOver,
}

/// What the model does at a tick, by subject.
pub(crate) type Deeds = BTreeMap<(u64, Who), Vec<What>>;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Who {
    Lease(LeaseId),
    Session(u64),
}

/// The part of a heartbeat's answer that the contract fixes.
pub(crate) type Answer = Result<(Option<u64>, bool, bool), &'static str>;

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) now: u64,
    pub(crate) leases: BTreeMap<LeaseId, Lease>,
    pub(crate) sessions: BTreeMap<u64, Session>,
    revoke_timeout: u64,
    restart_grace: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) terms: Policy,
    pub(crate) state: State,
    /// From where its own time counts: its last proof of life, a restart or a revive.
    last: u64,
    /// Whether a proof of life came then.
    heard: bool,
    /// Until when the lease itself promised anything to its present holder; of a revoking one, to anybody.
    promise: u64,
    /// The part of that which is shown under its present terms.
    told: u64,
    /// Until when a former holder was promised anything.
    former: u64,
    /// The same as a restart knows it: by the terms that were in force before each rebind.
    bound: u64,
    /// How its holder is called; `None` is the first one.
    holder: Option<&'static str>,
    given_back: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum State {
    Reserved { deadline: u64 },
    Active { since: u64, standing: Stand },
    Revoking { at: u64, earliest: u64, wait: Wait, by_daemon: bool },
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Stand {
    /// Its proof is current, or its session speaks for it.
    Alive,
    Silent,
    /// It went into use when nothing kept it any more.
    Orphan {
        until: u64,
    },
    Drained {
        until: u64,
    },
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Wait {
    Promise,
    Connection,
    Acknowledged,
    AtOnce,
}

#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) by_hand: bool,
    pub(crate) ttl: u64,
    pub(crate) grace: u64,
    last: u64,
    heard: bool,
    promise: u64,
    silent: bool,
    /// In the log.
    pub(crate) durable: bool,
    pub(crate) closed: Option<Closed>,
    pub(crate) over: bool,
}

/// A connection that closed.
#[derive(Clone, Debug)]
pub(crate) struct Closed {
    at: u64,
    /// The graces still running, of the session and of the leases it had; shortest first.
    graces: Vec<u64>,
}

impl Model {
    pub(crate) fn new(config: &LivenessConfig) -> Self {
        Self {
            now: 0,
            leases: BTreeMap::new(),
            sessions: BTreeMap::new(),
            revoke_timeout: config.revoke_timeout_ms,
            restart_grace: config.restart_grace_ms_min,
        }
    }

    fn session_of(&self, lease: &Lease) -> Option<&Session> {
        let id = lease.terms.session?;
        self.sessions.get(&id.0).filter(|session| !session.over)
    }

    pub(crate) fn connection_is_open(&self, id: u64) -> bool {
        self.sessions.get(&id).is_some_and(|s| !s.by_hand && !s.over && s.closed.is_none())
    }

    /// When a session that no longer speaks ends a lease with these terms.
    fn end_by_session(&self, lease: &Lease) -> Option<u64> {
        let session = self.session_of(lease)?;
        match &session.closed {
            // One that goes into use late may find its own grace gone by: then the next one ends it.
            Some(Closed { at, graces }) => {
                let own = graces.iter().find(|grace| **grace >= lease.terms.grace_ms.into());
                own.or(graces.last()).map(|grace| at + grace)
            }
            None if session.by_hand => Some(session.last + session.ttl + session.grace),
            None => None,
        }
    }

    fn session_silent(&self, lease: &Lease) -> bool {
        self.session_of(lease).is_some_and(|session| session.silent || session.closed.is_some())
    }

    fn promise_of_session(&self, lease: &Lease) -> u64 {
        self.session_of(lease).map_or(0, |session| session.promise)
    }

    /// Until when anybody was promised anything, by the lease or its session.
    fn promise_to_all(&self, lease: &Lease) -> u64 {
        lease.promise.max(self.promise_of_session(lease)).max(lease.former)
    }

    // ---- what time does

    /// Everything that follows at the present tick.
    pub(crate) fn tick(&mut self, deeds: &mut Deeds) {
        let now = self.now;
        let mut did = |who, what| deeds.entry((now, who)).or_default().push(what);
        for (id, session) in &mut self.sessions {
            if session.by_hand && !session.over && !session.silent && now >= session.last + session.ttl {
                session.silent = true;
                did(Who::Session(*id), What::SessionSilent);
            }
        }
        let ids: Vec<LeaseId> = self.leases.keys().copied().collect();
        for id in &ids {
            let lease = &self.leases[id];
            match lease.state {
                State::Reserved { deadline } if now >= deadline => {
                    self.leases.remove(id);
                    did(Who::Lease(*id), What::Expired);
                }
                State::Active { since, standing: Stand::Alive }
                    if lease.terms.mode == Mode::Heartbeat
                        && now >= lease.last + u64::from(lease.terms.ttl_ms) =>
                {
                    let state = State::Active { since, standing: Stand::Silent };
                    self.leases.get_mut(id).unwrap().state = state;
                    did(Who::Lease(*id), What::Silent);
                }
                _ => {}
            }
        }
        for id in &ids {
            let reasons = self.reasons(*id);
            if !reasons.is_empty() {
                self.revoke(*id, true);
                did(Who::Lease(*id), What::Revoked(reasons));
            }
        }
        for (id, session) in &mut self.sessions {
            let over = match &mut session.closed {
                Some(closed) => {
                    closed.graces.retain(|grace| now < closed.at + grace);
                    closed.graces.is_empty()
                }
                None => session.by_hand && now >= session.last + session.ttl + session.grace,
            };
            if over && !session.over {
                session.over = true;
                did(Who::Session(*id), What::SessionOver);
            }
        }
        for id in &ids {
            if let Some(Lease { state: State::Revoking { earliest, wait, by_daemon: true, .. }, .. }) =
                self.leases.get(id)
                && now >= *earliest
            {
                let ground = match wait {
                    Wait::Promise | Wait::Connection => ReclaimGround::PromiseOver,
                    Wait::Acknowledged => ReclaimGround::Acknowledged,
                    Wait::AtOnce => ReclaimGround::AtOnce,
                };
                self.leases.remove(id);
                did(Who::Lease(*id), What::Reclaimed(ground));
            }
        }
    }

    /// Why an active lease has to end now.
    fn reasons(&self, id: LeaseId) -> Vec<Reason> {
        let Some(lease) = self.leases.get(&id) else { return Vec::new() };
        let State::Active { since, standing } = lease.state else { return Vec::new() };
        let mut reasons = Vec::new();
        if self.lifetime_end(lease, since).is_some_and(|end| self.now >= end) {
            reasons.push(Reason::MaxLifetime);
        }
        match standing {
            Stand::Alive => {}
            Stand::Silent => {
                let silent_from = lease.last + u64::from(lease.terms.ttl_ms);
                if self.now >= silent_from + u64::from(lease.terms.grace_ms) {
                    reasons.push(Reason::HeartbeatExpired);
                }
            }
            Stand::Orphan { until } if self.now >= until => reasons.push(Reason::SessionExpired),
            Stand::Drained { until } if self.now >= until => reasons.push(Reason::AdminForce),
            Stand::Orphan { .. } | Stand::Drained { .. } => {}
        }
        if self.end_by_session(lease).is_some_and(|end| self.now >= end) {
            reasons.push(Reason::SessionExpired);
        }
        reasons
    }

    fn lifetime_end(&self, lease: &Lease, since: u64) -> Option<u64> {
        (lease.terms.max_lifetime_ms > 0).then(|| since + lease.terms.max_lifetime_ms)
    }

    /// The next tick at which anything happens if nobody says anything.
    pub(crate) fn next(&self, within: u64) -> Option<u64> {
        let mut ahead = self.clone();
        for _ in 0..within {
            ahead.now += 1;
            let mut deeds = Deeds::new();
            ahead.tick(&mut deeds);
            if !deeds.is_empty() {
                return Some(ahead.now);
            }
        }
        None
    }

    // ---- what callers do

    pub(crate) fn granted(&mut self, id: LeaseId, terms: Policy, reserve: Option<u64>) {
        if let Some(session) = terms.session {
            self.sessions.get_mut(&session.0).unwrap().durable = true;
        }
        let lease = Lease {
            terms,
            state: State::Reserved { deadline: 0 },
            last: 0,
            heard: false,
            promise: 0,
            told: 0,
            former: 0,
            bound: 0,
            holder: None,
            given_back: false,
        };
        self.leases.insert(id, lease);
        match reserve {
            Some(ttl) => {
                let deadline = self.now + ttl;
                self.leases.get_mut(&id).unwrap().state = State::Reserved { deadline };
            }
            None => self.begin(id, self.now, None),
        }
    }

    pub(crate) fn activate(&mut self, id: LeaseId) -> Result<(), &'static str> {
        match self.leases[&id].state {
            State::Reserved { deadline } if self.now >= deadline => Err("deadline_passed"),
            State::Reserved { .. } => {
                self.begin(id, self.now, None);
                Ok(())
            }
            State::Active { .. } | State::Revoking { .. } => Err("invalid_state"),
        }
    }

    fn begin(&mut self, id: LeaseId, since: u64, drained: Option<u64>) {
        let now = self.now;
        let lease = &self.leases[&id];
        let kept = self.session_of(lease).is_some_and(|session| session.closed.is_none());
        let standing = match drained {
            Some(until) => Stand::Drained { until },
            None if lease.terms.mode == Mode::Session && !kept => {
                Stand::Orphan { until: now + u64::from(lease.terms.grace_ms) }
            }
            None => Stand::Alive,
        };
        let lease = self.leases.get_mut(&id).unwrap();
        lease.state = State::Active { since, standing };
        (lease.last, lease.heard) = (now, true);
        lease.told = 0;
        if let Some(promise) = self.would_promise(&self.leases[&id]) {
            let lease = self.leases.get_mut(&id).unwrap();
            lease.told = now + promise;
            lease.promise = lease.promise.max(now + promise);
        }
    }

    /// min(ttl, lifetime left, drain left).
    fn would_promise(&self, lease: &Lease) -> Option<u64> {
        let State::Active { since, standing } = lease.state else { return None };
        if lease.terms.reclaim_rule == ReclaimRule::AtOnce || lease.terms.mode != Mode::Heartbeat {
            return None;
        }
        let mut promise = u64::from(lease.terms.ttl_ms);
        if let Some(end) = self.lifetime_end(lease, since) {
            promise = promise.min(end.saturating_sub(self.now));
        }
        if let Stand::Drained { until } = standing {
            promise = promise.min(until.saturating_sub(self.now));
        }
        Some(promise)
    }

    pub(crate) fn heartbeat(&mut self, id: LeaseId, via: Option<u64>) -> Answer {
        let now = self.now;
        let promise = self.would_promise(&self.leases[&id]);
        let open = via.is_some_and(|via| self.connection_is_open(via));
        let lease = self.leases.get_mut(&id).unwrap();
        let State::Active { standing, .. } = &mut lease.state else { return Err("invalid_state") };
        let drained = matches!(standing, Stand::Drained { .. });
        match lease.terms.mode {
            Mode::Permanent => Ok((None, drained, false)),
            Mode::Session => {
                let own = via.is_some() && via == lease.terms.session.map(|session| session.0);
                if own && open { Ok((None, drained, false)) } else { Err("no_liveness") }
            }
            Mode::Heartbeat => {
                let returned = *standing == Stand::Silent;
                if returned {
                    *standing = Stand::Alive;
                }
                (lease.last, lease.heard) = (now, true);
                if let Some(promise) = promise {
                    lease.promise = lease.promise.max(now + promise);
                    lease.told = lease.told.max(now + promise);
                }
                Ok((promise.map(valid), drained, returned))
            }
        }
    }

    pub(crate) fn session_heartbeat(&mut self, id: u64) -> Answer {
        let now = self.now;
        match self.sessions.get_mut(&id) {
            Some(session) if session.by_hand && !session.over => {
                (session.last, session.heard) = (now, true);
                session.promise = session.promise.max(now + session.ttl);
                let returned = std::mem::take(&mut session.silent);
                Ok((Some(valid(session.ttl)), false, returned))
            }
            Some(session) if !session.by_hand && session.durable && !session.over => Err("no_liveness"),
            Some(_) | None => Err("session_not_found"),
        }
    }

    pub(crate) fn opened(&mut self, id: u64, by_hand: bool, ttl: u64, grace: u64) {
        let session = Session {
            by_hand,
            ttl,
            grace,
            last: self.now,
            heard: true,
            promise: if by_hand { self.now + ttl } else { 0 },
            silent: false,
            durable: by_hand,
            closed: None,
            over: false,
        };
        self.sessions.insert(id, session);
    }

    pub(crate) fn connection_closed(&mut self, id: u64) {
        if !self.connection_is_open(id) {
            return;
        }
        if !self.sessions[&id].durable {
            self.sessions.remove(&id);
            return;
        }
        let now = self.now;
        for lease in self.leases.values_mut().filter(|l| l.terms.session == Some(SessionId(id))) {
            if let State::Revoking { at, earliest, wait, .. } = &mut lease.state
                && *wait == Wait::Connection
            {
                *wait = Wait::Promise;
                *earliest = now.max(*at + u64::from(lease.terms.reclaim_delay_ms)).max(lease.promise);
            }
        }
        self.close(id, 0);
    }

    fn close(&mut self, id: u64, least: u64) {
        let of_session = self.leases.values().filter(|l| l.terms.session == Some(SessionId(id)));
        let of_leases = of_session.map(|l| u64::from(l.terms.grace_ms));
        let mut graces: Vec<u64> =
            of_leases.chain([self.sessions[&id].grace]).map(|g| g.max(least)).collect();
        graces.sort_unstable();
        let session = self.sessions.get_mut(&id).unwrap();
        (session.last, session.heard) = (self.now, true);
        session.closed = Some(Closed { at: self.now, graces });
    }

    pub(crate) fn acknowledge(&mut self, id: LeaseId) -> Result<(), &'static str> {
        let now = self.now;
        let lease = self.leases.get_mut(&id).unwrap();
        let delay = u64::from(lease.terms.reclaim_delay_ms);
        let State::Revoking { at, earliest, wait, .. } = &mut lease.state else {
            return Err("invalid_state");
        };
        *wait = if lease.former > now { Wait::Promise } else { Wait::Acknowledged };
        *earliest = now.max(*at + delay).max(lease.former);
        Ok(())
    }

    pub(crate) fn drain(&mut self, id: LeaseId) -> Result<(), &'static str> {
        let lease = &self.leases[&id];
        if lease.terms.mode == Mode::Permanent {
            return Err("permanent_lease");
        }
        let State::Active { since, standing } = lease.state else { return Err("invalid_state") };
        if standing != Stand::Alive || self.session_silent(lease) {
            return Err("already_draining");
        }
        let promise = self.promise_to_all(lease);
        let until = promise.max(self.now + u64::from(lease.terms.grace_ms));
        self.leases.get_mut(&id).unwrap().state = State::Active { since, standing: Stand::Drained { until } };
        Ok(())
    }

    pub(crate) fn revive(&mut self, id: LeaseId) -> Result<(), &'static str> {
        let now = self.now;
        let lease = &self.leases[&id];
        let State::Active { since, standing } = lease.state else { return Err("invalid_state") };
        let is_drained = matches!(standing, Stand::Drained { .. });
        // Only its session speaks for it; an operator can take back no more than an operator's drain.
        let is_mute = |s: &Session| s.closed.is_some() || (s.silent && !is_drained);
        if lease.terms.mode == Mode::Session && self.session_of(lease).is_none_or(is_mute) {
            return Err("no_liveness");
        }
        match standing {
            Stand::Silent | Stand::Orphan { .. } | Stand::Drained { .. } => {
                let lease = self.leases.get_mut(&id).unwrap();
                lease.state = State::Active { since, standing: Stand::Alive };
                (lease.last, lease.heard) = (now, false);
                // Safe, since reclaim waits for it: what it was promised under other terms shows here.
                lease.told = lease.promise.min(now + u64::from(lease.terms.ttl_ms));
                Ok(())
            }
            Stand::Alive => Err("not_draining"),
        }
    }

    pub(crate) fn revoke(&mut self, id: LeaseId, by_daemon: bool) {
        let now = self.now;
        let lease = &self.leases[&id];
        let session = self.session_of(lease);
        let connected = session.is_some_and(|session| !session.by_hand && session.closed.is_none());
        let promise = self.promise_to_all(lease);
        let active = matches!(lease.state, State::Active { .. });
        let (after, wait) = match (lease.terms.reclaim_rule, lease.terms.mode) {
            (ReclaimRule::AtOnce, _) if lease.former > now => (lease.former, Wait::Promise),
            (ReclaimRule::AtOnce, _) => (now, Wait::AtOnce),
            (ReclaimRule::AfterPromise, _) if !active => (now, Wait::Promise),
            (ReclaimRule::AfterPromise, Mode::Permanent) => {
                (promise.max(now + self.revoke_timeout), Wait::Promise)
            }
            (ReclaimRule::AfterPromise, Mode::Session) if connected => {
                (promise.max(now + self.revoke_timeout), Wait::Connection)
            }
            (ReclaimRule::AfterPromise, Mode::Session | Mode::Heartbeat) => (promise, Wait::Promise),
        };
        let earliest = after.max(now + u64::from(lease.terms.reclaim_delay_ms));
        let lease = self.leases.get_mut(&id).unwrap();
        lease.promise = promise;
        lease.state = State::Revoking { at: now, earliest, wait, by_daemon };
    }

    /// Free at once, but for what a former holder was promised.
    pub(crate) fn release(&mut self, id: LeaseId) {
        let now = self.now;
        let lease = self.leases.get_mut(&id).unwrap();
        if lease.former <= now {
            self.leases.remove(&id);
            return;
        }
        let earliest = lease.former.max(now + u64::from(lease.terms.reclaim_delay_ms));
        lease.given_back = true;
        lease.state = State::Revoking { at: now, earliest, wait: Wait::Promise, by_daemon: true };
    }

    pub(crate) fn rebind(&mut self, id: LeaseId, holder: &'static str, terms: Policy) {
        if let Some(session) = terms.session {
            self.sessions.get_mut(&session.0).unwrap().durable = true;
        }
        let before = &self.leases[&id];
        let promise = match before.terms.reclaim_rule {
            ReclaimRule::AtOnce => before.promise,
            ReclaimRule::AfterPromise => before.promise.max(self.promise_of_session(before)),
        };
        let bound = self.promise_of_terms(before);
        let State::Active { since, standing } = before.state else { panic!("an active lease") };
        let drained = match standing {
            Stand::Drained { until } => Some(until),
            Stand::Alive | Stand::Silent | Stand::Orphan { .. } => None,
        };
        let lease = self.leases.get_mut(&id).unwrap();
        lease.terms = terms;
        let is_same = lease.holder.replace(holder) == Some(holder);
        lease.promise = if is_same { promise } else { 0 };
        lease.former = lease.former.max(if is_same { 0 } else { promise });
        lease.bound = lease.bound.max(bound);
        self.begin(id, since, drained);
    }

    /// Until when a promise may last that is made now at the latest.
    fn promise_of_terms(&self, lease: &Lease) -> u64 {
        let of_session = lease.terms.session.and_then(|session| self.sessions.get(&session.0));
        match (lease.terms.reclaim_rule, lease.terms.mode) {
            (ReclaimRule::AtOnce, _) | (_, Mode::Permanent) => 0,
            (_, Mode::Heartbeat) => self.now + u64::from(lease.terms.ttl_ms),
            (_, Mode::Session) => of_session.filter(|s| s.by_hand).map_or(0, |s| self.now + s.ttl),
        }
    }

    pub(crate) fn delete_session(&mut self, id: u64) {
        self.sessions.get_mut(&id).unwrap().over = true;
        let kept = |lease: &Lease| lease.terms.session == Some(SessionId(id));
        let given = |lease: &Lease| kept(lease) && !matches!(lease.state, State::Revoking { .. });
        let ids: Vec<LeaseId> =
            self.leases.iter().filter(|(_, lease)| given(lease)).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.release(id));
    }

    pub(crate) fn restart(&mut self) {
        let now = self.now;
        self.sessions.retain(|_, session| session.durable);
        let ids: Vec<u64> = self.sessions.iter().filter(|(_, s)| !s.over).map(|(id, _)| *id).collect();
        for id in ids {
            let session = self.sessions.get_mut(&id).unwrap();
            if session.by_hand {
                (session.last, session.silent) = (now, false);
                session.promise = now + session.ttl;
            } else {
                self.close(id, self.restart_grace);
            }
            self.sessions.get_mut(&id).unwrap().heard = false;
        }
        let ids: Vec<LeaseId> = self.leases.keys().copied().collect();
        for id in ids {
            let lease = &self.leases[&id];
            let known = self.session_of(lease).is_some();
            let promise = self.promise_of_terms(lease);
            let timeout = now + self.revoke_timeout;
            let lease = self.leases.get_mut(&id).unwrap();
            let grace_end = now + u64::from(lease.terms.grace_ms);
            (lease.last, lease.heard) = (now, false);
            (lease.promise, lease.told) = (promise, promise);
            // It is not known whether the holder before has stopped.
            lease.former = if lease.holder.is_some() { promise.max(lease.bound) } else { 0 };
            let promise = promise.max(lease.former);
            let given_back = lease.given_back;
            match &mut lease.state {
                // Nobody was ever told anything of it.
                State::Reserved { .. } => (lease.promise, lease.told) = (0, 0),
                State::Active { standing, .. } => {
                    *standing = match *standing {
                        Stand::Drained { .. } => Stand::Drained { until: grace_end.max(promise) },
                        _ if lease.terms.mode == Mode::Session && !known => {
                            Stand::Orphan { until: grace_end }
                        }
                        Stand::Alive | Stand::Silent | Stand::Orphan { .. } => Stand::Alive,
                    }
                }
                State::Revoking { at, earliest, wait, .. } => {
                    // The delay counts anew, whatever ends the wait.
                    *at = now;
                    let delayed = now + u64::from(lease.terms.reclaim_delay_ms);
                    (*earliest, *wait) = match (lease.terms.reclaim_rule, lease.terms.mode) {
                        (ReclaimRule::AtOnce, _) if lease.former > now => {
                            (delayed.max(lease.former), Wait::Promise)
                        }
                        (ReclaimRule::AtOnce, _) => (delayed, Wait::AtOnce),
                        _ if given_back && lease.former > now => (delayed.max(lease.former), Wait::Promise),
                        _ if given_back => (delayed, Wait::Acknowledged),
                        (_, Mode::Permanent) => (delayed.max(timeout).max(promise), Wait::Promise),
                        (_, Mode::Heartbeat | Mode::Session) => (delayed.max(promise), Wait::Promise),
                    };
                }
            }
        }
    }

    // ---- what people see

    pub(crate) fn view(&self, id: LeaseId) -> LivenessView {
        let lease = &self.leases[&id];
        let (standing, deadline, valid_until) = match lease.state {
            State::Reserved { deadline } => (None, Some(deadline), None),
            State::Revoking { earliest, .. } => (None, Some(earliest), None),
            State::Active { since, standing } => self.view_active(lease, since, standing),
        };
        let of_session = self.session_of(lease).map(|session| (session.last, session.heard));
        let proofs = match lease.state {
            State::Reserved { .. } => vec![],
            State::Active { .. } | State::Revoking { .. } => {
                of_session.into_iter().chain([(lease.last, lease.heard)]).collect()
            }
        };
        LivenessView {
            standing,
            counts_from: Tick(proofs.iter().map(|(at, _)| *at).max().unwrap_or(0)),
            last_seen: proofs.iter().filter(|(_, heard)| *heard).map(|(at, _)| Tick(*at)).max(),
            deadline: deadline.map(Tick),
            valid_ms: valid_until.map(|until: u64| valid(until.saturating_sub(self.now))),
        }
    }

    fn view_active(
        &self,
        lease: &Lease,
        since: u64,
        standing: Stand,
    ) -> (Option<Standing>, Option<u64>, Option<u64>) {
        let silence = Some(Standing::Draining(DrainCause::Silence));
        let lifetime_end = self.lifetime_end(lease, since);
        let session = self.session_of(lease);
        let (seen, deadline) = match standing {
            Stand::Drained { until } => (Some(Standing::Draining(DrainCause::Operator)), Some(until)),
            Stand::Orphan { until } => {
                (silence, Some(self.end_by_session(lease).map_or(until, |end| end.min(until))))
            }
            Stand::Silent => {
                (silence, Some(lease.last + u64::from(lease.terms.ttl_ms + lease.terms.grace_ms)))
            }
            Stand::Alive => match (lease.terms.mode, session) {
                (Mode::Session, _) if self.session_silent(lease) => (silence, self.end_by_session(lease)),
                (Mode::Session, Some(session)) if session.by_hand => {
                    (Some(Standing::Alive), Some(session.last + session.ttl))
                }
                (Mode::Session, _) => (Some(Standing::Alive), None),
                (Mode::Permanent, _) => (Some(Standing::Alive), lifetime_end),
                (Mode::Heartbeat, _) => {
                    let ttl_end = lease.last + u64::from(lease.terms.ttl_ms);
                    (Some(Standing::Alive), Some(lifetime_end.map_or(ttl_end, |end| end.min(ttl_end))))
                }
            },
        };
        let told = match (lease.terms.reclaim_rule, lease.terms.mode) {
            (ReclaimRule::AtOnce, _) | (_, Mode::Permanent) => None,
            (_, Mode::Heartbeat) => Some(lease.told),
            (_, Mode::Session) => session.filter(|session| session.by_hand).map(|session| session.promise),
        };
        let drain_end = match standing {
            Stand::Drained { until } => Some(until),
            Stand::Alive | Stand::Silent | Stand::Orphan { .. } => None,
        };
        let valid = told.map(|told| lifetime_end.into_iter().chain(drain_end).fold(told, u64::min));
        (seen, deadline, valid)
    }
}

/// What a holder hears of a promise, as the contract has it.
fn valid(promise: u64) -> u64 {
    (promise * 995 / 1_000).saturating_sub(1)
}

/// What the desk did by itself, in the model's words.
pub(crate) fn deeds_of(happened: &[Happened]) -> Deeds {
    let mut deeds = Deeds::new();
    for happened in happened {
        let (tick, who, what) = match happened {
            Happened::Effect(at, Effect::Silent { subject: Subject::Lease(lease), .. }) => {
                (at, Who::Lease(*lease), What::Silent)
            }
            Happened::Effect(at, Effect::Silent { subject: Subject::Session(session), .. }) => {
                (at, Who::Session(session.0), What::SessionSilent)
            }
            Happened::Effect(..) => continue,
            Happened::Event(at, event) => {
                let (who, what) = match &event.change {
                    Change::Revoked(r) => (Who::Lease(r.lease), What::Revoked(vec![r.reason])),
                    Change::Reclaimed(r) => (Who::Lease(r.was.lease), What::Reclaimed(r.ground)),
                    Change::Expired(expired) => (Who::Lease(expired.was.lease), What::Expired),
                    Change::SessionClosed { session, .. } => (Who::Session(session.0), What::SessionOver),
                    other => panic!("time alone caused {other:?}"),
                };
                (&at.tick, who, what)
            }
        };
        deeds.entry((tick.0, who)).or_default().push(what);
    }
    deeds
}

/// Whether what was done is what had to be done, at the tick it had to be done.
pub(crate) fn agree(done: &Deeds, due: &Deeds) -> bool {
    let same = |done: &What, due: &What| match (done, due) {
        (What::Revoked(done), What::Revoked(due)) => done.iter().all(|reason| due.contains(reason)),
        (done, due) => done == due,
    };
    done.len() == due.len()
        && done.iter().zip(due).all(|((at, done), (due_at, due))| {
            at == due_at && done.len() == due.len() && done.iter().zip(due).all(|(a, b)| same(a, b))
        })
}
