//! A node says nothing any more: killed, paused, or cut off. Its connections' leases drain when its last call has run
//! out, nobody else holds them before that, and a node that lives tells its own holders in time.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Connection, Heard, Promise, TTL_MS, Waiting, assert_alive, granted_ms, heartbeat, id, inspect, resume,
    wait_for_lease, wish,
};
use crate::cluster::harness::{Cluster, LIMIT};
use crate::cluster::net::Wire;
use crate::run_support::boot_ms;

/// A ttl, and what a busy machine may take.
const END_LIMIT_MS: u64 = TTL_MS + 6_000;

/// Everything that is said until the connection is closed, and when that was.
#[track_caller]
fn said_until_hung_up(connection: &mut Connection) -> (Vec<Value>, u64) {
    let mut said = Vec::new();
    loop {
        match connection.heard(LIMIT) {
            Heard::Line(line) => said.push(line),
            Heard::HungUp => return (said, boot_ms()),
            Heard::Nothing => panic!("the connection stays open; it said {said:?}"),
        }
    }
}

#[track_caller]
fn assert_after(granted: &[(String, u64)], resource: &str, promise: Promise, fault_ms: u64) {
    let at_ms = granted_ms(granted, resource);
    assert!(at_ms >= promise.until_ms, "{resource}: {} ms too soon", promise.until_ms - at_ms);
    assert!(at_ms < fault_ms + END_LIMIT_MS, "{resource}: {} ms after the fault", at_ms - fault_ms);
}

#[test]
fn leases_at_a_node_that_is_killed_or_paused_drain_after_its_silence_and_not_before() {
    let mut cluster = Cluster::local(&[]);
    let writer = cluster.wait_for_writer();
    let [killed, paused] = cluster.followers();
    let mut beside = Connection::open(&cluster, writer);
    let kept = beside.acquire("kept", json!({"grace_ms": 0}));
    let (mut one, mut two) = (Connection::open(&cluster, killed), Connection::open(&cluster, paused));
    let at_killed = one.acquire("at-killed", json!({"grace_ms": 0}));
    let at_paused = two.acquire("at-paused", json!({"grace_ms": 0}));
    let (late_killed, late_paused) = (one.acquire("late/1", json!({})), two.acquire("late/2", json!({})));
    let moved = two.acquire("moved", json!({}));
    // Somebody at the killed node waits for what is given back when it is dead.
    let given_back = beside.acquire("given-back", json!({}));
    let mut dead = Connection::open(&cluster, killed);
    let mut line = wish("given-back", json!({"holder": "dead", "grace_ms": 0, "wait_ms": 60_000}));
    line["tag"] = json!(1);
    dead.say(&line);
    wait_for_lease(&cluster, writer, &given_back, LIMIT, |shown| shown["waiters"] == json!(["dead"]));
    let promises = [one.renew(&at_killed), two.renew(&at_paused)];
    let fault_ms = boot_ms();
    cluster.kill_node(killed);
    cluster.freeze_node(paused);
    assert_eq!(said_until_hung_up(&mut one).0, [] as [Value; 0]);
    // It is back at once, and keeps nothing of what it kept before.
    cluster.start_node(killed);
    beside.good(&json!({"release": {"lease_id": id(&given_back), "epoch": 1}}), "released");
    // Read when the node goes on, long after its promise.
    for (lease, tag) in [(&at_paused, "ended"), (&late_paused, "late")] {
        let mut line = heartbeat(lease);
        line["tag"] = json!(tag);
        two.say(&line);
    }
    let waiting = Waiting::begin(&cluster, writer, &["at-killed", "at-paused"]);
    let granted = waiting.finish();
    assert_after(&granted, "at-killed", promises[0], fault_ms);
    assert_after(&granted, "at-paused", promises[1], fault_ms);
    // Nobody closed these connections: their node said nothing any more.
    for lease in [&at_killed, &at_paused] {
        let story = cluster.nodes[writer].get(&format!("/v1/why?lease={}", id(lease)));
        let told = story["entries"].to_string();
        assert!(told.contains("fell silent: last keepalive at") && !told.contains(" closed;"), "{story}");
    }
    beside.renew(&kept);
    assert_alive(&cluster, writer, &kept);

    // What has a grace drains; it comes back elsewhere.
    let limit = Duration::from_secs(4);
    for lease in [&late_killed, &late_paused] {
        let shown = wait_for_lease(&cluster, writer, lease, limit, |shown| shown["liveness"] == "draining");
        assert_eq!(
            (&shown["state"], &shown["drain_cause"]),
            (&json!("active"), &json!("silence")),
            "{shown}"
        );
    }
    let mut elsewhere = Connection::open(&cluster, writer);
    let back = elsewhere.good(&resume(&late_killed), "resumed");
    assert_eq!(back["epoch"], 2, "{back}");
    elsewhere.renew(&back);
    let moved = elsewhere.good(&resume(&moved), "resumed");

    cluster.thaw_node(paused);
    let (mut is_late_renewed, mut is_late_lost) = (false, false);
    let hung_up = loop {
        match two.heard(Duration::from_secs(3)) {
            Heard::Line(line) => {
                println!("the paused node went on: {line}");
                let is_renewed = line["renewed"].is_object();
                assert!(line["tag"] != "ended" || !is_renewed, "renewed, and in other hands: {line}");
                is_late_lost |= line["lost"]["lease_id"] == late_paused["lease_id"];
                assert!(!is_renewed || !is_late_lost, "renewed after it was lost: {line}");
                is_late_renewed |= is_renewed;
            }
            Heard::HungUp => break true,
            Heard::Nothing => break false,
        }
    };
    println!("the paused node hung up: {hung_up}");
    assert!(hung_up || !is_late_lost, "lost, and the connection stays open");
    let shown = inspect(&cluster, writer, &late_paused);
    assert!(!is_late_renewed || shown["epoch"] == 1 && shown["state"] == "active", "{shown}");
    if hung_up {
        two = Connection::open(&cluster, paused);
        let back = two.resume(&late_paused);
        two.renew(&back);
    } else {
        two.renew(&late_paused);
    }
    for resource in ["at-killed", "at-paused"] {
        assert_eq!(cluster.nodes[paused].get(&format!("/v1/resources/{resource}"))["holder"], "next");
    }
    // What went elsewhere is no concern of a node that comes back.
    assert_alive(&cluster, writer, &moved);
    elsewhere.renew(&moved);
    let held = cluster.nodes[writer].get("/v1/leases?resource_prefix=given-back");
    let held = held["leases"].as_array().unwrap().clone();
    assert!(held.iter().all(|lease| lease["state"] == "revoking"), "held by the dead: {held:?}");
}

/// Holders whose nodes were cut off, and somebody elsewhere who waits for what they hold.
struct CutOff {
    cut_ms: u64,
    holders: Vec<(String, Value, Connection, Promise)>,
    waiting: Waiting,
}

impl CutOff {
    /// Takes a lease at each place and renews it, then cuts.
    #[track_caller]
    fn begin(cluster: &Cluster, wires: &[(usize, &[Wire])], other: usize) -> Self {
        let mut holders = Vec::new();
        for (place, _) in wires {
            let mut connection = Connection::open(cluster, *place);
            let resource = format!("at/{place}");
            let lease = connection.acquire(&resource, json!({"grace_ms": 0}));
            let promise = connection.renew(&lease);
            holders.push((resource, lease, connection, promise));
        }
        for (place, wires) in wires {
            wires.iter().for_each(|wire| cluster.cut_node(*place, *wire));
        }
        let cut_ms = boot_ms();
        let resources: Vec<&str> = holders.iter().map(|(resource, ..)| resource.as_str()).collect();
        let waiting = Waiting::begin(cluster, other, &resources);
        Self { cut_ms, holders, waiting }
    }

    /// Each is told and hung up on before its node's last call has run out, and others come after that.
    #[track_caller]
    fn assert_told_in_time(self) {
        let listening = |(resource, lease, mut connection, promise): (String, Value, Connection, Promise)| {
            std::thread::spawn(move || {
                let (said, hung_up_ms) = said_until_hung_up(&mut connection);
                (resource, lease, promise, said, hung_up_ms)
            })
        };
        let threads: Vec<_> = self.holders.into_iter().map(listening).collect();
        let told: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let granted = self.waiting.finish();
        for (resource, lease, promise, said, hung_up_ms) in told {
            let after_ms = hung_up_ms - self.cut_ms;
            assert!(after_ms < TTL_MS, "{resource}: {after_ms} ms after the cut");
            let lost: Vec<&Value> = said.iter().filter(|line| line["lost"].is_object()).collect();
            assert_eq!(lost.len(), 1, "{resource}: {said:?}");
            assert_eq!(lost[0]["lost"]["lease_id"], lease["lease_id"]);
            let granted_ms = granted_ms(&granted, &resource);
            assert!(granted_ms >= hung_up_ms, "{resource}: {} ms too soon", hung_up_ms - granted_ms);
            assert_after(&granted, &resource, promise, self.cut_ms);
        }
    }
}

/// A node that is back keeps connections again.
#[track_caller]
fn assert_serves(cluster: &Cluster, place: usize) {
    let mut connection = Connection::open(cluster, place);
    let lease = connection.acquire(&format!("again/{place}"), json!({}));
    connection.renew(&lease);
    assert_alive(cluster, place, &lease);
}

#[test]
fn a_follower_that_is_cut_off_tells_its_holders_and_hangs_up_in_time() {
    let cluster = Cluster::apart(&[]);
    let writer = cluster.wait_for_writer();
    let [one, two] = cluster.followers();
    let mut beside = Connection::open(&cluster, writer);
    let kept = beside.acquire("kept", json!({"grace_ms": 0}));
    // One still sees the log, the other nothing.
    let wires: [(usize, &[Wire]); 2] = [(one, &[Wire::Lan]), (two, &[Wire::Lan, Wire::Store])];
    CutOff::begin(&cluster, &wires, writer).assert_told_in_time();
    beside.renew(&kept);
    assert_alive(&cluster, writer, &kept);
    beside.assert_quiet();
    for (place, wires) in wires {
        wires.iter().for_each(|wire| cluster.heal_node(place, *wire));
    }
    cluster.wait_until_whole();
    assert_serves(&cluster, one);
    assert_serves(&cluster, two);
}

#[test]
fn a_writer_that_is_cut_off_tells_its_holders_and_hangs_up_in_time() {
    let cluster = Cluster::apart(&["--writer-ttl", "1s"]);
    let writer = cluster.wait_for_writer();
    let [one, two] = cluster.followers();
    let mut beside = [one, two].map(|place| Connection::open(&cluster, place));
    let kept = [0, 1].map(|number| beside[number].acquire(&format!("kept/{number}"), json!({"grace_ms": 0})));
    CutOff::begin(&cluster, &[(writer, &[Wire::Lan, Wire::Store])], one).assert_told_in_time();
    for (connection, lease) in beside.iter_mut().zip(&kept) {
        connection.renew(lease);
        assert_alive(&cluster, two, lease);
        connection.assert_quiet();
    }
    cluster.heal_node(writer, Wire::Lan);
    cluster.heal_node(writer, Wire::Store);
    cluster.wait_until_whole();
    assert_serves(&cluster, writer);
}
