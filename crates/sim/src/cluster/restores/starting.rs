//! Nodes that start, crash and are rebuilt, and what they have on their disks: a memory, which is up to two seconds behind, and a
//! local log.

use super::grants::Copy;
use super::{Life, REMEMBER_MS, Restores, WRITER_TTL_MS, impossible};
use crate::violation::Violation;
use tenure_cluster::values::{Writer, decode};
use tenure_cluster::{Claimant, LocalEnd, Lookout, NoStart, Start, Trust, mark};

impl Restores {
    /// What `boot` does, by the same decision.
    pub(super) fn start(&mut self, number: usize) -> Result<(), Violation> {
        let machine = &self.machines[number];
        if machine.life.is_some() || machine.cut_until > self.now || machine.paused_until > self.now {
            return Ok(());
        }
        self.tally.starts += 1;
        self.name_it(number);
        let (now, url) = (self.now, self.machines[number].url.clone());
        let name = self.machines[number].name.clone();
        let (meta, floor, store) = (self.meta(), self.floor(), self.progress());
        let writer: Writer = decode("writer", &self.value(&self.keys.writer())).map_err(impossible)?;
        let new_memory = match self.machines[number].disk {
            None => format!("memory-{}", self.random.next_u64()),
            Some(_) => String::new(),
        };
        let start = Start::of(self.machines[number].disk.as_ref(), &new_memory, &meta, &writer, store);
        let start = match start {
            Ok(start) => start,
            Err(why) => return self.does_not_start(&name, &why),
        };
        let empty = Copy { log: meta.fence_base, head: floor.end };
        let copy = self.machines[number].copy.filter(|_| start.outdates().is_none()).unwrap_or(empty);
        let local = LocalEnd { log_id: meta.log_id, frame: copy.head.frame, chain: copy.head.chain };
        let copy = match start.replaces(&meta, &floor, local) {
            Ok(None) => copy,
            Ok(Some(_)) => empty,
            Err(why) => return self.does_not_start(&name, &why),
        };
        let known = start.known();
        self.count += 1;
        let incarnation = format!("{number}-{}", self.count);
        let me = Claimant {
            node: name.clone(),
            incarnation: incarnation.clone(),
            url,
            writer_ttl_ms: WRITER_TTL_MS,
        };
        let place = self.random.below(1_000);
        self.machines[number].disk = Some(known.clone());
        self.machines[number].copy = Some(copy);
        self.machines[number].life = Some(Life {
            trust: Trust::new(name.clone(), known),
            lookout: Lookout::new(self.keys.clone(), me, place),
            term: None,
            is_open: false,
            incarnation,
            revision: 0,
            written_ms: now,
            listed_ms: now,
            log: meta.fence_base,
            not_before_tick: meta.not_before_tick,
            tick: 0,
            tick_at: now,
            granting: None,
        });
        self.line(format_args!("{name} starts on m{number} in generation {}", meta.generation));
        Ok(())
    }

    /// Somebody gives a node that starts another name, at times that of another node.
    fn name_it(&mut self, number: usize) {
        if self.random.chance(30) {
            self.count += 1;
            self.machines[number].name = format!("r{}", self.count);
        } else if self.has_doubles && self.random.chance(100) {
            let other = self.random.below(self.machines.len() as u64) as usize;
            self.machines[number].name = self.machines[other].name.clone();
        }
    }

    fn does_not_start(&mut self, name: &str, why: &NoStart) -> Result<(), Violation> {
        let marked = match why {
            NoStart::Forgot { known, what } => {
                mark(&self.shelf, &self.keys, name, known, what).map_err(impossible)?
            }
            NoStart::Marked { .. } => true,
            NoStart::AnotherLog { .. } => return Err(impossible("another log")),
        };
        self.line(format_args!("{name} does not start: {why:?}; marked {marked}"));
        Ok(())
    }

    /// What a node knows is on its disk within two seconds, whatever else it can do meanwhile.
    pub(super) fn write_down(&mut self, number: usize) {
        let (now, machine) = (self.now, &mut self.machines[number]);
        if let Some(life) = &mut machine.life
            && now >= life.written_ms + REMEMBER_MS
            && machine.paused_until <= now
        {
            life.written_ms = now;
            machine.disk = Some(life.trust.remembered().clone());
        }
    }

    pub(super) fn crash(&mut self, number: usize) {
        self.write_down(number);
        self.stop(number);
    }

    /// What was not written down is lost.
    pub(super) fn stop(&mut self, number: usize) {
        if let Some(life) = self.machines[number].life.take() {
            self.claims.extend(life.term.map(|term| term.writer().clone()));
            let name = self.machines[number].name.clone();
            self.line(format_args!("{name} crashes"));
        }
    }

    /// The machine comes back without what it had; sometimes with another name at the same address.
    pub(super) fn rebuild(&mut self, number: usize) -> Result<(), Violation> {
        self.crash(number);
        (self.machines[number].disk, self.machines[number].copy) = (None, None);
        if self.random.chance(500) {
            self.count += 1;
            self.machines[number].name = format!("r{}", self.count);
        }
        self.line(format_args!("m{number} is rebuilt"));
        self.start(number)
    }
}
