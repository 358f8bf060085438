//! Ends that silence brings: when, and what is done then.

use serde_json::json;

use super::ways::{SHORT, SHORT_MS, Streams, Told, id, ms, resources, started_as, started_with};
use crate::daemon::LIMIT;
use crate::run_support::wait_until;

#[test]
fn silence_stops_a_session_at_its_deadline() {
    let daemon = started_with(SHORT);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    let renewed = http.beat(&session).renewed();
    let ended = http.until(&session, "stopped");
    assert_eq!(ended["reason"], "LEASE_EXPIRED", "{ended}");
    let late = ms(&ended["ended_at"]) - ms(&renewed["lease_expires_at"]);
    // Ten seconds would be somebody who looks now and then.
    assert!((0..5_000).contains(&late), "{late} ms after the deadline: {ended}");
    assert_eq!(ended["last_heartbeat"], http.seen(&session)["last_heartbeat"]);
    assert!(ended["last_heartbeat"].is_string(), "{ended}");
}

#[test]
fn its_slots_are_free_at_that_same_moment() {
    let daemon = started_with(&[SHORT, &[("POOLS", "tuner=2")]].concat());
    let mut http = daemon.http();
    let session = http.start(json!({"count": 2, "pool": "tuner", "resources": ["dish"]}));
    let ended = http.until(&session, "stopped");
    let next = http.start(json!({"count": 2, "pool": "tuner", "resources": ["dish"]}));
    assert_eq!(resources(&next), resources(&session));
    assert!(next["fence"].as_u64() > session["fence"].as_u64(), "{next}");
    assert!(ms(&next["created_at"]) >= ms(&ended["ended_at"]));
}

#[test]
fn a_grace_comes_before_the_end() {
    let daemon = started_with(&[SHORT, &[("GRACE", "1s")]].concat());
    let mut http = daemon.http();
    let session = http.start(json!({}));
    http.until(&session, "draining");
    let ended = http.until(&session, "stopped");
    assert_eq!(ended["reason"], "LEASE_EXPIRED", "{ended}");
    assert!(ms(&ended["ended_at"]) >= ms(&session["lease_expires_at"]), "never early: {ended}");
    assert!(ms(&ended["ended_at"]) - ms(&session["created_at"]) >= SHORT_MS + 1_000, "{ended}");
    http.until_free("tuner", 4);
}

#[test]
fn a_heartbeat_after_the_end_is_told_that_it_expired() {
    let daemon = started_with(SHORT);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    http.until(&session, "stopped");
    for answered in [
        http.beat(&session),
        http.of_session(&session, "heartbeat", json!({"epoch": session["epoch"]})),
        http.of_session(&session, "heartbeat", json!({"epoch": 99})),
        http.delete_session(&session),
        http.intend_stop(&session),
        http.of_session(&session, "activate", json!(null)),
        http.of_session(&session, "fail", json!({"reason": "x"})),
    ] {
        let problem = answered.problem("session_expired");
        assert_eq!(problem["session_id"], id(&session), "{problem}");
    }
    let seen = http.seen(&session);
    assert_eq!(json!([seen["state"], seen["reason"]]), json!(["stopped", "LEASE_EXPIRED"]));
}

#[test]
fn the_end_is_one_line_of_the_log() {
    for format in ["text", "json"] {
        let daemon = started_as(SHORT, &["--log-format", format]);
        let mut http = daemon.http();
        let (silent, stopped) = (http.start(json!({})), http.start(json!({})));
        http.stop(&stopped);
        http.until(&silent, "stopped");
        let told = || -> Vec<String> {
            let said = daemon.said();
            let lines = said.lines().filter(|line| line.contains("session.lease_expired"));
            lines.map(str::to_owned).collect()
        };
        wait_until("the line", LIMIT, || !told().is_empty());
        let told = told();
        assert_eq!(told.len(), 1, "{told:?}");
        let words = [
            ("event", "session.lease_expired"),
            ("session_id", id(&silent)),
            ("state", "stopped"),
            ("reason", "LEASE_EXPIRED"),
        ];
        for (key, value) in words {
            let word =
                if format == "text" { format!("{key}={value}") } else { format!("\"{key}\":\"{value}\"") };
            assert!(told[0].contains(&word), "{word} is not in {}", told[0]);
        }
        assert!(told[0].contains("INFO"), "{}", told[0]);
    }
}

#[test]
fn heartbeats_and_looks_write_no_line() {
    let daemon = started_with(SHORT);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    let before = daemon.said();
    http.beat_for(&session, std::time::Duration::from_millis(1_500));
    http.seen(&session);
    assert_eq!(daemon.said(), before);
}

#[test]
fn hundreds_of_silent_sessions_end_and_leave_nothing_taken() {
    let daemon = started_with(&[SHORT, &[("POOLS", "tuner=200")]].concat());
    let mut http = daemon.http();
    let sessions: Vec<_> = (0..200).map(|_| http.start(json!({}))).collect();
    http.until_free("tuner", 200);
    for session in sessions.iter().step_by(17) {
        let ended = http.seen(session);
        assert_eq!(json!([ended["state"], ended["reason"]]), json!(["stopped", "LEASE_EXPIRED"]));
        assert!(ms(&ended["ended_at"]) >= ms(&session["lease_expires_at"]), "early: {session} {ended}");
    }
    assert_eq!(http.list("?state=running"), Vec::<serde_json::Value>::new());
}
