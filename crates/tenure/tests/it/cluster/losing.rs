//! The store is out of reach, of one node or of all: who cannot know says nothing, and everything goes on afterwards.

use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{Cluster, LIMIT, done};
use super::net::Wire;
use crate::raw_http::Answered;
use crate::run_support::{holds_for, wait_until};

const SHORT: Duration = Duration::from_millis(1_500);

fn is_done(asked: &std::io::Result<Answered>) -> bool {
    done(asked).is_some()
}

fn wish(resource: &str, holder: &str) -> Value {
    json!({
        "resources": [resource], "holder": holder, "ttl_ms": 1_500, "grace_ms": 0, "wait_ms": 15_000,
        "operation_id": format!("{holder}-{resource}"),
    })
}

#[test]
fn a_node_cut_off_from_etcd_stops_answering() {
    let cluster = Cluster::apart(&["--writer-ttl", "1s"]);
    let writer = cluster.wait_for_writer();
    let other = (writer + 1) % 3;
    let lease = cluster.nodes[writer].post("/v1/leases", &wish("r", "alice"));
    let id = lease["lease_id"].as_str().unwrap();
    cluster.cut_node(writer, Wire::Store);
    // The others go on, and what nobody renews ends. The next holder's lease outlasts the test.
    let mut long = wish("r", "bob");
    long["ttl_ms"] = json!(60_000);
    let mut next = None;
    wait_until("the resource in other hands", LIMIT, || {
        next = done(&cluster.nodes[other].ask_within(LIMIT, "POST", "/v1/leases", &long));
        next.is_some()
    });
    let next = next.unwrap();
    // Callers reach it, it reaches callers; it does not say what it cannot know.
    let cut_off = &cluster.nodes[writer];
    assert_eq!(cut_off.ask_within(SHORT, "GET", "/healthz", &Value::Null).unwrap().status, 200);
    let renewed =
        cut_off.ask_within(SHORT, "POST", &format!("/v1/leases/{id}/heartbeat"), &json!({"epoch": 1}));
    assert!(!is_done(&renewed), "{renewed:?}");
    let presented = json!({"resource": "r", "fence": lease["fence"]});
    let checked = cut_off.ask_within(SHORT, "POST", "/v1/check", &presented);
    assert!(done(&checked).is_none_or(|told| told["lease_id"] == next["lease_id"]), "{checked:?}");
    let view = cut_off.view().unwrap();
    assert!(view["role"] != "leader" || view["leadership_lease_ms"] == 0, "{view}");
    assert_eq!(cut_off.ask_within(SHORT, "GET", "/readyz", &Value::Null).unwrap().status, 503);
    cluster.heal_node(writer, Wire::Store);
    cluster.wait_until_whole();
    assert_eq!(cluster.nodes[writer].get("/v1/resources/r")["lease_id"], next["lease_id"]);
}

#[test]
fn a_node_cut_off_from_the_others_serves_again_when_it_is_back() {
    let cluster = Cluster::apart(&["--writer-ttl", "1s"]);
    // What these nodes send each other can be read on the way.
    for node in &cluster.nodes {
        let said = node.daemon.said();
        let warning =
            format!("the secret of the nodes to http://{} unencrypted: advertise https", node.address);
        assert!(said.lines().any(|line| line.contains("WARN") && line.contains(&warning)), "{said}");
    }
    let writer = cluster.wait_for_writer();
    let follower = (writer + 1) % 3;
    cluster.cut_node(follower, Wire::Lan);
    let other = (writer + 2) % 3;
    let granted = cluster.nodes[other].post("/v1/leases", &wish("meanwhile", "alice"));
    cluster.heal_node(follower, Wire::Lan);
    let mut seen = None;
    wait_until("an answer of the one that was cut off", LIMIT, || {
        let path = format!("/v1/leases/{}", granted["lease_id"].as_str().unwrap());
        seen = done(&cluster.nodes[follower].ask_within(SHORT, "GET", &path, &Value::Null));
        seen.is_some()
    });
    assert_eq!(seen.unwrap()["fence"], granted["fence"]);
}

#[test]
fn etcd_without_majority_serves_nothing_and_comes_back() {
    let mut cluster = Cluster::local(&["--writer-ttl", "1s"]);
    // Shorter than the time without a majority, longer than it takes to renew afterwards.
    let body = json!({"resources": ["kept"], "holder": "alice", "ttl_ms": 6_000, "grace_ms": 0});
    let lease = cluster.nodes[0].post("/v1/leases", &body);
    let id = lease["lease_id"].as_str().unwrap().to_owned();
    cluster.members[0].kill();
    cluster.members[1].kill();
    // Authority ends with the writer's ttl; from then on nobody answers what only a writer may.
    let path = format!("/v1/leases/{id}/heartbeat");
    wait_until("an end of all answers", LIMIT, || {
        (0..3)
            .all(|node| !is_done(&cluster.nodes[node].ask_within(SHORT, "POST", &path, &json!({"epoch": 1}))))
    });
    let quiet = holds_for(Duration::from_secs(4), || {
        (0..3).all(|node| {
            let node = &cluster.nodes[node];
            let grant =
                node.ask_within(SHORT, "POST", "/v1/leases", &json!({"resources": ["x"], "holder": "b"}));
            let check = node.ask_within(SHORT, "POST", "/v1/check", &json!({"resource": "kept", "fence": 1}));
            !is_done(&grant) && !is_done(&check)
        })
    });
    assert!(quiet, "somebody answered without a majority\n{}", cluster.said_lately());
    let stale = cluster.nodes[1].get(&format!("/v1/leases/{id}?consistency=stale"));
    assert_eq!(stale["state"], "active", "what may be old is still told: {stale}");
    cluster.members[0].start();
    cluster.members[1].start();
    // Downtime ends no lease.
    let mut renewed = None;
    wait_until("a renewal", LIMIT, || {
        let asked = cluster.nodes[2].ask_within(SHORT, "POST", &path, &json!({"epoch": 1}));
        if let Ok(answered) = &asked
            && answered.status == 409
        {
            panic!("the lease was lost: {answered:?}\n{}", cluster.said_lately());
        }
        renewed = done(&asked);
        renewed.is_some()
    });
    assert_eq!(renewed.unwrap()["lease_id"], lease["lease_id"]);
    cluster.members.iter().for_each(super::store::Member::wait_until_healthy);
    cluster.wait_until_whole();
}
