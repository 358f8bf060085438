//! A daemon that is told to stop withdraws everything, also while somebody listens; the next one announces it again.

use std::collections::BTreeSet;

use rustix::process::Signal;
use serde_json::json;

use super::peers::Change;
use super::peers::feed::{LIMIT, monotonic_ns};
use super::stage::{HTTP, Stage, announces, full, post, register};
use super::streams::Stream;
use crate::daemon::Daemon;

fn withdraws_everything_and_announces_it_again(stop: impl FnOnce(&Daemon)) {
    let mut stage = Stage::begin();
    let names = ["by line", "by HTTP", "for ever"];
    let mut registrant = stage.daemon.lines();
    register(&mut registrant, json!({"name": names[0], "type": HTTP, "port": 1}));
    post(&stage.daemon, &json!({"name": names[1], "type": HTTP, "port": 2}));
    post(&stage.daemon, &json!({"name": names[2], "type": HTTP, "port": 3, "lease": 0}));
    for name in names {
        stage.wait_added(name);
    }
    let browse = Stream::events(&stage.daemon, "/v1/mdns/browse?type=_http._tcp");
    let subscribe = Stream::lines(&stage.daemon, &json!({"subscribe": HTTP, "tag": 7}));
    browse.wait_found(names[2]);
    subscribe.wait_event("resolved", names[2]);

    stop(&stage.daemon);
    browse.wait_for(|told| told.get("closing").is_some());
    assert_eq!(stage.daemon.code(), 0, "{}", stage.daemon.said());
    for name in names {
        stage.wait_removed(name);
    }
    let goodbyes: BTreeSet<String> = stage.sniffer.goodbyes().into_iter().collect();
    assert_eq!(goodbyes, names.iter().map(|name| full(name)).collect());
    let said = stage.daemon.said();
    for name in names {
        let is_of =
            |line: &&str| line.contains("Service unregistered") && line.contains(&format!("name=\"{name}\""));
        let lines: Vec<&str> = said.lines().filter(is_of).collect();
        assert!(lines.len() == 1 && lines[0].contains("reason=shutdown"), "{said}");
    }
    let told: Vec<_> = browse.all().into_iter().chain(subscribe.all()).collect();
    assert!(
        told.iter().all(|told| told["event"] != "removed"),
        "the end of a stream is no removal: {told:?}"
    );

    let (by_zeroconf, by_avahi) = (stage.zeroconf.mark(), stage.avahi.mark());
    let restarted_ns = monotonic_ns();
    stage.daemon.start_again();
    // The registrant of the first is gone, but has its grace.
    for name in names {
        stage.zeroconf.wait_for_since(by_zeroconf, |seen| seen.is(Change::Added, name), LIMIT);
        stage.avahi.wait_for_since(by_avahi, |seen| seen.is(Change::Added, name), LIMIT);
        let is_announced = announces(name);
        stage.sniffer.wait_for(|record| record.at_ns > restarted_ns && is_announced(record), LIMIT);
    }
}

#[test]
fn sigterm_withdraws_everything_while_others_listen_and_a_restart_announces_it_again() {
    withdraws_everything_and_announces_it_again(|daemon| daemon.signal(Signal::TERM));
}

#[test]
fn sigint_withdraws_everything_while_others_listen_and_a_restart_announces_it_again() {
    withdraws_everything_and_announces_it_again(|daemon| daemon.signal(Signal::INT));
}

#[test]
fn sighup_withdraws_everything_while_others_listen_and_a_restart_announces_it_again() {
    withdraws_everything_and_announces_it_again(|daemon| daemon.signal(Signal::HUP));
}

#[test]
fn a_plain_shutdown_withdraws_everything_while_others_listen_and_a_restart_announces_it_again() {
    withdraws_everything_and_announces_it_again(|daemon| {
        let answered = daemon.http_over_socket().post("/v1/shutdown", &json!({}));
        assert_eq!(answered.status, 200, "{answered:?}");
    });
}
