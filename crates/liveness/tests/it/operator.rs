//! Operator drain and revive.

use crate::script::check;
use expect_test::expect;

#[test]
fn a_drain_is_sticky_and_heartbeats_say_so() {
    check(
        "0 grant r1 holder=a heartbeat ttl=20 grace=30
        10 drain L1
        15 heartbeat L1
        30 heartbeat L1
        30 show L1
        40 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=20 grace=30 → L1 valid 18
                  0 L1 granted r1 to a
            10  drain L1
                 10 L1 draining
            15  heartbeat L1 → valid 18 margin 5 draining
            30  heartbeat L1 → valid 8 margin 5 draining
            30  show L1 → active draining(operator) seen 30 deadline 40 valid 8
            40  wait
                 40 ~ L1 over admin_force, drained since 10
                 40 L1 revoked by daemon admin_force drained epoch 2
                 40 ~ L1 due for reclaim, PromiseOver
                 40 L1 reclaimed admin_force PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn a_drain_ends_no_sooner_than_the_promise() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
        10 drain L1
        89 show L1
        90 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            10  drain L1
                 10 L1 draining
            89  show L1 → active draining(operator) seen 0 deadline 90 valid 0
            90  wait
                 90 ~ L1 over admin_force, drained since 10
                 90 L1 revoked by daemon admin_force drained epoch 2
                 90 ~ L1 due for reclaim, PromiseOver
                 90 L1 reclaimed admin_force PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn a_drain_under_a_session_ends_no_sooner_than_the_sessions_promise() {
    check(
        "0 open 7 ttl=90 grace=30
         0 grant r1 holder=a session=7
         0 grant r2 holder=a session=7
        10 drain L1
        80 beat 7
        90 wait
        91 beat 7 seen=4
        91 show L1
       170 wait",
        expect![[r#"
            0   open 7 ttl=90 grace=30 → valid 88
                  0 session 7 opened
            0   grant r1 holder=a session=7 → L1 valid 88
                  0 L1 granted r1 to a
            0   grant r2 holder=a session=7 → L2 valid 88
                  0 L2 granted r2 to a
            10  drain L1
                 10 L1 draining
            80  beat 7 → valid 88 margin 10 lsn 4 ended [] draining [L1]
            90  wait
                 90 ~ L1 over admin_force, drained since 10
                 90 L1 revoked by daemon admin_force drained epoch 2
            91  beat 7 seen=4 → valid 88 margin 79 lsn 5 ended [L1 admin_force] draining []
            91  show L1 → revoking – seen 91 deadline 170 valid – reclaim in 79
            170 wait
                170 ~ L1 due for reclaim, PromiseOver
                170 L1 reclaimed admin_force PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn a_drain_of_a_connection_lease_lasts_its_grace() {
    check(
        "0 connect 7 grace=30
         0 grant r1 holder=a session=7
        10 drain L1
        12 heartbeat L1 via=7
        39 show L1
        40 wait",
        expect![[r#"
            0   connect 7 grace=30
            0   grant r1 holder=a session=7 → L1 valid –
                  0 session 7 opened
                  0 L1 granted r1 to a
            10  drain L1
                 10 L1 draining
            12  heartbeat L1 via=7 → valid – margin – draining
            39  show L1 → active draining(operator) seen 0 deadline 40 valid –
            40  wait
                 40 ~ L1 over admin_force, drained since 10
                 40 L1 revoked by daemon admin_force drained epoch 2
        "#]],
    );
}

#[test]
fn what_an_operator_may_not_drain() {
    check(
        "0 grant r1 holder=a permanent
         0 grant r2 holder=b heartbeat ttl=20 grace=30
         0 grant r3 holder=c heartbeat ttl=200 grace=30
         0 connect 7 grace=30
         0 grant r4 holder=d session=7
         0 open 8 ttl=20 grace=30
         0 grant r5 holder=e session=8
        10 drain L1
        10 drain L3
        10 drain L3
        20 close 7
        21 drain L2
        21 drain L4
        21 drain L5
        22 revoke L3
        22 drain L3
        22 drain 99",
        expect![[r#"
            0   grant r1 holder=a permanent → L1 valid –
                  0 L1 granted r1 to a
            0   grant r2 holder=b heartbeat ttl=20 grace=30 → L2 valid 18
                  0 L2 granted r2 to b
            0   grant r3 holder=c heartbeat ttl=200 grace=30 → L3 valid 198
                  0 L3 granted r3 to c
            0   connect 7 grace=30
            0   grant r4 holder=d session=7 → L4 valid –
                  0 session 7 opened
                  0 L4 granted r4 to d
            0   open 8 ttl=20 grace=30 → valid 18
                  0 session 8 opened
            0   grant r5 holder=e session=8 → L5 valid 18
                  0 L5 granted r5 to e
            10  drain L1 → permanent_lease
            10  drain L3
                 10 L3 draining
            10  drain L3 → already_draining
            20  close 7
                 20 ~ session 7 silent, seen 20, until 50
                 20 ~ session 8 silent, seen 0, until 50
                 20 ~ L2 silent, seen 0, until 50
            21  drain L2 → already_draining
            21  drain L4 → already_draining
            21  drain L5 → already_draining
            22  revoke L3
                 22 L3 revoked by root admin_force epoch 2
            22  drain L3 → invalid_state revoking
            22  drain 99 → lease_not_found
        "#]],
    );
}

#[test]
fn what_an_operator_may_not_revive() {
    check(
        "0 grant r1 holder=a permanent
         0 grant r2 holder=b heartbeat ttl=90 grace=30
         0 connect 7 grace=30
         0 grant r3 holder=c session=7
         0 grant r4 holder=d session=7
         0 connect 9 grace=30
         0 grant r5 holder=e session=9
        10 revive L1
        10 revive L2
        10 revive L3
        10 drain L4
        10 drain L5
        11 revive L5
        20 close 7
        21 revive L3
        21 revive L4
        22 revoke L4
        22 revive L4
        22 revive 99",
        expect![[r#"
            0   grant r1 holder=a permanent → L1 valid –
                  0 L1 granted r1 to a
            0   grant r2 holder=b heartbeat ttl=90 grace=30 → L2 valid 88
                  0 L2 granted r2 to b
            0   connect 7 grace=30
            0   grant r3 holder=c session=7 → L3 valid –
                  0 session 7 opened
                  0 L3 granted r3 to c
            0   grant r4 holder=d session=7 → L4 valid –
                  0 L4 granted r4 to d
            0   connect 9 grace=30
            0   grant r5 holder=e session=9 → L5 valid –
                  0 session 9 opened
                  0 L5 granted r5 to e
            10  revive L1 → not_draining
            10  revive L2 → not_draining
            10  revive L3 → not_draining
            10  drain L4
                 10 L4 draining
            10  drain L5
                 10 L5 draining
            11  revive L5
                 11 L5 revived
            20  close 7
                 20 ~ session 7 silent, seen 20, until 50
            21  revive L3 → no_liveness
            21  revive L4 → no_liveness
            22  revoke L4
                 22 L4 revoked by root admin_force epoch 2
                 22 ~ L4 due for reclaim, PromiseOver
                 22 L4 reclaimed admin_force PromiseOver r4 of d
            22  revive L4 → invalid_state revoked
            22  revive 99 → lease_not_found
        "#]],
    );
}

#[test]
fn a_revive_brings_back_what_drained_by_silence() {
    check(
        "0 grant r1 holder=a heartbeat ttl=20 grace=30
        25 revive L1
        25 show L1
        44 standings
        75 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=20 grace=30 → L1 valid 18
                  0 L1 granted r1 to a
                 20 ~ L1 silent, seen 0, until 50
            25  revive L1
                 25 L1 revived
            25  show L1 → active alive seen – since 25 deadline 45 valid 0
            44  standings → [L1 alive]
                 45 ~ L1 silent, seen 25, until 75
            75  wait
                 75 ~ L1 over heartbeat_expired, seen 25, promised until 20
                 75 L1 revoked by daemon heartbeat_expired epoch 2
                 75 ~ L1 due for reclaim, PromiseOver
                 75 L1 reclaimed heartbeat_expired PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn a_revive_gives_a_full_ttl_and_makes_no_promise() {
    check(
        "0 grant r1 holder=a heartbeat ttl=20 grace=30
        10 drain L1
        39 revive L1
        39 show L1
        59 wait
        60 show L1",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=20 grace=30 → L1 valid 18
                  0 L1 granted r1 to a
            10  drain L1
                 10 L1 draining
            39  revive L1
                 39 L1 revived
            39  show L1 → active alive seen – since 39 deadline 59 valid 0
            59  wait
                 59 ~ L1 silent, seen 39, until 89
            60  show L1 → active draining(silence) seen – since 39 deadline 89 valid 0
        "#]],
    );
}

#[test]
fn a_drain_survives_a_rebind() {
    check(
        "0 connect 7 grace=30
         0 grant r1 holder=a session=7
        10 drain L1
        20 close 7
        25 connect 8 grace=30
        25 rebind L1 session=8
        25 show L1
        40 wait",
        expect![[r#"
            0   connect 7 grace=30
            0   grant r1 holder=a session=7 → L1 valid –
                  0 session 7 opened
                  0 L1 granted r1 to a
            10  drain L1
                 10 L1 draining
            20  close 7
                 20 ~ session 7 silent, seen 20, until 50
            25  connect 8 grace=30
            25  rebind L1 session=8 → valid –
                 25 session 8 opened
                 25 L1 rebound to a session 8 epoch 2
            25  show L1 → active draining(operator) seen 25 deadline 40 valid –
            40  wait
                 40 ~ L1 over admin_force, drained since 10
                 40 L1 revoked by daemon admin_force drained epoch 3
        "#]],
    );
}

#[test]
fn a_drain_survives_a_restart_with_a_full_grace() {
    check(
        "0 grant r1 holder=a heartbeat ttl=20 grace=30
         0 grant r2 holder=b heartbeat ttl=90 grace=30
        10 drain L1
        10 drain L2
        39 restart
        39 standings
        39 show L1
        39 show L2
        40 heartbeat L1
        69 wait
       129 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=20 grace=30 → L1 valid 18
                  0 L1 granted r1 to a
            0   grant r2 holder=b heartbeat ttl=90 grace=30 → L2 valid 88
                  0 L2 granted r2 to b
            10  drain L1
                 10 L1 draining
            10  drain L2
                 10 L2 draining
            39  restart
            39  standings → [L1 draining(operator), L2 draining(operator)]
            39  show L1 → active draining(operator) seen – since 39 deadline 69 valid 18
            39  show L2 → active draining(operator) seen – since 39 deadline 129 valid 88
            40  heartbeat L1 → valid 18 margin 19 draining
            69  wait
                 69 ~ L1 over admin_force, drained since 39
                 69 L1 revoked by daemon admin_force drained epoch 2
                 69 ~ L1 due for reclaim, PromiseOver
                 69 L1 reclaimed admin_force PromiseOver r1 of a
            129 wait
                129 ~ L2 over admin_force, drained since 39
                129 L2 revoked by daemon admin_force drained epoch 2
                129 ~ L2 due for reclaim, PromiseOver
                129 L2 reclaimed admin_force PromiseOver r2 of b
        "#]],
    );
}

#[test]
fn the_end_of_the_session_ends_a_drained_lease_too() {
    check(
        "0 connect 7 grace=30
         0 grant r1 holder=a session=7
        10 close 7
        39 wait
        40 wait
        50 open 8 ttl=10 grace=5
        50 grant r2 holder=a session=8 grace=90
        52 drain L2
        65 wait",
        expect![[r#"
            0   connect 7 grace=30
            0   grant r1 holder=a session=7 → L1 valid –
                  0 session 7 opened
                  0 L1 granted r1 to a
            10  close 7
                 10 ~ session 7 silent, seen 10, until 40
            39  wait
            40  wait
                 40 ~ session 7 over, grace 30, disconnected at 10
                 40 session 7 closed session_expired
                 40 L1 revoked by daemon session_expired epoch 2
                 40 ~ L1 due for reclaim, PromiseOver
                 40 L1 reclaimed session_expired PromiseOver r1 of a
            50  open 8 ttl=10 grace=5 → valid 8
                 50 session 8 opened
            50  grant r2 holder=a session=8 grace=90 → L2 valid 8
                 50 L2 granted r2 to a
            52  drain L2
                 52 L2 draining
                 60 ~ session 8 silent, seen 50, until 65
            65  wait
                 65 ~ session 8 over, grace 5, seen 50, promised until 60
                 65 session 8 closed session_expired
                 65 L2 revoked by daemon session_expired epoch 2
                 65 ~ L2 due for reclaim, PromiseOver
                 65 L2 reclaimed session_expired PromiseOver r2 of a
        "#]],
    );
}
