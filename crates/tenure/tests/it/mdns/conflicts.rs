//! Somebody else on the network has the name already: what is ours takes another, says so, and ends alone.

use serde_json::json;

use super::peers::avahi::Avahi;
use super::peers::feed::LIMIT;
use super::peers::{Change, Service};
use super::stage::{HTTP, Stage, full, inspect, register, unregister, wait_advertised, wait_goodbyes};
use crate::run_support::wait_until;

/// Registers a name that a peer has published, and ends it again.
fn meets_a_conflict(stage: &Stage, name: &str, port: u16) {
    let mut registrant = stage.daemon.lines();
    let ours = register(&mut registrant, json!({"name": name, "type": HTTP, "port": port}));
    wait_until("another name", LIMIT, || inspect(&stage.daemon, &ours)["advertised_name"] != name);
    let shown = wait_advertised(&stage.daemon, &ours);
    let advertised = shown["advertised_name"].as_str().unwrap();
    for seen in stage.wait_added(advertised) {
        assert_eq!((seen.port, seen.addresses.as_slice()), (Some(port), [stage.address()].as_slice()), "{seen:?}");
    }
    assert_eq!(shown["name"], name, "what was asked for is remembered: {shown}");
    assert_eq!(shown["last_error"], json!(null), "{shown}");

    unregister(&mut registrant, &ours);
    stage.wait_removed(advertised);
    wait_goodbyes(&stage.sniffer, &[advertised]);
    assert!(!stage.sniffer.goodbyes().contains(&full(name)), "{:?}", stage.sniffer.goodbyes());
    assert!(!stage.was_removed(name));
}

#[test]
fn a_name_that_zeroconf_has_is_left_to_it() {
    let mut stage = Stage::begin();
    stage.zeroconf.register(&Service { name: "web", service_type: HTTP, port: 9, txt: &[] });
    stage.avahi.wait_for(|seen| seen.is(Change::Added, "web"), LIMIT);
    meets_a_conflict(&stage, "web", 1);
    let theirs = stage.zeroconf.resolve("web", HTTP, LIMIT).unwrap();
    assert_eq!(theirs.port, Some(9));
}

#[test]
fn a_name_with_capitals_and_dots_that_avahi_has_is_left_to_it() {
    let stage = Stage::begin();
    let name = "Küche v1.2";
    let theirs = stage.avahi.publish(&Service { name, service_type: HTTP, port: 9, txt: &[] });
    stage.zeroconf.wait_for(|seen| seen.is(Change::Added, name), LIMIT);
    meets_a_conflict(&stage, name, 1);
    assert_eq!(theirs.name(), name);
    let seen = stage.zeroconf.events();
    assert!(seen.iter().all(|seen| !seen.is(Change::Updated, name)), "{seen:?}");
}

#[test]
fn a_name_of_ours_stays_ours_when_others_come_for_it() {
    let stage = Stage::begin();
    let mut registrant = stage.daemon.lines();
    let ours = register(&mut registrant, json!({"name": "web", "type": HTTP, "port": 1}));
    stage.wait_added("web");
    wait_advertised(&stage.daemon, &ours);
    let theirs: &Avahi = &stage.avahi;
    let mut publisher = theirs.publish(&Service { name: "web", service_type: HTTP, port: 9, txt: &[] });
    assert_eq!(publisher.name(), "web #2");
    publisher.end();
    let shown = inspect(&stage.daemon, &ours);
    assert_eq!((&shown["advertised_name"], &shown["advertised"]), (&json!("web"), &json!(true)), "{shown}");
    assert!(!stage.was_removed("web"));
}
