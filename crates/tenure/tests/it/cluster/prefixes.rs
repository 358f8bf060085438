//! A token that may hold by prefix, shown to a follower: the node that is asked bounds it, and the writer does not widen it.

use serde_json::{Value, json};

use super::harness::{Cluster, LIMIT};
use crate::run_support::wait_until;
use crate::security::{as_token, write_tokens};

const FOLLOWER: usize = 1;

/// The writer's own file lets the token hold everything.
fn started() -> Cluster {
    let mut cluster = Cluster::on_one_member_alone(&["--token-file", "DIR/tokens"], &[]);
    let narrow = "hold:build/*,mdns/_http._tcp/ci*";
    for (place, scope) in [(0, "hold"), (FOLLOWER, narrow)] {
        let daemon = &cluster.nodes[place].daemon;
        write_tokens(&daemon.path("tokens"), &[("ci", scope), ("boss", "admin")]);
    }
    cluster.start_node(0);
    wait_until("a writer", LIMIT, || role(&cluster, 0) == "leader");
    cluster.start_node(FOLLOWER);
    wait_until("a follower", LIMIT, || role(&cluster, FOLLOWER) == "follower");
    cluster
}

fn role(cluster: &Cluster, place: usize) -> Value {
    as_token(&cluster.nodes[place].daemon, "boss").get("/v1/cluster").json()["role"].clone()
}

#[test]
fn a_prefix_bounds_what_a_token_takes_through_a_follower() {
    let cluster = started();
    let ask = |path: &str, body: &Value| as_token(&cluster.nodes[FOLLOWER].daemon, "ci").post(path, body);
    let lease = |resources: &[&str], more: Value| {
        let mut body = json!({"resources": resources, "holder": "h", "ttl_ms": 60_000});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let service = |name: &str| json!({"name": name, "type": "_http._tcp", "port": 80});
    for (path, body) in [
        ("/v1/leases", lease(&["other/x"], json!({}))),
        ("/v1/leases", lease(&["build/x", "other/x"], json!({}))),
        ("/v1/leases", lease(&["other/x"], json!({"wait_ms": 1}))),
        ("/v1/leases", lease(&["other/x"], json!({"operation_id": "once"}))),
        ("/v1/mdns/services", service("web")),
        ("/v1/sessions", json!({"holder": "h", "accepts_handover": "other/"})),
    ] {
        let refused = ask(path, &body);
        assert_eq!(refused.refusal(), (403, "outside_scope".to_owned()), "{path} {body}: {refused:?}");
    }
    let held = || {
        let listed = as_token(&cluster.nodes[0].daemon, "boss").get("/v1/leases").json();
        let names = |lease: &Value| lease["resources"][0].as_str().unwrap().to_owned();
        listed["leases"].as_array().unwrap().iter().map(names).collect::<Vec<_>>()
    };
    assert_eq!(held(), [""; 0], "nothing of it reached the writer");

    let granted = ask("/v1/leases", &lease(&["build/x"], json!({"operation_id": "once more"})));
    assert_eq!(granted.status, 201, "{granted:?}");
    let registered = ask("/v1/mdns/services", &service("ci-7"));
    assert_eq!(registered.status, 201, "{registered:?}");
    assert_eq!(held().first().map(String::as_str), Some("build/x"));

    // What the token has, it keeps through either node; a rebind through the follower adds nothing.
    let of_lease = |verb: &str| format!("/v1/leases/{}/{verb}", granted.json()["lease_id"].as_str().unwrap());
    assert_eq!(ask(&of_lease("heartbeat"), &json!({"epoch": 1})).status, 200);
    let caller = as_token(&cluster.nodes[FOLLOWER].daemon, "ci").get("/v1/caller").json();
    assert_eq!(caller["prefixes"], json!(["build/*", "mdns/_http._tcp/ci*"]));
    assert_eq!(ask(&of_lease("release"), &json!({"epoch": 1})).status, 200);
}
