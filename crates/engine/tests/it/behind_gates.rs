//! What a face whose leases have a gate relies on: no way around the gate, the first draining lease taken over,
//! a name that is coming free waited for.

use crate::desk::tell;
use expect_test::expect;

#[test]
fn giving_back_a_lease_with_a_gate_goes_through_the_gate() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1
        0      stale <- stale_epoch: current 1
        0      frame 1.2 at 2: revoked, note gate_opened
        0      gate of lease 1
        0      alice <- lease 1 revoking (explicit) [a] alice epoch 2 fence 1
        0      bob <- resource_held: a by lease 1 of alice
        0      again <- lease 1 revoking (explicit) [a] alice epoch 2 fence 1, replayed
        0      frame 1.3 at 4: reclaimed
        0      frame 1.4 at 5: granted
        0      bob <- lease 5 active [a] bob epoch 1 fence 5 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant a ttl=5000 gate at_once
         settle
         stale: release alice epoch=9
         alice: release alice op=bye epoch=1
         settle
         bob: grant a
         settle
         again: release alice op=bye epoch=1
         settle
         done: gate alice
         settle
         bob: grant a
         settle",
    ));
}

#[test]
fn closing_a_session_sends_its_leases_through_their_gates() {
    expect![[r#"
        0      frame 1.1 at 1: session_opened, granted, granted
        0      s <- done
        0      alice <- lease 2 active [a] alice epoch 1 fence 2
        0      plain <- lease 3 active [b] plain epoch 1 fence 3 valid 8954
        0      frame 1.2 at 4: session_closed
        0      s <- done
        0      frame 1.3 at 5: revoked, note gate_opened, released
        0      gate of lease 2
        0      frame 1.4 at 8: reclaimed
    "#]]
    .assert_eq(&tell(
        "s: open 3 ttl=9000 grace=1000
         alice: grant a session=3 gate at_once
         plain: grant b session=3
         settle
         s: close 3
         settle
         done: gate alice
         settle",
    ));
}

#[test]
fn the_first_that_drains_is_taken_over() {
    expect![[r#"
        0      conn <- done
        0      frame 1.1 at 1: granted, session_opened, granted, granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1
        0      bob <- lease 3 active [a2] bob epoch 1 fence 3
        0      carol <- lease 4 active [a3] carol epoch 1 fence 4
        0      frame 1.2 at 5: granted
        0      early <- lease 5 active [a4] early epoch 1 fence 5 valid 89549
        0      frame 1.3 at 6: note draining, rebound
        0      heir <- lease 3 active [a2] heir epoch 2 fence 7 valid 89549
    "#]]
    .assert_eq(&tell(
        "conn: connect 7 grace=20000
         alice: grant a ttl=5000 grace=20000 at_once
         bob: grant a2 session=7 grace=20000 at_once
         carol: grant a3 session=7 grace=20000 at_once
         settle
         early: grant a or=a2|a3|a4 overs=alice|bob|carol
         settle
         gone: disconnect 7
         settle
         heir: grant a or=a2|a3|a4|a5 overs=alice|bob|carol data=3
         settle",
    ));
}

#[test]
fn a_bundle_that_is_coming_free_is_waited_for_rather_than_replaced() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1
        0      frame 1.2 at 2: granted
        0      bob <- lease 2 active [a2] bob epoch 1 fence 2 valid 89549
        0      frame 1.3 at 3: revoked, note gate_opened
        0      gate of lease 1
        0      alice <- lease 1 revoking (explicit) [a] alice epoch 2 fence 1
        0      frame 1.4 at 5: reclaimed, granted
        0      carol <- lease 6 active [a] carol epoch 1 fence 6 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant a ttl=5000 gate at_once
         settle
         bob: grant a or=a2 wait=2000
         settle
         alice: release alice
         settle
         carol: grant a or=a3 wait=2000
         settle
         done: gate alice
         settle",
    ));
}

#[test]
fn with_alternatives_only_what_is_coming_free_is_waited_for() {
    expect![[r#"
        0      frame 1.1 at 1: granted, granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 49749
        0      bob <- lease 2 active [a2] bob epoch 1 fence 2 valid 49749
        0      carol <- resource_held: a by lease 1 of alice
        0      frame 1.2 at 3: granted
        0      dave <- lease 3 active [c] dave epoch 1 fence 3
        0      frame 1.3 at 4: revoked, note gate_opened
        0      gate of lease 3
        0      dave <- lease 3 revoking (explicit) [c] dave epoch 2 fence 3
        2000   erin <- wait_timeout
    "#]]
    .assert_eq(&tell(
        "alice: grant a ttl=50000
         bob: grant a2 ttl=50000
         settle
         carol: grant a or=a2 wait=2000
         settle
         dave: grant c ttl=50000 gate at_once
         settle
         dave: release dave
         settle
         erin: grant c or=c2 wait=2000
         settle
         until 4000",
    ));
}

#[test]
fn ended_leases_are_listed_in_order_of_their_ends() {
    expect![[r#"
        0      frame 1.1 at 1: granted, granted, granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 49749
        0      bob <- lease 2 active [b] bob epoch 1 fence 2 valid 49749
        0      carol <- lease 3 active [c] carol epoch 1 fence 3 valid 49749
        0      frame 1.2 at 4: released
        0      bob <- lease 2 released (explicit) epoch 2
        0      frame 1.3 at 5: released
        0      alice <- lease 1 released (explicit) epoch 2
        0      all <- ended [2, 1]
        0      later <- ended [1]
    "#]]
    .assert_eq(&tell(
        "alice: grant a ttl=50000
         bob: grant b ttl=50000
         carol: grant c ttl=50000
         settle
         bob: release bob
         settle
         alice: release alice
         settle
         all: ended
         later: ended from=5
         settle",
    ));
}

#[test]
fn who_gives_a_lease_back_through_its_gate_is_not_told_that_it_is_lost() {
    expect![[r#"
        0      conn <- done
        0      frame 1.1 at 1: session_opened, granted, granted
        0      alice <- lease 2 active [a] alice epoch 1 fence 2
        0      bob <- lease 3 active [b] bob epoch 1 fence 3
        0      frame 1.2 at 4: revoked, note gate_opened
        0      gate of lease 2
        0      alice <- lease 2 revoking (explicit) [a] alice epoch 2 fence 2
        0      frame 1.3 at 6: revoked, note gate_opened
        0      push to 7: lost lease 3 epoch 2 admin_force
        0      gate of lease 3
        0      admin <- lease 3 revoking (admin_force) [b] bob epoch 2 fence 3
    "#]]
    .assert_eq(&tell(
        "conn: connect 7 grace=1000
         alice: grant a session=7 gate at_once
         bob: grant b session=7 gate at_once
         settle
         alice: release alice
         settle
         admin: revoke bob
         settle",
    ));
}
