//! Mistakes that others made with sessions, each with the test that would have noticed.

use std::sync::Barrier;

use serde_json::{Value, json};

use super::ways::{
    SHORT, SHORT_MS, Streams, Told, id, left_ms, ms, nobody, pools_of_one, prepared, resources, started,
    started_as, started_for_principals, started_with,
};
use crate::daemon::LIMIT;
use crate::raw_http::Answered;
use crate::run_support::{boot_ms, wait_until};
use crate::wire::daemon::Served;
use crate::wire::events::Events;

#[test]
fn expiry_edited_the_row_and_freed_nothing() {
    let daemon = started_with(&[SHORT, &[("POOLS", "tuner=1")]].concat());
    let mut http = daemon.http();
    let session = http.start(json!({}));
    http.until(&session, "stopped");
    let slot = daemon.get("/v1/resources/tuner/1");
    assert!(slot["lease_id"].is_null(), "nobody has it: {slot}");
    let lease = daemon.inspect(&session);
    assert!(lease["ended_at"].is_string() && lease["state"] == "revoked", "{lease}");
    assert_eq!(http.number("tenure_pool_in_use", &["pool=\"tuner\""]), 0.0);
    let next = http.start(json!({}));
    assert_eq!(resources(&next), ["tuner/1"]);
}

#[test]
fn renew_silently_created_a_lost_lease_again() {
    let daemon = started_with(&[SHORT, &[("POOLS", "tuner=1")]].concat());
    let mut http = daemon.http();
    let session = http.start(json!({}));
    http.until(&session, "stopped");
    let before = daemon.get("/v1/leases?state=active")["leases"].clone();
    http.beat(&session).problem("session_expired");
    assert_eq!((before, http.free("tuner")), (json!([]), 1));
    assert_eq!(daemon.get("/v1/leases?state=active")["leases"], json!([]));
    // Nor does it take the slot from who has it now.
    let next = http.start(json!({}));
    http.of_session(&session, "heartbeat", json!({"epoch": session["epoch"]})).problem("session_expired");
    assert_eq!(daemon.get("/v1/resources/tuner/1")["lease_id"], next["lease_id"]);
    http.beat(&nobody()).problem("session_not_found");
    assert_eq!(http.list("?state=running").len(), 1);
}

#[test]
fn the_default_ttl_drifted_and_the_keys_did_nothing() {
    // Without the variable there is the default.
    let daemon = prepared(&[], &[]).with_launcher(&["env", "-u", "TENURE_SESSIONS_POOLS"]);
    let mut daemon: Served = daemon.into();
    daemon.start_again();
    let mut http = daemon.http();
    let session = http.start(json!({}));
    assert_eq!(json!([session["lease_ttl"], session["heartbeat_interval"]]), json!([60, 5]));
    assert!((59_000..=60_000).contains(&left_ms(&session)), "{session}");
    assert_eq!(http.free("tuner"), 3, "four tuners");
    let next = http.beat(&session).renewed();
    assert!((59_000..=60_000).contains(&left_ms(&next)) && next["next_heartbeat_in"] == 5, "{next}");

    let keys = [("LEASE_TTL", "3s"), ("HEARTBEAT_INTERVAL", "1"), ("POOLS", "tuner=2")];
    let daemon = started_with(&keys);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    assert_eq!(json!([session["lease_ttl"], session["heartbeat_interval"]]), json!([3, 1]));
    assert_eq!(http.beat(&session).renewed()["next_heartbeat_in"], 1);
    assert_eq!(http.free("tuner"), 1);
    let renewed = http.seen(&session);
    let ended = http.until(&session, "stopped");
    let late = ms(&ended["ended_at"]) - ms(&renewed["lease_expires_at"]);
    assert!((0..5_000).contains(&late), "they are what happens, too: {ended}");
}

#[test]
fn check_then_write_revived_dead_sessions() {
    let count = 12;
    let daemon = started_with(&[SHORT, &[("POOLS", &pools_of_one(count))]].concat());
    std::thread::scope(|scope| {
        for number in 1..=count {
            let daemon = &daemon;
            scope.spawn(move || {
                let mut http = daemon.http();
                let session = http.start(json!({"pool": format!("p{number}")}));
                // Some just before the deadline, some just after, some upon it.
                let due = boot_ms() + SHORT_MS as u64 + number as u64 * 2 - 14;
                wait_until("the deadline", LIMIT, || boot_ms() >= due);
                let answered = http.beat(&session);
                let seen = http.seen(&session);
                if answered.status == 200 {
                    let renewed = answered.renewed();
                    let in_time = ms(&renewed["server_time"]) <= ms(&session["lease_expires_at"]);
                    assert!(in_time, "renewed after its end: {session} {renewed}");
                    assert_eq!(seen["state"], "running", "what was acknowledged holds: {seen}");
                } else {
                    answered.problem("session_expired");
                    assert_eq!(json!([seen["state"], seen["reason"]]), json!(["stopped", "LEASE_EXPIRED"]));
                    http.beat(&session).problem("session_expired");
                    let slot = format!("/v1/resources/p{number}/1");
                    assert!(http.get(&slot).json()["lease_id"].is_null(), "dead is dead");
                }
            });
        }
    });
}

#[test]
fn beats_were_told_410_while_the_slot_stayed_taken() {
    let count = 8;
    let daemon = started_with(&[SHORT, &[("POOLS", &pools_of_one(count))]].concat());
    let mut http = daemon.http();
    let sessions: Vec<Value> =
        (1..=count).map(|number| http.start(json!({"pool": format!("p{number}")}))).collect();
    wait_until("the deadlines to be near", LIMIT, || left_ms(&http.seen(&sessions[count - 1])) < 500);
    // The daemon stands still over the deadlines, so that the heartbeats are there before it has ended anything. It
    // counts a second for however long it stood.
    daemon.freeze();
    let mut connections: Vec<_> = sessions.iter().map(|_| daemon.http()).collect();
    for (connection, session) in connections.iter_mut().zip(&sessions) {
        let path = format!("/api/v3/sessions/{}/heartbeat", id(session));
        connection.send("POST", &path, b"").unwrap();
    }
    let thaw_at = boot_ms() + 1_500;
    wait_until("more than a second to pass", LIMIT, || boot_ms() >= thaw_at);
    daemon.thaw();
    for (number, connection) in connections.iter_mut().enumerate() {
        connection.answer().unwrap().problem("session_expired");
        let next = connection.try_start(json!({"pool": format!("p{}", number + 1)}));
        next.accepted();
    }
    assert_eq!(http.list("?state=running").len(), count);
}

#[test]
fn parallel_starts_all_passed_admission_and_then_failed() {
    let daemon = started();
    let barrier = Barrier::new(40);
    let told: Vec<Answered> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..40)
            .map(|_| {
                scope.spawn(|| {
                    let mut http = daemon.http();
                    barrier.wait();
                    http.try_start(json!({}))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let admitted: Vec<Value> =
        told.iter().filter(|answered| answered.status == 202).map(Told::accepted).collect();
    assert_eq!(admitted.len(), 4);
    for refused in told.iter().filter(|answered| answered.status != 202) {
        refused.problem("no_capacity");
    }
    let mut http = daemon.http();
    for session in &admitted {
        assert_eq!(session["state"], "running");
        http.beat(session).renewed();
        assert_eq!(http.seen(session)["state"], "running", "who was admitted runs");
    }
    assert_eq!(http.list("").len(), 4, "and nobody else was");
}

#[test]
fn a_promised_warning_was_never_built() {
    let daemon = started_with(SHORT);
    let session = daemon.http().start(json!({}));
    let mut events = Events::admitted(daemon.http(), &format!("/api/v3/sessions/{}/events", id(&session)));
    let mut kinds = Vec::new();
    while kinds.last().is_none_or(|kind| kind != "lease.expired") {
        assert!(kinds.len() < 10, "{kinds:?}");
        kinds.push(events.next().kind);
    }
    let warned = kinds.iter().position(|kind| kind == "lease.expiring");
    assert!(warned.is_some_and(|at| at < kinds.len() - 1), "{kinds:?}");
}

#[test]
fn metrics_were_declared_and_never_counted() {
    let daemon = started_with(&[SHORT, &[("POOLS", "tuner=1")]].concat());
    let mut http = daemon.http();
    let text = http.get("/metrics").text();
    let declared: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .filter(|name| name.starts_with("tenure_session") || name.starts_with("tenure_pool"))
        .collect();
    assert!(declared.len() >= 7, "{declared:?}");
    let mut still: Vec<&str> = declared.clone();
    let mut count = |http: &mut crate::wire::http::Http| still.retain(|name| http.number(name, &[]) == 0.0);
    let session = http.start(json!({}));
    http.beat(&session).renewed();
    http.try_start(json!({})).problem("no_capacity");
    count(&mut http);
    http.until(&session, "stopped");
    http.beat(&session).problem("session_expired");
    wait_until("its end to be counted", LIMIT, || {
        http.number("tenure_sessions_lease_expired_total", &[]) > 0.0
    });
    count(&mut http);
    // What is told of ends is counted where somebody is told of them.
    still.retain(|name| !name.contains("hook") && !name.contains("on_end"));
    assert_eq!(still, Vec::<&str>::new(), "never moved");
}

#[test]
fn one_lost_packet_killed_the_session() {
    let daemon = started_with(&[("LEASE_TTL", "4s"), ("HEARTBEAT_INTERVAL", "1")]);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    for _ in 0..2 {
        let renewed = http.beat(&session).renewed();
        wait_until("two intervals", LIMIT, || {
            ms(&http.seen(&session)["server_time"]) >= ms(&renewed["server_time"]) + 2_000
        });
    }
    // An answer that is lost does no harm either.
    let mut lost = daemon.http();
    lost.send("POST", &format!("/api/v3/sessions/{}/heartbeat", id(&session)), b"").unwrap();
    drop(lost);
    http.beat(&session).renewed();
    // Settings under which one lost packet would be the end are refused.
    let mut tight = prepared(&[("LEASE_TTL", "9s"), ("HEARTBEAT_INTERVAL", "5")], &[]);
    tight.spawn();
    assert_eq!(tight.code(), 2, "{}", tight.said());
    assert!(tight.said().contains("heartbeat_interval"), "{}", tight.said());
    assert!(!tight.data_dir().exists());
}

#[test]
fn a_full_start_queue_blocked_stops() {
    let daemon = started_as(&[("POOLS", "tuner=2")], &["--limits-waiters", "3"]);
    let mut http = daemon.http();
    let (one, two) = (http.start(json!({})), http.start(json!({})));
    let queued: Vec<Value> = (0..3).map(|_| http.start(json!({"wait": 600}))).collect();
    http.try_start(json!({"wait": 600})).problem("too_many_waiters");
    http.beat(&one).renewed();
    http.beat(&queued[2]).renewed();
    http.stop(&one);
    http.until(&queued[0], "running");
    let last = http.start(json!({"wait": 600}));
    http.try_start(json!({"wait": 600})).problem("too_many_waiters");
    http.of_session(&two, "fail", json!({"reason": "x"})).session();
    http.until(&queued[1], "running");
    http.stop(&queued[2]);
    http.stop(&queued[0]);
    http.until(&last, "running");
}

#[test]
fn a_key_without_the_principal_handed_out_the_sessions_of_others() {
    let daemon = started_for_principals(&[]);
    let keyed = |name: &str| {
        daemon
            .http()
            .with("authorization", &format!("Bearer secret-{name}"))
            .with("idempotency-key", "channel-1")
    };
    let asked = json!({"service_ref": "channel 1", "client": "viewer"});
    let ada = keyed("ada").start(asked.clone());
    for other in ["bob", "boss"] {
        let session = keyed(other).start(asked.clone());
        assert_ne!(id(&session), id(&ada), "{other} has one of its own");
        assert_ne!(session["resources"], ada["resources"]);
    }
    keyed("bob").beat(&ada).problem("forbidden");
}
