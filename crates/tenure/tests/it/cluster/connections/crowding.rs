//! Many connections at one node that say nothing: they live, and cost the writer next to nothing.

use std::time::Duration;

use serde_json::json;

use super::{AT_ONCE, Connection, LOOK, TTL_MS, id};
use crate::cluster::harness::{Cluster, LIMIT};
use crate::run_support::{boot_ms, let_time_pass, wait_until};

const CONNECTIONS: usize = 200;
/// Well over the time that one call of their node keeps them.
const HOLD: Duration = Duration::from_millis(TTL_MS + 1_500);
/// What the writer hears in that time of two nodes that are there, one of which has so many connections, and of the
/// test. A call for each connection would be thousands.
const PACKETS_MAX: u64 = 600;

/// How many packets of other nodes and callers came to a node.
fn packets(cluster: &Cluster, place: usize) -> u64 {
    let path = format!("/proc/{}/net/dev", cluster.nodes[place].daemon.pid());
    let text = std::fs::read_to_string(path).unwrap();
    let lan = text.lines().find_map(|line| line.trim().strip_prefix("lan0:")).unwrap();
    lan.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn with_liveness(cluster: &Cluster, place: usize, liveness: &str) -> usize {
    let path = format!("/v1/leases?resource_prefix=crowd/&liveness={liveness}&limit=1000");
    cluster.nodes[place].get(&path)["leases"].as_array().unwrap().len()
}

#[test]
fn connections_that_say_nothing_live_on_at_little_cost() {
    let cluster = Cluster::apart(&["--no-mdns"]);
    let writer = cluster.wait_for_writer();
    let [home, other] = cluster.followers();
    let mut crowd: Vec<Connection> = (0..CONNECTIONS).map(|_| Connection::open(&cluster, home)).collect();
    for (number, connection) in crowd.iter_mut().enumerate() {
        connection.say(&super::wish(&format!("crowd/{number}"), json!({"grace_ms": 60_000})));
    }
    let mut leases = Vec::new();
    for connection in &mut crowd {
        match connection.heard(LIMIT) {
            super::Heard::Line(line) if line["acquired"].is_object() => leases.push(line["acquired"].clone()),
            heard => panic!("{heard:?}\n{}", cluster.said_lately()),
        }
    }
    let mut at_writer = Connection::open(&cluster, writer);
    let beside = at_writer.acquire("beside", json!({"grace_ms": 0}));
    let mut registrant = Connection::open(&cluster, home);
    let service = json!({"name": "web", "type": "_http._tcp", "port": 80});
    let registered = registrant.good(&json!({ "register": service }), "registered");
    assert_eq!((&registered["mode"], &registered["lease"]), (&json!("session"), &json!(0)), "{registered}");
    let of_registration = format!("/v1/mdns/admin/registrations/{}", registered["id"].as_str().unwrap());
    wait_until("the service is advertised", LIMIT, || {
        cluster.nodes[other].get(&of_registration)["advertised"] == true
    });

    let heard = packets(&cluster, writer);
    let lsn = || cluster.nodes[writer].get("/v1/status")["lsn"].as_u64().unwrap();
    let before = lsn();
    let_time_pass(HOLD, "packets are counted for so long");
    let heard = packets(&cluster, writer) - heard;
    println!("{CONNECTIONS} connections, {} ms: {heard} packets to the writer", HOLD.as_millis());
    assert!(heard < PACKETS_MAX, "{heard}");
    // The writer may note the time once in a while.
    assert!(lsn() - before <= 3, "proofs of life are no events: {}", lsn() - before);
    assert_eq!(with_liveness(&cluster, other, "alive"), CONNECTIONS, "{}", cluster.said_lately());
    super::assert_alive(&cluster, other, &beside);
    let shown = cluster.nodes[other].get(&of_registration);
    assert_eq!((&shown["state"], &shown["advertised"]), (&json!("alive"), &json!(true)), "{shown}");
    let session =
        cluster.nodes[other].get(&format!("/v1/sessions/{}", shown["session_id"].as_str().unwrap()));
    assert_eq!(
        (&session["kind"], &session["liveness"]),
        (&json!("connection"), &json!("alive")),
        "{session}"
    );
    // Each is alive for its holder, too.
    for (connection, lease) in crowd.iter_mut().zip(&leases).step_by(20) {
        connection.renew(lease);
        connection.assert_quiet();
    }
    at_writer.renew(&beside);
    registrant.assert_quiet();

    let closed_ms = boot_ms();
    crowd.truncate(CONNECTIONS / 2);
    wait_until("all that was closed drains", AT_ONCE, || {
        let_time_pass(LOOK * 4, "between two looks");
        with_liveness(&cluster, other, "draining") == CONNECTIONS / 2
    });
    println!("{} closed: draining within {} ms", CONNECTIONS / 2, boot_ms() - closed_ms);
    assert_eq!(with_liveness(&cluster, other, "alive"), CONNECTIONS / 2);
    let last = &leases[CONNECTIONS - 1];
    let story = cluster.nodes[home].get(&format!("/v1/why?lease={}", id(last)));
    assert!(story.to_string().contains("draining"), "{story}");
}
