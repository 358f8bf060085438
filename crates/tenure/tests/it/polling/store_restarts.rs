//! A store that is killed and comes back, or that forgets everything.

use std::time::Duration;

use super::scene::{Kind, Member, Scene, TTL_MS, WINDOW_MS};
use super::witness::Witness;
use crate::run_support::{boot_ms, let_time_pass};

fn three(scene: &Scene) -> [Member; 3] {
    let members = ["one", "two", "three"].map(|name| scene.named(name));
    scene.wait_for_shares(&members.each_ref(), &[3, 3, 3]);
    members
}

#[test]
fn a_killed_daemon_comes_back_and_everybody_keeps_what_they_have() {
    let mut scene = Scene::of(Kind::Daemon, 9);
    let members = three(&scene);
    let count = scene.witness().0.len();
    scene.kill_store();
    scene.start_store();
    scene.wait_for_all_since(boot_ms());
    let end = scene.wait_for_shares(&members.each_ref(), &[3, 3, 3]);
    end.assert_never_two();
    assert_eq!(Witness(end.0[count..].to_vec()).changes_of_hands(), 0);
}

#[test]
fn a_daemon_that_was_away_for_long_finds_everybody_where_they_were() {
    let mut scene = Scene::of(Kind::Daemon, 9);
    let members = three(&scene);
    let before = scene.witness();
    scene.kill_store();
    let killed_ms = boot_ms();
    let_time_pass(Duration::from_millis(TTL_MS * 3 / 2), "the daemon is away for longer than the ttl");
    assert_eq!(scene.witness().since(killed_ms + TTL_MS).0.len(), 0, "polls without a daemon");
    scene.start_store();
    scene.wait_for_all_since(boot_ms());
    let end = scene.wait_for_shares(&members.each_ref(), &[3, 3, 3]);
    end.assert_never_two();
    assert_eq!(end.changes_of_hands(), before.changes_of_hands(), "a mass move");
}

/// Waits until everything is polled under fences above all that was before, and judges as a sink does.
#[track_caller]
fn assert_goes_on_above(scene: &Scene, before: &Witness) -> Witness {
    let highest = before.0.iter().map(|line| line.fence).max().unwrap();
    scene.wait_for("new fences for everything", |witness| {
        let late = witness.since(boot_ms().saturating_sub(WINDOW_MS));
        late.is_shared_out(9) && late.begins().all(|line| line.fence > highest)
    });
    let end = scene.wait_until_settled(WINDOW_MS);
    end.assert_none_accepted_twice();
    for (target, owner) in end.owners() {
        let last = end.begins().rfind(|line| line.target == target).unwrap();
        assert!(!end.refused().iter().any(|line| line.pid == last.pid), "{owner} is refused: {last:?}");
    }
    end
}

#[test]
fn a_redis_that_was_flushed_is_taken_anew_with_higher_fences() {
    let scene = Scene::of(Kind::Redis, 9);
    let _members = three(&scene);
    let before = scene.witness();
    assert_eq!(scene.redis_cli(&["FLUSHALL"]), "OK");
    assert_goes_on_above(&scene, &before);
}

#[test]
fn a_redis_that_forgets_what_it_knew_is_taken_anew_with_higher_fences() {
    let mut scene = Scene::of(Kind::Redis, 9);
    let _members = three(&scene);
    let before = scene.witness();
    scene.kill_store();
    scene.start_store();
    assert_goes_on_above(&scene, &before);
}

#[test]
fn a_redis_that_keeps_what_it_answered_lets_nobody_in_early() {
    let mut scene = Scene::on_lasting_redis(9);
    let members = three(&scene);
    scene.kill_store();
    scene.start_store();
    scene.wait_for_all_since(boot_ms());
    let end = scene.wait_for_shares(&members.each_ref(), &[3, 3, 3]);
    end.assert_never_two();
}
