//! Everything has a limit, and each limit its own error.

use std::io::{Read, Write};

use serde_json::{Value, json};

use crate::daemon::{Daemon, LIMIT};
use crate::raw_http::Answered;
use crate::run_support::wait_until;

fn acquire(daemon: &Daemon, resource: &str) -> Answered {
    daemon.post("/v1/leases", &json!({"resources": [resource], "holder": "h"}))
}

fn release(daemon: &Daemon, lease: &Value) {
    let path = format!("/v1/leases/{}/release", lease["lease_id"].as_str().unwrap());
    assert_eq!(daemon.post(&path, &json!({"epoch": 1})).status, 200);
}

#[track_caller]
fn is_full(answered: &Answered, capacity: &str) {
    assert_eq!(answered.refusal(), (503, "capacity_exceeded".to_owned()), "{answered:?}");
    assert_eq!(answered.json()["capacity"], capacity, "{answered:?}");
    assert_eq!(answered.json()["definite"], true, "{answered:?}");
    // A hard limit: a retry alone does not help, and the answer names the setting.
    assert!(answered.header("retry-after").is_none(), "{answered:?}");
    assert_eq!(answered.json()["setting"], format!("limits.{capacity}"), "{answered:?}");
}

#[test]
fn live_leases_in_all() {
    let daemon = Daemon::start_with(&["--limits-leases", "3"]);
    let held: Vec<Value> = (0..3).map(|number| acquire(&daemon, &format!("r/{number}")).json()).collect();
    is_full(&acquire(&daemon, "one/more"), "leases");
    let over_lines = daemon.lines().ask(&json!({"acquire": {"resources": ["one/more"], "holder": "h"}}));
    assert_eq!(over_lines["error"], "capacity_exceeded", "{over_lines}");
    assert_eq!(acquire(&daemon, "r/0").refusal().1, "resource_held", "what is held is said first");
    release(&daemon, &held[0]);
    assert_eq!(acquire(&daemon, "one/more").status, 201, "an end makes room");
}

#[test]
fn live_leases_of_one_principal() {
    let daemon = Daemon::start_with(&["--limits-leases-per-principal", "2"]);
    let held: Vec<Value> = (0..2).map(|number| acquire(&daemon, &format!("r/{number}")).json()).collect();
    is_full(&acquire(&daemon, "one/more"), "leases_per_principal");
    let body = json!({"resources": ["one/more"], "holder": "h"});
    is_full(&daemon.http_over_socket().post("/v1/leases", &body), "leases_per_principal");
    let other = daemon.http_of(47_111).post("/v1/leases", &body);
    assert_eq!(other.status, 201, "another user is another principal: {other:?}");
    release(&daemon, &held[0]);
    assert_eq!(acquire(&daemon, "another").status, 201);
}

#[test]
fn pools() {
    let daemon = Daemon::start_with(&["--limits-pools", "2"]);
    let define =
        |name: &str, size: u64| daemon.http().put(&format!("/v1/pools/{name}"), &json!({"size": size}));
    assert_eq!((define("a", 1).status, define("b", 1).status), (200, 200));
    is_full(&define("c", 1), "pools");
    assert_eq!(define("a", 5).status, 200, "one that is there may grow");
    assert_eq!(daemon.http().delete("/v1/pools/b").status, 200);
    assert_eq!(define("c", 1).status, 200);
}

#[test]
fn sessions() {
    let daemon = Daemon::start_with(&["--limits-sessions", "2"]);
    let open = || daemon.post("/v1/sessions", &json!({"holder": "h"}));
    let first = open().json();
    assert_eq!(open().status, 201);
    is_full(&open(), "sessions");
    let path = format!("/v1/sessions/{}", first["session"].as_str().unwrap());
    assert_eq!(daemon.http().delete(&path).status, 200);
    wait_until("room for a session", LIMIT, || open().status == 201);
}

#[test]
fn attachment_bytes_in_all() {
    let daemon = Daemon::start_with(&["--limits-attachment-bytes", "8KiB"]);
    let with = |resource: &str, bytes: usize| {
        let attachment = "x".repeat(bytes - 2);
        daemon.post("/v1/leases", &json!({"resources": [resource], "holder": "h", "attachment": attachment}))
    };
    let (first, second) = (with("a", 4_000), with("b", 4_000));
    assert_eq!((first.status, second.status), (201, 201));
    is_full(&with("c", 4_000), "attachment_bytes");
    let plain = acquire(&daemon, "d");
    assert_eq!(plain.status, 201, "leases without one are not concerned");
    let path = format!("/v1/leases/{}/amend", plain.json()["lease_id"].as_str().unwrap());
    is_full(&daemon.post(&path, &json!({"epoch": 1, "attachment": "x".repeat(4_000)})), "attachment_bytes");
    release(&daemon, &first.json());
    assert_eq!(with("c", 4_000).status, 201);
    let large = with("e", 4_200);
    assert_eq!(large.refusal(), (413, "too_large".to_owned()), "one alone is too large: {large:?}");
}

#[test]
fn waiters() {
    let daemon = Daemon::start_with(&["--limits-waiters", "2"]);
    let held = acquire(&daemon, "a").json();
    let body = json!({"resources": ["a"], "holder": "w", "wait_ms": 60_000}).to_string();
    let mut waiting: Vec<_> = (1..=2)
        .map(|count| {
            let mut http = daemon.http();
            http.send("POST", "/v1/leases", body.as_bytes()).unwrap();
            wait_until("one more who waits", LIMIT, || daemon.get("/v1/status").json()["waiters"] == count);
            http
        })
        .collect();
    let refused = daemon.http().ask("POST", "/v1/leases", body.as_bytes());
    assert_eq!(refused.refusal(), (503, "too_many_waiters".to_owned()), "{refused:?}");
    assert_eq!(acquire(&daemon, "a").refusal().1, "resource_held", "who does not wait is not concerned");
    release(&daemon, &held);
    assert_eq!(waiting[0].answer().unwrap().status, 201, "those who wait are served");
}

#[test]
fn connections() {
    let daemon = Daemon::start_with(&["--limits-connections", "4"]);
    let mut admitted: Vec<_> = (0..2).map(|_| daemon.http()).collect();
    let mut lines: Vec<_> = (0..2).map(|_| daemon.lines()).collect();
    for http in &mut admitted {
        assert_eq!(http.get("/healthz").status, 200);
    }
    for line in &mut lines {
        assert!(line.ask(&json!({"hello": {}}))["hello"].is_object());
    }
    let refused = daemon.get("/healthz");
    assert_eq!(refused.refusal(), (503, "too_many_connections".to_owned()), "{refused:?}");
    assert!(refused.header("retry-after").is_some());
    let refused = daemon.http_over_socket().get("/healthz");
    assert_eq!(refused.refusal(), (503, "too_many_connections".to_owned()), "{refused:?}");
    let refused = daemon.lines().ask(&json!({"status": {}}));
    assert_eq!(refused["error"], "too_many_connections", "{refused}");
    let mut silent = daemon.unix();
    let mut said = String::new();
    silent.read_to_string(&mut said).unwrap();
    assert!(said.contains("too_many_connections"), "who says nothing is told too: {said:?}");
    assert_eq!(admitted[0].get("/healthz").status, 200, "those inside are served on");
    admitted.pop();
    wait_until("room for one more", LIMIT, || {
        daemon.http().try_ask("GET", "/healthz", b"").is_ok_and(|answered| answered.status == 200)
    });
}

#[test]
fn requests_per_second_of_one_principal_heartbeats_exempt() {
    let daemon = Daemon::start_with(&["--limits-requests-per-second", "5"]);
    let mut http = daemon.http();
    let lease = http.post("/v1/leases", &json!({"resources": ["a"], "holder": "h"})).json();
    let refused = (0..50).map(|_| http.get("/v1/leases")).find(|answered| answered.status != 200);
    let refused = refused.expect("50 requests at once are too many");
    assert_eq!(refused.refusal(), (429, "rate_limited".to_owned()), "{refused:?}");
    assert!(
        refused.header("retry-after").is_some() && refused.json()["retry_after_ms"].is_u64(),
        "{refused:?}"
    );
    let told = refused.json();
    assert_eq!((&told["limit"], &told["value"]), (&json!("requests_per_second"), &json!(5)), "{told}");
    assert_eq!(told["setting"], "limits.requests_per_second", "{told}");
    assert_eq!(daemon.get("/v1/events").refusal().1, "rate_limited", "streams are requests too");
    let path = format!("/v1/leases/{}/heartbeat", lease["lease_id"].as_str().unwrap());
    for _ in 0..50 {
        assert_eq!(http.post(&path, &json!({"epoch": 1})).status, 200, "nobody loses a lease for being busy");
    }
    let other = daemon.http_of(47_111).get("/v1/leases");
    assert_eq!(other.status, 200, "another principal has its own: {other:?}");
    for _ in 0..50 {
        assert_eq!(http.get("/healthz").status, 200, "pages for everybody count for nobody");
    }
    let mut lines = daemon.lines();
    let answers: Vec<Value> = (0..50).map(|_| lines.ask(&json!({"list": {}}))).collect();
    assert!(answers.iter().any(|answer| answer["error"] == "rate_limited"), "lines are counted too");
    wait_until("a request again", LIMIT, || http.get("/v1/leases").status == 200);
}

#[test]
fn a_limit_of_requests_leaves_alone_what_only_gives_back() {
    let daemon = Daemon::start_with(&["--limits-requests-per-second", "5"]);
    let mut http = daemon.http();
    let lease = http.post("/v1/leases", &json!({"resources": ["a"], "holder": "h"})).json();
    let session = http.post("/v1/sessions", &json!({"holder": "h"})).json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let release = format!("/v1/leases/{}/release", text(&lease["lease_id"]));
    let close = format!("/v1/sessions/{}", text(&session["session"]));
    let limited = (0..50).map(|_| http.get("/v1/leases")).any(|answered| answered.status == 429);
    assert!(limited, "50 requests at once are too many");
    let unknown = "00000000-0000-4000-8000-000000000000";
    // The first ends it, the others find nothing to end; none is too many.
    for (method, path, body) in [
        ("POST", release.as_str(), json!({"epoch": 1})),
        ("DELETE", close.as_str(), json!({})),
        ("DELETE", "/v1/mdns/services/abcdef01", json!({})),
        ("POST", "/api/v3/intents", json!({"type": "stream.stop", "session_id": unknown})),
    ] {
        for _ in 0..20 {
            let answered = http.ask(method, path, body.to_string().as_bytes());
            assert_ne!(answered.status, 429, "{method} {path}: {answered:?}");
        }
    }
    let limited = (0..50).map(|_| http.get("/v1/leases")).any(|answered| answered.status == 429);
    assert!(limited, "others are counted");
}

#[test]
fn the_body_of_a_request() {
    let daemon = Daemon::start_with(&["--limits-body-bytes", "16KiB"]);
    let body = |bytes: usize| {
        let mut text = json!({"resources": ["a"], "holder": "h"}).to_string();
        text.push_str(&" ".repeat(bytes - text.len()));
        text
    };
    assert_eq!(daemon.http().ask("POST", "/v1/leases", body(16 << 10).as_bytes()).status, 201);
    let refused = daemon.http().ask("POST", "/v1/leases", body((16 << 10) + 1).as_bytes());
    assert_eq!(refused.refusal(), (413, "too_large".to_owned()), "{refused:?}");
    // Without a length it is noticed on the way.
    let mut http = daemon.http();
    http.raw(
        format!(
            "POST /v1/leases HTTP/1.1\r\nhost: {}\r\ntransfer-encoding: chunked\r\n\r\n",
            daemon.address()
        )
        .as_bytes(),
    )
    .unwrap();
    let chunk = format!("1000\r\n{}\r\n", " ".repeat(0x1000));
    for _ in 0..8 {
        let _ = http.raw(chunk.as_bytes());
    }
    assert_eq!(http.answer().unwrap().refusal(), (413, "too_large".to_owned()));
}

#[test]
fn the_default_body_is_a_mebibyte() {
    let daemon = Daemon::start();
    let mut text = json!({"resources": ["a"], "holder": "h"}).to_string();
    text.push_str(&" ".repeat((1 << 20) - text.len()));
    assert_eq!(daemon.http().ask("POST", "/v1/leases", text.as_bytes()).status, 201);
    text.push(' ');
    assert_eq!(
        daemon.http().ask("POST", "/v1/leases", text.as_bytes()).refusal(),
        (413, "too_large".to_owned())
    );
}

#[test]
fn the_head_of_a_request() {
    let daemon = Daemon::start();
    let mut http = daemon.http().with("x-large", &"x".repeat(200 << 10));
    // Enough was said: the answer may come, or the end, before all of it was sent.
    if let Ok(answered) = http.try_ask("GET", "/healthz", b"") {
        assert_eq!(answered.status, 431, "{answered:?}");
    }
    assert_eq!(daemon.get("/healthz").status, 200);
}

#[test]
fn a_line() {
    let daemon = Daemon::start_with(&["--limits-line-bytes", "8KiB"]);
    let mut lines = daemon.lines();
    let line = |bytes: usize| {
        let mut text = json!({"status": {}}).to_string();
        text.push_str(&" ".repeat(bytes - text.len()));
        text + "\n"
    };
    lines.raw(line(8 << 10).as_bytes()).unwrap();
    assert!(lines.next()["status"].is_object());
    for bytes in [(8 << 10) + 1, 1 << 20] {
        lines.raw(line(bytes).as_bytes()).unwrap();
        let refused = lines.next();
        assert_eq!(refused["error"], "too_large", "{refused}");
        assert!(lines.ask(&json!({"status": {}}))["status"].is_object(), "the connection lives on");
    }
}

#[test]
fn requests_that_are_taken_in() {
    let daemon = Daemon::start_with(&["--limits-inbox", "64"]);
    let mut lines = daemon.unix();
    let ask: String = (0..2_000)
        .map(|number| {
            let acquire = json!({"resources": [format!("r/{number}")], "holder": "h", "ttl_ms": 60_000});
            format!("{}\n", json!({"acquire": acquire, "tag": number}))
        })
        .collect();
    let mut writing = lines.try_clone().unwrap();
    let written = std::thread::spawn(move || writing.write_all(ask.as_bytes()).unwrap());
    let mut text = String::new();
    let mut buffer = vec![0; 64 << 10];
    while text.matches('\n').count() < 2_000 {
        let read = lines.read(&mut buffer).unwrap();
        assert!(read > 0, "the daemon hung up");
        text.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
    written.join().unwrap();
    let answers: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let granted = answers.iter().filter(|answer| answer["acquired"].is_object()).count();
    let refused = answers.iter().filter(|answer| answer["error"] == "overloaded").count();
    assert_eq!(granted + refused, 2_000, "each is granted or told that it is too much");
    assert!(refused > 0 && granted > 0, "{granted} granted, {refused} refused");
    let live = daemon.get("/v1/status").json()["leases"]["total"].as_u64().unwrap();
    assert_eq!(live as usize, granted, "what was refused had no effect");
}

#[test]
fn a_limit_that_is_no_number_stops_the_start() {
    let mut daemon = Daemon::prepared(&["--limits-leases", "many"]);
    daemon.spawn();
    assert_eq!(daemon.code(), 2, "{}", daemon.said());
    assert!(daemon.said().contains("--limits-leases"), "{}", daemon.said());
}
