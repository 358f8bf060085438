//! What a trim costs the leader's barriers, over a real etcd: frames go in lots, and barriers go on between them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use tenure_cluster::growth::Compaction;
use tenure_cluster::growth::{FRAMES_PER_LOT, Growth, Tended};
use tenure_cluster::store::{Compare, Op, Ranged, Stepped, Store, StoreError, Txn, Watching};
use tenure_cluster::values::{Beat, Floor, Head, encode};

use crate::members::Members;
use crate::remote::{clock, keys};

const WITHIN: Duration = Duration::from_secs(10);
/// Frames below the floor, and the bytes of each.
const FRAMES: u64 = 100_000;
const FRAME_BYTES: usize = 100;
/// What etcd takes in one step.
const PUTS_PER_STEP: u64 = 128;
const PUTTERS: u64 = 4;
/// At least so many barriers get in between the lots. One for each is the rule; how many fewer it is, the scheduler of a busy
/// machine decides.
const BARRIERS_BETWEEN_LOTS_MIN: usize = 10;
/// How long barriers are measured without a trim.
const QUIET_MS: u64 = 3_000;
/// A quota at which a compaction keeps the last few revisions.
const QUOTA_BYTES: u64 = 32 << 10;

/// What is going on while a barrier is measured.
const QUIET: u8 = 0;
const TRIMMING: u8 = 1;
const COMPACTING: u8 = 2;
const OVER: u8 = 3;

/// A store that notes, in the order in which etcd did them, which steps were lots of a trim.
struct Noting<'a> {
    under: &'a dyn Store,
    /// Revisions of lots.
    lots: Mutex<Vec<u64>>,
    /// Set when a compaction begins.
    phase: &'a AtomicU8,
}

impl Store for Noting<'_> {
    fn step(&self, txn: &Txn, within: Duration) -> Result<Stepped, StoreError> {
        let stepped = self.under.step(txn, within)?;
        // The step before a compaction deletes nothing.
        let is_lot = |op: &Op| matches!(op, Op::Delete { from, .. } if !from.starts_with(&keys().writer()));
        if txn.then.iter().any(is_lot) {
            self.lots.lock().unwrap().push(stepped.revision);
        }
        Ok(stepped)
    }

    fn range(&self, from: &str, to: &str, limit: usize, within: Duration) -> Result<Ranged, StoreError> {
        self.under.range(from, to, limit, within)
    }

    fn watch(&self, _: &str, _: &str, _: u64, _: Duration) -> Result<Box<dyn Watching>, StoreError> {
        unreachable!("a trim watches nothing")
    }

    fn compact(&self, revision: u64, within: Duration) -> Result<(), StoreError> {
        self.phase.store(COMPACTING, Ordering::SeqCst);
        self.under.compact(revision, within)
    }
}

/// A barrier as a leader sends it: what was going on, its revision, and how long it took.
struct Barrier {
    phase: u8,
    revision: u64,
    took_us: u64,
}

fn put_all(store: &dyn Store, puts: Vec<(String, Vec<u8>)>) {
    let then = puts.into_iter().map(|(key, value)| Op::Put { key, value }).collect();
    assert!(store.step(&Txn { then, ..Txn::default() }, WITHIN).unwrap().held);
}

fn writer() -> Compare {
    Compare::Value { key: keys().writer(), value: b"the claim that stands".to_vec() }
}

/// Frames that a floor says are to go, as a leader leaves them that was lost in the middle of a trim.
fn fill(store: &dyn Store) {
    let Compare::Value { key, value } = writer() else { unreachable!("a value is compared") };
    put_all(store, vec![(key, value)]);
    let each = FRAMES / PUTTERS;
    std::thread::scope(|scope| {
        for putter in 0..PUTTERS {
            scope.spawn(move || {
                let (mut next, end) = (putter * each + 1, (putter + 1) * each + 1);
                while next < end {
                    let upto = (next + PUTS_PER_STEP).min(end);
                    put_all(store, (next..upto).map(|n| (keys().frame(n), vec![7; FRAME_BYTES])).collect());
                    next = upto;
                }
            });
        }
    });
    let end = Head { frame: FRAMES, ..Head::default() };
    let floor = Floor { frame: FRAMES + 1, end, ..Floor::default() };
    put_all(store, vec![(keys().floor(), encode(&floor))]);
}

fn barriers(store: &dyn Store, phase: &AtomicU8) -> Vec<Barrier> {
    let mut sent = Vec::new();
    for counter in 1.. {
        let before = phase.load(Ordering::SeqCst);
        if before == OVER {
            break;
        }
        let value = encode(&Beat { epoch: 1, counter, tick: 1, frame: FRAMES });
        let then = vec![Op::Put { key: keys().beat(), value }];
        let began_us = (clock().boot_us)();
        let stepped = store.step(&Txn { compares: vec![writer()], then, ..Txn::default() }, WITHIN).unwrap();
        let took_us = (clock().boot_us)() - began_us;
        assert!(stepped.held);
        // One that began before a phase did may have waited for what began with it.
        let phase = before.max(phase.load(Ordering::SeqCst)).min(COMPACTING);
        sent.push(Barrier { phase, revision: stepped.revision, took_us });
    }
    sent
}

fn rest() {
    let until_ms = (clock().boot_ms)() + QUIET_MS;
    while (clock().boot_ms)() < until_ms {
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

fn tell(what: &str, barriers: &[Barrier], phase: u8) {
    let mut took: Vec<u64> =
        barriers.iter().filter(|barrier| barrier.phase == phase).map(|barrier| barrier.took_us).collect();
    took.sort_unstable();
    let at =
        |part: usize| took.get(took.len() * part / 100).or(took.last()).copied().unwrap_or(0) as f64 / 1e3;
    #[expect(clippy::print_stdout, reason = "figures for a reader of the run")]
    {
        println!(
            "{what}: {} barriers, median {:.1} ms, p99 {:.1} ms, max {:.1} ms",
            took.len(),
            at(50),
            at(99),
            at(100)
        );
    }
}

#[test]
fn barriers_go_on_between_the_lots_of_a_trim() {
    let etcd = Members::start(1);
    let store = etcd.store();
    fill(&store);
    let phase = AtomicU8::new(QUIET);
    let noting = Noting { under: &store, lots: Mutex::default(), phase: &phase };
    let Compare::Value { value, .. } = writer() else { unreachable!("a value is compared") };
    let mut growth = Growth::begin(&noting, keys(), value, Compaction::Always).unwrap();
    let sent = std::thread::scope(|scope| {
        let sending = scope.spawn(|| barriers(&store, &phase));
        rest();
        phase.store(TRIMMING, Ordering::SeqCst);
        let began_ms = (clock().boot_ms)();
        let revision = || store.range(&keys().floor(), &keys().frame(0), 1, WITHIN).unwrap().revision;
        // One look after the other, without the pauses of a leader's keeper.
        while let Some(tended) = growth.let_go(&noting, QUOTA_BYTES, revision()).unwrap() {
            assert_eq!(tended, Tended::Quiet);
        }
        println!("{FRAMES} frames went within {} ms", (clock().boot_ms)() - began_ms);
        // etcd compacts in the background.
        rest();
        phase.store(OVER, Ordering::SeqCst);
        sending.join().unwrap()
    });
    for (what, phase) in [("before", QUIET), ("during the trim", TRIMMING), ("compaction", COMPACTING)] {
        tell(what, &sent, phase);
    }
    let lots = noting.lots.into_inner().unwrap();
    assert!(lots.len() as u64 >= FRAMES / FRAMES_PER_LOT, "{} lots", lots.len());
    let (from, to) = (keys().frame(0), keys().frame(u64::MAX));
    assert!(store.range(&from, &to, 1, WITHIN).unwrap().found.is_empty());
    // In the order of etcd itself.
    let (first, last) = (lots.iter().min().unwrap(), lots.iter().max().unwrap());
    let between = sent.iter().filter(|barrier| (first..last).contains(&&barrier.revision)).count();
    assert!(between >= BARRIERS_BETWEEN_LOTS_MIN, "{between} barriers between {} lots", lots.len());
}
