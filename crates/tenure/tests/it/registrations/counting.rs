//! What the numbers say of registrations.

use serde_json::json;

use super::ways::{Registrant, Registry, SHORT, service, service_with, started, started_with};
use crate::daemon::LIMIT;
use crate::run_support::wait_until;
use crate::wire::daemon::Served;
use crate::wire::http::Answer;

/// The sum over all samples of a family that have these labels.
fn number(daemon: &Served, name: &str, labels: &[&str]) -> f64 {
    let text = daemon.http().get("/metrics").text();
    let of_family = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
    let values = of_family.filter(|line| labels.iter().all(|label| line.contains(label)));
    values.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
}

/// A port for mDNS that nobody else uses: loopback alone hears what is said on it.
fn private_port() -> String {
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

#[test]
fn registrations_and_goodbyes_are_counted() {
    let port = private_port();
    let loopback = ["--mdns=true", "--mdns-interface", "lo", "--mdns-port", &port];
    let daemon = started_with(&[SHORT, &loopback].concat());
    let registrations = || number(&daemon, "tenure_mdns_registrations", &[]);
    let goodbyes = || number(&daemon, "tenure_mdns_goodbyes_total", &[]);
    assert_eq!((registrations(), goodbyes()), (0.0, 0.0));
    let permanent = daemon.register(service_with("permanent", json!({"lease": 0})));
    let mut lines = daemon.lines();
    for name in ["a", "b", "c"] {
        lines.register(service(name));
    }
    wait_until("four advertised", LIMIT, || daemon.all().iter().all(|seen| seen["advertised"] == true));
    assert_eq!((registrations(), goodbyes()), (4.0, 0.0));
    daemon.unregister(&permanent).good();
    wait_until("one goodbye", LIMIT, || (registrations(), goodbyes()) == (3.0, 1.0));
    drop(lines);
    wait_until("four goodbyes", LIMIT, || (registrations(), goodbyes()) == (0.0, 4.0));
}

#[test]
fn registrations_are_counted_where_no_packet_is_sent() {
    let daemon = started();
    let registered = daemon.register(service("app"));
    assert_eq!(number(&daemon, "tenure_mdns_registrations", &[]), 1.0);
    daemon.unregister(&registered).good();
    wait_until("none", LIMIT, || number(&daemon, "tenure_mdns_registrations", &[]) == 0.0);
    assert!(!daemon.http().get("/metrics").text().contains("NaN"));
}

#[test]
fn grants_and_ends_are_counted_by_face() {
    let daemon = started_with(SHORT);
    let face = {
        let registered = daemon.register(service("app"));
        let lease_id = daemon.seen(&registered)["lease_id"].as_str().unwrap().to_owned();
        format!(
            "application=\"{}\"",
            daemon.get(&format!("/v1/leases/{lease_id}"))["application"].as_str().unwrap()
        )
    };
    assert_eq!(number(&daemon, "tenure_grants_total", &[&face, "outcome=\"granted\""]), 1.0);
    wait_until("its end", LIMIT, || {
        number(&daemon, "tenure_ends_total", &[&face, "reason=\"heartbeat_expired\""]) == 1.0
    });
    let explicit = daemon.register(service("explicit"));
    daemon.unregister(&explicit).good();
    wait_until("its end", LIMIT, || {
        number(&daemon, "tenure_ends_total", &[&face, "reason=\"explicit\""]) == 1.0
    });
}

#[test]
fn heartbeats_of_registrations_are_counted() {
    let daemon = started();
    let registered = daemon.register(service("app"));
    let beats =
        |outcome: &str| number(&daemon, "tenure_heartbeats_total", &[&format!("outcome=\"{outcome}\"")]);
    let before = beats("renewed");
    for _ in 0..3 {
        daemon.heartbeat(&registered, json!({"epoch": 1})).good();
    }
    assert_eq!(beats("renewed"), before + 3.0);
    let stale = beats("stale");
    daemon.heartbeat(&registered, json!({"epoch": 2})).refused("stale_epoch");
    assert_eq!(beats("stale"), stale + 1.0);
    let text = daemon.http().get("/metrics").text();
    assert!(!text.contains(registered["id"].as_str().unwrap()), "no ids in labels");
}
