//! What the rows share: names, a kernel with liveness beside it, an engine over a real directory.

use std::path::Path;
use std::sync::Arc;
use tenure_engine::host::{Host, HostOptions, Listener, read_clocks};
use tenure_engine::{Engine, EngineConfig, Request, Submit};
use tenure_kernel::{
    Action, Bundle, Command, Decision, Epoch, Event, Grant, Kernel, LeaseId, LeaseSlot, Lsn, Policy, Release,
    Setup, Stamp, Text, Tick, Token,
};
use tenure_liveness::{Liveness, LivenessConfig};
use tenure_log::{FileLog, FileLogOptions, Genesis, RealDisk};

/// A name of 16 bytes.
pub(crate) fn name(number: usize) -> String {
    format!("resource{number:08}")
}

/// The kernel without anything around it.
pub(crate) struct Alone {
    kernel: Kernel,
    slots: Vec<Option<LeaseSlot>>,
    lsn: u64,
}

impl Alone {
    pub(crate) fn new() -> Self {
        Self { kernel: kernel(), slots: Vec::new(), lsn: 0 }
    }

    pub(crate) fn submit(&mut self, command: &Command) -> Stamp {
        let at = Stamp { lsn: Lsn(self.lsn + 1), tick: Tick(0) };
        let event = accepted(self.kernel.decide(at, command));
        self.kernel.evolve(at, &event);
        self.lsn += 1;
        at
    }

    pub(crate) fn warm(&mut self, leases: &[LeaseId], names: &[Text]) {
        self.kernel.find(leases, &mut self.slots);
        self.kernel.warm(&self.slots);
        self.kernel.warm_names(names.iter());
    }

    /// A thousand holders share the leases.
    pub(crate) fn fill(&mut self, leases: usize, policy: &Policy) -> Vec<LeaseId> {
        let mut lease = |n: usize| self.submit(&grant(&name(n), &format!("holder{:04}", n % 1_000), policy));
        (0..leases).map(|n| LeaseId::new(0, lease(n).lsn)).collect()
    }
}

/// Kernel and liveness without an engine.
pub(crate) struct Pair {
    pub(crate) kernel: Kernel,
    pub(crate) liveness: Liveness,
    lsn: u64,
}

impl Pair {
    pub(crate) fn new() -> Self {
        let mut config = LivenessConfig::default();
        config.breaker.fraction = 1.0;
        Self { kernel: kernel(), liveness: Liveness::new(config, Tick(0)), lsn: 0 }
    }

    pub(crate) fn submit(&mut self, command: &Command) -> Stamp {
        let at = Stamp { lsn: Lsn(self.lsn + 1), tick: Tick(0) };
        let event = accepted(self.kernel.decide(at, command));
        self.kernel.evolve(at, &event);
        self.liveness.follow(&self.kernel, at, &event);
        self.lsn += 1;
        at
    }

    /// Every lease has a holder of its own.
    pub(crate) fn fill(&mut self, leases: usize, policy: &Policy) -> Vec<LeaseId> {
        let mut lease = |n: usize| self.submit(&grant(&name(n), &format!("holder{n:010}"), policy));
        (0..leases).map(|n| LeaseId::new(0, lease(n).lsn)).collect()
    }
}

fn kernel() -> Kernel {
    let mut setup = Setup::plain();
    setup.limits.leases_per_principal_max = u64::MAX;
    Kernel::new(setup)
}

fn accepted(decided: Result<Decision, tenure_kernel::Rejection>) -> Event {
    match decided {
        Ok(Decision::Event(event)) => event,
        other => panic!("a benchmark's command was not accepted: {other:?}"),
    }
}

pub(crate) fn grant(name: &str, holder: &str, policy: &Policy) -> Command {
    Command::plain(Action::Grant(Grant::new(Bundle::one(name), holder, policy.clone())))
}

pub(crate) fn release(lease: LeaseId) -> Command {
    let token = Token::new(lease, Epoch::FIRST);
    Command::plain(Action::Release(Release { token, text: Text::default() }))
}

pub(crate) fn grant_request(name: &str, policy: &Policy) -> Request {
    Request::Submit(Submit::now(Action::Grant(Grant::new(Bundle::one(name), "bench", policy.clone()))))
}

pub(crate) fn config() -> EngineConfig {
    let mut config = EngineConfig::default();
    config.limits.leases_per_principal_max = u64::MAX;
    config.liveness.breaker.fraction = 1.0;
    config
}

/// Opens the directory and recovers what is in it.
pub(crate) fn recover(directory: &Path, config: &EngineConfig) -> anyhow::Result<(Engine, FileLog)> {
    let now = read_clocks();
    let genesis = Genesis { random: [9; 16], unix_seconds: now.wall_ms / 1000, shard: 0 };
    let mut options = FileLogOptions::new(genesis, now.wall_ms);
    options.free_bytes_min = 0;
    let (log, recovery) = FileLog::open(Arc::new(RealDisk), directory, options)?;
    let engine = Engine::recover(&log, &recovery, config.clone(), now)?;
    Ok((engine, log))
}

pub(crate) fn host(directory: &Path, config: &EngineConfig, options: HostOptions) -> anyhow::Result<Host> {
    let (engine, log) = recover(directory, config)?;
    let listener: Listener = Box::new(|_| {});
    Ok(Host::start(engine, Box::new(log), config, options, listener))
}

/// A directory on the disk that holds the build, not in memory.
pub(crate) fn directory() -> anyhow::Result<tempfile::TempDir> {
    let beside = std::env::current_exe()?;
    let parent = beside.parent().unwrap_or(Path::new("."));
    Ok(tempfile::TempDir::new_in(parent)?)
}
