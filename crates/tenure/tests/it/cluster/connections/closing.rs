//! A connection is closed: its leases drain at once, each ends after its own grace, or comes back at any node.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    AT_ONCE, Connection, Heard, Promise, TTL_MS, Waiting, assert_alive, granted_ms, heartbeat, id, inspect,
    is_ended, listed, over_socket, promised_ms, resume, wait_for_lease, wait_until_draining, wait_until_gone,
    wish,
};
use crate::cluster::harness::{Cluster, LIMIT};
use crate::run_support::{assert_within, boot_ms, let_time_pass, wait_until};
use crate::wire::lines::Lines;

/// What a close by the peer frees is free within this, and always long before the end of what the holder was promised.
const FREED_MS: (u64, u64) = (100, TTL_MS / 2);
/// A silence, and what a busy machine may take.
const END_LIMIT: Duration = Duration::from_millis(TTL_MS + 5_000);

#[test]
fn a_closed_connection_drains_at_once_and_each_lease_ends_after_its_own_grace() {
    let cluster = Cluster::local(&[]);
    let writer = cluster.wait_for_writer();
    let [follower, other] = cluster.followers();
    let mut left = Vec::new();
    for place in [writer, follower] {
        let mut connection = Connection::open(&cluster, place);
        let late = connection.acquire(&format!("late/{place}"), json!({"grace_ms": 60_000}));
        let soon = connection.acquire(&format!("soon/{place}"), json!({"grace_ms": 700}));
        let beaten = connection.acquire(&format!("beaten/{place}"), json!({"ttl_ms": 60_000}));
        let closed_ms = boot_ms();
        drop(connection);
        let draining = wait_until_draining(&cluster, other, &late);
        assert_eq!((&draining["state"], &draining["drain_cause"]), (&json!("active"), &json!("silence")));
        let remaining_ms = draining["remaining_ms"].as_u64().unwrap();
        assert!((50_000..=60_000).contains(&remaining_ms), "{draining}");
        println!("node {place}: draining seen {} ms after the close", boot_ms() - closed_ms);
        left.push((closed_ms, late, soon, beaten));
    }
    // The same over the standard input of a program.
    let mut stdin = Lines::stdin(&mut cluster.nodes[follower].daemon.desk.command(&["stdio"]));
    let typed = stdin.good(wish("typed", json!({"grace_ms": 0})), "acquired");
    promised_ms(&typed);
    assert_eq!(listed(&cluster, other, typed["session"].as_str().unwrap()).unwrap()["kind"], "stdin");
    stdin.end_writing();

    for (closed_ms, late, soon, beaten) in &left {
        let ended = wait_for_lease(&cluster, other, soon, AT_ONCE, is_ended);
        let lasted_ms = boot_ms() - closed_ms;
        println!("over {lasted_ms} ms after the close");
        assert!(lasted_ms >= 700, "{lasted_ms} ms");
        assert_eq!(ended["reason"], "session_expired", "{ended}");
        let story = cluster.nodes[other].get(&format!("/v1/why?lease={}", id(soon)));
        let entries = story["entries"].as_array().unwrap();
        let kinds: Vec<&str> = entries.iter().map(|entry| entry["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds[..3], ["granted", "draining", "revoked"], "{story}");
        assert_eq!(entries[2]["evidence"]["kind"], "disconnected", "{story}");
        assert_eq!(inspect(&cluster, other, late)["liveness"], "draining");
        assert_eq!(
            inspect(&cluster, other, beaten)["liveness"],
            "alive",
            "it does not live by its connection"
        );
    }
    let ended = wait_for_lease(&cluster, other, &typed, AT_ONCE, is_ended);
    assert_eq!(ended["reason"], "session_expired", "{ended}");
}

#[test]
fn a_lease_comes_back_on_a_connection_to_any_node() {
    let mut cluster = Cluster::local(&[]);
    let writer = cluster.wait_for_writer();
    let [first, second] = cluster.followers();
    let mut connection = Connection::open(&cluster, first);
    let mut lease = connection.acquire("back", json!({"attachment": {"job": 7}}));
    for place in [second, writer, first, first] {
        drop(connection);
        wait_until_draining(&cluster, place, &lease);
        connection = Connection::open(&cluster, place);
        let session = connection.hello();
        connection.refused(&heartbeat(&lease), "no_liveness");
        let mut stale = resume(&lease);
        stale["resume"]["epoch"] = json!(99);
        connection.refused(&stale, "stale_epoch");
        let back = connection.good(&resume(&lease), "resumed");
        promised_ms(&back);
        assert_eq!(back["lease_id"], lease["lease_id"]);
        assert!(back["epoch"].as_u64() > lease["epoch"].as_u64(), "{back}");
        assert!(back["fence"].as_u64() > lease["fence"].as_u64(), "{back}");
        assert_eq!((&back["session"], &back["liveness"]), (&json!(session), &json!("alive")), "{back}");
        assert_eq!(back["attachment"], json!({"job": 7}));
        connection.refused(&heartbeat(&lease), "stale_epoch");
        connection.renew(&back);
        lease = back;
    }

    // Nobody takes it from an open connection; the end of the one before concerns nobody once it moved.
    let mut next = Connection::open(&cluster, second);
    next.refused(&resume(&lease), "not_draining");
    connection.renew(&lease);
    drop(connection);
    let moved = next.resume(&lease);
    wait_until_gone(&cluster, second, lease["session"].as_str().unwrap());
    assert_alive(&cluster, second, &moved);
    next.renew(&moved);

    // A node that is stopped in good order loses nothing of what its connections held.
    cluster.stop_node(second);
    let stopped_ms = boot_ms();
    let drained = wait_for_lease(&cluster, first, &moved, END_LIMIT, |shown| shown["liveness"] != "alive");
    println!("draining {} ms after the stop of the node", boot_ms() - stopped_ms);
    assert_eq!(drained["state"], "active", "{drained}");
    let mut next = Connection::open(&cluster, first);
    let back = next.good(&resume(&moved), "resumed");
    next.renew(&back);
    assert_eq!(inspect(&cluster, writer, &back)["liveness"], "alive");
}

#[test]
fn what_a_closed_connection_waited_for_goes_to_others() {
    let cluster = Cluster::local(&[]);
    let [follower, other] = cluster.followers();
    let mut holder = Connection::open(&cluster, other);
    let held = holder.acquire("awaited", json!({}));
    let mut waiting = Connection::open(&cluster, follower);
    let mut line = wish("awaited", json!({"holder": "bob", "wait_ms": 60_000}));
    line["tag"] = json!(1);
    waiting.say(&line);
    let waiters = |lease: &Value| inspect(&cluster, other, lease)["waiters"].clone();
    wait_until("somebody waits", LIMIT, || waiters(&held) == json!(["bob"]));
    drop(waiting);
    wait_until("nobody waits", AT_ONCE, || waiters(&held) == json!([]));

    // A grant that meets a connection on its way out is nobody's for ever: what is held in the end tells.
    for round in 0..30 {
        let resource = format!("raced/{round}");
        let held = holder.acquire(&resource, json!({}));
        let mut waiting = Connection::open(&cluster, round as usize % 3);
        waiting.say(&json!({"hello": {}}));
        let mut line = wish(&resource, json!({"holder": "bob", "wait_ms": 60_000, "grace_ms": 0}));
        line["tag"] = json!(1);
        waiting.say(&line);
        wait_until("somebody waits", LIMIT, || waiters(&held) == json!(["bob"]));
        let release = json!({"release": {"lease_id": id(&held), "epoch": 1}});
        if round % 4 == 0 {
            drop(waiting);
            holder.good(&release, "released");
        } else {
            holder.say(&release);
            let_time_pass(Duration::from_millis(round % 6), "the close meets the grant at another moment");
            drop(waiting);
            let released = holder.heard(LIMIT);
            assert!(matches!(released, Heard::Line(_)), "{released:?}");
        }
    }
    // Whoever did not hear of the close is told again before long.
    let deadline_ms = boot_ms() + TTL_MS / 2;
    loop {
        let path = "/v1/leases?resource_prefix=raced/";
        let list = over_socket(&cluster, follower, "GET", path, &Value::Null).json();
        let held: Vec<&Value> =
            list["leases"].as_array().unwrap().iter().filter(|shown| !is_ended(shown)).collect();
        if held.is_empty() {
            return;
        }
        assert!(boot_ms() < deadline_ms, "held by nobody: {held:?}");
        let_time_pass(super::LOOK, "between two looks");
    }
}

/// What a closed connection held was kept from others until the end of `valid_ms`, though its holder had closed it.
#[test]
fn a_connection_that_its_peer_closes_frees_at_once_what_has_no_grace() {
    let cluster = Cluster::local(&[]);
    let writer = cluster.wait_for_writer();
    let [follower, other] = cluster.followers();
    for place in [writer, follower] {
        assert_within(&format!("closed at {place}"), FREED_MS, |number| {
            let resource = format!("closed/{place}/{number}");
            let mut connection = Connection::open(&cluster, place);
            let lease = connection.acquire(&resource, json!({"grace_ms": 0}));
            connection.renew(&lease);
            free_after_ms(&cluster, other, &resource, move || drop(connection))
        });
    }
    assert_within("closed with answers that it never read", FREED_MS, |number| {
        let resource = format!("unread/{number}");
        let mut connection = Connection::open(&cluster, follower);
        connection.acquire(&resource, json!({"grace_ms": 0}));
        connection.say(&json!({"status": {}}));
        free_after_ms(&cluster, other, &resource, move || drop(connection))
    });
    // A standard input that ends says the same; its answers came before.
    assert_within("the end of a standard input", FREED_MS, |number| {
        let resource = format!("typed/{number}");
        let mut stdin = Lines::stdin(&mut cluster.nodes[follower].daemon.desk.command(&["stdio"]));
        stdin.good(wish(&resource, json!({"grace_ms": 0})), "acquired");
        free_after_ms(&cluster, other, &resource, move || {
            stdin.end_writing();
            stdin
        })
    });
    // A grace is a grace; behind it nothing is waited for.
    const GRACE_MS: u64 = 500;
    assert_within("closed, after its grace", FREED_MS, |number| {
        let resource = format!("graced/{number}");
        let mut connection = Connection::open(&cluster, follower);
        let lease = connection.acquire(&resource, json!({"grace_ms": GRACE_MS}));
        connection.renew(&lease);
        let lasted_ms = free_after_ms(&cluster, other, &resource, move || drop(connection));
        lasted_ms.checked_sub(GRACE_MS).unwrap_or_else(|| panic!("{resource}: free after {lasted_ms} ms"))
    });
}

/// How long it takes from a close until somebody who waits holds the resource.
#[track_caller]
fn free_after_ms<T>(cluster: &Cluster, place: usize, resource: &str, close: impl FnOnce() -> T) -> u64 {
    let waiting = Waiting::begin(cluster, place, &[resource]);
    wait_until("somebody waits", LIMIT, || {
        let shown = cluster.nodes[place].get(&format!("/v1/resources/{}", resource.replace('/', "%2F")));
        shown["waiters"] == json!(["next"])
    });
    let closed_ms = boot_ms();
    let _open = close();
    granted_ms(&waiting.finish(), resource) - closed_ms
}

/// Its holder did not close it: what it was promised counts.
#[test]
fn a_connection_that_ends_otherwise_frees_nothing_before_its_promise_is_over() {
    let cluster = Cluster::local(&[]);
    let [follower, other] = cluster.followers();
    // A proxy that is killed says nothing of the program behind it.
    let mut stdin = Lines::stdin(&mut cluster.nodes[follower].daemon.desk.command(&["stdio"]));
    let sent_ms = boot_ms();
    let typed = stdin.good(wish("typed", json!({"grace_ms": 0})), "acquired");
    let promises = [("typed", Promise { until_ms: sent_ms + promised_ms(&typed) })];
    drop(stdin);
    // A node that hangs up says nothing of its holder.
    let mut deaf = Connection::open(&cluster, follower);
    let lease = deaf.acquire("deaf", json!({"grace_ms": 0}));
    let promises = [promises[0], ("deaf", deaf.renew(&lease))];
    let waiting = Waiting::begin(&cluster, other, &["typed", "deaf"]);
    hang_up_on(&mut deaf);
    let granted = waiting.finish();
    for (resource, promise) in promises {
        let at_ms = granted_ms(&granted, resource);
        assert!(at_ms >= promise.until_ms, "{resource}: {} ms too soon", promise.until_ms - at_ms);
        println!("{resource}: in other hands {} ms after its promise", at_ms - promise.until_ms);
    }
}

/// Asks without reading until the node has had enough, and reads to the end.
#[track_caller]
fn hang_up_on(deaf: &mut Connection) {
    let questions = "{\"status\":{}}\n".repeat(64);
    deaf.lines.stream().set_write_timeout(Some(AT_ONCE)).unwrap();
    while deaf.lines.raw(questions.as_bytes()).is_ok() {}
    loop {
        match deaf.heard(LIMIT) {
            Heard::Line(_) => {}
            Heard::HungUp => return,
            Heard::Nothing => panic!("the node does not hang up"),
        }
    }
}
