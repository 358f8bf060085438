//! Sessions that queue for a slot: their order, their places, and how they leave.

use std::time::Duration;

use serde_json::{Value, json};

use super::ways::{SHORT, Streams, Told, id, ms, pools_of_one, resources, started_as, started_with};
use crate::daemon::LIMIT;
use crate::run_support::{boot_ms, wait_until};
use crate::wire::daemon::Served;

const ONE: (&str, &str) = ("POOLS", "tuner=1");

/// A daemon with one slot, and who holds it.
#[track_caller]
fn full() -> (Served, Value) {
    let daemon = started_with(&[ONE]);
    let holding = daemon.http().start(json!({"client": "first"}));
    (daemon, holding)
}

#[track_caller]
fn positions(daemon: &Served, sessions: &[&Value]) -> Vec<Value> {
    let mut http = daemon.http();
    sessions.iter().map(|session| http.seen(session)["queue_position"].clone()).collect()
}

#[test]
pub(crate) fn who_waits_is_accepted_at_once_and_told_its_place() {
    let (daemon, holding) = full();
    let mut http = daemon.http();
    for place in 1..=3 {
        let session = http.start(json!({"wait": 60}));
        assert_eq!(json!([session["state"], session["queue_position"]]), json!(["new", place]), "{session}");
        assert!(session["fence"].is_null() && session["lease_id"].is_null(), "{session}");
        let seen = http.seen(&session);
        assert_eq!(json!([seen["state"], seen["queue_position"]]), json!(["new", place]), "{seen}");
    }
    assert_eq!(http.seen(&holding)["state"], "running");
    assert_eq!(http.free("tuner"), 0);
}

#[test]
pub(crate) fn who_waits_for_what_is_free_has_it_at_once() {
    let daemon = started_with(&[ONE]);
    let session = daemon.http().start(json!({"wait": 60}));
    assert_eq!((session["state"].as_str(), resources(&session)), (Some("running"), vec!["tuner/1"]));
}

#[test]
pub(crate) fn a_slot_that_comes_free_goes_to_the_first_and_the_others_move_up() {
    let (daemon, holding) = full();
    let mut http = daemon.http();
    let queued: Vec<Value> = (0..3).map(|_| http.start(json!({"wait": 60}))).collect();
    http.stop(&holding);
    let running = http.until(&queued[0], "running");
    assert_eq!(resources(&running), ["tuner/1"]);
    assert_eq!(running["created_at"], queued[0]["created_at"]);
    assert!((50_000..=60_000).contains(&super::ways::left_ms(&running)), "a ttl of its own: {running}");
    assert_eq!(positions(&daemon, &[&queued[1], &queued[2]]), [1, 2]);
    http.of_session(&running, "fail", json!({"reason": "x"})).session();
    http.until(&queued[1], "running");
    assert_eq!(positions(&daemon, &[&queued[2]]), [1]);
    http.beat(&queued[1]).renewed();
}

#[test]
fn silence_hands_the_slot_to_who_waits() {
    let daemon = started_with(&[SHORT, &[ONE]].concat());
    let mut http = daemon.http();
    let holding = http.start(json!({}));
    let queued = http.start(json!({"wait": 60}));
    wait_until("the slot", LIMIT, || {
        if http.beat(&queued).status == 429 {
            return false;
        }
        http.seen(&queued)["state"] == "running"
    });
    let ended = http.seen(&holding);
    assert_eq!(json!([ended["state"], ended["reason"]]), json!(["stopped", "LEASE_EXPIRED"]));
}

#[test]
pub(crate) fn who_waited_with_a_start_timeout_is_starting_from_then_on() {
    let (daemon, holding) = full();
    let mut http = daemon.http();
    let queued = http.start(json!({"wait": 60, "start_timeout": 30}));
    assert_eq!(queued["state"], "new");
    http.of_session(&queued, "activate", Value::Null).problem("invalid_state");
    http.stop(&holding);
    let starting = http.until(&queued, "starting");
    assert!(super::ways::left_ms(&starting) > 20_000, "{starting}");
    assert_eq!(http.of_session(&queued, "activate", Value::Null).session()["state"], "running");
}

#[test]
pub(crate) fn who_does_not_wait_never_overtakes_who_does() {
    let daemon = started_with(&[("POOLS", "tuner=2")]);
    let mut http = daemon.http();
    let holding = http.start(json!({}));
    let two = http.start(json!({"count": 2, "wait": 60}));
    assert_eq!(two["state"], "new");
    let later = http.start(json!({"wait": 60}));
    assert_eq!(
        json!([later["state"], later["queue_position"]]),
        json!(["new", 2]),
        "the free one is spoken for"
    );
    http.try_start(json!({})).problem("no_capacity");
    http.stop(&holding);
    assert_eq!(resources(&http.until(&two, "running")).len(), 2);
    assert_eq!(positions(&daemon, &[&later]), [1]);
    http.stop(&two);
    http.until(&later, "running");
    http.until_free("tuner", 1);
}

#[test]
pub(crate) fn queues_of_different_pools_do_not_meet() {
    let daemon = started_with(&[("POOLS", "tuner=1,gpu=1")]);
    let mut http = daemon.http();
    for pool in ["tuner", "gpu"] {
        http.start(json!({ "pool": pool }));
        let queued = http.start(json!({"pool": pool, "wait": 60}));
        assert_eq!(queued["queue_position"], 1, "{queued}");
    }
}

#[test]
fn when_the_wait_is_over_it_has_failed() {
    let (daemon, holding) = full();
    let mut http = daemon.http();
    let (short, long) = (http.start(json!({"wait": 1})), http.start(json!({"wait": 60})));
    let ended = http.until(&short, "failed");
    assert_eq!(ended["reason"], "WAIT_TIMEOUT", "{ended}");
    let waited = ms(&ended["ended_at"]) - ms(&short["created_at"]);
    assert!((1_000..10_000).contains(&waited), "{waited} ms: {ended}");
    let problem = http.beat(&short).problem("session_gone");
    assert_eq!(json!([problem["state"], problem["reason"]]), json!(["failed", "WAIT_TIMEOUT"]));
    assert_eq!(positions(&daemon, &[&long]), [1], "the next moves up");
    http.stop(&holding);
    http.until(&long, "running");
}

#[test]
fn a_slot_that_comes_when_the_wait_is_over_is_given_or_stays_free() {
    let count = 8;
    let daemon = started_with(&[("POOLS", &pools_of_one(count))]);
    std::thread::scope(|scope| {
        for number in 1..=count {
            let daemon = &daemon;
            scope.spawn(move || {
                let (mut http, pool) = (daemon.http(), format!("p{number}"));
                let holding = http.start(json!({ "pool": pool }));
                let queued = http.start(json!({"pool": pool, "wait": 1}));
                let due = boot_ms() + 1_000 + number as u64 * 2 - 12;
                wait_until("the end of the wait", LIMIT, || boot_ms() >= due);
                http.stop(&holding);
                let mut seen = Value::Null;
                wait_until("a decision", LIMIT, || {
                    seen = http.seen(&queued);
                    seen["state"] != "new"
                });
                if seen["state"] == "running" {
                    assert_eq!(http.free(&pool), 0, "{seen}");
                    http.stop(&queued);
                } else {
                    assert_eq!(json!([seen["state"], seen["reason"]]), json!(["failed", "WAIT_TIMEOUT"]));
                }
                assert_eq!(http.free(&pool), 1, "{seen}");
            });
        }
    });
}

#[test]
fn a_place_is_kept_by_heartbeats_and_lost_by_silence() {
    let daemon = started_with(&[SHORT, &[ONE]].concat());
    let mut http = daemon.http();
    // No heartbeat is asked for what is held natively.
    let holding = daemon.acquire(json!({"pools": {"tuner": 1}, "holder": "h"}));
    let (silent, kept) = (http.start(json!({"wait": 60})), http.start(json!({"wait": 60})));
    let renewed = http.beat_for(&kept, Duration::from_millis(3_000));
    assert!(renewed.len() > 2);
    let ended = http.until(&silent, "stopped");
    assert_eq!(ended["reason"], "LEASE_EXPIRED", "{ended}");
    http.beat(&silent).problem("session_expired");
    assert_eq!(positions(&daemon, &[&kept]), [1]);
    daemon.of_lease(&holding, "release", json!({"epoch": 1}));
    http.until(&kept, "running");
}

#[test]
pub(crate) fn a_heartbeat_in_the_queue_says_how_long_the_place_is_kept() {
    let (daemon, _holding) = full();
    let mut http = daemon.http();
    let queued = http.start(json!({"wait": 600}));
    assert!((59_000..=60_000).contains(&super::ways::left_ms(&queued)), "{queued}");
    wait_until("a later instant", LIMIT, || {
        ms(&http.seen(&queued)["server_time"]) > ms(&queued["server_time"])
    });
    let renewed = http.beat(&queued).renewed();
    assert!(ms(&renewed["lease_expires_at"]) > ms(&queued["lease_expires_at"]), "{renewed}");
    let seen = http.seen(&queued);
    assert_eq!(json!([seen["state"], seen["queue_position"]]), json!(["new", 1]));
    assert!(seen["last_heartbeat"].is_string(), "{seen}");
}

#[test]
pub(crate) fn who_queues_can_leave_and_the_others_move_up() {
    let (daemon, holding) = full();
    let mut http = daemon.http();
    let queued: Vec<Value> = (0..4).map(|_| http.start(json!({"wait": 60}))).collect();
    let stopped = http.stop(&queued[0]);
    assert_eq!(stopped["reason"], "USER_STOPPED", "{stopped}");
    let stopped = http.intend_stop(&queued[1]).accepted();
    assert_eq!(json!([stopped["state"], stopped["reason"]]), json!(["stopped", "USER_STOPPED"]));
    let failed = http.of_session(&queued[2], "fail", json!({"reason": "gave up"})).session();
    assert_eq!(json!([failed["state"], failed["reason"]]), json!(["failed", "FAILED:gave up"]));
    assert_eq!(positions(&daemon, &[&queued[3]]), [1]);
    for gone in &queued[..3] {
        http.beat(gone).problem("session_gone");
        assert!(http.look(gone).status == 200, "readable for a while");
    }
    http.stop(&holding);
    http.until(&queued[3], "running");
    http.stop(&queued[3]);
    assert_eq!(http.free("tuner"), 1, "nobody who left was given a slot");
}

#[test]
fn a_wait_of_nothing_is_no_wait() {
    let (daemon, _holding) = full();
    daemon.http().try_start(json!({"wait": 0})).problem("no_capacity");
}

#[test]
fn a_queue_is_in_memory_only() {
    let (mut daemon, holding) = full();
    let queued = daemon.http().start(json!({"wait": 600}));
    for end in [|daemon: &mut Served| daemon.stop(), |daemon: &mut Served| daemon.kill()] {
        end(&mut daemon);
        daemon.start_again();
        let mut http = daemon.http();
        http.look(&queued).problem("session_not_found");
        http.beat(&queued).problem("session_not_found");
        assert_eq!(http.seen(&holding)["state"], "running");
    }
    let mut http = daemon.http();
    http.stop(&holding);
    assert_eq!(http.free("tuner"), 1, "nobody is waiting any more");
}

#[test]
fn a_full_queue_is_an_answer() {
    let daemon = started_as(&[ONE], &["--limits-waiters", "2"]);
    let mut http = daemon.http();
    let holding = http.start(json!({}));
    let queued: Vec<Value> = (0..2).map(|_| http.start(json!({"wait": 60}))).collect();
    http.try_start(json!({"wait": 60})).problem("too_many_waiters");
    http.try_start(json!({})).problem("no_capacity");
    http.stop(&holding);
    http.until(&queued[0], "running");
    let session = http.start(json!({"wait": 60}));
    assert_eq!(session["queue_position"], 2, "there is room again: {session}");
}

#[test]
pub(crate) fn the_queue_is_listed_in_its_order() {
    let (daemon, _holding) = full();
    let mut http = daemon.http();
    let queued: Vec<Value> = (0..5).map(|_| http.start(json!({"wait": 60}))).collect();
    let listed = http.list("?state=new");
    assert_eq!(listed.iter().map(id).collect::<Vec<_>>(), queued.iter().map(id).collect::<Vec<_>>());
    let places: Vec<u64> = listed.iter().map(|session| session["queue_position"].as_u64().unwrap()).collect();
    assert_eq!(places, [1, 2, 3, 4, 5]);
}
