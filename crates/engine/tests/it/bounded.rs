//! What comes due together is done over several turns: each does a bounded part and asks for the next at once, and
//! proofs of life are served between two.

use crate::desk::Desk;
use tenure_engine::{Answer, EngineConfig, Refused, TURN_WORK_MAX};
use tenure_kernel::LeaseId;
use tenure_liveness::{DrainCause, Standing};

/// A desk of which nothing is written down.
fn silent_desk() -> Desk {
    let mut desk = Desk::with(EngineConfig { inbox_max: 400_000, ..EngineConfig::default() });
    desk.told = false;
    desk
}

/// Runs turns, each with a heartbeat that it must answer, until none asks for another at once; returns how many turns.
fn turns_with_a_heartbeat_each(desk: &mut Desk) -> usize {
    let mut turns = 0;
    while desk.wake_in_ms == Some(0) || desk.flight.is_some() {
        turns += 1;
        desk.answers.remove("beat");
        desk.play("beat: heartbeat other");
        if desk.flight.is_some() {
            desk.commit()
        } else {
            desk.turn()
        }
        let beat = desk.answers.get("beat");
        assert!(matches!(beat, Some(Answer::Renewed { .. })), "turn {turns}: {beat:?}");
    }
    turns
}

// After a restart all leases of one ttl have one deadline; one turn looked at all of them.
#[test]
fn renewed_leases_of_one_deadline_are_looked_at_over_several_turns() {
    const LEASES: usize = 3 * TURN_WORK_MAX;
    let mut desk = silent_desk();
    desk.play("other: grant other ttl=3600000 grace=0");
    for n in 0..LEASES {
        desk.play(&format!("g{n}: grant r/{n} ttl=90000 grace=30000"));
    }
    desk.settle();
    desk.restart();
    // Half of the ttl over, everybody renews; the timers do not move.
    for ms in std::iter::repeat_n(500, 90) {
        desk.pass(ms);
        desk.turn();
    }
    for n in 0..LEASES {
        desk.play(&format!("beat{n}: heartbeat g{n}"));
    }
    desk.settle();
    while desk.engine.tick().0 < 90_000 {
        desk.pass(desk.wake_in_ms.unwrap().max(1));
        desk.turn();
    }
    let now = desk.engine.tick();
    assert_eq!(desk.wake_in_ms, Some(0), "most are still to be looked at");
    assert!(desk.engine.liveness().next_deadline().is_some_and(|next| next <= now));
    let turns = turns_with_a_heartbeat_each(&mut desk);
    assert!((2..20).contains(&turns), "{turns} turns");
    assert!(desk.engine.liveness().next_deadline().is_some_and(|next| next > now));
    assert_eq!(desk.engine.kernel().live_count(), LEASES + 1, "nobody was late");
}

#[test]
fn waits_that_run_out_together_end_over_several_turns() {
    const WAITS: usize = 2_000;
    let mut desk = silent_desk();
    desk.play("other: grant other ttl=3600000 grace=0\n holder: grant a permanent\n settle");
    for n in 0..WAITS {
        desk.play(&format!("w{n}: grant a permanent wait=1000"));
    }
    desk.settle();
    let before = desk.answered;
    desk.play("+1000");
    let over = desk.answered - before;
    assert!(over > 0 && over <= WAITS / 4, "{over} waits ended in one turn");
    assert_eq!(desk.wake_in_ms, Some(0), "the rest is due");
    let turns = turns_with_a_heartbeat_each(&mut desk);
    assert_eq!(desk.answered - before, WAITS + turns);
    let timed_out = |answer: &&Answer| matches!(answer, Answer::Refused(Refused::WaitTimeout));
    assert_eq!(desk.answers.values().filter(timed_out).count(), WAITS);
    assert_eq!(desk.engine.status().waiters, 0);
}

// A wait that begins was counted as one unit of work and took six: a turn began up to 2,000 of them.
#[test]
fn waits_that_begin_together_begin_over_several_turns() {
    const WAITS: usize = 2_000;
    let mut desk = silent_desk();
    desk.play("other: grant other ttl=3600000 grace=0\n holder: grant a permanent\n settle");
    for n in 0..WAITS {
        desk.play(&format!("w{n}: grant a permanent wait=1000"));
    }
    desk.turn();
    let begun = desk.engine.status().waiters as usize;
    assert!((1..=WAITS / 4).contains(&begun), "{begun} waits began in one turn");
    assert_eq!(desk.wake_in_ms, Some(0), "the rest is for the next turn");
    let turns = turns_with_a_heartbeat_each(&mut desk);
    assert!((2..20).contains(&turns), "{turns} turns");
    assert_eq!(desk.engine.status().waiters as usize, WAITS);
}

#[test]
fn gates_that_time_out_together_are_given_up_over_several_turns() {
    const GATES: usize = 1_500;
    let mut desk = silent_desk();
    desk.play("other: grant other ttl=3600000 grace=0");
    for n in 0..GATES {
        // Promised for a minute: a gate that times out reclaims nothing yet.
        desk.play(&format!("g{n}: grant r/{n} ttl=60000 gate"));
    }
    desk.settle();
    for n in 0..GATES {
        desk.play(&format!("revoke{n}: revoke g{n}"));
    }
    desk.turn();
    desk.settle();
    desk.take_story();
    while desk.engine.counters().gates_timed_out == 0 {
        desk.pass(desk.wake_in_ms.unwrap().max(1));
        desk.turn();
    }
    let given_up = desk.engine.counters().gates_timed_out as usize;
    assert!(given_up <= GATES / 2, "{given_up} gates in one turn");
    assert_eq!(desk.wake_in_ms, Some(0), "the rest is due");
    turns_with_a_heartbeat_each(&mut desk);
    assert_eq!(desk.engine.counters().gates_timed_out as usize, GATES);
    assert_eq!(desk.engine.kernel().live_count(), GATES + 1, "their promises still run");
}

/// With a full frame there is nowhere to put an end, but a wait that is over needs none.
#[test]
fn waits_run_out_though_no_frame_has_room() {
    const WAITS: usize = 2_000;
    let mut desk = silent_desk();
    desk.play("other: grant other ttl=3600000 grace=0\n holder: grant a permanent\n settle");
    for n in 0..WAITS {
        desk.play(&format!("w{n}: grant a permanent wait=1000"));
    }
    desk.settle();
    // One frame is in flight and the next is full.
    desk.play("first: amend holder pad=10\n turn");
    for n in 0..1_500 {
        desk.play(&format!("fill{n}: amend holder pad=4096"));
    }
    desk.turn();
    while desk.wake_in_ms == Some(0) {
        desk.turn();
    }
    let before = desk.answered;
    desk.play("+1000");
    while desk.wake_in_ms == Some(0) {
        desk.turn();
    }
    assert!(desk.flight.is_some());
    assert_eq!(desk.engine.status().waiters, 0);
    assert_eq!(desk.answered, before, "what they are told rests on the frame in flight");
    desk.settle();
    assert!(desk.answered - before >= WAITS);
}

// A frame of nothing but notes waits for more of them; once full it kept every further silence waiting too.
#[test]
fn silences_do_not_wait_for_a_full_frame_of_notes() {
    const LEASES: usize = 6_000;
    let mut desk = silent_desk();
    desk.config.liveness.breaker.fraction = 1.0;
    desk.restart();
    for n in 0..LEASES {
        desk.play(&format!("g{n}: grant r/{n} ttl=1000 grace=30000"));
    }
    desk.settle();
    desk.pass(1_000);
    desk.turn();
    desk.settle();
    let (engine, now) = (&desk.engine, desk.engine.tick());
    let silent = engine.kernel().leases_from(LeaseId(0)).filter(|view| {
        engine.liveness().view(*view, now).standing == Some(Standing::Draining(DrainCause::Silence))
    });
    assert_eq!((now.0, silent.count()), (1_000, LEASES));
    assert_eq!(engine.counters().notes_dropped, 0);
}
