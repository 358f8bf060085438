//! From a registration to what the peers see of it, and back: every name, every change, every end that was asked for.

use serde_json::json;

use super::peers::feed::LIMIT;
use super::peers::{Change, Seen};
use super::stage::{HTTP, Stage, full, inspect, post, register, unregister, wait_advertised, wait_goodbyes};
use crate::run_support::wait_until;

fn sorted_txt(seen: &Seen) -> Vec<String> {
    let mut txt = seen.txt_text();
    txt.sort();
    txt
}

#[test]
fn a_registration_is_seen_whole_by_both_peers_and_so_is_its_end() {
    let stage = Stage::begin();
    let mut registrant = stage.daemon.lines();
    let service = json!({"name": "web", "type": HTTP, "port": 8080, "txt": {"path": "/x", "flag": null}});
    let registered = register(&mut registrant, service);
    for seen in stage.wait_added("web") {
        assert_eq!(seen.service_type, HTTP, "{seen:?}");
        assert_eq!(seen.port, Some(8080), "{seen:?}");
        assert_eq!(seen.addresses, [stage.address()], "{seen:?}");
        assert_eq!(sorted_txt(&seen), ["flag", "path=/x"], "{seen:?}");
    }
    let shown = wait_advertised(&stage.daemon, &registered);
    assert_eq!((&shown["advertised_name"], &shown["last_error"]), (&json!("web"), &json!(null)), "{shown}");

    unregister(&mut registrant, &registered);
    stage.wait_removed("web");
    wait_goodbyes(&stage.sniffer, &["web"]);
    let goodbyes = stage.sniffer.goodbyes();
    assert!(goodbyes.iter().all(|name| *name == full("web")), "{goodbyes:?}");
    assert_eq!(stage.sniffer.broken(), [""; 0]);
    let why = stage.daemon.tenure(&["why", "--registration", registered["id"].as_str().unwrap()]);
    assert_eq!(why.code, 0, "{}", why.all());
    assert!(why.out.to_lowercase().contains("goodbye"), "{}", why.out);
}

#[test]
fn any_name_is_seen_resolved_and_withdrawn() {
    let stage = Stage::begin();
    let longest = format!("{}ß", "x".repeat(61));
    let names =
        ["Dot.ted v1.2", "UPPER lower", "Küche Ö", "back\\slash\\", longest.as_str(), "a._http._tcp.local"];
    let mut registrant = stage.daemon.lines();
    let registered: Vec<_> = (1_u16..)
        .zip(names)
        .map(|(port, name)| register(&mut registrant, json!({"name": name, "type": HTTP, "port": port})))
        .collect();
    for (port, name) in (1_u16..).zip(names) {
        for seen in stage.wait_added(name) {
            assert_eq!(
                (seen.port, seen.addresses.as_slice()),
                (Some(port), [stage.address()].as_slice()),
                "{seen:?}"
            );
        }
    }
    for registered in &registered {
        assert_eq!(wait_advertised(&stage.daemon, registered)["advertised_name"], registered["name"]);
        unregister(&mut registrant, registered);
    }
    for name in names {
        stage.wait_removed(name);
    }
    wait_goodbyes(&stage.sniffer, &names);
}

/// A registrant goes, and one that asks for the same name comes before the grace is over.
fn take_over(stage: &mut Stage, before: &str, after: &str) {
    let mut first = stage.daemon.lines();
    let old = register(&mut first, json!({"name": before, "type": HTTP, "port": 1000, "txt": {"v": "1"}}));
    stage.wait_added(before);
    drop(first);
    wait_until("a registration that drains", LIMIT, || inspect(&stage.daemon, &old)["state"] == "draining");

    let mut second = stage.daemon.lines();
    let new = register(&mut second, json!({"name": after, "type": HTTP, "port": 2000, "txt": {"v": "2"}}));
    assert_eq!(new["id"], old["id"]);
    let is_new = |seen: &Seen| seen.port == Some(2000) && seen.txt_text() == ["v=2"];
    let updated = stage.zeroconf.wait_for(is_new, LIMIT);
    assert_eq!(updated.addresses, [stage.address()]);
    // Avahi tells no changes, but knows them when asked.
    let mark = stage.avahi.mark();
    stage.avahi.browse(HTTP);
    stage.avahi.wait_for_since(mark, is_new, LIMIT);
    assert!(!stage.was_removed(before) && !stage.was_removed(after), "{:#?}", stage.zeroconf.events());
    assert_eq!(stage.sniffer.goodbyes(), [""; 0]);
}

#[test]
fn a_take_over_with_another_port_and_txt_is_an_update_and_never_a_removal() {
    let mut stage = Stage::begin();
    take_over(&mut stage, "Web", "Web");
    assert!(stage.zeroconf.events().iter().any(|seen| seen.is(Change::Updated, "Web")));
}

#[test]
fn a_take_over_in_other_capitals_is_no_removal_either() {
    take_over(&mut Stage::begin(), "Web", "web");
}

#[test]
fn the_same_session_changes_its_registration_in_place() {
    let stage = Stage::begin();
    let mut registrant = stage.daemon.lines();
    let before = register(&mut registrant, json!({"name": "web", "type": HTTP, "port": 1000}));
    stage.wait_added("web");
    for port in [1001, 1002] {
        let after = register(&mut registrant, json!({"name": "web", "type": HTTP, "port": port}));
        assert_eq!(after["id"], before["id"]);
        stage.zeroconf.wait_for(|seen| seen.change == Change::Updated && seen.port == Some(port), LIMIT);
    }
    assert!(!stage.was_removed("web"), "{:?}", stage.zeroconf.events());
    assert_eq!(stage.sniffer.goodbyes(), [""; 0]);
}

#[test]
fn two_sessions_with_one_name_are_two_services_and_ending_one_leaves_the_other() {
    let stage = Stage::begin();
    let (mut first, mut second) = (stage.daemon.lines(), stage.daemon.lines());
    let one = register(&mut first, json!({"name": "twin", "type": HTTP, "port": 1}));
    let two = register(&mut second, json!({"name": "twin", "type": HTTP, "port": 2}));
    assert_eq!((&one["advertised_name"], &two["advertised_name"]), (&json!("twin"), &json!("twin (2)")));
    for (port, name) in [(1, "twin"), (2, "twin (2)")] {
        for seen in stage.wait_added(name) {
            assert_eq!(
                (seen.port, seen.addresses.as_slice()),
                (Some(port), [stage.address()].as_slice()),
                "{seen:?}"
            );
        }
    }
    unregister(&mut first, &one);
    stage.wait_removed("twin");
    assert_eq!(wait_advertised(&stage.daemon, &two)["advertised_name"], "twin (2)");

    // The name is free again, and the other one is still nobody's but its own.
    let third = post(&stage.daemon, &json!({"name": "twin", "type": HTTP, "port": 3}));
    assert_eq!(third["advertised_name"], "twin");
    stage.zeroconf.wait_for(|seen| seen.is(Change::Added, "twin") && seen.port == Some(3), LIMIT);
    unregister(&mut second, &two);
    stage.wait_removed("twin (2)");
    let goodbyes = stage.sniffer.goodbyes();
    let last_of_twin = goodbyes.iter().rposition(|name| *name == full("twin"));
    let first_of_two = goodbyes.iter().position(|name| *name == full("twin (2)"));
    assert!(last_of_twin < first_of_two, "each is withdrawn in its own time: {goodbyes:?}");
}
