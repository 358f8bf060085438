//! Bytes that nobody should send, on every listener: the daemon lives and serves the others.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use serde_json::json;

use super::random::Random;
use crate::daemon::Daemon;

/// Openings that look like something before they go wrong.
const OPENINGS: &[&[u8]] = &[
    b"",
    b"\0",
    b"{",
    b"{\"acquire\":",
    b"{\"acquire\":{\"resources\":[",
    b"\n\n\n",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    b"GET ",
    b"GET /v1/leases HTTP/1.1\r\n",
    b"GET /v1/leases HTTP/9.9\r\n\r\n",
    b"POST /v1/leases HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999999999999\r\n\r\n",
    b"POST /v1/leases HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
    b"POST /v1/leases HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    b"POST /v1/leases HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n{}{}",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"\x16\x03\x01\xff\xff",
    b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"CONNECT example.org:443 HTTP/1.1\r\nhost: example.org\r\n\r\n",
    b"GET /v1/leases/%ff%fe%00 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET /v1/leases?limit=%ff&cursor=%00 HTTP/1.1\r\nhost: localhost\r\n\r\n",
];

/// Sends bytes and reads until the daemon has nothing more to say or a moment has passed.
fn throw(mut stream: impl Read + Write, bytes: &[u8], close: impl FnOnce()) {
    // A daemon that has seen enough hangs up in the middle.
    let _ = stream.write_all(bytes);
    let _ = stream.flush();
    close();
    let mut answer = [0; 4096];
    while matches!(stream.read(&mut answer), Ok(read) if read > 0) {}
}

fn garbage(random: &mut Random, round: usize) -> Vec<u8> {
    let mut bytes = OPENINGS[round % OPENINGS.len()].to_vec();
    let length = random.below(3_000) as usize;
    match random.below(4) {
        0 => {}
        1 => bytes.extend(random.bytes(length)),
        2 => bytes.extend(std::iter::repeat_n(b"[{\"\xff "[random.below(5) as usize], length * 40)),
        _ => bytes.extend((0..length).map(|_| b' ' + random.below(94) as u8)),
    }
    bytes
}

fn lives(daemon: &Daemon) {
    let lease = daemon.acquire(&json!({"resources": ["well"], "holder": "h"}));
    let path = format!("/v1/leases/{}/release", lease["lease_id"].as_str().unwrap());
    assert_eq!(daemon.post(&path, &json!({"epoch": 1})).status, 200);
    let mut lines = daemon.lines();
    assert!(lines.ask(&json!({"status": {}}))["status"].is_object());
    let said = daemon.said();
    assert!(!said.contains("panic") && !said.contains("ERROR"), "{said}");
}

#[test]
fn garbage_on_the_port_harms_nobody() {
    let daemon = Daemon::start();
    let mut random = Random::new(1);
    for round in 0..400 {
        let stream = daemon.tcp();
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let closing = stream.try_clone().unwrap();
        let half = random.below(2) == 0;
        throw(stream, &garbage(&mut random, round), || {
            if half {
                let _ = closing.shutdown(Shutdown::Write);
            }
        });
    }
    lives(&daemon);
}

#[test]
fn garbage_on_the_socket_harms_nobody() {
    let daemon = Daemon::start();
    let mut random = Random::new(2);
    for round in 0..400 {
        let stream = daemon.unix();
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let closing = stream.try_clone().unwrap();
        let half = random.below(2) == 0;
        throw(stream, &garbage(&mut random, round), || {
            if half {
                let _ = closing.shutdown(Shutdown::Write);
            }
        });
    }
    lives(&daemon);
}

#[test]
fn json_that_is_too_deep_is_refused_and_the_connection_lives_on() {
    let daemon = Daemon::start();
    let mut lines = daemon.lines();
    for depth in [100, 1_000, 30_000] {
        let deep =
            format!("{{\"acquire\":{{\"attachment\":{}1{}}}}}\n", "[".repeat(depth), "]".repeat(depth));
        lines.raw(deep.as_bytes()).unwrap();
        let answer = lines.next();
        assert!(["parse_error", "invalid_request"].contains(&answer["error"].as_str().unwrap()), "{answer}");
    }
    let body = format!("{{\"attachment\":{}", "[".repeat(500_000));
    let answered = daemon.http().ask("POST", "/v1/leases", body.as_bytes());
    assert_eq!(answered.refusal(), (400, "parse_error".to_owned()));
    lives(&daemon);
}

#[test]
fn requests_that_never_finish_are_hung_up_on_while_others_are_served() {
    let daemon = Daemon::start();
    let beginnings: &[&[u8]] = &[
        b"",
        b"P",
        b"PRI * HTTP/2.0\r\n",
        b"GET /v1/leases HT",
        b"GET /v1/leases HTTP/1.1\r\nhost: localhost\r\nx: ",
        b"POST /v1/leases HTTP/1.1\r\nhost: HOST\r\ncontent-length: 100\r\n\r\n{\"resources\":",
        b"POST /v1/leases HTTP/1.1\r\nhost: HOST\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"re",
    ];
    let host = daemon.address().to_string();
    let mut polite = daemon.http();
    assert_eq!(polite.get("/healthz").status, 200);
    let mut slow: Vec<_> = beginnings
        .iter()
        .map(|beginning| {
            let mut stream = daemon.tcp();
            let text = String::from_utf8_lossy(beginning).replace("HOST", &host);
            stream.write_all(text.as_bytes()).unwrap();
            // More than the daemon's own limits, which are half a minute.
            stream.set_read_timeout(Some(Duration::from_secs(45))).unwrap();
            (text, stream)
        })
        .collect();
    lives(&daemon);
    for (text, stream) in &mut slow {
        let mut answer = Vec::new();
        let ended = stream.read_to_end(&mut answer);
        assert!(ended.is_ok(), "{text:?} is waited for without end: {ended:?}");
    }
    assert_eq!(polite.get("/healthz").status, 200, "who asked once may pause");
    lives(&daemon);
}

/// Numbers at the edges of everything.
const EDGES: &[&str] = &[
    "0",
    "1",
    "-1",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e400",
    "0.5",
    "null",
    "\"1\"",
    "[]",
    "{}",
    "true",
];

#[test]
fn numbers_at_the_edge_of_what_can_be_written_are_refused_or_served() {
    let daemon = Daemon::start();
    let mut http = daemon.http();
    let held =
        http.post("/v1/leases", &json!({"resources": ["edge"], "holder": "h", "ttl_ms": 86_400_000})).json();
    let id = held["lease_id"].as_str().unwrap();
    let tag = &id[..4];
    let session =
        http.post("/v1/sessions", &json!({"holder": "h"})).json()["session"].as_str().unwrap().to_owned();
    let mut checked = |method: &str, path: &str, body: &str| {
        let answered = http.ask(method, path, body.as_bytes());
        assert!(answered.status < 500 || answered.status == 503, "{method} {path} {body}: {answered:?}");
    };
    for edge in EDGES {
        for field in [
            "ttl_ms",
            "grace_ms",
            "reserve_ms",
            "wait_ms",
            "max_lifetime_ms",
            "reclaim_delay_ms",
            "attachment",
        ] {
            // A wait that is allowed would be waited for.
            let resource = if field == "wait_ms" { "free" } else { "edge" };
            checked(
                "POST",
                "/v1/leases",
                &format!("{{\"resources\":[\"{resource}\"],\"holder\":\"h\",\"{field}\":{edge}}}"),
            );
        }
        checked("POST", "/v1/leases", &format!("{{\"pools\":{{\"p\":{edge}}},\"holder\":\"h\"}}"));
        checked("PUT", "/v1/pools/p", &format!("{{\"size\":{edge}}}"));
        for verb in ["heartbeat", "amend", "rebind", "acknowledge", "activate"] {
            checked(
                "POST",
                &format!("/v1/leases/{id}/{verb}"),
                &format!("{{\"epoch\":{edge},\"attachment\":{edge}}}"),
            );
            checked("POST", &format!("/v1/leases/{id}/{verb}"), &format!("{{\"epoch\":{edge}}}"));
        }
        for verb in ["heartbeat", "release", "revoke", "reclaim", "drain", "revive"] {
            checked("POST", &format!("/v1/leases/{tag}-{edge}x/{verb}"), "{\"epoch\":1}");
            checked("POST", &format!("/v1/leases/{tag}-18446744073709551615/{verb}"), "{\"epoch\":1}");
        }
        checked("POST", "/v1/check", &format!("{{\"resource\":\"edge\",\"fence\":{edge}}}"));
        checked("POST", "/v1/check", &format!("{{\"lease_id\":\"{id}\",\"epoch\":{edge}}}"));
        checked("POST", &format!("/v1/sessions/{session}/heartbeat"), &format!("{{\"seen_lsn\":{edge}}}"));
        checked(
            "POST",
            "/v1/sessions",
            &format!("{{\"holder\":\"h\",\"ttl_ms\":{edge},\"grace_ms\":{edge}}}"),
        );
        if edge.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
            checked("GET", &format!("/v1/leases?limit={edge}"), "");
            checked("GET", &format!("/v1/leases?cursor={tag}-{edge}"), "");
            checked("GET", &format!("/v1/resources?limit={edge}&cursor={tag}-{edge}"), "");
            checked("GET", &format!("/v1/sessions?limit={edge}&cursor=s:{edge}"), "");
            checked("GET", &format!("/v1/sessions/s:{edge}"), "");
            checked("GET", &format!("/v1/why?lease={tag}-{edge}"), "");
            checked("GET", &format!("/v1/leases/{tag}-{edge}"), "");
        }
    }
    // A position that lies ahead is refused, not waited for.
    for from in ["9223372036854775807", "18446744073709551615"] {
        checked("GET", &format!("/v1/events?from={from}"), "");
    }
    lives(&daemon);
}
