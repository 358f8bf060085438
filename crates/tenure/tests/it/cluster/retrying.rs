//! A leader is lost after the store carried out what it was asked, before it could say so. The node that was asked first asks
//! the next leader again, and its caller, who asked once, hears of one success.

use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{Cluster, LIMIT};
use super::proxy::Replies;
use crate::raw_http::Answered;
use crate::run_support::{boot_ms, wait_until};

/// Long enough to see what was done before the leader hears of it, shorter than its leadership lasts without an answer.
const REPLY_AFTER: Duration = Duration::from_millis(600);

/// One call that changes something.
struct Asked {
    method: &'static str,
    path: String,
    body: Value,
    /// Where a follower shows its effect, and what it shows then.
    shown_at: String,
    is_done: fn(&Answered) -> bool,
}

/// Asks a follower, and kills the leader when the store has done what it was asked and before it can say so.
#[track_caller]
fn ask_while_leader_is_lost(cluster: &mut Cluster, asked: &Asked) -> Answered {
    let leader = cluster.wait_for_writer();
    let [first, other] = cluster.followers();
    cluster.set_replies(leader, Replies::Late(REPLY_AFTER));
    let mut http = cluster.nodes[first].connect(LIMIT).unwrap();
    let body = if asked.body.is_null() { String::new() } else { asked.body.to_string() };
    http.send(asked.method, &asked.path, body.as_bytes()).unwrap();
    wait_until(&format!("{} {} is done", asked.method, asked.path), LIMIT, || {
        let seen = cluster.nodes[other].ask("GET", &asked.shown_at, &Value::Null);
        seen.is_ok_and(|seen| (asked.is_done)(&seen))
    });
    cluster.kill_node(leader);
    cluster.set_replies(leader, Replies::Pass);
    let answer = http.answer().unwrap();
    cluster.start_node(leader);
    cluster.wait_until_whole();
    answer
}

/// The second node compared what it would have written, its own name and addresses among that, with what the first one
/// wrote: `operation_conflict`.
#[test]
fn a_registration_that_is_asked_for_again_at_another_node_is_the_same_one() {
    let cluster = Cluster::local(&[]);
    cluster.wait_until_whole();
    let service =
        json!({"name": "web", "type": "_http._tcp", "port": 80, "lease": 60, "operation_id": "once"});
    let ids = [0, 1, 2].map(|place| {
        let registered = cluster.nodes[place].post("/v1/mdns/services", &service);
        registered["registered"]["id"].as_str().unwrap().to_owned()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[test]
fn who_asks_once_hears_of_one_success_though_two_leaders_were_asked() {
    let mut cluster = Cluster::local(&["--writer-ttl", "1s", "--sessions-pools", "tuner=8"]);
    let node = &cluster.nodes[0];
    let start = || {
        let asked = node.ask("POST", "/api/v3/intents", &json!({"type": "stream.start"})).unwrap().json();
        (asked["session_id"].as_str().unwrap().to_owned(), asked["lease_id"].as_str().unwrap().to_owned())
    };
    let stale = |lease: &str| format!("/v1/leases/{lease}?consistency=stale");
    let is_over = |seen: &Answered| seen.json()["state"] == "released";
    let ((stopped, stopped_lease), (intended, intended_lease)) = (start(), start());
    let by_hand = node.post("/v1/sessions", &json!({"holder": "h"}))["session"].as_str().unwrap().to_owned();
    node.good("PUT", "/v1/pools/spare", &json!({"size": 3}));
    node.good("PUT", "/v1/pools/grown", &json!({"size": 3}));
    let service = json!({"name": "web", "type": "_http._tcp", "port": 80, "lease": 60});
    let service = node.post("/v1/mdns/services", &service)["registered"]["id"].as_str().unwrap().to_owned();
    let service_lease = node.get(&format!("/v1/mdns/admin/registrations/{service}"));
    let rounds = [
        Asked {
            method: "POST",
            path: "/api/v3/intents".to_owned(),
            body: json!({"type": "stream.start", "resources": ["started"]}),
            shown_at: "/v1/resources/started?consistency=stale".to_owned(),
            is_done: |seen| seen.json()["lease_id"].is_string(),
        },
        Asked {
            method: "POST",
            path: "/api/v3/intents".to_owned(),
            body: json!({"type": "stream.stop", "session_id": intended}),
            shown_at: stale(&intended_lease),
            is_done: is_over,
        },
        Asked {
            method: "DELETE",
            path: format!("/api/v3/sessions/{stopped}"),
            body: Value::Null,
            shown_at: stale(&stopped_lease),
            is_done: is_over,
        },
        Asked {
            method: "DELETE",
            path: "/v1/pools/spare".to_owned(),
            body: Value::Null,
            shown_at: "/v1/pools/spare?consistency=stale".to_owned(),
            is_done: |seen| seen.status == 404,
        },
        Asked {
            method: "PUT",
            path: "/v1/pools/grown".to_owned(),
            body: json!({"size": 5}),
            shown_at: "/v1/pools/grown?consistency=stale".to_owned(),
            is_done: |seen| seen.json()["size"] == 5,
        },
        Asked {
            method: "DELETE",
            path: format!("/v1/sessions/{by_hand}"),
            body: Value::Null,
            shown_at: format!("/v1/sessions/{by_hand}?consistency=stale"),
            is_done: |seen| seen.status == 404 || seen.json()["closed_reason"].is_string(),
        },
        Asked {
            method: "POST",
            path: "/v1/leases".to_owned(),
            body: json!({"resources": ["taken"], "holder": "h"}),
            shown_at: "/v1/resources/taken?consistency=stale".to_owned(),
            is_done: |seen| seen.json()["lease_id"].is_string(),
        },
        Asked {
            method: "DELETE",
            path: format!("/v1/mdns/services/{service}"),
            body: Value::Null,
            shown_at: stale(service_lease["lease_id"].as_str().unwrap()),
            is_done: |seen| seen.json()["state"] != "active",
        },
    ];
    for asked in rounds {
        let began_ms = boot_ms();
        let answer = ask_while_leader_is_lost(&mut cluster, &asked);
        let (what, took_ms) = (format!("{} {}", asked.method, asked.path), boot_ms() - began_ms);
        println!("{what}: {}, and the cluster whole again, after {took_ms} ms", answer.status);
        assert!((200..300).contains(&answer.status), "{what}: {answer:?}");
        let told = answer.json();
        assert!(told.get("status").is_none_or(|status| status != "idempotent_replay"), "{what}: {told}");
        assert_ne!(told["replayed"], true, "{what}: {told}");
    }
}
