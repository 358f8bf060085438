//! Terminal never becomes live: no event touches a lease that ended or never was. (kernel.md §2, §6)

use super::{Scene, Verdict};
use crate::ledger::Recorded;
use crate::violation::Violation;
use tenure_kernel::{Change, LeaseId};

pub(super) fn event(scene: &Scene<'_>, recorded: &Recorded) -> Verdict {
    let change = &recorded.event.change;
    match change {
        Change::Granted(_) | Change::Notified { .. } => return Ok(()),
        _ => {}
    }
    let Some(id) = change.lease(LeaseId(0)) else { return Ok(()) };
    match scene.story.leases.get(&id) {
        Some(told) if told.is_live() => Ok(()),
        Some(told) => {
            let text = format!("{} of lease {id}, which is {}", change.kind().as_str(), told.state.as_str());
            Err(Violation::new("terminal_never_live", text))
        }
        None => {
            let text = format!("{} of lease {id}, which never was", change.kind().as_str());
            Err(Violation::new("terminal_never_live", text))
        }
    }
}
