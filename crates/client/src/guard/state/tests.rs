//! Scripts for the rules of a holder: what arrives when, and what may be believed then.

use super::*;

/// A promise of 9 s, asked for at 1 s, with the guards' default margin of 50 ms.
struct Desk {
    core: Core,
}

const VALID_MS: u64 = 9_000;
const GRANTED_AT: u64 = 1_000;
/// 1 s + 9 s − 50 ms.
const VALID_UNTIL: u64 = 9_950;

fn at(ms: u64) -> BootInstant {
    BootInstant::from_ms(ms)
}

fn answer(sent_ms: u64) -> Promised {
    Promised { sent: at(sent_ms), valid_ms: VALID_MS, draining: false, epoch: 4, lsn: 10 }
}

impl Desk {
    fn new() -> Self {
        let terms = Terms { margin: Duration::from_millis(50), several_nodes: false };
        Self { core: Core::new(terms, Jitter::from_seed(3), &answer(GRANTED_AT)) }
    }

    fn see(&mut self, now_ms: u64, observation: Observation) -> Option<Action> {
        self.core.observe(at(now_ms), observation)
    }

    fn time(&mut self, now_ms: u64) -> Option<Action> {
        self.see(now_ms, Observation::Time)
    }

    fn fail(&mut self, now_ms: u64) -> Option<Action> {
        self.see(now_ms, Observation::Failed { retry_after: None })
    }

    fn due_ms(&self) -> u64 {
        self.core.next_deadline().expect("not lost").as_ms()
    }

    /// Lets time pass to the next heartbeat and says when that is.
    fn until_heartbeat(&mut self) -> u64 {
        for _ in 0..10 {
            let due = self.core.next_deadline().expect("not lost");
            match self.core.observe(due, Observation::Time) {
                Some(Action::Heartbeat { .. }) => return due.as_ms(),
                Some(Action::Lose(reason)) => panic!("lost: {reason}"),
                None => {}
            }
        }
        panic!("no heartbeat");
    }
}

fn lost(reason: LossReason) -> Option<Action> {
    Some(Action::Lose(reason))
}

#[test]
fn a_promise_is_believed_a_margin_less_and_no_factor_from_before_it_was_asked_for() {
    let desk = Desk::new();
    assert_eq!(desk.core.valid_until(), at(VALID_UNTIL));
    let wide = Terms { margin: Duration::from_secs(2), several_nodes: false };
    let core = Core::new(wide, Jitter::from_seed(1), &answer(GRANTED_AT));
    assert_eq!(core.valid_until(), at(8_000));
}

#[test]
fn a_promise_no_longer_than_the_margin_is_none() {
    let terms = Terms { margin: Duration::from_secs(20), several_nodes: false };
    let mut core = Core::new(terms, Jitter::from_seed(1), &answer(GRANTED_AT));
    assert_eq!(core.valid_until(), at(GRANTED_AT));
    assert_eq!(core.observe(at(GRANTED_AT), Observation::Time), lost(LossReason::Unreachable));
}

#[test]
fn the_longest_promise_there_can_be_does_not_overflow() {
    let promised = Promised { valid_ms: u64::MAX, ..answer(GRANTED_AT) };
    let core =
        Core::new(Terms { margin: Duration::ZERO, several_nodes: false }, Jitter::from_seed(1), &promised);
    assert_eq!(core.valid_until().as_ns(), u64::MAX);
}

#[test]
fn renewal_is_asked_for_at_a_sixth_give_or_take_a_tenth() {
    for seed in 0..200 {
        let terms = Terms { margin: Duration::from_millis(50), several_nodes: false };
        let core = Core::new(terms, Jitter::from_seed(seed), &answer(GRANTED_AT));
        let due = core.next_deadline().expect("held").as_ms();
        assert!((GRANTED_AT + 1_350..=GRANTED_AT + 1_650).contains(&due), "{due}");
    }
}

#[test]
fn an_answer_moves_validity_on_from_when_it_was_asked_for() {
    let mut desk = Desk::new();
    let sent = desk.until_heartbeat();
    assert_eq!(desk.see(sent + 400, Observation::Promised(answer(sent))), None);
    assert_eq!(desk.core.status(), &GuardStatus::Held);
    assert_eq!(desk.core.valid_until(), at(sent + 8_950));
}

#[test]
fn one_heartbeat_is_in_flight_at_a_time_and_leaves_room_for_others() {
    let mut desk = Desk::new();
    let due = desk.due_ms() + 1;
    assert_eq!(desk.time(due), Some(Action::Heartbeat { limit: Duration::from_millis(1_800) }));
    assert_eq!(desk.time(due + 1), None);
    assert_eq!(desk.time(due + 1_000), None);
}

#[test]
fn silence_puts_at_risk_at_half_and_loses_at_the_end() {
    let mut desk = Desk::new();
    desk.until_heartbeat();
    assert_eq!(desk.due_ms(), GRANTED_AT + 4_475, "half of 8950 ms");
    assert_eq!(desk.time(GRANTED_AT + 4_476), None);
    assert_eq!(desk.core.status(), &GuardStatus::AtRisk);
    assert_eq!(desk.due_ms(), VALID_UNTIL);
    assert_eq!(desk.time(VALID_UNTIL - 1), None);
    assert_eq!(desk.time(VALID_UNTIL), lost(LossReason::Unreachable));
    assert_eq!(desk.core.next_deadline(), None);
}

#[test]
fn failures_put_at_risk_at_once_and_are_tried_again_sooner_and_sooner_apart() {
    let mut desk = Desk::new();
    let mut now = desk.until_heartbeat();
    let mut pauses = Vec::new();
    for _ in 0..6 {
        assert_eq!(desk.fail(now), None);
        assert_eq!(desk.core.status(), &GuardStatus::AtRisk);
        let due = desk.due_ms();
        pauses.push(due - now);
        assert!(matches!(desk.time(due + 1), Some(Action::Heartbeat { .. })));
        now = due + 1;
    }
    assert!(pauses[0] <= 75, "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause >= 25 && *pause <= 900 * 3 / 2), "{pauses:?}");
    assert!(pauses[5] > pauses[0], "{pauses:?}");
}

#[test]
fn a_short_promise_is_tried_for_in_shorter_pauses() {
    let short = Promised { valid_ms: 2_000, ..answer(GRANTED_AT) };
    let mut core =
        Core::new(Terms { margin: Duration::ZERO, several_nodes: false }, Jitter::from_seed(5), &short);
    let mut now = core.next_deadline().expect("held");
    let mut tries = 0;
    assert!(core.observe(now, Observation::Time).is_some());
    while core.observe(now, Observation::Failed { retry_after: None }).is_none() {
        let due = core.next_deadline().expect("not lost");
        assert!(
            due.since(now) <= Duration::from_millis(300),
            "a tenth and half of that: {:?}",
            due.since(now)
        );
        now = due;
        tries += 1;
        assert!(tries < 100, "too many tries");
        if matches!(core.observe(now, Observation::Time), Some(Action::Lose(_))) {
            break;
        }
    }
    assert!(tries >= 5, "{tries}");
}

#[test]
fn a_failure_is_forgotten_with_the_next_answer() {
    let mut desk = Desk::new();
    let sent = desk.until_heartbeat();
    desk.fail(sent);
    let again = desk.due_ms() + 1;
    assert!(desk.time(again).is_some());
    assert_eq!(desk.see(again + 5, Observation::Promised(answer(again))), None);
    assert_eq!(desk.core.status(), &GuardStatus::Held);
    assert!(desk.due_ms() > again + 1_000);
}

#[test]
fn advice_to_wait_is_taken_as_far_as_it_leaves_room() {
    let mut desk = Desk::new();
    let sent = desk.until_heartbeat();
    desk.see(sent, Observation::Failed { retry_after: Some(Duration::from_millis(700)) });
    assert_eq!(desk.due_ms(), sent + 700);
    assert!(desk.time(sent + 700).is_some());
    desk.see(sent + 701, Observation::Failed { retry_after: Some(Duration::from_secs(3_600)) });
    assert_eq!(desk.due_ms(), (sent + 701 + 1_500).min(GRANTED_AT + 8_950));
}

#[test]
fn a_late_answer_never_revives() {
    let mut desk = Desk::new();
    let sent = desk.until_heartbeat();
    // It would reach further than the end, but nobody knew in time.
    assert_eq!(desk.see(VALID_UNTIL, Observation::Promised(answer(sent))), lost(LossReason::Unreachable));
    assert_eq!(desk.see(VALID_UNTIL + 1, Observation::Promised(answer(VALID_UNTIL))), None);
    assert_eq!(desk.core.status(), &GuardStatus::Lost(LossReason::Unreachable));
}

#[test]
fn a_gap_of_suspend_is_a_loss_however_good_the_last_answer_was() {
    let mut desk = Desk::new();
    assert_eq!(desk.time(3_600_000), lost(LossReason::Unreachable));
}

#[test]
fn a_gap_shorter_than_validity_is_survived() {
    let mut desk = Desk::new();
    let Some(Action::Heartbeat { limit }) = desk.time(VALID_UNTIL - 100) else { panic!("a heartbeat") };
    assert_eq!(limit, Duration::from_millis(100), "no longer than there is hope");
    assert_eq!(desk.core.status(), &GuardStatus::AtRisk);
    desk.see(VALID_UNTIL - 90, Observation::Promised(answer(VALID_UNTIL - 100)));
    assert_eq!(desk.core.status(), &GuardStatus::Held);
}

#[test]
fn answers_from_before_the_newest_are_dropped() {
    let mut desk = Desk::new();
    let sent = desk.until_heartbeat();
    desk.see(sent + 1, Observation::Promised(Promised { lsn: 20, ..answer(sent) }));
    let until = desk.core.valid_until();
    assert_eq!(until, at(sent + 8_950), "a newer one is believed");
    let sent = desk.until_heartbeat();
    desk.see(sent + 1, Observation::Promised(Promised { lsn: 19, ..answer(sent) }));
    assert_eq!(desk.core.valid_until(), until);
    assert_eq!(desk.core.status(), &GuardStatus::AtRisk);
    let sent = desk.until_heartbeat();
    desk.see(sent + 1, Observation::Promised(Promised { lsn: 20, epoch: 3, ..answer(sent) }));
    assert_eq!(desk.core.valid_until(), until);
}

#[test]
fn a_shorter_promise_does_not_take_back_a_longer_one() {
    let mut desk = Desk::new();
    let sent = desk.until_heartbeat();
    let short = Promised { valid_ms: 500, draining: true, ..answer(sent) };
    desk.see(sent + 1, Observation::Promised(short));
    assert_eq!(desk.core.valid_until(), at(VALID_UNTIL));
}

#[test]
fn draining_is_shown_and_goes_away_with_a_revive() {
    let mut desk = Desk::new();
    let sent = desk.until_heartbeat();
    desk.see(sent + 1, Observation::Promised(Promised { draining: true, ..answer(sent) }));
    assert!(desk.core.draining());
    assert_eq!(desk.core.status(), &GuardStatus::Held);
    let sent = desk.until_heartbeat();
    desk.see(sent + 1, Observation::Promised(answer(sent)));
    assert!(!desk.core.draining());
}

#[test]
fn what_is_left_of_a_drain_is_asked_for_in_bounded_steps() {
    let mut desk = Desk::new();
    let ends = 20_000;
    let mut heartbeats = 0;
    while let Some(due) = desk.core.next_deadline() {
        heartbeats += 1;
        assert!(heartbeats < 200, "too many heartbeats");
        if let Some(Action::Heartbeat { .. }) = desk.core.observe(due, Observation::Time) {
            let left = ends - due.as_ms().min(ends);
            let sent =
                Promised { sent: due, valid_ms: left.min(VALID_MS), draining: true, epoch: 4, lsn: 10 };
            desk.core.observe(due, Observation::Promised(sent));
        }
    }
    assert!(desk.core.valid_until() < at(ends));
}

#[test]
fn a_refusal_that_says_so_loses_at_once_and_for_its_reason() {
    for reason in [
        LossReason::Superseded { current: Some(5) },
        LossReason::Revoked("admin_force".to_owned()),
        LossReason::Expired("max_lifetime".to_owned()),
        LossReason::Released,
    ] {
        let mut desk = Desk::new();
        let sent = desk.until_heartbeat();
        assert_eq!(desk.see(sent + 1, Observation::Gone(reason.clone())), lost(reason.clone()));
        assert_eq!(desk.see(sent + 2, Observation::Promised(answer(sent + 1))), None);
        assert_eq!(desk.core.status(), &GuardStatus::Lost(reason));
    }
}

#[test]
fn the_daemons_reason_is_better_than_none_also_when_it_comes_late() {
    let mut desk = Desk::new();
    let reason = LossReason::Revoked("admin_force".to_owned());
    assert_eq!(desk.see(VALID_UNTIL + 5, Observation::Gone(reason.clone())), lost(reason));
}

#[test]
fn a_grant_that_took_long_is_asked_for_again() {
    let terms = Terms { margin: Duration::from_millis(50), several_nodes: false };
    assert!(!terms.is_stale(at(GRANTED_AT + 10), &answer(GRANTED_AT)));
    assert!(!terms.is_stale(at(GRANTED_AT + 2_999), &answer(GRANTED_AT)));
    assert!(terms.is_stale(at(GRANTED_AT + 3_000), &answer(GRANTED_AT)));
    assert!(terms.is_stale(at(GRANTED_AT + 60_000), &answer(GRANTED_AT)));
}

#[test]
fn every_word_of_the_daemon_has_its_reason() {
    assert_eq!(LossReason::from_word("max_lifetime"), LossReason::Expired("max_lifetime".to_owned()));
    assert_eq!(LossReason::from_word("admin_force"), LossReason::Revoked("admin_force".to_owned()));
    assert_eq!(LossReason::from_word("explicit"), LossReason::Released);
    assert_eq!(LossReason::from_word("admin_force").to_string(), "the lease was revoked (admin_force)");
    assert_eq!(
        LossReason::Superseded { current: Some(3) }.to_string(),
        "the lease was superseded by epoch 3"
    );
}
