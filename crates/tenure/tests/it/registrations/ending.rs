//! How registrations end: by the registrant, by silence, by a connection that drops; and what is told of it.

use std::time::Duration;

use serde_json::{Value, json};

use super::ways::{NO_GRACE, Registrant, Registry, SHORT, id, service, service_with, started, started_with};
use crate::daemon::LIMIT;
use crate::run_support::{holds_for, wait_until};
use crate::wire::daemon::Served;
use crate::wire::http::{Answer, Ask};
use crate::wire::lines::Lines;

/// A 404 for a registration that is retained says how it ended.
#[track_caller]
fn is_told_its_end(daemon: &Served, registration: &Value, reason: &str) {
    let path = format!("/v1/mdns/services/{}", id(registration));
    let refusals = [
        daemon.heartbeat(registration, Value::Null),
        daemon.unregister(registration),
        daemon.look(registration),
        daemon.ask("PUT", &format!("{path}/heartbeat"), json!({"epoch": 1})),
        daemon.steer(registration, "drain"),
        daemon.steer(registration, "revive"),
        daemon.end(registration),
    ];
    for refused in refusals {
        let error = refused.refused("not_found");
        assert_eq!(error["reason"], reason, "{error}");
        let ended_at = error["ended_at"].as_str().unwrap_or_else(|| panic!("{error}"));
        assert!(ended_at.len() == 24 && ended_at.ends_with('Z'), "{error}");
    }
    for verb in ["heartbeat", "unregister"] {
        let error = daemon.lines().refused(json!({ verb: id(registration) }), "not_found");
        assert_eq!(error["reason"], reason, "{error}");
        assert!(error["ended_at"].is_string(), "{error}");
    }
}

#[test]
pub(crate) fn unregistering_over_http_ends_it_with_reason_explicit() {
    let daemon = started();
    let registered = daemon.register(service("app"));
    let answered = daemon.unregister(&registered);
    assert_eq!((answered.status, &answered.good()["unregistered"]), (200, &registered["id"]));
    daemon.until(&registered, "gone");
    let told = daemon.until_told(&registered, "explicit");
    assert!(!told.contains("pipe:"), "{told}");
    is_told_its_end(&daemon, &registered, "explicit");
    assert_eq!(daemon.ends_told(&registered).len(), 1, "asking again ends nothing");
}

#[test]
pub(crate) fn unregistering_over_lines_ends_it_with_reason_explicit() {
    let daemon = started();
    for mut lines in [daemon.lines(), daemon.stdin()] {
        let registered = lines.register(service("app"));
        let session = daemon.seen(&registered)["session_id"].as_str().unwrap().to_owned();
        let answer = lines.ask(json!({"unregister": id(&registered)}));
        assert_eq!(answer["unregistered"], registered["id"], "{answer}");
        daemon.until(&registered, "gone");
        let told = daemon.until_told(&registered, "explicit");
        assert!(told.contains(&format!("session={session}")), "{told}");
    }
}

#[test]
fn a_registration_of_another_connection_of_the_same_principal_may_be_unregistered() {
    let daemon = started();
    let mut lines = daemon.lines();
    let registered = lines.register(service("app"));
    let answer = daemon.lines().ask(json!({"unregister": id(&registered)}));
    assert_eq!(answer["unregistered"], registered["id"], "{answer}");
    daemon.until_told(&registered, "explicit");
}

#[test]
fn a_dropped_connection_drains_at_once_and_ends_after_its_grace() {
    let daemon = started_with(&["--mdns-socket-grace", "3s"]);
    let mut lines = daemon.lines();
    let session = lines.ask(json!({"hello": {}}))["hello"]["session"].as_str().unwrap().to_owned();
    let registered = lines.register(service("app"));
    assert!(holds_for(Duration::from_millis(300), || daemon.state(&registered) == "alive"));
    drop(lines);
    daemon.until(&registered, "draining");
    let remaining = daemon.seen(&registered)["remaining_secs"].as_u64().unwrap();
    assert!((1..=3).contains(&remaining), "draining began when the connection ended, not later: {remaining}");
    assert!(daemon.ends_told(&registered).is_empty());
    daemon.until(&registered, "gone");
    let told = daemon.until_told(&registered, "session_expired");
    assert!(told.contains(&format!("session={session}")), "{told}");
    is_told_its_end(&daemon, &registered, "session_expired");
}

#[test]
pub(crate) fn a_standard_input_that_ends_drains_and_ends_what_it_registered() {
    let daemon = started_with(SHORT);
    let mut lines = daemon.stdin();
    let registered = lines.register(service("app"));
    lines.end_writing();
    daemon.until(&registered, "draining");
    daemon.until(&registered, "gone");
    let told = daemon.until_told(&registered, "session_expired");
    assert!(told.contains("session=cli:"), "{told}");
}

#[test]
pub(crate) fn the_end_of_a_session_drains_all_it_registered_and_nothing_else() {
    let daemon = started();
    let (mut one, mut two) = (daemon.lines(), daemon.lines());
    let of_one: Vec<Value> = (0..5).map(|number| one.register(service(&format!("one {number}")))).collect();
    let of_two: Vec<Value> = (0..5).map(|number| two.register(service(&format!("two {number}")))).collect();
    let of_http = daemon.register(service("http"));
    drop(one);
    for registered in &of_one {
        daemon.until(registered, "draining");
    }
    for registered in of_two.iter().chain([&of_http]) {
        assert_eq!(daemon.state(registered), "alive");
    }
    assert_eq!(daemon.counts(), json!({"alive": 6, "draining": 5, "permanent": 0, "total": 11}));
}

#[test]
fn silence_over_http_drains_then_ends_with_reason_heartbeat_expired() {
    let daemon = started_with(SHORT);
    let registered = daemon.register(service("app"));
    assert_eq!(daemon.state(&registered), "alive");
    daemon.until(&registered, "draining");
    daemon.until(&registered, "gone");
    daemon.until_told(&registered, "heartbeat_expired");
    is_told_its_end(&daemon, &registered, "heartbeat_expired");
    assert_eq!(daemon.all(), Vec::<Value>::new());
}

#[test]
fn permanent_registrations_and_open_sessions_outlast_every_lease_and_grace() {
    let daemon = started_with(SHORT);
    let permanent = daemon.register(service_with("permanent", json!({"lease": 0})));
    let mut lines = daemon.lines();
    let session = lines.register(service("session"));
    let silent = daemon.register(service("silent"));
    daemon.until(&silent, "gone");
    let again = daemon.register(service("silent"));
    daemon.until(&again, "gone");
    assert_eq!((daemon.state(&permanent), daemon.state(&session)), ("alive".to_owned(), "alive".to_owned()));
}

#[test]
fn an_operator_ends_any_registration_with_reason_admin_force() {
    let daemon = started_with(&["--mdns-http-lease", "1s"]);
    let mut lines = daemon.lines();
    let session = lines.register(service("session"));
    let permanent = daemon.register(service_with("permanent", json!({"lease": 0})));
    let silent = daemon.register(service("silent"));
    daemon.until(&silent, "draining");
    for registered in [&session, &permanent, &silent] {
        let answered = daemon.end(registered);
        assert_eq!((answered.status, &answered.good()["unregistered"]), (200, &registered["id"]));
        daemon.until(registered, "gone");
        daemon.until_told(registered, "admin_force");
        is_told_its_end(&daemon, registered, "admin_force");
    }
    let lost = lines.until(|line| line["lost"].is_object());
    assert_eq!(lost["lost"]["reason"], "admin_force", "its connection is told: {lost}");
}

#[test]
fn from_the_first_moment_on_a_registrant_is_told_why_it_ended() {
    // A registrant that is not told that an operator removed it registers again.
    // waits: while the goodbye is under way the refusal has no reason.
    let daemon = started_with(NO_GRACE);
    for round in 0..30 {
        let registered = daemon.register(service(&format!("app {round}")));
        let (mut beating, mut ending) = (daemon.http(), daemon.http());
        let path = format!("/v1/mdns/admin/registrations/{}", id(&registered));
        ending.send("DELETE", &path, b"").unwrap();
        let path = format!("/v1/mdns/services/{}/heartbeat", id(&registered));
        for _ in 0..1_000 {
            let answered = beating.json("PUT", &path, Value::Null);
            if answered.status != 200 {
                assert_eq!(
                    answered.refused("not_found")["reason"],
                    "admin_force",
                    "round {round}: {answered:?}"
                );
                break;
            }
        }
        ending.answer().unwrap().good();
        let mut lines = daemon.lines();
        let registered = lines.register(service("session"));
        drop(lines);
        wait_until("its end", LIMIT, || daemon.look(&registered).status == 404);
        assert_eq!(
            daemon.look(&registered).refused("not_found")["reason"],
            "session_expired",
            "round {round}"
        );
    }
}

#[test]
fn what_an_operator_drained_ends_with_reason_admin_force() {
    let daemon = started_with(SHORT);
    let mut lines = daemon.lines();
    let session = lines.register(service("session"));
    daemon.steer(&session, "drain").good();
    daemon.until(&session, "gone");
    daemon.until_told(&session, "admin_force");
    let heartbeat = daemon.register(service_with("heartbeat", json!({"lease": 60})));
    daemon.steer(&heartbeat, "drain").good();
    assert_eq!(daemon.state(&heartbeat), "draining");
}

#[test]
fn a_registrant_that_is_killed_during_a_browse_is_noticed() {
    let daemon = started_with(SHORT);
    let mut lines = daemon.stdin();
    lines.say(json!({"browse": "_http._tcp"}));
    lines.say(json!({"register": service("app")}));
    let said = [lines.next(), lines.next()];
    assert!(said.iter().any(|line| line["found"]["name"] == "app"), "{said:?}");
    let registered =
        said.into_iter().find(|line| line["registered"].is_object()).unwrap()["registered"].clone();
    // The process is ended as `kill -9` does.
    drop(lines);
    daemon.until(&registered, "draining");
    daemon.until(&registered, "gone");
    daemon.until_told(&registered, "session_expired");
}

#[test]
fn a_connection_that_does_not_read_its_browse_is_noticed_when_it_goes() {
    let daemon = started_with(SHORT);
    let mut deaf = daemon.unix();
    let lines = [json!({"browse": "_http._tcp"}), json!({"subscribe": "_http._tcp", "tag": 1})];
    for line in lines.iter().chain([&json!({"register": service("deaf")})]) {
        std::io::Write::write_all(&mut deaf, format!("{line}\n").as_bytes()).unwrap();
    }
    wait_until("its registration", LIMIT, || daemon.all().len() == 1);
    let registered = daemon.all()[0].clone();
    let mut lines = daemon.lines();
    for number in 0..300 {
        let other =
            lines.register(service_with(&format!("other {number}"), json!({"txt": {"x": "y".repeat(200)}})));
        lines.ask(json!({"unregister": id(&other)}));
    }
    drop(deaf);
    wait_until("its end", LIMIT, || daemon.state(&registered) == "gone");
    daemon.until_told(&registered, "session_expired");
}

fn register_many(lines: &mut Lines, count: usize) -> Vec<Value> {
    let text: String = (0..count)
        .map(|number| format!("{}\n", json!({"register": service(&format!("app {number}"))})))
        .collect();
    lines.send(text.as_bytes());
    (0..count)
        .map(|_| {
            let answer = lines.next();
            assert!(answer["registered"].is_object(), "{answer}");
            answer["registered"].clone()
        })
        .collect()
}

#[test]
fn a_thousand_registrations_of_a_connection_that_dies_end_together() {
    let daemon = started_with(SHORT);
    let mut lines = daemon.lines();
    let registered = register_many(&mut lines, 1_000);
    let stays = daemon.register(service_with("stays", json!({"lease": 0})));
    assert_eq!(daemon.counts()["alive"], 1_001);
    drop(lines);
    wait_until("all of them draining", LIMIT, || daemon.counts()["draining"] == 1_000);
    wait_until("all of them gone", LIMIT, || daemon.counts()["total"] == 1);
    assert_eq!(daemon.all()[0]["id"], stays["id"]);
    let ends = || {
        let said = daemon.said();
        said.lines()
            .filter(|line| line.contains("Service unregistered: "))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    wait_until("a line for each", LIMIT, || ends().len() >= 1_000);
    let ends = ends();
    assert_eq!(ends.len(), 1_000);
    for (number, registration) in registered.iter().enumerate() {
        let words =
            format!("name=\"app {number}\" id=\"{}\" reason=session_expired session=pipe:", id(registration));
        assert_eq!(ends.iter().filter(|line| line.contains(&words)).count(), 1, "{words}");
    }
}

#[test]
pub(crate) fn without_grace_a_dropped_connection_ends_what_it_had_at_once() {
    let daemon = started_with(NO_GRACE);
    let registered = register_many(&mut daemon.lines(), 50);
    for registration in &registered {
        wait_until("its end", LIMIT, || daemon.state(registration) == "gone");
        daemon.until_told(registration, "session_expired");
    }
}

#[test]
fn a_life_without_ends_writes_no_line() {
    let daemon = started_with(&["--mdns-http-lease", "1s"]);
    let mut lines = daemon.lines();
    lines.register(service("session"));
    let registered = daemon.register(service("app"));
    wait_until("nothing is being written", LIMIT, || {
        let before = daemon.said();
        holds_for(Duration::from_millis(200), || daemon.said() == before)
    });
    let before = daemon.said();
    for _ in 0..20 {
        daemon.heartbeat(&registered, Value::Null).good();
    }
    daemon.until(&registered, "draining");
    daemon.heartbeat(&registered, Value::Null).good();
    assert!(holds_for(Duration::from_millis(300), || daemon.said() == before), "{}", daemon.said());
}

#[test]
fn a_name_cannot_forge_a_line_of_the_log() {
    let daemon = started();
    let name = r#"a" id="00000000" reason=none \"#;
    let registered = daemon.register(service(name));
    assert_eq!(registered["name"], name);
    daemon.unregister(&registered).good();
    daemon.until(&registered, "gone");
    wait_until("its line", LIMIT, || !daemon.ends_told(&registered).is_empty());
    let told = daemon.ends_told(&registered);
    assert!(!told[0].contains(r#"name="a" id="#), "what is quoted is escaped: {told:?}");
    let forged = "x\nService unregistered: name=\"y\" id=\"11111111\" reason=explicit session=-";
    daemon.try_register(service(forged)).refused("invalid_name");
    assert!(daemon.ends_told(&json!({"id": "11111111"})).is_empty());
}

#[test]
fn where_programs_read_the_log_an_end_is_one_object() {
    let daemon = started_with(&["--log-format", "json"]);
    let mut lines = daemon.lines();
    let session = lines.ask(json!({"hello": {}}))["hello"]["session"].clone();
    let registered = lines.register(service("app"));
    lines.ask(json!({"unregister": id(&registered)}));
    let ends = || {
        let parsed = |line: &str| serde_json::from_str::<Value>(line).ok();
        let said = daemon.said();
        said.lines().filter_map(parsed).filter(|line| line["id"] == registered["id"]).collect::<Vec<_>>()
    };
    wait_until("its end", LIMIT, || !ends().is_empty());
    let end = &ends()[0];
    assert_eq!(
        json!([end["level"], end["name"], end["reason"], end["session"]]),
        json!(["INFO", "app", "explicit", session]),
        "{end}"
    );
    assert!(end["message"].as_str().unwrap().starts_with("Service unregistered"), "{end}");
}
