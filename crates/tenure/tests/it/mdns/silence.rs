//! Without mDNS not one packet leaves.

use serde_json::json;

use super::peers::feed::LIMIT;
use super::peers::netns::{Host, INTERFACE};
use super::stage::{HTTP, SmallStage, announces, post};
use super::streams::Stream;

/// Packets of any kind that a host has sent since it exists, memberships of multicast groups included.
fn packets_sent(host: &Host) -> u64 {
    let file = format!("/sys/class/net/{INTERFACE}/statistics/tx_packets");
    let output = host.command("cat").arg(file).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

#[test]
fn no_mdns_sends_no_packet_at_all() {
    let mut stage = SmallStage::begin_with(&[]);
    stage.daemon.stop();
    let before = packets_sent(stage.ours());
    assert!(before > 0, "with mDNS it sends: otherwise nothing is shown here");
    stage.daemon.set_flags(&["--no-mdns", "--mdns-socket-grace", "0s"]);
    stage.daemon.start_again();
    let browse = Stream::events(&stage.daemon, "/v1/mdns/browse?type=_http._tcp");
    let mut registrant = stage.daemon.lines();
    super::stage::register(&mut registrant, json!({"name": "by line", "type": HTTP, "port": 1}));
    let kept = post(&stage.daemon, &json!({"name": "by HTTP", "type": HTTP, "port": 2}));
    browse.wait_found("by HTTP");
    let unknown = stage.daemon.http_over_socket().get("/v1/mdns/resolve?name=nobody._http._tcp.local");
    assert_eq!(unknown.refusal().1, "resolve_timeout");
    drop(registrant);
    browse.wait_removed("by line");
    let path = format!("/v1/mdns/services/{}", kept["id"].as_str().unwrap());
    assert_eq!(stage.daemon.http_over_socket().delete(&path).status, 200);
    stage.daemon.stop();
    assert_eq!(packets_sent(stage.ours()), before);
    for name in ["by line", "by HTTP"] {
        assert!(!stage.sniffer.records().iter().any(announces(name)));
    }

    // The same host with mDNS, to show that it would have been heard.
    stage.daemon.set_flags(&["--mdns=true"]);
    stage.daemon.start_again();
    post(&stage.daemon, &json!({"name": "aloud", "type": HTTP, "port": 3}));
    stage.sniffer.wait_for(announces("aloud"), LIMIT);
    assert!(packets_sent(stage.ours()) > before);
}
