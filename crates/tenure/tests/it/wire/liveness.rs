//! Who is alive, seen from outside: silence, coming back, drains, lifetimes, and what reclaim waits for.

use std::time::Duration;

use serde_json::{Value, json};

use super::daemon::{LONG, Served, id};
use super::http::{Answer, Ask};
use crate::run_support::{boot_ms, holds_for, wait_until};

/// Milliseconds between two times of the same day.
#[track_caller]
fn between(earlier: &Value, later: &Value) -> i64 {
    let ms = |at: &Value| {
        let text = at.as_str().unwrap_or_else(|| panic!("{at} is no time"));
        let number = |range: std::ops::Range<usize>| text[range].parse::<i64>().unwrap();
        ((number(11..13) * 60 + number(14..16)) * 60 + number(17..19)) * 1_000 + number(20..23)
    };
    (ms(later) - ms(earlier)).rem_euclid(86_400_000)
}

fn lease(daemon: &Served, more: Value) -> Value {
    let mut body = json!({"resources": ["r"], "holder": "a", "ttl_ms": 1_000, "grace_ms": 300});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    daemon.acquire(body)
}

#[test]
fn a_silent_holder_drains_then_loses_then_the_resource_is_free() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let lease = lease(&daemon, json!({}));
    assert_eq!(lease["valid_ms"], 994);
    let draining = watch.about("draining", &lease);
    assert_eq!(
        (&draining["lease"]["liveness"], &draining["lease"]["drain_cause"]),
        (&"draining".into(), &"silence".into())
    );
    let revoked = watch.about("revoked", &lease);
    assert_eq!(
        (&revoked["lease"]["reason"], &revoked["lease"]["epoch"]),
        (&"heartbeat_expired".into(), &2.into())
    );
    let reclaimed = watch.about("reclaimed", &lease);
    assert_eq!(reclaimed["lease"]["reason"], "heartbeat_expired");
    // Never early; the clock for people is read a moment apart from the one that counts.
    assert!(between(&lease["granted_at"], &draining["at"]) >= 990, "{draining}");
    assert!(between(&lease["granted_at"], &revoked["at"]) >= 1_290, "{revoked}");
    assert!(between(&lease["granted_at"], &reclaimed["at"]) >= 1_290, "{reclaimed}");
    let ended = daemon.inspect(&lease);
    assert_eq!((&ended["state"], &ended["reason"]), (&"revoked".into(), &"heartbeat_expired".into()));
    super::shown::time(&ended["ended_at"]);
    let story = daemon.get(&format!("/v1/why?lease={}", id(&lease)));
    let evidence = &story["entries"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["kind"] == "revoked")
        .unwrap()["evidence"];
    assert_eq!(evidence["kind"], "silence", "{story}");
    assert!((990..=1_010).contains(&between(&evidence["last_seen"], &evidence["valid_until"])), "{story}");
    assert_eq!(evidence["promised_until"], evidence["valid_until"], "the former name: {story}");
    let error = daemon.of_lease(&lease, "heartbeat", json!({"epoch": 1})).refused("invalid_state");
    assert_eq!(error["lost"], true);
    daemon.acquire(json!({"resources": ["r"], "holder": "b"}));
}

#[test]
fn heartbeats_keep_a_lease_and_write_nothing() {
    let daemon = Served::start();
    let lease = lease(&daemon, json!({"grace_ms": 0}));
    let mut http = daemon.http();
    let lsn = daemon.get("/v1/status")["synced_lsn"].clone();
    let held = holds_for(Duration::from_millis(2_500), || {
        let renewed =
            http.json("POST", &format!("/v1/leases/{}/heartbeat", id(&lease)), json!({"epoch": 1})).good();
        (&renewed["valid_ms"], &renewed["draining"]) == (&994.into(), &false.into())
    });
    assert!(held);
    assert_eq!(daemon.inspect(&lease)["liveness"], "alive");
    assert_eq!(daemon.get("/v1/status")["synced_lsn"], lsn, "a heartbeat never writes to the log");
}

#[test]
fn a_heartbeat_brings_a_silent_lease_back() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let lease = lease(&daemon, json!({"grace_ms": 60_000}));
    watch.about("draining", &lease);
    let shown = daemon.inspect(&lease);
    assert_eq!((&shown["liveness"], &shown["drain_cause"]), (&"draining".into(), &"silence".into()));
    assert_eq!(shown["valid_ms"], 0, "nothing is left of the promise");
    assert!((1..=60_000).contains(&shown["remaining_ms"].as_u64().unwrap()), "{shown}");
    let renewed = daemon.of_lease(&lease, "heartbeat", json!({"epoch": 1})).good();
    assert_eq!((&renewed["valid_ms"], &renewed["draining"]), (&994.into(), &false.into()));
    let back = watch.about("revived", &lease);
    assert_eq!(back["lease"]["liveness"], "alive");
    let shown = daemon.inspect(&lease);
    assert_eq!(
        (&shown["liveness"], &shown["epoch"], &shown["fence"]),
        (&"alive".into(), &1.into(), &lease["fence"])
    );
}

#[test]
fn without_grace_silence_ends_at_once() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let lease = lease(&daemon, json!({"grace_ms": 0}));
    let reclaimed = watch.about("reclaimed", &lease);
    assert!((990..5_000).contains(&between(&lease["granted_at"], &reclaimed["at"])), "{reclaimed}");
}

#[test]
fn an_operators_drain_stays_and_ends_the_lease() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let lease = lease(&daemon, json!({"grace_ms": 1_500}));
    let drained = daemon.of_lease(&lease, "drain", json!({"reason": "maintenance"})).good();
    let told = watch.about("draining", &lease);
    assert_eq!(
        (&told["lease"]["drain_cause"], &told["lease"]["reason_text"]),
        (&"operator".into(), &"maintenance".into())
    );
    let left = drained["remaining_ms"].as_u64().unwrap();
    assert!((1_000..=1_500).contains(&left), "{drained}");
    let mut least = left;
    let mut http = daemon.http();
    wait_until("the drain ends it", LONG, || {
        let answered =
            http.json("POST", &format!("/v1/leases/{}/heartbeat", id(&lease)), json!({"epoch": 1}));
        if answered.status != 200 {
            return true;
        }
        let renewed = answered.good();
        assert_eq!(renewed["draining"], true, "{renewed}");
        let (valid, remaining) =
            (renewed["valid_ms"].as_u64().unwrap(), renewed["remaining_ms"].as_u64().unwrap());
        assert!(valid <= remaining && valid <= 1_000, "a promise never outlives the drain: {renewed}");
        assert!(remaining <= least, "heartbeats prolong no drain: {renewed}");
        least = remaining;
        false
    });
    let revoked = watch.about("revoked", &lease);
    assert_eq!(
        (&revoked["lease"]["reason"], &revoked["lease"]["reason_text"]),
        (&"admin_force".into(), &"drained".into())
    );
    watch.about("reclaimed", &lease);
    let story = daemon.get(&format!("/v1/why?lease={}", id(&lease)));
    let evidence: Vec<&Value> =
        story["entries"].as_array().unwrap().iter().map(|entry| &entry["evidence"]["kind"]).collect();
    assert!(evidence.contains(&&json!("drained")), "{story}");
}

#[test]
fn a_drain_outlasts_the_promise_that_was_made() {
    let daemon = Served::start();
    let lease = daemon.acquire(json!({"resources": ["r"], "holder": "a", "ttl_ms": 60_000, "grace_ms": 0}));
    let drained = daemon.of_lease(&lease, "drain", json!({})).good();
    assert!(drained["remaining_ms"].as_u64().unwrap() > 50_000, "{drained}");
    let renewed = daemon.of_lease(&lease, "heartbeat", json!({"epoch": 1})).good();
    assert!(renewed["valid_ms"].as_u64() <= drained["remaining_ms"].as_u64(), "{renewed}");
}

#[test]
fn revive_brings_back_what_fell_silent_and_only_what_can_live() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let lease = lease(&daemon, json!({"grace_ms": 60_000}));
    watch.about("draining", &lease);
    assert_eq!(daemon.of_lease(&lease, "revive", json!({})).good()["liveness"], "alive");
    let mut lines = daemon.lines();
    let kept = lines.good(json!({"acquire": {"resources": ["s"], "holder": "a"}}), "acquired");
    drop(lines);
    watch.next_of("draining");
    daemon.of_lease(&kept, "revive", json!({})).refused("no_liveness");
    daemon.of_lease(&kept, "drain", json!({})).refused("already_draining");
}

#[test]
fn a_lifetime_ends_a_lease_however_alive_its_holder_is() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let lease = lease(&daemon, json!({"ttl_ms": 60_000, "max_lifetime_ms": 1_500}));
    assert_eq!(lease["valid_ms"], 1_491, "no promise beyond the lifetime");
    let mut http = daemon.http();
    wait_until("the lifetime is over", LONG, || {
        let answered =
            http.json("POST", &format!("/v1/leases/{}/heartbeat", id(&lease)), json!({"epoch": 1}));
        if answered.status == 200 {
            assert!(answered.good()["valid_ms"].as_u64().unwrap() <= 1_491, "{answered:?}");
        }
        answered.status != 200
    });
    let revoked = watch.about("revoked", &lease);
    let reclaimed = watch.about("reclaimed", &lease);
    assert_eq!(revoked["lease"]["reason"], reclaimed["lease"]["reason"]);
    assert!(between(&lease["granted_at"], &revoked["at"]) >= 1_490, "{revoked}");
    let story = daemon.get(&format!("/v1/why?lease={}", id(&lease)));
    let evidence: Vec<&Value> =
        story["entries"].as_array().unwrap().iter().map(|entry| &entry["evidence"]["kind"]).collect();
    assert!(evidence.contains(&&json!("lifetime")), "{story}");
}

#[test]
fn reclaim_waits_for_the_promise() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let lease = lease(&daemon, json!({"ttl_ms": 1_500}));
    let revoked = daemon.of_lease(&lease, "revoke", json!({})).good();
    assert!((1..=1_500).contains(&revoked["remaining_ms"].as_u64().unwrap()), "{revoked}");
    let early = daemon.of_lease(&lease, "reclaim", json!({})).refused("not_yet");
    assert!((1..=1_500).contains(&early["remaining_ms"].as_u64().unwrap()), "{early}");
    daemon.of_lease(&lease, "heartbeat", json!({"epoch": 2})).refused("invalid_state");
    let reclaimed = watch.about("reclaimed", &lease);
    assert!(between(&lease["granted_at"], &reclaimed["at"]) >= 1_490, "{reclaimed}");
}

#[test]
fn reclaim_waits_for_the_delay_even_when_acknowledged() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let lease = lease(&daemon, json!({"reclaim_delay_ms": 1_200, "ttl_ms": 60_000}));
    daemon.of_lease(&lease, "revoke", json!({})).good();
    let acknowledged = daemon.of_lease(&lease, "acknowledge", json!({"epoch": 2})).good();
    assert!((1..=1_200).contains(&acknowledged["remaining_ms"].as_u64().unwrap()), "{acknowledged}");
    daemon.of_lease(&lease, "reclaim", json!({})).refused("not_yet");
    let revoked = watch.about("revoked", &lease);
    let reclaimed = watch.about("reclaimed", &lease);
    assert!(between(&revoked["at"], &reclaimed["at"]) >= 1_190, "{reclaimed}");
}

#[test]
fn a_revoke_that_leaves_the_reclaim_to_a_call_waits_for_it() {
    let daemon = Served::start();
    let lease = lease(&daemon, json!({}));
    daemon.of_lease(&lease, "revoke", json!({"reclaim": false})).good();
    let mut answered = daemon.of_lease(&lease, "reclaim", json!({}));
    assert_eq!(answered.refused("not_yet")["lost"], false);
    wait_until("the promise has run out", LONG, || {
        answered = daemon.of_lease(&lease, "reclaim", json!({}));
        let shown = daemon.inspect(&lease);
        assert!(answered.status == 200 || shown["state"] == "revoking", "{shown}");
        answered.status == 200
    });
    assert_eq!(answered.good()["state"], "revoked");
}

#[test]
fn who_waits_gets_what_a_dead_holder_leaves() {
    let daemon = Served::start();
    let lease = lease(&daemon, json!({"grace_ms": 0}));
    let began = boot_ms();
    let next = daemon.acquire(json!({"resources": ["r"], "holder": "b", "wait_ms": 20_000}));
    assert_eq!(next["holder"], "b");
    assert!(next["fence"].as_u64() > lease["fence"].as_u64());
    assert!(boot_ms() - began < 15_000);
}

#[test]
fn the_ttl_of_a_reservation_counts_from_activate() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let lease = lease(&daemon, json!({"reserve_ms": 60_000, "grace_ms": 0}));
    assert_eq!((&lease["valid_ms"], &lease["liveness"]), (&Value::Null, &Value::Null));
    // Longer than its ttl.
    assert!(holds_for(Duration::from_millis(1_300), || daemon.inspect(&lease)["state"] == "reserved"));
    let active = daemon.of_lease(&lease, "activate", json!({"epoch": 1})).good();
    assert_eq!((&active["liveness"], &active["valid_ms"]), (&"alive".into(), &994.into()));
    let activated = watch.about("activated", &lease);
    let revoked = watch.about("revoked", &lease);
    assert!(between(&activated["at"], &revoked["at"]) >= 990, "{revoked}");
}

#[test]
fn deadlines_are_met_to_the_moment() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    for number in 0..20 {
        daemon.acquire(
            json!({"resources": [format!("r{number}")], "holder": "a", "ttl_ms": 1_000, "grace_ms": 0}),
        );
    }
    (0..20).for_each(|_| drop(watch.next_of("reclaimed")));
    let lateness = daemon.get("/v1/status")["expiry_lateness"].clone();
    assert!(lateness["count"].as_u64().unwrap() >= 20, "{lateness}");
    // Generous: other tests run beside this one.
    assert!(lateness["p99_ms"].as_f64().unwrap() < 2_000.0, "{lateness}");
}
