//! Whose a lease or a session is: who may speak for it, decided in the same step as what was asked.

use crate::desk::{tell, tell_with};
use expect_test::expect;
use tenure_engine::EngineConfig;
use tenure_kernel::Limits;

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
fn a_user_may_speak_for_what_local_holds_and_local_for_no_user() {
    // A user whose connection could not be told was `local` a moment ago, and is again after a restart of an older daemon.
    expect![[r#"
        0      frame 1.1 at 1: granted, granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      ben <- lease 2 active [b] ben epoch 1 fence 2 valid 89549
        0      beat <- renewed valid 89549 left 90000
        0      other <- forbidden
        0      third <- forbidden
        0      token <- forbidden
        0      frame 1.2 at 3: released
        0      rel <- lease 1 released (explicit) epoch 2
    "#]]
    .assert_eq(&tell(
        "alice: grant a
         ben: grant b principal=uid:1000
         settle
         beat: heartbeat alice asker=uid:1000
         other: heartbeat ben asker=local
         third: heartbeat ben asker=uid:1001
         token: heartbeat alice asker=token:uid:1000
         settle
         rel: release alice asker=uid:1001
         settle",
    ));
}

#[test]
fn a_retry_by_a_user_finds_what_local_did_if_the_same_was_asked() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      again <- lease 1 active [a] alice epoch 1 fence 1 valid 89549, replayed
        0      token <- resource_held: a by lease 1 of alice
        0      frame 1.2 at 2: granted
        0      other <- lease 2 active [b] alice epoch 1 fence 2 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant a op=one
         settle
         again: grant a op=one holder=alice principal=uid:1000 asker=uid:1000
         other: grant b op=one holder=alice principal=uid:1000 asker=uid:1000
         token: grant a op=one holder=alice principal=token:x asker=token:x
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

#[test]
fn a_session_takes_leases_of_other_principals_only_as_it_consented() {
    expect![[r#"
        0      frame 1.1 at 1: session_opened, session_opened, session_opened
        0      none <- done
        0      some <- done
        0      own <- done
        0      frame 1.2 at 4: granted, granted
        0      one <- lease 4 active [poll/g/one, poll/g/two] one epoch 1 fence 4 valid 89549
        0      two <- lease 5 active [poll/g/three, poll/h/one] two epoch 1 fence 5 valid 89549
        0      none <- forbidden
        0      part <- forbidden
        0      frame 1.3 at 6: rebound, rebound
        0      same <- lease 5 active [poll/g/three, poll/h/one] own epoch 2 fence 6 valid 89549
        0      some <- lease 4 active [poll/g/one, poll/g/two] some epoch 2 fence 7 valid 89549
        0      frame 2.1 at 8: note restarted, granted
        0      snap <- lease 9 active [poll/g/four] snap epoch 1 fence 9 valid 89549
        0      frame 2.2 at 10: rebound
        0      snap <- lease 9 active [poll/g/four] some epoch 2 fence 10 valid 89549
    "#]]
    .assert_eq(&tell(
        "none: open 4 principal=token:other
         some: open 5 principal=token:other accepts=poll/g/
         own: open 6
         settle
         one: grant poll/g/one,poll/g/two
         two: grant poll/g/three,poll/h/one
         settle
         none: handover one to=4 asker=local
         part: handover two to=5 asker=local
         same: handover two to=6 asker=local
         some: handover one to=5 asker=local
         settle
         restart
         snap: grant poll/g/four
         settle
         snap: handover snap to=5 asker=local
         settle",
    ));
}

#[test]
fn a_hand_over_counts_against_the_limit_of_the_principal_that_receives_it() {
    let limits = Limits { leases_per_principal_max: 2, ..Limits::default() };
    expect![[r#"
        0      frame 1.1 at 1: session_opened, session_opened
        0      s <- done
        0      own <- done
        0      frame 1.2 at 3: granted, granted
        0      one <- lease 3 active [a/1] one epoch 1 fence 3 valid 89549
        0      two <- lease 4 active [a/2] two epoch 1 fence 4 valid 89549
        0      frame 1.3 at 5: granted, rebound
        0      three <- lease 5 active [b] three epoch 1 fence 5 valid 89549
        0      one <- lease 3 active [a/1] s epoch 2 fence 6 valid 89549
        0      two <- capacity_exceeded
        0      frame 1.4 at 7: rebound
        0      two <- lease 4 active [a/2] own epoch 2 fence 7 valid 89549
    "#]]
    .assert_eq(&tell_with(
        EngineConfig { limits, ..EngineConfig::default() },
        "s: open 4 principal=token:other accepts=a
         own: open 6
         settle
         one: grant a/1
         two: grant a/2
         settle
         three: grant b principal=token:other
         one: handover one to=4 asker=local
         two: handover two to=4 asker=local
         settle
         two: handover two to=6 asker=local
         settle",
    ));
}
