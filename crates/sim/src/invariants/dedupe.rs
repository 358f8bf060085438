//! One operation id, one effect, for as long as its outcome is kept. (kernel.md §4)

use super::{Scene, Verdict};
use crate::ledger::Recorded;
use crate::violation::Violation;

pub(super) fn event(scene: &Scene<'_>, recorded: &Recorded) -> Verdict {
    let Some(operation) = &recorded.event.operation else { return Ok(()) };
    let Some(first) = scene.story.operations.get(&operation.key) else { return Ok(()) };
    if recorded.tick.ms_since(first.tick) >= first.keep_ms {
        return Ok(());
    }
    let text =
        format!("the operation carried out at {} was carried out again at {}", first.lsn, recorded.lsn);
    Err(Violation::new("dedupe", text))
}
