//! Ten changes of the writer in a row, with nothing else going wrong.

use super::world::{Happening, World};
use crate::violation::Violation;

/// Between two changes.
const APART_MS: u64 = 30_000;
/// How long a holder that renews is promised its lease.
pub(super) const TTL_MS: u32 = 5_000;
pub(super) const GRACE_MS: u32 = 2_000;
/// Turns, messages and the store's own time.
const SLACK_MS: u64 = 1_500;

impl World {
    pub(super) fn ten_changes(&mut self) -> Result<(), Violation> {
        for (number, holder) in self.holders.iter_mut().enumerate() {
            holder.is_steady = true;
            holder.by_connection = number % 2 == 1;
            holder.is_mute = false;
        }
        self.run_until(5_000)?;
        for number in 0..self.holders.len() {
            self.hold_steadily(number, TTL_MS, GRACE_MS);
        }
        self.run_until(8_000)?;
        for change in 0..10 {
            let before = self.checks.epoch();
            // One dies just before the change: what it held ends late, but not later than that.
            let dies = (change % 3 == 0).then(|| self.next_living()).flatten();
            let died_at = self.now;
            if let Some(dies) = dies {
                self.die(dies);
            }
            self.lose_writer(change);
            self.run_until(died_at + self.outage_ms())?;
            if self.checks.epoch() == before || self.writer().is_none() {
                let text = format!(
                    "change {change}: nobody writes {} ms after the writer was lost",
                    self.outage_ms()
                );
                return Err(Violation::new("writer_in_bound", text));
            }
            let bound = u64::from(TTL_MS) + u64::from(GRACE_MS) + self.outage_ms() + SLACK_MS;
            self.run_until(died_at + bound)?;
            if let Some(dies) = dies {
                let name = self.holders[dies].name.clone();
                if self.checks.story().covered.contains_key(&name) {
                    let text = format!("change {change}: what {name} held is not free after {bound} ms");
                    return Err(Violation::new("deaths_end_in_bound", text));
                }
            }
            self.run_until(died_at + APART_MS)?;
            self.all_living_hold(change)?;
        }
        self.one_writes_and_all_follow()
    }

    fn next_living(&self) -> Option<usize> {
        self.holders.iter().position(|holder| !holder.is_dead)
    }

    /// From the loss of a writer until another serves, at most. (cluster.md C2)
    fn outage_ms(&self) -> u64 {
        self.profile.writer_ttl_ms * 101 / 100 + 900
    }

    fn lose_writer(&mut self, change: u64) {
        let Some(node) = self.writer() else { return };
        match change % 4 {
            0 => {
                let life = self.nodes[node].life.take();
                self.tell(node, format_args!("is killed"));
                life.into_iter().for_each(|life| self.connections_die(&life.connections));
                self.at(3_000, Happening::Start(node));
            }
            1 => self.step_down(),
            2 => {
                let lasts = 2 * self.profile.writer_ttl_ms + 2_000;
                self.tell(node, format_args!("stands still"));
                self.nodes[node].paused_until = self.now + lasts;
            }
            _ => self.cut(node, 2 * self.profile.writer_ttl_ms + 2_000, true, true),
        }
    }

    fn all_living_hold(&self, change: u64) -> Result<(), Violation> {
        for holder in self.holders.iter().filter(|holder| !holder.is_dead) {
            if !holder.hands.iter().any(|hand| hand.acts(self.now)) {
                let text = format!("change {change}: {} holds nothing any more", holder.name);
                return Err(Violation::new("living_keep_their_leases", text));
            }
        }
        Ok(())
    }
}
