//! What only a remote log meets: answers that are lost, steps that arrive late or twice, and a second writer. Each case runs
//! over a store in memory and over a real etcd.

use std::sync::{Arc, Mutex};
use tenure_cluster::store::{Op, Store, Txn};
use tenure_cluster::values::{Beat, Floor, Standing, encode};
use tenure_cluster::{FollowError, RemoteLog, Vitals};
use tenure_log::{AppendOutcome, Authority, Lsn, Moment, OrderedLog, Proof, Resolution, Space};

use crate::faulty::{Fault, Faulty};
use crate::members::{Members, SOON, wait_until};
use crate::memory::MemoryStore;
use crate::remote::{Node, TTL_MS, clock, keys};
use crate::stuck::StuckDisk;
use crate::support::{Writer, read_all};

pub(crate) fn over_both(case: impl Fn(Arc<dyn Store>)) {
    case(MemoryStore::new());
    let etcd = Members::start(1);
    case(Arc::new(etcd.store()));
}

fn faulty(store: &Arc<dyn Store>) -> (Node, Arc<Faulty>) {
    let faulty = Faulty::over(Arc::clone(store));
    (Node::at(Arc::clone(&faulty) as Arc<dyn Store>, "a"), faulty)
}

#[test]
fn a_lost_answer_is_found_out_and_the_batch_is_there_once() {
    over_both(|store| {
        let (node, faults) = faulty(&store);
        let mut log = node.claim();
        let batch = Writer::new(&log).batch(Lsn(1), &[b"a"]);
        faults.next([Fault::LoseReply]);
        assert!(matches!(log.append(&batch), AppendOutcome::Unknown));
        assert_eq!(log.resolve(batch.id()), Resolution::Committed { synced: Lsn(1) });
        assert_eq!(read_all(&log).len(), 1);
    });
}

#[test]
fn a_lost_step_is_sent_again_at_the_same_place() {
    over_both(|store| {
        let (node, faults) = faulty(&store);
        let mut log = node.claim();
        let mut writer = Writer::new(&log);
        let batch = writer.batch(Lsn(1), &[b"a"]);
        faults.next([Fault::LoseRequest]);
        assert!(matches!(log.append(&batch), AppendOutcome::Unknown));
        assert_eq!(log.resolve(batch.id()), Resolution::Absent);
        assert!(matches!(log.append(&batch), AppendOutcome::Committed { synced: Lsn(1) }));
        assert_eq!(writer.append(&mut log, &[b"b"]), Lsn(2));
    });
}

#[test]
fn what_stays_unknown_is_asked_again_and_again() {
    over_both(|store| {
        let (node, faults) = faulty(&store);
        let mut log = node.claim();
        let batch = Writer::new(&log).batch(Lsn(1), &[b"a"]);
        faults.next([Fault::LoseReply, Fault::LoseRequest, Fault::LoseReply]);
        assert!(matches!(log.append(&batch), AppendOutcome::Unknown));
        assert_eq!(log.resolve(batch.id()), Resolution::Unknown);
        assert_eq!(log.resolve(batch.id()), Resolution::Unknown);
        assert_eq!(log.resolve(batch.id()), Resolution::Committed { synced: Lsn(1) });
    });
}

#[test]
fn a_step_that_arrives_late_does_nothing() {
    over_both(|store| {
        let (node, faults) = faulty(&store);
        let mut log = node.claim();
        let mut writer = Writer::new(&log);
        let batch = writer.batch(Lsn(1), &[b"a"]);
        faults.next([Fault::Late]);
        assert!(matches!(log.append(&batch), AppendOutcome::Unknown));
        assert_eq!(log.resolve(batch.id()), Resolution::Absent);
        assert!(matches!(log.append(&batch), AppendOutcome::Committed { .. }));
        writer.append(&mut log, &[b"b"]);
        assert_eq!(faults.deliver_late(), [false]);
        let bytes: Vec<_> = read_all(&log).into_iter().map(|record| record.bytes).collect();
        assert_eq!(bytes, [b"a", b"b"]);
        drop(log);
        assert_eq!(read_all(&node.claim()).len(), 2);
    });
}

#[test]
fn a_step_that_arrives_late_and_first_is_the_one_that_counts() {
    over_both(|store| {
        let (node, faults) = faulty(&store);
        let mut log = node.claim();
        let batch = Writer::new(&log).batch(Lsn(1), &[b"a"]);
        faults.next([Fault::Late]);
        assert!(matches!(log.append(&batch), AppendOutcome::Unknown));
        assert_eq!(faults.deliver_late(), [true]);
        assert!(matches!(log.append(&batch), AppendOutcome::Unknown), "refused, and that says nothing yet");
        assert_eq!(log.resolve(batch.id()), Resolution::Committed { synced: Lsn(1) });
        assert_eq!(read_all(&log).len(), 1);
    });
}

#[test]
fn a_step_that_arrives_twice_is_there_once() {
    over_both(|store| {
        let (node, faults) = faulty(&store);
        let mut log = node.claim();
        let batch = Writer::new(&log).batch(Lsn(1), &[b"a"]);
        faults.next([Fault::Twice]);
        assert!(matches!(log.append(&batch), AppendOutcome::Unknown));
        assert_eq!(log.resolve(batch.id()), Resolution::Committed { synced: Lsn(1) });
        drop(log);
        assert_eq!(read_all(&node.claim()).len(), 1);
    });
}

#[test]
fn a_second_writer_fences_the_first_for_good() {
    over_both(|store| {
        let (first, second) = (Node::at(Arc::clone(&store), "a"), Node::at(store, "b"));
        let mut old = first.claim();
        let mut writer = Writer::new(&old);
        writer.append(&mut old, &[b"a"]);
        let mut new = second.claim();
        assert!(new.writer_epoch() > old.writer_epoch());
        assert_eq!(read_all(&new).len(), 1);
        assert!((clock().boot_ms)() >= until_ms(&old), "whoever came before has no authority left");
        let late = writer.batch(Lsn(2), &[b"never"]);
        assert!(matches!(old.append(&late), AppendOutcome::Fenced));
        assert_eq!(old.resolve(late.id()), Resolution::Fenced);
        assert_eq!(old.prove(0), Proof::Fenced);
        assert_eq!(until_ms(&old), 0);
        assert_eq!(Writer::new(&new).append(&mut new, &[b"b"]), Lsn(2));
        assert_eq!(read_all(&new)[1].bytes, b"b");
    });
}

#[test]
fn a_batch_of_unknown_outcome_that_a_second_writer_overtook_is_fenced() {
    over_both(|store| {
        let (node, faults) = faulty(&store);
        let mut old = node.claim();
        let batch = Writer::new(&old).batch(Lsn(1), &[b"a"]);
        faults.next([Fault::Late]);
        assert!(matches!(old.append(&batch), AppendOutcome::Unknown));
        let second = Node::at(store, "b");
        let mut new = second.claim();
        assert_eq!(faults.deliver_late(), [false]);
        assert_eq!(old.resolve(batch.id()), Resolution::Fenced);
        assert_eq!(Writer::new(&new).append(&mut new, &[b"b"]), Lsn(1));
    });
}

#[test]
fn a_writer_that_resigned_is_followed_at_once_and_answers_nothing() {
    over_both(|store| {
        let (first, second) = (Node::at(Arc::clone(&store), "a"), Node::at(store, "b"));
        let mut old = first.claim();
        Writer::new(&old).append(&mut old, &[b"a"]);
        let began_ms = (clock().boot_ms)();
        assert!(matches!(old.close(Moment::default()), AppendOutcome::Committed { .. }));
        assert_eq!(until_ms(&old), 0);
        let new = second.claim();
        assert_eq!(read_all(&new).len(), 1);
        // Nobody had to wait for silence; the rest is for slow machines.
        assert!((clock().boot_ms)() - began_ms < TTL_MS * 20);
        assert_eq!(new.writer().standing, Standing::Writes);
    });
}

#[test]
fn a_resignation_nobody_heard_of_is_one_all_the_same() {
    over_both(|store| {
        let (node, faults) = faulty(&store);
        let mut log = node.claim();
        let mut writer = Writer::new(&log);
        faults.next([Fault::LoseRequest]);
        assert!(matches!(log.close(Moment::default()), AppendOutcome::Unknown));
        assert_eq!(until_ms(&log), 0);
        let late = writer.batch(Lsn(1), &[b"never"]);
        assert!(matches!(log.append(&late), AppendOutcome::Failed(_)));
        drop(log);
        // Silence ends it, as it ends every other.
        assert_eq!(read_all(&node.claim()).len(), 0);
    });
}

#[test]
fn a_claim_of_unknown_outcome_is_found_out() {
    over_both(|store| {
        let (node, faults) = faulty(&store);
        drop(node.boot());
        // The first step that writes is the claim.
        faults.next([Fault::LoseReply]);
        let log = node.claim();
        assert_eq!(log.writer_epoch(), 1);
        drop(log);
        faults.next([Fault::LoseRequest]);
        let again = node.claim();
        assert!(again.writer_epoch() > 1);
    });
}

#[test]
fn a_node_whose_state_does_not_take_a_frame_stops_instead_of_claiming() {
    over_both(|store| {
        let mut log = Node::at(Arc::clone(&store), "a").claim();
        Writer::new(&log).append(&mut log, &[b"of a later version"]);
        assert!(matches!(log.close(Moment::default()), AppendOutcome::Committed { .. }));
        let mut frames = 0;
        let end = Node::at(Arc::clone(&store), "b").try_claim(&mut |batch| {
            frames += 1;
            batch.count() == 0
        });
        assert!(matches!(end, Err(FollowError::Unapplied)));
        assert_eq!(frames, 2, "the frame that opens the term, and the one that could not be applied");
    });
}

#[test]
fn a_disk_that_does_not_answer_costs_no_proof_of_life() {
    over_both(|store| {
        let (mut log, copy) = Node::at(store, "a").claim_with_copy();
        let vitals = log.vitals();
        // Whoever wants to write to the copy waits.
        let stuck = copy.lock().unwrap();
        let appending = std::thread::spawn(move || {
            let batch = Writer::new(&log).batch(Lsn(1), &[b"a"]);
            log.append(&batch)
        });
        proves_for_longer_than_a_step_is_good_for(&vitals);
        assert!(!appending.is_finished());
        falls_silent(&vitals);
        drop(stuck);
        assert!(matches!(appending.join().unwrap(), AppendOutcome::Committed { synced: Lsn(1) }));
    });
}

// Whoever held the log for a snapshot waited for the sync of the copy, and the thread that proves life for the log.
#[test]
fn a_disk_that_is_stuck_while_a_snapshot_is_stored_keeps_nobody_from_the_log() {
    let disk = StuckDisk::default();
    let node = Node::with_disk(MemoryStore::new(), "a", disk.shared());
    let (mut log, _copy) = node.claim_with_copy();
    let mut writer = Writer::new(&log);
    let lsn = writer.append(&mut log, &[b"a"]);
    // As an engine's host has it.
    let log = Arc::new(Mutex::new(log));
    disk.stick();
    let held = Arc::clone(&log);
    let storing = std::thread::spawn(move || {
        let store = held.lock().unwrap().snapshots();
        store.store(lsn, Moment::default(), b"state")
    });
    wait_until("a sync waits", || disk.waiting() > 0);
    let began_ms = (clock().boot_ms)();
    for tick in 1..=3 {
        let Ok(mut log) = log.try_lock() else { panic!("whoever stores a snapshot holds the log") };
        assert_eq!(log.prove(tick), Proof::Held);
    }
    let mut log = log.lock().unwrap();
    assert!(log.vitals().lock().unwrap().proved_ms >= began_ms);
    // Frames go on as well: none of them needs that sync.
    assert_eq!(writer.append(&mut *log, &[b"b"]), Lsn(2));
    assert!(!storing.is_finished(), "what a snapshot builds on is on the disk before it is stored");
    disk.release();
    assert_eq!(storing.join().unwrap().unwrap().lsn, lsn);
}

// Between a claim and the first turn of its engine the node writes down that it leads, and other threads come to an end.
#[test]
fn a_disk_that_is_stuck_before_a_term_begins_costs_no_proof_of_life() {
    over_both(|store| {
        let (first, second) = (Node::at(Arc::clone(&store), "a"), Node::at(store, "b"));
        let (mut log, tick, _copy) = first.win(&mut |_| true).unwrap();
        proves_for_longer_than_a_step_is_good_for(&log.vitals());
        assert!(matches!(log.open(Moment { tick, wall_ms: 1 }), AppendOutcome::Committed { .. }));
        assert!(matches!(log.close(Moment::default()), AppendOutcome::Committed { .. }));
        drop(log);
        // Opened, it has no engine yet that sends any.
        let (mut log, tick, _copy) = second.win(&mut |_| true).unwrap();
        assert!(matches!(log.open(Moment { tick, wall_ms: 1 }), AppendOutcome::Committed { .. }));
        proves_for_longer_than_a_step_is_good_for(&log.vitals());
        falls_silent(&log.vitals());
    });
}

#[test]
fn whatever_waits_for_the_copy_costs_no_proof_of_life() {
    let uses: [fn(&mut RemoteLog); 4] = [
        |log| assert_eq!(log.space(), Space::Ok),
        |log| assert!(log.wants_chore()),
        |log| assert!(log.chore().is_some()),
        |log| assert_eq!(log.trim(Lsn(1)).extents, 0),
    ];
    let node = Node::at(MemoryStore::new(), "a");
    let (mut log, copy) = node.claim_with_copy();
    for use_it in uses {
        let vitals = log.vitals();
        let stuck = copy.lock().unwrap();
        let using = std::thread::spawn(move || {
            use_it(&mut log);
            log
        });
        proves_for_longer_than_a_step_is_good_for(&vitals);
        assert!(!using.is_finished());
        drop(stuck);
        log = using.join().unwrap();
    }
    // These wait for nobody.
    let _stuck = copy.lock().unwrap();
    assert_eq!(log.extents().len(), 1);
    assert_eq!(log.snapshots().newest(), None);
    drop(log.reader());
}

/// Proofs of life go on, for longer than the one that was there is good for.
fn proves_for_longer_than_a_step_is_good_for(vitals: &Mutex<Vitals>) {
    let began_ms = (clock().boot_ms)();
    wait_until("life is proved", || vitals.lock().unwrap().proved_ms >= began_ms + TTL_MS);
}

/// But not for ever: others take over from a node whose disk is gone.
fn falls_silent(vitals: &Mutex<Vitals>) {
    let (mut proved_ms, mut since_ms) = (0, 0);
    wait_until("proofs of life come to an end", || {
        let now = vitals.lock().unwrap().proved_ms;
        if now != proved_ms {
            (proved_ms, since_ms) = (now, (clock().boot_ms)());
        }
        (clock().boot_ms)() >= since_ms + 2 * TTL_MS
    });
}

#[test]
fn whoever_still_writes_is_not_claimed_from() {
    over_both(|store| {
        let (first, second) = (Node::at(Arc::clone(&store), "a"), Node::at(Arc::clone(&store), "b"));
        let mut log = first.claim();
        drop(second.boot());
        let waiting = std::thread::spawn(move || second.claim().writer_epoch());
        let mut held_ms = (clock().boot_ms)();
        for _ in 0..40 {
            std::thread::park_timeout(std::time::Duration::from_millis(TTL_MS / 10));
            let sent_ms = (clock().boot_ms)();
            match log.prove(7) {
                Proof::Held => held_ms = sent_ms,
                // Whoever is silent for so long may be claimed from; a machine that is busy shows nothing here.
                _ if (clock().boot_ms)() >= held_ms + TTL_MS => return,
                proof => assert_eq!(proof, Proof::Unknown),
            }
        }
        assert!(!waiting.is_finished());
        assert!(matches!(log.close(Moment::default()), AppendOutcome::Committed { .. }));
        assert_eq!(waiting.join().unwrap(), 2);
    });
}

#[test]
fn authority_counts_from_before_the_step_was_sent() {
    over_both(|store| {
        let (node, faults) = faulty(&store);
        let mut log = node.claim();
        let before_ms = (clock().boot_ms)();
        assert_eq!(log.prove(1), Proof::Held);
        assert!(until_ms(&log) <= (clock().boot_ms)() + TTL_MS);
        assert!(until_ms(&log) >= before_ms + TTL_MS * 999 / 1_000);
        let until = until_ms(&log);
        faults.next([Fault::LoseReply, Fault::LoseRequest]);
        assert_eq!(log.prove(2), Proof::Unknown);
        assert_eq!(log.prove(3), Proof::Unknown);
        assert_eq!(until_ms(&log), until, "what nobody answered makes nothing longer");
    });
}

#[test]
fn a_log_that_holds_what_nobody_can_have_written_stops_its_writer() {
    over_both(|store| {
        let (node, faults) = faulty(&store);
        let mut log = node.claim();
        let batch = Writer::new(&log).batch(Lsn(1), &[b"a"]);
        faults.next([Fault::LoseRequest]);
        assert!(matches!(log.append(&batch), AppendOutcome::Unknown));
        let foreign = Op::Put { key: keys().frame(log.head().frame + 1), value: b"foreign".to_vec() };
        store.step(&Txn { then: vec![foreign], ..Txn::default() }, SOON).unwrap();
        assert_eq!(log.resolve(batch.id()), Resolution::Corrupt);
    });
}

#[test]
fn a_store_that_was_put_back_is_not_followed() {
    over_both(|store| {
        let node = Node::at(Arc::clone(&store), "a");
        let mut log = node.claim();
        let head_before = head(&store);
        let mut writer = Writer::new(&log);
        writer.append(&mut log, &[b"a"]);
        writer.append(&mut log, &[b"b"]);
        drop(log);
        let put = Op::Put { key: keys().head(), value: head_before };
        store.step(&Txn { then: vec![put], ..Txn::default() }, SOON).unwrap();
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| node.boot()));
        assert!(refused.is_err(), "the copy here knows more than the store");
    });
}

#[test]
fn a_writer_notices_that_the_store_was_put_back_under_it() {
    let before = MemoryStore::new();
    let faults = Faulty::over(Arc::clone(&before) as Arc<dyn Store>);
    let node = Node::at(Arc::clone(&faults) as Arc<dyn Store>, "a");
    let mut log = node.claim();
    let backup = before.copy();
    Writer::new(&log).append(&mut log, &[b"a"]);
    assert_eq!(log.prove(1), Proof::Held);
    faults.replace(backup);
    assert_eq!(log.prove(2), Proof::Fenced, "`writer` is the same, and everything since is forgotten");
    assert_eq!(until_ms(&log), 0);
}

#[test]
fn values_that_are_compared_never_repeat() {
    let beats: Vec<Vec<u8>> =
        (1..100).map(|counter| encode(&Beat { epoch: 1, counter, tick: 5, frame: 1 })).collect();
    let mut unique = beats.clone();
    unique.dedup();
    assert_eq!(unique.len(), beats.len());
    assert_ne!(encode(&Floor::default()), encode(&Floor { frame: 1, ..Floor::default() }));
}

fn head(store: &Arc<dyn Store>) -> Vec<u8> {
    let key = keys().head();
    let found = store.range(&key, &format!("{key}\0"), 1, SOON).unwrap().found;
    found.into_iter().next().unwrap().value
}

fn until_ms(log: &impl OrderedLog) -> u64 {
    match log.authority_until() {
        Authority::Until { boot_ms } => boot_ms,
        Authority::Forever => panic!("a remote log's authority ends"),
    }
}
