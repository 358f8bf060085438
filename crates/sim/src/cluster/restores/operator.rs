//! What an operator does: adopts a store that was put back, with the memories of some nodes, and removes nodes that are
//! lost. `tenure_cluster::adopt` and `Trust::forget` decide, as they do for the commands.

use super::grants::Copy;
use super::{Restores, WRITER_TTL_MS, impossible};
use crate::violation::Violation;
use std::sync::Mutex;
use std::time::Duration;
use tenure_cluster::adopt::{AtHand, Continued, Given, Survey};
use tenure_cluster::{Removed, forget, moving};
use tenure_kernel::codec::FORMAT;
use tenure_log::Genesis;

/// Leases are never longer than that here: an operator who knows it says so.
pub(super) const TTL_MS_MAX: u64 = 120_000;

impl Restores {
    /// Whether the store lacks what somebody was told, or is marked.
    pub(super) fn is_forgetful(&self) -> bool {
        let store = self.progress();
        let meta = self.meta();
        store.standing == 2 || self.is_behind(meta.fence_base, store.frame)
    }

    /// Whether a log lacks what somebody was told. A later one was adopted; nobody was told anything of it yet.
    pub(super) fn is_behind(&self, log: u64, frame: u64) -> bool {
        (log, frame) < (self.given_log, self.given)
    }

    /// Adopts, and starts what can be started, or leaves that for later.
    pub(super) fn adopt_and_start(&mut self) -> Result<(), Violation> {
        let with_all = self.random.chance(500);
        self.adopt(with_all)?;
        for number in 0..self.machines.len() {
            if self.random.chance(500) {
                self.start(number)?;
            }
        }
        // They lead at once, or when something else has happened.
        for _ in 0..self.random.within(0..=20) {
            self.all_turn(500)?;
        }
        Ok(())
    }

    /// Continues with the memories that can be reached, all of them or any.
    pub(super) fn adopt(&mut self, with_all: bool) -> Result<(), Violation> {
        self.stop_nodes();
        let mut waited = Duration::ZERO;
        let Ok(stands) = moving::require_idle(&self.shelf, &self.keys, &mut |time| waited += time) else {
            return Ok(());
        };
        self.now += waited.as_millis() as u64;
        let remains = moving::remains(&self.shelf, &self.keys, &stands).map_err(impossible)?;
        let mut at_hand = Vec::new();
        let mut copies: Vec<Copy> = Vec::new();
        let mut numbers = Vec::new();
        // An operator who names no directory at all leaves nobody who knows of the adoption.
        let one = self.random.below(self.machines.len() as u64) as usize;
        for number in 0..self.machines.len() {
            let is_reached = with_all || number == one || self.random.chance(500);
            let machine = &self.machines[number];
            let (Some(remembered), Some(copy), None) = (&machine.disk, machine.copy, &machine.life) else {
                continue;
            };
            if is_reached {
                let identity = tenure_log::Identity { fence_base: copy.log, ..self.identity };
                let (frame, end) = (copy.head.frame, copy.head.end());
                let (place, remembered) = (machine.name.clone(), remembered.clone());
                at_hand.push(AtHand { place, remembered, identity, frame, end });
                copies.push(copy);
                numbers.push(number);
            }
        }
        let survey = Survey::of(&remains, &at_hand).map_err(|error| impossible(format!("{error:?}")))?;
        let store = Copy { log: remains.meta.fence_base, head: remains.head };
        let chosen = survey.continues().map_or(store, |which| copies[which]);
        let continued = Continued {
            end: chosen.head.end(),
            frame: chosen.head.frame,
            tick: chosen.head.tick,
            longest_ttl_ms: self.grants.longest_ttl_ms(chosen.log, &chosen.head),
            has_store_end: chosen.log != store.log || self.grants.has(chosen.log, &chosen.head, &store.head),
        };
        let unix_seconds = 1_700_000_000 + self.now / 1_000;
        let genesis = Genesis { random: self.random.bytes(), unix_seconds, shard: 0 };
        let longest_ttl_ms = self.random.chance(500).then_some(TTL_MS_MAX);
        let given = Given { genesis, longest_ttl_ms, wall_ms: self.now };
        let plan = survey.plan(&remains, &continued, &given);
        let highest = copies.iter().chain([&store]).map(|copy| copy.head.lsn).max().unwrap_or(0);
        if plan.meta.identity_since <= highest {
            let text = format!("it continues at {}, and {highest} was given", plan.meta.identity_since);
            return Err(Violation::new("positions_rise_over_all_at_hand", text));
        }
        if let Err(error) = moving::adopt(&self.shelf, &self.keys, &stands, &plan, b"a state", FORMAT) {
            return Err(impossible(error));
        }
        // It rests on this: a backup from before an adoption that is put back lists a node whose memory was at hand.
        let lists = |one: &AtHand| {
            let mut nodes = remains.list.iter().filter_map(|listed| listed.node.as_ref());
            nodes.any(|node| !node.is_forgotten && node.memory == one.remembered.memory)
        };
        if !at_hand.iter().any(lists) {
            self.backups.clear();
        }
        for number in numbers {
            let disk = self.machines[number].disk.take();
            self.machines[number].disk = disk.map(|known| plan.remembered(&known));
        }
        self.grants.begins(plan.meta.fence_base, &plan.head);
        self.tally.adopted += 1;
        // What is granted soon is granted too soon, if anything is.
        self.writes = 400;
        self.line(format_args!(
            "ADOPTED as generation {} with {:?}, without {:?}; {:?} continues, grants wait {} ms",
            plan.meta.generation,
            survey.names(),
            survey.missing(),
            survey.continues(),
            plan.wait_ms
        ));
        Ok(())
    }

    /// Every node is stopped, but for some that cannot be reached and answer nobody any more.
    fn stop_nodes(&mut self) {
        for number in 0..self.machines.len() {
            let answers = self.machines[number].life.as_ref().is_some_and(|life| {
                life.term.as_ref().is_some_and(|term| term.authority_until_ms() > self.now)
            });
            if answers || !self.is_out(number) || self.random.chance(700) {
                self.stop(number);
            }
        }
        self.now += WRITER_TTL_MS;
    }

    /// Removes one node that is lost, at the first node that runs. A store that lacks something is adopted first.
    pub(super) fn remove_lost(&mut self) {
        let by = (0..self.machines.len()).find(|number| !self.is_out(*number));
        if let Some(by) = by.filter(|_| !self.is_forgetful())
            && let Some(name) = self.lost_at(by, false).first()
        {
            self.remove_at(by, name);
        }
    }

    /// The same, at every node, until no lost one is waited for. One that has the name of a lost one lists itself again.
    pub(super) fn remove_all_lost(&mut self) {
        for by in 0..self.machines.len() {
            for name in self.lost_at(by, true) {
                self.remove_at(by, &name);
            }
        }
    }

    /// The nodes that are lost, as far as a node or the list knows of them.
    fn lost_at(&self, by: usize, even_living: bool) -> Vec<String> {
        let list = self.list();
        let listed = || list.iter().filter_map(|listed| Some((&listed.name, listed.node.as_ref()?)));
        let Some(life) = &self.machines[by].life else { return Vec::new() };
        // What `tenure cluster status` names.
        let waited_for = life.trust.missing().into_iter().map(|(memory, peer)| (memory, peer.node));
        let known = listed().filter(|(_, node)| !node.is_forgotten && !even_living);
        let known = known.map(|(name, node)| (node.memory.clone(), name.clone()));
        let lives = |name: &str| {
            let mut of_name = listed().filter(|(listed, node)| *listed == name && !node.is_forgotten);
            of_name.any(|(_, node)| self.is_kept(&node.memory))
        };
        let is_lost = |memory: &str, name: &str| !self.is_kept(memory) && (even_living || !lives(name));
        let unreadable = list.iter().filter(|listed| listed.node.is_none()).map(|listed| listed.name.clone());
        let lost = waited_for.chain(known).filter(|(memory, name)| is_lost(memory, name));
        let mut names: Vec<String> = unreadable.chain(lost.map(|(_, name)| name)).collect();
        names.dedup();
        names
    }

    fn remove_at(&mut self, by: usize, name: &str) {
        let Some(life) = &self.machines[by].life else { return };
        let trust = Mutex::new(life.trust.clone());
        let Ok(Removed::Done) = forget(&self.shelf, &self.keys, name, &trust) else { return };
        self.tally.removed += 1;
        self.line(format_args!("{name} is removed"));
    }

    /// Whether a memory is on a disk, or one that came in its place.
    fn is_kept(&self, memory: &str) -> bool {
        let mut disks = self.machines.iter().filter_map(|machine| machine.disk.as_ref());
        disks.any(|known| known.is_of(memory))
    }
}
