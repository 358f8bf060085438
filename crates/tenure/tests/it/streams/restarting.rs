//! What a daemon that stopped or was killed still knows of sessions.

use serde_json::{Value, json};

use super::ways::{SHORT, SHORT_MS, Streams, Told, id, left_ms, ms, started, started_with};
use crate::wire::daemon::Served;
use crate::wire::http::Answer;

/// How a daemon ends before it starts again.
const ENDS: [fn(&mut Served); 2] = [|daemon| daemon.kill(), |daemon| daemon.stop()];

#[test]
fn a_running_session_goes_on_with_a_full_ttl() {
    for end in ENDS {
        let mut daemon = started();
        let asked = json!({
            "service_ref": "ref", "metadata": {"k": ["ü", null]}, "correlation_id": "c", "client": "den",
            "count": 2, "pool": "tuner", "resources": ["dish"],
        });
        let session = daemon.http().start(asked);
        end(&mut daemon);
        daemon.start_again();
        let mut http = daemon.http();
        let seen = http.seen(&session);
        for same in [
            "session_id",
            "state",
            "resources",
            "fence",
            "epoch",
            "created_at",
            "metadata",
            "service_ref",
            "correlation_id",
            "client",
            "lease_id",
            "lease_ttl",
            "heartbeat_interval",
        ] {
            assert_eq!(seen[same], session[same], "{same} of {seen}");
        }
        assert!(left_ms(&seen) > 55_000, "{seen}");
        assert_eq!(http.free("tuner"), 2, "its slots are its own");
        http.of_session(&session, "heartbeat", json!({"epoch": session["epoch"]})).renewed();
        http.stop(&session);
        assert_eq!(http.free("tuner"), 4);
    }
}

#[test]
fn a_restart_ages_nobody_and_silence_still_ends() {
    for end in ENDS {
        let mut daemon = started_with(SHORT);
        let session = daemon.http().start(json!({}));
        end(&mut daemon);
        daemon.start_again();
        let mut http = daemon.http();
        let seen = http.seen(&session);
        assert!(seen["state"] == "running", "a full ttl after the restart: {seen}");
        let ended = http.until(&session, "stopped");
        assert_eq!(ended["reason"], "LEASE_EXPIRED", "{ended}");
        assert!(ms(&ended["ended_at"]) >= ms(&seen["lease_expires_at"]), "never early: {ended}");
        assert!(ms(&seen["lease_expires_at"]) - ms(&session["created_at"]) >= SHORT_MS, "{seen}");
        http.until_free("tuner", 4);
    }
}

#[test]
fn what_ended_is_told_as_it_was() {
    for end in ENDS {
        let mut daemon = started_with(&[SHORT, &[("POOLS", "tuner=2")]].concat());
        let mut http = daemon.http();
        let expired = http.start(json!({"metadata": {"k": 1}}));
        http.until(&expired, "stopped");
        let (stopped, failed) = (http.start(json!({})), http.start(json!({})));
        http.stop(&stopped);
        http.of_session(&failed, "fail", json!({"reason": "fell over"})).session();
        let timed_out = http.start(json!({"start_timeout": 1}));
        http.until(&timed_out, "failed");
        let all = [expired, stopped, failed, timed_out];
        let before: Vec<Value> = all.iter().map(|session| http.seen(session)).collect();
        drop(http);
        end(&mut daemon);
        daemon.start_again();
        let mut http = daemon.http();
        for before in &before {
            let after = http.seen(before);
            for same in [
                "state",
                "reason",
                "ended_at",
                "created_at",
                "resources",
                "metadata",
                "lease_expires_at",
                "client",
                "fence",
            ] {
                assert_eq!(after[same], before[same], "{same} of {after}");
            }
            let expected =
                if before["reason"] == "LEASE_EXPIRED" { "session_expired" } else { "session_gone" };
            http.beat(before).problem(expected);
        }
        assert_eq!(http.list("").len(), 4);
        assert_eq!(http.free("tuner"), 2);
    }
}

#[test]
fn a_session_that_is_starting_is_still_to_be_activated() {
    for end in ENDS {
        let mut daemon = started();
        let session = daemon.http().start(json!({"start_timeout": 600}));
        end(&mut daemon);
        daemon.start_again();
        let mut http = daemon.http();
        let seen = http.seen(&session);
        assert_eq!(seen["state"], "starting");
        assert!(left_ms(&seen) > 500_000, "{seen}");
        assert_eq!(http.of_session(&session, "activate", Value::Null).session()["state"], "running");
    }
}

#[test]
fn a_start_deadline_that_is_left_still_ends_the_start() {
    for end in ENDS {
        let mut daemon = started();
        let session = daemon.http().start(json!({"start_timeout": 2}));
        end(&mut daemon);
        daemon.start_again();
        let mut http = daemon.http();
        let ended = http.until(&session, "failed");
        assert_eq!(ended["reason"], "START_TIMEOUT", "{ended}");
        assert!(ms(&ended["ended_at"]) - ms(&session["created_at"]) >= 1_990, "never early: {ended}");
        assert_eq!(http.free("tuner"), 4);
    }
}

#[test]
fn a_session_that_was_revoked_ends_as_that_after_a_restart() {
    for end in ENDS {
        let mut daemon = started_with(&[SHORT, &[("POOLS", "tuner=1")]].concat());
        let session = daemon.http().start(json!({}));
        daemon.of_lease(&session, "revoke", json!({})).good();
        end(&mut daemon);
        daemon.start_again();
        let mut http = daemon.http();
        let ended = http.until(&session, "stopped");
        assert_eq!(ended["reason"], "ADMIN_REVOKED", "{ended}");
        assert!(ms(&ended["ended_at"]) >= ms(&session["lease_expires_at"]), "never early: {ended}");
        http.start(json!({}));
    }
}

#[test]
fn what_an_intent_answered_is_never_forgotten() {
    let mut daemon = started_with(&[("POOLS", "tuner=100")]);
    let mut http = daemon.http();
    let sessions: Vec<Value> = (0..60).map(|_| http.start(json!({}))).collect();
    for session in &sessions[..20] {
        http.stop(session);
    }
    drop(http);
    daemon.kill();
    daemon.start_again();
    let mut http = daemon.http();
    for (number, session) in sessions.iter().enumerate() {
        let wanted = if number < 20 { "stopped" } else { "running" };
        assert_eq!(http.seen(session)["state"], wanted, "{}", id(session));
    }
    assert_eq!(http.free("tuner"), 60);
    assert_eq!(http.list("?state=running").len(), 40);
}

#[test]
fn a_pool_is_made_once_and_keeps_the_size_it_was_given() {
    let mut daemon = started();
    assert_eq!(daemon.http().put("/v1/pools/tuner", &json!({"size": 2})).status, 200);
    daemon.stop();
    daemon.start_again();
    assert_eq!(daemon.http().free("tuner"), 2);
}
