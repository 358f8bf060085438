//! What others publish, told over HTTP and lines: browsing, subscribing, resolving, listing types; and that many who
//! look are one who asks.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::peers::avahi::Publisher;
use super::peers::feed::{LIMIT, Process};
use super::peers::netns::Host;
use super::peers::{Change, Service};
use super::stage::{HTTP, SmallStage, Stage, post, register, unregister};
use super::streams::Stream;
use crate::run_support::wait_until;

const BROWSE: &str = "/v1/mdns/browse?type=_http._tcp";

/// What both peers and we publish, and what is expected of it.
struct Published {
    by_avahi: Publisher,
    names: [&'static str; 3],
}

/// zeroconf, Avahi and we publish one service each.
fn published(stage: &mut Stage) -> Published {
    let names = ["python", "Büro v1.2", "ours"];
    let txt: &[&[u8]] = &[b"path=/x", b"flag", b"raw=\xff"];
    stage.zeroconf.register(&Service { name: names[0], service_type: HTTP, port: 1, txt });
    let by_avahi = stage.avahi.publish(&Service { name: names[1], service_type: HTTP, port: 2, txt });
    post(
        &stage.daemon,
        &json!({"name": names[2], "type": HTTP, "port": 3, "txt": {"path": "/x", "flag": null}}),
    );
    Published { by_avahi, names }
}

#[test]
fn services_of_all_hosts_are_found_resolved_and_removed_over_http_and_lines() {
    let mut stage = Stage::begin();
    let browse = Stream::events(&stage.daemon, BROWSE);
    let browse_lines = Stream::lines(&stage.daemon, &json!({"browse": "http", "tag": "b"}));
    let events = Stream::events(&stage.daemon, "/v1/mdns/events?type=_http._tcp.local.");
    let event_lines = Stream::lines(&stage.daemon, &json!({"subscribe": HTTP}));
    let Published { mut by_avahi, names } = published(&mut stage);
    for (port, name) in (1..).zip(names) {
        let mut records = Vec::new();
        for stream in [&browse, &browse_lines] {
            records.push(stream.wait_found(name));
        }
        for stream in [&events, &event_lines] {
            assert_eq!(stream.wait_event("found", name)["type"], HTTP);
            records.push(stream.wait_event("resolved", name));
        }
        for record in records {
            assert_eq!((&record["type"], &record["port"]), (&json!(HTTP), &json!(port)), "{record}");
            assert_eq!(
                (&record["txt"]["path"], &record["txt"]["flag"]),
                (&json!("/x"), &json!(null)),
                "{record}"
            );
            assert!(record["txt"].get("flag").is_some(), "{record}");
            assert_eq!(
                record["txt_base64"]["raw"],
                if name == "ours" { json!(null) } else { json!("/w==") },
                "{record}"
            );
            assert!(record["ip"].is_string() && record["ip"] == record["addresses"][0], "{record}");
        }
    }
    let mut registrant = stage.daemon.lines();
    let short_lived = register(&mut registrant, json!({"name": "short-lived", "type": HTTP, "port": 4}));
    browse.wait_found("short-lived");
    unregister(&mut registrant, &short_lived);
    stage.zeroconf.unregister(names[0], HTTP);
    by_avahi.end();
    for stream in [&browse, &browse_lines, &events, &event_lines] {
        for name in [names[0], names[1], "short-lived"] {
            assert_eq!(stream.wait_removed(name)["type"], HTTP);
        }
        assert!(
            stream.all().iter().all(|told| told["event"] != "removed" || told["service"]["name"] != "ours")
        );
    }
}

#[test]
fn a_change_at_another_host_is_told_and_is_no_removal() {
    let mut stage = SmallStage::begin_with(&[]);
    let browse = Stream::events(&stage.daemon, BROWSE);
    let service = Service { name: "python", service_type: HTTP, port: 1, txt: &[b"v=1"] };
    stage.zeroconf.register(&service);
    browse.wait_found("python");
    stage.zeroconf.update(&Service { port: 2, txt: &[b"v=2"], ..service });
    browse.wait_for(|told| told["found"]["port"] == 2 && told["found"]["txt"]["v"] == "2");
    assert!(browse.all().iter().all(|told| told["event"] != "removed"), "{:?}", browse.all());
}

#[test]
fn one_service_is_resolved_wherever_it_is_and_one_that_is_nowhere_is_not() {
    let mut stage = Stage::begin();
    let Published { by_avahi: _publisher, names } = published(&mut stage);
    for (port, name) in (1..).zip(names) {
        let full = format!("{name}._http._tcp.local");
        let encoded: String = full.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answered = stage.daemon.http_over_socket().get(&format!("/v1/mdns/resolve?name={encoded}"));
        assert_eq!(answered.status, 200, "{answered:?}");
        let line = stage.daemon.lines().ask(&json!({"resolve": full}));
        for resolved in [&answered.json()["resolved"], &line["resolved"]] {
            assert_eq!((&resolved["name"], &resolved["port"]), (&json!(name), &json!(port)), "{resolved}");
            assert!(resolved["host"].is_string() && resolved["ip"].is_string(), "{resolved}");
        }
    }
    let nobody = stage.daemon.lines().ask(&json!({"resolve": "nobody._http._tcp.local"}));
    assert_eq!(nobody["error"], "resolve_timeout", "{nobody}");
}

#[test]
fn the_types_of_the_network_are_listed() {
    let mut stage = Stage::begin();
    stage.zeroconf.register(&Service { name: "python", service_type: "_ipp._tcp", port: 1, txt: &[] });
    let _publisher =
        stage.avahi.publish(&Service { name: "a", service_type: "_ssh._tcp", port: 2, txt: &[] });
    post(&stage.daemon, &json!({"name": "ours", "type": "_ntp._udp", "port": 3}));
    let streams = [
        Stream::events(&stage.daemon, "/v1/mdns/browse"),
        Stream::events(&stage.daemon, "/v1/mdns/browse?type=_services._dns-sd._udp"),
        Stream::lines(&stage.daemon, &json!({"browse": "_services._dns-sd._udp"})),
    ];
    for stream in &streams {
        for name in ["_ipp._tcp", "_ssh._tcp", "_ntp._udp"] {
            stream.wait_found(name);
        }
    }
    // Those of the others list ours.
    assert!(stage.zeroconf.types(2).contains(&"_ntp._udp".to_owned()));
}

#[test]
fn a_subtype_finds_only_those_that_have_it() {
    let mut stage = Stage::begin();
    let wanted = "_printer._sub._http._tcp";
    let browse = Stream::events(&stage.daemon, &format!("/v1/mdns/browse?type={wanted}"));
    stage.avahi.browse(wanted);
    let mark = stage.avahi.mark();
    post(&stage.daemon, &json!({"name": "plain", "type": HTTP, "port": 1}));
    post(&stage.daemon, &json!({"name": "ours", "type": wanted, "port": 2}));
    // Words that begin with a dash are options, wherever they stand.
    let option: &[&[u8]] = &[b"--subtype=_printer._sub._http._tcp"];
    let mut theirs =
        stage.avahi.publish(&Service { name: "theirs", service_type: HTTP, port: 3, txt: option });
    let _other = stage.avahi.publish(&Service { name: "plain too", service_type: HTTP, port: 4, txt: &[] });
    for (name, port) in [("ours", 2), ("theirs", 3)] {
        assert_eq!(browse.wait_found(name)["port"], port);
    }
    stage.avahi.wait_for_since(mark, |seen| seen.is(Change::Added, "plain too"), LIMIT);
    // Avahi sees ours twice: once of the type and once of the subtype.
    let is_ours = |seen: &super::peers::Seen| seen.is(Change::Added, "ours");
    wait_until("ours under both types", LIMIT, || {
        stage.avahi.events().into_iter().filter(is_ours).count() == 2
    });
    theirs.end();
    browse.wait_removed("theirs");
    let names: BTreeSet<String> = browse
        .all()
        .iter()
        .map(|told| told["found"]["name"].as_str().or(told["service"]["name"].as_str()).unwrap().to_owned())
        .collect();
    assert_eq!(names, BTreeSet::from(["ours".to_owned(), "theirs".to_owned()]));
}

#[test]
fn who_looks_late_is_told_at_once_what_is_known_also_when_nobody_answers_any_more() {
    let mut stage = Stage::begin();
    let first = Stream::events(&stage.daemon, BROWSE);
    let Published { by_avahi: _publisher, names } = published(&mut stage);
    for name in names {
        first.wait_found(name);
    }
    // Killed, they say no goodbye and answer nobody.
    stage.zeroconf.process().kill();
    stage.avahi.daemon().kill();
    let late = Stream::events(&stage.daemon, BROWSE);
    for (port, name) in (1..).zip(names) {
        assert_eq!(late.wait_found(name)["port"], port);
    }
}

/// Tells every question it hears, one JSON object a line.
struct Questions {
    process: Process,
}

impl Questions {
    fn start(host: &Host) -> Self {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = host.command(package.join("../../target/venv/bin/python"));
        command.arg("-B").arg(package.join("tests/it/mdns/questions.py")).arg(host.address().to_string());
        let process = Process::start_plain(command);
        process.said().expect(0, |line| line.contains("ready"), LIMIT);
        Self { process }
    }

    /// How many packets of a host asked for a name.
    fn count(&self, source: &str, name: &str) -> usize {
        let said = self.process.said().all();
        let questions = said.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        questions.filter(|question| question["source"] == source && question["name"] == name).count()
    }
}

#[test]
fn many_who_look_for_one_type_are_one_who_asks() {
    let mut stage = SmallStage::begin_with(&[]);
    let questions = Questions::start(stage.theirs());
    stage.zeroconf.register(&Service { name: "python", service_type: "_ipp._tcp", port: 1, txt: &[] });
    let streams: Vec<Stream> =
        (0..50).map(|_| Stream::events(&stage.daemon, "/v1/mdns/browse?type=_ipp._tcp")).collect();
    for stream in &streams {
        assert_eq!(stream.wait_found("python")["port"], 1);
    }
    let ours = stage.ours().address().to_string();
    let asked = || questions.count(&ours, "_ipp._tcp.local.");
    wait_until("a question to be heard", LIMIT, || asked() > 0);
    let asked = asked();
    // It asks again after 1, 2, 4, … seconds.
    assert!(asked <= 6, "asked {asked} times");
}
