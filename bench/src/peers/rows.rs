//! How each step of a run is done, the same way for every peer, and the figures that come of it.

mod hold;
mod storm;
mod work;

use super::cost::written_bytes;
use super::figures::{Figure, Figures, Quantity};
use super::home::Site;
use super::kind::Kind;
use super::peer::{Peer, Sample};
use super::plan::{Part, Step};
use crate::process::{block_until, pause};
use anyhow::Result;
use std::time::Duration;

/// Runs steps and keeps what they gave.
pub(crate) struct Course {
    site: Site,
    /// How long each kind of work lasts.
    time: Duration,
    pub(crate) figures: Figures,
    /// The peer that runs now; never two, so that one that is idle costs nothing.
    alive: Option<(Kind, Box<dyn Peer>)>,
    /// What each peer said of itself when it ran.
    pub(crate) told: Vec<Told>,
    /// Holders that are killed, where a death is quickly noticed.
    deaths: usize,
}

/// What a peer says of itself.
pub(crate) struct Told {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) settings: String,
}

/// The raw limit of the disk, in the tables.
pub(crate) const DISK: &str = "disk";
/// The raw limit of the HTTP stack.
pub(crate) const HELLO: &str = "bare HTTP";

/// Servers go on writing for a while after their last answer: files for later, files rewritten. That belongs to what
/// was done, not to what is done next.
const QUIET: Duration = Duration::from_millis(200);
const QUIET_WITHIN: Duration = Duration::from_secs(5);

impl Course {
    pub(crate) fn new(site: Site, time: Duration, deaths: usize) -> Self {
        Self { site, time, figures: Figures::default(), alive: None, told: Vec::new(), deaths }
    }

    /// Does one step; says what came of it in one line.
    pub(crate) fn take(&mut self, step: Step) -> Result<String> {
        let said = self.do_step(step);
        // Who failed, or was filled, is not asked again.
        if said.is_err() || step.part.is_alone() {
            self.alive = None;
        }
        said
    }

    fn do_step(&mut self, step: Step) -> Result<String> {
        let Step { round, kind, part } = step;
        match part {
            Part::Disk => self.disk(round),
            Part::Hello => {
                self.alive = None;
                self.hello(round)
            }
            Part::Lives(shape) => self.lives(kind, round, shape),
            Part::OwnTool(work, shape) => self.own_tool(kind, round, work, shape),
            Part::Bundle => self.bundle(kind, round),
            Part::Contention => self.contention(kind, round),
            Part::FailOver => self.fail_over(kind, round),
            Part::Hold(count) => self.hold(kind, round, count),
            Part::Storm(count) => self.storm(kind, round, count),
        }
    }

    /// Nobody runs after this.
    pub(crate) fn end(&mut self) {
        self.alive = None;
    }

    /// The peer, started if it does not run.
    fn peer(&mut self, kind: Kind) -> Result<&mut Box<dyn Peer>> {
        if self.alive.as_ref().is_none_or(|(alive, _)| *alive != kind) {
            // One ends before the next begins.
            self.alive = None;
            let peer = kind.start(&self.site)?;
            if !self.told.iter().any(|told| told.name == peer.name()) {
                let (name, settings) = (peer.name().to_owned(), peer.settings().to_owned());
                self.told.push(Told { name, version: peer.version(), settings });
            }
            settle(&peer.pids())?;
            self.alive = Some((kind, peer));
        }
        let (_, peer) = self.alive.as_mut().expect("invariant: it was started");
        Ok(peer)
    }

    /// One that nothing was done with.
    fn fresh(&mut self, kind: Kind) -> Result<&mut Box<dyn Peer>> {
        self.alive = None;
        self.peer(kind)
    }

    fn add(&mut self, round: usize, peer: &str, what: &str, values: &[(Quantity, f64)]) {
        for (quantity, value) in values {
            self.figures.add(round, Figure::new(peer, what, *quantity), *value);
        }
    }

    fn add_sample(&mut self, round: usize, peer: &str, what: &str, sample: &Sample) {
        self.add(round, peer, what, &values(sample));
    }
}

pub(crate) fn values(sample: &Sample) -> [(Quantity, f64); 5] {
    let answered = (sample.done + sample.refused).max(1);
    [
        (Quantity::Rate, rate(sample)),
        (Quantity::P50, sample.latencies.p50().as_secs_f64()),
        (Quantity::P99, sample.latencies.p99().as_secs_f64()),
        (Quantity::Longest, sample.latencies.max().as_secs_f64()),
        (Quantity::Refused, sample.refused as f64 / answered as f64),
    ]
}

pub(crate) fn rate(sample: &Sample) -> f64 {
    sample.done as f64 / sample.took.as_secs_f64().max(1e-9)
}

/// Waits until nothing is written any more, if that comes soon.
pub(crate) fn settle(pids: &[u32]) -> Result<()> {
    let mut written = written_bytes(pids);
    pause(QUIET);
    block_until(QUIET_WITHIN, QUIET, || {
        let before = std::mem::replace(&mut written, written_bytes(pids));
        Ok(before == written)
    })?;
    Ok(())
}
