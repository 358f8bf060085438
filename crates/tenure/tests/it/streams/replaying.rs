//! Intents that are sent again with their key.

use std::sync::Barrier;

use serde_json::{Value, json};

use super::ways::{Streams, Told, id, started, started_with};
use crate::wire::daemon::Served;
use crate::wire::http::Http;

fn keyed(daemon: &Served, key: &str) -> Http {
    daemon.http().with("idempotency-key", key)
}

#[test]
fn the_same_key_and_body_give_the_same_session() {
    let daemon = started();
    let body = json!({"service_ref": "r", "metadata": {"b": 1, "a": 2}});
    let first = keyed(&daemon, "k").start(body.clone());
    for _ in 0..3 {
        let again = keyed(&daemon, "k").try_start(body.clone()).accepted();
        assert_eq!(again["status"], "idempotent_replay", "{again}");
        for same in ["session_id", "state", "resources", "fence", "epoch", "created_at", "metadata"] {
            assert_eq!(again[same], first[same], "{same}");
        }
    }
    assert_eq!(daemon.http().free("tuner"), 3, "one slot");
    assert_ne!(id(&keyed(&daemon, "other").start(body.clone())), id(&first));
    assert_ne!(id(&daemon.http().start(body)), id(&first), "without a key each is its own");
}

#[test]
fn a_body_that_says_the_same_is_the_same() {
    let daemon = started();
    let mut http = keyed(&daemon, "k");
    let one = br#"{"type":"stream.start","pool":"tuner","client":"den"}"#;
    let two = b" {\"client\": \"den\",\n \"type\": \"stream.start\", \"pool\": \"tuner\"} ";
    let first = http.ask("POST", "/api/v3/intents", one).accepted();
    let second = http.ask("POST", "/api/v3/intents", two).accepted();
    assert_eq!(id(&first), id(&second));
    assert_eq!(second["status"], "idempotent_replay");
}

#[test]
fn the_same_key_with_another_body_is_a_conflict() {
    let daemon = started();
    let first = keyed(&daemon, "k").start(json!({"service_ref": "a"}));
    for other in [
        json!({}),
        json!({"service_ref": "b"}),
        json!({"service_ref": "a", "count": 2}),
        json!({"service_ref": "a", "metadata": {}}),
        json!({"service_ref": "a", "client": "den"}),
        json!({"service_ref": "a", "start_timeout": 5}),
        json!({"service_ref": "a", "correlation_id": "c"}),
        json!({"service_ref": "a", "wait": 5}),
        json!({"service_ref": "a", "resources": ["r"]}),
    ] {
        keyed(&daemon, "k").try_start(other.clone()).problem("operation_conflict");
    }
    let stop = json!({"type": "stream.stop", "session_id": id(&first)});
    keyed(&daemon, "k").post("/api/v3/intents", &stop).problem("operation_conflict");
    assert_eq!(daemon.http().seen(&first)["state"], "running");
    assert_eq!(daemon.http().free("tuner"), 3);
}

#[test]
fn a_replay_shows_the_session_as_it_is_and_brings_nothing_back() {
    let daemon = started();
    let mut http = daemon.http();
    let body = json!({"start_timeout": 60});
    let session = keyed(&daemon, "k").start(body.clone());
    http.of_session(&session, "activate", Value::Null).session();
    let replayed = keyed(&daemon, "k").try_start(body.clone()).accepted();
    assert_eq!(json!([replayed["state"], replayed["status"]]), json!(["running", "idempotent_replay"]));
    http.stop(&session);
    let replayed = keyed(&daemon, "k").try_start(body).accepted();
    assert_eq!(
        json!([id(&replayed), replayed["state"], replayed["reason"], replayed["status"]]),
        json!([id(&session), "stopped", "USER_STOPPED", "idempotent_replay"])
    );
    assert_eq!(http.free("tuner"), 4);
}

#[test]
fn many_at_once_with_one_key_start_one_session() {
    let daemon = started();
    let barrier = Barrier::new(16);
    let told: Vec<Value> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16)
            .map(|_| {
                scope.spawn(|| {
                    let mut http = keyed(&daemon, "k");
                    barrier.wait();
                    http.try_start(json!({"client": "den"})).accepted()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(told.iter().all(|session| id(session) == id(&told[0])), "{told:?}");
    assert_eq!(told.iter().filter(|session| session["status"] == "accepted").count(), 1, "{told:?}");
    assert_eq!(daemon.http().free("tuner"), 3);
}

#[test]
fn who_queues_is_found_again_by_its_key() {
    let daemon = started_with(&[("POOLS", "tuner=1")]);
    let mut http = daemon.http();
    let holding = http.start(json!({}));
    let body = json!({"wait": 600});
    let queued = keyed(&daemon, "k").start(body.clone());
    let other = http.start(json!({"wait": 600}));
    let again = keyed(&daemon, "k").try_start(body.clone()).accepted();
    assert_eq!(
        json!([id(&again), again["state"], again["queue_position"], again["status"]]),
        json!([id(&queued), "new", 1, "idempotent_replay"])
    );
    keyed(&daemon, "k").try_start(json!({"wait": 601})).problem("operation_conflict");
    http.stop(&holding);
    http.until(&queued, "running");
    let again = keyed(&daemon, "k").try_start(body).accepted();
    assert_eq!(
        json!([id(&again), again["state"], again["status"]]),
        json!([id(&queued), "running", "idempotent_replay"])
    );
    assert_eq!(http.seen(&other)["queue_position"], 1);
}

#[test]
fn a_refusal_is_not_what_a_key_stands_for() {
    let daemon = started_with(&[("POOLS", "tuner=1")]);
    let mut http = daemon.http();
    let holding = http.start(json!({}));
    keyed(&daemon, "k").try_start(json!({})).problem("no_capacity");
    http.stop(&holding);
    let session = keyed(&daemon, "k").start(json!({}));
    assert_eq!(session["state"], "running", "who comes back as told is served: {session}");
}

#[test]
fn a_stop_that_is_sent_again_is_a_replay() {
    let daemon = started();
    let session = daemon.http().start(json!({}));
    let stopped = keyed(&daemon, "stop").intend_stop(&session).accepted();
    assert_eq!(stopped["status"], "accepted");
    let again = keyed(&daemon, "stop").intend_stop(&session).accepted();
    assert_eq!(json!([again["status"], again["state"]]), json!(["idempotent_replay", "stopped"]));
}

#[test]
fn keys_outlive_the_daemon() {
    for end in [|daemon: &mut Served| daemon.stop(), |daemon: &mut Served| daemon.kill()] {
        let mut daemon = started();
        let body = json!({"client": "den"});
        let session = keyed(&daemon, "k").start(body.clone());
        end(&mut daemon);
        daemon.start_again();
        let again = keyed(&daemon, "k").try_start(body).accepted();
        assert_eq!(json!([id(&again), again["status"]]), json!([id(&session), "idempotent_replay"]));
        keyed(&daemon, "k").try_start(json!({"client": "attic"})).problem("operation_conflict");
        assert_eq!(daemon.http().free("tuner"), 3);
    }
}

#[test]
fn a_native_key_does_not_meet_one_of_a_session() {
    let daemon = started();
    keyed(&daemon, "k").start(json!({}));
    let native = keyed(&daemon, "k").post("/v1/leases", &json!({"resources": ["r"], "holder": "h"}));
    assert_eq!(native.refusal(), (409, "operation_conflict".to_owned()), "{native:?}");
}
