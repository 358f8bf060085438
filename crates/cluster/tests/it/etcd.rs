//! The store over etcd: steps and watches as they should be.

use crate::members::{Members, wait_until};
use std::time::Duration;
use tenure_cluster::store::{Changed, Compare, KeyValue, Op, Store, StoreError, Txn, WatchEnded, Watching};

/// Longer than anything takes that works.
pub(crate) const LONG: Duration = Duration::from_secs(10);
const NOW: Duration = Duration::from_millis(50);

pub(crate) fn put(key: &str, value: &str) -> Op {
    Op::Put { key: key.into(), value: value.into() }
}

fn get(key: &str) -> Op {
    Op::Get { key: key.into() }
}

fn has(key: &str, value: &str) -> Compare {
    Compare::Value { key: key.into(), value: value.into() }
}

fn absent(key: &str) -> Compare {
    Compare::Absent { key: key.into() }
}

/// Puts, whatever is there.
pub(crate) fn put_now(store: &dyn Store, key: &str, value: &str) -> u64 {
    let txn = Txn { then: vec![put(key, value)], ..Txn::default() };
    store.step(&txn, LONG).unwrap().revision
}

fn changed(key: &str, value: Option<&str>, revision: u64) -> Changed {
    Changed { key: key.into(), value: value.map(Into::into), revision }
}

fn next(watching: &mut dyn Watching) -> Changed {
    watching.next(LONG).unwrap().expect("a change in time")
}

#[test]
fn a_step_takes_the_branch_its_comparisons_say() {
    let members = Members::start(1);
    let store = members.store();
    let take = Txn {
        compares: vec![absent("t/a"), absent("t/b")],
        then: vec![put("t/a", "1"), put("t/b", "2"), get("t/a")],
        otherwise: vec![get("t/a"), get("t/none"), get("t/b")],
    };
    let taken = store.step(&take, LONG).unwrap();
    assert!(taken.held);
    assert_eq!(taken.found, [Some(b"1".to_vec())]);
    let refused = store.step(&take, LONG).unwrap();
    assert!(!refused.held);
    assert_eq!(refused.found, [Some(b"1".to_vec()), None, Some(b"2".to_vec())]);
    assert_eq!(refused.revision, taken.revision);

    let swap = Txn {
        compares: vec![has("t/a", "1")],
        then: vec![put("t/a", "3"), Op::Delete { from: "t/b".into(), to: "t/c".into() }],
        otherwise: vec![],
    };
    assert!(store.step(&swap, LONG).unwrap().held);
    assert!(!store.step(&swap, LONG).unwrap().held);
    // A comparison with a key that is not there does not hold.
    let of_none = Txn { compares: vec![has("t/b", "")], ..Txn::default() };
    assert!(!store.step(&of_none, LONG).unwrap().held);
    let left = store.range("t/", "t0", 10, LONG).unwrap();
    let swapped = taken.revision + 1;
    assert_eq!(left.found, [KeyValue { key: "t/a".into(), value: b"3".to_vec(), revision: swapped }]);
    assert!(!left.more);
    assert_eq!(left.revision, taken.revision + 1);
}

#[test]
fn a_range_is_in_order_and_stops_at_its_limit() {
    let members = Members::start(1);
    let store = members.store();
    for key in ["r/3", "r/1", "r/2", "s/0"] {
        put_now(&store, key, key);
    }
    let keys = |limit| {
        let ranged = store.range("r/", "r0", limit, LONG).unwrap();
        (ranged.found.into_iter().map(|kv| kv.key).collect::<Vec<_>>(), ranged.more)
    };
    assert_eq!(keys(2), (vec!["r/1".to_owned(), "r/2".to_owned()], true));
    assert_eq!(keys(3), (vec!["r/1".to_owned(), "r/2".to_owned(), "r/3".to_owned()], false));
}

#[test]
fn frames_of_a_mebibyte_come_several_at_once() {
    let members = Members::start(1);
    let store = members.store();
    let mut watching = store.watch("f/", "f0", 0, LONG).unwrap();
    for at in 0..12 {
        put_now(&store, &format!("f/{at:02}"), &"x".repeat(1 << 20));
    }
    let ranged = store.range("f/", "f0", 100, LONG).unwrap();
    assert_eq!(ranged.found.iter().map(|kv| kv.value.len()).sum::<usize>(), 12 << 20);
    // Also to one who begins long after them, and to one who took nothing for a while.
    let mut late = store.watch("f/", "f0", 1, LONG).unwrap();
    for at in 0..12 {
        assert_eq!(next(&mut *watching).key, format!("f/{at:02}"));
        assert_eq!(next(&mut *late).key, format!("f/{at:02}"));
    }
}

#[test]
fn a_watch_tells_of_changes_in_order_and_goes_on_where_another_stopped() {
    let members = Members::start(1);
    let store = members.store();
    let before = put_now(&store, "w/a", "0");
    let mut watching = store.watch("w/", "w0", 0, LONG).unwrap();
    assert_eq!(watching.next(NOW), Ok(None));
    put_now(&store, "other", "x");
    put_now(&store, "w/a", "1");
    let both = Txn { then: vec![put("w/b", "2"), put("w/c", "3")], ..Txn::default() };
    store.step(&both, LONG).unwrap();
    let delete = Txn { then: vec![Op::Delete { from: "w/a".into(), to: "w/b".into() }], ..Txn::default() };
    store.step(&delete, LONG).unwrap();
    let all = [
        changed("w/a", Some("1"), before + 2),
        changed("w/b", Some("2"), before + 3),
        changed("w/c", Some("3"), before + 3),
        changed("w/a", None, before + 4),
    ];
    for expected in &all {
        assert_eq!(&next(&mut *watching), expected);
    }
    drop(watching);
    let mut resumed = store.watch("w/", "w0", before + 3, LONG).unwrap();
    for expected in &all[1..] {
        assert_eq!(&next(&mut *resumed), expected);
    }
    assert_eq!(resumed.next(NOW), Ok(None));
}

#[test]
fn a_quiet_watch_lives_on() {
    let members = Members::start(1);
    let store = members.store();
    let mut watching = store.watch("q/", "q0", 0, LONG).unwrap();
    // More than twice as long as one that leads nowhere is kept.
    assert_eq!(watching.next(Duration::from_secs(5)), Ok(None));
    put_now(&store, "q/a", "1");
    assert_eq!(next(&mut *watching).key, "q/a");
}

#[test]
fn a_watch_of_what_is_compacted_away_says_so() {
    let members = Members::start(1);
    let store = members.store();
    let first = put_now(&store, "c/a", "0");
    for value in ["1", "2", "3"] {
        put_now(&store, "c/a", value);
    }
    store.compact(first + 2, LONG).unwrap();
    store.compact(first + 2, LONG).unwrap();
    store.compact(first + 1, LONG).unwrap();
    let mut late = store.watch("c/", "c0", first, LONG).unwrap();
    let ended = Err(WatchEnded::Compacted { oldest: first + 2 });
    assert_eq!(late.next(LONG), ended);
    assert_eq!(late.next(NOW), ended);
    let mut in_time = store.watch("c/", "c0", first + 2, LONG).unwrap();
    assert_eq!(next(&mut *in_time), changed("c/a", Some("2"), first + 2));
    let refused = store.compact(first + 100, LONG);
    assert!(matches!(&refused, Err(StoreError::Refused { no_space: false, .. })), "{refused:?}");
}

#[test]
fn many_threads_ask_at_once_and_one_of_them_wins() {
    let members = Members::start(1);
    let store = members.store();
    let take =
        |value: &str| Txn { compares: vec![absent("m")], then: vec![put("m", value)], otherwise: vec![] };
    let ask = &|at: i32| store.step(&take(&at.to_string()), LONG).unwrap().held;
    let won: usize = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..16).map(|at| scope.spawn(move || ask(at))).collect();
        asking.into_iter().map(|asked| usize::from(asked.join().unwrap())).sum()
    });
    assert_eq!(won, 1);
}

#[test]
fn a_watch_breaks_off_when_its_member_is_gone() {
    let mut members = Members::start(1);
    let store = members.store();
    let mut watching = store.watch("g/", "g0", 0, LONG).unwrap();
    members.kill(0);
    let ended = watching.next(LONG);
    let Err(WatchEnded::Broken { why }) = &ended else { panic!("{ended:?}") };
    assert!(why.contains(&members.endpoint(0)), "{why}");
    members.start_again(0);
    wait_until("it can be watched again", || store.watch("g/", "g0", 0, Duration::from_secs(1)).is_ok());
}

#[test]
fn a_thread_of_another_runtime_may_ask_and_let_go() {
    let members = Members::start(1);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let store = members.store();
        let revision = put_now(&store, "o/a", "1");
        let mut watching = store.watch("o/", "o0", revision, LONG).unwrap();
        assert_eq!(next(&mut *watching).key, "o/a");
        drop(store);
        let ended = watching.next(LONG);
        assert!(matches!(&ended, Err(WatchEnded::Broken { .. })), "{ended:?}");
    });
}
