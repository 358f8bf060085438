//! Among peers that are not ours, in networks of the tests' own: Avahi and zeroconf are the judges.

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tenure_mdns::{Browse, Goodbye, Interface, Mdns, Options, PORT, Service, Sighting, Wanted};

use crate::loopback;
use crate::peers::avahi::Avahi;
use crate::peers::feed::wait_until;
use crate::peers::netns::{Host, INTERFACE, Lan, SECOND_INTERFACE};
use crate::peers::zeroconf::{Record, Sniffer, Zeroconf};
use crate::peers::{Change, Seen, Service as Theirs};

const SOON: Duration = Duration::from_secs(30);
const HTTP: &str = "_http._tcp";

/// Does something on a host. Threads and sockets keep the network of the thread that makes them.
pub(crate) fn on<T: Send>(host: &Host, act: impl FnOnce() -> T + Send) -> T {
    let command = host.command("true");
    let namespace = command.get_args().nth(2).unwrap().to_owned();
    let act = move || {
        let place = File::open(std::path::Path::new("/run/netns").join(namespace)).unwrap();
        move_into_link_name_space(place.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        act()
    };
    std::thread::scope(|scope| scope.spawn(act).join().unwrap())
}

/// An engine of ours on a host.
pub(crate) fn start_on(host: &Host) -> Mdns {
    let interfaces = vec![Interface::Name(INTERFACE.to_owned())];
    on(host, || Mdns::start(Options { interfaces, port: PORT }).unwrap())
}

fn service(name: &str, port: u16) -> Service {
    loopback::service(name, port)
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

pub(crate) fn withdraw(mdns: &Mdns, key: u128, service: Service) {
    assert_eq!(block_on(mdns.withdraw(key, service)), Goodbye::Sent);
}

pub(crate) fn wait_advertised(mdns: &Mdns, key: u128) {
    wait_until("it is advertised", SOON, || mdns.standing(key).advertised);
}

fn resolved(browse: &mut Browse, name: &str) -> tenure_mdns::Record {
    block_on(loopback::wait_resolved(browse, name))
}

/// Avahi on its host and zeroconf on another, both browsing for HTTP.
fn judges(lan: &Lan) -> (Avahi, Zeroconf) {
    let mut avahi = Avahi::start(lan.host("avahi"));
    avahi.browse(HTTP);
    let mut zeroconf = Zeroconf::start(lan.host("zeroconf"));
    zeroconf.browse(HTTP);
    (avahi, zeroconf)
}

fn lan() -> Lan {
    Lan::new(&["ours", "avahi", "zeroconf"])
}

fn count(events: &[Seen], change: Change, name: &str) -> usize {
    events.iter().filter(|seen| seen.is(change, name)).count()
}

#[test]
fn a_survivor_does_not_flicker_when_another_service_goes() {
    let lan = lan();
    let sniffer = Sniffer::start(lan.host("zeroconf"));
    let (avahi, zeroconf) = judges(&lan);
    let ours = start_on(lan.host("ours"));
    for (key, name) in [(1, "Survivor"), (2, "leaver")] {
        ours.advertise(key, service(name, u16::try_from(key).unwrap()));
        avahi.wait_for(|seen| seen.is(Change::Added, name), SOON);
        zeroconf.wait_for(|seen| seen.is(Change::Added, name), SOON);
    }
    withdraw(&ours, 2, service("leaver", 2));
    avahi.wait_for(|seen| seen.is(Change::Removed, "leaver"), SOON);
    zeroconf.wait_for(|seen| seen.is(Change::Removed, "leaver"), SOON);
    // What comes later was told later: whatever the goodbye did has been done by then.
    ours.advertise(3, service("later", 3));
    avahi.wait_for(|seen| seen.is(Change::Added, "later"), SOON);
    zeroconf.wait_for(|seen| seen.is(Change::Added, "later"), SOON);
    for events in [avahi.events(), zeroconf.events()] {
        assert_eq!(count(&events, Change::Removed, "Survivor"), 0);
        assert_eq!(count(&events, Change::Added, "Survivor"), 1);
        assert_eq!(count(&events, Change::Updated, "Survivor"), 0);
    }
    // Nor was its address withdrawn, which a peer shows only to those who ask at that moment.
    let survivor = service("Survivor", 1);
    let records = sniffer.records();
    let is_its = |record: &&Record| record.is_response && record.name == format!("{}.local.", survivor.host);
    let ttls: Vec<u32> = records.iter().filter(is_its).map(|record| record.ttl).collect();
    assert!(!ttls.is_empty() && ttls.iter().all(|ttl| *ttl > 0), "{ttls:?}");
}

#[test]
fn an_update_reaches_peers_without_a_removal() {
    let lan = lan();
    let (avahi, zeroconf) = judges(&lan);
    let ours = start_on(lan.host("ours"));
    ours.advertise(1, service("Stone", 8080));
    avahi.wait_for(|seen| seen.is(Change::Added, "Stone"), SOON);
    let added = zeroconf.wait_for(|seen| seen.is(Change::Added, "Stone"), SOON);
    assert_eq!(added.addresses, [IpAddr::V4(lan.host("ours").address())]);
    assert_eq!(added.txt_text(), ["path=/"]);
    wait_advertised(&ours, 1);
    let txt = vec![("path".to_owned(), Some(b"/new".to_vec())), ("flag".to_owned(), None)];
    ours.advertise(1, Service { port: 8081, txt, ..service("Stone", 8080) });
    let is_new = |seen: &Seen| {
        seen.is(Change::Updated, "Stone")
            && seen.port == Some(8081)
            && seen.txt_text() == ["path=/new", "flag"]
    };
    zeroconf.wait_for(is_new, SOON);
    withdraw(&ours, 1, service("Stone", 8080));
    avahi.wait_for(|seen| seen.is(Change::Removed, "Stone"), SOON);
    zeroconf.wait_for(|seen| seen.is(Change::Removed, "Stone"), SOON);
    // Once, at the end.
    assert_eq!(count(&avahi.events(), Change::Removed, "Stone"), 1);
    assert_eq!(count(&zeroconf.events(), Change::Removed, "Stone"), 1);
}

#[test]
fn dots_capitals_umlauts_and_sixty_three_bytes_are_seen_to_come_and_go() {
    let lan = lan();
    let (avahi, zeroconf) = judges(&lan);
    let ours = start_on(lan.host("ours"));
    let long = format!("{}ü", "x".repeat(61));
    let names = ["Dot.ted. Name", "CAPITALS", "Büro Süd", "back\\slash", long.as_str()];
    for (key, name) in (1..).zip(names) {
        let port = u16::try_from(key).unwrap();
        ours.advertise(key, service(name, port));
        assert_eq!(avahi.wait_for(|seen| seen.is(Change::Added, name), SOON).port, Some(port));
        assert_eq!(zeroconf.wait_for(|seen| seen.is(Change::Added, name), SOON).port, Some(port));
    }
    for (key, name) in (1..).zip(names) {
        withdraw(&ours, key, service(name, u16::try_from(key).unwrap()));
        avahi.wait_for(|seen| seen.is(Change::Removed, name), SOON);
        zeroconf.wait_for(|seen| seen.is(Change::Removed, name), SOON);
    }
}

#[test]
fn a_name_that_avahi_has_gets_a_number_and_avahi_keeps_its_own() {
    let lan = lan();
    let (avahi, zeroconf) = judges(&lan);
    let ours = start_on(lan.host("ours"));
    let names = [(1, "stone", "stone (2)"), (2, "Büro Süd", "Büro Süd (2)"), (3, "Dot.ted", "Dot.ted (2)")];
    for (key, name, renamed) in names {
        let port = 9_000 + u16::try_from(key).unwrap();
        let publisher = avahi.publish(&Theirs { name, service_type: HTTP, port, txt: &[] });
        zeroconf.wait_for(|seen| seen.is(Change::Added, name), SOON);
        ours.advertise(key, service(name, 80));
        wait_until("another name", SOON, || ours.standing(key).name.as_deref() == Some(renamed));
        assert_eq!(zeroconf.wait_for(|seen| seen.is(Change::Added, renamed), SOON).port, Some(80));
        withdraw(&ours, key, service(name, 80));
        zeroconf.wait_for(|seen| seen.is(Change::Removed, renamed), SOON);
        assert_eq!(count(&zeroconf.events(), Change::Removed, name), 0);
        assert_eq!(publisher.name(), name);
    }
}

#[test]
fn an_interface_that_was_away_is_announced_on_when_it_is_back() {
    let lan = lan();
    let sniffer = Sniffer::start(lan.host("zeroconf"));
    let host = lan.host("ours");
    let ours = start_on(host);
    ours.advertise(1, service("Back.again", 1));
    let own = Service { ip: Some(host.address().into()), ..service("own address", 2) };
    ours.advertise(2, own);
    let points = |record: &Record, name: &str| {
        record.ttl > 0 && record.target.as_ref().is_some_and(|target| target.starts_with(name))
    };
    for name in ["Back.again", "own address"] {
        sniffer.wait_for(|record| points(record, name), SOON);
    }
    host.link_down();
    wait_until("no interface is in use", SOON, || ours.health().interfaces.is_empty());
    assert!(matches!(block_on(ours.withdraw(9, service("nobody", 9))), Goodbye::Unsent(_)));
    let is_heard =
        |before: usize, name: &str| sniffer.records()[before..].iter().any(|record| points(record, name));
    let before = sniffer.records().len();
    host.link_up();
    for name in ["Back.again", "own address"] {
        wait_until("it is announced again", SOON, || is_heard(before, name));
    }
    assert!(ours.health().interfaces.iter().any(|line| line.starts_with(INTERFACE)));
    // It also hears again.
    let mut browse = ours.browse(Wanted::Type(HTTP.to_owned()));
    let mut zeroconf = Zeroconf::start(lan.host("avahi"));
    zeroconf.register(&Theirs { name: "theirs", service_type: HTTP, port: 7, txt: &[] });
    assert_eq!(resolved(&mut browse, "theirs").port, Some(7));
}

/// Each packet for the interface that took none was waited for, a quarter of a second, and all others with it.
#[test]
fn an_interface_that_takes_nothing_delays_no_other() {
    let lan = Lan::new(&["ours", "witness"]);
    let (host, sniffer) = (lan.host("ours"), Sniffer::start(lan.host("witness")));
    lan.plug_in_again(host);
    host.clog(SECOND_INTERFACE);
    let interfaces = [INTERFACE, SECOND_INTERFACE].map(|name| Interface::Name(name.to_owned())).into();
    let ours = on(host, || Mdns::start(Options { interfaces, port: PORT }).unwrap());
    let named = |key: u16| service(&format!("Mass {key}"), key);
    (1..=1_000).for_each(|key| ours.advertise(key.into(), named(key)));
    (1..=1_000).for_each(|key| wait_advertised(&ours, key));
    let withdrawals: Vec<_> = (1..=1_000).map(|key| ours.withdraw(key.into(), named(key))).collect();
    for withdrawal in withdrawals {
        assert_eq!(block_on(withdrawal), Goodbye::Sent);
    }
    wait_until("each is heard", SOON, || {
        let goodbyes: std::collections::BTreeSet<String> = sniffer.goodbyes().into_iter().collect();
        goodbyes.len() == 1_000
    });
}

#[test]
fn addresses_of_both_kinds_are_announced_and_found() {
    let lan = Lan::with_ipv6(&["ours", "zeroconf"]);
    let (host, other) = (lan.host("ours"), lan.host("zeroconf"));
    let mut zeroconf = Zeroconf::start(other);
    zeroconf.browse(HTTP);
    let ours = start_on(host);
    let has_both = |addresses: &[IpAddr], host: &Host| {
        addresses.contains(&host.address().into())
            && host.address6().is_some_and(|ip| addresses.contains(&ip.into()))
    };
    ours.advertise(1, service("both", 1));
    zeroconf.wait_for(|seen| seen.name == "both" && has_both(&seen.addresses, host), SOON);
    let mut browse = ours.browse(Wanted::Type(HTTP.to_owned()));
    zeroconf.register(&Theirs { name: "theirs", service_type: HTTP, port: 7, txt: &[] });
    let record = loop {
        let record = resolved(&mut browse, "theirs");
        let addresses: Vec<IpAddr> = record.addresses.iter().map(|address| address.ip).collect();
        if has_both(&addresses, other) {
            break record;
        }
    };
    assert!(record.addresses[0].ip.is_ipv4());
    // A link-local address means nothing without the interface it is reached over.
    let is_link_local = |ip: &IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    assert!(record.addresses.iter().all(|address| is_link_local(&address.ip) == address.zone.is_some()));
    withdraw(&ours, 1, service("both", 1));
    zeroconf.wait_for(|seen| seen.is(Change::Removed, "both"), SOON);
}

#[test]
fn a_thousand_goodbyes_are_all_seen() {
    let lan = lan();
    let (_avahi, zeroconf) = judges(&lan);
    let ours = start_on(lan.host("ours"));
    let named = |key: u16| service(&format!("Mass {key}"), key);
    (1..=1_000).for_each(|key| ours.advertise(key.into(), named(key)));
    (1..=1_000).for_each(|key| wait_advertised(&ours, key));
    let all = |change: Change| {
        let events = zeroconf.events();
        let names: std::collections::BTreeSet<&str> =
            events.iter().filter(|seen| seen.change == change).map(|seen| seen.name.as_str()).collect();
        names.len() == 1_000
    };
    wait_until("zeroconf knows them all", SOON, || all(Change::Named));
    let withdrawals: Vec<_> = (1..=1_000).map(|key| ours.withdraw(key.into(), named(key))).collect();
    for withdrawal in withdrawals {
        assert_eq!(block_on(withdrawal), Goodbye::Sent);
    }
    wait_until("zeroconf saw them all go", SOON, || all(Change::Removed));
}

#[test]
fn what_others_publish_is_found_resolved_and_seen_to_go() {
    let lan = lan();
    let avahi = Avahi::start(lan.host("avahi"));
    let mut zeroconf = Zeroconf::start(lan.host("zeroconf"));
    let ours = start_on(lan.host("ours"));
    let mut browse = ours.browse(Wanted::Type(HTTP.to_owned()));
    let name = "Dot.ted Büro";
    let mut publisher =
        avahi.publish(&Theirs { name, service_type: HTTP, port: 81, txt: &[b"a=1", b"flag"] });
    let record = resolved(&mut browse, name);
    assert_eq!(record.port, Some(81));
    assert_eq!(record.host.as_deref(), Some("avahi.local"));
    assert_eq!(record.addresses, [IpAddr::V4(lan.host("avahi").address())]);
    assert!(
        record.txt.contains(&("a".to_owned(), Some(b"1".to_vec())))
            && record.txt.contains(&("flag".to_owned(), None))
    );
    let theirs = |port| Theirs { name: "zero", service_type: HTTP, port, txt: &[] };
    zeroconf.register(&theirs(82));
    assert_eq!(resolved(&mut browse, "zero").port, Some(82));
    zeroconf.update(&theirs(83));
    while resolved(&mut browse, "zero").port != Some(83) {}
    zeroconf.unregister("zero", HTTP);
    block_on(loopback::wait_removed(&mut browse, "zero"));
    publisher.end();
    block_on(loopback::wait_removed(&mut browse, name));
    let mut types = ours.browse(Wanted::Types);
    let _kept = avahi.publish(&Theirs { name: "printer", service_type: "_ipp._tcp", port: 631, txt: &[] });
    let is_type = |sighting: &Sighting| *sighting == Sighting::TypeFound("_ipp._tcp".to_owned());
    block_on(loopback::wait_for(&mut types, "its type", is_type));
}
