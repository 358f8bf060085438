//! Lives of leases through the writer beside the same through etcd itself, on the same members, and what each costs
//! them.

use super::members::Members;
use super::nodes::{Nodes, Way};
use crate::gauge;
use crate::peers::cost::{processor_time, written_bytes};
use crate::peers::etcd::{Leases, load_on};
use crate::peers::figures::{Figure, Figures, Quantity};
use crate::peers::home::Site;
use crate::peers::peer::{Load, Shape, Until, Work};
use crate::peers::plan::named;
use crate::peers::rows::{rate, settle, values};
use crate::process::pause;
use anyhow::{Result, ensure};
use std::time::Duration;

/// Who does the work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Who {
    Etcd,
    OneNode,
    ThreeNodes,
}

/// What is measured on, and where the figures go.
pub(crate) struct Bench<'a> {
    pub(crate) site: &'a Site,
    pub(crate) members: &'a Members,
    pub(crate) figures: &'a mut Figures,
    /// How long each kind of work lasts.
    pub(crate) time: Duration,
}

/// How it is called in the tables.
pub(crate) const IDLE: &str = "idle";
/// Part of the time that is not counted, before.
const WARM_UP_PART: u32 = 4;
/// As nodes are started here.
const WRITER_TTL: Duration = Duration::from_secs(3);

impl Who {
    pub(crate) const ALL: [Self; 3] = [Self::Etcd, Self::OneNode, Self::ThreeNodes];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::OneNode => "Tenure, 1 node",
            Self::ThreeNodes => "Tenure, 3 nodes",
        }
    }

    pub(crate) fn nodes(self) -> usize {
        match self {
            Self::Etcd => 0,
            Self::OneNode => 1,
            Self::ThreeNodes => 3,
        }
    }
}

impl Bench<'_> {
    /// Acquires, renewals and releases in one shape; says what came of it in one line.
    pub(crate) fn lives(&mut self, who: Who, round: usize, shape: Shape) -> Result<String> {
        if who == Who::Etcd {
            let mut load = load_on(self.members.leader_port()?, Leases::Each, shape)?;
            return self.run(who, round, shape, &mut *load, &[]);
        }
        let nodes = Nodes::start(self.site, self.members, who.nodes(), Way::Direct)?;
        let writer = nodes.wait_until_agreed()?;
        ensure!(nodes.writer_ttl()? == WRITER_TTL, "the nodes have another leader_ttl");
        let mut load = nodes.load(&writer, shape)?;
        let said = self.run(who, round, shape, &mut load, &nodes.pids());
        drop(load);
        let prefix = nodes.prefix.clone();
        drop(nodes);
        self.members.remove(&prefix)?;
        said
    }

    /// Nothing is asked for so long.
    pub(crate) fn idle(&mut self, who: Who, round: usize, time: Duration) -> Result<String> {
        let nodes = Nodes::start(self.site, self.members, who.nodes(), Way::Direct)?;
        settle(&nodes.pids())?;
        let (began, before, written) = self.begin_counting()?;
        pause(time);
        let took = gauge::now() - began;
        let revisions = self.members.revision()? - before;
        let by_ttl = per_writer_ttl(revisions, took);
        self.add(round, who, IDLE, Quantity::Revisions, by_ttl);
        let bytes =
            self.members.written_bytes().zip(written).map(|(after, before)| after.saturating_sub(before));
        if let Some(bytes) = bytes {
            self.add(round, who, IDLE, Quantity::WrittenEach, bytes as f64 / took.as_secs_f64());
        }
        let prefix = nodes.prefix.clone();
        drop(nodes);
        self.members.remove(&prefix)?;
        Ok(format!("{revisions} revisions in {:.2} s", took.as_secs_f64()))
    }

    fn run(
        &mut self,
        who: Who,
        round: usize,
        shape: Shape,
        load: &mut dyn Load,
        nodes: &[u32],
    ) -> Result<String> {
        let pids = [self.members.pids(), nodes.to_vec()].concat();
        load.run(Work::Acquire, Until::Time(self.time / WARM_UP_PART))?;
        load.run(Work::Release, Until::Count(u64::MAX))?;
        let mut said = Vec::new();
        for work in [Work::Acquire, Work::Renew, Work::Release] {
            settle(&pids)?;
            let what = named(work, shape);
            let is_counted = work == Work::Renew && who != Who::Etcd;
            let (began, revision, written) = match is_counted {
                true => self.begin_counting()?,
                false => (gauge::now(), self.members.revision()?, self.members.written_bytes()),
            };
            let (used, own) = (processor_time(&pids), written_bytes(nodes));
            let sample = load.run(work, Until::Time(self.time))?;
            let took = gauge::now() - began;
            let revisions = self.members.revision()? - revision;
            ensure!(sample.done > 0, "{} was done not once", work.as_str());
            let done = sample.done as f64;
            for (quantity, value) in values(&sample) {
                self.add(round, who, &what, quantity, value);
            }
            let used = processor_time(&pids).saturating_sub(used).as_secs_f64();
            self.add(round, who, &what, Quantity::ProcessorEach, used / done);
            self.add(round, who, &what, Quantity::Revisions, per_writer_ttl(revisions, took));
            let grown =
                |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?) as f64 / done);
            if let Some(each) = grown(self.members.written_bytes(), written) {
                self.add(round, who, &what, Quantity::WrittenEach, each);
            }
            if let Some(each) = grown(written_bytes(nodes), own).filter(|_| who != Who::Etcd) {
                self.add(round, who, &what, Quantity::BytesEach, each);
            }
            said.push(format!("{what} {:.0}/s", rate(&sample)));
        }
        // What is left would weigh on the next.
        load.run(Work::Release, Until::Count(u64::MAX))?;
        Ok(said.join(", "))
    }

    /// From just after a change, so that a span of so many beats holds no more than these.
    fn begin_counting(&self) -> Result<(std::time::Instant, i64, Option<u64>)> {
        ensure!(self.members.wait_for_change(2 * WRITER_TTL)?, "the writer writes nothing");
        Ok((gauge::now(), self.members.revision()?, self.members.written_bytes()))
    }

    fn add(&mut self, round: usize, who: Who, what: &str, quantity: Quantity, value: f64) {
        self.figures.add(round, Figure::new(who.as_str(), what, quantity), value);
    }
}

fn per_writer_ttl(revisions: i64, took: Duration) -> f64 {
    revisions as f64 * WRITER_TTL.as_secs_f64() / took.as_secs_f64().max(1e-9)
}
