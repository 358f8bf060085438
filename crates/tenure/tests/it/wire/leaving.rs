//! Callers that leave while they wait: what they waited for is not kept for them.

use serde_json::{Value, json};

use super::daemon::{LONG, Served, id};
use super::http::{Answer, Ask, Http};
use crate::run_support::wait_until;

fn waiting(holder: &str) -> Value {
    json!({"resources": ["r"], "holder": holder, "ttl_ms": 60_000, "wait_ms": 60_000})
}

#[test]
fn a_wait_whose_asker_hangs_up_is_withdrawn() {
    let daemon = Served::start();
    let lease = daemon.acquire(json!({"resources": ["r"], "holder": "a"}));
    for mut http in [daemon.http(), daemon.http_over_socket()] {
        http.send("POST", "/v1/leases", waiting("b").to_string().as_bytes()).unwrap();
        wait_until("somebody waits", LONG, || daemon.inspect(&lease)["waiters"] == json!(["b"]));
        drop(http);
        wait_until("nobody waits", LONG, || daemon.inspect(&lease)["waiters"] == json!([]));
    }
    daemon.of_lease(&lease, "release", json!({"epoch": 1})).good();
    let next = daemon.acquire(json!({"resources": ["r"], "holder": "c"}));
    assert_eq!(next["holder"], "c", "nobody stands before who asks next");
}

#[test]
fn those_behind_one_who_left_move_up() {
    let daemon = Served::start();
    let lease = daemon.acquire(json!({"resources": ["r"], "holder": "a"}));
    let mut first = daemon.http();
    first.send("POST", "/v1/leases", waiting("b").to_string().as_bytes()).unwrap();
    wait_until("one waits", LONG, || daemon.inspect(&lease)["waiters"] == json!(["b"]));
    let mut second = daemon.http();
    second.send("POST", "/v1/leases", waiting("c").to_string().as_bytes()).unwrap();
    wait_until("two wait", LONG, || daemon.inspect(&lease)["waiters"] == json!(["b", "c"]));
    drop(first);
    wait_until("one has left", LONG, || daemon.inspect(&lease)["waiters"] == json!(["c"]));
    daemon.of_lease(&lease, "release", json!({"epoch": 1})).good();
    assert_eq!(second.answer().unwrap().good()["holder"], "c");
}

#[test]
fn a_grant_that_nobody_came_to_hear_is_given_up() {
    let daemon = Served::start();
    let wanted =
        json!({"resources": ["r"], "holder": "b", "ttl_ms": 1_000, "grace_ms": 0, "wait_ms": 60_000});
    // Whether the leaving or the grant comes first is a race. A grant that the daemon could answer into a
    // connection that is gone is one of a silent holder; every other is given up at once.
    for round in 0..16 {
        let lease = daemon.acquire(json!({"resources": ["r"], "holder": "a"}));
        let mut http = daemon.http();
        http.send("POST", "/v1/leases", wanted.to_string().as_bytes()).unwrap();
        wait_until("somebody waits", LONG, || daemon.inspect(&lease)["waiters"] == json!(["b"]));
        let mut releaser = daemon.http();
        let release = |releaser: &mut Http| {
            let path = format!("/v1/leases/{}/release", id(&lease));
            releaser.send("POST", &path, b"{\"epoch\":1}").unwrap();
        };
        if round % 2 == 0 {
            release(&mut releaser);
            drop(http);
        } else {
            drop(http);
            release(&mut releaser);
        }
        releaser.answer().unwrap().good();
        wait_until("nobody has it in the end", LONG, || {
            daemon.get("/v1/resources/r")["lease_id"].is_null() && daemon.get("/v1/status")["waiters"] == 0
        });
    }
    let story = daemon.get("/v1/why?resource=r");
    for entry in story["entries"].as_array().unwrap().iter().filter(|entry| entry["kind"] == "revoked") {
        let lease = daemon.inspect(entry);
        assert_eq!(lease["holder"], "b");
        assert!(matches!(lease["reason"].as_str(), Some("abandoned" | "heartbeat_expired")), "{lease}");
    }
}

#[test]
fn a_grant_with_an_operation_id_is_found_again_by_a_retry() {
    let daemon = Served::start();
    let lease = daemon.acquire(json!({"resources": ["r"], "holder": "a"}));
    let mut body = waiting("b");
    body["operation_id"] = "once".into();
    let mut first = daemon.http();
    first.send("POST", "/v1/leases", body.to_string().as_bytes()).unwrap();
    wait_until("somebody waits", LONG, || daemon.inspect(&lease)["waiters"] == json!(["b"]));
    // The same again joins the wait and stands in no queue twice.
    let mut second = daemon.http();
    second.send("POST", "/v1/leases", body.to_string().as_bytes()).unwrap();
    drop(first);
    daemon.of_lease(&lease, "release", json!({"epoch": 1})).good();
    let granted = second.answer().unwrap().good();
    assert_eq!(granted["holder"], "b");
    let again = daemon.http().json("POST", "/v1/leases", body);
    assert_eq!((again.status, &again.good()["lease_id"]), (200, &granted["lease_id"]));
}

#[test]
fn a_wait_is_answered_when_the_daemon_stops() {
    let mut daemon = Served::start();
    let lease = daemon.acquire(json!({"resources": ["r"], "holder": "a"}));
    let mut http = daemon.http();
    http.send("POST", "/v1/leases", waiting("b").to_string().as_bytes()).unwrap();
    wait_until("somebody waits", LONG, || daemon.inspect(&lease)["waiters"] == json!(["b"]));
    daemon.stop();
    // An answer or a clean end, and in no case a grant.
    if let Ok(answered) = http.answer() {
        assert!(answered.status >= 500, "{answered:?}");
    }
}
