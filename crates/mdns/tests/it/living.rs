//! The life of many services beside each other, judged on the wire: goodbyes that are not late, updates that take
//! nothing away, survivors that nobody touches, and goodbyes that wait for their link.

use std::collections::HashMap;
use std::net::Ipv6Addr;

use tenure_mdns::{Goodbye, Service};

use crate::dns::{FLUSH, Item, Kind, instance};
use crate::loopback;
use crate::on_a_lan::{block_on, start_on, wait_advertised, withdraw};
use crate::peers::feed::{LIMIT, monotonic_ns, wait_until};
use crate::peers::netns::{INTERFACE, Lan};
use crate::station::Station;

const HTTP: &str = "_http._tcp";

#[test]
fn a_thousand_goodbyes_leave_within_a_second_and_are_said_twice() {
    let lan = Lan::new(&["ours", "witness"]);
    let station = Station::start(lan.host("witness"));
    let ours = start_on(lan.host("ours"));
    let named = |key: u16| match key % 2 {
        0 => loopback::service(&format!("Mass {key}"), key),
        _ => loopback::service(&format!("Mass 1.{key}"), key),
    };
    (1..=1_000).for_each(|key| ours.advertise(key.into(), named(key)));
    (1..=1_000).for_each(|key| wait_advertised(&ours, key));
    station.wait_for_rest();
    let (mark, asked_ns) = (station.heard.len(), monotonic_ns());
    let withdrawals: Vec<_> = (1..=1_000).map(|key| ours.withdraw(key.into(), named(key))).collect();
    for withdrawal in withdrawals {
        assert_eq!(block_on(withdrawal), Goodbye::Sent);
    }
    // When each was said.
    let said = || {
        let mut said: HashMap<String, Vec<u64>> = HashMap::new();
        for (heard, item) in station.records(mark).into_iter().filter(|(_, item)| item.ttl == 0) {
            if let Kind::Ptr(target) = item.kind
                && item.name == "_http._tcp.local"
            {
                said.entry(target).or_default().push(heard.at_ns);
            }
        }
        said
    };
    wait_until("all, twice", LIMIT, || {
        let said = said();
        said.len() == 1_000 && said.values().all(|times| times.len() >= 2)
    });
    let last_ns = said().values().map(|times| times[0]).max().unwrap() - asked_ns;
    assert!(last_ns < 1_000_000_000, "the last one left after {last_ns} ns");
    assert_eq!(ours.health().goodbyes_sent, 1_000);
}

#[test]
fn updates_in_place_replace_and_never_withdraw() {
    let lan = Lan::with_ipv6(&["ours", "witness"]);
    let station = Station::start(lan.host("witness"));
    let ours = start_on(lan.host("ours"));
    let names = ["Stone", "dotted 1.2"];
    let version = |name: &str, number: u16| Service {
        txt: vec![("version".to_owned(), Some(number.to_string().into_bytes()))],
        ..loopback::service(name, 80)
    };
    // All records of a service that say which version it is of.
    let versions = |name: &str| -> Vec<Item> {
        let said = station.records(0).into_iter().map(|(_, item)| item);
        said.filter(|item| item.name == instance(name, HTTP).join(".") && matches!(item.kind, Kind::Txt(_)))
            .collect()
    };
    for number in 1..=20_u16 {
        let text = format!("version={number}");
        let data = Kind::Txt([&[text.len() as u8], text.as_bytes()].concat());
        for (key, name) in (1..).zip(names) {
            ours.advertise(key, version(name, number));
            wait_until("the new version on the wire", LIMIT, || {
                versions(name).iter().any(|item| item.kind == data && item.class == FLUSH && item.ttl > 0)
            });
        }
    }
    station.wait_for_rest();
    for (key, name) in (1..).zip(names) {
        let last = versions(name).pop().unwrap();
        assert_eq!(last.kind, Kind::Txt(b"\x0aversion=20".to_vec()));
        assert_eq!(ours.standing(key).name.as_deref(), Some(name));
    }
    let gone: Vec<Item> =
        station.records(0).into_iter().map(|(_, item)| item).filter(|item| item.ttl == 0).collect();
    assert!(gone.is_empty(), "{gone:?}");
    withdraw(&ours, 1, version(names[0], 20));
    wait_until("a goodbye in the end", LIMIT, || {
        station.records(0).iter().any(|(_, item)| item.ttl == 0 && item.points_to(names[0]))
    });
}

/// Each change of one had everything announced again, and one that came first in order had everything probed for anew.
#[test]
fn temporary_addresses_come_and_go_and_nothing_is_said_of_them() {
    let lan = Lan::with_ipv6(&["ours", "witness"]);
    let (host, station) = (lan.host("ours"), Station::start(lan.host("witness")));
    let ours = start_on(host);
    let service = loopback::service("web", 80);
    ours.advertise(1, service.clone());
    wait_advertised(&ours, 1);
    // Last in order of its network, so that the temporary one comes first.
    let lasting: Ipv6Addr = "2001:db8::ffff:ffff:ffff:ffff".parse().unwrap();
    host.add_lasting_and_temporary(lasting);
    let is_told = |item: &Item| item.kind == Kind::Aaaa(lasting) && item.ttl > 0;
    wait_until("the new address", LIMIT, || station.records(0).iter().any(|(_, item)| is_told(item)));
    station.wait_for_rest();
    let mark = station.heard.len();
    host.remove_temporary();
    // What takes longer than to notice it.
    ours.advertise(2, loopback::service("later", 81));
    let told_of_later = || station.records(mark).iter().filter(|(_, item)| item.points_to("later")).count();
    wait_until("both announcements over both families", LIMIT, || told_of_later() >= 4);
    let of_web = |item: &Item| {
        item.points_to("web") || item.name == instance("web", HTTP).join(".") || item.label == service.host
    };
    let messages = station.since(mark).into_iter().map(|(_, message)| message);
    let said: Vec<Item> = messages.flat_map(|message| message.items).filter(of_web).collect();
    assert!(said.is_empty(), "{said:?}");
    let is_lasting =
        |ip: &Ipv6Addr| *ip == lasting || Some(*ip) == host.address6() || ip.is_unicast_link_local();
    for (_, item) in station.records(0) {
        assert!(!matches!(&item.kind, Kind::Aaaa(ip) if !is_lasting(ip)), "{item:?}");
    }
}

#[test]
fn nothing_of_a_survivor_is_withdrawn_when_others_go() {
    let lan = Lan::with_ipv6(&["ours", "witness"]);
    let station = Station::start(lan.host("witness"));
    let ours = start_on(lan.host("ours"));
    let named = |key: u16| {
        let name = if key % 4 < 2 { format!("one of {key}") } else { format!("one 1.{key}") };
        Service { subtypes: vec!["_red".to_owned()], ..loopback::service(&name, key) }
    };
    (1..=60).for_each(|key| ours.advertise(key.into(), named(key)));
    (1..=60).for_each(|key| wait_advertised(&ours, key));
    station.wait_for_rest();
    let mark = station.heard.len();
    let leavers = (1..=60).filter(|key| key % 2 == 1);
    let withdrawals: Vec<_> = leavers.clone().map(|key| ours.withdraw(key.into(), named(key))).collect();
    withdrawals.into_iter().for_each(|withdrawal| assert_eq!(block_on(withdrawal), Goodbye::Sent));
    station.wait_for_rest();
    let gone: Vec<Item> =
        station.records(mark).into_iter().map(|(_, item)| item).filter(|item| item.ttl == 0).collect();
    for key in leavers {
        assert!(gone.iter().any(|item| item.points_to(&named(key).name)), "{key} said no goodbye");
    }
    for key in (1..=60).filter(|key| key % 2 == 0) {
        let Service { name, host, .. } = named(key);
        let is_its = |item: &&Item| {
            item.points_to(&name)
                || item.name == instance(&name, HTTP).join(".")
                || item.name == format!("{host}.local")
        };
        assert_eq!(gone.iter().filter(is_its).count(), 0, "{name} was touched");
        assert!(ours.standing(key.into()).advertised);
    }
    // The type is there as long as one service of it is.
    let types = gone.iter().filter(|item| item.name == "_services._dns-sd._udp.local");
    assert_eq!(types.count(), 0);
}

#[test]
fn a_goodbye_that_a_link_owes_is_said_when_the_link_is_back() {
    let lan = Lan::new(&["ours", "witness"]);
    let (host, station) = (lan.host("ours"), Station::start(lan.host("witness")));
    let ours = start_on(host);
    let services = ["Stone", "dotted 1.2"].map(|name| loopback::service(name, 80));
    for (key, service) in (1..).zip(&services) {
        ours.advertise(key, service.clone());
        wait_advertised(&ours, key);
    }
    station.wait_for_rest();
    host.link_down();
    wait_until("the link is missed", LIMIT, || ours.health().interfaces.is_empty());
    for (key, service) in (1..).zip(&services) {
        assert!(matches!(block_on(ours.withdraw(key, service.clone())), Goodbye::Unsent(_)));
    }
    let mark = station.heard.len();
    host.link_up();
    wait_until("the link is used", LIMIT, || {
        ours.health().interfaces.iter().any(|line| line.starts_with(INTERFACE))
    });
    // Whoever was told that it was not said asks again.
    for (key, service) in (1..).zip(&services) {
        wait_until("it is said", LIMIT, || block_on(ours.withdraw(key, service.clone())) == Goodbye::Sent);
        wait_until("it is heard", LIMIT, || {
            station.records(mark).iter().any(|(_, item)| item.ttl == 0 && item.points_to(&service.name))
        });
    }
    station.wait_for_rest();
    for service in &services {
        let last = station.records(mark).into_iter().rev().find(|(_, item)| item.points_to(&service.name));
        assert_eq!(last.unwrap().1.ttl, 0, "{} came back", service.name);
    }
}
