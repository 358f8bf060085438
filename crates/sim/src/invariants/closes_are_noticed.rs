//! The end of a connection drains its leases at once, whatever else is asked of the daemon. (leases.md §1 "session", §3 "a
//! dead peer is noticed at once"; decision 0047)

use super::{Scene, Verdict};
use crate::violation::Violation;
use std::collections::BTreeMap;
use tenure_kernel::SessionId;

/// What is noticed later than this is noticed too late.
const WITHIN_MS: u64 = 1_000;

/// Connections whose end the engine was told and has not acted on yet.
#[derive(Default)]
pub(super) struct Closes(BTreeMap<SessionId, u64>);

impl Closes {
    pub(super) fn told(&mut self, aged: u64, session: SessionId) {
        self.0.entry(session).or_insert(aged);
    }

    pub(super) fn turn(&mut self, scene: &Scene<'_>) -> Verdict {
        let Some(engine) = scene.engine else { return Ok(()) };
        self.0.retain(|session, _| engine.liveness().connection_is_open(*session));
        match self.0.iter().find(|(_, told)| scene.aged > **told + WITHIN_MS) {
            None => Ok(()),
            Some((session, told)) => {
                let text =
                    format!("connection {session} closed at {told} and counts as open at {}", scene.aged);
                Err(Violation::new("closes_are_noticed", text))
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
