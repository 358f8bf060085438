//! The restart rule. Downtime ages nobody: every holder gets a full ttl from the instant of recovery, and
//! is assumed to have been promised just that, whatever ends its lease afterwards.

use crate::config::LivenessConfig;
use crate::entry::{CountsFrom, Entry, Phase, Wait};
use crate::liveness::{Liveness, outlived_its_log};
use crate::promise::session_promise;
use crate::session::{SessionEntry, SessionPhase};
use tenure_kernel::planted::{Planted, planted};
use tenure_kernel::{
    Actor, Kept, Kernel, LeaseId, LeaseState, LeaseView, Mode, ReclaimRule, SessionId, SessionView, Tick,
};

impl Liveness {
    /// Rebuilds liveness from what the log knows.
    #[must_use]
    pub fn recover(kernel: &Kernel, now: Tick, config: LivenessConfig) -> Self {
        let mut liveness = Self::new(config, now);
        for session in kernel.sessions_from(SessionId(0)) {
            if session.closed().is_none() {
                liveness.recover_session(session, now);
            }
        }
        for view in kernel.leases_from(LeaseId(0)) {
            liveness.recover_lease(kernel, view, now);
        }
        liveness
    }

    fn recover_session(&mut self, session: SessionView<'_>, now: Tick) {
        let kept = session.kept();
        let is_gone = match kept {
            Kept::Connection => true,
            // It may be open still; then its node sends keepalives.
            Kept::NodeConnection { .. } => planted(Planted::RecoveryClosesConnections),
            Kept::Heartbeat { .. } => false,
        };
        let phase = if is_gone {
            let least_ms = u32::try_from(self.config.restart_grace_ms_min).unwrap_or(u32::MAX);
            SessionPhase::draining(Some(session), now, least_ms)
        } else {
            self.voices_heard += 1;
            SessionPhase::Alive
        };
        let promised_until = session_promise(kept, now);
        let slot = self.sessions.insert(SessionEntry {
            id: session.id(),
            kept,
            grace_ms: session.grace_ms(),
            counts_from: CountsFrom::unheard(now),
            promised_until,
            phase,
            silent_at: None,
            is_gone,
            is_left: false,
            arming: 0,
        });
        self.arm_session(slot);
    }

    fn recover_lease(&mut self, kernel: &Kernel, view: LeaseView<'_>, now: Tick) {
        let terms = view.terms();
        let counts_from = if planted(Planted::RecoveryAgesHolders) { view.granted_tick() } else { now };
        let promised_until = match (terms.reclaim_rule, terms.mode) {
            (ReclaimRule::AtOnce, _) | (_, Mode::Permanent) => Tick(0),
            (ReclaimRule::AfterPromise, Mode::Heartbeat) => counts_from.after_ms(terms.ttl_ms.into()),
            (ReclaimRule::AfterPromise, Mode::Session) => view
                .session()
                .and_then(|session| kernel.session(session))
                .map_or(Tick(0), |session| now.after_ms(session.ttl_ms().into())),
        };
        // Whether a former holder has stopped is not in the log. Snapshots of before `former_until` have the present terms
        // only.
        if view.fence() != kernel.fence(view.id().lsn()) {
            self.formers.add(view.slot(), promised_until.max(view.former_until().unwrap_or(Tick(0))));
        }
        let bound_until = promised_until.max(self.formers.until(view.slot()));
        let phase = match view.state() {
            LeaseState::Reserved { .. } => Phase::Idle,
            LeaseState::Active { drained: true, .. } => {
                let until = now.after_ms(terms.grace_ms.into()).max(bound_until);
                Phase::Drained { until, since_ms: u32::try_from(until.ms_since(now)).unwrap_or(u32::MAX) }
            }
            LeaseState::Active { drained: false, .. } => self.recovered_standing(view, now),
            LeaseState::Revoking(_) => self.recovered_wait(view, now, bound_until),
        };
        let voice = self.keeper(view);
        let counts_from = CountsFrom::unheard(counts_from);
        *self.entries.get_mut(view.slot()) =
            Entry { counts_from, promised_until, phase, voice, ..Entry::NONE };
        if phase == Phase::Alive && terms.mode == Mode::Heartbeat {
            self.voice(view);
        }
        self.arm(view);
    }

    /// A lease whose session is gone or closed has nothing to keep it: it drains from here.
    fn recovered_standing(&self, view: LeaseView<'_>, now: Tick) -> Phase {
        match view.terms().mode {
            Mode::Heartbeat | Mode::Permanent => Phase::Alive,
            Mode::Session => match view.session().and_then(|session| self.sessions.by_id(session)) {
                Some(_) => Phase::Alive,
                None => Phase::Draining { until: now.after_ms(view.terms().grace_ms.into()) },
            },
        }
    }

    /// Promise and delay count anew.
    fn recovered_wait(&self, view: LeaseView<'_>, now: Tick, bound_until: Tick) -> Phase {
        let terms = view.terms();
        let delayed = now.after_ms(terms.reclaim_delay_ms.into());
        let given_back =
            matches!(view.state(), LeaseState::Revoking(revocation) if revocation.actor == Actor::Holder);
        let former = self.former_promised_until(view, now);
        let after_former = |wait| former.map_or((now, wait), |until| (until, Wait::Promise));
        let timeout = now.after_ms(self.config.revoke_timeout_ms).max(bound_until);
        let (after, wait) = match (terms.reclaim_rule, terms.mode) {
            (ReclaimRule::AtOnce, _) => after_former(Wait::AtOnce),
            (ReclaimRule::AfterPromise, _) if given_back => after_former(Wait::Acknowledged),
            (ReclaimRule::AfterPromise, Mode::Permanent) => (timeout, Wait::Promise),
            (ReclaimRule::AfterPromise, Mode::Session) if outlived_its_log(view) => (timeout, Wait::Promise),
            (ReclaimRule::AfterPromise, Mode::Heartbeat | Mode::Session) => {
                (bound_until.max(now), Wait::Promise)
            }
        };
        Phase::Revoking { earliest: after.max(delayed), wait }
    }
}
