//! Operators at other nodes: what they end is told on the connection, what its holder gave up is free at once.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Connection, Heard, TTL_MS, Waiting, assert_alive, granted_ms, heartbeat, id, inspect};
use crate::cluster::harness::{Cluster, LIMIT};
use crate::run_support::{boot_ms, holds_for};

const REVOKE_LIMIT_MS: u64 = TTL_MS + 6_000;

#[track_caller]
fn steer(cluster: &Cluster, place: usize, lease: &Value, call: &str) -> Value {
    cluster.nodes[place].post(&format!("/v1/leases/{}/{call}", id(lease)), &json!({"reason": "test"}))
}

#[test]
fn what_an_operator_ends_through_another_node_is_told_on_the_connection() {
    let cluster = Cluster::local(&[]);
    let writer = cluster.wait_for_writer();
    let [follower, other] = cluster.followers();

    // One who never says that it stopped: its promise is waited for.
    let mut mute = Connection::open(&cluster, follower);
    let unanswered = mute.acquire("unanswered", json!({}));
    let promise = mute.renew(&unanswered);
    steer(&cluster, other, &unanswered, "revoke");
    let revoked_ms = boot_ms();
    // One whose holder closes its connection: nothing is waited for.
    let mut closing = Connection::open(&cluster, follower);
    let closed = closing.acquire("closed", json!({"grace_ms": 0}));
    let closed_promise = closing.renew(&closed);
    drop(closing);
    let waiting_for_promises = Waiting::begin(&cluster, writer, &["unanswered", "closed"]);

    for (place, through) in [(follower, other), (writer, follower), (other, writer)] {
        let name = format!("ended/{place}");
        let mut connection = Connection::open(&cluster, place);
        let lease = connection.acquire(&name, json!({}));
        let drained = steer(&cluster, through, &lease, "drain");
        assert_eq!(drained["drain_cause"], "operator", "{drained}");
        let renewed = connection.good(&heartbeat(&lease), "renewed");
        assert_eq!(renewed["draining"], true, "{renewed}");
        steer(&cluster, through, &lease, "revive");
        let renewed = connection.good(&heartbeat(&lease), "renewed");
        assert_eq!(renewed["draining"], false, "{renewed}");
        assert_alive(&cluster, through, &lease);

        let promise = connection.renew(&lease);
        let revoked = steer(&cluster, through, &lease, "revoke");
        assert_eq!(revoked["state"], "revoking", "{revoked}");
        let lost = json!({"lost": {"lease_id": id(&lease), "epoch": 2, "reason": "admin_force"}});
        assert_eq!(connection.heard(LIMIT), Heard::Line(lost));
        let answer = connection.ask(&heartbeat(&lease));
        assert_eq!((&answer["error"], &answer["lost"]), (&json!("stale_epoch"), &json!(true)), "{answer}");
        let waiting = Waiting::begin(&cluster, through, &[&name]);
        let waits = || inspect(&cluster, through, &lease)["state"] == "revoking";
        assert!(holds_for(Duration::from_millis(300), waits), "no holder said that it stopped");
        let acknowledge = json!({"acknowledge": {"lease_id": id(&lease), "epoch": 1}});
        let acknowledged_ms = boot_ms();
        connection.good(&acknowledge, "acknowledged");
        let granted = granted_ms(&waiting.finish(), &name);
        assert!(granted >= acknowledged_ms);
        assert!(granted < promise.until_ms, "free at once, not {} ms later", granted - acknowledged_ms);
    }

    let mut connection = Connection::open(&cluster, follower);
    let short = connection.acquire("short", json!({"max_lifetime_ms": 1_000}));
    match connection.heard(LIMIT) {
        Heard::Line(line) => {
            assert_eq!(line["lost"]["lease_id"], short["lease_id"], "{line}");
            assert_eq!(line["lost"]["reason"], inspect(&cluster, other, &short)["reason"], "{line}");
        }
        heard => panic!("{heard:?}"),
    }
    // One that the holder gives back itself is no loss, and one loss does not end the connection.
    let own = connection.acquire("own", json!({}));
    connection.good(&json!({"release": {"lease_id": id(&own), "epoch": 1}}), "released");
    connection.assert_quiet();

    let granted = waiting_for_promises.finish();
    let [unanswered_ms, closed_ms] = ["unanswered", "closed"].map(|resource| granted_ms(&granted, resource));
    println!("free after the revoke: {} ms and {} ms", unanswered_ms - revoked_ms, closed_ms - revoked_ms);
    assert!(unanswered_ms >= promise.until_ms, "{} ms too soon", promise.until_ms - unanswered_ms);
    assert!(unanswered_ms < revoked_ms + REVOKE_LIMIT_MS, "{} ms", unanswered_ms - revoked_ms);
    // Its holder closed the connection, and with that has said that it stopped.
    assert!(closed_ms < closed_promise.until_ms, "{} ms", closed_ms - revoked_ms);
    let lost = json!({"lost": {"lease_id": id(&unanswered), "epoch": 2, "reason": "admin_force"}});
    assert_eq!(mute.heard(LIMIT), Heard::Line(lost));
    mute.assert_quiet();
}
