//! An operator's word among living pollers.

use serde_json::json;

use super::scene::{Kind, Scene};
use crate::run_support::boot_ms;

on_both_stores!(a_target_that_is_moved_arrives_and_a_cordoned_poller_has_nothing);

fn a_target_that_is_moved_arrives_and_a_cordoned_poller_has_nothing(kind: Kind) {
    let scene = Scene::of(kind, 6);
    let (one, two) = (scene.named("one"), scene.named("two"));
    let before = scene.wait_for_shares(&[&one, &two], &[3, 3]);
    let target = before.targets_of(&one.instance).into_iter().next().unwrap();
    let moved = scene.tenure(&["move", &target, "two"]);
    assert_eq!(moved.code, 0, "{}", moved.all());
    scene.wait_for("the move", |witness| witness.targets_of(&two.instance).contains(&target));
    let cordoned = scene.tenure(&["cordon", "two"]);
    assert_eq!(cordoned.code, 0, "{}", cordoned.all());
    scene.wait_for_shares(&[&one, &two], &[0, 6]);
    let since_ms = boot_ms();
    let end = scene.wait_for_all_since(since_ms);
    assert_eq!(end.since(since_ms).by(&two.instance).count(), 0, "a cordoned poller polls");
    assert_eq!(scene.tenure(&["uncordon", "two"]).code, 0);
    scene.wait_for_shares(&[&one, &two], &[3, 3]).assert_never_two();
}

#[test]
fn a_cordon_of_a_fixed_name_outlives_the_daemon() {
    let mut scene = Scene::of(Kind::Daemon, 6);
    let (one, two) = (scene.named("one"), scene.named("two"));
    let before = scene.wait_for_shares(&[&one, &two], &[3, 3]);
    let target = before.targets_of(&two.instance).into_iter().next().unwrap();
    let say = |scene: &Scene, verb: &str, body: serde_json::Value| {
        let answered = scene.http().post(&format!("/v1/polling/default/{verb}"), &body);
        assert_eq!(answered.status, 200, "{verb}: {answered:?}");
    };
    say(&scene, "move", json!({"target": target, "poller": "one"}));
    scene.wait_for("the move", |witness| witness.targets_of(&one.instance).contains(&target));
    say(&scene, "cordon", json!({"poller": "two"}));
    scene.wait_for_shares(&[&one, &two], &[0, 6]);
    scene.kill_store();
    scene.start_store();
    let since_ms = boot_ms();
    scene.wait_for_all_since(since_ms);
    let end = scene.wait_for_shares(&[&one, &two], &[0, 6]);
    assert_eq!(end.since(since_ms).by(&two.instance).count(), 0, "a cordoned poller polls");
    say(&scene, "uncordon", json!({"poller": "two"}));
    let end = scene.wait_for_shares(&[&one, &two], &[3, 3]);
    end.assert_never_two();
    assert!(end.targets_of(&one.instance).contains(&target), "what was moved stays where it was moved to");
    let view = scene.http().get("/v1/polling/default").json();
    assert_eq!(view["live_nodes"].as_array().unwrap().len(), 2, "{view}");
}
