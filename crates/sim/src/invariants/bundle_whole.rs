//! A bundle is visible whole or not at all, and its resources point back. (kernel.md §6; DESIGN P1)

use super::{Scene, Verdict};
use crate::violation::Violation;

pub(super) fn turn(scene: &Scene<'_>) -> Verdict {
    let Some(engine) = scene.engine else { return Ok(()) };
    let kernel = engine.kernel();
    for told in scene.story.live() {
        for name in &told.members {
            let covering = kernel.covering(name).map(|view| view.id());
            if covering != Some(told.id) {
                let text = format!("{name} of lease {} is covered by {covering:?}", told.id);
                return Err(Violation::new("bundle_whole", text));
            }
        }
    }
    let live = scene.story.live().count();
    if live != kernel.live_count() {
        let text = format!("{live} leases are live by the events, {} by the kernel", kernel.live_count());
        return Err(Violation::new("bundle_whole", text));
    }
    Ok(())
}
