//! Networks that go away and come back, for the daemon or for a peer.

use serde_json::json;

use super::peers::feed::{LIMIT, monotonic_ns};
use super::peers::netns::INTERFACE;
use super::peers::zeroconf::{Record, Zeroconf};
use super::peers::{Change, Service};
use super::stage::{HTTP, SmallStage, announces, full, inspect, is_on_lan, post, wait_advertised};
use super::streams::Stream;
use crate::run_support::wait_until;

fn is_announced_when_the_interface_is_back(flags: &[&str], meanwhile: &[&str]) {
    let stage = SmallStage::begin_with(flags);
    let registered = post(&stage.daemon, &json!({"name": "web", "type": HTTP, "port": 1, "lease": 0}));
    stage.zeroconf.wait_for(|seen| seen.is(Change::Added, "web"), LIMIT);
    stage.ours().link_down();
    wait_until("the interface to be missed", LIMIT, || !is_on_lan(&stage.daemon));
    for name in meanwhile {
        post(&stage.daemon, &json!({"name": name, "type": HTTP, "port": 2, "lease": 0}));
    }
    // Taken before: it may be noticed while the rest of the link is still being set up.
    let up_ns = monotonic_ns();
    stage.ours().link_up();
    wait_until("the interface to be noticed", LIMIT, || is_on_lan(&stage.daemon));
    for name in meanwhile {
        stage.zeroconf.wait_for(|seen| seen.is(Change::Added, name), LIMIT);
    }
    let is_announced = announces("web");
    stage.sniffer.wait_for(|record| record.at_ns > up_ns && is_announced(record), LIMIT);
    // It answers again too, not only announces.
    let mut newcomer = Zeroconf::start(stage.theirs());
    assert_eq!(newcomer.resolve("web", HTTP, LIMIT).unwrap().port, Some(1));
    wait_advertised(&stage.daemon, &registered);
}

#[test]
fn services_are_announced_again_when_an_interface_comes_back() {
    is_announced_when_the_interface_is_back(&[], &[]);
}

#[test]
fn services_are_announced_again_when_the_only_interface_comes_back() {
    is_announced_when_the_interface_is_back(&["--mdns-interface", INTERFACE], &[]);
}

#[test]
fn what_is_registered_while_an_interface_is_away_is_announced_when_it_comes_back() {
    is_announced_when_the_interface_is_back(&[], &["meanwhile"]);
}

#[test]
fn what_is_registered_while_there_is_no_network_is_announced_once_there_is() {
    is_announced_when_the_interface_is_back(&["--mdns-interface", INTERFACE], &["meanwhile"]);
}

#[test]
fn a_peer_that_was_cut_off_finds_what_was_registered_meanwhile() {
    let mut stage = SmallStage::begin_with(&[]);
    stage.lan.cut(stage.theirs());
    let registered = post(&stage.daemon, &json!({"name": "meanwhile", "type": HTTP, "port": 1}));
    wait_advertised(&stage.daemon, &registered);
    assert_eq!(stage.zeroconf.events(), []);
    stage.lan.heal(stage.theirs());
    assert_eq!(stage.zeroconf.resolve("meanwhile", HTTP, LIMIT).unwrap().port, Some(1));
    post(&stage.daemon, &json!({"name": "later", "type": HTTP, "port": 2}));
    stage.zeroconf.wait_for(|seen| seen.is(Change::Added, "later"), LIMIT);
}

#[test]
fn a_daemon_that_was_cut_off_finds_what_was_published_meanwhile() {
    let mut stage = SmallStage::begin_with(&[]);
    let browse = Stream::events(&stage.daemon, "/v1/mdns/browse?type=_http._tcp");
    stage.lan.cut(stage.ours());
    stage.zeroconf.register(&Service { name: "meanwhile", service_type: HTTP, port: 9, txt: &[] });
    let resolve = || stage.daemon.http_over_socket().get("/v1/mdns/resolve?name=meanwhile._http._tcp.local");
    assert_eq!(resolve().refusal(), (504, "resolve_timeout".to_owned()));
    stage.lan.heal(stage.ours());
    // Whoever browses asks ever more rarely; who resolves is in need of an answer now.
    let answered = resolve();
    assert_eq!(answered.status, 200, "{answered:?}");
    assert_eq!(answered.json()["resolved"]["port"], 9);
    assert_eq!(browse.wait_found("meanwhile")["port"], 9);
}

/// A cable that is put from one switch into another: the interface keeps its addresses, and is away for less time than
/// passes between two looks at it.
#[test]
fn a_name_is_probed_for_again_after_the_carrier_went_and_came_and_the_addresses_stayed() {
    let mut stage = SmallStage::begin_with(&[]);
    stage.lan.cut(stage.ours());
    let ours = post(&stage.daemon, &json!({"name": "web", "type": HTTP, "port": 1, "lease": 0}));
    wait_advertised(&stage.daemon, &ours);
    stage.zeroconf.register(&Service { name: "web", service_type: HTTP, port: 9, txt: &[] });
    let mark = stage.sniffer.records().len();
    stage.lan.bounce_into(stage.ours());
    wait_until("another name", LIMIT, || inspect(&stage.daemon, &ours)["advertised_name"] == "web (2)");
    stage.zeroconf.wait_for(|seen| seen.is(Change::Added, "web (2)"), LIMIT);
    let records = stage.sniffer.records();
    let from_us = |record: &&Record| record.is_response && record.source == stage.ours().address();
    let is_taken = |record: &&Record| record.name == full("web") && record.ttl > 0;
    let taken: Vec<&Record> = records[mark..].iter().filter(from_us).filter(is_taken).collect();
    assert!(taken.is_empty(), "the name is the other host's: {taken:?}");
    assert_eq!(stage.zeroconf.resolve("web", HTTP, LIMIT).unwrap().port, Some(9));
}

fn is_withdrawn_when_the_interface_is_back(flags: &[&str]) {
    let stage = SmallStage::begin_with(flags);
    let registered = post(&stage.daemon, &json!({"name": "web", "type": HTTP, "port": 1, "lease": 0}));
    stage.zeroconf.wait_for(|seen| seen.is(Change::Added, "web"), LIMIT);
    stage.ours().link_down();
    wait_until("the interface to be missed", LIMIT, || !is_on_lan(&stage.daemon));
    let path = format!("/v1/mdns/services/{}", registered["id"].as_str().unwrap());
    let mut ender = stage.daemon.http_over_socket();
    ender.send("DELETE", &path, b"").unwrap();
    wait_until("its end", LIMIT, || {
        stage.daemon.http_over_socket().get("/v1/mdns/admin/registrations").json() == json!([])
    });
    stage.ours().link_up();
    stage.zeroconf.wait_for(|seen| seen.is(Change::Removed, "web"), LIMIT);
}

#[test]
fn what_ends_while_an_interface_is_away_is_withdrawn_when_it_comes_back() {
    is_withdrawn_when_the_interface_is_back(&[]);
}

#[test]
fn what_ends_while_there_is_no_network_is_withdrawn_once_there_is() {
    is_withdrawn_when_the_interface_is_back(&["--mdns-interface", INTERFACE]);
}

#[test]
fn where_no_interface_is_in_use_a_name_is_free_again_at_once() {
    let stage = SmallStage::begin_with(&["--mdns-interface", "none0"]);
    for port in 1..4 {
        let registered = post(&stage.daemon, &json!({"name": "web", "type": HTTP, "port": port}));
        assert_eq!((&registered["advertised_name"], &registered["port"]), (&json!("web"), &json!(port)));
        let path = format!("/v1/mdns/services/{}", registered["id"].as_str().unwrap());
        assert_eq!(stage.daemon.http_over_socket().delete(&path).status, 200);
    }
}
