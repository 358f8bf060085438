//! The same bytes give the same state: at every frame, with and without snapshots.

use crate::desk::{Desk, bytes_of, tell_with};
use crate::watching::Random;
use expect_test::expect;
use std::collections::BTreeMap;
use tenure_engine::{EngineConfig, RecoverError, apply_frame, setup};
use tenure_kernel::codec::FORMAT;
use tenure_kernel::{RecordKind, Replica};
use tenure_log::{AppendOutcome, BatchBuilder, BatchId, Moment, OrderedLog};

/// A life with some of everything, in which frames gather several turns.
fn live(desk: &mut Desk, random: &mut Random, steps: u64) {
    desk.play(
        "admin: pool p size=6
         hand: open 5 ttl=20000 grace=3000
         conn: connect 7 grace=2000
         settle",
    );
    for n in 0..steps {
        let other = random.below(n + 1);
        let known = |desk: &Desk| desk.leases.contains_key(&format!("g{other}"));
        match random.below(16) {
            0 => desk.play(&format!("g{n}: grant r/{} ttl=3000 grace=1000 op=o{n}", random.below(20))),
            1 => desk.play(&format!("g{n}: grant r/{},1*p permanent at_once gate notice", random.below(20))),
            2 => desk.play(&format!("g{n}: grant 2*p session=5 wait=2000")),
            3 => desk.play(&format!("g{n}: grant c/{} session=7 grace=500", random.below(9))),
            4 => desk.play(&format!("g{n}: grant x/{n},y/{n} reserve=1500 pad=300 notice")),
            5 if known(desk) => desk.play(&format!("a{n}: release g{other}")),
            6 if known(desk) => desk.play(&format!("a{n}: revoke g{other}")),
            7 if known(desk) => desk.play(&format!("a{n}: amend g{other} pad={}", random.below(900))),
            8 if known(desk) => desk.play(&format!("a{n}: drain g{other}\n b{n}: heartbeat g{other}")),
            9 if known(desk) => desk.play(&format!("a{n}: rebind g{other}\n b{n}: acknowledge g{other}")),
            10 if known(desk) => desk.play(&format!("a{n}: gate g{other}\n b{n}: notified g{other}")),
            11 => desk.play(&format!("a{n}: pool p size={}\n b{n}: beat 5", random.below(9))),
            12 if desk.flight.is_some() => desk.commit(),
            13 => desk.turn(),
            _ => {
                desk.pass(random.below(700));
                desk.turn();
            }
        }
    }
}

#[test]
fn replay_equals_the_live_state_at_every_frame() {
    for seed in 0..4 {
        let mut desk = Desk::new();
        desk.told = false;
        desk.states = Some(BTreeMap::new());
        live(&mut desk, &mut Random(seed), 500);
        desk.settle();
        let states = desk.states.take().unwrap();
        assert!(states.len() > 20, "{} frames", states.len());
        let mut replica = Replica::new(setup(&desk.log.identity(), &desk.config));
        let mut reader = desk.log.reader();
        reader.seek(tenure_log::Lsn(1)).unwrap();
        while let Some(frame) = reader.next_frame().unwrap() {
            apply_frame(&mut replica, &frame).unwrap();
            let last = frame.header.last_lsn().0;
            assert!(bytes_of(replica.kernel()) == states[&last], "seed {seed}: differs at {last}");
            replica.kernel().check_invariants().unwrap();
        }
        let before = bytes_of(desk.engine.kernel());
        desk.restart();
        assert!(bytes_of(desk.engine.kernel()) == before, "seed {seed}: differs after recovery");
    }
}

#[test]
fn a_snapshot_and_what_follows_equals_the_whole_log_even_if_taken_in_mid_load() {
    for seed in 10..13 {
        let mut random = Random(seed);
        let mut desk = Desk::new();
        desk.told = false;
        live(&mut desk, &mut random, 150);
        desk.play("one: grant one\n turn\n two: grant two\n turn");
        assert!(desk.flight.is_some(), "a frame is in flight, another is gathered");
        let first = desk.snapshot().unwrap();
        assert_eq!(first, desk.engine.synced_lsn().0);
        for n in 0..60 {
            desk.play(&format!("more{n}: grant more/{n} permanent op=m{n}"));
            desk.settle();
        }
        let second = desk.snapshot().unwrap();
        assert!(second > first);
        assert_eq!(desk.snapshot(), None);
        desk.play("last: grant last permanent\n settle");
        let before = bytes_of(desk.engine.kernel());
        desk.restart();
        assert!(bytes_of(desk.engine.kernel()) == before, "seed {seed}");
        // The next snapshot is built upon the last.
        desk.play("later: grant later permanent\n settle");
        assert!(desk.snapshot().unwrap() > second);
        let before = bytes_of(desk.engine.kernel());
        desk.restart();
        assert!(bytes_of(desk.engine.kernel()) == before, "seed {seed}");
    }
}

#[test]
fn trimmed_history_retires_what_pointed_into_it() {
    let mut desk = Desk::new();
    desk.play(
        "alice: grant a permanent
         bob: grant b permanent
         settle
         alice: release alice
         settle
         bob: release bob
         settle
         trim: trim below=4
         settle
         alice: read alice
         bob: read bob
         trim: trim below=4
         settle
         restart
         alice: read alice
         bob: read bob
         settle",
    );
    expect![[r#"
        0      frame 1.1 at 1: granted, granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1
        0      bob <- lease 2 active [b] bob epoch 1 fence 2
        0      frame 1.2 at 3: released
        0      alice <- lease 1 released (explicit) epoch 2
        0      frame 1.3 at 4: released
        0      bob <- lease 2 released (explicit) epoch 2
        0      frame 1.4 at 5: trimmed
        0      trim <- done
        0      trim <- done
        0      alice <- lease_retired
        0      bob <- lease 2 released (explicit) epoch 2 fence 2
        0      alice <- lease_retired
        0      bob <- lease 2 released (explicit) epoch 2 fence 2
    "#]]
    .assert_eq(&desk.take_story());
}

#[test]
fn retention_that_differs_is_logged_once_and_not_again_at_the_next_start() {
    let mut config = EngineConfig::default();
    config.retention.window_ms = 1_000;
    expect![[r#"
        0      frame 1.1 at 1: configured
        0      frame 1.2 at 2: granted
        0      alice <- lease 2 active [a] alice epoch 1 fence 2
        0      frame 1.3 at 3: released
        0      alice <- lease 2 released (explicit) epoch 2
        0      alice <- lease 2 released (explicit) epoch 2 fence 2
        0      frame 2.1 at 4: granted
        0      bob <- lease 4 active [b] bob epoch 1 fence 4
        1001   alice <- lease_retired
    "#]]
    .assert_eq(&tell_with(
        config,
        "turn
         settle
         alice: grant a permanent
         settle
         alice: release alice
         settle
         restart
         alice: read alice
         turn
         settle
         bob: grant b permanent
         settle
         until 1001
         alice: read alice
         settle",
    ));
}

#[test]
fn ticks_continue_from_the_log_and_what_was_never_synced_never_was() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1
        60000  frame 1.2 at 2: tick
        70000  frame 1.3 at 3: granted
        60000  frame 2.1 at 3: note restarted, granted
        60000  carol <- lease 4 active [c] carol epoch 1 fence 4
        60000  list <- leases [1, 4] at 4
    "#]]
    .assert_eq(&crate::desk::tell(
        "alice: grant a permanent
         settle
         until 70000
         bob: grant b permanent
         turn
         restart
         carol: grant c permanent
         settle
         list: list
         settle",
    ));
}

#[test]
fn a_log_with_a_record_of_a_newer_format_is_refused_with_both_numbers() {
    let mut desk = Desk::new();
    desk.play("one: grant one\n settle");
    let at = Moment { tick: desk.engine.tick().0, wall_ms: desk.now.wall_ms };
    let mut reader = desk.log.reader();
    reader.seek(tenure_log::Lsn(1)).unwrap();
    let mut id = BatchId::first(desk.log.writer_epoch());
    while let Some(frame) = reader.next_frame().unwrap() {
        id = frame.header.batch.next();
    }
    let mut frame = BatchBuilder::new(id, desk.log.next_lsn(), at);
    let lsn = frame.push(RecordKind::Event, &[0, u8::try_from(FORMAT + 1).unwrap(), 77, 1, 2, 3]).unwrap();
    assert!(matches!(desk.log.append(&frame.finish()), AppendOutcome::Committed { .. }));
    let mut reader = desk.log.reader();
    reader.seek(lsn).unwrap();
    let mut replica = Replica::new(setup(&desk.log.identity(), &desk.config));
    let error = apply_frame(&mut replica, &reader.next_frame().unwrap().unwrap()).unwrap_err();
    let RecoverError::Newer { lsn: at, found, reads } = error else { panic!("{error}") };
    assert_eq!((at.0, found, reads), (lsn.0, FORMAT + 1, FORMAT));
    assert_eq!(
        error.to_string(),
        format!(
            "the log has a record of format 3 at lsn {at}, and this program reads up to format 2: upgrade it to the version \
             of the program that wrote the record, or a newer one"
        )
    );
}
