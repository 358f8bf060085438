//! Lists of sessions.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::ways::{Streams, Told, id, started, started_with};
use crate::run_support::wait_until;
use crate::wire::http::Answer;

fn ids(sessions: &[Value]) -> BTreeSet<String> {
    sessions.iter().map(|session| id(session).to_owned()).collect()
}

#[test]
fn an_empty_list_is_one() {
    let page = started().http().get("/api/v3/sessions").good();
    assert_eq!(json!([page["sessions"], page["next_cursor"]]), json!([[], null]), "{page}");
    assert!(page["lsn"].is_u64(), "{page}");
}

#[test]
fn a_list_tells_what_a_look_tells() {
    let daemon = started();
    let mut http = daemon.http();
    let running = http.start(json!({"metadata": {"a": 1}, "service_ref": "r", "client": "den"}));
    let stopped = http.start(json!({}));
    let queued = http.start(json!({"resources": stopped["resources"], "wait": 60}));
    for session in [&running, &stopped, &queued] {
        http.beat(session).good();
    }
    http.stop(&stopped);
    http.until(&queued, "running");
    for listed in http.list("") {
        assert!(listed["last_heartbeat"].is_string(), "{listed}");
        let mut seen = http.seen(&listed);
        assert_eq!(
            seen.as_object_mut().unwrap().remove("own"),
            Some(true.into()),
            "only a look says whose it is"
        );
        for moving in ["server_time", "lsn", "valid_ms"] {
            if listed.get(moving).is_some() {
                seen[moving] = listed[moving].clone();
            }
        }
        assert_eq!(listed, seen);
    }
    assert_eq!(ids(&http.list("")), ids(&[running, stopped, queued]));
}

#[test]
fn each_state_can_be_asked_for() {
    let daemon = started();
    let mut http = daemon.http();
    let (draining, running) = (http.start(json!({})), http.start(json!({})));
    let starting = http.start(json!({"start_timeout": 60}));
    daemon.of_lease(&draining, "drain", json!({}));
    let (stopped, failed) =
        (http.start(json!({"resources": ["a"]})), http.start(json!({"resources": ["b"]})));
    http.stop(&stopped);
    http.of_session(&failed, "fail", json!({"reason": "x"})).session();
    let new = http.start(json!({"count": 2, "wait": 60}));
    let all = [
        ("new", new),
        ("starting", starting),
        ("running", running),
        ("draining", draining),
        ("stopped", stopped),
        ("failed", failed),
    ];
    for (state, wanted) in &all {
        let listed = http.list(&format!("?state={state}"));
        assert_eq!(ids(&listed), ids(std::slice::from_ref(wanted)), "{state}");
        assert_eq!(listed[0]["state"], *state);
    }
    assert_eq!(http.list("").len(), all.len());
}

#[test]
fn pages_follow_each_other_without_a_gap() {
    let daemon = started_with(&[("POOLS", "tuner=7")]);
    let mut http = daemon.http();
    let mut sessions: Vec<Value> = (0..7).map(|_| http.start(json!({}))).collect();
    sessions.extend((0..3).map(|_| http.start(json!({"wait": 600}))));
    for session in &sessions[..2] {
        http.of_session(session, "fail", json!({"reason": "over"})).session();
    }
    wait_until("two of the queue", crate::daemon::LIMIT, || http.list("?state=new").len() == 1);
    for limit in [1, 3, 4, 10, 100] {
        let (mut cursor, mut listed) = (String::new(), Vec::new());
        for _ in 0..40 {
            let query = format!("/api/v3/sessions?limit={limit}{cursor}");
            let page = http.get(&query).good();
            let sessions = page["sessions"].as_array().unwrap();
            assert!(sessions.len() <= limit, "{page}");
            listed.extend(sessions.iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(listed.len(), 10, "each once with pages of {limit}");
        assert_eq!(ids(&listed), ids(&sessions), "all with pages of {limit}");
    }
}

#[test]
fn pages_of_one_state_follow_each_other_too() {
    let daemon = started_with(&[("POOLS", "tuner=20")]);
    let mut http = daemon.http();
    let sessions: Vec<Value> = (0..20).map(|_| http.start(json!({}))).collect();
    for session in sessions.iter().step_by(2) {
        http.stop(session);
    }
    for state in ["running", "stopped"] {
        let (mut cursor, mut listed) = (String::new(), Vec::new());
        for _ in 0..40 {
            let page = http.get(&format!("/api/v3/sessions?state={state}&limit=3{cursor}")).good();
            listed.extend(page["sessions"].as_array().unwrap().iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert!(listed.iter().all(|session| session["state"] == state));
        assert_eq!((listed.len(), ids(&listed).len()), (10, 10), "{state}");
    }
}

#[test]
fn queued_live_and_ended_follow_each_other() {
    let daemon = started_with(&[("POOLS", "tuner=3")]);
    let mut http = daemon.http();
    let sessions: Vec<Value> = (0..3).map(|_| http.start(json!({}))).collect();
    http.stop(&sessions[1]);
    http.stop(&sessions[0]);
    let two: Vec<Value> = (0..2).map(|_| http.start(json!({}))).collect();
    let queued = http.start(json!({"wait": 60}));
    let wanted = [&queued, &sessions[2], &two[0], &two[1], &sessions[1], &sessions[0]];
    let listed = http.list("");
    assert_eq!(listed.iter().map(id).collect::<Vec<_>>(), wanted.map(id));
}

#[test]
fn a_query_that_is_none_is_refused() {
    let daemon = started();
    let mut http = daemon.http();
    for query in [
        "?state=alive",
        "?state=RUNNING",
        "?state=",
        "?limit=0",
        "?limit=1001",
        "?limit=-1",
        "?limit=many",
        "?cursor=nonsense",
        "?cursor=%F0%9F%92%A9",
        "?unknown=1",
    ] {
        http.get(&format!("/api/v3/sessions{query}")).problem("invalid_request");
    }
    assert!(http.list("?limit=1000").is_empty());
}
