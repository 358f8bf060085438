//! Starts that are refused: no slot, or an intent that is none.

use serde_json::{Value, json};

use super::ways::{Streams, Told, retry_after, started, started_with};

#[test]
fn without_a_free_slot_the_answer_says_which_pool_is_full_and_when_to_come_back() {
    let daemon = started();
    let mut http = daemon.http();
    let sessions: Vec<Value> = (0..4).map(|_| http.start(json!({}))).collect();
    let refused = http.try_start(json!({}));
    let problem = refused.problem("no_capacity");
    assert_eq!(json!([problem["pool"], problem["size"], problem["in_use"]]), json!(["tuner", 4, 4]));
    assert!(problem["session_id"].is_null(), "no session came of it: {problem}");
    assert!((50..=61).contains(&retry_after(&refused)), "the earliest ends in a minute: {refused:?}");
    assert_eq!(http.list("").len(), 4, "none was made");
    http.stop(&sessions[2]);
    http.start(json!({}));
    http.try_start(json!({})).problem("no_capacity");
}

#[test]
fn when_to_come_back_is_told_by_the_earliest_end() {
    let daemon = started_with(&[("POOLS", "tuner=2"), ("GRACE", "20s")]);
    let mut http = daemon.http();
    let starting = http.start(json!({"start_timeout": 10}));
    http.start(json!({}));
    let refused = http.try_start(json!({}));
    assert!((1..=11).contains(&retry_after(&refused)), "a start deadline in 10 s: {refused:?}");
    http.of_session(&starting, "activate", Value::Null).session();
    let refused = http.try_start(json!({}));
    assert!((70..=81).contains(&retry_after(&refused)), "a ttl of 60 s and 20 s of grace: {refused:?}");
}

#[test]
fn when_to_come_back_is_told_though_nothing_has_an_end() {
    let daemon = started_with(&[("POOLS", "tuner=1")]);
    daemon.acquire(json!({"pools": {"tuner": 1}, "holder": "for good", "ttl_ms": 0}));
    let refused = daemon.http().try_start(json!({}));
    let problem = refused.problem("no_capacity");
    assert_eq!(json!([problem["pool"], problem["size"], problem["in_use"]]), json!(["tuner", 1, 1]));
}

#[test]
fn too_few_free_slots_are_none() {
    let daemon = started();
    let mut http = daemon.http();
    http.start(json!({"count": 3}));
    let problem = http.try_start(json!({"count": 2})).problem("no_capacity");
    assert_eq!(json!([problem["pool"], problem["size"], problem["in_use"]]), json!(["tuner", 4, 3]));
    assert_eq!(http.free("tuner"), 1, "the free one stays free");
    // No end of a session would ever make room for these.
    let problem = http.try_start(json!({"count": 5})).problem("invalid_request");
    assert!(problem["detail"].as_str().unwrap().contains("tuner"), "{problem}");
    http.start(json!({"count": 1}));
}

#[test]
fn slots_that_native_leases_hold_are_in_use() {
    let daemon = started();
    daemon.acquire(json!({"pools": {"tuner": 4}, "holder": "h"}));
    let problem = daemon.http().try_start(json!({})).problem("no_capacity");
    assert_eq!(problem["in_use"], 4, "{problem}");
}

#[test]
fn an_intent_that_is_none_is_refused_and_takes_nothing() {
    let daemon = started();
    let mut http = daemon.http();
    for (fields, word) in [
        (json!({"pol": "tuner"}), "pol"),
        (json!({"type": "stream.pause"}), "stream.pause"),
        (json!({"type": null}), "type"),
        (json!({"type": "stream.stop"}), "session_id"),
        (json!({"session_id": "x"}), "session_id"),
        (json!({"count": 0}), "count"),
        (json!({"count": -1}), "-1"),
        (json!({"count": "2"}), "\"2\""),
        (json!({"count": 1.5}), "1.5"),
        (json!({"start_timeout": 0}), "start_timeout"),
        (json!({"start_timeout": 86_401}), "start_timeout"),
        (json!({"wait": 3_601}), "wait"),
        (json!({"wait": -1}), "-1"),
        (json!({"metadata": "text"}), "map"),
        (json!({"metadata": [1]}), "map"),
        (json!({"resources": "antenna"}), "antenna"),
    ] {
        let answered = http.try_start(fields.clone());
        assert_eq!(answered.status, 400, "{fields}: {answered:?}");
        let code = answered.json()["code"].as_str().unwrap().to_owned();
        assert!(["invalid_request", "ttl_out_of_range"].contains(&code.as_str()), "{fields}: {answered:?}");
        let problem = answered.problem(&code);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(word), "{fields} is refused without saying why: {problem}");
    }
    assert_eq!(http.list(""), Vec::<Value>::new());
    assert_eq!(http.free("tuner"), 4);
}

#[test]
fn names_and_bundles_that_are_none_are_refused() {
    let daemon = started();
    let mut http = daemon.http();
    for (fields, code) in [
        (json!({"resources": ["a", "a"]}), "duplicate_member"),
        (json!({"resources": [""]}), "invalid_name"),
        (json!({"resources": ["a b\n"]}), "invalid_name"),
        (json!({"resources": ["x".repeat(300)]}), "invalid_name"),
    ] {
        http.try_start(fields.clone()).problem(code);
    }
    for fields in [json!({"pool": ""}), json!({"pool": "a b\n"}), json!({"client": ""})] {
        let answered = http.try_start(fields.clone());
        assert!(matches!(answered.status, 400 | 404), "{fields}: {answered:?}");
    }
    let many: Vec<String> = (0..65).map(|number| format!("r/{number}")).collect();
    http.try_start(json!({"resources": many})).problem("bundle_too_large");
    assert_eq!(http.list(""), Vec::<Value>::new());
}

#[test]
fn fields_larger_than_their_limits_are_refused_and_those_at_the_limit_are_not() {
    let daemon = started_with(&[("POOLS", "tuner=8")]);
    let mut http = daemon.http();
    let text = |bytes: usize| "x".repeat(bytes);
    for (key, most) in [("service_ref", 1_024), ("correlation_id", 256), ("client", 128)] {
        http.start(json!({ key: text(most) }));
        let answered = http.try_start(json!({ key: text(most + 1) }));
        assert!(matches!(answered.status, 400 | 413), "{key}: {answered:?}");
        answered.problem(answered.json()["code"].as_str().unwrap());
    }
    http.start(json!({"metadata": {"k": text(4_000)}}));
    http.try_start(json!({"metadata": {"k": text(4_200)}})).problem("too_large");
    assert_eq!(http.free("tuner"), 4);
}

#[test]
fn a_body_that_is_no_intent_is_refused() {
    let daemon = started();
    let mut http = daemon.http();
    for (body, code) in [
        ("", "invalid_request"),
        ("{}", "invalid_request"),
        ("[]", "invalid_request"),
        ("{\"type\":", "parse_error"),
        ("stream.start", "parse_error"),
        ("\u{0}", "parse_error"),
        ("\"stream.start\"", "invalid_request"),
        ("[\"stream.start\"]", "invalid_request"),
        ("null", "invalid_request"),
    ] {
        http.ask("POST", "/api/v3/intents", body.as_bytes()).problem(code);
    }
    http.ask("POST", "/api/v3/intents", b"{\"type\":\"stream.start\",\"type\":\"stream.start\"}");
    assert!(http.list("").len() <= 1);
}
