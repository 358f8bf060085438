//! What operators see and do: lists, counts, prefixes of ids, drains, and every spelling of the paths.

use serde_json::{Value, json};

use super::ways::{Registrant, Registry, id, service, service_with, started, started_with};
use crate::daemon::LIMIT;
use crate::raw_http::Answered;
use crate::run_support::wait_until;
use crate::wire::daemon::Served;
use crate::wire::http::{Answer, Ask};

#[track_caller]
fn ask(daemon: &Served, method: &str, path: &str) -> Answered {
    daemon.http().json(method, path, Value::Null)
}

#[test]
pub(crate) fn the_list_is_a_bare_array_sorted_by_name() {
    let daemon = started();
    assert_eq!(ask(&daemon, "GET", "/v1/mdns/admin/registrations").good(), json!([]));
    let mut lines = daemon.lines();
    for name in ["pear", "apple", "über", "fig 2", "fig", "apple pie"] {
        lines.register(service(name));
    }
    let names: Vec<Value> = daemon.all().iter().map(|seen| seen["name"].clone()).collect();
    assert_eq!(names, ["apple", "apple pie", "fig", "fig 2", "pear", "über"]);
    for seen in daemon.all() {
        assert_eq!(daemon.seen(&seen)["lease_id"], seen["lease_id"], "one of the list is as it is alone");
    }
}

#[test]
pub(crate) fn the_status_counts_by_state_and_says_where_the_daemon_is() {
    let daemon = started();
    let mut lines = daemon.lines();
    lines.register(service("a"));
    lines.register(service("b"));
    daemon.register(service_with("c", json!({"lease": 0})));
    let drained = daemon.register(service("d"));
    daemon.steer(&drained, "drain").good();
    assert_eq!(daemon.counts(), json!({"alive": 3, "draining": 1, "permanent": 1, "total": 4}));
    let status = ask(&daemon, "GET", "/v1/mdns/admin/status").good();
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(status["pid"], daemon.pid());
    assert_eq!(status["platform"], std::env::consts::OS);
    assert!(status["uptime_secs"].as_u64().unwrap() < 60, "{status}");
    assert!(status["http"].as_str().unwrap().contains(&daemon.address().to_string()), "{status}");
    assert_eq!(status["ipc"], daemon.socket().to_str().unwrap());
    assert!(status["interfaces"].is_array(), "{status}");
    daemon.end(&drained).good();
    daemon.until(&drained, "gone");
    drop(lines);
    wait_until("both drain", LIMIT, || {
        daemon.counts() == json!({"alive": 1, "draining": 2, "permanent": 1, "total": 3})
    });
}

/// Registrations two of which begin alike, and one of which begins like no other.
struct Alike {
    two: [String; 2],
    single: String,
}

fn alike(daemon: &Served) -> Alike {
    let mut lines = daemon.lines();
    let mut ids: Vec<String> = Vec::new();
    // Of 257 ids two begin with the same two digits.
    for number in 0..257 {
        let registered = lines.register(service_with(&format!("app {number}"), json!({"lease": 0})));
        ids.push(id(&registered).to_owned());
        let begins =
            |prefix: &str| ids.iter().filter(|id| id.starts_with(prefix)).cloned().collect::<Vec<_>>();
        let Some(first) = ids.iter().find(|id| begins(&id[..2]).len() == 2) else { continue };
        let Some(single) = ids.iter().find(|id| begins(&id[..2]).len() == 1) else { continue };
        let two = begins(&first[..2]);
        return Alike { two: [two[0].clone(), two[1].clone()], single: single.clone() };
    }
    panic!("257 ids and no two begin alike");
}

#[test]
pub(crate) fn a_prefix_that_begins_one_id_only_stands_for_it() {
    let daemon = started();
    let Alike { single, .. } = alike(&daemon);
    for cut in 2..=8 {
        let seen = ask(&daemon, "GET", &format!("/v1/mdns/admin/registrations/{}", &single[..cut])).good();
        assert_eq!(seen["id"], single.as_str());
    }
    let drained = daemon.register(service("drained"));
    let prefix = &id(&drained)[..7];
    let answered = ask(&daemon, "POST", &format!("/v1/mdns/admin/registrations/{prefix}/drain"));
    assert_eq!(answered.good(), json!({"drained": drained["id"]}), "the answer has the full id");
    let answered = ask(&daemon, "POST", &format!("/v1/mdns/admin/registrations/{prefix}/revive"));
    assert_eq!(answered.good(), json!({"revived": drained["id"]}));
    let answered = ask(&daemon, "DELETE", &format!("/v1/mdns/admin/registrations/{prefix}"));
    assert_eq!(answered.good(), json!({"unregistered": drained["id"]}));
    daemon.until_told(&drained, "admin_force");
}

#[test]
pub(crate) fn a_prefix_that_begins_several_ids_is_refused_with_all_of_them() {
    let daemon = started();
    let Alike { two, .. } = alike(&daemon);
    let prefix = &two[0][..2];
    let path = format!("/v1/mdns/admin/registrations/{prefix}");
    for (method, path) in [
        ("GET", path.clone()),
        ("DELETE", path.clone()),
        ("POST", format!("{path}/drain")),
        ("POST", format!("{path}/revive")),
    ] {
        let error = ask(&daemon, method, &path).refused("ambiguous_id");
        let text = error.to_string();
        assert!(two.iter().all(|id| text.contains(id.as_str())), "{error}");
        assert!(error["matches"].is_array(), "{error}");
    }
    for id in &two {
        let whole = json!({ "id": id });
        assert_eq!(daemon.seen(&whole)["id"], id.as_str(), "a whole id is never ambiguous");
        assert_eq!(daemon.state(&whole), "alive", "what is ambiguous is not carried out");
    }
}

#[test]
pub(crate) fn a_prefix_of_one_character_is_refused() {
    let daemon = started();
    let registered = daemon.register(service("app"));
    let path = format!("/v1/mdns/admin/registrations/{}", &id(&registered)[..1]);
    for (method, path) in [
        ("GET", path.clone()),
        ("DELETE", path.clone()),
        ("POST", format!("{path}/drain")),
        ("POST", format!("{path}/revive")),
    ] {
        let answered = ask(&daemon, method, &path);
        assert_eq!(answered.status, 400, "{method} {path}: {answered:?}");
        assert!(answered.json()["message"].is_string());
    }
    assert_eq!(daemon.state(&registered), "alive");
    ask(&daemon, "GET", "/v1/mdns/admin/registrations/zz").refused("not_found");
    ask(&daemon, "GET", "/v1/mdns/admin/registrations/%2e%2e").refused("not_found");
}

#[test]
pub(crate) fn a_drain_waits_for_the_grace_and_a_revive_takes_it_back() {
    let daemon = started();
    let mut lines = daemon.lines();
    for registered in [lines.register(service("session")), daemon.register(service("heartbeat"))] {
        assert_eq!(daemon.steer(&registered, "drain").good(), json!({"drained": registered["id"]}));
        let seen = daemon.seen(&registered);
        assert_eq!(seen["state"], "draining");
        assert!(seen["remaining_secs"].as_u64().unwrap() >= 28, "{seen}");
        daemon.steer(&registered, "drain").refused("already_draining");
        assert_eq!(daemon.steer(&registered, "revive").good(), json!({"revived": registered["id"]}));
        assert_eq!(daemon.state(&registered), "alive");
        daemon.steer(&registered, "revive").refused("not_draining");
        assert!(daemon.ends_told(&registered).is_empty());
    }
}

#[test]
pub(crate) fn a_permanent_registration_is_not_drained() {
    let daemon = started();
    let registered = daemon.register(service_with("app", json!({"lease": 0})));
    daemon.steer(&registered, "drain").refused("permanent_lease");
    daemon.steer(&registered, "revive").refused("not_draining");
    assert_eq!(daemon.state(&registered), "alive");
}

#[test]
pub(crate) fn a_registration_whose_connection_is_gone_is_not_revived() {
    let daemon = started_with(&["--mdns-socket-grace", "3s"]);
    let mut lines = daemon.lines();
    let silent = lines.register(service("silent"));
    let drained = lines.register(service("drained"));
    daemon.steer(&drained, "drain").good();
    drop(lines);
    daemon.until(&silent, "draining");
    for registered in [&silent, &drained] {
        daemon.steer(registered, "revive").refused("no_liveness");
    }
    daemon.steer(&silent, "drain").refused("already_draining");
    daemon.until(&silent, "gone");
    daemon.until_told(&silent, "session_expired");
    daemon.until(&drained, "gone");
    assert_eq!(daemon.ends_told(&drained).len(), 1);
}

#[test]
pub(crate) fn a_silent_heartbeat_registration_is_revived_for_one_more_lease() {
    let daemon = started_with(&["--mdns-http-grace", "2s"]);
    let registered = daemon.register(service_with("app", json!({"lease": 1})));
    daemon.until(&registered, "draining");
    daemon.steer(&registered, "revive").good();
    assert_eq!(daemon.state(&registered), "alive");
    daemon.until(&registered, "draining");
    daemon.until(&registered, "gone");
    daemon.until_told(&registered, "heartbeat_expired");
}

#[test]
pub(crate) fn unknown_ids_are_not_found() {
    let daemon = started();
    let nobody = json!({"id": "00000000"});
    daemon.look(&nobody).refused("not_found");
    daemon.end(&nobody).refused("not_found");
    daemon.steer(&nobody, "drain").refused("not_found");
    daemon.steer(&nobody, "revive").refused("not_found");
}

#[test]
pub(crate) fn every_other_spelling_of_a_path_does_the_same() {
    let daemon = started();
    let registered = daemon.register(service("app"));
    let id = id(&registered);
    let same = |method: &str, paths: &[String]| {
        let answers = paths.iter().map(|path| lasting(ask(&daemon, method, path).good())).collect::<Vec<_>>();
        for answer in &answers {
            assert_eq!(answer, &answers[0], "{paths:?}");
        }
    };
    same("GET", &["/v1/mdns/admin/status".into(), "/v1/admin/status".into()]);
    let lists = ["/v1/mdns/admin/registrations", "/v1/admin/registrations", "/v1/mdns/admin/ls"];
    same("GET", &lists.map(str::to_owned));
    same(
        "GET",
        &[
            format!("/v1/mdns/admin/registrations/{id}"),
            format!("/v1/admin/registrations/{id}"),
            format!("/v1/mdns/admin/inspect/{id}"),
        ],
    );
    for base in [
        "/v1/mdns/admin/registrations/{id}/VERB",
        "/v1/admin/registrations/{id}/VERB",
        "/v1/mdns/admin/VERB/{id}",
    ] {
        let path = |verb: &str| base.replace("VERB", verb).replace("{id}", id);
        assert_eq!(ask(&daemon, "POST", &path("drain")).good(), json!({"drained": id}));
        ask(&daemon, "POST", &path("drain")).refused("already_draining");
        assert_eq!(ask(&daemon, "POST", &path("revive")).good(), json!({"revived": id}));
        ask(&daemon, "POST", &path("revive")).refused("not_draining");
    }
    for path in [format!("/v1/mdns/services/{id}/heartbeat"), format!("/v1/mdns/heartbeat/{id}")] {
        let renewed = ask(&daemon, "PUT", &path).good();
        assert_eq!((&renewed["renewed"], &renewed["lease"]), (&json!(id), &90.into()));
    }
    for (method, path) in [
        ("DELETE", "/v1/mdns/admin/registrations/{id}"),
        ("DELETE", "/v1/admin/registrations/{id}"),
        ("DELETE", "/v1/mdns/admin/unregister/{id}"),
    ] {
        let registered = daemon.register(service("to end"));
        let path = path.replace("{id}", super::ways::id(&registered));
        assert_eq!(ask(&daemon, method, &path).good(), json!({"unregistered": registered["id"]}));
        daemon.until_told(&registered, "admin_force");
    }
}

/// What stays the same from one moment to the next.
fn lasting(mut answer: Value) -> Value {
    let passing = ["remaining_secs", "uptime_secs", "last_seen"];
    match &mut answer {
        Value::Array(all) => return all.iter().cloned().map(lasting).collect(),
        Value::Object(fields) => fields.retain(|name, _| !passing.contains(&name.as_str())),
        other => panic!("neither an array nor an object: {other}"),
    }
    answer
}

#[test]
pub(crate) fn why_tells_the_story_of_a_registration_by_its_id() {
    let daemon = started();
    let registered = daemon.register(service("app"));
    let lease_id = daemon.seen(&registered)["lease_id"].clone();
    let path = format!("/v1/why?registration={}", id(&registered));
    let story = daemon.get(&path);
    assert!(
        story["entries"].as_array().unwrap().iter().any(|entry| entry["lease_id"] == lease_id),
        "{story}"
    );
    daemon.unregister(&registered).good();
    // A goodbye may be confirmed a moment after it is seen to be gone.
    let mut story = Value::Null;
    wait_until("the end of the story", LIMIT, || {
        story = daemon.get(&path);
        let entries = story["entries"].as_array().unwrap();
        entries.iter().any(|entry| entry["kind"] == "reclaimed")
    });
    let entries = story["entries"].as_array().unwrap();
    assert!(
        entries.iter().all(|entry| entry["text"].as_str().is_some_and(|text| !text.is_empty())),
        "{story}"
    );
    assert!(entries.iter().any(|entry| entry["kind"] == "revoked"), "{story}");
    let line = daemon.lines().ask(json!({"why": {"registration": id(&registered)}}));
    assert_eq!(line["why"]["entries"].as_array().unwrap().len(), entries.len(), "{line}");
    daemon.ask("GET", "/v1/why?registration=00000000", Value::Null).refused("not_found");
}

#[test]
pub(crate) fn why_goes_on_over_a_take_over() {
    let daemon = started();
    let before = daemon.lines().register(service("app"));
    daemon.until(&before, "draining");
    let mut lines = daemon.lines();
    lines.register(service("app"));
    let story = daemon.get(&format!("/v1/why?registration={}", id(&before)));
    let kinds: Vec<&str> =
        story["entries"].as_array().unwrap().iter().map(|entry| entry["kind"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"granted") && kinds.contains(&"rebound"), "{story}");
}
