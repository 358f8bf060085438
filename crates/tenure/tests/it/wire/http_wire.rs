//! HTTP as it is spoken: methods, bodies, headers, connections.

use serde_json::{Value, json};

use super::daemon::{Served, id};
use super::http::{Answer, Ask};
use crate::run_support::wait_until;

fn body(name: &str) -> Value {
    json!({"resources": [name], "holder": "a"})
}

#[test]
fn a_grant_is_201_and_its_replay_200() {
    let daemon = Served::start();
    let mut http = daemon.http().with("idempotency-key", "one");
    let first = http.json("POST", "/v1/leases", body("r"));
    assert_eq!((first.status, first.good().get("replayed").cloned()), (201, None));
    let second = http.json("POST", "/v1/leases", body("r"));
    assert_eq!((second.status, &second.good()["replayed"]), (200, &true.into()));
    assert_eq!(second.good()["lease_id"], first.good()["lease_id"]);
    http.json("POST", "/v1/leases", body("s")).refused("operation_conflict");
    // The one in the body counts more.
    let mut other = body("s");
    other["operation_id"] = "two".into();
    assert_eq!(http.json("POST", "/v1/leases", other).status, 201);
}

#[test]
fn an_idempotency_key_works_on_every_post() {
    let daemon = Served::start();
    let session = daemon.post("/v1/sessions", json!({"holder": "b"}));
    let ask = |key: &str, path: &str, body: Value| {
        daemon.http().with("idempotency-key", key).json("POST", path, body)
    };
    let twice = |key: &str, path: &str, body: Value| {
        let first = ask(key, path, body.clone()).good();
        let second = ask(key, path, body).good();
        assert_eq!(first.get("replayed"), None, "{path}");
        assert_eq!(second["replayed"], true, "{path}: {second}");
        assert_eq!((&first["epoch"], &first["state"]), (&second["epoch"], &second["state"]), "{path}");
        first
    };
    let mut reserved = body("r");
    reserved["reserve_ms"] = 60_000.into();
    let lease = twice("grant", "/v1/leases", reserved);
    let path = |call: &str| format!("/v1/leases/{}/{call}", id(&lease));
    twice("activate", &path("activate"), json!({"epoch": 1}));
    twice("amend", &path("amend"), json!({"epoch": 1, "attachment": 7}));
    twice("rebind", &path("rebind"), json!({"epoch": 1, "holder": "c"}));
    twice("handover", &path("handover"), json!({"epoch": 2, "to_session": session["session"]}));
    twice("drain", &path("drain"), json!({}));
    twice("revive", &path("revive"), json!({}));
    twice("revoke", &path("revoke"), json!({"reclaim": false}));
    twice("reclaim", &path("reclaim"), json!({"force": true}));
    let other = twice("grant again", "/v1/leases", body("s"));
    let path = format!("/v1/leases/{}/release", id(&other));
    twice("release", &path, json!({"epoch": 1}));
    // Sessions are opened once, too.
    let open = |key: &str| ask(key, "/v1/sessions", json!({"holder": "d"}));
    let (first, second) = (open("open"), open("open"));
    assert_eq!(first.good()["session"], second.good()["session"]);
    assert_ne!(open("another").good()["session"], first.good()["session"]);
    ask("open", "/v1/sessions", json!({"holder": "e"})).refused("operation_conflict");
    // Those that change nothing durable simply take it.
    let third = daemon.acquire(body("t"));
    for _ in 0..2 {
        ask("beat", &format!("/v1/leases/{}/heartbeat", id(&third)), json!({"epoch": 1})).good();
        ask("check", "/v1/check", json!({"lease_id": id(&third), "epoch": 1})).good();
        let session = first.good()["session"].as_str().unwrap().to_owned();
        ask("session beat", &format!("/v1/sessions/{session}/heartbeat"), json!({})).good();
        ask("reset", "/v1/breaker/reset", Value::Null).good();
    }
    ask("revoke third", &format!("/v1/leases/{}/revoke", id(&third)), json!({"reclaim": false})).good();
    for _ in 0..2 {
        ask("acknowledge", &format!("/v1/leases/{}/acknowledge", id(&third)), json!({"epoch": 1})).good();
    }
}

#[test]
fn an_idempotency_key_that_makes_no_sense_is_refused() {
    let daemon = Served::start();
    for key in ["", &"k".repeat(129)] {
        daemon
            .http()
            .with("idempotency-key", key)
            .json("POST", "/v1/leases", body("r"))
            .refused("invalid_request");
    }
    let mut http = daemon.http();
    let host = daemon.address();
    let text = json!({"resources": ["r"], "holder": "a"}).to_string();
    let head = format!(
        "POST /v1/leases HTTP/1.1\r\nhost: {host}\r\ncontent-length: {}\r\nidempotency-key: ",
        text.len()
    );
    http.raw(&[head.as_bytes(), b"gr\xc3\xb6\xc3\x9fe\r\n\r\n", text.as_bytes()].concat()).unwrap();
    http.answer().unwrap().refused("invalid_request");
    assert_eq!(daemon.get("/v1/leases")["leases"], json!([]));
}

#[test]
fn bodies_are_taken_without_a_content_type_or_with_any() {
    let daemon = Served::start();
    for (number, kind) in
        [None, Some("application/json"), Some("text/plain"), Some("application/json; charset=utf-8")]
            .into_iter()
            .enumerate()
    {
        let mut http = daemon.http();
        if let Some(kind) = kind {
            http = http.with("content-type", kind);
        }
        assert_eq!(http.json("POST", "/v1/leases", body(&format!("r{number}"))).status, 201, "{kind:?}");
    }
}

#[test]
fn no_body_is_an_empty_object() {
    let daemon = Served::start();
    let lease = daemon.acquire(body("r"));
    for (text, number) in [("", 0), ("{}", 1), ("  \n", 2)] {
        let path = format!("/v1/leases/{}/drain", id(&lease));
        assert_eq!(
            daemon.http().ask("POST", &path, text.as_bytes()).good()["liveness"],
            "draining",
            "{number}"
        );
        let path = format!("/v1/leases/{}/revive", id(&lease));
        daemon.http().ask("POST", &path, text.as_bytes()).good();
    }
    // Where a field is needed it is named.
    let error = daemon.http().ask("POST", "/v1/leases", b"").refused("invalid_request");
    assert!(error["message"].as_str().unwrap().contains("holder"), "{error}");
    let error = daemon.of_lease(&lease, "heartbeat", Value::Null).refused("invalid_request");
    assert!(error["message"].as_str().unwrap().contains("epoch"), "{error}");
}

#[test]
fn bodies_that_are_not_json_are_parse_errors() {
    let daemon = Served::start();
    for text in [&b"{"[..], b"garbage", b"{\"holder\":\"a\"} trailing", b"\xff\xfe", b"{'holder':1}"] {
        daemon.http().ask("POST", "/v1/leases", text).refused("parse_error");
    }
    for text in ["[]", "null", "7", "\"text\"", "{\"resources\":{}}", "{\"holder\":\"a\",\"holder\":\"b\"}"] {
        daemon.http().ask("POST", "/v1/leases", text.as_bytes()).refused("invalid_request");
    }
}

#[test]
fn what_there_is_no_route_for_is_not_found() {
    let daemon = Served::start();
    for path in [
        "/v1",
        "/v1/",
        "/v2/leases",
        "/v1/lease",
        "/v1/leases/",
        "/v1/leases/x/fly",
        "/favicon.ico",
        "//",
        "/%",
    ] {
        daemon.ask("GET", path, Value::Null).refused("not_found");
    }
    daemon.ask("POST", "/v1/leases/x/fly", json!({})).refused("not_found");
}

#[test]
fn a_method_that_is_not_for_a_route_is_told_which_are() {
    let daemon = Served::start();
    let allowed = |method: &str, path: &str| {
        let answered = daemon.ask(method, path, Value::Null);
        answered.refused("method_not_allowed");
        let mut allowed: Vec<String> =
            answered.header("allow").unwrap().split(", ").map(str::to_owned).collect();
        allowed.sort();
        allowed.retain(|method| method != "HEAD" && method != "OPTIONS");
        allowed.join(" ")
    };
    assert_eq!(allowed("DELETE", "/v1/leases"), "GET POST");
    assert_eq!(allowed("POST", "/v1/status"), "GET");
    assert_eq!(allowed("GET", "/v1/check"), "POST");
    assert_eq!(allowed("POST", "/v1/pools/gpu"), "DELETE GET PUT");
    assert_eq!(allowed("GET", "/v1/leases/x/release"), "POST");
    assert_eq!(allowed("PATCH", "/v1/sessions/s:00000000"), "DELETE GET");
    assert_eq!(allowed("FLY", "/healthz"), "GET");
}

#[test]
fn head_is_get_without_the_body() {
    let daemon = Served::start();
    for path in ["/healthz", "/readyz", "/v1/status", "/v1/leases", "/openapi.json", "/docs", "/metrics"] {
        let mut http = daemon.http();
        http.send("HEAD", path, b"").unwrap();
        let head = http.head().unwrap();
        assert_eq!(head.status, 200, "{path}");
        let kind = |headers: &[(String, String)]| {
            headers.iter().find(|(name, _)| name == "content-type").map(|(_, value)| value.clone())
        };
        // Nothing of a body stands between this answer and the next.
        let get = http.get(path);
        assert_eq!(kind(&head.headers), kind(&get.headers), "{path}");
    }
}

#[test]
fn a_connection_serves_many_requests() {
    let daemon = Served::start();
    for mut http in [daemon.http(), daemon.http_over_socket()] {
        for _ in 0..100 {
            assert_eq!(http.get("/healthz").text().trim(), "OK");
            assert_eq!(http.json("POST", "/v1/leases", json!({})).status, 400, "an error ends no connection");
        }
        http.json("GET", "/v1/status", Value::Null).good();
        let mut last = http.with("connection", "close");
        assert_eq!(last.get("/healthz").header("connection"), Some("close"));
        assert!(last.is_closed());
    }
}

#[test]
fn requests_may_follow_each_other_without_waiting() {
    let daemon = Served::start();
    let host = daemon.address();
    let mut http = daemon.http();
    let mut bytes = String::new();
    for number in 0..50 {
        let text = body(&format!("r{number}")).to_string();
        bytes += &format!(
            "POST /v1/leases HTTP/1.1\r\nhost: {host}\r\ncontent-length: {}\r\n\r\n{text}",
            text.len()
        );
        bytes += &format!("GET /v1/resources/r{number} HTTP/1.1\r\nhost: {host}\r\n\r\n");
    }
    http.raw(bytes.as_bytes()).unwrap();
    for number in 0..50 {
        let lease = http.answer().unwrap().good();
        assert_eq!(lease["resources"], json!([format!("r{number}")]));
        assert_eq!(http.answer().unwrap().good()["lease_id"], lease["lease_id"]);
    }
}

#[test]
fn a_body_may_come_in_chunks() {
    let daemon = Served::start();
    let mut http = daemon.http();
    let host = daemon.address();
    let head = format!("POST /v1/leases HTTP/1.1\r\nhost: {host}\r\ntransfer-encoding: chunked\r\n\r\n");
    http.raw(head.as_bytes()).unwrap();
    for byte in body("größe").to_string().bytes() {
        http.raw(&[b"1\r\n", std::slice::from_ref(&byte), b"\r\n"].concat()).unwrap();
    }
    http.raw(b"0\r\n\r\n").unwrap();
    let answered = http.answer().unwrap();
    assert_eq!((answered.status, &answered.good()["resources"]), (201, &json!(["größe"])));
    assert_eq!(http.get("/healthz").status, 200);
}

#[test]
fn a_request_may_come_in_pieces() {
    let daemon = Served::start();
    let mut http = daemon.http();
    let text = body("r").to_string();
    let request = format!(
        "POST /v1/leases HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\n\r\n{text}",
        daemon.address(),
        text.len()
    );
    for byte in request.bytes() {
        http.raw(std::slice::from_ref(&byte)).unwrap();
    }
    assert_eq!(http.answer().unwrap().status, 201);
}

#[test]
fn a_body_has_a_limit() {
    let daemon = Served::start();
    let fits = format!("{}{}", body("r"), " ".repeat((1 << 20) - body("r").to_string().len()));
    assert_eq!(fits.len(), 1 << 20);
    assert_eq!(daemon.http().ask("POST", "/v1/leases", fits.as_bytes()).status, 201);
    let larger = format!("{fits} ");
    daemon.http().ask("POST", "/v1/leases", larger.as_bytes()).refused("too_large");
    // In chunks nobody knows beforehand.
    let mut http = daemon.http();
    let head = format!(
        "POST /v1/leases HTTP/1.1\r\nhost: {}\r\ntransfer-encoding: chunked\r\n\r\n",
        daemon.address()
    );
    http.raw(head.as_bytes()).unwrap();
    let chunk = [format!("{:x}\r\n", 64 << 10).as_bytes(), &vec![b' '; 64 << 10], b"\r\n"].concat();
    for _ in 0..17 {
        // The answer may come, and the connection end, before everything is sent.
        if http.raw(&chunk).is_err() {
            break;
        }
    }
    http.answer().unwrap().refused("too_large");
    // A length that is only announced is refused before it comes.
    let mut http = daemon.http();
    let head = format!(
        "POST /v1/leases HTTP/1.1\r\nhost: {}\r\ncontent-length: 99999999999\r\n\r\n",
        daemon.address()
    );
    http.raw(head.as_bytes()).unwrap();
    http.answer().unwrap().refused("too_large");
}

#[test]
fn errors_say_when_to_try_again() {
    let daemon = Served::start();
    let lease = daemon.acquire(body("r"));
    let held = daemon.ask("POST", "/v1/leases", body("r"));
    assert_eq!(held.header("retry-after"), Some("1"));
    assert_eq!(held.refused("resource_held")["retry_after_ms"], 1_000);
    daemon.of_lease(&lease, "revoke", json!({"reclaim": false})).good();
    let early = daemon.of_lease(&lease, "reclaim", json!({}));
    let error = early.refused("not_yet");
    assert_eq!(error["retry_after_ms"], error["remaining_ms"]);
    assert!(early.header("retry-after").unwrap().parse::<u64>().unwrap() > 60);
    assert_eq!(daemon.of_lease(&lease, "heartbeat", json!({"epoch": 7})).header("retry-after"), None);
}

#[test]
fn pages_for_people_and_tools_are_there() {
    let daemon = Served::start();
    let get = |path: &str| daemon.http().get(path);
    for path in ["/healthz", "/readyz"] {
        let answered = get(path);
        assert_eq!((answered.status, answered.text().trim().to_owned()), (200, "OK".to_owned()));
        assert!(answered.header("content-type").unwrap().starts_with("text/plain"));
    }
    assert!(get("/metrics").header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    assert!(get("/metrics").text().contains("\ntenure_"));
    assert_eq!(get("/openapi.json").json()["openapi"], "3.1.0");
    assert!(get("/docs").text().contains("/v1/leases"));
    assert!(get("/docs").header("content-security-policy").is_some());
    let home = get("/");
    assert!(matches!(home.status, 200 | 307), "{home:?}");
}

#[test]
fn a_request_whose_asker_has_gone_halfway_still_counts_as_whole_or_not_at_all() {
    let daemon = Served::start();
    let text = body("r").to_string();
    let head = format!(
        "POST /v1/leases HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\n\r\n",
        daemon.address(),
        text.len()
    );
    let mut http = daemon.http();
    http.raw(head.as_bytes()).unwrap();
    http.raw(&text.as_bytes()[..10]).unwrap();
    http.stream().end_writing();
    wait_until("the connection is ended", super::daemon::LONG, || http.is_closed() || http.answer().is_ok());
    assert_eq!(daemon.get("/v1/leases")["leases"], json!([]));
}

#[test]
fn an_address_without_a_route_is_a_page_for_browsers_and_an_error_for_programs() {
    let daemon = Served::start();
    let answer = daemon.http().json("GET", "/v1/lease", Value::Null);
    let refused = answer.refused("not_found");
    assert_eq!(refused["message"], "there is no route /v1/lease", "{refused}");
    let mut browser = daemon.http().with("accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8");
    let page = browser.json("GET", "/settings", Value::Null);
    assert_eq!(page.status, 404);
    assert!(page.header("content-type").unwrap().starts_with("text/html"), "{page:?}");
    assert!(page.header("content-security-policy").is_some(), "{page:?}");
}
