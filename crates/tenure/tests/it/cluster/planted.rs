//! What the checker is worth on a cluster: a node that goes on answering after its authority, by a switch that only
//! builds for tests have, is found out; the same node without it is not.

use std::time::Duration;

use super::caller::{Caller, Journal, Outcome, Terms};
use super::checker::{Report, check};
use super::harness::{Cluster, LIMIT};
use super::history::Heard;
use crate::run_support::{let_time_pass, wait_until};

/// Faults that may pass unnoticed: the old writer may hear that it was succeeded before it says anything.
const TRIES_MAX: usize = 5;
/// Those who ask it the moment it wakes up.
const ASKING: usize = 6;
/// So long that what is asked has arrived.
const ARRIVING: Duration = Duration::from_millis(300);

/// One who writes sleeps; what it knows as somebody's is given back and taken by another one; then it is asked and wakes
/// up.
fn asleep_and_asked(cluster: &mut Cluster, number: usize) -> Report {
    let journal = Journal::begin();
    let mut caller = Caller::new(cluster, &journal);
    let writer = cluster.wait_for_writer();
    let other = (writer + 1) % cluster.nodes.len();
    let (resource, first, next) =
        (format!("contested/{number}"), format!("first-{number}"), format!("next-{number}"));
    let terms = Terms { ttl_ms: 30_000, grace_ms: 0, wait_ms: 0 };
    let taken = caller.acquire(writer, &first, (&resource, &first), &terms);
    let Outcome::Heard(Heard::Granted { lease, fence, .. }, Some(epoch)) = taken else {
        panic!("not granted: {taken:?}\n{}", cluster.said_lately())
    };
    // Connections that stand before it sleeps.
    let mut asking: Vec<Caller> = (0..ASKING).map(|_| Caller::new(cluster, &journal)).collect();
    for (place, caller) in asking.iter_mut().enumerate() {
        caller.check(writer, &format!("before-{number}-{place}"), &resource, fence);
    }
    cluster.freeze_node(writer);
    let mut tries = 0;
    wait_until("the resource in other hands", LIMIT, || {
        caller.release(other, &format!("release-{number}"), &lease, epoch);
        let taken = caller.acquire(other, &format!("{next}-{tries}"), (&resource, &next), &terms);
        // A refusal is remembered for a minute under its operation id; an unknown outcome is asked for again.
        tries += usize::from(matches!(taken, Outcome::Heard(Heard::Held { .. } | Heard::Declined { .. }, _)));
        matches!(taken, Outcome::Heard(Heard::Granted { .. }, _))
    });
    std::thread::scope(|scope| {
        for (place, caller) in asking.iter_mut().enumerate() {
            let (resource, lease) = (&resource, &lease);
            scope.spawn(move || {
                let operation = format!("asked-{number}-{place}");
                if place % 2 == 0 {
                    caller.heartbeat(writer, &operation, lease, epoch);
                } else {
                    caller.check(writer, &operation, resource, fence);
                }
            });
        }
        let_time_pass(ARRIVING, "the requests arrive at a writer that stands still");
        cluster.thaw_node(writer);
    });
    cluster.wait_until_whole();
    check(&journal.records())
}

#[test]
fn a_writer_that_answers_after_its_authority_is_found_out() {
    let mut cluster = Cluster::local_with(&["--writer-ttl", "1s"], ("TENURE_TEST_KEEP_AUTHORITY", "1"));
    for number in 0..TRIES_MAX {
        let report = asleep_and_asked(&mut cluster, number);
        if !report.anomalies.is_empty() {
            println!("found by try {number}: {:?}", report.broken());
            return;
        }
    }
    panic!("a stale writer was asked {TRIES_MAX} times and nobody noticed\n{}", cluster.said_lately());
}

#[test]
fn a_writer_that_keeps_to_its_authority_is_not_blamed() {
    let mut cluster = Cluster::local(&["--writer-ttl", "1s"]);
    let report = asleep_and_asked(&mut cluster, 0);
    assert!(report.anomalies.is_empty(), "{report}");
}
