//! Heartbeats: what they renew, what they answer, and how many there may be.

use std::time::Duration;

use serde_json::{Value, json};

use super::ways::{
    SHORT, SHORT_MS, Streams, Told, id, left_ms, ms, nobody, started, started_as, started_with,
};
use crate::daemon::LIMIT;
use crate::raw_http::Answered;
use crate::run_support::wait_until;

#[test]
fn a_heartbeat_renews_and_says_until_when() {
    let daemon = started();
    let mut http = daemon.http();
    let session = http.start(json!({}));
    let mut renewed = Value::Null;
    wait_until("a millisecond to pass", LIMIT, || {
        ms(&http.seen(&session)["server_time"]) > ms(&session["server_time"])
    });
    for _ in 0..2 {
        renewed = http.beat(&session).renewed();
    }
    assert_eq!(json!([renewed["session_id"], renewed["next_heartbeat_in"]]), json!([id(&session), 5]));
    assert!(ms(&renewed["lease_expires_at"]) > ms(&session["lease_expires_at"]), "{renewed}");
    assert!((59_000..=60_000).contains(&left_ms(&renewed)), "{renewed}");
    assert_eq!(renewed["valid_ms"], 59_699, "{renewed}");
    let seen = http.seen(&session);
    assert_eq!(seen["lease_expires_at"], renewed["lease_expires_at"]);
    let lasts = ms(&seen["lease_expires_at"]) - ms(&seen["last_heartbeat"]);
    assert!((59_990..=60_010).contains(&lasts), "last proof + ttl: {seen}");
    assert_eq!((&seen["epoch"], &seen["fence"]), (&session["epoch"], &session["fence"]));
}

#[test]
fn the_grace_is_part_of_until_when() {
    let daemon = started_with(&[("GRACE", "30s")]);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    assert_eq!(session["lease_ttl"], 60);
    assert!((89_000..=90_000).contains(&left_ms(&session)), "{session}");
    assert!((89_000..=90_000).contains(&left_ms(&http.beat(&session).renewed())));
}

#[test]
fn heartbeats_keep_a_session_and_its_slot() {
    let daemon = started_with(SHORT);
    let mut http = daemon.http();
    let (kept, silent) = (http.start(json!({})), http.start(json!({})));
    let renewed = http.beat_for(&kept, Duration::from_millis(3_500));
    let times: Vec<i64> = renewed.iter().map(|renewed| ms(&renewed["lease_expires_at"])).collect();
    assert!(times.is_sorted(), "never shortened: {times:?}");
    assert_eq!(http.seen(&kept)["state"], "running");
    assert_eq!(http.seen(&silent)["state"], "stopped", "who does not beat is not kept");
    assert_eq!(http.free("tuner"), 3);
}

#[test]
fn the_body_is_optional_and_may_name_the_epoch() {
    let daemon = started_with(SHORT);
    let mut http = daemon.http();
    let beat = |http: &mut crate::wire::http::Http, body: Value| -> Answered {
        let session = http.start(json!({}));
        let body = if body == "epoch" { json!({"epoch": session["epoch"]}) } else { body };
        let answered = http.of_session(&session, "heartbeat", body);
        http.stop(&session);
        answered
    };
    for body in [Value::Null, json!({}), json!("epoch"), json!({"epoch": null})] {
        beat(&mut http, body).renewed();
    }
    for body in [json!({"epoch": "1"}), json!({"epok": 1}), json!({"epoch": -1})] {
        beat(&mut http, body).problem("invalid_request");
    }
}

#[test]
fn a_stale_epoch_is_refused_and_renews_nothing() {
    let daemon = started();
    let mut http = daemon.http();
    let session = http.start(json!({}));
    for epoch in [0, session["epoch"].as_u64().unwrap() + 1] {
        let problem =
            http.of_session(&session, "heartbeat", json!({ "epoch": epoch })).problem("stale_epoch");
        assert_eq!(
            json!([problem["current"], problem["session_id"]]),
            json!([session["epoch"], id(&session)])
        );
    }
    let seen = http.seen(&session);
    assert_eq!(seen["lease_expires_at"], session["lease_expires_at"]);
    assert!(seen["last_heartbeat"].is_null(), "{seen}");
}

#[test]
fn an_unknown_session_is_not_found_on_every_route() {
    let daemon = started();
    let mut http = daemon.http();
    for unknown in [
        nobody(),
        json!({"session_id": "x"}),
        json!({"session_id": "00000000-0000-0000-0000-000000000000"}),
        json!({"session_id": "0192F0C1-2D3E-4F50-8A6B-7C8D9E0FA1B2"}),
        json!({"session_id": "s:00000000"}),
        json!({"session_id": "%F0%9F%92%A9"}),
    ] {
        http.beat(&unknown).problem("session_not_found");
        http.look(&unknown).problem("session_not_found");
        http.delete_session(&unknown).problem("session_not_found");
        http.of_session(&unknown, "activate", Value::Null).problem("session_not_found");
        http.of_session(&unknown, "fail", json!({"reason": "x"})).problem("session_not_found");
        http.intend_stop(&unknown).problem("session_not_found");
        http.get(&format!("/api/v3/sessions/{}/events", id(&unknown))).problem("session_not_found");
    }
    assert_eq!(http.list(""), Vec::<Value>::new(), "asking makes none");
}

#[test]
fn more_than_two_in_an_interval_are_refused_and_harm_nobody() {
    let daemon = started();
    let mut http = daemon.http();
    let (session, other) = (http.start(json!({})), http.start(json!({})));
    let last = [http.beat(&session), http.beat(&session)].map(|answered| answered.renewed())[1].clone();
    for _ in 0..3 {
        let problem = http.beat(&session).problem("rate_limited");
        assert_eq!(problem["session_id"], id(&session));
        assert_eq!(problem["limit"], "heartbeats_per_interval");
        assert_eq!(
            (&problem["value"], &problem["setting"]),
            (&json!(2), &json!("sessions.heartbeat_interval"))
        );
        let hint = problem["hint"].as_str().unwrap();
        assert!(hint.contains("heartbeat_interval") && !hint.contains("requests_per_second"), "{hint}");
    }
    let seen = http.seen(&session);
    assert_eq!(
        json!([seen["state"], seen["lease_expires_at"]]),
        json!(["running", last["lease_expires_at"]])
    );
    http.beat(&other).renewed();
    http.stop(&session);
}

#[test]
fn after_too_many_the_next_interval_counts_again() {
    let daemon = started_with(&[("LEASE_TTL", "20s"), ("HEARTBEAT_INTERVAL", "1")]);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    wait_until("a refusal", LIMIT, || http.beat(&session).status == 429);
    wait_until("another that counts", LIMIT, || http.beat(&session).status == 200);
}

#[test]
fn a_limit_of_requests_leaves_heartbeats_alone() {
    let daemon = started_as(&[], &["--limits-requests-per-second", "20"]);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    wait_until("a request too many", LIMIT, || {
        let answered = http.look(&session);
        if answered.status == 429 {
            answered.problem("rate_limited");
        }
        answered.status == 429
    });
    http.beat(&session).renewed();
}

#[test]
fn with_a_grace_a_silent_session_drains_and_a_heartbeat_brings_it_back() {
    let daemon = started_with(&[SHORT, &[("GRACE", "30s")]].concat());
    let mut http = daemon.http();
    let session = http.start(json!({}));
    let draining = http.until(&session, "draining");
    let silent = ms(&draining["server_time"]) - ms(&session["created_at"]);
    assert!(silent >= SHORT_MS, "draining begins after the ttl: {draining}");
    assert_eq!(draining["lease_expires_at"], session["lease_expires_at"], "still ttl + grace");
    assert_eq!(http.free("tuner"), 3, "its slot is its own");
    let renewed = http.beat(&session).renewed();
    assert!(ms(&renewed["lease_expires_at"]) > ms(&session["lease_expires_at"]));
    let seen = http.seen(&session);
    assert_eq!(seen["state"], "running");
    for same in ["epoch", "fence", "resources", "lease_id", "created_at"] {
        assert_eq!(seen[same], session[same], "{same}");
    }
}

#[test]
fn without_a_grace_no_session_ever_drains_of_silence() {
    let daemon = started_with(SHORT);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    wait_until("its end", LIMIT, || {
        let seen = http.seen(&session);
        assert_ne!(seen["state"], "draining", "{seen}");
        seen["state"] == "stopped"
    });
}
