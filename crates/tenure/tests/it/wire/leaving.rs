//! Callers that leave while they wait: what they waited for is not kept for them.

use std::net::Shutdown;

use serde_json::{Value, json};

use super::daemon::{LONG, Served, id};
use super::http::{Answer, Ask, Stream};
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
    let mut abandoned = 0;
    // Whether leaving or the grant comes first is a race; either way nobody is left holding.
    for round in 0..40 {
        let lease = daemon.acquire(json!({"resources": ["r"], "holder": "a"}));
        let mut http = daemon.http();
        http.send("POST", "/v1/leases", waiting("b").to_string().as_bytes()).unwrap();
        wait_until("somebody waits", LONG, || daemon.inspect(&lease)["waiters"] == json!(["b"]));
        let mut releaser = daemon.http();
        let path = format!("/v1/leases/{}/release", id(&lease));
        let leave = || match http.stream() {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both).unwrap(),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both).unwrap(),
        };
        if round % 2 == 0 {
            releaser.send("POST", &path, b"{\"epoch\":1}").unwrap();
            leave();
        } else {
            leave();
            releaser.send("POST", &path, b"{\"epoch\":1}").unwrap();
        }
        releaser.answer().unwrap().good();
        wait_until("nobody has it in the end", LONG, || {
            let found = daemon.get("/v1/resources/r");
            if let Some(id) = found["lease_id"].as_str() {
                let lease = daemon.get(&format!("/v1/leases/{id}"));
                assert_ne!(lease["state"], "released");
                // Promised a minute, but nobody heard the promise: what is left of it may be waited for.
                if lease["state"] == "revoking" {
                    assert_eq!(lease["reason"], "abandoned", "{lease}");
                    daemon.ask("POST", &format!("/v1/leases/{id}/reclaim"), json!({"force": true}));
                    abandoned += 1;
                }
            }
            found["lease_id"].is_null() && daemon.get("/v1/status")["waiters"] == 0
        });
    }
    println!("{abandoned} grants were given up");
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
