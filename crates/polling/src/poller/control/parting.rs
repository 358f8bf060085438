//! How a poller goes: it gives everything away, or keeps it for its return, within a limit, and ends its membership.

use super::{Control, Wake};
use crate::metrics::MoveReason;
use crate::poller::PollerError;
use crate::poller::runner::STOPPING_MAX;
use crate::store::{ReleaseReason, Store, StoreError, TargetName};
use core::time::Duration;
use tenure_api::PollerStatus;
use tenure_client::clock::{BootInstant, wait_until};

/// Beyond the longest poll, how long a poller that stops goes on trying to hand over.
const PARTING_LIMIT: Duration = Duration::from_secs(5);
/// How often it is looked whether something more can be handed over.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// So long polls that run are waited for before the first handover: what goes in one lot is noticed by one look.
const FIRST_LOT: Duration = Duration::from_millis(50);

impl<S: Store> Control<S> {
    /// Gives everything away and goes.
    pub(super) async fn part(&mut self) -> Result<(), PollerError> {
        self.is_leaving = true;
        let options = &self.shared.options;
        let (window, cancel_lead) = (options.reconnect_window, options.cancel_lead);
        let limit = options.timeout.min(Duration::from_secs(3_600)) + cancel_lead + PARTING_LIMIT;
        self.shared.set_status(PollerStatus::Leaving);
        let given = tokio::time::timeout(limit, async {
            if let Err(error) = self.shared.store.publish_status(PollerStatus::Leaving).await {
                tracing::debug!(%error, "the group was not notified that this poller leaves");
            }
            if window.is_zero() { self.give_all_away().await } else { self.end_polls().await }
        })
        .await;
        if given.is_err() {
            tracing::warn!(
                instance = %self.shared.membership.instance, group = self.shared.group,
                targets = self.shared.holdings().len(), "some targets were not handed over"
            );
        }
        self.stop_polls(cancel_lead).await;
        let leases = self.shared.holdings().leases();
        self.shared.end_membership(self.membership);
        let window = Some(window).filter(|window| !window.is_zero());
        let leaving = self.shared.store.leave(&leases, window);
        let left = tokio::time::timeout(PARTING_LIMIT, leaving).await;
        self.shared.holdings().lose_all();
        for lease in &leases {
            self.shared.counters.moved(MoveReason::Released(ReleaseReason::Shutdown));
            self.log_released(lease, ReleaseReason::Shutdown);
        }
        match left {
            Ok(Ok(()) | Err(StoreError::NotMember(_))) => Ok(()),
            Ok(Err(error)) => Err(PollerError::StopNotReported(error.to_string())),
            Err(_) => Err(PollerError::StopNotReported("the store does not answer".to_owned())),
        }
    }

    /// Hands over what can be, release after release, until nothing is held.
    async fn give_all_away(&mut self) {
        let mut looks = true;
        while self.shared.is_member_since(self.membership) {
            let given = match looks {
                true => self.give_away().await,
                // A poll has ended: where its target goes is known.
                false => self.let_go(&mut Wake(BootInstant::now())).await,
            };
            if let Err(error) = given {
                tracing::debug!(%error, "cannot hand over targets yet");
            }
            if self.shared.holdings().len() == 0 {
                return;
            }
            tokio::select! {
                () = self.shared.control_wake.notified() => looks = false,
                () = tokio::time::sleep(LOOK_AGAIN) => looks = true,
            }
        }
    }

    async fn give_away(&mut self) -> Result<(), StoreError> {
        let Some(targets) = self.targets.borrow_and_update().clone() else { return Ok(()) };
        let view = self.look(&targets).await?;
        let plan = self.planned(&targets, &view);
        let now = BootInstant::now();
        let mut wake = Wake(now);
        self.drain(&plan, &view, &mut wake, now);
        // With nobody to give it to, it is released as soon as it does not run.
        self.drain_all(plan.keep.iter());
        let over = now.after(FIRST_LOT);
        while self.runs_any() && BootInstant::now() < over {
            tokio::select! {
                () = self.shared.control_wake.notified() => {}
                () = wait_until(over) => {}
            }
        }
        self.let_go(&mut wake).await
    }

    /// Lets what runs come to its end; nothing starts any more.
    async fn end_polls(&mut self) {
        loop {
            let held: Vec<TargetName> =
                self.shared.holdings().iter().map(|(target, _)| target.clone()).collect();
            self.drain_all(held.iter());
            if held.iter().all(|target| !self.shared.holdings().is_running(target)) {
                return;
            }
            tokio::select! {
                () = self.shared.control_wake.notified() => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }

    fn runs_any(&self) -> bool {
        let holdings = self.shared.holdings();
        holdings.iter().any(|(target, _)| holdings.is_running(target))
    }

    fn drain_all<'a>(&self, targets: impl Iterator<Item = &'a TargetName>) {
        let mut holdings = self.shared.holdings();
        for target in targets {
            holdings.drain(target, ReleaseReason::Shutdown, false);
        }
    }

    /// Ends what still runs: nothing may run under a lease that is given up.
    async fn stop_polls(&self, cancel_lead: Duration) {
        let held: Vec<TargetName> = {
            let mut holdings = self.shared.holdings();
            let held: Vec<TargetName> = holdings.iter().map(|(target, _)| target.clone()).collect();
            for target in &held {
                holdings.drain(target, ReleaseReason::Shutdown, true);
            }
            held
        };
        let over = BootInstant::now().after(cancel_lead + STOPPING_MAX);
        let runs = || held.iter().any(|target| self.shared.holdings().is_running(target));
        while runs() && BootInstant::now() < over {
            tokio::select! {
                () = self.shared.control_wake.notified() => {}
                () = tokio::time::sleep(cancel_lead / 10) => {}
            }
        }
    }
}
