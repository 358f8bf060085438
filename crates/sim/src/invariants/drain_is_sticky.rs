//! Drained by an operator comes back only by `revive`; heartbeats answer `draining`. (DESIGN decision 10)

use super::{Said, Scene, Verdict};
use crate::violation::Violation;
use tenure_engine::{Answer, Out, Request};

pub(super) fn said(scene: &Scene<'_>, said: &Said<'_>) -> Verdict {
    let (Out::Answer(_, Answer::Renewed { draining, .. }), Some(ask)) = (said.out, said.ask) else {
        return Ok(());
    };
    let (Request::Heartbeat { lease, .. } | Request::TimelyHeartbeat { lease, .. }) = &ask.request else {
        return Ok(());
    };
    // An answer held back for a sync shows how things stood before.
    if ask.handled != Some(scene.aged) || *draining {
        return Ok(());
    }
    let drained_before = scene.memory.drained.get(lease).is_some_and(|(at, _)| *at < scene.aged);
    match scene.story.leases.get(lease) {
        Some(told) if told.drained && drained_before && told.is_live() => {
            let text = format!("a heartbeat of lease {lease}, which an operator drained, was not told so");
            Err(Violation::new("drain_is_sticky", text))
        }
        Some(_) | None => Ok(()),
    }
}
