//! The engine's role without log or waiters: observations first, then deadlines, and every effect is carried
//! out at once. Time is a field; the desk sleeps exactly until the next deadline.

use std::collections::BTreeMap;
use tenure_kernel::codec::{decode_state, encode_state};
use tenure_kernel::*;
use tenure_liveness::*;

/// Something the desk did or was told, in order.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Happened {
    Event(Stamp, Event),
    Effect(Tick, Effect),
}

#[derive(Clone, Debug)]
pub(crate) struct Desk {
    pub(crate) kernel: Kernel,
    pub(crate) liveness: Liveness,
    pub(crate) config: LivenessConfig,
    pub(crate) now: Tick,
    pub(crate) next_lsn: Lsn,
    /// Ids of grants in order; `L1` is the first.
    pub(crate) granted: Vec<LeaseId>,
    /// Since it was last taken.
    pub(crate) happened: Vec<Happened>,
    /// Effects taken per call of `on_deadline`.
    pub(crate) room: usize,
    /// Looks taken per call of `on_deadline`.
    pub(crate) looks: usize,
    /// The kernel's full scan after each event; off where thousands of leases would make it slow.
    pub(crate) scan: bool,
    /// Open connections whose session is not durable yet: kind, a node's word, grace.
    connections: BTreeMap<SessionId, (SessionKind, u32, u32)>,
}

impl Desk {
    pub(crate) fn new(config: LivenessConfig) -> Self {
        Self::starting_at(config, Tick(0))
    }

    pub(crate) fn starting_at(config: LivenessConfig, now: Tick) -> Self {
        Self {
            kernel: Kernel::new(Setup::plain()),
            liveness: Liveness::new(config.clone(), now),
            config,
            now,
            next_lsn: Lsn(1),
            granted: Vec::new(),
            happened: Vec::new(),
            room: usize::MAX,
            looks: usize::MAX,
            scan: true,
            connections: BTreeMap::new(),
        }
    }

    /// What an engine would sleep until.
    pub(crate) fn next_deadline(&self) -> Option<Tick> {
        self.kernel.next_deadline().into_iter().chain(self.liveness.next_deadline()).min()
    }

    /// Lets time pass up to `tick`, acting at every deadline before it. What is due at `tick` itself waits for
    /// [`Desk::turn`], after the observations of that instant.
    pub(crate) fn advance_to(&mut self, tick: Tick) {
        assert!(tick >= self.now, "time never goes back");
        while let Some(next) = self.next_deadline()
            && next < tick
        {
            self.now = self.now.max(next);
            self.turn();
        }
        self.now = tick;
    }

    /// Acts on everything due now.
    pub(crate) fn turn(&mut self) {
        let due: Vec<LeaseId> = self.kernel.due(self.now).collect();
        for lease in due {
            let event = self.kernel.decide_internal(self.stamp(), &Internal::Expire(lease));
            self.apply(event.expect("a due reservation expires"));
        }
        loop {
            let (mut effects, mut looks) = (Vec::new(), self.looks);
            self.liveness.on_deadline(&self.kernel, self.now, self.room, &mut looks, &mut effects);
            if effects.is_empty() && looks > 0 {
                break;
            }
            for effect in effects {
                self.carry_out(effect);
            }
        }
        let late = self.next_deadline().filter(|next| *next <= self.now);
        assert_eq!(late, None, "something is still due after the turn of {}", self.now);
    }

    fn carry_out(&mut self, effect: Effect) {
        self.happened.push(Happened::Effect(self.now, effect.clone()));
        match effect {
            Effect::Silent { .. }
            | Effect::Returned { .. }
            | Effect::BreakerOpened { .. }
            | Effect::BreakerClosed => {}
            Effect::LeaseOver { lease, reason, evidence } => self.end(lease, reason, evidence),
            Effect::SessionOver(over) => self.session_over(over),
            Effect::ReclaimDue { lease, ground } => {
                let reclaim =
                    Reclaim { lease, epoch: None, actor: Actor::Daemon, ground, gate: GateReport::Confirmed };
                self.decide(Action::Reclaim(reclaim)).expect("a lease due for reclaim is revoking");
            }
        }
    }

    fn session_over(&mut self, over: SessionOver) {
        if over.closes {
            let reason = Reason::SessionExpired;
            self.decide(Action::CloseSession { session: over.session, reason }).expect("it was open");
        }
        let leases: Vec<LeaseId> = self
            .kernel
            .leases_of(over.session)
            .filter(|view| matches!(view.state(), LeaseState::Active { .. }))
            .filter(|view| over.closes || view.terms().grace_ms <= over.grace_ms)
            .map(LeaseView::id)
            .collect();
        for lease in leases {
            self.end(lease, Reason::SessionExpired, over.evidence);
            if over.is_left {
                self.liveness.holder_left(self.kernel.live(lease).expect("it is revoking"), self.now);
            }
        }
    }

    /// A revoke by the daemon. An earlier effect of the same batch may have ended the lease already.
    fn end(&mut self, lease: LeaseId, reason: Reason, evidence: Evidence) {
        let active = self.kernel.live(lease).is_some_and(|v| matches!(v.state(), LeaseState::Active { .. }));
        if !active {
            return;
        }
        let text = if reason == Reason::AdminForce { "drained" } else { "" };
        let revoke = Revoke {
            lease,
            epoch: None,
            reason,
            text: text.into(),
            actor: Actor::Daemon,
            evidence,
            reclaim_by: ReclaimBy::Daemon,
        };
        self.decide(Action::Revoke(revoke)).expect("an active lease can be revoked");
    }

    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { lsn: self.next_lsn, tick: self.now }
    }

    /// Decides a command and, if it is accepted, applies its event.
    pub(crate) fn decide(&mut self, action: Action) -> Result<Stamp, Rejection> {
        let at = self.stamp();
        match self.kernel.decide(at, &Command::plain(action))? {
            Decision::Event(event) => self.apply(event),
            Decision::Replay(_) => unreachable!("scripts carry no operation ids"),
        }
        Ok(at)
    }

    fn apply(&mut self, event: Event) {
        let at = self.stamp();
        self.next_lsn = self.next_lsn.next();
        match event.change.epitaph() {
            Some(was) => {
                self.liveness.forget(self.kernel.live(was.lease).expect("it has not ended yet"));
                self.kernel.evolve(at, &event);
            }
            None => {
                self.kernel.evolve(at, &event);
                self.liveness.follow(&self.kernel, at, &event);
            }
        }
        if let Change::Granted(_) = event.change {
            self.granted.push(LeaseId::new(self.kernel.shard(), at.lsn));
        }
        if self.scan {
            self.kernel.check_invariants().unwrap();
        }
        self.happened.push(Happened::Event(at, event));
    }

    /// Grants, and logs a connection's session with its first grant. The answer carries the promise.
    pub(crate) fn grant(&mut self, grant: Grant) -> Result<(LeaseId, Option<u64>), Rejection> {
        self.log_connection(grant.policy.session)?;
        let at = self.decide(Action::Grant(grant.clone()))?;
        let lease = grant
            .take_over
            .filter(|lease| self.kernel.live(*lease).is_some_and(|view| view.changed_lsn() == at.lsn))
            .unwrap_or(LeaseId::new(0, at.lsn));
        Ok((lease, self.valid_ms(lease)))
    }

    pub(crate) fn log_connection(&mut self, session: Option<SessionId>) -> Result<(), Rejection> {
        if let Some(session) = session
            && self.kernel.session(session).is_none()
            && let Some((kind, ttl_ms, grace_ms)) = self.connections.get(&session).copied()
        {
            let (holder, principal) = ("peer".into(), "local".into());
            let open =
                OpenSession { session, holder, kind, ttl_ms, grace_ms, principal, accepts_handover: None };
            self.decide(Action::OpenSession(open))?;
        }
        Ok(())
    }

    pub(crate) fn open_by_hand(&mut self, session: u64, ttl_ms: u32, grace_ms: u32, principal: &str) {
        let open = OpenSession {
            session: SessionId(session),
            holder: "hand".into(),
            kind: SessionKind::ByHand,
            ttl_ms,
            grace_ms,
            principal: principal.into(),
            accepts_handover: None,
        };
        self.decide(Action::OpenSession(open)).unwrap();
    }

    pub(crate) fn connect(&mut self, session: u64, kind: SessionKind, grace_ms: u32) {
        self.connections.insert(SessionId(session), (kind, 0, grace_ms));
        self.liveness.connection_opened(self.now, SessionId(session), kind, grace_ms);
    }

    /// The connection is open at another node, whose word for it lasts that long.
    pub(crate) fn connect_elsewhere(&mut self, session: u64, kind: SessionKind, word_ms: u32, grace_ms: u32) {
        self.connections.insert(SessionId(session), (kind, word_ms, grace_ms));
    }

    pub(crate) fn keep(&mut self, session: u64) -> bool {
        let mut effects = Vec::new();
        let is_known = self.liveness.connection_kept(self.now, SessionId(session), &mut effects);
        self.noted(effects);
        is_known
    }

    pub(crate) fn disconnect(&mut self, session: u64) {
        self.close(session, false);
    }

    /// Its holder closes the connection.
    pub(crate) fn leave(&mut self, session: u64) {
        self.close(session, true);
    }

    fn close(&mut self, session: u64, is_left: bool) {
        self.connections.remove(&SessionId(session));
        let mut effects = Vec::new();
        self.liveness.connection_closed(&self.kernel, self.now, SessionId(session), is_left, &mut effects);
        self.noted(effects);
    }

    pub(crate) fn heartbeat(
        &mut self,
        lease: LeaseId,
        epoch: Option<u64>,
        via: Option<u64>,
    ) -> Result<Renewal, Refusal> {
        let epoch = epoch.map_or_else(|| self.kernel.live(lease).map_or(Epoch(1), LeaseView::epoch), Epoch);
        let mut effects = Vec::new();
        let via = via.map(SessionId);
        let renewal = self.liveness.heartbeat(&self.kernel, self.now, lease, epoch, via, &mut effects);
        self.noted(effects);
        renewal
    }

    pub(crate) fn session_heartbeat(&mut self, session: u64) -> Result<Renewal, Refusal> {
        let mut effects = Vec::new();
        let id = SessionId(session);
        let renewal = self.liveness.session_heartbeat(&self.kernel, self.now, id, &mut effects);
        self.noted(effects);
        renewal
    }

    pub(crate) fn acknowledge(&mut self, lease: LeaseId, epoch: u64) -> Result<(), Refusal> {
        self.liveness.acknowledge(&self.kernel, self.now, lease, Epoch(epoch))
    }

    pub(crate) fn drain(&mut self, lease: LeaseId) -> Result<(), Refusal> {
        if let Some(view) = self.kernel.live(lease) {
            self.liveness.check_drain(view)?;
        }
        self.decide(Action::Drain(steer(lease)))?;
        Ok(())
    }

    pub(crate) fn revive(&mut self, lease: LeaseId) -> Result<(), Refusal> {
        let mut steer = steer(lease);
        if let Some(view) = self.kernel.live(lease) {
            self.liveness.check_revive(view)?;
            steer.silent = self.liveness.drains_by_itself(view);
        }
        self.decide(Action::Revive(steer))?;
        Ok(())
    }

    pub(crate) fn revoke(&mut self, lease: LeaseId, reclaim_by: ReclaimBy) -> Result<(), Rejection> {
        let revoke = Revoke {
            lease,
            epoch: None,
            reason: Reason::AdminForce,
            text: Text::default(),
            actor: Actor::Operator("root".into()),
            evidence: Evidence::None,
            reclaim_by,
        };
        self.decide(Action::Revoke(revoke)).map(drop)
    }

    /// `POST …/reclaim`: refused before promise and delay are over unless forced.
    pub(crate) fn reclaim(&mut self, lease: LeaseId, force: bool) -> Result<(), Refusal> {
        let mut ground = ReclaimGround::Forced;
        if !force && let Some(view) = self.kernel.live(lease) {
            match (self.liveness.reclaim_ground(view, self.now), self.liveness.reclaim_in_ms(view, self.now))
            {
                (Some(safe), _) => ground = safe,
                (None, Some(remaining_ms)) => return Err(Refusal::NotYet { remaining_ms }),
                (None, None) => {}
            }
        }
        let actor = Actor::Operator("root".into());
        let gate = GateReport::Confirmed;
        self.decide(Action::Reclaim(Reclaim { lease, epoch: None, actor, ground, gate }))?;
        Ok(())
    }

    /// `DELETE /v1/sessions/…`: releases all it holds.
    pub(crate) fn delete_session(&mut self, session: u64) -> Result<(), Rejection> {
        let session = SessionId(session);
        self.decide(Action::CloseSession { session, reason: Reason::Explicit })?;
        let leases: Vec<(LeaseId, Epoch)> = self
            .kernel
            .leases_of(session)
            .filter(|view| !matches!(view.state(), LeaseState::Revoking(_)))
            .map(|view| (view.id(), view.epoch()))
            .collect();
        for (lease, epoch) in leases {
            self.release(lease, epoch)?;
        }
        Ok(())
    }

    /// Given back by a revoke where a former holder may still act.
    pub(crate) fn release(&mut self, lease: LeaseId, epoch: Epoch) -> Result<(), Rejection> {
        let release = Release { token: Token::new(lease, epoch), text: Text::default() };
        let release = Action::Release(release);
        let view = self.kernel.live(lease);
        if view.and_then(|view| self.liveness.former_promised_until(view, self.now)).is_none() {
            return self.decide(release).map(drop);
        }
        self.kernel.decide(self.stamp(), &Command::plain(release))?;
        let revoke = Revoke {
            lease,
            epoch: None,
            reason: Reason::Explicit,
            text: Text::default(),
            actor: Actor::Holder,
            evidence: Evidence::None,
            reclaim_by: ReclaimBy::Daemon,
        };
        self.decide(Action::Revoke(revoke)).map(drop)
    }

    pub(crate) fn rebind(
        &mut self,
        lease: LeaseId,
        holder: Option<&str>,
        policy: Option<Policy>,
    ) -> Result<Option<u64>, Rejection> {
        self.log_connection(policy.as_ref().and_then(|policy| policy.session))?;
        let epoch = self.kernel.live(lease).map_or(Epoch(1), LeaseView::epoch);
        let token = Token::new(lease, epoch);
        let rebind =
            Rebind { token, holder: holder.map(Text::from), policy, attachment: None, face_data: None };
        self.decide(Action::Rebind(rebind))?;
        Ok(self.valid_ms(lease))
    }

    /// The process dies and comes back: the kernel out of its bytes, liveness by the rule of recovery.
    pub(crate) fn restart(&mut self) {
        let mut bytes = Vec::new();
        encode_state(&self.kernel, &mut |piece| bytes.extend_from_slice(piece));
        self.kernel = decode_state(Setup::plain(), &bytes).unwrap();
        self.kernel.check_invariants().unwrap();
        self.liveness = Liveness::recover(&self.kernel, self.now, self.config.clone());
        self.connections.clear();
    }

    pub(crate) fn reset_breaker(&mut self) {
        let mut effects = Vec::new();
        self.liveness.reset_breaker(&mut effects);
        self.noted(effects);
    }

    pub(crate) fn valid_ms(&self, lease: LeaseId) -> Option<u64> {
        self.kernel.live(lease).and_then(|view| self.liveness.valid_ms(view, self.now))
    }

    pub(crate) fn view(&self, lease: LeaseId) -> LivenessView {
        self.liveness.view(self.kernel.live(lease).expect("a live lease"), self.now)
    }

    pub(crate) fn is_live(&self, lease: LeaseId) -> bool {
        self.kernel.live(lease).is_some()
    }

    /// What happened since the last call.
    pub(crate) fn take_happened(&mut self) -> Vec<Happened> {
        std::mem::take(&mut self.happened)
    }

    /// Observations end nothing: all they may ask for is a note, or word of the breaker.
    fn noted(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            let note =
                matches!(effect, Effect::Silent { .. } | Effect::Returned { .. } | Effect::BreakerClosed);
            assert!(note, "an observation asked for {effect:?}");
            self.happened.push(Happened::Effect(self.now, effect));
        }
    }
}

fn steer(lease: LeaseId) -> Steer {
    Steer { lease, epoch: None, actor: Actor::Operator("root".into()), text: Text::default(), silent: false }
}
