//! The edges of time: slots used again, storms, months, and the end of the clock.

use crate::desk::{Desk, Happened};
use crate::script::seconds;
use tenure_kernel::*;
use tenure_liveness::*;

const DAY: u64 = 24 * 60 * 60 * 1000;

fn grant(desk: &mut Desk, name: &str, policy: Policy) -> LeaseId {
    desk.grant(Grant::new(Bundle::one(name), "a", policy)).unwrap().0
}

fn revoked(desk: &Desk) -> Vec<(u64, LeaseId, Reason)> {
    let revoked = desk.happened.iter().filter_map(|happened| match happened {
        Happened::Event(at, Event { change: Change::Revoked(revoked), .. }) => {
            Some((at.tick.0, revoked.lease, revoked.reason))
        }
        _ => None,
    });
    revoked.collect()
}

#[test]
fn a_lease_in_a_used_slot_does_not_inherit_timers() {
    let mut desk = Desk::new(seconds());
    for round in 0..50 {
        let lease = grant(&mut desk, "r", Policy::heartbeat(100 + round, 10));
        let slot = desk.kernel.live(lease).unwrap().slot();
        assert_eq!(slot, LeaseSlot(0), "the slot is used again");
        desk.advance_to(Tick(u64::from(round) + 1));
        if round < 49 {
            desk.release(lease, Epoch(1)).unwrap();
        }
    }
    // Fifty timers come due from 100 on; only the last lease's own counts.
    let last = *desk.granted.last().unwrap();
    desk.advance_to(Tick(197));
    assert_eq!(desk.liveness.timer_count(), 1, "the others fired and were nobody's");
    desk.advance_to(Tick(1_000));
    assert_eq!(revoked(&desk), [(49 + 149 + 10, last, Reason::HeartbeatExpired)]);
}

#[test]
fn a_permanent_lease_in_a_used_slot_outlives_all_timers() {
    let mut desk = Desk::new(seconds());
    let first = grant(&mut desk, "r", Policy::heartbeat(10, 10));
    desk.release(first, Epoch(1)).unwrap();
    let second = grant(&mut desk, "r", Policy { grace_ms: 5, ..Policy::permanent() });
    desk.advance_to(Tick(1_000));
    assert!(desk.is_live(second));
    assert_eq!(desk.liveness.timer_count(), 0);
}

#[test]
fn a_reserved_lease_in_a_used_slot_inherits_nothing() {
    let mut desk = Desk::new(seconds());
    let first = grant(&mut desk, "r", Policy::heartbeat(10, 10));
    desk.drain(first).unwrap();
    desk.release(first, Epoch(1)).unwrap();
    let mut reserve = Grant::new(Bundle::one("r"), "a", Policy::heartbeat(10, 10));
    reserve.start = Start::Reserved { ttl_ms: 500 };
    let (second, _) = desk.grant(reserve).unwrap();
    assert_eq!(desk.view(second), LivenessView { deadline: Some(Tick(500)), ..LivenessView::UNKNOWN });
    desk.advance_to(Tick(499));
    assert!(desk.is_live(second));
    desk.advance_to(Tick(501));
    assert!(!desk.is_live(second));
}

#[test]
fn a_session_in_a_used_slot_does_not_inherit_timers() {
    let mut desk = Desk::new(seconds());
    for round in 0..20 {
        desk.open_by_hand(round, 100, 10, "local");
        desk.advance_to(Tick(round + 1));
        desk.delete_session(round).unwrap();
    }
    desk.open_by_hand(77, 500, 10, "local");
    desk.session_heartbeat(77).unwrap();
    desk.happened.clear();
    desk.advance_to(Tick(520));
    assert_eq!(desk.happened, []);
    assert_eq!(desk.liveness.session_count(), 1);
    desk.advance_to(Tick(531));
    assert_eq!(desk.liveness.session_count(), 0);
}

#[test]
fn heartbeat_storms_arm_no_timers() {
    let mut desk = Desk::new(seconds());
    let leases: Vec<LeaseId> =
        (0..10).map(|i| grant(&mut desk, &format!("r{i}"), Policy::heartbeat(90, 30))).collect();
    desk.open_by_hand(7, 90, 30, "local");
    assert_eq!(desk.liveness.timer_count(), 11);
    for tick in 0..2_000 {
        desk.advance_to(Tick(tick));
        for _ in 0..10 {
            leases.iter().for_each(|lease| assert!(desk.heartbeat(*lease, None, None).is_ok()));
            desk.session_heartbeat(7).unwrap();
        }
        desk.turn();
        assert_eq!(desk.liveness.timer_count(), 11);
    }
}

#[test]
fn forty_nine_days_and_a_year() {
    let mut desk = Desk::new(LivenessConfig::default());
    let day = DAY as u32;
    let heartbeat = grant(&mut desk, "r1", Policy::heartbeat(day, 3_600_000));
    let year = grant(&mut desk, "r2", Policy { max_lifetime_ms: 365 * DAY, ..Policy::permanent() });
    let month = grant(&mut desk, "r3", Policy { max_lifetime_ms: 50 * DAY, ..Policy::heartbeat(day, 1_000) });
    desk.open_by_hand(7, day, 1_000, "local");
    let by_hand = grant(&mut desk, "r4", Policy::session(SessionId(7), day, 1_000));
    for hour in 1..24 * 60 {
        desk.advance_to(Tick(hour * 3_600_000));
        desk.heartbeat(heartbeat, None, None).unwrap();
        desk.session_heartbeat(7).unwrap();
        if desk.is_live(month) {
            desk.heartbeat(month, None, None).unwrap();
        }
        desk.turn();
    }
    assert_eq!(revoked(&desk), [(50 * DAY, month, Reason::MaxLifetime)]);
    assert!(desk.is_live(by_hand));
    let last = (24 * 60 - 1) * 3_600_000;
    desk.advance_to(Tick(366 * DAY));
    let ends = revoked(&desk);
    assert_eq!(
        ends[1..],
        [
            (last + DAY + 1_000, by_hand, Reason::SessionExpired),
            (last + DAY + 3_600_000, heartbeat, Reason::HeartbeatExpired),
            (365 * DAY, year, Reason::MaxLifetime),
        ]
    );
    assert_eq!(desk.liveness.next_deadline(), None);
    assert_eq!(desk.liveness.timer_count(), 0);
}

/// A year of sleep in one step, and a lease that began at a late tick.
#[test]
fn a_leap_over_every_horizon_acts_on_all_that_was_due() {
    let mut desk = Desk::starting_at(LivenessConfig::default(), Tick(1 << 45));
    let lease = grant(&mut desk, "r1", Policy { max_lifetime_ms: 300 * DAY, ..Policy::permanent() });
    let other = grant(&mut desk, "r2", Policy::heartbeat(1_000, 0));
    desk.now = Tick((1 << 45) + 1_000 * DAY);
    desk.turn();
    let now = desk.now.0;
    let mut ends = revoked(&desk);
    ends.sort_by_key(|end| end.1);
    assert_eq!(ends, [(now, lease, Reason::MaxLifetime), (now, other, Reason::HeartbeatExpired)]);
}

#[test]
fn the_end_of_time_does_not_overflow() {
    for before in [0, 1, 5, 63, 64, 1_000, 1 << 20, (1 << 32) + 7] {
        let mut desk = Desk::starting_at(LivenessConfig::default(), Tick(u64::MAX - before));
        let most = u32::MAX;
        let mut policy = Policy::heartbeat(most, most);
        policy.max_lifetime_ms = u64::MAX;
        policy.reclaim_delay_ms = most;
        let lease = grant(&mut desk, "r1", policy.clone());
        desk.open_by_hand(7, most, most, "local");
        grant(&mut desk, "r2", Policy::session(SessionId(7), most, most));
        desk.connect(8, SessionKind::Connection, most);
        let kept = grant(&mut desk, "r3", Policy::session(SessionId(8), 0, most));
        let permanent = grant(&mut desk, "r4", Policy { reclaim_delay_ms: most, ..Policy::permanent() });
        grant(&mut desk, "r5", Policy::heartbeat(1, 1));
        grant(&mut desk, "r6", policy);
        desk.heartbeat(lease, None, None).unwrap();
        desk.session_heartbeat(7).unwrap();
        desk.drain(lease).unwrap();
        desk.drain(kept).unwrap();
        desk.revoke(permanent, ReclaimBy::Daemon).unwrap();
        if before == 0 {
            // Everything is due at the last tick there is.
            desk.turn();
        }
        for left in [before / 2, 1, 0].into_iter().filter(|left| *left < before) {
            desk.advance_to(Tick(u64::MAX - left));
            for lease in desk.kernel.leases_from(LeaseId(0)) {
                let view = desk.liveness.view(lease, desk.now);
                assert!(view.valid_ms.is_none_or(|valid| valid <= before));
            }
        }
        if before > 100 {
            desk.restart();
        }
        desk.disconnect(8);
    }
}

#[test]
fn room_bounds_the_effects_of_one_call_and_loses_none() {
    for room in [1, 2, 3, 7] {
        let mut desk = Desk::new(seconds());
        desk.room = room;
        for i in 0..40 {
            grant(&mut desk, &format!("r{i}"), Policy::heartbeat(10, 5));
        }
        desk.open_by_hand(7, 10, 5, "local");
        grant(&mut desk, "s", Policy::session(SessionId(7), 10, 5));
        desk.now = Tick(10);
        let mut effects = Vec::new();
        desk.liveness.on_deadline(&desk.kernel, desk.now, room, &mut 1_000, &mut effects);
        assert_eq!(effects.len(), room);
        assert!(desk.liveness.next_deadline().is_some_and(|next| next <= desk.now), "more is due");
        desk.turn();
        desk.advance_to(Tick(16));
        assert_eq!(revoked(&desk).len(), 41);
        assert_eq!(desk.kernel.live_count(), 0);
    }
}

#[test]
fn no_room_does_nothing() {
    let mut desk = Desk::new(seconds());
    grant(&mut desk, "r", Policy::heartbeat(10, 5));
    let mut effects = Vec::new();
    for (room, mut looks) in [(0, 1_000), (1_000, 0)] {
        desk.liveness.on_deadline(&desk.kernel, Tick(100), room, &mut looks, &mut effects);
        assert_eq!(effects, []);
        assert_eq!(desk.liveness.timer_count(), 1);
        assert!(desk.liveness.next_deadline().is_some_and(|next| next <= Tick(100)));
    }
}

// After a restart all leases of one ttl have one deadline: one call looked at all of them, though none was silent.
#[test]
fn looks_bound_one_call_and_those_left_are_due() {
    let mut desk = Desk::new(seconds());
    desk.scan = false;
    let leases: Vec<LeaseId> =
        (0..500).map(|i| grant(&mut desk, &format!("r{i}"), Policy::heartbeat(90, 30))).collect();
    desk.restart();
    desk.advance_to(Tick(60));
    leases.iter().for_each(|lease| assert!(desk.heartbeat(*lease, None, None).is_ok()));
    desk.now = Tick(90);
    let (mut calls, mut effects) = (0, Vec::new());
    while desk.liveness.next_deadline().is_some_and(|next| next <= desk.now) {
        let mut looks = 20;
        desk.liveness.on_deadline(&desk.kernel, desk.now, usize::MAX, &mut looks, &mut effects);
        assert_eq!(effects, []);
        // Served in between, and not among those still to be looked at by mistake.
        assert!(desk.heartbeat(leases[calls], None, None).is_ok());
        calls += 1;
    }
    assert!((25..100).contains(&calls), "{calls} calls for {} leases", leases.len());
    desk.advance_to(Tick(150));
    assert_eq!(desk.happened.iter().filter(|happened| matches!(happened, Happened::Effect(..))).count(), 0);
    desk.turn();
    let silent = desk.happened.iter().filter(|happened| matches!(happened, Happened::Effect(..))).count();
    assert_eq!(silent, leases.len() - calls, "silent to the tick, but for those that spoke since");
}

/// Thousands end at one deadline, none before.
#[test]
fn a_storm_ends_together() {
    let mut desk = Desk::new(seconds());
    desk.scan = false;
    for i in 0..20_000 {
        grant(&mut desk, &format!("r{i}"), Policy::heartbeat(90, 0));
    }
    desk.advance_to(Tick(90));
    assert_eq!(revoked(&desk), []);
    desk.turn();
    assert_eq!(desk.kernel.live_count(), 0);
    assert_eq!(desk.liveness.timer_count(), 0);
}

/// A wheel that has not been asked for a while looks less far ahead: what it wakes early for is not due.
#[test]
fn an_early_wake_ends_nothing() {
    let most = u32::MAX;
    let begin = 50_000;
    let end = begin + u64::from(most);
    let mut desk = Desk::new(seconds());
    desk.now = Tick(begin);
    let drained = grant(&mut desk, "r1", Policy::heartbeat(10, most));
    desk.drain(drained).unwrap();
    let revoking = grant(&mut desk, "r2", Policy { reclaim_delay_ms: most, ..Policy::permanent() });
    desk.revoke(revoking, ReclaimBy::Daemon).unwrap();
    let silent = grant(&mut desk, "r3", Policy::heartbeat(most, 0));
    desk.open_by_hand(7, most, 0, "local");
    let by_hand = grant(&mut desk, "r4", Policy::session(SessionId(7), most, 0));
    desk.connect(8, SessionKind::Connection, most);
    let kept = grant(&mut desk, "r5", Policy::session(SessionId(8), 0, most));
    desk.disconnect(8);
    let old = grant(&mut desk, "r6", Policy { max_lifetime_ms: most.into(), ..Policy::permanent() });
    desk.happened.clear();
    desk.advance_to(Tick(end));
    assert_eq!(desk.happened, []);
    desk.turn();
    let mut ended: Vec<LeaseId> = revoked(&desk).into_iter().map(|(_, lease, _)| lease).collect();
    ended.sort();
    assert_eq!(ended, [drained, silent, by_hand, kept, old]);
    assert!(!desk.is_live(revoking));
}

/// Grants and releases with a ttl of a day once left a timer each, until that day was over.
#[test]
fn timers_of_ended_leases_do_not_pile_up() {
    let mut kernel = Kernel::new(Setup::plain());
    let mut liveness = Liveness::new(LivenessConfig::default(), Tick(0));
    let mut lsn = 0;
    for round in 0..20_000_u64 {
        let tick = Tick(round);
        let policy = Policy::heartbeat(86_400_000, 30_000);
        let grant = Command::plain(Action::Grant(Grant::new(Bundle::one("r"), "h", policy)));
        lsn += 1;
        let at = Stamp { lsn: Lsn(lsn), tick };
        let Ok(Decision::Event(event)) = kernel.decide(at, &grant) else { panic!("not granted") };
        kernel.evolve(at, &event);
        liveness.follow(&kernel, at, &event);
        let lease = LeaseId::new(0, Lsn(lsn));
        let token = Token::new(lease, Epoch::FIRST);
        let release = Command::plain(Action::Release(Release { token, text: Text::default() }));
        lsn += 1;
        let at = Stamp { lsn: Lsn(lsn), tick };
        let Ok(Decision::Event(event)) = kernel.decide(at, &release) else { panic!("not released") };
        liveness.forget(kernel.live(lease).unwrap());
        kernel.evolve(at, &event);
    }
    assert!(liveness.timer_count() < 1_100, "{} timers for no lease", liveness.timer_count());
}

// One step armed a timer for every revoked lease of a connection that closed, and listed the graces of all.
#[test]
fn the_leases_of_a_closed_connection_are_looked_at_a_few_at_a_time() {
    const LEASES: usize = 500;
    const LOOKS: usize = 10;
    let mut desk = Desk::new(seconds());
    desk.connect(7, SessionKind::Connection, 0);
    let leases: Vec<LeaseId> = (0..LEASES)
        .map(|n| grant(&mut desk, &format!("r{n}"), Policy::session(SessionId(7), 0, n as u32)))
        .collect();
    for lease in &leases {
        desk.revoke(*lease, ReclaimBy::Daemon).unwrap();
    }
    let waiting = |desk: &Desk| {
        let live = leases.iter().filter_map(|lease| desk.kernel.live(*lease));
        let waits = live.filter(|view| desk.liveness.reclaim_in_ms(*view, desk.now) != Some(0));
        waits.map(LeaseView::id).collect::<Vec<_>>()
    };
    assert_eq!(waiting(&desk).len(), LEASES, "each waits for its holder");
    let (now, mut effects) = (desk.now, Vec::new());
    let before = desk.liveness.timer_count();
    desk.liveness.connection_closed(&desk.kernel, now, SessionId(7), false, &mut effects);
    let armed = desk.liveness.timer_count() - before;
    assert!(armed <= 1, "closing armed {armed} timers");
    let mut turns = 0;
    loop {
        let left = waiting(&desk);
        let Some(next) = left.first() else { break };
        assert_eq!(desk.liveness.next_deadline(), Some(Tick(0)), "{} are still to be looked at", left.len());
        // One that ends just before its turn takes nobody's turn along.
        desk.reclaim(*next, true).unwrap();
        let mut looks = LOOKS;
        desk.liveness.on_deadline(&desk.kernel, now, 0, &mut looks, &mut effects);
        let looked_at = left.len() - waiting(&desk).len();
        assert!((1..=LOOKS + 1).contains(&looked_at), "{looked_at} looks");
        turns += 1;
    }
    assert!(turns > LEASES / (LOOKS + 2), "{turns} turns");
    desk.advance_to(Tick(now.0 + 1_000));
    assert_eq!(desk.kernel.live_count(), 0);
}
