//! Proofs of life one by one: which heartbeats count, coming back, reserved leases, lifetimes, grace 0.

use crate::script::check;
use expect_test::expect;

#[test]
fn a_heartbeat_at_the_very_deadline_counts() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
        90 heartbeat L1
       180 wait
       210 heartbeat L1
       210 show L1",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            90  heartbeat L1 → valid 88 margin 0
            180 wait
                180 ~ L1 silent, seen 90, until 210
            210 heartbeat L1 → valid 88 margin – returned
                210 ~ L1 returned
            210 show L1 → active alive seen 210 deadline 300 valid 88
        "#]],
    );
}

#[test]
fn coming_back_changes_nothing_that_is_visible_outside() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
       100 heartbeat L1
       100 attachment L1
       100 show L1
       101 heartbeat L1 epoch=1",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
                 90 ~ L1 silent, seen 0, until 120
            100 heartbeat L1 → valid 88 margin – returned
                100 ~ L1 returned
            100 attachment L1 → '' data '' holder a
            100 show L1 → active alive seen 100 deadline 190 valid 88
            101 heartbeat L1 epoch=1 → valid 88 margin 89
        "#]],
    );
}

#[test]
fn a_stale_or_unknown_heartbeat_proves_nothing() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
        10 rebind L1 holder=b
        20 heartbeat L1 epoch=1
        20 heartbeat 99 epoch=1
        20 show L1
        30 release L1
        31 heartbeat L1 epoch=2",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            10  rebind L1 holder=b → valid 88
                 10 L1 rebound to b epoch 2
            20  heartbeat L1 epoch=1 → stale_epoch current=2
            20  heartbeat 99 epoch=1 → lease_not_found
            20  show L1 → active alive seen 10 deadline 100 valid 78
            30  release L1
                 30 L1 revoked by holder explicit epoch 3
            31  heartbeat L1 epoch=2 → stale_epoch current=3
        "#]],
    );
}

#[test]
fn a_connection_leases_heartbeat_counts_only_on_its_own_connection() {
    check(
        "0 connect 7 grace=30
         0 connect 8 grace=30
         0 grant r1 holder=a session=7
        10 heartbeat L1 via=7
        10 heartbeat L1 via=8
        10 heartbeat L1
        10 heartbeat L1 epoch=2 via=7
        20 close 7
        21 heartbeat L1 via=7",
        expect![[r#"
            0   connect 7 grace=30
            0   connect 8 grace=30
            0   grant r1 holder=a session=7 → L1 valid –
                  0 session 7 opened
                  0 L1 granted r1 to a
            10  heartbeat L1 via=7 → valid – margin –
            10  heartbeat L1 via=8 → no_liveness
            10  heartbeat L1 → no_liveness
            10  heartbeat L1 epoch=2 via=7 → stale_epoch current=1
            20  close 7
                 20 ~ session 7 silent, seen 20, until 50
            21  heartbeat L1 via=7 → no_liveness
        "#]],
    );
}

#[test]
fn a_heartbeat_on_a_lease_of_a_session_by_hand_has_no_liveness() {
    check(
        "0 open 7 ttl=90 grace=30
         0 grant r1 holder=a session=7
        10 heartbeat L1
        10 heartbeat L1 via=7
        10 show L1",
        expect![[r#"
            0   open 7 ttl=90 grace=30 → valid 88
                  0 session 7 opened
            0   grant r1 holder=a session=7 → L1 valid 88
                  0 L1 granted r1 to a
            10  heartbeat L1 → no_liveness
            10  heartbeat L1 via=7 → no_liveness
            10  show L1 → active alive seen 0 deadline 90 valid 78
        "#]],
    );
}

#[test]
fn stdin_is_a_connection_with_its_own_grace() {
    check(
        "0 stdin 7 grace=5
         0 grant r1 holder=a session=7
        10 beat 7
        10 close 7
        15 wait",
        expect![[r#"
            0   stdin 7 grace=5
            0   grant r1 holder=a session=7 → L1 valid –
                  0 session 7 opened
                  0 L1 granted r1 to a
            10  beat 7 → no_liveness
            10  close 7
                 10 ~ session 7 silent, seen 10, until 15
            15  wait
                 15 ~ session 7 over, grace 5, disconnected at 10
                 15 session 7 closed session_expired
                 15 L1 revoked by daemon session_expired epoch 2
                 15 ~ L1 due for reclaim, PromiseOver
                 15 L1 reclaimed session_expired PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn resume_on_a_new_connection_brings_the_leases_back() {
    check(
        "0 connect 7 grace=30
         0 grant r1 holder=a session=7
         0 grant r2 holder=a session=7
        10 close 7
        20 connect 8 grace=30
        20 rebind L1 session=8
        20 standings
        40 wait
        50 close 8
        80 wait",
        expect![[r#"
            0   connect 7 grace=30
            0   grant r1 holder=a session=7 → L1 valid –
                  0 session 7 opened
                  0 L1 granted r1 to a
            0   grant r2 holder=a session=7 → L2 valid –
                  0 L2 granted r2 to a
            10  close 7
                 10 ~ session 7 silent, seen 10, until 40
            20  connect 8 grace=30
            20  rebind L1 session=8 → valid –
                 20 session 8 opened
                 20 L1 rebound to a session 8 epoch 2
            20  standings → [L1 alive, L2 draining(silence)]
            40  wait
                 40 ~ session 7 over, grace 30, disconnected at 10
                 40 session 7 closed session_expired
                 40 L2 revoked by daemon session_expired epoch 2
                 40 ~ L2 due for reclaim, PromiseOver
                 40 L2 reclaimed session_expired PromiseOver r2 of a
            50  close 8
                 50 ~ session 8 silent, seen 50, until 80
            80  wait
                 80 ~ session 8 over, grace 30, disconnected at 50
                 80 session 8 closed session_expired
                 80 L1 revoked by daemon session_expired epoch 3
                 80 ~ L1 due for reclaim, PromiseOver
                 80 L1 reclaimed session_expired PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn the_end_of_a_session_drains_only_leases_whose_current_session_it_is() {
    check(
        "0 open 7 ttl=90 grace=30
         0 open 8 ttl=200 grace=30
         0 connect 9 grace=30
         0 grant r1 holder=a session=7
         0 grant r2 holder=a session=7
         0 grant r3 holder=a session=9
        10 rebind L1 session=8
        10 rebind L3 session=8
        20 close 9
       119 standings
       120 wait
       121 standings",
        expect![[r#"
            0   open 7 ttl=90 grace=30 → valid 88
                  0 session 7 opened
            0   open 8 ttl=200 grace=30 → valid 198
                  0 session 8 opened
            0   connect 9 grace=30
            0   grant r1 holder=a session=7 → L1 valid 88
                  0 L1 granted r1 to a
            0   grant r2 holder=a session=7 → L2 valid 88
                  0 L2 granted r2 to a
            0   grant r3 holder=a session=9 → L3 valid –
                  0 session 9 opened
                  0 L3 granted r3 to a
            10  rebind L1 session=8 → valid 188
                 10 L1 rebound to a session 8 epoch 2
            10  rebind L3 session=8 → valid 188
                 10 L3 rebound to a session 8 epoch 2
            20  close 9
                 20 ~ session 9 silent, seen 20, until 50
                 50 ~ session 9 over, grace 30, disconnected at 20
                 50 session 9 closed session_expired
                 90 ~ session 7 silent, seen 0, until 120
            119 standings → [L1 alive, L2 draining(silence), L3 alive]
            120 wait
                120 ~ session 7 over, grace 30, seen 0, promised until 90
                120 session 7 closed session_expired
                120 L2 revoked by daemon session_expired epoch 2
                120 ~ L2 due for reclaim, PromiseOver
                120 L2 reclaimed session_expired PromiseOver r2 of a
            121 standings → [L1 alive, L3 alive]
        "#]],
    );
}

#[test]
fn a_reserved_lease_has_no_liveness() {
    check(
        "0 grant r1 holder=a heartbeat ttl=10 grace=5 reserve=100
        50 show L1
        50 heartbeat L1
        50 drain L1
        50 revive L1
        99 show L1
       100 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=10 grace=5 reserve=100 → L1 valid –
                  0 L1 granted r1 to a until 100
            50  show L1 → reserved – seen – since 0 deadline 100 valid –
            50  heartbeat L1 → invalid_state reserved
            50  drain L1 → invalid_state reserved
            50  revive L1 → invalid_state reserved
            99  show L1 → reserved – seen – since 0 deadline 100 valid –
            100 wait
                100 L1 expired r1 of a
        "#]],
    );
}

#[test]
fn ttl_and_lifetime_count_from_activate() {
    check(
        "0 grant r1 holder=a heartbeat ttl=10 grace=5 life=14 reserve=100
         0 grant r2 holder=a heartbeat ttl=10 grace=5 reserve=100
        50 activate L1
        50 activate L2
        59 standings
        64 wait
        65 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=10 grace=5 life=14 reserve=100 → L1 valid –
                  0 L1 granted r1 to a until 100
            0   grant r2 holder=a heartbeat ttl=10 grace=5 reserve=100 → L2 valid –
                  0 L2 granted r2 to a until 100
            50  activate L1 → valid 8
                 50 L1 activated
            50  activate L2 → valid 8
                 50 L2 activated
            59  standings → [L1 alive, L2 alive]
                 60 ~ L2 silent, seen 50, until 65
                 60 ~ L1 silent, seen 50, until 65
            64  wait
                 64 ~ L1 over max_lifetime, active since 50
                 64 L1 revoked by daemon max_lifetime epoch 2
                 64 ~ L1 due for reclaim, PromiseOver
                 64 L1 reclaimed max_lifetime PromiseOver r1 of a
            65  wait
                 65 ~ L2 over heartbeat_expired, seen 50, promised until 60
                 65 L2 revoked by daemon heartbeat_expired epoch 2
                 65 ~ L2 due for reclaim, PromiseOver
                 65 L2 reclaimed heartbeat_expired PromiseOver r2 of a
        "#]],
    );
}

#[test]
fn a_lease_whose_connection_closed_meanwhile_drains_at_activate() {
    check(
        "0 connect 7 grace=30
         0 grant r1 holder=a session=7 reserve=100
        10 close 7
        15 show L1
        20 activate L1
        20 show L1
        20 heartbeat L1 via=7
        40 wait",
        expect![[r#"
            0   connect 7 grace=30
            0   grant r1 holder=a session=7 reserve=100 → L1 valid –
                  0 session 7 opened
                  0 L1 granted r1 to a until 100
            10  close 7
                 10 ~ session 7 silent, seen 10, until 40
            15  show L1 → reserved – seen – since 0 deadline 100 valid –
            20  activate L1 → valid –
                 20 L1 activated
            20  show L1 → active draining(silence) seen 20 deadline 40 valid –
            20  heartbeat L1 via=7 → no_liveness
            40  wait
                 40 ~ session 7 over, grace 30, disconnected at 10
                 40 session 7 closed session_expired
                 40 L1 revoked by daemon session_expired epoch 2
                 40 ~ L1 due for reclaim, PromiseOver
                 40 L1 reclaimed session_expired PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn a_lease_that_goes_into_use_after_its_grace_went_by_drains_from_there() {
    check(
        "0 connect 7 grace=30
         0 grant r1 holder=a session=7 grace=5 reserve=100
        10 close 7
        20 activate L1
        20 show L1
        25 wait
        40 wait",
        expect![[r#"
            0   connect 7 grace=30
            0   grant r1 holder=a session=7 grace=5 reserve=100 → L1 valid –
                  0 session 7 opened
                  0 L1 granted r1 to a until 100
            10  close 7
                 10 ~ session 7 silent, seen 10, until 40
                 15 ~ session 7 over in part, grace 5, disconnected at 10
            20  activate L1 → valid –
                 20 L1 activated
            20  show L1 → active draining(silence) seen 20 deadline 25 valid –
            25  wait
                 25 ~ L1 over session_expired, seen 20, promised until 0
                 25 L1 revoked by daemon session_expired epoch 2
                 25 ~ L1 due for reclaim, PromiseOver
                 25 L1 reclaimed session_expired PromiseOver r1 of a
            40  wait
                 40 ~ session 7 over, grace 30, disconnected at 10
                 40 session 7 closed session_expired
        "#]],
    );
}

#[test]
fn a_lease_whose_session_is_over_drains_at_activate() {
    check(
        "0 connect 7 grace=30
         0 grant r1 holder=a session=7 reserve=100
         0 open 8 ttl=10 grace=20
         0 grant r2 holder=a session=8 reserve=100
        10 close 7
        60 activate L1
        60 activate L2
        60 show L1
        60 revive L1
        80 wait
        90 wait",
        expect![[r#"
            0   connect 7 grace=30
            0   grant r1 holder=a session=7 reserve=100 → L1 valid –
                  0 session 7 opened
                  0 L1 granted r1 to a until 100
            0   open 8 ttl=10 grace=20 → valid 8
                  0 session 8 opened
            0   grant r2 holder=a session=8 reserve=100 → L2 valid –
                  0 L2 granted r2 to a until 100
            10  close 7
                 10 ~ session 7 silent, seen 10, until 40
                 10 ~ session 8 silent, seen 0, until 30
                 30 ~ session 8 over, grace 20, seen 0, promised until 10
                 30 session 8 closed session_expired
                 40 ~ session 7 over, grace 30, disconnected at 10
                 40 session 7 closed session_expired
            60  activate L1 → valid –
                 60 L1 activated
            60  activate L2 → valid –
                 60 L2 activated
            60  show L1 → active draining(silence) seen 60 deadline 90 valid –
            60  revive L1 → no_liveness
            80  wait
                 80 ~ L2 over session_expired, seen 60, promised until 0
                 80 L2 revoked by daemon session_expired epoch 2
                 80 ~ L2 due for reclaim, PromiseOver
                 80 L2 reclaimed session_expired PromiseOver r2 of a
            90  wait
                 90 ~ L1 over session_expired, seen 60, promised until 0
                 90 L1 revoked by daemon session_expired epoch 2
                 90 ~ L1 due for reclaim, PromiseOver
                 90 L1 reclaimed session_expired PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn a_reserved_lease_outlives_its_session_until_its_deadline() {
    check(
        "0 open 7 ttl=10 grace=20
         0 grant r1 holder=a session=7 reserve=100
        50 show L1
       100 wait",
        expect![[r#"
            0   open 7 ttl=10 grace=20 → valid 8
                  0 session 7 opened
            0   grant r1 holder=a session=7 reserve=100 → L1 valid –
                  0 L1 granted r1 to a until 100
                 10 ~ session 7 silent, seen 0, until 30
                 30 ~ session 7 over, grace 20, seen 0, promised until 10
                 30 session 7 closed session_expired
            50  show L1 → reserved – seen – since 0 deadline 100 valid –
            100 wait
                100 L1 expired r1 of a
        "#]],
    );
}

#[test]
fn max_lifetime_ends_a_lease_however_alive_its_holder_is() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30 life=100
         0 connect 7 grace=30
         0 grant r2 holder=b session=7 life=100
         0 grant r3 holder=c permanent life=100
         0 grant r4 holder=d heartbeat ttl=90 grace=30 life=100
        50 heartbeat L1
        60 drain L4
        99 heartbeat L1
        99 standings
       100 wait
       110 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 life=100 → L1 valid 88
                  0 L1 granted r1 to a
            0   connect 7 grace=30
            0   grant r2 holder=b session=7 life=100 → L2 valid –
                  0 session 7 opened
                  0 L2 granted r2 to b
            0   grant r3 holder=c permanent life=100 → L3 valid –
                  0 L3 granted r3 to c
            0   grant r4 holder=d heartbeat ttl=90 grace=30 life=100 → L4 valid 88
                  0 L4 granted r4 to d
            50  heartbeat L1 → valid 48 margin 40
            60  drain L4
                 60 L4 draining
                 90 ~ L4 over admin_force, drained since 60
                 90 L4 revoked by daemon admin_force drained epoch 2
                 90 ~ L4 due for reclaim, PromiseOver
                 90 L4 reclaimed admin_force PromiseOver r4 of d
            99  heartbeat L1 → valid 0 margin 1
            99  standings → [L1 alive, L2 alive, L3 alive]
            100 wait
                100 ~ L1 over max_lifetime, active since 0
                100 L1 revoked by daemon max_lifetime epoch 2
                100 ~ L3 over max_lifetime, active since 0
                100 L3 revoked by daemon max_lifetime epoch 2
                100 ~ L2 over max_lifetime, active since 0
                100 L2 revoked by daemon max_lifetime epoch 2
                100 ~ L1 due for reclaim, PromiseOver
                100 L1 reclaimed max_lifetime PromiseOver r1 of a
            110 wait
                110 ~ L2 due for reclaim, PromiseOver
                110 L2 reclaimed max_lifetime PromiseOver r2 of b
                110 ~ L3 due for reclaim, PromiseOver
                110 L3 reclaimed max_lifetime PromiseOver r3 of c
        "#]],
    );
}

#[test]
fn max_lifetime_ends_a_draining_lease_and_survives_a_restart() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30 life=100
        50 restart
        95 heartbeat L1
       100 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 life=100 → L1 valid 88
                  0 L1 granted r1 to a
            50  restart
            95  heartbeat L1 → valid 3 margin 45
            100 wait
                100 ~ L1 over max_lifetime, active since 0
                100 L1 revoked by daemon max_lifetime epoch 2
        "#]],
    );
}

#[test]
fn grace_zero_ends_when_the_ttl_passes() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=0
         0 open 7 ttl=50 grace=0
         0 grant r2 holder=a session=7
         0 connect 8 grace=0
         0 grant r3 holder=a session=8
        10 close 8
        50 wait
        90 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=0 → L1 valid 88
                  0 L1 granted r1 to a
            0   open 7 ttl=50 grace=0 → valid 48
                  0 session 7 opened
            0   grant r2 holder=a session=7 → L2 valid 48
                  0 L2 granted r2 to a
            0   connect 8 grace=0
            0   grant r3 holder=a session=8 → L3 valid –
                  0 session 8 opened
                  0 L3 granted r3 to a
            10  close 8
                 10 ~ session 8 silent, seen 10, until 10
                 10 ~ session 8 over, grace 0, disconnected at 10
                 10 session 8 closed session_expired
                 10 L3 revoked by daemon session_expired epoch 2
                 10 ~ L3 due for reclaim, PromiseOver
                 10 L3 reclaimed session_expired PromiseOver r3 of a
            50  wait
                 50 ~ session 7 silent, seen 0, until 50
                 50 ~ session 7 over, grace 0, seen 0, promised until 50
                 50 session 7 closed session_expired
                 50 L2 revoked by daemon session_expired epoch 2
                 50 ~ L2 due for reclaim, PromiseOver
                 50 L2 reclaimed session_expired PromiseOver r2 of a
            90  wait
                 90 ~ L1 silent, seen 0, until 90
                 90 ~ L1 over heartbeat_expired, seen 0, promised until 90
                 90 L1 revoked by daemon heartbeat_expired epoch 2
                 90 ~ L1 due for reclaim, PromiseOver
                 90 L1 reclaimed heartbeat_expired PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn a_lease_of_a_connection_may_have_its_own_grace() {
    check(
        "0 connect 7 grace=30
         0 grant r1 holder=a session=7 grace=5
         0 grant r2 holder=a session=7
         0 grant r3 holder=a session=7 grace=60
         0 grant r4 holder=a session=7 grace=5
        10 close 7
        10 show L1
        10 show L2
        10 show L3
        15 wait
        15 session 7
        16 show L2
        40 wait
        69 standings
        70 wait",
        expect![[r#"
            0   connect 7 grace=30
            0   grant r1 holder=a session=7 grace=5 → L1 valid –
                  0 session 7 opened
                  0 L1 granted r1 to a
            0   grant r2 holder=a session=7 → L2 valid –
                  0 L2 granted r2 to a
            0   grant r3 holder=a session=7 grace=60 → L3 valid –
                  0 L3 granted r3 to a
            0   grant r4 holder=a session=7 grace=5 → L4 valid –
                  0 L4 granted r4 to a
            10  close 7
                 10 ~ session 7 silent, seen 10, until 70
            10  show L1 → active draining(silence) seen 10 deadline 15 valid –
            10  show L2 → active draining(silence) seen 10 deadline 40 valid –
            10  show L3 → active draining(silence) seen 10 deadline 70 valid –
            15  wait
                 15 ~ session 7 over in part, grace 5, disconnected at 10
                 15 L1 revoked by daemon session_expired epoch 2
                 15 L4 revoked by daemon session_expired epoch 2
                 15 ~ L4 due for reclaim, PromiseOver
                 15 L4 reclaimed session_expired PromiseOver r4 of a
                 15 ~ L1 due for reclaim, PromiseOver
                 15 L1 reclaimed session_expired PromiseOver r1 of a
            15  session 7 → draining(silence) seen 10 deadline 40 valid –
            16  show L2 → active draining(silence) seen 10 deadline 40 valid –
            40  wait
                 40 ~ session 7 over in part, grace 30, disconnected at 10
                 40 L2 revoked by daemon session_expired epoch 2
                 40 ~ L2 due for reclaim, PromiseOver
                 40 L2 reclaimed session_expired PromiseOver r2 of a
            69  standings → [L3 draining(silence)]
            70  wait
                 70 ~ session 7 over, grace 60, disconnected at 10
                 70 session 7 closed session_expired
                 70 L3 revoked by daemon session_expired epoch 2
                 70 ~ L3 due for reclaim, PromiseOver
                 70 L3 reclaimed session_expired PromiseOver r3 of a
        "#]],
    );
}

// Such a session was taken for open and its leases lived for ever.
#[test]
fn a_grant_decided_after_its_connection_closed_drains() {
    check(
        "0 connect 7 grace=30
         1 close 7
         1 session 7",
        expect![[r#"
            0   connect 7 grace=30
            1   close 7
            1   session 7 → unknown
        "#]],
    );
    let mut desk = crate::desk::Desk::new(crate::script::seconds());
    use tenure_kernel::*;
    let session = SessionId(7);
    let open = OpenSession {
        session,
        holder: "a".into(),
        kind: SessionKind::Connection,
        ttl_ms: 0,
        grace_ms: 30,
        principal: "local".into(),
        accepts_handover: None,
    };
    desk.decide(Action::OpenSession(open)).unwrap();
    let (lease, _) = desk.grant(Grant::new(Bundle::one("r1"), "a", Policy::session(session, 0, 30))).unwrap();
    desk.advance_to(Tick(30));
    assert_eq!(desk.view(lease).deadline, Some(Tick(30)));
    assert!(desk.is_live(lease));
    desk.turn();
    assert!(!desk.is_live(lease));
}

#[test]
fn a_rebind_starts_a_fresh_ttl() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
       100 rebind L1 holder=b
       100 show L1
       189 standings
       220 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
                 90 ~ L1 silent, seen 0, until 120
            100 rebind L1 holder=b → valid 88
                100 L1 rebound to b epoch 2
            100 show L1 → active alive seen 100 deadline 190 valid 88
            189 standings → [L1 alive]
                190 ~ L1 silent, seen 100, until 220
            220 wait
                220 ~ L1 over heartbeat_expired, seen 100, promised until 190
                220 L1 revoked by daemon heartbeat_expired epoch 3
                220 ~ L1 due for reclaim, PromiseOver
                220 L1 reclaimed heartbeat_expired PromiseOver r1 of b
        "#]],
    );
}

#[test]
fn a_rebind_changes_the_mode() {
    check(
        "0 connect 7 grace=30
         0 grant r1 holder=a session=7
        10 rebind L1 heartbeat ttl=50 grace=10
        20 close 7
        50 wait
        59 show L1
        60 rebind L1 permanent
       999 show L1
       999 next",
        expect![[r#"
            0   connect 7 grace=30
            0   grant r1 holder=a session=7 → L1 valid –
                  0 session 7 opened
                  0 L1 granted r1 to a
            10  rebind L1 heartbeat ttl=50 grace=10 → valid 48
                 10 L1 rebound to a epoch 2
            20  close 7
                 20 ~ session 7 silent, seen 20, until 50
            50  wait
                 50 ~ session 7 over, grace 30, disconnected at 20
                 50 session 7 closed session_expired
            59  show L1 → active alive seen 10 deadline 60 valid 0
            60  rebind L1 permanent → valid –
                 60 L1 rebound to a epoch 3
            999 show L1 → active alive seen 60 deadline – valid –
            999 next → –
        "#]],
    );
}

#[test]
fn a_heartbeat_on_a_permanent_lease_is_taken_and_proves_nothing() {
    check(
        "0 grant r1 holder=a permanent
        10 heartbeat L1
        10 show L1
        20 revoke L1
        21 heartbeat L1 epoch=2",
        expect![[r#"
            0   grant r1 holder=a permanent → L1 valid –
                  0 L1 granted r1 to a
            10  heartbeat L1 → valid – margin –
            10  show L1 → active alive seen 0 deadline – valid –
            20  revoke L1
                 20 L1 revoked by root admin_force epoch 2
            21  heartbeat L1 epoch=2 → invalid_state revoking
        "#]],
    );
}
