//! What a cluster tells operators of its own troubles: a store that does not answer, a node that is gone.

use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{Cluster, LIMIT, Node, done};
use super::store::Member;
use crate::run_support::{assert_within, boot_ms, wait_until};

/// It is told within two seconds; no machine is so busy that it takes much longer.
const TOLD_MS: (u64, u64) = (2_000, 8_000);
/// What needs neither store nor writer.
const AT_ONCE: Duration = Duration::from_secs(2);

fn ready(node: &Node) -> Option<(u16, String)> {
    let answered = node.ask_within(AT_ONCE, "GET", "/readyz", &Value::Null).ok()?;
    (answered.status != 200).then(|| answered.refusal())
}

fn silent_seconds(node: &Node) -> f64 {
    let Ok(page) = node.ask_within(AT_ONCE, "GET", "/metrics", &Value::Null) else { return 0.0 };
    let page = page.text();
    let line = page.lines().find_map(|line| line.strip_prefix("tenure_cluster_store_silent_seconds "));
    line.and_then(|seconds| seconds.parse().ok()).unwrap_or(0.0)
}

/// Whether a node says in every way that the store does not answer.
fn tells(node: &Node) -> bool {
    let is_shown = node.view().is_some_and(|view| view["store"]["silent"]["since"].is_string());
    is_shown && ready(node) == Some((503, "store_silent".to_owned())) && silent_seconds(node) > 0.0
}

// Nobody said so: the store looked well, followers were ready, the former writer's stale reads waited for 12 s.
#[test]
fn every_node_tells_that_the_store_is_silent_and_answers_stale_reads() {
    let cluster = Cluster::local(&[]);
    let writer = cluster.wait_for_writer();
    let [follower, _] = cluster.followers();
    let body = json!({"resources": ["kept"], "holder": "alice", "ttl_ms": 60_000});
    let lease = cluster.nodes[writer].post("/v1/leases", &body);
    let id = lease["lease_id"].as_str().unwrap();
    cluster.members.iter().for_each(Member::freeze);
    let frozen_ms = boot_ms();
    // A frame that cannot be committed: what the writer has decided by itself is never shown.
    let mut unheard = cluster.nodes[writer].connect(LIMIT).unwrap();
    let wish = json!({"resources": ["lost"], "holder": "bob", "ttl_ms": 60_000});
    unheard.send("POST", "/v1/leases", wish.to_string().as_bytes()).unwrap();
    let told_ms = told_by_all_ms(&cluster, frozen_ms);

    let stale = format!("/v1/leases/{id}?consistency=stale");
    wait_until("stale reads at every node", Duration::from_secs(8), || {
        cluster
            .nodes
            .iter()
            .all(|node| done(&node.ask_within(AT_ONCE, "GET", &stale, &Value::Null)).is_some())
    });
    println!("stale reads everywhere after {} ms", boot_ms() - frozen_ms);
    for node in &cluster.nodes {
        let began_ms = boot_ms();
        let list = node.get("/v1/leases?consistency=stale");
        let listed: Vec<&Value> =
            list["leases"].as_array().unwrap().iter().map(|lease| &lease["lease_id"]).collect();
        assert_eq!(listed, [&lease["lease_id"]], "{}: {list}", node.name);
        assert!(node.get("/v1/status")["pid"].is_number());
        assert!(boot_ms() - began_ms < AT_ONCE.as_millis() as u64, "{} took its time", node.name);
        assert!(tells(node), "{}: {:?} {:?}", node.name, ready(node), node.view());
    }
    let page = cluster.nodes[follower].daemon.tenure(&["cluster", "status"]);
    assert!(page.out.contains("STORE DOWN  no usable answer for"), "{}", page.out);

    cluster.members.iter().for_each(Member::thaw);
    cluster.wait_until_whole();
    let renewed = cluster.nodes[follower].post(&format!("/v1/leases/{id}/heartbeat"), &json!({"epoch": 1}));
    assert_eq!(renewed["lease_id"], lease["lease_id"]);
    assert!(cluster.nodes.iter().all(|node| node.view().unwrap()["store"]["silent"].is_null()));
    assert_within("a silent store, told by all", TOLD_MS, |number| {
        if number == 0 {
            return told_ms;
        }
        cluster.members.iter().for_each(Member::freeze);
        let told_ms = told_by_all_ms(&cluster, boot_ms());
        cluster.members.iter().for_each(Member::thaw);
        cluster.wait_until_whole();
        told_ms
    });
}

/// How long it takes from when the store fell silent until every node says so.
#[track_caller]
fn told_by_all_ms(cluster: &Cluster, frozen_ms: u64) -> u64 {
    for node in &cluster.nodes {
        wait_until(&format!("{} to tell of it\n{}", node.name, cluster.said_lately()), LIMIT, || tells(node));
    }
    boot_ms() - frozen_ms
}

// One that was killed was listed as a follower for ever.
#[test]
fn a_node_that_does_not_tell_of_itself_is_listed_as_silent() {
    let mut cluster = Cluster::local(&[]);
    let [gone, here] = cluster.followers();
    let state = |cluster: &Cluster, place: usize| -> Value {
        let view = cluster.nodes[here].view().unwrap();
        let nodes = view["nodes"].as_array().unwrap().clone();
        let name = cluster.nodes[place].name;
        nodes.into_iter().find(|node| node["node"] == name).map_or(Value::Null, |node| node["state"].clone())
    };
    wait_until("three nodes listed", LIMIT, || (0..3).all(|place| state(&cluster, place).is_string()));
    let writer = cluster.wait_for_writer();
    assert_eq!(state(&cluster, writer), "leader");
    assert_eq!(state(&cluster, gone), "follower");
    cluster.kill_node(gone);
    wait_until("a node that is silent", LIMIT, || state(&cluster, gone) == "silent");
    assert_eq!(state(&cluster, here), "follower");
    let name = cluster.nodes[gone].name;
    let listed = cluster.nodes[here].daemon.tenure(&["cluster", "nodes"]).out;
    let row = listed.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    assert!(row.split_whitespace().nth(1) == Some("silent"), "{listed}");
}
