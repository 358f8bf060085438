//! A node that comes when the store has let go of frames begins with a snapshot, and has the past all the same: it brings
//! what came before from the other nodes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tenure_cluster::Keys;

use super::harness::{Cluster, LIMIT, Node};
use super::operator::Operator;
use super::proxy::Replies;
use crate::daemon::Daemon;
use crate::raw_events::Events;
use crate::run_support::wait_until;

/// So small that a snapshot is due after half a mebibyte of frames.
const QUOTA_BYTES: &str = "16777216";
/// Several of them lie before the snapshot.
const SEGMENT_BYTES: &str = "256KiB";
const ATTACHMENT_BYTES: usize = 3_500;
/// Far more than it takes until frames go.
const LEASES_MAX: usize = 2_000;

fn take(node: &Node, resource: &str) -> Value {
    let attachment = "#".repeat(ATTACHMENT_BYTES);
    let wish =
        json!({"resources": [resource], "holder": "alice", "ttl_ms": 600_000, "attachment": attachment});
    node.post("/v1/leases", &wish)
}

fn give_back(node: &Node, lease: &Value) {
    let path = format!("/v1/leases/{}/release", lease["lease_id"].as_str().unwrap());
    node.post(&path, &json!({"epoch": lease["epoch"]}));
}

/// What a node itself knows of a lease; `None`: nothing.
fn story(node: &Node, lease: &Value) -> Option<Value> {
    let path = format!("/v1/why?lease={}&consistency=stale", lease["lease_id"].as_str().unwrap());
    let answered = node.ask("GET", &path, &Value::Null).unwrap();
    (answered.status == 200).then(|| answered.json())
}

/// Every event up to the first one of a lease, as a node tells them.
fn events(node: &Node, query: &str, upto: &Value) -> Vec<Value> {
    let http = node.connect(Duration::from_secs(10)).unwrap();
    let mut stream = Events::begin(http, query);
    let mut told: Vec<Value> = Vec::new();
    while told.last().is_none_or(|last| last["lease"]["lease_id"] != upto["lease_id"]) {
        let event = stream.next().unwrap();
        assert!(event.data["lsn"].is_u64(), "{event:?}");
        told.push(event.data);
    }
    told
}

/// Turns a bit in a segment over, or back.
fn flip(data_dir: &Path, segment: u64) {
    let path = data_dir.join("log").join(format!("{segment:020}.seg"));
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 5_000).unwrap();
    byte[0] ^= 1;
    file.write_all_at(&byte, 5_000).unwrap();
}

/// A cluster of two nodes whose store has let go of frames, and leases from before and after.
struct Long {
    cluster: Cluster,
    /// Ended long before the snapshot.
    early: Value,
    /// The last thing that happened.
    last: Value,
    leases: usize,
    snapshot_lsn: u64,
}

fn begun() -> Cluster {
    let flags = ["--writer-ttl", "1s", "--log-segment-bytes", SEGMENT_BYTES];
    Cluster::on_one_member(&flags, &["--quota-backend-bytes", QUOTA_BYTES])
}

fn long(cluster: Cluster, leases_min: usize) -> Long {
    let (operator, keys) = (Operator::of(&cluster.members[0]), Keys::under("test"));
    // Whichever leads: it may be the one that is cut off, until another one does.
    let writer = &cluster.nodes[0];
    let early = take(&cluster.nodes[0], "early");
    give_back(&cluster.nodes[1], &early);
    let mut leases = 1;
    while leases < leases_min || operator.floor(&keys).frame == 1 {
        give_back(writer, &take(writer, &format!("more/{leases}")));
        leases += 1;
        assert!(leases < LEASES_MAX, "nothing is trimmed\n{}", cluster.said_lately());
    }
    let last = take(writer, "last");
    let snapshot_lsn = operator.floor(&keys).snapshot_lsn;
    Long { cluster, early, last, leases, snapshot_lsn }
}

#[test]
fn a_node_that_begins_with_a_snapshot_brings_the_past_from_others() {
    let Long { mut cluster, early, last, leases, snapshot_lsn } = long(begun(), 0);
    println!("{leases} leases; the snapshot is at lsn {snapshot_lsn}");
    // Nobody but a node is given any of it.
    for path in ["/v1/cluster/segments", "/v1/cluster/segments/1", "/v1/cluster/events?from=0"] {
        assert_eq!(cluster.nodes[0].ask("GET", path, &Value::Null).unwrap().status, 401, "{path}");
    }

    // What is damaged there is not taken.
    cluster.nodes[..2].iter().for_each(|node| flip(&node.daemon.data_dir(), 1));
    cluster.start_node(2);
    cluster.wait_until_whole();
    let new = &cluster.nodes[2];
    wait_until("a word about each damaged segment", LIMIT, || {
        let said = new.daemon.said();
        let lines = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let warnings = lines.filter(|line| line["level"] == "WARN" && line["segment"] == 1);
        let named: Vec<Value> = warnings.map(|line| line["node"].clone()).collect();
        ["a", "b"].iter().all(|node| named.iter().any(|name| name == node))
    });
    // Segments that are sound have come before that one.
    let known = story(new, &last).unwrap();
    let oldest_lsn = known["oldest_lsn"].as_u64().unwrap();
    assert!((2..=snapshot_lsn).contains(&oldest_lsn), "{known}");
    assert_eq!(story(new, &early), None);

    cluster.nodes[..2].iter().for_each(|node| flip(&node.daemon.data_dir(), 1));
    wait_until("the past", LIMIT, || story(new, &early).is_some());
    let other = &cluster.nodes[0];
    let told = story(other, &early).unwrap();
    assert_eq!(told["entries"].as_array().unwrap().len(), 2, "{told}");
    assert_eq!(story(new, &early), Some(told.clone()));
    let everything = events(other, "?from=0", &last);
    assert!(everything.len() > 2 * leases);
    assert_eq!(events(new, "?from=0", &last), everything);

    // It is this node's own by now, and sound.
    cluster.stop_node(2);
    let verified = cluster.nodes[2].daemon.tenure(&["log", "verify", "DIR/data"]);
    println!("{}", verified.all());
    assert_eq!(verified.code, 0, "{}", verified.all());
    cluster.start_node(2);
    cluster.wait_until_whole();
    assert_eq!(story(&cluster.nodes[2], &early), Some(told));
}

#[test]
fn events_from_before_a_nodes_own_history_are_told_by_a_node_that_has_them() {
    // More than the new node keeps, even without the oldest segment.
    let Long { mut cluster, early, last, .. } = long(begun(), 450);
    let new = &mut cluster.nodes[2];
    let daemon = std::mem::replace(&mut new.daemon, Daemon::prepared(&[]));
    new.daemon = daemon.with_variable("TENURE_HISTORY_BYTES", "1MiB");
    cluster.start_node(2);
    cluster.wait_until_whole();
    let [other, _, new] = &cluster.nodes[..] else { panic!("three nodes") };
    let everything = events(other, "?from=0", &last);
    assert_eq!(events(new, "?from=0", &last), everything);
    // It has not brought them itself meanwhile.
    assert!(story(new, &last).unwrap()["oldest_lsn"].as_u64().unwrap() > 1);
    let begun = events(new, "?from=0&resource_prefix=early&state=released", &early);
    assert_eq!((begun.len(), &begun[0]["kind"]), (1, &json!("released")), "{begun:?}");

    // Nobody has it any more.
    cluster.kill_node(0);
    cluster.kill_node(1);
    let refused = cluster.nodes[2].ask("GET", "/v1/events?from=0", &Value::Null).unwrap();
    assert_eq!(refused.refusal(), (410, "lsn_trimmed".to_owned()));
}

#[test]
fn a_node_that_was_cut_off_while_frames_went_has_the_past_again() {
    let mut cluster = begun();
    cluster.start_node(2);
    cluster.wait_until_whole();
    cluster.set_replies(2, Replies::Lost);
    let Long { cluster, early, last, .. } = long(cluster, 0);
    cluster.set_replies(2, Replies::Pass);
    let new = &cluster.nodes[2];
    wait_until(&format!("a copy that is made again: {}", new.daemon.said()), LIMIT, || {
        new.daemon.said().contains("rebuilding the local log")
    });
    wait_until("the past", LIMIT, || {
        let known = new.view().is_some_and(|view| view["lag_lsn"] == 0);
        known && story(new, &early).is_some()
    });
    assert_eq!(story(new, &early), story(&cluster.nodes[0], &early));
    assert_eq!(events(new, "?from=0", &last), events(&cluster.nodes[0], "?from=0", &last));
}
