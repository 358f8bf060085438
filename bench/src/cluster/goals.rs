//! What nodes on etcd are to reach, as data.

use super::fail_over::Fault;
use super::work::{IDLE, Who};
use crate::peers::figures::{Figure, Figures, Quantity};
use crate::peers::goals::{Bound, Goal, Judged, Measured, Reference, Unit};

/// Acquires through the writer by etcd's own, 256 in flight.
const TIMES_ETCD: f64 = 20.0;
/// Changes that an idle leader makes in every `leader_ttl`.
const CHANGES: f64 = 3.0;
/// What one change in ten seconds comes to in a `leader_ttl` of 3 s: each node writes its own entry so often, and the edges
/// of the time that is measured may hold one change more.
const CHANGES_OF_ONE_IN_TEN_SECONDS: f64 = 0.3;
/// `leader_ttl` × 1.01 + 0.9 s with the default of 3 s.
const LOST_SECONDS: f64 = 3.0 * 1.01 + 0.9;
/// After a resignation.
const RESIGNED_SECONDS: f64 = 0.2;

/// Every promise held against a run with so many live leases each.
pub(crate) fn judge(figures: &Figures, leases: &[u64]) -> Vec<Judged> {
    goals(leases).into_iter().map(|goal| goal.judge(figures)).collect()
}

fn goals(leases: &[u64]) -> Vec<Goal> {
    let (acquire, renew) = ("acquire 8×32", "renew 8×32");
    let mut goals = Vec::new();
    for who in [Who::OneNode, Who::ThreeNodes] {
        let peer = who.as_str();
        let of = |what: &str, quantity| Figure::new(peer, what, quantity);
        let etcd = Figure::new(Who::Etcd.as_str(), acquire, Quantity::Rate);
        goals.push(Goal {
            work: format!("durable acquire, 8 connections × 32 in flight, {peer}"),
            claim: "≥ 20 × etcd's lease and transaction on the same members",
            measured: Measured::Ratio(of(acquire, Quantity::Rate), Reference::One(etcd)),
            bound: Bound::AtLeast(TIMES_ETCD),
        });
        let changes = CHANGES + CHANGES_OF_ONE_IN_TEN_SECONDS * (who.nodes() + 1) as f64;
        for (work, what) in [("idle", IDLE), ("renew, 8 × 32", renew)] {
            goals.push(Goal {
                work: format!("{work}, {peer}"),
                claim: "the leader changes etcd ≤ 3 times in every `leader_ttl`, a node its own entry once in 10 s",
                measured: Measured::Value(of(what, Quantity::Revisions), Unit::Count),
                bound: Bound::AtMost(changes),
            });
        }
        goals.push(Goal {
            work: format!("renew, 8 × 32, {peer}"),
            claim: "etcd's members write less than a byte each",
            measured: Measured::Value(of(renew, Quantity::WrittenEach), Unit::Bytes),
            bound: Bound::AtMost(1.0),
        });
    }
    for &count in leases {
        for fault in Fault::ALL {
            let (claim, seconds) = match fault.is_graceful() {
                true => ("longest ≤ 200 ms", RESIGNED_SECONDS),
                false => ("longest ≤ `leader_ttl` × 1.01 + 0.9 s = 3,930 ms", LOST_SECONDS),
            };
            let work = fault.named(count);
            let longest = Figure::new(Who::ThreeNodes.as_str(), &work, Quantity::Longest);
            goals.push(Goal {
                work: format!("{work} → another serves"),
                claim,
                measured: Measured::Value(longest, Unit::Milliseconds),
                bound: Bound::AtMost(seconds),
            });
        }
    }
    goals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_writer_is_held_against_its_ttl_and_one_that_resigned_against_less() {
        let mut figures = Figures::default();
        for fault in Fault::ALL {
            let what = fault.named(1_000);
            figures.add(0, Figure::new(Who::ThreeNodes.as_str(), &what, Quantity::Longest), 3.5);
        }
        let judged = judge(&figures, &[1_000]);
        let marks: Vec<_> = judged.iter().skip(8).map(|one| one.mark()).collect();
        assert_eq!(marks, ["ok", "ok", "ok", "MISSED", "MISSED"]);
        assert!(judged.iter().take(8).all(|one| one.mark() == "–"));
    }
}
