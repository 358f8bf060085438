//! Networks that go away and come back, for the daemon or for a peer.

use serde_json::json;

use super::peers::feed::{LIMIT, monotonic_ns};
use super::peers::zeroconf::Zeroconf;
use super::peers::{Change, Service};
use super::stage::{HTTP, SmallStage, announces, is_on_lan, post, wait_advertised};
use super::streams::Stream;
use crate::run_support::wait_until;

#[test]
fn services_are_announced_again_when_an_interface_comes_back() {
    let stage = SmallStage::begin_with(&[]);
    let registered = post(&stage.daemon, &json!({"name": "web", "type": HTTP, "port": 1, "lease": 0}));
    stage.zeroconf.wait_for(|seen| seen.is(Change::Added, "web"), LIMIT);
    stage.ours().link_down();
    wait_until("the interface to be missed", LIMIT, || !is_on_lan(&stage.daemon));
    // Registered while there is no network at all.
    post(&stage.daemon, &json!({"name": "meanwhile", "type": HTTP, "port": 2, "lease": 0}));
    // Taken before: it may be noticed while the rest of the link is still being set up.
    let up_ns = monotonic_ns();
    stage.ours().link_up();
    wait_until("the interface to be noticed", LIMIT, || is_on_lan(&stage.daemon));
    for name in ["web", "meanwhile"] {
        let is_announced = announces(name);
        stage.sniffer.wait_for(|record| record.at_ns > up_ns && is_announced(record), LIMIT);
    }
    stage.zeroconf.wait_for(|seen| seen.is(Change::Added, "meanwhile"), LIMIT);
    // It answers again too, not only announces.
    let mut newcomer = Zeroconf::start(stage.theirs());
    assert_eq!(newcomer.resolve("web", HTTP, LIMIT).unwrap().port, Some(1));
    wait_advertised(&stage.daemon, &registered);
    assert!(is_on_lan(&stage.daemon));
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
    stage.lan.cut(stage.ours());
    stage.zeroconf.register(&Service { name: "meanwhile", service_type: HTTP, port: 9, txt: &[] });
    let browse = Stream::events(&stage.daemon, "/v1/mdns/browse?type=_http._tcp");
    let refused = stage.daemon.http_over_socket().get("/v1/mdns/resolve?name=meanwhile._http._tcp.local");
    assert_eq!(refused.refusal(), (504, "resolve_timeout".to_owned()));
    stage.lan.heal(stage.ours());
    assert_eq!(browse.wait_found("meanwhile")["port"], 9);
    let answered = stage.daemon.http_over_socket().get("/v1/mdns/resolve?name=meanwhile._http._tcp.local");
    assert_eq!((answered.status, &answered.json()["resolved"]["port"]), (200, &json!(9)));
}
