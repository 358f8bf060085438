//! Sessions by hand: one heartbeat for all, what it answers, how it ends.

use crate::desk::Desk;
use crate::script::check;
use crate::script::seconds;
use expect_test::expect;

use tenure_kernel::*;

#[test]
fn one_heartbeat_renews_all_leases_of_the_session() {
    check(
        "0 open 7 ttl=90 grace=30
         0 grant r1 holder=a session=7
         0 grant r2 holder=a session=7
        80 beat 7
        90 standings
       169 standings
       170 wait
       175 standings
       180 beat 7
       180 standings",
        expect![[r#"
            0   open 7 ttl=90 grace=30 → valid 88
                  0 session 7 opened
            0   grant r1 holder=a session=7 → L1 valid 88
                  0 L1 granted r1 to a
            0   grant r2 holder=a session=7 → L2 valid 88
                  0 L2 granted r2 to a
            80  beat 7 → valid 88 margin 10 lsn 3 ended [] draining []
            90  standings → [L1 alive, L2 alive]
            169 standings → [L1 alive, L2 alive]
            170 wait
                170 ~ session 7 silent, seen 80, until 200
            175 standings → [L1 draining(silence), L2 draining(silence)]
            180 beat 7 → valid 88 margin – returned lsn 3 ended [] draining []
                180 ~ session 7 returned
            180 standings → [L1 alive, L2 alive]
        "#]],
    );
}

#[test]
fn a_silent_session_is_over_when_ttl_and_grace_have_passed() {
    check(
        "0 open 7 ttl=90 grace=30
         0 grant r1 holder=a session=7
         0 grant r2 holder=a session=7
        10 beat 7
        99 session 7
       100 wait
       100 session 7
       130 wait
       131 beat 7",
        expect![[r#"
            0   open 7 ttl=90 grace=30 → valid 88
                  0 session 7 opened
            0   grant r1 holder=a session=7 → L1 valid 88
                  0 L1 granted r1 to a
            0   grant r2 holder=a session=7 → L2 valid 88
                  0 L2 granted r2 to a
            10  beat 7 → valid 88 margin 80 lsn 3 ended [] draining []
            99  session 7 → alive seen 10 deadline 100 valid 0
            100 wait
                100 ~ session 7 silent, seen 10, until 130
            100 session 7 → draining(silence) seen 10 deadline 130 valid 0
            130 wait
                130 ~ session 7 over, grace 30, seen 10, promised until 100
                130 session 7 closed session_expired
                130 L1 revoked by daemon session_expired epoch 2
                130 L2 revoked by daemon session_expired epoch 2
                130 ~ L2 due for reclaim, PromiseOver
                130 L2 reclaimed session_expired PromiseOver r2 of a
                130 ~ L1 due for reclaim, PromiseOver
                130 L1 reclaimed session_expired PromiseOver r1 of a
            131 beat 7 → session_not_found
        "#]],
    );
}

#[test]
fn a_heartbeat_tells_what_was_lost_since_and_what_an_operator_drains() {
    check(
        "0 open 7 ttl=90 grace=30
         0 grant r1 holder=a session=7
         0 grant r2 holder=a session=7 life=20
         0 grant r3 holder=a session=7
         0 grant r4 holder=a session=7
         5 beat 7 seen=1
        10 revoke L1
        11 drain L3
        12 beat 7 seen=5
        21 beat 7 seen=6
        22 rebind L4 heartbeat ttl=90 grace=30
        23 beat 7 seen=0
        24 beat 7 seen=1
        25 revive L3
        26 beat 7",
        expect![[r#"
            0   open 7 ttl=90 grace=30 → valid 88
                  0 session 7 opened
            0   grant r1 holder=a session=7 → L1 valid 88
                  0 L1 granted r1 to a
            0   grant r2 holder=a session=7 life=20 → L2 valid 18
                  0 L2 granted r2 to a
            0   grant r3 holder=a session=7 → L3 valid 88
                  0 L3 granted r3 to a
            0   grant r4 holder=a session=7 → L4 valid 88
                  0 L4 granted r4 to a
            5   beat 7 seen=1 → valid 88 margin 85 lsn 5 ended [] draining []
            10  revoke L1
                 10 L1 revoked by root admin_force epoch 2
            11  drain L3
                 11 L3 draining
            12  beat 7 seen=5 → valid 88 margin 83 lsn 7 ended [L1 admin_force] draining [L3]
                 20 ~ L2 over max_lifetime, active since 0
                 20 L2 revoked by daemon max_lifetime epoch 2
            21  beat 7 seen=6 → valid 88 margin 81 lsn 8 ended [L2 max_lifetime] draining [L3]
            22  rebind L4 heartbeat ttl=90 grace=30 → valid 88
                 22 L4 rebound to a epoch 2
            23  beat 7 seen=0 → valid 88 margin 88 lsn 9 ended too many draining [L3]
            24  beat 7 seen=1 → valid 88 margin 89 lsn 9 ended [L1 admin_force, L2 max_lifetime, L4 rebalanced] draining [L3]
            25  revive L3
                 25 L3 revived
            26  beat 7 → valid 88 margin 88 lsn 10 ended [] draining []
        "#]],
    );
}

#[test]
fn a_deleted_session_releases_all_it_holds() {
    check(
        "0 open 7 ttl=90 grace=30
         0 grant r1 holder=a session=7
         0 grant r2 holder=a session=7 reserve=50
         0 grant r3 holder=a session=7
         5 revoke L3
        10 delete 7
        10 session 7
        10 beat 7
        10 delete 7
        90 wait",
        expect![[r#"
            0   open 7 ttl=90 grace=30 → valid 88
                  0 session 7 opened
            0   grant r1 holder=a session=7 → L1 valid 88
                  0 L1 granted r1 to a
            0   grant r2 holder=a session=7 reserve=50 → L2 valid –
                  0 L2 granted r2 to a until 50
            0   grant r3 holder=a session=7 → L3 valid 88
                  0 L3 granted r3 to a
            5   revoke L3
                  5 L3 revoked by root admin_force epoch 2
            10  delete 7
                 10 session 7 closed explicit
                 10 L1 released r1 of a
                 10 L2 released r2 of a
            10  session 7 → unknown
            10  beat 7 → session_not_found
            10  delete 7 → session_not_found
            90  wait
                 90 ~ L3 due for reclaim, PromiseOver
                 90 L3 reclaimed admin_force PromiseOver r3 of a
        "#]],
    );
}

#[test]
fn heartbeats_for_sessions_that_are_not_there() {
    check(
        "0 connect 7 grace=30
         0 beat 7
         0 beat 8
         0 session 7
         0 session 8
         0 grant r1 holder=a session=7
         0 beat 7",
        expect![[r#"
            0   connect 7 grace=30
            0   beat 7 → session_not_found
            0   beat 8 → session_not_found
            0   session 7 → alive seen 0 deadline – valid –
            0   session 8 → unknown
            0   grant r1 holder=a session=7 → L1 valid –
                  0 session 7 opened
                  0 L1 granted r1 to a
            0   beat 7 → no_liveness
        "#]],
    );
}

#[test]
fn a_connection_that_kept_nothing_leaves_nothing() {
    let mut desk = Desk::new(seconds());
    desk.connect(7, SessionKind::Connection, 30);
    desk.connect(7, SessionKind::Connection, 30);
    assert_eq!(desk.liveness.session_count(), 1);
    assert!(desk.liveness.connection_is_open(SessionId(7)));
    desk.disconnect(7);
    desk.disconnect(7);
    assert_eq!(desk.liveness.session_count(), 0);
    assert!(!desk.liveness.connection_is_open(SessionId(7)));
    assert_eq!(desk.liveness.next_deadline(), None);
    assert!(desk.happened.is_empty(), "{:?}", desk.happened);
}

#[test]
fn closing_twice_counts_from_the_first_close() {
    check(
        "0 connect 7 grace=30
         0 grant r1 holder=a session=7
        10 close 7
        20 close 7
        20 connect 7 grace=90
        21 show L1
        40 wait",
        expect![[r#"
            0   connect 7 grace=30
            0   grant r1 holder=a session=7 → L1 valid –
                  0 session 7 opened
                  0 L1 granted r1 to a
            10  close 7
                 10 ~ session 7 silent, seen 10, until 40
            20  close 7
            20  connect 7 grace=90
            21  show L1 → active draining(silence) seen 10 deadline 40 valid –
            40  wait
                 40 ~ session 7 over, grace 30, disconnected at 10
                 40 session 7 closed session_expired
                 40 L1 revoked by daemon session_expired epoch 2
                 40 ~ L1 due for reclaim, PromiseOver
                 40 L1 reclaimed session_expired PromiseOver r1 of a
        "#]],
    );
}

/// O(changes): a session heartbeat touches no lease, whatever their number.
#[test]
fn a_session_heartbeat_touches_no_lease() {
    let mut desk = Desk::new(seconds());
    desk.scan = false;
    desk.open_by_hand(7, 90, 30, "local");
    for i in 0..10_000 {
        desk.grant(Grant::new(Bundle::one(&format!("r{i}")), "a", Policy::session(SessionId(7), 90, 30)))
            .unwrap();
    }
    assert_eq!(desk.liveness.timer_count(), 1, "leases of a session have no timers of their own");
    for tick in 1..1_000 {
        desk.advance_to(Tick(tick));
        desk.session_heartbeat(7).unwrap();
        desk.turn();
    }
    assert_eq!(desk.liveness.timer_count(), 1);
    assert_eq!(desk.kernel.live_count(), 10_000);
    desk.advance_to(Tick(2_000));
    assert_eq!(desk.kernel.live_count(), 0);
    assert_eq!(desk.liveness.session_count(), 0);
    assert_eq!(desk.liveness.timer_count(), 0);
}
