//! A poller that is killed: what it had is polled by others, not before its promise is over and soon after.

use super::scene::{Kind, Member, SLACK_MS, Scene, TTL_MS};
use crate::run_support::boot_ms;

on_both_stores!(
    one_target_of_one_that_was_killed_is_taken_in_time,
    all_targets_of_one_of_five_are_taken_in_time
);

const EVERY_MS: u64 = 1_000;

fn five(scene: &Scene) -> Vec<Member> {
    (0..5).map(|_| scene.poller(&["--every", "1s"])).collect()
}

/// Kills it and judges who takes over when.
#[track_caller]
fn assert_taken_in_time(scene: &Scene, mut victim: Member) {
    let killed_ms = boot_ms();
    victim.kill();
    let lost = scene.witness().targets_of(&victim.instance);
    assert!(!lost.is_empty());
    let end = scene.wait_for("others", |witness| {
        let owners = witness.owners();
        lost.iter().all(|target| owners[target.as_str()] != victim.instance)
    });
    for target in &lost {
        let next = end.begins().find(|line| {
            line.target == *target && line.at_ms >= killed_ms && line.instance != victim.instance
        });
        let after_ms = next.unwrap().at_ms - killed_ms;
        // It renewed within the last third of the ttl, or a little earlier where the machine was busy.
        assert!(after_ms >= TTL_MS / 2, "{target} was taken after {after_ms} ms");
        let limit_ms = TTL_MS + 1_000 + EVERY_MS + SLACK_MS;
        assert!(after_ms <= limit_ms, "{target} was taken after {after_ms} ms");
    }
    end.assert_never_two();
}

fn one_target_of_one_that_was_killed_is_taken_in_time(kind: Kind) {
    let scene = Scene::of(kind, 1);
    let mut members = five(&scene);
    let settled = scene.wait_until_settled(EVERY_MS * 5 / 2);
    let owner = settled.owners()["t1"].to_owned();
    let index = members.iter().position(|member| member.instance == owner).unwrap();
    assert_taken_in_time(&scene, members.swap_remove(index));
}

fn all_targets_of_one_of_five_are_taken_in_time(kind: Kind) {
    let scene = Scene::of(kind, 100);
    let mut members = five(&scene);
    // The cap lets one have 22, so that another may have as few as 12.
    scene.wait_for("a part for each", |witness| {
        members.iter().all(|member| witness.targets_of(&member.instance).len() >= 12)
    });
    scene.wait_until_settled(EVERY_MS * 5 / 2);
    assert_taken_in_time(&scene, members.swap_remove(2));
    // A hundred on four: the cap is 27.
    let shares = scene.shares();
    assert!(shares.values().all(|share| *share <= 27), "{shares:?}");
}
