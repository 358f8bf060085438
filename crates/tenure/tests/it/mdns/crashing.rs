//! A daemon that was killed says no goodbye; the next one announces what lives and withdraws what does not.

use serde_json::{Value, json};

use super::peers::feed::{LIMIT, monotonic_ns};
use super::peers::netns::INTERFACE;
use super::peers::{Change, Service};
use super::stage::{
    HTTP, SmallStage, Stage, announces, full, inspect, is_on_lan, post, register, wait_advertised,
};
use crate::run_support::wait_until;

#[test]
fn what_lives_and_what_drains_is_announced_again_and_the_dead_one_is_withdrawn_after_its_grace() {
    let mut stage = Stage::begin_with(&["--mdns-socket-grace", "1s"]);
    let mut registrant = stage.daemon.lines();
    post(&stage.daemon, &json!({"name": "for ever", "type": HTTP, "port": 1, "lease": 0}));
    register(&mut registrant, json!({"name": "dead", "type": HTTP, "port": 2}));
    let drained = post(&stage.daemon, &json!({"name": "drained", "type": HTTP, "port": 3}));
    let path = format!("/v1/mdns/admin/registrations/{}/drain", drained["id"].as_str().unwrap());
    assert_eq!(stage.daemon.http_over_socket().post(&path, &json!({})).status, 200);
    let names = ["for ever", "dead", "drained"];
    for name in names {
        stage.wait_added(name);
    }
    stage.daemon.kill();
    assert_eq!(stage.sniffer.goodbyes(), [""; 0]);
    let restarted_ns = monotonic_ns();
    stage.daemon.start_again();
    for name in names {
        let is_announced = announces(name);
        stage.sniffer.wait_for(|record| record.at_ns > restarted_ns && is_announced(record), LIMIT);
    }
    stage.wait_removed("dead");
    let removed = stage.zeroconf.wait_for(|seen| seen.is(Change::Removed, "dead"), LIMIT);
    assert!(removed.at_ns - restarted_ns >= 5_000_000_000, "after a restart everybody has 5 s to come back");
    assert!(!stage.was_removed("for ever") && !stage.was_removed("drained"));
    assert!(stage.sniffer.goodbyes().iter().all(|name| *name == full("dead")));
    assert!(stage.daemon.said().contains("reason=session_expired"), "{}", stage.daemon.said());
}

/// Ends a registration where there is no network, so that no goodbye leaves and it stays revoking; then crashes and
/// starts again where there is one.
fn crash_while_revoking(stage: &mut SmallStage, registered: &Value) {
    let lease = inspect(&stage.daemon, registered)["lease_id"].as_str().unwrap().to_owned();
    stage.ours().link_down();
    wait_until("the interface to be missed", LIMIT, || !is_on_lan(&stage.daemon));
    let mut ender = stage.daemon.http_over_socket();
    let path = format!("/v1/mdns/services/{}", registered["id"].as_str().unwrap());
    ender.send("DELETE", &path, b"").unwrap();
    let path = format!("/v1/leases/{lease}");
    let is =
        |stage: &SmallStage, state: &str| stage.daemon.http_over_socket().get(&path).json()["state"] == state;
    wait_until("a lease that is being revoked", LIMIT, || is(stage, "revoking"));
    stage.daemon.kill();
    stage.ours().link_up();
    assert_eq!(stage.sniffer.goodbyes(), [""; 0]);
    stage.daemon.start_again();
    wait_until("a lease that is over", LIMIT, || is(stage, "revoked"));
}

#[test]
fn what_was_being_withdrawn_at_the_crash_is_withdrawn_by_the_next_daemon() {
    let mut stage = SmallStage::begin_with(&["--mdns-interface", INTERFACE]);
    let ending = post(&stage.daemon, &json!({"name": "Ending v1.2", "type": HTTP, "port": 1, "lease": 0}));
    wait_advertised(&stage.daemon, &ending);
    stage.zeroconf.wait_for(|seen| seen.is(Change::Added, "Ending v1.2"), LIMIT);
    crash_while_revoking(&mut stage, &ending);
    stage.zeroconf.wait_for(|seen| seen.is(Change::Removed, "Ending v1.2"), LIMIT);
}

#[test]
fn what_had_another_name_on_the_network_is_withdrawn_by_the_next_daemon_under_that_name() {
    let mut stage = SmallStage::begin_with(&["--mdns-interface", INTERFACE]);
    stage.zeroconf.register(&Service { name: "web", service_type: HTTP, port: 9, txt: &[] });
    let ours = post(&stage.daemon, &json!({"name": "web", "type": HTTP, "port": 1, "lease": 0}));
    wait_until("another name", LIMIT, || inspect(&stage.daemon, &ours)["advertised_name"] != "web");
    let shown = wait_advertised(&stage.daemon, &ours);
    let advertised = shown["advertised_name"].as_str().unwrap();
    stage.zeroconf.wait_for(|seen| seen.is(Change::Added, advertised), LIMIT);
    crash_while_revoking(&mut stage, &ours);
    stage.zeroconf.wait_for(|seen| seen.is(Change::Removed, advertised), LIMIT);
    let goodbyes = stage.sniffer.goodbyes();
    assert!(goodbyes.iter().all(|name| *name == full(advertised)), "{goodbyes:?}");
}
