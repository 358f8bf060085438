//! Connections at several nodes want the same: no two hold it at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use super::{Connection, Heard, id, wish};
use crate::cluster::harness::{Cluster, LIMIT};
use crate::run_support::{let_time_pass, wait_until};

/// What one holder knows of its own time.
#[derive(Clone, Copy, Debug)]
struct Window {
    fence: u64,
    heard_ns: u64,
    gave_up_ns: u64,
}

fn boot_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Takes one resource again and again until it is told that it is enough.
fn contend(mut connection: Connection, windows: &Mutex<Vec<Window>>, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let mut line = wish("contended", json!({"wait_ms": 30_000}));
        line["tag"] = json!("w");
        let answer = connection.ask(&line);
        // Nobody knows, or nobody could decide in time: that is no hold.
        let Some(fence) = answer["acquired"]["fence"].as_u64() else { continue };
        let heard_ns = boot_ns();
        let_time_pass(Duration::from_millis(5), "the resource is held for a moment");
        let gave_up_ns = boot_ns();
        let lease = answer["acquired"].clone();
        let release = json!({"release": {"lease_id": id(&lease), "epoch": lease["epoch"]}});
        connection.say(&release);
        windows.lock().unwrap().push(Window { fence, heard_ns, gave_up_ns });
        match connection.heard(LIMIT) {
            Heard::Line(line) if line["released"].is_object() => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn connections_at_several_nodes_never_hold_one_resource_at_once() {
    let mut cluster = Cluster::local(&["--writer-ttl", "1s"]);
    let windows = Arc::new(Mutex::new(Vec::new()));
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = cluster.wait_for_writer();
    // Those at the writer would end with it: they are at the others.
    let threads: Vec<_> = [1, 2, 1, 2]
        .map(|step| {
            let connection = Connection::open(&cluster, (writer + step) % 3);
            let (windows, is_over) = (Arc::clone(&windows), Arc::clone(&is_over));
            std::thread::spawn(move || contend(connection, &windows, &is_over))
        })
        .into();
    let count = || windows.lock().unwrap().len();
    let wait_for_more = |what: &str| {
        let before = count();
        wait_until(what, LIMIT, || count() >= before + 20);
    };
    wait_for_more("holds");
    cluster.kill_node(writer);
    wait_for_more("holds after the end of a writer");
    let next = cluster.wait_for_writer();
    cluster.start_node(writer);
    cluster.wait_until_whole();
    cluster.nodes[next].post("/v1/cluster/step-down", &json!({}));
    wait_for_more("holds after a step-down");
    is_over.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
    let mut windows = windows.lock().unwrap().clone();
    windows.sort_by_key(|window| window.fence);
    println!("{} holds", windows.len());
    for pair in windows.windows(2) {
        assert!(pair[0].fence < pair[1].fence, "{pair:?}");
        assert!(pair[0].gave_up_ns <= pair[1].heard_ns, "two at once: {pair:?}");
    }
}
