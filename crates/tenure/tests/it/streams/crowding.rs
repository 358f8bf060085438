//! Two hundred starts at once for four slots.

use std::collections::BTreeSet;
use std::sync::Barrier;

use serde_json::{Value, json};

use super::ways::{SHORT, Streams, Told, id, resources, retry_after, started, started_with};
use crate::daemon::LIMIT;
use crate::raw_http::Answered;
use crate::run_support::wait_until;
use crate::wire::daemon::Served;

const CROWD: usize = 200;

/// Asks so often at once, each on a connection of its own.
fn crowd(daemon: &Served, fields: &Value) -> Vec<Answered> {
    let barrier = Barrier::new(CROWD);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CROWD)
            .map(|_| {
                scope.spawn(|| {
                    let mut http = daemon.http();
                    barrier.wait();
                    http.try_start(fields.clone())
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn of_two_hundred_at_once_four_win_and_the_others_are_told_why() {
    let daemon = started_with(SHORT);
    let mut http = daemon.http();
    for round in 1..=2 {
        let told = crowd(&daemon, &json!({}));
        let won: Vec<Value> =
            told.iter().filter(|answered| answered.status == 202).map(Told::accepted).collect();
        let slots: BTreeSet<&str> = won.iter().flat_map(resources).collect();
        assert_eq!((won.len(), slots.len()), (4, 4), "each has one of its own");
        let refused: Vec<&Answered> = told.iter().filter(|answered| answered.status != 202).collect();
        assert_eq!(refused.len(), CROWD - 4);
        for answered in refused {
            let problem = answered.problem("no_capacity");
            assert_eq!(json!([problem["pool"], problem["size"], problem["in_use"]]), json!(["tuner", 4, 4]));
            assert!((1..=3).contains(&retry_after(answered)), "the slots end within the ttl: {answered:?}");
        }
        // Whoever won falls silent, and no slot leaks.
        for session in &won {
            let ended = http.until(session, "stopped");
            assert_eq!(ended["reason"], "LEASE_EXPIRED", "{ended}");
        }
        assert_eq!(http.free("tuner"), 4);
        assert_eq!(http.list("?state=running"), Vec::<Value>::new());
        let rejected = http.number("tenure_session_start_rejected_total", &["reason=\"no_capacity\""]);
        assert_eq!(rejected, (round * (CROWD - 4)) as f64);
        assert_eq!(http.number("tenure_sessions_lease_expired_total", &[]), (round * 4) as f64);
    }
}

#[test]
fn two_hundred_who_wait_are_served_in_the_order_of_the_queue() {
    let daemon = started();
    let mut http = daemon.http();
    let told = crowd(&daemon, &json!({"wait": 600}));
    let all: Vec<Value> = told.iter().map(Told::accepted).collect();
    let (mut running, mut queued): (Vec<&Value>, Vec<&Value>) =
        all.iter().partition(|session| session["state"] == "running");
    assert_eq!((running.len(), queued.len()), (4, CROWD - 4));
    queued.sort_by_key(|session| place(session));
    let places: Vec<u64> = queued.iter().map(|session| place(session)).collect();
    assert_eq!(places, (1..=(CROWD - 4) as u64).collect::<Vec<_>>(), "every place is taken once");

    for (served, next) in queued.iter().enumerate() {
        http.stop(running.remove(0));
        http.until(next, "running");
        running.push(next);
        if let Some(after) = queued.get(served + 1) {
            let seen = http.seen(after);
            assert_eq!(
                json!([seen["state"], seen["queue_position"]]),
                json!(["new", 1]),
                "one slot, one served"
            );
        }
    }
    assert_eq!(http.free("tuner"), 0);
    for session in running {
        http.stop(session);
    }
    assert_eq!(http.free("tuner"), 4, "no slot leaks");
    let ended = http.list("?state=stopped&limit=1000");
    assert_eq!(ended.iter().map(id).collect::<BTreeSet<_>>().len(), CROWD);
}

#[test]
fn two_hundred_who_wait_and_fall_silent_leave_every_slot_free() {
    let daemon = started_with(SHORT);
    let mut http = daemon.http();
    let all: Vec<Value> = crowd(&daemon, &json!({"wait": 600})).iter().map(Told::accepted).collect();
    wait_until("all of them over", LIMIT, || {
        ["new", "starting", "running", "draining"]
            .iter()
            .all(|state| http.list(&format!("?state={state}")).is_empty())
    });
    for session in all.iter().step_by(9) {
        let ended = http.seen(session);
        assert_eq!(json!([ended["state"], ended["reason"]]), json!(["stopped", "LEASE_EXPIRED"]));
    }
    assert_eq!(http.free("tuner"), 4);
    assert_eq!(http.number("tenure_sessions", &["state=\"new\""]), 0.0);
    let again: Vec<Value> = (0..4).map(|_| http.start(json!({}))).collect();
    assert_eq!(again.iter().flat_map(resources).collect::<BTreeSet<_>>().len(), 4);
}

#[test]
fn a_crowd_that_starts_and_stops_leaves_every_slot_free() {
    let daemon = started();
    std::thread::scope(|scope| {
        for number in 0..16 {
            let daemon = &daemon;
            scope.spawn(move || {
                let mut http = daemon.http();
                for round in 0..10 {
                    let count = 1 + (number + round) % 2;
                    let wait = if round % 3 == 0 { 0 } else { 60 };
                    let answered = http.try_start(json!({"count": count, "wait": wait}));
                    if answered.status != 202 {
                        answered.problem("no_capacity");
                        continue;
                    }
                    let session = answered.accepted();
                    match round % 4 {
                        0 => drop(http.intend_stop(&session).accepted()),
                        1 => drop(http.of_session(&session, "fail", json!({"reason": "x"})).session()),
                        2 => {
                            http.until(&session, "running");
                            http.stop(&session);
                        }
                        _ => drop(http.stop(&session)),
                    }
                }
            });
        }
    });
    let mut http = daemon.http();
    assert_eq!(http.free("tuner"), 4);
    for state in ["new", "running", "starting", "draining"] {
        assert_eq!(http.list(&format!("?state={state}")), Vec::<Value>::new());
    }
}

fn place(session: &Value) -> u64 {
    session["queue_position"].as_u64().unwrap()
}
