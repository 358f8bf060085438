//! What a lease on a connection is, at every node: kept by that connection alone, with a promise that ends.

use serde_json::{Value, json};

use super::{Connection, heartbeat, id, inspect, listed, over_socket, promised_ms, wait_until_gone, wish};
use crate::cluster::harness::Cluster;

/// What is asked for beside the resource, and the mode and grace that follow from it.
fn cases(session: &str) -> Vec<(Value, &'static str, Value)> {
    vec![
        (json!({}), "session", json!(30_000)),
        (json!({"mode": "session"}), "session", json!(30_000)),
        (json!({"session": session}), "session", json!(30_000)),
        (json!({"grace_ms": 7_000}), "session", json!(7_000)),
        (json!({"ttl_ms": 60_000}), "heartbeat", json!(30_000)),
        (json!({"mode": "heartbeat"}), "heartbeat", json!(30_000)),
        (json!({"ttl_ms": 0}), "permanent", Value::Null),
        (json!({"mode": "permanent"}), "permanent", Value::Null),
    ]
}

#[test]
fn a_connection_at_any_node_is_a_session_that_keeps_its_leases() {
    let cluster = Cluster::local(&[]);
    for (place, node) in cluster.nodes.iter().enumerate() {
        let mut connection = Connection::open(&cluster, place);
        let session = connection.hello();
        assert!(session.starts_with("pipe:") && session.len() == 13, "{session}");
        for (number, (more, mode, grace_ms)) in cases(&session).into_iter().enumerate() {
            let lease = connection.acquire(&format!("{}/{number}", node.name), more.clone());
            assert_eq!((&lease["mode"], &lease["grace_ms"]), (&json!(mode), &grace_ms), "{more}: {lease}");
            match mode {
                "session" => {
                    assert_eq!(lease["session"], session, "{lease}");
                    promised_ms(&lease);
                    connection.renew(&lease);
                }
                "heartbeat" => {
                    assert!(lease["session"].is_null() && lease["valid_ms"].as_u64() > Some(10_000))
                }
                _ => assert!(lease["session"].is_null() && lease["valid_ms"].is_null(), "{lease}"),
            }
        }
        for more in [json!({"mode": "session", "ttl_ms": 60_000}), json!({"session": "pipe:00000001"})] {
            connection.refused(&wish("refused", more), "invalid_request");
        }
        let reserved = connection.acquire(&format!("{}/reserved", node.name), json!({"reserve_ms": 60_000}));
        assert_eq!((&reserved["state"], &reserved["valid_ms"]), (&json!("reserved"), &Value::Null));
        let body = json!({"lease_id": id(&reserved), "epoch": 1});
        let active = connection.good(&json!({ "activate": body }), "activated");
        assert_eq!((&active["mode"], &active["session"]), (&json!("session"), &json!(session)), "{active}");
        promised_ms(&active);
        connection.renew(&active);

        let mut cli = Connection::open(&cluster, place);
        let hello = cli.good(&json!({"hello": {"kind": "cli"}}), "hello");
        let lease = cli.acquire(&format!("{}/cli", node.name), json!({}));
        assert_eq!((&lease["session"], &lease["grace_ms"]), (&hello["session"], &json!(5_000)), "{lease}");
        let cli_session = lease["session"].as_str().unwrap().to_owned();
        assert!(cli_session.starts_with("cli:"), "{cli_session}");
        promised_ms(&lease);
        cli.renew(&lease);

        // A connection without a lease is no session that anybody sees.
        let idle = Connection::open(&cluster, place).hello();
        for other in 0..cluster.nodes.len() {
            let shown = listed(&cluster, other, &session).unwrap();
            assert_eq!((&shown["kind"], &shown["leases"]), (&json!("connection"), &json!(5)), "{shown}");
            assert_eq!(shown["liveness"], "alive", "{shown}");
            let shown = listed(&cluster, other, &cli_session).unwrap();
            assert_eq!((&shown["kind"], &shown["leases"]), (&json!("stdin"), &json!(1)), "{shown}");
            assert_eq!(listed(&cluster, other, &idle), None);
        }
        drop((connection, cli));
        wait_until_gone(&cluster, place, &session);
        wait_until_gone(&cluster, place, &cli_session);
    }
}

#[test]
fn only_its_own_connection_proves_that_a_holder_lives() {
    let cluster = Cluster::local(&[]);
    for place in 0..cluster.nodes.len() {
        let name = format!("own/{place}");
        let mut connection = Connection::open(&cluster, place);
        let lease = connection.acquire(&name, json!({}));
        let session = lease["session"].as_str().unwrap();
        for other in 0..cluster.nodes.len() {
            Connection::open(&cluster, other).refused(&heartbeat(&lease), "no_liveness");
            let of_lease = format!("/v1/leases/{}/heartbeat", id(&lease));
            let answered = over_socket(&cluster, other, "POST", &of_lease, &json!({"epoch": 1}));
            assert_eq!(answered.refusal(), (409, "no_liveness".to_owned()));
            let of_session = format!("/v1/sessions/{session}/heartbeat");
            let answered = over_socket(&cluster, other, "POST", &of_session, &json!({}));
            assert_eq!(answered.refusal(), (409, "no_liveness".to_owned()));
            let shared = json!({"resources": ["shared"], "holder": "alice", "session": session});
            let answered = over_socket(&cluster, other, "POST", "/v1/leases", &shared);
            assert_eq!(answered.refusal(), (400, "invalid_request".to_owned()));
            let mut elsewhere = Connection::open(&cluster, other);
            elsewhere.refused(&wish("shared", json!({"session": session})), "invalid_request");
        }
        connection.refused(&heartbeat(&json!({"lease_id": id(&lease), "epoch": 9})), "stale_epoch");
        connection.renew(&lease);
        // Looking makes no promise: what is left of the last one is shown.
        for other in 0..cluster.nodes.len() {
            assert!(promised_ms(&inspect(&cluster, other, &lease)) <= super::TTL_MS);
        }

        let other = &cluster.nodes[(place + 1) % 3];
        let story = other.get(&format!("/v1/why?session={session}"));
        let entries = story["entries"].as_array().unwrap();
        let kinds: Vec<&str> = entries.iter().map(|entry| entry["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["session_opened", "granted"], "{story}");
        assert_eq!(entries[1]["lease_id"], lease["lease_id"]);
        for subject in [session, id(&lease), name.as_str()] {
            let told = other.daemon.tenure(&["why", subject]);
            assert_eq!(told.code, 0, "{}", told.err);
            assert!(told.out.contains(&format!("granted to alice: {name}")), "{}", told.out);
        }
        let released = connection.good(&json!({"release": {"lease_id": id(&lease), "epoch": 1}}), "released");
        assert_eq!(released["state"], "released");
        drop(connection);
        wait_until_gone(&cluster, place, session);
    }
}
