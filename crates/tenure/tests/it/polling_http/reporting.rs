//! What pollers report of their targets, and which groups there are.

use serde_json::{Value, json};

use super::ways::{
    ByHand, LONG_MS, SHORT_MS, abandoned, find_target, node, steer, target, unowned, until, view,
};
use crate::daemon::Daemon;
use crate::streams::ways::Streams as _;

fn counted(daemon: &Daemon, state: &str) -> f64 {
    daemon.http().number("tenure_poll_targets", &["group=\"web\"", &format!("state=\"{state}\"")])
}

fn groups(daemon: &Daemon) -> Value {
    let answered = daemon.get("/v1/polling");
    assert_eq!(answered.status, 200, "{answered:?}");
    answered.json()["groups"].clone()
}

#[test]
fn a_target_that_nobody_ever_held_is_unowned_while_a_poller_asks_for_it() {
    let daemon = Daemon::start();
    let kitchen = ByHand::join(&daemon, "kitchen", LONG_MS);
    kitchen.report(&daemon, &["never"], &[]);
    let seen = view(&daemon);
    assert_eq!((unowned(&seen), &seen["unowned_total"]), (vec!["never"], &json!(1)));
    assert_eq!(
        seen["unowned"]["never"],
        json!({"since": null, "last_owner_id": null, "preferred_owner_id": "kitchen~1", "reason": null})
    );
    assert_eq!(counted(&daemon, "unowned"), 1.0);
    let moved = steer(&daemon, "move", &json!({"target": "never", "poller": "kitchen"}));
    assert_eq!(moved.status, 200, "it is a target of the group: {moved:?}");
    kitchen.take(&daemon, "never");
    assert_eq!((unowned(&view(&daemon)).len(), counted(&daemon, "unowned")), (0, 0.0), "it is held");
    kitchen.report(&daemon, &[], &[]);
    assert_eq!(target(&view(&daemon), "never")["state"], "owned");
}

/// The alarm of the guide ends: what no poller lists any more is forgotten.
#[test]
fn a_target_that_no_poller_asks_for_any_more_is_not_unowned() {
    let mut daemon = Daemon::start();
    let hall = ByHand::join(&daemon, "hall", SHORT_MS);
    for name in ["s1", "s2"] {
        hall.take(&daemon, name);
    }
    until(&daemon, "its end", |seen| abandoned(seen) == ["s1", "s2"]);
    assert_eq!((counted(&daemon, "unowned"), counted(&daemon, "abandoned")), (0.0, 2.0));
    let kitchen = ByHand::join(&daemon, "kitchen", SHORT_MS * 2);
    kitchen.report(&daemon, &["s1"], &[]);
    let seen = until(&daemon, "s2 to be forgotten", |seen| {
        kitchen.beat(&daemon);
        unowned(seen) == ["s1"]
    });
    assert_eq!(seen["unowned"]["s1"]["last_owner_id"], "hall~1", "{seen}");
    assert_eq!((counted(&daemon, "unowned"), counted(&daemon, "abandoned")), (1.0, 0.0));
    daemon.kill();
    daemon.start_again();
    assert_eq!(unowned(&view(&daemon)), ["s1"], "after a restart too");
}

#[test]
fn targets_whose_polls_fail_are_shown_and_counted() {
    let daemon = Daemon::start();
    let kitchen = ByHand::join(&daemon, "kitchen", LONG_MS);
    for name in ["s1", "s2"] {
        kitchen.take(&daemon, name);
    }
    kitchen.report(&daemon, &[], &["s2"]);
    let seen = view(&daemon);
    assert_eq!(
        (&target(&seen, "s1")["failing"], &target(&seen, "s2")["failing"]),
        (&json!(false), &json!(true))
    );
    assert_eq!((&node(&seen, "kitchen~1")["failing"], &seen["failing_total"]), (&json!(1), &json!(1)));
    let failing = || daemon.http().number("tenure_poll_failing_targets", &["group=\"web\""]);
    assert_eq!((failing(), counted(&daemon, "owned")), (1.0, 2.0));
    kitchen.report(&daemon, &[], &[]);
    assert_eq!(failing(), 0.0);
    assert!(find_target(&view(&daemon), "s2").is_some_and(|shown| shown["failing"] == false));
}

#[test]
pub(crate) fn groups_are_listed_with_their_numbers() {
    let daemon = Daemon::start();
    assert_eq!(groups(&daemon), json!([]));
    let kitchen = ByHand::join(&daemon, "kitchen", LONG_MS);
    kitchen.take(&daemon, "s1");
    kitchen.report(&daemon, &["s2", "s3"], &["s1"]);
    let lease = daemon.acquire(&json!({"resources": ["poll/demo/x"], "holder": "h", "ttl_ms": LONG_MS}));
    super::ways::let_go(&daemon, &lease, "shutdown");
    let group = |name: &str, state: &str, numbers: [u64; 5]| {
        let [pollers, owned, unowned, abandoned, failing] = numbers;
        json!({
            "group": name, "state": state, "pollers": pollers, "owned": owned, "uncertain": 0, "draining": 0,
            "unowned": unowned, "abandoned": abandoned, "failing": failing,
        })
    };
    let [demo, web] = [group("demo", "abandoned", [0, 0, 0, 1, 0]), group("web", "active", [1, 1, 2, 0, 1])];
    assert_eq!(groups(&daemon), json!([demo, web]));
}
