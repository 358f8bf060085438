//! Registrations are leases: what the native calls see of them and do to them.

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::ways::{Registrant, Registry, service, service_with, started};
use crate::wire::http::{Answer, Ask};

#[test]
pub(crate) fn a_registration_is_a_lease_of_its_own_face() {
    let daemon = started();
    let registered = daemon.register(service("app"));
    let lease = daemon.lease_of(&registered);
    assert_eq!(
        json!([
            lease["state"],
            lease["liveness"],
            lease["mode"],
            lease["epoch"],
            lease["ttl_ms"],
            lease["grace_ms"]
        ]),
        json!(["active", "alive", "heartbeat", registered["epoch"], 90_000, 30_000])
    );
    assert_eq!(lease["valid_ms"], Value::Null, "an advertisement is ended at once, nothing is promised");
    let face = lease["application"].as_str().unwrap();
    assert_ne!(face, "leases");
    let listed = daemon.get(&format!("/v1/leases?application={face}"));
    assert_eq!(listed["leases"][0]["lease_id"], lease["lease_id"]);
    let listed = daemon.get("/v1/leases?resource_prefix=mdns");
    assert_eq!(listed["leases"].as_array().unwrap().len(), 1, "{listed}");
}

#[test]
pub(crate) fn its_lease_covers_the_advertised_name_in_lower_case_and_encoded() {
    let daemon = started();
    let name = "My Ünit v1.2 / a\\b (ok)_-";
    daemon.register(service(name));
    let second = daemon.register(service_with(name, json!({"type": "_HTTP._tcp"})));
    let lease = daemon.lease_of(&second);
    let resources = lease["resources"].as_array().unwrap();
    assert_eq!(resources.len(), 1, "{lease}");
    let parts: Vec<&str> = resources[0].as_str().unwrap().split('/').collect();
    let [prefix, service_type, instance] = parts[..] else { panic!("{parts:?}") };
    assert_eq!(prefix, "mdns");
    let decoded = |part: &str| percent_decode_str(part).decode_utf8().unwrap().into_owned();
    assert_eq!(decoded(service_type), "_http._tcp");
    assert_eq!(decoded(instance), format!("{name} (2)").to_lowercase());
    let plain: String =
        instance.split('%').enumerate().map(|(at, part)| &part[if at == 0 { 0 } else { 2 }..]).collect();
    assert!(plain.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-')), "{instance}");
}

#[test]
pub(crate) fn names_of_registrations_are_refused_to_native_grants() {
    let daemon = started();
    for name in ["mdns/_http._tcp/app", "mdns/x", "mdns/_http%2e_tcp/app"] {
        for body in
            [json!({"resources": [name], "holder": "h"}), json!({"resources": ["a", name], "holder": "h"})]
        {
            let answered = daemon.ask("POST", "/v1/leases", body.clone());
            assert!(matches!(answered.status, 400 | 403), "{answered:?}");
            assert!(daemon.lines().ask(json!({ "acquire": body }))["error"].is_string());
        }
    }
    assert_eq!(daemon.get("/v1/leases")["leases"], json!([]));
    daemon.acquire(json!({"resources": ["mdnsx/a"], "holder": "h"}));
}

#[test]
pub(crate) fn a_native_release_is_an_unregister() {
    let daemon = started();
    let registered = daemon.register(service("app"));
    let lease = daemon.lease_of(&registered);
    let mut watch = daemon.watch();
    daemon.of_lease(&lease, "release", json!({"epoch": 1})).good();
    let revoked = watch.about("revoked", &lease);
    assert_eq!(revoked["lease"]["reason"], "explicit", "{revoked}");
    watch.about("reclaimed", &lease);
    daemon.until(&registered, "gone");
    assert_eq!(daemon.look(&registered).refused("not_found")["reason"], "explicit");
    daemon.until_told(&registered, "explicit");
    let ended = daemon.inspect(&lease);
    assert_eq!((&ended["state"], &ended["reason"]), (&"revoked".into(), &"explicit".into()), "{ended}");
    assert_eq!(daemon.register(service("app"))["advertised_name"], "app");
}

#[test]
pub(crate) fn a_native_release_over_lines_is_an_unregister_too() {
    let daemon = started();
    let mut lines = daemon.lines();
    let registered = lines.register(service("app"));
    let lease = daemon.lease_of(&registered);
    lines.say(json!({"release": {"lease_id": lease["lease_id"], "epoch": 9}}));
    assert_eq!(lines.until(|line| line["error"].is_string())["error"], "stale_epoch");
    lines.say(json!({"release": {"lease_id": lease["lease_id"], "epoch": 1}}));
    lines.until(|line| line["released"].is_object());
    daemon.until_told(&registered, "explicit");
    assert_eq!(daemon.inspect(&lease)["state"], "revoked");
}

#[test]
pub(crate) fn a_native_revoke_ends_the_registration() {
    let daemon = started();
    let mut browse = crate::wire::events::Events::look(daemon.http(), "/v1/mdns/browse?type=_http._tcp");
    let registered = daemon.register(service("app"));
    assert_eq!(browse.next().data["found"]["name"], "app");
    let lease = daemon.lease_of(&registered);
    daemon.of_lease(&lease, "revoke", json!({"reason": "enough"})).good();
    let removed = browse.next().data;
    assert_eq!(json!([removed["event"], removed["service"]["name"]]), json!(["removed", "app"]));
    daemon.until(&registered, "gone");
    daemon.until_told(&registered, "admin_force");
    assert_eq!(daemon.look(&registered).refused("not_found")["reason"], "admin_force");
    daemon.heartbeat(&registered, Value::Null).refused("not_found");
}

#[test]
pub(crate) fn a_native_drain_and_revive_show_here_and_the_other_way_round() {
    let daemon = started();
    let registered = daemon.register(service("app"));
    let lease = daemon.lease_of(&registered);
    daemon.of_lease(&lease, "drain", json!({})).good();
    assert_eq!(daemon.state(&registered), "draining");
    daemon.steer(&registered, "drain").refused("already_draining");
    daemon.of_lease(&lease, "revive", json!({})).good();
    assert_eq!(daemon.state(&registered), "alive");
    daemon.steer(&registered, "drain").good();
    let seen = daemon.inspect(&lease);
    assert_eq!((&seen["liveness"], &seen["drain_cause"]), (&"draining".into(), &"operator".into()));
    daemon.steer(&registered, "revive").good();
    assert_eq!(daemon.inspect(&lease)["liveness"], "alive");
}

#[test]
pub(crate) fn a_native_heartbeat_keeps_a_registration() {
    let daemon = started();
    let registered = daemon.register(service_with("app", json!({"lease": 1})));
    let lease = daemon.lease_of(&registered);
    daemon.until(&registered, "draining");
    daemon.of_lease(&lease, "heartbeat", json!({"epoch": 1})).good();
    assert_eq!(daemon.state(&registered), "alive");
}

#[test]
pub(crate) fn the_life_of_a_registration_is_on_the_stream_of_events() {
    let daemon = started();
    let mut watch = daemon.watch();
    let registered = daemon.register(service("app"));
    let granted = watch.next_of("granted").data["lease"].clone();
    let lease = json!({"lease_id": daemon.seen(&registered)["lease_id"]});
    assert_eq!(granted["lease_id"], lease["lease_id"]);
    daemon.steer(&registered, "drain").good();
    watch.about("draining", &lease);
    let after = daemon.register(service("app"));
    assert_eq!(after["id"], registered["id"]);
    watch.about("rebound", &lease);
    daemon.steer(&registered, "revive").good();
    watch.about("revived", &lease);
    daemon.unregister(&registered).good();
    let revoked = watch.about("revoked", &lease);
    assert_eq!(revoked["lease"]["reason"], "explicit");
    let reclaimed = watch.about("reclaimed", &lease);
    assert!(reclaimed["lsn"].as_u64() > revoked["lsn"].as_u64());
}

#[test]
pub(crate) fn the_attachment_of_a_registration_is_not_its_payload() {
    let daemon = started();
    let registered = daemon.register(service_with("app", json!({"txt": {"a": "b"}})));
    let lease = daemon.lease_of(&registered);
    let amended = daemon.of_lease(&lease, "amend", json!({"epoch": 1, "attachment": {"port": 1}}));
    assert!(matches!(amended.status, 200 | 409), "{amended:?}");
    let seen = daemon.seen(&registered);
    assert_eq!(json!([seen["port"], seen["txt"], seen["state"]]), json!([8080, {"a": "b"}, "alive"]));
}

#[test]
pub(crate) fn the_status_counts_registrations_by_face() {
    let daemon = started();
    let registered = daemon.register(service("app"));
    let face = daemon.lease_of(&registered)["application"].as_str().unwrap().to_owned();
    let status = daemon.get("/v1/status");
    assert!(status.to_string().contains(&face), "{face} is not in {status}");
    let text = daemon.http().get("/metrics").text();
    let wanted = format!("tenure_leases{{state=\"active\",mode=\"heartbeat\",application=\"{face}\"}} 1");
    assert!(text.lines().any(|line| line == wanted), "{wanted} is not in {text}");
}

#[test]
pub(crate) fn a_replayed_native_operation_id_does_not_meet_a_registration() {
    let daemon = started();
    let mut http = daemon.http().with("idempotency-key", "same");
    http.json("POST", "/v1/mdns/services", service("app")).good();
    let mut http = daemon.http().with("idempotency-key", "same");
    http.json("POST", "/v1/leases", json!({"resources": ["r"], "holder": "h"})).refused("operation_conflict");
}
