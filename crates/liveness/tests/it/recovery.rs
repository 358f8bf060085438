//! The restart rule: downtime ages nobody, and everybody is assumed to have been promised a full ttl.

use crate::desk::Desk;
use crate::script::check;
use expect_test::expect;

use tenure_kernel::*;
use tenure_liveness::LivenessConfig;

#[test]
fn heartbeat_leases_have_a_full_ttl() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
         0 grant r2 holder=b heartbeat ttl=20 grace=30
        30 restart
        30 show L1
        30 show L2
       119 show L1
       120 wait
       150 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            0   grant r2 holder=b heartbeat ttl=20 grace=30 → L2 valid 18
                  0 L2 granted r2 to b
                 20 ~ L2 silent, seen 0, until 50
            30  restart
            30  show L1 → active alive seen – since 30 deadline 120 valid 88
            30  show L2 → active alive seen – since 30 deadline 50 valid 18
                 50 ~ L2 silent, seen 30, until 80
                 80 ~ L2 over heartbeat_expired, seen 30, promised until 50
                 80 L2 revoked by daemon heartbeat_expired epoch 2
                 80 ~ L2 due for reclaim, PromiseOver
                 80 L2 reclaimed heartbeat_expired PromiseOver r2 of b
            119 show L1 → active alive seen – since 30 deadline 120 valid 0
            120 wait
                120 ~ L1 silent, seen 30, until 150
            150 wait
                150 ~ L1 over heartbeat_expired, seen 30, promised until 120
                150 L1 revoked by daemon heartbeat_expired epoch 2
                150 ~ L1 due for reclaim, PromiseOver
                150 L1 reclaimed heartbeat_expired PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn whatever_ends_a_lease_afterwards_a_full_ttl_was_promised() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
         0 grant r2 holder=b heartbeat ttl=90 grace=30 at_once
        30 restart
        31 revoke L1
        31 revoke L2
       119 show L1
       120 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            0   grant r2 holder=b heartbeat ttl=90 grace=30 at_once → L2 valid –
                  0 L2 granted r2 to b
            30  restart
            31  revoke L1
                 31 L1 revoked by root admin_force epoch 2
            31  revoke L2
                 31 L2 revoked by root admin_force epoch 2
                 31 ~ L2 due for reclaim, AtOnce
                 31 L2 reclaimed admin_force AtOnce r2 of b
            119 show L1 → revoking – seen – since 30 deadline 120 valid – reclaim in 1
            120 wait
                120 ~ L1 due for reclaim, PromiseOver
                120 L1 reclaimed admin_force PromiseOver r1 of a
        "#]],
    );
}

#[test]
fn permanent_leases_are_as_they_were() {
    check(
        "0 grant r1 holder=a permanent
         0 grant r2 holder=a permanent life=100
        30 restart
        30 show L1
        30 show L2
       100 wait
       110 wait
       111 standings",
        expect![[r#"
            0   grant r1 holder=a permanent → L1 valid –
                  0 L1 granted r1 to a
            0   grant r2 holder=a permanent life=100 → L2 valid –
                  0 L2 granted r2 to a
            30  restart
            30  show L1 → active alive seen – since 30 deadline – valid –
            30  show L2 → active alive seen – since 30 deadline 100 valid –
            100 wait
                100 ~ L2 over max_lifetime, active since 0
                100 L2 revoked by daemon max_lifetime epoch 2
            110 wait
                110 ~ L2 due for reclaim, PromiseOver
                110 L2 reclaimed max_lifetime PromiseOver r2 of a
            111 standings → [L1 alive]
        "#]],
    );
}

#[test]
fn sessions_by_hand_have_a_full_ttl() {
    check(
        "0 open 7 ttl=90 grace=30
         0 grant r1 holder=a session=7
        80 restart
        80 session 7
        80 show L1
        81 revoke L1
       169 show L1
       170 wait
       200 wait",
        expect![[r#"
            0   open 7 ttl=90 grace=30 → valid 88
                  0 session 7 opened
            0   grant r1 holder=a session=7 → L1 valid 88
                  0 L1 granted r1 to a
            80  restart
            80  session 7 → alive seen – since 80 deadline 170 valid 88
            80  show L1 → active alive seen – since 80 deadline 170 valid 88
            81  revoke L1
                 81 L1 revoked by root admin_force epoch 2
            169 show L1 → revoking – seen – since 80 deadline 170 valid – reclaim in 1
            170 wait
                170 ~ L1 due for reclaim, PromiseOver
                170 L1 reclaimed admin_force PromiseOver r1 of a
                170 ~ session 7 silent, seen 80, until 200
            200 wait
                200 ~ session 7 over, grace 30, seen 80, promised until 170
                200 session 7 closed session_expired
        "#]],
    );
}

#[test]
fn connection_sessions_drain_with_their_grace_or_five_seconds() {
    check(
        "0 connect 7 grace=30
         0 grant r1 holder=a session=7
         0 grant r2 holder=a session=7 grace=1
         0 stdin 8 grace=2
         0 grant r3 holder=b session=8
         0 connect 9 grace=5
         0 grant r4 holder=c session=9 grace=7
        10 restart
        10 standings
        10 show L1
        10 show L2
        10 show L3
        14 standings
        15 wait
        17 wait
        40 wait",
        expect![[r#"
            0   connect 7 grace=30
            0   grant r1 holder=a session=7 → L1 valid –
                  0 session 7 opened
                  0 L1 granted r1 to a
            0   grant r2 holder=a session=7 grace=1 → L2 valid –
                  0 L2 granted r2 to a
            0   stdin 8 grace=2
            0   grant r3 holder=b session=8 → L3 valid –
                  0 session 8 opened
                  0 L3 granted r3 to b
            0   connect 9 grace=5
            0   grant r4 holder=c session=9 grace=7 → L4 valid –
                  0 session 9 opened
                  0 L4 granted r4 to c
            10  restart
            10  standings → [L1 draining(silence), L2 draining(silence), L3 draining(silence), L4 draining(silence)]
            10  show L1 → active draining(silence) seen – since 10 deadline 40 valid –
            10  show L2 → active draining(silence) seen – since 10 deadline 15 valid –
            10  show L3 → active draining(silence) seen – since 10 deadline 15 valid –
            14  standings → [L1 draining(silence), L2 draining(silence), L3 draining(silence), L4 draining(silence)]
            15  wait
                 15 ~ session 9 over in part, grace 5, disconnected at 10
                 15 ~ session 8 over, grace 5, disconnected at 10
                 15 session 8 closed session_expired
                 15 L3 revoked by daemon session_expired epoch 2
                 15 ~ session 7 over in part, grace 5, disconnected at 10
                 15 L2 revoked by daemon session_expired epoch 2
                 15 ~ L2 due for reclaim, PromiseOver
                 15 L2 reclaimed session_expired PromiseOver r2 of a
                 15 ~ L3 due for reclaim, PromiseOver
                 15 L3 reclaimed session_expired PromiseOver r3 of b
            17  wait
                 17 ~ session 9 over, grace 7, disconnected at 10
                 17 session 9 closed session_expired
                 17 L4 revoked by daemon session_expired epoch 2
                 17 ~ L4 due for reclaim, PromiseOver
                 17 L4 reclaimed session_expired PromiseOver r4 of c
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
fn a_holder_resumes_after_a_restart() {
    check(
        "0 connect 7 grace=30
         0 grant r1 holder=a session=7
        10 restart
        20 connect 8 grace=30
        20 rebind L1 session=8
        40 wait
        41 standings",
        expect![[r#"
            0   connect 7 grace=30
            0   grant r1 holder=a session=7 → L1 valid –
                  0 session 7 opened
                  0 L1 granted r1 to a
            10  restart
            20  connect 8 grace=30
            20  rebind L1 session=8 → valid –
                 20 session 8 opened
                 20 L1 rebound to a session 8 epoch 2
            40  wait
                 40 ~ session 7 over, grace 30, disconnected at 10
                 40 session 7 closed session_expired
            41  standings → [L1 alive]
        "#]],
    );
}

#[test]
fn revoking_leases_wait_a_full_ttl_again() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
         0 grant r2 holder=b heartbeat ttl=90 grace=30 delay=120
         0 grant r3 holder=c permanent
         0 grant r4 holder=d heartbeat ttl=90 grace=30 at_once delay=3
         0 connect 7 grace=30
         0 grant r5 holder=e session=7
         0 open 8 ttl=50 grace=30
         0 grant r6 holder=f session=8
         0 grant r7 holder=f session=8 at_once
         5 revoke L1
         5 revoke L2
         5 revoke L3
         5 revoke L4
         5 revoke L5
         5 revoke L6
         6 restart
         6 show L1
         6 show L2
         6 show L3
         6 show L4
         6 show L5
         6 show L6
         6 show L7
         7 revoke L7
       200 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            0   grant r2 holder=b heartbeat ttl=90 grace=30 delay=120 → L2 valid 88
                  0 L2 granted r2 to b
            0   grant r3 holder=c permanent → L3 valid –
                  0 L3 granted r3 to c
            0   grant r4 holder=d heartbeat ttl=90 grace=30 at_once delay=3 → L4 valid –
                  0 L4 granted r4 to d
            0   connect 7 grace=30
            0   grant r5 holder=e session=7 → L5 valid –
                  0 session 7 opened
                  0 L5 granted r5 to e
            0   open 8 ttl=50 grace=30 → valid 48
                  0 session 8 opened
            0   grant r6 holder=f session=8 → L6 valid 48
                  0 L6 granted r6 to f
            0   grant r7 holder=f session=8 at_once → L7 valid –
                  0 L7 granted r7 to f
            5   revoke L1
                  5 L1 revoked by root admin_force epoch 2
            5   revoke L2
                  5 L2 revoked by root admin_force epoch 2
            5   revoke L3
                  5 L3 revoked by root admin_force epoch 2
            5   revoke L4
                  5 L4 revoked by root admin_force epoch 2
            5   revoke L5
                  5 L5 revoked by root admin_force epoch 2
            5   revoke L6
                  5 L6 revoked by root admin_force epoch 2
            6   restart
                  6 ~ L5 due for reclaim, PromiseOver
                  6 L5 reclaimed admin_force PromiseOver r5 of e
            6   show L1 → revoking – seen – since 6 deadline 96 valid – reclaim in 90
            6   show L2 → revoking – seen – since 6 deadline 126 valid – reclaim in 120
            6   show L3 → revoking – seen – since 6 deadline 16 valid – reclaim in 10
            6   show L4 → revoking – seen – since 6 deadline 9 valid – reclaim in 3
            6   show L5 → ended
            6   show L6 → revoking – seen – since 6 deadline 56 valid – reclaim in 50
            6   show L7 → active alive seen – since 6 deadline 56 valid –
            7   revoke L7
                  7 L7 revoked by root admin_force epoch 2
                  7 ~ L7 due for reclaim, AtOnce
                  7 L7 reclaimed admin_force AtOnce r7 of f
                  9 ~ L4 due for reclaim, AtOnce
                  9 L4 reclaimed admin_force AtOnce r4 of d
                 16 ~ L3 due for reclaim, PromiseOver
                 16 L3 reclaimed admin_force PromiseOver r3 of c
                 36 ~ session 7 over, grace 30, disconnected at 6
                 36 session 7 closed session_expired
                 56 ~ L6 due for reclaim, PromiseOver
                 56 L6 reclaimed admin_force PromiseOver r6 of f
                 56 ~ session 8 silent, seen 6, until 86
                 86 ~ session 8 over, grace 30, seen 6, promised until 56
                 86 session 8 closed session_expired
                 96 ~ L1 due for reclaim, PromiseOver
                 96 L1 reclaimed admin_force PromiseOver r1 of a
                126 ~ L2 due for reclaim, PromiseOver
                126 L2 reclaimed admin_force PromiseOver r2 of b
            200 wait
        "#]],
    );
}

/// After an acknowledge, the delay ended where it would have ended without the restart.
#[test]
fn an_acknowledge_after_a_restart_leaves_the_delay_that_counts_anew() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30 delay=20
        10 revoke L1
        15 restart
        16 acknowledge L1 epoch=1
        30 wait
        34 wait
        35 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 delay=20 → L1 valid 88
                  0 L1 granted r1 to a
            10  revoke L1
                 10 L1 revoked by root admin_force epoch 2
            15  restart
            16  acknowledge L1 epoch=1 → acknowledged
            30  wait
            34  wait
            35  wait
                 35 ~ L1 due for reclaim, Acknowledged
                 35 L1 reclaimed admin_force Acknowledged r1 of a
        "#]],
    );
}

#[test]
fn an_acknowledge_counts_after_a_restart_too() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30
         5 revoke L1
        10 restart
        12 acknowledge L1 epoch=1",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 → L1 valid 88
                  0 L1 granted r1 to a
            5   revoke L1
                  5 L1 revoked by root admin_force epoch 2
            10  restart
            12  acknowledge L1 epoch=1 → acknowledged
                 12 ~ L1 due for reclaim, Acknowledged
                 12 L1 reclaimed admin_force Acknowledged r1 of a
        "#]],
    );
}

#[test]
fn reserved_leases_keep_their_deadline() {
    check(
        "0 grant r1 holder=a heartbeat ttl=90 grace=30 reserve=50
         0 grant r2 holder=a heartbeat ttl=90 grace=30 reserve=50
         0 connect 7 grace=30
         0 grant r3 holder=a session=7 reserve=50
        10 restart
        10 show L1
        20 activate L2
        20 activate L3
        20 show L2
        20 show L3
        50 wait",
        expect![[r#"
            0   grant r1 holder=a heartbeat ttl=90 grace=30 reserve=50 → L1 valid –
                  0 L1 granted r1 to a until 50
            0   grant r2 holder=a heartbeat ttl=90 grace=30 reserve=50 → L2 valid –
                  0 L2 granted r2 to a until 50
            0   connect 7 grace=30
            0   grant r3 holder=a session=7 reserve=50 → L3 valid –
                  0 session 7 opened
                  0 L3 granted r3 to a until 50
            10  restart
            10  show L1 → reserved – seen – since 0 deadline 50 valid –
            20  activate L2 → valid 88
                 20 L2 activated
            20  activate L3 → valid –
                 20 L3 activated
            20  show L2 → active alive seen 20 deadline 110 valid 88
            20  show L3 → active draining(silence) seen 20 deadline 40 valid –
                 40 ~ session 7 over, grace 30, disconnected at 10
                 40 session 7 closed session_expired
                 40 L3 revoked by daemon session_expired epoch 2
                 40 ~ L3 due for reclaim, PromiseOver
                 40 L3 reclaimed session_expired PromiseOver r3 of a
            50  wait
                 50 L1 expired r1 of a
        "#]],
    );
}

/// The process died between the close of a session and the revoke of its leases.
#[test]
fn leases_of_a_closed_session_drain() {
    let mut desk = Desk::new(crate::script::seconds());
    desk.open_by_hand(7, 90, 30, "local");
    let by_hand = Policy::session(SessionId(7), 90, 30);
    let (lease, _) = desk.grant(Grant::new(Bundle::one("r1"), "a", by_hand)).unwrap();
    desk.connect(8, SessionKind::Connection, 3);
    let (other, _) =
        desk.grant(Grant::new(Bundle::one("r2"), "b", Policy::session(SessionId(8), 0, 3))).unwrap();
    for session in [SessionId(7), SessionId(8)] {
        desk.decide(Action::CloseSession { session, reason: Reason::SessionExpired }).unwrap();
    }
    desk.restart();
    assert_eq!(desk.liveness.session_count(), 0);
    assert_eq!(desk.view(lease).deadline, Some(Tick(30)));
    desk.advance_to(Tick(3));
    assert!(desk.is_live(other));
    desk.advance_to(Tick(4));
    assert!(!desk.is_live(other));
    desk.advance_to(Tick(31));
    assert_eq!(desk.view(lease).deadline, Some(Tick(90)), "revoked, and promised a full ttl at recovery");
    desk.advance_to(Tick(91));
    assert!(!desk.is_live(lease));
    assert_eq!(desk.liveness.next_deadline(), None);
}

#[test]
fn the_defaults_are_those_of_the_contract() {
    let config = LivenessConfig::default();
    assert_eq!(config.revoke_timeout_ms, 10_000);
    assert_eq!(config.restart_grace_ms_min, 5_000);
    assert_eq!(config.breaker.window_ms, 10_000);
    assert!((config.breaker.fraction - 0.5).abs() < f64::EPSILON);
    assert_eq!(config.breaker.holders_min, 20);
    assert_eq!(config.breaker.principals_min, 3);
    assert_eq!(config.breaker.hold_ms, 30_000);
}

/// Recovering twice in a row, or recovering what was just followed, differs only by the rule above.
#[test]
fn nothing_is_due_that_was_not_granted_again() {
    let mut desk = Desk::new(crate::script::seconds());
    for i in 0..50_u32 {
        let name = format!("r{i}");
        desk.grant(Grant::new(Bundle::one(&name), "a", Policy::heartbeat(10 + i, i))).unwrap();
    }
    for tick in (5..=500).step_by(5) {
        desk.advance_to(Tick(tick));
        desk.restart();
        desk.turn();
    }
    assert_eq!(desk.kernel.live_count(), 50, "a daemon that restarts ages nobody");
    desk.advance_to(Tick(1_000));
    assert_eq!(desk.kernel.live_count(), 0);
}
