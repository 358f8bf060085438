//! What leaves when: nothing before what it rests on is durable, nothing later than that.

use crate::desk::{Desk, tell, tell_with};
use crate::words::code;
use expect_test::expect;
use tenure_engine::{
    Answer, Completion, EngineConfig, Input, Out, Outputs, Report, Request, Stall, Status, Submit,
    TURN_EVENTS_MAX, Ticket,
};
use tenure_kernel::{Action, Bundle, Grant, LeaseId, Policy, StateName};
use tenure_log::{FRAME_BYTES_MAX, RECORDS_PER_FRAME_MAX};

#[test]
fn nothing_that_rests_on_an_unsynced_event_leaves_before_the_commit() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [printer] alice epoch 1 fence 1 valid 89549
        0      beater <- renewed valid 89549 left 90000
        0      reader <- lease 1 active [printer] alice epoch 1 fence 1 valid 89549
        0      checker <- current, lease 1 at 1
        0      resource <- lease 1 active [printer] alice epoch 1 fence 1 valid 89549, waiters [] at 1
    "#]]
    .assert_eq(&tell(
        "alice: grant printer
         turn
         reader: read #1
         checker: check printer fence=1
         beater: heartbeat #1 epoch=1
         resource: resource printer
         turn
         sync",
    ));
}

#[test]
fn a_heartbeat_on_a_settled_lease_leaves_at_once_while_a_frame_is_in_flight() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [printer] alice epoch 1 fence 1 valid 89549
        0      frame 1.2 at 2: granted
        10     alice <- renewed valid 89549 left 90000
        10     reader <- lease 1 active [printer] alice epoch 1 fence 1 valid 89549
        10     checker <- current, lease 1 at 1
        10     bob <- lease 2 active [scanner] bob epoch 1 fence 2 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant printer
         settle
         bob: grant scanner
         turn
         alice: heartbeat alice
         reader: read alice
         checker: check alice
         +10
         sync",
    ));
}

#[test]
fn a_loser_waits_until_the_lease_it_is_told_of_is_synced_and_not_longer() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [printer] alice epoch 1 fence 1 valid 89549
        0      loser <- resource_held: printer by lease 1 of alice
        0      frame 1.2 at 2: granted
        0      late <- resource_held: printer by lease 1 of alice
        0      other <- lease 2 active [scanner] other epoch 1 fence 2 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant printer
         turn
         loser: grant printer
         turn
         other: grant scanner
         turn
         sync
         late: grant printer
         turn
         sync",
    ));
}

#[test]
fn lists_and_absences_rest_on_the_newest_event_applied() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [printer] alice epoch 1 fence 1 valid 89549
        0      frame 1.2 at 2: granted
        10     held <- lease 1 active [printer] alice epoch 1 fence 1 valid 89539, waiters [] at 1
        10     bob <- lease 2 active [scanner] bob epoch 1 fence 2 valid 89549
        10     list <- leases [1, 2] at 2
        10     absent <- lease_not_found
        10     free <- available, waiters [] at 2
        10     pools <- pools [] at 2
        10     sessions <- sessions [] at 2
        10     status <- status at 2, synced 1
        10     nobody <- not current, lease at 2
    "#]]
    .assert_eq(&tell(
        "alice: grant printer
         settle
         bob: grant scanner
         turn
         list: list
         absent: read #77
         free: resource plotter
         pools: pools
         sessions: sessions
         status: status
         nobody: check plotter fence=1
         held: resource printer
         +10
         sync",
    ));
}

#[test]
fn a_refused_command_writes_nothing() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [printer] alice epoch 1 fence 1 valid 89549
        10     c <- stale_epoch: current 1
        10     d <- lease_not_found
        10     g <- invalid_state: active
        10     i <- session_not_found
        10     b <- resource_held: printer by lease 1 of alice
        10     e <- pool_not_found
        10     f <- duplicate_member
        10     h <- invalid_state: active
        310    frame 1.2 at 2: granted
        320    k <- stale_epoch: current 1
        320    j <- resource_held: printer by lease 1 of alice
        330    carol <- lease 2 active [scanner] carol epoch 1 fence 2 valid 89549
        330    frame 1.3 at 3: granted
    "#]]
    .assert_eq(&tell(
        "alice: grant printer
         settle
         b: grant printer
         c: release alice epoch=9
         d: revoke #44
         e: grant 1*nopool
         f: grant printer,printer
         g: reclaim alice
         h: activate alice
         i: close 5
         +10
         +300
         carol: grant scanner
         turn
         j: grant printer
         k: release alice epoch=9
         +10
         dave: grant plotter
         +10
         sync",
    ));
}

#[test]
fn at_most_one_frame_is_in_flight_and_the_next_gathers_every_turn_meanwhile() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        5      a <- lease 1 active [one] a epoch 1 fence 1 valid 89549
        5      frame 1.2 at 2: granted, granted, tick, granted, granted
        5      b <- lease 2 active [two] b epoch 1 fence 2 valid 89549
        5      c <- lease 3 active [three] c epoch 1 fence 3 valid 89549
        5      d <- lease 5 active [four] d epoch 1 fence 5 valid 89549
        5      e <- lease 6 active [five] e epoch 1 fence 6 valid 89549
    "#]]
    .assert_eq(&tell(
        "a: grant one
         turn
         b: grant two
         turn
         c: grant three
         turn
         d: grant four
         +5
         e: grant five
         turn
         sync
         sync",
    ));
}

#[test]
fn a_tick_record_precedes_each_turn_whose_tick_differs_within_a_frame() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        15     a <- lease 1 active [one] a epoch 1 fence 1 valid 89549
        15     frame 1.2 at 2: granted, granted, tick, granted
        15     b <- lease 2 active [two] b epoch 1 fence 2 valid 89549
        15     c <- lease 3 active [three] c epoch 1 fence 3 valid 89549
        15     d <- lease 5 active [four] d epoch 1 fence 5 valid 89549
        15     loser <- resource_held: four by lease 5 of d
        10     frame 2.1 at 6: note restarted
    "#]]
    .assert_eq(&tell(
        "a: grant one
         turn
         b: grant two
         +5
         c: grant three
         turn
         d: grant four
         +5
         loser: grant four
         +5
         sync
         sync
         restart
         list: list
         turn",
    ));
}

#[test]
fn a_frame_holds_at_most_4096_records_and_when_full_only_liveness_and_reads_are_admitted() {
    let mut desk = Desk::new();
    desk.told = false;
    desk.play(
        "alice: grant printer\n soon: grant soon ttl=1000 grace=0\n settle\n opener: grant opener\n turn",
    );
    for n in 0..6000 {
        let words = format!("g{n}: grant r/{n}");
        desk.play(&words);
    }
    for _ in 0..40 {
        desk.turn();
    }
    let applied = status(&desk).applied_lsn.0;
    let waiting = status(&desk).inbox[2].1;
    assert!(waiting > 0, "the frame is full, so grants must wait");
    // What is due and what waits need room; only the sync makes some, and it brings a turn by itself.
    desk.play("+1000");
    assert_ne!(desk.wake_in_ms, Some(0));
    desk.play("alice: heartbeat alice\n rel: release alice\n reader: read alice\n turn");
    assert!(matches!(desk.answers["alice"], Answer::Renewed { .. }));
    assert!(matches!(desk.answers["reader"], Answer::Read(_)));
    assert!(!desk.answers.contains_key("rel"), "a release writes, and there is no room");
    assert_eq!(status(&desk).applied_lsn.0, applied);
    desk.commit();
    let full = desk.flight.as_ref().unwrap();
    assert!(full.count() <= RECORDS_PER_FRAME_MAX, "{}", full.count());
    assert!(full.count() > RECORDS_PER_FRAME_MAX - 64, "{}", full.count());
    desk.settle();
    assert!(desk.answers.contains_key("rel"));
    assert_eq!(desk.engine.kernel().live_count(), 6001);
}

#[test]
fn a_frame_holds_at_most_a_mebibyte() {
    let mut desk = Desk::new();
    desk.told = false;
    desk.play("opener: grant opener\n turn");
    for n in 0..700 {
        desk.play(&format!("g{n}: grant r/{n} pad=4096"));
    }
    desk.turn();
    desk.turn();
    desk.turn();
    assert!(status(&desk).inbox[2].1 > 0, "700 grants of 4 KiB do not fit");
    desk.play("beat: heartbeat #1\n turn");
    let mut frames = 0;
    while desk.flight.is_some() {
        let bytes = desk.flight.as_ref().unwrap().payload().len();
        assert!(bytes <= FRAME_BYTES_MAX, "{bytes}");
        frames += 1;
        desk.commit();
    }
    desk.settle();
    assert!((4..10).contains(&frames), "{frames}");
    assert_eq!(desk.engine.kernel().live_count(), 701);
}

/// Ends are counted in records, but a frame is also full by bytes: an ending event repeats members and face
/// data, up to 20 KiB each.
#[test]
fn ends_with_large_records_fit_their_frames_too() {
    let name = |n: usize, k: usize| format!("{}/{n}/{k}", "n".repeat(230));
    let wide = |n: usize| (0..64).map(|k| name(n, k)).collect::<Vec<_>>().join(",");
    for (terms, end) in [
        ("reserve=5000 data=4096", "until 9000"),
        ("ttl=5000 grace=0 data=4096", "until 9000"),
        ("ttl=5000 grace=0 life=2000 data=4096", "until 9000"),
        ("session=5 data=4096", "bye: close 5"),
        ("session=5 data=4096", "until 130000"),
        ("permanent gate data=4096", "until 30000"),
        ("permanent data=4096", "until 30000"),
    ] {
        let mut desk = Desk::new();
        desk.told = false;
        desk.play("opener: open 5\n settle");
        for n in 0..120 {
            desk.play(&format!("g{n}: grant {} {terms}", wide(n)));
        }
        desk.settle();
        assert_eq!(desk.engine.kernel().live_count(), 120);
        if terms.starts_with("permanent") {
            for n in 0..120 {
                desk.play(&format!("r{n}: revoke g{n}"));
            }
        }
        desk.play(end);
        desk.settle();
        assert_eq!(desk.engine.kernel().live_count(), 0, "{terms}");
    }
}

#[test]
fn notes_leave_within_250_ms_or_with_the_next_frame() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [printer] alice epoch 1 fence 1 valid 994
        1000   wake in 250
        1249   wake in 1
        1250   frame 1.2 at 2: note draining
        1250   bob <- done
        1250   frame 1.3 at 3: session_opened, granted
        1250   carol <- lease 4 active [scanner] carol epoch 1 fence 4
        1260   frame 1.4 at 5: note draining, tick, granted
        1260   dave <- lease 7 active [plotter] dave epoch 1 fence 7 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant printer ttl=1000 grace=5000
         settle
         until 1000
         wake
         +249
         wake
         +1
         sync
         bob: connect 7
         carol: grant scanner session=7
         settle
         bob: disconnect 7
         turn
         dave: grant plotter
         +10
         sync",
    ));
}

#[test]
fn the_tick_is_noted_at_least_every_60_s_while_anything_is_live() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [printer] alice epoch 1 fence 1
        60000  frame 1.2 at 2: tick
        120000 frame 1.3 at 3: tick
        150000 frame 1.4 at 4: released
        150000 done <- lease 1 released (explicit) epoch 2
    "#]]
    .assert_eq(&tell(
        "alice: grant printer permanent
         settle
         until 150000
         done: release alice
         settle
         until 400000",
    ));
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [printer] alice epoch 1 fence 1 valid 3581999
        60000  frame 1.2 at 2: tick
        120000 frame 1.3 at 3: tick
    "#]]
    .assert_eq(&tell(
        "alice: grant printer ttl=3600000
         settle
         until 125000",
    ));
}

#[test]
fn a_frame_that_syncs_for_minutes_gathers_one_tick_note() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        61020  alice <- lease 1 active [printer] alice epoch 1 fence 1
        61020  frame 1.2 at 2: tick
    "#]]
    .assert_eq(&tell(
        "alice: grant printer permanent
         turn
         +61000
         +10
         +10
         sync",
    ));
}

#[test]
fn a_stall_is_counted_and_noted_and_ages_nobody() {
    let mut desk = Desk::new();
    desk.play(
        "alice: grant printer ttl=5000 grace=0
         settle
         +3600000
         alice: heartbeat alice
         turn
         settle
         +250
         settle",
    );
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [printer] alice epoch 1 fence 1 valid 4974
        1000   report: Stalled { stall: Gap, ms: 3600000 }
        1000   alice <- renewed valid 4974 left 5000
        1250   frame 1.2 at 2: note stalled
    "#]]
    .assert_eq(&desk.take_story());
    assert_eq!(desk.engine.counters().stalls, 1);
}

/// What the host saw: with no deadline pending time counts in full, but somebody waited.
#[test]
fn a_long_turn_and_a_long_queue_are_stalls_though_no_deadline_was_pending() {
    let reported = |outputs: Outputs| {
        outputs.outs.into_iter().filter_map(|out| match out {
            Out::Report(Report::Stalled { stall, ms }) => Some((stall, ms)),
            _ => None,
        })
    };
    let mut desk = Desk::new();
    desk.play("alice: grant printer permanent\n settle");
    let mut now = desk.now;
    for (count, stall) in [(1, Stall::Turn), (2, Stall::Queue)] {
        now.boot_ms += 3_800;
        let outputs = desk.engine.turn(now, [], [Completion::Stalled { stall, ms: 3_800 }]);
        assert_eq!(reported(outputs).collect::<Vec<_>>(), [(stall, 3_800)]);
        assert_eq!(desk.engine.counters().stalls, count);
    }
    // A turn that took long while a deadline is pending is a gap as well, and still one stall.
    let grant = Grant::new(Bundle::one("a"), "bob", Policy::heartbeat(90_000, 0));
    let request = Request::Submit(Submit::now(Action::Grant(grant)));
    let outputs = desk.engine.turn(now, [Input::new(Ticket(9), request)], []);
    assert!(outputs.append.is_some());
    now.boot_ms += 3_800;
    let told = Completion::Stalled { stall: Stall::Turn, ms: 3_700 };
    let outputs = desk.engine.turn(now, [], [told]);
    assert_eq!(reported(outputs).collect::<Vec<_>>(), [(Stall::Turn, 3_700)]);
    now.boot_ms += 1_500;
    let outputs = desk.engine.turn(now, [], []);
    assert_eq!(reported(outputs).collect::<Vec<_>>(), [(Stall::Gap, 1_500)]);
    assert_eq!(desk.engine.counters().stalls, 4);
}

#[test]
fn an_idle_engine_without_deadlines_may_sleep_for_hours_and_the_time_counts() {
    expect![[r#"
        0      frame 1.1 at 1: pool_defined
        0      a <- done
        0      nothing to wake for
        36000000 nothing to wake for
        36000000 frame 1.2 at 2: granted
        36000000 b <- lease 2 active [printers/1] b epoch 1 fence 2 valid 89549
        36000000 wake in 500
    "#]]
    .assert_eq(&tell(
        "a: pool printers size=3
         settle
         wake
         +36000000
         wake
         b: grant 1*printers
         settle
         wake",
    ));
}

#[test]
fn the_engine_wakes_no_later_than_the_next_deadline_and_every_500_ms_while_one_is_pending() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 reserved [printer] alice epoch 1 fence 1
        0      wake in 500
        500    wake in 500
        1000   wake in 300
        1299   wake in 1
        1300   frame 1.2 at 2: expired
        1300   nothing to wake for
        1300   frame 1.3 at 3: granted
        1300   bob <- lease 3 active [scanner] bob epoch 1 fence 3 valid 89549
        1300   wake in 500
        1800   wake in 200
        2000   carol <- wait_timeout
    "#]]
    .assert_eq(&tell(
        "alice: grant printer reserve=1300
         settle
         wake
         +500
         wake
         +500
         wake
         +299
         wake
         +1
         sync
         wake
         bob: grant scanner
         settle
         carol: grant scanner wait=700
         turn
         wake
         +500
         wake
         +200",
    ));
}

#[test]
fn a_heartbeat_in_the_turn_in_which_its_grace_ends_renews() {
    expect![[r#"
        0      frame 1.1 at 1: granted, granted
        0      alice <- lease 1 active [printer] alice epoch 1 fence 1 valid 4974
        0      bob <- lease 2 active [scanner] bob epoch 1 fence 2 valid 4974
        5250   frame 1.2 at 3: note draining, note draining
        7000   alice <- renewed valid 4974 left 5000
        7000   frame 1.3 at 5: note revived, revoked, reclaimed
        7000   list <- leases [1] at 7
    "#]]
    .assert_eq(&tell(
        "alice: grant printer ttl=5000 grace=2000
         bob: grant scanner ttl=5000 grace=2000
         settle
         until 6500
         alice: heartbeat alice
         +500
         settle
         list: list
         settle",
    ));
}

#[test]
fn a_heartbeat_says_what_is_promised_and_what_is_left_of_the_phase() {
    expect![[r#"
        0      frame 1.1 at 1: granted, granted, granted, granted, granted
        0      plain <- lease 1 active [a] plain epoch 1 fence 1 valid 4974
        0      at_once <- lease 2 active [b] at_once epoch 1 fence 2
        0      brief <- lease 3 active [c] brief epoch 1 fence 3 valid 4974
        0      permanent <- lease 4 active [d] permanent epoch 1 fence 4
        0      reserved <- lease 5 reserved [e] reserved epoch 1 fence 5
        4000   plain <- renewed valid 4974 left 5000
        4000   at_once <- renewed left 5000
        4000   brief <- renewed valid 2984 left 3000
        4000   permanent <- renewed
        4000   reserved <- invalid_state: reserved
        4000   stale <- stale_epoch: current 1
    "#]]
    .assert_eq(&tell(
        "plain: grant a ttl=5000
         at_once: grant b ttl=5000 at_once
         brief: grant c ttl=5000 life=7000
         permanent: grant d permanent
         reserved: grant e reserve=60000
         settle
         until 4000
         plain: heartbeat plain
         at_once: heartbeat at_once
         brief: heartbeat brief
         permanent: heartbeat permanent
         reserved: heartbeat reserved
         stale: heartbeat plain epoch=2
         settle",
    ));
}

#[test]
fn a_reservation_that_runs_out_in_the_turn_of_its_activate_is_refused_with_its_end_synced() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 reserved [printer] alice epoch 1 fence 1
        999    early <- lease 1 reserved [printer] alice epoch 1 fence 1, waiters [] at 1
        1000   frame 1.2 at 2: expired
        1000   alice <- invalid_state: expired
    "#]]
    .assert_eq(&tell(
        "alice: grant printer reserve=1000
         settle
         +999
         early: resource printer
         turn
         alice: activate alice
         +1
         sync",
    ));
}

#[test]
fn an_activate_past_its_deadline_is_told_so_where_the_turn_had_no_room_for_all_that_was_due() {
    let mut desk = Desk::new();
    desk.told = false;
    for n in 0..3500 {
        desk.play(&format!("g{n}: grant r/{n} reserve=1000"));
    }
    desk.settle();
    desk.play("late: activate g3499\n +1000");
    assert!(!desk.answers.contains_key("late"), "the answer rests on the end");
    desk.commit();
    let Answer::Refused(refused) = &desk.answers["late"] else { panic!("it is too late") };
    assert_eq!(code(refused), "deadline_passed");
    desk.settle();
    assert_eq!(desk.engine.kernel().live_count(), 0);
}

#[test]
fn overflow_of_one_lane_answers_overloaded_and_the_others_go_on() {
    let config = EngineConfig { inbox_max: 8, ..EngineConfig::default() };
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [printer] alice epoch 1 fence 1 valid 89549
        0      c <- overloaded
        0      f <- overloaded
        0      i <- overloaded
        0      g <- renewed valid 89549 left 90000
        0      h <- renewed valid 89549 left 90000
        0      frame 1.2 at 2: released, granted, granted
        0      j <- lease 1 released (explicit) epoch 2
        0      a <- lease 3 active [one] a epoch 1 fence 3 valid 89549
        0      b <- lease 4 active [two] b epoch 1 fence 4 valid 89549
        0      d <- lease 1 released (explicit) epoch 2 fence 1
        0      e <- leases [3, 4] at 4
    "#]]
    .assert_eq(&tell_with(
        config,
        "alice: grant printer
         settle
         a: grant one
         b: grant two
         c: grant three
         d: read alice
         e: list
         f: pools
         g: heartbeat alice
         h: heartbeat alice
         i: heartbeat alice
         j: release alice
         turn
         sync",
    ));
}

#[test]
fn each_lane_gets_at_least_a_tenth_of_a_turn_under_a_flood_of_the_others() {
    let mut desk = Desk::with(EngineConfig { inbox_max: 400_000, ..EngineConfig::default() });
    desk.told = false;
    for n in 0..3000 {
        desk.play(&format!("old{n}: grant old/{n} ttl=1000 grace=0"));
    }
    desk.settle();
    let granted: Vec<LeaseId> = desk.leases.values().copied().collect();
    assert_eq!(granted.len(), 3000);
    for n in 0..2500 {
        desk.play(&format!("keep{n}: grant keep/{n} permanent at_once"));
    }
    desk.settle();
    // In one turn: 3,000 deadlines, 2,500 releases, 5,000 grants and 3,000 reads.
    for n in 0..2500 {
        desk.play(&format!("release{n}: release keep{n}"));
    }
    for n in 0..5000 {
        desk.play(&format!("new{n}: grant new/{n} permanent"));
    }
    for n in 0..3000 {
        desk.play(&format!("read{n}: read keep2499"));
    }
    desk.play("blocker: pool blocker size=1");
    desk.pass(1000);
    let before = counts(&desk);
    desk.turn();
    let after = counts(&desk);
    assert!(before.0 - after.0 >= TURN_EVENTS_MAX as i64 / 10, "deadlines: {before:?} {after:?}");
    assert!(before.1 - after.1 >= 150, "ends: {before:?} {after:?}");
    assert!(after.2 - before.2 >= 150, "grants: {before:?} {after:?}");
    let reads = desk.answers.keys().filter(|name| name.starts_with("read")).count();
    assert!(reads >= 150, "reads: {reads}");
    desk.settle();
    assert_eq!(counts(&desk), (0, 0, 5000));
}

/// Live leases of the three kinds in the lane test.
fn counts(desk: &Desk) -> (i64, i64, i64) {
    let of = |prefix: &str| {
        desk.engine
            .kernel()
            .leases_from(LeaseId(0))
            .filter(|view| view.members().any(|name| name.starts_with(prefix)))
            .filter(|view| view.state().name() == StateName::Active)
            .count() as i64
    };
    (of("old/"), of("keep/"), of("new/"))
}

#[test]
fn a_read_examines_a_bounded_number_of_records_and_a_page_may_be_short() {
    let mut desk = Desk::new();
    desk.told = false;
    for n in 0..2100 {
        desk.play(&format!("g{n}: grant r/{n} permanent"));
    }
    desk.settle();
    desk.play("list: list holder=g2050\n settle");
    let Answer::Leases { leases, next, .. } = &desk.answers["list"] else { panic!("a page") };
    assert_eq!((leases.len(), next.is_some()), (0, true));
}

/// Nobody was told of any of it.
#[test]
fn operators_learn_of_a_full_disk_and_of_work_that_fails_once_for_each_change() {
    expect![[r#"
        0      report: DiskLow
        0      report: DiskOk
        0      report: TaskFailed { task: Snapshot, error: "no room" }
        0      report: TaskRecovered { task: Snapshot }
    "#]]
    .assert_eq(&tell(
        "space low
         turn
         space low
         turn
         space ok
         turn
         task fails
         turn
         task fails
         turn
         task works
         turn
         task works
         turn",
    ));
}

#[test]
fn disk_low_refuses_grants_but_not_releases() {
    expect![[r#"
        0      frame 1.1 at 1: granted, granted
        0      alice <- lease 1 active [printer] alice epoch 1 fence 1 valid 89549
        0      bob <- lease 2 active [scanner] bob epoch 1 fence 2 valid 89549
        0      report: DiskLow
        0      frame 1.2 at 3: released, revoked
        0      alice <- lease 1 released (explicit) epoch 2
        0      bob <- lease 2 revoking (admin_force) [scanner] bob epoch 2 fence 2
        0      waiter <- disk_low
        0      carol <- disk_low
        0      bob <- lease 2 revoking (admin_force) [scanner] bob epoch 2 fence 2
        0      frame 1.3 at 5: reclaimed
        0      report: DiskOk
        0      frame 1.4 at 6: granted
        0      dave <- lease 6 active [plotter] dave epoch 1 fence 6 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant printer
         bob: grant scanner
         waiter: grant printer wait=60000
         settle
         space low
         carol: grant plotter
         alice: release alice
         bob: revoke bob
         turn
         settle
         bob: acknowledge bob
         settle
         space ok
         dave: grant plotter
         settle",
    ));
}

fn status(desk: &Desk) -> Status {
    desk.engine.status()
}
