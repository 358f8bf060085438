//! A daemon that is told to stop withdraws what it advertised, whoever still listens.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::ways::{Registrant, Registry, service, service_with, started};
use crate::run_support::boot_ms;
use crate::wire::events::{Events, Said};
use crate::wire::http::{Answer, Ask};

/// What is said until the end of a stream.
fn rest(events: &mut Events) -> Vec<Said> {
    std::iter::from_fn(|| events.said()).collect()
}

#[test]
fn open_streams_do_not_keep_a_daemon_from_stopping() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut daemon = started();
        let mut browse = Events::look(daemon.http(), "/v1/mdns/browse?type=_http._tcp");
        let mut events = Events::look(daemon.http(), "/v1/mdns/events?type=_http._tcp&idle_for=600");
        let mut over_socket = Events::look(daemon.http_over_socket(), "/v1/mdns/browse");
        let mut lines = daemon.lines();
        lines.say(json!({"browse": "_ipp._tcp"}));
        let mut resolving = daemon.http();
        resolving.send("GET", "/v1/mdns/resolve?name=nobody._http._tcp.local", b"").unwrap();
        let registered = daemon.register(service_with("app", json!({"lease": 0})));
        let began = boot_ms();
        daemon.signal(signal);
        for stream in [&mut browse, &mut events, &mut over_socket] {
            let said = rest(stream);
            let Some(Said::Event(last)) = said.last() else { panic!("{said:?}") };
            assert_eq!(last.kind, "closing", "{said:?}");
        }
        lines.rest();
        assert_eq!(daemon.code(), 0, "{}", daemon.said());
        let took = boot_ms() - began;
        assert!(took < 8_000, "it took {took} ms to stop");
        daemon.until_told(&registered, "shutdown");
    }
}

#[test]
fn every_advertisement_is_withdrawn_with_reason_shutdown_and_no_lease_ends() {
    let mut daemon = started();
    let mut lines = daemon.lines();
    let all = [
        lines.register(service("session")),
        daemon.register(service("heartbeat")),
        daemon.register(service_with("permanent", json!({"lease": 0}))),
    ];
    let ended = daemon.register(service("ended"));
    daemon.unregister(&ended).good();
    daemon.until_told(&ended, "explicit");
    daemon.stop();
    for registered in &all {
        daemon.until_told(registered, "shutdown");
    }
    assert_eq!(daemon.ends_told(&ended).len(), 1);
    daemon.start_again();
    assert_eq!(daemon.counts(), json!({"alive": 2, "draining": 1, "permanent": 1, "total": 3}));
    daemon.heartbeat(&all[1], json!({"epoch": 1})).good();
}

#[test]
fn a_thousand_advertisements_are_withdrawn_within_the_time_there_is() {
    let mut daemon = started();
    let mut lines = daemon.lines();
    let text: String = (0..1_000)
        .map(|number| {
            format!("{}\n", json!({"register": service_with(&format!("app {number}"), json!({"lease": 0}))}))
        })
        .collect();
    lines.send(text.as_bytes());
    for _ in 0..1_000 {
        assert!(lines.next()["registered"].is_object());
    }
    let began = boot_ms();
    daemon.stop();
    assert!(boot_ms() - began < 10_000, "{} ms", boot_ms() - began);
    let told = daemon
        .said()
        .lines()
        .filter(|line| line.contains("Service unregistered: ") && line.contains("reason=shutdown"))
        .count();
    assert_eq!(told, 1_000);
    daemon.start_again();
    assert_eq!(daemon.counts()["permanent"], 1_000);
}

#[test]
fn end_all_ends_registrations_with_reason_shutdown() {
    let mut daemon = started();
    let mut lines = daemon.lines();
    let all = [
        lines.register(service("session")),
        daemon.register(service("heartbeat")),
        daemon.register(service_with("permanent", json!({"lease": 0}))),
    ];
    let answered = daemon.http().json("POST", "/v1/shutdown", json!({"end_all": true}));
    assert_eq!(answered.good()["ended"], 3);
    assert_eq!(daemon.code(), 0, "{}", daemon.said());
    for registered in &all {
        daemon.until_told(registered, "shutdown");
    }
    daemon.start_again();
    for registered in &all {
        daemon.until(registered, "gone");
        assert_eq!(daemon.look(registered).refused("not_found")["reason"], "shutdown");
        daemon.heartbeat(registered, Value::Null).refused("not_found");
    }
    assert_eq!(daemon.register(service("session"))["advertised_name"], "session");
}
