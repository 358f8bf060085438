//! Pollers that are asked to stop.

use std::time::Duration;

use rustix::process::Signal;

use super::scene::{Kind, SLACK_MS, Scene};
use crate::run_support::{boot_ms, let_time_pass};

on_both_stores!(
    who_stops_hands_over_without_a_gap,
    who_is_back_within_its_window_has_its_targets_at_once,
    when_the_window_is_over_others_take_the_targets,
    asked_twice_it_stops_at_once_and_others_take_over,
);

const EVERY_MS: u64 = 400;
const WINDOW_MS: u64 = 5_000;

fn who_stops_hands_over_without_a_gap(kind: Kind) {
    let scene = Scene::of(kind, 10);
    let (mut one, two) = (scene.named("one"), scene.named("two"));
    let before = scene.wait_for_shares(&[&one, &two], &[5, 5]);
    let had = before.targets_of(&one.instance);
    let asked_ms = boot_ms();
    one.stop();
    let end =
        scene.wait_for("the other with everything", |witness| witness.targets_of(&two.instance).len() == 10);
    for target in had {
        let last_ms = end.by(&one.instance).rfind(|line| line.target == target).unwrap().at_ms;
        let since = end.since(last_ms);
        let first_ms = since.by(&two.instance).find(|line| line.target == target).unwrap().at_ms;
        let gap_ms = first_ms.saturating_sub(last_ms);
        assert!(gap_ms <= EVERY_MS + SLACK_MS, "{target} was not polled for {gap_ms} ms");
        let taken_ms = first_ms.saturating_sub(asked_ms);
        assert!(taken_ms <= 1_000 + EVERY_MS + SLACK_MS, "{target} was taken after {taken_ms} ms");
    }
    assert!(one.running.errors().contains("lease handed over"), "{}", one.running.errors());
    end.assert_never_two();
}

fn who_is_back_within_its_window_has_its_targets_at_once(kind: Kind) {
    let scene = Scene::of(kind, 6);
    let window = ["--name", "one", "--reconnect-window", "60s"];
    let (mut one, two) = (scene.poller(&window), scene.named("two"));
    let before = scene.wait_for_shares(&[&one, &two], &[3, 3]);
    let (count, had) = (before.0.len(), before.targets_of(&one.instance));
    one.stop();
    let stopped_ms = boot_ms();
    let_time_pass(Duration::from_secs(4), "targets would be taken over in this time, but for the window");
    let away = scene.witness().since(stopped_ms + 100);
    assert!(away.begins().all(|line| !had.contains(&line.target)), "taken while its poller is expected back");
    assert_eq!(away.owners().len(), 3, "the other goes on with its own");
    let begun_ms = boot_ms();
    let back = scene.poller(&window);
    let end = scene.wait_for("its targets", |witness| witness.targets_of(&back.instance) == had);
    let taken_ms = boot_ms() - begun_ms;
    assert!(taken_ms <= 1_000 + EVERY_MS + SLACK_MS, "it had its targets after {taken_ms} ms");
    assert!(end.0[count..].iter().all(|line| had.contains(&line.target) == (line.instance != two.instance)));
    end.assert_never_two();
}

fn when_the_window_is_over_others_take_the_targets(kind: Kind) {
    let scene = Scene::of(kind, 6);
    let window = format!("{WINDOW_MS}ms");
    let mut one = scene.poller(&["--name", "one", "--reconnect-window", &window]);
    let two = scene.named("two");
    let before = scene.wait_for_shares(&[&one, &two], &[3, 3]);
    let had = before.targets_of(&one.instance);
    let asked_ms = boot_ms();
    one.stop();
    let stopped_ms = boot_ms();
    let end =
        scene.wait_for("the other with everything", |witness| witness.targets_of(&two.instance).len() == 6);
    for target in had {
        let since = end.since(asked_ms);
        let first_ms = since.by(&two.instance).find(|line| line.target == target).unwrap().at_ms;
        // The log counts in hundredths of a second.
        assert!(first_ms + 10 >= asked_ms + WINDOW_MS, "{target} after {} ms", first_ms - asked_ms);
        let limit_ms = stopped_ms + WINDOW_MS + 1_000 + EVERY_MS + SLACK_MS;
        assert!(first_ms <= limit_ms, "{target} after {} ms", first_ms - asked_ms);
    }
    end.assert_never_two();
}

fn asked_twice_it_stops_at_once_and_others_take_over(kind: Kind) {
    let scene = Scene::open(kind, &["long1", "t1"]);
    let mut one = scene.named("one");
    scene.wait_for_all_since(0);
    one.running.signal(Signal::INT);
    one.wait_for_words("stopping");
    one.running.signal(Signal::INT);
    assert_eq!(one.running.code_within(Duration::from_millis(SLACK_MS * 2)), 1, "{}", one.running.errors());
    let two = scene.named("two");
    scene.wait_for("the next one", |witness| witness.targets_of(&two.instance).len() == 2).assert_never_two();
}
