//! Watchers: from memory, from disk, and over the hand-over between them.

use crate::desk::{Desk, tell};
use expect_test::expect;
use std::collections::BTreeMap;
use tenure_engine::{Push, Ticket, publish};
use tenure_kernel::Lsn;
use tenure_log::OrderedLog;

#[test]
fn events_are_pushed_only_when_they_are_synced() {
    expect![[r#"
        0      w <- watching from 1
        0      frame 1.1 at 1: granted
        10     alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        10     push to w: 1 granted
        10     frame 1.2 at 2: granted
        10     bob <- lease 2 active [b] bob epoch 1 fence 2 valid 89549
        10     push to w: 2 granted
    "#]]
    .assert_eq(&tell(
        "w: watch
         turn
         m: more w
         turn
         alice: grant a
         turn
         bob: grant b
         +10
         sync
         sync",
    ));
}

#[test]
fn a_watch_begins_where_it_is_asked_to_and_a_list_position_leaves_no_gap() {
    expect![[r#"
        0      frame 1.1 at 1: granted, granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      bob <- lease 2 active [b] bob epoch 1 fence 2 valid 89549
        0      list <- leases [1, 2] at 2
        0      w <- watching from 3
        0      old <- watching from 2
        0      all <- watching from 1
        0      push to old: 2 granted
        0      push to all: 1 granted, 2 granted
        0      frame 1.2 at 3: granted
        0      carol <- lease 3 active [c] carol epoch 1 fence 3 valid 89549
        0      push to w: 3 granted
        0      push to old: 3 granted
        0      push to all: 3 granted
    "#]]
    .assert_eq(&tell(
        "alice: grant a
         bob: grant b
         settle
         list: list
         settle
         w: watch from=3
         old: watch from=2
         all: watch from=0
         settle
         m: more w
         m: more old
         m: more all
         carol: grant c
         settle",
    ));
}

#[test]
fn a_watcher_gets_no_more_than_it_has_room_for() {
    expect![[r#"
        0      w <- watching from 1
        0      frame 1.1 at 1: granted, granted, granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      bob <- lease 2 active [b] bob epoch 1 fence 2 valid 89549
        0      carol <- lease 3 active [c] carol epoch 1 fence 3 valid 89549
        0      push to w: 1 granted, 2 granted
        0      frame 1.2 at 4: granted
        0      dave <- lease 4 active [d] dave epoch 1 fence 4 valid 89549
        0      push to w: 3 granted, 4 granted
        0      frame 1.3 at 5: granted
        0      eve <- lease 5 active [e] eve epoch 1 fence 5 valid 89549
    "#]]
    .assert_eq(&tell(
        "w: watch
         alice: grant a
         bob: grant b
         carol: grant c
         settle
         m: more w room=2
         settle
         dave: grant d
         settle
         m: more w room=1
         m: more w room=1
         settle
         e: unwatch w
         m: more w room=10
         eve: grant e
         settle",
    ));
}

#[test]
fn what_is_not_in_memory_is_read_from_the_log() {
    expect![[r#"
        0      frame 1.1 at 1: granted, granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 994
        0      bob <- lease 2 active [b] bob epoch 1 fence 2 valid 89549
        1250   frame 1.2 at 3: note draining
        1000   w <- watching from 1
        1000   read for w from 1 up to 3, 2 at most
        1000   push to w: 1 granted, 2 granted
        1000   frame 2.1 at 4: note restarted, granted
        1000   carol <- lease 5 active [c] carol epoch 1 fence 5 valid 89549
        1000   read for w from 3 up to 5, 3 at most
        1000   push to w: 3 draining, 4 restarted, 5 granted
    "#]]
    .assert_eq(&tell(
        "alice: grant a ttl=1000 grace=5000
         bob: grant b
         settle
         until 1300
         restart
         w: watch
         turn
         m: more w room=2
         turn
         disk
         carol: grant c
         settle
         m: more w room=3
         turn
         disk
         settle",
    ));
}

#[test]
fn a_watcher_that_left_while_the_log_was_read_for_it_gets_nothing() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      w <- watching from 1
        0      read for w from 1 up to 1, 1000 at most
    "#]]
    .assert_eq(&tell(
        "alice: grant a
         settle
         restart
         w: watch
         turn
         m: more w
         turn
         e: unwatch w
         turn
         disk",
    ));
}

/// More than memory keeps for watchers.
fn fill_memory(desk: &mut Desk) {
    for n in 0..2200 {
        desk.play(&format!("fill{n}: amend filler pad=4096"));
        if n % 200 == 199 {
            desk.settle();
        }
    }
    desk.settle();
}

#[test]
fn a_watcher_that_falls_behind_memory_is_told_where_to_begin_again() {
    let mut desk = Desk::new();
    desk.play("filler: grant filler permanent\n settle\n w: watch\n settle\n m: more w room=3\n settle");
    desk.told = false;
    fill_memory(&mut desk);
    let lagged: Vec<&Push> = desk.pushes.iter().filter(|push| !matches!(push, Push::Events { .. })).collect();
    let [Push::Lagged { resume, .. }] = lagged[..] else { panic!("{lagged:?}") };
    assert_eq!(*resume, Lsn(4));
    assert_eq!(desk.engine.counters().watches_lagged, 1);
    let seen = seen(&desk);
    assert_eq!(seen[&desk.ticket("w")], [1, 2, 3]);
    desk.pushes.clear();
    desk.play("again: watch from=4\n settle\n m: more again room=100000\n settle");
    let newest = desk.engine.synced_lsn().0;
    let expected: Vec<u64> = (4..=newest).collect();
    assert_eq!(self::seen(&desk)[&desk.ticket("again")], expected);
}

#[test]
fn a_position_that_is_trimmed_is_told_with_the_oldest_that_is_kept() {
    let mut desk = Desk::new();
    desk.told = false;
    desk.play("filler: grant filler permanent\n settle");
    for n in 0..100 {
        desk.play(&format!("fill{n}: amend filler pad=4096\n settle"));
    }
    assert_eq!(desk.snapshot(), Some(101));
    desk.play("one: grant one permanent\n settle");
    assert_eq!(desk.snapshot(), Some(102));
    desk.play("trim: trim below=60\n settle\n forget 60\n restart");
    desk.told = true;
    desk.take_story();
    let oldest = desk.log.extents()[0].first_lsn;
    assert!(oldest.0 > 1 && oldest.0 <= 60, "{oldest}");
    desk.play("w: watch\n settle\n m: more w\n settle");
    let story = desk.take_story().replace(&format!("oldest {oldest}"), "oldest kept");
    expect![[r#"
        0      w <- watching from 1
        0      read for w from 1 up to 103, 1000 at most
        0      push to w: trimmed, oldest kept
    "#]]
    .assert_eq(&story);
    desk.play(&format!("v: watch from={oldest}\n settle\n m: more v room=100000\n settle"));
    let expected: Vec<u64> = (oldest.0..=103).collect();
    assert_eq!(seen(&desk)[&desk.ticket("v")], expected);
}

/// Positions each watcher was told, in order.
fn seen(desk: &Desk) -> BTreeMap<Ticket, Vec<u64>> {
    let mut seen: BTreeMap<Ticket, Vec<u64>> = BTreeMap::new();
    for push in &desk.pushes {
        if let Push::Events { watch, events } = push {
            seen.entry(*watch).or_default().extend(events.iter().map(|event| event.lsn.0));
        }
    }
    seen
}

/// Every position that a watcher can be told, as the log has it.
fn published(desk: &Desk) -> Vec<u64> {
    let mut reader = desk.log.reader();
    reader.seek(tenure_log::Lsn(1)).unwrap();
    let mut published = Vec::new();
    while let Some(frame) = reader.next_frame().unwrap() {
        published.extend(publish(frame.records(), frame.header.at).iter().map(|event| event.lsn.0));
    }
    published
}

#[test]
fn there_is_no_gap_and_no_duplicate_whatever_the_hand_over() {
    let mut random = Random(7);
    for _ in 0..12 {
        let mut desk = Desk::new();
        desk.told = false;
        for n in 0..random.below(30) {
            desk.play(&format!("old{n}: grant old/{n} permanent\n settle"));
        }
        if random.below(2) == 0 {
            desk.restart();
        }
        let mut begun: Vec<(Ticket, u64)> = Vec::new();
        let mut granted = 0;
        for _ in 0..300 {
            match random.below(8) {
                0 => {
                    let from = random.below(desk.engine.synced_lsn().0 + 5);
                    let name = format!("w{}", begun.len());
                    desk.play(&format!("{name}: watch from={from}"));
                    begun.push((desk.ticket(&name), from));
                    // A watch is told of room only once it has begun.
                    desk.turn();
                }
                1 | 2 if !begun.is_empty() => {
                    let watch = random.below(begun.len() as u64);
                    let room = random.below(7);
                    desk.play(&format!("m: more w{watch} room={room}"));
                }
                3 if desk.flight.is_some() => desk.commit(),
                4 => desk.answer_reads(),
                5 => {
                    desk.pass(random.below(100));
                    desk.turn();
                }
                _ => {
                    granted += 1;
                    desk.play(&format!("n{granted}: grant new/{granted} permanent"));
                }
            }
        }
        for watch in 0..begun.len() {
            desk.play(&format!("m: more w{watch} room=100000"));
        }
        desk.settle();
        let (published, seen) = (published(&desk), seen(&desk));
        for (ticket, from) in begun {
            let expected: Vec<u64> = published.iter().copied().filter(|lsn| *lsn >= from).collect();
            assert_eq!(seen.get(&ticket).cloned().unwrap_or_default(), expected, "from {from}");
        }
    }
}

/// Numbers that are the same in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound.max(1)
    }
}
