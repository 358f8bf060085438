//! Connections that are open at another node: what they keep makes them durable, whenever it is granted, and that node
//! hears which of them are known.

use crate::desk::tell;
use expect_test::expect;

#[test]
fn the_first_lease_brings_its_connection_along_and_a_refusal_does_not() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      other <- lease 1 active [b] other epoch 1 fence 1 valid 89549
        0      node <- connections heard, 1 unknown
        0      alice <- resource_held: b by lease 1 of other
        0      frame 1.2 at 2: session_opened, granted
        0      alice <- lease 3 active [a] alice epoch 1 fence 3 valid 9949
        0      sessions <- sessions [5 local alive leases 1] at 3
        0      node <- connections heard, 0 unknown
        0      frame 1.3 at 4: granted
        0      alice <- lease 4 active [c] alice epoch 1 fence 4 valid 9949
        0      sessions <- sessions [5 local alive leases 2] at 4
    "#]]
    .assert_eq(&tell(
        "other: grant b
         settle
         alice: grant b session=5 word=10000
         node: kept 5
         settle
         sessions: sessions
         alice: grant a session=5 word=10000
         settle
         node: kept 5
         alice: grant c session=5 word=10000
         settle
         sessions: sessions
         settle",
    ));
}

#[test]
fn one_who_waits_brings_its_connection_along_when_it_is_served() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      first <- lease 1 active [a] first epoch 1 fence 1 valid 89549
        0      node <- connections heard, 1 unknown
        0      frame 1.2 at 2: released, session_opened, granted
        0      free <- lease 1 released (explicit) epoch 2
        0      alice <- lease 4 active [a] alice epoch 1 fence 4 valid 9949
        0      node <- connections heard, 0 unknown
    "#]]
    .assert_eq(&tell(
        "first: grant a
         settle
         alice: grant a session=5 word=10000 wait=60000
         settle
         node: kept 5
         free: release first
         settle
         node: kept 5
         settle",
    ));
}

#[test]
fn a_retry_from_another_connection_at_another_node_finds_the_lease_it_was_given() {
    expect![[r#"
        0      frame 1.1 at 1: session_opened, granted
        0      alice <- lease 2 active [a] alice epoch 1 fence 2 valid 9949
        0      frame 1.2 at 3: note draining
        0      again <- lease 2 active draining [a] alice epoch 1 fence 2 valid 0, replayed
    "#]]
    .assert_eq(&tell(
        "alice: grant a session=5 word=10000 op=x
         settle
         gone: disconnect 5
         again: grant a session=9 word=10000 op=x holder=alice
         settle",
    ));
}

#[test]
fn a_connection_at_another_node_is_told_what_it_lost_and_its_end_is_told_to_its_node() {
    expect![[r#"
        0      frame 1.1 at 1: session_opened, granted
        0      alice <- lease 2 active [a] alice epoch 1 fence 2 valid 9949
        0      frame 1.2 at 3: revoked
        0      push to 5: lost lease 2 epoch 2 admin_force
        0      root <- lease 2 revoking (admin_force) [a] alice epoch 2 fence 2
        9000   node <- connections heard, 0 unknown
        10000  frame 1.3 at 4: reclaimed
        19250  frame 1.4 at 5: note draining
        49000  frame 1.5 at 6: session_closed
        50000  node <- connections heard, 1 unknown
    "#]]
    .assert_eq(&tell(
        "alice: grant a session=5 word=10000 grace=0
         settle
         root: revoke alice
         settle
         until 9000
         node: kept 5
         settle
         until 50000
         node: kept 5
         settle",
    ));
}

#[test]
fn what_a_holder_kept_by_a_connection_that_it_closed_is_free_after_its_grace_alone() {
    expect![[r#"
        0      frame 1.1 at 1: session_opened, granted, session_opened, granted
        0      alice <- lease 2 active [a] alice epoch 1 fence 2 valid 9949
        0      bob <- lease 4 active [b] bob epoch 1 fence 4 valid 9949
        1000   node <- connections heard, 0 unknown
        1000   node <- connections heard, 0 unknown
        1000   frame 1.2 at 5: note draining, note draining, revoked, revoked, reclaimed
        10000  frame 1.3 at 10: reclaimed
    "#]]
    .assert_eq(&tell(
        "alice: grant a session=5 word=10000 grace=0
         bob: grant b session=6 word=10000 grace=0
         settle
         until 1000
         node: left 5
         node: gone 6
         settle
         until 20000",
    ));
}
