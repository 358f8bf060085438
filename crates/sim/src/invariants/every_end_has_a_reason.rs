//! Every terminal lease has exactly one reason, and it is the right one. (kernel.md §3; DESIGN P6)

use super::{Scene, Verdict};
use crate::ledger::Recorded;
use crate::violation::Violation;
use tenure_kernel::{Actor, Change, Mode, Reason};

pub(super) fn event(scene: &Scene<'_>, recorded: &Recorded) -> Verdict {
    let wrong = |text: String| Err(Violation::new("every_end_has_a_reason", text));
    match &recorded.event.change {
        Change::Revoked(revoked) => {
            let Some(told) = scene.story.leases.get(&revoked.lease) else { return Ok(()) };
            let fits = match revoked.reason {
                Reason::HeartbeatExpired => told.policy.mode == Mode::Heartbeat,
                Reason::SessionExpired => told.policy.mode == Mode::Session,
                Reason::MaxLifetime => told.policy.max_lifetime_ms > 0,
                // Given back by its holder, through its gate or behind a former holder's promise that may still run.
                Reason::Explicit => {
                    let former = told.formers_until(scene.memory.began) > recorded.tick;
                    (told.policy.gate || former) && revoked.actor == Actor::Holder
                }
                Reason::ReservationExpired => false,
                Reason::AdminForce
                | Reason::Shutdown
                | Reason::Rebalanced
                | Reason::PoolRemoved
                | Reason::Abandoned
                | Reason::Restored => true,
            };
            if fits {
                return Ok(());
            }
            wrong(format!("lease {} ({:?}) was revoked as {:?}", told.id, told.policy.mode, revoked.reason))
        }
        Change::Reclaimed(reclaimed) => {
            let told = scene.story.leases.get(&reclaimed.was.lease);
            match told.and_then(|told| told.reason) {
                Some(reason) if reason == reclaimed.reason => Ok(()),
                reason => wrong(format!(
                    "lease {} was revoked as {reason:?} and ended as {:?}",
                    reclaimed.was.lease, reclaimed.reason
                )),
            }
        }
        _ => Ok(()),
    }
}
