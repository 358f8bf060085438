//! A service registered on a connection to a node: advertised there while the connection is open.

use std::time::Duration;

use serde_json::{Value, json};

use super::{AT_ONCE, Connection, LOOK};
use crate::cluster::harness::{Cluster, LIMIT};
use crate::run_support::{boot_ms, let_time_pass, wait_until};

/// Whether a node advertises it; quick if it does.
fn is_resolved(cluster: &Cluster, place: usize, name: &str) -> bool {
    let path = format!("/v1/mdns/resolve?name={name}._http._tcp.local");
    cluster.nodes[place].ask("GET", &path, &Value::Null).is_ok_and(|answered| answered.status == 200)
}

/// Whether a node advertises it; quick if it does not. Without mDNS a node sees its own services and no others.
#[track_caller]
fn is_found(cluster: &Cluster, place: usize, name: &str) -> bool {
    let path = "/v1/mdns/browse?type=_http._tcp&idle_for=1";
    let browsed = cluster.nodes[place].ask("GET", path, &Value::Null).unwrap();
    assert_eq!(browsed.status, 200, "{browsed:?}");
    browsed.text().contains(&format!("\"name\":\"{name}\""))
}

/// As an operator at a node sees it; `None` once it is gone.
fn seen(cluster: &Cluster, place: usize, registered: &Value) -> Option<Value> {
    let path = format!("/v1/mdns/admin/registrations/{}", registered["id"].as_str().unwrap());
    let answered = cluster.nodes[place].ask("GET", &path, &Value::Null).unwrap();
    (answered.status == 200).then(|| answered.json())
}

#[track_caller]
fn wait_until_state(cluster: &Cluster, place: usize, registered: &Value, state: &str) {
    wait_until(&format!("{registered} {state}"), AT_ONCE, || {
        let_time_pass(LOOK, "between two looks");
        seen(cluster, place, registered).is_some_and(|shown| shown["state"] == state)
    });
}

fn service(name: &str) -> Value {
    json!({"register": {"name": name, "type": "_http._tcp", "port": 80}})
}

#[test]
fn a_service_on_a_connection_is_advertised_at_its_node_until_the_grace_after_its_close() {
    let grace_ms = 2_000;
    let cluster = Cluster::local(&["--no-mdns", "--mdns-socket-grace", "2s"]);
    let [home, other] = cluster.followers();
    let mut connection = Connection::open(&cluster, home);
    let session = connection.hello();
    let registered = connection.good(&service("web"), "registered");
    assert_eq!((&registered["mode"], &registered["lease"]), (&json!("session"), &json!(0)), "{registered}");
    wait_until("the service at its home", LIMIT, || is_resolved(&cluster, home, "web"));
    let shown = seen(&cluster, other, &registered).unwrap();
    assert_eq!((&shown["session_id"], &shown["state"]), (&json!(session), &json!("alive")), "{shown}");
    assert_eq!(shown["grace_secs"], 2, "{shown}");
    let lease = cluster.nodes[other].get(&format!("/v1/leases/{}", shown["lease_id"].as_str().unwrap()));
    assert_eq!(
        (&lease["mode"], &lease["valid_ms"]),
        (&json!("session"), &Value::Null),
        "no promise: {lease}"
    );
    // The same connection again: the same registration.
    let again = connection.good(&service("web"), "registered");
    assert_eq!((&again["id"], &again["advertised_name"]), (&registered["id"], &json!("web")), "{again}");
    let renewed = connection.ask(&json!({"heartbeat": registered["id"]}));
    assert_eq!((&renewed["renewed"], &renewed["lease"]), (&registered["id"], &json!(0)), "{renewed}");

    cluster.nodes[home].post("/v1/cluster/step-down", &Value::Null);
    cluster.wait_until_whole();
    assert!(is_resolved(&cluster, home, "web"), "a change of writer ends nothing");
    assert_eq!(seen(&cluster, other, &registered).unwrap()["state"], "alive");
    connection.assert_quiet();

    // Who comes back within the grace, at whichever node, has its registration again.
    drop(connection);
    wait_until_state(&cluster, other, &registered, "draining");
    let mut connection = Connection::open(&cluster, other);
    let back = connection.good(&service("web"), "registered");
    assert_eq!((&back["id"], &back["draining"]), (&registered["id"], &json!(false)), "{back}");
    assert!(back["epoch"].as_u64() > registered["epoch"].as_u64(), "{back}");
    wait_until("the service at its new home", LIMIT, || is_resolved(&cluster, other, "web"));
    wait_until("no service at the home before", LIMIT, || !is_found(&cluster, home, "web"));
    wait_until_state(&cluster, home, &back, "alive");

    let closed_ms = boot_ms();
    drop(connection);
    wait_until_state(&cluster, home, &back, "draining");
    assert!(is_resolved(&cluster, other, "web"), "still honoured");
    wait_until("the goodbye", Duration::from_secs(10), || {
        let_time_pass(LOOK, "between two looks");
        seen(&cluster, home, &back).is_none()
    });
    let lasted_ms = boot_ms() - closed_ms;
    println!("gone {lasted_ms} ms after the close");
    assert!(lasted_ms >= grace_ms, "{lasted_ms} ms");
    wait_until("no service at all", LIMIT, || !is_found(&cluster, other, "web"));
    let story = cluster.nodes[other].get(&format!("/v1/why?lease={}", shown["lease_id"].as_str().unwrap()));
    assert!(story.to_string().contains("session_expired"), "{story}");
}
