//! `on_end`: whoever is to be told of ends is told at least once, whatever happens to it or to the daemon meanwhile.

mod receiver;

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::ways::{SHORT, SHORT_MS, Streams, Told, id, is_whole, prepared, started_with};
use crate::daemon::{Daemon, LIMIT};
use crate::run_support::{holds_for, is_running, number_in, wait_until};
use receiver::{Receiver, Says};

/// Long enough for another try, were there to be one.
const PAUSE: Duration = Duration::from_millis(1_500);
/// More than are told at once.
const MANY: usize = 40;

/// A daemon that tells a receiver, with more settings of sessions.
#[track_caller]
fn telling(receiver: &Receiver, settings: &[(&str, &str)]) -> Daemon {
    let mut daemon = prepared(&[settings, &[("ON_END", &receiver.url())]].concat(), &[]);
    daemon.start_again();
    daemon
}

/// What does not depend on who asked, and when.
fn lasting(session: &Value) -> Value {
    let mut session = session.clone();
    for field in ["server_time", "lsn", "status", "valid_ms", "own"] {
        session.as_object_mut().unwrap().remove(field);
    }
    session
}

/// A command for `on_end` that runs this script in a directory.
fn script(directory: &Path, text: &str) -> String {
    let path = directory.join("told.sh");
    fs::write(&path, format!("cd '{}'\n{text}\n", directory.display())).unwrap();
    format!("sh '{}'", path.display())
}

#[track_caller]
fn until_said(daemon: &Daemon, words: &str) {
    wait_until(&format!("{words:?} in the log"), LIMIT, || daemon.said().contains(words));
}

#[test]
fn every_kind_of_end_is_told_with_the_whole_session() {
    let receiver = Receiver::start(Says::Status(200));
    let daemon = telling(&receiver, &[SHORT, &[("POOLS", "tuner=9,gpu=1")]].concat());
    let mut http = daemon.http();
    let asked =
        json!({"service_ref": "channel", "correlation_id": "c", "metadata": {"a": [1]}, "client": "den"});
    let sessions: Vec<Value> = (0..5).map(|_| http.start(asked.clone())).collect();
    let [silent, stopped, deleted, failed, revoked] = sessions.as_slice() else { panic!("five") };
    let removed = http.start(json!({"pool": "gpu"}));
    let unused = http.start(json!({"start_timeout": 1}));
    assert_eq!(http.intend_stop(stopped).status, 202);
    http.stop(deleted);
    http.of_session(failed, "fail", json!({"reason": "no signal"})).session();
    let lease = format!("/v1/leases/{}/revoke", revoked["lease_id"].as_str().unwrap());
    assert_eq!(http.post(&lease, &json!({})).status, 200);
    assert_eq!(http.delete("/v1/pools/gpu?force=true").status, 200);
    for (session, state, reason) in [
        (stopped, "stopped", "USER_STOPPED"),
        (deleted, "stopped", "USER_STOPPED"),
        (failed, "failed", "FAILED:no signal"),
        (revoked, "stopped", "ADMIN_REVOKED"),
        (&removed, "stopped", "ADMIN_REVOKED"),
        (silent, "stopped", "LEASE_EXPIRED"),
        (&unused, "failed", "START_TIMEOUT"),
    ] {
        let told = receiver.until_told(session);
        is_whole(&told);
        assert_eq!(json!([told["state"], told["reason"]]), json!([state, reason]), "{told}");
        assert_eq!(lasting(&told), lasting(&http.seen(session)));
        assert_eq!(told["resources"].as_array().unwrap().len(), 1, "{told}");
    }
    for (key, value) in asked.as_object().unwrap() {
        assert_eq!(&receiver.until_told(silent)[key], value, "{key}");
    }
}

#[test]
fn a_session_that_lived_too_long_is_told_too() {
    let receiver = Receiver::start(Says::Status(200));
    let daemon = telling(&receiver, &[("MAX_LIFETIME", "1s")]);
    let session = daemon.http().start(json!({}));
    assert_eq!(receiver.until_told(&session)["reason"], "MAX_LIFETIME");
}

#[test]
fn a_webhook_is_posted_to_as_documented_and_once_if_it_acknowledges() {
    let receiver = Receiver::start(Says::Status(204));
    let daemon = telling(&receiver, &[]);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    http.stop(&session);
    receiver.until_told(&session);
    assert!(holds_for(PAUSE, || receiver.tries().len() == 1), "{:?}", receiver.tries());
    let tried = &receiver.tries()[0];
    assert_eq!(tried.line, "POST /ended?key=7 HTTP/1.1");
    for (name, value) in [
        ("content-type", "application/json"),
        ("tenure-session-id", id(&session)),
        ("tenure-event", "session.ended"),
        ("host", &receiver.address().to_string()),
    ] {
        assert_eq!(tried.header(name), Some(value), "{tried:?}");
    }
}

#[test]
fn what_is_alive_is_told_of_by_nobody() {
    let receiver = Receiver::start(Says::Status(200));
    let mut daemon = telling(&receiver, &[]);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    http.beat(&session).renewed();
    daemon.stop();
    daemon.start_again();
    daemon.http().beat(&session).renewed();
    assert!(holds_for(PAUSE, || receiver.tries().is_empty()), "{:?}", receiver.tries());
}

#[test]
fn a_refusal_is_tried_again_until_it_is_acknowledged() {
    let receiver = Receiver::start(Says::Status(500));
    let daemon = telling(&receiver, &[]);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    http.stop(&session);
    let ended = http.seen(&session);
    receiver.until_tried(&session, 2);
    until_said(&daemon, "answered 500");
    receiver.say(Says::Status(301));
    let before = receiver.tries().len();
    receiver.until_tried(&session, before + 1);
    receiver.say(Says::Status(200));
    assert_eq!(lasting(&receiver.until_told(&session)), lasting(&ended), "as it was, however late");
    let tries = receiver.tries().len();
    assert!(holds_for(PAUSE, || receiver.tries().len() == tries), "acknowledged is acknowledged");
}

#[test]
fn tries_are_further_and_further_apart() {
    let receiver = Receiver::start(Says::Status(500));
    let daemon = telling(&receiver, &[]);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    http.stop(&session);
    // Pauses of at least a half, one and two seconds lie between four tries.
    receiver.until_tried(&session, 1);
    assert!(
        holds_for(Duration::from_secs(3), || receiver.tries().len() <= 4),
        "{:?}",
        receiver.tries().len()
    );
}

#[test]
fn whoever_cannot_be_reached_is_told_later() {
    let receiver = Receiver::start(Says::Status(200));
    let address = receiver.address();
    let daemon = telling(&receiver, &[]);
    drop(receiver);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    http.stop(&session);
    until_said(&daemon, "cannot reach");
    let receiver = Receiver::at(address, Says::Status(200));
    receiver.until_told(&session);
}

#[test]
fn an_end_that_was_not_told_survives_a_crash() {
    let receiver = Receiver::start(Says::Status(503));
    let mut daemon = telling(&receiver, &[]);
    let mut http = daemon.http();
    let (session, other) = (http.start(json!({"service_ref": "one"})), http.start(json!({})));
    http.stop(&session);
    let ended = http.seen(&session);
    receiver.until_tried(&session, 1);
    daemon.kill();
    receiver.say(Says::Status(200));
    daemon.start_again();
    assert_eq!(lasting(&receiver.until_told(&session)), lasting(&ended));
    assert!(receiver.tries_of(&other).is_empty(), "it lives");
    // What was told is settled: neither another crash nor an orderly stop brings it back.
    let settled = receiver.tries().len();
    wait_until("the acknowledgement to be durable", LIMIT, || is_settled(&daemon));
    daemon.kill();
    daemon.start_again();
    daemon.stop();
    daemon.start_again();
    assert!(holds_for(PAUSE, || receiver.tries().len() == settled), "{:?}", receiver.tries());
}

/// Whether the log says that somebody was told.
fn is_settled(daemon: &Daemon) -> bool {
    daemon.tenure(&["log", "dump", "DIR/data"]).out.contains("notified")
}

#[test]
fn an_end_while_the_daemon_was_down_is_told_after_the_start() {
    let receiver = Receiver::start(Says::Status(200));
    let mut daemon = telling(&receiver, SHORT);
    let session = daemon.http().start(json!({}));
    daemon.kill();
    daemon.start_again();
    assert_eq!(receiver.until_told(&session)["reason"], "LEASE_EXPIRED");
}

#[test]
fn slots_wait_for_the_acknowledgement_where_they_are_to() {
    let receiver = Receiver::start(Says::Status(500));
    let settings = [("POOLS", "tuner=1"), ("REUSE", "after_hook")];
    let daemon = telling(&receiver, &settings);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    let stopped = http.stop(&session);
    assert_eq!(stopped["reason"], "USER_STOPPED", "its own end does not wait: {stopped}");
    receiver.until_tried(&session, 2);
    assert_eq!(http.free("tuner"), 0);
    http.try_start(json!({})).problem("no_capacity");
    receiver.say(Says::Status(200));
    let told = receiver.until_told(&session);
    assert_eq!(json!([told["state"], told["reason"]]), json!(["stopped", "USER_STOPPED"]));
    http.until_free("tuner", 1);
    http.start(json!({}));
    assert!(!daemon.said().contains("timed out"), "{}", daemon.said());
}

#[test]
fn slots_of_silent_sessions_wait_too_and_a_queue_gets_them_afterwards() {
    let receiver = Receiver::start(Says::Status(500));
    let settings = [SHORT, &[("POOLS", "tuner=1"), ("REUSE", "after_hook")]].concat();
    let daemon = telling(&receiver, &settings);
    let mut http = daemon.http();
    let silent = http.start(json!({}));
    let queued = http.start(json!({"wait": 60}));
    http.beat_for(&queued, Duration::from_millis(SHORT_MS as u64 + 500));
    receiver.until_tried(&silent, 1);
    assert_eq!(http.seen(&queued)["state"], "new", "the slot is not free yet");
    assert_eq!(http.seen(&silent)["reason"], "LEASE_EXPIRED");
    receiver.say(Says::Status(200));
    wait_until("a slot for the one that queued", LIMIT, || {
        let answered = http.beat(&queued);
        assert!(matches!(answered.status, 200 | 429), "{answered:?}");
        http.seen(&queued)["state"] == "running"
    });
}

#[test]
fn slots_wait_no_longer_than_the_settings_say() {
    let receiver = Receiver::start(Says::Nothing);
    let settings = [("POOLS", "tuner=1"), ("REUSE", "after_hook"), ("HOOK_TIMEOUT", "1s")];
    let daemon = telling(&receiver, &settings);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    http.stop(&session);
    http.until_free("tuner", 1);
    assert!(receiver.tries_of(&session).iter().all(|tried| tried.said == Says::Nothing));
    // Free is not told: it is tried on.
    receiver.say(Says::Status(200));
    receiver.until_told(&session);
}

#[test]
fn a_crash_gives_no_slot_away_that_waits() {
    let receiver = Receiver::start(Says::Status(500));
    let settings = [("POOLS", "tuner=1"), ("REUSE", "after_hook")];
    let mut daemon = telling(&receiver, &settings);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    http.stop(&session);
    receiver.until_tried(&session, 1);
    daemon.kill();
    daemon.start_again();
    let mut http = daemon.http();
    assert_eq!(http.free("tuner"), 0);
    let before = receiver.tries().len();
    receiver.until_tried(&session, before + 1);
    receiver.say(Says::Status(200));
    http.until_free("tuner", 1);
    receiver.until_told(&session);
}

#[test]
fn a_command_is_told_on_its_standard_input() {
    let directory = tempfile::tempdir().unwrap();
    let line = script(
        directory.path(),
        "cat > part; echo \"$TENURE_EVENT $TENURE_SESSION_STATE $TENURE_SESSION_REASON\" > names\n\
         mv part \"$TENURE_SESSION_ID\"",
    );
    let daemon = started_with(&[("ON_END", &line)]);
    let mut http = daemon.http();
    let session = http.start(json!({"service_ref": "a 'quoted' $thing"}));
    let stopped = http.stop(&session);
    let path = directory.path().join(id(&session));
    wait_until("the command", LIMIT, || path.exists());
    let told: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(lasting(&told), lasting(&stopped));
    let names = fs::read_to_string(directory.path().join("names")).unwrap();
    assert_eq!(names, "session.ended stopped USER_STOPPED\n");
}

#[test]
fn a_command_that_fails_is_run_again() {
    let directory = tempfile::tempdir().unwrap();
    let line = script(
        directory.path(),
        "echo try >> tries; test -e ready || { echo not yet >&2; exit 3; }\ntouch done",
    );
    let daemon = started_with(&[("ON_END", &line)]);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    http.stop(&session);
    until_said(&daemon, "exit status: 3: not yet");
    fs::write(directory.path().join("ready"), "").unwrap();
    wait_until("the command", LIMIT, || directory.path().join("done").exists());
    let tries = fs::read_to_string(directory.path().join("tries")).unwrap().lines().count();
    assert!(tries >= 2, "{tries}");
}

#[test]
fn a_command_that_does_not_exist_is_said_and_tried_again() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("later");
    let daemon = started_with(&[("ON_END", &format!("'{}' 'two words'", program.display()))]);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    http.stop(&session);
    until_said(&daemon, "cannot start");
    fs::write(&program, format!("#!/bin/sh\necho \"$1\" > '{}/words'\n", directory.path().display()))
        .unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    wait_until("the command", LIMIT, || directory.path().join("words").exists());
}

#[test]
fn a_webhook_that_hangs_holds_up_nothing_else() {
    let receiver = Receiver::start(Says::Nothing);
    let daemon = telling(&receiver, &[]);
    goes_on(&daemon);
    assert!(!receiver.tries().is_empty(), "somebody was tried");
}

#[test]
fn a_command_that_hangs_holds_up_nothing_else_and_ends_with_the_daemon() {
    let directory = tempfile::tempdir().unwrap();
    let line = script(directory.path(), "sleep 1000 & echo $! > part; mv part pid; wait");
    let mut daemon = prepared(&[("ON_END", &line)], &[]);
    daemon.start_again();
    goes_on(&daemon);
    let child = number_in(&directory.path().join("pid"));
    assert!(is_running(child));
    daemon.stop();
    wait_until("the end of what the command started", LIMIT, || !is_running(child));
}

/// Sessions come and go, many more than are told of at once.
#[track_caller]
fn goes_on(daemon: &Daemon) {
    let mut http = daemon.http();
    let lasting = http.start(json!({}));
    for _ in 0..MANY {
        let session = http.start(json!({}));
        assert_eq!(http.stop(&session)["reason"], "USER_STOPPED");
        assert_eq!(http.free("tuner"), 3);
    }
    http.beat(&lasting).renewed();
    assert_eq!(http.seen(&lasting)["state"], "running");
    assert_eq!(http.get("/readyz").status, 200);
}

#[test]
fn a_daemon_that_tells_somebody_stops_at_once_and_goes_on_telling_afterwards() {
    let receiver = Receiver::start(Says::Nothing);
    let mut daemon = telling(&receiver, &[]);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    http.stop(&session);
    receiver.until_tried(&session, 1);
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.code(), 0, "{}", daemon.said());
    receiver.say(Says::Status(200));
    daemon.start_again();
    receiver.until_told(&session);
}

#[test]
fn ends_that_nobody_is_to_be_told_of_any_more_are_settled_and_said() {
    let receiver = Receiver::start(Says::Status(500));
    let mut daemon = telling(&receiver, &[]);
    let mut http = daemon.http();
    let sessions: Vec<Value> = (0..3).map(|_| http.start(json!({}))).collect();
    for session in &sessions {
        http.stop(session);
        receiver.until_tried(session, 1);
    }
    daemon.stop();
    let mut daemon = daemon.with_variable("TENURE_SESSIONS_ON_END", "");
    let told = receiver.tries().len();
    daemon.start_again();
    until_said(&daemon, "notifications dropped");
    let line = daemon.said().lines().find(|line| line.contains("notifications dropped")).unwrap().to_owned();
    assert!(line.contains("WARN"), "{line}");
    wait_until("all of them settled", LIMIT, || {
        daemon.tenure(&["log", "dump", "DIR/data"]).out.matches("notified").count() >= sessions.len()
    });
    daemon.stop();
    receiver.say(Says::Status(200));
    let mut daemon = daemon.with_variable("TENURE_SESSIONS_ON_END", &receiver.url());
    daemon.start_again();
    assert!(
        holds_for(PAUSE, || receiver.tries().len() == told),
        "settled is settled: {:?}",
        receiver.tries()
    );
}

#[test]
fn slots_that_wait_for_nobody_any_more_come_free() {
    let receiver = Receiver::start(Says::Status(500));
    let mut daemon = telling(&receiver, &[("POOLS", "tuner=1"), ("REUSE", "after_hook")]);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    http.stop(&session);
    receiver.until_tried(&session, 1);
    daemon.stop();
    let daemon = daemon.with_variable("TENURE_SESSIONS_ON_END", "");
    let mut daemon = daemon.with_variable("TENURE_SESSIONS_REUSE", "at_once");
    daemon.start_again();
    daemon.http().until_free("tuner", 1);
}
