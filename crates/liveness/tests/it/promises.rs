//! What a holder may count on: how long it is told it may act, and that reading never prolongs it.

use crate::script::check;
use expect_test::expect;

#[test]
fn grant_and_heartbeat_answer_the_ttl() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
        40 heartbeat L1
        40 show L1",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            40  heartbeat L1 → valid 88 margin 50
            40  show L1 → active alive seen 40 deadline 130 valid 88
        "#]],
    );
}

#[test]
fn the_promise_never_outlasts_the_lifetime() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30 life=100
         0 grant r2 holder=b heartbeat ttl=90 grace=30 life=60
        50 heartbeat L1
        50 heartbeat L2
        59 heartbeat L2
        60 wait
        99 heartbeat L1
        100 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 life=100 → L1 valid 88
                  0 L1 granted r1 to a
            0   grant r2 holder=b heartbeat ttl=90 grace=30 life=60 → L2 valid 58
                  0 L2 granted r2 to b
            50  heartbeat L1 → valid 48 margin 40
            50  heartbeat L2 → valid 8 margin 10
            59  heartbeat L2 → valid 0 margin 1
            60  wait
                 60 ~ L2 over max_lifetime, active since 0
                 60 L2 revoked by daemon max_lifetime epoch 2
                 60 ~ L2 due for reclaim, PromiseOver
                 60 L2 reclaimed max_lifetime PromiseOver r2 of b
            99  heartbeat L1 → valid 0 margin 1
            100 wait
                100 ~ L1 over max_lifetime, active since 0
                100 L1 revoked by daemon max_lifetime epoch 2
                100 ~ L1 due for reclaim, PromiseOver
                100 L1 reclaimed max_lifetime PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn the_promise_never_outlasts_an_operators_drain() {
    check(
        "0 grant r1 holder=a heartbeat ttl=20 grace=30
        10 drain L1
        12 heartbeat L1
        25 heartbeat L1
        39 heartbeat L1
        39 show L1
        40 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=20 grace=30 → L1 valid 18
                  0 L1 granted r1 to a
            10  drain L1
                 10 L1 draining
            12  heartbeat L1 → valid 18 margin 8 draining
            25  heartbeat L1 → valid 13 margin 7 draining
            39  heartbeat L1 → valid 0 margin 1 draining
            39  show L1 → active draining(operator) seen 39 deadline 40 valid 0
            40  wait
                 40 ~ L1 over admin_force, drained since 10
                 40 L1 revoked by daemon admin_force drained epoch 2
                 40 ~ L1 due for reclaim, PromiseOver
                 40 L1 reclaimed admin_force PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn no_promise_for_reserved_permanent_at_once_and_connection() {
    check(
        "0 connect 7 grace=30
         0 grant r1 holder=a session=7
         0 grant r2 holder=a permanent
         0 grant r3 holder=a heartbeat ttl=90 grace=30 at_once
         0 grant r4 holder=a heartbeat ttl=90 grace=30 reserve=50
         0 open 8 ttl=90 grace=30
         0 grant r5 holder=a session=8 at_once
        10 heartbeat L1 via=7
        10 heartbeat L2
        10 heartbeat L3
        10 show L1
        10 show L2
        10 show L3
        10 show L4
        10 show L5",
        expect![[r#"
            0   connect 7 grace=30
            0   grant r1 holder=a session=7 → L1 valid –
                  0 session 7 opened
                  0 L1 granted r1 to a
            0   grant r2 holder=a permanent → L2 valid –
                  0 L2 granted r2 to a
            0   grant r3 holder=a heartbeat ttl=90 grace=30 at_once → L3 valid –
                  0 L3 granted r3 to a
            0   grant r4 holder=a heartbeat ttl=90 grace=30 reserve=50 → L4 valid –
                  0 L4 granted r4 to a until 50
            0   open 8 ttl=90 grace=30 → valid 88
                  0 session 8 opened
            0   grant r5 holder=a session=8 at_once → L5 valid –
                  0 L5 granted r5 to a
            10  heartbeat L1 via=7 → valid – margin –
            10  heartbeat L2 → valid – margin –
            10  heartbeat L3 → valid – margin –
            10  show L1 → active alive seen 0 deadline – valid –
            10  show L2 → active alive seen 0 deadline – valid –
            10  show L3 → active alive seen 10 deadline 100 valid –
            10  show L4 → reserved – seen – since 0 deadline 50 valid –
            10  show L5 → active alive seen 0 deadline 90 valid –
        "#]],
    );
}

#[test]
fn views_show_what_is_left_and_never_make_a_promise() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
        30 show L1
        60 show L1
        90 show L1
        95 show L1
       120 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            30  show L1 → active alive seen 0 deadline 90 valid 58
            60  show L1 → active alive seen 0 deadline 90 valid 28
            90  show L1 → active alive seen 0 deadline 90 valid 0
                 90 ~ L1 silent, seen 0, until 120
            95  show L1 → active draining(silence) seen 0 deadline 120 valid 0
            120 wait
                120 ~ L1 over heartbeat_expired, seen 0, promised until 90
                120 L1 revoked by daemon heartbeat_expired epoch 2
                120 ~ L1 due for reclaim, PromiseOver
                120 L1 reclaimed heartbeat_expired PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn a_revoke_freezes_the_promise_at_what_was_last_answered() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
        20 heartbeat L1
        30 revoke L1
        40 heartbeat L1 epoch=1
        40 heartbeat L1 epoch=2
        40 show L1
       109 show L1
       110 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            20  heartbeat L1 → valid 88 margin 70
            30  revoke L1
                 30 L1 revoked by root admin_force epoch 2
            40  heartbeat L1 epoch=1 → stale_epoch current=2
            40  heartbeat L1 epoch=2 → invalid_state revoking
            40  show L1 → revoking – seen 20 deadline 110 valid – reclaim in 70
            109 show L1 → revoking – seen 20 deadline 110 valid – reclaim in 1
            110 wait
                110 ~ L1 due for reclaim, PromiseOver
                110 L1 reclaimed admin_force PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn a_revoke_freezes_the_promise_of_a_session_too() {
    check(
        "0 open 7 ttl=90 grace=30
         0 grant r1 holder=a session=7
        20 beat 7
        30 revoke L1
        50 beat 7 seen=2
       109 show L1
       110 wait
       111 session 7",
        expect![[r#"
            0   open 7 ttl=90 grace=30 → valid 88
                  0 session 7 opened
            0   grant r1 holder=a session=7 → L1 valid 88
                  0 L1 granted r1 to a
            20  beat 7 → valid 88 margin 70 lsn 2 ended [] draining []
            30  revoke L1
                 30 L1 revoked by root admin_force epoch 2
            50  beat 7 seen=2 → valid 88 margin 60 lsn 3 ended [L1 admin_force] draining []
            109 show L1 → revoking – seen 50 deadline 110 valid – reclaim in 1
            110 wait
                110 ~ L1 due for reclaim, PromiseOver
                110 L1 reclaimed admin_force PromiseOver r1 of a
            111 session 7 → alive seen 50 deadline 140 valid 27
        "#]],
    );
}

#[test]
fn a_grant_under_a_session_by_hand_answers_what_is_left_of_its_promise() {
    check(
        "0 open 7 ttl=90 grace=30
        20 grant r1 holder=a session=7
        20 session 7
        50 beat 7
        60 grant r2 holder=a session=7
       145 grant r3 holder=a session=7
       145 session 7",
        expect![[r#"
            0   open 7 ttl=90 grace=30 → valid 88
                  0 session 7 opened
            20  grant r1 holder=a session=7 → L1 valid 68
                 20 L1 granted r1 to a
            20  session 7 → alive seen 0 deadline 90 valid 68
            50  beat 7 → valid 88 margin 40 lsn 2 ended [] draining []
            60  grant r2 holder=a session=7 → L2 valid 78
                 60 L2 granted r2 to a
                140 ~ session 7 silent, seen 50, until 170
            145 grant r3 holder=a session=7 → L3 valid 0
                145 L3 granted r3 to a
            145 session 7 → draining(silence) seen 50 deadline 170 valid 0
        "#]],
    );
}

#[test]
fn a_former_holders_promise_outlives_a_rebind() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
        10 rebind L1 holder=b heartbeat ttl=20 grace=5
        11 show L1
        12 revoke L1
        89 show L1
        90 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            10  rebind L1 holder=b heartbeat ttl=20 grace=5 → valid 18
                 10 L1 rebound to b epoch 2
            11  show L1 → active alive seen 10 deadline 30 valid 17
            12  revoke L1
                 12 L1 revoked by root admin_force epoch 3
            89  show L1 → revoking – seen 10 deadline 90 valid – reclaim in 1
            90  wait
                 90 ~ L1 due for reclaim, PromiseOver
                 90 L1 reclaimed admin_force PromiseOver r1 of b
        "#]],
    );
}

// A rebind out of a session by hand dropped what the session had promised: reclaim came at 31.
#[test]
fn a_former_sessions_promise_outlives_a_rebind() {
    check(
        "0 open 7 ttl=90 grace=30
         0 grant r1 holder=a session=7
        10 beat 7
        11 rebind L1 holder=b heartbeat ttl=20 grace=5
        12 revoke L1
        99 show L1
       100 wait",
        expect![[r#"
            0   open 7 ttl=90 grace=30 → valid 88
                  0 session 7 opened
            0   grant r1 holder=a session=7 → L1 valid 88
                  0 L1 granted r1 to a
            10  beat 7 → valid 88 margin 80 lsn 2 ended [] draining []
            11  rebind L1 holder=b heartbeat ttl=20 grace=5 → valid 18
                 11 L1 rebound to b epoch 2
            12  revoke L1
                 12 L1 revoked by root admin_force epoch 3
            99  show L1 → revoking – seen 11 deadline 100 valid – reclaim in 1
            100 wait
                100 ~ session 7 silent, seen 10, until 130
                100 ~ L1 due for reclaim, PromiseOver
                100 L1 reclaimed admin_force PromiseOver r1 of b
        "#]],
    );
}

// The same for a lease that an operator drained, and after a restart.
#[test]
fn a_former_sessions_promise_outlives_a_take_over() {
    check(
        "0 open 7 ttl=90 grace=30
         0 grant r1 holder=a session=7
         5 restart
        10 drain L1
        20 beat 7
        21 grant r1 holder=b heartbeat ttl=20 grace=5 take_over=L1
        22 revoke L1
       109 show L1
       110 wait",
        expect![[r#"
            0   open 7 ttl=90 grace=30 → valid 88
                  0 session 7 opened
            0   grant r1 holder=a session=7 → L1 valid 88
                  0 L1 granted r1 to a
            5   restart
            10  drain L1
                 10 L1 draining
            20  beat 7 → valid 88 margin 75 lsn 3 ended [] draining [L1]
            21  grant r1 holder=b heartbeat ttl=20 grace=5 take_over=L1 → L1 valid 18
                 21 L1 rebound to b epoch 2 taken over
            22  revoke L1
                 22 L1 revoked by root admin_force epoch 3
            109 show L1 → revoking – seen 21 deadline 110 valid – reclaim in 1
            110 wait
                110 ~ session 7 silent, seen 20, until 140
                110 ~ L1 due for reclaim, PromiseOver
                110 L1 reclaimed admin_force PromiseOver r1 of b
        "#]],
    );
}

// A revoke after a rebind to a connection waited for the connection only: reclaim came at 22.
#[test]
fn a_former_holders_promise_outlives_a_rebind_to_a_connection() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
         0 grant r2 holder=a heartbeat ttl=90 grace=30
         0 connect 7 grace=30
        10 rebind L1 session=7
        10 rebind L2 session=7
        11 show L1
        12 revoke L1
        12 revoke L2
        13 acknowledge L2 epoch=2
        23 show L1
        30 close 7
        31 show L1
        89 wait
        90 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            0   grant r2 holder=a heartbeat ttl=90 grace=30 → L2 valid 88
                  0 L2 granted r2 to a
            0   connect 7 grace=30
            10  rebind L1 session=7 → valid –
                 10 session 7 opened
                 10 L1 rebound to a session 7 epoch 2
            10  rebind L2 session=7 → valid –
                 10 L2 rebound to a session 7 epoch 2
            11  show L1 → active alive seen 10 deadline – valid –
            12  revoke L1
                 12 L1 revoked by root admin_force epoch 3
            12  revoke L2
                 12 L2 revoked by root admin_force epoch 3
            13  acknowledge L2 epoch=2 → acknowledged
                 13 ~ L2 due for reclaim, Acknowledged
                 13 L2 reclaimed admin_force Acknowledged r2 of a
            23  show L1 → revoking – seen 10 deadline 90 valid – reclaim in 67
            30  close 7
                 30 ~ session 7 silent, seen 30, until 60
            31  show L1 → revoking – seen 30 deadline 90 valid – reclaim in 59
                 60 ~ session 7 over, grace 30, disconnected at 30
                 60 session 7 closed session_expired
            89  wait
            90  wait
                 90 ~ L1 due for reclaim, PromiseOver
                 90 L1 reclaimed admin_force PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn a_former_holders_promise_outlives_a_rebind_to_permanent_terms() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
        10 rebind L1 permanent
        12 revoke L1
        89 show L1
        90 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            10  rebind L1 permanent → valid –
                 10 L1 rebound to a epoch 2
            12  revoke L1
                 12 L1 revoked by root admin_force epoch 3
            89  show L1 → revoking – seen 10 deadline 90 valid – reclaim in 1
            90  wait
                 90 ~ L1 due for reclaim, PromiseOver
                 90 L1 reclaimed admin_force PromiseOver r1 of a
        "#]],
    );
}

// A rebind of a drained lease promised a full ttl, beyond the end of the drain.
#[test]
fn a_rebind_promises_no_more_than_is_left_of_a_drain() {
    check(
        "0 grant r1 holder=a heartbeat ttl=20 grace=30
        10 drain L1
        15 rebind L1 holder=b heartbeat ttl=90 grace=30
        15 standings
        16 heartbeat L1
        40 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=20 grace=30 → L1 valid 18
                  0 L1 granted r1 to a
            10  drain L1
                 10 L1 draining
            15  rebind L1 holder=b heartbeat ttl=90 grace=30 → valid 23
                 15 L1 rebound to b epoch 2
            15  standings → [L1 draining(operator)]
            16  heartbeat L1 → valid 22 margin 24 draining
            40  wait
                 40 ~ L1 over admin_force, drained since 10
                 40 L1 revoked by daemon admin_force drained epoch 3
                 40 ~ L1 due for reclaim, PromiseOver
                 40 L1 reclaimed admin_force PromiseOver r1 of b
        "#]],
    );
}

#[test]
fn a_shorter_promise_never_cuts_an_earlier_one() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=10
        10 drain L1
        20 heartbeat L1
        89 show L1
        90 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=10 → L1 valid 88
                  0 L1 granted r1 to a
            10  drain L1
                 10 L1 draining
            20  heartbeat L1 → valid 68 margin 70 draining
            89  show L1 → active draining(operator) seen 20 deadline 90 valid 0
            90  wait
                 90 ~ L1 over admin_force, drained since 10
                 90 L1 revoked by daemon admin_force drained epoch 2
                 90 ~ L1 due for reclaim, PromiseOver
                 90 L1 reclaimed admin_force PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn a_former_holders_promise_binds_the_new_holders_release() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
        10 rebind L1 holder=b heartbeat ttl=20 grace=30
        15 release L1
        16 grant r1 holder=c heartbeat ttl=90 grace=30
        89 wait
        90 grant r1 holder=c heartbeat ttl=90 grace=30
        90 wait
        91 grant r1 holder=c heartbeat ttl=90 grace=30",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            10  rebind L1 holder=b heartbeat ttl=20 grace=30 → valid 18
                 10 L1 rebound to b epoch 2
            15  release L1
                 15 L1 revoked by holder explicit epoch 3
            16  grant r1 holder=c heartbeat ttl=90 grace=30 → resource_held
            89  wait
            90  grant r1 holder=c heartbeat ttl=90 grace=30 → resource_held
                 90 ~ L1 due for reclaim, PromiseOver
                 90 L1 reclaimed explicit PromiseOver r1 of b
            90  wait
            91  grant r1 holder=c heartbeat ttl=90 grace=30 → L2 valid 88
                 91 L2 granted r1 to c
        "#]],
    );
}

#[test]
fn a_former_holders_promise_binds_the_new_holders_acknowledge() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
        10 rebind L1 holder=b heartbeat ttl=20 grace=30
        12 revoke L1
        15 acknowledge L1 epoch=2
        15 show L1
        90 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            10  rebind L1 holder=b heartbeat ttl=20 grace=30 → valid 18
                 10 L1 rebound to b epoch 2
            12  revoke L1
                 12 L1 revoked by root admin_force epoch 3
            15  acknowledge L1 epoch=2 → acknowledged
            15  show L1 → revoking – seen 10 deadline 90 valid – reclaim in 75
            90  wait
                 90 ~ L1 due for reclaim, PromiseOver
                 90 L1 reclaimed admin_force PromiseOver r1 of b
        "#]],
    );
}

#[test]
fn a_former_sessions_promise_binds_the_deletion_of_the_new_session() {
    check(
        "0 open 7 ttl=90 grace=30
         0 grant r1 holder=a session=7
         5 open 8 ttl=10 grace=30
         5 rebind L1 holder=b session=8
         6 delete 8
        90 wait",
        expect![[r#"
            0   open 7 ttl=90 grace=30 → valid 88
                  0 session 7 opened
            0   grant r1 holder=a session=7 → L1 valid 88
                  0 L1 granted r1 to a
            5   open 8 ttl=10 grace=30 → valid 8
                  5 session 8 opened
            5   rebind L1 holder=b session=8 → valid 8
                  5 L1 rebound to b session 8 epoch 2
            6   delete 8
                  6 session 8 closed explicit
                  6 L1 revoked by holder explicit epoch 3
            90  wait
                 90 ~ L1 due for reclaim, PromiseOver
                 90 L1 reclaimed explicit PromiseOver r1 of b
                 90 ~ session 7 silent, seen 0, until 120
        "#]],
    );
}

#[test]
fn the_same_holder_under_other_terms_gives_back_for_itself() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
        10 rebind L1 holder=a heartbeat ttl=20 grace=30
        15 release L1
        16 grant r1 holder=c heartbeat ttl=90 grace=30",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            10  rebind L1 holder=a heartbeat ttl=20 grace=30 → valid 18
                 10 L1 rebound to a epoch 2
            15  release L1
                 15 L1 released r1 of a
            16  grant r1 holder=c heartbeat ttl=90 grace=30 → L2 valid 88
                 16 L2 granted r1 to c
        "#]],
    );
}

#[test]
fn a_restart_does_not_know_whether_a_former_holder_has_stopped() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
         0 grant r2 holder=a heartbeat ttl=90 grace=30
         5 rebind L1 holder=b heartbeat ttl=90 grace=30
         6 release L1
        10 restart
        11 release L2
        99 wait
       100 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            0   grant r2 holder=a heartbeat ttl=90 grace=30 → L2 valid 88
                  0 L2 granted r2 to a
            5   rebind L1 holder=b heartbeat ttl=90 grace=30 → valid 88
                  5 L1 rebound to b epoch 2
            6   release L1
                  6 L1 revoked by holder explicit epoch 3
            10  restart
            11  release L2
                 11 L2 released r2 of a
            99  wait
            100 wait
                100 ~ L1 due for reclaim, PromiseOver
                100 L1 reclaimed explicit PromiseOver r1 of b
        "#]],
    );
}
