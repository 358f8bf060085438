//! What a daemon that stopped or was killed still knows of a group.

use serde_json::{Value, json};

use super::ways::{
    ByHand, LONG_MS, SHORT_MS, abandoned, hand_over, let_go, node, owned, steered, target, unowned, until,
    view,
};
use crate::daemon::Daemon;
use crate::streams::ways::ms;

/// How a daemon ends before it starts again.
const ENDS: [fn(&mut Daemon); 2] = [Daemon::kill, Daemon::stop];

/// A view without what a restart may change: instants of looking.
fn lasting(mut seen: Value) -> Value {
    seen["timestamp"] = Value::Null;
    seen["generation"] = Value::Null;
    for node in seen["live_nodes"].as_array_mut().unwrap() {
        for target in node["owned_targets"].as_array_mut().unwrap() {
            target["last_renewed_at"] = Value::Null;
        }
    }
    seen
}

#[test]
fn the_group_is_shown_as_it_was() {
    for end in ENDS {
        let mut daemon = Daemon::start();
        let kitchen = ByHand::join(&daemon, "kitchen", LONG_MS);
        let hall = ByHand::join_drawn(&daemon, "hall-1", LONG_MS);
        let den = ByHand::join(&daemon, "den", SHORT_MS);
        for name in ["s1", "s2", "s3"] {
            kitchen.take(&daemon, name);
        }
        let handed = kitchen.take(&daemon, "s4");
        hand_over(&daemon, &handed, &hall.session);
        den.take(&daemon, "s5");
        let dropped = kitchen.take(&daemon, "s6");
        let_go(&daemon, &dropped, "rebalanced");
        let removed = kitchen.take(&daemon, "s7");
        let_go(&daemon, &removed, "rebalanced");
        let removed = kitchen.take(&daemon, "s7");
        let_go(&daemon, &removed, "target_removed");
        steered(&daemon, "move", &json!({"target": "s1", "poller": "kitchen"}));
        steered(&daemon, "move", &json!({"target": "s2", "poller": "hall-1"}));
        steered(&daemon, "cordon", &json!({"poller": "kitchen"}));
        let before = until(&daemon, "the end of one", |seen| unowned(seen) == ["s5", "s6"]);
        end(&mut daemon);
        daemon.start_again();
        let after = view(&daemon);
        assert_eq!(lasting(after.clone()), lasting(before.clone()));
        assert!(after["generation"].as_u64() >= before["generation"].as_u64(), "{before} {after}");
        assert_eq!(after["unowned"]["s5"]["reason"], "ttl_expiry");
        assert_eq!(node(&after, "kitchen~1")["status"], "cordoned");
        assert_eq!(target(&after, "s1")["pinned"], true);
        // And it goes on.
        hall.take(&daemon, "s5");
        kitchen.beat(&daemon);
        hall.beat(&daemon);
        let seen = view(&daemon);
        assert_eq!(unowned(&seen), ["s6"]);
        assert_eq!(owned(&seen, "hall-1").len(), 2);
    }
}

#[test]
fn a_group_that_is_abandoned_is_remembered() {
    let mut daemon = Daemon::start();
    let kitchen = ByHand::join(&daemon, "kitchen", LONG_MS);
    for name in ["s1", "s2"] {
        kitchen.take(&daemon, name);
    }
    kitchen.close(&daemon);
    let before = until(&daemon, "its end", |seen| seen["live_nodes"] == json!([]));
    assert_eq!((&before["state"], abandoned(&before)), (&json!("abandoned"), vec!["s1", "s2"]));
    daemon.kill();
    daemon.start_again();
    let after = view(&daemon);
    assert_eq!(lasting(after.clone()), lasting(before.clone()));
    assert!(after["generation"].as_u64() >= before["generation"].as_u64(), "{before} {after}");
}

#[test]
fn who_died_with_the_daemon_has_a_full_ttl_and_is_missed_then() {
    let mut daemon = Daemon::start();
    let kitchen = ByHand::join(&daemon, "kitchen", SHORT_MS);
    kitchen.take(&daemon, "s1");
    let before = view(&daemon);
    daemon.kill();
    daemon.start_again();
    let seen = until(&daemon, "its end", |seen| abandoned(seen) == ["s1"]);
    assert_eq!(seen["abandoned"]["s1"]["last_owner_id"], "kitchen~1");
    let lasted = ms(&seen["abandoned"]["s1"]["since"]) - ms(&before["timestamp"]);
    assert!(lasted >= SHORT_MS as i64, "a full ttl after the restart: {lasted} ms after the kill");
}
