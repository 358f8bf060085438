//! Sessions are leases: what the native calls see of them and do to them.

use std::time::Duration;

use serde_json::{Value, json};

use super::ways::{SHORT, Streams, Told, id, left_ms, ms, pools_of_one, resources, started, started_with};
use crate::daemon::LIMIT;
use crate::run_support::wait_until;
use crate::wire::http::Answer;

#[test]
fn a_session_is_a_lease_of_its_own_face() {
    let daemon = started();
    let mut http = daemon.http();
    let session = http.start(json!({"client": "den", "count": 2}));
    let lease = daemon.inspect(&session);
    assert_eq!(
        json!([
            lease["application"],
            lease["state"],
            lease["liveness"],
            lease["mode"],
            lease["ttl_ms"],
            lease["grace_ms"]
        ]),
        json!(["slots", "active", "alive", "heartbeat", 60_000, 0])
    );
    for (native, own) in
        [("holder", "client"), ("epoch", "epoch"), ("fence", "fence"), ("resources", "resources")]
    {
        assert_eq!(lease[native], session[own], "{native}");
    }
    let listed = daemon.get("/v1/leases?application=slots");
    assert_eq!(listed["leases"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["leases"][0]["lease_id"], session["lease_id"]);
    let starting = http.start(json!({"start_timeout": 60}));
    assert_eq!(daemon.inspect(&starting)["state"], "reserved");
}

#[test]
fn an_operators_drain_shows_and_a_heartbeat_does_not_undo_it() {
    let daemon = started();
    let mut http = daemon.http();
    let session = http.start(json!({}));
    daemon.of_lease(&session, "drain", json!({})).good();
    let draining = http.seen(&session);
    assert_eq!(draining["state"], "draining");
    let renewed = http.beat(&session).renewed();
    assert!(
        ms(&renewed["lease_expires_at"]) <= ms(&draining["lease_expires_at"]) + 10,
        "{renewed} {draining}"
    );
    assert_eq!(http.seen(&session)["state"], "draining");
    daemon.of_lease(&session, "revive", json!({})).good();
    let revived = http.seen(&session);
    assert_eq!(revived["state"], "running");
    assert!(left_ms(&revived) > 50_000, "{revived}");
}

#[test]
fn a_drain_that_is_over_ends_the_session_however_it_beats() {
    let daemon = started_with(&[SHORT, &[("POOLS", "tuner=1")]].concat());
    let mut http = daemon.http();
    let session = http.start(json!({}));
    daemon.of_lease(&session, "drain", json!({})).good();
    let draining = http.seen(&session);
    let mut ended = Value::Null;
    wait_until("the end of the drain", LIMIT, || {
        http.beat(&session);
        ended = http.seen(&session);
        ended["state"] == "stopped"
    });
    assert_eq!(ended["reason"], "ADMIN_REVOKED", "{ended}");
    assert!(ms(&ended["ended_at"]) >= ms(&draining["lease_expires_at"]) - 10, "{ended} {draining}");
    http.until_free("tuner", 1);
}

#[test]
fn a_revoked_session_drains_until_its_promise_is_over_and_then_its_slot_is_free() {
    let daemon = started_with(&[SHORT, &[("POOLS", "tuner=1")]].concat());
    let mut http = daemon.http();
    let session = http.start(json!({}));
    let promised = http.beat(&session).renewed();
    daemon.of_lease(&session, "revoke", json!({"reason": "enough"})).good();
    let draining = http.seen(&session);
    assert_eq!(draining["state"], "draining", "never early: {draining}");
    assert_eq!(draining["lease_expires_at"], promised["lease_expires_at"]);
    let renewed = http.beat(&session).renewed();
    assert_eq!(renewed["lease_expires_at"], promised["lease_expires_at"], "acknowledged, not moved");
    assert_eq!(http.free("tuner"), 0);
    let ended = http.until(&session, "stopped");
    http.start(json!({}));
    assert_eq!(ended["reason"], "ADMIN_REVOKED", "{ended}");
    assert!(ms(&ended["ended_at"]) >= ms(&promised["lease_expires_at"]), "never early: {ended}");
    let problem = http.beat(&session).problem("session_gone");
    assert_eq!(json!([problem["state"], problem["reason"]]), json!(["stopped", "ADMIN_REVOKED"]));
}

#[test]
fn a_beat_that_is_told_of_a_revoke_finds_the_slot_free() {
    let count = 8;
    let daemon = started_with(&[SHORT, &[("POOLS", &pools_of_one(count))]].concat());
    std::thread::scope(|scope| {
        for number in 1..=count {
            let daemon = &daemon;
            scope.spawn(move || {
                let (mut http, pool) = (daemon.http(), format!("p{number}"));
                let session = http.start(json!({ "pool": pool }));
                daemon.of_lease(&session, "revoke", json!({})).good();
                wait_until("a beat that is refused", LIMIT, || match http.beat(&session).status {
                    410 => true,
                    // Too many are asked here; those in between have to count.
                    status => {
                        assert!(matches!(status, 200 | 429), "{status}");
                        false
                    }
                });
                http.start(json!({ "pool": pool }));
            });
        }
    });
}

#[test]
fn who_was_revoked_may_stop_at_once() {
    let daemon = started_with(&[("POOLS", "tuner=1")]);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    daemon.of_lease(&session, "revoke", json!({})).good();
    assert_eq!(http.seen(&session)["state"], "draining");
    let stopped = http.stop(&session);
    assert_eq!(stopped["reason"], "ADMIN_REVOKED", "{stopped}");
    assert_eq!(http.free("tuner"), 1);
}

#[test]
fn a_session_that_was_starting_is_revoked_at_once() {
    let daemon = started_with(&[("POOLS", "tuner=1")]);
    let mut http = daemon.http();
    let session = http.start(json!({"start_timeout": 600}));
    daemon.of_lease(&session, "revoke", json!({})).good();
    let ended = http.seen(&session);
    assert_eq!(json!([ended["state"], ended["reason"]]), json!(["stopped", "ADMIN_REVOKED"]), "{ended}");
    assert_eq!(http.free("tuner"), 1);
}

#[test]
fn a_pool_that_is_removed_ends_its_sessions() {
    let daemon = started_with(&[SHORT, &[("POOLS", "tuner=2,gpu=1")]].concat());
    let mut http = daemon.http();
    let (one, two) = (http.start(json!({})), http.start(json!({"start_timeout": 600})));
    let other = http.start(json!({"pool": "gpu", "start_timeout": 600}));
    assert_eq!(http.delete("/v1/pools/tuner").refusal(), (409, "pool_in_use".to_owned()));
    assert_eq!(http.delete("/v1/pools/tuner?force=true").status, 200);
    for session in [&one, &two] {
        let ended = http.until(session, "stopped");
        assert_eq!(ended["reason"], "ADMIN_REVOKED", "{ended}");
        http.beat(session).problem("session_gone");
    }
    let ended = http.seen(&one);
    assert!(ms(&ended["ended_at"]) >= ms(&one["lease_expires_at"]), "never early: {ended}");
    assert_eq!(http.seen(&other)["state"], "starting");
    http.try_start(json!({})).problem("pool_not_found");
}

#[test]
fn a_native_heartbeat_keeps_a_session() {
    let daemon = started_with(SHORT);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    let renewed = crate::run_support::holds_for(Duration::from_millis(2_600), || {
        daemon.of_lease(&session, "heartbeat", json!({"epoch": session["epoch"]})).status == 200
    });
    assert!(renewed, "a heartbeat was refused");
    assert_eq!(http.seen(&session)["state"], "running");
}

#[test]
fn a_native_release_is_a_stop() {
    let daemon = started();
    let mut http = daemon.http();
    let session = http.start(json!({}));
    daemon.of_lease(&session, "release", json!({"epoch": session["epoch"]})).good();
    let ended = http.seen(&session);
    assert_eq!(json!([ended["state"], ended["reason"]]), json!(["stopped", "USER_STOPPED"]));
    assert_eq!(http.free("tuner"), 4);
}

#[test]
fn a_native_activate_makes_it_run() {
    let daemon = started();
    let mut http = daemon.http();
    let session = http.start(json!({"start_timeout": 60}));
    daemon.of_lease(&session, "activate", json!({"epoch": session["epoch"]})).good();
    assert_eq!(http.seen(&session)["state"], "running");
}

#[test]
fn its_story_is_told_by_its_id() {
    let daemon = started_with(SHORT);
    let mut http = daemon.http();
    let session = http.start(json!({"client": "den", "start_timeout": 60}));
    http.of_session(&session, "activate", Value::Null).session();
    let path = format!("/v1/why?session={}", id(&session));
    let story = daemon.get(&path);
    let next = story["next"].as_str().unwrap_or_else(|| panic!("{story}"));
    assert!(!next.is_empty(), "{story}");
    http.until(&session, "stopped");
    let story = daemon.get(&path);
    let entries = story["entries"].as_array().unwrap();
    let kinds: Vec<&str> = entries.iter().map(|entry| entry["kind"].as_str().unwrap()).collect();
    for kind in ["granted", "activated", "revoked"] {
        assert!(kinds.contains(&kind), "{kind} is not in {kinds:?}");
    }
    assert!(entries.iter().all(|entry| entry["lease_id"] == session["lease_id"]), "{story}");
    assert!(story.to_string().contains("heartbeat"), "why it ended: {story}");
    assert!(story["next"].is_null(), "{story}");
    // Its slot tells the same story.
    let slot = daemon.get(&format!("/v1/why?resource={}", resources(&session)[0]));
    let of_slot = slot["entries"].as_array().unwrap();
    assert!(of_slot.iter().any(|entry| entry["lease_id"] == session["lease_id"]), "{slot}");
}

#[test]
fn nobodys_story_is_not_told() {
    let daemon = started();
    let answered = daemon.ask("GET", &format!("/v1/why?session={}", id(&super::ways::nobody())), Value::Null);
    answered.refused("not_found");
}

#[test]
fn the_life_of_a_session_is_on_the_stream_of_events() {
    let daemon = started();
    let mut watch = daemon.watch();
    let mut http = daemon.http();
    let session = http.start(json!({"start_timeout": 60}));
    let granted = watch.about("granted", &session);
    assert_eq!(granted["lease"]["application"], "slots", "{granted}");
    http.of_session(&session, "activate", Value::Null).session();
    watch.about("activated", &session);
    daemon.of_lease(&session, "drain", json!({})).good();
    watch.about("draining", &session);
    daemon.of_lease(&session, "revive", json!({})).good();
    watch.about("revived", &session);
    http.stop(&session);
    let ended = loop {
        let happened = watch.next();
        if happened.data["lease"]["lease_id"] == session["lease_id"] {
            break happened;
        }
    };
    assert!(["released", "revoked"].contains(&ended.kind.as_str()), "{ended:?}");
    assert_eq!(ended.data["lease"]["reason"], "explicit", "{ended:?}");
}

#[test]
fn an_end_by_silence_is_an_event_as_soon_as_the_slot_is_free() {
    let daemon = started_with(&[SHORT, &[("POOLS", "tuner=1")]].concat());
    let mut watch = daemon.watch();
    let mut http = daemon.http();
    let session = http.start(json!({}));
    let revoked = watch.about("revoked", &session);
    assert_eq!(revoked["lease"]["reason"], "heartbeat_expired", "{revoked}");
    watch.about("reclaimed", &session);
    http.start(json!({}));
    assert_eq!(http.seen(&session)["reason"], "LEASE_EXPIRED");
}

#[test]
fn sessions_and_native_holders_share_the_slots_fairly() {
    let daemon = started_with(&[("POOLS", "tuner=1")]);
    let mut http = daemon.http();
    let session = http.start(json!({}));
    let mut native = daemon.http();
    let asked = json!({"pools": {"tuner": 1}, "holder": "h", "wait_ms": 60_000}).to_string();
    native.send("POST", "/v1/leases", asked.as_bytes()).unwrap();
    wait_until("the native one to wait", LIMIT, || daemon.get("/v1/status")["waiters"] == 1);
    let queued = http.start(json!({"wait": 60}));
    http.stop(&session);
    let lease = native.answer().unwrap();
    assert_eq!(lease.status, 201, "{lease:?}");
    assert_eq!(http.seen(&queued)["state"], "new");
    daemon.of_lease(&lease.json(), "release", json!({"epoch": 1})).good();
    http.until(&queued, "running");
}

#[test]
fn sessions_by_hand_are_something_else() {
    let daemon = started();
    let mut http = daemon.http();
    let by_hand = daemon.post("/v1/sessions", json!({"holder": "h"}));
    let session = json!({"session_id": by_hand["session"]});
    http.look(&session).problem("session_not_found");
    http.beat(&session).problem("session_not_found");
    let stream = http.start(json!({}));
    let listed = daemon.get("/v1/sessions");
    assert!(!listed.to_string().contains(id(&stream)), "{listed}");
}

#[test]
fn the_status_counts_sessions_by_face() {
    let daemon = started();
    daemon.http().start(json!({}));
    let status = daemon.get("/v1/status");
    assert!(status.to_string().contains("\"streams\":1"), "{status}");
}
