//! Nodes compare their states where the log is trimmed: they come to the same one; one that differs is named, nothing is
//! trimmed while it is there, and it does not lead.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tenure_cluster::values::{Floor, Node, encode};
use tenure_log::snapshot::{decode, place};
use tenure_log::{RealDisk, SharedDisk};

use super::growth::{MIB, each_for, keys, told, with_quota, write_all};
use super::harness::{Cluster, LIMIT};
use super::operator::Operator;
use crate::run_support::{holds_for, wait_until};

/// So that a few hundred kilobytes bring a trim.
const QUOTA_BYTES: u64 = 16 * MIB;

/// Writes until the log was trimmed, and waits until these nodes have hashed their states there.
fn trimmed(cluster: &Cluster, operator: &Operator, name: &str) -> Floor {
    let before = operator.floor(&keys()).frame;
    write_all(cluster, name, each_for(QUOTA_BYTES / 16), || {});
    wait_until(&format!("a trim\n{}", told(cluster)), LIMIT, || operator.floor(&keys()).frame > before);
    let told_of = |node: &str| -> Node { operator.value(&keys().node(node)) };
    let mut floor = operator.floor(&keys());
    wait_until(&format!("states that were compared\n{}", told(cluster)), LIMIT, || {
        floor = operator.floor(&keys());
        let up = cluster.nodes.iter().filter(|node| node.is_up());
        up.map(|node| told_of(node.name))
            .all(|node| (node.snapshot_lsn, node.snapshot_hash != 0) == (floor.snapshot_lsn, true))
    });
    floor
}

fn warnings(cluster: &Cluster, node: usize) -> String {
    let status = cluster.nodes[node].get("/v1/cluster");
    let warnings = status["store"]["warnings"].as_array().cloned().unwrap_or_default();
    warnings.iter().filter_map(Value::as_str).collect::<Vec<&str>>().join("\n")
}

#[test]
fn nodes_come_to_the_same_state_and_one_that_differs_stops_trimming() {
    let cluster = with_quota(QUOTA_BYTES);
    let operator = Operator::of(&cluster.members[0]);
    let floor = trimmed(&cluster, &operator, "first");
    for node in cluster.nodes.iter().filter(|node| node.is_up()) {
        let told: Node = operator.value(&keys().node(node.name));
        assert_eq!(told.snapshot_hash, floor.snapshot_hash, "{}", node.name);
    }
    // A node that nobody started here tells of another state, where the log begins: a trim may still be under way.
    let mut ghost: Node = operator.value(&keys().node(cluster.nodes[0].name));
    (ghost.snapshot_lsn, ghost.memory) = (0, "ghost".to_owned());
    ghost.url = "http://127.0.0.1:1".to_owned();
    let mut floor = floor;
    wait_until(&format!("the name of the one that differs\n{}", told(&cluster)), LIMIT, || {
        floor = operator.floor(&keys());
        if ghost.snapshot_lsn != floor.snapshot_lsn {
            (ghost.snapshot_lsn, ghost.snapshot_hash) = (floor.snapshot_lsn, floor.snapshot_hash ^ 1);
            operator.put(&keys().node("ghost"), &encode(&ghost)).unwrap();
        }
        [0, 1].iter().all(|node| warnings(&cluster, *node).contains("differs on ghost"))
    });
    for node in [0, 1] {
        let page = cluster.nodes[node].ask("GET", "/metrics", &Value::Null).unwrap();
        let text = String::from_utf8_lossy(&page.body);
        assert!(text.contains("tenure_cluster_nodes_differing 1"), "{text}");
    }
    write_all(&cluster, "second", each_for(QUOTA_BYTES / 16), || {});
    let stands = holds_for(Duration::from_secs(2), || operator.floor(&keys()) == floor);
    assert!(stands, "trimmed although a node differs: {floor:?}\n{}", told(&cluster));
    // Struck off, it keeps nobody from anything.
    let writer = cluster.wait_for_writer();
    cluster.nodes[writer].post("/v1/cluster/forget", &json!({"node": "ghost"}));
    wait_until(&format!("a trim\n{}", told(&cluster)), LIMIT, || operator.floor(&keys()).frame > floor.frame);
    wait_until("no more warnings", LIMIT, || !warnings(&cluster, 0).contains("differs"));
}

/// For three times as long as any node would wait with its claim.
#[track_caller]
fn assert_does_not_lead(cluster: &Cluster, node: usize) {
    let follows = holds_for(Duration::from_secs(4), || cluster.writer().is_none());
    assert!(follows, "{} leads\n{}", cluster.nodes[node].name, told(cluster));
}

#[test]
fn a_node_that_differs_does_not_lead() {
    let mut cluster = with_quota(QUOTA_BYTES);
    let operator = Operator::of(&cluster.members[0]);
    let mut floor = trimmed(&cluster, &operator, "first");
    let mut other = floor;
    let writer = cluster.wait_for_writer();
    let follower = 1 - writer;
    let name = cluster.nodes[follower].name;
    wait_until(&format!("its own name\n{}", told(&cluster)), LIMIT, || {
        // A trim may still be under way: what it names counts.
        let stands = operator.floor(&keys());
        if stands != other || stands == floor {
            (floor, other) = (stands, Floor { snapshot_hash: stands.snapshot_hash ^ 1, ..stands });
            operator.replace(&keys().floor(), &encode(&floor), &encode(&other));
        }
        warnings(&cluster, follower).contains("differs on") && warnings(&cluster, follower).contains(name)
    });
    cluster.kill_node(writer);
    assert_does_not_lead(&cluster, follower);
    // Also after a restart, with nobody to wait for: it told the others.
    cluster.kill_node(follower);
    cluster.start_node(follower);
    cluster.nodes[follower].post("/v1/cluster/forget", &json!({"node": cluster.nodes[writer].name}));
    wait_until(&format!("its own name\n{}", told(&cluster)), LIMIT, || {
        cluster.nodes[follower].said_since_start().contains("this node may lead")
            && warnings(&cluster, follower).contains("differs on")
    });
    assert_does_not_lead(&cluster, follower);
    operator.put(&keys().floor(), &encode(&floor)).unwrap();
    cluster.start_node(writer);
    cluster.wait_for_writer();
}

/// Puts another word of the same length into the newest snapshot of a node that does not run, and removes the others.
fn change_snapshot(data_dir: &Path, before: &str, after: &str) {
    let directory = data_dir.join("snapshots");
    let mut files: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let file = fs::read(files.last().unwrap()).unwrap();
    let (header, state) = decode(&file).unwrap();
    let at = state.windows(before.len()).position(|window| window == before.as_bytes()).unwrap();
    let mut state = state.to_vec();
    state[at..at + after.len()].copy_from_slice(after.as_bytes());
    files.iter().for_each(|file| fs::remove_file(file).unwrap());
    let disk: SharedDisk = Arc::new(RealDisk);
    place(&disk, data_dir, header.log_id, header.lsn, header.at, &state).unwrap();
}

#[test]
fn a_follower_whose_state_is_another_is_named_and_nothing_more_is_trimmed_until_it_begins_again() {
    let mut cluster = with_quota(QUOTA_BYTES);
    let operator = Operator::of(&cluster.members[0]);
    let body = json!({"resources": ["r"], "holder": "alice", "ttl_ms": 600_000});
    let lease = cluster.nodes[0].post("/v1/leases", &body);
    trimmed(&cluster, &operator, "first");
    let leader = cluster.wait_for_writer();
    let follower = 1 - leader;
    let name = cluster.nodes[follower].name;
    cluster.stop_node(follower);
    let data_dir = cluster.nodes[follower].daemon.data_dir();
    change_snapshot(&data_dir, "alice", "mally");
    cluster.start_node(follower);
    cluster.wait_until_whole();
    assert_eq!(cluster.writer(), Some(leader));
    let path = format!("/v1/leases/{}?consistency=stale", lease["lease_id"].as_str().unwrap());
    let holders = [leader, follower].map(|node| cluster.nodes[node].get(&path)["holder"].clone());
    assert_eq!(holders, ["alice", "mally"]);
    let before = operator.floor(&keys());
    write_all(&cluster, "second", each_for(QUOTA_BYTES / 16), || {});
    for node in [leader, follower] {
        wait_until(&format!("the name of the one that differs\n{}", told(&cluster)), LIMIT, || {
            warnings(&cluster, node).contains(&format!("differs on {name}:"))
        });
        assert!(cluster.nodes[node].daemon.said().contains("states of nodes differ"));
    }
    let floor = operator.floor(&keys());
    assert!(floor.frame > before.frame, "it is found where the log is trimmed");
    write_all(&cluster, "third", each_for(QUOTA_BYTES / 16), || {});
    let stands = holds_for(Duration::from_secs(2), || operator.floor(&keys()) == floor);
    assert!(stands, "trimmed although a node differs: {floor:?}\n{}", told(&cluster));
    // What the guide says.
    cluster.stop_node(follower);
    fs::rename(&data_dir, data_dir.with_extension("kept")).unwrap();
    cluster.start_node(follower);
    cluster.wait_until_whole();
    assert_eq!(cluster.nodes[follower].get(&path)["holder"], "alice");
    wait_until(&format!("a trim\n{}", told(&cluster)), LIMIT, || operator.floor(&keys()).frame > floor.frame);
    wait_until("no more warnings", LIMIT, || {
        [leader, follower].iter().all(|node| !warnings(&cluster, *node).contains("differs"))
    });
}
