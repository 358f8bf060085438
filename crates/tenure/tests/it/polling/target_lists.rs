//! Lists of targets that change under the hands of pollers.

use std::fs;
use std::time::Duration;

use super::scene::{Kind, SLACK_MS, Scene, WINDOW_MS};
use super::witness::Witness;
use crate::run_support::{LONG, boot_ms, is_running, let_time_pass, wait_until};

on_both_stores!(
    a_target_that_is_deleted_while_it_is_polled_is_let_go_and_may_come_back,
    a_list_that_is_missing_for_a_while_changes_nothing,
);

fn a_target_that_is_deleted_while_it_is_polled_is_let_go_and_may_come_back(kind: Kind) {
    let mut scene = Scene::open(kind, &["long1", "t1", "t2", "t3"]);
    let _one = scene.named("one");
    let before = scene.wait_for_all_since(0);
    let _two = scene.named("two");
    let poll = before.begins().find(|line| line.target == "long1").unwrap().pid;
    assert!(is_running(poll));
    scene.write_targets(&["t1", "t2", "t3"]);
    let limit = Duration::from_millis(1_000 + 2 * SLACK_MS);
    wait_until("the end of its poll", limit, || !is_running(poll));
    wait_until("its release", LONG, || !scene.owners().contains_key("long1"));
    let released_ms = boot_ms();
    scene.wait_for_all_since(released_ms);
    let end = scene.wait_until_settled(WINDOW_MS);
    let of_it = |witness: &Witness| witness.begins().filter(|line| line.target == "long1").count();
    assert_eq!(of_it(&end), 1, "polled although nobody wants it");
    scene.write_targets(&["t1", "t2", "t3", "long1"]);
    scene.wait_for("a poll of it again", |witness| of_it(witness) == 2).assert_never_two();
}

fn a_list_that_is_missing_for_a_while_changes_nothing(kind: Kind) {
    let mut scene = Scene::of(kind, 6);
    let (one, two) = (scene.named("one"), scene.named("two"));
    let before = scene.wait_for_shares(&[&one, &two], &[3, 3]);
    fs::rename(scene.path("targets"), scene.path("elsewhere")).unwrap();
    let_time_pass(Duration::from_secs(2), "several readings of the list that is missing");
    let missing = scene.wait_for_all_since(boot_ms());
    assert_eq!(missing.changes_of_hands(), before.changes_of_hands());
    scene.write_targets(&["t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8"]);
    scene.wait_for_shares(&[&one, &two], &[4, 4]).assert_never_two();
}

#[test]
fn sessions_of_a_redis_are_polled_unless_they_are_paused() {
    let scene = Scene::open(Kind::Redis, &["a", "b"]);
    let session = |id: &str, is_paused: bool| {
        let value = format!("{{\"id\":\"{id}\",\"isPaused\":{is_paused}}}");
        assert_eq!(scene.redis_cli(&["SET", &format!("session:{id}"), &value]), "OK");
    };
    session("a", false);
    session("b", true);
    let flags = ["--targets", "redis:session:*"];
    let _pollers = [scene.poller(&flags), scene.poller(&flags)];
    let polled = |witness: &Witness| witness.owners().into_keys().map(str::to_owned).collect::<Vec<_>>();
    scene.wait_for("a", |witness| polled(witness) == ["a"]);
    session("a", true);
    session("b", false);
    // Keys are looked at every ten seconds, by each poller for itself.
    scene.wait_for("b", |witness| polled(witness) == ["a", "b"]);
    wait_until("the end of a", LONG, || {
        let keys: Vec<String> = scene.owners().into_keys().collect();
        keys == ["b"]
    });
    let since_ms = boot_ms();
    let end = scene.wait_for("b again", |witness| polled(&witness.since(since_ms)) == ["b"]);
    end.assert_never_two();
}
