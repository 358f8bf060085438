//! Retention is bounded, whatever is asked. (kernel.md §5, §6; DESIGN P8)

use super::{Scene, Verdict};
use crate::violation::Violation;

pub(super) fn turn(scene: &Scene<'_>) -> Verdict {
    let Some(engine) = scene.engine else { return Ok(()) };
    let kept = engine.kernel().retained_count() as u64;
    let most = scene.profile.engine.retention.leases_max;
    if kept <= most {
        return Ok(());
    }
    Err(Violation::new("retention_bounded", format!("{kept} ended leases are kept, at most {most} may be")))
}
