//! What is shown of targets that nobody polls any more.

use serde_json::{Value, json};

use super::ways::{
    ByHand, LONG_MS, SHORT_MS, abandoned, find_node, let_go, of_lease, owned, target, unowned, until, view,
};
use crate::daemon::Daemon;
use crate::streams::ways::ms;

#[test]
fn a_dead_pollers_targets_are_nobodys_until_they_are_taken() {
    let daemon = Daemon::start();
    let hall = ByHand::join(&daemon, "hall", LONG_MS);
    let kitchen = ByHand::join(&daemon, "kitchen", SHORT_MS);
    for name in ["s1", "s2"] {
        kitchen.take(&daemon, name);
    }
    let seen = until(&daemon, "targets that are nobody's", |seen| unowned(seen).len() == 2);
    assert!(find_node(&seen, "kitchen~1").is_none(), "{seen}");
    assert_eq!(unowned(&seen), ["s1", "s2"]);
    for name in ["s1", "s2"] {
        let told = &seen["unowned"][name];
        assert!(ms(&told["since"]) <= ms(&seen["timestamp"]), "{told}");
        assert_eq!(
            told,
            &json!({
                "since": told["since"], "last_owner_id": "kitchen~1", "preferred_owner_id": "hall~1",
                "reason": "ttl_expiry",
            })
        );
    }
    hall.take(&daemon, "s1");
    let seen = view(&daemon);
    assert_eq!(unowned(&seen), ["s2"]);
    assert_eq!(seen["unowned"]["s1"], Value::Null);
    assert_eq!(owned(&seen, "hall~1"), [("s1".to_owned(), "owned".to_owned())]);
    hall.take(&daemon, "s2");
    assert_eq!(unowned(&view(&daemon)), [""; 0]);
}

#[test]
pub(crate) fn a_release_says_in_its_own_words_why_a_target_came_free() {
    let daemon = Daemon::start();
    let kitchen = ByHand::join(&daemon, "kitchen", LONG_MS);
    for (said, told) in [
        ("voluntary", "voluntary"),
        ("rebalanced", "rebalanced"),
        ("shutdown", "shutdown"),
        ("out of breath", "voluntary"),
        ("", "voluntary"),
    ] {
        let lease = kitchen.take(&daemon, "s1");
        let_go(&daemon, &lease, said);
        let seen = view(&daemon);
        assert_eq!(seen["unowned"]["s1"]["reason"], told, "{said:?}: {seen}");
        assert_eq!(unowned(&seen), ["s1"]);
    }
}

#[test]
pub(crate) fn a_target_that_is_no_more_is_not_missed() {
    let daemon = Daemon::start();
    let kitchen = ByHand::join(&daemon, "kitchen", LONG_MS);
    let lease = kitchen.take(&daemon, "s1");
    let_go(&daemon, &lease, "rebalanced");
    assert_eq!(unowned(&view(&daemon)), ["s1"]);
    let lease = kitchen.take(&daemon, "s1");
    let_go(&daemon, &lease, "target_removed");
    assert_eq!(unowned(&view(&daemon)), [""; 0]);
}

#[test]
pub(crate) fn closing_a_session_is_a_shutdown() {
    let daemon = Daemon::start();
    let kitchen = ByHand::join(&daemon, "kitchen", LONG_MS);
    kitchen.take(&daemon, "s1");
    kitchen.close(&daemon);
    let seen = until(&daemon, "its end", |seen| abandoned(seen) == ["s1"]);
    assert_eq!(seen["abandoned"]["s1"]["reason"], "shutdown");
    assert_eq!(seen["abandoned"]["s1"]["preferred_owner_id"], Value::Null, "nobody is left to take it");
    assert_eq!((&seen["state"], unowned(&seen).len()), (&json!("abandoned"), 0), "nobody asks for it");
    assert_eq!(seen["live_nodes"], json!([]));
}

#[test]
fn a_target_that_an_operator_took_away_is_nobodys_once_it_is_safe() {
    let daemon = Daemon::start();
    let _hall = ByHand::join(&daemon, "hall", LONG_MS);
    let kitchen = ByHand::join(&daemon, "kitchen", SHORT_MS);
    let lease = kitchen.take(&daemon, "s1");
    of_lease(&daemon, &lease, "revoke", &json!({"reason": "maintenance"}));
    let seen = view(&daemon);
    assert_eq!(target(&seen, "s1")["state"], "draining", "its holder was promised it: {seen}");
    let seen = until(&daemon, "the end of its promise", |seen| unowned(seen) == ["s1"]);
    assert_eq!(seen["unowned"]["s1"]["reason"], "revoked");
}

#[test]
pub(crate) fn what_ends_together_is_free_together_and_bookkeeping_is_no_target() {
    let daemon = Daemon::start();
    let kitchen = ByHand::join(&daemon, "kitchen", LONG_MS);
    let bundle = json!({
        "resources": ["poll/web/s1", "poll/web/s2", "poll/other/s3", "database"],
        "holder": kitchen.instance, "session": kitchen.session,
    });
    let lease = daemon.acquire(&bundle);
    assert_eq!(owned(&view(&daemon), "kitchen~1").len(), 2);
    let_go(&daemon, &lease, "rebalanced");
    kitchen.close(&daemon);
    let seen = until(&daemon, "the end of its membership", |seen| seen["live_nodes"] == json!([]));
    assert_eq!(abandoned(&seen), ["s1", "s2"], "{seen}");
    assert_eq!(abandoned(&daemon.get("/v1/polling/other").json()), ["s3"]);
}
