//! The structural invariants: indexes equal what a full scan would build. (kernel.md §6)

use super::{Scene, Verdict};
use crate::violation::Violation;

pub(super) fn turn(scene: &Scene<'_>) -> Verdict {
    let Some(engine) = scene.engine else { return Ok(()) };
    let checked = engine.kernel().check_invariants();
    checked.map_err(|violation| Violation::new("structural", violation.to_string()))
}
