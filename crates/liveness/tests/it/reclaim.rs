//! Between revoke and reclaim: promise, acknowledge, close, time-out, delay, and who reclaims.

use crate::script::check;
use expect_test::expect;

#[test]
fn reclaim_waits_for_the_promise() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
        10 revoke L1
        89 show L1
        90 wait
        90 grant r1 holder=b permanent",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            10  revoke L1
                 10 L1 revoked by root admin_force epoch 2
            89  show L1 → revoking – seen 0 deadline 90 valid – reclaim in 1
            90  wait
                 90 ~ L1 due for reclaim, PromiseOver
                 90 L1 reclaimed admin_force PromiseOver r1 of a
            90  grant r1 holder=b permanent → L2 valid –
                 90 L2 granted r1 to b
        "#]],
    );
}

#[test]
fn acknowledge_ends_the_wait_with_the_epoch_held_before() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
        10 revoke L1
        20 acknowledge L1 epoch=1",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            10  revoke L1
                 10 L1 revoked by root admin_force epoch 2
            20  acknowledge L1 epoch=1 → acknowledged
                 20 ~ L1 due for reclaim, Acknowledged
                 20 L1 reclaimed admin_force Acknowledged r1 of a
        "#]],
    );
}

#[test]
fn acknowledge_ends_the_wait_with_the_new_epoch() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
         0 rebind L1 holder=b
        10 revoke L1
        19 acknowledge L1 epoch=1
        19 acknowledge L1 epoch=4
        20 acknowledge L1 epoch=3
        21 acknowledge L1 epoch=3",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            0   rebind L1 holder=b → valid 88
                  0 L1 rebound to b epoch 2
            10  revoke L1
                 10 L1 revoked by root admin_force epoch 3
            19  acknowledge L1 epoch=1 → stale_epoch current=3
            19  acknowledge L1 epoch=4 → stale_epoch current=3
            20  acknowledge L1 epoch=3 → acknowledged
            21  acknowledge L1 epoch=3 → acknowledged
        "#]],
    );
}

#[test]
fn acknowledge_on_a_live_lease_is_invalid_state() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
         0 grant r2 holder=a heartbeat ttl=90 grace=30 reserve=50
         1 acknowledge L1 epoch=1
         1 acknowledge L2 epoch=1
         1 acknowledge L1 epoch=7
         1 acknowledge 99 epoch=1
        95 acknowledge L1 epoch=1
        96 heartbeat L1
        97 drain L1
        97 acknowledge L1 epoch=1",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            0   grant r2 holder=a heartbeat ttl=90 grace=30 reserve=50 → L2 valid –
                  0 L2 granted r2 to a until 50
            1   acknowledge L1 epoch=1 → invalid_state active
            1   acknowledge L2 epoch=1 → invalid_state reserved
            1   acknowledge L1 epoch=7 → stale_epoch current=1
            1   acknowledge 99 epoch=1 → lease_not_found
                 50 L2 expired r2 of a
                 90 ~ L1 silent, seen 0, until 120
            95  acknowledge L1 epoch=1 → invalid_state active
            96  heartbeat L1 → valid 88 margin – returned
                 96 ~ L1 returned
            97  drain L1
                 97 L1 draining
            97  acknowledge L1 epoch=1 → invalid_state active
        "#]],
    );
}

// The largest number is what a caller may well send: it stopped the process.
#[test]
fn acknowledge_takes_any_number_for_an_epoch() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
        10 revoke L1
        10 acknowledge L1 epoch=18446744073709551615
        10 heartbeat L1 epoch=18446744073709551615
        11 acknowledge L1 epoch=0",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            10  revoke L1
                 10 L1 revoked by root admin_force epoch 2
            10  acknowledge L1 epoch=18446744073709551615 → stale_epoch current=2
            10  heartbeat L1 epoch=18446744073709551615 → stale_epoch current=2
            11  acknowledge L1 epoch=0 → stale_epoch current=2
        "#]],
    );
}

#[test]
fn a_connection_holder_has_the_revoke_timeout_to_stop() {
    check(
        "0 connect 7 grace=30
         0 grant r1 holder=a session=7
        10 revoke L1
        10 show L1
        19 show L1
        20 wait",
        expect![[r#"
            0   connect 7 grace=30
            0   grant r1 holder=a session=7 → L1 valid –
                  0 session 7 opened
                  0 L1 granted r1 to a
            10  revoke L1
                 10 L1 revoked by root admin_force epoch 2
            10  show L1 → revoking – seen 0 deadline 20 valid – reclaim in 10
            19  show L1 → revoking – seen 0 deadline 20 valid – reclaim in 1
            20  wait
                 20 ~ L1 due for reclaim, PromiseOver
                 20 L1 reclaimed admin_force PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn a_connection_holders_acknowledge_ends_the_wait() {
    check(
        "0 connect 7 grace=30
         0 grant r1 holder=a session=7
        10 revoke L1
        13 acknowledge L1 epoch=1",
        expect![[r#"
            0   connect 7 grace=30
            0   grant r1 holder=a session=7 → L1 valid –
                  0 session 7 opened
                  0 L1 granted r1 to a
            10  revoke L1
                 10 L1 revoked by root admin_force epoch 2
            13  acknowledge L1 epoch=1 → acknowledged
                 13 ~ L1 due for reclaim, Acknowledged
                 13 L1 reclaimed admin_force Acknowledged r1 of a
        "#]],
    );
}

#[test]
fn a_connection_holders_close_ends_the_wait() {
    check(
        "0 connect 7 grace=30
         0 grant r1 holder=a session=7
         0 grant r2 holder=a session=7 delay=5
         0 grant r3 holder=a session=7
        10 revoke L1
        10 revoke L2
        13 close 7
        14 standings
        15 wait
        43 wait",
        expect![[r#"
            0   connect 7 grace=30
            0   grant r1 holder=a session=7 → L1 valid –
                  0 session 7 opened
                  0 L1 granted r1 to a
            0   grant r2 holder=a session=7 delay=5 → L2 valid –
                  0 L2 granted r2 to a
            0   grant r3 holder=a session=7 → L3 valid –
                  0 L3 granted r3 to a
            10  revoke L1
                 10 L1 revoked by root admin_force epoch 2
            10  revoke L2
                 10 L2 revoked by root admin_force epoch 2
            13  close 7
                 13 ~ session 7 silent, seen 13, until 43
                 13 ~ L1 due for reclaim, PromiseOver
                 13 L1 reclaimed admin_force PromiseOver r1 of a
            14  standings → [L2 –, L3 draining(silence)]
            15  wait
                 15 ~ L2 due for reclaim, PromiseOver
                 15 L2 reclaimed admin_force PromiseOver r2 of a
            43  wait
                 43 ~ session 7 over, grace 30, disconnected at 13
                 43 session 7 closed session_expired
                 43 L3 revoked by daemon session_expired epoch 2
                 43 ~ L3 due for reclaim, PromiseOver
                 43 L3 reclaimed session_expired PromiseOver r3 of a
        "#]],
    );
}

#[test]
fn a_revoke_after_the_close_waits_for_nothing() {
    check(
        "0 connect 7 grace=30
         0 grant r1 holder=a session=7
        10 close 7
        11 revoke L1",
        expect![[r#"
            0   connect 7 grace=30
            0   grant r1 holder=a session=7 → L1 valid –
                  0 session 7 opened
                  0 L1 granted r1 to a
            10  close 7
                 10 ~ session 7 silent, seen 10, until 40
            11  revoke L1
                 11 L1 revoked by root admin_force epoch 2
                 11 ~ L1 due for reclaim, PromiseOver
                 11 L1 reclaimed admin_force PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn a_permanent_lease_waits_for_the_revoke_timeout() {
    check(
        "0 grant r1 holder=a permanent
         0 grant r2 holder=a permanent
        10 revoke L1
        10 revoke L2
        15 acknowledge L2 epoch=1
        19 show L1
        20 wait",
        expect![[r#"
            0   grant r1 holder=a permanent → L1 valid –
                  0 L1 granted r1 to a
            0   grant r2 holder=a permanent → L2 valid –
                  0 L2 granted r2 to a
            10  revoke L1
                 10 L1 revoked by root admin_force epoch 2
            10  revoke L2
                 10 L2 revoked by root admin_force epoch 2
            15  acknowledge L2 epoch=1 → acknowledged
                 15 ~ L2 due for reclaim, Acknowledged
                 15 L2 reclaimed admin_force Acknowledged r2 of a
            19  show L1 → revoking – seen 0 deadline 20 valid – reclaim in 1
            20  wait
                 20 ~ L1 due for reclaim, PromiseOver
                 20 L1 reclaimed admin_force PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn a_lease_that_was_never_active_made_no_promise() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30 reserve=50
         0 grant r2 holder=a permanent reserve=50
        10 revoke L1
        10 revoke L2",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 reserve=50 → L1 valid –
                  0 L1 granted r1 to a until 50
            0   grant r2 holder=a permanent reserve=50 → L2 valid –
                  0 L2 granted r2 to a until 50
            10  revoke L1
                 10 L1 revoked by root admin_force epoch 2
                 10 ~ L1 due for reclaim, PromiseOver
                 10 L1 reclaimed admin_force PromiseOver r1 of a
            10  revoke L2
                 10 L2 revoked by root admin_force epoch 2
                 10 ~ L2 due for reclaim, PromiseOver
                 10 L2 reclaimed admin_force PromiseOver r2 of a
        "#]],
    );
}

#[test]
fn at_once_reclaims_at_once() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30 at_once
         0 connect 7 grace=30
         0 grant r2 holder=a session=7 at_once
         0 grant r3 holder=a permanent at_once
         0 grant r4 holder=a permanent at_once delay=7
        10 revoke L1
        10 revoke L2
        10 revoke L3
        10 revoke L4
        11 show L4
        17 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 at_once → L1 valid –
                  0 L1 granted r1 to a
            0   connect 7 grace=30
            0   grant r2 holder=a session=7 at_once → L2 valid –
                  0 session 7 opened
                  0 L2 granted r2 to a
            0   grant r3 holder=a permanent at_once → L3 valid –
                  0 L3 granted r3 to a
            0   grant r4 holder=a permanent at_once delay=7 → L4 valid –
                  0 L4 granted r4 to a
            10  revoke L1
                 10 L1 revoked by root admin_force epoch 2
                 10 ~ L1 due for reclaim, AtOnce
                 10 L1 reclaimed admin_force AtOnce r1 of a
            10  revoke L2
                 10 L2 revoked by root admin_force epoch 2
                 10 ~ L2 due for reclaim, AtOnce
                 10 L2 reclaimed admin_force AtOnce r2 of a
            10  revoke L3
                 10 L3 revoked by root admin_force epoch 2
                 10 ~ L3 due for reclaim, AtOnce
                 10 L3 reclaimed admin_force AtOnce r3 of a
            10  revoke L4
                 10 L4 revoked by root admin_force epoch 2
            11  show L4 → revoking – seen 0 deadline 17 valid – reclaim in 6
            17  wait
                 17 ~ L4 due for reclaim, AtOnce
                 17 L4 reclaimed admin_force AtOnce r4 of a
        "#]],
    );
}

#[test]
fn reclaim_comes_no_sooner_than_the_delay_after_the_revoke() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30 delay=60
         0 grant r2 holder=b heartbeat ttl=90 grace=30 delay=5
         0 grant r3 holder=c heartbeat ttl=90 grace=30 delay=60
        10 revoke L2
        50 revoke L1
        50 revoke L3
        60 acknowledge L1 epoch=1
        89 show L1
        89 show L2
        90 wait
       109 show L1
       110 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 delay=60 → L1 valid 88
                  0 L1 granted r1 to a
            0   grant r2 holder=b heartbeat ttl=90 grace=30 delay=5 → L2 valid 88
                  0 L2 granted r2 to b
            0   grant r3 holder=c heartbeat ttl=90 grace=30 delay=60 → L3 valid 88
                  0 L3 granted r3 to c
            10  revoke L2
                 10 L2 revoked by root admin_force epoch 2
            50  revoke L1
                 50 L1 revoked by root admin_force epoch 2
            50  revoke L3
                 50 L3 revoked by root admin_force epoch 2
            60  acknowledge L1 epoch=1 → acknowledged
            89  show L1 → revoking – seen 0 deadline 110 valid – reclaim in 21
            89  show L2 → revoking – seen 0 deadline 90 valid – reclaim in 1
            90  wait
                 90 ~ L2 due for reclaim, PromiseOver
                 90 L2 reclaimed admin_force PromiseOver r2 of b
            109 show L1 → revoking – seen 0 deadline 110 valid – reclaim in 1
            110 wait
                110 ~ L1 due for reclaim, Acknowledged
                110 L1 reclaimed admin_force Acknowledged r1 of a
                110 ~ L3 due for reclaim, PromiseOver
                110 L3 reclaimed admin_force PromiseOver r3 of c
        "#]],
    );
}

#[test]
fn the_delay_counts_after_an_end_by_silence_too() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30 delay=60
       120 wait
       179 show L1
       180 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 delay=60 → L1 valid 88
                  0 L1 granted r1 to a
                 90 ~ L1 silent, seen 0, until 120
            120 wait
                120 ~ L1 over heartbeat_expired, seen 0, promised until 90
                120 L1 revoked by daemon heartbeat_expired epoch 2
            179 show L1 → revoking – seen 0 deadline 180 valid – reclaim in 1
            180 wait
                180 ~ L1 due for reclaim, PromiseOver
                180 L1 reclaimed heartbeat_expired PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn an_operators_reclaim_waits_for_the_operator() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30 delay=95
        10 revoke L1 by_operator
        10 next
        20 reclaim L1
        89 show L1
       104 reclaim L1
       105 reclaim L1",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 delay=95 → L1 valid 88
                  0 L1 granted r1 to a
            10  revoke L1 by_operator
                 10 L1 revoked by root admin_force epoch 2
            10  next → 64
            20  reclaim L1 → not_yet 85
            89  show L1 → revoking – seen 0 deadline 105 valid – reclaim in 16
            104 reclaim L1 → not_yet 1
            105 reclaim L1
                105 L1 reclaimed admin_force PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn an_operators_reclaim_is_never_taken_from_them() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
        10 revoke L1 by_operator
        20 acknowledge L1 epoch=1
     99999 show L1
     99999 restart
     99999 next
    199999 show L1
    200000 reclaim L1",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            10  revoke L1 by_operator
                 10 L1 revoked by root admin_force epoch 2
            20  acknowledge L1 epoch=1 → acknowledged
            99999 show L1 → revoking – seen 0 deadline 20 valid – reclaim in 0
            99999 restart
            99999 next → –
            199999 show L1 → revoking – seen – since 99999 deadline 100089 valid – reclaim in 0
            200000 reclaim L1
                200000 L1 reclaimed admin_force PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn force_is_recorded_as_such() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
        10 reclaim L1 force
        10 reclaim L1
        10 revoke L1
        20 reclaim L1
        20 reclaim L1 force
        90 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            10  reclaim L1 force → invalid_state active
            10  reclaim L1 → invalid_state active
            10  revoke L1
                 10 L1 revoked by root admin_force epoch 2
            20  reclaim L1 → not_yet 70
            20  reclaim L1 force
                 20 L1 reclaimed admin_force Forced r1 of a
            90  wait
        "#]],
    );
}

#[test]
fn what_ended_the_lease_does_not_shorten_the_wait() {
    check(
        "0 open 7 ttl=90 grace=30
         0 grant r1 holder=a session=7 life=40
        30 beat 7
        40 show L1
        41 show L1
       119 show L1
       120 wait",
        expect![[r#"
            0   open 7 ttl=90 grace=30 → valid 88
                  0 session 7 opened
            0   grant r1 holder=a session=7 life=40 → L1 valid 38
                  0 L1 granted r1 to a
            30  beat 7 → valid 88 margin 60 lsn 2 ended [] draining []
            40  show L1 → active alive seen 30 deadline 120 valid 0
                 40 ~ L1 over max_lifetime, active since 0
                 40 L1 revoked by daemon max_lifetime epoch 2
            41  show L1 → revoking – seen 30 deadline 120 valid – reclaim in 79
            119 show L1 → revoking – seen 30 deadline 120 valid – reclaim in 1
            120 wait
                120 ~ session 7 silent, seen 30, until 150
                120 ~ L1 due for reclaim, PromiseOver
                120 L1 reclaimed max_lifetime PromiseOver r1 of a
        "#]],
    );
}
