//! How a group is shown while everybody lives.

use serde_json::{Value, json};

use super::ways::{
    ByHand, GROUP, LONG_MS, SHORT_MS, find_target, hand_over, lease_of, node, of_lease, owned, target,
    unowned, until, view,
};
use crate::daemon::Daemon;
use crate::streams::ways::ms;

#[test]
fn where_nobody_polls_the_group_is_empty() {
    let daemon = Daemon::start();
    for path in ["/v1/polling/default", "/v1/pollers", "/v1/pollers?group=default", "/v1/nodes?group=default"]
    {
        let answered = daemon.get(path);
        assert_eq!(answered.status, 200, "{answered:?}");
        let seen = answered.json();
        assert!(ms(&seen["timestamp"]) > 0);
        assert_eq!(
            seen,
            json!({
                "group": "default", "this_instance_id": null, "live_nodes": [], "unowned_targets": [],
                "unowned": {}, "state": "unknown", "unowned_total": 0, "abandoned": {}, "failing_total": 0,
                "generation": 0, "timestamp": seen["timestamp"],
            })
        );
    }
}

#[test]
fn what_cannot_be_a_group_is_refused_with_the_rule() {
    let daemon = Daemon::start();
    let long = "g".repeat(65);
    for group in ["-x", "a%2Fb", "@x", "a%20b", &long] {
        for path in [format!("/v1/polling/{group}"), format!("/v1/pollers?group={group}")] {
            let answered = daemon.get(&path);
            assert_eq!(answered.refusal(), (400, "invalid_request".to_owned()), "{path}: {answered:?}");
            let message = answered.json()["message"].as_str().unwrap().to_owned();
            assert!(message.contains("1 to 64 letters, digits"), "{message}");
        }
        let steered = daemon.post(&format!("/v1/polling/{group}/cordon"), &json!({"poller": "a"}));
        assert_eq!(steered.refusal(), (400, "invalid_request".to_owned()), "{steered:?}");
    }
    assert_eq!(daemon.get("/v1/pollers?gruppe=x").refusal(), (400, "invalid_request".to_owned()));
}

#[test]
fn a_poller_is_shown_with_all_that_is_known_of_its_targets() {
    let daemon = Daemon::start();
    let kitchen = ByHand::enter(&daemon, "kitchen~1f", "kitchen", LONG_MS, 3, true);
    let lease = kitchen.take(&daemon, "s1");
    kitchen.beat(&daemon);
    let seen = view(&daemon);
    let shown = target(&seen, "s1");
    assert!(ms(&shown["last_renewed_at"]) >= ms(&shown["acquired_at"]), "{shown}");
    assert_eq!(ms(&shown["acquired_at"]), ms(&lease["granted_at"]));
    assert_eq!(
        seen["live_nodes"],
        json!([{
            "instance_id": "kitchen~1f", "name": "kitchen", "is_this_instance": false, "status": "online",
            "weight": 3,
            "owned_targets": [{
                "target": "s1", "owner_id": "kitchen~1f", "preferred_owner_id": "kitchen~1f", "state": "owned",
                "fence": lease["fence"], "acquired_at": shown["acquired_at"],
                "last_renewed_at": shown["last_renewed_at"], "uncertain_since": null, "pinned": false,
                "failing": false,
            }],
            "failing": 0,
        }])
    );
    let nodes = daemon.get(&format!("/v1/pollers?group={GROUP}")).json();
    assert_eq!(nodes["live_nodes"], seen["live_nodes"], "both routes tell the same");
    assert_eq!(seen["this_instance_id"], Value::Null, "the daemon is no poller");
}

#[test]
fn a_handover_changes_the_holder_the_fence_and_since_when_in_one_step() {
    let daemon = Daemon::start();
    let (kitchen, hall) = (ByHand::join(&daemon, "kitchen", LONG_MS), ByHand::join(&daemon, "hall", LONG_MS));
    let lease = kitchen.take(&daemon, "s1");
    let before = view(&daemon);
    let handed = hand_over(&daemon, &lease, &hall.session);
    let after = view(&daemon);
    assert_eq!(owned(&before, "kitchen~1"), [("s1".to_owned(), "owned".to_owned())]);
    assert_eq!((owned(&after, "kitchen~1").len(), owned(&after, "hall~1").len()), (0, 1));
    let (was, is) = (target(&before, "s1"), target(&after, "s1"));
    assert!(is["fence"].as_u64() > was["fence"].as_u64() && is["fence"] == handed["fence"], "{was} {is}");
    assert!(ms(&is["acquired_at"]) >= ms(&was["acquired_at"]), "{was} {is}");
    assert!(after["generation"].as_u64() > before["generation"].as_u64());
    assert_eq!(unowned(&after), [""; 0]);
}

#[test]
fn names_of_targets_come_back_as_they_are() {
    let daemon = Daemon::start();
    let kitchen = ByHand::join(&daemon, "kitchen", LONG_MS);
    // As a poller writes them: what is no name of a resource is written with digits.
    for (written, name) in [
        ("http:%2F%2Fh%2Fx?y=1", "http://h/x?y=1"),
        ("%E6%97%A5%E6%9C%AC", "日本"),
        ("%40pin/s", "@pin/s"),
        ("site/floor 2/s17", "site/floor 2/s17"),
    ] {
        kitchen.take(&daemon, written);
        assert_eq!(target(&view(&daemon), name)["owner_id"], "kitchen~1", "{name}");
    }
}

#[test]
fn who_misses_its_renewals_is_uncertain_before_it_is_lost() {
    let daemon = Daemon::start();
    let kitchen = ByHand::join(&daemon, "kitchen", SHORT_MS * 2);
    kitchen.take(&daemon, "s1");
    assert_eq!(target(&view(&daemon), "s1")["state"], "owned");
    let seen = until(&daemon, "an uncertain target", |seen| {
        find_target(seen, "s1").is_some_and(|shown| shown["state"] == "uncertain")
    });
    let shown = target(&seen, "s1");
    let since = ms(&shown["uncertain_since"]) - ms(&shown["last_renewed_at"]);
    assert_eq!(since, SHORT_MS as i64 * 2 / 3, "since the renewal that did not come: {shown}");
    let age = ms(&seen["timestamp"]) - ms(&shown["last_renewed_at"]);
    assert!(age >= SHORT_MS as i64 * 4 / 3, "two thirds of its ttl: {age}");
    kitchen.beat(&daemon);
    let shown = target(&view(&daemon), "s1").clone();
    assert_eq!((&shown["state"], &shown["uncertain_since"]), (&json!("owned"), &Value::Null));
}

#[test]
fn what_is_being_let_go_of_drains_and_comes_first() {
    let daemon = Daemon::start();
    let (kitchen, hall) = (ByHand::join(&daemon, "kitchen", LONG_MS), ByHand::join(&daemon, "hall", LONG_MS));
    let leases: Vec<Value> = ["s1", "s2", "s3"].iter().map(|name| kitchen.take(&daemon, name)).collect();
    // An operator's drain or revoke is honoured until the promise is over.
    of_lease(&daemon, &leases[1], "drain", &json!({}));
    let state = |name: &str, state: &str| (name.to_owned(), state.to_owned());
    assert_eq!(
        owned(&view(&daemon), "kitchen~1"),
        [state("s2", "draining"), state("s1", "owned"), state("s3", "owned")]
    );
    of_lease(&daemon, &leases[1], "revive", &json!({}));
    of_lease(&daemon, &leases[2], "revoke", &json!({}));
    assert_eq!(
        owned(&view(&daemon), "kitchen~1"),
        [state("s3", "draining"), state("s1", "owned"), state("s2", "owned")]
    );
    kitchen.tell(&daemon, "leaving");
    let seen = view(&daemon);
    assert_eq!(node(&seen, "kitchen~1")["status"], "leaving");
    assert!(owned(&seen, "kitchen~1").iter().all(|(_, state)| state == "draining"), "{seen}");
    assert_eq!(target(&seen, "s1")["preferred_owner_id"], hall.instance.as_str(), "who leaves gets nothing");
}

#[test]
fn one_that_is_away_keeps_its_place_and_takes_it_back() {
    let daemon = Daemon::start();
    let kitchen = ByHand::join(&daemon, "kitchen", LONG_MS);
    let _hall = ByHand::join(&daemon, "hall", LONG_MS);
    let lease = kitchen.take(&daemon, "s1");
    kitchen.go_away(&daemon, &[lease], LONG_MS);
    kitchen.close(&daemon);
    let seen = view(&daemon);
    let away = node(&seen, "kitchen~absent");
    assert_eq!((&away["name"], &away["status"]), (&json!("kitchen"), &json!("absent")), "{seen}");
    assert_eq!(owned(&seen, "kitchen~absent"), [("s1".to_owned(), "draining".to_owned())]);
    assert_eq!(unowned(&seen), [""; 0], "nobody takes it meanwhile");
    let back = daemon.post("/v1/sessions", &json!({"holder": "kitchen~2", "ttl_ms": LONG_MS, "grace_ms": 0}));
    let session = back.json()["session"].as_str().unwrap().to_owned();
    for name in ["@poller/kitchen", "s1"] {
        hand_over(&daemon, &lease_of(&daemon, name).unwrap(), &session);
    }
    let membership = lease_of(&daemon, "@poller/kitchen").unwrap();
    let facts = json!({"instance": "kitchen~2", "weight": 1, "status": "online", "fixed_name": true});
    of_lease(&daemon, &membership, "amend", &json!({"epoch": membership["epoch"], "attachment": facts}));
    let seen = view(&daemon);
    assert_eq!(owned(&seen, "kitchen~2"), [("s1".to_owned(), "owned".to_owned())], "{seen}");
    assert_eq!(node(&seen, "kitchen~2")["status"], "online");
}

#[test]
fn whoever_holds_a_target_is_shown_member_or_not() {
    let daemon = Daemon::start();
    let kitchen = ByHand::join(&daemon, "kitchen", LONG_MS);
    kitchen.take(&daemon, "s1");
    daemon.acquire(&json!({"resources": [format!("poll/{GROUP}/s2")], "holder": "somebody"}));
    let mut lines = daemon.lines();
    let connected = json!({"acquire": {"resources": [format!("poll/{GROUP}/s3")], "holder": "on a line"}});
    assert!(lines.ask(&connected)["acquired"].is_object());
    let seen = view(&daemon);
    for (holder, name) in [("somebody", "s2"), ("on a line", "s3")] {
        assert_eq!(
            (&node(&seen, holder)["weight"], &node(&seen, holder)["status"]),
            (&json!(0), &json!("leaving"))
        );
        assert_eq!(owned(&seen, holder), [(name.to_owned(), "owned".to_owned())]);
        assert_eq!(target(&seen, name)["preferred_owner_id"], "kitchen~1", "who is no member gets nothing");
    }
    drop(lines);
    let seen = until(&daemon, "a connection that is gone", |seen| target(seen, "s3")["state"] == "uncertain");
    assert!(seen["generation"].as_u64() > Some(0));
}

#[test]
fn nine_targets_on_three_pollers_should_stay_where_they_are() {
    let daemon = Daemon::start();
    let pollers: Vec<ByHand> =
        ["a", "b", "c"].iter().map(|name| ByHand::join(&daemon, name, LONG_MS)).collect();
    for number in 0..9 {
        pollers[number % 3].take(&daemon, &format!("s{number}"));
    }
    let seen = view(&daemon);
    for number in 0..9 {
        let shown = target(&seen, &format!("s{number}"));
        assert_eq!(shown["preferred_owner_id"], shown["owner_id"], "{shown}");
    }
    let _fourth = ByHand::join(&daemon, "d", LONG_MS);
    let seen = view(&daemon);
    let all = (0..9).map(|number| target(&seen, &format!("s{number}")));
    let moving = all.filter(|shown| shown["preferred_owner_id"] != shown["owner_id"]).count();
    assert_eq!(moving, 2, "a fourth gets its share and no more moves: {seen}");
}

#[test]
fn the_generation_rises_with_every_change_and_with_no_heartbeat() {
    let daemon = Daemon::start();
    let generation = || view(&daemon)["generation"].as_u64().unwrap();
    let mut last = generation();
    let mut rises = |what: &str| {
        let now = generation();
        assert!(now > last, "{what}: {now} after {last}");
        last = now;
    };
    let kitchen = ByHand::join(&daemon, "kitchen", LONG_MS);
    rises("a member");
    let lease = kitchen.take(&daemon, "s1");
    rises("a target");
    kitchen.tell(&daemon, "leaving");
    rises("a status");
    of_lease(&daemon, &lease, "release", &json!({"epoch": lease["epoch"], "reason": "target_removed"}));
    rises("an end");
    let before = generation();
    kitchen.beat(&daemon);
    daemon.acquire(&json!({"resources": ["elsewhere"], "holder": "h"}));
    assert_eq!(generation(), before, "nothing happened to the group");
    kitchen.close(&daemon);
    let seen = until(&daemon, "nobody", |seen| seen["live_nodes"].as_array().unwrap().is_empty());
    assert!(seen["generation"].as_u64().unwrap() > before, "a group that is forgotten: {seen}");
}

#[test]
fn groups_know_nothing_of_each_other() {
    let daemon = Daemon::start();
    let kitchen = ByHand::join(&daemon, "kitchen", LONG_MS);
    kitchen.take(&daemon, "s1");
    for resource in ["poll/other/s2", "poll/webs/s3", "poll/web.d/s4"] {
        let body = json!({"resources": [resource], "holder": "kitchen~1", "session": kitchen.session});
        daemon.acquire(&body);
    }
    assert_eq!(owned(&view(&daemon), "kitchen~1").len(), 1);
    let other = daemon.get("/v1/polling/other").json();
    assert_eq!(owned(&other, "kitchen~1"), [("s2".to_owned(), "owned".to_owned())], "{other}");
}
