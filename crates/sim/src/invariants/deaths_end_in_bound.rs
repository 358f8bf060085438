//! Ghosts vanish: a dead holder's leases end within ttl, grace and what stands before reclaim, and everything
//! can be had again. (DESIGN P5; leases.md §1)

use super::{Scene, Verdict};
use crate::profile::Profile;
use crate::violation::Violation;
use tenure_engine::{Answer, Request};
use tenure_kernel::LeaseId;

const NAME: &str = "deaths_end_in_bound";

/// Longest reservation, reclaim delay and lateness of anything else in a run.
const SLACK_MS: u64 = 15_000;

/// After this long nothing of the dead may be held.
pub(crate) fn bound_ms(profile: &Profile) -> u64 {
    let liveness = &profile.engine.liveness;
    // A restored log holds the leases of its past for one ttl more.
    2 * profile.ttl_ms_max
        + profile.grace_ms_max.max(liveness.restart_grace_ms_min)
        + liveness.revoke_timeout_ms.max(profile.engine.gate_timeout_ms)
        + liveness.breaker.hold_ms
        + 20 * profile.sync_ms_max
        + SLACK_MS
}

pub(crate) fn nothing_is_held(scene: &Scene<'_>) -> Verdict {
    let Some(engine) = scene.engine else {
        return Err(Violation::new(NAME, "the daemon did not come back"));
    };
    let left = engine.kernel().leases_from(LeaseId(0)).next();
    match left {
        None => Ok(()),
        Some(view) => {
            let standing = engine.liveness().view(view, engine.tick());
            let text = format!(
                "lease {} of {} is still {} at {} ms: {standing:?}, {:?}",
                view.id(),
                view.holder(),
                view.state().name().as_str(),
                scene.now,
                view.terms(),
            );
            Err(Violation::new(NAME, text))
        }
    }
}

pub(crate) fn probe_was_granted(request: &Request, answer: &Answer) -> Result<(), Violation> {
    match answer {
        Answer::Lease(_) => Ok(()),
        answer => Err(Violation::new(NAME, format!("{answer:?} was the answer to {request:?}"))),
    }
}

pub(crate) fn all_probes_answered(left: u64) -> Result<(), Violation> {
    if left == 0 {
        return Ok(());
    }
    Err(Violation::new(NAME, format!("{left} grants on an idle daemon were not answered")))
}
