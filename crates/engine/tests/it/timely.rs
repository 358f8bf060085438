//! What the face of streams relies on: a heartbeat that comes too late is none, a wait has a place, who gives a lease
//! back is not waited for, and a retry is known by what was asked and not by what was made of it.

use crate::desk::tell;
use expect_test::expect;

#[test]
fn a_heartbeat_that_comes_too_late_ends_the_lease_first() {
    expect![[r#"
        0      frame 1.1 at 1: granted, granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 1989
        0      bob <- lease 2 active [b] bob epoch 1 fence 2 valid 1989
        1999   in_time <- renewed valid 1989 left 2000
        1999   in_time_b <- renewed valid 1989 left 2000
        3999   back <- renewed valid 1989 left 2000
        3999   frame 1.2 at 3: revoked, reclaimed, note draining, note revived
        3999   late <- invalid_state: revoked
        3999   list <- leases [2] at 6
    "#]]
    .assert_eq(&tell(
        "alice: grant a ttl=2000 grace=0
         bob: grant b ttl=2000 grace=1000
         settle
         until 1999
         in_time: timely alice
         in_time_b: timely bob
         settle
         +1000
         late: timely alice
         back: timely bob
         +1000
         settle
         list: list
         settle",
    ));
}

#[test]
fn a_timely_heartbeat_may_name_the_epoch_it_knows() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 1989
        0      any <- renewed valid 1989 left 2000
        0      right <- renewed valid 1989 left 2000
        0      wrong <- stale_epoch: current 1
        0      another <- forbidden
    "#]]
    .assert_eq(&tell(
        "alice: grant a ttl=2000
         settle
         any: timely alice
         right: timely alice epoch=1
         wrong: timely alice epoch=7
         another: timely alice asker=eve
         settle",
    ));
}

#[test]
fn a_wait_has_a_place() {
    expect![[r#"
        0      frame 1.1 at 1: pool_defined, granted
        0      op <- done
        0      alice <- lease 2 active [p/1] alice epoch 1 fence 2 valid 89549
        0      one <- waits at place 1
        0      two <- waits at place 2
        0      none <- does not wait
        0      frame 1.2 at 3: released, granted
        0      alice <- lease 2 released (explicit) epoch 2
        0      bob <- lease 4 active [p/1] bob epoch 1 fence 4 valid 89549
        0      served <- does not wait
        0      next <- waits at place 1
    "#]]
    .assert_eq(&tell(
        "op: pool p size=1
         alice: grant 1*p
         settle
         bob: grant 1*p wait=9000
         carol: grant 1*p wait=9000
         settle
         one: place bob
         two: place carol
         none: place alice
         settle
         alice: release alice
         settle
         served: place bob
         next: place carol
         settle",
    ));
}

#[test]
fn who_gives_back_a_lease_with_a_gate_is_not_waited_for() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 59699
        0      frame 1.2 at 2: revoked, note gate_opened
        0      gate of lease 1
        0      alice <- lease 1 revoking (explicit) [a] alice epoch 2 fence 1
        0      frame 1.3 at 4: reclaimed
        0      frame 1.4 at 5: granted
        0      bob <- lease 5 active [a] bob epoch 1 fence 5 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant a ttl=60000 gate
         settle
         alice: release alice
         settle
         done: gate alice
         settle
         bob: grant a
         settle",
    ));
}

#[test]
fn a_retry_is_known_by_what_was_asked() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      again <- lease 1 active [a] alice epoch 1 fence 1 valid 89549, replayed
        0      other <- operation_conflict
    "#]]
    .assert_eq(&tell(
        "alice: grant a op=k asked=7
         settle
         again: grant b op=k asked=7
         other: grant a op=k asked=8
         settle",
    ));
}

#[test]
fn what_was_refused_may_be_tried_again() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      bob <- resource_held: a by lease 1 of alice
        0      frame 1.2 at 2: released
        0      alice <- lease 1 released (explicit) epoch 2
        0      frame 1.3 at 3: granted
        0      again <- lease 3 active [a] again epoch 1 fence 3 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant a
         settle
         bob: grant a op=k asked=7 tries_again
         settle
         alice: release alice
         settle
         again: grant a op=k asked=7 tries_again
         settle",
    ));
}
