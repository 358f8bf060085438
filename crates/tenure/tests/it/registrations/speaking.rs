//! The verbs of registrations and discovery over lines: tags, streams, and lines that are not understood.

use std::time::Duration;

use serde_json::{Value, json};

use super::ways::{Registrant, Registry, id, service, service_with, started};

#[test]
fn every_verb_is_answered_under_its_own_name() {
    let daemon = started();
    for mut lines in [daemon.lines(), daemon.stdin()] {
        let answer = lines.ask(json!({"register": service("app")}));
        let keys: Vec<&String> = answer.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["registered"]);
        let id = id(&answer["registered"]).to_owned();
        let renewed = lines.ask(json!({ "heartbeat": id }));
        assert_eq!(json!([renewed["renewed"], renewed["lease"]]), json!([id, 0]));
        let resolved = lines.ask(json!({"resolve": "app._http._tcp.local"}));
        assert_eq!(resolved["resolved"]["port"], 8080, "{resolved}");
        assert_eq!(lines.ask(json!({ "unregister": id })), json!({ "unregistered": id }));
        daemon.until(&json!({ "id": id }), "gone");
    }
}

#[test]
fn tags_come_back_with_every_answer() {
    let daemon = started();
    let mut lines = daemon.lines();
    for tag in [json!("a"), json!(7)] {
        let answer = lines.ask(json!({"register": service("app"), "tag": tag}));
        assert_eq!(answer["tag"], tag, "{answer}");
        let id = id(&answer["registered"]).to_owned();
        assert_eq!(lines.ask(json!({"heartbeat": id, "tag": tag}))["tag"], tag);
        let resolved = lines.ask(json!({"resolve": "app._http._tcp", "tag": tag}));
        assert_eq!((&resolved["tag"], &resolved["resolved"]["name"]), (&tag, &"app".into()));
        assert_eq!(lines.ask(json!({"unregister": id, "tag": tag})), json!({"unregistered": id, "tag": tag}));
        let error = lines.ask(json!({"heartbeat": id, "tag": tag}));
        assert_eq!((&error["error"], &error["tag"]), (&"not_found".into(), &tag));
        let error = lines.ask(json!({"register": service(""), "tag": tag}));
        assert_eq!((&error["error"], &error["tag"]), (&"invalid_name".into(), &tag));
    }
}

#[test]
fn a_browse_over_lines_tells_what_is_found_and_removed() {
    let daemon = started();
    for mut lines in [daemon.lines(), daemon.stdin()] {
        lines.say(json!({"browse": "_http._tcp", "tag": "b"}));
        let registered = daemon.register(service("app"));
        let found = lines.next();
        assert_eq!(json!([found["found"]["name"], found["tag"]]), json!(["app", "b"]), "{found}");
        daemon.unregister(&registered).good_or_panic();
        let removed = lines.next();
        assert_eq!(
            json!([removed["event"], removed["service"]["name"], removed["tag"]]),
            json!(["removed", "app", "b"])
        );
        assert_eq!(lines.ask(json!({"stop": "b"}))["stopped"], "b");
    }
}

trait GoodOrPanic {
    fn good_or_panic(&self);
}

impl GoodOrPanic for crate::raw_http::Answered {
    #[track_caller]
    fn good_or_panic(&self) {
        assert_eq!(self.status, 200, "{self:?}");
    }
}

#[test]
fn a_subscription_over_lines_tells_found_resolved_and_removed() {
    let daemon = started();
    let mut lines = daemon.lines();
    lines.say(json!({"subscribe": "http"}));
    let registered = daemon.register(service("app"));
    for wanted in ["found", "resolved"] {
        let line = lines.next();
        assert_eq!(json!([line["event"], line["service"]["name"]]), json!([wanted, "app"]), "{line}");
    }
    daemon.unregister(&registered).good_or_panic();
    let line = lines.next();
    assert_eq!(json!([line["event"], line["service"]["name"]]), json!(["removed", "app"]), "{line}");
}

#[test]
fn a_stream_never_stops_the_reading() {
    let daemon = started();
    let mut lines = daemon.lines();
    lines.say(json!({"browse": "_http._tcp"}));
    lines.say(json!({"register": service("app")}));
    let (mut registered, mut found) = (Value::Null, Value::Null);
    while registered.is_null() || found.is_null() {
        let line = lines.next();
        match line["registered"].is_object() {
            true => registered = line["registered"].clone(),
            false => found = line["found"].clone(),
        }
    }
    assert_eq!((&registered["name"], &found["name"]), (&"app".into(), &"app".into()));
    lines.say(json!({"heartbeat": id(&registered)}));
    assert_eq!(lines.until(|line| line["renewed"].is_string())["renewed"], registered["id"]);
    lines.say(json!({"unregister": id(&registered)}));
    let (mut unregistered, mut removed) = (false, false);
    while !(unregistered && removed) {
        let line = lines.next();
        unregistered |= line["unregistered"] == registered["id"];
        removed |= line["event"] == "removed";
    }
}

#[test]
fn two_streams_are_told_apart_by_their_tags_and_stopped_alone() {
    let daemon = started();
    let mut lines = daemon.lines();
    lines.say(json!({"browse": "_http._tcp", "tag": "web"}));
    lines.say(json!({"browse": "_ipp._tcp", "tag": 2}));
    daemon.register(service("app"));
    let found = lines.next();
    assert_eq!(json!([found["found"]["name"], found["tag"]]), json!(["app", "web"]));
    daemon.register(service_with("printer", json!({"type": "_ipp._tcp"})));
    let found = lines.next();
    assert_eq!(json!([found["found"]["name"], found["tag"]]), json!(["printer", 2]));
    let stopped = lines.ask(json!({"stop": "web"}));
    assert_eq!(stopped["stopped"], "web", "{stopped}");
    daemon.register(service("silent"));
    daemon.register(service_with("last", json!({"type": "_ipp._tcp"})));
    let found = lines.next();
    assert_eq!(
        json!([found["found"]["name"], found["tag"]]),
        json!(["last", 2]),
        "a stopped stream is silent"
    );
    assert!(lines.ask(json!({"stop": "web"}))["error"].is_string(), "it is stopped once");
    lines.ask(json!({"stop": 2}));
    lines.say(json!({"browse": "_http._tcp", "tag": "web"}));
    let names = [lines.next(), lines.next()].map(|line| line["found"]["name"].as_str().unwrap().to_owned());
    assert!(names.contains(&"app".to_owned()) && names.contains(&"silent".to_owned()), "{names:?}");
}

#[test]
fn a_second_stream_needs_a_tag() {
    let daemon = started();
    let mut lines = daemon.lines();
    lines.say(json!({"browse": "_http._tcp"}));
    for verb in ["browse", "subscribe"] {
        let error = lines.refused(json!({ verb: "_http._tcp" }), "invalid_request");
        assert!(error["message"].as_str().unwrap().contains("tag"), "{error}");
    }
    lines.say(json!({"subscribe": "_http._tcp", "tag": 1}));
    daemon.register(service("app"));
    let mut seen = Vec::new();
    for _ in 0..3 {
        let line = lines.next();
        seen.push(if line["found"].is_object() {
            "browse".to_owned()
        } else {
            line["event"].as_str().unwrap().to_owned()
        });
    }
    seen.sort();
    assert_eq!(seen, ["browse", "found", "resolved"]);
}

#[test]
fn one_tag_is_one_stream() {
    let daemon = started();
    let mut lines = daemon.lines();
    lines.say(json!({"browse": "_http._tcp", "tag": 1}));
    let answer = lines.ask(json!({"browse": "_ipp._tcp", "tag": 1}));
    assert!(answer["error"].is_string(), "{answer}");
}

#[test]
fn what_is_not_understood_is_a_parse_error_and_the_connection_lives_on() {
    let daemon = started();
    for mut lines in [daemon.lines(), daemon.stdin()] {
        let registered = lines.register(service("app"));
        for bad in [
            "{\"announce\":{}}",
            "{\"register\":}",
            "{\"register\":7}",
            "{\"unregister\":7}",
            "{\"unregister\":{}}",
            "{\"browse\":{}}",
            "{\"heartbeat\":7}",
            "{\"resolve\":null}",
            "{}",
            "[]",
            "{\"register\":{\"name\":\"x\"}}",
            "{\"heartbeat\":\"a\",\"unregister\":\"b\"}",
        ] {
            lines.send(format!("{bad}\n").as_bytes());
            let answer = lines.next();
            let code = answer["error"].as_str().unwrap_or_else(|| panic!("{bad}: {answer}"));
            assert!(["parse_error", "invalid_request"].contains(&code), "{bad}: {answer}");
        }
        lines.send(b"{\"frobnicate\":{}}\n");
        assert_eq!(lines.next()["error"], "parse_error");
        assert_eq!(lines.ask(json!({"heartbeat": id(&registered)}))["renewed"], registered["id"]);
        lines.ask(json!({"unregister": id(&registered)}));
        daemon.until(&registered, "gone");
    }
}

#[test]
fn bad_types_are_refused_to_streams() {
    let daemon = started();
    let mut lines = daemon.lines();
    for verb in ["browse", "subscribe"] {
        lines.refused(json!({ verb: "_http._sctp" }), "invalid_type");
        let error = lines.refused(json!({ verb: "a--b", "tag": 1 }), "invalid_type");
        assert_eq!(error["tag"], 1);
    }
    assert!(lines.is_silent_for(Duration::from_millis(100)), "a stream that was refused did not begin");
    lines.say(json!({"browse": "_http._tcp"}));
    daemon.register(service("app"));
    assert_eq!(lines.next()["found"]["name"], "app", "a refused stream takes no place");
}

#[test]
fn types_are_listed_over_lines() {
    let daemon = started();
    daemon.register(service("app"));
    let mut lines = daemon.lines();
    lines.say(json!({"browse": "_services._dns-sd._udp"}));
    assert_eq!(lines.next()["found"]["name"], "_http._tcp");
}

#[test]
fn many_lines_at_once_are_answered_in_order() {
    let daemon = started();
    let mut lines = daemon.lines();
    let mut text = String::new();
    for number in 0..200 {
        text += &format!("{}\n", json!({"register": service(&format!("app {number}"))}));
        text += &format!("{}\n", json!({"register": service_with("bad", json!({"port": 0}))}));
    }
    lines.send(text.as_bytes());
    for number in 0..200 {
        assert_eq!(lines.next()["registered"]["name"], format!("app {number}"));
        assert!(lines.next()["error"].is_string());
    }
}
