//! Two under one name.

use super::scene::{Kind, Scene, TTL_MS};
use crate::run_support::boot_ms;

on_both_stores!(
    a_second_of_the_same_name_is_refused_while_the_first_lives,
    a_name_that_comes_back_has_its_targets
);

fn a_second_of_the_same_name_is_refused_while_the_first_lives(kind: Kind) {
    let scene = Scene::of(kind, 4);
    let first = scene.named("kitchen");
    scene.wait_for_all_since(0);
    let mut second = scene.named("kitchen");
    assert_eq!(second.running.code(), 1, "{}", second.running.errors());
    let errors = second.running.errors();
    assert!(errors.contains("kitchen") && errors.contains("hint: "), "{errors}");
    let end = scene.wait_for_all_since(boot_ms());
    assert_eq!(end.targets_of(&first.instance).len(), 4);
    assert_eq!(end.by(&second.instance).count(), 0);
}

fn a_name_that_comes_back_has_its_targets(kind: Kind) {
    let scene = Scene::of(kind, 9);
    let (hall, attic) = (scene.named("hall"), scene.named("attic"));
    let mut kitchen = scene.named("kitchen");
    let before = scene.wait_for_shares(&[&hall, &attic, &kitchen], &[3, 3, 3]);
    let (count, had) = (before.0.len(), before.targets_of(&kitchen.instance));
    kitchen.kill();
    let killed_ms = boot_ms();
    let back = scene.named("kitchen");
    let end = scene.wait_for("its targets", |witness| witness.targets_of(&back.instance) == had);
    let first_ms = end.by(&back.instance).next().unwrap().at_ms;
    assert!(first_ms >= killed_ms + TTL_MS / 2, "after {} ms", first_ms - killed_ms);
    scene.wait_for_all_since(boot_ms());
    let end = scene.wait_for_shares(&[&hall, &attic, &back], &[3, 3, 3]);
    for line in &end.0[count..] {
        let was_its = had.contains(&line.target);
        let is_its = [&kitchen.instance, &back.instance].contains(&&line.instance);
        assert_eq!(was_its, is_its, "moved: {line:?}");
    }
    end.assert_never_two();
}
