//! A daemon that stood still, or lost its memory, ends nobody early and takes nobody for a holder.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::daemon::{Daemon, LIMIT};
use crate::run_support::{boot_ms, let_time_pass, wait_until};

fn id(lease: &Value) -> &str {
    lease["lease_id"].as_str().unwrap()
}

#[test]
fn a_daemon_that_stood_still_for_longer_than_a_ttl_ends_nobody_early() {
    let daemon = Daemon::start();
    let session = daemon.post("/v1/sessions", &json!({"holder": "s", "ttl_ms": 3_000, "grace_ms": 0})).json();
    let session = session["session"].as_str().unwrap().to_owned();
    let kept = daemon.acquire(&json!({"resources": ["kept"], "holder": "s", "session": session}));
    let mut lines = daemon.lines();
    let connected =
        lines.ask(&json!({"acquire": {"resources": ["c"], "holder": "c", "grace_ms": 0}}))["acquired"]
            .clone();
    let short = json!({"resources": ["short"], "holder": "h", "ttl_ms": 3_000, "grace_ms": 0});
    let lease = daemon.acquire(&short);

    daemon.freeze();
    let_time_pass(Duration::from_millis(6_000), "the daemon stands still for longer than the leases last");
    daemon.thaw();
    let resumed_at = boot_ms();
    let renewed = daemon.post(&format!("/v1/leases/{}/heartbeat", id(&lease)), &json!({"epoch": 1}));
    assert_eq!(renewed.status, 200, "twice its ttl has passed, but the daemon slept: {renewed:?}");
    assert_eq!(renewed.json()["valid_ms"], 2_984);
    let renewed = daemon.post(&format!("/v1/sessions/{session}/heartbeat"), &json!({}));
    assert_eq!((renewed.status, &renewed.json()["ended"]), (200, &json!([])), "{renewed:?}");
    for lease in [&kept, &connected] {
        let lease = daemon.get(&format!("/v1/leases/{}", id(lease))).json();
        assert_eq!((&lease["state"], &lease["liveness"]), (&json!("active"), &json!("alive")), "{lease}");
    }
    assert_eq!(daemon.get("/v1/status").json()["stalls"], 1);
    wait_until("the stall is logged", LIMIT, || daemon.said().contains("the daemon stalled"));

    // Silence is noticed as ever once the daemon runs: not sooner than the ttl, and not much later.
    let path = format!("/v1/leases/{}", id(&lease));
    wait_until("the end of the lease", LIMIT, || daemon.get(&path).json()["state"] == "revoked");
    let lived_ms = boot_ms() - resumed_at;
    assert!((3_000..8_000).contains(&lived_ms), "it lived for {lived_ms} ms after it was renewed");
    assert_eq!(daemon.get(&path).json()["reason"], "heartbeat_expired");
}

#[test]
fn a_wiped_data_directory_knows_no_holders_and_says_so() {
    let mut daemon = Daemon::start();
    let lease = daemon.acquire(&json!({"resources": ["a"], "holder": "h", "ttl_ms": 60_000}));
    let session = daemon.post("/v1/sessions", &json!({"holder": "s"})).json();
    let mut lines = daemon.lines();
    let connected = lines.ask(&json!({"acquire": {"resources": ["b"], "holder": "c"}}))["acquired"].clone();
    daemon.kill();
    fs::remove_dir_all(daemon.data_dir()).unwrap();
    let_time_pass(Duration::from_millis(1_100), "fences of a new log begin at the second of its birth");
    daemon.start_again();

    for verb in ["heartbeat", "release", "activate", "acknowledge"] {
        let answered = daemon.post(&format!("/v1/leases/{}/{verb}", id(&lease)), &json!({"epoch": 1}));
        assert_eq!(answered.refusal(), (404, "not_found".to_owned()), "{verb}");
        assert_eq!(answered.json()["lost"], true, "{verb}: {answered:?}");
    }
    let amend = json!({"epoch": 1, "attachment": 1});
    let answered = daemon.post(&format!("/v1/leases/{}/amend", id(&lease)), &amend);
    assert_eq!((answered.status, &answered.json()["lost"]), (404, &json!(true)));
    let session = session["session"].as_str().unwrap();
    let answered = daemon.post(&format!("/v1/sessions/{session}/heartbeat"), &json!({}));
    assert_eq!(answered.refusal(), (404, "session_not_found".to_owned()));
    assert_eq!(answered.json()["lost"], true, "{answered:?}");
    let resume = json!({"resume": {"lease_id": connected["lease_id"], "epoch": connected["epoch"]}});
    let refused = daemon.lines().ask(&resume);
    assert_eq!((&refused["error"], &refused["lost"]), (&json!("not_found"), &json!(true)), "{refused}");

    // Only the fence protects what the old holder guards: it lies above the old one.
    let again = daemon.acquire(&json!({"resources": ["a"], "holder": "next"}));
    assert!(again["fence"].as_u64() > lease["fence"].as_u64(), "{again} after {lease}");
    assert_ne!(id(&again)[..4], id(&lease)[..4], "ids of the two logs differ");
    let checked = daemon.post("/v1/check", &json!({"resource": "a", "fence": lease["fence"]})).json();
    assert_eq!(checked["current"], false, "{checked}");
}
