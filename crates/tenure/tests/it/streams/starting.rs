//! Intents to start: what they give, and the slots that are taken in the same step.

use serde_json::{Value, json};

use super::ways::{SHORT, Streams, Told, id, left_ms, ms, pools_of_one, resources, started, started_with};
use crate::daemon::LIMIT;
use crate::run_support::{boot_ms, wait_until};

#[test]
pub(crate) fn an_intent_to_start_is_accepted_with_the_whole_session() {
    let daemon = started();
    let session = daemon.http().start(json!({}));
    assert_eq!(
        json!([session["state"], session["heartbeat_interval"], session["lease_ttl"]]),
        json!(["running", 5, 60]),
        "the defaults of the contract: {session}"
    );
    assert_eq!(resources(&session).len(), 1);
    assert!(resources(&session)[0].starts_with("tuner/"), "{session}");
    assert!(session["fence"].as_u64().unwrap() > 0 && session["epoch"].as_u64().unwrap() > 0, "{session}");
    assert!(session["reason"].is_null() && session["last_heartbeat"].is_null(), "{session}");
    assert!(ms(&session["created_at"]) <= ms(&session["server_time"]), "{session}");
    let valid = ms(&session["lease_expires_at"]) - ms(&session["created_at"]);
    assert!((60_000..60_500).contains(&valid), "a ttl and no grace: {session}");
    for absent in ["service_ref", "correlation_id", "metadata"] {
        assert!(session[absent].is_null(), "{absent} was not asked for: {session}");
    }
}

#[test]
pub(crate) fn what_was_asked_comes_back_on_every_look() {
    let daemon = started();
    let asked = json!({
        "service_ref": "1:0:19:283D:3FB:1:C00000:0:0:0:", "correlation_id": "request-7", "client": "tv in the den",
        "metadata": {"profile": "hd", "nested": {"list": [1, 2.5, null, "ü"]}},
    });
    let mut http = daemon.http();
    let session = http.start(asked.clone());
    let seen = http.seen(&session);
    for (key, value) in asked.as_object().unwrap() {
        assert_eq!((&session[key], &seen[key]), (value, value), "{key}");
    }
    for same in ["session_id", "state", "created_at", "lease_expires_at", "resources", "fence", "epoch"] {
        assert_eq!(session[same], seen[same], "{same}");
    }
    assert!(seen["status"].is_null(), "only an intent has a status: {seen}");
}

#[test]
pub(crate) fn every_session_has_an_id_and_a_slot_of_its_own() {
    let daemon = started();
    let mut http = daemon.http();
    let sessions: Vec<Value> = (0..4).map(|_| http.start(json!({}))).collect();
    let mut ids: Vec<&str> = sessions.iter().map(id).collect();
    let mut slots: Vec<&str> = sessions.iter().flat_map(resources).collect();
    ids.sort();
    ids.dedup();
    slots.sort();
    assert_eq!((ids.len(), slots), (4, vec!["tuner/1", "tuner/2", "tuner/3", "tuner/4"]));
}

#[test]
pub(crate) fn the_holder_is_the_client_or_else_the_principal() {
    let daemon = started();
    let mut http = daemon.http();
    for (asked, holder) in [(json!({"client": "den"}), "den"), (json!({}), "uid:0")] {
        let session = http.start(asked);
        assert_eq!(session["client"], holder, "{session}");
        let lease = daemon.get(&format!("/v1/leases/{}", session["lease_id"].as_str().unwrap()));
        assert_eq!(lease["holder"], holder, "{lease}");
    }
}

#[test]
pub(crate) fn several_slots_are_taken_together() {
    let daemon = started();
    let mut http = daemon.http();
    let session = http.start(json!({"count": 3}));
    let mut slots = resources(&session);
    slots.dedup();
    assert_eq!(slots.len(), 3, "{session}");
    assert_eq!(http.free("tuner"), 1);
    http.stop(&session);
    http.until_free("tuner", 4);
}

#[test]
pub(crate) fn a_pool_is_named_or_the_configured_one() {
    let daemon = started_with(&[("POOLS", "tuner=1,gpu=2"), ("DEFAULT_POOL", "gpu")]);
    let mut http = daemon.http();
    assert!(resources(&http.start(json!({})))[0].starts_with("gpu/"));
    assert_eq!(resources(&http.start(json!({"pool": "tuner"}))), ["tuner/1"]);
    assert_eq!((http.free("gpu"), http.free("tuner")), (1, 0));
    http.try_start(json!({"pool": "nowhere"})).problem("pool_not_found");
}

#[test]
pub(crate) fn resources_by_name_stand_instead_of_slots_or_beside_them() {
    let daemon = started();
    let mut http = daemon.http();
    let alone = http.start(json!({"resources": ["antenna", "dish/2"]}));
    assert_eq!(resources(&alone), ["antenna", "dish/2"]);
    assert_eq!(http.free("tuner"), 4, "no pool was asked for");
    let beside = http.start(json!({"resources": ["rotor"], "pool": "tuner", "count": 2}));
    assert_eq!(resources(&beside).len(), 3, "{beside}");
    assert!(resources(&beside).contains(&"rotor"), "{beside}");
    assert_eq!(http.free("tuner"), 2);
    // Whole or not at all: what is held already keeps the slots free too.
    http.try_start(json!({"resources": ["antenna"], "pool": "tuner"})).problem("resource_held");
    assert_eq!(http.free("tuner"), 2);
}

#[test]
pub(crate) fn the_slot_is_taken_when_the_intent_is_answered() {
    let daemon = started();
    let mut http = daemon.http();
    for taken in 1..=4 {
        let session = http.start(json!({}));
        assert_eq!(http.free("tuner"), 4 - taken);
        let slot = daemon.get(&format!("/v1/resources/{}", resources(&session)[0]));
        assert_eq!(slot["lease_id"], session["lease_id"], "{slot}");
        assert_eq!(slot["fence"], session["fence"], "{slot}");
    }
}

#[test]
pub(crate) fn fences_of_a_slot_rise_from_session_to_session() {
    let daemon = started_with(&[("POOLS", "tuner=1")]);
    let mut http = daemon.http();
    let mut last = 0;
    for _ in 0..3 {
        let session = http.start(json!({}));
        let fence = session["fence"].as_u64().unwrap();
        assert!(fence > last, "{fence} follows {last}");
        last = fence;
        http.stop(&session);
    }
}

#[test]
pub(crate) fn with_a_start_timeout_it_must_be_activated() {
    let daemon = started();
    let mut http = daemon.http();
    let session = http.start(json!({"start_timeout": 30}));
    assert_eq!(session["state"], "starting");
    let deadline = ms(&session["lease_expires_at"]);
    assert!((30_000..30_500).contains(&(deadline - ms(&session["created_at"]))), "{session}");
    assert_eq!(http.free("tuner"), 3, "its slot is taken");
    let lease = daemon.get(&format!("/v1/leases/{}", session["lease_id"].as_str().unwrap()));
    assert_eq!(lease["state"], "reserved", "{lease}");

    let activated = http.of_session(&session, "activate", Value::Null).session();
    assert_eq!(activated["state"], "running");
    let valid = left_ms(&activated);
    assert!((59_000..=60_000).contains(&valid), "the ttl counts from then on: {activated}");
    for same in ["session_id", "resources", "created_at", "lease_id"] {
        assert_eq!(activated[same], session[same], "{same}");
    }
    assert_eq!(http.seen(&session)["state"], "running");
    assert_eq!(http.free("tuner"), 3);
}

#[test]
pub(crate) fn while_starting_a_heartbeat_is_acknowledged_and_moves_nothing() {
    let daemon = started_with(SHORT);
    let mut http = daemon.http();
    let session = http.start(json!({"start_timeout": 4}));
    let renewed = http.beat(&session).renewed();
    assert_eq!(renewed["lease_expires_at"], session["lease_expires_at"]);
    // Longer than the ttl: only the start deadline counts.
    let mut seen = Value::Null;
    wait_until("the ttl to pass", LIMIT, || {
        seen = http.seen(&session);
        ms(&seen["server_time"]) > ms(&session["created_at"]) + 2_500
    });
    assert_eq!(
        json!([seen["state"], seen["lease_expires_at"]]),
        json!(["starting", session["lease_expires_at"]])
    );
    assert_eq!(http.of_session(&session, "activate", Value::Null).session()["state"], "running");
}

#[test]
pub(crate) fn who_is_not_activated_in_time_has_failed_and_its_slot_is_free() {
    let daemon = started_with(&[("POOLS", "tuner=1")]);
    let mut http = daemon.http();
    let session = http.start(json!({"start_timeout": 1}));
    let ended = http.until(&session, "failed");
    let next = http.start(json!({}));
    assert_eq!(resources(&next), ["tuner/1"], "free at that same moment");
    assert_eq!(ended["reason"], "START_TIMEOUT", "{ended}");
    assert!(ms(&ended["ended_at"]) >= ms(&session["lease_expires_at"]), "never early: {ended}");
    for call in ["activate", "heartbeat"] {
        let problem = http.of_session(&session, call, Value::Null).problem("session_gone");
        assert_eq!(json!([problem["state"], problem["reason"]]), json!(["failed", "START_TIMEOUT"]));
    }
}

#[test]
pub(crate) fn an_activate_at_the_start_deadline_counts_or_the_slot_is_free() {
    let count = 8;
    let daemon = started_with(&[("POOLS", &pools_of_one(count))]);
    std::thread::scope(|scope| {
        for number in 1..=count {
            let daemon = &daemon;
            scope.spawn(move || {
                let (mut http, pool) = (daemon.http(), format!("p{number}"));
                let session = http.start(json!({"pool": pool, "start_timeout": 1}));
                let due = boot_ms() + 1_000 + number as u64 * 2 - 12;
                wait_until("the start deadline", LIMIT, || boot_ms() >= due);
                let answered = http.of_session(&session, "activate", Value::Null);
                if answered.status == 200 {
                    assert_eq!(answered.session()["state"], "running");
                    assert_eq!(http.seen(&session)["state"], "running", "what was answered holds");
                } else {
                    let problem = answered.problem("session_gone");
                    assert_eq!(
                        json!([problem["state"], problem["reason"]]),
                        json!(["failed", "START_TIMEOUT"])
                    );
                    assert_eq!(http.free(&pool), 1);
                }
            });
        }
    });
}

#[test]
pub(crate) fn a_session_that_runs_is_not_harmed_by_another_activate() {
    let daemon = started();
    let mut http = daemon.http();
    for asked in [json!({}), json!({"start_timeout": 9})] {
        let session = http.start(asked);
        for _ in 0..2 {
            let answered = http.of_session(&session, "activate", Value::Null);
            if answered.status != 200 {
                answered.problem("invalid_state");
            }
        }
        assert_eq!(http.seen(&session)["state"], "running");
    }
}

#[test]
pub(crate) fn sessions_are_started_over_the_socket_too() {
    let daemon = started();
    let session = daemon.http_over_socket().start(json!({}));
    assert!(session["client"].as_str().unwrap().starts_with("uid:"), "{session}");
    assert_eq!(daemon.http().seen(&session)["state"], "running");
    daemon.http_over_socket().beat(&session).renewed();
}
