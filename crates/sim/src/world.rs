//! The event loop over simulated time. One queue ordered by (time, sequence), one stream of chance: the same
//! seed tells the same story. A run is a phase with faults, a healing phase without, and a last look.

use crate::clients::{Client, Rate};
use crate::daemon::{Backup, Daemon};
use crate::disk::SimDisk;
use crate::faults::Clocks;
use crate::happening::Happening;
use crate::invariants::{Invariants, Scene};
use crate::ledger::Ledger;
use crate::memory::Memory;
use crate::network::{Call, CallId};
use crate::profile::{Faults, Profile};
use crate::random::Random;
use crate::story::Story;
use crate::trace::Trace;
use crate::violation::Violation;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How a run is made.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Happenings before the healing phase.
    pub steps: u64,
    /// Keep the whole story.
    pub trace: bool,
    /// Several nodes over a remote log, instead of one machine.
    pub cluster: bool,
    /// Stores that are put back to a backup, instead of what nodes do with leases.
    pub restores: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { steps: 4_000, trace: false, cluster: false, restores: false }
    }
}

/// How a run went.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// What it found.
    pub violation: Option<Violation>,
    /// It ended early, legally: the daemon refused damaged bytes.
    pub refused: bool,
    /// Simulated milliseconds.
    pub now_ms: u64,
    /// Happenings.
    pub steps: u64,
    /// The story.
    pub trace: Trace,
    /// What was exercised.
    pub tally: Tally,
}

/// What a run exercised.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Events logged.
    pub events: u64,
    /// Answers that left the engine.
    pub answers: u64,
    /// Starts of the daemon.
    pub starts: u64,
    /// Snapshots stored.
    pub snapshots: u64,
    /// Segments let go.
    pub trimmed: u64,
    /// Several short lives in a row.
    pub bursts: u64,
    /// Requests that a full lane refused.
    pub overloads: u64,
    /// Resumes of leases whose connection is open.
    pub resumes_of_living: u64,
    /// Waits for any of a pool.
    pub waits_for_pools: u64,
    /// Waits for a named member of a pool.
    pub waits_for_members: u64,
    /// Grants for an hour or more.
    pub long_grants: u64,
    /// Starts that cut a torn tail.
    pub cuts: u64,
    /// Starts that refused damaged bytes.
    pub refusals: u64,
    /// Changes of the writer.
    pub changes: u64,
    /// Dead leaders that a guardian resigned for.
    pub resigned_for: u64,
    /// Claims that came too late.
    pub claims_lost: u64,
    /// Claims of which nobody knew what became.
    pub claims_unknown: u64,
    /// Frames of which nobody knew.
    pub unknown: u64,
    /// Spells without authority.
    pub lapses: u64,
    /// Connections opened to nodes.
    pub connections: u64,
    /// Words of nodes for their connections that were heard.
    pub words: u64,
    /// Connections that a node reported to the leader as gone.
    pub connections_gone: u64,
    /// Leases that went on by another connection.
    pub resumed: u64,
    /// Connections that ended because their node was silent.
    pub silent: u64,
    /// Connections that their node hung up on.
    pub hung_up: u64,
    /// Stores that an operator adopted.
    pub adopted: u64,
    /// Grants in an adopted log.
    pub granted_after: u64,
    /// Lost nodes that an operator removed.
    pub removed: u64,
}

/// Why a run ends before its time.
pub(crate) enum Break {
    Violation(Violation),
    /// Damage was noticed and cannot be undone.
    Refused,
}

impl From<Violation> for Break {
    fn from(violation: Violation) -> Self {
        Self::Violation(violation)
    }
}

pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) profile: Profile,
    /// Those of the profile, until healing.
    pub(crate) faults: Faults,
    pub(crate) now: u64,
    pub(crate) clocks: Clocks,
    queue: BTreeMap<(u64, u64), Happening>,
    sequence: u64,
    /// Turns of a slow seed, most of which do nothing.
    slow_turns: u64,
    pub(crate) trace: Trace,
    pub(crate) disk: SimDisk,
    pub(crate) daemon: Option<Daemon>,
    pub(crate) incarnation: u64,
    pub(crate) backup: Option<Backup>,
    pub(crate) clients: Vec<Client>,
    pub(crate) calls: BTreeMap<CallId, Call>,
    pub(crate) next_call: u64,
    pub(crate) next_ticket: u64,
    pub(crate) next_session: u64,
    pub(crate) next_operation: u64,
    pub(crate) ledger: Ledger,
    pub(crate) story: Story,
    pub(crate) memory: Memory,
    pub(crate) invariants: Invariants,
    pub(crate) tally: Tally,
    /// Until when every turn is asked more than it has room for.
    pub(crate) flooded_until: u64,
    /// So many more lives are short.
    pub(crate) short_lives: u64,
    pub(crate) healing: bool,
    pub(crate) probes_left: u64,
    /// A start met damage that cannot be told from a torn write.
    pub(crate) last_frame_may_be_lost: bool,
}

/// Runs one seed. A panic within the product is a violation like any other: the broken assertion is its text.
#[must_use]
pub fn run(seed: u64, options: Options) -> Report {
    let mut random = Random::new(seed);
    let profile = Profile::draw(&mut random);
    let mut world = World::new(random, profile, options);
    let (violation, refused) = match catch_unwind(AssertUnwindSafe(|| world.live(options.steps))) {
        Ok(Ok(())) => (None, false),
        Ok(Err(Break::Refused)) => (None, true),
        Ok(Err(Break::Violation(violation))) => (Some(violation), false),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            (Some(Violation::new("panic", text.unwrap_or_default())), false)
        }
    };
    Report {
        seed,
        violation,
        refused,
        now_ms: world.now,
        steps: world.sequence,
        trace: world.trace,
        tally: world.tally,
    }
}

impl World {
    fn new(mut random: Random, profile: Profile, options: Options) -> Self {
        let setup = tenure_kernel::Setup::plain();
        let daemon_clock = Rate::draw(&mut random);
        let new = |number| Client::new(number, profile.fleet, daemon_clock, &mut random);
        let clients = (0..profile.clients).map(new).collect();
        let mut world = Self {
            faults: profile.faults,
            clients,
            random,
            profile,
            now: 0,
            clocks: Clocks::new(),
            queue: BTreeMap::new(),
            sequence: 0,
            slow_turns: 0,
            trace: Trace::new(options.trace),
            disk: SimDisk::default(),
            daemon: None,
            incarnation: 0,
            backup: None,
            calls: BTreeMap::new(),
            next_call: 1,
            next_ticket: 1,
            next_session: 1,
            next_operation: 1,
            ledger: Ledger::new(setup),
            story: Story::default(),
            memory: Memory::default(),
            invariants: Invariants::new(),
            tally: Tally::default(),
            flooded_until: 0,
            short_lives: 0,
            healing: false,
            probes_left: 0,
            last_frame_may_be_lost: false,
        };
        world.at(0, Happening::Start);
        for client in 0..world.clients.len() {
            world.at(10 + client as u64, Happening::Act(client));
        }
        world.at(20, Happening::OperatorActs);
        world.schedule_faults();
        world
    }

    fn live(&mut self, steps: u64) -> Result<(), Break> {
        while self.sequence_done() < steps {
            self.step()?;
        }
        self.heal()?;
        self.look_once_more()
    }

    fn sequence_done(&self) -> u64 {
        self.sequence - self.queue.len() as u64 - self.slow_turns
    }

    /// Lets the next thing happen.
    fn step(&mut self) -> Result<(), Break> {
        let Some(((time, _), happening)) = self.queue.pop_first() else {
            return Err(Violation::new("world", "nothing is left to happen").into());
        };
        debug_assert!(time >= self.now);
        self.now = time;
        if self.profile.is_slow && matches!(happening, Happening::Turn { .. }) {
            self.slow_turns += 1;
        }
        match happening {
            Happening::Act(client) => self.act(client),
            Happening::LastBeat { client, tag, lease } => self.last_beat(client, tag, lease),
            Happening::OperatorActs => self.operator_acts(),
            Happening::Arrive { call, sent } => self.arrive(call, sent),
            Happening::Heard { call, from, answer } => self.heard(call, from, &answer)?,
            Happening::GiveUp(call) => self.give_up(call),
            Happening::HeardLost { tag, session, lease } => self.heard_lost(tag, session, lease),
            Happening::ConnectionLost { client, session } => self.connection_lost(client, session),
            Happening::Turn { incarnation, token } if incarnation == self.incarnation => self.turn(token)?,
            Happening::Append { incarnation } if incarnation == self.incarnation => self.append()?,
            Happening::Chore { incarnation } if incarnation == self.incarnation => self.run_chore(),
            Happening::Snapshot { incarnation, upto } if incarnation == self.incarnation => {
                self.snapshot(upto)?;
            }
            Happening::Dies { incarnation } if incarnation == self.incarnation => self.dies()?,
            Happening::Told { incarnation, control } if incarnation == self.incarnation => {
                self.told(control);
            }
            // Of an incarnation that is gone.
            Happening::Turn { .. }
            | Happening::Append { .. }
            | Happening::Chore { .. }
            | Happening::Snapshot { .. }
            | Happening::Dies { .. }
            | Happening::Told { .. } => {}
            Happening::Start => self.start()?,
            Happening::Fault(fault) => self.strike(fault)?,
            Happening::Relief(fault) => self.relieve(fault),
        }
        Ok(())
    }

    /// Lets everything up to an instant happen.
    pub(crate) fn run_until(&mut self, until: u64) -> Result<(), Break> {
        while self.queue.first_key_value().is_some_and(|((time, _), _)| *time <= until) {
            self.step()?;
        }
        self.now = self.now.max(until);
        Ok(())
    }

    /// Plans something.
    pub(crate) fn at(&mut self, in_ms: u64, happening: Happening) {
        self.queue.insert((self.now + in_ms, self.sequence), happening);
        self.sequence += 1;
    }

    /// Time as it may have passed for the daemon at most: clock jumps count.
    pub(crate) fn aged(&self) -> u64 {
        self.now + self.clocks.unearned_ms
    }

    pub(crate) fn line(&mut self, line: core::fmt::Arguments<'_>) {
        self.trace.line(self.now, line);
    }

    pub(crate) fn tag(&self) -> u32 {
        self.daemon.as_ref().map_or(0, |daemon| daemon.tag)
    }

    pub(crate) fn scene(&self) -> Scene<'_> {
        Scene {
            now: self.now,
            aged: self.aged(),
            story: &self.story,
            memory: &self.memory,
            clients: &self.clients,
            profile: &self.profile,
            tag: self.tag(),
            engine: self.daemon.as_ref().map(|daemon| daemon.engine()),
            durable_lsn: self.disk.durable_lsn(),
        }
    }
}
