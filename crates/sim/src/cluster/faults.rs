//! What goes wrong with nodes and the store, when, and for how long. All of it stops when the healing phase begins.

use super::network::{Links, Question};
use super::node::{Part, Resigning};
use super::profile::Faults;
use super::world::{Happening, NODES, World};
use tenure_cluster::planted::{Planted, has};
use tenure_cluster::resignation_of_dead;
use tenure_cluster::values::Writer;

const HOUR_MS: u64 = 60 * 60 * 1000;

/// A kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    Crash,
    Pause,
    Cut,
    Split,
    Outage,
    /// Not a fault: an operator wants another writer.
    StepDown,
    WallJump,
}

const ALL: [Fault; 7] =
    [Fault::Crash, Fault::Pause, Fault::Cut, Fault::Split, Fault::Outage, Fault::StepDown, Fault::WallJump];

impl Fault {
    fn mean_ms(self, faults: &Faults) -> u64 {
        match self {
            Self::Crash => faults.crash,
            Self::Pause => faults.pause,
            Self::Cut => faults.cut,
            Self::Split => faults.split,
            Self::Outage => faults.outage,
            Self::StepDown => faults.step_down,
            Self::WallJump => faults.wall_jump,
        }
    }
}

impl World {
    pub(super) fn schedule_faults(&mut self) {
        ALL.into_iter().for_each(|fault| self.schedule(fault));
    }

    fn schedule(&mut self, fault: Fault) {
        let mean = fault.mean_ms(&self.profile.faults);
        if mean > 0 {
            let wait = self.random.within(mean / 4..=2 * mean);
            self.at(wait, Happening::Fault(fault));
        }
    }

    /// The writer more often than not: that is where it hurts.
    fn victim(&mut self) -> usize {
        let writer = self.writer().filter(|_| self.random.chance(600));
        writer.unwrap_or_else(|| self.random.below(NODES as u64) as usize)
    }

    /// The node with the newest claim that writes.
    pub(super) fn writer(&mut self) -> Option<usize> {
        let epoch = |node: usize| self.nodes[node].life.as_ref().and_then(|life| life.epoch());
        (0..NODES).filter(|node| epoch(*node).is_some()).max_by_key(|node| epoch(*node))
    }

    /// Something goes wrong.
    pub(super) fn strike(&mut self, fault: Fault) {
        if self.healing {
            return;
        }
        self.schedule(fault);
        let node = self.victim();
        let lasts = if self.random.chance(600) {
            self.random.within(100..=2 * self.profile.writer_ttl_ms)
        } else {
            self.random.within(100..=8_000)
        };
        match fault {
            Fault::Crash => self.crash(node),
            Fault::Pause => self.pause(node, lasts),
            Fault::Cut => {
                let (to, from) = *self.random.pick(&[(true, true), (true, false), (false, true)]);
                self.cut(node, lasts, to, from);
            }
            Fault::Split => {
                self.tell(node, format_args!("(fault) is cut off from others for {lasts} ms"));
                self.nodes[node].links.others = self.now + lasts;
            }
            Fault::Outage => {
                self.line(format_args!("fault: the store does not answer for {lasts} ms"));
                self.outage_until = self.now + lasts;
            }
            Fault::StepDown => self.step_down(),
            Fault::WallJump => {
                let by = self.random.within(1..=2 * HOUR_MS) as i64 - HOUR_MS as i64;
                self.nodes[node].clock.wall_ms += by;
            }
        }
    }

    pub(super) fn pause(&mut self, node: usize, lasts: u64) {
        self.tell(node, format_args!("(fault) stands still for {lasts} ms"));
        self.nodes[node].paused_until = self.now + lasts;
        if has(Planted::GuardianResignsForPaused)
            && let Some(claim) = self.nodes[node].life.as_ref().and_then(|life| life.claim()).cloned()
        {
            self.resign_for(node, &claim);
        }
        // It often stands still because its whole host does, and comes back to a store it cannot reach.
        if self.random.chance(400) {
            let cut = lasts + self.random.within(500..=4_000);
            self.cut(node, cut, true, self.random.clone().chance(500));
        }
    }

    pub(super) fn cut(&mut self, node: usize, lasts: u64, to: bool, from: bool) {
        let name = self.nodes[node].name;
        self.line(format_args!("fault: {name} and the store for {lasts} ms: to {to}, from {from}"));
        let (until, links) = (self.now + lasts, &mut self.nodes[node].links);
        if to {
            links.to_store = until;
        }
        if from {
            links.from_store = until;
        }
    }

    pub(super) fn crash(&mut self, node: usize) {
        let Some(life) = self.nodes[node].life.take() else { return };
        self.tell(node, format_args!("(fault) crashes"));
        self.connections_die(&life.connections);
        // Often the machine is lost with its guardian.
        if let Some(claim) = life.claim()
            && self.random.chance(500)
        {
            self.resign_for(node, claim);
        }
        self.nodes[node].paused_until = 0;
        if self.random.chance(self.profile.faults.wiped) {
            if self.random.chance(500) {
                self.nodes[node].mirror = super::mirror::Mirror::default();
            } else {
                let torn = self.random.within(1..=3) as usize;
                self.nodes[node].mirror.tear(torn);
            }
        }
        if self.random.chance(300) {
            let boot_ms = self.random.within(1_000..=60_000);
            self.nodes[node].clock.reboot(self.now, boot_ms);
        }
        let wait = if self.random.chance(400) { 50 } else { self.random.within(50..=6_000) };
        self.at(wait, Happening::Start(node));
    }

    /// The guardian of a node resigns for it, whatever of the node is still under way to the store. A guardian that hears
    /// no answer sends the step again, and may itself stand still for long.
    fn resign_for(&mut self, node: usize, claim: &Writer) {
        self.tally.resigned_for += 1;
        self.tell(node, format_args!("is resigned for by its guardian"));
        for _ in 0..self.random.within(1..=3) {
            let txn = resignation_of_dead(&self.keys, claim, self.now);
            self.next_number += 1;
            self.ask_store(node, self.next_number, Question::Step(txn));
        }
    }

    /// The writer is asked to give the log up.
    pub(super) fn step_down(&mut self) {
        let Some(node) = self.writer() else { return };
        if let Some(life) = &mut self.nodes[node].life
            && let Part::Writing(writing) = &mut life.part
            && writing.resigning == Resigning::No
        {
            writing.resigning = Resigning::Wanted;
            self.trace.line(self.now, format_args!("{} is asked to step down", self.nodes[node].name));
        }
    }

    /// Nothing goes wrong any more.
    pub(super) fn relieve(&mut self) {
        self.healing = true;
        self.outage_until = 0;
        for node in 0..NODES {
            self.nodes[node].links = Links::default();
            self.nodes[node].paused_until = 0;
            if self.nodes[node].life.is_none() {
                self.at(0, Happening::Start(node));
            }
        }
    }
}
