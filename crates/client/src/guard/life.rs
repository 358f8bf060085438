//! The shared state of one hold: what watchers see, and the token that fires. A loss is published once and
//! never taken back.

use super::state::{Core, GuardStatus, LossReason};
use crate::clock::BootInstant;
use tenure_api::{DrainCause, Lease};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The state of a guard or session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GuardState {
    /// Held, at risk or lost.
    pub status: GuardStatus,
    /// An operator drains the lease: wind down.
    pub draining: bool,
    /// The epoch that calls about the lease present.
    pub epoch: u64,
    /// The fencing token that protected systems compare.
    pub fence: u64,
    /// The end of the validity; `None` for a lease that is valid while its connection is open.
    pub valid_until: Option<BootInstant>,
}

pub(crate) struct Life {
    state: watch::Sender<GuardState>,
    token: CancellationToken,
    /// The reason of the loss is final.
    settled: CancellationToken,
}

impl GuardState {
    pub(crate) fn held(lease: &Lease, valid_until: Option<BootInstant>) -> Self {
        Self {
            status: GuardStatus::Held,
            draining: lease.drain_cause == Some(DrainCause::Operator),
            epoch: lease.epoch,
            fence: lease.fence,
            valid_until,
        }
    }

    /// What follows from the clock alone.
    pub(crate) fn look_at(&mut self, now: BootInstant) {
        if self.valid_until.is_some_and(|until| now >= until) {
            self.lose(LossReason::Unreachable);
        }
    }

    pub(crate) fn lose(&mut self, reason: LossReason) {
        match self.status {
            GuardStatus::Held | GuardStatus::AtRisk => self.status = GuardStatus::Lost(reason),
            GuardStatus::Lost(_) => {}
        }
    }

    /// A lease that is kept by a session stands no better than the session.
    pub(crate) fn bound_by(&mut self, session: &Self) {
        self.valid_until = session.valid_until;
        match (&self.status, &session.status) {
            (GuardStatus::Held, GuardStatus::AtRisk) => self.status = GuardStatus::AtRisk,
            (GuardStatus::Held | GuardStatus::AtRisk, GuardStatus::Lost(reason)) => self.lose(reason.clone()),
            (GuardStatus::Held | GuardStatus::AtRisk, GuardStatus::Held)
            | (GuardStatus::AtRisk, GuardStatus::AtRisk)
            | (GuardStatus::Lost(_), GuardStatus::Held | GuardStatus::AtRisk | GuardStatus::Lost(_)) => {}
        }
    }
}

impl Life {
    pub(crate) fn new(state: GuardState) -> Self {
        Self {
            state: watch::Sender::new(state),
            token: CancellationToken::new(),
            settled: CancellationToken::new(),
        }
    }

    pub(crate) fn state(&self) -> GuardState {
        self.state.borrow().clone()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<GuardState> {
        self.state.subscribe()
    }

    pub(crate) fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// What the rules believe now. Says nothing once lost.
    pub(crate) fn publish(&self, core: &Core) {
        self.change(|state| {
            state.status = core.status().clone();
            state.draining = core.draining();
            state.valid_until = Some(core.valid_until());
        });
        if let GuardStatus::Lost(_) = core.status() {
            self.token.cancel();
        }
    }

    pub(crate) fn set_draining(&self, draining: bool) {
        self.change(|state| state.draining = draining);
    }

    /// The state first, then the token: a task that the token wakes finds the loss.
    pub(crate) fn lose(&self, reason: LossReason) {
        self.change(|state| state.lose(reason));
        self.token.cancel();
    }

    /// The reason is final: the one given, or the one that is known.
    pub(crate) fn settle(&self, better: Option<LossReason>) {
        if let Some(reason) = better
            && !self.settled.is_cancelled()
        {
            self.state.send_if_modified(|state| match &mut state.status {
                GuardStatus::Lost(known) if *known != reason => {
                    *known = reason;
                    true
                }
                GuardStatus::Lost(_) | GuardStatus::Held | GuardStatus::AtRisk => false,
            });
        }
        self.settled.cancel();
    }

    pub(crate) async fn settled(&self) -> LossReason {
        self.settled.cancelled().await;
        match self.state().status {
            GuardStatus::Lost(reason) => reason,
            GuardStatus::Held | GuardStatus::AtRisk => LossReason::Unreachable,
        }
    }

    fn change(&self, change: impl FnOnce(&mut GuardState)) {
        self.state.send_if_modified(|state| {
            if let GuardStatus::Lost(_) = state.status {
                return false;
            }
            let before = state.clone();
            change(state);
            *state != before
        });
    }
}
