//! What the daemon says on standard error: JSON where no person reads, one line per end of a lease, silence otherwise.

use serde_json::{Value, json};

use crate::daemon::{Daemon, LIMIT};
use crate::run_support::wait_until;

/// The log lines that are objects.
fn objects(said: &str) -> Vec<Value> {
    said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Lines about the end of this lease.
fn ends_of(daemon: &Daemon, lease: &Value) -> Vec<Value> {
    let id = lease["lease_id"].as_str().unwrap();
    objects(&daemon.said())
        .into_iter()
        .filter(|line| line["level"] == "INFO" && line.to_string().contains(id) && !line["reason"].is_null())
        .collect()
}

#[test]
fn every_end_of_a_lease_is_one_line_with_its_reason() {
    let mut daemon = Daemon::start();
    let released = daemon.acquire(&json!({"resources": ["a"], "holder": "alice", "ttl_ms": 60_000}));
    let revoked = daemon.acquire(&json!({"resources": ["b"], "holder": "bob", "ttl_ms": 1_000}));
    let silent =
        daemon.acquire(&json!({"resources": ["c"], "holder": "carol", "ttl_ms": 1_000, "grace_ms": 0}));
    let expired = daemon.acquire(&json!({"resources": ["d"], "holder": "dora", "reserve_ms": 1}));
    let path =
        |lease: &Value, verb: &str| format!("/v1/leases/{}/{verb}", lease["lease_id"].as_str().unwrap());
    assert_eq!(daemon.post(&path(&released, "release"), &json!({"epoch": 1})).status, 200);
    assert_eq!(daemon.post(&path(&revoked, "revoke"), &json!({"reason": "maintenance"})).status, 200);
    let expected = [
        (&released, "explicit", "alice", "a"),
        (&revoked, "admin_force", "bob", "b"),
        (&silent, "heartbeat_expired", "carol", "c"),
        (&expired, "reservation_expired", "dora", "d"),
    ];
    for (lease, ..) in expected {
        wait_until("a line about the end", LIMIT, || !ends_of(&daemon, lease).is_empty());
    }
    daemon.stop();
    for (lease, reason, holder, resource) in expected {
        let [line] = &ends_of(&daemon, lease)[..] else { panic!("one line of {lease} in {}", daemon.said()) };
        assert_eq!((&line["reason"], &line["holder"]), (&json!(reason), &json!(holder)), "{line}");
        assert!(line.to_string().contains(resource) && line["timestamp"].is_string(), "{line}");
    }
}

#[test]
fn heartbeats_and_refusals_say_nothing() {
    let daemon = Daemon::start();
    let lease = daemon.acquire(&json!({"resources": ["a"], "holder": "alice", "ttl_ms": 60_000}));
    let before = daemon.said();
    let path = format!("/v1/leases/{}/heartbeat", lease["lease_id"].as_str().unwrap());
    let mut http = daemon.http();
    for _ in 0..20 {
        assert_eq!(http.post(&path, &json!({"epoch": 1})).status, 200);
        assert_eq!(http.post(&path, &json!({"epoch": 7})).status, 409);
        assert_eq!(http.post("/v1/leases", &json!({"resources": ["a"], "holder": "b"})).status, 409);
    }
    assert_eq!(daemon.said(), before);
}

#[test]
fn lines_are_json_where_nobody_reads_and_the_stop_is_among_them() {
    let mut daemon = Daemon::start();
    daemon.stop();
    let lines = objects(&daemon.said());
    let told = lines.iter().find(|line| line["message"] == "stopping on request").expect("the stop is said");
    assert_eq!((&told["level"], &told["signal"]), (&json!("INFO"), &json!("SIGTERM")), "{told}");
}
