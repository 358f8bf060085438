//! The story of a target.

use serde_json::{Value, json};

use super::ways::{ByHand, LONG_MS, SHORT_MS, hand_over, let_go, steered, unowned, until};
use crate::daemon::Daemon;

fn sentences(daemon: &Daemon, resource: &str) -> Vec<String> {
    let answered = daemon.get(&format!("/v1/why?resource={resource}"));
    assert_eq!(answered.status, 200, "{answered:?}");
    let story = answered.json();
    let entries: &Vec<Value> = story["entries"].as_array().unwrap();
    entries.iter().map(|entry| entry["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_story_of_a_target_tells_who_polled_it_and_what_operators_said() {
    let daemon = Daemon::start();
    let (hall, attic) = (ByHand::join(&daemon, "hall", LONG_MS), ByHand::join(&daemon, "attic", LONG_MS));
    let kitchen = ByHand::join(&daemon, "kitchen", SHORT_MS);
    kitchen.take(&daemon, "s1");
    steered(&daemon, "move", &json!({"target": "s1", "poller": "hall"}));
    until(&daemon, "its end", |seen| unowned(seen) == ["s1"]);
    let lease = hall.take(&daemon, "s1");
    let lease = hand_over(&daemon, &lease, &attic.session);
    steered(&daemon, "move", &json!({"target": "s1", "poller": "attic"}));
    steered(&daemon, "move", &json!({"target": "s1"}));
    let_go(&daemon, &lease, "target_removed");
    let told = sentences(&daemon, "poll/web/s1");
    let begins = [
        "granted to kitchen~1: poll/web/s1",
        "pinned to poller hall by uid:0",
        "session s:",
        "revoked: its session was silent for longer than its grace",
        "reclaimed: poll/web/s1 free again",
        "granted to hall~1: poll/web/s1",
        "moved to attic~1: the epoch is now 2",
        "pinned to poller attic by uid:0",
        "not pinned any more: its group assigns it",
        "released by attic~1, saying \"target_removed\"",
    ];
    assert_eq!(told.len(), begins.len(), "{told:#?}");
    for (sentence, begin) in told.iter().zip(begins) {
        assert!(sentence.starts_with(begin), "{sentence:?} should begin {begin:?}: {told:#?}");
    }
}
