//! A rolling upgrade: the leader writes what the oldest listed node reads, and newer formats once that node is upgraded or
//! removed.

use serde_json::{Value, json};
use tenure_cluster::pieces::unpack_former;
use tenure_cluster::values::Floor;

use super::growth::{MIB, each_for, keys, told, with_quota, write_all};
use super::harness::{Cluster, LIMIT};
use super::operator::Operator;
use crate::run_support::wait_until;

/// So that a few hundred kilobytes bring a trim.
const QUOTA_BYTES: u64 = 16 * MIB;
/// The newest format of this program.
const NEWEST: u64 = 2;

/// A node that nobody started here: stopped, and not removed.
fn list(operator: &Operator, like: &str, format: Option<u64>) {
    let mut node: Value = operator.value(&keys().node(like));
    node["url"] = json!("http://127.0.0.1:1");
    node["memory"] = json!("older");
    node["snapshot_hash"] = json!(0);
    match format {
        Some(format) => node["format"] = json!(format),
        // What a program of the first format writes.
        None => drop(node.as_object_mut().unwrap().remove("format")),
    }
    operator.put(&keys().node("older"), node.to_string().as_bytes()).unwrap();
}

/// Waits until every node shows this format, as JSON, as a metric and to people.
#[track_caller]
fn wait_for_format(cluster: &Cluster, format: u64) {
    for node in cluster.nodes.iter().filter(|node| node.is_up()) {
        wait_until(&format!("format {format}\n{}", told(cluster)), LIMIT, || {
            node.get("/v1/cluster")["format"] == format
        });
        let page = node.ask("GET", "/metrics", &Value::Null).unwrap();
        let text = String::from_utf8_lossy(&page.body).into_owned();
        assert!(text.contains(&format!("tenure_cluster_format {format}\n")), "{text}");
    }
}

/// Writes until the log was trimmed; whether a program of the first format can load the snapshot, and where it is.
fn trimmed(cluster: &Cluster, operator: &Operator, name: &str) -> (bool, Floor) {
    let before = operator.floor(&keys()).frame;
    write_all(cluster, name, each_for(QUOTA_BYTES / 16), || {});
    wait_until(&format!("a trim\n{}", told(cluster)), LIMIT, || operator.floor(&keys()).frame > before);
    let floor = operator.floor(&keys());
    let (from, to) = keys().pieces(floor.snapshot_lsn);
    let packed: Vec<u8> = operator.range(&from, &to).into_iter().flat_map(|piece| piece.value).collect();
    // As it does: whatever else `floor` says.
    (unpack_former(&packed, floor.snapshot_hash).is_some(), floor)
}

#[test]
fn the_leader_writes_what_the_oldest_listed_node_reads() {
    let mut cluster = with_quota(QUOTA_BYTES);
    let operator = Operator::of(&cluster.members[0]);
    wait_for_format(&cluster, NEWEST);
    list(&operator, cluster.nodes[0].name, None);
    wait_for_format(&cluster, 1);
    let status = cluster.nodes[0].get("/v1/cluster");
    let of = |name: &str| {
        let nodes = status["nodes"].as_array().unwrap();
        nodes.iter().find(|node| node["node"] == name).unwrap()["format"].clone()
    };
    assert_eq!((of("older"), of(cluster.nodes[0].name)), (json!(1), json!(NEWEST)));
    let (is_former, floor) = trimmed(&cluster, &operator, "first");
    assert!(is_former && floor.pieces == 0, "{floor:?}");
    // The next leader keeps to it as well.
    let writer = cluster.wait_for_writer();
    cluster.lose_node(writer);
    wait_until("another leader", LIMIT, || cluster.writer().is_some_and(|now| now != writer));
    let (is_former, floor) = trimmed(&cluster, &operator, "second");
    assert!(is_former && floor.pieces == 0, "{floor:?}");
    cluster.start_node(writer);
    cluster.wait_until_whole();
    // It is upgraded.
    list(&operator, cluster.nodes[0].name, Some(NEWEST));
    wait_for_format(&cluster, NEWEST);
    // A single piece reads the same in both layouts; that pieces are counted tells them apart.
    let (_, floor) = trimmed(&cluster, &operator, "third");
    assert!(floor.pieces > 0, "{floor:?}");
    // It comes back older, and is removed.
    list(&operator, cluster.nodes[0].name, None);
    wait_for_format(&cluster, 1);
    let leader = cluster.wait_for_writer();
    cluster.nodes[leader].post("/v1/cluster/forget", &json!({"node": "older"}));
    wait_for_format(&cluster, NEWEST);
    // What nobody understands may be anything.
    operator.put(&keys().node("older"), b"{}").unwrap();
    wait_for_format(&cluster, 1);
    let warnings = cluster.nodes[leader].get("/v1/cluster")["store"]["warnings"].to_string();
    assert!(warnings.contains("cannot be decoded: older; remove each with"), "{warnings}");
    list(&operator, cluster.nodes[0].name, Some(NEWEST + 1));
    wait_for_format(&cluster, NEWEST);
    let (_, floor) = trimmed(&cluster, &operator, "fourth");
    assert!(floor.pieces > 0, "{floor:?}");
}
