//! What a daemon that was killed and started again still knows, and what it grants everybody.

use serde_json::{Value, json};

use super::daemon::{LONG, Served, id};
use super::http::{Answer, Ask};
use crate::run_support::wait_until;

fn kill_and_start(daemon: &mut Served) {
    daemon.kill();
    daemon.start_again();
}

#[track_caller]
fn remaining(lease: &Value) -> u64 {
    lease["remaining_ms"].as_u64().unwrap_or_else(|| panic!("{lease}"))
}

#[test]
fn everybody_has_a_full_ttl_after_a_crash() {
    let mut daemon = Served::start();
    let heartbeat =
        daemon.acquire(json!({"resources": ["h"], "holder": "a", "ttl_ms": 20_000, "grace_ms": 0}));
    let permanent = daemon.acquire(json!({"resources": ["p"], "holder": "a", "ttl_ms": 0}));
    let session = daemon.post("/v1/sessions", json!({"holder": "a", "ttl_ms": 20_000, "grace_ms": 0}));
    let kept = daemon.acquire(json!({"resources": ["s"], "holder": "a", "session": session["session"]}));
    let reserved = daemon.acquire(json!({"resources": ["x"], "holder": "a", "reserve_ms": 60_000}));
    wait_until("a good part of the ttl has passed", LONG, || remaining(&daemon.inspect(&heartbeat)) < 18_500);
    kill_and_start(&mut daemon);
    let shown = daemon.inspect(&heartbeat);
    assert_eq!(
        (&shown["state"], &shown["liveness"], &shown["epoch"]),
        (&"active".into(), &"alive".into(), &1.into())
    );
    assert!(remaining(&shown) > 19_000, "{shown}");
    assert_eq!(shown["fence"], heartbeat["fence"]);
    daemon.of_lease(&heartbeat, "heartbeat", json!({"epoch": 1})).good();
    assert_eq!(daemon.inspect(&permanent)["liveness"], "alive");
    let path = format!("/v1/sessions/{}", session["session"].as_str().unwrap());
    assert!(remaining(&daemon.get(&path)) > 19_000);
    assert!(remaining(&daemon.inspect(&kept)) > 19_000);
    assert_eq!(daemon.post(&format!("{path}/heartbeat"), json!({}))["ended"], json!([]));
    let shown = daemon.inspect(&reserved);
    assert_eq!(shown["state"], "reserved");
    assert!(remaining(&shown) <= 60_000, "a reservation has its deadline: {shown}");
    // Fences go on rising.
    daemon.of_lease(&permanent, "release", json!({"epoch": 1})).good();
    let next = daemon.acquire(json!({"resources": ["p"], "holder": "b"}));
    assert!(next["fence"].as_u64() > permanent["fence"].as_u64());
    assert!(next["lsn"].as_u64() > reserved["lsn"].as_u64());
}

#[test]
fn connections_that_were_open_have_time_to_come_back() {
    let mut daemon = Served::start();
    let mut lines = daemon.lines();
    let short =
        lines.good(json!({"acquire": {"resources": ["a"], "holder": "a", "grace_ms": 0}}), "acquired");
    let long =
        lines.good(json!({"acquire": {"resources": ["b"], "holder": "a", "grace_ms": 60_000}}), "acquired");
    kill_and_start(&mut daemon);
    assert!(lines.rest().is_empty(), "the peer sees its connection end");
    let shown = daemon.inspect(&short);
    assert_eq!((&shown["liveness"], &shown["drain_cause"]), (&"draining".into(), &"silence".into()));
    assert!((1_000..=5_000).contains(&remaining(&shown)), "at least 5 s: {shown}");
    assert!((55_000..=60_000).contains(&remaining(&daemon.inspect(&long))));
    let mut watch = daemon.watch();
    let mut lines = daemon.lines();
    let resumed = lines.good(json!({"resume": {"lease_id": id(&long), "epoch": 1}}), "resumed");
    assert_eq!((&resumed["epoch"], &resumed["liveness"]), (&2.into(), &"alive".into()));
    let revoked = watch.about("revoked", &short);
    assert_eq!(revoked["lease"]["reason"], "session_expired");
    assert_eq!(daemon.inspect(&long)["liveness"], "alive");
}

#[test]
fn waits_are_gone_and_a_retry_finds_its_place() {
    let mut daemon = Served::start();
    let lease = daemon.acquire(json!({"resources": ["r"], "holder": "a", "ttl_ms": 0}));
    let body = json!({"resources": ["r"], "holder": "b", "wait_ms": 60_000, "operation_id": "once"});
    let mut http = daemon.http();
    http.send("POST", "/v1/leases", body.to_string().as_bytes()).unwrap();
    wait_until("somebody waits", LONG, || daemon.inspect(&lease)["waiters"] == json!(["b"]));
    kill_and_start(&mut daemon);
    assert!(http.answer().is_err(), "the caller sees the connection drop");
    assert_eq!(daemon.inspect(&lease)["waiters"], json!([]));
    let mut http = daemon.http();
    http.send("POST", "/v1/leases", body.to_string().as_bytes()).unwrap();
    wait_until("it waits again", LONG, || daemon.inspect(&lease)["waiters"] == json!(["b"]));
    daemon.of_lease(&lease, "release", json!({"epoch": 1})).good();
    assert_eq!(http.answer().unwrap().good()["holder"], "b");
}

#[test]
fn outcomes_are_remembered_over_a_crash() {
    let mut daemon = Served::start();
    let body = json!({"resources": ["r"], "holder": "a", "operation_id": "once"});
    let lease = daemon.acquire(body.clone());
    kill_and_start(&mut daemon);
    let again = daemon.ask("POST", "/v1/leases", body);
    assert_eq!((again.status, &again.good()["replayed"]), (200, &true.into()));
    assert_eq!(again.good()["lease_id"], lease["lease_id"]);
    daemon
        .ask("POST", "/v1/leases", json!({"resources": ["s"], "holder": "a", "operation_id": "once"}))
        .refused("operation_conflict");
}

#[test]
fn an_operators_drain_outlives_a_crash_with_a_full_grace() {
    let mut daemon = Served::start();
    let lease =
        daemon.acquire(json!({"resources": ["r"], "holder": "a", "ttl_ms": 1_000, "grace_ms": 20_000}));
    daemon.of_lease(&lease, "drain", json!({})).good();
    wait_until("some of the grace has passed", LONG, || remaining(&daemon.inspect(&lease)) < 18_500);
    kill_and_start(&mut daemon);
    let shown = daemon.inspect(&lease);
    assert_eq!((&shown["liveness"], &shown["drain_cause"]), (&"draining".into(), &"operator".into()));
    assert!(remaining(&shown) > 19_000, "{shown}");
    assert_eq!(daemon.of_lease(&lease, "heartbeat", json!({"epoch": 1})).good()["draining"], true);
    assert_eq!(daemon.of_lease(&lease, "revive", json!({})).good()["liveness"], "alive");
}

#[test]
fn what_was_being_ended_goes_on_ending() {
    let mut daemon = Served::start();
    let short = daemon.acquire(json!({"resources": ["a"], "holder": "a", "ttl_ms": 1_000}));
    let held_back = daemon.acquire(json!({"resources": ["b"], "holder": "a", "ttl_ms": 1_000}));
    let long = daemon.acquire(json!({"resources": ["c"], "holder": "a", "ttl_ms": 60_000}));
    daemon.of_lease(&short, "revoke", json!({"reason": "going"})).good();
    daemon.of_lease(&held_back, "revoke", json!({"reclaim": false})).good();
    daemon.of_lease(&long, "revoke", json!({})).good();
    kill_and_start(&mut daemon);
    let shown = daemon.inspect(&long);
    assert_eq!(
        (&shown["state"], &shown["epoch"], &shown["reason"]),
        (&"revoking".into(), &2.into(), &"admin_force".into())
    );
    assert!((50_000..=60_000).contains(&remaining(&shown)), "counted anew: {shown}");
    wait_until("the short one is reclaimed", LONG, || daemon.inspect(&short)["state"] == "revoked");
    assert_eq!(daemon.inspect(&short)["reason_text"], "going");
    wait_until("the operator may reclaim", LONG, || {
        assert_eq!(daemon.inspect(&held_back)["state"], "revoking");
        daemon.of_lease(&held_back, "reclaim", json!({})).status == 200
    });
    daemon.of_lease(&long, "acknowledge", json!({"epoch": 1})).good();
    wait_until("acknowledged", LONG, || daemon.inspect(&long)["state"] == "revoked");
}

#[test]
fn a_clean_stop_keeps_everything_too() {
    let mut daemon = Served::start();
    let lease = daemon.acquire(json!({"resources": ["r"], "holder": "a", "attachment": {"job": 7}}));
    daemon.ask("PUT", "/v1/pools/p", json!({"size": 3})).good();
    let ended = daemon.acquire(json!({"resources": ["s"], "holder": "a"}));
    daemon.of_lease(&ended, "release", json!({"epoch": 1, "reason": "done"})).good();
    let before = daemon.get("/v1/status");
    daemon.stop();
    daemon.start_again();
    let shown = daemon.inspect(&lease);
    assert_eq!((&shown["state"], &shown["attachment"]), (&"active".into(), &json!({"job": 7})));
    assert_eq!(daemon.get("/v1/pools/p")["size"], 3);
    let shown = daemon.inspect(&ended);
    assert_eq!(
        (&shown["state"], &shown["reason_text"], &shown["holder"]),
        (&"released".into(), &"done".into(), &"a".into())
    );
    let after = daemon.get("/v1/status");
    assert_eq!(after["log_tag"], before["log_tag"]);
    assert!(after["lsn"].as_u64() >= before["lsn"].as_u64());
    let story = daemon.get(&format!("/v1/why?lease={}", id(&ended)));
    assert_eq!(story["entries"].as_array().unwrap().len(), 2);
}

#[test]
fn the_daemon_can_end_everything_when_it_is_told_to() {
    let mut daemon = Served::start();
    let mut watch = daemon.watch();
    let leases: Vec<Value> = (0..3)
        .map(|number| {
            daemon.acquire(json!({"resources": [format!("r{number}")], "holder": "a", "ttl_ms": 1_000}))
        })
        .collect();
    let mut lines = daemon.lines();
    lines.say(json!({"watch": {}}));
    lines.say(json!({"acquire": {"resources": ["c"], "holder": "a"}}));
    lines.until(|line| line["acquired"].is_object());
    let answered = daemon.http().json("POST", "/v1/shutdown", json!({"end_all": true})).good();
    assert_eq!((&answered["shutting_down"], &answered["ended"]), (&true.into(), &4.into()));
    assert_eq!(daemon.code(), 0);
    for _ in 0..4 {
        assert_eq!(watch.next_of("revoked").data["lease"]["reason"], "shutdown");
    }
    assert_eq!(watch.next_of("closing").data["lease"], Value::Null);
    let rest = lines.rest();
    let count = |wanted: &dyn Fn(&Value) -> bool| rest.iter().filter(|line| wanted(line)).count();
    assert_eq!(count(&|line| line["event"]["kind"] == "revoked"), 4, "{rest:?}");
    assert_eq!(count(&|line| line["lost"]["reason"] == "shutdown"), 1, "{rest:?}");
    assert_eq!(rest.last().unwrap()["event"]["kind"], "closing", "{rest:?}");
    daemon.start_again();
    for lease in &leases {
        wait_until("it is ended", LONG, || daemon.inspect(lease)["state"] == "revoked");
        assert_eq!(daemon.inspect(lease)["reason"], "shutdown");
    }
}
