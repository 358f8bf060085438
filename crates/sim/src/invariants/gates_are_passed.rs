//! What has a gate is reusable only behind it: such a lease in use ends by a reclaim that says how its gate went, never
//! by a release. (DESIGN §4.12; registrations.md)

use super::{Scene, Verdict};
use crate::ledger::Recorded;
use crate::violation::Violation;
use tenure_kernel::{Change, GateReport};

pub(super) fn event(_: &Scene<'_>, recorded: &Recorded) -> Verdict {
    let around = |text: String| Err(Violation::new("gates_are_passed", text));
    match &recorded.event.change {
        Change::Released(released) if released.was.policy.gate => {
            around(format!("lease {} was released around its gate", released.was.lease))
        }
        Change::Reclaimed(reclaimed) if reclaimed.was.policy.gate && reclaimed.gate == GateReport::None => {
            around(format!("lease {} was reclaimed without its gate", reclaimed.was.lease))
        }
        _ => Ok(()),
    }
}
