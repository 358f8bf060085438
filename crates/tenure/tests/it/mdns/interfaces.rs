//! Which interfaces and which addresses are told of.

use std::net::IpAddr;

use serde_json::json;

use super::peers::feed::LIMIT;
use super::peers::netns::{Host, INTERFACE, Lan};
use super::peers::zeroconf::{Sniffer, Zeroconf};
use super::peers::{Change, Seen};
use super::stage::{HTTP, SmallStage, announces, interfaces, post, prepared, wait_advertised};

/// A second network of a host, on which nobody else is.
const SECOND: &str = "second0";
const SECOND_ADDRESS: &str = "192.0.2.1";

#[track_caller]
fn ip(host: &Host, words: &str) {
    let status = host.command("ip").args(words.split(' ')).status().unwrap();
    assert!(status.success(), "ip {words}");
}

fn with_second_network(host: &Host) {
    // A cable whose other end lies loose.
    ip(host, &format!("link add {SECOND} type veth peer name loose0"));
    ip(host, "link set loose0 up");
    ip(host, &format!("link set {SECOND} up"));
    ip(host, &format!("addr add {SECOND_ADDRESS}/24 dev {SECOND}"));
}

#[test]
fn a_given_address_of_the_host_is_the_only_one_told_and_a_strangers_is_warned_of() {
    let stage = SmallStage::begin_with(&[]);
    let [a, b, c, _] = stage.ours().address().octets();
    let other = IpAddr::from([a, b, c, 200]);
    ip(stage.ours(), &format!("addr add {other}/24 dev {INTERFACE}"));
    let first = IpAddr::from(stage.ours().address());
    for (name, address) in [("first", first), ("other", other)] {
        let registered = post(&stage.daemon, &json!({"name": name, "type": HTTP, "port": 1, "ip": address}));
        assert_eq!(registered.get("warning"), None, "{registered}");
        let seen = stage.zeroconf.wait_for(|seen| seen.is(Change::Added, name), LIMIT);
        assert_eq!(seen.addresses, [address]);
    }
    let registered =
        post(&stage.daemon, &json!({"name": "far", "type": HTTP, "port": 1, "ip": "203.0.113.9"}));
    assert!(registered["warning"].is_string(), "{registered}");
}

#[test]
fn without_a_choice_each_network_is_told_the_address_it_can_reach() {
    let lan = Lan::new(&["stone", "paper"]);
    with_second_network(lan.host("stone"));
    let mut zeroconf = Zeroconf::start(lan.host("paper"));
    zeroconf.browse(HTTP);
    let mut daemon = prepared(lan.host("stone"), &[]);
    daemon.start_again();
    let used = interfaces(&daemon);
    let is_used = |wanted: &str| used.iter().any(|one| one.starts_with(wanted));
    assert!(is_used(INTERFACE) && is_used(SECOND), "{used:?}");
    post(&daemon, &json!({"name": "web", "type": HTTP, "port": 1}));
    let seen = zeroconf.wait_for(|seen| seen.is(Change::Added, "web"), LIMIT);
    assert_eq!(seen.addresses, [IpAddr::from(lan.host("stone").address())]);
}

#[test]
fn a_chosen_interface_is_the_only_one_used_whether_by_name_or_by_address() {
    let lan = Lan::new(&["stone", "paper"]);
    let (stone, paper) = (lan.host("stone"), lan.host("paper"));
    with_second_network(stone);
    let sniffer = Sniffer::start(paper);
    let mut zeroconf = Zeroconf::start(paper);
    zeroconf.browse(HTTP);
    let address = stone.address().to_string();
    for (number, chosen) in [SECOND, SECOND_ADDRESS, INTERFACE, &address].into_iter().enumerate() {
        let mut daemon = prepared(stone, &["--mdns-interface", chosen]);
        daemon.start_again();
        let used = interfaces(&daemon);
        let expected = if number < 2 { SECOND } else { INTERFACE };
        assert!(!used.is_empty() && used.iter().all(|one| one.starts_with(expected)), "{used:?}");
        let name = format!("by choice {number}");
        let registered = post(&daemon, &json!({"name": name, "type": HTTP, "port": 1}));
        wait_advertised(&daemon, &registered);
        if number >= 2 {
            let seen: Seen = zeroconf.wait_for(|seen| seen.is(Change::Added, &name), LIMIT);
            assert_eq!(seen.addresses, [IpAddr::from(stone.address())]);
        }
        daemon.stop();
    }
    // What the peer has heard by now would include what came before.
    for name in ["by choice 0", "by choice 1"] {
        assert!(!sniffer.records().iter().any(announces(name)), "{name}");
    }
}

#[test]
fn both_families_are_told_where_there_are_both() {
    let lan = Lan::with_ipv6(&["stone", "paper"]);
    let mut zeroconf = Zeroconf::start(lan.host("paper"));
    zeroconf.browse(HTTP);
    let mut daemon = prepared(lan.host("stone"), &[]);
    daemon.start_again();
    post(&daemon, &json!({"name": "web", "type": HTTP, "port": 1}));
    let stone = lan.host("stone");
    let both = [IpAddr::from(stone.address()), IpAddr::from(stone.address6().unwrap())];
    zeroconf
        .wait_for(|seen| seen.name == "web" && both.iter().all(|one| seen.addresses.contains(one)), LIMIT);
}
