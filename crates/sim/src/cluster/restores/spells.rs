//! What happens for a minute or two before a store is put back: a leader grants nothing, another node leads in its place, or a
//! node joins. A backup from the beginning of that is old enough by then.

use super::{MACHINES, Machine, Restores};
use crate::violation::Violation;

impl Restores {
    /// A leader that grants nothing for minutes: its barriers go on, and so do the leases that it renews.
    pub(super) fn idle(&mut self) -> Result<(), Violation> {
        let writes = core::mem::take(&mut self.writes);
        self.back_up();
        for _ in 0..self.random.within(35..=60) {
            if self.random.chance(100) {
                self.back_up();
            }
            self.all_turn(2_000)?;
        }
        self.writes = writes;
        Ok(())
    }

    /// The same, and then another node leads, which the leader does not see.
    pub(super) fn usurp(&mut self) -> Result<(), Violation> {
        self.idle()?;
        let leads = |machine: &Machine| machine.life.as_ref().is_some_and(|life| life.term.is_some());
        let Some(leader) = self.machines.iter().position(leads) else { return Ok(()) };
        self.machines[leader].cut_until = self.now + self.random.within(10_000..=40_000);
        self.line(format_args!("m{leader} is cut off"));
        for _ in 0..self.random.within(5..=12) {
            self.all_turn(1_500)?;
        }
        Ok(())
    }

    /// A node joins, after a backup that is old enough by the time it is put back.
    pub(super) fn join(&mut self) -> Result<(), Violation> {
        self.back_up();
        let number = self.anybody();
        self.rebuild(number)?;
        for _ in 0..35 {
            let number = self.anybody();
            match self.random.below(20) {
                0 => self.crash(number),
                1..=2 => self.start(number)?,
                _ => {}
            }
            self.all_turn(2_000)?;
        }
        Ok(())
    }

    /// Every node does what is due after this time.
    pub(super) fn all_turn(&mut self, time_ms: u64) -> Result<(), Violation> {
        self.now += time_ms;
        for number in 0..MACHINES {
            self.turn(number)?;
        }
        Ok(())
    }
}
