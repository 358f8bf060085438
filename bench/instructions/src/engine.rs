//! Turns of the engine with what one read of a busy connection brings. What a turn gives out is put aside: letting go
//! of it is the work of others.

use crate::{HotPath, ROUNDS, Round, resource, scattered};
use anyhow::ensure;
use std::sync::Arc;
use tenure_engine::{
    Answer, Appended, Completion, Engine, EngineConfig, Input, Now, Out, Outputs, Request, Submit, Ticket,
};
use tenure_kernel::{Action, Bundle, Epoch, Grant, LeaseId, Policy, Text};
use tenure_log::{FileLog, FileLogOptions, Genesis, RealDisk};

const LIVE: usize = 10_000;
const AT_ONCE: usize = 64;
const TURNS: usize = 50;
const NOW: Now = Now { boot_ms: 1_000_000, wall_ms: 1_767_225_600_000 };

pub(crate) const ACQUIRES: HotPath =
    HotPath { name: "engine: turn of 64 acquires", operations: TURNS * AT_ONCE, prepare: acquires };

pub(crate) const HEARTBEATS: HotPath =
    HotPath { name: "engine: turn of 64 heartbeats", operations: TURNS * AT_ONCE, prepare: heartbeats };

/// An engine whose frames are durable as soon as the next turn begins.
struct Driven {
    engine: Engine,
    completion: Option<Completion>,
}

impl Driven {
    fn new() -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let genesis = Genesis { random: [9; 16], unix_seconds: NOW.wall_ms / 1_000, shard: 0 };
        let mut options = FileLogOptions::new(genesis, NOW.wall_ms);
        (options.free_bytes_min, options.segment_bytes) = (0, 1 << 20);
        let (log, recovery) = FileLog::open(Arc::new(RealDisk), directory.path(), options)?;
        let mut config = EngineConfig::default();
        config.limits.leases_per_principal_max = u64::MAX;
        let engine = Engine::recover(&log, &recovery, config, NOW)?;
        Ok(Self { engine, completion: None })
    }

    /// What waits for a frame leaves with the next turn, like in a daemon under load.
    fn turn(&mut self, inputs: Vec<Input>) -> Outputs {
        let mut outputs = self.engine.turn(NOW, inputs, self.completion.take());
        self.completion = outputs.append.take().map(|batch| Completion::Appended {
            batch,
            outcome: Appended::Committed,
            took_us: 100,
        });
        outputs
    }

    /// Fills it and returns the leases.
    fn fill(&mut self) -> anyhow::Result<Vec<LeaseId>> {
        let mut leases = Vec::with_capacity(LIVE);
        let mut given = |outputs: Outputs| {
            leases.extend(outputs.outs.iter().filter_map(|out| match out {
                Out::Answer(_, answer) => answer.live().map(|lease| lease.id),
                _ => None,
            }));
        };
        for first in (0..LIVE).step_by(AT_ONCE) {
            given(self.turn((first..LIVE.min(first + AT_ONCE)).map(acquire).collect()));
        }
        given(self.turn(Vec::new()));
        ensure!(leases.len() == LIVE, "only {} were granted", leases.len());
        Ok(leases)
    }

    /// Runs the turns one after the other; every answer must be of this kind.
    fn round(mut self, mut inputs: impl Iterator<Item = Input> + 'static, is: fn(&Answer) -> bool) -> Round {
        let take = |_| inputs.by_ref().take(AT_ONCE).collect();
        let mut turns = (0..ROUNDS * TURNS).map(take).collect::<Vec<Vec<Input>>>().into_iter();
        let mut aside = Vec::with_capacity(ROUNDS * TURNS);
        Box::new(move || {
            for inputs in turns.by_ref().take(TURNS) {
                let outputs = self.turn(inputs);
                assert!(outputs.outs.iter().all(|out| matches!(out, Out::Answer(_, answer) if is(answer))));
                aside.push(outputs);
            }
        })
    }
}

fn acquire(number: usize) -> Input {
    let policy = Policy { principal: Text::from("local"), ..Policy::heartbeat(90_000, 30_000) };
    let grant = Grant::new(Bundle::one(&resource(number)), &format!("holder{:04}", number % 1_000), policy);
    let submit = Submit { asker: Some("local".into()), ..Submit::now(Action::Grant(grant)) };
    Input::new(Ticket(number as u64 + 1), Request::Submit(submit))
}

fn acquires() -> anyhow::Result<Round> {
    let mut driven = Driven::new()?;
    driven.fill()?;
    Ok(driven.round((LIVE..).map(acquire), |answer| answer.live().is_some()))
}

fn heartbeats() -> anyhow::Result<Round> {
    let mut driven = Driven::new()?;
    let leases = driven.fill()?;
    let beats = scattered(LIVE).zip(1..).map(move |(number, ticket)| {
        let asker = Some("local".into());
        let beat = Request::Heartbeat { lease: leases[number], epoch: Epoch::FIRST, via: None, asker };
        Input::new(Ticket(ticket), beat)
    });
    Ok(driven.round(beats, |answer| matches!(answer, Answer::Renewed { .. })))
}
