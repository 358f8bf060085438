//! Who may register, unregister and operate.

use std::net::TcpStream;

use serde_json::{Value, json};

use super::ways::{id, service};
use crate::daemon::Daemon;
use crate::raw_http::Http;
use crate::security::{as_token, with_tokens};
use crate::wire::http::Answer;

const ALL: &[(&str, &str)] = &[("looker", "read"), ("alice", "hold"), ("bob", "hold"), ("boss", "admin")];

fn register(http: &mut Http<TcpStream>, name: &str) -> Value {
    let answered = http.post("/v1/mdns/services", &service(name));
    assert_eq!(answered.status, 201, "{answered:?}");
    answered.json()["registered"].clone()
}

fn state(daemon: &Daemon, registration: &Value) -> Value {
    let path = format!("/v1/mdns/admin/registrations/{}", id(registration));
    as_token(daemon, "boss").get(&path).json()["state"].clone()
}

#[test]
fn a_registration_is_its_principals_and_an_administrator_uses_the_operators_paths() {
    let daemon = with_tokens(ALL, &[]);
    let registered = register(&mut as_token(&daemon, "alice"), "app");
    let path = format!("/v1/mdns/services/{}", id(&registered));
    for stranger in ["bob", "boss"] {
        let mut http = as_token(&daemon, stranger);
        http.delete(&path).refused("forbidden");
        http.put(&format!("{path}/heartbeat"), &json!({})).refused("forbidden");
        http.put(&format!("{path}/heartbeat"), &json!({"epoch": 1})).refused("forbidden");
    }
    let mut socket = daemon.lines();
    for verb in ["unregister", "heartbeat"] {
        let answer = socket.ask(&json!({ verb: id(&registered) }));
        assert_eq!(answer["error"], "forbidden", "{answer}");
    }
    assert_eq!(state(&daemon, &registered), "alive");
    let mut alice = as_token(&daemon, "alice");
    assert_eq!(alice.put(&format!("{path}/heartbeat"), &json!({"epoch": 1})).status, 200);
    assert_eq!(alice.delete(&path).json(), json!({"unregistered": registered["id"]}));
    let registered = register(&mut alice, "app");
    let path = format!("/v1/mdns/admin/registrations/{}", id(&registered));
    assert_eq!(as_token(&daemon, "boss").delete(&path).json(), json!({"unregistered": registered["id"]}));
}

#[test]
fn operators_paths_need_the_scope_admin() {
    let daemon = with_tokens(ALL, &[]);
    let registered = register(&mut as_token(&daemon, "alice"), "app");
    let id = id(&registered);
    let paths = [
        ("GET", "/v1/mdns/admin/status".to_owned()),
        ("GET", "/v1/admin/status".to_owned()),
        ("GET", "/v1/mdns/admin/registrations".to_owned()),
        ("GET", "/v1/admin/registrations".to_owned()),
        ("GET", "/v1/mdns/admin/ls".to_owned()),
        ("GET", format!("/v1/mdns/admin/registrations/{id}")),
        ("GET", format!("/v1/admin/registrations/{id}")),
        ("GET", format!("/v1/mdns/admin/inspect/{id}")),
        ("POST", format!("/v1/mdns/admin/registrations/{id}/drain")),
        ("POST", format!("/v1/admin/registrations/{id}/drain")),
        ("POST", format!("/v1/mdns/admin/drain/{id}")),
        ("POST", format!("/v1/mdns/admin/registrations/{id}/revive")),
        ("POST", format!("/v1/admin/registrations/{id}/revive")),
        ("POST", format!("/v1/mdns/admin/revive/{id}")),
        ("DELETE", format!("/v1/mdns/admin/registrations/{id}")),
        ("DELETE", format!("/v1/admin/registrations/{id}")),
        ("DELETE", format!("/v1/mdns/admin/unregister/{id}")),
        ("POST", format!("/v1/mdns/admin/unregister/{id}")),
    ];
    for (method, path) in &paths {
        for name in ["looker", "alice", "bob"] {
            let answered = as_token(&daemon, name).ask(method, path, b"");
            assert_eq!(answered.refused("forbidden")["scope"], "admin", "{name} {method} {path}");
        }
        daemon.http().ask(method, path, b"").refused("unauthorized");
    }
    assert_eq!(state(&daemon, &registered), "alive");
}

#[test]
fn readers_look_and_holders_register() {
    let daemon = with_tokens(ALL, &[]);
    let mut looker = as_token(&daemon, "looker");
    let refused = looker.post("/v1/mdns/services", &service("app"));
    assert_eq!(refused.refused("forbidden")["scope"], "hold");
    assert_eq!(looker.delete("/v1/mdns/services/00000000").refused("forbidden")["scope"], "hold");
    register(&mut as_token(&daemon, "alice"), "app");
    let resolved = looker.get("/v1/mdns/resolve?name=app._http._tcp.local");
    assert_eq!(resolved.good()["resolved"]["port"], 8080);
    looker.send("GET", "/v1/mdns/browse?type=_http._tcp&idle_for=1", b"").unwrap();
    assert_eq!(looker.head().unwrap().status, 200);
    for path in [
        "/v1/mdns/browse?type=_http._tcp",
        "/v1/mdns/events?type=_http._tcp",
        "/v1/mdns/resolve?name=a._http._tcp",
    ] {
        daemon.http().get(path).refused("unauthorized");
    }
    daemon.http().post("/v1/mdns/services", &service("app")).refused("unauthorized");
}

#[test]
fn keys_of_different_principals_do_not_meet() {
    let daemon = with_tokens(ALL, &[]);
    let ask = |name: &str| {
        let mut http = as_token(&daemon, name).with("idempotency-key", "one");
        http.post("/v1/mdns/services", &service("app")).good()["registered"].clone()
    };
    let (alice, bob) = (ask("alice"), ask("bob"));
    assert_ne!(alice["id"], bob["id"]);
    assert_eq!(ask("alice")["id"], alice["id"]);
}
