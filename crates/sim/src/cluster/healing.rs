//! The end of a run. Faults stop, every holder dies: one node writes, the others have everything, all that was held comes
//! free within a bound and can be had again.

use super::node::Part;
use super::world::{NODES, World};
use crate::invariants::deaths_end_in_bound;
use crate::violation::Violation;

/// What was on its way when faults stopped, and what nodes still try on behalf of the dead.
const UNDER_WAY_MS: u64 = 21_000;
/// Longest reservation, and lateness of anything else.
const SLACK_MS: u64 = 8_000;

impl World {
    pub(super) fn heal(&mut self) -> Result<(), Violation> {
        self.line(format_args!("healing begins: no more faults, every holder dies"));
        self.relieve();
        (0..self.holders.len()).for_each(|number| self.die(number));
        let liveness = &self.profile.engine.liveness;
        let bound = UNDER_WAY_MS
            + 2 * self.profile.writer_ttl_ms
            + self.profile.ttl_ms_max.max(self.profile.word_ms)
            + self.profile.grace_ms_max
            + liveness.revoke_timeout_ms.max(self.profile.engine.gate_timeout_ms)
            + liveness.breaker.hold_ms
            + SLACK_MS;
        self.run_until(self.now + bound)?;
        if let Some(told) = self.checks.story().live().next() {
            let text = format!("lease {} of {} is still {}", told.id, told.holder, told.state.as_str());
            return Err(Violation::new("deaths_end_in_bound", text));
        }
        for number in 0..self.profile.resources {
            self.probe(&format!("r{number}"));
        }
        self.run_until(self.now + 5_000)?;
        deaths_end_in_bound::all_probes_answered(self.probes_left)?;
        self.one_writes_and_all_follow()
    }

    pub(super) fn one_writes_and_all_follow(&mut self) -> Result<(), Violation> {
        let mut writers = 0;
        for node in 0..NODES {
            let name = self.nodes[node].name;
            let Some(life) = self.nodes[node].life.take() else {
                return Err(Violation::new("nodes_come_back", format!("{name} does not run")));
            };
            let (last, frame) = (self.nodes[node].mirror.last_frame(), self.checks.frame());
            let is_behind = last != frame;
            match &life.part {
                Part::Writing(_) => writers += 1,
                Part::Following => {}
                Part::Beginning | Part::Winning(_) => {
                    return Err(Violation::new(
                        "nodes_come_back",
                        format!("{name} neither writes nor follows"),
                    ));
                }
            }
            if is_behind {
                return Err(Violation::new("nodes_come_back", format!("{name} has frame {last} of {frame}")));
            }
            for _ in 0..8 {
                self.check_state(node, &life)?;
            }
            self.nodes[node].life = Some(life);
        }
        if writers == 1 {
            return Ok(());
        }
        Err(Violation::new("one_authority", format!("{writers} nodes write, nothing is wrong")))
    }
}
