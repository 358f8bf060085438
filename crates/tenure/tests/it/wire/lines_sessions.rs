//! A connection is a session: what it holds, what it is told, and what happens when it goes.

use std::time::Duration;

use serde_json::{Value, json};

use super::daemon::{LONG, Served, id};
use super::http::{Answer, Ask};
use super::lines::Lines;
use crate::run_support::wait_until;

fn acquire(lines: &mut Lines, name: &str, more: Value) -> Value {
    let mut body = json!({"resources": [name], "holder": "a"});
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    lines.good(json!({"acquire": body}), "acquired")
}

/// Waits until the daemon knows that a connection is gone.
fn wait_until_gone(daemon: &Served, session: &Value) {
    let path = format!("/v1/sessions/{}", session.as_str().unwrap());
    wait_until("the connection's end is known", LONG, || {
        let answered = daemon.ask("GET", &path, Value::Null);
        answered.status == 404 || answered.json()["liveness"] == "draining"
    });
}

#[test]
fn hello_says_which_session_the_connection_is() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    let hello = lines.good(json!({"hello": {}, "tag": 1}), "hello");
    let session = hello["session"].as_str().unwrap();
    assert!(session.starts_with("pipe:") && session.len() == 13, "{session}");
    assert!(hello["version"].is_string());
    assert_eq!(acquire(&mut lines, "r", json!({}))["session"], session);
    assert!(lines.ask(json!({"hello": {}}))["error"].is_string(), "hello comes once");

    let mut cli = daemon.lines();
    let hello = cli.good(json!({"hello": {"kind": "cli"}}), "hello");
    assert!(hello["session"].as_str().unwrap().starts_with("cli:"), "{hello}");
    let lease = acquire(&mut cli, "s", json!({}));
    assert_eq!((&lease["session"], &lease["grace_ms"]), (&hello["session"], &5_000.into()));

    assert_eq!(daemon.lines().ask(json!({"hello": {"kind": "robot"}}))["error"], "invalid_request");
    let stdin = acquire(&mut daemon.stdin(), "t", json!({}));
    assert!(stdin["session"].as_str().unwrap().starts_with("cli:"), "{stdin}");
    assert_eq!(stdin["grace_ms"], 5_000);
}

#[test]
fn a_hello_that_comes_late_is_refused() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    let lease = acquire(&mut lines, "r", json!({}));
    assert!(lease["session"].as_str().unwrap().starts_with("pipe:"));
    lines.refused(json!({"hello": {"kind": "cli"}}), "invalid_request");
}

#[test]
fn what_keeps_a_lease_follows_from_what_was_said() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    let hello = lines.good(json!({"hello": {}}), "hello");
    let terms = |lease: &Value| {
        (
            lease["mode"].clone(),
            lease["ttl_ms"].clone(),
            lease["grace_ms"].clone(),
            lease["session"].is_null(),
        )
    };
    let cases = [
        (json!({}), json!("session"), json!(null), json!(30_000), false),
        (json!({"mode": "session"}), json!("session"), json!(null), json!(30_000), false),
        (json!({"session": hello["session"]}), json!("session"), json!(null), json!(30_000), false),
        (json!({"grace_ms": 7_000}), json!("session"), json!(null), json!(7_000), false),
        (json!({"ttl_ms": 60_000}), json!("heartbeat"), json!(60_000), json!(30_000), true),
        (json!({"mode": "heartbeat"}), json!("heartbeat"), json!(90_000), json!(30_000), true),
        (json!({"ttl_ms": 0}), json!("permanent"), json!(null), json!(null), true),
        (json!({"mode": "permanent"}), json!("permanent"), json!(null), json!(null), true),
    ];
    for (number, (more, mode, ttl, grace, is_alone)) in cases.into_iter().enumerate() {
        let lease = acquire(&mut lines, &format!("r{number}"), more.clone());
        assert_eq!(terms(&lease), (mode, ttl, grace, is_alone), "{more}");
        let promised = lease["mode"] == "heartbeat";
        assert_eq!(lease["valid_ms"].is_null(), !promised, "{lease}");
    }
    for more in [
        json!({"mode": "session", "ttl_ms": 60_000}),
        json!({"mode": "heartbeat", "ttl_ms": 0}),
        json!({"mode": "permanent", "ttl_ms": 60_000}),
        json!({"session": "pipe:00000001"}),
    ] {
        let mut body = json!({"resources": ["x"], "holder": "a"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        lines.refused(json!({"acquire": body}), "invalid_request");
    }
    let session = daemon.post("/v1/sessions", json!({"holder": "a"}));
    let by_hand = daemon.acquire(json!({"resources": ["h"], "holder": "a", "session": session["session"]}));
    assert_eq!(
        (&by_hand["mode"], &by_hand["ttl_ms"], &by_hand["grace_ms"]),
        (&"session".into(), &90_000.into(), &30_000.into())
    );
}

#[test]
fn a_session_is_logged_with_its_first_grant() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let mut quiet = daemon.lines();
    quiet.good(json!({"hello": {}}), "hello");
    quiet.good(json!({"list": {}}), "leases");
    drop(quiet);
    let mut heartbeats = daemon.lines();
    acquire(&mut heartbeats, "h", json!({"ttl_ms": 60_000}));
    let mut lines = daemon.lines();
    let lease = acquire(&mut lines, "r", json!({}));
    acquire(&mut lines, "s", json!({}));
    assert_eq!(watch.kinds(4), ["granted h", "session_opened", "granted r", "granted s"]);
    let story = daemon.get(&format!("/v1/why?session={}", lease["session"].as_str().unwrap()));
    assert_eq!(story["entries"][0]["kind"], "session_opened");
}

#[test]
fn a_dead_connection_drains_at_once_and_ends_after_its_grace() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let mut lines = daemon.lines();
    let lease = acquire(&mut lines, "r", json!({"grace_ms": 300}));
    let other = acquire(&mut lines, "s", json!({"ttl_ms": 60_000}));
    drop(lines);
    let draining = watch.next_of("draining");
    assert_eq!(draining.data["session"], lease["session"], "{draining:?}");
    let revoked = watch.about("revoked", &lease);
    assert_eq!(revoked["lease"]["reason"], "session_expired");
    let reclaimed = watch.about("reclaimed", &lease);
    assert_eq!(
        (&reclaimed["lease"]["state"], &reclaimed["lease"]["reason"]),
        (&"revoked".into(), &"session_expired".into())
    );
    let ended = daemon.inspect(&lease);
    assert_eq!((&ended["state"], &ended["reason"]), (&"revoked".into(), &"session_expired".into()));
    let story = daemon.get(&format!("/v1/why?lease={}", id(&lease)));
    let entries = story["entries"].as_array().unwrap();
    let kinds: Vec<&str> = entries.iter().map(|entry| entry["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["granted", "draining", "revoked", "reclaimed"]);
    assert_eq!(entries[2]["evidence"]["kind"], "disconnected", "{story}");
    assert_eq!(story["next"], Value::Null);
    assert_eq!(
        daemon.inspect(&other)["liveness"],
        "alive",
        "a heartbeat lease does not live by its connection"
    );
}

#[test]
fn leases_of_one_session_end_each_by_its_own_grace() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let mut lines = daemon.lines();
    let late = acquire(&mut lines, "late", json!({"grace_ms": 60_000}));
    let soon = acquire(&mut lines, "soon", json!({"grace_ms": 0}));
    drop(lines);
    watch.about("reclaimed", &soon);
    let shown = daemon.inspect(&late);
    assert_eq!(
        (&shown["state"], &shown["liveness"], &shown["drain_cause"]),
        (&"active".into(), &"draining".into(), &"silence".into())
    );
    let remaining = shown["remaining_ms"].as_u64().unwrap();
    assert!((30_000..=60_000).contains(&remaining), "{shown}");
}

#[test]
fn a_lease_comes_back_on_a_new_connection() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let mut lines = daemon.lines();
    let lease = acquire(&mut lines, "r", json!({"attachment": {"job": 7}}));
    drop(lines);
    watch.next_of("draining");

    let mut lines = daemon.lines();
    let hello = lines.good(json!({"hello": {}}), "hello");
    lines.refused(json!({"heartbeat": {"lease_id": id(&lease), "epoch": 1}}), "no_liveness");
    lines.refused(json!({"resume": {"lease_id": id(&lease), "epoch": 9}}), "stale_epoch");
    lines.refused(json!({"resume": {"lease_id": id(&lease), "epoch": 1, "holder": "b"}}), "holder_mismatch");
    let resumed = lines.good(json!({"resume": {"lease_id": id(&lease), "epoch": 1}}), "resumed");
    assert_eq!(resumed["epoch"], 2);
    assert!(resumed["fence"].as_u64() > lease["fence"].as_u64(), "{resumed}");
    assert_eq!((&resumed["session"], &resumed["liveness"]), (&hello["session"], &"alive".into()));
    assert_eq!((&resumed["holder"], &resumed["attachment"]), (&"a".into(), &json!({"job": 7})));
    assert_eq!(watch.about("rebound", &lease)["lease"]["epoch"], 2);
    let error = lines.refused(json!({"release": {"lease_id": id(&lease), "epoch": 1}}), "stale_epoch");
    assert_eq!((&error["current"], &error["lost"]), (&2.into(), &true.into()));
    lines.good(json!({"heartbeat": {"lease_id": id(&lease), "epoch": 2}}), "renewed");
    lines.good(json!({"release": {"lease_id": id(&lease), "epoch": 2}}), "released");
}

#[test]
fn only_leases_of_connections_are_resumed() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    let heartbeat = acquire(&mut lines, "h", json!({"ttl_ms": 60_000}));
    let session = daemon.http_of(47_111).post("/v1/sessions", &json!({"holder": "a"})).json();
    let own = daemon.http_over_socket().json("POST", "/v1/sessions", json!({"holder": "a"})).good();
    let by_hand = acquire(&mut lines, "s", json!({"session": own["session"]}));
    lines.refused(json!({"resume": {"lease_id": id(&heartbeat), "epoch": 1}}), "no_liveness");
    lines.refused(json!({"resume": {"lease_id": id(&by_hand), "epoch": 1}}), "no_liveness");
    lines.refused(json!({"heartbeat": {"lease_id": id(&by_hand), "epoch": 1}}), "no_liveness");
    // A session of another principal keeps nothing of ours.
    lines.refused(
        json!({"acquire": {"resources": ["x"], "holder": "a", "session": session["session"]}}),
        "forbidden",
    );
}

#[test]
fn nobody_else_takes_a_lease_from_an_open_connection() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let (mut one, mut two) = (daemon.lines(), daemon.lines());
    let lease = acquire(&mut one, "r", json!({}));
    let resume = json!({"resume": {"lease_id": id(&lease), "epoch": 1}});
    let refused = two.refused(resume.clone(), "not_draining");
    assert!(refused["retry_after_ms"].is_u64(), "{refused}");
    let path = format!("/v1/sessions/{}", lease["session"].as_str().unwrap());
    let mut http = daemon.http_over_socket();
    http.json("DELETE", &path, Value::Null).refused("not_draining");
    let session = http.json("POST", "/v1/sessions", json!({"holder": "b"})).good();
    let rebind = format!("/v1/leases/{}/rebind", id(&lease));
    for body in [json!({"epoch": 1, "holder": "b"}), json!({"epoch": 1, "session": session["session"]})] {
        http.json("POST", &rebind, body).refused("not_draining");
    }
    one.good(json!({"heartbeat": {"lease_id": id(&lease), "epoch": 1}}), "renewed");
    drop(one);
    watch.next_of("draining");
    assert_eq!(two.good(resume, "resumed")["epoch"], 2);
}

#[test]
fn a_connection_hears_that_its_lease_was_handed_over_in_its_name() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    let lease = acquire(&mut lines, "r", json!({}));
    let mut http = daemon.http_over_socket();
    let session = http.json("POST", "/v1/sessions", json!({"holder": "b"})).good();
    let body = json!({"epoch": 1, "to_session": session["session"]});
    let handover = format!("/v1/leases/{}/handover", id(&lease));
    assert_eq!(http.json("POST", &handover, body).good()["holder"], "b");
    let lost = lines.next();
    assert_eq!(lost, json!({"lost": {"lease_id": id(&lease), "epoch": 2, "reason": "explicit"}}));
}

#[test]
fn a_holder_on_a_connection_is_told_of_its_loss_and_acknowledges_it() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let mut lines = daemon.lines();
    let lease = acquire(&mut lines, "r", json!({}));
    let revoked = daemon.of_lease(&lease, "revoke", json!({"reason": "maintenance"})).good();
    assert_eq!(revoked["state"], "revoking");
    let remaining = revoked["remaining_ms"].as_u64().unwrap();
    assert!((1..=10_000).contains(&remaining), "revoke_timeout is 10 s: {revoked}");
    let lost = lines.next();
    assert_eq!(lost, json!({"lost": {"lease_id": id(&lease), "epoch": 2, "reason": "admin_force"}}));
    daemon.of_lease(&lease, "reclaim", json!({})).refused("not_yet");
    let acknowledged =
        lines.good(json!({"acknowledge": {"lease_id": id(&lease), "epoch": 1}}), "acknowledged");
    assert_eq!(acknowledged["lease_id"], lease["lease_id"]);
    watch.about("reclaimed", &lease);
    assert_eq!(daemon.inspect(&lease)["state"], "revoked");
}

#[test]
fn the_close_of_a_connection_acknowledges_its_losses() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let mut lines = daemon.lines();
    let lease = acquire(&mut lines, "r", json!({}));
    daemon.of_lease(&lease, "revoke", json!({})).good();
    lines.until(|line| line["lost"].is_object());
    drop(lines);
    watch.about("reclaimed", &lease);
}

#[test]
fn a_loss_that_is_only_heard_keeps_its_resources() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    let lease = acquire(&mut lines, "r", json!({}));
    daemon.of_lease(&lease, "revoke", json!({})).good();
    lines.until(|line| line["lost"].is_object());
    lines.good(json!({"status": {}}), "status");
    assert_eq!(daemon.inspect(&lease)["state"], "revoking");
    daemon.ask("POST", "/v1/leases", json!({"resources": ["r"], "holder": "b"})).refused("resource_held");
}

#[test]
fn revoke_timeout_ends_a_loss_that_nobody_acknowledges() {
    let daemon = Served::start_with(&["--limits-revoke-timeout", "400ms"]);
    let mut watch = daemon.watch();
    let mut lines = daemon.lines();
    let lease = acquire(&mut lines, "r", json!({}));
    let permanent = daemon.acquire(json!({"resources": ["p"], "holder": "a", "ttl_ms": 0}));
    for lease in [lease, permanent] {
        let remaining = daemon.of_lease(&lease, "revoke", json!({})).good()["remaining_ms"].as_u64().unwrap();
        assert!((1..=400).contains(&remaining), "{remaining}");
        let revoked = watch.about("revoked", &lease);
        let reclaimed = watch.about("reclaimed", &lease);
        let waited = millis(&reclaimed["at"]) - millis(&revoked["at"]);
        assert!((390..20_000).contains(&waited), "{waited} ms");
    }
    lines.say(json!({"list": {}}));
    assert_eq!(lines.until(|line| line["leases"].is_object())["leases"]["leases"], json!([]));
}

/// Milliseconds of a day.
fn millis(at: &Value) -> i64 {
    let text = at.as_str().unwrap();
    let number = |range: std::ops::Range<usize>| text[range].parse::<i64>().unwrap();
    ((number(11..13) * 60 + number(14..16)) * 60 + number(17..19)) * 1_000 + number(20..23)
}

#[test]
fn losses_on_a_connection_are_told_whoever_ends_the_lease() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    let short = acquire(&mut lines, "short", json!({"max_lifetime_ms": 1_000}));
    let lost = lines.until(|line| line["lost"].is_object());
    assert_eq!(lost["lost"]["lease_id"], short["lease_id"]);
    assert_eq!(lost["lost"]["reason"], daemon.inspect(&short)["reason"]);
    // One that the holder gives back itself is no loss; nor is one of another connection.
    let own = acquire(&mut lines, "own", json!({}));
    lines.good(json!({"release": {"lease_id": id(&own), "epoch": 1}}), "released");
    let mut others = daemon.lines();
    let other = acquire(&mut others, "other", json!({}));
    daemon.of_lease(&other, "revoke", json!({})).good();
    others.until(|line| line["lost"].is_object());
    assert!(lines.is_silent_for(Duration::from_millis(100)));
}

#[test]
fn a_reservation_whose_connection_closed_drains_at_activate() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    let lease = acquire(&mut lines, "r", json!({"reserve_ms": 60_000}));
    drop(lines);
    wait_until_gone(&daemon, &lease["session"]);
    assert_eq!(daemon.inspect(&lease)["state"], "reserved", "only its deadline ends it");
    let mut lines = daemon.lines();
    let active = lines.good(json!({"activate": {"lease_id": id(&lease), "epoch": 1}}), "activated");
    assert_eq!((&active["state"], &active["liveness"]), (&"active".into(), &"draining".into()), "{active}");
}

#[test]
fn a_waiting_request_goes_with_its_connection() {
    let daemon = Served::start();
    let lease = daemon.acquire(json!({"resources": ["r"], "holder": "a"}));
    let mut lines = daemon.lines();
    lines.say(json!({"acquire": {"resources": ["r"], "holder": "b", "wait_ms": 60_000}, "tag": 1}));
    wait_until("somebody waits", LONG, || daemon.inspect(&lease)["waiters"] == json!(["b"]));
    drop(lines);
    wait_until("nobody waits", LONG, || daemon.inspect(&lease)["waiters"] == json!([]));
    daemon.of_lease(&lease, "release", json!({"epoch": 1})).good();
    assert_eq!(daemon.get("/v1/leases")["leases"], json!([]));
}

#[test]
fn a_standard_input_that_ends_drains_what_it_held() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let mut stdin = daemon.stdin();
    let lease = acquire(&mut stdin, "r", json!({"grace_ms": 0}));
    stdin.end_writing();
    let ended = watch.about("revoked", &lease);
    assert_eq!(ended["lease"]["reason"], "session_expired");
}
