//! Registrants that come back within the grace find their registration again.

use serde_json::{Value, json};

use super::ways::{Registrant, Registry, id, service, service_with, started, started_with};
use crate::security::{as_token, with_tokens};
use crate::wire::daemon::Served;
use crate::wire::events::Events;
use crate::wire::http::{Answer, Ask};

/// Registers over the socket and drops the connection.
#[track_caller]
fn left_behind(daemon: &Served, service: Value) -> Value {
    let registered = daemon.lines().register(service);
    daemon.until(&registered, "draining");
    registered
}

#[test]
pub(crate) fn a_registrant_that_comes_back_gets_its_id_back() {
    let daemon = started();
    let before = left_behind(&daemon, service_with("app", json!({"txt": {"old": "1", "both": "1"}})));
    let lease_id = daemon.seen(&before)["lease_id"].clone();
    let mut lines = daemon.lines();
    let session = lines.ask(json!({"hello": {}}))["hello"]["session"].clone();
    let after = lines.register(service_with("app", json!({"port": 9090, "txt": {"both": "2"}})));
    assert_eq!(after["id"], before["id"]);
    assert!(after["epoch"].as_u64() > before["epoch"].as_u64(), "{after}");
    assert_eq!(
        json!([after["port"], after["advertised_name"], after["draining"], after["mode"]]),
        json!([9090, "app", false, "session"])
    );
    let seen = daemon.seen(&after);
    assert_eq!(json!([seen["state"], seen["session_id"], seen["port"]]), json!(["alive", session, 9090]));
    assert_eq!(seen["txt"], json!({"both": "2"}), "the new payload wins, whole");
    assert_eq!((&seen["lease_id"], &seen["epoch"]), (&lease_id, &after["epoch"]));
    assert!(daemon.ends_told(&before).is_empty());
    assert_eq!(daemon.counts()["total"], 1);
}

#[test]
pub(crate) fn nothing_is_withdrawn_when_a_registrant_comes_back() {
    let daemon = started();
    let mut browse = Events::look(daemon.http(), "/v1/mdns/browse?type=_http._tcp");
    left_behind(&daemon, service("app"));
    assert_eq!(browse.next().data["found"]["port"], 8080);
    let mut lines = daemon.lines();
    lines.register(service_with("app", json!({"port": 9090})));
    let changed = browse.next().data;
    assert_eq!(changed["found"]["port"], 9090, "changed in place, never removed first: {changed}");
    lines.register(service("witness"));
    let mut names = Vec::new();
    while names.last() != Some(&json!("witness")) {
        let data = browse.next().data;
        assert_ne!(data["event"], "removed", "{data}");
        names.push(data["found"]["name"].clone());
    }
}

#[test]
fn a_registrant_that_comes_back_may_spell_name_and_type_otherwise() {
    let daemon = started();
    let before = left_behind(&daemon, json!({"name": "My Printer", "type": "_http._tcp", "port": 80}));
    let mut lines = daemon.lines();
    let after = lines.register(json!({"name": "MY printer", "type": "HTTP.TCP.local.", "port": 80}));
    assert_eq!(after["id"], before["id"], "{after}");
    assert_eq!(after["name"], "MY printer", "the new payload wins");
    assert_eq!(daemon.counts(), json!({"alive": 1, "draining": 0, "permanent": 0, "total": 1}));
}

#[test]
fn another_name_or_type_is_another_registration() {
    let daemon = started();
    let before = left_behind(&daemon, service("äpp"));
    let mut lines = daemon.lines();
    for other in [
        service("äpp2"),
        service_with("äpp", json!({"type": "_http._udp"})),
        service_with("äpp", json!({"type": "_ipp._tcp"})),
    ] {
        let registered = lines.register(other);
        assert_ne!(registered["id"], before["id"], "{registered}");
    }
    assert_eq!(daemon.state(&before), "draining");
}

/// The mDNS engine takes names that differ by capitals alone for one, in any script.
#[test]
fn names_are_one_whatever_their_capitals() {
    let daemon = started();
    let mut lines = daemon.lines();
    let first = lines.register(service("BÜRO"));
    let second = daemon.register(service("büro"));
    assert_eq!(second["advertised_name"], "büro (2)", "{second}");
    drop(lines);
    daemon.until(&first, "draining");
    assert_eq!(daemon.lines().register(service("Büro"))["id"], first["id"]);
}

/// The old process' shutdown used to end the registrant that came after it.
#[test]
pub(crate) fn an_end_with_an_epoch_is_of_that_epoch_alone() {
    let daemon = started();
    let before = left_behind(&daemon, service("app"));
    let mut lines = daemon.lines();
    let after = lines.register(service("app"));
    assert_eq!(after["id"], before["id"]);
    let path = |epoch: &Value| format!("/v1/mdns/services/{}?epoch={epoch}", id(&before));
    let mut http = daemon.http_over_socket();
    let refused = http.json("DELETE", &path(&before["epoch"]), Value::Null);
    assert_eq!(refused.refused("stale_epoch")["current"], after["epoch"]);
    assert_eq!(daemon.state(&after), "alive");
    http.json("DELETE", "/v1/mdns/services/x?epoch=-1", Value::Null).refused("invalid_request");
    http.json("DELETE", &path(&after["epoch"]), Value::Null).good();
    daemon.until_told(&after, "explicit");
}

#[test]
fn silence_over_http_is_come_back_from_by_registering_again() {
    let daemon = started();
    let before = daemon.register(service_with("app", json!({"lease": 1})));
    daemon.until(&before, "draining");
    let after = daemon.register(service_with("app", json!({"lease": 50, "txt": {"a": "b"}})));
    assert_eq!(after["id"], before["id"]);
    assert_eq!(json!([after["mode"], after["lease"], after["epoch"]]), json!(["heartbeat", 50, 2]));
    let seen = daemon.seen(&after);
    assert_eq!(json!([seen["state"], seen["lease_secs"], seen["txt"]]), json!(["alive", 50, {"a": "b"}]));
    let refused = daemon.heartbeat(&before, json!({"epoch": 1}));
    assert_eq!(refused.refused("stale_epoch")["current"], 2, "the first registrant has lost it");
    daemon.heartbeat(&after, json!({"epoch": 2})).good();
}

#[test]
pub(crate) fn a_registration_may_move_from_one_transport_to_another() {
    let daemon = started();
    let before = left_behind(&daemon, service("app"));
    let over_http = daemon.register(service_with("app", json!({"lease": 1})));
    assert_eq!((&over_http["id"], &over_http["mode"]), (&before["id"], &"heartbeat".into()));
    assert_eq!(daemon.seen(&over_http)["session_id"], Value::Null);
    daemon.until(&over_http, "draining");
    let mut stdin = daemon.stdin();
    let over_stdin = stdin.register(service("app"));
    assert_eq!((&over_stdin["id"], &over_stdin["mode"]), (&before["id"], &"session".into()));
    let seen = daemon.seen(&over_stdin);
    assert_eq!(json!([seen["grace_secs"], seen["lease_secs"], seen["state"]]), json!([5, null, "alive"]));
    drop(stdin);
    daemon.until(&over_stdin, "draining");
    let permanent = daemon.register(service_with("app", json!({"lease": 0})));
    assert_eq!((&permanent["id"], &permanent["mode"]), (&before["id"], &"permanent".into()));
    let seen = daemon.seen(&permanent);
    assert_eq!(
        json!([seen["grace_secs"], seen["session_id"], seen["remaining_secs"]]),
        json!([0, null, null])
    );
}

#[test]
pub(crate) fn the_oldest_of_several_is_come_back_to_first() {
    let daemon = started();
    let (mut one, mut two) = (daemon.lines(), daemon.lines());
    let first = one.register(service("app"));
    let second = two.register(service("app"));
    assert_eq!(second["advertised_name"], "app (2)");
    drop(one);
    daemon.until(&first, "draining");
    drop(two);
    daemon.until(&second, "draining");
    let mut lines = (daemon.lines(), daemon.lines(), daemon.lines());
    let back = lines.0.register(service("app"));
    assert_eq!((&back["id"], &back["advertised_name"]), (&first["id"], &"app".into()));
    let back = lines.1.register(service("app"));
    assert_eq!((&back["id"], &back["advertised_name"]), (&second["id"], &"app (2)".into()));
    let fresh = lines.2.register(service("app"));
    assert_eq!((&fresh["advertised_name"], &fresh["epoch"]), (&"app (3)".into(), &1.into()));
}

#[test]
fn the_requested_name_counts_not_the_advertised_one() {
    let daemon = started();
    let mut one = daemon.lines();
    one.register(service("app"));
    let second = left_behind(&daemon, service("app"));
    assert_eq!(second["advertised_name"], "app (2)");
    let mut lines = daemon.lines();
    let other = lines.register(service("app (2)"));
    assert_ne!(other["id"], second["id"], "nobody asked for that name before: {other}");
    assert_eq!(other["advertised_name"], "app (2) (2)");
    let back = lines.register(service("app"));
    assert_eq!((&back["id"], &back["advertised_name"]), (&second["id"], &"app (2)".into()));
}

#[test]
fn what_an_operator_drained_is_come_back_to_and_stays_draining() {
    let daemon = started();
    let mut one = daemon.lines();
    let before = one.register(service("app"));
    daemon.steer(&before, "drain").good();
    let mut two = daemon.lines();
    let session = two.ask(json!({"hello": {}}))["hello"]["session"].clone();
    let after = two.register(service_with("app", json!({"port": 9090})));
    assert_eq!(json!([after["id"], after["draining"], after["port"]]), json!([before["id"], true, 9090]));
    let seen = daemon.seen(&after);
    assert_eq!(json!([seen["state"], seen["session_id"]]), json!(["draining", session]));
    one.refused(json!({"heartbeat": id(&before)}), "no_liveness");
    // The first connection has nothing to do with it any more.
    drop(one);
    daemon.steer(&after, "revive").good();
    assert_eq!(daemon.state(&after), "alive");
    let renewed = two.ask(json!({"heartbeat": id(&after)}));
    assert_eq!((&renewed["renewed"], &renewed["draining"]), (&before["id"], &false.into()));
    drop(two);
    daemon.until(&after, "draining");
}

#[test]
pub(crate) fn only_one_of_many_comes_back_to_the_same_registration() {
    let daemon = started();
    let before = left_behind(&daemon, service("app"));
    let mut all: Vec<_> = (0..6).map(|_| daemon.lines()).collect();
    for lines in &mut all {
        lines.say(json!({"register": service("app")}));
    }
    let registered: Vec<Value> = all.iter().map(|lines| lines.next()["registered"].clone()).collect();
    let back = registered.iter().filter(|registered| registered["id"] == before["id"]).count();
    assert_eq!(back, 1, "{registered:?}");
    let mut names: Vec<&str> =
        registered.iter().map(|registered| registered["advertised_name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["app", "app (2)", "app (3)", "app (4)", "app (5)", "app (6)"]);
}

#[test]
fn with_credentials_only_the_same_principal_comes_back_to_it() {
    let daemon =
        with_tokens(&[("alice", "hold"), ("bob", "hold"), ("boss", "admin")], &["--mdns-http-lease", "1s"]);
    let register = |name: &str| {
        let answered = as_token(&daemon, name).post("/v1/mdns/services", &service("app"));
        assert_eq!(answered.status, 201, "{answered:?}");
        answered.json()["registered"].clone()
    };
    let before = register("alice");
    let path = format!("/v1/mdns/admin/registrations/{}", id(&before));
    crate::run_support::wait_until("draining", crate::daemon::LIMIT, || {
        as_token(&daemon, "boss").get(&path).json()["state"] == "draining"
    });
    for stranger in ["bob", "boss"] {
        let other = register(stranger);
        assert_ne!(other["id"], before["id"], "{stranger}: {other}");
        assert_ne!(other["advertised_name"], "app", "{other}");
    }
    let over_socket = daemon.lines().ask(&json!({"register": service("app")}))["registered"].clone();
    assert_ne!(over_socket["id"], before["id"], "the socket is a principal too: {over_socket}");
    let after = register("alice");
    assert_eq!((&after["id"], &after["advertised_name"]), (&before["id"], &"app".into()));
}

#[test]
pub(crate) fn a_lease_of_a_registration_is_resumed_like_any_other() {
    let daemon = started();
    let before = left_behind(&daemon, service("app"));
    let lease_id = daemon.seen(&before)["lease_id"].clone();
    let mut lines = daemon.lines();
    let resumed = lines.good(json!({"resume": {"lease_id": lease_id, "epoch": 1}}), "resumed");
    let seen = daemon.seen(&before);
    assert_eq!(
        json!([seen["state"], seen["session_id"], seen["epoch"]]),
        json!(["alive", resumed["session"], 2])
    );
    assert_eq!(lines.ask(json!({"heartbeat": id(&before)}))["renewed"], before["id"]);
    drop(lines);
    daemon.until(&before, "draining");
}

#[test]
pub(crate) fn a_repeated_key_finds_what_was_taken_over() {
    let daemon = started();
    let before = left_behind(&daemon, service("app"));
    let ask = || {
        let mut http = daemon.http().with("idempotency-key", "again");
        http.json("POST", "/v1/mdns/services", service("app")).good()["registered"].clone()
    };
    let (first, second) = (ask(), ask());
    assert_eq!((&first["id"], &second["id"]), (&before["id"], &before["id"]));
    assert_eq!(first["epoch"], second["epoch"], "taken over once");
    assert_eq!(daemon.counts()["total"], 1);
}

#[test]
fn a_registrant_that_comes_back_may_have_another_address() {
    let daemon = started();
    let before = left_behind(&daemon, service_with("app", json!({"ip": "127.0.0.1"})));
    let mut browse = Events::look(daemon.http(), "/v1/mdns/browse?type=_http._tcp");
    assert_eq!(browse.next().data["found"]["ip"], "127.0.0.1");
    let mut lines = daemon.lines();
    let after = lines.register(service_with("app", json!({"ip": "127.0.0.2"})));
    assert_eq!(after["id"], before["id"]);
    let changed = browse.next().data;
    assert_eq!(changed["found"]["ip"], "127.0.0.2", "{changed}");
    assert_eq!(daemon.seen(&after)["ip"], "127.0.0.2");
}

#[test]
fn asking_for_permanence_does_not_undo_an_operators_drain() {
    let daemon = started_with(&["--mdns-http-grace", "2s"]);
    let before = daemon.register(service("app"));
    daemon.steer(&before, "drain").good();
    let after = daemon.register(service_with("app", json!({"lease": 0})));
    assert_eq!(
        json!([after["id"], after["mode"], after["draining"]]),
        json!([before["id"], "permanent", true])
    );
    daemon.until(&after, "gone");
    daemon.until_told(&after, "admin_force");
    let before = daemon.register(service("revived"));
    daemon.steer(&before, "drain").good();
    let after = daemon.register(service_with("revived", json!({"lease": 0})));
    daemon.steer(&after, "revive").good();
    let seen = daemon.seen(&after);
    assert_eq!(
        json!([seen["state"], seen["mode"], seen["remaining_secs"]]),
        json!(["alive", "permanent", null])
    );
}
