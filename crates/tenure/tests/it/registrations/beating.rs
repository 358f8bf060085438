//! Heartbeats: whose counts, and what they keep.

use serde_json::{Value, json};

use super::ways::{Registrant, Registry, SHORT, id, service, service_with, started, started_with};
use crate::run_support::holds_for;
use crate::wire::http::{Answer, Ask};
use std::time::Duration;

#[test]
pub(crate) fn a_heartbeat_over_http_renews_the_lease() {
    let daemon = started();
    let registered = daemon.register(service_with("app", json!({"lease": 40})));
    for body in [Value::Null, json!({}), json!({"epoch": 1})] {
        let answered = daemon.heartbeat(&registered, body);
        assert_eq!(answered.status, 200, "{answered:?}");
        let renewed = answered.good();
        assert_eq!((&renewed["renewed"], &renewed["lease"]), (&registered["id"], &40.into()), "{renewed}");
    }
    let mut socket = daemon.http_over_socket();
    let other = socket.json("POST", "/v1/mdns/services", service("other")).good()["registered"].clone();
    let renewed = socket.json("PUT", &format!("/v1/mdns/heartbeat/{}", id(&other)), Value::Null);
    assert_eq!(renewed.good()["lease"], 90, "the other spelling of the path");
}

#[test]
fn heartbeats_keep_a_registration_beyond_its_lease_and_grace() {
    let daemon = started_with(SHORT);
    let registered = daemon.register(service("app"));
    let silent = daemon.register(service("silent"));
    let mut http = daemon.http();
    let path = format!("/v1/mdns/services/{}/heartbeat", id(&registered));
    assert!(holds_for(Duration::from_millis(3_500), || http.json("PUT", &path, Value::Null).status == 200));
    assert_eq!(daemon.state(&registered), "alive");
    assert_eq!(daemon.state(&silent), "gone", "who does not beat is not kept");
}

#[test]
pub(crate) fn a_heartbeat_moves_last_seen() {
    let daemon = started();
    let registered = daemon.register(service("app"));
    let before = daemon.seen(&registered);
    crate::run_support::wait_until("a later last_seen", crate::daemon::LIMIT, || {
        daemon.heartbeat(&registered, Value::Null).good();
        daemon.seen(&registered)["last_seen"].as_str() > before["last_seen"].as_str()
    });
    let after = daemon.seen(&registered);
    assert_eq!(after["registered_at"], before["registered_at"]);
    assert_eq!(after["epoch"], before["epoch"]);
}

#[test]
pub(crate) fn a_heartbeat_over_lines_is_the_id_alone() {
    let daemon = started();
    for mut lines in [daemon.lines(), daemon.stdin()] {
        let registered = lines.register(service("app"));
        let renewed = lines.ask(json!({"heartbeat": id(&registered)}));
        assert_eq!((&renewed["renewed"], &renewed["lease"]), (&registered["id"], &0.into()), "{renewed}");
        let renewed = lines.ask(json!({"heartbeat": id(&registered), "tag": 7}));
        assert_eq!((&renewed["renewed"], &renewed["tag"]), (&registered["id"], &7.into()), "{renewed}");
    }
}

#[test]
fn a_registration_over_http_is_kept_over_lines_by_the_same_principal() {
    let daemon = started();
    let of_loopback = daemon.register(service_with("loopback", json!({"lease": 1})));
    let mut socket = daemon.http_over_socket();
    let asked = service_with("socket", json!({"lease": 1}));
    let of_socket = socket.json("POST", "/v1/mdns/services", asked).good()["registered"].clone();
    daemon.until(&of_socket, "draining");
    let mut lines = daemon.lines();
    let renewed = lines.ask(json!({"heartbeat": id(&of_loopback)}));
    assert_eq!(renewed["renewed"], of_loopback["id"], "{renewed}");
    let of_another = daemon.http_of(47_111).post("/v1/mdns/services", &service("another")).json();
    lines.refused(json!({"heartbeat": id(&of_another["registered"])}), "forbidden");
    let renewed = lines.ask(json!({"heartbeat": id(&of_socket)}));
    assert_eq!(json!([renewed["renewed"], renewed["lease"]]), json!([of_socket["id"], 1]), "{renewed}");
}

#[test]
fn a_permanent_registration_may_beat_and_stays_permanent() {
    let daemon = started();
    let registered = daemon.register(service_with("app", json!({"lease": 0})));
    let renewed = daemon.heartbeat(&registered, json!({"epoch": 1})).good();
    assert_eq!((&renewed["renewed"], &renewed["lease"]), (&registered["id"], &0.into()));
    assert_eq!(daemon.seen(&registered)["mode"], "permanent");
}

#[test]
fn a_stale_epoch_is_refused_and_renews_nothing() {
    let daemon = started_with(&["--mdns-http-grace", "60s"]);
    let registered = daemon.register(service_with("app", json!({"lease": 1})));
    for epoch in [0, 2, u64::MAX] {
        let refused = daemon.heartbeat(&registered, json!({ "epoch": epoch }));
        assert_eq!(refused.refused("stale_epoch")["current"], 1, "{refused:?}");
    }
    daemon.until(&registered, "draining");
    daemon.heartbeat(&registered, json!({"epoch": 9})).refused("stale_epoch");
    assert_eq!(daemon.state(&registered), "draining");
    daemon.heartbeat(&registered, json!({"epoch": 1})).good();
    assert_eq!(daemon.state(&registered), "alive");
}

#[test]
fn an_unknown_id_is_not_found_on_every_transport() {
    let daemon = started();
    for unknown in ["00000000", "ffffffff", "x", "zzzzzzzz", "0123456789abcdef"] {
        let registration = json!({ "id": unknown });
        daemon.heartbeat(&registration, Value::Null).refused("not_found");
        daemon.unregister(&registration).refused("not_found");
        let mut lines = daemon.lines();
        lines.refused(json!({ "heartbeat": unknown }), "not_found");
        lines.refused(json!({ "unregister": unknown }), "not_found");
    }
}

#[test]
fn registrants_need_the_exact_id() {
    let daemon = started();
    let registered = daemon.register(service("app"));
    for cut in [2, 4, 7] {
        let prefix = json!({"id": &id(&registered)[..cut]});
        daemon.heartbeat(&prefix, Value::Null).refused("not_found");
        daemon.unregister(&prefix).refused("not_found");
        daemon.lines().refused(json!({"unregister": prefix["id"]}), "not_found");
    }
    assert_eq!(daemon.state(&registered), "alive");
}

#[test]
pub(crate) fn a_registration_of_a_connection_beats_on_that_connection_only() {
    let daemon = started();
    let mut lines = daemon.lines();
    let registered = lines.register(service("app"));
    daemon.lines().refused(json!({"heartbeat": id(&registered)}), "no_liveness");
    let over_socket = daemon.http_over_socket().json(
        "PUT",
        &format!("/v1/mdns/services/{}/heartbeat", id(&registered)),
        Value::Null,
    );
    over_socket.refused("no_liveness");
    assert_eq!(lines.ask(json!({"heartbeat": id(&registered)}))["renewed"], registered["id"]);
    drop(lines);
    daemon.until(&registered, "draining");
    daemon.lines().refused(json!({"heartbeat": id(&registered)}), "no_liveness");
    assert_eq!(daemon.state(&registered), "draining");
}

#[test]
fn a_heartbeat_brings_a_silent_registration_back() {
    let daemon = started_with(&["--mdns-http-lease", "1s"]);
    let registered = daemon.register(service("app"));
    let before = daemon.seen(&registered);
    daemon.until(&registered, "draining");
    let draining = daemon.seen(&registered);
    assert!((25..=30).contains(&draining["remaining_secs"].as_u64().unwrap()), "{draining}");
    daemon.heartbeat(&registered, json!({"epoch": 1})).good();
    let after = daemon.seen(&registered);
    assert_eq!(after["state"], "alive");
    for field in ["id", "epoch", "lease_id", "registered_at", "advertised_name"] {
        assert_eq!(after[field], before[field], "{field} of {after}");
    }
    assert!(daemon.ends_told(&registered).is_empty());
}

#[test]
pub(crate) fn an_operators_drain_is_told_to_those_who_beat() {
    let daemon = started();
    let registered = daemon.register(service("app"));
    assert_eq!(daemon.heartbeat(&registered, Value::Null).good()["draining"], false);
    daemon.steer(&registered, "drain").good();
    let renewed = daemon.heartbeat(&registered, Value::Null).good();
    assert_eq!((&renewed["renewed"], &renewed["draining"]), (&registered["id"], &true.into()));
    assert_eq!(daemon.state(&registered), "draining", "a heartbeat does not undo an operator's drain");
    daemon.steer(&registered, "revive").good();
    assert_eq!(daemon.heartbeat(&registered, Value::Null).good()["draining"], false);
}
