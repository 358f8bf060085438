//! Frames that are not simply committed, and authority that ends: what is suspect is never served.

use crate::desk::{Desk, tell};
use expect_test::expect;

#[test]
fn an_unknown_outcome_freezes_outputs_until_the_log_says_that_it_is_there() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [printer] alice epoch 1 fence 1 valid 89549
        0      frame 1.2 at 2: granted
        0      resolve 1.2
        0      wake in 500
        100    wake in 500
        100    resolve 1.2
        100    bob <- lease 2 active [scanner] bob epoch 1 fence 2 valid 89549
        100    alice <- renewed valid 89549 left 90000
        100    reader <- lease 1 active [printer] alice epoch 1 fence 1 valid 89549
        100    frame 1.3 at 3: granted
        100    carol <- lease 3 active [plotter] carol epoch 1 fence 3 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant printer
         settle
         bob: grant scanner
         turn
         unknown
         wake
         alice: heartbeat alice
         reader: read alice
         carol: grant plotter
         +100
         wake
         resolve unknown
         resolve committed
         sync",
    ));
}

#[test]
fn an_absent_frame_is_sent_again_the_same_batch_at_the_same_position() {
    let mut desk = Desk::new();
    desk.play("alice: grant printer\n settle\n bob: grant scanner\n turn");
    let first = desk.flight.clone().unwrap();
    desk.play("carol: grant plotter\n +20\n unknown\n resolve absent");
    let again = desk.flight.clone().unwrap();
    assert_eq!(first, again);
    desk.play("dave: grant plotter\n +20\n wake\n sync\n sync");
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [printer] alice epoch 1 fence 1 valid 89549
        0      frame 1.2 at 2: granted
        20     resolve 1.2
        20     frame 1.2 at 2: granted
        40     wake in 500
        40     bob <- lease 2 active [scanner] bob epoch 1 fence 2 valid 89549
        40     frame 1.3 at 3: granted
        40     carol <- lease 3 active [plotter] carol epoch 1 fence 3 valid 89549
        40     dave <- resource_held: plotter by lease 3 of carol
    "#]]
    .assert_eq(&desk.take_story());
}

#[test]
fn a_stop_answers_what_was_unsynced_with_outcome_unknown_and_serves_nothing_more() {
    for how in ["failed", "fenced"] {
        let mut desk = Desk::new();
        desk.play(
            "alice: grant printer
             settle
             waiter: grant printer wait=60000 op=w
             joined: grant printer wait=60000 op=w holder=waiter
             bob: grant scanner
             turn
             carol: grant plotter
             turn",
        );
        desk.play(how);
        desk.play("alice: heartbeat alice\n reader: read alice\n turn");
        let story = desk.take_story();
        match how {
            "failed" => expect![[r#"
                0      frame 1.1 at 1: granted
                0      alice <- lease 1 active [printer] alice epoch 1 fence 1 valid 89549
                0      frame 1.2 at 2: granted
                0      bob <- outcome_unknown
                0      carol <- outcome_unknown
                0      waiter <- shutting_down
                0      joined <- shutting_down
                0      stop: the log failed: no space left on device
                0      alice <- shutting_down
                0      reader <- shutting_down
                0      stop: the log failed: no space left on device
            "#]]
            .assert_eq(&story),
            _ => expect![[r#"
                0      frame 1.1 at 1: granted
                0      alice <- lease 1 active [printer] alice epoch 1 fence 1 valid 89549
                0      frame 1.2 at 2: granted
                0      bob <- outcome_unknown
                0      carol <- outcome_unknown
                0      waiter <- shutting_down
                0      joined <- shutting_down
                0      stop: another leader was elected
                0      alice <- shutting_down
                0      reader <- shutting_down
                0      stop: another leader was elected
            "#]]
            .assert_eq(&story),
        }
    }
}

#[test]
fn a_resolve_that_says_fenced_stops_too() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      resolve 1.1
        0      alice <- outcome_unknown
        0      bob <- shutting_down
        0      stop: another leader was elected
    "#]]
    .assert_eq(&tell(
        "alice: grant printer
         turn
         unknown
         bob: grant scanner
         turn
         resolve fenced",
    ));
}

#[test]
fn without_authority_nothing_is_decided_and_asking_again_elsewhere_is_safe() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [printer] alice epoch 1 fence 1 valid 89549
        499    alice <- renewed valid 89549 left 90000
        499    alice <- not_leader
        499    reader <- not_leader
        499    checker <- not_leader
        499    bob <- not_leader
        499    alice <- not_leader
        499    checker <- not_leader
        499    frame 1.2 at 2: granted
        499    bob <- lease 2 active [scanner] bob epoch 1 fence 2 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant printer
         settle
         authority 500
         alice: heartbeat alice
         +499
         alice: heartbeat alice
         reader: read alice
         checker: check alice
         +1
         bob: grant scanner
         alice: heartbeat alice
         checker: check alice
         turn
         authority 1000
         bob: grant scanner
         turn
         sync",
    ));
}

#[test]
fn what_may_be_in_a_frame_when_authority_ends_is_not_known() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- outcome_unknown
        0      reader <- lease 1 active [printer] alice epoch 1 fence 1 valid 89549, waiters [] at 1
    "#]]
    .assert_eq(&tell(
        "authority 500
         alice: grant printer
         turn
         +500
         turn
         sync
         authority 1000
         reader: resource printer
         turn",
    ));
}

/// Like a restart: a holder that could not be heard meanwhile gets a full ttl from the instant at which it can.
#[test]
fn a_spell_without_authority_ages_nobody() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [printer] alice epoch 1 fence 1 valid 994
        0      reader <- lease 1 active [printer] alice epoch 1 fence 1 valid 994
        1100   frame 1.2 at 2: revoked, reclaimed
    "#]]
    .assert_eq(&tell(
        "authority 500
         alice: grant printer ttl=1000 grace=0
         settle
         +900
         turn
         +60000
         authority 90000
         reader: read alice
         turn
         +900
         turn
         +200
         settle",
    ));
}

/// A process that was stopped may prove itself before a turn has seen that its authority was over. The lapse counted as a
/// stall then, and alice lost her lease before she could renew it.
#[test]
fn a_spell_without_authority_that_no_turn_saw_ages_nobody() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [printer] alice epoch 1 fence 1 valid 994
        0      reader <- lease 1 active [printer] alice epoch 1 fence 1 valid 994
        1100   frame 1.2 at 2: revoked, reclaimed
    "#]]
    .assert_eq(&tell(
        "authority 500
         alice: grant printer ttl=1000 grace=0
         settle
         stopped 60000
         authority 90000
         reader: read alice
         turn
         +900
         turn
         +200
         settle",
    ));
}

/// Answers withheld for want of authority left with the stop.
#[test]
fn answers_withheld_for_want_of_authority_never_leave_once_another_writer_took_over() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [printer] alice epoch 1 fence 1 valid 89549
        499    frame 1.2 at 2: granted
        499    bob <- outcome_unknown
        499    alice <- not_leader
        499    checker <- not_leader
        499    stop: another leader was elected
    "#]]
    .assert_eq(&tell(
        "alice: grant printer
         settle
         authority 500
         bob: grant scanner
         +499
         alice: heartbeat alice
         checker: check alice
         +1
         fenced",
    ));
}
