//! A daemon that is asked to keep its services advertised says no goodbye, and the daemon after it announces what lives
//! and withdraws the rest. Peers see no service go and none come.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::peers::feed::{LIMIT, monotonic_ns};
use super::peers::netns::INTERFACE;
use super::peers::{Change, Seen};
use super::stage::{
    HTTP, SmallStage, Stage, announces, full, inspect, is_on_lan, post, register, wait_advertised,
};
use crate::daemon::Daemon;
use crate::run_support::wait_until;

const NAMES: [&str; 3] = ["by line", "by HTTP", "for ever"];

/// Registers a service in each way, and waits until both peers have seen them all. Gives the one over HTTP.
fn begin(stage: &Stage, registrant: &mut crate::raw_lines::Lines) -> Value {
    register(registrant, json!({"name": NAMES[0], "type": HTTP, "port": 1}));
    let over_http = post(&stage.daemon, &json!({"name": NAMES[1], "type": HTTP, "port": 2}));
    post(&stage.daemon, &json!({"name": NAMES[2], "type": HTTP, "port": 3, "lease": 0}));
    for name in NAMES {
        stage.wait_added(name);
    }
    over_http
}

/// Asks the daemon to restart, over its socket: its port is on another host.
#[track_caller]
fn restart(daemon: &Daemon) {
    let answer = daemon.tenure(&["admin", "restart", "--endpoint", "unix:DIR/tenure.sock"]);
    assert_eq!(answer.code, 0, "{}\n{}", answer.all(), daemon.said());
}

fn instance(daemon: &Daemon) -> Value {
    daemon.http_over_socket().get("/v1/status").json()["instance"].clone()
}

/// Waits until everything is announced anew, then lets both peers see one more service: what they saw between the marks and
/// that one is all that the restart showed them.
#[track_caller]
fn peers_saw_nothing(stage: &Stage, (by_zeroconf, by_avahi): (usize, usize), since_ns: u64) {
    for name in NAMES {
        let is_announced = announces(name);
        stage.sniffer.wait_for(|record| record.at_ns > since_ns && is_announced(record), LIMIT);
    }
    post(&stage.daemon, &json!({"name": "later", "type": HTTP, "port": 4, "lease": 0}));
    stage.wait_added("later");
    let is_news = |seen: &Seen| seen.name != "later";
    let mut news: Vec<Seen> = stage.zeroconf.events().split_off(by_zeroconf);
    news.extend(stage.avahi.events().split_off(by_avahi));
    news.retain(is_news);
    assert_eq!(news, [], "{}", stage.daemon.said());
    assert_eq!(stage.sniffer.goodbyes(), [""; 0], "{}", stage.daemon.said());
}

#[test]
fn a_restart_shows_peers_no_service_go_and_none_come() {
    let mut stage = Stage::begin();
    let mut registrant = stage.daemon.lines();
    let over_http = begin(&stage, &mut registrant);
    let marks = (stage.zeroconf.mark(), stage.avahi.mark());
    let (pid, before) = (stage.daemon.pid(), instance(&stage.daemon));
    let restarted_ns = monotonic_ns();
    restart(&stage.daemon);
    assert_ne!(instance(&stage.daemon), before);
    assert_eq!(stage.daemon.http_over_socket().get("/v1/status").json()["pid"], pid);
    peers_saw_nothing(&stage, marks, restarted_ns);
    for name in NAMES {
        let resolved = stage.zeroconf.resolve(name, HTTP, LIMIT);
        assert!(resolved.is_some_and(|seen| seen.port.is_some()), "{name}");
    }
    let path = format!("/v1/mdns/services/{}/heartbeat", over_http["id"].as_str().unwrap());
    let renewed = stage.daemon.http_over_socket().put(&path, &json!({"epoch": over_http["epoch"]}));
    assert_eq!(renewed.status, 200, "{renewed:?}");
    // What followed is an ordinary daemon: SIGTERM says every goodbye.
    stage.daemon.signal(Signal::TERM);
    assert_eq!(stage.daemon.code(), 0, "{}", stage.daemon.said());
    for name in NAMES {
        stage.wait_removed(name);
    }
}

#[test]
fn what_is_kept_at_a_stop_is_announced_by_the_next_daemon_and_peers_see_nothing() {
    let mut stage = Stage::begin();
    let mut registrant = stage.daemon.lines();
    begin(&stage, &mut registrant);
    let marks = (stage.zeroconf.mark(), stage.avahi.mark());
    let answered = stage.daemon.http_over_socket().post("/v1/shutdown", &json!({"advertised": "keep"}));
    assert_eq!(answered.status, 200, "{answered:?}");
    assert_eq!(stage.daemon.code(), 0, "{}", stage.daemon.said());
    assert!(!stage.daemon.said().contains("Service unregistered"), "{}", stage.daemon.said());
    let restarted_ns = monotonic_ns();
    stage.daemon.start_again();
    peers_saw_nothing(&stage, marks, restarted_ns);
}

#[test]
fn a_registration_whose_registrant_does_not_come_back_says_goodbye_after_its_grace() {
    let stage = Stage::begin_with(&["--mdns-socket-grace", "1s"]);
    let mut registrant = stage.daemon.lines();
    begin(&stage, &mut registrant);
    let restarted_ns = monotonic_ns();
    restart(&stage.daemon);
    stage.wait_removed(NAMES[0]);
    let removed = stage.zeroconf.wait_for(|seen| seen.is(Change::Removed, NAMES[0]), LIMIT);
    assert!(removed.at_ns - restarted_ns >= 5_000_000_000, "every registrant has 5 s to come back");
    assert!(stage.sniffer.goodbyes().iter().all(|name| *name == full(NAMES[0])));
    assert!(!stage.was_removed(NAMES[1]) && !stage.was_removed(NAMES[2]));
    assert!(stage.daemon.said().contains("reason=session_expired"), "{}", stage.daemon.said());
}

#[test]
fn a_registration_that_was_ending_says_its_goodbye_after_the_start() {
    let mut stage = SmallStage::begin_with(&["--mdns-interface", INTERFACE]);
    let ending = post(&stage.daemon, &json!({"name": "Ending v1.2", "type": HTTP, "port": 1, "lease": 0}));
    post(&stage.daemon, &json!({"name": "living", "type": HTTP, "port": 2, "lease": 0}));
    wait_advertised(&stage.daemon, &ending);
    for name in ["Ending v1.2", "living"] {
        stage.zeroconf.wait_for(|seen| seen.is(Change::Added, name), LIMIT);
    }
    // Without a network no goodbye can leave, so that the lease stays in the state revoking.
    let lease = inspect(&stage.daemon, &ending)["lease_id"].as_str().unwrap().to_owned();
    stage.ours().link_down();
    wait_until("the interface to be missed", LIMIT, || !is_on_lan(&stage.daemon));
    let mut ender = stage.daemon.http_over_socket();
    ender.send("DELETE", &format!("/v1/mdns/services/{}", ending["id"].as_str().unwrap()), b"").unwrap();
    let path = format!("/v1/leases/{lease}");
    let is = |daemon: &Daemon, state: &str| daemon.http_over_socket().get(&path).json()["state"] == state;
    wait_until("a lease that is being revoked", LIMIT, || is(&stage.daemon, "revoking"));
    let answered = stage.daemon.http_over_socket().post("/v1/shutdown", &json!({"advertised": "keep"}));
    assert_eq!(answered.status, 200, "{answered:?}");
    assert_eq!(stage.daemon.code(), 0, "{}", stage.daemon.said());
    stage.ours().link_up();
    assert_eq!(stage.sniffer.goodbyes(), [""; 0]);
    stage.daemon.start_again();
    wait_until("a lease that is over", LIMIT, || is(&stage.daemon, "revoked"));
    stage.zeroconf.wait_for(|seen| seen.is(Change::Removed, "Ending v1.2"), LIMIT);
    assert!(stage.sniffer.goodbyes().iter().all(|name| *name == full("Ending v1.2")));
    assert!(!stage.zeroconf.events().iter().any(|seen| seen.is(Change::Removed, "living")));
}

#[test]
fn what_is_being_probed_for_is_kept_too() {
    let mut stage = SmallStage::begin_with(&[]);
    let names = ["one", "two", "three", "four"];
    // The daemon is asked to stop while it probes for these names.
    for (port, name) in names.iter().enumerate() {
        post(&stage.daemon, &json!({"name": name, "type": HTTP, "port": port + 1, "lease": 0}));
    }
    let answered = stage.daemon.http_over_socket().post("/v1/shutdown", &json!({"advertised": "keep"}));
    assert_eq!(answered.status, 200, "{answered:?}");
    assert_eq!(stage.daemon.code(), 0, "{}", stage.daemon.said());
    stage.daemon.start_again();
    for name in names {
        stage.zeroconf.wait_for(|seen| seen.is(Change::Added, name), LIMIT);
    }
    assert_eq!(stage.sniffer.goodbyes(), [""; 0], "{}", stage.daemon.said());
    assert!(!stage.zeroconf.events().iter().any(|seen| seen.change == Change::Removed));
}
