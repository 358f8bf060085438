//! Who waits for which bundle, and what makes a retry harmless.

use crate::desk::{Desk, tell, tell_with};
use expect_test::expect;
use tenure_engine::EngineConfig;

#[test]
fn overlapping_bundles_are_served_in_order_of_arrival_and_never_held_partly() {
    expect![[r#"
        0      frame 1.1 at 1: granted, granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      bob <- lease 2 active [b] bob epoch 1 fence 2 valid 89549
        0      frame 1.2 at 3: released
        0      bob <- lease 2 released (explicit) epoch 2
        0      free <- available, waiters [both, onlyb] at 3
        0      frame 1.3 at 4: released, granted
        0      alice <- lease 1 released (explicit) epoch 2
        0      both <- lease 5 active [a, b] both epoch 1 fence 5 valid 89549
        0      frame 1.4 at 6: released, granted
        0      both <- lease 5 released (explicit) epoch 2
        0      onlyb <- lease 7 active [b] onlyb epoch 1 fence 7 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant a
         bob: grant b
         settle
         both: grant a,b wait=60000
         onlyb: grant b wait=60000
         settle
         bob: release bob
         settle
         free: resource b
         settle
         alice: release alice
         settle
         both: release both
         settle",
    ));
}

#[test]
fn a_grant_without_wait_counts_as_last() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      quick <- resource_held: 1 wait for b
        0      held <- resource_held: a by lease 1 of alice
        0      frame 1.2 at 2: granted
        0      other <- lease 2 active [c] other epoch 1 fence 2 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant a
         settle
         both: grant a,b wait=60000
         settle
         quick: grant b
         held: grant a
         other: grant c
         settle",
    ));
}

#[test]
fn a_freed_resource_wakes_exactly_the_right_one() {
    expect![[r#"
        0      frame 1.1 at 1: granted, granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      bob <- lease 2 active [b] bob epoch 1 fence 2 valid 89549
        0      who <- lease 1 active [a] alice epoch 1 fence 1 valid 89549, waiters [one, two] at 2
        0      frame 1.2 at 3: released, granted
        0      alice <- lease 1 released (explicit) epoch 2
        0      one <- lease 4 active [a] one epoch 1 fence 4 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant a
         bob: grant b
         settle
         one: grant a wait=60000
         two: grant a wait=60000
         three: grant b wait=60000
         settle
         who: resource a
         settle
         alice: release alice
         settle",
    ));
}

#[test]
fn pools_are_waited_for_and_growth_wakes() {
    expect![[r#"
        0      frame 1.1 at 1: pool_defined
        0      admin <- done
        0      frame 1.2 at 2: granted
        0      alice <- lease 2 active [p/1, p/2] alice epoch 1 fence 2 valid 89549
        0      frame 1.3 at 3: pool_defined
        0      admin <- done
        0      frame 1.4 at 4: pool_defined, granted
        0      admin <- done
        0      one <- lease 5 active [p/3, p/4] one epoch 1 fence 5 valid 89549
        0      frame 1.5 at 6: pool_defined, granted
        0      admin <- done
        0      two <- lease 7 active [p/5] two epoch 1 fence 7 valid 89549
    "#]]
    .assert_eq(&tell(
        "admin: pool p size=2
         settle
         alice: grant 2*p
         settle
         one: grant 2*p wait=60000
         two: grant 1*p wait=60000
         settle
         admin: pool p size=3
         settle
         admin: pool p size=4
         settle
         admin: pool p size=5
         settle",
    ));
}

#[test]
fn a_waiter_for_a_pool_is_woken_by_a_release_of_one_of_its_members() {
    expect![[r#"
        0      frame 1.1 at 1: pool_defined
        0      admin <- done
        0      frame 1.2 at 2: granted
        0      alice <- lease 2 active [p/1] alice epoch 1 fence 2 valid 89549
        0      frame 1.3 at 3: released, granted
        0      alice <- lease 2 released (explicit) epoch 2
        0      one <- lease 4 active [p/1] one epoch 1 fence 4 valid 89549
    "#]]
    .assert_eq(&tell(
        "admin: pool p size=1
         settle
         alice: grant p/1
         settle
         one: grant 1*p wait=60000
         settle
         alice: release alice
         settle",
    ));
}

#[test]
fn a_waiter_for_a_pool_that_is_removed_is_told() {
    expect![[r#"
        0      frame 1.1 at 1: pool_defined
        0      admin <- done
        0      frame 1.2 at 2: granted
        0      alice <- lease 2 active [p/1] alice epoch 1 fence 2 valid 89549
        0      frame 1.3 at 3: pool_removed
        0      admin <- done
        0      one <- pool_not_found
        0      frame 1.4 at 4: revoked
        0      alice <- lease 2 revoking (pool_removed) [p/1] alice epoch 2 fence 2
        0      frame 1.5 at 5: reclaimed
    "#]]
    .assert_eq(&tell(
        "admin: pool p size=1
         settle
         alice: grant 1*p
         settle
         one: grant 1*p wait=60000
         settle
         admin: remove p force
         settle
         alice: acknowledge alice
         settle",
    ));
}

#[test]
fn a_wait_that_runs_out_is_a_timeout_and_those_behind_move_up() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        1000   both <- wait_timeout
        1000   frame 1.2 at 2: granted
        1000   onlyb <- lease 2 active [b] onlyb epoch 1 fence 2 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant a
         settle
         both: grant a,b wait=1000
         onlyb: grant b wait=60000
         settle
         until 1000",
    ));
}

#[test]
fn a_cancelled_wait_is_told_and_those_behind_move_up() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      both <- cancelled
        0      frame 1.2 at 2: granted
        0      onlyb <- lease 2 active [b] onlyb epoch 1 fence 2 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant a
         settle
         both: grant a,b wait=60000
         onlyb: grant b wait=60000
         settle
         gone: cancel both
         settle
         gone: cancel both
         settle",
    ));
}

#[test]
fn a_full_table_of_waiters_refuses_the_next() {
    let config = EngineConfig { waiters_max: 2, ..EngineConfig::default() };
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      three <- too_many_waiters
    "#]]
    .assert_eq(&tell_with(
        config,
        "alice: grant a
         settle
         one: grant a wait=60000
         two: grant a wait=60000
         three: grant a wait=60000
         settle",
    ));
}

#[test]
fn a_waiter_that_blocked_others_for_30_s_may_be_passed_while_it_cannot_be_served() {
    let mut desk = Desk::new();
    desk.play(
        "alice: grant a permanent
         settle
         both: grant a,b permanent wait=600000
         settle
         onlyb: grant b permanent wait=600000
         settle
         until 29999",
    );
    assert_eq!(desk.engine.counters().waiters_passed, 0);
    desk.play("until 30000");
    assert_eq!(desk.engine.counters().waiters_passed, 1);
    desk.play(
        "onlyb: release onlyb
         settle
         again: grant b permanent
         settle
         alice: release alice
         again: release again
         settle",
    );
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1
        30000  frame 1.2 at 2: granted
        30000  onlyb <- lease 2 active [b] onlyb epoch 1 fence 2
        30000  frame 1.3 at 3: released
        30000  onlyb <- lease 2 released (explicit) epoch 2
        30000  frame 1.4 at 4: granted
        30000  again <- lease 4 active [b] again epoch 1 fence 4
        30000  frame 1.5 at 5: released, released, granted
        30000  alice <- lease 1 released (explicit) epoch 2
        30000  again <- lease 4 released (explicit) epoch 2
        30000  both <- lease 7 active [a, b] both epoch 1 fence 7
    "#]]
    .assert_eq(&desk.take_story());
}

/// Only passing by waiters was counted.
#[test]
fn a_grant_that_passes_a_waiter_is_counted_too() {
    let mut desk = Desk::new();
    desk.play(
        "alice: grant a permanent
         settle
         both: grant a,b permanent wait=600000
         settle
         quick: grant b permanent
         settle
         until 30000
         late: grant b permanent
         settle",
    );
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1
        0      quick <- resource_held: 1 wait for b
        30000  frame 1.2 at 2: granted
        30000  late <- lease 2 active [b] late epoch 1 fence 2
    "#]]
    .assert_eq(&desk.take_story());
    assert_eq!(desk.engine.counters().waiters_passed, 1);
}

/// Of all that were passed only the number was known, and of one that was passed often no more than that it was.
#[test]
fn a_waiter_is_shown_with_the_number_of_grants_that_passed_it() {
    let mut desk = Desk::new();
    desk.play(
        "alice: grant a permanent
         settle
         three: grant a,b,c permanent wait=600000
         settle
         quick: grant b permanent wait=600000
         until 30000
         settle
         late: grant c permanent
         settle
         quick: release quick
         settle
         both: grant b permanent
         settle",
    );
    desk.take_story();
    desk.play(
        "a: resource a
         b: resource b
         turn",
    );
    expect![[r#"
        30000  a <- lease 1 active [a] alice epoch 1 fence 1, waiters [three passed 3] at 5
        30000  b <- lease 5 active [b] both epoch 1 fence 5, waiters [three passed 3] at 5
    "#]]
    .assert_eq(&desk.take_story());
    assert_eq!(desk.engine.counters().waiters_passed, 1);
}

#[test]
fn an_alternative_is_taken_only_if_nobody_waits_for_it() {
    expect![[r#"
        0      frame 1.1 at 1: granted, granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      bob <- lease 2 active [x] bob epoch 1 fence 2 valid 89549
        0      one <- resource_held: a by lease 1 of alice
        0      frame 1.2 at 3: granted
        0      two <- lease 3 active [c] two epoch 1 fence 3 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant a
         bob: grant x
         settle
         both: grant x,b wait=60000
         settle
         one: grant a or=b
         two: grant a or=b|c
         settle",
    ));
}

#[test]
fn an_operation_that_waits_is_joined_and_both_get_the_same_answer() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      other <- operation_conflict
        0      frame 1.2 at 2: released, granted
        0      alice <- lease 1 released (explicit) epoch 2
        0      bob <- lease 3 active [a] bob epoch 1 fence 3 valid 89549
        0      again <- lease 3 active [a] bob epoch 1 fence 3 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant a
         settle
         bob: grant a wait=60000 op=1
         again: grant a holder=bob wait=60000 op=1
         other: grant b op=1
         settle
         alice: release alice
         settle",
    ));
}

#[test]
fn a_cancelled_wait_goes_on_for_whoever_joined_it() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      bob <- cancelled
        0      frame 1.2 at 2: released, granted
        0      alice <- lease 1 released (explicit) epoch 2
        0      heir <- lease 3 active [a] bob epoch 1 fence 3 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant a
         settle
         bob: grant a wait=60000 op=1
         heir: grant a holder=bob wait=60000 op=1
         settle
         gone: cancel bob
         settle
         alice: release alice
         settle",
    ));
}

/// A joined request that was cancelled could inherit the wait, and the lease went to nobody.
#[test]
fn one_who_joined_and_has_gone_inherits_nothing() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      joined <- cancelled
        0      bob <- cancelled
        0      frame 1.2 at 2: released
        0      alice <- lease 1 released (explicit) epoch 2
        0      frame 1.3 at 3: granted
        0      bob <- lease 3 active [a] bob epoch 1 fence 3 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant a
         settle
         bob: grant a wait=60000 op=1
         joined: grant a holder=bob wait=60000 op=1
         settle
         gone: cancel joined
         settle
         gone: cancel bob
         settle
         alice: release alice
         settle
         bob: grant a op=1
         settle",
    ));
}

#[test]
fn a_success_is_replayed_with_the_lease_as_it_is_now() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549, replayed
        1000   alice <- renewed valid 89549 left 90000
        1000   alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549, replayed
        1000   frame 1.2 at 2: released
        1000   alice <- lease 1 released (explicit) epoch 2
        1000   alice <- lease 1 released (explicit) epoch 2 fence 1, replayed
        1000   alice <- lease 1 released (explicit) epoch 2 fence 1, replayed
        1000   alice <- operation_conflict
        1000   alice <- lease 1 released (explicit) epoch 2 fence 1, replayed
    "#]]
    .assert_eq(&tell(
        "alice: grant a op=1
         turn
         alice: grant a op=1
         turn
         sync
         +1000
         alice: heartbeat alice
         alice: grant a op=1
         turn
         alice: release alice op=2
         settle
         alice: release alice op=2 epoch=1
         alice: grant a op=1
         alice: grant b op=1
         settle
         restart
         alice: grant a op=1
         settle",
    ));
}

#[test]
fn a_refusal_is_remembered_for_60_s() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      bob <- resource_held: a by lease 1 of alice
        0      frame 1.2 at 2: released
        0      alice <- lease 1 released (explicit) epoch 2
        59999  bob <- resource_held: a by lease 1 of alice
        59999  bob <- operation_conflict
        60000  frame 1.3 at 3: granted
        60000  bob <- lease 3 active [a] bob epoch 1 fence 3 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant a
         settle
         bob: grant a op=1
         settle
         alice: release alice
         settle
         until 59999
         bob: grant a op=1
         bob: grant b op=1
         settle
         until 60000
         bob: grant a op=1
         settle",
    ));
}

/// Remembered for a minute, it was told again long after there was room, to those who asked when they had been told to.
#[test]
fn a_refusal_for_want_of_room_is_forgotten_before_one_is_told_to_ask_again() {
    expect![[r#"
        0      report: DiskLow
        0      alice <- disk_low
        0      report: DiskOk
        4999   alice <- disk_low
        5000   frame 1.1 at 1: granted
        5000   alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
    "#]]
    .assert_eq(&tell(
        "space low
         alice: grant a op=1
         settle
         space ok
         until 4999
         alice: grant a op=1
         settle
         until 5000
         alice: grant a op=1
         settle",
    ));
}

#[test]
fn a_timeout_is_told_to_everyone_who_joined() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        1000   bob <- wait_timeout
        1000   again <- wait_timeout
    "#]]
    .assert_eq(&tell(
        "alice: grant a
         settle
         bob: grant a wait=1000 op=1
         again: grant a holder=bob wait=60000 op=1
         settle
         until 1000",
    ));
}

#[test]
fn a_waiter_whose_connection_closed_is_not_granted() {
    expect![[r#"
        0      bob <- done
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      frame 1.2 at 2: released
        0      alice <- lease 1 released (explicit) epoch 2
        0      bob <- session_not_found
    "#]]
    .assert_eq(&tell(
        "alice: grant a
         bob: connect 7
         settle
         bob: grant a session=7 wait=60000
         settle
         bob: disconnect 7
         settle
         alice: release alice
         settle",
    ));
}
