//! Ends that somebody asks for, and what is known of a session afterwards.

use std::time::Duration;

use serde_json::{Value, json};

use super::ways::{SHORT, Streams, Told, id, is_whole, ms, started, started_as, started_with};
use crate::daemon::LIMIT;
use crate::run_support::wait_until;
use crate::wire::http::Answer;

#[test]
pub(crate) fn a_delete_stops_the_session_and_its_slot_is_free_at_once() {
    let daemon = started_with(&[("POOLS", "tuner=1")]);
    let mut http = daemon.http();
    for _ in 0..3 {
        let session = http.start(json!({}));
        let stopped = http.delete_session(&session).session();
        assert_eq!(json!([stopped["state"], stopped["reason"]]), json!(["stopped", "USER_STOPPED"]));
        assert_eq!(stopped["session_id"], session["session_id"]);
        assert_eq!(http.free("tuner"), 1);
    }
}

#[test]
pub(crate) fn an_intent_to_stop_is_accepted_with_the_session() {
    let daemon = started();
    let mut http = daemon.http();
    let session = http.start(json!({"correlation_id": "c"}));
    let stopped = http.intend_stop(&session).accepted();
    assert_eq!(
        json!([stopped["session_id"], stopped["status"], stopped["state"], stopped["reason"]]),
        json!([id(&session), "accepted", "stopped", "USER_STOPPED"])
    );
    assert_eq!(stopped["correlation_id"], "c", "the whole session: {stopped}");
    assert_eq!(http.free("tuner"), 4);
}

#[test]
pub(crate) fn a_client_that_gives_up_says_why() {
    let daemon = started();
    let mut http = daemon.http();
    let text = "tuner lock lost: \"<b>ünsync</b>\"\nagain";
    let session = http.start(json!({}));
    let failed = http.of_session(&session, "fail", json!({ "reason": text })).session();
    assert_eq!(json!([failed["state"], failed["reason"]]), json!(["failed", format!("FAILED:{text}")]));
    assert_eq!(http.free("tuner"), 4);
    let seen = http.seen(&session);
    assert_eq!(json!([seen["state"], seen["reason"]]), json!(["failed", format!("FAILED:{text}")]));
}

#[test]
fn giving_up_takes_a_reason_of_bounded_length() {
    let daemon = started();
    let mut http = daemon.http();
    let session = http.start(json!({}));
    for body in [Value::Null, json!({}), json!({"reason": 5}), json!({"reason": "x", "more": 1})] {
        http.of_session(&session, "fail", body).problem("invalid_request");
    }
    let long = http.of_session(&session, "fail", json!({"reason": "x".repeat(250)}));
    assert!(matches!(long.status, 400 | 413), "{long:?}");
    long.problem(long.json()["code"].as_str().unwrap());
    assert_eq!(http.seen(&session)["state"], "running");
    let reason = "x".repeat(249);
    let failed = http.of_session(&session, "fail", json!({ "reason": reason })).session();
    assert_eq!(failed["reason"], format!("FAILED:{reason}"));
}

#[test]
pub(crate) fn a_session_that_is_starting_is_stopped_and_failed_like_any_other() {
    let daemon = started();
    let mut http = daemon.http();
    let asked = json!({"start_timeout": 60});
    let (one, two) = (http.start(asked.clone()), http.start(asked));
    let stopped = http.stop(&one);
    assert_eq!(stopped["reason"], "USER_STOPPED");
    let failed = http.of_session(&two, "fail", json!({"reason": "no signal"})).session();
    assert_eq!(json!([failed["state"], failed["reason"]]), json!(["failed", "FAILED:no signal"]));
    assert_eq!(http.free("tuner"), 4);
}

#[test]
fn what_ended_answers_every_holder_call_with_how() {
    let daemon = started_with(SHORT);
    let mut http = daemon.http();
    let (stopped, failed) = (http.start(json!({})), http.start(json!({})));
    let revoked = http.start(json!({}));
    http.stop(&stopped);
    http.of_session(&failed, "fail", json!({"reason": "why"})).session();
    daemon.of_lease(&revoked, "revoke", json!({})).good();
    http.until(&revoked, "stopped");
    for (session, state, reason) in [
        (&stopped, "stopped", "USER_STOPPED"),
        (&failed, "failed", "FAILED:why"),
        (&revoked, "stopped", "ADMIN_REVOKED"),
    ] {
        for answered in [
            http.beat(session),
            http.of_session(session, "heartbeat", json!({"epoch": session["epoch"]})),
            http.of_session(session, "activate", Value::Null),
            http.of_session(session, "fail", json!({"reason": "again"})),
            http.delete_session(session),
            http.intend_stop(session),
        ] {
            let problem = answered.problem("session_gone");
            assert_eq!(
                json!([problem["session_id"], problem["state"], problem["reason"]]),
                json!([id(session), state, reason])
            );
        }
        let seen = http.seen(session);
        assert_eq!(json!([seen["state"], seen["reason"]]), json!([state, reason]), "as it was: {seen}");
    }
}

#[test]
pub(crate) fn what_ended_stays_readable_with_all_it_was() {
    let daemon = started();
    let mut http = daemon.http();
    let asked = json!({"service_ref": "ref", "metadata": {"a": [1]}, "correlation_id": "c", "client": "den"});
    let session = http.start(asked.clone());
    http.beat(&session).renewed();
    let stopped = http.stop(&session);
    let seen = http.seen(&session);
    for (key, value) in asked.as_object().unwrap() {
        assert_eq!(&seen[key], value, "{key}");
    }
    for same in ["resources", "created_at", "lease_id", "fence", "ended_at", "reason", "last_heartbeat"] {
        assert_eq!(seen[same], stopped[same], "{same} of {seen}");
    }
    assert_eq!(seen["resources"], session["resources"]);
    assert_eq!(seen["lease_expires_at"], seen["ended_at"], "nothing of it is left: {seen}");
    assert!(ms(&seen["ended_at"]) >= ms(&session["created_at"]), "{seen}");
}

#[test]
fn beyond_the_history_window_it_is_unknown() {
    let daemon = started_as(&[], &["--history-ended-age", "1s"]);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    http.stop(&session);
    wait_until("the end of the window", LIMIT, || {
        let answered = http.look(&session);
        if answered.status == 200 {
            is_whole(&answered.json());
        }
        // Ended leases are let go of when something happens.
        let other = http.start(json!({}));
        http.stop(&other);
        answered.status != 200
    });
    http.look(&session).problem("session_not_found");
    http.beat(&session).problem("session_not_found");
    assert!(http.list("?limit=1000").iter().all(|known| id(known) != id(&session)));
}

#[test]
fn the_longest_life_ends_the_most_lively_session() {
    let daemon = started_with(&[SHORT, &[("MAX_LIFETIME", "3s"), ("POOLS", "tuner=1")]].concat());
    let mut http = daemon.http();
    let session = http.start(json!({}));
    let told = http.beat_for(&session, Duration::from_millis(2_200));
    let most = ms(&session["created_at"]) + 3_000;
    for renewed in &told {
        let until = ms(&renewed["lease_expires_at"]);
        assert!(until <= most + 100, "it is not valid beyond its life: {renewed}");
    }
    let ended = http.until(&session, "stopped");
    http.start(json!({}));
    assert_eq!(ended["reason"], "MAX_LIFETIME", "{ended}");
    assert!(ms(&ended["ended_at"]) >= most - 10, "never early: {ended}");
    let problem = http.beat(&session).problem("session_gone");
    assert_eq!(json!([problem["state"], problem["reason"]]), json!(["stopped", "MAX_LIFETIME"]));
}
