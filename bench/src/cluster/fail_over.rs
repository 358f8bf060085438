//! How long nobody decides when the writer is lost: from the fault to the first acquire that another node has answered
//! on behalf of another writer. All others are asked at once, again and again.

use super::members::Members;
use super::nodes::{Nodes, Way, Writer, client};
use crate::peers::home::Site;
use crate::peers::latencies::Latencies;
use crate::peers::peer::{Load, Shape, Until, Work};
use crate::peers::tasks::runtime;
use crate::peers::tenure::control::Control;
use crate::process::pause;
use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use tenure_client::Client;
use tenure_client::clock::BootInstant;
use tokio::runtime::Runtime;

/// What becomes of the writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    Kill,
    Stop,
    CutOff,
    StepDown,
    Terminate,
}

/// Three nodes with so many live leases.
pub(crate) struct Scene {
    // Before what they write to.
    nodes: Nodes,
    _members: Members,
    leases: u64,
    random: u64,
}

/// What one of those who ask needs to know.
#[derive(Clone)]
struct Asker {
    socket: PathBuf,
    lost: &'static str,
    lost_epoch: u64,
    /// Names that nobody else takes.
    stem: String,
    is_over: Arc<AtomicBool>,
}

/// How leases are taken beforehand.
const FILL: Shape = Shape { connections: 8, depth: 64 };
/// How long it is waited for another writer.
const SERVED_WITHIN: Duration = Duration::from_secs(60);
/// Between two tries of one asker.
const TRY_EVERY: Duration = Duration::from_millis(1);
/// Faults fall anywhere between two proofs of the writer's authority.
const FAULT_WITHIN_MS: u64 = 1_500;

impl Fault {
    pub(crate) const ALL: [Self; 5] = [Self::Kill, Self::Stop, Self::CutOff, Self::StepDown, Self::Terminate];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Kill => "killed",
            Self::Stop => "stopped",
            Self::CutOff => "cut off from etcd",
            Self::StepDown => "step-down",
            Self::Terminate => "ended by SIGTERM",
        }
    }

    /// Whether the writer gives its place up itself.
    pub(crate) fn is_graceful(self) -> bool {
        match self {
            Self::StepDown | Self::Terminate => true,
            Self::Kill | Self::Stop | Self::CutOff => false,
        }
    }

    /// As it is called in the tables.
    pub(crate) fn named(self, leases: u64) -> String {
        format!("leader {}, {leases} leases", self.as_str())
    }
}

impl Scene {
    pub(crate) fn set(site: &Site, leases: u64) -> Result<Self> {
        let members = Members::start(site)?;
        let nodes = Nodes::start(site, &members, 3, Way::Cuttable)?;
        let writer = nodes.wait_until_agreed()?;
        let sample = nodes.load(&writer, FILL)?.run(Work::Acquire, Until::Count(leases))?;
        ensure!(sample.done == leases, "{} of {leases} were granted", sample.done);
        nodes.wait_until_agreed()?;
        Ok(Self { nodes, _members: members, leases, random: 0x9e37_79b9_7f4a_7c15 })
    }

    pub(crate) fn leases(&self) -> u64 {
        self.leases
    }

    /// The leader is lost so often, and comes back.
    pub(crate) fn lose_writer(&mut self, fault: Fault, rounds: usize) -> Result<Latencies> {
        let mut latencies = Latencies::new();
        for round in 0..rounds {
            let took = self.lose_writer_once(fault, round).with_context(|| format!("round {}", round + 1))?;
            latencies.add(took);
        }
        Ok(latencies)
    }

    fn lose_writer_once(&mut self, fault: Fault, round: usize) -> Result<Duration> {
        let writer = self.nodes.wait_until_agreed()?;
        let held = self.nodes.leases(&writer)?;
        ensure!(held >= self.leases, "{held} leases are left of {}", self.leases);
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        pause(Duration::from_millis(self.random % FAULT_WITHIN_MS));
        let took = self.time_without(fault, &writer, round);
        // Whatever came of it: one that is stopped cannot even be ended in order.
        match fault {
            Fault::Kill | Fault::Terminate => self.nodes.restart(writer.place)?,
            Fault::Stop => self.nodes.signal(writer.place, Signal::CONT)?,
            Fault::CutOff => self.nodes.mend(writer.place),
            Fault::StepDown => {}
        }
        took
    }

    fn time_without(&self, fault: Fault, writer: &Writer, round: usize) -> Result<Duration> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (served, is_served) = channel();
        let name = self.nodes.name(writer.place);
        let began = BootInstant::now();
        match fault {
            Fault::Kill => self.nodes.signal(writer.place, Signal::KILL)?,
            Fault::Stop => self.nodes.signal(writer.place, Signal::STOP)?,
            Fault::CutOff => self.nodes.cut_off(writer.place)?,
            Fault::Terminate => self.nodes.signal(writer.place, Signal::TERM)?,
            Fault::StepDown => {}
        }
        for (number, socket) in self.nodes.others(writer.place).into_iter().enumerate() {
            let stem = format!("{}-{}-{round}-{number}", fault.as_str().replace(' ', "-"), writer.epoch);
            let asker =
                Asker { socket, lost: name, lost_epoch: writer.epoch, stem, is_over: Arc::clone(&is_over) };
            let served = served.clone();
            std::thread::spawn(move || asker.ask(&served));
        }
        drop(served);
        if fault == Fault::StepDown {
            self.nodes.step_down(writer.place)?;
        }
        let answered = is_served.recv_timeout(SERVED_WITHIN);
        is_over.store(true, Ordering::Relaxed);
        Ok(answered.context("no other node served")?.since(began))
    }
}

impl Asker {
    /// Says when it was granted something; nothing, if it never was.
    fn ask(&self, served: &Sender<BootInstant>) {
        let (Ok(runtime), Ok(client)) = (runtime(), client(self.socket.clone())) else { return };
        let limit = BootInstant::now().after(SERVED_WITHIN);
        let mut number = 0;
        while !self.is_over.load(Ordering::Relaxed) && BootInstant::now() < limit {
            number += 1;
            if self.is_granted(&runtime, &client, number).unwrap_or(false) {
                // Nobody listens any more where the other one was first.
                let _ = served.send(BootInstant::now());
                return;
            }
            pause(TRY_EVERY);
        }
    }

    /// Only what is asked after the change of writer is known cannot have been decided by the one that was lost.
    fn is_granted(&self, runtime: &Runtime, client: &Client, number: u64) -> Result<bool> {
        let status = runtime.block_on(client.cluster())?;
        let has_changed =
            status.leader.is_some_and(|leader| leader.node != self.lost && leader.epoch > self.lost_epoch);
        if !has_changed {
            return Ok(false);
        }
        let name = format!("{}-{number}", self.stem);
        let acquire = json!({"resources": [name], "holder": "bench", "ttl_ms": 600_000, "grace_ms": 0});
        let answer = Control::open(&self.socket)?.ask(&json!({"acquire": acquire}))?;
        Ok(answer.get("acquired").is_some())
    }
}
