//! The process beside a leader that resigns for it when it dies. With a `writer_ttl` of ten seconds nothing here passes by
//! waiting for a silent leader.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tenure_cluster::Keys;
use tenure_cluster::values::Writer;

use super::harness::{Cluster, LIMIT, Node, done};
use super::operator::Operator;
use crate::run_support::{assert_within, boot_ms, holds_for, wait_until};

const LONG_TTL: [&str; 2] = ["--writer-ttl", "10s"];
/// C2 of the guide: a new leader after the death of the leader's process; always far below the ttl above.
const REPLACED_MS: (u64, u64) = (300, 5_000);
/// What a guardian may take to end after its daemon.
const PARTING: Duration = Duration::from_secs(10);

fn writer_in_store(cluster: &Cluster) -> Writer {
    Operator::of(&cluster.members[0]).value(&Keys::under("test").writer())
}

fn granted(node: &Node, resource: &str) -> Option<Value> {
    let body = json!({"resources": [resource], "holder": "next", "operation_id": format!("op-{resource}")});
    done(&node.ask("POST", "/v1/leases", &body))
}

/// Milliseconds until a node other than this one grants something.
#[track_caller]
fn outage_ms(cluster: &Cluster, lost: usize, resource: &str) -> u64 {
    let (began_ms, other) = (boot_ms(), (lost + 1) % 3);
    wait_until(&format!("{resource} granted\n{}", cluster.said_lately()), LIMIT, || {
        granted(&cluster.nodes[other], resource).is_some()
    });
    boot_ms() - began_ms
}

/// What the descriptors of a process are.
fn descriptors(pid: Pid) -> BTreeSet<String> {
    let directory = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).unwrap();
    directory
        .filter_map(|fd| Some(fs::read_link(fd.ok()?.path()).ok()?.to_str()?.to_owned()))
        .filter(|link| link != "/dev/null" && !link.starts_with("anon_inode:"))
        .collect()
}

fn is_there(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[test]
fn a_killed_leader_is_replaced_long_before_its_ttl() {
    let mut cluster = Cluster::local(&LONG_TTL);
    let mut round = 0;
    let mut replaced_ms = |cluster: &mut Cluster| {
        round += 1;
        let writer = cluster.wait_for_writer();
        let before = writer_in_store(cluster);
        let body = json!({"resources": [format!("kept-{round}")], "holder": "alice", "ttl_ms": 20_000});
        let kept = cluster.nodes[writer].post("/v1/leases", &body);
        cluster.kill_node(writer);
        let outage_ms = outage_ms(cluster, writer, &format!("next-{round}"));
        let after = writer_in_store(cluster);
        assert_eq!(after.epoch, before.epoch + 1, "{before:?} {after:?}");
        assert!(after.tick >= before.tick, "{before:?} {after:?}");
        let path = format!("/v1/leases/{}/heartbeat", kept["lease_id"].as_str().unwrap());
        let renewed = cluster.nodes[(writer + 1) % 3].post(&path, &json!({"epoch": kept["epoch"]}));
        assert_eq!(renewed["lease_id"], kept["lease_id"]);
        // Nothing of the old one is in the way of a new one.
        cluster.start_node(writer);
        cluster.wait_until_whole();
        outage_ms
    };
    // More than once: each leader has a guardian of its own.
    let first = [(); 2].map(|()| replaced_ms(&mut cluster));
    println!("{first:?} ms");
    assert_within("a new leader", REPLACED_MS, |_| replaced_ms(&mut cluster));
}

#[test]
fn a_paused_leader_is_not_resigned_for() {
    let mut cluster = Cluster::local(&LONG_TTL);
    let writer = cluster.wait_for_writer();
    let before = writer_in_store(&cluster);
    let guardian = cluster.nodes[writer].guardian();
    cluster.freeze_node(writer);
    let store = Operator::of(&cluster.members[0]);
    let key = Keys::under("test").writer();
    let stands =
        holds_for(Duration::from_secs(4), || is_there(guardian) && store.value::<Writer>(&key) == before);
    assert!(stands, "{before:?} {:?}", store.value::<Writer>(&key));
    cluster.thaw_node(writer);
    cluster.wait_until_whole();
    assert!(granted(&cluster.nodes[writer], "again").is_some(), "{}", cluster.said_lately());
    assert_eq!(store.value::<Writer>(&key), before);
}

#[test]
fn without_its_guardian_a_killed_leader_is_waited_for() {
    let mut cluster = Cluster::local(&["--writer-ttl", "3s"]);
    let writer = cluster.wait_for_writer();
    kill_process(cluster.nodes[writer].guardian(), Signal::KILL).unwrap();
    wait_until("the leader to notice", LIMIT, || {
        cluster.nodes[writer].daemon.said().contains("guardian process ended")
    });
    cluster.kill_node(writer);
    let outage_ms = outage_ms(&cluster, writer, "next");
    // The last proof of life is at most a third of the ttl old.
    assert!(outage_ms > 1_500, "{outage_ms} ms");
}

#[test]
fn a_guardian_has_nothing_of_its_daemon_and_ends_with_it() {
    let mut cluster = Cluster::local(&LONG_TTL);
    for node in &cluster.nodes {
        let (guardian, daemon) = (node.guardian(), Pid::from_raw(node.daemon.pid()).unwrap());
        let shared: BTreeSet<String> =
            descriptors(guardian).intersection(&descriptors(daemon)).cloned().collect();
        assert!(shared.is_empty(), "{shared:?}");
        let words = fs::read(format!("/proc/{}/cmdline", guardian.as_raw_nonzero())).unwrap();
        assert_eq!(String::from_utf8(words).unwrap(), "tenure\0guardian\0--leader\0");
        // A terminal's, and systemd's to all of a unit.
        for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::ABORT] {
            kill_process(guardian, signal).unwrap();
        }
        assert!(holds_for(Duration::from_millis(200), || is_there(guardian)));
    }
    let writer = cluster.wait_for_writer();
    let guardians: Vec<Pid> = cluster.nodes.iter().map(Node::guardian).collect();
    // Stopped, it leaves none behind; killed, its guardian has something to do first, or nothing.
    cluster.stop_node(writer);
    assert!(!is_there(guardians[writer]));
    cluster.wait_for_writer();
    for other in [(writer + 1) % 3, (writer + 2) % 3] {
        cluster.kill_node(other);
        wait_until("the end of a guardian", PARTING, || !is_there(guardians[other]));
    }
}

#[test]
fn a_guardian_gives_up_where_no_store_answers() {
    let mut cluster = Cluster::local(&LONG_TTL);
    let writer = cluster.wait_for_writer();
    let guardian = cluster.nodes[writer].guardian();
    cluster.members.iter_mut().for_each(super::store::Member::kill);
    cluster.kill_node(writer);
    wait_until("the end of a guardian", PARTING, || !is_there(guardian));
}
