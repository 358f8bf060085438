//! What happens when a deadline comes. A timer that fires is only a reason to look: the lease's own fields
//! say whether anything is due, and renewals that came meanwhile simply moved it.

use crate::breaker::Turned;
use crate::effect::{Effect, SessionOver};
use crate::entry::{Phase, Wait};
use crate::liveness::{Held, Liveness, SESSION_BIT, lifetime_end, report};
use crate::session::{SessionPhase, grace_after};
use tenure_kernel::planted::{Planted, planted};
use tenure_kernel::{
    Evidence, Kernel, LeaseSlot, LeaseState, LeaseView, Mode, Reason, ReclaimGround, Subject, Tick,
};

impl Liveness {
    /// Looks at what is due, until `room` effects were added, `looks` are used up or nothing is left. Effects that
    /// end or reclaim something must be carried out before the next call.
    pub fn on_deadline(
        &mut self,
        kernel: &Kernel,
        now: Tick,
        room: usize,
        looks: &mut usize,
        effects: &mut Vec<Effect>,
    ) {
        let turned = self.breaker.pass(now);
        if let Some(Turned::Closed) = turned {
            self.held.clear();
        }
        report(turned, effects);
        self.go_on_letting_go(looks);
        self.go_on_closing(kernel, now, looks);
        while effects.len() < room
            && let Some(timer) = self.wheel.fire(now, looks)
        {
            if timer.who & SESSION_BIT == 0 {
                let slot = LeaseSlot(timer.who);
                if self.entries.get(slot).arming == timer.arming
                    && let Some(view) = kernel.in_slot(slot)
                {
                    self.look_at_lease(view, now, effects);
                }
            } else {
                let slot = timer.who & !SESSION_BIT;
                if self.sessions.in_slot(slot).is_some_and(|entry| entry.arming == timer.arming) {
                    self.look_at_session(kernel, slot, now, effects);
                }
            }
        }
    }

    /// Whether a lease's deadline has come, also where its timer has not fired yet.
    #[must_use]
    pub fn is_due(&self, view: LeaseView<'_>, now: Tick) -> bool {
        self.deadline(view).is_some_and(|deadline| deadline <= now)
    }

    /// Looks at one lease as if its deadline had come. Effects that end or reclaim it must be carried out before the
    /// next call.
    pub fn look_at_lease(&mut self, view: LeaseView<'_>, now: Tick, effects: &mut Vec<Effect>) {
        if let Phase::Alive = self.entries.get(view.slot()).phase {
            self.look_at_silence(view, now, effects);
        }
        let entry = self.entries.get(view.slot());
        if let LeaseState::Active { since, .. } = view.state()
            && lifetime_end(view).is_some_and(|end| now >= end)
        {
            let evidence = Evidence::Lifetime { since: *since };
            effects.push(Effect::LeaseOver { lease: view.id(), reason: Reason::MaxLifetime, evidence });
            return;
        }
        match entry.phase {
            Phase::Draining { until } if now >= until => self.grace_over(view, now, effects),
            Phase::Drained { until, since_ms } if now >= until => {
                let evidence = Evidence::Drained { since: Tick(until.0 - u64::from(since_ms)) };
                effects.push(Effect::LeaseOver { lease: view.id(), reason: Reason::AdminForce, evidence });
            }
            Phase::Revoking { earliest, .. } if now >= earliest => {
                if let Some(ground) = self.reclaim_ground(view, now) {
                    effects.push(Effect::ReclaimDue { lease: view.id(), ground });
                }
            }
            Phase::Idle
            | Phase::Alive
            | Phase::Draining { .. }
            | Phase::Drained { .. }
            | Phase::Revoking { .. } => self.arm(view),
        }
    }

    fn look_at_silence(&mut self, view: LeaseView<'_>, now: Tick, effects: &mut Vec<Effect>) {
        let terms = view.terms();
        match terms.mode {
            Mode::Heartbeat => {}
            Mode::Session | Mode::Permanent => return,
        }
        let last_seen = self.entries.get(view.slot()).counts_from.tick();
        let silent_from = last_seen.after_ms(terms.ttl_ms.into());
        if now < silent_from {
            return;
        }
        let grace_from = if planted(Planted::GraceFromLastProof) { last_seen } else { silent_from };
        let until = grace_from.after_ms(terms.grace_ms.into());
        self.unvoice(view.slot());
        self.entries.get_mut(view.slot()).phase = Phase::Draining { until };
        effects.push(Effect::Silent { subject: Subject::Lease(view.id()), last_seen, until });
        if terms.grace_ms > 0 {
            let turned = self.holder_fell_silent(view, now);
            report(turned, effects);
        }
    }

    fn grace_over(&mut self, view: LeaseView<'_>, now: Tick, effects: &mut Vec<Effect>) {
        let terms = view.terms();
        let entry = self.entries.get(view.slot());
        if terms.grace_ms > 0
            && let Some(until) = self.breaker.holds_until(now)
        {
            let Phase::Draining { until: instant } = entry.phase else { return };
            self.entries.get_mut(view.slot()).phase = Phase::Draining { until };
            self.arm(view);
            let arming = self.entries.get(view.slot()).arming;
            self.held.push(Held { who: view.slot().0, arming, instant });
            return;
        }
        let reason = match terms.mode {
            Mode::Heartbeat | Mode::Permanent => Reason::HeartbeatExpired,
            Mode::Session => {
                // Activated under a session that was gone; it may have come back since.
                let session = view.session().and_then(|session| self.sessions.by_id(session));
                if session.is_some_and(|session| session.is_alive()) {
                    self.entries.get_mut(view.slot()).phase = Phase::Alive;
                    self.arm(view);
                    return;
                }
                Reason::SessionExpired
            }
        };
        let evidence = Evidence::Silence {
            last_seen: entry.counts_from.tick(),
            promised_until: self.promised_until(view),
        };
        effects.push(Effect::LeaseOver { lease: view.id(), reason, evidence });
    }

    fn look_at_session(&mut self, kernel: &Kernel, slot: u32, now: Tick, effects: &mut Vec<Effect>) {
        let holds_until = self.breaker.holds_until(now);
        let Some(entry) = self.sessions.in_slot(slot) else { return };
        let session = entry.id;
        let Some(due) = entry.deadline().filter(|deadline| now >= *deadline) else {
            self.arm_session(slot);
            return;
        };
        match &mut entry.phase {
            SessionPhase::Alive => {
                let grace_ms = entry.grace_ms;
                let last_seen = entry.counts_from.tick();
                entry.phase = SessionPhase::draining(kernel.session(session), due, 0);
                let (is_over, until) =
                    (entry.deadline().is_some_and(|over| now >= over), entry.phase.over_at());
                self.voices_heard -= 1;
                effects.push(Effect::Silent { subject: Subject::Session(session), last_seen, until });
                if grace_ms > 0
                    && let Some(open) = kernel.session(session)
                {
                    let principal = open.principal().into();
                    let turned = self.session_fell_silent(slot, &principal, now);
                    report(turned, effects);
                }
                if is_over {
                    self.look_at_session(kernel, slot, now, effects);
                } else {
                    self.arm_session(slot);
                }
            }
            SessionPhase::Draining { since, grace_ms: running_ms, longest_ms } => {
                let grace_ms = running_ms.unwrap_or(*longest_ms);
                if let Some(until) = holds_until
                    && entry.grace_ms > 0
                    && !entry.is_gone
                {
                    // Postponed as a whole: the grace in hand ends when the hold does.
                    let instant = *since;
                    *since = Tick(until.0 - u64::from(grace_ms).min(until.0));
                    self.arm_session(slot);
                    let arming = self.sessions.get(slot).map_or(0, |entry| entry.arming);
                    self.held.push(Held { who: slot | SESSION_BIT, arming, instant });
                    return;
                }
                *running_ms = grace_after(kernel.session(session), grace_ms, *longest_ms);
                let closes = running_ms.is_none();
                // One that was silent before it was gone ends for its silence.
                let evidence = if entry.is_gone && entry.counts_from.tick() >= *since {
                    Evidence::Disconnected { at: *since }
                } else {
                    // Of a connection at another node it is that node's word that was relied on.
                    let word_until = if entry.kept.is_connection() { *since } else { Tick(0) };
                    let promised_until = entry.promised_until.max(word_until);
                    Evidence::Silence { last_seen: entry.counts_from.tick(), promised_until }
                };
                let is_left = entry.is_left;
                effects.push(Effect::SessionOver(SessionOver {
                    session,
                    grace_ms,
                    closes,
                    evidence,
                    is_left,
                }));
                self.arm_session(slot);
            }
        }
    }

    /// Why reclaim is safe now; `None` while promise or delay stand in its way.
    #[must_use]
    pub fn reclaim_ground(&self, view: LeaseView<'_>, now: Tick) -> Option<ReclaimGround> {
        match self.entries.get(view.slot()).phase {
            Phase::Revoking { earliest, wait } if now >= earliest => Some(match wait {
                Wait::Promise | Wait::Connection => ReclaimGround::PromiseOver,
                Wait::Acknowledged => ReclaimGround::Acknowledged,
                Wait::AtOnce => ReclaimGround::AtOnce,
            }),
            Phase::Idle
            | Phase::Alive
            | Phase::Draining { .. }
            | Phase::Drained { .. }
            | Phase::Revoking { .. } => None,
        }
    }
}
