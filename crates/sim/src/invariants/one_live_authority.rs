//! One live authority per resource; one grant, one lease. (kernel.md §6; DESIGN P1)

use super::{Scene, Verdict};
use crate::ledger::Recorded;
use crate::violation::Violation;
use tenure_kernel::{Change, LeaseId};

pub(super) fn event(scene: &Scene<'_>, recorded: &Recorded) -> Verdict {
    let Change::Granted(granted) = &recorded.event.change else { return Ok(()) };
    let id = LeaseId::new(0, recorded.lsn);
    if scene.story.leases.contains_key(&id) {
        return Err(Violation::new("one_live_authority", format!("lease {id} was granted twice")));
    }
    for name in &granted.members {
        if let Some(other) = scene.story.covered.get(name) {
            let text = format!("{name} was granted to lease {id} while lease {other} covers it");
            return Err(Violation::new("one_live_authority", text));
        }
    }
    Ok(())
}
