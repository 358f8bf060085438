//! A daemon that was killed says no goodbye; the next one announces what lives and withdraws what does not.

use serde_json::json;

use super::peers::Change;
use super::peers::feed::{LIMIT, monotonic_ns};
use super::peers::netns::INTERFACE;
use super::stage::{HTTP, SmallStage, Stage, announces, full, is_on_lan, post, register, wait_advertised};
use crate::run_support::wait_until;

#[test]
fn what_lives_and_what_drains_is_announced_again_and_the_dead_one_is_withdrawn_after_its_grace() {
    let mut stage = Stage::begin_with(&["--mdns-socket-grace", "1s"]);
    let mut registrant = stage.daemon.lines();
    post(&stage.daemon, &json!({"name": "for ever", "type": HTTP, "port": 1, "lease": 0}));
    register(&mut registrant, json!({"name": "dead", "type": HTTP, "port": 2}));
    for name in ["for ever", "dead"] {
        stage.wait_added(name);
    }
    stage.daemon.kill();
    assert_eq!(stage.sniffer.goodbyes(), [""; 0]);
    let restarted_ns = monotonic_ns();
    stage.daemon.start_again();
    for name in ["for ever", "dead"] {
        let is_announced = announces(name);
        stage.sniffer.wait_for(|record| record.at_ns > restarted_ns && is_announced(record), LIMIT);
    }
    stage.wait_removed("dead");
    let removed = stage.zeroconf.wait_for(|seen| seen.is(Change::Removed, "dead"), LIMIT);
    assert!(removed.at_ns - restarted_ns >= 5_000_000_000, "after a restart everybody has 5 s to come back");
    assert!(!stage.was_removed("for ever"));
    assert!(stage.sniffer.goodbyes().iter().all(|name| *name == full("dead")));
    assert!(stage.daemon.said().contains("reason=session_expired"), "{}", stage.daemon.said());
}

#[test]
fn what_was_being_withdrawn_at_the_crash_is_withdrawn_by_the_next_daemon() {
    let mut stage = SmallStage::begin_with(&["--mdns-interface", INTERFACE]);
    let ending = post(&stage.daemon, &json!({"name": "ending", "type": HTTP, "port": 1, "lease": 0}));
    let lease = wait_advertised(&stage.daemon, &ending)["lease_id"].as_str().unwrap().to_owned();
    stage.zeroconf.wait_for(|seen| seen.is(Change::Added, "ending"), LIMIT);
    // Where there is no network no goodbye leaves, and the registration stays revoking.
    stage.ours().link_down();
    wait_until("the interface to be missed", LIMIT, || !is_on_lan(&stage.daemon));
    let mut ender = stage.daemon.http_over_socket();
    let path = format!("/v1/mdns/services/{}", ending["id"].as_str().unwrap());
    ender.send("DELETE", &path, b"").unwrap();
    wait_until("a lease that is being revoked", LIMIT, || {
        stage.daemon.http_over_socket().get(&format!("/v1/leases/{lease}")).json()["state"] == "revoking"
    });
    stage.daemon.kill();
    stage.ours().link_up();
    assert_eq!(stage.sniffer.goodbyes(), [""; 0]);
    stage.daemon.start_again();
    stage.zeroconf.wait_for(|seen| seen.is(Change::Removed, "ending"), LIMIT);
    wait_until("a lease that is over", LIMIT, || {
        stage.daemon.http_over_socket().get(&format!("/v1/leases/{lease}")).json()["state"] == "revoked"
    });
}
