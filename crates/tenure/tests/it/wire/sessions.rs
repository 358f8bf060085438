//! Sessions by hand: one heartbeat for many leases.

use std::time::Duration;

use serde_json::{Value, json};

use super::daemon::{LONG, Served, id};
use super::http::{Answer, Ask};
use crate::run_support::{holds_for, wait_until};

fn open(daemon: &Served, holder: &str, ttl_ms: u64, grace_ms: u64) -> Value {
    daemon.post("/v1/sessions", json!({"holder": holder, "ttl_ms": ttl_ms, "grace_ms": grace_ms}))
}

fn path(session: &Value) -> String {
    format!("/v1/sessions/{}", session["session"].as_str().unwrap())
}

fn lease(daemon: &Served, name: &str, session: &Value) -> Value {
    daemon.acquire(json!({"resources": [name], "holder": session["holder"], "session": session["session"]}))
}

fn heartbeat(daemon: &Served, session: &Value, seen: Option<&Value>) -> Value {
    let body = seen.map_or(json!({}), |lsn| json!({"seen_lsn": lsn}));
    daemon.post(&format!("{}/heartbeat", path(session)), body)
}

#[test]
fn a_session_that_was_opened_and_closed_is_found_by_the_retry_of_its_opening() {
    let daemon = Served::start();
    let body = json!({"holder": "alice", "operation_id": "once"});
    let opened = daemon.post("/v1/sessions", body.clone());
    daemon.ask("DELETE", &path(&opened), Value::Null).good();
    let again = daemon.post("/v1/sessions", body);
    assert_eq!((&again["session"], &again["liveness"]), (&opened["session"], &Value::Null), "{again}");
}

#[test]
fn a_session_is_opened_shown_and_listed() {
    let daemon = Served::start();
    let answered = daemon.ask("POST", "/v1/sessions", json!({"holder": "alice"}));
    assert_eq!(answered.status, 201);
    let session = answered.good();
    let word = session["session"].as_str().unwrap();
    assert!(word.starts_with("s:") && word.len() == 10, "{word}");
    assert_eq!((&session["ttl_ms"], &session["grace_ms"]), (&90_000.into(), &30_000.into()));
    assert!((80_000..=90_000).contains(&session["valid_ms"].as_u64().unwrap()), "{session}");
    assert_eq!(
        (&session["kind"], &session["liveness"], &session["leases"]),
        (&"by_hand".into(), &"alive".into(), &0.into())
    );
    lease(&daemon, "r", &session);
    let shown = daemon.get(&path(&session));
    assert_eq!((&shown["leases"], &shown["holder"]), (&1.into(), &"alice".into()));
    let other = open(&daemon, "bob", 60_000, 0);
    let list = daemon.get("/v1/sessions");
    let words: Vec<&Value> =
        list["sessions"].as_array().unwrap().iter().map(|session| &session["session"]).collect();
    assert_eq!(words.len(), 2);
    assert!(words.contains(&&session["session"]) && words.contains(&&other["session"]));
    assert_eq!(list["next_cursor"], Value::Null);
    let first = daemon.get("/v1/sessions?limit=1");
    let second =
        daemon.get(&format!("/v1/sessions?limit=1&cursor={}", first["next_cursor"].as_str().unwrap()));
    let pages = [&first, &second].map(|page| page["sessions"][0]["session"].clone());
    assert_eq!(pages.each_ref().to_vec(), words);
    // A connection without a lease is no session that anybody sees.
    let mut lines = daemon.lines();
    lines.good(json!({"hello": {}}), "hello");
    assert_eq!(daemon.get("/v1/sessions")["sessions"].as_array().unwrap().len(), 2);
}

#[test]
fn sessions_that_are_not_there_are_not_found() {
    let daemon = Served::start();
    for word in ["s:00000000", "pipe:00000001", "cli:00000002"] {
        daemon.ask("GET", &format!("/v1/sessions/{word}"), Value::Null).refused("session_not_found");
        let beat = daemon
            .ask("POST", &format!("/v1/sessions/{word}/heartbeat"), json!({}))
            .refused("session_not_found");
        assert_eq!(beat["lost"], true);
        daemon.ask("DELETE", &format!("/v1/sessions/{word}"), Value::Null).refused("session_not_found");
    }
    daemon.ask("GET", "/v1/sessions/nonsense", Value::Null).refused("invalid_request");
    for body in [
        json!({}),
        json!({"holder": ""}),
        json!({"holder": "a", "ttl_ms": 0}),
        json!({"holder": "a", "ttl_ms": 999}),
        json!({"holder": "a", "grace_ms": 3_600_001}),
    ] {
        assert_eq!(daemon.ask("POST", "/v1/sessions", body.clone()).status, 400, "{body}");
    }
}

#[test]
fn a_lease_has_the_terms_of_its_session_and_does_not_renew_it() {
    let daemon = Served::start();
    let session = open(&daemon, "alice", 60_000, 20_000);
    wait_until("some of the promise has passed", LONG, || {
        daemon.get(&path(&session))["valid_ms"].as_u64().unwrap() < 58_000
    });
    let lease = lease(&daemon, "r", &session);
    assert_eq!(
        (&lease["mode"], &lease["ttl_ms"], &lease["grace_ms"]),
        (&"session".into(), &60_000.into(), &20_000.into())
    );
    let left = lease["valid_ms"].as_u64().unwrap();
    assert!((1..58_000).contains(&left), "what is left of the session's promise: {lease}");
    assert!(daemon.get(&path(&session))["valid_ms"].as_u64().unwrap() <= left);
    daemon.of_lease(&lease, "heartbeat", json!({"epoch": 1})).refused("no_liveness");
    let renewed = heartbeat(&daemon, &session, None);
    assert_eq!(renewed["valid_ms"], 59_699);
    assert!(daemon.inspect(&lease)["valid_ms"].as_u64().unwrap() > left);
}

#[test]
fn one_heartbeat_keeps_every_lease() {
    let daemon = Served::start();
    let session = open(&daemon, "alice", 1_000, 0);
    for number in 0..20 {
        lease(&daemon, &format!("r{number}"), &session);
    }
    let mut http = daemon.http();
    let held = holds_for(Duration::from_millis(2_500), || {
        http.json("POST", &format!("{}/heartbeat", path(&session)), json!({})).good()["valid_ms"] == 994
    });
    assert!(held);
    let list = daemon.get("/v1/leases?liveness=alive");
    assert_eq!(list["leases"].as_array().unwrap().len(), 20);
}

#[test]
fn a_heartbeat_tells_what_was_lost_since() {
    let daemon = Served::start();
    let session = open(&daemon, "alice", 60_000, 0);
    let leases: Vec<Value> = (0..4).map(|number| lease(&daemon, &format!("r{number}"), &session)).collect();
    let first = heartbeat(&daemon, &session, None);
    assert_eq!((&first["ended"], &first["draining"]), (&json!([]), &json!([])));
    daemon.of_lease(&leases[0], "revoke", json!({})).good();
    daemon.of_lease(&leases[1], "drain", json!({})).good();
    daemon.of_lease(&leases[2], "release", json!({"epoch": 1})).good();
    let second = heartbeat(&daemon, &session, Some(&first["lsn"]));
    assert_eq!(
        second["ended"],
        json!([{"lease_id": id(&leases[0]), "reason": "admin_force"}]),
        "what it gave back itself is no loss"
    );
    assert_eq!(second["draining"], json!([id(&leases[1])]));
    let again = heartbeat(&daemon, &session, Some(&first["lsn"]));
    assert_eq!(again["ended"], second["ended"], "an answer that was lost is told again");
    let third = heartbeat(&daemon, &session, Some(&second["lsn"]));
    assert_eq!((&third["ended"], &third["draining"]), (&json!([]), &second["draining"]));
    daemon.of_lease(&leases[1], "revive", json!({})).good();
    assert_eq!(heartbeat(&daemon, &session, Some(&third["lsn"]))["draining"], json!([]));
}

#[test]
fn a_silent_session_drains_and_takes_its_leases_with_it() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let session = open(&daemon, "alice", 1_000, 400);
    let leases: Vec<Value> = (0..3).map(|number| lease(&daemon, &format!("r{number}"), &session)).collect();
    let draining = watch.next_of("draining");
    assert_eq!(draining.data["session"], session["session"]);
    assert_eq!(daemon.get(&path(&session))["liveness"], "draining");
    assert_eq!(daemon.inspect(&leases[0])["drain_cause"], "silence");
    let mut ended: Vec<Value> = (0..3)
        .map(|_| {
            let revoked = watch.next_of("revoked");
            assert_eq!(revoked.data["lease"]["reason"], "session_expired");
            revoked.data["lease"]["lease_id"].clone()
        })
        .collect();
    ended.sort_by_key(Value::to_string);
    let mut expected: Vec<Value> = leases.iter().map(|lease| lease["lease_id"].clone()).collect();
    expected.sort_by_key(Value::to_string);
    assert_eq!(ended, expected);
    wait_until("the session is gone", LONG, || daemon.ask("GET", &path(&session), Value::Null).status == 404);
    let error =
        daemon.ask("POST", &format!("{}/heartbeat", path(&session)), json!({})).refused("session_not_found");
    assert_eq!(error["lost"], true);
    let story = daemon.get(&format!("/v1/why?session={}", session["session"].as_str().unwrap()));
    let kinds: Vec<&Value> =
        story["entries"].as_array().unwrap().iter().map(|entry| &entry["kind"]).collect();
    assert!(
        kinds.contains(&&json!("session_opened")) && kinds.contains(&&json!("session_closed")),
        "{story}"
    );
}

#[test]
fn a_silent_session_comes_back_by_a_heartbeat() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let session = open(&daemon, "alice", 1_000, 60_000);
    let lease = lease(&daemon, "r", &session);
    watch.next_of("draining");
    assert_eq!(heartbeat(&daemon, &session, None)["valid_ms"], 994);
    assert_eq!(watch.next_of("revived").data["session"], session["session"]);
    let shown = daemon.inspect(&lease);
    assert_eq!((&shown["liveness"], &shown["epoch"]), (&"alive".into(), &1.into()));
}

#[test]
fn closing_a_session_releases_all_it_holds() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let session = open(&daemon, "alice", 60_000, 60_000);
    let leases: Vec<Value> = (0..3).map(|number| lease(&daemon, &format!("r{number}"), &session)).collect();
    let reserved = daemon.acquire(
        json!({"resources": ["reserved"], "holder": "alice", "session": session["session"], "reserve_ms": 60_000}),
    );
    let closed = daemon.ask("DELETE", &path(&session), Value::Null).good();
    assert_eq!(closed["session"], session["session"]);
    for lease in leases.iter().chain([&reserved]) {
        let shown = daemon.inspect(lease);
        assert_eq!((&shown["state"], &shown["reason"]), (&"released".into(), &"explicit".into()), "{shown}");
        watch.about("released", lease);
    }
    daemon.ask("GET", &path(&session), Value::Null).refused("session_not_found");
    daemon.ask("DELETE", &path(&session), Value::Null).refused("session_not_found");
    daemon.acquire(json!({"resources": ["r0", "r1", "r2", "reserved"], "holder": "bob"}));
    daemon
        .ask(
            "POST",
            "/v1/leases",
            json!({"resources": ["x"], "holder": "alice", "session": session["session"]}),
        )
        .refused("session_not_found");
}

#[test]
fn a_lease_is_handed_over_in_one_step() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let (alice, bob) = (open(&daemon, "alice", 60_000, 0), open(&daemon, "bob", 50_000, 1_000));
    let before = lease(&daemon, "r", &alice);
    daemon
        .of_lease(&before, "handover", json!({"epoch": 9, "to_session": bob["session"]}))
        .refused("stale_epoch");
    daemon
        .of_lease(&before, "handover", json!({"epoch": 1, "to_session": "s:00000000"}))
        .refused("session_not_found");
    let after =
        daemon.of_lease(&before, "handover", json!({"epoch": 1, "to_session": bob["session"]})).good();
    assert_eq!(
        (&after["lease_id"], &after["epoch"], &after["holder"]),
        (&before["lease_id"], &2.into(), &"bob".into())
    );
    assert_eq!(
        (&after["session"], &after["ttl_ms"], &after["grace_ms"]),
        (&bob["session"], &50_000.into(), &1_000.into())
    );
    assert!(after["fence"].as_u64() > before["fence"].as_u64());
    let rebound = watch.about("rebound", &before);
    assert_eq!((&rebound["lease"]["holder"], &rebound["lease"]["session"]), (&"bob".into(), &bob["session"]));
    let error = daemon.of_lease(&before, "release", json!({"epoch": 1})).refused("stale_epoch");
    assert_eq!((&error["lost"], &error["current"]), (&true.into(), &2.into()));
    daemon.ask("DELETE", &path(&alice), Value::Null).good();
    assert_eq!(daemon.inspect(&before)["liveness"], "alive", "it is alice's no more");
    // A heartbeat lease can be handed over, too.
    let own = daemon.acquire(json!({"resources": ["s"], "holder": "carol"}));
    let given = daemon.of_lease(&own, "handover", json!({"epoch": 1, "to_session": bob["session"]})).good();
    assert_eq!((&given["mode"], &given["holder"]), (&"session".into(), &"bob".into()));
    assert_eq!(daemon.get(&path(&bob))["leases"], 2);
}

#[test]
fn a_lease_is_rebound_to_a_new_holder_session_or_attachment() {
    let daemon = Served::start();
    let first = daemon.acquire(json!({"resources": ["r"], "holder": "alice", "attachment": 1}));
    let second = daemon.of_lease(&first, "rebind", json!({"epoch": 1, "holder": "bob"})).good();
    assert_eq!(
        (&second["holder"], &second["epoch"], &second["attachment"]),
        (&"bob".into(), &2.into(), &1.into())
    );
    assert!(second["fence"].as_u64() > first["fence"].as_u64());
    assert_eq!((&second["mode"], &second["ttl_ms"]), (&"heartbeat".into(), &90_000.into()));
    let session = open(&daemon, "carol", 60_000, 5_000);
    let third = daemon
        .of_lease(
            &first,
            "rebind",
            json!({"epoch": 2, "session": session["session"], "attachment": {"a": 1}}),
        )
        .good();
    assert_eq!(
        (&third["holder"], &third["epoch"], &third["session"]),
        (&"bob".into(), &3.into(), &session["session"])
    );
    assert_eq!(
        (&third["mode"], &third["grace_ms"], &third["attachment"]),
        (&"session".into(), &5_000.into(), &json!({"a": 1}))
    );
    daemon.of_lease(&first, "rebind", json!({"epoch": 2})).refused("stale_epoch");
    daemon
        .of_lease(&first, "rebind", json!({"epoch": 3, "session": "pipe:00000001"}))
        .refused("session_not_found");
    daemon.of_lease(&first, "rebind", json!({"epoch": 3, "holder": ""})).refused("invalid_request");
    // The former holders may act for a while.
    assert_eq!(daemon.of_lease(&first, "release", json!({"epoch": 3})).good()["state"], "revoking");
    let error = daemon.of_lease(&first, "rebind", json!({"epoch": 3})).refused("stale_epoch");
    assert_eq!(error["lost"], true);
}

#[test]
fn a_rebound_lease_is_not_drained_by_the_end_of_its_former_session() {
    let daemon = Served::start();
    let mut watch = daemon.watch();
    let (one, two) = (open(&daemon, "a", 1_000, 0), open(&daemon, "a", 60_000, 0));
    let lease = lease(&daemon, "r", &one);
    daemon.of_lease(&lease, "rebind", json!({"epoch": 1, "session": two["session"]})).good();
    watch.next_of("session_closed");
    let shown = daemon.inspect(&lease);
    assert_eq!((&shown["liveness"], &shown["session"]), (&"alive".into(), &two["session"]));
}
