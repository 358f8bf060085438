//! What operators say to a group: where a target is to be, who is to have none.

use serde_json::{Value, json};

use super::ways::{
    ByHand, GROUP, LONG_MS, SHORT_MS, find_node, hand_over, lease_of, let_go, node, of_lease, steer, steered,
    target, until, view,
};
use crate::daemon::Daemon;

fn two(daemon: &Daemon) -> (ByHand, ByHand) {
    (ByHand::join(daemon, "kitchen", LONG_MS), ByHand::join(daemon, "hall", LONG_MS))
}

#[test]
pub(crate) fn a_target_that_is_moved_should_be_there_and_is_pinned_once_it_is() {
    let daemon = Daemon::start();
    let (kitchen, hall) = two(&daemon);
    let lease = kitchen.take(&daemon, "s1");
    let moved = steered(&daemon, "move", &json!({"target": "s1", "poller": "hall"}));
    assert_eq!(
        moved,
        json!({"group": GROUP, "target": "s1", "poller": "hall", "owner_id": "kitchen~1", "lsn": moved["lsn"]})
    );
    let seen = view(&daemon);
    let shown = target(&seen, "s1");
    assert_eq!((&shown["preferred_owner_id"], &shown["pinned"]), (&json!("hall~1"), &json!(false)));
    assert_eq!(seen["generation"], moved["lsn"], "pollers see that something changed");
    hand_over(&daemon, &lease, &hall.session);
    let shown = target(&view(&daemon), "s1").clone();
    assert_eq!((&shown["owner_id"], &shown["pinned"]), (&json!("hall~1"), &json!(true)));
    let pin = lease_of(&daemon, "@pin/s1").unwrap();
    assert_eq!((&pin["attachment"], &pin["application"]), (&json!({"poller": "hall"}), &json!("polling")));
    assert_eq!(pin["mode"], "permanent", "its poller comes back under its name");

    // Moved again, the same pin says another poller: there is no moment without one.
    steered(&daemon, "move", &json!({"target": "s1", "poller": "kitchen~1"}));
    let again = lease_of(&daemon, "@pin/s1").unwrap();
    assert_eq!((&again["lease_id"], &again["attachment"]), (&pin["lease_id"], &json!({"poller": "kitchen"})));
    let back = steered(&daemon, "move", &json!({"target": "s1", "poller": null}));
    assert_eq!(back["poller"], Value::Null);
    assert_eq!(lease_of(&daemon, "@pin/s1"), None);
    assert_eq!(target(&view(&daemon), "s1")["pinned"], false);
    steered(&daemon, "move", &json!({"target": "s1"}));
}

#[test]
pub(crate) fn a_target_that_nobody_has_can_be_moved() {
    let daemon = Daemon::start();
    let (kitchen, _hall) = two(&daemon);
    let_go(&daemon, &kitchen.take(&daemon, "s1"), "voluntary");
    let moved = steered(&daemon, "move", &json!({"target": "s1", "poller": "hall"}));
    assert_eq!(moved["owner_id"], Value::Null);
    assert_eq!(view(&daemon)["unowned"]["s1"]["preferred_owner_id"], "hall~1");
}

#[test]
pub(crate) fn who_is_not_there_is_refused_with_those_who_are() {
    let daemon = Daemon::start();
    for (verb, body) in [
        ("move", json!({"target": "s1", "poller": "attic"})),
        ("cordon", json!({"poller": "attic"})),
        ("uncordon", json!({"poller": "attic"})),
    ] {
        let answered = steer(&daemon, verb, &body);
        assert_eq!(answered.refusal(), (404, "not_found".to_owned()), "{verb}: {answered:?}");
        let told = answered.json();
        assert_eq!(
            told["message"], "group \"web\" has no poller \"attic\"; the group has no poller",
            "{told}"
        );
    }
    let (kitchen, _hall) = two(&daemon);
    kitchen.take(&daemon, "s1");
    let told = steer(&daemon, "cordon", &json!({"poller": "attic"})).json();
    assert_eq!(
        told["message"], "group \"web\" has no poller \"attic\"; its pollers are hall, kitchen",
        "{told}"
    );
    assert_eq!(told["pollers"], json!(["hall", "kitchen"]));
    let answered = steer(&daemon, "move", &json!({"target": "s9", "poller": "hall"}));
    assert_eq!(answered.refusal(), (404, "not_found".to_owned()), "{answered:?}");
    assert_eq!(lease_of(&daemon, "@pin/s9"), None, "a slip of the pen leaves nothing behind");
}

#[test]
pub(crate) fn what_is_not_understood_is_refused() {
    let daemon = Daemon::start();
    let (kitchen, _hall) = two(&daemon);
    kitchen.take(&daemon, "s1");
    for (verb, body) in [
        ("move", json!({})),
        ("move", json!({"target": ""})),
        ("move", json!({"target": "x".repeat(181), "poller": "hall"})),
        ("move", json!({"target": "s1", "poller": "hall", "now": true})),
        ("cordon", json!({})),
        ("cordon", json!({"poller": "hall", "why": "x"})),
        ("uncordon", json!({"target": "s1"})),
    ] {
        let answered = steer(&daemon, verb, &body);
        assert_eq!(answered.refusal(), (400, "invalid_request".to_owned()), "{verb} {body}: {answered:?}");
    }
    let answered = daemon.get(&format!("/v1/polling/{GROUP}/move"));
    assert_eq!(answered.refusal(), (405, "method_not_allowed".to_owned()), "{answered:?}");
}

#[test]
pub(crate) fn nothing_is_moved_to_one_that_takes_nothing() {
    let daemon = Daemon::start();
    let (kitchen, hall) = two(&daemon);
    let den = ByHand::join(&daemon, "den", LONG_MS);
    kitchen.take(&daemon, "s1");
    steered(&daemon, "cordon", &json!({"poller": "hall"}));
    kitchen.tell(&daemon, "leaving");
    den.go_away(&daemon, &[], LONG_MS);
    for (poller, why) in [("hall", "cordoned"), ("kitchen", "leaving"), ("den", "absent")] {
        let answered = steer(&daemon, "move", &json!({"target": "s1", "poller": poller}));
        assert_eq!(answered.refusal(), (409, "invalid_state".to_owned()), "{poller}: {answered:?}");
        let message = answered.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains(why), "{message}");
    }
    assert_eq!(hall.name, "hall");
    steered(&daemon, "uncordon", &json!({"poller": "hall"}));
    steered(&daemon, "move", &json!({"target": "s1", "poller": "hall"}));
}

#[test]
pub(crate) fn a_cordoned_poller_should_have_nothing_until_it_is_uncordoned() {
    let daemon = Daemon::start();
    let (kitchen, _hall) = two(&daemon);
    for name in ["s1", "s2"] {
        kitchen.take(&daemon, name);
    }
    let first = steered(&daemon, "cordon", &json!({"poller": "kitchen~1"}));
    assert_eq!(
        first,
        json!({"group": GROUP, "poller": "kitchen", "cordoned": true, "owned": 2, "lsn": first["lsn"]})
    );
    let cordon = lease_of(&daemon, "@cordon/kitchen").unwrap();
    let again = steered(&daemon, "cordon", &json!({"poller": "kitchen"}));
    assert_eq!((&again["cordoned"], &again["poller"]), (&json!(true), &json!("kitchen")));
    assert_eq!(lease_of(&daemon, "@cordon/kitchen").unwrap()["lease_id"], cordon["lease_id"]);
    let seen = view(&daemon);
    assert_eq!(
        (&node(&seen, "kitchen~1")["status"], &node(&seen, "hall~1")["status"]),
        (&json!("cordoned"), &json!("online"))
    );
    for name in ["s1", "s2"] {
        assert_eq!(target(&seen, name)["preferred_owner_id"], "hall~1");
        assert_eq!(target(&seen, name)["state"], "owned", "it polls until another does");
    }
    for _ in 0..2 {
        let told = steered(&daemon, "uncordon", &json!({"poller": "kitchen"}));
        assert_eq!((&told["cordoned"], &told["owned"]), (&json!(false), &json!(2)));
    }
    assert_eq!(node(&view(&daemon), "kitchen~1")["status"], "online");
    assert_eq!(lease_of(&daemon, "@cordon/kitchen"), None);
}

#[test]
pub(crate) fn where_everybody_is_cordoned_nobody_should_have_anything() {
    let daemon = Daemon::start();
    let (kitchen, _hall) = two(&daemon);
    kitchen.take(&daemon, "s1");
    for poller in ["kitchen", "hall"] {
        steered(&daemon, "cordon", &json!({"poller": poller}));
    }
    let seen = view(&daemon);
    let should = &target(&seen, "s1")["preferred_owner_id"];
    assert!(should.is_null() || should == "kitchen~1", "whoever has it keeps it, or nobody should: {seen}");
}

#[test]
pub(crate) fn what_was_said_of_a_drawn_name_ends_with_it_and_of_a_fixed_one_stays() {
    let mut daemon = Daemon::start();
    let hall = ByHand::join(&daemon, "hall", LONG_MS);
    hall.take(&daemon, "s1");
    hall.take(&daemon, "s2");
    let drawn = ByHand::join_drawn(&daemon, "host-1-00", SHORT_MS * 2);
    let kitchen = ByHand::join(&daemon, "kitchen", SHORT_MS * 2);
    steered(&daemon, "move", &json!({"target": "s1", "poller": "host-1-00"}));
    steered(&daemon, "move", &json!({"target": "s2", "poller": "kitchen"}));
    for poller in ["host-1-00", "kitchen"] {
        steered(&daemon, "cordon", &json!({"poller": poller}));
    }
    let kept = |name: &str| lease_of(&daemon, name).is_some();
    assert!(["@pin/s1", "@pin/s2", "@cordon/host-1-00", "@cordon/kitchen"].into_iter().all(kept));
    assert_eq!(lease_of(&daemon, "@pin/s1").unwrap()["session"], drawn.session.as_str());
    until(&daemon, "the end of both", |seen| {
        find_node(seen, "host-1-00").is_none() && find_node(seen, &kitchen.instance).is_none()
    });
    let there = || {
        let kept = |name: &&str| lease_of(&daemon, name).is_some();
        let all = ["@pin/s1", "@pin/s2", "@cordon/host-1-00", "@cordon/kitchen"];
        all.into_iter().filter(kept).collect::<Vec<&str>>()
    };
    crate::run_support::wait_until("what was said of it to end", crate::daemon::LIMIT, || there().len() == 2);
    assert_eq!(there(), ["@pin/s2", "@cordon/kitchen"]);
    daemon.stop();
    daemon.start_again();
    let back = ByHand::enter(&daemon, "kitchen~2", "kitchen", LONG_MS, 1, true);
    let seen = view(&daemon);
    assert_eq!(node(&seen, &back.instance)["status"], "cordoned", "{seen}");
    assert_eq!(target(&seen, "s2")["preferred_owner_id"], "hall~1", "a pin to a cordoned poller waits");
    steered(&daemon, "uncordon", &json!({"poller": "kitchen"}));
    assert_eq!(target(&view(&daemon), "s2")["preferred_owner_id"], "kitchen~2");
}

#[test]
pub(crate) fn a_cordon_whose_poller_is_gone_can_be_taken_back() {
    let daemon = Daemon::start();
    let (kitchen, _hall) = two(&daemon);
    steered(&daemon, "cordon", &json!({"poller": "kitchen"}));
    kitchen.close(&daemon);
    until(&daemon, "its end", |seen| find_node(seen, "kitchen~1").is_none());
    assert_eq!(steer(&daemon, "cordon", &json!({"poller": "kitchen"})).status, 404);
    let told = steered(&daemon, "uncordon", &json!({"poller": "kitchen~1"}));
    assert_eq!((&told["poller"], &told["cordoned"]), (&json!("kitchen"), &json!(false)));
    assert_eq!(lease_of(&daemon, "@cordon/kitchen"), None);
    assert_eq!(steer(&daemon, "uncordon", &json!({"poller": "kitchen"})).status, 404);
}

#[test]
pub(crate) fn a_pin_can_be_taken_back_when_target_and_poller_are_gone() {
    let daemon = Daemon::start();
    let (kitchen, _hall) = two(&daemon);
    let lease = kitchen.take(&daemon, "s1");
    steered(&daemon, "move", &json!({"target": "s1", "poller": "kitchen"}));
    let_go(&daemon, &lease, "target_removed");
    kitchen.close(&daemon);
    until(&daemon, "its end", |seen| find_node(seen, "kitchen~1").is_none());
    assert!(lease_of(&daemon, "@pin/s1").is_some());
    steered(&daemon, "move", &json!({"target": "s1", "poller": null}));
    assert_eq!(lease_of(&daemon, "@pin/s1"), None);
}

#[test]
pub(crate) fn a_key_makes_a_retry_harmless() {
    let daemon = Daemon::start();
    let (kitchen, _hall) = two(&daemon);
    kitchen.take(&daemon, "s1");
    let keyed = |key: &str, verb: &str, body: Value| {
        daemon.http().with("idempotency-key", key).post(&format!("/v1/polling/{GROUP}/{verb}"), &body)
    };
    let to = |poller: &str| json!({"target": "s1", "poller": poller});
    assert_eq!(keyed("one", "move", to("hall")).status, 200);
    assert_eq!(keyed("two", "move", to("kitchen")).status, 200);
    let retried = keyed("one", "move", to("hall"));
    assert_eq!(retried.status, 200, "{retried:?}");
    let pin = lease_of(&daemon, "@pin/s1").unwrap();
    assert_eq!(pin["attachment"], json!({"poller": "kitchen"}), "what was done since stays");
    let other = keyed("one", "move", json!({"target": "s1", "poller": "kitchen~1"}));
    assert!(other.status == 200 || other.refusal() == (409, "operation_conflict".to_owned()), "{other:?}");
    assert_eq!(keyed("three", "cordon", json!({"poller": "hall"})).status, 200);
    assert_eq!(keyed("four", "uncordon", json!({"poller": "hall"})).status, 200);
    assert_eq!(keyed("three", "cordon", json!({"poller": "hall"})).status, 200);
    assert_eq!(lease_of(&daemon, "@cordon/hall"), None, "the cordon that was asked for was taken back since");
    let used = keyed("three", "cordon", json!({"poller": "kitchen"}));
    assert_eq!(used.refusal(), (409, "operation_conflict".to_owned()), "{used:?}");
}

#[test]
pub(crate) fn operators_who_speak_at_once_are_heard_one_after_the_other() {
    let daemon = Daemon::start();
    let (kitchen, _hall) = two(&daemon);
    kitchen.take(&daemon, "s1");
    let _den = ByHand::join(&daemon, "den", LONG_MS);
    std::thread::scope(|scope| {
        for number in 0..16 {
            let daemon = &daemon;
            scope.spawn(move || {
                let poller = ["kitchen", "hall"][number % 2];
                steered(daemon, "move", &json!({"target": "s1", "poller": poller}));
                let verb = if number % 3 == 0 { "cordon" } else { "uncordon" };
                steered(daemon, verb, &json!({"poller": "den"}));
            });
        }
    });
    let pin = lease_of(&daemon, "@pin/s1").unwrap();
    assert!(["kitchen", "hall"].map(Some).contains(&pin["attachment"]["poller"].as_str()), "{pin}");
}

#[test]
pub(crate) fn an_operator_may_end_a_word_natively_and_it_is_gone_at_once() {
    let daemon = Daemon::start();
    let (kitchen, _hall) = two(&daemon);
    kitchen.take(&daemon, "s1");
    steered(&daemon, "move", &json!({"target": "s1", "poller": "kitchen"}));
    steered(&daemon, "cordon", &json!({"poller": "hall"}));
    for name in ["@pin/s1", "@cordon/hall"] {
        of_lease(&daemon, &lease_of(&daemon, name).unwrap(), "revoke", &json!({}));
        assert_eq!(lease_of(&daemon, name), None, "{name}: nobody acts on it");
    }
    let seen = view(&daemon);
    assert_eq!(
        (&target(&seen, "s1")["pinned"], &node(&seen, "hall~1")["status"]),
        (&json!(false), &json!("online"))
    );
    steered(&daemon, "move", &json!({"target": "s1", "poller": "hall"}));
}
