//! Without mDNS not one packet leaves.

use serde_json::json;

use super::peers::feed::LIMIT;
use super::peers::netns::{Host, INTERFACE, Lan};
use super::peers::zeroconf::Sniffer;
use super::stage::{HTTP, announces, post, prepared, register};
use super::streams::Stream;

/// Packets of any kind that a host has sent since it exists, memberships of multicast groups included.
fn packets_sent(host: &Host) -> u64 {
    let file = format!("/sys/class/net/{INTERFACE}/statistics/tx_packets");
    let output = host.command("cat").arg(file).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

#[test]
fn no_mdns_sends_no_packet_at_all() {
    let lan = Lan::new(&["stone", "paper"]);
    let (stone, paper) = (lan.host("stone"), lan.host("paper"));
    let sniffer = Sniffer::start(paper);
    let before = packets_sent(stone);
    let mut daemon = prepared(stone, &[]);
    daemon.set_flags(&["--no-mdns", "--mdns-socket-grace", "0s"]);
    daemon.start_again();
    let browse = Stream::events(&daemon, "/v1/mdns/browse?type=_http._tcp");
    let mut registrant = daemon.lines();
    register(&mut registrant, json!({"name": "by line", "type": HTTP, "port": 1}));
    let kept = post(&daemon, &json!({"name": "by HTTP", "type": HTTP, "port": 2}));
    browse.wait_found("by HTTP");
    let unknown = daemon.http_over_socket().get("/v1/mdns/resolve?name=nobody._http._tcp.local");
    assert_eq!(unknown.refusal().1, "resolve_timeout");
    drop(registrant);
    browse.wait_removed("by line");
    let path = format!("/v1/mdns/services/{}", kept["id"].as_str().unwrap());
    assert_eq!(daemon.http_over_socket().delete(&path).status, 200);
    daemon.stop();
    assert_eq!(packets_sent(stone), before);

    // The same host with mDNS, to show that it would have been noticed.
    daemon.set_flags(&["--mdns=true"]);
    daemon.start_again();
    post(&daemon, &json!({"name": "aloud", "type": HTTP, "port": 3}));
    sniffer.wait_for(announces("aloud"), LIMIT);
    assert!(packets_sent(stone) > before);
    for name in ["by line", "by HTTP"] {
        assert!(!sniffer.records().iter().any(announces(name)));
    }
}
