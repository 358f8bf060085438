//! How targets are shared out, while pollers come and go.

use super::scene::{Kind, Member, Scene, WINDOW_MS};
use crate::run_support::{LONG, boot_ms, wait_until};

on_both_stores!(
    nine_targets_on_three_pollers_are_three_each,
    a_storm_of_joins_and_leaves_moves_no_more_than_it_must
);

const TARGETS: usize = 24;
/// `max(ceil(n/p), floor(1.1 n/p))` for two pollers.
const CAP: usize = 13;

fn nine_targets_on_three_pollers_are_three_each(kind: Kind) {
    let scene = Scene::of(kind, 9);
    let members = [scene.poller(&[]), scene.poller(&[]), scene.poller(&[])];
    let end = scene.wait_for_shares(&members.each_ref(), &[3, 3, 3]);
    end.assert_never_two();
    let shares: Vec<usize> = scene.shares().into_values().collect();
    assert_eq!(shares, [3, 3, 3]);
}

fn a_storm_of_joins_and_leaves_moves_no_more_than_it_must(kind: Kind) {
    let scene = Scene::of(kind, TARGETS);
    let stays = [scene.poller(&[]), scene.poller(&[])];
    // Thirteen is the most that the cap lets one of two have.
    scene.wait_for("a part for each", |witness| {
        stays.iter().all(|member| witness.targets_of(&member.instance).len() >= TARGETS - CAP)
    });
    let before = scene.wait_until_settled(WINDOW_MS);
    let begun_ms = boot_ms();
    let count = before.changes_of_hands();
    let (mut guests, mut optimum): (Vec<Member>, usize) = (Vec::new(), 0);
    for step in 0..10 {
        if matches!(step, 0 | 1 | 2 | 5 | 6) {
            guests.push(scene.poller(&[]));
        } else {
            guests.remove(0).stop();
        }
        let members = 2 + guests.len();
        let share = if matches!(step, 0 | 1 | 2 | 5 | 6) { members } else { members + 1 };
        // What the one that came or went has a right to, and the tenth that the cap leaves open.
        optimum += TARGETS.div_ceil(share) + TARGETS.div_ceil(10);
    }
    wait_until("a balance", LONG, || {
        let shares = scene.shares();
        shares.len() == 2 && shares.values().all(|share| *share <= CAP)
    });
    let end = scene.wait_for_all_since(boot_ms());
    end.assert_never_two();
    let moves = end.changes_of_hands() - count;
    assert!(moves <= optimum, "{moves} moves, {optimum} would do");
    assert!(end.since(begun_ms).owners().len() == TARGETS);
}
