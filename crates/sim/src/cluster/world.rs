//! The event loop over simulated time, for several nodes: one queue, one stream of chance. A run is a phase with faults and
//! a healing phase in which everything must come free again.

use super::calls::Call;
use super::checks::Checks;
use super::clock::{Clock, DRIFT_PPM_MAX};
use super::faults::Fault;
use super::holders::Holder;
use super::network::{AskId, CallId, Packet, Question, Reply, Watch};
use super::node::Node;
use super::profile::Profile;
use super::store::SimStore;
use crate::random::Random;
use crate::trace::Trace;
use crate::violation::Violation;
use crate::world::{Options, Tally};
use std::collections::{BTreeMap, BTreeSet};
use tenure_cluster::Keys;
use tenure_cluster::store::{Changed, Op, Txn};
use tenure_cluster::values::{Beat, Floor, Head, Standing, Writer, encode};
use tenure_engine::Answer;
use tenure_kernel::{GateReport, LeaseId, SessionId};
use tenure_log::{Genesis, Identity};

/// How many nodes there are.
pub(super) const NODES: usize = 3;

/// One thing that happens at one instant.
#[derive(Clone, Debug)]
pub(super) enum Happening {
    /// A holder does something.
    Act(usize),
    /// An answer reaches a holder.
    Heard { call: CallId, via: Option<SessionId>, sent: u64, answer: Box<Answer> },
    /// A holder's connection is closed at the other end. `is_told`: with all that it kept.
    HungUp { holder: usize, session: SessionId, is_told: bool },
    /// A holder hears by its connection that a lease is lost.
    LossTold { holder: usize, session: SessionId, lease: LeaseId },
    /// A holder stops waiting for one try of a call.
    GiveUp { call: CallId, tries: u32 },
    /// A question reaches the store.
    ToStore { node: usize, incarnation: u64, id: AskId, question: Question },
    /// An answer of the store reaches a node.
    FromStore { node: usize, incarnation: u64, id: AskId, reply: Reply },
    /// A node stops waiting for one.
    Unanswered { node: usize, incarnation: u64, id: AskId },
    /// A change reaches one who watches.
    Watched { node: usize, incarnation: u64, watch: u64, changed: Changed },
    /// Something reaches a node.
    ToNode { node: usize, packet: Packet },
    /// A node looks at what it passed on.
    PassDue { node: usize, incarnation: u64, pass: u64, attempt: u64 },
    /// A node's time has come.
    Wake { node: usize, incarnation: u64, token: u64 },
    /// A gate is done.
    Gate { node: usize, incarnation: u64, lease: LeaseId, report: GateReport },
    /// A node starts.
    Start(usize),
    /// Something goes wrong.
    Fault(Fault),
}

pub(super) struct World {
    pub(super) random: Random,
    pub(super) profile: Profile,
    pub(super) now: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    pub(super) sequence: u64,
    pub(super) trace: Trace,
    pub(super) keys: Keys,
    pub(super) identity: Identity,
    pub(super) store: SimStore,
    pub(super) outage_until: u64,
    pub(super) watches: Vec<Watch>,
    pub(super) nodes: Vec<Node>,
    pub(super) holders: Vec<Holder>,
    pub(super) calls: BTreeMap<CallId, Call>,
    /// Connections that their holders have closed.
    pub(super) left: BTreeSet<SessionId>,
    pub(super) next_number: u64,
    pub(super) checks: Checks,
    pub(super) tally: Tally,
    pub(super) healing: bool,
    /// What the last look is still owed.
    pub(super) probes_left: u64,
}

impl World {
    pub(super) fn new(mut random: Random, profile: Profile, options: Options) -> Self {
        let identity = Genesis { random: random.bytes(), unix_seconds: 1_700_000_000, shard: 0 }.identity();
        let keys = Keys::under("sim");
        let mut nodes = Vec::new();
        for name in ["a", "b", "c"] {
            let ppm = random.within(0..=2 * DRIFT_PPM_MAX as u64) as i64 - DRIFT_PPM_MAX;
            let clock = Clock::new(ppm, random.within(1_000..=10_000_000));
            nodes.push(Node::new(name, clock));
        }
        let connects = profile.work.connections;
        let holders = (0..profile.holders).map(|number| Holder::new(number, connects, &mut random)).collect();
        let mut world = Self {
            checks: Checks::new(&identity, &profile),
            random,
            profile,
            now: 0,
            queue: BTreeMap::new(),
            sequence: 0,
            trace: Trace::new(options.trace),
            keys,
            identity,
            store: SimStore::default(),
            outage_until: 0,
            watches: Vec::new(),
            nodes,
            holders,
            calls: BTreeMap::new(),
            left: BTreeSet::new(),
            next_number: 0,
            tally: Tally::default(),
            healing: false,
            probes_left: 0,
        };
        let _ = world.store.step(&first_keys(&world.keys, world.profile.writer_ttl_ms), 0);
        for node in 0..NODES {
            let wait = world.random.within(0..=50);
            world.at(wait, Happening::Start(node));
        }
        for holder in 0..world.holders.len() {
            world.at(100 + holder as u64, Happening::Act(holder));
        }
        world
    }

    /// Lets everything up to an instant happen.
    pub(super) fn run_until(&mut self, until: u64) -> Result<(), Violation> {
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > until {
                break;
            }
            let ((time, _), happening) = entry.remove_entry();
            debug_assert!(time >= self.now);
            self.now = time;
            self.happens(happening)?;
        }
        self.now = self.now.max(until);
        Ok(())
    }

    fn happens(&mut self, happening: Happening) -> Result<(), Violation> {
        // A node that stands still hears nothing and does nothing; it all comes when it goes on.
        if let Some(node) = node_of(&happening) {
            let paused = self.nodes[node].paused_until.saturating_sub(self.now);
            if paused > 0 {
                let wait = paused + self.random.below(3);
                self.at(wait, happening);
                return Ok(());
            }
        }
        match happening {
            Happening::Act(holder) => self.act(holder),
            Happening::Heard { call, via, sent, answer } => self.heard(call, via, sent, &answer)?,
            Happening::HungUp { holder, session, is_told } => self.connection_over(holder, session, is_told),
            Happening::LossTold { holder, session, lease } => self.loss_told(holder, session, lease)?,
            Happening::GiveUp { call, tries } => self.give_up(call, tries),
            Happening::ToStore { node, incarnation, id, question } => {
                self.store_answers(node, incarnation, id, &question)?;
            }
            Happening::FromStore { node, incarnation, id, reply } => {
                self.with(node, incarnation, |world, life| world.answered(node, life, id, Some(reply)))?;
            }
            Happening::Unanswered { node, incarnation, id } => {
                self.with(node, incarnation, |world, life| world.answered(node, life, id, None))?;
            }
            Happening::Watched { node, incarnation, watch, changed } => {
                self.with(node, incarnation, |world, life| world.watched(node, life, watch, changed))?;
            }
            Happening::ToNode { node, packet } => {
                let incarnation = self.nodes[node].incarnation;
                self.with(node, incarnation, |world, life| {
                    world.arrives(node, life, packet);
                    Ok(())
                })?;
            }
            Happening::PassDue { node, incarnation, pass, attempt } => {
                self.with(node, incarnation, |world, life| {
                    world.pass_due(node, life, pass, attempt);
                    Ok(())
                })?;
            }
            Happening::Wake { node, incarnation, token } => {
                self.with(node, incarnation, |_, life| {
                    if token == life.wake_token {
                        life.wake_at = None;
                    }
                    Ok(())
                })?;
            }
            Happening::Gate { node, incarnation, lease, report } => {
                self.with(node, incarnation, |world, life| {
                    world.gate_done(life, lease, report);
                    Ok(())
                })?;
            }
            Happening::Start(node) => self.start(node)?,
            Happening::Fault(fault) => self.strike(fault),
        }
        Ok(())
    }

    /// Plans something.
    pub(super) fn at(&mut self, in_ms: u64, happening: Happening) {
        self.queue.insert((self.now + in_ms, self.sequence), happening);
        self.sequence += 1;
    }

    pub(super) fn line(&mut self, line: core::fmt::Arguments<'_>) {
        self.trace.line(self.now, line);
    }

    /// A line about a node.
    pub(super) fn tell(&mut self, node: usize, line: core::fmt::Arguments<'_>) {
        let name = self.nodes[node].name;
        self.trace.line(self.now, format_args!("{name} {line}"));
    }
}

/// The first values of a log that has no leader yet.
pub(super) fn first_keys(keys: &Keys, writer_ttl_ms: u64) -> Txn {
    let writer = Writer {
        epoch: 0,
        claim: String::new(),
        node: String::new(),
        incarnation: String::new(),
        url: String::new(),
        writer_ttl_ms,
        tick: 0,
        wall_ms: 0,
        standing: Standing::Resigned,
    };
    let put = |key, value| Op::Put { key, value };
    let then = vec![
        put(keys.writer(), encode(&writer)),
        put(keys.head(), encode(&Head::default())),
        put(keys.beat(), encode(&Beat::default())),
        put(keys.floor(), encode(&Floor { frame: 1, ..Floor::default() })),
    ];
    Txn { then, ..Txn::default() }
}

/// Whose thread it happens in.
fn node_of(happening: &Happening) -> Option<usize> {
    match happening {
        Happening::FromStore { node, .. }
        | Happening::Unanswered { node, .. }
        | Happening::Watched { node, .. }
        | Happening::ToNode { node, .. }
        | Happening::PassDue { node, .. }
        | Happening::Wake { node, .. }
        | Happening::Gate { node, .. }
        | Happening::Start(node) => Some(*node),
        Happening::Act(_)
        | Happening::Heard { .. }
        | Happening::HungUp { .. }
        | Happening::LossTold { .. }
        | Happening::GiveUp { .. }
        | Happening::ToStore { .. }
        | Happening::Fault(_) => None,
    }
}
