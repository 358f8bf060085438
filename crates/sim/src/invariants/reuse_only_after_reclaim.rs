//! After revoke, reuse only after reclaim; reclaim only after revoke. (kernel.md §2, §6)

use super::{Scene, Verdict};
use crate::ledger::Recorded;
use crate::violation::Violation;
use tenure_kernel::{Change, StateName};

pub(super) fn event(scene: &Scene<'_>, recorded: &Recorded) -> Verdict {
    let (id, wanted): (_, &[StateName]) = match &recorded.event.change {
        Change::Reclaimed(reclaimed) => (reclaimed.was.lease, &[StateName::Revoking]),
        Change::Released(released) => (released.was.lease, &[StateName::Reserved, StateName::Active]),
        Change::Revoked(revoked) => (revoked.lease, &[StateName::Reserved, StateName::Active]),
        Change::Activated { lease } => (*lease, &[StateName::Reserved]),
        Change::Rebound(rebound) => (rebound.lease, &[StateName::Active]),
        _ => return Ok(()),
    };
    let Some(told) = scene.story.leases.get(&id) else { return Ok(()) };
    if wanted.contains(&told.state) {
        return Ok(());
    }
    let kind = recorded.event.change.kind().as_str();
    let text = format!("lease {id} was {kind} while {}", told.state.as_str());
    Err(Violation::new("reuse_only_after_reclaim", text))
}
