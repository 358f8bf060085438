//! A program of this machine that comes over TCP is its user, as on the socket. Needs root, to be somebody else.

use serde_json::{Value, json};

use super::peers::{DAEMON, OTHER, Open, ROOT, STRANGER, Who};
use crate::cli_terminal::at_terminal;
use crate::daemon::Daemon;

const ANN: Who = Who { uid: STRANGER, gid: STRANGER, group: None };
const BEN: Who = Who { uid: OTHER, gid: OTHER, group: None };

/// What the daemon takes somebody for who comes over TCP.
fn caller(daemon: &Daemon) -> (String, String) {
    let caller = daemon.get("/v1/caller").json();
    let text = |key: &str| caller[key].as_str().unwrap().to_owned();
    (text("principal"), text("scope"))
}

#[test]
fn what_was_taken_over_tcp_is_given_back_over_the_socket() {
    let daemon = Daemon::start();
    assert_eq!(caller(&daemon), ("uid:0".to_owned(), "admin".to_owned()));
    let lease = daemon.acquire(&json!({"resources": ["a"], "holder": "h"}));
    let id = lease["lease_id"].as_str().unwrap();
    let renewed = daemon.tenure(&["lease", "heartbeat", id, "--epoch", "1"]);
    assert_eq!(renewed.code, 0, "{}", renewed.all());
    let released = daemon.tenure(&["lease", "release", id, "--yes"]);
    assert_eq!(released.code, 0, "{}", released.all());
    let service = json!({"name": "App", "type": "_http._tcp", "port": 8080});
    let registered = daemon.post("/v1/mdns/services", &service).json();
    let id = registered["registered"]["id"].as_str().unwrap();
    let gone = daemon.tenure(&["unregister", id]);
    assert_eq!(gone.code, 0, "{}", gone.all());
}

#[test]
fn a_slot_session_that_was_started_over_tcp_stops_at_once_over_the_socket() {
    let daemon = Daemon::start_with(&["--sessions-pools", "tuner=1"]);
    let wanted = json!({"type": "stream.start", "client": "den"});
    let started = daemon.post("/api/v3/intents", &wanted);
    assert_eq!(started.status, 202, "{started:?}");
    let started = started.json();
    let id = started["session_id"].as_str().unwrap();
    // One's own by its principal, whatever its client is called: nobody is asked.
    let stopped = daemon.tenure(&["session", "stop", id]);
    assert_eq!(stopped.code, 0, "{}", stopped.all());
    assert!(!stopped.err.contains("withdrawn"), "{}", stopped.all());
    let found = daemon.get(&format!("/api/v3/sessions/{id}")).json();
    assert_eq!(found["state"], "stopped", "{found}");
    let next = daemon.post("/api/v3/intents", &wanted);
    assert_eq!(next.status, 202, "the slot is free: {next:?}");
}

#[test]
fn an_operator_who_stops_another_user_s_slot_session_is_told_when_its_slot_comes_free() {
    let daemon = Daemon::start_with(&["--sessions-pools", "tuner=1"]);
    let started = daemon.http_of(STRANGER).post("/api/v3/intents", &json!({"type": "stream.start"})).json();
    let id = started["session_id"].as_str().unwrap();
    let stopped = daemon.tenure(&["session", "stop", id, "--yes"]);
    assert_eq!(stopped.code, 0, "{}", stopped.all());
    let told = "another principal started this session, so it is withdrawn: its slots come free once its client confirms";
    assert!(stopped.err.contains(told), "{}", stopped.all());
}

#[test]
fn a_session_that_another_user_starts_under_one_s_own_name_is_asked_about() {
    let daemon = Daemon::start_with(&["--sessions-pools", "tuner=1"]);
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let wanted = json!({"type": "stream.start", "client": format!("root@{host}")});
    let started = daemon.http_of(STRANGER).post("/api/v3/intents", &wanted).json();
    let id = started["session_id"].as_str().unwrap();
    for end in [&["session", "stop", id][..], &["session", "fail", id, "--reason", "r"]] {
        assert_eq!(daemon.tenure(end).code, 2, "there is no terminal to ask on: {end:?}");
        let shown = at_terminal(&mut daemon.command(end), 200, "n\n");
        assert!(shown.text.contains("[y/N]"), "{}", shown.text);
        assert_eq!(shown.code, 1, "{}", shown.text);
    }
    assert_eq!(daemon.get(&format!("/api/v3/sessions/{id}")).json()["state"], "running");
}

#[test]
fn a_session_by_hand_is_closed_by_its_own_user_alone() {
    let daemon = Daemon::start();
    let opened = daemon.http_of(STRANGER).post("/v1/sessions", &json!({"holder": "h"})).json();
    let theirs = opened["session"].as_str().unwrap();
    let refused = daemon.tenure(&["admin", "session", "close", theirs, "--yes"]);
    assert!(refused.code == 1 && refused.all().contains("forbidden"), "{}", refused.all());
}

#[test]
fn users_are_told_apart_over_tcp() {
    let open = Open::start(ROOT);
    let lease = open.acquire_over_tcp(ANN, "a");
    let theft = open.over_tcp(BEN, &["lease", "release", &lease, "--yes"]);
    assert!(theft.all().contains("forbidden"), "{}", theft.all());
    // Root's daemon lets others hold, and no more, where nothing is set.
    let revoked = open.over_tcp(BEN, &["lease", "revoke", &lease, "--yes"]);
    assert!(revoked.all().contains("admin"), "{}", revoked.all());
    let released = open.over_tcp(ANN, &["lease", "release", &lease, "--yes"]);
    assert_eq!(released.code, 0, "{}", released.all());
    let dumped = open.daemon.tenure(&["log", "dump", "DIR/data"]);
    assert!(dumped.out.contains(&format!("uid:{STRANGER}")), "{}", dumped.all());
}

#[test]
fn another_s_daemon_has_its_user_and_root_as_administrators_over_tcp() {
    let own = Who { uid: DAEMON, gid: DAEMON, group: None };
    let open = Open::start_with(own, &["--auth-local", "hold"]);
    let lease = open.acquire_over_tcp(ANN, "a");
    let refused = open.over_tcp(ANN, &["lease", "drain", &lease, "--yes"]);
    assert!(refused.all().contains("admin"), "{}", refused.all());
    for (number, who) in [own, ROOT].into_iter().enumerate() {
        let lease = open.acquire_over_tcp(ANN, &format!("r/{number}"));
        let revoked = open.over_tcp(who, &["lease", "revoke", &lease, "--yes"]);
        assert_eq!(revoked.code, 0, "{}", revoked.all());
    }
}

#[test]
fn a_request_that_a_proxy_passed_on_needs_a_credential() {
    let daemon = Daemon::start();
    for (name, value) in [
        ("Forwarded", "for=192.0.2.1"),
        ("x-forwarded-for", "192.0.2.1"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Anything", ""),
        ("via", "1.1 gate"),
        ("X-Real-IP", "192.0.2.1"),
        ("True-Client-IP", "192.0.2.1"),
        ("CF-Connecting-IP", "192.0.2.1"),
        ("cf-connecting-ipv6", "2001:db8::1"),
        ("X-Client-IP", ""),
        ("X-Cluster-Client-Ip", "192.0.2.1"),
        ("Fastly-Client-IP", "192.0.2.1"),
    ] {
        let mut http = daemon.http().with(name, value);
        let refused = http.get("/v1/leases");
        assert_eq!(refused.refusal(), (401, "unauthorized".to_owned()), "{name}: {refused:?}");
        assert_eq!(http.get("/healthz").status, 200, "{name}");
    }
    let daemon = super::with_tokens(&[("ci", "hold")], &[]);
    let mut http = super::as_token(&daemon, "ci").with("X-Forwarded-For", "192.0.2.1");
    assert_eq!(http.get("/v1/caller").json()["principal"], "token:ci");
}

#[test]
fn what_drains_of_one_user_is_not_another_s_to_take_over() {
    let open = Open::start(ROOT);
    let service = json!({"name": "App", "type": "_http._tcp", "port": 8080});
    let registered = open.daemon.post("/v1/mdns/services", &service).json();
    let id = registered["registered"]["id"].as_str().unwrap();
    let drained = open.daemon.post(&format!("/v1/mdns/admin/registrations/{id}/drain"), &json!({}));
    assert_eq!(drained.status, 200, "{drained:?}");
    let other = open.daemon.http_of(BEN.uid).post("/v1/mdns/services", &service).json();
    assert_ne!(other["registered"]["id"], Value::from(id), "{other}");
    let own = open.daemon.post("/v1/mdns/services", &service).json();
    assert_eq!(own["registered"]["id"], Value::from(id), "{own}");
}
