//! A holder on an open connection believes in its leases for as long as the connection is open. Nobody else moves one of
//! them: `resume` binds a lease that drains, a face takes over one that drains. (leases.md §1 "Promise", §3 `resume`;
//! decision 0051)

use super::{Scene, Verdict};
use crate::ledger::Recorded;
use crate::violation::Violation;
use tenure_kernel::{Change, ReclaimRule};

pub(super) fn event(scene: &Scene<'_>, recorded: &Recorded) -> Verdict {
    let Change::Rebound(rebound) = &recorded.event.change else { return Ok(()) };
    let lease = rebound.lease;
    let Some(told) = scene.story.leases.get(&lease) else { return Ok(()) };
    let Some(connection) = told.policy.session.filter(|session| scene.memory.is_open(*session)) else {
        return Ok(());
    };
    let stays = rebound.policy.as_ref().is_none_or(|policy| policy.session == Some(connection));
    let promised_nothing = told.policy.reclaim_rule == ReclaimRule::AtOnce;
    let is_its_own = scene.memory.rebinds_over.contains(&(lease, told.epoch, connection));
    if stays || promised_nothing || is_its_own {
        return Ok(());
    }
    let text = format!("lease {lease} of {} left connection {connection}, which is open", told.holder);
    Err(Violation::new("open_connection_keeps", text))
}
