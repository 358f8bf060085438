//! Logs that come into a store, or are adopted there, with a state of any size.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use tenure_cluster::Booted;
use tenure_cluster::adopt::{Continued, Given, Survey};
use tenure_cluster::format::{FIRST, PIECES};
use tenure_cluster::moving::{Beginning, activate, adopt, import, remains, standings};
use tenure_cluster::store::{Op, Store, Txn};
use tenure_cluster::values::{Node as Listed, encode};
use tenure_log::{Genesis, LogEnd, Lsn, Moment, OrderedLog};

use crate::growth::noise;
use crate::memory::MemoryStore;
use crate::remote::{Node, keys};
use crate::support::Writer;

const GENESIS: Genesis = Genesis { random: [9; 16], unix_seconds: 1_700_000_000, shard: 0 };
/// More than what a snapshot of the former layout may have.
const LARGE: usize = (128 << 20) + 1_000_000;

/// The state with which a node that has nothing begins.
fn first_state(store: &Arc<MemoryStore>) -> Vec<u8> {
    let node = Node::at(Arc::clone(store) as Arc<dyn Store>, "new");
    let Booted { mirror, .. } = node.boot();
    let newest = mirror.snapshots().newest().expect("the state is there");
    let mut found = Vec::new();
    mirror.snapshots().open(newest.lsn).unwrap().read_to_end(&mut found).unwrap();
    found
}

fn list(store: &MemoryStore, name: &str, format: u32) {
    let value = encode(&Listed { format, memory: name.to_owned(), ..Listed::default() });
    let put = Op::Put { key: keys().node(name), value };
    store.step(&Txn { then: vec![put], ..Txn::default() }, Duration::ZERO).unwrap();
}

#[test]
fn a_log_moves_into_a_store_with_a_state_that_packs_to_more_than_128_mib() {
    let (store, state) = (MemoryStore::new(), noise(LARGE));
    let end = LogEnd { last_lsn: Lsn(77), checksum: 7, writer_epoch: 1, ..LogEnd::default() };
    let beginning = Beginning {
        identity: GENESIS.identity(),
        identity_since: Lsn(1),
        parent_log_id: 0,
        end,
        snapshot: &state,
        secret: "secret".repeat(8),
        writer_ttl_ms: 1_000,
        wall_ms: 1,
    };
    import(&*store, &keys(), &beginning).unwrap();
    activate(&*store, &keys()).unwrap();
    assert!(first_state(&store) == state);
}

#[test]
fn a_log_is_adopted_with_a_state_that_packs_to_more_than_128_mib_whatever_the_listed_nodes_read() {
    let state = noise(LARGE);
    for format in [FIRST, PIECES] {
        let store = MemoryStore::new();
        let node = Node::at(Arc::clone(&store) as Arc<dyn Store>, "a");
        let mut log = node.claim();
        Writer::new(&log).append(&mut log, &[b"record"]);
        let _ = log.close(Moment { tick: 1, wall_ms: 1 });
        list(&store, "a", format);
        let stands = standings(&*store, &keys()).unwrap();
        let remains = remains(&*store, &keys(), &stands).unwrap();
        let survey = Survey::of(&remains, &[]).unwrap();
        let last_lsn = Lsn(stands.head.lsn);
        let end = LogEnd { last_lsn, checksum: stands.head.chain, writer_epoch: 1, ..LogEnd::default() };
        let continued =
            Continued { end, frame: stands.head.frame, tick: 1, longest_ttl_ms: 1, has_store_end: true };
        let given = Given { genesis: GENESIS, longest_ttl_ms: Some(1), wall_ms: 1 };
        let plan = survey.plan(&remains, &continued, &given);
        adopt(&*store, &keys(), &stands, &plan, &state, PIECES).unwrap();
        assert!(first_state(&store) == state, "{format}");
    }
}
