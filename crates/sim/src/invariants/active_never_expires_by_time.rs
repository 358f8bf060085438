//! Active and revoking never expire by time; a reservation not before its deadline. (kernel.md §2, §6)

use super::{Scene, Verdict};
use crate::ledger::Recorded;
use crate::violation::Violation;
use tenure_kernel::{Change, StateName};

pub(super) fn event(scene: &Scene<'_>, recorded: &Recorded) -> Verdict {
    let Change::Expired(expired) = &recorded.event.change else { return Ok(()) };
    let id = expired.was.lease;
    let Some(told) = scene.story.leases.get(&id) else { return Ok(()) };
    let due = told.deadline.is_some_and(|deadline| recorded.tick >= deadline);
    if told.state == StateName::Reserved && due {
        return Ok(());
    }
    let text = format!(
        "lease {id} ({}, deadline {:?}) expired at tick {}",
        told.state.as_str(),
        told.deadline,
        recorded.tick
    );
    Err(Violation::new("active_never_expires_by_time", text))
}
