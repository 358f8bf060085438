//! What the numbers say of sessions.

use serde_json::{Value, json};

use super::ways::{SHORT, Streams, Told, id, nobody, started, started_as, started_with};
use crate::daemon::LIMIT;
use crate::run_support::wait_until;

const NAMES: [&str; 7] = [
    "tenure_sessions_lease_expired_total",
    "tenure_sessions_heartbeat_total",
    "tenure_sessions_heartbeat_late_total",
    "tenure_sessions",
    "tenure_pool_in_use",
    "tenure_pool_size",
    "tenure_session_start_rejected_total",
];

#[test]
fn every_number_moves_in_a_scripted_life() {
    let daemon = started_with(&[SHORT, &[("POOLS", "tuner=1")]].concat());
    let mut http = daemon.http();
    let at_first: Vec<f64> = NAMES.iter().map(|name| http.number(name, &[])).collect();
    assert_eq!(at_first, [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    let session = http.start(json!({}));
    http.beat(&session).renewed();
    http.try_start(json!({})).problem("no_capacity");
    assert_eq!(http.number("tenure_pool_in_use", &["pool=\"tuner\""]), 1.0);
    assert_eq!(http.number("tenure_sessions", &["state=\"running\""]), 1.0);
    http.until(&session, "stopped");
    http.beat(&session).problem("session_expired");
    wait_until("its end to be counted", LIMIT, || {
        http.number("tenure_sessions_lease_expired_total", &[]) == 1.0
    });
    assert_eq!(http.number("tenure_sessions_heartbeat_total", &[]), 1.0);
    assert_eq!(http.number("tenure_sessions_heartbeat_late_total", &[]), 1.0);
    assert_eq!(http.number("tenure_session_start_rejected_total", &["reason=\"no_capacity\""]), 1.0);
    assert_eq!(http.number("tenure_pool_in_use", &["pool=\"tuner\""]), 0.0);
    assert_eq!(http.number("tenure_pool_size", &["pool=\"tuner\""]), 1.0);
    assert_eq!(http.number("tenure_sessions", &["state=\"running\""]), 0.0);
}

#[test]
fn every_name_is_described_with_its_type() {
    let daemon = started();
    let text = daemon.http().get("/metrics").text();
    for name in NAMES {
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        assert!(text.contains(&format!("# HELP {name} ")), "{name}");
        assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "{name} {kind}");
    }
}

#[test]
fn only_heartbeats_that_renewed_are_counted_and_only_late_ones_are_late() {
    let daemon = started();
    let mut http = daemon.http();
    let (session, stale) = (http.start(json!({})), http.start(json!({})));
    http.of_session(&stale, "heartbeat", json!({"epoch": 99})).problem("stale_epoch");
    http.beat(&session).renewed();
    http.beat(&session).renewed();
    http.beat(&session).problem("rate_limited");
    http.beat(&nobody()).problem("session_not_found");
    http.stop(&session);
    http.beat(&session).problem("session_gone");
    let numbers = ["tenure_sessions_heartbeat_total", "tenure_sessions_heartbeat_late_total"]
        .map(|name| http.number(name, &[]));
    assert_eq!(numbers, [2.0, 0.0]);
    assert_eq!(http.number("tenure_sessions_lease_expired_total", &[]), 0.0, "it was stopped");
}

#[test]
fn sessions_are_counted_by_state() {
    let daemon = started();
    let mut http = daemon.http();
    let (draining, _running) = (http.start(json!({})), http.start(json!({})));
    http.start(json!({"start_timeout": 60}));
    daemon.of_lease(&draining, "drain", json!({}));
    let queued: Vec<Value> = (0..3).map(|_| http.start(json!({"count": 2, "wait": 60}))).collect();
    let count = |state: &str| daemon.http().number("tenure_sessions", &[&format!("state=\"{state}\"")]);
    assert_eq!(["new", "starting", "running", "draining"].map(count), [3.0, 1.0, 1.0, 1.0]);
    http.stop(&queued[0]);
    http.stop(&draining);
    http.until(&queued[1], "running");
    assert_eq!(["new", "starting", "running", "draining"].map(count), [1.0, 1.0, 2.0, 0.0]);
}

#[test]
fn pools_are_counted_whoever_holds_their_slots() {
    let daemon = started_with(&[("POOLS", "tuner=4,gpu=3")]);
    let mut http = daemon.http();
    let number = |name: &str, pool: &str| daemon.http().number(name, &[&format!("pool=\"{pool}\"")]);
    assert_eq!((number("tenure_pool_size", "tuner"), number("tenure_pool_size", "gpu")), (4.0, 3.0));
    http.start(json!({"count": 2}));
    daemon.acquire(json!({"pools": {"tuner": 1, "gpu": 1}, "holder": "h"}));
    assert_eq!((number("tenure_pool_in_use", "tuner"), number("tenure_pool_in_use", "gpu")), (3.0, 1.0));
    http.put("/v1/pools/gpu", &json!({"size": 5}));
    assert_eq!(number("tenure_pool_size", "gpu"), 5.0);
}

#[test]
fn starts_that_were_refused_are_counted_by_reason() {
    let daemon = started_as(&[("POOLS", "tuner=1"), ("MAX_SESSIONS", "3")], &["--limits-waiters", "1"]);
    let mut http = daemon.http();
    http.start(json!({}));
    for _ in 0..3 {
        http.try_start(json!({})).problem("no_capacity");
    }
    http.start(json!({"wait": 60}));
    http.try_start(json!({"wait": 60})).problem("too_many_waiters");
    http.start(json!({"resources": ["r"]}));
    let full = http.try_start(json!({"resources": ["s"]}));
    full.problem("capacity_exceeded");
    let rejected = |reason: &str| {
        daemon.http().number("tenure_session_start_rejected_total", &[&format!("reason=\"{reason}\"")])
    };
    assert_eq!(["no_capacity", "too_many_waiters", "capacity_exceeded"].map(rejected), [3.0, 1.0, 1.0]);
}

#[test]
fn no_label_names_a_session_or_a_client() {
    let daemon = started();
    let mut http = daemon.http();
    let session =
        http.start(json!({"client": "den-tv", "service_ref": "the-ref", "correlation_id": "the-corr"}));
    http.beat(&session).renewed();
    let text = http.get("/metrics").text();
    for word in [id(&session), "den-tv", "the-ref", "the-corr"] {
        assert!(!text.contains(word), "{word}");
    }
}

#[test]
fn leases_of_sessions_are_counted_by_face() {
    let daemon = started();
    let mut http = daemon.http();
    let session = http.start(json!({}));
    assert_eq!(http.number("tenure_grants_total", &["application=\"slots\"", "outcome=\"granted\""]), 1.0);
    assert_eq!(http.number("tenure_leases", &["application=\"slots\"", "state=\"active\""]), 1.0);
    http.stop(&session);
    wait_until("its end", LIMIT, || {
        http.number("tenure_ends_total", &["application=\"slots\"", "reason=\"explicit\""]) == 1.0
    });
}
