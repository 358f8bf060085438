//! Announcing, updating and naming on loopback, seen by the raw observer and by a second engine.

use std::net::{IpAddr, Ipv4Addr};

use tenure_mdns::{Goodbye, Service, Standing};

use crate::loopback::{free_port, http, service, start, wait_advertised, wait_resolved, wait_until};
use crate::observer::{Kind, Observer, Section};

#[tokio::test]
async fn a_service_is_probed_for_then_announced_twice_and_resolved_by_another() {
    let port = free_port();
    let (observer, ours, theirs) = (Observer::new(port), start(port), start(port));
    let mut browse = theirs.browse(http());
    ours.advertise(1, service("stone", 8080));
    let record = wait_resolved(&mut browse, "stone").await;
    assert_eq!(record.host.as_deref(), Some("h-stone-8080.local"));
    assert_eq!(record.port, Some(8080));
    assert_eq!(record.addresses, [IpAddr::V4(Ipv4Addr::LOCALHOST)]);
    assert_eq!(record.txt, [("path".to_owned(), Some(b"/".to_vec()))]);
    wait_advertised(&ours, 1).await;
    let standing = Standing { advertised: true, name: Some("stone".to_owned()), last_error: None };
    assert_eq!(ours.standing(1), standing);
    assert_eq!(observer.probes("stone"), 3);
    wait_until("a second announcement", || observer.announcements("stone") >= 2).await;
}

#[tokio::test]
async fn its_own_browse_sees_its_own_services() {
    let ours = start(free_port());
    let mut browse = ours.browse(http());
    ours.advertise(1, service("mirror", 1));
    wait_resolved(&mut browse, "mirror").await;
}

#[tokio::test]
async fn names_with_capitals_are_announced_a_second_time() {
    let port = free_port();
    let (observer, ours) = (Observer::new(port), start(port));
    ours.advertise(1, service("Büro ÄÖ", 1));
    wait_until("a second announcement", || observer.announcements("Büro ÄÖ") >= 2).await;
}

#[tokio::test]
async fn an_update_reaches_peers_at_once_without_probing_or_removal() {
    let port = free_port();
    let (observer, ours, theirs) = (Observer::new(port), start(port), start(port));
    let mut browse = theirs.browse(http());
    ours.advertise(1, service("stone", 8080));
    wait_resolved(&mut browse, "stone").await;
    wait_advertised(&ours, 1).await;
    let changed = Service { port: 8081, txt: vec![("flag".to_owned(), None)], ..service("stone", 8080) };
    ours.advertise(1, changed.clone());
    let record = loop {
        let record = wait_resolved(&mut browse, "stone").await;
        if record.port == Some(8081) && record.txt == changed.txt {
            break record;
        }
    };
    assert_eq!(record.txt, [("flag".to_owned(), None)]);
    assert_eq!(observer.probes("stone"), 3);
    assert_eq!(observer.goodbyes("stone"), 0);
    assert!(ours.standing(1).advertised);
}

#[tokio::test]
async fn an_update_while_probing_is_what_is_announced_in_the_end() {
    let port = free_port();
    let (observer, ours, theirs) = (Observer::new(port), start(port), start(port));
    let mut browse = theirs.browse(http());
    ours.advertise(1, service("stone", 1));
    wait_until("a probe", || observer.probes("stone") > 0).await;
    ours.advertise(1, Service { port: 2, ..service("stone", 1) });
    while wait_resolved(&mut browse, "stone").await.port != Some(2) {}
    assert_eq!(ours.standing(1).name.as_deref(), Some("stone"));
    assert_eq!(observer.goodbyes("stone"), 0);
}

#[tokio::test]
async fn twenty_updates_in_a_row_end_with_the_last_and_keep_the_name() {
    let port = free_port();
    let (observer, ours, theirs) = (Observer::new(port), start(port), start(port));
    let mut browse = theirs.browse(http());
    ours.advertise(1, service("Stone", 1));
    wait_advertised(&ours, 1).await;
    for number in 2..=21 {
        ours.advertise(1, Service { port: number, ..service("Stone", 1) });
    }
    while wait_resolved(&mut browse, "Stone").await.port != Some(21) {}
    // Back to what was said less than a second ago, which the engine's own limit would hold back.
    ours.advertise(1, Service { port: 20, ..service("Stone", 1) });
    while wait_resolved(&mut browse, "Stone").await.port != Some(20) {}
    assert_eq!(ours.standing(1).name.as_deref(), Some("Stone"));
    assert_eq!(observer.goodbyes("Stone"), 0);
}

#[tokio::test]
async fn the_same_key_with_another_name_says_goodbye_and_announces_the_new_one() {
    let port = free_port();
    let (observer, ours, theirs) = (Observer::new(port), start(port), start(port));
    let mut browse = theirs.browse(http());
    ours.advertise(1, service("old", 1));
    wait_resolved(&mut browse, "old").await;
    ours.advertise(1, Service { name: "new".to_owned(), ..service("old", 1) });
    // Two listeners, because the order of the two sightings is not said.
    let mut another = theirs.browse(http());
    crate::loopback::wait_removed(&mut browse, "old").await;
    wait_resolved(&mut another, "new").await;
    assert_eq!(observer.goodbyes("new"), 0);
    wait_until("a goodbye and its repeat", || observer.goodbyes("old") == 2).await;
}

#[tokio::test]
async fn dots_backslashes_umlauts_and_sixty_three_bytes_round_trip_and_can_be_withdrawn() {
    let port = free_port();
    let (observer, ours, theirs) = (Observer::new(port), start(port), start(port));
    let mut browse = theirs.browse(http());
    let long = format!("{}ü", "x".repeat(61));
    let names = ["a.b", "Dot.ted. Name", "back\\slash\\", "Ünïcode ☃", long.as_str(), "x._http._tcp.local"];
    for (key, name) in (1..).zip(names) {
        ours.advertise(key, service(name, u16::try_from(key).unwrap()));
        assert_eq!(wait_resolved(&mut browse, name).await.port, Some(u16::try_from(key).unwrap()));
    }
    for (key, name) in (1..).zip(names) {
        let gone = ours.withdraw(key, service(name, u16::try_from(key).unwrap())).await;
        assert_eq!(gone, Goodbye::Sent, "{name}");
        crate::loopback::wait_removed(&mut browse, name).await;
        wait_until("a goodbye and its repeat", || observer.goodbyes(name) == 2).await;
    }
}

#[tokio::test]
async fn what_is_no_label_never_reaches_the_engine() {
    let port = free_port();
    let (observer, ours) = (Observer::new(port), start(port));
    ours.advertise(1, service(&"x".repeat(64), 1));
    wait_until("an error", || ours.standing(1).last_error.is_some()).await;
    assert!(!ours.standing(1).advertised);
    let gone = ours.withdraw(1, service(&"x".repeat(64), 1)).await;
    assert!(matches!(gone, Goodbye::Unsent(_)), "{gone:?}");
    ours.advertise(2, service("fine", 2));
    wait_advertised(&ours, 2).await;
    assert!(observer.heard().iter().all(|heard| !heard.label.starts_with("xxx")));
}

#[tokio::test]
async fn services_of_one_type_do_not_touch_each_other() {
    let port = free_port();
    let (observer, ours, theirs) = (Observer::new(port), start(port), start(port));
    let mut browse = theirs.browse(http());
    ours.advertise(1, service("stays", 1));
    ours.advertise(2, service("goes", 2));
    wait_resolved(&mut browse, "goes").await;
    wait_advertised(&ours, 1).await;
    assert_eq!(ours.withdraw(2, service("goes", 2)).await, Goodbye::Sent);
    crate::loopback::wait_removed(&mut browse, "goes").await;
    let withdrawn: Vec<_> = observer
        .heard()
        .into_iter()
        .filter(|heard| heard.ttl == 0 && heard.section == Section::Answer)
        .collect();
    assert!(withdrawn.iter().any(|heard| heard.name == "h-goes-2.local" && matches!(heard.kind, Kind::A(_))));
    assert!(withdrawn.iter().all(|heard| !heard.name.contains("stays")));
    assert!(ours.standing(1).advertised);
}

#[tokio::test]
async fn an_address_of_its_own_is_announced_and_one_nobody_has_is_reported() {
    let port = free_port();
    let (ours, theirs) = (start(port), start(port));
    let mut browse = theirs.browse(http());
    ours.advertise(1, Service { ip: Some([127, 0, 0, 7].into()), ..service("own", 1) });
    assert_eq!(wait_resolved(&mut browse, "own").await.addresses, [IpAddr::from([127, 0, 0, 7])]);
    let nowhere = Service { ip: Some([192, 0, 2, 7].into()), ..service("nowhere", 2) };
    ours.advertise(2, nowhere.clone());
    wait_until("an error", || ours.standing(2).last_error.is_some()).await;
    assert!(!ours.standing(2).advertised);
    // No host was told of it: nothing is left to withdraw.
    assert!(matches!(ours.withdraw(2, nowhere).await, Goodbye::Unneeded(_)));
    assert_eq!(ours.health().goodbyes_sent, 0);
}

#[tokio::test]
async fn a_subtype_is_found_by_those_who_look_for_it() {
    let port = free_port();
    let (ours, theirs) = (start(port), start(port));
    let subtype = tenure_mdns::Wanted::Subtype {
        subtype: "_printer".to_owned(),
        service_type: "_http._tcp".to_owned(),
    };
    let mut browse = theirs.browse(subtype);
    ours.advertise(1, service("plain", 1));
    ours.advertise(2, Service { subtypes: vec!["_printer".to_owned()], ..service("special", 2) });
    let first = browse.next().await;
    assert!(matches!(first, Some(tenure_mdns::Sighting::Found { name, .. }) if name == "special"));
    assert_eq!(wait_resolved(&mut browse, "special").await.service_type, "_http._tcp");
    ours.withdraw(2, Service { subtypes: vec!["_printer".to_owned()], ..service("special", 2) }).await;
    crate::loopback::wait_removed(&mut browse, "special").await;
}

#[tokio::test]
async fn a_name_of_another_key_waits_until_it_is_free() {
    let port = free_port();
    let (ours, theirs) = (start(port), start(port));
    let mut browse = theirs.browse(http());
    ours.advertise(1, service("one", 1));
    wait_advertised(&ours, 1).await;
    ours.advertise(2, service("ONE", 2));
    wait_until("an error", || ours.standing(2).last_error.is_some()).await;
    assert!(!ours.standing(2).advertised);
    assert_eq!(ours.withdraw(1, service("one", 1)).await, Goodbye::Sent);
    wait_advertised(&ours, 2).await;
    while wait_resolved(&mut browse, "ONE").await.port != Some(2) {}
    assert_eq!(ours.standing(2).last_error, None);
}

#[tokio::test]
async fn questions_for_any_name_are_answered() {
    let port = free_port();
    let (observer, ours) = (Observer::new(port), start(port));
    for (key, name) in (1..).zip(["plain", "CAPITALS Ü", "Dot.ted. Name", "back\\slash"]) {
        ours.advertise(key, service(name, u16::try_from(key).unwrap()));
        wait_until("both announcements", || observer.announcements(name) >= 2).await;
        let servers = || {
            let is_server = |heard: &&crate::observer::Heard| {
                heard.label == name
                    && heard.section == Section::Answer
                    && matches!(heard.kind, Kind::Srv { .. })
            };
            observer.heard().iter().filter(is_server).count()
        };
        let before = servers();
        // Within a second of the announcement nobody may answer, so it is asked until one does.
        wait_until("an answer", || {
            observer.ask(&[name, "_http", "_tcp", "local"], 33);
            servers() > before
        })
        .await;
    }
}

#[tokio::test]
async fn a_service_that_another_host_withdraws_is_announced_again() {
    let port = free_port();
    let (observer, ours, theirs) = (Observer::new(port), start(port), start(port));
    ours.advertise(1, service("Ours", 1));
    wait_until("both announcements", || observer.announcements("Ours") >= 2).await;
    let before = observer.announcements("Ours");
    observer.withdraw("Ours");
    wait_until("another announcement", || observer.announcements("Ours") > before).await;
    wait_resolved(&mut theirs.browse(http()), "Ours").await;
}
