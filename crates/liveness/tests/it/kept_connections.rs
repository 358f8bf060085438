//! Connections that are open at another node: its word keeps them, and only their holder's own voice is promised anything.

use crate::script::check;
use expect_test::expect;

#[test]
fn the_word_of_the_node_keeps_the_lease_and_the_holders_own_voice_alone_is_promised_something() {
    check(
        "0 connect 8 grace=30 word=10
         0 grant r1 holder=a session=8 grace=30
         2 keep 8
         9 keep 8
        12 show L1
        15 heartbeat L1 via=8
        16 heartbeat L1
        17 heartbeat L1 via=9
        18 keep 8
        20 show L1
        21 beat 8",
        expect![[r#"
            0   connect 8 grace=30 word=10
            0   grant r1 holder=a session=8 grace=30 → L1 valid 8
                  0 session 8 opened
                  0 L1 granted r1 to a
            2   keep 8 → heard
            9   keep 8 → heard
            12  show L1 → active alive seen 9 deadline 19 valid 0
            15  heartbeat L1 via=8 → valid 8 margin –
            16  heartbeat L1 → no_liveness
            17  heartbeat L1 via=9 → no_liveness
            18  keep 8 → heard
            20  show L1 → active alive seen 18 deadline 28 valid 3
            21  beat 8 → no_liveness
        "#]],
    );
}

#[test]
fn a_silent_node_is_forgiven_for_the_longest_grace_and_each_lease_ends_by_its_own() {
    check(
        "0 connect 8 grace=30 word=10
         0 grant r1 holder=a session=8 grace=30
         0 grant r2 holder=a session=8 grace=5
         4 keep 8
        14 wait
        16 keep 8
        16 standings
        26 wait
        31 wait
        31 standings
        56 wait
        57 keep 8",
        expect![[r#"
            0   connect 8 grace=30 word=10
            0   grant r1 holder=a session=8 grace=30 → L1 valid 8
                  0 session 8 opened
                  0 L1 granted r1 to a
            0   grant r2 holder=a session=8 grace=5 → L2 valid 8
                  0 L2 granted r2 to a
            4   keep 8 → heard
            14  wait
                 14 ~ session 8 silent, seen 4, until 44
            16  keep 8 → heard
                 16 ~ session 8 returned
            16  standings → [L1 alive, L2 alive]
            26  wait
                 26 ~ session 8 silent, seen 16, until 56
            31  wait
                 31 ~ session 8 over in part, grace 5, seen 16, promised until 26
                 31 L2 revoked by daemon session_expired epoch 2
                 31 ~ L2 due for reclaim, PromiseOver
                 31 L2 reclaimed session_expired PromiseOver r2 of a
            31  standings → [L1 draining(silence)]
            56  wait
                 56 ~ session 8 over, grace 30, seen 16, promised until 26
                 56 session 8 closed session_expired
                 56 L1 revoked by daemon session_expired epoch 2
                 56 ~ L1 due for reclaim, PromiseOver
                 56 L1 reclaimed session_expired PromiseOver r1 of a
            57  keep 8 → unknown
        "#]],
    );
}

#[test]
fn a_closed_connection_drains_at_once_and_no_late_word_brings_it_back() {
    check(
        "0 connect 8 grace=30 word=10
         0 grant r1 holder=a session=8 grace=5
         3 keep 8
         4 close 8
         4 standings
         5 keep 8
         5 standings
        10 wait
        34 wait",
        expect![[r#"
            0   connect 8 grace=30 word=10
            0   grant r1 holder=a session=8 grace=5 → L1 valid 8
                  0 session 8 opened
                  0 L1 granted r1 to a
            3   keep 8 → heard
            4   close 8
                  4 ~ session 8 silent, seen 4, until 34
            4   standings → [L1 draining(silence)]
            5   keep 8 → unknown
            5   standings → [L1 draining(silence)]
                  9 ~ session 8 over in part, grace 5, disconnected at 4
                  9 L1 revoked by daemon session_expired epoch 2
            10  wait
                 10 ~ L1 due for reclaim, PromiseOver
                 10 L1 reclaimed session_expired PromiseOver r1 of a
            34  wait
                 34 ~ session 8 over, grace 30, disconnected at 4
                 34 session 8 closed session_expired
        "#]],
    );
}

// A close that was told while the node counted as silent was forgotten, and a late word brought the session back.
#[test]
fn a_connection_that_is_gone_after_a_silence_ends_for_that_silence_and_no_late_word_brings_it_back() {
    check(
        "0 connect 8 grace=30 word=10
         0 grant r1 holder=a session=8 grace=5
        12 close 8
        13 keep 8
        13 standings
        15 wait
        40 wait",
        expect![[r#"
            0   connect 8 grace=30 word=10
            0   grant r1 holder=a session=8 grace=5 → L1 valid 8
                  0 session 8 opened
                  0 L1 granted r1 to a
                 10 ~ session 8 silent, seen 0, until 40
            12  close 8
            13  keep 8 → unknown
            13  standings → [L1 draining(silence)]
            15  wait
                 15 ~ session 8 over in part, grace 5, seen 0, promised until 10
                 15 L1 revoked by daemon session_expired epoch 2
                 15 ~ L1 due for reclaim, PromiseOver
                 15 L1 reclaimed session_expired PromiseOver r1 of a
            40  wait
                 40 ~ session 8 over, grace 30, seen 0, promised until 10
                 40 session 8 closed session_expired
        "#]],
    );
}

#[test]
fn what_the_holder_was_promised_last_is_waited_for_when_its_grace_is_shorter() {
    check(
        "0 connect 8 grace=0 word=10
         0 grant r1 holder=a session=8 grace=0
         8 keep 8
         8 heartbeat L1 via=8
         9 close 8
         9 wait
        18 wait",
        expect![[r#"
            0   connect 8 grace=0 word=10
            0   grant r1 holder=a session=8 grace=0 → L1 valid 8
                  0 session 8 opened
                  0 L1 granted r1 to a
            8   keep 8 → heard
            8   heartbeat L1 via=8 → valid 8 margin 2
            9   close 8
                  9 ~ session 8 silent, seen 9, until 9
                  9 ~ session 8 over, grace 0, disconnected at 9
                  9 session 8 closed session_expired
                  9 L1 revoked by daemon session_expired epoch 2
            9   wait
            18  wait
                 18 ~ L1 due for reclaim, PromiseOver
                 18 L1 reclaimed session_expired PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn an_operators_revoke_waits_for_the_holder_to_stop_or_to_leave() {
    check(
        "0 connect 8 grace=30 word=10
         0 grant r1 holder=a session=8 grace=30
         0 grant r2 holder=a session=8 grace=30
        20 keep 8
        21 revoke L1
        21 revoke L2
        23 acknowledge L1 epoch=1
        25 close 8
        26 standings",
        expect![[r#"
            0   connect 8 grace=30 word=10
            0   grant r1 holder=a session=8 grace=30 → L1 valid 8
                  0 session 8 opened
                  0 L1 granted r1 to a
            0   grant r2 holder=a session=8 grace=30 → L2 valid 8
                  0 L2 granted r2 to a
                 10 ~ session 8 silent, seen 0, until 40
            20  keep 8 → heard
                 20 ~ session 8 returned
            21  revoke L1
                 21 L1 revoked by root admin_force epoch 2
            21  revoke L2
                 21 L2 revoked by root admin_force epoch 2
            23  acknowledge L1 epoch=1 → acknowledged
                 23 ~ L1 due for reclaim, Acknowledged
                 23 L1 reclaimed admin_force Acknowledged r1 of a
            25  close 8
                 25 ~ session 8 silent, seen 25, until 55
                 25 ~ L2 due for reclaim, PromiseOver
                 25 L2 reclaimed admin_force PromiseOver r2 of a
            26  standings → []
        "#]],
    );
}

#[test]
fn after_a_change_of_writer_the_session_has_a_full_word_and_its_leases_a_full_promise() {
    check(
        "0 connect 8 grace=30 word=10
         0 grant r1 holder=a session=8 grace=30
         9 keep 8
        12 restart
        12 show L1
        21 keep 8
        30 show L1",
        expect![[r#"
            0   connect 8 grace=30 word=10
            0   grant r1 holder=a session=8 grace=30 → L1 valid 8
                  0 session 8 opened
                  0 L1 granted r1 to a
            9   keep 8 → heard
            12  restart
            12  show L1 → active alive seen – since 12 deadline 22 valid 8
            21  keep 8 → heard
            30  show L1 → active alive seen 21 deadline 31 valid 0
        "#]],
    );
}

#[test]
fn a_lease_comes_back_on_a_connection_at_another_node() {
    check(
        "0 connect 8 grace=30 word=10
         0 grant r1 holder=a session=8 grace=30
         2 close 8
         3 connect 9 grace=30 word=10
         3 rebind L1 session=9 grace=30
         5 keep 9
        12 show L1
        13 heartbeat L1 via=9
        60 standings",
        expect![[r#"
            0   connect 8 grace=30 word=10
            0   grant r1 holder=a session=8 grace=30 → L1 valid 8
                  0 session 8 opened
                  0 L1 granted r1 to a
            2   close 8
                  2 ~ session 8 silent, seen 2, until 32
            3   connect 9 grace=30 word=10
            3   rebind L1 session=9 grace=30 → valid 8
                  3 session 9 opened
                  3 L1 rebound to a session 9 epoch 2
            5   keep 9 → heard
            12  show L1 → active alive seen 5 deadline 15 valid 0
            13  heartbeat L1 via=9 → valid 8 margin 0
                 15 ~ session 9 silent, seen 5, until 45
                 32 ~ session 8 over, grace 30, disconnected at 2
                 32 session 8 closed session_expired
                 45 ~ session 9 over, grace 30, seen 5, promised until 15
                 45 session 9 closed session_expired
                 45 L1 revoked by daemon session_expired epoch 3
                 45 ~ L1 due for reclaim, PromiseOver
                 45 L1 reclaimed session_expired PromiseOver r1 of a
            60  standings → []
        "#]],
    );
}

#[test]
fn a_holder_that_closes_its_connection_has_stopped_and_only_its_graces_are_waited_for() {
    check(
        "0 connect 8 grace=30 word=100
         0 grant r1 holder=a session=8 grace=0
         0 grant r2 holder=a session=8 grace=5
         0 grant r3 holder=a session=8 grace=30
         0 grant r4 holder=a session=8 grace=30
        10 heartbeat L1 via=8
        10 heartbeat L2 via=8
        10 heartbeat L3 via=8
        11 revoke L4
        20 leave 8
        21 show L3
        22 heartbeat L3 via=8
        25 wait
        50 wait",
        expect![[r#"
            0   connect 8 grace=30 word=100
            0   grant r1 holder=a session=8 grace=0 → L1 valid 98
                  0 session 8 opened
                  0 L1 granted r1 to a
            0   grant r2 holder=a session=8 grace=5 → L2 valid 98
                  0 L2 granted r2 to a
            0   grant r3 holder=a session=8 grace=30 → L3 valid 98
                  0 L3 granted r3 to a
            0   grant r4 holder=a session=8 grace=30 → L4 valid 98
                  0 L4 granted r4 to a
            10  heartbeat L1 via=8 → valid 98 margin 90
            10  heartbeat L2 via=8 → valid 98 margin 90
            10  heartbeat L3 via=8 → valid 98 margin 90
            11  revoke L4
                 11 L4 revoked by root admin_force epoch 2
            20  leave 8
                 20 ~ session 8 silent, seen 20, until 50
                 20 ~ L4 due for reclaim, PromiseOver
                 20 L4 reclaimed admin_force PromiseOver r4 of a
                 20 ~ session 8 over in part, grace 0, disconnected at 20
                 20 L1 revoked by daemon session_expired epoch 2
                 20 ~ L1 due for reclaim, PromiseOver
                 20 L1 reclaimed session_expired PromiseOver r1 of a
            21  show L3 → active draining(silence) seen 20 deadline 50 valid 0
            22  heartbeat L3 via=8 → no_liveness
            25  wait
                 25 ~ session 8 over in part, grace 5, disconnected at 20
                 25 L2 revoked by daemon session_expired epoch 2
                 25 ~ L2 due for reclaim, PromiseOver
                 25 L2 reclaimed session_expired PromiseOver r2 of a
            50  wait
                 50 ~ session 8 over, grace 30, disconnected at 20
                 50 session 8 closed session_expired
                 50 L3 revoked by daemon session_expired epoch 2
                 50 ~ L3 due for reclaim, PromiseOver
                 50 L3 reclaimed session_expired PromiseOver r3 of a
        "#]],
    );
}

// The same holder was promised something before it came to this connection: perhaps another process of that name.
#[test]
fn what_was_promised_before_the_lease_came_to_its_connection_is_waited_for() {
    check(
        "0 grant r1 holder=a heartbeat ttl=100 grace=0
         0 connect 8 grace=0 word=10
         5 rebind L1 session=8 grace=0
         6 leave 8
        60 show L1
       100 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=100 grace=0 → L1 valid 98
                  0 L1 granted r1 to a
            0   connect 8 grace=0 word=10
            5   rebind L1 session=8 grace=0 → valid 8
                  5 session 8 opened
                  5 L1 rebound to a session 8 epoch 2
            6   leave 8
                  6 ~ session 8 silent, seen 6, until 6
                  6 ~ session 8 over, grace 0, disconnected at 6
                  6 session 8 closed session_expired
                  6 L1 revoked by daemon session_expired epoch 3
            60  show L1 → revoking – seen 5 deadline 100 valid – reclaim in 40
            100 wait
                100 ~ L1 due for reclaim, PromiseOver
                100 L1 reclaimed session_expired PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn a_holder_that_closes_its_connection_says_nothing_for_the_one_before_it() {
    check(
        "0 grant r1 holder=a heartbeat ttl=100 grace=0
         0 connect 8 grace=0 word=10
         5 rebind L1 session=8 grace=0 holder=b
         6 leave 8
        60 show L1
       100 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=100 grace=0 → L1 valid 98
                  0 L1 granted r1 to a
            0   connect 8 grace=0 word=10
            5   rebind L1 session=8 grace=0 holder=b → valid 8
                  5 session 8 opened
                  5 L1 rebound to b session 8 epoch 2
            6   leave 8
                  6 ~ session 8 silent, seen 6, until 6
                  6 ~ session 8 over, grace 0, disconnected at 6
                  6 session 8 closed session_expired
                  6 L1 revoked by daemon session_expired epoch 3
            60  show L1 → revoking – seen 5 deadline 100 valid – reclaim in 40
            100 wait
                100 ~ L1 due for reclaim, PromiseOver
                100 L1 reclaimed session_expired PromiseOver r1 of b
        "#]],
    );
}
