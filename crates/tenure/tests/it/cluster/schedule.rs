//! Faults of all kinds in an order that one number decides, under the load of all applications, for as long as one is
//! told; everything that callers heard is judged by the checker. A long run also restores etcd from a backup now and then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::caller::{Journal, places};
use super::checker::{Report, check_with};
use super::harness::Cluster;
use super::history::{Asked, Record, Restore, Shown};
use super::load::{FLAGS, Load};
use super::net::Wire;
use super::proxy::Replies;
use super::restoring::with_members_down;
use super::store::Member;
use crate::faults::random::Random;
use crate::run_support::{boot_ms, let_time_pass, wait_until};

const SECONDS: u64 = 25;
/// Answers that must have come since the last fault before the next: otherwise the run does not count.
const SERVED_MIN: usize = 60;
/// How long the cluster may take to serve that many.
const SERVED_LIMIT: Duration = Duration::from_secs(30);
/// A run of this many seconds has a restore, one of twice as many has two, and so on up to a few.
const RESTORE_EVERY: u64 = 200;
const RESTORES_MAX: u64 = 3;
/// How old a backup is when it is put back.
const BACKUP_AGE: u64 = 65;
/// From so many seconds on a run has to come to [`MINIMA`].
const LONG_RUN: u64 = 1_800;
/// Faults, operations and contested grants: grants of a resource that somebody else had before. With fewer a run that finds
/// nothing shows little.
const MINIMA: [usize; 3] = [200, 200_000, 20_000];
/// Applications under the load, and how many seconds each may take for one contested grant: a run in which one of them was
/// stuck shows nothing of it. Loose enough for a short run on a busy machine.
const APPLICATIONS: usize = 5;
const CONTESTED_EVERY: u64 = 2;
/// No lease of the load has a longer one.
const LONGEST_TTL: &str = "10s";
/// Shorter histories are shown whole where one is wrong.
const HISTORY_SHOWN_MAX: usize = 20_000;

/// What befalls a cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Fault {
    KillWriter,
    LoseWriter,
    KillFollower,
    StopWriter,
    PauseWriter,
    PauseFollower,
    CutWriterFromStore,
    CutFollowerFromStore,
    CutWriterFromCallers,
    CutFollowerFromCallers,
    DelayReplies,
    LoseReplies,
    StepDown,
    KillLeadingMember,
    KillMember,
    PauseLeadingMember,
    CutLeadingMember,
    CutMember,
    /// Not in the bag: it has times of its own.
    Restore,
}

const ALL: [Fault; 18] = [
    Fault::KillWriter,
    Fault::LoseWriter,
    Fault::KillFollower,
    Fault::StopWriter,
    Fault::PauseWriter,
    Fault::PauseFollower,
    Fault::CutWriterFromStore,
    Fault::CutFollowerFromStore,
    Fault::CutWriterFromCallers,
    Fault::CutFollowerFromCallers,
    Fault::DelayReplies,
    Fault::LoseReplies,
    Fault::StepDown,
    Fault::KillLeadingMember,
    Fault::KillMember,
    Fault::PauseLeadingMember,
    Fault::CutLeadingMember,
    Fault::CutMember,
];

/// What a run came to.
pub(crate) struct Figures {
    pub(crate) seed: u64,
    pub(crate) report: Report,
    /// In which round and when each fault came; those of a round lasted together.
    pub(crate) faults: Vec<(Fault, usize, u64)>,
    pub(crate) history: Vec<Record>,
    /// What the nodes said, for messages of failures.
    said: String,
}

/// Runs faults for so long, with so many restores among them.
#[track_caller]
pub(crate) fn run(seed: u64, seconds: u64, restores: u64) -> Figures {
    let mut cluster = Cluster::apart(&[&["--writer-ttl", "1s"], &FLAGS[..]].concat());
    let journal = Journal::begin();
    let sockets = cluster.nodes.iter().map(|node| node.daemon.socket()).collect();
    let load = Load::of_all(&journal, places(&cluster), sockets, seed);
    let mut random = Random::new(seed);
    let mut faults = Vec::new();
    let mut bag = Bag::default();
    let began = boot_ms();
    let deadline = began + seconds * 1_000;
    let mut plan = Plan::new(began, seconds, restores);
    let mut round = 0;
    while boot_ms() < deadline {
        round += 1;
        wait_for_load(&journal, &cluster);
        match plan.next() {
            Some(Step::BackUp) => {
                with_members_down(&mut cluster, Member::back_up);
                cluster.wait_until_whole();
                continue;
            }
            Some(Step::Restore) => {
                faults.push((Fault::Restore, round, journal.now_ns()));
                restore(&mut cluster, &journal, &mut random);
                continue;
            }
            None => {}
        }
        let fault = bag.draw(&mut random);
        // One machine and one member at once: a majority is left of both.
        let beside = if random.below(4) == 0 { bag.draw_beside(fault, &mut random) } else { None };
        let lasting = Duration::from_millis(300 + random.below(3_700));
        let targets = Targets::choose(&cluster, &mut random);
        let mut mending = Vec::new();
        for fault in [Some(fault), beside].into_iter().flatten() {
            faults.push((fault, round, journal.now_ns()));
            mending.push(fault.begin(&mut cluster, &targets));
        }
        let_time_pass(lasting, "the fault lasts");
        mending.into_iter().for_each(|mending| mending.mend(&mut cluster));
    }
    wait_for_load(&journal, &cluster);
    cluster.wait_until_whole();
    let history = load.finish(seed);
    let said =
        cluster.nodes.iter().map(|node| format!("--- {}\n{}", node.name, node.daemon.said())).collect();
    Figures { seed, report: check_with(&history, &journal.restores()), faults, history, said }
}

/// When backups are taken and put back.
struct Plan(Vec<(u64, Step)>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    BackUp,
    Restore,
}

impl Plan {
    /// Restores in equal distances; the last one leaves time for faults after it.
    fn new(began: u64, seconds: u64, restores: u64) -> Self {
        let mut steps = Vec::new();
        for number in (1..=restores).rev() {
            let at = seconds * number / (restores + 1);
            steps.push((began + at * 1_000, Step::Restore));
            steps.push((began + at.saturating_sub(BACKUP_AGE) * 1_000, Step::BackUp));
        }
        Self(steps)
    }

    /// What is due, if anything.
    fn next(&mut self) -> Option<Step> {
        self.0.pop_if(|(at, _)| boot_ms() >= *at).map(|(_, step)| step)
    }
}

/// etcd is put back to the backup as the guide has it: every node is stopped first, and what nodes remember is adopted. At
/// times the machine of one node is not at hand: one that was stopped before another, which has all that it has. Callers go
/// on calling all the while.
#[track_caller]
fn restore(cluster: &mut Cluster, journal: &Arc<Journal>, random: &mut Random) {
    let from_ns = journal.now_ns();
    let first = random.below(3) as usize;
    for step in 0..3 {
        cluster.stop_node((first + step) % 3);
    }
    let stopped_ns = journal.now_ns();
    with_members_down(cluster, Member::restore);
    // Nobody goes on with what the store has.
    for place in 0..cluster.nodes.len() {
        assert_ne!(cluster.refused_start(place), 0, "{}", cluster.said_lately());
        let said = cluster.nodes[place].daemon.said();
        assert!(said.contains("tenure cluster adopt"), "{said}");
    }
    let log = cluster.nodes[0].daemon.flag("--log").unwrap().to_owned();
    let away = Some(random.below(4) as usize).filter(|step| *step < 2).map(|step| (first + step) % 3);
    let at_hand = (0..cluster.nodes.len()).filter(|place| Some(*place) != away);
    let directories: Vec<String> =
        at_hand.map(|place| cluster.nodes[place].daemon.data_dir().display().to_string()).collect();
    let mut words = vec!["cluster", "adopt", "--yes", "--log", &log];
    directories.iter().for_each(|directory| words.extend(["--data-dir", directory]));
    if away.is_some() {
        words.extend(["--longest-ttl", LONGEST_TTL]);
    }
    let adopted = cluster.nodes[0].daemon.tenure(&words);
    assert_eq!(adopted.code, 0, "{}{}", adopted.out, adopted.err);
    journal.restored(Restore { from_ns, stopped_ns, until_ns: journal.now_ns() });
    // All of them have to tell what they remember before one leads.
    cluster.nodes.iter_mut().for_each(|node| node.daemon.spawn());
    for place in 0..cluster.nodes.len() {
        cluster.started(place);
    }
    cluster.wait_until_whole();
}

/// A fault on a cluster that nobody uses proves nothing.
#[track_caller]
fn wait_for_load(journal: &Arc<Journal>, cluster: &Cluster) {
    let wanted = journal.served() + SERVED_MIN;
    let deadline = boot_ms() + SERVED_LIMIT.as_millis() as u64;
    wait_until("load", SERVED_LIMIT * 2, || {
        assert!(boot_ms() < deadline, "too little load: the run does not count\n{}", cluster.said_lately());
        journal.served() >= wanted
    });
}

/// Whom a fault befalls.
struct Targets {
    writer: usize,
    follower: usize,
    leading: usize,
    other: usize,
    /// How late replies are, where they are.
    late: Duration,
}

/// What has to be mended.
enum Mending {
    Nothing,
    Start(usize),
    Thaw(usize),
    Heal(usize, Wire),
    Replies(usize),
    StartMember(usize),
    ThawMember(usize),
    HealMember(usize),
}

impl Targets {
    fn choose(cluster: &Cluster, random: &mut Random) -> Self {
        let writer = cluster.wait_for_writer();
        let leading = cluster.leading_member().unwrap_or(random.below(3) as usize);
        Self {
            writer,
            follower: (writer + 1 + random.below(2) as usize) % cluster.nodes.len(),
            leading,
            other: (leading + 1 + random.below(2) as usize) % cluster.members.len(),
            late: Duration::from_millis(50 + random.below(1_500)),
        }
    }
}

impl Fault {
    /// Whether it befalls the store and not a node.
    fn is_of_store(self) -> bool {
        matches!(
            self,
            Self::KillLeadingMember
                | Self::KillMember
                | Self::PauseLeadingMember
                | Self::CutLeadingMember
                | Self::CutMember
        )
    }

    fn begin(self, cluster: &mut Cluster, targets: &Targets) -> Mending {
        let Targets { writer, follower, leading, other, late } = *targets;
        match self {
            Self::KillWriter => kill_node(cluster, writer),
            Self::LoseWriter => {
                cluster.lose_node(writer);
                Mending::Start(writer)
            }
            Self::KillFollower => kill_node(cluster, follower),
            Self::StopWriter => {
                cluster.stop_node(writer);
                Mending::Start(writer)
            }
            Self::PauseWriter => pause_node(cluster, writer),
            Self::PauseFollower => pause_node(cluster, follower),
            Self::CutWriterFromStore => cut_node(cluster, writer, Wire::Store),
            Self::CutFollowerFromStore => cut_node(cluster, follower, Wire::Store),
            Self::CutWriterFromCallers => cut_node(cluster, writer, Wire::Lan),
            Self::CutFollowerFromCallers => cut_node(cluster, follower, Wire::Lan),
            Self::DelayReplies => {
                cluster.set_replies(writer, Replies::Late(late));
                Mending::Replies(writer)
            }
            Self::LoseReplies => {
                cluster.set_replies(writer, Replies::Lost);
                Mending::Replies(writer)
            }
            Self::StepDown => {
                // Whoever is asked: it is passed on. Refused or unanswered, it is a fault that did not happen.
                let _ = cluster.nodes[follower].ask("POST", "/v1/cluster/step-down", &serde_json::json!({}));
                Mending::Nothing
            }
            Self::KillLeadingMember => kill_member(cluster, leading),
            Self::KillMember => kill_member(cluster, other),
            Self::PauseLeadingMember => {
                cluster.members[leading].freeze();
                Mending::ThawMember(leading)
            }
            Self::CutLeadingMember => cut_member(cluster, leading),
            Self::CutMember => cut_member(cluster, other),
            Self::Restore => unreachable!("it has times of its own"),
        }
    }
}

impl Mending {
    #[track_caller]
    fn mend(self, cluster: &mut Cluster) {
        match self {
            Self::Nothing => {}
            Self::Start(node) => cluster.start_node(node),
            Self::Thaw(node) => cluster.thaw_node(node),
            Self::Heal(node, wire) => cluster.heal_node(node, wire),
            Self::Replies(node) => cluster.set_replies(node, Replies::Pass),
            Self::StartMember(member) => {
                cluster.members[member].start();
                cluster.members[member].wait_until_healthy();
            }
            Self::ThawMember(member) => cluster.members[member].thaw(),
            Self::HealMember(member) => cluster.heal_member(member),
        }
    }
}

fn kill_node(cluster: &mut Cluster, place: usize) -> Mending {
    cluster.kill_node(place);
    Mending::Start(place)
}

fn pause_node(cluster: &mut Cluster, place: usize) -> Mending {
    cluster.freeze_node(place);
    Mending::Thaw(place)
}

fn cut_node(cluster: &Cluster, place: usize, wire: Wire) -> Mending {
    cluster.cut_node(place, wire);
    Mending::Heal(place, wire)
}

fn kill_member(cluster: &mut Cluster, place: usize) -> Mending {
    cluster.members[place].kill();
    Mending::StartMember(place)
}

fn cut_member(cluster: &Cluster, place: usize) -> Mending {
    cluster.cut_member(place);
    Mending::HealMember(place)
}

/// Every kind comes once, in an order of chance, before any comes again.
#[derive(Default)]
struct Bag(Vec<Fault>);

impl Bag {
    fn draw(&mut self, random: &mut Random) -> Fault {
        if self.0.is_empty() {
            self.0.extend(ALL);
        }
        self.0.swap_remove(random.below(self.0.len() as u64) as usize)
    }

    /// One that befalls what the other does not.
    fn draw_beside(&mut self, fault: Fault, random: &mut Random) -> Option<Fault> {
        let fitting: Vec<usize> =
            (0..self.0.len()).filter(|place| self.0[*place].is_of_store() != fault.is_of_store()).collect();
        let place = fitting.get(random.below(fitting.len().max(1) as u64) as usize)?;
        Some(self.0.swap_remove(*place))
    }
}

impl Figures {
    /// For each kind of fault: how often it came, and the longest time after one in which nobody was served.
    fn outages(&self) -> BTreeMap<Fault, (usize, u64)> {
        let mut served: Vec<u64> = self
            .history
            .iter()
            .filter(|record| record.is_served())
            .filter_map(|record| record.heard.as_ref().map(|(at, _)| *at))
            .collect();
        served.sort_unstable();
        let mut outages: BTreeMap<Fault, (usize, u64)> = BTreeMap::new();
        for (fault, round, from) in &self.faults {
            let next = self.faults.iter().find(|(_, later, _)| later > round);
            let until = next.map_or(u64::MAX, |(_, _, at)| *at);
            let first = served.partition_point(|at| at < from);
            let during = served[first..].iter().take_while(|at| **at <= until);
            let mut before = *from;
            let mut longest = 0;
            for at in during {
                longest = longest.max(at - before);
                before = *at;
            }
            let outage = outages.entry(*fault).or_default();
            *outage = (outage.0 + 1, outage.1.max(longest));
        }
        outages
    }

    /// Faults, operations and contested grants.
    fn counts(&self) -> [usize; 3] {
        [self.faults.len(), self.report.operations, self.report.changes_of_holder]
    }

    /// Whether every application was contested as often as a run of so many seconds has to come to.
    fn are_all_contested(&self, seconds: u64) -> bool {
        let applications = &self.report.applications;
        let contested_min = (seconds / CONTESTED_EVERY) as usize;
        applications.len() == APPLICATIONS
            && applications.values().all(|counts| counts.changes_of_holder >= contested_min)
    }

    /// The closing line: what a run came to, what it has to come to if it is a long one, and how fast it was.
    fn closing(&self, seconds: u64) -> String {
        let counts = self.counts().into_iter().zip(MINIMA).zip(["faults", "operations", "contested grants"]);
        let counts = counts.map(|((count, minimum), name)| {
            let per_second = count as f64 / seconds as f64;
            format!("{count} {name} ({per_second:.1}/s, {minimum} in {LONG_RUN} s)")
        });
        format!("{seconds} s: {}", counts.collect::<Vec<_>>().join(", "))
    }

    /// Everything there is to find out what went wrong: what the anomalies are about, and not the whole history of half an
    /// hour.
    fn told_whole(&self) -> String {
        let mut text = self.told();
        for (fault, round, at) in &self.faults {
            text += &format!("\nround {round} at {}: {fault:?}", Shown(*at));
        }
        let resources: BTreeSet<&str> =
            self.report.anomalies.iter().map(|anomaly| anomaly.resource.as_str()).collect();
        let is_about = |record: &&Record| match &record.asked {
            Asked::Acquire { resource, .. } | Asked::Check { resource } => {
                resources.contains(resource.as_str())
            }
            _ => self.history.len() < HISTORY_SHOWN_MAX,
        };
        for record in self.history.iter().filter(is_about) {
            text += &format!("\n{record}");
        }
        format!("{text}\n{}", self.said)
    }

    /// One line for everything, one per kind of fault.
    pub(crate) fn told(&self) -> String {
        let mut text = format!("seed {}, {} faults: {}", self.seed, self.faults.len(), self.report);
        for (fault, (count, longest)) in self.outages() {
            text += &format!("\n  {fault:?} × {count}: longest outage {}", Shown(longest));
        }
        text
    }
}

fn number_of(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {text:?}")))
}

#[test]
fn faults_of_all_kinds_leave_no_anomaly() {
    let seconds = number_of("TENURE_CLUSTER_SECONDS").unwrap_or(SECONDS);
    let seed = number_of("TENURE_CLUSTER_SEED").unwrap_or_else(|| boot_ms() % 1_000_000);
    // Told first, so that a run that does not end can be repeated.
    println!("TENURE_CLUSTER_SEED={seed} TENURE_CLUSTER_SECONDS={seconds}");
    let figures = run(seed, seconds, RESTORES_MAX.min(seconds / RESTORE_EVERY));
    println!("{}", figures.told());
    println!("{}", figures.closing(seconds));
    assert!(figures.report.anomalies.is_empty(), "{}", figures.told_whole());
    assert!(figures.report.operations > figures.faults.len() * SERVED_MIN, "{}", figures.told());
    assert!(figures.are_all_contested(seconds), "an application was idle: {}", figures.told());
    if seconds >= LONG_RUN {
        let is_enough = figures.counts().iter().zip(MINIMA).all(|(count, minimum)| *count >= minimum);
        assert!(is_enough, "too little: {}", figures.closing(seconds));
    }
}

#[test]
fn a_restore_under_the_load_of_all_applications_leaves_no_anomaly() {
    let seed = number_of("TENURE_CLUSTER_SEED").unwrap_or_else(|| boot_ms() % 1_000_000);
    println!("TENURE_CLUSTER_SEED={seed}");
    let figures = run(seed, 12, 1);
    println!("{}", figures.told());
    assert!(figures.report.anomalies.is_empty(), "{}", figures.told_whole());
    assert_eq!(figures.report.restores, 1, "{}", figures.told());
}
