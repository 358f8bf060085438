//! Ends: by the page, by silence, by others, and by a page that goes.

use serde_json::json;

use super::super::proxy::Fault;
use super::{Stage, prepared, tuner, words};
use crate::run_support::{holds_for, wait_until};
use std::time::Duration;

#[test]
fn a_page_that_stops_gives_its_slot_back() {
    let stage = Stage::begin();
    let id = stage.start(tuner());
    assert_eq!(stage.in_use(), 1);
    let after = stage.tab.run("await s.stop(); return [s.state, s.reason, s.is_over, s.validFor()]");
    assert_eq!(after, json!(["stopped", "USER_STOPPED", true, 0]));
    assert_eq!(stage.state(&id), ("stopped".to_owned(), "USER_STOPPED".to_owned()));
    assert_eq!(stage.in_use(), 0);
    assert_eq!(words(&stage), json!(["state"]), "its own end is no loss");
    stage.tab.run("await s.stop(); await s.fail('late');");
    assert_eq!(stage.proxy.seen("DELETE", &id).len(), 1);
}

#[test]
fn a_stop_that_gets_lost_is_repeated() {
    let stage = Stage::begin();
    let id = stage.start(tuner());
    stage.proxy.fault("DELETE", "/sessions/", 1, Fault::Broken);
    stage.proxy.fault("DELETE", "/sessions/", 1, Fault::AnswerLost);
    stage.tab.run("await s.stop()");
    assert_eq!(stage.state(&id), ("stopped".to_owned(), "USER_STOPPED".to_owned()));
    assert_eq!(stage.tab.run("return [s.state, s.is_over]"), json!(["stopped", true]));
    assert_eq!(stage.proxy.seen("DELETE", &id).len(), 3);
}

#[test]
fn a_page_that_fails_says_why() {
    let stage = Stage::begin();
    let id = stage.start(tuner());
    let refused = stage.tab.run_with(
        "try { await s.fail(given[0]); } catch (e) { return e.code; }",
        &[json!("x".repeat(4_000))],
    );
    assert_eq!(refused, "invalid_request", "a reason that is too long");
    stage.tab.wait_until("!s.is_over && seen('renewed') > 0");
    stage.tab.run("await s.fail('no signal')");
    assert_eq!(stage.state(&id), ("failed".to_owned(), "FAILED:no signal".to_owned()));
    assert_eq!(stage.tab.run("return [s.state, s.reason]"), json!(["failed", "FAILED:no signal"]));
    assert_eq!(stage.in_use(), 0);
}

/// The warning comes with a third of the ttl left, the end at its end, and the slot is free with it.
#[test]
fn a_paused_session_warns_expires_and_frees_its_slot() {
    let stage = Stage::with_ttl("3s", &[]);
    let id = stage.start(tuner());
    stage.tab.run("s.pause()");
    stage.tab.wait_until("seen('expired')");
    assert_eq!(words(&stage), json!(["expiring", "lost", "state", "expired"]));
    let warned =
        stage.tab.run("return told.find(({ word }) => word === 'expiring').valid_ms").as_f64().unwrap();
    assert!(warned > 0.0 && warned <= 1_000.0, "{warned}");
    let expired = stage.tab.run("return told.at(-1)");
    assert_eq!(
        (&expired["state"], &expired["reason"], &expired["final"]),
        (&json!("stopped"), &json!("LEASE_EXPIRED"), &json!(true))
    );
    assert_eq!(stage.state(&id), ("stopped".to_owned(), "LEASE_EXPIRED".to_owned()));
    assert_eq!(stage.in_use(), 0);
    assert_eq!(stage.proxy.seen("POST", "/heartbeat").len(), 0);
}

#[test]
fn a_session_that_is_resumed_in_time_goes_on() {
    let stage = Stage::with_ttl("4s", &[]);
    let id = stage.start(tuner());
    stage.tab.run("s.pause()");
    stage.tab.wait_until("seen('expiring')");
    stage.tab.run("s.resume()");
    stage.tab.wait_until("seen('renewed') > 1");
    assert_eq!(words(&stage), json!(["expiring"]));
    assert_eq!(stage.tab.run("return s.is_paused"), false);
    assert_eq!(stage.state(&id).0, "running");
}

#[test]
fn a_session_that_the_daemon_ended_for_silence_is_expired_when_the_page_is_heard_again() {
    let stage = Stage::with_ttl("2s", &[]);
    let id = stage.start(tuner());
    stage.proxy.fault_all("POST", "/heartbeat", Fault::Broken);
    stage.wait_for_state(&id, "stopped", "LEASE_EXPIRED");
    assert_eq!(stage.in_use(), 0);
    stage.proxy.heal();
    stage.tab.wait_until("seen('expired')");
    assert_eq!(words(&stage), json!(["expiring", "lost", "state", "expired"]));
    assert_silent(&stage);
}

#[test]
fn a_session_that_somebody_else_ended_is_lost_for_good() {
    let stage = Stage::begin();
    let id = stage.start(tuner());
    let lease = stage.shown(&id)["lease_id"].as_str().unwrap().to_owned();
    let revoked = stage.daemon.post(&format!("/v1/leases/{lease}/revoke"), &json!({"reason": "maintenance"}));
    assert_eq!(revoked.status, 200, "{revoked:?}");
    let lost = stage.tab.wait_until("told.find(({ word, final }) => word === 'lost' && final)");
    assert_eq!((&lost["final"], &lost["reason"]), (&json!(true), &json!("ADMIN_REVOKED")));
    // Told by the answer to a heartbeat, or seen by a look that came first.
    assert!(lost["code"] == "session_gone" || lost["code"].is_null(), "{lost}");
    assert_eq!(stage.tab.run("return [s.state, s.validFor()]"), json!(["stopped", 0]));
    assert_silent(&stage);
}

#[test]
fn a_session_that_the_daemon_does_not_know_is_lost_for_good() {
    let stage = Stage::begin();
    stage.start(tuner());
    let unknown = r#"{"code":"session_not_found","detail":"there is no such session","status":404}"#;
    stage.proxy.fault("POST", "/heartbeat", 1, Fault::Answered(404, "application/problem+json", "", unknown));
    let lost = stage.tab.wait_until("told.find(({ word }) => word === 'lost')");
    assert_eq!((&lost["final"], &lost["code"]), (&json!(true), &json!("session_not_found")));
    assert_silent(&stage);
}

#[test]
fn a_page_that_is_left_stops_its_session() {
    let stage = Stage::begin();
    let id = stage.start(tuner());
    stage.tab.goto(stage.proxy.url("/docs"));
    stage.wait_for_state(&id, "stopped", "USER_STOPPED");
    assert_eq!(stage.in_use(), 0);
}

#[test]
fn a_paused_session_is_stopped_too_when_its_page_is_left() {
    let stage = Stage::begin();
    let id = stage.start(tuner());
    stage.tab.run("s.pause()");
    stage.tab.reload();
    stage.wait_for_state(&id, "stopped", "USER_STOPPED");
}

/// A page kept for the back button may come back.
#[test]
fn a_page_that_is_kept_keeps_its_session() {
    let stage = Stage::begin();
    let id = stage.start(tuner());
    stage.tab.run("dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))");
    let renewed = stage.tab.run("return seen('renewed')");
    stage.tab.wait_until_with("seen('renewed') > given[0]", &[renewed]);
    assert_eq!(stage.state(&id).0, "running");
    assert!(stage.proxy.seen("DELETE", &id).is_empty());
    stage.tab.run("dispatchEvent(new PageTransitionEvent('pagehide', { persisted: false }))");
    stage.wait_for_state(&id, "stopped", "USER_STOPPED");
    assert_silent(&stage);
}

/// After the end nothing is asked any more.
#[track_caller]
fn assert_silent(stage: &Stage) {
    wait_until("the end of the session in the page", super::LIMIT, || {
        stage.tab.run("return s.is_over") == true
    });
    let count = || stage.proxy.seen("POST", "/heartbeat").len();
    let before = count();
    assert!(holds_for(Duration::from_millis(2_500), || count() == before), "it goes on");
}

/// What a grace forgives was not promised: an operator may end the session as soon as the promise is over.
#[test]
fn a_silence_within_the_grace_is_forgiven_but_not_counted_on() {
    let stage = Stage::of(prepared(&[], "3s").with_variable("TENURE_SESSIONS_GRACE", "20s"), &[]);
    let id = stage.start(tuner());
    let valid = stage.tab.run("return s.validFor()").as_f64().unwrap();
    assert!(valid <= 3_000.0, "{valid}");
    stage.tab.run("s.pause()");
    stage.tab.wait_until("seen('lost')");
    stage.wait_for_state(&id, "draining", "");
    stage.tab.wait_until("s.state === 'draining'");
    assert_eq!(stage.tab.run("return [s.validFor(), s.is_over]"), json!([0, false]));
    assert_eq!(stage.in_use(), 1, "nobody else has it yet");
    stage.tab.run("s.resume()");
    stage.tab.wait_until("s.state === 'running' && s.validFor() > 0");
    assert_eq!(stage.state(&id).0, "running");
    assert_eq!(words(&stage), json!(["expiring", "lost", "state", "state"]));
}

/// Beats are still answered, and promise nothing more: the page is told when what it was promised is over.
#[test]
fn a_session_that_is_being_revoked_is_told_so_before_its_end() {
    let stage = Stage::with_ttl("4s", &[]);
    let id = stage.start(tuner());
    stage.tab.wait_until("seen('renewed') > 0");
    let lease = stage.shown(&id)["lease_id"].as_str().unwrap().to_owned();
    stage.daemon.post(&format!("/v1/leases/{lease}/revoke"), &json!({}));
    stage.tab.wait_until("s.state === 'draining' && s.validFor() > 0");
    stage.tab.wait_until("s.is_over");
    assert_eq!(stage.tab.run("return told.filter(({ word }) => word === 'expiring').length"), 1);
    let end = stage.tab.run("return told.at(-1)");
    assert_eq!(
        (&end["word"], &end["reason"], &end["final"]),
        (&json!("lost"), &json!("ADMIN_REVOKED"), &json!(true))
    );
    wait_until("a free slot", super::LIMIT, || stage.in_use() == 0);
}
