//! What a daemon that stopped or was killed still knows of registrations, and what it grants their registrants.

use serde_json::{Value, json};

use super::ways::{Registrant, Registry, id, service, service_with, started, started_with};
use crate::daemon::LIMIT;
use crate::run_support::wait_until;
use crate::wire::daemon::Served;
use crate::wire::events::Events;
use crate::wire::http::{Answer, Ask};

/// How a daemon ends before it starts again.
const ENDS: [fn(&mut Served); 2] = [|daemon| daemon.kill(), |daemon| daemon.stop()];

#[test]
fn permanent_registrations_are_there_again_and_announced_again() {
    for end in ENDS {
        let mut daemon = started();
        let registered =
            daemon.register(service_with("app", json!({"lease": 0, "txt": {"a": "b", "c": null}})));
        let before = daemon.seen(&registered);
        end(&mut daemon);
        daemon.start_again();
        let after = daemon.seen(&registered);
        for field in
            ["id", "name", "type", "port", "mode", "state", "txt", "lease_id", "epoch", "registered_at"]
        {
            assert_eq!(after[field], before[field], "{field} of {after}");
        }
        let mut browse = Events::look(daemon.http(), "/v1/mdns/browse?type=_http._tcp");
        let found = browse.next().data["found"].clone();
        assert_eq!(json!([found["name"], found["txt"]]), json!(["app", {"a": "b", "c": null}]), "{found}");
        assert_eq!(daemon.counts(), json!({"alive": 1, "draining": 0, "permanent": 1, "total": 1}));
        daemon.unregister(&registered).good();
        daemon.until(&registered, "gone");
    }
}

#[test]
fn heartbeat_registrations_have_a_full_lease_after_a_restart() {
    for end in ENDS {
        let mut daemon = started();
        let registered = daemon.register(service_with("app", json!({"lease": 60})));
        wait_until("some of the lease has passed", LIMIT, || {
            daemon.seen(&registered)["remaining_secs"].as_u64().unwrap() < 59
        });
        let silent = daemon.register(service_with("silent", json!({"lease": 1})));
        daemon.until(&silent, "draining");
        end(&mut daemon);
        daemon.start_again();
        let seen = daemon.seen(&registered);
        assert_eq!(seen["state"], "alive");
        assert!(seen["remaining_secs"].as_u64().unwrap() >= 59, "{seen}");
        daemon.heartbeat(&registered, json!({"epoch": registered["epoch"]})).good();
        assert_ne!(daemon.state(&silent), "gone", "a restart ages nobody");
        daemon.heartbeat(&silent, json!({"epoch": 1})).good();
    }
}

#[test]
fn session_registrations_drain_after_a_restart_and_are_come_back_to() {
    for end in ENDS {
        let mut daemon = started();
        let mut lines = daemon.lines();
        let (gone, back) = (lines.register(service("gone")), lines.register(service("back")));
        end(&mut daemon);
        drop(lines);
        daemon.start_again();
        for registered in [&gone, &back] {
            let seen = daemon.seen(registered);
            assert_eq!((&seen["state"], &seen["epoch"]), (&"draining".into(), &1.into()), "{seen}");
            assert!((26..=30).contains(&seen["remaining_secs"].as_u64().unwrap()), "{seen}");
            daemon.steer(registered, "revive").refused("no_liveness");
        }
        let mut browse = Events::look(daemon.http(), "/v1/mdns/browse?type=_http._tcp");
        let mut names = [0, 1].map(|_| browse.next().data["found"]["name"].as_str().unwrap().to_owned());
        names.sort();
        assert_eq!(names, ["back", "gone"], "announced while they drain");
        let mut lines = daemon.lines();
        let after = lines.register(service("BACK"));
        assert_eq!(json!([after["id"], after["epoch"]]), json!([back["id"], 2]), "{after}");
        assert_eq!(daemon.state(&back), "alive");
        assert_eq!(daemon.state(&gone), "draining");
    }
}

#[test]
fn without_grace_there_are_five_seconds_to_come_back_after_a_restart() {
    for end in ENDS {
        let mut daemon = started_with(&["--mdns-socket-grace", "0s"]);
        let mut lines = daemon.lines();
        let (gone, back) = (lines.register(service("gone")), lines.register(service("back")));
        end(&mut daemon);
        daemon.start_again();
        let seen = daemon.seen(&gone);
        assert_eq!(seen["state"], "draining", "{seen}");
        assert!((2..=5).contains(&seen["remaining_secs"].as_u64().unwrap()), "{seen}");
        let mut lines = daemon.lines();
        assert_eq!(lines.register(service("back"))["id"], back["id"]);
        daemon.until(&gone, "gone");
        assert_eq!(daemon.look(&gone).refused("not_found")["reason"], "session_expired");
        assert_eq!(daemon.state(&back), "alive");
    }
}

#[test]
fn ids_that_ended_are_told_their_end_after_a_restart() {
    for end in ENDS {
        let mut daemon = started();
        let explicit = daemon.register(service("a"));
        let forced = daemon.register(service("b"));
        daemon.unregister(&explicit).good();
        daemon.end(&forced).good();
        for registered in [&explicit, &forced] {
            daemon.until(registered, "gone");
        }
        let before = daemon.look(&explicit).refused("not_found");
        end(&mut daemon);
        daemon.start_again();
        for (registered, reason) in [(&explicit, "explicit"), (&forced, "admin_force")] {
            for refused in [daemon.heartbeat(registered, Value::Null), daemon.look(registered)] {
                let error = refused.refused("not_found");
                assert_eq!(error["reason"], reason, "{error}");
                assert!(error["ended_at"].is_string(), "{error}");
            }
        }
        assert_eq!(daemon.look(&explicit).refused("not_found")["ended_at"], before["ended_at"]);
    }
}

#[test]
fn a_repeated_key_finds_its_registration_after_a_restart() {
    for end in ENDS {
        let mut daemon = started();
        let ask = |daemon: &Served| {
            let mut http = daemon.http().with("idempotency-key", "once");
            http.json("POST", "/v1/mdns/services", service("app")).good()["registered"].clone()
        };
        let before = ask(&daemon);
        end(&mut daemon);
        daemon.start_again();
        let after = ask(&daemon);
        assert_eq!(json!([after["id"], after["advertised_name"]]), json!([before["id"], "app"]));
        assert_eq!(daemon.counts()["total"], 1);
    }
}

#[test]
fn an_operators_drain_and_second_names_outlive_a_restart() {
    for end in ENDS {
        let mut daemon = started();
        let first = daemon.register(service_with("app", json!({"lease": 0})));
        let second = daemon.register(service("app"));
        daemon.steer(&second, "drain").good();
        end(&mut daemon);
        daemon.start_again();
        let seen = daemon.seen(&second);
        assert_eq!(json!([seen["state"], seen["advertised_name"]]), json!(["draining", "app (2)"]));
        assert_eq!(daemon.seen(&first)["advertised_name"], "app");
        let back = daemon.register(service("app"));
        assert_eq!(json!([back["id"], back["draining"]]), json!([second["id"], true]), "{back}");
        daemon.steer(&second, "revive").good();
        assert_eq!(daemon.state(&second), "alive");
        assert_eq!(daemon.register(service("app"))["advertised_name"], "app (3)");
    }
}

#[test]
fn an_operators_drain_of_what_became_permanent_outlives_a_restart() {
    for end in ENDS {
        let mut daemon = started();
        let registered = daemon.register(service("app"));
        daemon.steer(&registered, "drain").good();
        let permanent = daemon.register(service_with("app", json!({"lease": 0})));
        assert_eq!(json!([permanent["id"], permanent["draining"]]), json!([registered["id"], true]));
        end(&mut daemon);
        daemon.start_again();
        assert_eq!(daemon.state(&registered), "draining", "a restart shortens no drain");
        daemon.steer(&registered, "revive").good();
        assert_eq!(daemon.state(&registered), "alive");
    }
}

#[test]
fn changes_in_place_outlive_a_restart() {
    for end in ENDS {
        let mut daemon = started();
        let mut lines = daemon.lines();
        let first = lines.register(service_with("app", json!({"txt": {"a": "1"}})));
        lines.register(service_with("App", json!({"port": 9090, "txt": {"b": null}})));
        end(&mut daemon);
        daemon.start_again();
        let seen = daemon.seen(&first);
        assert_eq!(
            json!([seen["name"], seen["port"], seen["txt"]]),
            json!(["App", 9090, {"b": null}]),
            "{seen}"
        );
    }
}

#[test]
fn ids_stay_unique_over_restarts() {
    let mut daemon = started();
    let mut ids = std::collections::BTreeSet::new();
    for round in 0..3 {
        let mut lines = daemon.lines();
        for number in 0..100 {
            let registered =
                lines.register(service_with(&format!("app {round} {number}"), json!({"lease": 0})));
            assert!(ids.insert(id(&registered).to_owned()), "{registered}");
        }
        daemon.kill();
        daemon.start_again();
        let now: std::collections::BTreeSet<String> =
            daemon.all().iter().map(|seen| id(seen).to_owned()).collect();
        assert_eq!(now, ids);
    }
}

#[test]
fn registrations_of_a_restored_backup_end_and_their_names_are_free_again() {
    let mut daemon = started_with(&["--limits-revoke-timeout", "1s"]);
    let registered = daemon.register(service_with("app", json!({"lease": 1})));
    let permanent = daemon.register(service_with("permanent", json!({"lease": 0})));
    let taken = daemon.tenure(&["backup", "DIR/backup.tar"]);
    assert_eq!(taken.code, 0, "{}", taken.err);
    daemon.stop();
    std::fs::remove_dir_all(daemon.data_dir()).unwrap();
    let restored = daemon.tenure(&["restore", "DIR/backup.tar", "DIR/data"]);
    assert_eq!(restored.code, 0, "{}", restored.err);
    daemon.start_again();
    for registered in [&registered, &permanent] {
        daemon.until(registered, "gone");
        assert_eq!(daemon.look(registered).refused("not_found")["reason"], "restored");
    }
    let mut answered = daemon.try_register(service("app"));
    wait_until("the name is free", LIMIT, || {
        let free = answered.status == 201;
        if !free {
            answered = daemon.try_register(service("app"));
        }
        free
    });
    let fresh = answered.json()["registered"].clone();
    assert_eq!(fresh["advertised_name"], "app");
    assert_ne!(fresh["id"], registered["id"]);
}
