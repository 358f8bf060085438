//! Scripts for the rules of a registrant: what arrives when, and what it says then.

use super::*;
use tenure_api::Mode;

/// One that is registered at 1 s.
struct Desk {
    core: Core,
}

const LEASE_SECS: u64 = 90;
const REGISTERED_AT: u64 = 1_000;

fn at(ms: u64) -> BootInstant {
    BootInstant::from_ms(ms)
}

fn registration(lease: u64, epoch: u64) -> Registration {
    Registration {
        id: "0a1b2c3d".to_owned(),
        name: "App".to_owned(),
        service_type: "_http._tcp".to_owned(),
        port: 8080,
        lease,
        mode: if lease == 0 { Mode::Permanent } else { Mode::Heartbeat },
        advertised_name: "App".to_owned(),
        epoch,
        draining: false,
        warning: None,
    }
}

fn renewed(sent_ms: u64, draining: bool) -> Observation {
    let renewed = RegistrationRenewed { renewed: "0a1b2c3d".to_owned(), lease: LEASE_SECS, draining };
    Observation::Renewed { sent: at(sent_ms), renewed }
}

fn gone(reason: &str) -> Observation {
    Observation::Gone { reason: Some(reason.to_owned()) }
}

impl Desk {
    fn new(lease: u64) -> Self {
        Self { core: Core::new(Jitter::from_seed(3), at(REGISTERED_AT), registration(lease, 1)) }
    }

    fn see(&mut self, now_ms: u64, observation: Observation) {
        self.core.observe(at(now_ms), observation);
    }

    fn fail(&mut self, now_ms: u64) {
        self.see(now_ms, Observation::Failed { retry_after: None });
    }

    fn due_ms(&self) -> u64 {
        self.core.next_deadline().expect("not over").as_ms()
    }

    fn status(&self) -> &RegistrationStatus {
        &self.core.state().status
    }
}

#[track_caller]
fn assert_around(ms: u64, middle: u64, part: u64) {
    let span = middle / part;
    assert!((middle - span..=middle + span).contains(&ms), "{ms} around {middle}");
}

#[test]
fn heartbeats_come_at_a_third_of_the_lease_from_before_the_last_one_was_sent() {
    let mut desk = Desk::new(LEASE_SECS);
    assert_around(desk.due_ms() - REGISTERED_AT, 30_000, 10);
    assert_eq!(desk.core.action(), Some(Action::Heartbeat { limit: Duration::from_secs(18) }));
    desk.see(40_000, renewed(31_000, false));
    assert_around(desk.due_ms() - 31_000, 30_000, 10);
    assert_eq!(*desk.status(), RegistrationStatus::Registered);
}

#[test]
fn registrants_do_not_speak_in_step() {
    let due = |seed| {
        let core = Core::new(Jitter::from_seed(seed), at(REGISTERED_AT), registration(LEASE_SECS, 1));
        core.next_deadline()
    };
    assert_ne!(due(1), due(2));
}

#[test]
fn failures_never_end_it_and_are_retried_ever_later() {
    let mut desk = Desk::new(LEASE_SECS);
    let mut now = 31_000;
    let mut longest = 0;
    for _ in 0..10_000 {
        desk.fail(now);
        assert_eq!(*desk.status(), RegistrationStatus::Unconfirmed);
        longest = longest.max(desk.due_ms() - now);
        now = desk.due_ms();
    }
    assert!((5_000..=7_500).contains(&longest), "{longest}");
    desk.see(now, renewed(now, false));
    assert_eq!(*desk.status(), RegistrationStatus::Registered);
    desk.fail(now);
    assert!(desk.due_ms() - now <= 75, "the first retry is quick again");
}

#[test]
fn advice_is_taken_as_far_as_the_lease_allows() {
    let mut desk = Desk::new(LEASE_SECS);
    desk.see(31_000, Observation::Failed { retry_after: Some(Duration::from_secs(2)) });
    assert_eq!(desk.due_ms(), 33_000);
    desk.see(33_000, Observation::Failed { retry_after: Some(Duration::from_secs(3_600)) });
    assert_eq!(desk.due_ms(), 33_000 + 15_000);
}

#[test]
fn one_that_ended_by_silence_is_registered_again_at_once() {
    for reason in ["heartbeat_expired", "shutdown"] {
        let mut desk = Desk::new(LEASE_SECS);
        desk.see(200_000, gone(reason));
        assert_eq!(*desk.status(), RegistrationStatus::Expired);
        assert_eq!(desk.due_ms(), 200_000);
        assert_eq!(desk.core.action(), Some(Action::Register));
        desk.fail(200_000);
        assert_eq!(*desk.status(), RegistrationStatus::Expired);
        assert_eq!(desk.core.action(), Some(Action::Register));
        let registration = registration(LEASE_SECS, 7);
        desk.see(201_000, Observation::Registered { sent: at(200_500), registration });
        assert_eq!(*desk.status(), RegistrationStatus::Registered);
        assert_eq!(desk.core.state().registration.epoch, 7);
        assert_around(desk.due_ms() - 200_500, 30_000, 10);
    }
}

#[test]
fn one_that_is_gone_for_no_known_reason_is_asked_for_once_more() {
    let unknown = || Observation::Gone { reason: None };
    let mut desk = Desk::new(LEASE_SECS);
    desk.see(31_000, unknown());
    assert_eq!((desk.status(), desk.due_ms()), (&RegistrationStatus::Registered, 31_200));
    assert!(matches!(desk.core.action(), Some(Action::Heartbeat { .. })));
    desk.see(31_200, unknown());
    assert_eq!((desk.status(), desk.due_ms()), (&RegistrationStatus::Expired, 31_200));
    let mut desk = Desk::new(LEASE_SECS);
    desk.see(31_000, unknown());
    desk.see(31_200, gone("admin_force"));
    assert!(matches!(desk.status(), RegistrationStatus::Ended(_)));
}

#[test]
fn one_that_never_lasts_is_registered_ever_later() {
    let mut desk = Desk::new(LEASE_SECS);
    let mut pauses = Vec::new();
    for round in 0..12 {
        let now = 100_000 * (round + 1);
        desk.see(now, gone("heartbeat_expired"));
        pauses.push(desk.due_ms() - now);
        desk.see(now, Observation::Registered { sent: at(now), registration: registration(LEASE_SECS, 2) });
    }
    assert_eq!(pauses[0], 0);
    assert!(pauses[1] > 0 && pauses[11] > 2_000, "{pauses:?}");
}

#[test]
fn what_somebody_ended_stays_ended() {
    for reason in ["admin_force", "explicit"] {
        let mut desk = Desk::new(LEASE_SECS);
        desk.see(31_000, gone(reason));
        let end = RegistrationEnd::Removed { reason: reason.to_owned() };
        assert_eq!(*desk.status(), RegistrationStatus::Ended(end));
        assert_eq!((desk.core.next_deadline(), desk.core.action()), (None, None));
        let before = desk.core.state().clone();
        desk.see(32_000, renewed(31_500, false));
        desk.fail(33_000);
        assert_eq!(*desk.core.state(), before, "an end is for ever");
    }
}

#[test]
fn one_that_was_taken_over_is_the_others() {
    let mut desk = Desk::new(LEASE_SECS);
    desk.see(31_000, Observation::Over(RegistrationEnd::TakenOver { current: Some(2) }));
    assert_eq!(desk.core.next_deadline(), None);
}

#[test]
fn a_drain_is_told_and_its_revival_too() {
    let mut desk = Desk::new(LEASE_SECS);
    desk.see(31_000, renewed(31_000, true));
    assert!(desk.core.state().registration.draining);
    desk.see(61_000, renewed(61_000, false));
    assert!(!desk.core.state().registration.draining);
}

#[test]
fn one_that_asks_for_no_heartbeats_is_looked_at_now_and_then() {
    let desk = Desk::new(0);
    assert_around(desk.due_ms() - REGISTERED_AT, 30_000, 10);
}

#[test]
fn the_shortest_lease_leaves_room_for_answers() {
    let desk = Desk::new(1);
    assert_around(desk.due_ms() - REGISTERED_AT, 333, 10);
    assert_eq!(desk.core.action(), Some(Action::Heartbeat { limit: LIMIT_MIN }));
}

#[test]
fn ends_are_told_in_words() {
    let words = |end: RegistrationEnd| end.to_string();
    let removed = |reason: &str| RegistrationEnd::Removed { reason: reason.to_owned() };
    assert_eq!(words(removed("admin_force")), "an operator ended the registration (admin_force)");
    assert_eq!(words(removed("explicit")), "another caller ended the registration (explicit)");
    let refused = RegistrationEnd::Rejected { code: ErrorCode::Forbidden, message: "no".to_owned() };
    assert_eq!(words(refused), "the registration ended and cannot be registered again: no (forbidden)");
}
