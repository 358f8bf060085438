//! Looking at the network on loopback: sharing, late joiners, slow listeners, and coming back.

use tenure_mdns::{Mdns, Service, Sighting, Wanted};

use crate::loopback::{
    LIMIT, free_port, http, service, start, wait_advertised, wait_for, wait_removed, wait_resolved,
    wait_until,
};
use crate::observer::{Kind, Observer, Section};

fn queries(observer: &Observer) -> usize {
    let is_query = |heard: &crate::observer::Heard| {
        heard.section == Section::Question && heard.label == "_http" && heard.kind == Kind::Other(12)
    };
    observer.heard().into_iter().filter(is_query).count()
}

#[tokio::test]
async fn a_late_joiner_is_told_what_is_known_without_another_query() {
    let port = free_port();
    let (observer, ours, theirs) = (Observer::new(port), start(port), start(port));
    let mut first = theirs.browse(http());
    ours.advertise(1, service("known", 1));
    wait_resolved(&mut first, "known").await;
    let before = queries(&observer);
    for _ in 0..20 {
        let mut late = theirs.browse(http());
        assert!(matches!(late.next().await, Some(Sighting::Found { name, .. }) if name == "known"));
        assert!(matches!(late.next().await, Some(Sighting::Resolved(record)) if record.port == Some(1)));
    }
    assert!(queries(&observer) <= before + 1, "one may have been due");
}

#[tokio::test]
async fn a_record_is_told_again_only_when_it_changed() {
    let port = free_port();
    let (observer, ours, theirs) = (Observer::new(port), start(port), start(port));
    let mut browse = theirs.browse(http());
    ours.advertise(1, service("Calm", 1));
    wait_resolved(&mut browse, "Calm").await;
    wait_until("a second announcement", || observer.announcements("Calm") >= 2).await;
    ours.advertise(2, service("other", 2));
    // All that is told until the other one is there is about the other one.
    let is_calm =
        |sighting: &Sighting| matches!(sighting, Sighting::Resolved(record) if record.name == "Calm");
    wait_for(&mut browse, "the other one", |sighting| {
        assert!(!is_calm(sighting), "{sighting:?}");
        matches!(sighting, Sighting::Resolved(record) if record.name == "other")
    })
    .await;
}

#[tokio::test]
async fn a_slow_listener_stalls_nobody_and_is_brought_up_to_date() {
    let port = free_port();
    let (ours, theirs) = (start(port), start(port));
    let (mut slow, mut quick) = (theirs.browse(http()), theirs.browse(http()));
    ours.advertise(1, service("stays", 1));
    ours.advertise(2, service("goes", 2));
    wait_resolved(&mut quick, "goes").await;
    // It takes one sighting and then nothing for a while.
    assert!(slow.next().await.is_some());
    for number in 3..=30 {
        ours.advertise(1, Service { port: number, ..service("stays", 1) });
        while wait_resolved(&mut quick, "stays").await.port != Some(number) {}
    }
    ours.withdraw(2, service("goes", 2)).await;
    wait_removed(&mut quick, "goes").await;
    // Of "goes" it either hears both or nothing, and of "stays" only what is so now.
    let mut heard = Vec::new();
    let is_last =
        |s: &Sighting| matches!(s, Sighting::Resolved(r) if r.name == "stays" && r.port == Some(30));
    while !heard.last().is_some_and(is_last) {
        heard.push(tokio::time::timeout(LIMIT, slow.next()).await.unwrap().unwrap());
    }
    assert!(heard.len() <= 4, "{heard:?}");
    ours.advertise(3, service("end", 3));
    wait_for(&mut slow, "the end", |sighting| {
        assert!(!matches!(sighting, Sighting::Resolved(record) if record.name == "goes"));
        matches!(sighting, Sighting::Resolved(record) if record.name == "end")
    })
    .await;
}

#[tokio::test]
async fn the_last_listener_ends_the_query_and_the_next_one_begins_another() {
    let port = free_port();
    let (observer, ours, theirs) = (Observer::new(port), start(port), start(port));
    let mut browse = theirs.browse(http());
    ours.advertise(1, service("first", 1));
    wait_resolved(&mut browse, "first").await;
    for round in 2..=6u16 {
        drop(browse);
        let before = queries(&observer);
        browse = theirs.browse(http());
        let name = format!("round {round}");
        ours.advertise(u128::from(round), service(&name, round));
        assert_eq!(wait_resolved(&mut browse, &name).await.port, Some(round));
        wait_until("a query", || queries(&observer) > before).await;
    }
}

#[tokio::test]
async fn the_types_on_the_network_are_told() {
    let port = free_port();
    let (ours, theirs) = (start(port), start(port));
    ours.advertise(1, service("a", 1));
    ours.advertise(2, Service { service_type: "_ipp._tcp".to_owned(), ..service("b", 2) });
    wait_advertised(&ours, 1).await;
    wait_advertised(&ours, 2).await;
    let mut browse = theirs.browse(Wanted::Types);
    let mut types = Vec::new();
    while types.len() < 2 {
        let sighting = tokio::time::timeout(LIMIT, browse.next()).await.unwrap();
        match sighting {
            Some(Sighting::TypeFound(found)) => types.push(found),
            other => panic!("{other:?}"),
        }
    }
    types.sort_unstable();
    assert_eq!(types, ["_http._tcp", "_ipp._tcp"]);
}

#[tokio::test]
async fn what_cannot_exist_is_not_looked_for() {
    let mdns: Mdns = start(free_port());
    assert_eq!(mdns.browse(Wanted::Type("nonsense".to_owned())).next().await, None);
    assert!(mdns.health().interfaces.iter().all(|interface| interface.starts_with("lo 127.")));
}

#[tokio::test]
async fn a_thousand_services_are_all_found_and_all_seen_to_go() {
    let port = free_port();
    let (ours, theirs) = (start(port), start(port));
    let mut browse = theirs.browse(http());
    let named = |key: u16| service(&format!("crowd {key}"), key);
    (1..=1_000).for_each(|key| ours.advertise(u128::from(key), named(key)));
    let mut present = std::collections::BTreeSet::new();
    let count = async {
        while present.len() < 1_000 {
            match browse.next().await.unwrap() {
                Sighting::Resolved(record) => drop(present.insert(record.name)),
                Sighting::Removed { name, .. } => drop(present.remove(&name)),
                _ => {}
            }
        }
    };
    assert!(tokio::time::timeout(LIMIT * 2, count).await.is_ok(), "only {}", present.len());
    let gone: Vec<_> = (1..=1_000).map(|key| ours.withdraw(u128::from(key), named(key))).collect();
    for goodbye in gone {
        goodbye.await;
    }
    let count = async {
        while !present.is_empty() {
            match browse.next().await.unwrap() {
                Sighting::Resolved(record) => drop(present.insert(record.name)),
                Sighting::Removed { name, .. } => drop(present.remove(&name)),
                _ => {}
            }
        }
    };
    assert!(tokio::time::timeout(LIMIT * 2, count).await.is_ok(), "still {}", present.len());
}
