//! Names in paths and queries, and what is told of resources and pools.

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::daemon::{LONG, Served, id};
use super::http::Answer;
use crate::run_support::wait_until;

/// What must be written otherwise in a path; slashes may stay.
const PATH: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'?').add(b'#').add(b'"').add(b'<').add(b'>');

const NAMES: &[&str] = &[
    "r",
    "a/b/c",
    "größe",
    "東京/駅",
    "with space",
    "100%",
    "%2F",
    "a?b=c&d",
    "a#b",
    "a+b",
    "\"quoted\"",
    "<b>",
    "a:b",
    "~user",
];

#[test]
fn a_resource_is_found_under_any_name() {
    let daemon = Served::start();
    for name in NAMES {
        let lease = daemon.acquire(json!({"resources": [name], "holder": "a"}));
        let whole = utf8_percent_encode(name, NON_ALPHANUMERIC).to_string();
        let slashes = utf8_percent_encode(name, PATH).to_string();
        for path in [
            format!("/v1/resources/{whole}"),
            format!("/v1/resources/{slashes}"),
            format!("/v1/resources?name={whole}"),
        ] {
            let found = daemon.get(&path);
            assert_eq!((&found["name"], &found["lease_id"]), (&json!(name), &lease["lease_id"]), "{path}");
            assert_eq!(
                (&found["holder"], &found["fence"], &found["epoch"]),
                (&"a".into(), &lease["fence"], &1.into())
            );
            assert_eq!(found["waiters"], json!([]));
            super::shown::time(&found["since"]);
        }
        let story = daemon.get(&format!("/v1/why?resource={whole}"));
        assert_eq!(story["subject"], json!(name));
        let listed = daemon.get(&format!("/v1/leases?resource_prefix={whole}"));
        assert_eq!(listed["leases"][0]["lease_id"], lease["lease_id"], "{name}");
    }
}

#[test]
fn a_free_resource_is_told_as_free() {
    let daemon = Served::start();
    let found = daemon.get("/v1/resources/nobody/has/it");
    assert_eq!(found["name"], "nobody/has/it");
    for field in ["lease_id", "holder", "epoch", "fence", "since", "remaining_ms"] {
        assert_eq!(found[field], Value::Null, "{field}");
    }
    assert_eq!(found["waiters"], json!([]));
}

#[test]
fn names_in_a_path_that_are_not_utf8_are_refused() {
    let daemon = Served::start();
    for path in ["/v1/resources/%ff%fe", "/v1/pools/%c3", "/v1/leases/%ff"] {
        daemon.ask("GET", path, Value::Null).refused("invalid_request");
    }
    daemon.ask("GET", "/v1/resources?name=a&prefix=b", Value::Null).refused("invalid_request");
}

#[test]
fn waiters_of_a_resource_are_told_in_order() {
    let daemon = Served::start();
    let lease = daemon.acquire(json!({"resources": ["r"], "holder": "a"}));
    let mut waiting = Vec::new();
    for holder in ["b", "c", "d"] {
        let mut lines = daemon.lines();
        lines.say(json!({"acquire": {"resources": ["r"], "holder": holder, "wait_ms": 60_000}, "tag": 1}));
        waiting.push(lines);
        wait_until("one more waits", LONG, || {
            daemon.get("/v1/resources/r")["waiters"].as_array().unwrap().len() == waiting.len()
        });
    }
    assert_eq!(daemon.get("/v1/resources/r")["waiters"], json!(["b", "c", "d"]));
    assert_eq!(daemon.inspect(&lease)["waiters"], json!(["b", "c", "d"]));
    assert_eq!(daemon.get("/v1/status")["waiters"], 3);
    let refused =
        daemon.ask("POST", "/v1/leases", json!({"resources": ["r"], "holder": "e"})).refused("resource_held");
    assert_eq!(refused["blocking"][0]["waiters"], 3);
}

#[test]
fn resources_are_listed_by_prefix_and_page() {
    let daemon = Served::start();
    for number in 0..5 {
        daemon.acquire(json!({"resources": [format!("x/{number}"), format!("y/{number}")], "holder": "a"}));
    }
    let names = |list: &Value| -> Vec<String> {
        let resources = list["resources"].as_array().unwrap().iter();
        resources.map(|resource| resource["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&daemon.get("/v1/resources")).len(), 10);
    let all = daemon.get("/v1/resources?prefix=x/");
    assert_eq!(names(&all), ["x/0", "x/1", "x/2", "x/3", "x/4"]);
    assert_eq!(all["next_cursor"], Value::Null);
    assert!(all["lsn"].as_u64().unwrap() > 0);
    let (mut cursor, mut found) = (None::<String>, Vec::new());
    for _ in 0..10 {
        let more = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let page = daemon.get(&format!("/v1/resources?prefix=y/&limit=2{more}"));
        found.extend(names(&page));
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(found, ["y/0", "y/1", "y/2", "y/3", "y/4"]);
}

#[test]
fn pools_live_under_any_name() {
    let daemon = Served::start();
    for name in ["gpu", "site/gpu", "größe 東京"] {
        let path = format!("/v1/pools/{}", utf8_percent_encode(name, NON_ALPHANUMERIC));
        let made = daemon.ask("PUT", &path, json!({"size": 2})).good();
        assert_eq!((&made["name"], &made["size"], &made["free"]), (&json!(name), &2.into(), &2.into()));
        let lease = daemon.acquire(json!({"pools": {name: 1}, "holder": "a"}));
        assert_eq!(lease["resources"], json!([format!("{name}/1")]));
        assert_eq!(daemon.get(&path)["free"], 1);
        daemon.ask("DELETE", &path, Value::Null).refused("pool_in_use");
        daemon.ask("DELETE", &format!("{path}?force=maybe"), Value::Null).refused("invalid_request");
        daemon.ask("DELETE", &format!("{path}?force=true"), Value::Null).good();
    }
    daemon.ask("PUT", "/v1/pools/x", Value::Null).refused("invalid_request");
    daemon.ask("PUT", "/v1/pools/x", json!({"size": -1})).refused("invalid_request");
    daemon.ask("PUT", "/v1/pools/a%0Ab", json!({"size": 1})).refused("invalid_name");
    daemon.ask("GET", "/v1/pools/none", Value::Null).refused("pool_not_found");
}

#[test]
fn status_says_what_the_contract_lists() {
    let daemon = Served::start();
    daemon.acquire(json!({"resources": ["r"], "holder": "a"}));
    daemon.acquire(json!({"resources": ["s"], "holder": "a", "ttl_ms": 0}));
    let status = daemon.get("/v1/status");
    assert_eq!(status["pid"], daemon.pid());
    assert_eq!(status["http"], format!("http://{}", daemon.address()));
    assert_eq!(status["socket"], daemon.socket().to_str().unwrap());
    assert_eq!(status["data_dir"], daemon.data_dir().to_str().unwrap());
    assert_eq!(status["leases"]["total"], 2);
    assert_eq!(status["leases"]["by_state"], json!({"active": 2}));
    assert_eq!(status["leases"]["by_mode"], json!({"heartbeat": 1, "permanent": 1}));
    assert_eq!(status["leases"]["by_face"], json!({"leases": 2}));
    assert_eq!(status["log_tag"].as_str().unwrap().len(), 4);
    assert!(status["synced_lsn"].as_u64() <= status["lsn"].as_u64());
    assert!(status["sync"]["count"].as_u64().unwrap() > 0);
    for field in
        ["version", "uptime_secs", "mode", "last_snapshot", "expiry_lateness", "stalls", "breaker", "mdns"]
    {
        assert!(status.get(field).is_some(), "{field}");
    }
    for field in ["server_time", "operation_floor"] {
        super::shown::time(&status[field]);
    }
}

#[test]
fn a_lease_that_ended_long_ago_is_said_to_be_retired() {
    let daemon = Served::start_with(&["--history-ended-age", "1s"]);
    let lease = daemon.acquire(json!({"resources": ["r"], "holder": "a"}));
    daemon.of_lease(&lease, "release", json!({"epoch": 1})).good();
    assert_eq!(daemon.inspect(&lease)["state"], "released");
    let path = format!("/v1/leases/{}", id(&lease));
    wait_until("it is retired", LONG, || daemon.ask("GET", &path, Value::Null).status != 200);
    assert_eq!(daemon.ask("GET", &path, Value::Null).refused("lease_retired")["lost"], false);
    assert_eq!(
        daemon.of_lease(&lease, "heartbeat", json!({"epoch": 1})).refused("lease_retired")["lost"],
        true
    );
    assert_eq!(
        daemon.of_lease(&lease, "release", json!({"epoch": 1})).refused("lease_retired")["lost"],
        true
    );
    let story = daemon.get(&format!("/v1/why?lease={}", id(&lease)));
    assert_eq!(story["entries"].as_array().unwrap().len(), 2, "its story is still told");
    daemon
        .of_lease(
            &json!({"lease_id": format!("{}-999999", &id(&lease)[..4])}),
            "heartbeat",
            json!({"epoch": 1}),
        )
        .refused("not_found");
}
