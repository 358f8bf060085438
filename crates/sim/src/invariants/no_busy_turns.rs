//! Deadlines, not sweeps: a turn that does nothing does not ask for the next one at once, for ever. (DESIGN
//! decision 8)

use super::Verdict;
use crate::violation::Violation;

/// A turn that did nothing may ask for another at once, but not so often in a row.
const IDLE_TURNS_MAX: u64 = 100;

#[derive(Default)]
pub(super) struct IdleTurns(u64);

impl IdleTurns {
    pub(super) fn wakes(&mut self, in_ms: u64, idle: bool) -> Verdict {
        self.0 = if idle && in_ms == 0 { self.0 + 1 } else { 0 };
        if self.0 < IDLE_TURNS_MAX {
            return Ok(());
        }
        Err(Violation::new("no_busy_turns", format!("{IDLE_TURNS_MAX} turns in a row did nothing")))
    }
}
