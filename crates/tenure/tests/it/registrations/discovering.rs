//! Looking for services: browse, subscribe, resolve and the list of types, over HTTP.

use std::time::Duration;

use serde_json::{Value, json};

use super::ways::{Registrant, Registry, id, service, service_with, started};
use crate::run_support::{boot_ms, holds_for};
use crate::wire::events::{Events, Said};
use crate::wire::http::{Answer, Ask};

#[test]
fn a_browse_tells_what_is_found_changed_and_removed() {
    let daemon = started();
    let mut browse = Events::look(daemon.http(), "/v1/mdns/browse?type=_http._tcp");
    let mut lines = daemon.lines();
    let registered = lines.register(service_with("app", json!({"txt": {"a": "1", "flag": null}})));
    let found = browse.next().data["found"].clone();
    assert_eq!(
        json!([found["name"], found["type"], found["port"], found["txt"]]),
        json!(["app", "_http._tcp", 8080, {"a": "1", "flag": null}])
    );
    assert!(found["addresses"].is_array(), "{found}");
    lines.register(service_with("app", json!({"txt": {"a": "2"}})));
    let changed = browse.next().data["found"].clone();
    assert_eq!(json!([changed["name"], changed["txt"]]), json!(["app", {"a": "2"}]));
    lines.ask(json!({"unregister": id(&registered)}));
    let removed = browse.next().data;
    assert_eq!(
        json!([removed["event"], removed["service"]["name"], removed["service"]["type"]]),
        json!(["removed", "app", "_http._tcp"])
    );
}

#[test]
fn who_comes_late_is_told_what_is_there() {
    let daemon = started();
    for name in ["a", "b", "c"] {
        daemon.register(service(name));
    }
    for _ in 0..2 {
        let mut browse = Events::look(daemon.http(), "/v1/mdns/browse?type=http");
        let mut names = [0, 1, 2].map(|_| browse.next().data["found"]["name"].as_str().unwrap().to_owned());
        names.sort();
        assert_eq!(names, ["a", "b", "c"]);
    }
}

#[test]
fn a_browse_tells_of_its_own_type_only() {
    let daemon = started();
    let mut browse = Events::look(daemon.http(), "/v1/mdns/browse?type=_ipp._tcp");
    daemon.register(service("app"));
    daemon.register(service_with("app", json!({"type": "_ipp._udp"})));
    daemon.register(service_with("printer", json!({"type": "_ipp._tcp"})));
    assert_eq!(browse.next().data["found"]["name"], "printer");
}

#[test]
fn a_subscription_tells_found_then_resolved_then_removed() {
    let daemon = started();
    let mut events = Events::look(daemon.http(), "/v1/mdns/events?type=_http._tcp");
    let mut lines = daemon.lines();
    let registered = lines.register(service("app"));
    let mut next = |wanted: &str| {
        let data = events.next().data;
        assert_eq!(json!([data["event"], data["service"]["name"]]), json!([wanted, "app"]), "{data}");
        data["service"].clone()
    };
    next("found");
    assert_eq!(next("resolved")["port"], 8080);
    lines.register(service_with("app", json!({"port": 9090})));
    assert_eq!(next("resolved")["port"], 9090, "a change is told with what it changed to");
    lines.ask(json!({"unregister": id(&registered)}));
    next("removed");
}

#[test]
fn numbers_of_frames_grow() {
    let daemon = started();
    for path in ["/v1/mdns/browse?type=_http._tcp", "/v1/mdns/events?type=_http._tcp"] {
        let mut events = Events::look(daemon.http(), path);
        let mut last = 0;
        for number in 0..5 {
            let registered = daemon.register(service(&format!("app {number}")));
            let id: u64 = events.next().id.expect("an id").parse().unwrap();
            assert!(id > last, "{id} follows {last}");
            last = id;
            daemon.unregister(&registered).good();
            daemon.until(&registered, "gone");
        }
    }
}

#[test]
fn a_stream_ends_after_so_long_without_news() {
    let daemon = started();
    for path in ["/v1/mdns/browse?type=_http._tcp&idle_for=1", "/v1/mdns/events?type=_http._tcp&idle_for=1"] {
        let began = boot_ms();
        let mut events = Events::look(daemon.http(), path);
        while let Some(said) = events.said() {
            assert!(!matches!(said, Said::Event(_)), "{said:?}");
        }
        let took = boot_ms() - began;
        assert!((950..15_000).contains(&took), "{took} ms");
    }
    // News begin the time anew.
    let mut http = daemon.http();
    let began = boot_ms();
    let mut browse = Events::look(daemon.http(), "/v1/mdns/browse?type=_http._tcp&idle_for=1");
    let mut number = 0;
    let registered = holds_for(Duration::from_millis(1_500), || {
        number += 1;
        http.json("POST", "/v1/mdns/services", service(&format!("app {number}"))).status == 201
    });
    assert!(registered, "registration {number} was refused");
    let mut seen = 0;
    while let Some(said) = browse.said() {
        seen += usize::from(matches!(said, Said::Event(_)));
    }
    assert_eq!(seen, number);
    assert!(boot_ms() - began >= 2_400, "it ended {} ms after it began", boot_ms() - began);
}

#[test]
fn a_stream_without_news_says_that_it_is_there() {
    let daemon = started();
    let mut browse = Events::look(daemon.http(), "/v1/mdns/browse?type=_http._tcp");
    let mut events = Events::look(daemon.http(), "/v1/mdns/events?type=_http._tcp&idle_for=60");
    for stream in [&mut browse, &mut events] {
        assert!(matches!(stream.said(), Some(Said::Comment(_))));
    }
}

#[test]
fn a_bad_type_is_refused_before_the_stream_begins() {
    let daemon = started();
    for route in ["browse", "events"] {
        let answered = daemon.http().get(&format!("/v1/mdns/{route}?type=_http._sctp&idle_for=1"));
        let error = answered.refused("invalid_type");
        assert!(error["message"].as_str().unwrap().contains("sctp"), "{error}");
    }
}

#[test]
fn without_a_type_the_types_are_listed() {
    let daemon = started();
    daemon.register(service("a"));
    daemon.register(service("b"));
    for path in [
        "/v1/mdns/browse",
        "/v1/mdns/browse?type=_services._dns-sd._udp",
        "/v1/mdns/browse?type=_services._dns-sd._udp.local.",
    ] {
        let mut browse = Events::look(daemon.http(), path);
        assert_eq!(browse.next().data["found"]["name"], "_http._tcp");
        let registered = daemon.register(service_with("printer", json!({"type": "ipp"})));
        assert_eq!(
            browse.next().data["found"]["name"],
            "_ipp._tcp",
            "each type is told once, and new ones too"
        );
        let lease = daemon.lease_of(&registered);
        daemon.unregister(&registered).good();
        daemon.until_reclaimed(&lease);
    }
    let mut events = Events::look(daemon.http(), "/v1/mdns/events");
    let data = events.next().data;
    assert_eq!(json!([data["event"], data["service"]["name"]]), json!(["found", "_http._tcp"]));
}

#[test]
fn a_service_is_resolved_by_its_full_name() {
    let daemon = started();
    daemon.register(service_with(
        "My App",
        json!({"port": 8081, "txt": {"path": "/", "flag": null}, "ip": "127.0.0.1"}),
    ));
    for name in [
        "My%20App._http._tcp.local",
        "My%20App._http._tcp.local.",
        "My%20App._http._tcp",
        "My+App._http._tcp.local",
        "my%20app._HTTP._tcp.local",
    ] {
        let resolved = daemon.get(&format!("/v1/mdns/resolve?name={name}"))["resolved"].clone();
        assert_eq!(
            json!([resolved["name"], resolved["type"], resolved["port"], resolved["ip"], resolved["txt"]]),
            json!(["My App", "_http._tcp", 8081, "127.0.0.1", {"path": "/", "flag": null}]),
            "{name}"
        );
        assert_eq!(resolved["addresses"], json!(["127.0.0.1"]));
    }
}

#[test]
fn a_service_that_is_not_there_is_not_resolved_after_five_seconds() {
    let daemon = started();
    let began = boot_ms();
    let mut waiting = daemon.lines();
    waiting.say(json!({"resolve": "nobody._http._tcp.local"}));
    let answered = daemon.http().get("/v1/mdns/resolve?name=nobody._http._tcp.local");
    let took = boot_ms() - began;
    assert_eq!(answered.status, 504);
    answered.refused("resolve_timeout");
    assert!((4_500..15_000).contains(&took), "{took} ms");
    assert_eq!(waiting.next()["error"], "resolve_timeout");
}

#[test]
fn a_service_that_appears_meanwhile_is_resolved() {
    let daemon = started();
    let mut http = daemon.http();
    http.send("GET", "/v1/mdns/resolve?name=late._http._tcp.local", b"").unwrap();
    daemon.register(service("late"));
    assert_eq!(http.answer().unwrap().good()["resolved"]["port"], 8080);
}

#[test]
fn a_draining_service_is_still_found_and_one_that_ended_is_not() {
    let daemon = started();
    let registered = daemon.lines().register(service("app"));
    daemon.until(&registered, "draining");
    assert_eq!(daemon.get("/v1/mdns/resolve?name=app._http._tcp.local")["resolved"]["port"], 8080);
    let lease = daemon.lease_of(&registered);
    daemon.end(&registered).good();
    daemon.until_reclaimed(&lease);
    let mut browse = Events::look(daemon.http(), "/v1/mdns/browse?type=_http._tcp");
    daemon.register(service("witness"));
    assert_eq!(browse.next().data["found"]["name"], "witness");
}

#[test]
fn many_streams_that_are_left_leave_nothing_behind() {
    let daemon = started();
    for round in 0..50 {
        let mut browse = Events::look(daemon.http(), "/v1/mdns/browse?type=_http._tcp");
        let registered = daemon.register(service(&format!("app {round}")));
        assert_eq!(browse.next().data["found"]["name"], format!("app {round}"));
        drop(browse);
        let lease = daemon.lease_of(&registered);
        daemon.unregister(&registered).good();
        daemon.until_reclaimed(&lease);
    }
    let answered: Value = daemon.http().json("GET", "/v1/mdns/admin/status", Value::Null).good();
    assert_eq!(answered["registrations"]["total"], 0);
}
