//! Every application through followers, and over the loss of the leader: registrations, pollers, `tenure run`, a standard
//! input. Sessions of `/api/v3` have a module of their own.

use std::fs;

use serde_json::{Value, json};

use super::harness::{Cluster, LIMIT, Node};
use crate::cli_streams::Running;
use crate::run_support::wait_until;
use crate::wire::lines::Lines;

/// Kills the leader; gives the one that follows it.
#[track_caller]
fn lose_leader(cluster: &mut Cluster) -> usize {
    let leader = cluster.wait_for_writer();
    cluster.kill_node(leader);
    let mut next = leader;
    wait_until("another leader", LIMIT, || {
        next = cluster.writer().unwrap_or(leader);
        next != leader
    });
    next
}

/// The endpoints of nodes, as clients are given them.
fn endpoints(cluster: &Cluster, places: [usize; 3]) -> String {
    places.map(|place| format!("http://{}", cluster.nodes[place].address)).join(",")
}

#[test]
fn a_service_is_registered_kept_steered_and_ended_over_the_loss_of_a_leader() {
    let mut cluster = Cluster::local(&["--writer-ttl", "1s"]);
    let [first, second] = cluster.followers();
    let service = json!({"name": "printer", "type": "_ipp._tcp", "port": 631, "lease": 60});
    let registered = cluster.nodes[first].post("/v1/mdns/services", &service);
    let id = registered["registered"]["id"].as_str().unwrap().to_owned();
    let path = |verb: &str| format!("/v1/mdns/services/{id}{verb}");
    let admin = |verb: &str| format!("/v1/mdns/admin/registrations/{id}{verb}");
    cluster.nodes[second].good("PUT", &path("/heartbeat"), &json!({}));
    lose_leader(&mut cluster);
    for node in [first, second].map(|place| &cluster.nodes[place]) {
        node.good("PUT", &path("/heartbeat"), &json!({}));
        assert_eq!(node.get(&admin(""))["name"], "printer");
    }
    cluster.nodes[first].good("POST", &admin("/drain"), &Value::Null);
    cluster.nodes[second].good("POST", &admin("/revive"), &Value::Null);
    cluster.nodes[second].good("DELETE", &path(""), &Value::Null);
    let gone = cluster.nodes[first].ask("PUT", &path("/heartbeat"), &json!({})).unwrap();
    assert_eq!((gone.status, &gone.json()["reason"]), (404, &json!("explicit")), "{gone:?}");
}

#[test]
fn a_command_and_a_standard_input_go_on_over_the_loss_of_a_leader() {
    let mut cluster = Cluster::local(&["--writer-ttl", "1s"]);
    let leader = cluster.wait_for_writer();
    let [first, second] = cluster.followers();
    let directory = tempfile::TempDir::new().unwrap();
    let (begun, enough) = (directory.path().join("begun"), directory.path().join("enough"));
    let script =
        format!("touch {}; while test ! -e {}; do sleep 0.1; done", begun.display(), enough.display());
    let words = ["run", "--resource", "job", "--ttl", "10s", "--", "sh", "-c", &script];
    let mut command = cluster.nodes[first].daemon.desk.command(&words);
    let mut running =
        Running::start(command.env("TENURE_ENDPOINT", endpoints(&cluster, [first, leader, second])));
    wait_until("the command runs", LIMIT, || begun.exists());
    let job = cluster.nodes[second].get("/v1/resources/job");

    let mut stdin = Lines::stdin(&mut cluster.nodes[first].daemon.desk.command(&["stdio"]));
    let acquire = json!({"acquire": {"resources": ["typed"], "holder": "h", "grace_ms": 0}});
    let typed = stdin.good(acquire, "acquired");
    let heartbeat = json!({"heartbeat": {"lease_id": typed["lease_id"], "epoch": typed["epoch"]}});
    lose_leader(&mut cluster);
    stdin.good(heartbeat.clone(), "renewed");
    let kept = cluster.nodes[second].get("/v1/resources/job");
    assert_eq!((&kept["lease_id"], &kept["holder"]), (&job["lease_id"], &job["holder"]));
    stdin.good(heartbeat, "renewed");
    stdin.end_writing();
    wait_until_free(&cluster.nodes[second], "typed");
    fs::write(&enough, b"").unwrap();
    let mut status = None;
    wait_until("the end of the command", LIMIT, || {
        status = running.child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(0));
    wait_until_free(&cluster.nodes[second], "job");
}

#[track_caller]
fn wait_until_free(node: &Node, resource: &str) {
    wait_until(&format!("{resource} is free"), LIMIT, || {
        let seen = node.ask("GET", &format!("/v1/resources/{resource}"), &Value::Null);
        seen.is_ok_and(|seen| seen.status == 404 || seen.json()["lease_id"].is_null())
    });
}

#[test]
fn a_poller_polls_on_over_the_loss_of_a_leader_and_is_steered_through_a_follower() {
    let mut cluster = Cluster::local(&["--writer-ttl", "1s"]);
    let leader = cluster.wait_for_writer();
    let [first, second] = cluster.followers();
    let directory = tempfile::TempDir::new().unwrap();
    let targets = directory.path().join("targets");
    fs::write(&targets, "one\ntwo\n").unwrap();
    let targets = targets.to_str().unwrap();
    let words = ["poll", "run", "--json", "--group", "web", "--name", "kitchen", "--ttl", "10s"];
    let more = ["--targets", targets, "--every", "200ms", "--", "true", "{target}"];
    let mut command = cluster.nodes[first].daemon.desk.command(&[&words[..], &more].concat());
    let poller = Running::start(command.env("TENURE_ENDPOINT", endpoints(&cluster, [first, leader, second])));
    let polled = |target: &str| {
        loop {
            let record = poller.object();
            if record["target"] == target {
                assert_eq!(record["outcome"], "ok", "{record}");
                return record["fence"].as_u64().unwrap();
            }
        }
    };
    let fences = ["one", "two"].map(&polled);
    lose_leader(&mut cluster);
    // Nothing changed hands.
    assert_eq!(["one", "two"].map(&polled), fences);
    let group = cluster.nodes[first].get("/v1/polling/web");
    assert_eq!(group["live_nodes"][0]["name"], "kitchen", "{group}");
    let body = json!({"poller": "kitchen"});
    assert_eq!(cluster.nodes[first].post("/v1/polling/web/cordon", &body)["cordoned"], true);
    assert_eq!(cluster.nodes[second].post("/v1/polling/web/uncordon", &body)["cordoned"], false);
}
