//! A lease is its principal's: nobody else acts as its holder, not even an administrator.

use std::net::TcpStream;

use serde_json::{Value, json};

use super::peers::STRANGER;
use super::{as_token, with_tokens};
use crate::daemon::Daemon;
use crate::raw_http::Http;

const BOTH: &[(&str, &str)] = &[("alice", "hold"), ("bob", "hold"), ("boss", "admin")];

fn acquire(http: &mut Http<TcpStream>, resource: &str) -> Value {
    let answered =
        http.post("/v1/leases", &json!({"resources": [resource], "holder": "worker", "ttl_ms": 60_000}));
    assert_eq!(answered.status, 201, "{answered:?}");
    answered.json()
}

fn path(lease: &Value, verb: &str) -> String {
    format!("/v1/leases/{}/{verb}", lease["lease_id"].as_str().unwrap())
}

#[track_caller]
fn is_forbidden(http: &mut Http<TcpStream>, path: &str, body: &Value) {
    let answered = http.post(path, body);
    assert_eq!(answered.refusal(), (403, "forbidden".to_owned()), "{path}: {answered:?}");
    assert_eq!(answered.json()["lost"], false, "who never had it has not lost it: {answered:?}");
}

/// Holder calls with bodies that would be right, had the holder sent them.
fn holder_calls(session: &str) -> [(&'static str, Value); 6] {
    [
        ("heartbeat", json!({"epoch": 1})),
        ("amend", json!({"epoch": 1, "attachment": {"mine": true}})),
        ("rebind", json!({"epoch": 1, "holder": "thief"})),
        ("rebind", json!({"epoch": 1, "session": session})),
        ("handover", json!({"epoch": 1, "to_session": session})),
        ("release", json!({"epoch": 1})),
    ]
}

#[test]
fn only_the_principal_that_holds_a_lease_acts_as_its_holder() {
    let daemon = with_tokens(BOTH, &[]);
    let mut alice = as_token(&daemon, "alice");
    let lease = acquire(&mut alice, "a");
    for thief in ["bob", "boss"] {
        let mut thief = as_token(&daemon, thief);
        let session = thief.post("/v1/sessions", &json!({"holder": "worker"})).json();
        for (verb, body) in holder_calls(session["session"].as_str().unwrap()) {
            is_forbidden(&mut thief, &path(&lease, verb), &body);
        }
    }
    let found = alice.get(&path(&lease, "")[..path(&lease, "").len() - 1]).json();
    for field in ["state", "holder", "epoch", "fence", "attachment", "session"] {
        assert_eq!(found[field], lease[field], "{field} of {found}");
    }
    assert_eq!(alice.post(&path(&lease, "heartbeat"), &json!({"epoch": 1})).status, 200);
    assert_eq!(alice.post(&path(&lease, "release"), &json!({"epoch": 1})).status, 200);
}

#[test]
fn a_reservation_is_activated_by_nobody_else() {
    let daemon = with_tokens(BOTH, &[]);
    let reserved = as_token(&daemon, "alice")
        .post("/v1/leases", &json!({"resources": ["a"], "holder": "worker", "reserve_ms": 60_000}))
        .json();
    for thief in ["bob", "boss"] {
        is_forbidden(&mut as_token(&daemon, thief), &path(&reserved, "activate"), &json!({"epoch": 1}));
    }
    let activated = as_token(&daemon, "alice").post(&path(&reserved, "activate"), &json!({"epoch": 1}));
    assert_eq!(activated.status, 200, "{activated:?}");
}

#[test]
fn an_administrator_revokes_and_only_the_holder_acknowledges() {
    let daemon = with_tokens(BOTH, &[]);
    let lease = acquire(&mut as_token(&daemon, "alice"), "a");
    let mut boss = as_token(&daemon, "boss");
    let revoked = boss.post(&path(&lease, "revoke"), &json!({"reason": "maintenance"}));
    assert_eq!(revoked.status, 200, "{revoked:?}");
    for thief in ["bob", "boss"] {
        is_forbidden(&mut as_token(&daemon, thief), &path(&lease, "acknowledge"), &json!({"epoch": 1}));
    }
    assert_eq!(boss.get("/v1/resources/a").json()["lease_id"], lease["lease_id"], "the promise still runs");
    let acknowledged = as_token(&daemon, "alice").post(&path(&lease, "acknowledge"), &json!({"epoch": 1}));
    assert_eq!(acknowledged.status, 200, "{acknowledged:?}");
    assert_eq!(boss.get("/v1/resources/a").json()["lease_id"], Value::Null);
    let why = boss.get(&format!("/v1/why?lease={}", lease["lease_id"].as_str().unwrap())).json();
    assert!(why["entries"].to_string().contains("token:boss"), "the story names who revoked: {why}");
}

#[test]
fn a_session_is_used_and_closed_by_its_own_principal_only() {
    let daemon = with_tokens(BOTH, &[]);
    let mut alice = as_token(&daemon, "alice");
    let session = alice.post("/v1/sessions", &json!({"holder": "worker"})).json();
    let session = session["session"].as_str().unwrap();
    let kept = alice.post("/v1/leases", &json!({"resources": ["a"], "holder": "worker", "session": session}));
    assert_eq!(kept.status, 201, "{kept:?}");
    for thief in ["bob", "boss"] {
        let mut thief = as_token(&daemon, thief);
        let wanted = json!({"resources": ["b"], "holder": "worker", "session": session});
        is_forbidden(&mut thief, "/v1/leases", &wanted);
        is_forbidden(&mut thief, &format!("/v1/sessions/{session}/heartbeat"), &json!({}));
        let closed = thief.delete(&format!("/v1/sessions/{session}"));
        assert_eq!(closed.refusal(), (403, "forbidden".to_owned()), "{closed:?}");
        let own = acquire(&mut thief, &format!("own/{}", closed.status));
        let moved = thief.post(&path(&own, "rebind"), &json!({"epoch": 1, "session": session}));
        assert_eq!(moved.refusal(), (403, "forbidden".to_owned()), "{moved:?}");
        assert_eq!(thief.post(&path(&own, "release"), &json!({"epoch": 1})).status, 200);
    }
    let renewed = alice.post(&format!("/v1/sessions/{session}/heartbeat"), &json!({}));
    assert_eq!(renewed.status, 200, "{renewed:?}");
    assert_eq!(alice.delete(&format!("/v1/sessions/{session}")).status, 200);
}

#[test]
fn sessions_of_others_are_for_administrators_to_see() {
    let daemon = with_tokens(BOTH, &[]);
    let session = as_token(&daemon, "alice").post("/v1/sessions", &json!({"holder": "secretive"})).json();
    let id = session["session"].as_str().unwrap();
    let listed = |name: &str| as_token(&daemon, name).get("/v1/sessions").text();
    assert!(listed("alice").contains(id));
    assert!(listed("boss").contains(id));
    assert!(!listed("bob").contains("secretive"), "{}", listed("bob"));
}

#[test]
fn a_lease_that_is_handed_over_belongs_to_the_other_principal_from_then_on() {
    let daemon = with_tokens(BOTH, &[]);
    let (mut alice, mut bob) = (as_token(&daemon, "alice"), as_token(&daemon, "bob"));
    let lease = acquire(&mut alice, "a");
    let unasked = bob.post("/v1/sessions", &json!({"holder": "successor"})).json();
    let elsewhere = json!({"holder": "successor", "accepts_handover": "b/"});
    let elsewhere = bob.post("/v1/sessions", &elsewhere).json();
    for session in [unasked, elsewhere] {
        let handover = json!({"epoch": 1, "to_session": session["session"]});
        is_forbidden(&mut alice, &path(&lease, "handover"), &handover);
    }
    let session = bob.post("/v1/sessions", &json!({"holder": "successor", "accepts_handover": "a"})).json();
    let handover = json!({"epoch": 1, "to_session": session["session"], "operation_id": "once"});
    let handed = alice.post(&path(&lease, "handover"), &handover);
    assert_eq!(handed.status, 200, "{handed:?}");
    let again = alice.post(&path(&lease, "handover"), &handover);
    assert_eq!((again.status, &again.json()["replayed"]), (200, &json!(true)), "{again:?}");
    let handed = handed.json();
    assert_eq!((&handed["holder"], &handed["epoch"]), (&json!("successor"), &json!(2)), "{handed}");
    assert!(handed["fence"].as_u64() > lease["fence"].as_u64(), "{handed}");
    is_forbidden(&mut alice, &path(&lease, "release"), &json!({"epoch": 2}));
    assert_eq!(bob.post(&path(&lease, "release"), &json!({"epoch": 2})).status, 200);
}

#[test]
fn an_operation_id_is_its_principal_s_own() {
    let daemon = with_tokens(BOTH, &[]);
    let body = json!({"resources": ["a"], "holder": "worker", "operation_id": "one"});
    let first = as_token(&daemon, "alice").post("/v1/leases", &body);
    let second = as_token(&daemon, "bob").post("/v1/leases", &body);
    assert_eq!(first.status, 201, "{first:?}");
    assert_eq!(second.refusal(), (409, "resource_held".to_owned()), "nobody is shown another's outcome");
}

#[test]
fn local_programs_must_name_the_right_holder_where_they_name_one() {
    let daemon = Daemon::start();
    let mut http = daemon.http();
    let lease = acquire(&mut http, "a");
    for verb in ["heartbeat", "release"] {
        let answered = http.post(&path(&lease, verb), &json!({"epoch": 1, "holder": "other"}));
        assert_eq!(answered.refusal(), (403, "holder_mismatch".to_owned()), "{verb}: {answered:?}");
    }
    let amend = json!({"epoch": 1, "holder": "other", "attachment": 1});
    assert_eq!(http.post(&path(&lease, "amend"), &amend).refusal(), (403, "holder_mismatch".to_owned()));
    for verb in ["heartbeat", "release"] {
        let answered = http.post(&path(&lease, verb), &json!({"epoch": 1, "holder": "worker"}));
        assert_eq!(answered.status, 200, "{verb}: {answered:?}");
    }
}

#[test]
fn a_lease_of_another_user_over_the_port_is_not_the_socket_peer_s() {
    let daemon = Daemon::start();
    let lease = acquire(&mut daemon.http_of(STRANGER), "a");
    let release = json!({"release": {"lease_id": lease["lease_id"], "epoch": 1}});
    let answer = daemon.lines().ask(&release);
    assert_eq!(answer["error"], "forbidden", "{answer}");
    let answered = daemon.http_over_socket().post(&path(&lease, "release"), &json!({"epoch": 1}));
    assert_eq!(answered.refusal(), (403, "forbidden".to_owned()));
}
