//! Every application through followers, and over the loss of the leader: registrations, pollers, `tenure run`, a standard
//! input. Sessions of `/api/v3` have a module of their own.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{Cluster, LIMIT, Node};
use super::proxy::Replies;
use super::store::Member;
use crate::cli_streams::Running;
use crate::run_support::{boot_ms, let_time_pass, wait_until};
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

/// A leader that loses its authority while it looks a registration up answered that there is none: a definite 404, at which
/// registrants stop.
#[test]
fn a_leader_that_may_not_answer_does_not_say_that_a_registration_is_gone() {
    let cluster = Cluster::local(&["--writer-ttl", "1s", "--no-mdns"]);
    let leader = &cluster.nodes[cluster.wait_for_writer()];
    let service = json!({"name": "printer", "type": "_ipp._tcp", "port": 631, "lease": 60});
    let registered = leader.post("/v1/mdns/services", &service);
    let id = registered["registered"]["id"].as_str().unwrap().to_owned();
    let heartbeat = format!("/v1/mdns/services/{id}/heartbeat");
    let shown = format!("/v1/mdns/admin/registrations/{id}");
    cluster.members.iter().for_each(Member::freeze);
    // Some arrive while it leads and has no authority any more: they wait for etcd.
    let asked = [
        ("PUT", heartbeat.as_str(), json!({})),
        ("GET", &shown, Value::Null),
        ("GET", "/v1/mdns/admin/registrations", Value::Null),
    ];
    let answers = std::thread::scope(|scope| {
        let mut waiting = Vec::new();
        for _ in 0..16 {
            for (method, path, body) in &asked {
                waiting.push((*path, scope.spawn(move || leader.ask(method, path, body))));
            }
            let_time_pass(Duration::from_millis(125), "questions come over the whole silence");
        }
        cluster.members.iter().for_each(Member::thaw);
        let answers = waiting.into_iter().map(|(path, asking)| (path, asking.join().unwrap()));
        answers.collect::<Vec<_>>()
    });
    for (path, answered) in answers {
        let Ok(answered) = answered else { continue };
        assert_ne!(answered.status, 404, "{path}: {answered:?}");
        assert!(answered.status != 200 || answered.text().contains(&id), "{path}: {answered:?}");
    }
    cluster.wait_until_whole();
    cluster.nodes[0].good("PUT", &heartbeat, &json!({}));
}

/// A leader that was succeeded and does not know it yet looked ids up in its own memory, and said that there is no such
/// session or registration.
#[test]
fn a_former_leader_does_not_say_that_what_the_next_one_granted_is_unknown() {
    let flags = ["--writer-ttl", "1s", "--no-mdns", "--sessions-pools", "tuner=8"];
    let cluster = Cluster::local(&flags);
    let mut early = 0;
    for round in 0..3 {
        let leader = cluster.wait_for_writer();
        let node = &cluster.nodes[leader];
        let claims = |place: usize| cluster.nodes[place].view().is_some_and(|view| view["role"] == "leader");
        cluster.set_replies(leader, Replies::Lost);
        let deadline = boot_ms() + LIMIT.as_millis() as u64;
        let next = loop {
            let mut others = (1..3).map(|step| (leader + step) % 3);
            match others.find(|place| claims(*place)) {
                Some(next) => break next,
                None => assert!(boot_ms() < deadline, "no other leader\n{}", cluster.said_lately()),
            }
            let_time_pass(Duration::from_millis(2), "another node claims");
        };
        early += usize::from(claims(leader));
        let service = json!({"name": format!("p{round}"), "type": "_ipp._tcp", "port": 631, "lease": 60});
        let registered = cluster.nodes[next].post("/v1/mdns/services", &service);
        let id = registered["registered"]["id"].as_str().unwrap().to_owned();
        let mut session = String::new();
        wait_until("a session", LIMIT, || {
            let started =
                cluster.nodes[next].ask("POST", "/api/v3/intents", &json!({"type": "stream.start"}));
            let started = started.ok().filter(|started| started.status == 202).map(|it| it.json());
            session = started.map_or_else(String::new, |it| it["session_id"].as_str().unwrap().to_owned());
            !session.is_empty()
        });
        let asked = [
            ("PUT", format!("/v1/mdns/services/{id}/heartbeat")),
            ("GET", format!("/v1/mdns/admin/registrations/{id}")),
            ("POST", format!("/api/v3/sessions/{session}/heartbeat")),
            ("DELETE", format!("/api/v3/sessions/{session}")),
        ];
        for (method, path) in asked {
            let body = if matches!(method, "PUT" | "POST") { json!({}) } else { Value::Null };
            // It answers when it knows the next one, or not at all while etcd does not answer it.
            let Ok(answered) = node.ask_within(Duration::from_secs(1), method, &path, &body) else {
                continue;
            };
            assert_ne!(answered.status, 404, "round {round}: {path}: {answered:?}");
        }
        cluster.set_replies(leader, Replies::Pass);
        cluster.wait_until_whole();
    }
    println!("the former leader did not know of its successor in {early} of 3 rounds");
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
