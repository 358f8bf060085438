//! When most holders fall silent at once the daemon suspects itself: ends are late, not wrong.

use std::time::Duration;

use serde_json::{Value, json};

use super::daemon::{LONG, Served, id};
use crate::run_support::{holds_for, repeat_for, wait_until};

const HOLDERS: usize = 24;
/// The silence of fewer users may be their own doing.
const USERS: [u32; 3] = [47_121, 47_122, 47_123];

/// The user of a lease that is one of [`silenced`].
fn user_of(lease: &Value) -> u32 {
    let number: usize = lease["holder"].as_str().unwrap()[1..].parse().unwrap();
    USERS[number % USERS.len()]
}

#[track_caller]
fn heartbeat(daemon: &Served, lease: &Value) {
    let path = format!("/v1/leases/{}/heartbeat", id(lease));
    let beaten = daemon.http_of(user_of(lease)).post(&path, &json!({"epoch": 1}));
    assert_eq!(beaten.status, 200, "{beaten:?}");
}

/// Holders that beat for a while and then all fall silent; one of them has no grace.
fn silenced(daemon: &Served) -> Vec<Value> {
    let leases: Vec<Value> = (0..=HOLDERS)
        .map(|number| {
            let (name, holder) = (format!("r{number}"), format!("h{number}"));
            let grace_ms = if number == HOLDERS { 0 } else { 200 };
            let body = json!({"resources": [name], "holder": holder, "ttl_ms": 2_000, "grace_ms": grace_ms});
            let granted = daemon.http_of(USERS[number % USERS.len()]).post("/v1/leases", &body);
            assert_eq!(granted.status, 201, "{granted:?}");
            granted.json()
        })
        .collect();
    repeat_for(Duration::from_millis(1_200), || leases.iter().for_each(|lease| heartbeat(daemon, lease)));
    leases
}

fn count(daemon: &Served, liveness: &str) -> usize {
    daemon.get(&format!("/v1/leases?liveness={liveness}"))["leases"].as_array().unwrap().len()
}

#[test]
fn ends_are_postponed_until_the_breaker_is_reset() {
    let daemon = Served::start_with(&["--breaker-window", "1s", "--breaker-hold", "1m"]);
    let leases = silenced(&daemon);
    wait_until("the breaker opens", LONG, || daemon.get("/v1/status")["breaker"]["open"] == true);
    let breaker = daemon.get("/v1/status")["breaker"].clone();
    assert!((1..=60_000).contains(&breaker["remaining_ms"].as_u64().unwrap()), "{breaker}");
    assert_eq!(breaker["opened"], 1);
    wait_until("who has no grace is exempt", LONG, || daemon.inspect(&leases[HOLDERS])["state"] == "revoked");
    // Those that fell silent after it opened stay, long after their grace.
    let late = count(&daemon, "draining");
    assert!(late > HOLDERS / 3, "{late}");
    assert!(holds_for(Duration::from_millis(700), || count(&daemon, "draining") == late));
    // A heartbeat brings its lease back meanwhile.
    let list = daemon.get("/v1/leases?liveness=draining");
    heartbeat(&daemon, &list["leases"][0]);
    assert_eq!(count(&daemon, "alive"), 1);
    assert!(daemon.post("/v1/breaker/reset", Value::Null)["lsn"].is_u64());
    wait_until("they end", LONG, || count(&daemon, "draining") == 0);
    assert_eq!(daemon.get("/v1/status")["breaker"]["open"], false);
    for told in ["the daemon postpones ends", "expiry resumed"] {
        wait_until(told, LONG, || daemon.said().contains(told));
    }
}

#[test]
fn a_breaker_that_is_off_postpones_nothing() {
    let daemon = Served::start_with(&["--breaker-window", "1s", "--breaker-fraction", "1.0"]);
    silenced(&daemon);
    wait_until("all end", LONG, || daemon.get("/v1/leases")["leases"] == json!([]));
    assert_eq!(daemon.get("/v1/status")["breaker"]["opened"], 0);
}
