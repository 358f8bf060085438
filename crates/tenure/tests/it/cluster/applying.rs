//! A node whose state does not take a record of the log does not lead: it would serve something else than what is there.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tenure_cluster::etcd::{EtcdOptions, EtcdStore};
use tenure_cluster::values::{Standing, Writer};
use tenure_cluster::{BootOptions, Claimant, Clock, FollowEnd, Follower, Lookout, Memory, Trust, boot};
use tenure_kernel::RecordKind;
use tenure_log::{
    AppendOutcome, BatchBuilder, BatchId, FileLogOptions, Genesis, Moment, OrderedLog, RealDisk,
};

use super::growth::{keys, told};
use super::harness::{Cluster, LIMIT};
use super::operator::Operator;
use crate::run_support::{boot_ms, holds_for, wait_until};

const CLOCK: Clock = Clock { boot_ms, boot_us: || boot_ms() * 1_000, wall_ms: || 1_700_000_000_000 };
const TTL_MS: u64 = 1_000;

/// Leads for a moment as a node of a later version would: it appends one record that no node here knows, and resigns.
/// Gives its epoch.
fn lead_with_a_later_version(etcd: SocketAddr) -> u64 {
    let options = EtcdOptions { endpoints: vec![etcd.to_string()], ..EtcdOptions::default() };
    let store = Arc::new(EtcdStore::open(options).unwrap());
    let (keys, root) = (keys(), tempfile::tempdir().unwrap());
    let genesis = Genesis { random: *b"of a later versi", unix_seconds: 1_700_000_000, shard: 0 };
    let with = BootOptions {
        store: &*store,
        keys: &keys,
        disk: Arc::new(RealDisk),
        root: root.path(),
        options: FileLogOptions::new(genesis, 1_700_000_000_000),
        secret: String::new(),
        writer_ttl_ms: TTL_MS,
        node: "later",
        memory: "of the later one".to_owned(),
    };
    let booted = boot(&with, &Memory::at(root.path())).unwrap();
    let (node, incarnation, url) = ("later".to_owned(), "1".to_owned(), "http://127.0.0.1:1".to_owned());
    let me = Claimant { node, incarnation, url, writer_ttl_ms: TTL_MS };
    let trust = Arc::new(Mutex::new(Trust::new("later".to_owned(), booted.known)));
    let (mirror, lookout) = (Arc::new(Mutex::new(booted.mirror)), Lookout::new(keys.clone(), me, 0));
    let mut follower = Follower::new(store, keys, mirror, lookout, CLOCK, Arc::default(), trust);
    let claim_id = || format!("later-{}", boot_ms());
    let end = follower.run(&mut |_| true, &AtomicBool::new(false), &|| true, &claim_id).unwrap();
    let FollowEnd::Won { mut log, tick } = end else { panic!("it was not told to stop") };
    let at = Moment { tick, wall_ms: 1_700_000_000_000 };
    assert!(matches!(log.open(at), AppendOutcome::Committed { .. }));
    let mut batch = BatchBuilder::new(BatchId::first(log.writer_epoch()), log.next_lsn(), at);
    batch.push(RecordKind::Event, b"\xff of a later version").unwrap();
    assert!(matches!(log.append(&batch.finish()), AppendOutcome::Committed { .. }));
    let epoch = log.writer_epoch();
    assert!(matches!(log.close(at), AppendOutcome::Committed { .. }));
    epoch
}

/// A node that only looked at what it has copied would claim, and end with its claim standing.
#[test]
fn a_node_whose_state_does_not_take_a_record_does_not_claim() {
    let mut cluster = Cluster::on_one_member_alone(&["--writer-ttl", "1s"], &[]);
    cluster.start_node(0);
    cluster.wait_until_whole();
    let etcd = cluster.members[0].address;
    let later = std::thread::spawn(move || lead_with_a_later_version(etcd));
    let operator = Operator::of(&cluster.members[0]);
    let writer = || operator.value::<Writer>(&keys().writer());
    // It claims when this node resigns, and this node may claim again a second later.
    wait_until("another leader", LIMIT, || {
        if cluster.nodes[0].view().is_some_and(|view| view["role"] == "leader") {
            let _ = cluster.nodes[0].ask("POST", "/v1/cluster/step-down", &json!({}));
        }
        writer().node == "later"
    });
    let epoch = later.join().unwrap();
    let resigned = holds_for(Duration::from_secs(4), || {
        let writer = writer();
        (writer.epoch, &writer.standing) == (epoch, &Standing::Resigned)
    });
    assert!(resigned, "{:?}\n{}", writer(), told(&cluster));
}
