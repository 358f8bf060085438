//! What keeps the store small, over a store in memory: in which steps, and what happens when one of them fails.

use std::fs::remove_dir_all;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_cluster::format::{FIRST, PIECES};
use tenure_cluster::growth::{Compaction, FRAMES_PER_LOT, Growth, PIECES_PER_LOT, Tended};
use tenure_cluster::pieces::unpack_former;
use tenure_cluster::store::{Op, Ranged, Stepped, Store, StoreError, Txn, Watching};
use tenure_cluster::values::{Floor, decode, encode};
use tenure_cluster::{FollowError, RemoteLog, SharedMirror};
use tenure_log::{Lsn, Moment, OrderedLog};

use crate::memory::MemoryStore;
use crate::remote::{Node, keys};
use crate::support::Writer;

const WITHIN: Duration = Duration::from_secs(1);
const MIB: u64 = 1 << 20;

/// Called when a piece of a snapshot is read.
type OnRead = Box<dyn FnOnce() + Send>;

/// A store that counts.
struct Counting {
    under: Arc<MemoryStore>,
    /// The most keys that went in one step.
    deleted_max: AtomicUsize,
    /// The most frames that etcd would have walked through for one answer.
    walked_max: AtomicUsize,
    pieces_put: AtomicUsize,
    /// How often it was compacted.
    compacted: AtomicUsize,
    /// Everything outside of the prefix is refused.
    is_narrow: AtomicBool,
    /// Every read but that of the floor is refused.
    is_closed: AtomicBool,
    /// Pieces are refused.
    is_full: AtomicBool,
    on_read: Mutex<Option<OnRead>>,
}

impl Counting {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            under: MemoryStore::new(),
            deleted_max: AtomicUsize::new(0),
            walked_max: AtomicUsize::new(0),
            pieces_put: AtomicUsize::new(0),
            compacted: AtomicUsize::new(0),
            is_narrow: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            on_read: Mutex::default(),
        })
    }

    fn keys_in(&self, from: &str, to: &str) -> usize {
        self.under.range(from, to, usize::MAX, WITHIN).unwrap().found.len()
    }

    fn floor(&self) -> Floor {
        let key = keys().floor();
        let found = self.under.range(&key, &format!("{key}\0"), 1, WITHIN).unwrap().found;
        decode("floor", &found[0].value).unwrap()
    }
}

impl Store for Counting {
    fn step(&self, txn: &Txn, within: Duration) -> Result<Stepped, StoreError> {
        let mut deleted = 0;
        for op in &txn.then {
            match op {
                Op::Put { key, .. } if keys().piece_number(key).is_some() => {
                    if self.is_full.load(Ordering::SeqCst) {
                        return Err(StoreError::Unanswered {
                            why: "the test says that it is full".to_owned(),
                        });
                    }
                    self.pieces_put.fetch_add(1, Ordering::SeqCst);
                }
                Op::Delete { from, to } => deleted += self.keys_in(from, to),
                Op::Put { .. } | Op::Get { .. } => {}
            }
        }
        self.deleted_max.fetch_max(deleted, Ordering::SeqCst);
        self.under.step(txn, within)
    }

    fn range(&self, from: &str, to: &str, limit: usize, within: Duration) -> Result<Ranged, StoreError> {
        let (first, last) = keys().all();
        let is_outside = from < first.as_str() || to > last.as_str();
        let is_closed = self.is_closed.load(Ordering::SeqCst) && from != keys().floor();
        if is_closed || self.is_narrow.load(Ordering::SeqCst) && is_outside {
            let why = "permission denied".to_owned();
            return Err(StoreError::Refused { why, no_space: false });
        }
        let found = self.under.range(from, to, limit, within);
        if keys().frame_number(from).is_some() {
            self.walked_max.fetch_max(self.keys_in(from, to), Ordering::SeqCst);
        }
        let is_piece = found
            .as_ref()
            .is_ok_and(|found| found.found.iter().any(|found| keys().piece_number(&found.key).is_some()));
        let on_read = if is_piece { self.on_read.lock().unwrap().take() } else { None };
        if let Some(on_read) = on_read {
            on_read();
        }
        found
    }

    fn watch(
        &self,
        from: &str,
        to: &str,
        since: u64,
        within: Duration,
    ) -> Result<Box<dyn Watching>, StoreError> {
        self.under.watch(from, to, since, within)
    }

    fn compact(&self, _: u64, _: Duration) -> Result<(), StoreError> {
        self.compacted.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// A writer whose log has grown, and what keeps it small.
struct Grown {
    store: Arc<Counting>,
    node: Node,
    log: RemoteLog,
    mirror: SharedMirror,
    writer: Writer,
    growth: Growth,
}

impl Grown {
    fn new() -> Self {
        let store = Counting::new();
        let node = Node::at(Arc::clone(&store) as Arc<dyn Store>, "a");
        let (log, mirror) = node.claim_with_copy();
        let writer = Writer::new(&log);
        let mut growth = Growth::begin(&*store, keys(), encode(&log.writer()), Compaction::Always).unwrap();
        growth.write_up_to(PIECES);
        Self { store, node, log, mirror, writer, growth }
    }

    fn write(&mut self, frames: usize, bytes: usize) {
        let record = vec![7; bytes];
        for _ in 0..frames {
            self.writer.append(&mut self.log, &[&record]);
        }
    }

    fn snapshot(&self, state: &[u8]) -> Lsn {
        let (lsn, at) = (self.log.synced_lsn(), Moment { tick: 1, wall_ms: 1 });
        self.log.snapshots().store(lsn, at, state).unwrap();
        lsn
    }

    fn tend(&mut self, quota: u64) -> Tended {
        self.growth.tend(&*self.store, &self.mirror, quota, 0).unwrap()
    }

    /// Looks until something came of it.
    fn tend_on(&mut self, quota: u64) -> Tended {
        (0..1_000).map(|_| self.tend(quota)).find(|tended| *tended != Tended::Quiet).unwrap()
    }
}

/// Bytes that do not get shorter.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect()
}

#[test]
fn what_is_trimmed_goes_in_lots() {
    let mut grown = Grown::new();
    grown.write(700, 40);
    grown.snapshot(b"state");
    assert_eq!(grown.tend_on(MIB), Tended::Trimmed { floor: 702 }, "with the frame that opens the term");
    assert_eq!(grown.store.keys_in(&keys().frame(0), &keys().frame(u64::MAX)), 0);
    let most = grown.store.deleted_max.load(Ordering::SeqCst);
    assert!(most <= FRAMES_PER_LOT as usize, "{most} keys went in one step");
    let most = grown.store.walked_max.load(Ordering::SeqCst);
    assert!(most <= FRAMES_PER_LOT as usize, "etcd walked through {most} frames for one");
    // The pieces of a snapshot that another one replaces go in lots too.
    grown.write(100, 1_000);
    grown.snapshot(&vec![0; 40_000_000]);
    assert!(matches!(grown.tend_on(2 * MIB), Tended::Trimmed { .. }));
    let pieces = grown.store.floor().pieces as usize;
    assert!(pieces > 2 * PIECES_PER_LOT, "{pieces}");
    grown.store.deleted_max.store(0, Ordering::SeqCst);
    grown.write(100, 1_000);
    let lsn = grown.snapshot(b"state");
    assert!(matches!(grown.tend_on(MIB), Tended::Trimmed { .. }));
    let (first, end) = keys().snapshots();
    assert_eq!((grown.store.keys_in(&first, &end), grown.store.floor().snapshot_lsn), (1, lsn.0));
    let most = grown.store.deleted_max.load(Ordering::SeqCst);
    assert!(most <= FRAMES_PER_LOT as usize, "{most} keys went in one step");
}

#[test]
fn a_snapshot_that_the_store_does_not_take_goes_on_where_it_was() {
    let mut grown = Grown::new();
    grown.write(200, 1_000);
    let state = vec![1; 70_000_000];
    let lsn = grown.snapshot(&state);
    assert_eq!(grown.tend(4 * MIB), Tended::Quiet, "it is packed to see whether it fits");
    while grown.store.pieces_put.load(Ordering::SeqCst) == 0 {
        assert_eq!(grown.tend(4 * MIB), Tended::Quiet);
    }
    grown.store.is_full.store(true, Ordering::SeqCst);
    for _ in 0..5 {
        assert!(grown.growth.tend(&*grown.store, &grown.mirror, 4 * MIB, 0).is_err());
    }
    grown.store.is_full.store(false, Ordering::SeqCst);
    assert!(matches!(grown.tend_on(4 * MIB), Tended::Trimmed { .. }));
    assert_eq!(grown.store.pieces_put.load(Ordering::SeqCst), 70, "each was put once");
    // Another node begins with it.
    let other = Node::at(Arc::clone(&grown.store) as Arc<dyn Store>, "b");
    let mut found = Vec::new();
    other.boot().mirror.snapshots().open(lsn).unwrap().read_to_end(&mut found).unwrap();
    assert!(found == state);
}

#[test]
fn a_snapshot_is_put_in_the_former_layout_while_a_listed_node_reads_no_other() {
    let mut grown = Grown::new();
    let state = noise(3_000_000);
    for (format, pieces) in [(FIRST, 0), (PIECES, 3), (FIRST, 0)] {
        grown.growth.write_up_to(format);
        // More than a sixteenth of the quota: a snapshot is due whatever the last one took.
        grown.write(600, 4_000);
        let lsn = grown.snapshot(&state);
        assert!(matches!(grown.tend_on(32 * MIB), Tended::Trimmed { .. }), "{format}");
        let floor = grown.store.floor();
        assert_eq!((floor.snapshot_lsn, floor.pieces, floor.packed_bytes > 0), (lsn.0, pieces, pieces > 0));
        let stored = grown.store.under.range(&keys().pieces(lsn.0).0, &keys().pieces(lsn.0).1, 99, WITHIN);
        let packed: Vec<u8> = stored.unwrap().found.into_iter().flat_map(|piece| piece.value).collect();
        // What the first format's programs do with it.
        let read_by_former = unpack_former(&packed, floor.snapshot_hash);
        assert_eq!(read_by_former.is_some_and(|read| read == state), format == FIRST);
        let other = Node::at(Arc::clone(&grown.store) as Arc<dyn Store>, "b");
        let mut found = Vec::new();
        other.boot().mirror.snapshots().open(lsn).unwrap().read_to_end(&mut found).unwrap();
        assert!(found == state, "{format}");
    }
    // Until a list of nodes was read it is the former one.
    let begun =
        Growth::begin(&*grown.store, keys(), encode(&grown.log.writer()), Compaction::Always).unwrap();
    grown.growth = begun;
    grown.write(300, 4_000);
    grown.snapshot(&state);
    assert!(matches!(grown.tend_on(32 * MIB), Tended::Trimmed { .. }));
    assert_eq!(grown.store.floor().pieces, 0);
}

// What the former layout took at most was all that was ever trimmed.
#[test]
fn a_state_that_packs_to_more_than_128_mib_is_trimmed_and_another_node_begins_with_it() {
    const FORMER_BYTES_MAX: usize = 128 << 20;
    // An eighth of it takes the snapshot, a thirty-second of it in frames makes one due.
    const QUOTA: u64 = 1_100 * MIB;
    let mut grown = Grown::new();
    grown.write(48, 900_000);
    let state = noise(FORMER_BYTES_MAX + 1_000_000);
    let lsn = grown.snapshot(&state);
    assert!(matches!(grown.tend_on(QUOTA), Tended::Trimmed { .. }));
    let floor = grown.store.floor();
    assert!(floor.snapshot_lsn == lsn.0 && floor.packed_bytes > FORMER_BYTES_MAX as u64, "{floor:?}");
    assert_eq!(grown.store.keys_in(&keys().frame(0), &keys().frame(u64::MAX)), 0);
    let other = Node::at(Arc::clone(&grown.store) as Arc<dyn Store>, "b");
    let mut found = Vec::new();
    other.boot().mirror.snapshots().open(lsn).unwrap().read_to_end(&mut found).unwrap();
    assert!(found == state);
}

#[test]
fn the_floor_names_the_format_of_the_program_that_took_the_snapshot_and_none_for_one_that_was_there() {
    let mut grown = Grown::new();
    let mut trimmed = |found: Option<u64>| {
        grown.write(100, 1_000);
        let lsn = grown.snapshot(b"state");
        if let Some(above) = found {
            grown.growth.snapshots_are_of(7, Lsn(lsn.0 - above));
        }
        assert!(matches!(grown.tend_on(MIB), Tended::Trimmed { .. }));
        let floor = grown.store.floor();
        assert_eq!(floor.snapshot_lsn, lsn.0);
        floor.format
    };
    assert_eq!(trimmed(None), 0, "it was not told");
    assert_eq!(trimmed(Some(1)), 7);
    assert_eq!(trimmed(Some(0)), 0, "an older program may have taken it");
}

// The leader asked once a term whether it is alone: a program that moved in later lost the history of its keys.
#[test]
fn a_leader_that_is_not_alone_any_more_compacts_nothing() {
    let mut grown = Grown::new();
    let writer = encode(&grown.log.writer());
    let begin =
        |store: &Counting| Growth::begin(store, keys(), writer.clone(), Compaction::WhileAlone).unwrap();
    let trim_twice = |grown: &mut Grown| {
        for _ in 0..2 {
            grown.write(100, 1_000);
            grown.snapshot(b"state");
            assert!(matches!(grown.tend_on(MIB), Tended::Trimmed { .. }));
        }
        grown.tend(MIB);
        grown.store.compacted.swap(0, Ordering::SeqCst)
    };
    grown.growth = begin(&grown.store);
    assert!(trim_twice(&mut grown) > 0, "alone");
    let foreign = Op::Put { key: "/other/key".to_owned(), value: Vec::new() };
    let txn = Txn { then: vec![foreign], ..Txn::default() };
    grown.store.step(&txn, WITHIN).unwrap();
    assert_eq!((trim_twice(&mut grown), grown.growth.compaction()), (0, Compaction::Never));
    assert_eq!(begin(&grown.store).compaction(), Compaction::Never, "in the next term");
}

// Nothing was ever trimmed there: whether others are there could not be asked, and was asked again and again.
#[test]
fn a_leader_whose_role_covers_the_prefix_alone_trims_and_leaves_compaction_to_others() {
    let mut grown = Grown::new();
    grown.store.is_narrow.store(true, Ordering::SeqCst);
    let writer = encode(&grown.log.writer());
    grown.growth = Growth::begin(&*grown.store, keys(), writer, Compaction::WhileAlone).unwrap();
    assert_eq!(grown.growth.compaction(), Compaction::Never);
    // What a store rejects for a moment says nothing of the role.
    grown.store.is_closed.store(true, Ordering::SeqCst);
    let writer = encode(&grown.log.writer());
    assert!(Growth::begin(&*grown.store, keys(), writer, Compaction::WhileAlone).is_err());
    grown.store.is_closed.store(false, Ordering::SeqCst);
    grown.write(100, 1_000);
    grown.snapshot(b"state");
    assert!(matches!(grown.tend_on(MIB), Tended::Trimmed { .. }));
}

#[test]
fn a_snapshot_that_does_not_fit_is_packed_once() {
    let mut grown = Grown::new();
    grown.write(100, 1_000);
    grown.snapshot(&noise(1_000_000));
    let Tended::TooLarge { bytes, bytes_max } = grown.tend_on(MIB) else { panic!("it fits") };
    assert!(bytes >= 1_000_000 && bytes_max == MIB / 8, "{bytes} of {bytes_max}");
    // Who reads it again finds nothing.
    remove_dir_all(grown.node.directory().join("snapshots")).unwrap();
    for _ in 0..10 {
        assert_eq!(grown.tend(MIB), Tended::TooLarge { bytes, bytes_max });
    }
    // As much again brings another one; and a larger store takes what did not fit.
    grown.write(100, 1_000);
    assert_eq!(grown.tend(MIB), Tended::SnapshotDue);
    assert_eq!(grown.store.pieces_put.load(Ordering::SeqCst), 0);
}

#[test]
fn a_snapshot_that_is_trimmed_while_it_is_loaded_is_looked_for_again() {
    let mut grown = Grown::new();
    grown.write(100, 1_000);
    grown.snapshot(&vec![2; 3_000_000]);
    assert!(matches!(grown.tend_on(MIB), Tended::Trimmed { .. }));
    let store = Arc::clone(&grown.store);
    let (newer, told) = std::sync::mpsc::channel();
    *store.on_read.lock().unwrap() = Some(Box::new(move || {
        grown.write(100, 1_000);
        newer.send(grown.snapshot(b"newer")).unwrap();
        assert!(matches!(grown.tend_on(MIB), Tended::Trimmed { .. }));
    }));
    let other = Node::at(store as Arc<dyn Store>, "b");
    let newest = other.boot().mirror.snapshots().newest().unwrap();
    assert_eq!((newest.lsn, newest.payload_bytes), (told.recv().unwrap(), 5));
}

#[test]
fn what_an_earlier_leader_left_below_the_floor_goes_in_lots_too() {
    for left_from in [1, 2, 700, 1_999, 2_000, 2_001] {
        let mut grown = Grown::new();
        grown.write(2_000, 1);
        // It raised the floor to 2,001 and got as far as this.
        let floor = Floor { frame: 2_001, ..grown.store.floor() };
        let then = vec![
            Op::Put { key: keys().floor(), value: encode(&floor) },
            Op::Delete { from: keys().frame(0), to: keys().frame(left_from) },
        ];
        grown.store.under.step(&Txn { then, ..Txn::default() }, WITHIN).unwrap();
        let mut next =
            Growth::begin(&*grown.store, keys(), encode(&grown.log.writer()), Compaction::Always).unwrap();
        while let Some(tended) = next.let_go(&*grown.store, MIB, 0).unwrap() {
            assert_eq!(tended, Tended::Quiet);
        }
        let left = grown.store.keys_in(&keys().frame(0), &keys().frame(u64::MAX));
        assert_eq!(left, 1, "from {left_from} on");
        let most = grown.store.walked_max.load(Ordering::SeqCst);
        assert!(most <= FRAMES_PER_LOT as usize, "etcd walked through {most} frames for one");
    }
}

#[test]
fn a_frame_that_is_missing_above_the_floor_is_damage() {
    let mut grown = Grown::new();
    grown.write(10, 10);
    let key = keys().frame(5);
    let then = vec![Op::Delete { to: format!("{key}\0"), from: key }];
    grown.store.under.step(&Txn { then, ..Txn::default() }, WITHIN).unwrap();
    let other = Node::at(Arc::clone(&grown.store) as Arc<dyn Store>, "b");
    let end = other.try_claim(&mut |_| true).map(|_| ());
    assert!(matches!(end, Err(FollowError::Gap { wanted: 5 })), "{end:?}");
}
