//! Refusals: one form, one id key, one spelling, on every route.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::ways::{
    SHORT, Streams, Told, id, nobody, started, started_as, started_for_principals, started_with,
};
use crate::raw_http::Answered;

#[test]
fn every_refusal_names_the_session_it_is_about() {
    let daemon = started();
    let mut http = daemon.http();
    let session = http.start(json!({}));
    http.stop(&session);
    for subject in [nobody(), session] {
        let code = if subject == nobody() { "session_not_found" } else { "session_gone" };
        for answered in [
            http.beat(&subject),
            http.of_session(&subject, "activate", Value::Null),
            http.of_session(&subject, "fail", json!({"reason": "x"})),
            http.delete_session(&subject),
            http.intend_stop(&subject),
        ] {
            assert_eq!(answered.problem(code)["session_id"], id(&subject), "{answered:?}");
        }
    }
    let about_none = http.try_start(json!({"pool": "nowhere"})).problem("pool_not_found");
    assert!(about_none["session_id"].is_null(), "{about_none}");
}

#[test]
fn every_request_has_an_id_of_its_own() {
    let daemon = started();
    let mut http = daemon.http();
    let problems = (0..20).map(|_| http.beat(&nobody()).problem("session_not_found"));
    let ids: BTreeSet<String> =
        problems.map(|problem| problem["request_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), 20, "{ids:?}");
}

#[test]
fn a_code_has_one_type_and_one_title() {
    let daemon = started();
    let mut http = daemon.http();
    let told: BTreeSet<String> = [http.beat(&nobody()), http.look(&nobody()), http.delete_session(&nobody())]
        .iter()
        .map(|answered| answered.problem("session_not_found"))
        .map(|problem| format!("{} {}", problem["type"], problem["title"]))
        .collect();
    assert_eq!(told.len(), 1, "{told:?}");
}

#[test]
fn unknown_routes_and_methods_are_problems_too() {
    let daemon = started();
    let mut http = daemon.http();
    for path in ["/api/v3", "/api/v3/", "/api/v3/nothing", "/api/v3/sessions/a/b/c", "/api/v3/intents/x"] {
        http.get(path).problem("not_found");
        http.post(path, &json!({})).problem("not_found");
    }
    for (method, path) in [
        ("GET", "/api/v3/intents"),
        ("DELETE", "/api/v3/intents"),
        ("POST", "/api/v3/sessions"),
        ("PUT", "/api/v3/sessions/x"),
        ("GET", "/api/v3/sessions/x/heartbeat"),
        ("PUT", "/api/v3/sessions/x/heartbeat"),
        ("POST", "/api/v3/sessions/x/events"),
    ] {
        let refused = http.ask(method, path, b"");
        refused.problem("method_not_allowed");
    }
    // Elsewhere nothing has changed.
    let elsewhere = http.get("/v1/nothing");
    assert_eq!((elsewhere.status, elsewhere.header("content-type")), (404, Some("application/json")));
}

#[test]
fn a_body_too_large_is_a_problem() {
    let daemon = started();
    let body = format!("{{\"type\":\"stream.start\",\"service_ref\":\"{}\"}}", "x".repeat(1_100_000));
    let answered = daemon.http().ask("POST", "/api/v3/intents", body.as_bytes());
    answered.problem("too_large");
}

#[test]
fn missing_credentials_and_scopes_are_problems() {
    let daemon = started_for_principals(&[]);
    let anonymous = daemon.http().try_start(json!({}));
    anonymous.problem("unauthorized");
    assert!(anonymous.header("www-authenticate").is_some(), "{anonymous:?}");
    daemon.http().get("/api/v3/sessions").problem("unauthorized");
    daemon.http().get("/api/v3/nothing");
    let mut looker = daemon.http().with("authorization", "Bearer secret-looker");
    looker.try_start(json!({})).problem("forbidden");
}

#[test]
fn pages_of_other_origins_are_refused_with_a_problem() {
    let daemon = started();
    let mut http = daemon.http().with("origin", "http://evil.example");
    http.try_start(json!({})).problem("forbidden");
    assert_eq!(daemon.http().free("tuner"), 4);
    let rebound = daemon.http().to("evil.example").get("/api/v3/sessions");
    rebound.problem("forbidden");
}

#[test]
fn a_page_of_an_origin_that_is_allowed_may_ask_and_read_what_is_wrong() {
    let origin = "https://player.example";
    let daemon = started_as(&[("POOLS", "tuner=1")], &["--allow-origin", origin]);
    let mut http = daemon.http().with("origin", origin);
    let allowed = |answered: &Answered| answered.header("access-control-allow-origin") == Some(origin);
    for (method, path) in [
        ("POST", "/api/v3/intents".to_owned()),
        ("POST", format!("/api/v3/sessions/{}/heartbeat", id(&nobody()))),
        ("DELETE", format!("/api/v3/sessions/{}", id(&nobody()))),
    ] {
        let preflight = daemon
            .http()
            .with("origin", origin)
            .with("access-control-request-method", method)
            .with("access-control-request-headers", "content-type,idempotency-key")
            .ask("OPTIONS", &path, b"");
        assert!(preflight.status < 300 && allowed(&preflight), "{preflight:?}");
        assert!(preflight.header("access-control-allow-methods").unwrap().contains(method), "{preflight:?}");
        let headers = preflight.header("access-control-allow-headers").unwrap().to_ascii_lowercase();
        assert!(headers.contains("content-type") && headers.contains("idempotency-key"), "{preflight:?}");
    }
    let started = http.try_start(json!({}));
    let session = started.accepted();
    assert!(allowed(&started), "{started:?}");
    for refused in [http.try_start(json!({})), http.beat(&nobody())] {
        assert!(refused.status >= 400 && allowed(&refused), "{refused:?}");
    }
    assert!(allowed(&http.delete_session(&session)));
}

#[test]
fn a_body_where_none_belongs_is_not_read_as_something() {
    let daemon = started();
    let mut http = daemon.http();
    let session = http.start(json!({"start_timeout": 60}));
    http.of_session(&session, "activate", json!({"unknown": 1})).problem("invalid_request");
    assert_eq!(http.seen(&session)["state"], "starting");
}

#[test]
fn refusals_tell_the_same_whatever_the_session_was() {
    let daemon = started_with(&[SHORT, &[("POOLS", "tuner=1")]].concat());
    let mut http = daemon.http();
    let expired = http.start(json!({}));
    http.until(&expired, "stopped");
    let problem = http.beat(&expired).problem("session_expired");
    assert_eq!(json!([problem["session_id"], problem["status"]]), json!([id(&expired), 410]));
    assert!(problem["detail"].as_str().unwrap().len() > 10, "{problem}");
}
