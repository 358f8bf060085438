//! How leases end: sessions, pools, gates, notices, operators.

use crate::desk::{Desk, tell};
use expect_test::expect;
use tenure_engine::Answer;
use tenure_kernel::{GateReport, Reason, ReclaimGround, SessionId};

#[test]
fn closing_a_session_releases_all_it_holds_turn_by_turn() {
    let mut desk = Desk::new();
    desk.told = false;
    desk.play("holder: open 5\n settle");
    for n in 0..3000 {
        desk.play(&format!("g{n}: grant r/{n} session=5"));
    }
    desk.play("held: grant kept session=5\n settle\n bye: close 5\n turn\n turn");
    let live = desk.engine.kernel().live_count();
    assert!((1..3001).contains(&live), "{live} left after two turns");
    let mut turns = 2;
    while desk.engine.kernel().live_count() > 0 {
        desk.turn();
        if desk.flight.is_some() {
            desk.commit();
        }
        turns += 1;
        assert!(turns < 30);
    }
    desk.settle();
    assert!(matches!(desk.answers["bye"], Answer::Done { .. }));
    assert_eq!(desk.engine.counters().ends[0][Reason::Explicit as usize], 3001);
    assert!(desk.engine.kernel().session(SessionId(5)).is_none());
}

#[test]
fn a_silent_session_drains_then_its_leases_are_revoked() {
    expect![[r#"
        0      frame 1.1 at 1: session_opened
        0      holder <- done
        0      frame 1.2 at 2: granted, granted, granted
        0      one <- lease 2 active [a] one epoch 1 fence 2 valid 9949
        0      two <- lease 3 active [b] two epoch 1 fence 3 valid 9949
        0      kept <- lease 4 reserved [c] kept epoch 1 fence 4
        8000   holder <- renewed lsn 4 valid 9949 ended [] draining []
        18250  frame 1.3 at 5: note draining
        18500  sessions <- sessions [5 holder draining leases 3] at 5
        18500  one <- lease 2 active draining [a] one epoch 1 fence 2 valid 0
        22000  frame 1.4 at 6: session_closed, revoked, reclaimed, revoked, reclaimed
        22500  holder <- session_not_found
    "#]]
    .assert_eq(&tell(
        "holder: open 5 ttl=10000 grace=4000
         settle
         one: grant a session=5
         two: grant b session=5
         kept: grant c session=5 reserve=60000
         settle
         until 8000
         holder: beat 5
         settle
         until 18500
         sessions: sessions
         one: read one
         settle
         until 22500
         holder: beat 5
         settle",
    ));
}

/// Only ends of single leases were measured.
#[test]
fn how_late_a_session_ended_is_measured() {
    let mut desk = Desk::new();
    desk.told = false;
    desk.play(
        "hand: open 5 ttl=10000 grace=4000
         conn: connect 7
         settle
         c: grant c session=7 grace=2000
         settle
         until 1000
         conn: disconnect 7
         settle
         until 31000
         settle",
    );
    let lateness = &desk.engine.counters().expiry_lateness_ms;
    // The session by hand, and the two graces of the connection; nothing was late.
    assert_eq!((lateness.count(), lateness.sum()), (3, 0));
}

#[test]
fn a_session_heartbeat_tells_what_was_lost_since_it_last_looked() {
    expect![[r#"
        0      frame 1.1 at 1: session_opened
        0      holder <- done
        0      frame 1.2 at 2: granted, granted
        0      one <- lease 2 active [a] one epoch 1 fence 2 valid 89549
        0      two <- lease 3 active [b] two epoch 1 fence 3 valid 89549
        0      frame 1.3 at 4: revoked, draining
        0      admin <- lease 2 revoking (admin_force) [a] one epoch 2 fence 2
        0      admin <- lease 3 active drained [b] two epoch 1 fence 3 valid 89549
        0      holder <- renewed lsn 5 valid 89549 ended [2 admin_force] draining [3]
        0      holder <- renewed lsn 5 valid 89549 ended [] draining [3]
        0      elsewhere <- no_liveness
    "#]]
    .assert_eq(&tell(
        "holder: open 5
         settle
         one: grant a session=5
         two: grant b session=5
         settle
         admin: revoke one
         admin: drain two
         turn
         holder: beat 5 seen=3
         turn
         sync
         holder: beat 5 seen=4
         elsewhere: heartbeat two
         settle",
    ));
}

#[test]
fn recovery_goes_on_with_a_half_ended_session_and_pool() {
    let mut desk = Desk::new();
    desk.told = false;
    desk.play("holder: open 5\n admin: pool p size=2000\n settle");
    for n in 0..900 {
        desk.play(&format!("s{n}: grant s/{n} session=5\n p{n}: grant 1*p permanent at_once"));
    }
    desk.settle();
    desk.play("bye: close 5\n admin: remove p force\n turn\n sync\n sync");
    desk.restart();
    let left = desk.engine.kernel().live_count();
    assert!((1..1800).contains(&left), "{left} left when it stopped");
    desk.turn();
    desk.settle();
    assert_eq!(desk.engine.kernel().live_count(), 0);
    assert!(desk.engine.kernel().session(SessionId(5)).is_none());
    assert!(desk.engine.kernel().pool("p").is_none());
    let ends = desk.engine.counters().ends[0];
    assert_eq!(ends[Reason::Explicit as usize] + ends[Reason::PoolRemoved as usize], left as u64);
}

#[test]
fn a_pool_in_use_is_removed_only_with_force_and_then_its_leases_are_revoked() {
    expect![[r#"
        0      frame 1.1 at 1: pool_defined
        0      admin <- done
        0      frame 1.2 at 2: granted, granted
        0      one <- lease 2 active [p/1, p/2] one epoch 1 fence 2 valid 19899
        0      two <- lease 3 active [p/3, other] two epoch 1 fence 3 valid 19899
        0      admin <- pool_in_use
        0      frame 1.3 at 4: pool_removed
        0      admin <- done
        0      frame 1.4 at 5: revoked, revoked
        0      three <- pool_not_found
        0      pools <- pools [p 0/3 removed] at 6
        20000  frame 1.5 at 7: reclaimed, reclaimed
        20000  pools <- pools [] at 8
    "#]]
    .assert_eq(&tell(
        "admin: pool p size=3
         settle
         one: grant 2*p ttl=20000
         two: grant p/3,other ttl=20000
         settle
         admin: remove p
         settle
         admin: remove p force
         settle
         pools: pools
         three: grant 1*p
         settle
         until 20000
         pools: pools
         settle",
    ));
}

#[test]
fn a_gate_opens_once_its_revoke_is_durable_and_reclaim_waits_for_it() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1
        0      frame 1.2 at 2: revoked, note gate_opened
        500    gate of lease 1
        500    admin <- lease 1 revoking (admin_force) [a] alice epoch 2 fence 1
        500    admin <- not_yet: 9500 ms
        1000   frame 1.3 at 4: reclaimed
    "#]]
    .assert_eq(&tell(
        "alice: grant a permanent gate at_once
         settle
         admin: revoke alice
         turn
         +500
         sync
         admin: reclaim alice
         settle
         +500
         mdns: gate alice
         settle
         mdns: gate alice
         settle",
    ));
}

#[test]
fn a_gate_times_out_after_10_s_and_the_reclaim_says_so() {
    let mut desk = Desk::new();
    desk.play(
        "watch: watch
         alice: grant a permanent gate at_once
         bob: grant b permanent gate at_once
         settle
         admin: revoke alice
         admin: revoke bob
         settle
         watch: more watch
         mdns: gate bob
         settle
         until 9999
         list: list
         settle
         until 10000
         list: list
         settle",
    );
    expect![[r#"
        0      watch <- watching from 1
        0      frame 1.1 at 1: granted, granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1
        0      bob <- lease 2 active [b] bob epoch 1 fence 2
        0      frame 1.2 at 3: revoked, note gate_opened, revoked, note gate_opened
        0      gate of lease 1
        0      admin <- lease 1 revoking (admin_force) [a] alice epoch 2 fence 1
        0      gate of lease 2
        0      admin <- lease 2 revoking (admin_force) [b] bob epoch 2 fence 2
        0      push to watch: 1 granted, 2 granted, 3 revoked, 4 gate_opened, 5 revoked, 6 gate_opened
        0      frame 1.3 at 7: reclaimed
        0      push to watch: 7 reclaimed
        9999   list <- leases [1] at 7
        10000  frame 1.4 at 8: reclaimed
        10000  push to watch: 8 reclaimed
        10000  list <- leases [] at 8
    "#]]
    .assert_eq(&desk.take_story());
    assert_eq!(
        reports(&desk),
        [(GateReport::Confirmed, ReclaimGround::AtOnce), (GateReport::TimedOut, ReclaimGround::AtOnce)]
    );
    assert_eq!(desk.engine.counters().gates_timed_out, 1);
}

/// How the reclaims that a watcher saw came about.
fn reports(desk: &Desk) -> Vec<(GateReport, ReclaimGround)> {
    let events = desk.pushes.iter().filter_map(|push| match push {
        tenure_engine::Push::Events { events, .. } => Some(events),
        _ => None,
    });
    let changes = events.flatten().filter_map(|event| match &event.news {
        tenure_engine::News::Event(event) => Some(&event.change),
        tenure_engine::News::Note(_) => None,
    });
    let reclaims = changes.filter_map(|change| match change {
        tenure_kernel::Change::Reclaimed(reclaimed) => Some((reclaimed.gate, reclaimed.ground)),
        _ => None,
    });
    reclaims.collect()
}

#[test]
fn recovery_runs_the_gate_of_every_revoking_lease_again() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1
        0      frame 1.2 at 2: revoked, note gate_opened
        0      gate of lease 1
        0      admin <- lease 1 revoking (admin_force) [a] alice epoch 2 fence 1
        0      frame 2.1 at 4: note restarted, note gate_opened
        0      gate of lease 1
        0      frame 2.2 at 6: reclaimed
    "#]]
    .assert_eq(&tell(
        "alice: grant a permanent gate at_once
         settle
         admin: revoke alice
         settle
         +500
         settle
         restart
         turn
         sync
         mdns: gate alice
         settle
         restart
         turn",
    ));
}

#[test]
fn a_notice_is_sent_once_its_end_is_durable_settled_once_and_sent_again_after_recovery() {
    expect![[r#"
        0      frame 1.1 at 1: granted, granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      bob <- lease 2 reserved [b] bob epoch 1 fence 2
        0      frame 1.2 at 3: released
        500    notice of lease 1, ended at 3
        500    alice <- lease 1 released (explicit) epoch 2
        500    frame 1.3 at 4: notified
        1000   frame 1.4 at 5: expired
        1000   notice of lease 2, ended at 5
        1000   notice of lease 2, ended at 5
        1000   frame 2.1 at 6: notified
    "#]]
    .assert_eq(&tell(
        "alice: grant a notice
         bob: grant b reserve=1000 notice
         settle
         alice: release alice
         turn
         +500
         sync
         hook: notified alice
         settle
         hook: notified alice
         settle
         until 1000
         restart
         turn
         hook: notified bob
         settle
         restart
         turn",
    ));
}

#[test]
fn a_notice_is_given_up_after_24_h_even_if_nothing_else_happens() {
    let mut desk = Desk::new();
    desk.play(
        "alice: grant a notice
         bob: grant b notice
         settle
         alice: release alice
         settle
         until 1000
         bob: release bob
         settle
         until 86399999",
    );
    assert_eq!(desk.engine.counters().notices_given_up, 0);
    desk.play("until 86401000");
    assert_eq!(desk.engine.counters().notices_given_up, 2);
    desk.play("wake");
    expect![[r#"
        0      frame 1.1 at 1: granted, granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      bob <- lease 2 active [b] bob epoch 1 fence 2 valid 89549
        0      frame 1.2 at 3: released
        0      notice of lease 1, ended at 3
        0      alice <- lease 1 released (explicit) epoch 2
        1000   frame 1.3 at 4: released
        1000   notice of lease 2, ended at 4
        1000   bob <- lease 2 released (explicit) epoch 2
        86400000 frame 1.4 at 5: notified
        86400000 report: NoticeGivenUp { lease: LeaseId(1) }
        86401000 frame 1.5 at 6: notified
        86401000 report: NoticeGivenUp { lease: LeaseId(2) }
        86401000 nothing to wake for
    "#]]
    .assert_eq(&desk.take_story());
}

#[test]
fn a_clock_set_forward_by_more_than_a_day_silences_no_notice() {
    let mut desk = Desk::new();
    desk.play(
        "alice: grant a notice
         settle
         alice: release alice
         settle
         wall 90000000
         turn
         settle
         until 1000
         wall 90000000
         down 1000
         turn
         settle
         until 2000",
    );
    assert_eq!(desk.engine.counters().notices_given_up, 0);
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      frame 1.2 at 2: released
        0      notice of lease 1, ended at 2
        0      alice <- lease 1 released (explicit) epoch 2
        0      notice of lease 1, ended at 2
    "#]]
    .assert_eq(&desk.take_story());
}

#[test]
fn pending_notices_beyond_their_bound_refuse_grants_that_ask_for_one() {
    let mut config = tenure_engine::EngineConfig::default();
    config.limits.notices_max = 1;
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 89549
        0      frame 1.2 at 2: released
        0      notice of lease 1, ended at 2
        0      alice <- lease 1 released (explicit) epoch 2
        0      bob <- capacity_exceeded
        0      frame 1.3 at 3: granted
        0      carol <- lease 3 active [b] carol epoch 1 fence 3 valid 89549
        0      frame 1.4 at 4: notified
        0      frame 1.5 at 5: granted
        0      bob <- lease 5 active [c] bob epoch 1 fence 5 valid 89549
    "#]]
    .assert_eq(&crate::desk::tell_with(
        config,
        "alice: grant a notice
         settle
         alice: release alice
         settle
         bob: grant b notice
         carol: grant b
         settle
         hook: notified alice
         settle
         bob: grant c notice
         settle",
    ));
}

#[test]
fn a_connection_is_told_what_it_lost_and_its_acknowledgement_speeds_reclaim() {
    expect![[r#"
        0      alice <- done
        0      frame 1.1 at 1: session_opened, granted, granted
        0      one <- lease 2 active [a] one epoch 1 fence 2
        0      two <- lease 3 active [b] two epoch 1 fence 3
        0      frame 1.2 at 4: revoked, revoked
        0      push to 7: lost lease 2 epoch 2 admin_force
        0      admin <- lease 2 revoking (admin_force) [a] one epoch 2 fence 2
        0      push to 7: lost lease 3 epoch 2 admin_force
        0      admin <- lease 3 revoking (admin_force) [b] two epoch 2 fence 3
        500    alice <- lease 2 revoking (admin_force) [a] one epoch 2 fence 2
        500    frame 1.3 at 6: reclaimed
        9999   left <- leases [3] at 6
        10000  frame 1.4 at 7: reclaimed
        10000  left <- leases [] at 7
    "#]]
    .assert_eq(&tell(
        "alice: connect 7
         one: grant a session=7
         two: grant b session=7
         settle
         admin: revoke one
         admin: revoke two
         turn
         sync
         +500
         alice: acknowledge one epoch=1
         settle
         until 9999
         left: list
         settle
         until 10000
         left: list
         settle",
    ));
}

#[test]
fn reclaim_stops_waiting_for_a_connection_that_closes() {
    expect![[r#"
        0      alice <- done
        0      frame 1.1 at 1: session_opened, granted
        0      one <- lease 2 active [a] one epoch 1 fence 2
        0      frame 1.2 at 3: revoked
        0      push to 7: lost lease 2 epoch 2 admin_force
        0      admin <- lease 2 revoking (admin_force) [a] one epoch 2 fence 2
        500    frame 1.3 at 4: note draining, reclaimed
    "#]]
    .assert_eq(&tell(
        "alice: connect 7
         one: grant a session=7
         settle
         admin: revoke one
         settle
         +500
         alice: disconnect 7
         settle",
    ));
}

#[test]
fn a_connection_session_is_logged_with_its_first_grant_and_only_if_that_is_granted() {
    expect![[r#"
        0      alice <- done
        0      alice <- session_exists
        0      frame 1.1 at 1: granted
        0      other <- lease 1 active [b] other epoch 1 fence 1 valid 89549
        0      alice <- resource_held: b by lease 1 of other
        0      sessions <- sessions [] at 1
        0      frame 1.2 at 2: session_opened, granted
        0      alice <- lease 3 active [a] alice epoch 1 fence 3
        0      frame 1.3 at 4: granted
        0      alice <- lease 4 active [c] alice epoch 1 fence 4
        0      nobody <- session_not_found
        0      sessions <- sessions [7 alice alive leases 2] at 4
    "#]]
    .assert_eq(&tell(
        "other: grant b
         alice: connect 7
         alice: connect 7
         settle
         alice: grant b session=7
         settle
         sessions: sessions
         settle
         alice: grant a session=7
         settle
         alice: grant c session=7
         settle
         sessions: sessions
         nobody: grant d session=8
         settle",
    ));
}

#[test]
fn the_leases_of_a_closed_connection_end_by_their_own_graces() {
    expect![[r#"
        0      alice <- done
        0      frame 1.1 at 1: session_opened, granted, granted
        0      short <- lease 2 active [a] short epoch 1 fence 2
        0      long <- lease 3 active [b] long epoch 1 fence 3
        0      alice <- renewed
        0      alice <- no_liveness
        250    frame 1.2 at 4: note draining
        1000   frame 1.3 at 5: revoked, reclaimed
        3000   new <- done
        3000   frame 1.4 at 7: session_opened, rebound
        3000   resumed <- lease 3 active [b] resumed epoch 2 fence 8
        5000   frame 1.5 at 9: session_closed
        10000  sessions <- sessions [8 new alive leases 1] at 9
        10000  list <- leases [3] at 9
    "#]]
    .assert_eq(&tell(
        "alice: connect 7 grace=5000
         short: grant a session=7 grace=1000
         long: grant b session=7 grace=5000
         settle
         alice: heartbeat short via=7
         alice: heartbeat short
         settle
         alice: disconnect 7
         settle
         until 3000
         new: connect 8
         resumed: rebind long session=8 grace=5000
         settle
         until 10000
         sessions: sessions
         list: list
         settle",
    ));
}

#[test]
fn an_operator_reclaims_only_when_it_is_safe_unless_forced() {
    expect![[r#"
        0      frame 1.1 at 1: granted, granted, granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 4974
        0      bob <- lease 2 active [b] bob epoch 1 fence 2 valid 4974
        0      carol <- lease 3 active [c] carol epoch 1 fence 3 valid 4974
        0      frame 1.2 at 4: revoked, revoked, revoked
        0      admin <- lease 1 revoking (admin_force) [a] alice epoch 2 fence 1
        0      admin <- lease 2 revoking (admin_force) [b] bob epoch 2 fence 2
        0      admin <- lease 3 revoking (admin_force) [c] carol epoch 2 fence 3
        0      admin <- not_yet: 5000 ms
        0      admin <- not_yet: 8000 ms
        0      frame 1.3 at 7: reclaimed
        0      admin <- lease 3 revoked (admin_force) epoch 2
        5000   frame 1.4 at 8: reclaimed
        5000   admin <- lease 1 revoked (admin_force) epoch 2
        5000   admin <- not_yet: 3000 ms
        8000   frame 1.5 at 9: reclaimed
        8000   admin <- lease 2 revoked (admin_force) epoch 2
    "#]]
    .assert_eq(&tell(
        "alice: grant a ttl=5000
         bob: grant b ttl=5000 delay=8000
         carol: grant c ttl=5000
         settle
         admin: revoke alice keep
         admin: revoke bob keep
         admin: revoke carol keep
         settle
         admin: reclaim alice
         admin: reclaim bob
         admin: reclaim carol force
         settle
         until 5000
         admin: reclaim alice
         admin: reclaim bob
         settle
         until 8000
         admin: reclaim bob
         settle",
    ));
}

#[test]
fn revoke_and_reclaim_share_a_frame_when_nothing_stands_in_the_way() {
    expect![[r#"
        0      frame 1.1 at 1: granted, granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1
        0      bob <- lease 2 reserved [b] bob epoch 1 fence 2
        0      frame 1.2 at 3: revoked, reclaimed, revoked, reclaimed, granted
        0      admin <- lease 1 revoked (admin_force) epoch 2 fence 1
        0      admin <- lease 2 revoked (admin_force) epoch 2 fence 2
        0      waiter <- lease 7 active [a] waiter epoch 1 fence 7 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant a permanent at_once
         bob: grant b reserve=60000
         settle
         waiter: grant a wait=60000
         settle
         admin: revoke alice
         admin: revoke bob
         settle",
    ));
}

#[test]
fn reclaim_waits_for_the_promise_whatever_ended_the_lease() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 4974
        4000   alice <- renewed valid 4974 left 5000
        4000   frame 1.2 at 2: revoked
        4000   admin <- lease 1 revoking (admin_force) [a] alice epoch 2 fence 1
        4000   alice <- stale_epoch: current 2
        9000   frame 1.3 at 3: reclaimed
    "#]]
    .assert_eq(&tell(
        "alice: grant a ttl=5000 life=60000
         settle
         until 4000
         alice: heartbeat alice
         settle
         admin: revoke alice
         settle
         alice: heartbeat alice epoch=1
         settle
         until 9000",
    ));
}

#[test]
fn a_lease_ends_by_its_longest_lifetime_however_alive_its_holder_is() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 4974
        4000   alice <- renewed valid 2984 left 3000
        7000   frame 1.2 at 2: revoked, reclaimed
    "#]]
    .assert_eq(&tell(
        "alice: grant a ttl=5000 life=7000
         settle
         until 4000
         alice: heartbeat alice
         settle
         until 7000",
    ));
}

#[test]
fn an_operator_drain_is_sticky_and_ends_by_its_grace() {
    expect![[r#"
        0      frame 1.1 at 1: granted, granted, granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 4974
        0      bob <- lease 2 active [b] bob epoch 1 fence 2 valid 4974
        0      perm <- lease 3 active [c] perm epoch 1 fence 3
        0      frame 1.2 at 4: draining, draining
        0      admin <- lease 1 active drained [a] alice epoch 1 fence 1 valid 4974
        0      admin <- lease 2 active drained [b] bob epoch 1 fence 2 valid 4974
        0      admin <- permanent_lease
        0      admin <- already_draining
        0      admin <- not_draining
        3000   alice <- renewed valid 1989 left 2000 draining
        3000   frame 1.3 at 6: revived
        3000   admin <- lease 2 active [b] bob epoch 1 fence 2 valid 1989
        5000   frame 1.4 at 7: revoked, reclaimed
        5000   alice <- invalid_state: revoked
        5000   bob <- renewed valid 4974 left 5000
    "#]]
    .assert_eq(&tell(
        "alice: grant a ttl=5000 grace=2000
         bob: grant b ttl=5000 grace=2000
         perm: grant c permanent
         settle
         admin: drain alice
         admin: drain bob
         admin: drain perm
         settle
         admin: drain alice
         admin: revive perm
         settle
         until 3000
         alice: heartbeat alice
         admin: revive bob
         settle
         until 5000
         alice: heartbeat alice
         bob: heartbeat bob
         settle",
    ));
}

#[test]
fn an_operator_revives_a_lease_that_fell_silent() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 4974
        5250   frame 1.2 at 2: note draining
        6000   admin <- already_draining
        6000   frame 1.3 at 3: revived
        6000   admin <- lease 1 active [a] alice epoch 1 fence 1 valid 0
        6000   admin <- not_draining
    "#]]
    .assert_eq(&tell(
        "alice: grant a ttl=5000 grace=20000
         settle
         until 6000
         admin: drain alice
         admin: revive alice
         settle
         admin: revive alice
         settle",
    ));
}

#[test]
fn a_take_over_needs_a_lease_that_drains() {
    expect![[r#"
        0      frame 1.1 at 1: granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 4974
        0      thief <- resource_held: a by lease 1 of alice
        5000   frame 1.2 at 2: note draining, rebound
        5000   heir <- lease 1 active [a] heir epoch 2 fence 3 valid 89549
    "#]]
    .assert_eq(&tell(
        "alice: grant a ttl=5000 grace=20000
         settle
         thief: grant a over=alice
         settle
         until 5000
         heir: grant a over=alice
         settle",
    ));
}

#[test]
fn a_lease_is_not_taken_over_from_an_open_connection_that_an_operator_drained_it_under() {
    expect![[r#"
        0      conn <- done
        0      frame 1.1 at 1: session_opened, granted
        0      carol <- lease 2 active [c] carol epoch 1 fence 2
        0      frame 1.2 at 3: draining
        0      admin <- lease 2 active drained [c] carol epoch 1 fence 2
        0      thief <- resource_held: c by lease 2 of carol
        0      frame 1.3 at 4: note draining, rebound
        0      heir <- lease 2 active drained [c] heir epoch 2 fence 5 valid 994
    "#]]
    .assert_eq(&tell(
        "conn: connect 7 grace=1000
         carol: grant c session=7 via=7 grace=1000
         settle
         admin: drain carol
         settle
         thief: grant c over=carol
         settle
         conn: disconnect 7
         heir: grant c over=carol
         settle",
    ));
}

#[test]
fn downtime_ages_nobody() {
    expect![[r#"
        0      conn <- done
        0      frame 1.1 at 1: granted, session_opened, granted
        0      alice <- lease 1 active [a] alice epoch 1 fence 1 valid 4974
        0      carol <- lease 3 active [c] carol epoch 1 fence 3
        0      frame 2.1 at 4: note restarted
        0      list <- leases [1, 3] at 4
        5000   frame 2.2 at 5: note draining, session_closed, revoked, reclaimed
        7000   frame 2.3 at 9: revoked, reclaimed
        9500   alice <- invalid_state: revoked
    "#]]
    .assert_eq(&tell(
        "alice: grant a ttl=5000 grace=2000
         conn: connect 7 grace=1000
         carol: grant c session=7 grace=1000
         settle
         until 4000
         down 3600000
         list: list
         settle
         until 9500
         alice: heartbeat alice
         settle
         until 12000",
    ));
}
