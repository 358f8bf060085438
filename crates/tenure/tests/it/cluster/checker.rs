//! Judges a history: what the callers of a cluster asked and heard must fit one register per resource, held by one
//! lease at a time, that becomes free by a release or after the holder's last promise.
//!
//! Fences order the leases of a resource, so no search is needed. Each lease has three instants (granted, authority
//! over, resource free), in the order of the fences one chain; every answer bounds some of them from one side, and
//! the history is linearizable exactly if the bounds leave room and no answer "nobody" falls inside a lease's span.
//!
//! Applications are judged by the same rules, with what they promise:
//! - a holder on a connection may act for `valid_ms` of its grant and of its own heartbeats there. Its close ends the
//!   authority; a connection that the node ends, or that ends with the node, excuses nothing.
//! - a slot of a pool is a resource, whichever session of `/api/v3` has it. Which one a start gets, its answer tells.
//! - an advertised name is a resource. Registrations have no `valid_ms`: one must not end within the lease that it was
//!   told, counted from before the proof of life, except that its registrant ends it, and then the name comes free later.
//! - a target of pollers is held by one session after the other under one lease. Each epoch is a lease here: a hand-over
//!   ends one and grants the next in one step. A heartbeat of the session counts for everything that it kept when it
//!   was sent, except what the answer names as ended.
//!
//! A restore of etcd, adopted with the data directories of all nodes (`Restore`), ends every lease that was granted
//! before, and no promise: a holder may act until its promise is over, so nobody else is granted the resource before.
//! Between the stop of the last node and the adoption nobody is served. Fences after it are above all before it, on
//! whichever resource. What was acknowledged before is known after: a release stays a release, and what became of the
//! old id of a lease that was held is told. (What had ended before is in no history after it: record 0044.)

mod applications;
mod bounds;
mod generated;
mod hand_written;
mod knowledge;
mod restored;
mod searched;

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};

use super::history::{Application, Asked, Heard, Record, Restore, Shown};
use bounds::{Bound, Edge};
use knowledge::{Knowledge, Known};

/// What was looked at, and what was wrong.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) operations: usize,
    pub(crate) tries: usize,
    /// Tries whose outcome was never heard.
    pub(crate) unknown: usize,
    /// Acquires and releases whose last try was not answered.
    pub(crate) unresolved: usize,
    pub(crate) leases: usize,
    pub(crate) changes_of_holder: usize,
    pub(crate) restores: usize,
    pub(crate) applications: BTreeMap<Application, Counts>,
    pub(crate) anomalies: Vec<Anomaly>,
}

/// What was looked at of one application.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) operations: usize,
    pub(crate) changes_of_holder: usize,
}

/// Something that must not happen.
#[derive(Clone, Debug)]
pub(crate) struct Anomaly {
    pub(crate) rule: Rule,
    /// Empty where no resource is known.
    pub(crate) resource: String,
    pub(crate) story: String,
}

/// What was broken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rule {
    /// One operation id never gives two leases.
    OneOperationOneLease,
    /// Nothing is held that nobody asked for.
    NothingFromNowhere,
    /// A later holder has a higher fence.
    FencesRise,
    /// No two holders may act at once.
    PromisesNeverOverlap,
    /// No authority ends within its promise unless its holder gave it back.
    PromisesAreKept,
    /// What was acknowledged is there, or ended for a reason that fits.
    NothingIsLost,
    /// Nothing that was granted before a restore has authority after it, and nobody is served on a store that was put
    /// back and not adopted.
    RestoresEndEverything,
    /// All answers fit one order of events that agrees with the clock.
    Linearizable,
}

/// Judges everything that happened without a restore.
pub(crate) fn check(history: &[Record]) -> Report {
    check_with(history, &[])
}

/// Judges everything.
pub(crate) fn check_with(history: &[Record], restores: &[Restore]) -> Report {
    let knowledge = Knowledge::of(history, restores);
    let mut report = Report {
        tries: history.len(),
        leases: knowledge.leases.len(),
        restores: restores.len(),
        ..Report::default()
    };
    let mut operations: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for record in history {
        operations.entry(&record.operation).or_default().push(record);
    }
    report.operations = operations.len();
    report.unknown = history.iter().filter(|record| !record.is_answered()).count();
    report.unresolved = operations.values().filter(|tries| is_unresolved(tries)).count();
    for tries in operations.values() {
        let application = application_of(tries[0], &knowledge);
        report.applications.entry(application).or_default().operations += 1;
    }
    report.anomalies.extend(knowledge.anomalies.iter().cloned());
    for (resource, chain) in knowledge.chains() {
        let changes = chain.len().saturating_sub(1);
        report.changes_of_holder += changes;
        report.applications.entry(Application::of(resource)).or_default().changes_of_holder += changes;
        report.anomalies.extend(check_fences(history, resource, &chain));
        report.anomalies.extend(check_windows(history, resource, &chain));
        report.anomalies.extend(check_order(history, resource, &chain));
    }
    for restore in restores {
        report.anomalies.extend(check_silence(history, restore));
        report.anomalies.extend(check_fences_over(restore, &knowledge));
    }
    report
}

fn application_of(record: &Record, knowledge: &Knowledge) -> Application {
    match &record.asked {
        Asked::Acquire { resource, .. } | Asked::Check { resource } => Application::of(resource),
        Asked::Heartbeat { lease }
        | Asked::Release { lease }
        | Asked::GiveUp { lease }
        | Asked::Inspect { lease } => {
            knowledge.lease(lease).map_or(Application::Leases, |known| Application::of(&known.resource))
        }
    }
}

/// Nobody is served on a store that was put back and not adopted.
fn check_silence(history: &[Record], restore: &Restore) -> Vec<Anomaly> {
    let served = history.iter().filter(|record| record.is_served() && record.sent_ns > restore.stopped_ns);
    let early = served.filter(|record| record.heard.as_ref().is_some_and(|(at, _)| *at < restore.until_ns));
    let anomaly = |record: &Record| Anomaly {
        rule: Rule::RestoresEndEverything,
        resource: String::new(),
        story: format!("answered before the store was adopted\n  {record}"),
    };
    early.map(anomaly).collect()
}

/// Every fence after a restore is above every fence before it.
fn check_fences_over(restore: &Restore, knowledge: &Knowledge) -> Option<Anomaly> {
    let all = knowledge.leases.values().filter(|known| known.fence.is_some());
    let before = all
        .clone()
        .filter(|known| known.granted.latest().is_some_and(|latest| latest.at_ns < restore.from_ns))
        .max_by_key(|known| known.fence)?;
    let after = all
        .filter(|known| known.granted.earliest().at_ns > restore.until_ns)
        .min_by_key(|known| known.fence)?;
    (after.fence <= before.fence).then(|| Anomaly {
        rule: Rule::FencesRise,
        resource: after.resource.clone(),
        story: format!(
            "{} over {} was granted before a restore, {} after it",
            before.shown(),
            before.resource,
            after.shown()
        ),
    })
}

/// Only what changes something has an outcome to resolve.
fn is_unresolved(tries: &[&Record]) -> bool {
    // A close of a connection is a `GiveUp` too, and has no answer.
    let changes = matches!(tries[0].asked, Asked::Acquire { .. } | Asked::Release { .. });
    changes && tries.last().is_some_and(|last| !last.is_answered())
}

/// Whoever was granted a resource after somebody else was told of his grant has the higher fence.
fn check_fences(history: &[Record], resource: &str, chain: &[&Known]) -> Vec<Anomaly> {
    let mut anomalies = Vec::new();
    for pair in chain.windows(2) {
        if pair[0].fence == pair[1].fence {
            let story = format!("{} and {} have the same fence", pair[0].shown(), pair[1].shown());
            anomalies.push(Anomaly { rule: Rule::FencesRise, resource: resource.to_owned(), story });
        }
    }
    // The chain is in order of fences: a later element must not have been over before an earlier one was asked for.
    let mut asked_last: Option<&Known> = None;
    for later in chain {
        let acknowledged = later.granted.latest();
        let wrong = asked_last
            .zip(acknowledged)
            .filter(|(earlier, acknowledged)| earlier.granted.earliest().at_ns > acknowledged.at_ns);
        if let Some((earlier, acknowledged)) = wrong {
            let story = format!(
                "{} was granted after {}, with a lower fence\n  {}\n  {}",
                earlier.shown(),
                later.shown(),
                acknowledged.told(history),
                earlier.granted.earliest().told(history),
            );
            anomalies.push(Anomaly { rule: Rule::FencesRise, resource: resource.to_owned(), story });
        }
        let asked_ns = |known: &Known| known.granted.earliest().at_ns;
        if asked_last.is_none_or(|last| asked_ns(later) > asked_ns(last)) {
            asked_last = Some(later);
        }
    }
    anomalies
}

/// Two holders who believe at the same time that they may act.
fn check_windows(history: &[Record], resource: &str, chain: &[&Known]) -> Vec<Anomaly> {
    let mut windows: Vec<(&Known, u64, u64)> =
        chain.iter().filter_map(|known| known.window().map(|(from, until)| (*known, from, until))).collect();
    windows.sort_by_key(|(_, from, _)| *from);
    let mut anomalies = Vec::new();
    let mut longest: Option<(&Known, u64, u64)> = None;
    for window in windows {
        if let Some(before) = longest.filter(|before| before.2 > window.1) {
            let story = format!(
                "{} may act from {} to {}, {} from {} to {}: both for {}{}{}",
                before.0.shown(),
                Shown(before.1),
                Shown(before.2),
                window.0.shown(),
                Shown(window.1),
                Shown(window.2),
                Shown(before.2.min(window.2) - window.1),
                before.0.stories(history),
                window.0.stories(history),
            );
            let rule = Rule::PromisesNeverOverlap;
            anomalies.push(Anomaly { rule, resource: resource.to_owned(), story });
        }
        if longest.is_none_or(|before| window.2 > before.2) {
            longest = Some(window);
        }
    }
    anomalies
}

/// Linearizability: bounds are carried along the chain; where none is left, two answers contradict each other.
fn check_order(history: &[Record], resource: &str, chain: &[&Known]) -> Vec<Anomaly> {
    let mut links: Vec<(usize, Edge, Bound)> = Vec::new();
    for (place, known) in chain.iter().enumerate() {
        for edge in [Edge::Granted, Edge::Over, Edge::Free] {
            links.push((place, edge, known.edge(edge).clone()));
        }
    }
    for at in 1..links.len() {
        let before = links[at - 1].2.earliest();
        links[at].2.not_before(before);
    }
    for at in (1..links.len()).rev() {
        if let Some(after) = links[at].2.latest() {
            links[at - 1].2.not_after(after);
        }
    }
    let mut anomalies: Vec<Anomaly> = Vec::new();
    let mut told = Vec::new();
    for (place, edge, bound) in &links {
        let (earliest, Some(latest)) = (bound.earliest(), bound.latest()) else { continue };
        // One contradiction spoils the bounds of everything between its two ends; it is told once.
        if earliest.at_ns <= latest.at_ns || told.contains(&(earliest.record, latest.record)) {
            continue;
        }
        told.push((earliest.record, latest.record));
        let known = chain[*place];
        // A contradiction within one lease, with nobody else's help.
        let own = [Edge::Over, Edge::Free].map(|edge| known.edge(edge).latest().and_then(|own| own.record));
        let is_promise = earliest.is_promise && own.contains(&latest.record);
        let story = format!(
            "{}: {edge} not before {}, but by {}\n  {}\n  {}",
            known.shown(),
            Shown(earliest.at_ns),
            Shown(latest.at_ns),
            earliest.told(history),
            latest.told(history),
        );
        let rule = match (latest.record, is_promise) {
            (None, _) => Rule::RestoresEndEverything,
            (_, true) => Rule::PromisesAreKept,
            (_, false) => Rule::Linearizable,
        };
        anomalies.push(Anomaly { rule, resource: resource.to_owned(), story });
    }
    if anomalies.is_empty() {
        anomalies.extend(check_nobody(history, resource, chain, &links));
    }
    anomalies
}

/// An answer "nobody has authority" needs an instant between two leases.
fn check_nobody(
    history: &[Record],
    resource: &str,
    chain: &[&Known],
    links: &[(usize, Edge, Bound)],
) -> Vec<Anomaly> {
    // What each lease certainly covers, whatever instants are chosen for all of them.
    let spans: Vec<(usize, u64, u64)> = links
        .chunks(3)
        .filter_map(|link| {
            let from = link[0].2.latest()?.at_ns;
            let until = link[1].2.earliest().at_ns;
            (from < until).then_some((link[0].0, from, until))
        })
        .collect();
    let mut anomalies = Vec::new();
    for record in history {
        let (Asked::Check { resource: asked }, Some((heard_ns, Heard::Authority(None)))) =
            (&record.asked, &record.heard)
        else {
            continue;
        };
        if asked != resource {
            continue;
        }
        // Spans do not overlap: the last that begins before the question is the only one that can cover it.
        let place = spans.partition_point(|(_, from, _)| *from < record.sent_ns);
        let Some((place, from, until)) = place.checked_sub(1).map(|place| spans[place]) else { continue };
        if until > *heard_ns {
            let story = format!(
                "nobody had authority, but {} had it from {} to {} at least\n  {record}{}",
                chain[place].shown(),
                Shown(from),
                Shown(until),
                chain[place].stories(history),
            );
            anomalies.push(Anomaly { rule: Rule::Linearizable, resource: resource.to_owned(), story });
        }
    }
    anomalies
}

impl Report {
    /// Rules that were broken, each once.
    pub(crate) fn broken(&self) -> Vec<Rule> {
        let mut rules: Vec<Rule> = self.anomalies.iter().map(|anomaly| anomaly.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} operations in {} tries, {} tries without an answer, {} operations unresolved, {} leases, \
             {} changes of holder, {} restores, {} anomalies (operations, changes of holder:",
            self.operations,
            self.tries,
            self.unknown,
            self.unresolved,
            self.leases,
            self.changes_of_holder,
            self.restores,
            self.anomalies.len()
        )?;
        for (application, counts) in &self.applications {
            write!(f, " {application:?} {}, {};", counts.operations, counts.changes_of_holder)?;
        }
        f.write_str(")")?;
        for anomaly in &self.anomalies {
            write!(f, "\n{:?} {}: {}", anomaly.rule, anomaly.resource, anomaly.story)?;
        }
        Ok(())
    }
}
