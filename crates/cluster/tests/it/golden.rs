//! A store that the first version of the layout wrote, key by key: still understood, still written byte for byte, still gone
//! on from.

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_cluster::pieces::unpack_former;
use tenure_cluster::store::{Op, Store, Txn};
use tenure_cluster::values::{
    Beat, Floor, Head, Meta, Node as NodeValue, Standing, State, Writer, decode, encode,
};
use tenure_cluster::{BootError, Keys, Memory, Progress, Remembered};
use tenure_log::{Lsn, OrderedLog, frame};

use crate::memory::MemoryStore;
use crate::remote::{Node, keys};
use crate::support::read_all;

fn golden(name: &str) -> Vec<u8> {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1").join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Reads a value; written again it has the same bytes.
#[track_caller]
fn value<T: DeserializeOwned + Serialize + Debug>(name: &'static str) -> T {
    let bytes = golden(name);
    let value: T = decode(name, &bytes).unwrap();
    assert_eq!(String::from_utf8(encode(&value)), String::from_utf8(bytes), "{name}");
    value
}

/// Every frame, as its key holds it.
fn frames() -> Vec<Vec<u8>> {
    let salt = value::<Meta>("meta").salt;
    let bytes = golden("log");
    let (mut frames, mut rest) = (Vec::new(), bytes.as_slice());
    while !rest.is_empty() {
        let length = frame::decode_header(rest, salt).unwrap().frame_bytes();
        frame::decode(&rest[..length], salt).unwrap();
        frames.push(rest[..length].to_vec());
        rest = &rest[length..];
    }
    frames
}

/// The store, with this value of `writer` and this one of `meta`.
fn store(meta: &str, writer: &str) -> Arc<MemoryStore> {
    let keys: Keys = keys();
    let floor: Floor = value("floor");
    let mut all = vec![
        (keys.meta(), golden(meta)),
        (keys.writer(), golden(writer)),
        (keys.head(), golden("head")),
        (keys.beat(), golden("beat")),
        (keys.floor(), golden("floor")),
        (keys.node("one"), golden("nodes/one")),
        (keys.node("two"), golden("nodes/two")),
        (keys.piece(floor.snapshot_lsn, 0), golden("snap/00000000000000001557/0000")),
    ];
    all.extend((floor.frame..).zip(frames()).map(|(number, frame)| (keys.frame(number), frame)));
    let store = MemoryStore::new();
    let then = all.into_iter().map(|(key, value)| Op::Put { key, value }).collect();
    let put = Txn { compares: Vec::new(), then, otherwise: Vec::new() };
    store.step(&put, Duration::from_secs(1)).unwrap();
    store
}

#[test]
fn the_names_of_the_keys() {
    let keys = Keys::under("/tenure/");
    assert_eq!(
        [keys.meta(), keys.writer(), keys.head(), keys.beat(), keys.floor(), keys.node("one")],
        [
            "/tenure/meta",
            "/tenure/writer",
            "/tenure/head",
            "/tenure/beat",
            "/tenure/floor",
            "/tenure/nodes/one"
        ]
    );
    assert_eq!(keys.frame(1559), "/tenure/log/00000000000000001559");
    assert_eq!(keys.piece(1557, 0), "/tenure/snap/00000000000000001557/0000");
}

#[test]
fn every_value_is_understood_and_written_with_the_same_bytes() {
    let meta: Meta = value("meta");
    assert_eq!((meta.format, meta.log_id, meta.generation), (1, 13_711_306_625_647_117_924, 1));
    assert_eq!((meta.tag, meta.fence_base, meta.salt), (561_717, 1_882_011_902_935_040, 1_660_286_799));
    assert_eq!((meta.identity_since, meta.parent_log_id, meta.not_before_tick), (1, 0, 0));
    assert_eq!((meta.state, meta.secret.as_str()), (State::Active, "7a935f16e11e9b00d2dcae92712f00ab"));
    assert_eq!(value::<Meta>("meta-importing").state, State::Importing);
    let adopted: Meta = value("meta-adopted");
    assert_eq!(
        (adopted.generation, adopted.identity_since, adopted.not_before_tick),
        (2, 1_048_631, 3_630_699)
    );

    let writer: Writer = value("writer");
    assert_eq!((writer.epoch, writer.node.as_str(), writer.writer_ttl_ms), (1, "one", 3_000));
    assert_eq!(writer.standing, Standing::Writes);
    assert_eq!(value::<Writer>("writer-resigned").standing, Standing::Resigned);
    assert_eq!(
        value::<Writer>("writer-moved").standing,
        Standing::Moved { to: "/var/lib/tenure".to_owned() }
    );

    let head: Head = value("head");
    assert_eq!((head.frame, head.lsn, head.chain, head.epoch), (1652, 1651, 3_420_819_240, 1));
    let beat: Beat = value("beat");
    assert_eq!((beat.epoch, beat.frame), (1, 1652));
    let floor: Floor = value("floor");
    assert_eq!((floor.frame, floor.end.frame, floor.snapshot_lsn), (1559, 1558, 1557));
    for (name, url) in [("nodes/one", "http://127.0.0.1:15651"), ("nodes/two", "http://127.0.0.1:15652")] {
        let node: NodeValue = value(name);
        assert_eq!((node.url.as_str(), node.version.as_str()), (url, "0.1.0"));
    }
}

#[test]
fn frames_and_the_snapshot_are_whole() {
    let (head, floor): (Head, Floor) = (value("head"), value("floor"));
    let frames = frames();
    assert_eq!(frames.len() as u64, head.frame + 1 - floor.frame);
    let snapshot = unpack_former(&golden("snap/00000000000000001557/0000"), floor.snapshot_hash);
    assert_eq!(snapshot.expect("the snapshot that the floor names").len(), 62_278);
}

#[test]
fn a_node_that_knows_nothing_copies_it_and_goes_on() {
    let node = Node::at(store("meta", "writer-resigned"), "three");
    let log = node.claim();
    let head: Head = value("head");
    let (identity, meta) = (log.identity(), value::<Meta>("meta"));
    assert_eq!((identity.log_id, identity.tag), (meta.log_id, meta.tag));
    assert_eq!(log.next_lsn(), Lsn(head.lsn + 1));
    let records = read_all(&log);
    assert_eq!((records[0].lsn, records[records.len() - 1].lsn), (1558, head.lsn));
    assert_eq!(records.len(), 94);
    assert_eq!(log.snapshots().newest().map(|snapshot| snapshot.lsn), Some(Lsn(1557)));
}

#[test]
fn what_must_not_be_served_is_still_refused() {
    let refused = |meta, writer| {
        let node = Node::at(store(meta, writer), "three");
        node.try_boot().err().expect("a refusal")
    };
    assert!(matches!(refused("meta-importing", "writer"), BootError::Importing));
    let moved = refused("meta", "writer-moved");
    assert!(matches!(moved, BootError::Moved { to } if to == "/var/lib/tenure"));
}

#[test]
fn a_node_still_knows_what_it_remembered() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("cluster.json"), golden("cluster.json")).unwrap();
    let remembered = Memory::at(directory.path()).recall().unwrap();
    let progress = Progress { epoch: 1, revision: 7, ..Progress::default() };
    let expected =
        Remembered { log_id: 13_711_306_625_647_117_924, generation: 1, progress, ..Remembered::default() };
    assert_eq!(remembered, Some(expected));
}
