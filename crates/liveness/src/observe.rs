//! Proofs of life and their absence, as they are seen: heartbeats, connections, acknowledgements, and what
//! an operator may ask. Renewing writes one field; no timer is touched.

use crate::effect::{Effect, Refusal};
use crate::entry::{CountsFrom, Phase, Wait};
use crate::liveness::{Closed, Liveness, is_permanent};
use crate::promise::told_ms;
use crate::session::SessionPhase;
use tenure_kernel::planted::{Planted, planted};
use tenure_kernel::{
    Epoch, Found, Kept, Kernel, LeaseId, LeaseSlot, LeaseState, LeaseView, Lsn, Mode, Rejection, SessionId,
    Subject, Tick,
};

/// A heartbeat that counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Renewal {
    /// How long the holder may act from before it asked; `None` where no promise is made.
    pub valid_ms: Option<u64>,
    /// How long reclaim waits for that.
    pub promise_ms: Option<u64>,
    /// An operator asked the lease to end.
    pub draining: bool,
    /// How much of the earlier promise was left; `None` if it had run out or there was none.
    pub margin_ms: Option<u64>,
    /// The holder had been silent.
    pub returned: bool,
}

impl Renewal {
    /// One that promised so much, or nothing.
    #[inline]
    fn of(promise_ms: Option<u64>) -> Self {
        let valid_ms = promise_ms.map(told_ms);
        Self { valid_ms, promise_ms, draining: false, margin_ms: None, returned: false }
    }
}

impl Liveness {
    /// A holder says that it lives. `via` is the connection it speaks on.
    ///
    /// # Errors
    /// When the lease is not there, the token is stale, or this heartbeat proves nothing.
    pub fn heartbeat(
        &mut self,
        kernel: &Kernel,
        now: Tick,
        lease: LeaseId,
        epoch: Epoch,
        via: Option<SessionId>,
        effects: &mut Vec<Effect>,
    ) -> Result<Renewal, Refusal> {
        let view = live(kernel, now, lease)?;
        if view.epoch() != epoch {
            return Err(Rejection::StaleEpoch { current: view.epoch() }.into());
        }
        match view.state() {
            LeaseState::Active { .. } => {}
            LeaseState::Reserved { .. } | LeaseState::Revoking(_) => {
                return Err(Rejection::InvalidState { state: view.state().name() }.into());
            }
        }
        match view.terms().mode {
            Mode::Heartbeat => Ok(self.renew(view, now, effects)),
            // It may have been drained under other terms, before a rebind.
            Mode::Permanent => {
                let draining = self.is_drained(view);
                Ok(Renewal { draining, ..Renewal::of(None) })
            }
            Mode::Session => {
                let session = view.session();
                if session.is_none()
                    || session != via
                    || !session.is_some_and(|id| self.connection_is_open(id))
                {
                    return Err(Refusal::NoLiveness);
                }
                Ok(self.renew_on_connection(view, now))
            }
        }
    }

    /// The holder speaks on the connection that keeps its lease. Where that is open at another node, only this tells the
    /// holder that it may go on.
    fn renew_on_connection(&mut self, view: LeaseView<'_>, now: Tick) -> Renewal {
        let draining = self.is_drained(view);
        let promised = self.next_promise(view, now);
        let Some(promise_ms) = promised else { return Renewal { draining, ..Renewal::of(None) } };
        let entry = self.entries.get_mut(view.slot());
        let margin_ms = entry.promised_until.0.checked_sub(now.0);
        entry.counts_from = CountsFrom::heard(now);
        entry.promised_until = entry.promised_until.max(now.after_ms(promise_ms));
        Renewal { draining, margin_ms, ..Renewal::of(promised) }
    }

    /// The heartbeat of a lease that is alive, under terms that bound a promise by the ttl alone: nearly
    /// every heartbeat there is. `None`: take [`Liveness::heartbeat`], which knows the rest. With the renewal
    /// comes the position its answer rests on.
    #[inline]
    pub fn quick_heartbeat(&mut self, slot: LeaseSlot, now: Tick, epoch: Epoch) -> Option<(Renewal, Lsn)> {
        let entry = self.entries.get_mut(slot);
        if entry.phase != Phase::Alive || entry.beat_ms == 0 || entry.epoch != epoch {
            return None;
        }
        let promise_ms = u64::from(entry.beat_ms);
        let margin_ms = entry.promised_until.0.checked_sub(now.0);
        entry.counts_from = CountsFrom::heard(now);
        entry.promised_until = entry.promised_until.max(now.after_ms(promise_ms));
        let changed_lsn = entry.changed_lsn;
        self.breaker.arrived(now);
        Some((Renewal { margin_ms, ..Renewal::of(Some(promise_ms)) }, changed_lsn))
    }

    /// Brings into the cache what heartbeats for these leases will read and write; see [`Kernel::find`].
    #[inline]
    pub fn warm(&self, slots: &[Option<LeaseSlot>]) {
        for slot in slots.iter().flatten() {
            core::hint::black_box(self.entries.get_ref(*slot).map(|entry| entry.counts_from));
        }
    }

    fn renew(&mut self, view: LeaseView<'_>, now: Tick, effects: &mut Vec<Effect>) -> Renewal {
        self.breaker.arrived(now);
        let promised = self.next_promise(view, now);
        let entry = self.entries.get_mut(view.slot());
        let margin_ms = entry.promised_until.0.checked_sub(now.0);
        entry.counts_from = CountsFrom::heard(now);
        if let Some(promise_ms) = promised {
            entry.promised_until = entry.promised_until.max(now.after_ms(promise_ms));
        }
        let (draining, returned) = match entry.phase {
            Phase::Alive => (false, false),
            Phase::Drained { .. } if planted(Planted::HeartbeatRevivesOperatorDrain) => (false, true),
            Phase::Drained { .. } => (true, false),
            Phase::Draining { .. } => (false, true),
            Phase::Idle | Phase::Revoking { .. } => unreachable!("invariant: an active lease has liveness"),
        };
        if returned {
            entry.phase = Phase::Alive;
            self.voice(view);
            self.arm(view);
            effects.push(Effect::Returned { subject: Subject::Lease(view.id()) });
        }
        Renewal { draining, margin_ms, returned, ..Renewal::of(promised) }
    }

    /// One heartbeat for all leases of a session by hand, whatever their number.
    ///
    /// # Errors
    /// When the session is not there or is kept by a connection.
    pub fn session_heartbeat(
        &mut self,
        kernel: &Kernel,
        now: Tick,
        session: SessionId,
        effects: &mut Vec<Effect>,
    ) -> Result<Renewal, Refusal> {
        match kernel.session(session) {
            Some(open) if open.closed().is_none() => {}
            Some(_) | None => return Err(Refusal::SessionNotFound),
        }
        let slot = self.sessions.find(session).ok_or(Refusal::SessionNotFound)?;
        let entry = self.sessions.in_slot(slot).ok_or(Refusal::SessionNotFound)?;
        let promise_ms = match entry.kept {
            Kept::Heartbeat { ttl_ms } => u64::from(ttl_ms),
            Kept::Connection | Kept::NodeConnection { .. } => return Err(Refusal::NoLiveness),
        };
        let margin_ms = entry.promised_until.0.checked_sub(now.0);
        entry.counts_from = CountsFrom::heard(now);
        entry.promised_until = entry.promised_until.max(now.after_ms(promise_ms));
        let returned = !entry.is_alive();
        if returned {
            entry.phase = SessionPhase::Alive;
            self.voices_heard += 1;
            self.arm_session(slot);
            effects.push(Effect::Returned { subject: Subject::Session(session) });
        }
        self.breaker.arrived(now);
        Ok(Renewal { margin_ms, returned, ..Renewal::of(Some(promise_ms)) })
    }

    /// The node at which a connection is open says that it still is. `false`: there is no such session any more, or its
    /// connection was gone before.
    pub fn connection_kept(&mut self, now: Tick, session: SessionId, effects: &mut Vec<Effect>) -> bool {
        let Some(slot) = self.sessions.find(session) else { return false };
        let Some(entry) = self.sessions.in_slot(slot) else { return false };
        let is_gone = entry.is_gone && !planted(Planted::WordRevivesGone);
        if entry.lease_promise_ms().is_none() || is_gone {
            return false;
        }
        if !planted(Planted::WordNotCounted) {
            entry.counts_from = CountsFrom::heard(now);
        }
        if !entry.is_alive() {
            entry.phase = SessionPhase::Alive;
            self.voices_heard += 1;
            self.arm_session(slot);
            effects.push(Effect::Returned { subject: Subject::Session(session) });
        }
        self.breaker.arrived(now);
        true
    }

    /// A connection closed: its leases drain from here, each by its own grace. A reclaim that waited for it waits no
    /// longer once [`Liveness::on_deadline`] has come to it. `is_left`: its holder closed it, and does not act on what it
    /// was promised there any more.
    pub fn connection_closed(
        &mut self,
        kernel: &Kernel,
        now: Tick,
        session: SessionId,
        is_left: bool,
        effects: &mut Vec<Effect>,
    ) {
        let known = self.sessions.by_id(session).filter(|entry| entry.kept.is_connection() && !entry.is_gone);
        let Some(was_silent) = known.map(|entry| !entry.is_alive()) else { return };
        let durable = kernel.session(session).is_some_and(|open| open.closed().is_none());
        if !durable {
            self.session_gone(session);
            return;
        }
        if kernel.first_revoking_of(session).is_some() {
            self.closed.push_back(Closed { session, is_left });
        }
        let Some(slot) = self.sessions.find(session) else { return };
        if let Some(entry) = self.sessions.in_slot(slot) {
            entry.is_gone = true;
            // Open at this daemon, it promised nothing.
            entry.is_left = is_left && entry.lease_promise_ms().is_some();
        }
        if was_silent {
            // Its graces run already, from where its node's word ended; from here no late word takes that back.
            return;
        }
        let phase = SessionPhase::draining(kernel.session(session), now, 0);
        if let Some(entry) = self.sessions.in_slot(slot) {
            entry.phase = phase;
            entry.counts_from = CountsFrom::heard(now);
            if entry.kept != Kept::Connection {
                self.voices_heard -= 1;
            }
        }
        self.arm_session(slot);
        let until = phase.over_at();
        effects.push(Effect::Silent { subject: Subject::Session(session), last_seen: now, until });
    }

    /// Goes on with connections that closed: a reclaim that waited for one waits no longer. Each lease takes a look.
    pub(crate) fn go_on_closing(&mut self, kernel: &Kernel, now: Tick, looks: &mut usize) {
        while *looks > 0 {
            let Some((slot, closed)) = self.closed_next else {
                let Some(closed) = self.closed.pop_front() else { return };
                self.closed_next = kernel.first_revoking_of(closed.session).map(|slot| (slot, closed));
                *looks -= 1;
                continue;
            };
            let view = kernel.in_slot(slot).expect("invariant: a lease that ends is forgotten first");
            self.closed_next = view.next_of_session().map(|next| (next, closed));
            *looks -= 1;
            if closed.is_left {
                self.holder_left(view, now);
                continue;
            }
            let entry = self.entries.get_mut(slot);
            if let Phase::Revoking { wait: Wait::Connection, .. } = entry.phase {
                let earliest = delay_end(view, self.began).max(now).max(entry.promised_until);
                entry.phase = Phase::Revoking { earliest, wait: Wait::Promise };
                self.arm(view);
            }
        }
    }

    /// The holder of a revoked lease has closed the connection that kept it: the promise on that is over.
    pub fn holder_left(&mut self, view: LeaseView<'_>, now: Tick) {
        let promised = self.promised_elsewhere(view.slot());
        let entry = self.entries.get_mut(view.slot());
        if let Phase::Revoking { wait: Wait::Connection | Wait::Promise, .. } = entry.phase {
            let earliest = delay_end(view, self.began).max(now).max(promised);
            entry.promised_until = promised;
            entry.phase = Phase::Revoking { earliest, wait: Wait::Promise };
            self.arm(view);
        }
    }

    /// The holder of a revoked lease says that it stopped. It may present the epoch from before the revoke.
    ///
    /// # Errors
    /// When the lease is not revoking or the token is of neither epoch.
    pub fn acknowledge(
        &mut self,
        kernel: &Kernel,
        now: Tick,
        lease: LeaseId,
        epoch: Epoch,
    ) -> Result<(), Refusal> {
        let view = live(kernel, now, lease)?;
        let current = view.epoch();
        // Any number may be presented: counting on from the last one must not overflow.
        let is_stale = epoch != current && epoch.0.checked_add(1) != Some(current.0);
        if is_stale && !planted(Planted::AcknowledgeIgnoresEpoch) {
            return Err(Rejection::StaleEpoch { current }.into());
        }
        let former = self.former_promised_until(view, now);
        let entry = self.entries.get_mut(view.slot());
        match entry.phase {
            Phase::Revoking { .. } => {
                let stopped =
                    if planted(Planted::AcknowledgeAsPromise) { Wait::Promise } else { Wait::Acknowledged };
                let (after, wait) = former.map_or((now, stopped), |until| (until, Wait::Promise));
                entry.phase = Phase::Revoking { earliest: delay_end(view, self.began).max(after), wait };
                entry.promised_until = entry.promised_until.min(after);
                self.arm(view);
                Ok(())
            }
            Phase::Idle | Phase::Alive | Phase::Draining { .. } | Phase::Drained { .. } => {
                Err(Rejection::InvalidState { state: view.state().name() }.into())
            }
        }
    }

    /// Whether an operator may drain the lease.
    ///
    /// # Errors
    /// When nothing would be left to end it, or it drains already.
    pub fn check_drain(&self, view: LeaseView<'_>) -> Result<(), Refusal> {
        if is_permanent(view.terms()) {
            return Err(Refusal::PermanentLease);
        }
        match view.state() {
            LeaseState::Active { drained: false, .. } if self.is_silent(view) => {
                Err(Rejection::AlreadyDraining.into())
            }
            LeaseState::Active { .. } | LeaseState::Reserved { .. } | LeaseState::Revoking(_) => Ok(()),
        }
    }

    /// Whether an operator may revive the lease.
    ///
    /// # Errors
    /// When its connection is gone: nothing would be left to end it. When its session by hand is silent and nobody drained
    /// the lease: only the session's heartbeat brings it back.
    pub fn check_revive(&self, view: LeaseView<'_>) -> Result<(), Refusal> {
        let LeaseState::Active { drained, .. } = view.state() else { return Ok(()) };
        let speaks = match view.session() {
            Some(session) => self
                .sessions
                .by_id(session)
                .is_some_and(|entry| entry.is_alive() || (*drained && !entry.kept.is_connection())),
            None => true,
        };
        if speaks { Ok(()) } else { Err(Refusal::NoLiveness) }
    }

    /// Whether a lease drains by its own silence, and not by that of its session.
    #[must_use]
    pub fn drains_by_itself(&self, view: LeaseView<'_>) -> bool {
        matches!(self.entries.get(view.slot()).phase, Phase::Draining { .. })
    }

    fn is_silent(&self, view: LeaseView<'_>) -> bool {
        match self.entries.get(view.slot()).phase {
            Phase::Draining { .. } => true,
            Phase::Alive => view
                .session()
                .and_then(|session| self.sessions.by_id(session))
                .is_some_and(|session| !session.is_alive()),
            Phase::Idle | Phase::Drained { .. } | Phase::Revoking { .. } => false,
        }
    }

    fn is_drained(&self, view: LeaseView<'_>) -> bool {
        matches!(self.entries.get(view.slot()).phase, Phase::Drained { .. })
    }
}

/// End of the delay that stands between revoke and reclaim whatever the holder says. It counts anew from a restart.
pub(crate) fn delay_end(view: LeaseView<'_>, began: Tick) -> Tick {
    match view.state() {
        LeaseState::Revoking(revocation) => {
            revocation.at.max(began).after_ms(view.terms().reclaim_delay_ms.into())
        }
        LeaseState::Reserved { .. } | LeaseState::Active { .. } => Tick(0),
    }
}

fn live(kernel: &Kernel, now: Tick, lease: LeaseId) -> Result<LeaseView<'_>, Refusal> {
    match kernel.lease(lease, now) {
        Found::Live(view) => Ok(view),
        Found::Ended(ended) => Err(Rejection::InvalidState { state: ended.state }.into()),
        Found::Retired => Err(Rejection::LeaseRetired.into()),
        Found::NotFound => Err(Rejection::LeaseNotFound.into()),
    }
}
