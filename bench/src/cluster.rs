//! `cargo xtask bench cluster`: three members of etcd on loopback, and on them etcd's own leases beside one node of
//! Tenure and beside three, in alternating rounds; then how soon another node serves when the writer is lost.

mod fail_over;
mod goals;
mod members;
mod nodes;
mod proxy;
mod table;
mod work;

use crate::peers::document::Document;
use crate::peers::figures::{Figure, Figures, Quantity};
use crate::peers::home::Site;
use crate::peers::kind::{self, Kind};
use crate::peers::peer::Shape;
use crate::peers::plan::SHAPES;
use crate::peers::rows::Told;
use crate::peers::{self, Place, bar, say};
use crate::{history, machine};
use anyhow::{Context, Result};
use fail_over::{Fault, Scene};
use members::Members;
use std::path::PathBuf;
use std::time::Duration;
use work::{Bench, Who};

/// How long, how often, and where it is written.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Repeat all work this often and show medians
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Measure each kind of work for this long
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Lose the leader this often in each way
    #[arg(long, default_value_t = 20)]
    faults: usize,
    /// Hold this many leases while the leader is lost
    #[arg(long, value_delimiter = ',', default_value = "1000,1000000")]
    leases: Vec<u64>,
    /// Keep data here, on the disk to measure [default: beside the builds]
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
    /// Write the document here [default: docs/internals/benchmarks/ for a full run]
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Measure this daemon [default: the one beside this program]
    #[arg(long, value_name = "PROGRAM")]
    tenure: Option<PathBuf>,
}

/// One thing that is measured.
#[derive(Clone, Copy, Debug)]
enum Step {
    Lives(Who, usize, Shape),
    Idle(Who, usize),
    /// With so many live leases.
    Lost(Fault, u64),
}

/// Measures, and keeps what came of it.
struct Course {
    site: Site,
    sizes: Sizes,
    figures: Figures,
    told: Vec<Told>,
    /// For the work; never beside a scene.
    members: Option<Members>,
    scene: Option<Scene>,
}

/// How much of everything.
#[derive(Clone, Debug)]
struct Sizes {
    rounds: usize,
    time: Duration,
    idle: Duration,
    faults: usize,
    leases: Vec<u64>,
}

const HOW: &str = "\
Three members of etcd run on loopback, each with its data in a directory of its own on the same disk, all on the machine \
that the nodes and the load run on. The work goes through the same three members in each round: etcd's own leases, one \
node, three nodes, each shape through all of them before the next, and their order turns by one each round; nodes are \
started for each work, on a log of their own, which is removed afterwards. A row is the median of the rounds with \
the lowest and the highest; a ratio is taken within each round, and then the median of the ratios.

- etcd: `LeaseGrant` and `Txn`, a keep-alive, `LeaseRevoke`, over at most 8 connections to the member that leads, so that \
nothing is passed on. Tenure: lines over the Unix socket of the node that writes. Server CPU is that of etcd's \
members and of the nodes together.
- What etcd wrote is what its members gave to the disk, all three added up, as the system counts it: whole pages. What the \
nodes wrote is their own copies of the log and their snapshots.
- Changes of etcd are counted by its revision, from just after one; 3 s is `writer_ttl`.
- The leader is lost: three nodes with leases of six hours, each with a way to etcd of its own through a proxy. Killed: SIGKILL. \
Stopped: SIGSTOP. Cut off: the proxy passes nothing on and says nothing. Ended: SIGTERM. The fault falls \
anywhere between two beats. From then on each other node is asked, again and again, which node leads, and once that is \
another than before, for an acquire; the time is until the first of them has answered it as granted. Afterwards the \
node comes back, and before the next fault all agree and none is behind; no lease may be missing.
";

/// Measures until it is done or interrupted; every process that was started is ended either way, and what it wrote is
/// removed.
pub(crate) fn measure(arguments: Arguments, quick: bool, only: Option<String>) -> Result<String> {
    kind::ensure_there(&[Kind::Etcd])?;
    let place = Place::find(arguments.directory.as_deref(), arguments.tenure.as_deref())?;
    let site = place.site();
    peers::until_interrupted(move || report(&arguments, site, quick, only.as_deref()))
}

fn report(arguments: &Arguments, site: Site, quick: bool, only: Option<&str>) -> Result<String> {
    let sizes = arguments.sizes(quick);
    let (load_before, time) = (machine::load()?, sizes.time);
    let steps = plan(&sizes, only);
    let mut course =
        Course { site, sizes, figures: Figures::default(), told: Vec::new(), members: None, scene: None };
    let faults = run(&mut course, &steps);
    let Course { figures, told, sizes, .. } = course;
    let judged = goals::judge(&figures, &sizes.leases);
    let document = Document {
        title: "Cluster",
        tables: table::tables(&figures, &sizes.leases),
        how: HOW,
        figures: &figures,
        told: &told,
        goals: &judged,
        faults: &faults,
        left_out: &[],
        rounds: sizes.rounds,
        time,
        load_before,
        command: peers::command(),
    };
    history::keep("cluster", &document.kept())?;
    let is_whole = !quick && only.is_none();
    if let Some(file) = arguments.write.clone().or_else(|| is_whole.then(|| peers::written_to("cluster"))) {
        std::fs::write(&file, document.text()?)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    let faults: String = faults.iter().map(|fault| format!("{fault}\n")).collect();
    Ok(format!("{}{faults}\n{}", document.tables, peers::goals::table(&judged)))
}

/// Takes every step, whatever becomes of the others; what went wrong.
fn run(course: &mut Course, steps: &[Step]) -> Vec<String> {
    let bar = bar(steps.len());
    let mut faults = Vec::new();
    for step in steps {
        let name = step.name();
        bar.set_message(name.clone());
        match course.take(*step) {
            Ok(said) => say(&bar, &format!("{name}: {said}")),
            Err(fault) => {
                let fault = format!("{name} failed: {fault:#}");
                say(&bar, &fault);
                faults.push(fault);
            }
        }
        bar.inc(1);
    }
    course.scene = None;
    course.members = None;
    bar.finish_and_clear();
    faults
}

/// All steps, in order.
fn plan(sizes: &Sizes, only: Option<&str>) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut order = Who::ALL;
    for round in 0..sizes.rounds {
        for shape in SHAPES {
            steps.extend(order.map(|who| Step::Lives(who, round, *shape)));
        }
        steps.extend([Who::OneNode, Who::ThreeNodes].map(|who| Step::Idle(who, round)));
        order.rotate_left(1);
    }
    for &leases in &sizes.leases {
        steps.extend(Fault::ALL.map(|fault| Step::Lost(fault, leases)));
    }
    steps.retain(|step| only.is_none_or(|only| step.name().contains(only)));
    steps
}

impl Arguments {
    fn sizes(&self, quick: bool) -> Sizes {
        let seconds = if quick { self.seconds.min(1.0) } else { self.seconds };
        let time = Duration::from_secs_f64(seconds);
        match quick {
            true => {
                let leases = self.leases.iter().map(|count| (*count).min(20_000)).collect();
                Sizes { rounds: 1, time, idle: Duration::from_secs(3), faults: self.faults.min(2), leases }
            }
            false => Sizes {
                rounds: self.rounds.max(1),
                time,
                idle: Duration::from_secs(10),
                faults: self.faults.max(1),
                leases: self.leases.clone(),
            },
        }
    }
}

impl Step {
    fn name(self) -> String {
        match self {
            Self::Lives(who, round, Shape { connections, depth }) => {
                format!("round {}, {}, work {connections}×{depth}", round + 1, who.as_str())
            }
            Self::Idle(who, round) => format!("round {}, {}, idle", round + 1, who.as_str()),
            Self::Lost(fault, leases) => fault.named(leases),
        }
    }
}

impl Course {
    /// Does one step; says what came of it in one line.
    fn take(&mut self, step: Step) -> Result<String> {
        match step {
            Step::Lives(who, round, shape) => self.bench()?.lives(who, round, shape),
            Step::Idle(who, round) => {
                let time = self.sizes.idle;
                self.bench()?.idle(who, round, time)
            }
            Step::Lost(fault, leases) => {
                let said = self.lose_writer(fault, leases);
                // What a fault left behind that was not understood is nobody else's.
                if said.is_err() {
                    self.scene = None;
                }
                said
            }
        }
    }

    fn bench(&mut self) -> Result<Bench<'_>> {
        self.scene = None;
        if self.members.is_none() {
            let members = Members::start(&self.site)?;
            self.tell(&members.version)?;
            self.members = Some(members);
        }
        let members = self.members.as_ref().context("no members")?;
        Ok(Bench { site: &self.site, members, figures: &mut self.figures, time: self.sizes.time })
    }

    fn lose_writer(&mut self, fault: Fault, leases: u64) -> Result<String> {
        self.members = None;
        if self.scene.as_ref().is_none_or(|scene| scene.leases() != leases) {
            self.scene = None;
            self.scene = Some(Scene::set(&self.site, leases)?);
        }
        let scene = self.scene.as_mut().context("no scene")?;
        let latencies = scene.lose_writer(fault, self.sizes.faults)?;
        let values = [
            (Quantity::P50, latencies.p50().as_secs_f64()),
            (Quantity::Longest, latencies.max().as_secs_f64()),
            (Quantity::Count, latencies.count() as f64),
        ];
        for (quantity, value) in values {
            let figure = Figure::new(Who::ThreeNodes.as_str(), &fault.named(leases), quantity);
            self.figures.add(0, figure, value);
        }
        Ok(format!("p50 {:?}, longest {:?} of {}", latencies.p50(), latencies.max(), latencies.count()))
    }

    /// What everybody is, for the document.
    fn tell(&mut self, etcd: &str) -> Result<()> {
        let nodes = "`tenure serve --log etcd://…` with its defaults: answered when a majority of etcd's members has \
                     synced it; `leader_ttl` 3 s. Raised: leases per principal; off: the breaker, mDNS";
        let members =
            "three members, synced before every answer; its largest quota; every name has a lease of its own";
        let version = machine::version(&self.site.tenure)?;
        let told = [("etcd", format!("etcd {etcd}"), members), ("Tenure", version, nodes)];
        self.told = told
            .map(|(name, version, settings)| Told {
                name: name.to_owned(),
                version,
                settings: settings.to_owned(),
            })
            .into();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes() -> Sizes {
        let (time, idle) = (Duration::from_secs(1), Duration::from_secs(1));
        Sizes { rounds: 3, time, idle, faults: 1, leases: vec![1_000, 1_000_000] }
    }

    #[test]
    fn everybody_does_one_shape_before_the_next_and_is_first_once() {
        let steps = plan(&sizes(), Some("work 8×32"));
        let order: Vec<Who> = steps
            .iter()
            .filter_map(|step| if let Step::Lives(who, ..) = step { Some(*who) } else { None })
            .collect();
        let [first, second, third] = Who::ALL;
        assert_eq!(order, [first, second, third, second, third, first, third, first, second]);
    }

    #[test]
    fn the_leader_is_lost_in_every_way_with_few_leases_and_with_many() {
        let names: Vec<String> = plan(&sizes(), Some("leader ")).iter().map(|step| step.name()).collect();
        assert_eq!(names.len(), 10);
        assert_eq!(
            (&*names[0], &*names[9]),
            ("leader killed, 1000 leases", "leader ended by SIGTERM, 1000000 leases")
        );
    }
}
