//! Registrants that die: after their grace the network hears of it, however many there are.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::peers::Change;
use super::peers::feed::{LIMIT, Process, monotonic_ns};
use super::stage::{HTTP, SmallStage, Stage, full, register, wait_advertised, wait_goodbyes};
use crate::run_support::wait_until;

/// Says the lines it is given to a socket, then tells what it hears.
const REGISTRANT: &str = "import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
for line in sys.argv[2:]: s.sendall(line.encode() + b'\\n')
while heard := s.recv(65536): sys.stdout.buffer.write(heard); sys.stdout.flush()";

const MANY: usize = 1_000;
/// From the first goodbye of a storm to the last service's first, on a machine that has other things to do. How long
/// goodbyes wait for each other is tested in virtual time (`crates/mdns/src/machine/tests.rs`).
const STORM_MAX: Duration = Duration::from_secs(15);

#[test]
fn a_registrant_killed_in_the_middle_of_its_own_browse_is_withdrawn_after_its_grace() {
    let stage = Stage::begin_with(&["--mdns-socket-grace", "1s"]);
    let mut command = Command::new("python3");
    command.args(["-c", REGISTRANT]).arg(stage.daemon.socket());
    command.arg(json!({"register": {"name": "doomed", "type": HTTP, "port": 1}}).to_string());
    command.arg(json!({"browse": HTTP, "tag": "b"}).to_string());
    let mut registrant = Process::start_plain(command);
    let is_found = |line: &String| {
        serde_json::from_str::<Value>(line)
            .is_ok_and(|told| told["found"]["name"] == "doomed" && told["tag"] == "b")
    };
    registrant.said().expect(0, is_found, LIMIT);
    stage.wait_added("doomed");
    let killed_ns = monotonic_ns();
    registrant.kill();
    stage.wait_removed("doomed");
    let removed = stage.zeroconf.wait_for(|seen| seen.is(Change::Removed, "doomed"), LIMIT);
    assert!(removed.at_ns - killed_ns >= 1_000_000_000, "its grace was not given");
    wait_goodbyes(&stage.sniffer, &["doomed"]);
    wait_until("a line in the log", LIMIT, || stage.daemon.said().contains("reason=session_expired"));
    let said = stage.daemon.said();
    let line = said.lines().find(|line| line.contains("Service unregistered")).unwrap();
    assert!(line.contains("name=\"doomed\"") && line.contains("session=pipe:"), "{line}");
}

#[test]
fn a_registrant_on_standard_input_that_is_killed_is_withdrawn_after_its_grace() {
    let stage = Stage::begin_with(&["--mdns-stdin-grace", "1s"]);
    let mut registrant = Process::start_plain(stage.daemon.desk.command(&["stdio"]));
    registrant.tell(&json!({"register": {"name": "doomed", "type": HTTP, "port": 1}}).to_string());
    registrant.said().expect(0, |line| line.contains("registered"), LIMIT);
    stage.wait_added("doomed");
    registrant.kill();
    stage.wait_removed("doomed");
    wait_goodbyes(&stage.sniffer, &["doomed"]);
}

#[test]
fn an_http_registrant_that_stops_beating_is_withdrawn() {
    let stage = Stage::begin_with(&["--mdns-http-grace", "1s"]);
    super::stage::post(&stage.daemon, &json!({"name": "silent", "type": HTTP, "port": 1, "lease": 1}));
    stage.wait_added("silent");
    stage.wait_removed("silent");
    wait_until("a line in the log", LIMIT, || stage.daemon.said().contains("reason=heartbeat_expired"));
}

#[test]
fn a_thousand_registrations_of_one_dead_registrant_are_a_thousand_goodbyes() {
    let stage = SmallStage::begin_with(&["--mdns-socket-grace", "1s"]);
    let mut registrant = stage.daemon.lines();
    let names: BTreeSet<String> = (0..MANY).map(|number| format!("Mass {number}")).collect();
    let services =
        names.iter().map(|name| json!({"name": name, "type": HTTP, "port": 1, "txt": {"n": name}}));
    let registered: Vec<Value> = services.map(|service| register(&mut registrant, service)).collect();
    let seen_as = |change: Change| -> BTreeSet<String> {
        let events = stage.zeroconf.events().into_iter();
        events.filter(|seen| seen.change == change).map(|seen| seen.name).collect()
    };
    wait_until("all to be known to the peer", 3 * LIMIT, || seen_as(Change::Named) == names);
    for registered in &registered {
        wait_advertised(&stage.daemon, registered);
    }
    drop(registrant);
    let full_names: BTreeSet<String> = names.iter().map(|name| full(name)).collect();
    let goodbyes = || -> BTreeSet<String> { stage.sniffer.goodbyes().into_iter().collect() };
    wait_until("a goodbye for each", 3 * LIMIT, || goodbyes() == full_names);
    let first_ns = stage.sniffer.first_goodbyes_ns();
    let (began_ns, ended_ns) = (first_ns.values().min().unwrap(), first_ns.values().max().unwrap());
    let took = Duration::from_nanos(ended_ns - began_ns);
    assert!(took <= STORM_MAX, "a second on a quiet machine; here {took:?}");
    wait_until("the peer to have lost each", 3 * LIMIT, || seen_as(Change::Removed) == names);
    wait_until("no registration to be left", LIMIT, || {
        stage.daemon.http_over_socket().get("/v1/mdns/admin/registrations").json() == json!([])
    });
    // The log counts the ends of a storm instead of telling each.
    wait_until("each end and goodbye to be counted", LIMIT, || {
        let metrics = stage.daemon.http_over_socket().get("/metrics").text();
        let is_told = |line: &str| metrics.lines().any(|found| found == line);
        is_told("tenure_mdns_goodbyes_total 1000")
            && is_told("tenure_ends_total{application=\"registrations\",reason=\"session_expired\"} 1000")
    });
}
