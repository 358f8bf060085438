//! Whose a lease or a session is: who may speak for it, decided in the same step as what was asked.

use crate::desk::tell;
use expect_test::expect;

#[test]
fn only_its_principal_may_speak_for_a_lease() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      beat <- forbidden
        0      mine <- renewed valid 89549 left 90000
        0      rel <- forbidden
        0      amend <- forbidden
        0      rebind <- forbidden
        0      frame 1.2 at 2: revoked
        0      op <- lease 1 revoking (admin_force) [a] alice epoch 2 fence 1
        0      ack <- forbidden
    "#]]
    .assert_eq(&tell(
        "alice: grant a
         settle
         beat: heartbeat alice asker=token:other
         rel: release alice asker=token:other
         amend: amend alice asker=token:other
         rebind: rebind alice asker=token:other
         mine: heartbeat alice asker=local
         settle
         op: revoke alice
         settle
         ack: acknowledge alice asker=token:other
         settle",
    ));
}

#[test]
fn a_session_of_somebody_else_keeps_nothing_and_is_not_kept() {
    expect![[r#"
        0      frame 1.1 at 1: session_opened
        0      s <- done
        0      beat <- forbidden
        0      again <- renewed lsn 1 valid 89549 ended [] draining []
        0      close <- forbidden
        0      theirs <- forbidden
        0      frame 1.2 at 2: granted
        0      mine <- lease 2 active [a] mine epoch 1 fence 2 valid 89549
    "#]]
    .assert_eq(&tell(
        "s: open 4
         settle
         theirs: grant a session=4 asker=token:other
         beat: beat 4 asker=token:other
         close: close 4 asker=token:other
         mine: grant a session=4 asker=local
         again: beat 4 asker=local
         settle",
    ));
}

#[test]
fn a_lease_of_a_session_by_hand_has_the_sessions_terms() {
    expect![[r#"
        0      frame 1.1 at 1: session_opened
        0      s <- done
        0      frame 1.2 at 2: granted
        0      mine <- lease 2 active [a] mine epoch 1 fence 2 valid 4974
        0      show <- lease 2 active [a] mine epoch 1 fence 2 valid 4974
    "#]]
    .assert_eq(&tell(
        "s: open 4 ttl=5000 grace=700
         settle
         mine: grant a session=4 grace=9
         settle
         show: read mine
         settle",
    ));
}

#[test]
fn everything_in_the_way_of_a_bundle_is_named() {
    expect![[r#"
        0      frame 1.1 at 1: granted, granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      bob <- lease 2 active [c] bob epoch 1 fence 2 valid 89549
        0      late <- resource_held: a by lease 1 of alice, c by lease 2 of bob
        0      frame 1.2 at 3: granted
        0      other <- lease 3 active [b] other epoch 1 fence 3 valid 89549
        0      last <- resource_held: c by lease 2 of bob
    "#]]
    .assert_eq(&tell(
        "alice: grant a
         bob: grant c
         settle
         late: grant a,b,c
         other: grant b or=c
         settle
         last: grant c,d
         settle",
    ));
}

#[test]
fn a_retry_on_another_connection_finds_the_lease_it_was_given() {
    expect![[r#"
        0      one <- done
        0      frame 1.1 at 1: session_opened, granted
        0      alice <- lease 2 active [a] alice epoch 1 fence 2
        0      two <- done
        0      frame 1.2 at 3: note draining
        0      again <- lease 2 active draining [a] alice epoch 1 fence 2, replayed
    "#]]
    .assert_eq(&tell(
        "one: connect 5 grace=30000
         alice: grant a session=5 op=x
         settle
         gone: disconnect 5
         two: connect 9 grace=30000
         again: grant a session=9 op=x holder=alice
         settle",
    ));
}

#[test]
fn a_resume_that_is_tried_again_from_a_third_connection_is_told_what_became_of_it() {
    expect![[r#"
        0      one <- done
        0      frame 1.1 at 1: session_opened, granted
        0      alice <- lease 2 active [a] alice epoch 1 fence 2
        0      two <- done
        0      frame 1.2 at 3: note draining, session_opened, rebound
        0      back <- lease 2 active [a] back epoch 2 fence 5
        0      three <- done
        0      frame 1.3 at 6: note draining
        0      back <- lease 2 active draining [a] back epoch 2 fence 5, replayed
    "#]]
    .assert_eq(&tell(
        "one: connect 5 grace=30000
         alice: grant a session=5
         settle
         gone: disconnect 5
         two: connect 6 grace=30000
         back: rebind alice session=6 op=x epoch=1
         settle
         gone: disconnect 6
         three: connect 7 grace=30000
         back: rebind alice session=7 op=x epoch=1
         settle",
    ));
}

#[test]
fn the_session_of_an_open_connection_is_not_closed_by_hand() {
    expect![[r#"
        0      one <- done
        0      frame 1.1 at 1: session_opened, granted
        0      alice <- lease 2 active [a] alice epoch 1 fence 2
        0      root <- not_draining
        0      gone <- done
        0      frame 1.2 at 3: note draining, session_closed
        0      root <- done
        0      frame 1.3 at 5: released
    "#]]
    .assert_eq(&tell(
        "one: connect 5 grace=30000
         alice: grant a session=5
         settle
         root: close 5
         settle
         gone: disconnect 5
         root: close 5
         settle",
    ));
}
