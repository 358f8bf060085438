//! An engine whose turns are run by hand: a frame is durable with the next turn, nothing is written, and its clock goes
//! on by the processor time that the turns take. A backlog shows as lateness on that clock, whatever else the machine does.

use super::tools::name;
use crate::gauge::{cpu_time, percentile};
use anyhow::ensure;
use std::time::Duration;
use tenure_engine::{
    Answer, Appended, Completion, Engine, EngineConfig, GoingOn, Input, Now, Out, Outputs, Request, Submit,
    Ticket,
};
use tenure_kernel::{Action, Bundle, Epoch, Grant, Kernel, LeaseId, Lsn, Policy, Setup, Tick};
use tenure_log::Authority;

/// Requests in one turn.
const AT_ONCE: usize = 1_000;
const BEGAN_MS: u64 = 1_000_000;

pub(crate) struct Driven {
    pub(crate) engine: Engine,
    config: EngineConfig,
    completion: Option<Completion>,
    passed: Duration,
    wake_in_ms: Option<u64>,
    next_ticket: u64,
    /// Processor time of each turn since it was last taken.
    turns: Vec<Duration>,
}

/// How long turns took.
pub(crate) struct Turns {
    pub(crate) count: usize,
    pub(crate) p999: Duration,
    pub(crate) max: Duration,
}

impl Driven {
    pub(crate) fn new(config: &EngineConfig) -> Self {
        let mut setup = Setup::plain();
        setup.limits = config.limits.clone();
        Self {
            engine: go_on(Kernel::new(setup), Lsn(1), Tick(0), config, Duration::ZERO),
            config: config.clone(),
            completion: None,
            passed: Duration::ZERO,
            wake_in_ms: None,
            next_ticket: 1,
            turns: Vec::new(),
        }
    }

    /// The daemon starts again with what it has.
    pub(crate) fn restart(&mut self) {
        while self.completion.is_some() {
            self.turn(Vec::new());
        }
        let (kernel, tick) = (self.engine.kernel().clone(), self.engine.tick());
        let next = Lsn(self.engine.synced_lsn().0 + 1);
        self.engine = go_on(kernel, next, tick, &self.config, self.passed);
        self.wake_in_ms = None;
    }

    pub(crate) fn turn(&mut self, requests: Vec<Request>) -> Outputs {
        let inputs: Vec<Input> = (self.next_ticket..)
            .map(Ticket)
            .zip(requests)
            .map(|(ticket, request)| Input::new(ticket, request))
            .collect();
        self.next_ticket += inputs.len() as u64;
        let completion = self.completion.take();
        let (mut outputs, took) = cpu_time(|| self.engine.turn(clocks(self.passed), inputs, completion));
        self.turns.push(took);
        self.completion = outputs.append.take().map(|batch| Completion::Appended {
            batch,
            outcome: Appended::Committed,
            took_us: 0,
        });
        self.wake_in_ms = outputs.wake_in_ms;
        outputs
    }

    /// A turn as the host would run it next: at once, or when the engine asked for it.
    pub(crate) fn next_turn(&mut self, requests: Vec<Request>) -> Outputs {
        if self.completion.is_none() {
            self.passed += Duration::from_millis(self.wake_in_ms.unwrap_or(0));
        }
        let outputs = self.turn(requests);
        self.passed += self.turns.last().copied().unwrap_or_default();
        outputs
    }

    /// The same at one instant, a thousand requests a turn; gives out the answers in order.
    pub(crate) fn ask(&mut self, requests: impl IntoIterator<Item = Request>) -> Vec<Answer> {
        let mut answers = Vec::new();
        let mut take = |outputs: Outputs| {
            answers.extend(outputs.outs.into_iter().filter_map(|out| match out {
                Out::Answer(_, answer) => Some(answer),
                _ => None,
            }));
        };
        let mut requests = requests.into_iter().peekable();
        while requests.peek().is_some() {
            take(self.turn(requests.by_ref().take(AT_ONCE).collect()));
        }
        while self.completion.is_some() || self.wake_in_ms == Some(0) {
            take(self.turn(Vec::new()));
        }
        answers
    }

    /// Leases with a holder each, from so many principals.
    pub(crate) fn fill(
        &mut self,
        leases: usize,
        principals: usize,
        policy: &Policy,
    ) -> anyhow::Result<Vec<LeaseId>> {
        let grants = (0..leases).map(|n| {
            let principal = format!("uid:{}", n % principals).as_str().into();
            let policy = Policy { principal, ..policy.clone() };
            let grant = Grant::new(Bundle::one(&name(n)), &format!("holder{n:010}"), policy);
            Request::Submit(Submit::now(Action::Grant(grant)))
        });
        let ids: Vec<LeaseId> =
            self.ask(grants).iter().filter_map(|answer| Some(answer.live()?.id)).collect();
        ensure!(ids.len() == leases, "only {} were granted", ids.len());
        Ok(ids)
    }

    /// Everybody renews at one instant.
    pub(crate) fn renew(&mut self, leases: &[LeaseId]) -> anyhow::Result<()> {
        let answers = self.ask(leases.iter().copied().map(heartbeat));
        ensure!(answers.iter().all(|answer| matches!(answer, Answer::Renewed { .. })), "not renewed");
        Ok(())
    }

    pub(crate) fn tick(&self) -> Tick {
        self.engine.tick()
    }

    pub(crate) fn take_turns(&mut self) -> Turns {
        let mut turns = core::mem::take(&mut self.turns);
        let p999 = percentile(&mut turns, 0.999);
        Turns { count: turns.len(), p999, max: turns.last().copied().unwrap_or_default() }
    }
}

pub(crate) fn heartbeat(lease: LeaseId) -> Request {
    Request::Heartbeat { lease, epoch: Epoch::FIRST, via: None, asker: None }
}

fn clocks(passed: Duration) -> Now {
    let boot_ms = BEGAN_MS + passed.as_millis() as u64;
    Now { boot_ms, wall_ms: 1_767_225_600_000 + boot_ms }
}

fn go_on(kernel: Kernel, next_lsn: Lsn, tick: Tick, config: &EngineConfig, passed: Duration) -> Engine {
    let authority = Authority::Forever;
    let from = GoingOn { next_lsn, writer_epoch: 1, authority, identity_since: Lsn(0) };
    Engine::go_on(from, kernel, tick, config.clone(), clocks(passed))
}
