//! Whose session it is: principals, scopes, and the names that clients give themselves.

use serde_json::{Value, json};

use super::ways::{SHORT, Streams, Told, id, ms, started, started_for_principals};
use crate::raw_http::Answered;
use crate::wire::daemon::Served;
use crate::wire::http::{Answer, Ask, Http};

fn token(daemon: &Served, name: &str) -> Http {
    daemon.http().with("authorization", &format!("Bearer secret-{name}"))
}

/// Everything that only who made a session may ask about it.
fn holder_calls(http: &mut Http, session: &Value) -> Vec<Answered> {
    vec![
        http.beat(session),
        http.of_session(session, "heartbeat", json!({"epoch": session["epoch"]})),
        http.of_session(session, "activate", Value::Null),
        http.of_session(session, "fail", json!({"reason": "not mine"})),
        http.delete_session(session),
        http.intend_stop(session),
    ]
}

#[test]
fn another_principal_may_do_nothing_to_a_session() {
    let daemon = started_for_principals(&[("POOLS", "tuner=2")]);
    let (mut ada, mut bob) = (token(&daemon, "ada"), token(&daemon, "bob"));
    let running = ada.start(json!({"client": "den"}));
    let starting = ada.start(json!({"client": "den", "start_timeout": 60}));
    let queued = ada.start(json!({"client": "den", "wait": 60}));
    for session in [&running, &starting, &queued] {
        for answered in holder_calls(&mut bob, session) {
            let problem = answered.problem("forbidden");
            assert_eq!(problem["session_id"], id(session));
        }
        let seen = ada.seen(session);
        assert_eq!(
            json!([seen["state"], seen["lease_expires_at"], seen["last_heartbeat"]]),
            json!([session["state"], session["lease_expires_at"], null]),
            "nothing happened to it"
        );
    }
    // The name that a client gives itself opens nothing.
    bob.start(json!({"client": "den", "resources": ["r"]}));
    bob.beat(&running).problem("forbidden");
}

#[test]
fn an_admin_may_do_what_the_principal_may() {
    let daemon = started_for_principals(SHORT);
    let (mut ada, mut boss) = (token(&daemon, "ada"), token(&daemon, "boss"));
    let starting = [0, 1, 2].map(|_| ada.start(json!({"start_timeout": 60})));
    let activated = boss.of_session(&starting[0], "activate", Value::Null).session();
    assert_eq!(activated["state"], "running");
    boss.beat(&starting[0]).renewed();
    ada.beat(&starting[0]).renewed();
    let failed = boss.of_session(&starting[1], "fail", json!({"reason": "enough"})).session();
    assert_eq!(json!([failed["state"], failed["reason"]]), json!(["failed", "FAILED:enough"]));
    let stopped = boss.intend_stop(&starting[2]).accepted();
    assert_eq!(stopped["state"], "stopped", "{stopped}");
}

#[test]
fn what_an_admin_ends_keeps_what_it_was_promised() {
    let daemon = started_for_principals(SHORT);
    let (mut ada, mut boss) = (token(&daemon, "ada"), token(&daemon, "boss"));
    let running = [0, 1, 2].map(|_| ada.start(json!({})));
    let told = [
        boss.delete_session(&running[0]).session(),
        boss.intend_stop(&running[1]).accepted(),
        boss.of_session(&running[2], "fail", json!({"reason": "enough"})).session(),
    ];
    let ends = [("stopped", "ADMIN_REVOKED"), ("stopped", "ADMIN_REVOKED"), ("failed", "FAILED:enough")];
    for (session, told) in running.iter().zip(&told) {
        assert_eq!(
            json!([told["state"], told["lease_expires_at"]]),
            json!(["draining", session["lease_expires_at"]]),
            "{told}"
        );
        ada.beat(session).renewed();
    }
    for (session, (state, reason)) in running.iter().zip(ends) {
        let ended = ada.until(session, state);
        assert_eq!(ended["reason"], reason, "{ended}");
        assert!(ms(&ended["ended_at"]) >= ms(&session["lease_expires_at"]), "never early: {ended}");
    }
    boss.until_free("tuner", 4);
}

#[test]
fn an_operators_words_do_not_make_a_failure_of_a_revoke() {
    let daemon = started_for_principals(SHORT);
    let (mut ada, mut boss) = (token(&daemon, "ada"), token(&daemon, "boss"));
    let session = ada.start(json!({}));
    let path = format!("/v1/leases/{}/revoke", session["lease_id"].as_str().unwrap());
    boss.json("POST", &path, json!({"reason": "FAILED: the disk"})).good();
    let ended = ada.until(&session, "stopped");
    assert_eq!(ended["reason"], "ADMIN_REVOKED", "{ended}");
}

#[test]
fn all_of_it_asks_for_the_scope_hold_and_the_list_for_admin() {
    let daemon = started_for_principals(&[]);
    let mut ada = token(&daemon, "ada");
    let session = ada.start(json!({}));
    let mut looker = token(&daemon, "looker");
    let mut refused = holder_calls(&mut looker, &session);
    refused.push(looker.try_start(json!({})));
    refused.push(looker.look(&session));
    refused.push(looker.get(&format!("/api/v3/sessions/{}/events", id(&session))));
    for answered in &refused {
        assert_eq!(answered.problem("forbidden")["scope"], "hold", "{answered:?}");
    }
    for name in ["looker", "ada"] {
        let answered = token(&daemon, name).get("/api/v3/sessions");
        assert_eq!(answered.problem("forbidden")["scope"], "admin", "{answered:?}");
    }
    assert_eq!(token(&daemon, "boss").list("").len(), 1);
    assert_eq!(ada.seen(&session)["state"], "running");
}

#[test]
fn the_holder_is_the_principal_where_no_client_is_named() {
    let daemon = started_for_principals(&[]);
    assert_eq!(token(&daemon, "ada").start(json!({}))["client"], "token:ada");
    assert_eq!(token(&daemon, "ada").start(json!({"client": "token:bob"}))["client"], "token:bob");
}

#[test]
fn a_user_is_one_principal_over_loopback_and_on_the_socket() {
    let daemon = started();
    let session = daemon.http_over_socket().start(json!({}));
    assert_eq!(session["client"], daemon.http().start(json!({}))["client"]);
    daemon.http().beat(&session).renewed();
    let path = format!("/api/v3/sessions/{}/heartbeat", id(&session));
    let other = daemon.http_of(47_111).post(&path, &json!({}));
    assert_eq!(other.status, 403, "{other:?}");
}

#[test]
fn a_key_of_one_principal_is_not_one_of_another() {
    let daemon = started_for_principals(&[]);
    let keyed = |name: &str| token(&daemon, name).with("idempotency-key", "same");
    let body = json!({"client": "den"});
    let first = keyed("ada").start(body.clone());
    let second = keyed("bob").start(body.clone());
    assert_ne!(id(&first), id(&second));
    assert_ne!(first["resources"], second["resources"]);
    let replayed = keyed("ada").try_start(body).accepted();
    assert_eq!(json!([id(&replayed), replayed["status"]]), json!([id(&first), "idempotent_replay"]));
    // Not even with another body is there a word of the other's session.
    let other = keyed("bob").try_start(json!({"client": "other"})).problem("operation_conflict");
    assert!(!other.to_string().contains(id(&first)), "{other}");
}

#[test]
fn the_principal_and_admins_may_watch() {
    let daemon = started_for_principals(&[]);
    let session = token(&daemon, "ada").start(json!({}));
    let path = format!("/api/v3/sessions/{}/events", id(&session));
    for name in ["ada", "boss"] {
        let mut http = token(&daemon, name);
        http.send("GET", &path, b"").unwrap();
        assert_eq!(http.head().unwrap().status, 200, "{name}");
    }
}
