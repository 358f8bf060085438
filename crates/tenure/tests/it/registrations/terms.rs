//! What keeps a registration: mode, lease and grace by transport and by what is asked.

use serde_json::{Value, json};

use super::ways::{Registrant, Registry, is_id, service, service_with, started, started_with};
use crate::wire::daemon::Served;
use crate::wire::http::{Answer, Ask};

/// Mode, lease and grace as the answer and the operator's view have them.
fn terms(daemon: &Served, registered: &Value) -> Value {
    let seen = daemon.seen(registered);
    assert_eq!(seen["mode"], registered["mode"], "{seen}");
    json!([registered["mode"], registered["lease"], seen["lease_secs"], seen["grace_secs"]])
}

#[test]
pub(crate) fn over_http_a_heartbeat_within_90_seconds_keeps_it() {
    let daemon = started();
    let registered = daemon.register(service("app"));
    assert_eq!(terms(&daemon, &registered), json!(["heartbeat", 90, 90, 30]));
    let seen = daemon.seen(&registered);
    assert_eq!(seen["session_id"], Value::Null);
    assert!((88..=90).contains(&seen["remaining_secs"].as_u64().unwrap()), "{seen}");
    let over_socket = daemon.http_over_socket().json("POST", "/v1/mdns/services", service("other"));
    assert_eq!(over_socket.status, 201);
    let registered = over_socket.good()["registered"].clone();
    assert_eq!(
        terms(&daemon, &registered),
        json!(["heartbeat", 90, 90, 30]),
        "HTTP is HTTP on the socket too"
    );
}

#[test]
fn over_the_socket_the_connection_keeps_it() {
    let daemon = started();
    let mut lines = daemon.lines();
    let session = lines.ask(json!({"hello": {}}))["hello"]["session"].clone();
    let registered = lines.register(service("app"));
    assert_eq!(terms(&daemon, &registered), json!(["session", 0, null, 30]));
    let seen = daemon.seen(&registered);
    assert_eq!((&seen["session_id"], &seen["remaining_secs"]), (&session, &Value::Null));
    assert!(session.as_str().unwrap().starts_with("pipe:"), "{session}");
}

#[test]
pub(crate) fn over_standard_input_the_connection_keeps_it_with_less_grace() {
    let daemon = started();
    let mut lines = daemon.stdin();
    let registered = lines.register(service("app"));
    assert_eq!(terms(&daemon, &registered), json!(["session", 0, null, 5]));
    let session = daemon.seen(&registered)["session_id"].clone();
    assert!(session.as_str().unwrap().starts_with("cli:"), "{session}");
    let mut lines = daemon.lines();
    lines.ask(json!({"hello": {"kind": "cli"}}));
    let registered = lines.register(service("other"));
    assert_eq!(terms(&daemon, &registered), json!(["session", 0, null, 5]));
}

#[test]
pub(crate) fn a_lease_of_0_is_permanent_from_every_transport() {
    let daemon = started();
    let permanent = |name: &str| service_with(name, json!({"lease": 0}));
    let mut over_socket = daemon.lines();
    let mut over_stdin = daemon.stdin();
    let http = daemon.http_over_socket().json("POST", "/v1/mdns/services", permanent("b")).good();
    let all = [
        daemon.register(permanent("a")),
        http["registered"].clone(),
        over_socket.register(permanent("c")),
        over_stdin.register(permanent("d")),
    ];
    for registered in &all {
        assert_eq!(terms(&daemon, registered), json!(["permanent", 0, null, 0]), "{registered}");
        assert_eq!(daemon.seen(registered)["remaining_secs"], Value::Null);
    }
    drop((over_socket, over_stdin));
    let probe = daemon.lines().register(service("probe"));
    daemon.until(&probe, "draining");
    for registered in &all {
        assert_eq!(daemon.state(registered), "alive", "no connection keeps {registered}");
    }
}

#[test]
fn a_lease_over_http_is_how_long_a_heartbeat_lasts() {
    let daemon = started();
    for secs in [1, 120, 86_400] {
        let registered = daemon.register(service_with(&format!("app {secs}"), json!({"lease": secs})));
        assert_eq!(terms(&daemon, &registered), json!(["heartbeat", secs, secs, 30]));
    }
}

#[test]
fn a_lease_over_lines_stays_with_the_session_and_the_answer_says_so() {
    let daemon = started();
    let mut over_socket = daemon.lines();
    let registered = over_socket.register(service_with("a", json!({"lease": 120})));
    assert_eq!(terms(&daemon, &registered), json!(["session", 0, null, 30]));
    let mut over_stdin = daemon.stdin();
    let registered = over_stdin.register(service_with("b", json!({"lease": 120})));
    assert_eq!(terms(&daemon, &registered), json!(["session", 0, null, 5]));
}

#[test]
fn lease_secs_is_another_word_for_lease() {
    let daemon = started();
    let registered = daemon.register(service_with("a", json!({"lease_secs": 7})));
    assert_eq!(terms(&daemon, &registered), json!(["heartbeat", 7, 7, 30]));
    let registered = daemon.register(service_with("b", json!({"lease_secs": 7, "lease": 7})));
    assert_eq!(terms(&daemon, &registered), json!(["heartbeat", 7, 7, 30]));
    let registered = daemon.register(service_with("c", json!({"lease_secs": 0})));
    assert_eq!(registered["mode"], "permanent");
    let registered = daemon.lines().register(service_with("d", json!({"lease_secs": 0})));
    assert_eq!(registered["mode"], "permanent");
    for (lease, lease_secs) in [(7, 8), (0, 8), (8, 0)] {
        let both = service_with("e", json!({"lease": lease, "lease_secs": lease_secs}));
        assert_eq!(daemon.try_register(both.clone()).status, 400);
        daemon.lines().refused(json!({ "register": both }), "invalid_request");
    }
    assert_eq!(daemon.all().len(), 4, "what is refused is not registered");
}

#[test]
fn a_huge_lease_is_refused_and_harms_nothing() {
    let daemon = started();
    for lease in
        [86_401, u64::from(u32::MAX), u64::MAX / 1_000, u64::MAX / 1_000 + 1, i64::MAX as u64, u64::MAX]
    {
        for word in ["lease", "lease_secs"] {
            let service = service_with("app", json!({ word: lease }));
            daemon.try_register(service).refused("ttl_out_of_range");
        }
    }
    for lease in ["18446744073709551616", "1e300", "-1", "1.5", "\"90\"", "[]", "true"] {
        let text = format!(r#"{{"name":"app","type":"_http._tcp","port":80,"lease":{lease}}}"#);
        let answered = daemon.http().ask("POST", "/v1/mdns/services", text.as_bytes());
        assert_eq!(answered.status, 400, "{lease}: {answered:?}");
        assert!(answered.json()["error"].is_string(), "{answered:?}");
        let mut lines = daemon.lines();
        lines.send(format!("{{\"register\":{text}}}\n").as_bytes());
        assert!(lines.next()["error"].is_string(), "{lease}");
    }
    for lease in [86_401, u64::MAX] {
        // What is ignored may be anything; what is not ignored has its bounds.
        let answer = daemon.lines().ask(json!({"register": service_with("app", json!({"lease": lease}))}));
        assert!(
            answer["registered"]["mode"] == "session" || answer["error"] == "ttl_out_of_range",
            "{answer}"
        );
    }
    daemon.register(service("after"));
    assert!(!daemon.said().contains("panic"), "{}", daemon.said());
}

#[test]
pub(crate) fn graces_and_the_lease_over_http_are_configured() {
    let daemon = started_with(&[
        "--mdns-socket-grace",
        "4s",
        "--mdns-stdin-grace",
        "2s",
        "--mdns-http-grace",
        "3s",
        "--mdns-http-lease",
        "20s",
    ]);
    let mut lines = daemon.lines();
    let registered = lines.register(service("socket"));
    assert_eq!(terms(&daemon, &registered), json!(["session", 0, null, 4]));
    let mut stdin = daemon.stdin();
    let registered = stdin.register(service("stdin"));
    assert_eq!(terms(&daemon, &registered), json!(["session", 0, null, 2]));
    let registered = daemon.register(service("http"));
    assert_eq!(terms(&daemon, &registered), json!(["heartbeat", 20, 20, 3]));
    let registered = daemon.register(service_with("own", json!({"lease": 5})));
    assert_eq!(terms(&daemon, &registered), json!(["heartbeat", 5, 5, 3]));
}

#[test]
fn an_answer_has_what_the_contract_lists() {
    let daemon = started();
    let service =
        json!({"name": "My App", "type": "_http._tcp", "port": 8080, "txt": {"path": "/", "flag": null}});
    for registered in [daemon.register(service.clone()), daemon.lines().register(service)] {
        let fields = registered.as_object().unwrap();
        for field in ["id", "name", "type", "port", "lease", "mode", "advertised_name", "epoch", "draining"] {
            assert!(fields.contains_key(field), "{field} is not in {registered}");
        }
        assert!(is_id(registered["id"].as_str().unwrap()), "{registered}");
        assert_eq!(
            json!([registered["name"], registered["type"], registered["port"], registered["epoch"]]),
            json!(["My App", "_http._tcp", 8080, 1])
        );
        assert_eq!(registered["draining"], false);
    }
}

#[test]
fn an_operator_sees_all_that_the_contract_lists() {
    let daemon = started();
    let registered =
        daemon.register(service_with("app", json!({"txt": {"path": "/", "flag": null, "empty": ""}})));
    let seen = daemon.seen(&registered);
    let wanted = [
        "id",
        "name",
        "type",
        "port",
        "mode",
        "state",
        "lease_secs",
        "remaining_secs",
        "grace_secs",
        "session_id",
        "registered_at",
        "last_seen",
        "txt",
        "lease_id",
        "epoch",
        "advertised",
        "advertised_name",
        "last_error",
    ];
    for field in wanted {
        assert!(seen.as_object().unwrap().contains_key(field), "{field} is not in {seen}");
    }
    for field in ["registered_at", "last_seen"] {
        let time = seen[field].as_str().unwrap();
        assert!(time.len() == 24 && time.ends_with('Z') && &time[10..11] == "T", "{field}: {time}");
    }
    assert_eq!(seen["txt"], json!({"path": "/", "flag": null, "empty": ""}));
    assert_eq!(
        json!([seen["state"], seen["advertised_name"], seen["last_error"]]),
        json!(["alive", "app", null])
    );
    assert!(seen["advertised"].is_boolean());
}

#[test]
fn ids_are_never_given_twice() {
    let daemon = started();
    let mut lines = daemon.lines();
    let mut ids = std::collections::BTreeSet::new();
    for round in 0..3 {
        let text: String = (0..700)
            .map(|number| format!("{}\n", json!({"register": service(&format!("app {round} {number}"))})))
            .collect();
        lines.send(text.as_bytes());
        for _ in 0..700 {
            let id = lines.next()["registered"]["id"].as_str().unwrap().to_owned();
            assert!(is_id(&id), "{id}");
            assert!(ids.insert(id.clone()), "{id} is given twice");
        }
    }
    assert_eq!(daemon.all().len(), ids.len());
}
