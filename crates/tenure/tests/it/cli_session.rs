//! `tenure session`: sessions of `/api/v3` by hand, against a real daemon.

use std::fs;
use std::process::Command;

use expect_test::expect;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::cli_daemon::{Daemon, scrubbed};
use crate::cli_streams::Running;
use crate::cli_terminal::at_terminal;
use crate::fixture::Answer;
use crate::run_support::{LONG, signal, wait_until};
use crate::security::{as_token, with_tokens};

const POOL: [&str; 2] = ["--sessions-pools", "tuner=2"];

fn with_slots(slots: u32, flags: &[&str]) -> Daemon {
    let pools = format!("tuner={slots}");
    Daemon::start_with(&[&["--sessions-pools", &pools], flags].concat())
}

/// Sessions that need a heartbeat every second.
fn short(slots: u32) -> Daemon {
    with_slots(slots, &["--sessions-lease-ttl", "2s", "--sessions-heartbeat-interval", "1"])
}

/// The binary, asking over the socket however busy the machine is: over TCP it would be another principal.
fn command(daemon: &Daemon, arguments: &[&str]) -> Command {
    let mut command = daemon.command(arguments);
    if !arguments.contains(&"--endpoint") {
        command.env("TENURE_ENDPOINT", format!("unix:{}", daemon.socket().display()));
    }
    command
}

fn tenure(daemon: &Daemon, arguments: &[&str]) -> Answer {
    daemon.desk.answer(&mut command(daemon, arguments))
}

/// The answer of a command that succeeds, as an object.
#[track_caller]
fn object(daemon: &Daemon, arguments: &[&str]) -> Value {
    let answer = tenure(daemon, &[arguments, &["--json"]].concat());
    assert_eq!(answer.code, 0, "{arguments:?}: {}", answer.all());
    serde_json::from_str(&answer.out).unwrap()
}

/// Starts a session and gives its id.
#[track_caller]
fn start(daemon: &Daemon, arguments: &[&str]) -> String {
    id_of(&object(daemon, &[&["session", "start"], arguments].concat()))
}

fn id_of(session: &Value) -> String {
    session["session_id"].as_str().unwrap().to_owned()
}

/// Exit code, output and talk without what differs between runs.
fn plain(daemon: &Daemon, answer: &Answer, ids: &[&str]) -> String {
    let mut text = answer.all();
    for (number, id) in ids.iter().enumerate() {
        text = text.replace(id, &format!("ID{}", number + 1));
    }
    scrubbed(&text, &daemon.tag())
}

#[track_caller]
fn code(running: &mut Running) -> Option<i32> {
    let mut status = None;
    wait_until("the end of the command", LONG, || {
        status = running.child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap().code()
}

fn pid(running: &Running) -> i32 {
    running.child.id() as i32
}

fn state(daemon: &Daemon, id: &str) -> (String, Option<String>) {
    let session = object(daemon, &["session", "show", id]);
    let reason = session["reason"].as_str().map(str::to_owned);
    (session["state"].as_str().unwrap().to_owned(), reason)
}

fn ended(state: &str, reason: &str) -> (String, Option<String>) {
    (state.to_owned(), Some(reason.to_owned()))
}

#[test]
fn a_session_is_started_looked_at_and_stopped() {
    let daemon = Daemon::start_with(&POOL);
    let arguments = [
        "session",
        "start",
        "--client",
        "alice",
        "--service-ref",
        "channel 7",
        "--metadata",
        r#"{"a":[1]}"#,
        "--resource",
        "antenna",
        "--pool",
        "tuner",
    ];
    let started = tenure(&daemon, &arguments);
    let id = started.out.split_whitespace().nth(1).unwrap().to_owned();
    expect![[r#"
        exit 0
        --- out
        session ID1
        state running
        client alice
        resources antenna, tuner/1
        about channel 7
        epoch 1
        fence FENCE
        started now (TIME)
        next expires in SPAN (TIME) unless it is renewed
        lease TAG-2
        metadata {"a":[1]}
        --- err
        note: expires at TIME unless you run: tenure session heartbeat ID1
    "#]]
    .assert_eq(&plain(&daemon, &started, &[&id]));
    expect![[r#"
        exit 0
        --- out
        ID STATE CLIENT RESOURCES LEFT AGE ABOUT STARTED
        ID1 running alice antenna, tuner/1 SPAN SPAN channel 7 TIME
        --- err
        1 session at lsn 2
    "#]]
    .assert_eq(&plain(&daemon, &tenure(&daemon, &["session", "ls"]), &[&id]));
    expect![[r#"
        exit 0
        --- out
        session ID1
        next expires in SPAN (TIME) unless it is renewed
        heartbeat next one within SPAN
        --- err
    "#]]
    .assert_eq(&plain(&daemon, &tenure(&daemon, &["session", "heartbeat", &id]), &[&id]));
    expect![[r#"
        exit 0
        --- out
        session ID1
        state stopped, USER_STOPPED
        client alice
        resources antenna, tuner/1
        about channel 7
        epoch 2
        fence FENCE
        started now (TIME)
        last heartbeat now (TIME)
        ended now (TIME)
        lease TAG-2
        metadata {"a":[1]}
        --- err
    "#]]
    .assert_eq(&plain(&daemon, &tenure(&daemon, &["session", "stop", &id, "--yes"]), &[&id]));
    assert_eq!(state(&daemon, &id), ended("stopped", "USER_STOPPED"));
    expect![[r#"
        exit 1
        --- out
        --- err
        error: the session has ended: USER_STOPPED (session_gone)
        hint: tenure why ID1 shows its history
    "#]]
    .assert_eq(&plain(&daemon, &tenure(&daemon, &["session", "stop", &id, "--yes"]), &[&id]));
    expect![[r#"
        exit 1
        --- out
        --- err
        error: the session has ended: USER_STOPPED (session_gone)
        hint: tenure why ID1 shows its history
    "#]]
    .assert_eq(&plain(&daemon, &tenure(&daemon, &["session", "heartbeat", &id]), &[&id]));
}

#[test]
fn json_is_the_apis_own_object() {
    let daemon = Daemon::start_with(&POOL);
    let started = object(&daemon, &["session", "start", "--count", "2"]);
    assert_eq!((&started["status"], &started["state"]), (&json!("accepted"), &json!("running")));
    assert_eq!(started["resources"], json!(["tuner/1", "tuner/2"]));
    let shown = object(&daemon, &["session", "show", &id_of(&started)]);
    let asked = daemon.get(&format!("/api/v3/sessions/{}", id_of(&started))).json();
    let keys = |object: &Value| object.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&shown), keys(&asked));
    assert_eq!(shown["client"], asked["client"]);
    assert!(shown["client"].as_str().unwrap().contains('@'), "{shown}");
    let renewed = object(&daemon, &["session", "heartbeat", &id_of(&started), "--epoch", "1"]);
    assert_eq!(renewed["acknowledged"], true);
    let listed = object(&daemon, &["session", "ls"]);
    assert_eq!((listed["sessions"].as_array().unwrap().len(), &listed["next_cursor"]), (1, &Value::Null));
}

#[test]
fn the_same_operation_id_gives_the_same_session() {
    let daemon = Daemon::start_with(&POOL);
    let again = ["session", "start", "--operation-id", "one"];
    let first = object(&daemon, &again);
    let second = object(&daemon, &again);
    assert_eq!(id_of(&first), id_of(&second));
    assert_eq!(second["status"], "idempotent_replay");
    let other = tenure(&daemon, &["session", "start", "--operation-id", "one", "--count", "2"]);
    assert_eq!(other.code, 1, "{}", other.all());
    assert!(other.err.contains("operation_conflict") && other.err.contains("another --operation-id"));
}

#[test]
fn without_a_free_slot_it_is_said_when_to_ask_again() {
    let daemon = with_slots(1, &[]);
    start(&daemon, &[]);
    let refused = tenure(&daemon, &["session", "start"]);
    expect![[r#"
        exit 1
        --- out
        --- err
        error: pool "tuner" has 0 of 1 slots free, the request needs 1 (no_capacity)
        hint: a slot may be free in SPAN; wait for it with --wait
    "#]]
    .assert_eq(&plain(&daemon, &refused, &[]));
}

#[test]
fn whoever_waits_gets_the_slot_that_comes_free() {
    let daemon = with_slots(1, &[]);
    let first = start(&daemon, &[]);
    let mut waiting = Running::start(&mut command(&daemon, &["session", "start", "--wait", "1m", "--json"]));
    waiting.said("waits in the queue at position 1");
    let listed = object(&daemon, &["session", "ls"]);
    let states: Vec<&str> =
        listed["sessions"].as_array().unwrap().iter().map(|s| s["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["new", "running"]);
    object(&daemon, &["session", "stop", &first, "--yes"]);
    let session = waiting.object();
    assert_eq!((&session["state"], &session["resources"]), (&json!("running"), &json!(["tuner/1"])));
    assert_eq!(code(&mut waiting), Some(0));
    assert_eq!(state(&daemon, &id_of(&session)), ("running".to_owned(), None), "it is left as it is");
}

#[test]
fn whoever_waits_too_long_is_told() {
    let daemon = with_slots(1, &[]);
    start(&daemon, &[]);
    let answer = tenure(&daemon, &["session", "start", "--wait", "1s", "--quiet"]);
    assert_eq!(answer.code, 1, "{}", answer.all());
    assert!(answer.err.contains("ended: WAIT_TIMEOUT") && answer.out.contains("failed, WAIT_TIMEOUT"));
}

#[test]
fn whoever_is_interrupted_in_the_queue_leaves_it() {
    let daemon = with_slots(1, &[]);
    start(&daemon, &[]);
    let mut waiting = Running::start(&mut command(&daemon, &["session", "start", "--wait", "1m"]));
    waiting.said("waits in the queue at position 1");
    signal(pid(&waiting), Signal::INT);
    assert_eq!(code(&mut waiting), Some(0));
    assert_eq!(object(&daemon, &["session", "ls"])["sessions"].as_array().unwrap().len(), 1);
}

#[test]
fn a_kept_session_lives_until_the_command_is_interrupted() {
    for asked in [Signal::INT, Signal::TERM, Signal::HUP] {
        let daemon = short(1);
        let mut keeping = Running::start(&mut command(&daemon, &["session", "start", "--keep", "--json"]));
        let id = id_of(&keeping.object());
        keeping.said("sending a heartbeat every 1 s");
        wait_until("heartbeats over more than a ttl", LONG, || {
            let session = object(&daemon, &["session", "show", &id]);
            assert_eq!(session["state"], "running", "{session}");
            let at =
                |key: &str| session[key].as_str().map(|time| tenure_history::parse_rfc3339(time).unwrap());
            at("last_heartbeat").is_some_and(|beat| beat - at("created_at").unwrap() > 2_500)
        });
        signal(pid(&keeping), asked);
        let stopped = keeping.object();
        assert_eq!((&stopped["state"], &stopped["reason"]), (&json!("stopped"), &json!("USER_STOPPED")));
        assert_eq!(code(&mut keeping), Some(0));
        start(&daemon, &[]);
    }
}

#[test]
fn a_kept_session_that_queued_is_kept_once_it_has_its_slot() {
    let daemon = with_slots(1, &[]);
    let first = start(&daemon, &[]);
    let mut keeping =
        Running::start(&mut command(&daemon, &["session", "start", "--wait", "1m", "--keep", "--json"]));
    keeping.said("waits in the queue at position 1");
    object(&daemon, &["session", "stop", &first, "--yes"]);
    assert_eq!(keeping.object()["state"], "running");
    keeping.said("sending a heartbeat every 5 s");
    signal(pid(&keeping), Signal::INT);
    assert_eq!(keeping.object()["state"], "stopped");
    assert_eq!(code(&mut keeping), Some(0));
}

#[test]
fn a_kept_session_that_is_taken_away_ends_the_command() {
    let daemon = short(1);
    let mut keeping = Running::start(&mut command(&daemon, &["session", "start", "--keep", "--json"]));
    let started = keeping.object();
    let lease = started["lease_id"].as_str().unwrap();
    object(&daemon, &["lease", "revoke", lease, "--yes"]);
    assert_eq!(keeping.object()["state"], "draining", "what was promised is kept");
    keeping.said("it ends at");
    let ended = keeping.object();
    assert_eq!((&ended["state"], &ended["reason"]), (&json!("stopped"), &json!("ADMIN_REVOKED")));
    keeping.said("ended: ADMIN_REVOKED");
    assert_eq!(code(&mut keeping), Some(1));
}

#[test]
fn a_kept_session_outlives_the_daemon() {
    let mut daemon = short(1);
    let mut keeping = Running::start(&mut command(&daemon, &["session", "start", "--keep", "--json"]));
    let id = id_of(&keeping.object());
    daemon.kill();
    keeping.said("; retrying");
    daemon.start_again();
    keeping.said("the daemon answers again");
    assert_eq!(state(&daemon, &id), ("running".to_owned(), None));
    signal(pid(&keeping), Signal::INT);
    assert_eq!(keeping.object()["state"], "stopped");
    assert_eq!(code(&mut keeping), Some(0));
}

#[test]
fn a_kept_session_is_kept_where_the_daemon_is_now() {
    let mut daemon = short(1);
    // Without its socket the daemon is found by its port, and that is another one after each start.
    fs::remove_file(daemon.socket()).unwrap();
    let keeping = Running::start(&mut daemon.command(&["session", "start", "--keep", "--json"]));
    let id = id_of(&keeping.object());
    daemon.kill();
    keeping.said("; retrying");
    daemon.start_again();
    keeping.said("the daemon answers again");
    assert_eq!(state(&daemon, &id), ("running".to_owned(), None));
}

#[test]
fn one_that_starts_is_activated_or_fails() {
    let daemon = Daemon::start_with(&POOL);
    let answer = tenure(&daemon, &["session", "start", "--start-timeout", "30s", "--json"]);
    let id = id_of(&serde_json::from_str(&answer.out).unwrap());
    assert!(answer.err.contains(&format!("unless you run: tenure session activate {id}")), "{}", answer.err);
    assert_eq!(state(&daemon, &id), ("starting".to_owned(), None));
    assert_eq!(object(&daemon, &["session", "activate", &id])["state"], "running");
    let late = start(&daemon, &["--start-timeout", "1s"]);
    wait_until("its failure", LONG, || state(&daemon, &late) == ended("failed", "START_TIMEOUT"));
    let refused = tenure(&daemon, &["session", "activate", &late]);
    assert_eq!(refused.code, 1, "{}", refused.all());
    assert!(refused.err.contains("START_TIMEOUT") && refused.err.contains(&format!("tenure why {late}")));
}

#[test]
fn one_that_failed_says_why() {
    let daemon = Daemon::start_with(&POOL);
    let id = start(&daemon, &[]);
    let failed = object(&daemon, &["session", "fail", &id, "--reason", "no signal", "--yes"]);
    assert_eq!((&failed["state"], &failed["reason"]), (&json!("failed"), &json!("FAILED:no signal")));
}

#[test]
fn ended_ones_are_listed_where_they_are_asked_for() {
    let daemon = with_slots(4, &[]);
    let (first, second) = (start(&daemon, &[]), start(&daemon, &[]));
    object(&daemon, &["session", "stop", &first, "--yes"]);
    let listed = |arguments: &[&str]| {
        let list = object(&daemon, &[&["session", "ls"], arguments].concat());
        let mut ids: Vec<String> = list["sessions"].as_array().unwrap().iter().map(id_of).collect();
        ids.sort();
        ids
    };
    let mut both = vec![first.clone(), second.clone()];
    both.sort();
    assert_eq!(listed(&[]), [second.as_str()]);
    assert_eq!(listed(&["--all"]), both);
    assert_eq!(listed(&["--state", "stopped"]), [first.as_str()]);
    assert_eq!(listed(&["--state", "running"]), [second.as_str()]);
    assert_eq!(listed(&["--state", "failed"]), Vec::<String>::new());
    start(&daemon, &[]);
    let short = tenure(&daemon, &["session", "ls", "--limit", "1", "--json"]);
    assert!(short.err.contains("the list continues"), "{}", short.all());
    assert_eq!(tenure(&daemon, &["session", "ls", "--state", "dead"]).code, 2);
}

#[test]
fn a_watch_tells_what_happens_until_the_end() {
    let daemon = short(1);
    let id = start(&daemon, &[]);
    let mut watching = Running::start(&mut command(&daemon, &["session", "watch", &id, "--json"]));
    let first = watching.object();
    assert_eq!((&first["event"], &first["session"]["state"]), (&json!("snapshot"), &json!("running")));
    object(&daemon, &["session", "heartbeat", &id]);
    let told: Vec<Value> = (0..4).map(|_| watching.object()).collect();
    let events: Vec<&str> = told.iter().map(|news| news["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["lease.renewed", "lease.expiring", "lease.expired", "state"]);
    assert_eq!(told[3]["session"]["reason"], "LEASE_EXPIRED");
    assert_eq!(code(&mut watching), Some(0));
    let mut late = Running::start(&mut command(&daemon, &["session", "watch", &id]));
    assert!(late.line().contains("stopped, LEASE_EXPIRED"));
    assert_eq!(code(&mut late), Some(0), "there is nothing to wait for");
}

#[test]
fn a_watch_goes_on_over_a_restart() {
    let mut daemon = with_slots(1, &[]);
    let id = start(&daemon, &[]);
    let mut watching = Running::start(&mut command(&daemon, &["session", "watch", &id, "--json"]));
    assert_eq!(watching.object()["event"], "snapshot");
    daemon.stop();
    watching.said("lost the connection to the daemon; reconnecting");
    daemon.start_again();
    watching.said("reconnected");
    assert_eq!(watching.object()["event"], "snapshot");
    object(&daemon, &["session", "stop", &id, "--yes"]);
    let last = watching.object();
    assert_eq!((&last["event"], &last["session"]["reason"]), (&json!("state"), &json!("USER_STOPPED")));
    assert_eq!(code(&mut watching), Some(0));
}

#[test]
fn stopping_what_another_user_started_is_asked_about() {
    let daemon = Daemon::start_with(&POOL);
    let wanted = json!({"type": "stream.start", "client": "alice"});
    let started = daemon.http_of(47_111).post("/api/v3/intents", &wanted).json();
    let id = started["session_id"].as_str().unwrap().to_owned();
    for verb in [&["session", "stop", &id][..], &["session", "fail", &id, "--reason", "x"]] {
        let answer = tenure(&daemon, verb);
        assert_eq!(answer.code, 2, "{}", answer.all());
        assert!(answer.err.contains("--yes"), "{}", answer.err);
    }
    let shown = at_terminal(&mut command(&daemon, &["session", "stop", &id, "--quiet"]), 200, "n\n");
    assert_eq!(shown.code, 1, "{}", shown.text);
    let asked = format!("session {id} of alice: tuner/1, running");
    assert!(
        shown.text.contains(&asked) && shown.text.contains("stop this slot session? [y/N]"),
        "{}",
        shown.text
    );
    assert_eq!(state(&daemon, &id), ("running".to_owned(), None));
    for client in [&["--resource", "own"][..], &["--resource", "own", "--client", "alice"]] {
        let own = start(&daemon, client);
        assert_eq!(
            tenure(&daemon, &["session", "stop", &own]).code,
            0,
            "one's own is given back: {client:?}"
        );
    }
}

#[test]
fn what_cannot_be_is_said_before_anything_is_asked() {
    let daemon = Daemon::start_with(&POOL);
    for arguments in [
        &["session", "start", "--metadata", "[1]"][..],
        &["session", "start", "--count", "0"],
        &["session", "start", "--wait", "5"],
        &["session", "fail", "x", "--yes"],
        &["session"],
    ] {
        assert_eq!(tenure(&daemon, arguments).code, 2, "{arguments:?}");
    }
    let unknown = tenure(&daemon, &["session", "show", "00000000-0000-4000-8000-000000000000"]);
    expect![[r#"
        exit 1
        --- out
        --- err
        error: session "00000000-0000-4000-8000-000000000000" does not exist (session_not_found)
        hint: tenure session ls lists the slot sessions
    "#]]
    .assert_eq(&plain(&daemon, &unknown, &[]));
    let pool = tenure(&daemon, &["session", "start", "--pool", "nowhere"]);
    assert_eq!(pool.code, 1, "{}", pool.all());
    assert!(pool.err.contains("pool_not_found") && pool.err.contains("tenure pool ls"), "{}", pool.err);
}

#[test]
fn somebody_elses_session_is_not_for_everybody() {
    let flags = [&POOL[..], &["--sessions-lease-ttl", "2s", "--sessions-heartbeat-interval", "1"]].concat();
    let daemon = with_tokens(&[("worker", "hold"), ("other", "hold"), ("boss", "admin")], &flags);
    let session =
        as_token(&daemon, "worker").post("/api/v3/intents", &json!({"type": "stream.start"})).json();
    let id = id_of(&session);
    let endpoint = format!("http://{}", daemon.address());
    let as_named = |name: &str, arguments: &[&str]| {
        let token = format!("secret-{name}");
        tenure(&daemon, &[arguments, &["--endpoint", &endpoint, "--token", &token]].concat())
    };
    let refused = as_named("other", &["session", "stop", &id, "--yes"]);
    assert_eq!((refused.code, refused.err.contains("forbidden")), (1, true), "{}", refused.all());
    let refused = as_named("worker", &["session", "ls"]);
    assert_eq!((refused.code, refused.err.contains("forbidden")), (1, true), "{}", refused.all());
    assert_eq!(as_named("worker", &["session", "heartbeat", &id]).code, 0);
    assert_eq!(as_named("boss", &["session", "stop", &id, "--yes"]).code, 0);
    wait_until("its end", LONG, || state(&daemon, &id) == ended("stopped", "ADMIN_REVOKED"));
}

#[test]
fn a_story_is_told_by_the_id_of_a_session() {
    let daemon = Daemon::start_with(&POOL);
    let id = start(&daemon, &[]);
    object(&daemon, &["session", "stop", &id, "--yes"]);
    for arguments in [&["why", &id][..], &["why", "--session", &id]] {
        let story = tenure(&daemon, arguments);
        assert_eq!(story.code, 0, "{}", story.all());
        assert!(story.out.contains("tuner/1"), "{}", story.all());
    }
    let unknown = tenure(&daemon, &["why", "00000000-0000-4000-8000-000000000000"]);
    assert_eq!(unknown.code, 1, "{}", unknown.all());
}
