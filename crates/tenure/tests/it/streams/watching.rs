//! The events of one session.

use std::time::Duration;

use serde_json::{Value, json};

use super::ways::{SHORT, SHORT_MS, Streams, Told, id, is_whole, left_ms, ms, started, started_with};
use crate::run_support::{boot_ms, repeat_for};
use crate::wire::daemon::Served;
use crate::wire::events::{Events, Happened};

/// The kinds that a stream of one session may have.
const KINDS: [&str; 5] = ["snapshot", "lease.renewed", "lease.expiring", "lease.expired", "state"];

/// A stream and the snapshot that it begins with.
#[track_caller]
fn watch(daemon: &Served, session: &Value) -> (Events, Value) {
    let path = format!("/api/v3/sessions/{}/events", id(session));
    let mut events = Events::admitted(daemon.http(), &path);
    let first = next(&mut events, session);
    assert_eq!(first.kind, "snapshot");
    (events, first.data)
}

/// The next event, whatever it is; each carries the session.
#[track_caller]
fn next(events: &mut Events, session: &Value) -> Happened {
    let happened = events.next();
    assert!(KINDS.contains(&happened.kind.as_str()), "{happened:?}");
    is_whole(&happened.data);
    assert_eq!(id(&happened.data), id(session));
    happened
}

/// All events up to the first of this kind, that one included.
#[track_caller]
fn up_to(events: &mut Events, session: &Value, kind: &str) -> Vec<Happened> {
    let mut all = Vec::new();
    while all.last().is_none_or(|last: &Happened| last.kind != kind) {
        assert!(all.len() < 100, "no {kind} in {all:?}");
        all.push(next(events, session));
    }
    all
}

#[test]
fn the_session_as_it_is_comes_first() {
    let daemon = started();
    let mut http = daemon.http();
    let session = http.start(json!({"metadata": {"a": "<b>"}, "service_ref": "r"}));
    let (_events, snapshot) = watch(&daemon, &session);
    for same in ["state", "lease_expires_at", "resources", "fence", "epoch", "metadata", "service_ref"] {
        assert_eq!(snapshot[same], session[same], "{same}");
    }
}

#[test]
fn a_heartbeat_is_told() {
    let daemon = started();
    let mut http = daemon.http();
    let session = http.start(json!({}));
    let (mut events, _) = watch(&daemon, &session);
    let renewed = http.beat(&session).renewed();
    let told = next(&mut events, &session);
    assert_eq!(told.kind, "lease.renewed");
    assert_eq!(told.data["lease_expires_at"], renewed["lease_expires_at"]);
}

#[test]
fn heartbeats_are_told_at_most_once_a_second() {
    let daemon = started_with(SHORT);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    let (mut events, _) = watch(&daemon, &session);
    let mut beats = 0;
    let mut due = boot_ms();
    repeat_for(Duration::from_millis(4_200), || {
        if boot_ms() >= due {
            due = boot_ms() + 300;
            beats += u32::from(http.beat(&session).status == 200);
        }
    });
    http.stop(&session);
    let told = up_to(&mut events, &session, "state");
    let times: Vec<i64> = told
        .iter()
        .filter(|happened| happened.kind == "lease.renewed")
        .map(|happened| ms(&happened.data["server_time"]))
        .collect();
    assert!(times.len() >= 3 && beats > times.len() as u32, "{beats} heartbeats, told {times:?}");
    // When they were told, by the daemon's clock, which is read a moment after the event.
    assert!(times.windows(2).all(|two| two[1] - two[0] >= 900), "{times:?}");
}

#[test]
fn a_warning_comes_when_a_third_of_the_ttl_is_left() {
    let daemon = started_with(&[("LEASE_TTL", "3s"), ("HEARTBEAT_INTERVAL", "1")]);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    let (mut events, _) = watch(&daemon, &session);
    for _ in 0..2 {
        let warning = next(&mut events, &session);
        assert_eq!((warning.kind.as_str(), &warning.data["state"]), ("lease.expiring", &"running".into()));
        let left = left_ms(&warning.data);
        assert!((1..=1_005).contains(&left), "{left} ms are left: {}", warning.data);
        http.beat(&session).renewed();
        assert_eq!(next(&mut events, &session).kind, "lease.renewed", "and it is warned of anew");
    }
}

#[test]
fn who_beats_in_time_is_not_warned() {
    let daemon = started_with(&[("LEASE_TTL", "6s"), ("HEARTBEAT_INTERVAL", "1")]);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    let (mut events, _) = watch(&daemon, &session);
    http.beat_for(&session, Duration::from_millis(5_000));
    http.stop(&session);
    let told = up_to(&mut events, &session, "state");
    let kinds: Vec<&str> = told.iter().map(|happened| happened.kind.as_str()).collect();
    assert!(!kinds.contains(&"lease.expiring"), "{kinds:?}");
}

#[test]
fn the_end_by_silence_is_warned_of_and_told() {
    let daemon = started_with(SHORT);
    let session = daemon.http().start(json!({}));
    let (mut events, _) = watch(&daemon, &session);
    assert_eq!(next(&mut events, &session).kind, "lease.expiring");
    let mut kinds = Vec::new();
    for _ in 0..2 {
        let told = next(&mut events, &session);
        assert_eq!(
            json!([told.data["state"], told.data["reason"]]),
            json!(["stopped", "LEASE_EXPIRED"]),
            "{told:?}"
        );
        assert!(ms(&told.data["server_time"]) - ms(&session["created_at"]) >= SHORT_MS, "never early");
        kinds.push(told.kind);
    }
    kinds.sort();
    assert_eq!(kinds, ["lease.expired", "state"]);
}

#[test]
fn every_change_of_state_is_told() {
    let daemon = started_with(&[SHORT, &[("GRACE", "30s")]].concat());
    let mut http = daemon.http();
    let session = http.start(json!({"start_timeout": 60}));
    let (mut events, snapshot) = watch(&daemon, &session);
    assert_eq!(snapshot["state"], "starting");
    let mut state = |wanted: &str| {
        let told = up_to(&mut events, &session, "state").pop().unwrap().data;
        assert_eq!(told["state"], wanted, "{told}");
        told
    };
    http.of_session(&session, "activate", Value::Null).session();
    state("running");
    state("draining");
    http.beat(&session).renewed();
    state("running");
    http.of_session(&session, "fail", json!({"reason": "enough"})).session();
    assert_eq!(state("failed")["reason"], "FAILED:enough");
}

#[test]
fn who_queues_hears_of_its_slot() {
    let daemon = started_with(&[("POOLS", "tuner=1")]);
    let mut http = daemon.http();
    let holding = http.start(json!({}));
    let queued = http.start(json!({"wait": 60}));
    let (mut events, snapshot) = watch(&daemon, &queued);
    assert_eq!(json!([snapshot["state"], snapshot["queue_position"]]), json!(["new", 1]));
    http.stop(&holding);
    let told = up_to(&mut events, &queued, "state").pop().unwrap().data;
    assert_eq!(json!([told["state"], told["resources"]]), json!(["running", ["tuner/1"]]));
    http.beat(&queued).renewed();
    assert_eq!(next(&mut events, &queued).kind, "lease.renewed", "and of what comes after");
}

#[test]
fn who_queued_in_vain_hears_of_it() {
    let daemon = started_with(&[("POOLS", "tuner=1")]);
    let mut http = daemon.http();
    http.start(json!({}));
    let queued = http.start(json!({"wait": 1}));
    let (mut events, _) = watch(&daemon, &queued);
    let told = up_to(&mut events, &queued, "state").pop().unwrap().data;
    assert_eq!(json!([told["state"], told["reason"]]), json!(["failed", "WAIT_TIMEOUT"]));
}

#[test]
fn a_start_that_timed_out_is_told() {
    let daemon = started();
    let session = daemon.http().start(json!({"start_timeout": 1}));
    let (mut events, _) = watch(&daemon, &session);
    let told = up_to(&mut events, &session, "state").pop().unwrap().data;
    assert_eq!(json!([told["state"], told["reason"]]), json!(["failed", "START_TIMEOUT"]));
}

#[test]
fn who_looks_too_late_is_told_the_end() {
    let daemon = started();
    let mut http = daemon.http();
    let session = http.start(json!({}));
    http.stop(&session);
    let (_events, snapshot) = watch(&daemon, &session);
    assert_eq!(json!([snapshot["state"], snapshot["reason"]]), json!(["stopped", "USER_STOPPED"]));
}

#[test]
fn a_stream_tells_of_its_own_session_only_and_many_may_watch_one() {
    let daemon = started();
    let mut http = daemon.http();
    let (session, other) = (http.start(json!({})), http.start(json!({})));
    let mut streams: Vec<Events> = (0..20).map(|_| watch(&daemon, &session).0).collect();
    http.beat(&other).renewed();
    http.stop(&other);
    http.beat(&session).renewed();
    // An end right behind a heartbeat may be all that is told of both.
    for events in &mut streams {
        assert_eq!(up_to(events, &session, "lease.renewed").len(), 1);
    }
    http.stop(&session);
    for events in &mut streams {
        assert_eq!(up_to(events, &session, "state").len(), 1);
    }
}

#[test]
fn streams_that_are_left_leave_nothing_behind_and_hold_nothing_up() {
    let daemon = started();
    let mut http = daemon.http();
    let session = http.start(json!({}));
    for _ in 0..50 {
        drop(watch(&daemon, &session));
    }
    let _unread = (0..5).map(|_| watch(&daemon, &session)).collect::<Vec<_>>();
    http.beat(&session).renewed();
    http.stop(&session);
    let mut daemon = daemon;
    daemon.stop();
}
