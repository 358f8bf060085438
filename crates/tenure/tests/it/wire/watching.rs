//! The stream of events over HTTP: nothing is missed, nothing comes twice, and where to go on is always known.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::daemon::{LONG, Served, id};
use super::events::{Events, Happened, Said};
use super::http::{Answer, Ask};
use crate::run_support::{boot_ms, wait_until};

fn acquire(daemon: &Served, name: &str, holder: &str) -> Value {
    daemon.acquire(json!({"resources": [name], "holder": holder, "ttl_ms": 0}))
}

#[test]
fn an_event_says_what_the_contract_lists() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let lease = daemon
        .acquire(json!({"resources": ["r", "s"], "holder": "a", "ttl_ms": 60_000, "attachment": {"job": 7}}));
    let Happened { id: event_id, kind, data } = watch.next();
    assert_eq!(kind, "granted");
    assert!(event_id.is_some());
    assert_eq!((&data["kind"], &data["lsn"]), (&"granted".into(), &lease["lsn"]));
    super::shown::time(&data["at"]);
    let told = &data["lease"];
    for field in [
        "lease_id",
        "holder",
        "resources",
        "state",
        "liveness",
        "mode",
        "epoch",
        "fence",
        "ttl_ms",
        "grace_ms",
        "granted_at",
        "application",
        "face",
        "attachment",
    ] {
        assert_eq!(told[field], lease[field], "{field}");
    }
}

#[test]
fn every_kind_of_event_is_told() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    daemon.ask("PUT", "/v1/pools/p", json!({"size": 1})).good();
    let session = daemon.post("/v1/sessions", json!({"holder": "a", "ttl_ms": 60_000, "grace_ms": 0}));
    let lease = daemon.acquire(json!({"resources": ["r"], "holder": "a", "reserve_ms": 60_000}));
    daemon.of_lease(&lease, "activate", json!({"epoch": 1})).good();
    daemon.of_lease(&lease, "amend", json!({"epoch": 1, "attachment": 1})).good();
    daemon.of_lease(&lease, "drain", json!({"reason": "why not"})).good();
    daemon.of_lease(&lease, "revive", json!({})).good();
    daemon.of_lease(&lease, "rebind", json!({"epoch": 1, "holder": "b"})).good();
    daemon.of_lease(&lease, "revoke", json!({"reason": "so", "reclaim": false})).good();
    daemon.of_lease(&lease, "reclaim", json!({"force": true})).good();
    let short = daemon.acquire(json!({"resources": ["x"], "holder": "a", "reserve_ms": 10}));
    watch_for(&daemon, &short, "expired");
    let given_back = acquire(&daemon, "y", "a");
    daemon.of_lease(&given_back, "release", json!({"epoch": 1})).good();
    daemon
        .ask("DELETE", &format!("/v1/sessions/{}", session["session"].as_str().unwrap()), Value::Null)
        .good();
    daemon.ask("DELETE", "/v1/pools/p", Value::Null).good();
    assert_eq!(
        watch.kinds(16),
        [
            "pool_defined",
            "session_opened",
            "granted r",
            "activated r",
            "amended r",
            "draining r",
            "revived r",
            "rebound r",
            "revoked r",
            "reclaimed r",
            "granted x",
            "expired x",
            "granted y",
            "released y",
            "session_closed",
            "pool_removed",
        ]
    );
    // The same is told of the past.
    let mut again = daemon.watch_from(0);
    assert_eq!(again.kinds(3), ["pool_defined", "session_opened", "granted r"]);
    let told: Vec<Happened> = (0..7).map(|_| again.next()).collect();
    let of = |kind: &str| &told.iter().find(|event| event.kind == kind).unwrap().data["lease"];
    assert_eq!(
        (&of("draining")["drain_cause"], &of("draining")["reason_text"]),
        (&"operator".into(), &"why not".into())
    );
    assert_eq!((&of("rebound")["holder"], &of("rebound")["epoch"]), (&"b".into(), &2.into()));
    assert_eq!(
        (&of("revoked")["state"], &of("revoked")["reason"]),
        (&"revoking".into(), &"admin_force".into())
    );
    assert_eq!((&of("revoked")["holder"], &of("revoked")["reason_text"]), (&"b".into(), &"so".into()));
    assert_eq!((&of("reclaimed")["state"], &of("reclaimed")["epoch"]), (&"revoked".into(), &3.into()));
}

#[test]
fn an_event_is_told_alike_whenever_it_is_read() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let call = |lease: &Value, call: &str, body: Value| daemon.of_lease(lease, call, body).good();
    let session = daemon.post("/v1/sessions", json!({"holder": "s", "ttl_ms": 60_000, "grace_ms": 7}));
    let one =
        daemon.acquire(json!({"resources": ["r"], "holder": "a", "reserve_ms": 60_000, "attachment": 1}));
    call(&one, "amend", json!({"epoch": 1, "attachment": 2}));
    call(&one, "activate", json!({"epoch": 1}));
    call(&one, "rebind", json!({"epoch": 1, "holder": "b", "attachment": 3}));
    call(&one, "amend", json!({"epoch": 2, "attachment": 4}));
    let handed = call(&one, "handover", json!({"epoch": 2, "to_session": session["session"]}));
    call(&one, "drain", json!({"reason": "so"}));
    call(&one, "revive", json!({}));
    call(&one, "revoke", json!({"reclaim": false}));
    call(&one, "reclaim", json!({"force": true}));
    let two = daemon.acquire(json!({"resources": ["r", "s"], "holder": "a"}));
    call(&two, "rebind", json!({"epoch": 1, "holder": "c"}));
    call(&two, "amend", json!({"epoch": 2, "attachment": 5}));
    let events: Vec<Happened> = (0..14).map(|_| watch.next()).collect();
    let rebound = &events[6].data["lease"];
    for field in ["holder", "mode", "epoch", "fence", "ttl_ms", "grace_ms", "session", "state"] {
        assert_eq!(rebound[field], handed[field], "{field}");
    }
    assert_eq!((&events[2].kind[..], &events[2].data["lease"]["state"]), ("amended", &"reserved".into()));
    for (at, from) in events.iter().enumerate() {
        let mut again = daemon.watch_from(from.data["lsn"].as_u64().unwrap() - 1);
        for expected in &events[at..] {
            assert_eq!(&again.next(), expected, "from event {at}");
        }
    }
}

fn watch_for(daemon: &Served, lease: &Value, state: &str) {
    wait_until(state, LONG, || daemon.inspect(lease)["state"] == state);
}

#[test]
fn there_is_no_gap_between_list_and_watch_under_load() {
    let daemon = Served::start();
    let (stop, held) = (AtomicBool::new(false), "held");
    std::thread::scope(|scope| {
        let mut writers = Vec::new();
        for writer in 0..3 {
            let (mut http, stop) = (daemon.http(), &stop);
            writers.push(scope.spawn(move || {
                for round in 0u32.. {
                    let name = format!("{held}/{writer}/{}", round % 7);
                    let lease = http
                        .json("POST", "/v1/leases", json!({"resources": [name], "holder": "a", "ttl_ms": 0}))
                        .good();
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    http.json("POST", &format!("/v1/leases/{}/release", id(&lease)), json!({"epoch": 1}))
                        .good();
                }
            }));
        }
        for _ in 0..5 {
            let list = daemon.get("/v1/leases?limit=1000");
            let mut seen = held_in(&list);
            let mut watch = daemon.watch_from(list["lsn"].as_u64().unwrap());
            for _ in 0..200 {
                follow(&mut seen, &watch.next());
            }
        }
        let list = daemon.get("/v1/leases?limit=1000");
        let mut seen = held_in(&list);
        let mut watch = daemon.watch_from(list["lsn"].as_u64().unwrap());
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let last = daemon.get("/v1/leases?limit=1000");
        let end = last["lsn"].as_u64().unwrap();
        let mut position = list["lsn"].as_u64().unwrap();
        while position < end {
            let event = watch.next();
            position = event.data["lsn"].as_u64().unwrap();
            follow(&mut seen, &event);
        }
        assert_eq!(seen, held_in(&last));
    });
}

fn held_in(list: &Value) -> BTreeSet<String> {
    assert_eq!(list["next_cursor"], Value::Null);
    list["leases"].as_array().unwrap().iter().map(|lease| id(lease).to_owned()).collect()
}

/// A grant is of a lease that was not there, an end of one that was.
#[track_caller]
fn follow(held: &mut BTreeSet<String>, event: &Happened) {
    let lease = id(&event.data["lease"]).to_owned();
    match event.kind.as_str() {
        "granted" => assert!(held.insert(lease), "{event:?}"),
        "released" => assert!(held.remove(&lease), "{event:?}"),
        kind => panic!("{kind}"),
    }
}

#[test]
fn ids_grow_and_say_where_to_go_on() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    for number in 0..20 {
        acquire(&daemon, &format!("r{number}"), "a");
    }
    let events: Vec<Happened> = (0..20).map(|_| watch.next()).collect();
    let positions: Vec<u64> = events.iter().map(|event| event.data["lsn"].as_u64().unwrap()).collect();
    assert!(positions.is_sorted_by(|one, two| one < two), "{positions:?}");
    let ids: BTreeSet<&String> = events.iter().map(|event| event.id.as_ref().unwrap()).collect();
    assert_eq!(ids.len(), 20);
    for at in [0, 7, 18] {
        let last = events[at].id.as_deref().unwrap();
        let mut resumed = Events::open(daemon.http().with("last-event-id", last), "/v1/events");
        assert_eq!(resumed.next(), events[at + 1]);
        // What was seen last counts more than where the page once began.
        let mut resumed = Events::open(daemon.http().with("last-event-id", last), "/v1/events?from=0");
        assert_eq!(resumed.next(), events[at + 1]);
    }
    let last = events[19].id.as_deref().unwrap();
    let mut resumed = Events::open(daemon.http().with("last-event-id", last), "/v1/events");
    let lease = acquire(&daemon, "more", "a");
    assert_eq!(resumed.next().data["lease"]["lease_id"], lease["lease_id"]);
}

#[test]
fn ids_outlive_the_daemon() {
    let mut daemon = Served::start();
    let mut watch = daemon.watch();
    acquire(&daemon, "r", "a");
    let last = watch.next().id.unwrap();
    acquire(&daemon, "s", "a");
    daemon.kill();
    daemon.start_again();
    let mut resumed = Events::open(daemon.http().with("last-event-id", &last), "/v1/events");
    assert_eq!(resumed.kinds(1), ["granted s"]);
}

#[test]
fn positions_that_make_no_sense_are_refused() {
    let (daemon, other) = (Served::start(), Served::start());
    acquire(&daemon, "r", "a");
    let mut watch = other.watch();
    acquire(&other, "r", "a");
    let foreign = watch.next().id.unwrap();
    let ask = |path: &str| daemon.ask("GET", path, Value::Null);
    ask("/v1/events?from=1000000").refused("invalid_request");
    ask("/v1/events?from=18446744073709551615").refused("invalid_request");
    ask("/v1/events?from=-1").refused("invalid_request");
    ask("/v1/events?from=now").refused("invalid_request");
    let with = |id: &str| daemon.http().with("last-event-id", id).json("GET", "/v1/events", Value::Null);
    with("nonsense").refused("invalid_request");
    with("").refused("invalid_request");
    let error = with(&foreign).refused("lsn_trimmed");
    assert_eq!(error["oldest"], 1);
    assert_eq!(daemon.get("/v1/status")["watches"], 0);
}

#[test]
fn events_are_filtered_like_lists() {
    let daemon = Served::start();
    let alice = daemon.acquire(json!({"resources": ["x/1"], "holder": "alice"}));
    daemon.acquire(json!({"resources": ["größe/2"], "holder": "bob", "ttl_ms": 0}));
    daemon.acquire(json!({"resources": ["y/1", "x/9"], "holder": "alice", "reserve_ms": 60_000}));
    daemon.of_lease(&alice, "drain", json!({})).good();
    daemon.of_lease(&alice, "revive", json!({})).good();
    daemon.of_lease(&alice, "release", json!({"epoch": 1})).good();
    daemon.ask("PUT", "/v1/pools/p", json!({"size": 1})).good();
    acquire(&daemon, "z", "alice bob");
    // Everything that passes, up to a lease that passes too and comes last.
    let told = |query: &str, last: Value, call: &str| {
        let mut body = json!({"resources": ["last"], "holder": "nobody"});
        body.as_object_mut().unwrap().extend(last.as_object().unwrap().clone());
        let last = daemon.acquire(body);
        if !call.is_empty() {
            daemon.of_lease(&last, call, json!({"epoch": 1})).good();
        }
        let mut watch = Events::open(daemon.http(), &format!("/v1/events?from=0&{query}"));
        let mut told = Vec::new();
        loop {
            let event = watch.next();
            if event.data["lease"]["lease_id"] == last["lease_id"] {
                break;
            }
            told.push(format!(
                "{} {}",
                event.kind,
                event.data["lease"]["resources"][0].as_str().unwrap_or("-")
            ));
        }
        daemon.of_lease(&last, "release", json!({"epoch": 1}));
        told.join(", ")
    };
    let prefix = "resource_prefix=gr%C3%B6%C3%9Fe/";
    assert_eq!(told("application=polling", json!({"resources": ["poll/last"]}), ""), "");
    assert_eq!(told("holder=alice+bob", json!({"holder": "alice bob"}), ""), "granted z");
    assert_eq!(told("holder=bob", json!({"holder": "bob"}), ""), "granted größe/2");
    assert_eq!(told(prefix, json!({"resources": ["größe/last"]}), ""), "granted größe/2");
    assert_eq!(told("resource_prefix=x/9", json!({"resources": ["a", "x/9/last"]}), ""), "granted y/1");
    assert_eq!(told("state=reserved", json!({"reserve_ms": 60_000}), ""), "granted y/1");
    assert_eq!(told("mode=permanent", json!({"ttl_ms": 0}), ""), "granted größe/2, granted z");
    assert_eq!(told("liveness=draining", json!({}), "drain"), "draining x/1");
    assert_eq!(told("state=released&holder=alice", json!({"holder": "alice"}), "release"), "released x/1");
    daemon.ask("GET", "/v1/events?state=lost", Value::Null).refused("invalid_request");
}

#[test]
fn a_silent_stream_says_that_it_lives() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let began = boot_ms();
    let said = watch.said();
    let took = boot_ms() - began;
    assert!(matches!(said, Some(Said::Comment(_))), "{said:?}");
    assert!((14_000..20_000).contains(&took), "{took} ms");
    acquire(&daemon, "r", "a");
    assert_eq!(watch.kinds(1), ["granted r"]);
}

#[test]
fn the_last_event_says_that_the_daemon_stops() {
    for how in ["signal", "call"] {
        let mut daemon = Served::start();
        let mut watch = daemon.watch();
        acquire(&daemon, "r", "a");
        assert_eq!(watch.kinds(1), ["granted r"]);
        match how {
            "signal" => daemon.stop(),
            _ => {
                assert_eq!(daemon.post("/v1/shutdown", json!({}))["shutting_down"], true);
                assert_eq!(daemon.code(), 0);
            }
        }
        assert_eq!(watch.kinds(1), ["closing"], "{how}");
        assert_eq!(watch.said(), None, "the body ends as it should");
    }
}

#[test]
fn a_reader_that_is_too_slow_is_told_where_to_begin_again() {
    let daemon = Served::start();
    let mut slow = daemon.watch();
    let lease = acquire(&daemon, "r", "a");
    let first = slow.next().data["lsn"].as_u64().unwrap();
    let mut lines = daemon.http();
    let attachment = "x".repeat(4_000);
    // More than what is kept in memory and in the buffers of both sides.
    let path = format!("/v1/leases/{}/amend", id(&lease));
    let body = json!({"epoch": 1, "attachment": attachment}).to_string();
    let request = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .replace("host: x", &format!("host: {}", daemon.address()));
    for _ in 0..60 {
        lines.raw(request.repeat(100).as_bytes()).unwrap();
        (0..100).for_each(|_| assert_eq!(lines.answer().unwrap().status, 200));
    }
    let mut position = first;
    let resume = loop {
        let event = slow.next();
        if event.kind == "lagged" {
            break event.data["resume"].as_u64().unwrap();
        }
        position += 1;
        assert_eq!(event.data["lsn"], position);
    };
    assert_eq!(slow.said(), None, "the stream is over");
    assert_eq!(resume, position, "it is what was seen last");
    let newest = daemon.get("/v1/status")["synced_lsn"].as_u64().unwrap();
    assert!(newest > position);
    let mut again = daemon.watch_from(resume);
    for expected in resume + 1..=newest {
        assert_eq!(again.next().data["lsn"], expected);
    }
}

#[test]
fn history_that_is_gone_is_said_to_be_gone() {
    let flags = ["--log-segment-bytes", "64KiB", "--log-snapshot-bytes", "64KiB", "--history-bytes", "1MiB"];
    let daemon = Served::start_with(&flags);
    let lease = acquire(&daemon, "r", "a");
    let mut http = daemon.http();
    let body = json!({"epoch": 1, "attachment": "x".repeat(4_000)});
    let mut from_one = None;
    wait_until("history is trimmed", LONG, || {
        for _ in 0..50 {
            http.json("POST", &format!("/v1/leases/{}/amend", id(&lease)), body.clone()).good();
        }
        http.send("GET", "/v1/events?from=0", b"").unwrap();
        let head = http.head().unwrap();
        if head.status == 200 {
            http = daemon.http();
            return false;
        }
        from_one = Some(head.status);
        true
    });
    assert_eq!(from_one, Some(410));
    let error = daemon.ask("GET", "/v1/events?from=0", Value::Null).refused("lsn_trimmed");
    let oldest = error["oldest"].as_u64().unwrap();
    assert!(oldest > 1, "{error}");
    assert_eq!(daemon.watch_from(oldest - 1).next().data["lsn"], oldest);
    let mut lines = daemon.lines();
    lines.refused(json!({"watch": {"from": 0}, "tag": 1}), "lsn_trimmed");
    // The lease itself is as it was.
    assert_eq!(daemon.inspect(&lease)["state"], "active");
    let story = daemon.get(&format!("/v1/why?lease={}", id(&lease)));
    assert!(story["oldest_lsn"].as_u64().unwrap() >= oldest, "{}", story["oldest_lsn"]);
}
