//! Lines over the socket: framing, tags, order, and what is wrong with a line.

use std::time::Duration;

use serde_json::{Value, json};

use super::daemon::{Served, id};
use super::http::{Answer, Ask};

#[test]
fn tags_are_echoed_as_they_are() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    for tag in [
        json!("a"),
        json!(""),
        json!(7),
        json!(-7),
        json!(1.5),
        json!("größe"),
        json!(18446744073709551615u64),
    ] {
        let answer = lines.ask(json!({"status": {}, "tag": tag}));
        assert_eq!(answer["tag"], tag, "{answer}");
        assert!(answer["status"].is_object());
        let error = lines.ask(json!({"inspect": {"lease_id": "nonsense"}, "tag": tag}));
        assert_eq!((&error["tag"], &error["error"]), (&tag, &"not_found".into()));
    }
    assert_eq!(lines.ask(json!({"status": {}})).get("tag"), None);
}

#[test]
fn a_tag_that_is_neither_text_nor_number_is_refused() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    for tag in [json!([]), json!({}), json!(true)] {
        let answer = lines.ask(json!({"status": {}, "tag": tag}));
        assert!(
            matches!(answer["error"].as_str(), Some("parse_error" | "invalid_request")),
            "{tag}: {answer}"
        );
    }
    lines.good(json!({"status": {}}), "status");
}

#[test]
fn several_lines_of_one_write_are_answered_in_order() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    let mut text = String::new();
    for number in 0..200 {
        text += &json!({"acquire": {"resources": [format!("r{number}")], "holder": "a"}}).to_string();
        text += "\n";
        text += &json!({"check": {"resource": format!("r{number}"), "fence": 1}}).to_string();
        text += "\n";
    }
    lines.send(text.as_bytes());
    for number in 0..200 {
        let acquired = lines.next();
        assert_eq!(acquired["acquired"]["resources"], json!([format!("r{number}")]));
        let checked = lines.next();
        assert_eq!(checked["checked"]["lease_id"], acquired["acquired"]["lease_id"], "{checked}");
    }
}

#[test]
fn a_line_may_come_in_pieces() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    let line = json!({"acquire": {"resources": ["größe"], "holder": "åsa"}, "tag": 1}).to_string();
    for byte in line.as_bytes() {
        lines.send(std::slice::from_ref(byte));
    }
    assert!(lines.is_silent_for(Duration::from_millis(50)), "a line ends with its newline");
    lines.send(b"\n");
    assert_eq!(lines.next()["acquired"]["resources"], json!(["größe"]));
    lines.send(b"{\"status\":{}}\n{\"sta");
    assert!(lines.next()["status"].is_object());
    lines.send(b"tus\":{}}\r\n");
    assert!(lines.next()["status"].is_object(), "a carriage return before the newline is white space");
}

#[test]
fn blank_lines_mean_nothing() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    lines.send(b"\n\n   \n\t\r\n{\"status\":{}}\n\n");
    assert!(lines.next()["status"].is_object());
    assert!(lines.is_silent_for(Duration::from_millis(50)));
}

#[test]
fn a_bad_line_is_an_error_and_the_connection_lives_on() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    let lease = lines.good(json!({"acquire": {"resources": ["r"], "holder": "a"}}), "acquired");
    let bad: &[&[u8]] = &[
        b"garbage",
        b"{",
        b"{}",
        b"[]",
        b"null",
        b"7",
        b"\"status\"",
        b"{\"status\":{}} trailing",
        b"{\"status\":{}}{\"status\":{}}",
        b"{\"tag\":1}",
        b"{\"fly\":{}}",
        b"{\"status\":{},\"list\":{}}",
        b"{\"acquire\":{\"resources\":[\"\xff\xfe\"],\"holder\":\"a\"}}",
        b"\x00\x01\x02",
        b"GET / HTTP/1.1",
    ];
    for bytes in bad {
        lines.send(bytes);
        lines.send(b"\n");
        let answer = lines.next();
        let shown = String::from_utf8_lossy(bytes);
        assert_eq!(answer["error"], "parse_error", "{shown}: {answer}");
        assert_eq!(answer["definite"], true, "{shown}: {answer}");
    }
    for (bytes, code) in [
        (&b"{\"status\":7}"[..], "invalid_request"),
        (b"{\"status\":{},\"status\":{}}", "invalid_request"),
        (b"{\"inspect\":{}}", "invalid_request"),
        (b"{\"heartbeat\":{\"lease_id\":\"k3f9-1\"}}", "invalid_request"),
        (b"{\"acquire\":{\"resources\":[\"r\"],\"holder\":\"a\",\"holder\":\"b\"}}", "invalid_request"),
        (b"{\"heartbeat\":\"0a1b2c3d\"}", "not_found"),
    ] {
        lines.send(bytes);
        lines.send(b"\n");
        assert_eq!(lines.next()["error"], code, "{}", String::from_utf8_lossy(bytes));
    }
    assert_eq!(lines.good(json!({"inspect": {"lease_id": id(&lease)}}), "lease")["liveness"], "alive");
}

#[test]
fn the_tag_of_a_bad_line_is_echoed_where_it_can_be_read() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    for line in [
        r#"{"fly":{},"tag":"t"}"#,
        r#"{"tag":"t"}"#,
        r#"{"status":{},"list":{},"tag":"t"}"#,
        r#"{"status":{"colour":1},"tag":"t"}"#,
        r#"{"tag":"t","acquire":{"holder":7}}"#,
    ] {
        lines.send(format!("{line}\n").as_bytes());
        let answer = lines.next();
        assert!(answer["error"].is_string(), "{line}: {answer}");
        assert_eq!(answer["tag"], "t", "{line}: {answer}");
    }
}

#[test]
fn a_line_over_its_limit_is_too_large_and_the_connection_lives_on() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    let lease = lines.good(json!({"acquire": {"resources": ["r"], "holder": "a"}}), "acquired");
    let padded = |length: usize| {
        let line = json!({"inspect": {"lease_id": id(&lease)}}).to_string();
        format!("{line}{}\n", " ".repeat(length - line.len()))
    };
    lines.send(padded(64 << 10).as_bytes());
    assert!(lines.next()["lease"].is_object(), "64 KiB fit");
    lines.send(padded((64 << 10) + 1).as_bytes());
    assert_eq!(lines.next()["error"], "too_large");
    // Far more than is ever kept, with a line in it that must not be taken for one.
    let long = "x".repeat(1 << 20);
    lines.send(format!("{long}\n").as_bytes());
    assert_eq!(lines.next()["error"], "too_large");
    lines.send(format!("{{\"status\":{{}},\"tag\":\"{long}\"}}\n{{\"status\":{{}},\"tag\":2}}\n").as_bytes());
    assert_eq!(lines.next()["error"], "too_large");
    assert_eq!(lines.next()["tag"], 2, "one error per line");
    assert_eq!(lines.good(json!({"inspect": {"lease_id": id(&lease)}}), "lease")["liveness"], "alive");
}

#[test]
fn tagged_lines_are_answered_when_ready_and_untagged_ones_in_order() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    let lease = lines.good(json!({"acquire": {"resources": ["r"], "holder": "a"}}), "acquired");
    let wait = json!({"acquire": {"resources": ["r"], "holder": "b", "wait_ms": 30_000}, "tag": "waits"});
    lines.say(wait);
    for number in 0..10 {
        assert_eq!(lines.ask(json!({"status": {}, "tag": number}))["tag"], number);
        assert!(lines.ask(json!({"status": {}}))["status"].is_object());
    }
    lines.say(json!({"release": {"lease_id": id(&lease), "epoch": 1}}));
    let (one, two) = (lines.next(), lines.next());
    let (released, acquired) = if one["tag"] == "waits" { (two, one) } else { (one, two) };
    assert_eq!(released["released"]["state"], "released");
    assert_eq!(acquired["acquired"]["holder"], "b");
}

#[test]
fn a_wait_without_a_tag_is_refused() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    let error = lines
        .refused(json!({"acquire": {"resources": ["r"], "holder": "a", "wait_ms": 10}}), "invalid_request");
    assert!(error["message"].as_str().unwrap().contains("tag"), "{error}");
    assert_eq!(daemon.get("/v1/leases")["leases"], json!([]), "nothing was taken");
}

#[test]
fn who_sends_nothing_more_still_gets_its_answers() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    for number in 0..50 {
        lines.say(json!({"acquire": {"resources": [format!("r{number}")], "holder": "a", "ttl_ms": 60_000}, "tag": number}));
        lines.say(json!({"status": {}}));
    }
    lines.end_writing();
    let rest = lines.rest();
    assert_eq!(rest.iter().filter(|line| line["acquired"].is_object()).count(), 50);
    assert_eq!(rest.iter().filter(|line| line["status"].is_object()).count(), 50);
    assert_eq!(rest.len(), 100);
}

#[test]
fn a_last_line_without_its_newline_is_a_line_too() {
    let daemon = Served::start();
    let mut lines = daemon.lines();
    lines.send(b"{\"status\":{}}\n{\"list\":{}}");
    lines.end_writing();
    let rest = lines.rest();
    assert_eq!(rest.len(), 2, "{rest:?}");
    assert!(rest[1]["leases"].is_object(), "{rest:?}");
}

#[test]
fn answers_to_a_standard_input_come_before_the_end() {
    let daemon = Served::start();
    let mut stdin = daemon.stdin();
    stdin.say(json!({"acquire": {"resources": ["r"], "holder": "a", "ttl_ms": 60_000}, "tag": 1}));
    stdin.send(b"{\"list\":{}}");
    stdin.end_writing();
    let rest = stdin.rest();
    assert_eq!(rest.len(), 2, "{rest:?}");
    assert!(rest.iter().any(|line| line["acquired"].is_object()));
    assert!(rest.iter().any(|line| line["leases"].is_object()));
}

#[test]
fn the_first_byte_says_which_language_is_spoken() {
    let daemon = Served::start();
    for first in ["{\"status\":{}}\n", " {\"status\":{}}\n", "\n\t{\"status\":{}}\n", "\r\n{\"status\":{}}\n"]
    {
        let mut lines = daemon.lines();
        lines.send(first.as_bytes());
        assert!(lines.next()["status"].is_object(), "{first:?}");
    }
    let mut http = daemon.http_over_socket();
    assert!(http.json("GET", "/v1/status", Value::Null).good()["pid"].is_u64());
    assert_eq!(http.get("/healthz").text().trim(), "OK");
    // As the first byte arrives alone.
    let mut http = daemon.http_over_socket();
    http.raw(b"G").unwrap();
    http.raw(b"ET /v1/status HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    assert!(http.answer().unwrap().good()["pid"].is_u64());
    let mut lines = daemon.lines();
    lines.send(b"garbage\r\n\r\n");
    // It is taken for HTTP, and refused as such.
    drop(lines);
    assert!(daemon.get("/v1/status")["pid"].is_u64());
}

#[test]
fn http_over_the_socket_has_the_defaults_of_http() {
    let daemon = Served::start();
    let lease = daemon
        .http_over_socket()
        .json("POST", "/v1/leases", json!({"resources": ["r"], "holder": "a"}))
        .good();
    assert_eq!(lease["mode"], "heartbeat");
    assert_eq!((&lease["ttl_ms"], &lease["grace_ms"]), (&90_000.into(), &30_000.into()));
    assert_eq!(daemon.inspect(&lease)["liveness"], "alive", "its connection is gone, the lease is not");
}
