//! The breaker: all its conditions together open it, each one alone keeps it shut, and it holds once.

use crate::desk::{Desk, Happened};
use crate::script::seconds;
use tenure_kernel::*;
use tenure_liveness::*;

/// Ttl of those that will fall silent, and of those that just live on.
const TTL: u32 = 90;
const LONG: u32 = 100_000;
/// The last heartbeat of everybody.
const LAST: u64 = 300;
/// They all fall silent here.
const SILENT: u64 = LAST + TTL as u64;

/// A daemon with many holders.
struct Fleet {
    desk: Desk,
}

impl Fleet {
    fn new() -> Self {
        Self::with(seconds())
    }

    fn with(config: LivenessConfig) -> Self {
        let mut desk = Desk::new(config);
        desk.scan = false;
        Self { desk }
    }

    /// `count` holders of one lease each, from three principals unless told otherwise.
    fn holders(&mut self, count: u64, ttl_ms: u32, grace_ms: u32) -> Vec<LeaseId> {
        self.holders_from(count, ttl_ms, grace_ms, |i| format!("uid:{}", i % 3))
    }

    fn holders_from(
        &mut self,
        count: u64,
        ttl_ms: u32,
        grace_ms: u32,
        principal: impl Fn(u64) -> String,
    ) -> Vec<LeaseId> {
        let first = self.desk.granted.len() as u64;
        (first..first + count)
            .map(|i| self.lease(&format!("h{i}"), ttl_ms, grace_ms, &principal(i)))
            .collect()
    }

    fn lease(&mut self, holder: &str, ttl_ms: u32, grace_ms: u32, principal: &str) -> LeaseId {
        let mut policy = Policy::heartbeat(ttl_ms, grace_ms);
        policy.principal = principal.into();
        let name = format!("r{}", self.desk.granted.len());
        self.desk.grant(Grant::new(Bundle::one(&name), holder, policy)).unwrap().0
    }

    /// Everybody speaks every thirty seconds up to `LAST`, then nobody.
    fn speak_until_last(&mut self, leases: &[LeaseId]) {
        for tick in (0..=LAST).step_by(30) {
            self.speak_at(tick, leases);
        }
    }

    fn speak_at(&mut self, tick: u64, leases: &[LeaseId]) {
        self.desk.advance_to(Tick(tick));
        for lease in leases {
            self.desk.heartbeat(*lease, None, None).unwrap();
        }
        self.desk.turn();
    }

    /// Lets time pass through `tick`; when the breaker opened on the way, and with which numbers.
    fn opened_by(&mut self, tick: u64) -> Option<(u64, u32, u32)> {
        self.desk.happened.clear();
        self.desk.advance_to(Tick(tick));
        self.desk.turn();
        let opened: Vec<_> = self
            .desk
            .happened
            .iter()
            .filter_map(|happened| match happened {
                Happened::Effect(at, Effect::BreakerOpened { silent, alive }) => {
                    Some((at.0, *silent, *alive))
                }
                _ => None,
            })
            .collect();
        assert!(opened.len() <= 1, "opened more than once: {opened:?}");
        opened.first().copied()
    }

    /// Ticks at which leases were revoked, with how many.
    fn revoked(&self) -> Vec<(u64, usize)> {
        let mut revoked: Vec<(u64, usize)> = Vec::new();
        for happened in &self.desk.happened {
            if let Happened::Event(at, Event { change: Change::Revoked(_), .. }) = happened {
                match revoked.last_mut() {
                    Some((tick, count)) if *tick == at.tick.0 => *count += 1,
                    _ => revoked.push((at.tick.0, 1)),
                }
            }
        }
        revoked
    }

    fn closed(&self) -> Vec<u64> {
        let closed = self.desk.happened.iter().filter_map(|happened| match happened {
            Happened::Effect(at, Effect::BreakerClosed) => Some(at.0),
            _ => None,
        });
        closed.collect()
    }
}

// With a ttl beyond twenty seconds the breaker compared two empty windows and never opened.
#[test]
fn opens_when_most_fall_silent_together_and_holds_the_ends() {
    let mut fleet = Fleet::new();
    let leases = fleet.holders(30, TTL, 10);
    fleet.speak_until_last(&leases);
    assert_eq!(fleet.desk.liveness.breaker_holds_until(fleet.desk.now), None);
    assert_eq!(fleet.opened_by(SILENT + 15), Some((SILENT, 16, 30)));
    assert_eq!(fleet.desk.liveness.breaker_holds_until(fleet.desk.now), Some(Tick(SILENT + 30)));
    assert_eq!(fleet.desk.liveness.breaker_holds_until(Tick(SILENT + 29)), Some(Tick(SILENT + 30)));
    assert_eq!(fleet.desk.liveness.breaker_holds_until(Tick(SILENT + 30)), None);
    assert_eq!(fleet.revoked(), [], "graces were over five ticks ago");
    assert_eq!(fleet.desk.view(leases[0]).deadline, Some(Tick(SILENT + 30)));
    let held = Some(Standing::Draining(DrainCause::Silence));
    assert!(leases.iter().all(|lease| fleet.desk.view(*lease).standing == held));

    assert_eq!(fleet.opened_by(SILENT + 29), None);
    assert_eq!(fleet.revoked(), []);
    assert_eq!(fleet.opened_by(SILENT + 30), None);
    assert_eq!(fleet.revoked(), [(SILENT + 30, 30)], "held no longer than that");
    assert_eq!(fleet.closed(), [SILENT + 30]);
    assert_eq!(fleet.desk.liveness.breaker_holds_until(fleet.desk.now), None);
}

#[test]
fn a_grace_longer_than_the_hold_is_not_touched() {
    let mut fleet = Fleet::new();
    let leases = fleet.holders(30, TTL, 50);
    fleet.speak_until_last(&leases);
    assert_eq!(fleet.opened_by(SILENT + 60), Some((SILENT, 16, 30)));
    assert_eq!(fleet.revoked(), [(SILENT + 50, 30)]);
}

#[test]
fn a_holder_that_speaks_again_while_held_is_alive() {
    let mut fleet = Fleet::new();
    let leases = fleet.holders(30, TTL, 10);
    fleet.speak_until_last(&leases);
    fleet.opened_by(SILENT + 20);
    fleet.speak_at(SILENT + 25, &leases[..7]);
    fleet.opened_by(SILENT + 40);
    assert_eq!(fleet.revoked(), [(SILENT + 30, 23)]);
    assert_eq!(fleet.desk.view(leases[0]).standing, Some(Standing::Alive));
}

#[test]
fn fewer_than_twenty_holders_say_nothing() {
    for (count, opens) in [(19, None), (20, Some((SILENT, 11, 20)))] {
        let mut fleet = Fleet::new();
        let leases = fleet.holders(count, TTL, 10);
        fleet.speak_until_last(&leases);
        assert_eq!(fleet.opened_by(SILENT + 20), opens, "{count} holders");
        let held = opens.is_some();
        assert_eq!(fleet.revoked().is_empty(), held);
    }
}

#[test]
fn the_silent_must_exceed_the_fraction() {
    for (silent, opens) in [(15, None), (16, Some((SILENT, 16, 31)))] {
        let mut fleet = Fleet::new();
        fleet.holders(15, LONG, 10);
        let leases = fleet.holders(silent, TTL, 10);
        fleet.speak_until_last(&leases);
        assert_eq!(fleet.opened_by(SILENT + 20), opens, "{silent} silent");
    }
}

#[test]
fn the_fraction_is_configured() {
    for (fraction, opens) in [(0.25, Some((SILENT, 8, 31))), (0.6, None)] {
        let mut config = seconds();
        config.breaker.fraction = fraction;
        let mut fleet = Fleet::with(config);
        fleet.holders(15, LONG, 10);
        let leases = fleet.holders(16, TTL, 10);
        fleet.speak_until_last(&leases);
        assert_eq!(fleet.opened_by(SILENT + 20), opens, "{fraction}");
    }
}

#[test]
fn a_fraction_of_one_switches_it_off() {
    let mut config = seconds();
    config.breaker.fraction = 1.0;
    let mut fleet = Fleet::with(config);
    let leases = fleet.holders(30, TTL, 10);
    fleet.speak_until_last(&leases);
    assert_eq!(fleet.opened_by(SILENT + 20), None);
    assert_eq!(fleet.revoked(), [(SILENT + 10, 30)]);
}

#[test]
fn silences_further_apart_than_the_window_do_not_count_together() {
    let mut fleet = Fleet::new();
    let leases = fleet.holders(30, TTL, 10);
    fleet.speak_until_last(&leases);
    for (i, lease) in leases.iter().enumerate() {
        fleet.speak_at(LAST + 2 * i as u64, &[*lease]);
    }
    assert_eq!(fleet.opened_by(SILENT + 200), None);
}

#[test]
fn silences_at_both_ends_of_the_window_count_together() {
    for (apart, opens) in [(10, Some((SILENT + 10, 13, 24))), (11, None)] {
        let mut fleet = Fleet::new();
        fleet.holders(8, LONG, 10);
        let leases = fleet.holders(16, TTL, 30);
        fleet.speak_until_last(&leases);
        // Nine at first: not enough; four of the rest would be.
        fleet.speak_at(LAST + apart, &leases[9..]);
        let opened = fleet.opened_by(SILENT + apart + 1);
        assert_eq!(opened, opens, "{apart} apart");
    }
}

#[test]
fn they_must_come_from_three_principals_where_principals_are_known() {
    type Principal = fn(u64) -> String;
    let two: Principal = |i| format!("uid:{}", i % 2);
    let three: Principal = |i| format!("uid:{}", i % 3);
    let local: Principal = |_| "local".to_owned();
    let one_and_local: Principal = |i| if i % 2 == 0 { "local".into() } else { "uid:1".into() };
    for (what, principal, opens) in
        [("two", two, false), ("three", three, true), ("local", local, true), ("mixed", one_and_local, false)]
    {
        let mut fleet = Fleet::new();
        let leases = fleet.holders_from(30, TTL, 10, principal);
        fleet.speak_until_last(&leases);
        assert_eq!(fleet.opened_by(SILENT + 20).is_some(), opens, "{what}");
    }
}

#[test]
fn it_stays_shut_while_heartbeats_keep_arriving() {
    // Thirty in the fullest window before; half of that is still enough to trust them.
    for (still, opens) in [(15, false), (14, true)] {
        let mut fleet = Fleet::new();
        let chatty = fleet.lease("chatty", LONG, 10, "uid:9");
        let leases = fleet.holders(30, TTL, 10);
        fleet.speak_until_last(&leases);
        for _ in 0..still {
            fleet.speak_at(SILENT - 1, &[chatty]);
        }
        assert_eq!(fleet.opened_by(SILENT + 20).is_some(), opens, "{still} still arrive");
    }
}

#[test]
fn arrivals_that_left_the_window_do_not_count() {
    for (ago, opens) in [(9, false), (10, true)] {
        let mut fleet = Fleet::new();
        let chatty = fleet.lease("chatty", LONG, 10, "uid:9");
        let leases = fleet.holders(30, TTL, 10);
        fleet.speak_until_last(&leases);
        for _ in 0..30 {
            fleet.speak_at(SILENT - ago, &[chatty]);
        }
        assert_eq!(fleet.opened_by(SILENT + 20).is_some(), opens, "{ago} ago");
    }
}

#[test]
fn what_is_usual_is_remembered_for_minutes() {
    // A burst long ago is forgotten: eight a window is what is usual now.
    let mut fleet = Fleet::new();
    let chatty = fleet.lease("chatty", LONG, 10, "uid:9");
    let leases = fleet.holders(30, 1_000, 10);
    fleet.speak_at(0, &leases);
    fleet.speak_at(0, &leases);
    for tick in (5..1_000).step_by(10) {
        fleet.speak_at(tick, &[chatty; 8]);
    }
    assert_eq!(fleet.opened_by(1_020), None, "eight a window as ever");

    // Something came in between, in this age and in the next: the fullest window still counts.
    let mut fleet = Fleet::new();
    let chatty = fleet.lease("chatty", LONG, 10, "uid:9");
    let leases = fleet.holders(30, TTL, 10);
    (0..=240).step_by(60).for_each(|tick| fleet.speak_at(tick, &leases));
    fleet.speak_at(250, &leases);
    fleet.speak_at(270, &[chatty]);
    fleet.speak_at(305, &[chatty]);
    fleet.speak_at(335, &[chatty]);
    assert_eq!(fleet.opened_by(345), Some((340, 16, 31)));

    // A ttl far beyond that memory: nothing arrived since, so what came last is what is usual.
    let mut fleet = Fleet::new();
    let leases = fleet.holders(30, 50_000, 10);
    fleet.speak_at(290, &leases);
    assert_eq!(fleet.opened_by(60_000), Some((50_290, 16, 30)));
}

#[test]
fn one_holder_with_many_leases_is_one_holder() {
    let mut fleet = Fleet::new();
    fleet.holders(25, LONG, 10);
    let leases: Vec<LeaseId> = (0..60).map(|i| fleet.lease("many", TTL, 10, &format!("uid:{i}"))).collect();
    fleet.speak_until_last(&leases);
    assert_eq!(fleet.opened_by(SILENT + 20), None);
    assert_eq!(fleet.revoked(), [(SILENT + 10, 60)]);
}

#[test]
fn holders_that_left_in_order_are_neither_silent_nor_alive() {
    type Leave = fn(&mut Desk, LeaseId);
    let release: Leave = |desk, lease| desk.release(lease, Epoch(1)).unwrap();
    let revoke: Leave = |desk, lease| desk.revoke(lease, ReclaimBy::Daemon).unwrap();
    let drain: Leave = |desk, lease| desk.drain(lease).unwrap();
    let rebind: Leave = |desk, lease| assert!(desk.rebind(lease, None, Some(Policy::permanent())).is_ok());
    for (what, leave) in [("release", release), ("revoke", revoke), ("drain", drain), ("rebind", rebind)] {
        for (stay, opens) in [(19, None), (25, Some((SILENT, 13, 25)))] {
            let mut fleet = Fleet::new();
            let (leaving, staying) = (fleet.holders(35, TTL, 10), fleet.holders(stay, TTL, 10));
            for tick in (0..=LAST).step_by(30) {
                fleet.speak_at(tick, &leaving);
                fleet.speak_at(tick, &staying);
            }
            fleet.desk.advance_to(Tick(SILENT - 5));
            leaving.iter().for_each(|lease| leave(&mut fleet.desk, *lease));
            assert_eq!(fleet.opened_by(SILENT + 1), opens, "{what}, {stay} stay");
        }
    }
}

#[test]
fn holders_that_came_back_are_alive_again() {
    type Return = fn(&mut Desk, LeaseId);
    let heartbeat: Return = |desk, lease| assert!(desk.heartbeat(lease, None, None).is_ok());
    let revive: Return = |desk, lease| desk.revive(lease).unwrap();
    let rebind: Return = |desk, lease| assert!(desk.rebind(lease, None, None).is_ok());
    let drain: Return = |desk, lease| {
        desk.heartbeat(lease, None, None).unwrap();
        desk.drain(lease).unwrap();
        desk.revive(lease).unwrap();
    };
    for (what, back) in
        [("heartbeat", heartbeat), ("revive", revive), ("rebind", rebind), ("drain and revive", drain)]
    {
        let mut fleet = Fleet::new();
        // Silent at 120, back at 130.
        let leases = fleet.holders(15, 120, 90);
        let others = fleet.holders(16, 200, 10);
        fleet.speak_at(0, &others);
        fleet.desk.advance_to(Tick(130));
        leases.iter().for_each(|lease| back(&mut fleet.desk, *lease));
        assert_eq!(fleet.opened_by(205), Some((200, 16, 31)), "{what}");
    }
}

#[test]
fn grace_zero_is_exempt() {
    let mut fleet = Fleet::new();
    let leases = fleet.holders(30, TTL, 0);
    fleet.speak_until_last(&leases);
    assert_eq!(fleet.opened_by(SILENT + 5), None);
    assert_eq!(fleet.revoked(), [(SILENT, 30)]);

    let mut fleet = Fleet::new();
    let held = fleet.holders(30, TTL, 10);
    let exempt = fleet.holders(5, TTL + 5, 0);
    for tick in (0..=LAST).step_by(30) {
        fleet.speak_at(tick, &held);
        fleet.speak_at(tick, &exempt);
    }
    fleet.speak_at(LAST + 1, &exempt);
    assert!(fleet.opened_by(SILENT + 20).is_some());
    assert_eq!(fleet.revoked(), [(SILENT + 6, 5)], "while the breaker holds the others");
}

#[test]
fn a_session_by_hand_is_one_holder_and_is_held_too() {
    let mut fleet = Fleet::new();
    for session in 0..30 {
        fleet.desk.open_by_hand(session, TTL, 10, &format!("uid:{}", session % 3));
        let policy = Policy::session(SessionId(session), TTL, 10);
        fleet.desk.grant(Grant::new(Bundle::one(&format!("r{session}")), "a", policy)).unwrap();
    }
    // Of grace 0: exempt while the others are held.
    fleet.desk.open_by_hand(99, TTL + 3, 0, "uid:0");
    fleet
        .desk
        .grant(Grant::new(Bundle::one("exempt"), "a", Policy::session(SessionId(99), TTL + 3, 0)))
        .unwrap();
    for tick in (0..=LAST).step_by(30) {
        fleet.desk.advance_to(Tick(tick));
        (0..30).chain([99]).for_each(|session| assert!(fleet.desk.session_heartbeat(session).is_ok()));
    }
    assert_eq!(fleet.opened_by(SILENT + 15), Some((SILENT, 16, 31)));
    assert_eq!(fleet.revoked(), [(SILENT + 3, 1)]);
    let standing = fleet.desk.liveness.session(SessionId(3), fleet.desk.now).unwrap();
    assert_eq!(standing.deadline, Some(Tick(SILENT + 30)));
    fleet.desk.session_heartbeat(4).unwrap();
    fleet.opened_by(SILENT + 40);
    assert_eq!(fleet.revoked(), [(SILENT + 30, 29)]);
    assert!(fleet.desk.is_live(fleet.desk.granted[4]));
}

#[test]
fn sessions_that_closed_in_order_are_neither_silent_nor_alive() {
    for (deleted, opens) in [(21, None), (15, Some((SILENT, 13, 25)))] {
        let mut fleet = Fleet::new();
        for session in 0..40 {
            fleet.desk.open_by_hand(session, TTL, 10, &format!("uid:{}", session % 3));
        }
        for tick in (0..=LAST).step_by(30) {
            fleet.desk.advance_to(Tick(tick));
            (0..40).for_each(|session| assert!(fleet.desk.session_heartbeat(session).is_ok()));
        }
        (0..deleted).for_each(|session| fleet.desk.delete_session(session).unwrap());
        // A connection that goes is no voice that goes.
        fleet.desk.connect(99, SessionKind::Connection, 30);
        fleet.desk.disconnect(99);
        assert_eq!(fleet.opened_by(SILENT + 40), opens, "{deleted} deleted");
    }
}

#[test]
fn silent_sessions_that_are_deleted_or_come_back_are_counted_once() {
    let mut fleet = Fleet::new();
    for session in 0..50 {
        fleet.desk.open_by_hand(session, TTL, 90, &format!("uid:{}", session % 3));
    }
    // Ten silent at 90 and gone, ten silent at 90 and back at 120; forty are left, silent at 210.
    fleet.desk.advance_to(Tick(10));
    (20..50).for_each(|session| assert!(fleet.desk.session_heartbeat(session).is_ok()));
    fleet.desk.advance_to(Tick(95));
    (0..10).for_each(|session| fleet.desk.delete_session(session).unwrap());
    fleet.desk.advance_to(Tick(96));
    (20..50).for_each(|session| assert!(fleet.desk.session_heartbeat(session).is_ok()));
    fleet.desk.advance_to(Tick(120));
    (10..50).for_each(|session| assert!(fleet.desk.session_heartbeat(session).is_ok()));
    assert_eq!(fleet.opened_by(215), Some((210, 21, 40)));
}

#[test]
fn sessions_of_grace_zero_are_exempt() {
    let mut fleet = Fleet::new();
    for session in 0..40 {
        fleet.desk.open_by_hand(session, TTL, 0, &format!("uid:{}", session % 3));
        assert!(fleet.desk.session_heartbeat(session).is_ok());
    }
    assert_eq!(fleet.opened_by(200), None);
}

#[test]
fn voices_are_counted_anew_after_a_restart() {
    let mut fleet = Fleet::new();
    let leases = fleet.holders(12, TTL, 10);
    (0..12).for_each(|session| fleet.desk.open_by_hand(session, TTL, 10, &format!("uid:{session}")));
    // Neither drained leases nor connections are voices.
    let drained = fleet.holders(8, TTL, 200);
    drained.iter().for_each(|lease| fleet.desk.drain(*lease).unwrap());
    fleet.desk.connect(99, SessionKind::Connection, 500);
    fleet.desk.grant(Grant::new(Bundle::one("c"), "c", Policy::session(SessionId(99), 0, 500))).unwrap();
    fleet.desk.restart();
    fleet.speak_at(0, &leases);
    (0..12).for_each(|session| assert!(fleet.desk.session_heartbeat(session).is_ok()));
    assert_eq!(fleet.opened_by(95), Some((90, 13, 24)));

    // Holders alone: those of permanent leases are none.
    let mut fleet = Fleet::new();
    let leases = fleet.holders(24, TTL, 10);
    for i in 0..30 {
        let grant = Grant::new(Bundle::one(&format!("p{i}")), &format!("p{i}"), Policy::permanent());
        fleet.desk.grant(grant).unwrap();
    }
    fleet.desk.restart();
    fleet.speak_at(0, &leases);
    assert_eq!(fleet.opened_by(95), Some((90, 13, 24)));
}

#[test]
fn it_holds_once_per_episode_which_lasts_until_the_window_has_emptied() {
    let mut config = seconds();
    config.breaker.hold_ms = 5;
    for (apart, opens) in [(8, false), (10, false), (11, true), (12, true)] {
        let mut fleet = Fleet::with(config.clone());
        fleet.holders(5, LONG, 2);
        let (first, second) = (fleet.holders(60, TTL, 2), fleet.holders(50, TTL, 2));
        for tick in (0..=LAST).step_by(30) {
            fleet.speak_at(tick, &first);
            fleet.speak_at(tick, &second);
        }
        fleet.speak_at(LAST + apart, &second);
        assert!(fleet.opened_by(SILENT).is_some());
        assert_eq!(fleet.opened_by(SILENT + apart + 1).is_some(), opens, "{apart} apart");
        fleet.opened_by(SILENT + apart + 10);
        let ends = if opens { SILENT + apart + 5 } else { SILENT + apart + 2 };
        assert_eq!(fleet.revoked().last(), Some(&(ends, 50)), "{apart} apart");
    }
}

#[test]
fn a_reset_ends_the_hold_at_once() {
    let mut fleet = Fleet::new();
    let leases = fleet.holders(30, TTL, 10);
    for session in 0..10 {
        fleet.desk.open_by_hand(session, TTL, 10, "uid:7");
        let policy = Policy::session(SessionId(session), TTL, 10);
        fleet.desk.grant(Grant::new(Bundle::one(&format!("s{session}")), "a", policy)).unwrap();
    }
    for tick in (0..=LAST).step_by(30) {
        fleet.speak_at(tick, &leases);
        (0..10).for_each(|session| assert!(fleet.desk.session_heartbeat(session).is_ok()));
    }
    assert!(fleet.opened_by(SILENT + 20).is_some());
    // These came back meanwhile, or went another way: they are not among those let go.
    fleet.speak_at(SILENT + 20, &leases[..5]);
    fleet.desk.session_heartbeat(0).unwrap();
    fleet.desk.delete_session(1).unwrap();
    fleet.desk.release(leases[5], Epoch(1)).unwrap();
    let (new, _) =
        fleet.desk.grant(Grant::new(Bundle::one("new"), "new", Policy::heartbeat(TTL, 10))).unwrap();
    fleet.desk.open_by_hand(50, TTL, 10, "uid:7");
    fleet.desk.happened.clear();

    fleet.desk.advance_to(Tick(SILENT + 21));
    fleet.desk.reset_breaker();
    assert_eq!(fleet.desk.liveness.breaker_holds_until(fleet.desk.now), None);
    assert_eq!(fleet.desk.view(leases[7]).deadline, Some(Tick(SILENT + 10)), "its true end");
    assert!(fleet.desk.next_deadline().is_some_and(|next| next <= fleet.desk.now));
    fleet.desk.turn();
    assert_eq!(fleet.closed(), [SILENT + 21]);
    assert_eq!(fleet.revoked(), [(SILENT + 21, 24 + 8)]);
    for lease in leases[..5].iter().chain([&new]) {
        assert_eq!(fleet.desk.view(*lease).standing, Some(Standing::Alive));
    }
    // The hold that was never comes to an end of its own, and a second reset ends nothing.
    fleet.desk.happened.clear();
    fleet.desk.reset_breaker();
    fleet.desk.advance_to(Tick(SILENT + 60));
    assert_eq!(fleet.closed(), []);
    assert_eq!(fleet.revoked(), []);
}

#[test]
fn a_reset_while_graces_still_run_leaves_them_running() {
    let mut fleet = Fleet::new();
    let leases = fleet.holders(30, TTL, 10);
    fleet.speak_until_last(&leases);
    assert!(fleet.opened_by(SILENT + 3).is_some());
    fleet.desk.reset_breaker();
    fleet.opened_by(SILENT + 20);
    assert_eq!(fleet.revoked(), [(SILENT + 10, 30)]);
    assert_eq!(fleet.closed(), []);
}

#[test]
fn a_reset_of_a_shut_breaker_says_nothing() {
    let mut fleet = Fleet::new();
    fleet.desk.reset_breaker();
    assert_eq!(fleet.closed(), []);
}

// A reset made everything due in one call, however much was held.
#[test]
fn a_reset_lets_go_of_very_many_in_pieces() {
    const HOLDERS: usize = 5_000;
    let mut fleet = Fleet::new();
    let leases = fleet.holders(HOLDERS as u64, TTL, 10);
    fleet.speak_until_last(&leases);
    assert!(fleet.opened_by(SILENT + 20).is_some());
    let timers = fleet.desk.liveness.timer_count();
    fleet.desk.reset_breaker();
    let at_once = fleet.desk.liveness.timer_count() - timers;
    assert!(at_once > 0 && at_once < HOLDERS / 4, "{at_once} at once");
    assert!(fleet.desk.next_deadline().is_some_and(|next| next <= fleet.desk.now), "the rest is due");
    fleet.desk.happened.clear();
    fleet.desk.looks = 100;
    fleet.desk.turn();
    assert_eq!(fleet.revoked(), [(SILENT + 20, HOLDERS)]);
}
