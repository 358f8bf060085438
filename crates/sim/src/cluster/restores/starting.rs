//! Nodes that start, crash and are rebuilt, and what they have on their disks: a memory, which is up to two seconds behind, and a
//! local log.

use super::grants::Copy;
use super::{Life, REMEMBER_MS, Restores, WRITER_TTL_MS, impossible};
use crate::violation::Violation;
use tenure_cluster::{Claimant, Lookout, Misfit, Progress, Remembered, Trust, mark};

impl Restores {
    /// What `boot` does: it compares, and begins a local log of the generation that is there.
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
        let before = self.machines[number].disk.clone();
        let is_newer = before.as_ref().is_some_and(|known| known.generation < meta.generation);
        let mut known = match &before {
            None => Remembered {
                log_id: meta.log_id,
                generation: meta.generation,
                memory: format!("memory-{}", self.random.next_u64()),
                ..Remembered::default()
            },
            Some(known) => match known.carried_over(&meta, &store) {
                Ok(known) => known,
                Err(Misfit::Forgot { what }) => return self.refuses_to_start(&name, known, &what),
                Err(Misfit::AnotherLog) => return Err(impossible("another log")),
            },
        };
        if store.standing == 2 {
            self.line(format_args!("{name} does not start: the store is marked"));
            return Ok(());
        }
        let begun = Copy { log: meta.fence_base, head: floor.end };
        let copy = self.machines[number].copy.filter(|_| !is_newer).unwrap_or(begun);
        let of_copy = Progress { frame: copy.head.frame, chain: copy.head.chain, ..Progress::default() };
        let of_store = Progress { frame: store.frame, chain: store.chain, ..Progress::default() };
        if let Some(what) = of_store.lacks(&of_copy) {
            known.progress.raise(&of_copy);
            return self.refuses_to_start(&name, &known, &what);
        }
        known.progress.raise(&store);
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
        self.machines[number].copy = Some(if copy.head.frame + 1 < floor.frame { begun } else { copy });
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

    fn refuses_to_start(&mut self, name: &str, known: &Remembered, what: &str) -> Result<(), Violation> {
        let marked = mark(&self.shelf, &self.keys, name, known, what).map_err(impossible)?;
        self.line(format_args!("{name} does not start: {what}; marked {marked}"));
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
