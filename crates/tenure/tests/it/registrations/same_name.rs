//! Several registrants that want one name, one registrant that asks twice, and names that are being withdrawn.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::ways::{Registrant, Registry, id, service, service_with, started};
use crate::run_support::boot_ms;
use crate::wire::events::Events;
use crate::wire::http::{Answer, Ask};

#[test]
fn a_second_registrant_is_advertised_under_the_next_free_name() {
    let daemon = started();
    let (mut one, mut two) = (daemon.lines(), daemon.lines());
    let first = one.register(service("App"));
    let second = two.register(service("app"));
    let third = daemon.register(service("APP"));
    assert_eq!(json!([first["name"], first["advertised_name"]]), json!(["App", "App"]));
    assert_eq!(json!([second["name"], second["advertised_name"]]), json!(["app", "app (2)"]));
    assert_eq!(json!([third["name"], third["advertised_name"]]), json!(["APP", "APP (3)"]));
    for (registered, name) in [(&first, "App"), (&second, "app (2)"), (&third, "APP (3)")] {
        assert_eq!(daemon.seen(registered)["advertised_name"], name);
    }
    let ids: BTreeSet<&str> = [&first, &second, &third].map(id).into();
    assert_eq!(ids.len(), 3);
    let other_type = daemon.register(service_with("app", json!({"type": "_ipp._tcp"})));
    assert_eq!(other_type["advertised_name"], "app", "another type is another name");
}

#[test]
fn each_post_is_a_registrant_of_its_own() {
    let daemon = started();
    let mut http = daemon.http();
    let names: Vec<Value> = (0..3)
        .map(|_| {
            http.json("POST", "/v1/mdns/services", service("app")).good()["registered"]["advertised_name"]
                .clone()
        })
        .collect();
    assert_eq!(names, ["app", "app (2)", "app (3)"]);
}

#[test]
fn ending_one_never_touches_the_other() {
    let daemon = started();
    let mut browse = Events::look(daemon.http(), "/v1/mdns/browse?type=_http._tcp");
    let first = daemon.register(service_with("app", json!({"port": 1})));
    let second = daemon.register(service_with("app", json!({"port": 2})));
    daemon.unregister(&first).good();
    daemon.until(&first, "gone");
    assert_eq!(daemon.state(&second), "alive");
    let third = daemon.register(service_with("app", json!({"port": 3})));
    assert_eq!(third["advertised_name"], "app", "the free name is given again");
    let mut seen = Vec::new();
    while seen.len() < 4 {
        let data = browse.next().data;
        let (kind, record) = match data["found"].is_object() {
            true => ("found", &data["found"]),
            false => (data["event"].as_str().unwrap(), &data["service"]),
        };
        seen.push(format!("{kind} {}", record["name"].as_str().unwrap()));
    }
    assert_eq!(seen, ["found app", "found app (2)", "removed app", "found app"]);
    daemon.unregister(&third).good();
    daemon.until(&third, "gone");
    assert_eq!(daemon.state(&second), "alive");
    assert_eq!(daemon.seen(&second)["advertised_name"], "app (2)", "nobody is renamed");
}

#[test]
fn the_34th_of_one_name_is_refused() {
    let daemon = started();
    let mut names = Vec::new();
    for _ in 0..33 {
        let answered = daemon.try_register(service("app"));
        assert_eq!(answered.status, 201, "after {}: {answered:?}", names.len());
        names.push(answered.json()["registered"]["advertised_name"].clone());
    }
    let wanted: Vec<Value> = (1..=33)
        .map(|number| if number == 1 { json!("app") } else { json!(format!("app ({number})")) })
        .collect();
    assert_eq!(names, wanted);
    daemon.try_register(service("app")).refused("resource_held");
    daemon.lines().refused(json!({"register": service("APP")}), "resource_held");
    assert_eq!(daemon.counts()["total"], 33);
    let seventh = daemon.all().into_iter().find(|seen| seen["advertised_name"] == "app (7)").unwrap();
    let lease = daemon.lease_of(&seventh);
    daemon.end(&seventh).good();
    daemon.until_reclaimed(&lease);
    assert_eq!(daemon.register(service("app"))["advertised_name"], "app (7)", "the gap is filled");
}

#[test]
fn a_long_name_is_cut_at_a_character_to_make_room_for_its_number() {
    let daemon = started();
    for (name, cut) in [
        ("x".repeat(63), "x".repeat(59)),
        ("v".repeat(60), "v".repeat(59)),
        ("w".repeat(59), "w".repeat(59)),
        (format!("{}x", "ü".repeat(31)), "ü".repeat(29)),
        (format!("x{}", "ü".repeat(31)), format!("x{}", "ü".repeat(29))),
        ("🦀".repeat(15), "🦀".repeat(14)),
    ] {
        assert_eq!(daemon.register(service(&name))["advertised_name"], name.as_str());
        let second = daemon.register(service(&name));
        assert_eq!(second["name"], name.as_str(), "{second}");
        assert_eq!(second["advertised_name"], format!("{cut} (2)"), "{second}");
    }
    let name = "y".repeat(63);
    let advertised: BTreeSet<String> = (0..12)
        .map(|_| daemon.register(service(&name))["advertised_name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(advertised.len(), 12);
    assert!(advertised.iter().all(|name| name.len() <= 63), "{advertised:?}");
    assert!(advertised.contains(&format!("{} (12)", "y".repeat(58))), "{advertised:?}");
}

#[test]
fn registrants_at_the_same_time_get_names_of_their_own() {
    let daemon = started();
    let mut all: Vec<_> = (0..20).map(|_| daemon.lines()).collect();
    for lines in &mut all {
        lines.say(json!({"register": service("app")}));
    }
    let registered: Vec<Value> = all.iter().map(|lines| lines.next()["registered"].clone()).collect();
    let names: BTreeSet<&str> =
        registered.iter().map(|one| one["advertised_name"].as_str().unwrap()).collect();
    let ids: BTreeSet<&str> = registered.iter().map(id).collect();
    assert_eq!((names.len(), ids.len()), (20, 20), "{names:?}");
}

#[test]
fn the_same_session_asking_again_updates_in_place() {
    let daemon = started();
    for mut lines in [daemon.lines(), daemon.stdin()] {
        let first = lines.register(service_with("app", json!({"txt": {"a": "1"}})));
        let same = lines.register(service_with("app", json!({"txt": {"a": "1"}})));
        assert_eq!(same, first, "asking the same again changes nothing");
        let changed = lines.register(service_with("APP", json!({"port": 9090, "txt": {"b": "2"}})));
        assert_eq!(json!([changed["id"], changed["epoch"]]), json!([first["id"], first["epoch"]]));
        assert_eq!(changed["port"], 9090);
        let seen = daemon.seen(&changed);
        assert_eq!(json!([seen["port"], seen["txt"], seen["state"]]), json!([9090, {"b": "2"}, "alive"]));
        assert_eq!(daemon.counts()["total"], 1);
        lines.ask(json!({"unregister": id(&first)}));
        daemon.until(&first, "gone");
    }
}

#[test]
fn the_same_session_may_make_its_registration_permanent() {
    let daemon = started();
    let mut lines = daemon.lines();
    let first = lines.register(service("app"));
    let permanent = lines.register(service_with("app", json!({"lease": 0})));
    assert_eq!((&permanent["id"], &permanent["mode"]), (&first["id"], &"permanent".into()));
    assert_eq!(daemon.counts(), json!({"alive": 1, "draining": 0, "permanent": 1, "total": 1}));
    let again = lines.register(service_with("app", json!({"lease": 0, "port": 9090})));
    assert_eq!(json!([again["id"], again["mode"], again["port"]]), json!([first["id"], "permanent", 9090]));
    drop(lines);
    let probe = daemon.lines().register(service("probe"));
    daemon.until(&probe, "draining");
    assert_eq!(daemon.state(&permanent), "alive", "the connection does not keep it any more");
}

#[test]
fn a_change_in_place_is_seen_and_withdraws_nothing() {
    let daemon = started();
    let mut browse = Events::look(daemon.http(), "/v1/mdns/browse?type=http");
    let mut lines = daemon.lines();
    for port in [1, 2, 3] {
        lines.register(service_with("app", json!({"port": port})));
        let data = browse.next().data;
        assert_eq!(data["found"]["port"], port, "{data}");
    }
}

#[test]
fn a_repeated_key_is_one_registration() {
    let daemon = started();
    let ask =
        |body: Value| daemon.http().with("idempotency-key", "once").json("POST", "/v1/mdns/services", body);
    let first = ask(service("app"));
    assert_eq!(first.status, 201);
    let again = ask(service("app"));
    assert_eq!(again.good()["registered"]["id"], first.good()["registered"]["id"]);
    assert_eq!(again.good()["registered"]["advertised_name"], "app");
    assert_eq!(daemon.counts()["total"], 1);
    ask(service_with("app", json!({"port": 1}))).refused("operation_conflict");
    ask(service("other")).refused("operation_conflict");
    assert_eq!(daemon.counts()["total"], 1);
    let in_body = service_with("body", json!({"operation_id": "twice"}));
    let (first, again) = (daemon.try_register(in_body.clone()).good(), daemon.try_register(in_body).good());
    assert_eq!(first["registered"]["id"], again["registered"]["id"]);
    let mut lines = daemon.lines();
    let by_line = service_with("line", json!({"operation_id": "line", "lease": 0}));
    let first = lines.register(by_line.clone());
    let again = daemon.lines().register(by_line);
    assert_eq!(first["id"], again["id"], "a retry on a new connection finds it: {again}");
}

#[test]
fn a_name_just_given_back_is_free_at_once() {
    let daemon = started();
    let mut http = daemon.http();
    for round in 0..40 {
        let registered = http.json("POST", "/v1/mdns/services", service("app")).good()["registered"].clone();
        assert_eq!(registered["advertised_name"], "app", "round {round}: the register waits for the goodbye");
        http.json("DELETE", &format!("/v1/mdns/services/{}", id(&registered)), Value::Null).good();
    }
    let mut lines = daemon.lines();
    for round in 0..40 {
        let registered = lines.register(service("line"));
        assert_eq!(registered["advertised_name"], "line", "round {round}");
        // Two lines in one write: the second meets the first under way.
        let (end, begin) = (json!({"unregister": id(&registered)}), json!({"register": service("line")}));
        lines.send(format!("{end}\n{begin}\n").as_bytes());
        assert_eq!(lines.next()["unregistered"], registered["id"]);
        let next = lines.next()["registered"].clone();
        assert_eq!(next["advertised_name"], "line", "round {round}: {next}");
        assert_ne!(next["id"], registered["id"]);
        lines.ask(json!({"unregister": id(&next)}));
    }
}

#[test]
fn a_register_waits_for_a_name_that_is_being_withdrawn_and_gives_up() {
    let daemon = started();
    let registered = daemon.register(service("app"));
    let lease = json!({"lease_id": daemon.seen(&registered)["lease_id"]});
    daemon.of_lease(&lease, "revoke", json!({"reclaim": false})).good();
    let began = boot_ms();
    let refused = daemon.try_register(service("app"));
    let waited = boot_ms() - began;
    // Nothing is overloaded: the name is not free yet.
    assert_eq!(refused.refused("wait_timeout")["retry_after_ms"], 2_000);
    assert!((1_000..10_000).contains(&waited), "it waits for two seconds: {waited} ms");
    let mut http = daemon.http();
    http.send("POST", "/v1/mdns/services", service("app").to_string().as_bytes()).unwrap();
    crate::run_support::wait_until("an operator's reclaim", crate::daemon::LIMIT, || {
        daemon.of_lease(&lease, "reclaim", json!({})).status == 200
    });
    let next = http.answer().unwrap().good()["registered"].clone();
    assert_eq!(next["advertised_name"], "app", "it waited for the reclaim: {next}");
    assert_ne!(next["id"], registered["id"]);
}
