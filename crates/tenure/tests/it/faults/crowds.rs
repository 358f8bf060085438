//! Many who connect and say nothing, and those who do not read what they asked for.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::daemon::{Daemon, LIMIT};
use crate::raw_events::Events;
use crate::raw_http::Http;
use crate::raw_lines::Lines;
use crate::run_support::{boot_ms, wait_until};

const IDLE: usize = 10_000;

/// Lets this process have as many files as the system allows it.
fn raise_own_limit() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    let allowed = limit.maximum.unwrap_or(u64::MAX);
    assert!(allowed > IDLE as u64 + 1_000, "this test needs {IDLE} files, and only {allowed} are allowed");
}

/// Starts it with few files allowed; it may raise that itself.
const FEW_FILES: &[&str] = &["sh", "-c", "ulimit -Sn 256 && exec \"$@\"", "sh"];

#[test]
fn ten_thousand_idle_connections_keep_nobody_else_waiting() {
    raise_own_limit();
    let mut daemon = Daemon::prepared(&[]).with_launcher(FEW_FILES);
    daemon.start_again();
    let before_kib = daemon.memory_kib("VmRSS");
    let held = daemon.acquire(&json!({"resources": ["held"], "holder": "h", "ttl_ms": 60_000}));
    let port: Vec<TcpStream> = (0..IDLE / 2).map(|_| TcpStream::connect(daemon.address()).unwrap()).collect();
    let mut socket: Vec<UnixStream> = Vec::new();
    for _ in 0..IDLE / 2 {
        // A peer that has said one thing: a session, and what belongs to one.
        let mut stream = UnixStream::connect(daemon.socket()).unwrap();
        stream.write_all(b"{\"hello\":{}}\n").unwrap();
        socket.push(stream);
    }
    wait_until("all of them admitted", LIMIT, || {
        daemon.http_over_socket().get("/v1/status").json()["sessions"].as_u64().unwrap() >= IDLE as u64 / 2
    });
    let mut http = daemon.http();
    let path = format!("/v1/leases/{}/heartbeat", held["lease_id"].as_str().unwrap());
    for number in 0..50 {
        let began = boot_ms();
        assert_eq!(http.post(&path, &json!({"epoch": 1})).status, 200);
        assert_eq!(
            http.post("/v1/leases", &json!({"resources": [format!("r/{number}")], "holder": "h"})).status,
            201
        );
        let took_ms = boot_ms() - began;
        assert!(took_ms < 2_000, "a heartbeat and a grant took {took_ms} ms");
    }
    let each = (daemon.memory_kib("VmRSS") - before_kib) * 1024 / IDLE as u64;
    assert!(each < 32 << 10, "an idle connection costs {each} bytes");
    drop((port, socket));
    wait_until("all of them gone", LIMIT, || {
        daemon.get("/v1/status").json()["sessions"].as_u64().unwrap() < 10
    });
    daemon.stop();
}

#[test]
fn a_daemon_with_few_files_refuses_connections_before_it_runs_out() {
    let few = &["sh", "-c", "ulimit -n 200 && exec \"$@\"", "sh"];
    let mut daemon = Daemon::prepared(&["--log-segment-bytes", "64KiB"]).with_launcher(few);
    daemon.start_again();
    let mut early = daemon.http();
    assert_eq!(early.get("/healthz").status, 200);
    let crowd: Vec<TcpStream> = (0..400).map(|_| TcpStream::connect(daemon.address()).unwrap()).collect();
    let mut refused = Http::new(daemon.tcp(), &daemon.address().to_string());
    let answered = refused.answer().expect("a refusal without being asked");
    assert_eq!(answered.refusal(), (503, "too_many_connections".to_owned()));
    // The log goes on to the next file, which takes one that is not a connection's.
    for number in 0..400 {
        let name = format!("{number}/{}", "n".repeat(200));
        let answered = early.post("/v1/leases", &json!({"resources": [name], "holder": "h"}));
        assert_eq!(answered.status, 201, "{answered:?}");
    }
    assert!(std::fs::read_dir(daemon.data_dir().join("log")).unwrap().count() > 3);
    drop(crowd);
    wait_until("room again", LIMIT, || {
        Http::new(daemon.tcp(), &daemon.address().to_string())
            .try_ask("GET", "/healthz", b"")
            .is_ok_and(|it| it.status == 200)
    });
    let said = daemon.said();
    assert!(!said.contains("could not be accepted"), "{said}");
}

/// Amends one lease with large attachments until the condition holds.
fn make_events(lines: &mut Lines, mut enough: impl FnMut() -> bool) {
    let held = lines.ask(&json!({"acquire": {"resources": ["a"], "holder": "h"}}))["acquired"].clone();
    let attachment = "x".repeat(4_000);
    for _ in 0..400 {
        let amend =
            json!({"amend": {"lease_id": held["lease_id"], "epoch": 1, "attachment": attachment}, "tag": 1});
        let text = format!("{amend}\n").repeat(50);
        lines.raw(text.as_bytes()).unwrap();
        for _ in 0..50 {
            assert!(lines.next()["amended"].is_object());
        }
        if enough() {
            return;
        }
    }
    panic!("20,000 large events are not enough");
}

fn lagged(daemon: &Daemon) -> bool {
    daemon.get("/v1/status").json()["watches"] == 0
}

#[test]
fn a_slow_reader_of_events_is_told_that_it_lags_and_where_to_go_on() {
    let daemon = Daemon::start();
    let before_kib = daemon.memory_kib("VmRSS");
    let stream = daemon.tcp();
    let mut slow = Events::begin(Http::new(stream, &daemon.address().to_string()), "");
    assert_eq!(daemon.get("/v1/status").json()["watches"], 1);
    make_events(&mut daemon.lines(), || lagged(&daemon));
    let grown_kib = daemon.memory_kib("VmRSS").saturating_sub(before_kib);
    assert!(grown_kib < 128 << 10, "the daemon grew by {grown_kib} KiB");

    let mut newest = 0;
    let resume = loop {
        let event = slow.next().expect("a word before the end");
        if event.kind == "lagged" {
            break event.data["resume"].as_u64().unwrap();
        }
        newest = event.data["lsn"].as_u64().unwrap();
    };
    assert!(slow.next().is_none(), "nothing follows");
    assert!(newest > 0 && resume >= newest, "it goes on at {resume} after {newest}");
    // No gap: what comes after the place it was told is the next thing that happened.
    let mut again = Events::begin(daemon.http(), &format!("?from={resume}"));
    let next = again.next().unwrap().data["lsn"].as_u64().unwrap();
    let mut fresh = Events::begin(daemon.http(), &format!("?from={newest}"));
    assert_eq!(fresh.next().unwrap().data["lsn"].as_u64().unwrap(), next, "nothing lies between");
}

#[test]
fn a_slow_reader_of_a_watch_over_lines_is_told_that_it_lags() {
    let daemon = Daemon::start();
    let mut slow = daemon.lines();
    slow.say(&json!({"watch": {}, "tag": "w"}));
    wait_until("the watch", LIMIT, || daemon.get("/v1/status").json()["watches"] == 1);
    make_events(&mut daemon.lines(), || lagged(&daemon));
    let last = loop {
        let line = slow.next();
        assert_eq!(line["tag"], "w", "{line}");
        if line["event"].is_null() {
            break line;
        }
    };
    assert!(last["lagged"]["resume"].is_u64(), "{last}");
    assert!(slow.ask(&json!({"status": {}}))["status"].is_object(), "the connection lives on");
}

#[test]
fn a_peer_that_asks_and_does_not_read_is_hung_up_on_and_memory_stays_bounded() {
    let daemon = Daemon::start();
    let mut lines = daemon.lines();
    for number in 0..1_000 {
        let name = format!("{number}/{}", "n".repeat(200));
        lines
            .say(&json!({"acquire": {"resources": [name], "holder": "h", "ttl_ms": 600_000}, "tag": number}));
    }
    for _ in 0..1_000 {
        assert!(lines.next()["acquired"].is_object());
    }
    let before_kib = daemon.memory_kib("VmRSS");
    for tagged in [true, false] {
        let mut peer = daemon.unix();
        peer.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
        let ask = if tagged {
            json!({"list": {"limit": 1000}, "tag": 1})
        } else {
            json!({"list": {"limit": 1000}})
        };
        let text = format!("{ask}\n").repeat(200);
        // Cut off, it may not be able to write all of it.
        for _ in 0..2_000 {
            if peer.write_all(text.as_bytes()).is_err() {
                break;
            }
        }
        let grown_kib = daemon.memory_kib("VmHWM").saturating_sub(before_kib);
        assert!(grown_kib < 256 << 10, "the daemon grew by {grown_kib} KiB (tagged: {tagged})");
        // What was said before the end can still be read, and why it ended.
        let mut rest = String::new();
        peer.read_to_string(&mut rest).unwrap();
        let last = rest.lines().last().unwrap_or_default();
        assert!(last.contains("connection closed"), "after 400,000 lists (tagged: {tagged}): {last}");
    }
    assert!(lines.ask(&json!({"status": {}}))["status"].is_object(), "others are served");
}

#[test]
fn a_peer_that_says_its_last_and_neither_reads_nor_leaves_is_let_go() {
    let daemon = Daemon::start_with(&["--limits-connections", "8"]);
    let mut lines = daemon.lines();
    for number in 0..1_000 {
        let name = format!("{number}/{}", "n".repeat(200));
        assert!(lines.ask(&json!({"acquire": {"resources": [name], "holder": "h", "ttl_ms": 600_000}}))["acquired"].is_object());
    }
    let files = || std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap().count();
    let before = files();
    let stuck: Vec<UnixStream> = (0..6)
        .map(|_| {
            let mut peer = daemon.unix();
            peer.write_all("{\"list\":{\"limit\":1000}}\n".repeat(20).as_bytes()).unwrap();
            peer.shutdown(Shutdown::Write).unwrap();
            peer
        })
        .collect();
    wait_until("their files to be open", LIMIT, || files() >= before + 6);
    wait_until("their files to be closed", LIMIT, || files() <= before);
    drop(stuck);
    // One that does read gets all of it.
    let mut peer = daemon.unix();
    peer.write_all("{\"list\":{\"limit\":1000}}\n".repeat(20).as_bytes()).unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    let mut said = String::new();
    peer.read_to_string(&mut said).unwrap();
    assert_eq!(said.lines().filter(|line| line.starts_with("{\"leases\"")).count(), 20);
}

#[test]
fn a_connection_that_vanishes_in_the_middle_of_an_answer_harms_nobody() {
    let daemon = Daemon::start();
    for number in 0..200 {
        let mut lines = daemon.lines();
        let name = format!("r/{}", number % 5);
        lines.say(&json!({"acquire": {"resources": [name], "holder": "h", "wait_ms": 60_000, "grace_ms": 0}, "tag": 1}));
        lines.say(&json!({"watch": {}, "tag": 2}));
        lines.say(&json!({"list": {}}));
        drop(lines);
    }
    // All at once: connections that were dropped may not even have been read yet.
    wait_until("nothing is left of them", LIMIT, || {
        let status = daemon.get("/v1/status").json();
        let left = ["waiters", "watches"].map(|what| status[what].as_u64().unwrap());
        left == [0; 2] && status["leases"]["total"] == 0 && status["lsn"].as_u64().unwrap() > 0
    });
}
