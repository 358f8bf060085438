//! Messages: between nodes and the store, among nodes, and between holders and nodes. Delayed, lost, late, doubled, and cut
//! off in one direction or both.

use super::profile::Faults;
use super::world::{Happening, World};
use tenure_cluster::store::{Changed, Ranged, Stepped, StoreError, Txn};
use tenure_engine::{Answer, Request};
use tenure_kernel::SessionId;

/// Number of a question to the store.
pub(super) type AskId = u64;
/// Number of a holder's call.
pub(super) type CallId = u64;

/// What a node asks of the store.
#[derive(Clone, Debug)]
pub(super) enum Question {
    Step(Txn),
    Range { from: String, to: String, limit: usize },
}

/// What the store says.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    Stepped(Stepped),
    Ranged(Ranged),
}

/// What a node gets from holders and other nodes.
#[derive(Clone, Debug)]
pub(super) enum Packet {
    /// A holder asks, perhaps by a connection.
    Ask { call: CallId, sent: u64, via: Option<SessionId>, request: Request, is_stale_good: bool },
    /// A holder closed its connection.
    Left { session: SessionId },
    /// Another node passes on what a holder asked.
    Passed { from: Station, pass: u64, call: CallId, sent: u64, request: Request },
    /// The answer to that.
    PassedBack { pass: u64, attempt: u64, answer: Box<Answer> },
}

/// One run of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Station {
    pub(super) node: usize,
    pub(super) incarnation: u64,
    /// Which of its tries it is about.
    pub(super) attempt: u64,
}

/// Until when a node is cut off.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Links {
    pub(super) to_store: u64,
    pub(super) from_store: u64,
    pub(super) others: u64,
}

/// Who is told of changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    pub(super) node: usize,
    pub(super) incarnation: u64,
    pub(super) id: u64,
    last: u64,
}

impl World {
    pub(super) fn faults(&self) -> Faults {
        if self.healing { Faults::none() } else { self.profile.faults }
    }

    /// A question goes to the store; perhaps it never arrives, or seconds later.
    pub(super) fn ask_store(&mut self, node: usize, id: AskId, question: Question) {
        let faults = self.faults();
        let incarnation = self.nodes[node].incarnation;
        let is_cut = self.nodes[node].links.to_store > self.now || self.random.chance(faults.store_lost);
        let mut delay = self.random.within(0..=faults.store_ms_max);
        if self.random.chance(faults.late) {
            delay += self.random.within(500..=8_000);
        }
        if !is_cut {
            self.at(delay, Happening::ToStore { node, incarnation, id, question });
        }
    }

    /// A question arrives.
    pub(super) fn store_answers(
        &mut self,
        node: usize,
        incarnation: u64,
        id: AskId,
        question: &Question,
    ) -> Result<(), crate::violation::Violation> {
        let faults = self.faults();
        if self.outage_until > self.now {
            // Nobody answers; what was asked is lost, or done once there is a majority again.
            if self.random.chance(300) {
                let wait = self.outage_until - self.now;
                self.at(wait, Happening::ToStore { node, incarnation, id, question: question.clone() });
            }
            return Ok(());
        }
        let reply = match question {
            Question::Step(txn) => {
                let is_old = self.random.chance(faults.stale);
                let behind = if is_old { self.random.within(1..=6) } else { 0 };
                let (stepped, changed) = self.store.step(txn, behind);
                let name = self.nodes[node].name;
                for change in &changed {
                    self.trace.detail(self.now, format_args!("{name} puts {}", Put(change)));
                }
                if !stepped.held && !txn.then.is_empty() {
                    self.trace.detail(self.now, format_args!("{name} is too late to put anything"));
                }
                self.changed(&changed)?;
                Reply::Stepped(stepped)
            }
            Question::Range { from, to, limit } => Reply::Ranged(self.store.range(from, to, *limit)),
        };
        let is_cut = self.nodes[node].links.from_store > self.now || self.random.chance(faults.store_lost);
        let mut delay = self.random.within(0..=faults.store_ms_max);
        if self.random.chance(faults.slow) {
            delay += self.random.within(50..=1_200);
        }
        if !is_cut {
            self.at(delay, Happening::FromStore { node, incarnation, id, reply });
        }
        Ok(())
    }

    /// Keys changed: each watcher is notified once, twice or not at all.
    fn changed(&mut self, changed: &[Changed]) -> Result<(), crate::violation::Violation> {
        self.judge_store(changed)?;
        for index in 0..self.watches.len() {
            for change in changed {
                self.tell_watch(index, change);
            }
        }
        Ok(())
    }

    fn tell_watch(&mut self, index: usize, change: &Changed) {
        let Watch { node, incarnation, id, last } = self.watches[index];
        let faults = self.faults();
        if change.key.contains("/snap/")
            || self.nodes[node].links.from_store > self.now
            || self.random.chance(faults.watch_lost)
        {
            return;
        }
        let at = last.max(self.now + self.random.within(0..=faults.store_ms_max));
        self.watches[index].last = at;
        let told = Happening::Watched { node, incarnation, watch: id, changed: change.clone() };
        if self.random.chance(faults.watch_doubled) {
            let later = at - self.now + self.random.within(0..=3_000);
            self.at(later, told.clone());
        }
        self.at(at - self.now, told);
    }

    /// Begins to tell a node of changes from a revision on.
    pub(super) fn watch(&mut self, node: usize, since: u64) -> u64 {
        self.watches.retain(|watch| watch.node != node);
        self.next_number += 1;
        let id = self.next_number;
        let incarnation = self.nodes[node].incarnation;
        self.watches.push(Watch { node, incarnation, id, last: 0 });
        let index = self.watches.len() - 1;
        for change in self.store.changes_since(since) {
            self.tell_watch(index, &change);
        }
        id
    }

    /// Something goes to a node from a holder (`None`) or another node.
    pub(super) fn send_to_node(&mut self, from: Option<usize>, node: usize, packet: Packet) {
        let faults = self.faults();
        let is_cut = self.nodes[node].links.others > self.now
            || from.is_some_and(|from| self.nodes[from].links.others > self.now);
        let mut delay = self.random.within(0..=faults.delay_ms_max);
        if is_cut || self.random.chance(faults.lost) {
            // What one node sends another may wait in between, and arrive when nobody waits for it any more.
            if from.is_none() || self.random.chance(500) {
                return;
            }
            delay += self.random.within(300..=4_000);
        }
        self.at(delay, Happening::ToNode { node, packet });
    }

    /// A node answers a holder.
    pub(super) fn send_to_holder(
        &mut self,
        node: usize,
        call: CallId,
        via: Option<SessionId>,
        sent: u64,
        answer: Answer,
    ) {
        let faults = self.faults();
        if self.nodes[node].links.others > self.now || self.random.chance(faults.lost) {
            return;
        }
        let delay = self.random.within(0..=faults.delay_ms_max);
        self.at(delay, Happening::Heard { call, via, sent, answer: Box::new(answer) });
    }
}

/// A change in one line, where it can be read.
struct Put<'a>(&'a Changed);

impl core::fmt::Display for Put<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let value = self.0.value.as_deref().map(core::str::from_utf8);
        match value {
            None => write!(f, "{}: gone", self.0.key),
            Some(Ok(value)) => write!(f, "{} {value}", self.0.key),
            Some(Err(_)) => write!(f, "{}", self.0.key),
        }
    }
}

/// What a step came to, if anything came.
pub(super) fn stepped(reply: Option<Reply>) -> Result<Stepped, StoreError> {
    match reply {
        Some(Reply::Stepped(stepped)) => Ok(stepped),
        Some(Reply::Ranged(_)) | None => Err(StoreError::Unanswered { why: "no answer in time".to_owned() }),
    }
}
