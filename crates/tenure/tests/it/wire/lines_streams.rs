//! Streams of events over lines.

use std::time::Duration;

use serde_json::{Value, json};

use super::daemon::{Served, id};
use super::http::Answer;
use super::lines::Lines;

fn kinds(lines: &Lines, count: usize) -> Vec<String> {
    (0..count)
        .map(|_| {
            let event = lines.until(|line| line["event"].is_object())["event"].clone();
            let name = event["lease"]["resources"][0].as_str().unwrap_or("-").to_owned();
            format!("{} {name}", event["kind"].as_str().unwrap())
        })
        .collect()
}

#[test]
fn a_watch_tells_what_the_lines_behind_it_cause() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    let (watch, acquire) =
        (json!({"watch": {}}), json!({"acquire": {"resources": ["r"], "holder": "a", "ttl_ms": 0}}));
    lines.send(format!("{watch}\n{acquire}\n").as_bytes());
    let (one, two) = (lines.next(), lines.next());
    let (event, acquired) = if one["event"].is_object() { (one, two) } else { (two, one) };
    assert_eq!(acquired["acquired"]["resources"], json!(["r"]));
    let event = &event["event"];
    assert_eq!(
        (&event["kind"], &event["lease"]["lease_id"]),
        (&"granted".into(), &acquired["acquired"]["lease_id"])
    );
    assert_eq!(event["lsn"], acquired["acquired"]["lsn"]);
}

/// A stream with a tag used to begin in a task of its own, after the lines behind it.
#[test]
fn a_watch_with_a_tag_tells_what_the_lines_behind_it_cause() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    for round in 0..50 {
        let (watch, name) = (json!({"watch": {}, "tag": round}), format!("r{round}"));
        let acquire = json!({"acquire": {"resources": [name], "holder": "a", "ttl_ms": 0}, "tag": "a"});
        lines.send(format!("{watch}\n{acquire}\n").as_bytes());
        lines.until(|line| line["tag"] == round && line["event"]["lease"]["resources"][0] == name);
        lines.say(json!({"stop": round}));
        lines.until(|line| line["stopped"] == round);
    }
}

#[test]
fn untagged_lines_are_carried_out_in_order() {
    let daemon = Served::start();
    for round in 0..20 {
        let mut lines = daemon.lines();
        let pool = format!("pool{round}");
        let script = [
            json!({"pool": {"name": pool, "size": 2}}),
            json!({"acquire": {"pools": {pool.as_str(): 2}, "holder": "a", "ttl_ms": 60_000}}),
            json!({"pool": {"name": pool, "remove": true}}),
            json!({"list": {"resource_prefix": pool}}),
            json!({"why": {"resource": pool}}),
            json!({"status": {}}),
        ];
        let text: String = script.iter().map(|line| format!("{line}\n")).collect();
        lines.send(text.as_bytes());
        assert_eq!(lines.next()["pool"]["free"], 2);
        assert_eq!(lines.next()["acquired"]["resources"].as_array().unwrap().len(), 2);
        assert_eq!(lines.next()["error"], "pool_in_use");
        assert_eq!(lines.next()["leases"]["leases"].as_array().unwrap().len(), 1);
        assert!(lines.next()["why"].is_object());
        assert!(lines.next()["status"].is_object());
    }
}

#[test]
fn a_second_stream_needs_a_tag() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    lines.say(json!({"watch": {}}));
    let error = lines.refused(json!({"watch": {}}), "invalid_request");
    assert!(error["message"].as_str().unwrap().contains("tag"), "{error}");
    lines.say(json!({"watch": {}, "tag": "second"}));
    lines.say(json!({"watch": {}, "tag": 3}));
    assert_eq!(lines.refused(json!({"watch": {}, "tag": 3}), "invalid_request")["tag"], 3);
    let mut others = daemon.lines();
    others.say(json!({"watch": {}, "tag": 1}));
    others.refused(json!({"watch": {}}), "invalid_request");
    wait_for_watches(&daemon, 4);
    daemon.acquire(json!({"resources": ["r"], "holder": "a"}));
    let mut tags: Vec<String> = (0..3).map(|_| lines.next()["tag"].to_string()).collect();
    tags.sort();
    assert_eq!(tags, ["\"second\"", "3", "null"]);
}

/// A stream that was refused used to keep its place until the line behind it was looked at, which was then refused too.
#[test]
fn a_refused_stream_without_a_tag_keeps_no_place() {
    let daemon = Served::start();
    let refused = [
        (json!({"browse": "no type at all"}), "invalid_type"),
        (json!({"subscribe": "_http._sctp"}), "invalid_type"),
        (json!({"watch": {"from": 1_000_000}}), "invalid_request"),
    ];
    let mut lines = daemon.lines();
    for _ in 0..200 {
        let script: String = refused.iter().map(|(line, _)| format!("{line}\n")).collect();
        lines.send(script.as_bytes());
        for (line, code) in &refused {
            let answer = lines.next();
            assert_eq!(answer["error"], *code, "{line}: {answer}");
            assert!(!answer["message"].as_str().unwrap().contains("a tag"), "{line}: {answer}");
        }
    }
    let (good, second) = (json!({"watch": {}}), json!({"status": {}}));
    lines.send(format!("{}\n{good}\n{good}\n{second}\n", refused[2].0).as_bytes());
    assert_eq!(lines.next()["error"], "invalid_request");
    assert!(lines.next()["message"].as_str().unwrap().contains("a second stream needs a tag"));
    assert!(lines.next()["status"].is_object());
    wait_for_watches(&daemon, 1);
    // One that is asked for last ends with its connection, wherever its turn was.
    for _ in 0..50 {
        let mut short = daemon.lines();
        short.send(format!("{second}\n{good}\n").as_bytes());
        drop(short);
    }
    drop(lines);
    wait_for_watches(&daemon, 0);
}

fn wait_for_watches(daemon: &Served, count: u64) {
    crate::run_support::wait_until("watches", super::daemon::LONG, || {
        daemon.get("/v1/status")["watches"] == count
    });
}

#[test]
fn a_stream_that_is_stopped_says_nothing_more() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    let mut busy = daemon.lines();
    for round in 0..30 {
        lines.say(json!({"watch": {}, "tag": round}));
        lines.good(json!({"status": {}}), "status");
        let text: String = (0..20)
            .map(|n| {
                let name = format!("r{round}-{n}");
                format!(
                    "{}\n",
                    json!({"acquire": {"resources": [name], "holder": "a", "ttl_ms": 0}, "tag": n})
                )
            })
            .collect();
        busy.send(text.as_bytes());
        lines.until(|line| line["event"].is_object());
        lines.say(json!({"stop": round, "tag": "end"}));
        let stopped = lines.until(|line| line["stopped"] == round);
        assert_eq!(stopped["tag"], "end");
        (0..20).for_each(|_| drop(busy.next()));
        // The stream is gone, its tag is free, and nothing of it comes any more.
        assert_eq!(lines.refused(json!({"stop": round}), "not_found")["error"], "not_found");
    }
    assert!(lines.is_silent_for(Duration::from_millis(50)));
    wait_for_watches(&daemon, 0);
}

#[test]
fn only_streams_that_are_open_are_stopped() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    lines.refused(json!({"stop": "none"}), "not_found");
    lines.refused(json!({"stop": {}}), "invalid_request");
    lines.say(json!({"watch": {}, "tag": "a"}));
    assert_eq!(lines.ask(json!({"stop": "a"})), json!({"stopped": "a"}));
    lines.refused(json!({"stop": "a"}), "not_found");
}

#[test]
fn a_watch_begins_after_a_position_and_is_filtered() {
    let daemon = Served::start();
    let alice = daemon.acquire(json!({"resources": ["x/1"], "holder": "alice"}));
    daemon.acquire(json!({"resources": ["x/2"], "holder": "bob", "ttl_ms": 0}));
    daemon.acquire(json!({"resources": ["y/1"], "holder": "alice", "reserve_ms": 60_000}));
    daemon.of_lease(&alice, "drain", json!({})).good();
    daemon.of_lease(&alice, "release", json!({"epoch": 1})).good();
    let told = |query: Value, count: usize| {
        let mut lines = daemon.lines();
        let mut query = query;
        query["from"] = 0.into();
        lines.say(json!({"watch": query, "tag": 1}));
        kinds(&lines, count)
    };
    assert_eq!(
        told(json!({}), 5),
        ["granted x/1", "granted x/2", "granted y/1", "draining x/1", "released x/1"]
    );
    assert_eq!(told(json!({"holder": "bob"}), 1), ["granted x/2"]);
    assert_eq!(told(json!({"resource_prefix": "y/"}), 1), ["granted y/1"]);
    assert_eq!(told(json!({"state": "released"}), 1), ["released x/1"]);
    assert_eq!(told(json!({"state": "reserved"}), 1), ["granted y/1"]);
    assert_eq!(told(json!({"liveness": "draining"}), 1), ["draining x/1"]);
    assert_eq!(told(json!({"mode": "permanent"}), 1), ["granted x/2"]);
    assert_eq!(
        told(json!({"holder": "alice", "resource_prefix": "x"}), 3),
        ["granted x/1", "draining x/1", "released x/1"]
    );
    let mut lines = daemon.lines();
    lines.say(json!({"watch": {"from": alice["lsn"], "application": "leases"}, "tag": 1}));
    assert_eq!(kinds(&lines, 1), ["granted x/2"]);
    // What was refused has not taken the tag. It used to be free a moment after the refusal could be read.
    for _ in 0..100 {
        lines.say(json!({"watch": {"from": 1_000_000}, "tag": 2}));
        assert_eq!(lines.until(|line| line["tag"] == 2)["error"], "invalid_request");
        lines.say(json!({"watch": {"from": alice["lsn"]}, "tag": 2}));
        assert_eq!(lines.until(|line| line["tag"] == 2)["event"]["kind"], "granted");
        lines.say(json!({"stop": 2}));
        lines.until(|line| line["stopped"] == 2);
    }
}

#[test]
fn a_stream_never_stops_the_reading() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    lines.say(json!({"watch": {"from": 0}}));
    for number in 0..50 {
        lines.say(json!({"acquire": {"resources": [format!("r{number}")], "holder": "a"}}));
    }
    let (mut events, mut answers) = (0, 0);
    while events < 50 || answers < 50 {
        let line = lines.next();
        answers += usize::from(line["acquired"].is_object());
        events += usize::from(line["event"]["kind"] == "granted");
    }
    let lease = daemon.get("/v1/leases?limit=1")["leases"][0].clone();
    daemon.of_lease(&lease, "revoke", json!({})).good();
    let lost = lines.until(|line| line["lost"].is_object());
    assert_eq!(lost["lost"]["lease_id"], id(&lease));
}

#[test]
fn a_dead_peer_is_noticed_in_the_middle_of_a_stream() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let mut lines = daemon.lines();
    lines.say(json!({"watch": {}}));
    lines.say(json!({"acquire": {"resources": ["r"], "holder": "a", "grace_ms": 0}}));
    let lease = lines.until(|line| line["acquired"].is_object())["acquired"].clone();
    drop(lines);
    watch.about("reclaimed", &lease);
    wait_for_watches(&daemon, 1);
}

#[test]
fn a_stream_is_told_of_the_end_of_the_daemon_last() {
    let mut daemon = Served::start();
    let mut lines = daemon.lines();
    lines.say(json!({"watch": {}}));
    lines.say(json!({"watch": {}, "tag": "t"}));
    lines.good(json!({"status": {}}), "status");
    wait_for_watches(&daemon, 2);
    daemon.stop();
    let rest = lines.rest();
    let closing: Vec<&Value> = rest.iter().filter(|line| line["event"]["kind"] == "closing").collect();
    assert_eq!(closing.len(), 2, "{rest:?}");
    assert_eq!(rest.len(), 2, "{rest:?}");
}
