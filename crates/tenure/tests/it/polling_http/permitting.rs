//! Who may look at a group, be in it and steer it.

use serde_json::{Value, json};

use super::ways::{ByHand, GROUP, LONG_MS, lease_of, steered};
use crate::daemon::Daemon;
use crate::raw_http::Answered;
use crate::security::{as_token, with_tokens};

fn orders() -> [(&'static str, Value); 3] {
    [
        ("move", json!({"target": "s1", "poller": "kitchen"})),
        ("cordon", json!({"poller": "kitchen"})),
        ("uncordon", json!({"poller": "kitchen"})),
    ]
}

#[test]
fn everybody_looks_holders_poll_and_only_operators_steer() {
    let daemon = with_tokens(&[("looker", "read"), ("worker", "hold"), ("boss", "admin")], &[]);
    let facts = json!({"instance": "kitchen~1", "weight": 1, "status": "online", "fixed_name": true});
    let grant = |name: &str, resource: &str| {
        let body = json!({"resources": [format!("poll/{GROUP}/{resource}")], "holder": "kitchen~1", "attachment": facts});
        as_token(&daemon, name).post("/v1/leases", &body)
    };
    assert_eq!(grant("looker", "s1").refusal(), (403, "forbidden".to_owned()));
    for resource in ["@poller/kitchen", "s1"] {
        let granted = grant("worker", resource);
        assert_eq!(granted.status, 201, "{granted:?}");
    }
    for name in ["looker", "worker", "boss"] {
        let seen = as_token(&daemon, name).get(&format!("/v1/polling/{GROUP}"));
        assert_eq!(seen.status, 200, "{name}: {seen:?}");
        assert_eq!(seen.json()["live_nodes"][0]["name"], "kitchen", "{seen:?}");
        assert_eq!(as_token(&daemon, name).get("/v1/pollers").status, 200);
    }
    let say = |name: &str, verb: &str, body: &Value| {
        as_token(&daemon, name).post(&format!("/v1/polling/{GROUP}/{verb}"), body)
    };
    for (verb, body) in orders() {
        for name in ["looker", "worker"] {
            let answered = say(name, verb, &body);
            assert_eq!(answered.refusal(), (403, "forbidden".to_owned()), "{name} {verb}: {answered:?}");
            assert_eq!(answered.json()["scope"], "admin");
        }
        let answered = say("boss", verb, &body);
        assert_eq!(answered.status, 200, "{verb}: {answered:?}");
    }
    let pin = as_token(&daemon, "boss").get(&format!("/v1/leases?resource_prefix=poll/{GROUP}/@pin/"));
    let pin = pin.json()["leases"][0].clone();
    assert_eq!(pin["holder"], "token:boss", "whose word it is can be seen: {pin}");
    let path = format!("/v1/leases/{}/release", pin["lease_id"].as_str().unwrap());
    let released = as_token(&daemon, "worker").post(&path, &json!({"epoch": pin["epoch"]}));
    assert_eq!(released.refusal(), (403, "forbidden".to_owned()), "a poller cannot take it back");
    assert_eq!(daemon.get(&format!("/v1/polling/{GROUP}")).status, 401);
}

/// Refused, with the way that it is done.
fn is_sent_to(answered: &Answered, route: &str) {
    assert_eq!(answered.refusal(), (400, "invalid_request".to_owned()), "{answered:?}");
    let message = answered.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains(&format!("POST {route}")), "{message}");
}

#[test]
fn an_operators_word_is_taken_natively_by_nobody() {
    let daemon = Daemon::start();
    let _kitchen = ByHand::join(&daemon, "kitchen", LONG_MS);
    let words = [("@pin/s1", "/v1/polling/web/move"), ("@cordon/kitchen", "/v1/polling/web/cordon")];
    for (name, route) in words {
        let resource = format!("poll/{GROUP}/{name}");
        let bodies = [
            json!({"resources": [resource], "holder": "h"}),
            json!({"resources": ["a", resource], "holder": "h", "wait_ms": 1_000}),
            json!({"resources": [resource], "holder": "h", "ttl_ms": 0}),
            json!({"pools": {format!("poll/{GROUP}/{}", name.split('/').next().unwrap()): 1}, "holder": "h"}),
        ];
        for body in bodies {
            is_sent_to(&daemon.post("/v1/leases", &body), route);
            let told = daemon.lines().ask(&json!({"acquire": body, "tag": 1}));
            assert_eq!(told["error"], "invalid_request", "{told}");
            assert!(told["message"].as_str().unwrap().contains(route), "{told}");
        }
        let start = json!({"type": "stream.start", "resources": [resource]});
        let refused = daemon.post("/api/v3/intents", &start);
        assert_eq!(refused.status, 400, "{refused:?}");
        assert!(refused.json()["detail"].as_str().unwrap().contains(route), "{refused:?}");
        assert_eq!(lease_of(&daemon, name), None);
    }
}

#[test]
fn http_over_the_socket_serves_the_same() {
    let daemon = Daemon::start();
    let kitchen = ByHand::join(&daemon, "kitchen", LONG_MS);
    kitchen.take(&daemon, "s1");
    let mut http = daemon.http_over_socket();
    assert_eq!(http.get(&format!("/v1/pollers?group={GROUP}")).json()["live_nodes"][0]["name"], "kitchen");
    for (verb, body) in orders() {
        let answered = http.post(&format!("/v1/polling/{GROUP}/{verb}"), &body);
        assert_eq!(answered.status, 200, "{verb}: {answered:?}");
    }
    steered(&daemon, "move", &json!({"target": "s1"}));
}
