//! The writer changes: killed, paused or told to step down, another goes on and holders keep what they have.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::caller::{Caller, Journal, Outcome, Terms};
use super::checker::check;
use super::harness::{Cluster, LIMIT, done};
use super::history::{Heard, State};
use crate::run_support::{boot_ms, wait_until};

/// Far above what is promised (a writer's ttl and 0.9 s): what is measured exactly is the benchmark's business, this
/// has to hold on a machine that does much else.
const SUCCESSION_LIMIT_MS: u64 = 12_000;

/// Leases with which a change of writer is lived through.
struct Held {
    journal: Arc<Journal>,
    caller: Caller,
    leases: Vec<(String, u64)>,
    asked: usize,
}

impl Held {
    fn take(cluster: &Cluster, journal: &Arc<Journal>, count: usize, terms: &Terms) -> Self {
        let caller = Caller::new(cluster, journal);
        let mut held = Self { journal: Arc::clone(journal), caller, leases: Vec::new(), asked: 0 };
        for number in 0..count {
            let (operation, resource) = (format!("take-{number}"), format!("kept/{number}"));
            let wish = (resource.as_str(), operation.as_str());
            match held.caller.acquire(number % 3, &operation, wish, terms) {
                Outcome::Heard(Heard::Granted { lease, state: State::Live, .. }, epoch) => {
                    held.leases.push((lease, epoch.unwrap()));
                }
                other => panic!("not granted: {other:?}"),
            }
        }
        held
    }

    /// What was asked and heard last, for messages of failures.
    fn lately(&self) -> String {
        let records = self.journal.records();
        records[records.len().saturating_sub(20)..].iter().map(|record| format!("{record}\n")).collect()
    }

    /// Renews every lease, each through any node that answers; none may be lost.
    #[track_caller]
    fn renew_all(&mut self, cluster: &Cluster) {
        let deadline = boot_ms() + LIMIT.as_millis() as u64;
        for (lease, epoch) in &self.leases {
            loop {
                self.asked += 1;
                let (node, operation) = (self.asked % 3, format!("renew-{}", self.asked));
                if !cluster.nodes[node].is_up() {
                    continue;
                }
                match self.caller.heartbeat(node, &operation, lease, *epoch) {
                    Outcome::Heard(Heard::Renewed { .. }, _) => break,
                    Outcome::Heard(Heard::Lost { .. } | Heard::Missing, _) => {
                        panic!("{lease} is lost\n{}{}", self.lately(), cluster.said_lately())
                    }
                    _ => {
                        assert!(boot_ms() < deadline, "{lease} cannot be renewed\n{}", cluster.said_lately())
                    }
                }
            }
        }
    }
}

fn epoch_of(view: &Value) -> u64 {
    view["leader"]["epoch"].as_u64().unwrap()
}

/// Milliseconds until a node takes an acquire.
#[track_caller]
fn outage_ms(cluster: &Cluster, node: usize, resource: &str) -> u64 {
    let began_ms = boot_ms();
    let body = json!({"resources": [resource], "holder": "next", "ttl_ms": 5_000, "operation_id": format!("op-{resource}")});
    let mut last = String::new();
    wait_until(&format!("{resource} granted"), LIMIT, || {
        match cluster.nodes[node].ask("POST", "/v1/leases", &body) {
            Ok(answered) if matches!(answered.status, 200 | 201) => return true,
            Ok(answered) => last = format!("{answered:?}"),
            Err(error) => last = error.to_string(),
        }
        let late = boot_ms() - began_ms > SUCCESSION_LIMIT_MS;
        assert!(!late, "nobody took {resource}: {last}\n{}", cluster.said_lately());
        false
    });
    boot_ms() - began_ms
}

#[test]
fn a_writer_killed_is_followed_by_another_and_leases_stay() {
    let mut cluster = Cluster::local(&[]);
    let journal = Journal::begin();
    let terms = Terms { ttl_ms: 5_000, grace_ms: 0, wait_ms: 0 };
    let mut held = Held::take(&cluster, &journal, 12, &terms);
    let writer = cluster.wait_for_writer();
    let before = epoch_of(&cluster.nodes[writer].view().unwrap());
    let follower = (writer + 1) % 3;
    cluster.kill_node(writer);
    let outage = outage_ms(&cluster, follower, "after/kill");
    println!("writer killed: served again after {outage} ms");
    held.renew_all(&cluster);
    let next = cluster.wait_for_writer();
    assert_ne!(next, writer);
    let view = cluster.nodes[next].view().unwrap();
    assert!(epoch_of(&view) > before, "{view}");
    // The killed one comes back as a follower and knows everything.
    cluster.start_node(writer);
    cluster.wait_until_whole();
    assert_eq!(cluster.nodes[writer].view().unwrap()["role"], "follower");
    held.renew_all(&cluster);
    let report = check(&journal.records());
    assert!(report.anomalies.is_empty(), "{report}");
}

#[test]
fn a_writer_told_to_stop_is_followed_at_once() {
    let mut cluster = Cluster::local(&[]);
    let journal = Journal::begin();
    let terms = Terms { ttl_ms: 5_000, grace_ms: 0, wait_ms: 0 };
    let mut held = Held::take(&cluster, &journal, 6, &terms);
    let writer = cluster.wait_for_writer();
    cluster.stop_node(writer);
    let outage = outage_ms(&cluster, (writer + 1) % 3, "after/stop");
    println!("writer stopped: served again {outage} ms after its end");
    // Well within the time for which a writer that says nothing is waited for.
    assert!(outage < 3_000, "{outage} ms\n{}", cluster.said_lately());
    held.renew_all(&cluster);
    let report = check(&journal.records());
    assert!(report.anomalies.is_empty(), "{report}");
}

#[test]
fn step_down_is_taken_over_at_once() {
    let cluster = Cluster::local(&[]);
    let journal = Journal::begin();
    let terms = Terms { ttl_ms: 5_000, grace_ms: 0, wait_ms: 0 };
    let mut held = Held::take(&cluster, &journal, 6, &terms);
    let writer = cluster.wait_for_writer();
    let before = epoch_of(&cluster.nodes[writer].view().unwrap());
    let follower = (writer + 1) % 3;
    let stepped = cluster.nodes[follower].post("/v1/cluster/step-down", &json!({}));
    assert_eq!(
        (&stepped["stepped_down"], &stepped["node"]),
        (&json!(true), &json!(cluster.nodes[writer].name))
    );
    assert_eq!(stepped["epoch"], before);
    let outage = outage_ms(&cluster, follower, "after/step-down");
    println!("step-down: served again after {outage} ms");
    assert!(outage < 2_000, "{outage} ms\n{}", cluster.said_lately());
    cluster.wait_until_whole();
    let view = cluster.nodes[follower].view().unwrap();
    assert!(epoch_of(&view) > before, "{view}");
    // Each tells what it has seen; the one who resigned has.
    let view = cluster.nodes[writer].view().unwrap();
    let resigned = view["changes"].as_array().unwrap().iter().find(|change| change["how"] == "resigned");
    assert!(resigned.is_some(), "{view}");
    held.renew_all(&cluster);
    let report = check(&journal.records());
    assert!(report.anomalies.is_empty(), "{report}");
}

#[test]
fn a_paused_writer_answers_nothing_after_its_authority() {
    let mut cluster = Cluster::local(&["--writer-ttl", "1s"]);
    let writer = cluster.wait_for_writer();
    // Whoever writes by now: the one that is asked is not the one that is paused.
    let other = (writer + 1) % 3;
    let lease = cluster.nodes[writer]
        .post("/v1/leases", &json!({"resources": ["r"], "holder": "alice", "ttl_ms": 1_000, "grace_ms": 0}));
    let (id, fence) = (lease["lease_id"].as_str().unwrap().to_owned(), lease["fence"].as_u64().unwrap());
    // Connections that stand before the pause: their requests are read the moment it ends.
    let mut asking: Vec<_> = (0..4).map(|_| cluster.nodes[writer].connect(LIMIT).unwrap()).collect();
    for http in &mut asking {
        assert_eq!(http.get("/healthz").status, 200);
    }
    cluster.freeze_node(writer);
    let body = json!({"resources": ["r"], "holder": "bob", "ttl_ms": 20_000, "operation_id": "bob", "wait_ms": 15_000});
    let mut next = None;
    wait_until("the resource in other hands", LIMIT, || {
        next = done(&cluster.nodes[other].ask_within(LIMIT, "POST", "/v1/leases", &body));
        next.is_some()
    });
    let next = next.unwrap();
    assert!(next["fence"].as_u64().unwrap() > fence, "{next}");
    let path = format!("/v1/leases/{id}/heartbeat");
    asking[0].send("POST", &path, json!({"epoch": 1}).to_string().as_bytes()).unwrap();
    let presented = json!({"resource": "r", "fence": fence}).to_string();
    asking[1].send("POST", "/v1/check", presented.as_bytes()).unwrap();
    asking[2].send("GET", &format!("/v1/leases/{id}"), b"").unwrap();
    asking[3].send("GET", "/v1/resources/r", b"").unwrap();
    cluster.thaw_node(writer);
    let answers: Vec<_> = asking.iter_mut().map(|http| http.answer()).collect();
    // Each is refused, not answered, or answered by the one who may.
    if let Ok(renewed) = &answers[0] {
        assert!(!matches!(renewed.status, 200 | 201), "{renewed:?}");
    }
    if let Ok(checked) = &answers[1] {
        let body = checked.json();
        assert_ne!(body["current"], true, "{checked:?}");
        assert!(checked.status != 200 || body["lease_id"] == next["lease_id"], "{checked:?}");
    }
    if let Ok(shown) = &answers[2] {
        assert!(shown.status != 200 || shown.json()["state"] == "revoked", "{shown:?}");
    }
    if let Ok(resource) = &answers[3] {
        assert!(resource.status != 200 || resource.json()["holder"] == "bob", "{resource:?}");
    }
    cluster.wait_until_whole();
    assert_eq!(cluster.nodes[writer].get("/v1/resources/r")["holder"], "bob");
}

#[test]
fn ten_changes_of_writer_keep_every_lease() {
    let mut cluster = Cluster::local(&["--writer-ttl", "1s"]);
    let journal = Journal::begin();
    let terms = Terms { ttl_ms: 4_000, grace_ms: 0, wait_ms: 0 };
    let mut held = Held::take(&cluster, &journal, 15, &terms);
    for change in 0..10 {
        let writer = cluster.wait_for_writer();
        match change % 4 {
            0 => {
                cluster.kill_node(writer);
                held.renew_all(&cluster);
                cluster.start_node(writer);
            }
            1 => {
                cluster.lose_node(writer);
                held.renew_all(&cluster);
                cluster.start_node(writer);
            }
            2 => {
                let stepped = cluster.nodes[(writer + 1) % 3].post("/v1/cluster/step-down", &json!({}));
                assert_eq!(stepped["stepped_down"], true);
                held.renew_all(&cluster);
            }
            _ => {
                cluster.freeze_node(writer);
                held.renew_all(&cluster);
                cluster.thaw_node(writer);
            }
        }
        wait_until("another writer", LIMIT, || cluster.writer().is_some_and(|next| next != writer));
        held.renew_all(&cluster);
        cluster.wait_until_whole();
        held.renew_all(&cluster);
    }
    let view = cluster.nodes[0].view().unwrap();
    assert!(epoch_of(&view) > 10, "{view}");
    for (lease, _) in &held.leases {
        let shown = cluster.nodes[1].get(&format!("/v1/leases/{lease}"));
        assert_eq!((&shown["state"], &shown["epoch"]), (&json!("active"), &json!(1)), "{shown}");
    }
    let report = check(&journal.records());
    assert!(report.anomalies.is_empty(), "{report}");
    println!("{report}");
}

#[test]
fn nobody_ends_late_by_much_over_a_change_of_writer() {
    let mut cluster = Cluster::local(&["--writer-ttl", "1s"]);
    let writer = cluster.wait_for_writer();
    let body = json!({"resources": ["left"], "holder": "gone", "ttl_ms": 2_000, "grace_ms": 0});
    let began_ms = boot_ms();
    cluster.nodes[writer].post("/v1/leases", &body);
    cluster.kill_node(writer);
    let other = &cluster.nodes[(writer + 1) % 3];
    wait_until("the end of what nobody renews", Duration::from_secs(20), || {
        let asked = other.ask("GET", "/v1/resources/left", &Value::Null);
        asked.is_ok_and(|answered| answered.status == 404 || answered.json()["lease_id"].is_null())
    });
    let lasted_ms = boot_ms() - began_ms;
    println!("a lease of 2 s ended {lasted_ms} ms after its grant, over a change of writer");
    // The outage, then the whole ttl again; never before the promise.
    assert!((2_000..12_000).contains(&lasted_ms), "{lasted_ms} ms");
}
