//! The writer changes: connections at nodes that live stay open, and what they hold stays as it is.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Connection, TTL_MS, assert_alive, id, is_ended, promised_ms, wait_for_lease, wish};
use crate::cluster::harness::{Cluster, LIMIT};
use crate::run_support::{boot_ms, let_time_pass, wait_until};

/// A connection, one lease that its holder renews, and one of which it never speaks. Both are lost the moment that
/// anybody takes them for silent.
struct Kept {
    place: usize,
    connection: Connection,
    renewed: Value,
    unspoken: Value,
}

impl Kept {
    #[track_caller]
    fn take(cluster: &Cluster, place: usize, round: usize) -> Self {
        let mut connection = Connection::open(cluster, place);
        let mut acquire =
            |name: &str| connection.acquire(&format!("{name}/{place}/{round}"), json!({"grace_ms": 0}));
        let (renewed, unspoken) = (acquire("renewed"), acquire("unspoken"));
        Self { place, connection, renewed, unspoken }
    }

    #[track_caller]
    fn assert_kept(&mut self, cluster: &Cluster) {
        self.connection.renew(&self.renewed);
        assert_alive(cluster, self.place, &self.renewed);
        assert_alive(cluster, self.place, &self.unspoken);
        self.connection.assert_quiet();
    }
}

#[track_caller]
fn wait_for_another(cluster: &Cluster, writer: usize) {
    wait_until("another writer", LIMIT, || cluster.writer().is_some_and(|next| next != writer));
}

#[test]
fn connections_keep_their_leases_over_changes_of_writer() {
    let mut cluster = Cluster::local(&["--writer-ttl", "1s"]);
    let began_ms = boot_ms();
    let mut all: Vec<Kept> = (0..3).map(|place| Kept::take(&cluster, place, 0)).collect();
    for round in 1..=5 {
        let writer = cluster.wait_for_writer();
        match round {
            1 | 4 => {
                cluster.nodes[(writer + 1) % 3].post("/v1/cluster/step-down", &json!({}));
                wait_for_another(&cluster, writer);
            }
            2 | 5 => {
                cluster.kill_node(writer);
                all.retain(|kept| kept.place != writer);
                // At once, while nobody writes: it is answered when somebody does.
                all.iter_mut().for_each(|kept| kept.assert_kept(&cluster));
                cluster.start_node(writer);
                cluster.wait_until_whole();
                all.push(Kept::take(&cluster, writer, round));
            }
            _ => {
                cluster.freeze_node(writer);
                wait_for_another(&cluster, writer);
                cluster.thaw_node(writer);
            }
        }
        cluster.wait_until_whole();
        all.iter_mut().for_each(|kept| kept.assert_kept(&cluster));
    }
    let left_ms = (began_ms + TTL_MS + 1_500).saturating_sub(boot_ms());
    let_time_pass(Duration::from_millis(left_ms), "no connection lives by its first grant any more");
    assert_eq!(all.len(), 3);
    all.iter_mut().for_each(|kept| kept.assert_kept(&cluster));
}

#[test]
fn what_connections_do_while_nobody_writes_is_done_by_the_next_writer() {
    let mut cluster = Cluster::local(&["--writer-ttl", "1s"]);
    let writer = cluster.wait_for_writer();
    let [one, two] = cluster.followers();
    let mut known = Connection::open(&cluster, one);
    let kept = known.acquire("kept", json!({"grace_ms": 0}));
    let given_back = known.acquire("given-back", json!({}));
    let mut leaving = Connection::open(&cluster, one);
    let left = leaving.acquire("left", json!({"grace_ms": 0}));
    let mut resumed = Connection::open(&cluster, two);
    let moved = resumed.acquire("moved", json!({}));
    let mut fresh: Vec<Connection> = [one, two].map(|place| Connection::open(&cluster, place)).into();
    let sessions: Vec<String> = fresh.iter_mut().map(Connection::hello).collect();

    cluster.kill_node(writer);
    let killed_ms = boot_ms();
    drop((leaving, resumed));
    known.say(&super::heartbeat(&kept));
    known.say(&json!({"release": {"lease_id": id(&given_back), "epoch": 1}}));
    known.say(&wish("known", json!({})));
    for (number, connection) in fresh.iter_mut().enumerate() {
        connection.say(&wish(&format!("fresh/{number}"), json!({})));
    }
    let mut back = Connection::open(&cluster, one);

    let mut answered = |name: &str| match known.heard(LIMIT) {
        super::Heard::Line(line) if line[name].is_object() => line[name].clone(),
        other => panic!("{name}: {other:?}\n{}", cluster.said_lately()),
    };
    promised_ms(&answered("renewed"));
    assert_eq!(answered("released")["state"], "released");
    assert_eq!(answered("acquired")["session"], kept["session"]);
    println!("answered {} ms after the end of the writer", boot_ms() - killed_ms);
    for (connection, session) in fresh.iter_mut().zip(&sessions) {
        match connection.heard(LIMIT) {
            super::Heard::Line(line) => {
                assert_eq!(line["acquired"]["session"], **session, "{line}");
                promised_ms(&line["acquired"]);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(back.resume(&moved)["epoch"], 2);
    // A close that nobody could be told of is told to the next one.
    let ended = wait_for_lease(&cluster, two, &left, Duration::from_millis(TTL_MS), is_ended);
    println!("what was left ended {} ms after the end of the writer", boot_ms() - killed_ms);
    assert_eq!(ended["reason"], "session_expired", "{ended}");
    let story = cluster.nodes[two].get(&format!("/v1/why?lease={}", id(&left)));
    assert!(story.to_string().contains("disconnected"), "{story}");
    assert_alive(&cluster, two, &kept);
    known.renew(&kept);
    known.assert_quiet();
}
