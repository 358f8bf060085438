//! Somebody else on the network has the name already: what is ours takes another, says so, and ends alone.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::peers::feed::LIMIT;
use super::peers::{Change, Seen, Service};
use super::stage::{HTTP, Stage, full, inspect, register, unregister, wait_advertised};
use crate::run_support::wait_until;

/// Registers a name that a peer has published, and ends it again.
fn meets_a_conflict(stage: &Stage, name: &str, port: u16) {
    let mut registrant = stage.daemon.lines();
    let ours = register(&mut registrant, json!({"name": name, "type": HTTP, "port": port}));
    wait_until("another name", LIMIT, || inspect(&stage.daemon, &ours)["advertised_name"] != name);
    let shown = wait_advertised(&stage.daemon, &ours);
    let advertised = shown["advertised_name"].as_str().unwrap();
    for seen in stage.wait_added(advertised) {
        assert_eq!(
            (seen.port, seen.addresses.as_slice()),
            (Some(port), [stage.address()].as_slice()),
            "{seen:?}"
        );
    }
    assert_eq!(shown["name"], name, "what was asked for is remembered: {shown}");
    assert_eq!(shown["last_error"], json!(null), "{shown}");

    // A change goes where the service is.
    register(&mut registrant, json!({"name": name, "type": HTTP, "port": port + 1}));
    let is_changed = |seen: &Seen| seen.is(Change::Updated, advertised) && seen.port == Some(port + 1);
    stage.zeroconf.wait_for(is_changed, LIMIT);
    assert_eq!(stage.sniffer.goodbyes(), [""; 0]);

    unregister(&mut registrant, &ours);
    stage.wait_removed(advertised);
    // Whatever else is said is said by the time of the repeat.
    wait_until("a goodbye and its repeat", LIMIT, || {
        stage.sniffer.goodbyes().iter().filter(|name| **name == full(advertised)).count() >= 2
    });
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
fn a_name_of_sixty_three_bytes_that_avahi_has_still_fits_with_a_number() {
    let stage = Stage::begin();
    let name = format!("{}ß", "x".repeat(61));
    let _theirs = stage.avahi.publish(&Service { name: &name, service_type: HTTP, port: 9, txt: &[] });
    stage.zeroconf.wait_for(|seen| seen.is(Change::Added, &name), LIMIT);
    meets_a_conflict(&stage, &name, 1);
}

/// How long one question may take.
const SHORT: Duration = Duration::from_secs(1);

#[test]
fn numbers_given_here_and_numbers_taken_elsewhere_do_not_meet() {
    let mut stage = Stage::begin();
    stage.zeroconf.register(&Service { name: "web (2)", service_type: HTTP, port: 9, txt: &[] });
    stage.avahi.wait_for(|seen| seen.is(Change::Added, "web (2)"), LIMIT);
    let mut registrants = [(); 3].map(|()| stage.daemon.lines());
    let ours: Vec<Value> = (1..)
        .zip(&mut registrants)
        .map(|(port, lines)| register(lines, json!({"name": "web", "type": HTTP, "port": port})))
        .collect();
    let daemon = &stage.daemon;
    let name_of = |ours: &Value| inspect(daemon, ours)["advertised_name"].as_str().unwrap().to_owned();
    let mut names = Vec::new();
    wait_until("each to be found at its port under a name of its own", LIMIT, || {
        names = ours.iter().map(name_of).collect();
        // Asked for, because zeroconf does not tell when a record that it had before counts again.
        let mut is_found = |(port, name): (u16, &String)| {
            stage.zeroconf.resolve(name, HTTP, SHORT).is_some_and(|found| found.port == Some(port))
        };
        names.iter().collect::<BTreeSet<_>>().len() == 3 && (1..).zip(&names).all(&mut is_found)
    });
    assert!(!names.contains(&"web (2)".to_owned()), "{names:?}");
    for (at, (lines, ours)) in registrants.iter_mut().zip(&ours).enumerate() {
        unregister(lines, ours);
        stage.wait_removed(&names[at]);
        assert!(names[at + 1..].iter().all(|name| !stage.was_removed(name)), "{names:?}");
    }
    assert!(!stage.was_removed("web (2)"));
}

#[test]
fn a_name_of_ours_stays_ours_when_others_come_for_it() {
    let stage = Stage::begin();
    let mut registrant = stage.daemon.lines();
    let ours = register(&mut registrant, json!({"name": "web", "type": HTTP, "port": 1}));
    stage.wait_added("web");
    wait_advertised(&stage.daemon, &ours);
    let mut publisher = stage.avahi.publish(&Service { name: "web", service_type: HTTP, port: 9, txt: &[] });
    assert_eq!(publisher.name(), "web #2");
    publisher.end();
    let shown = inspect(&stage.daemon, &ours);
    assert_eq!((&shown["advertised_name"], &shown["advertised"]), (&json!("web"), &json!(true)), "{shown}");
    assert!(!stage.was_removed("web"));
}
