//! A poller whose clock tells another time than everybody else's.
//!
//! Only the clock since boot counts, and only differences on it: it is shifted here by an hour, in a namespace. The wall
//! clock is told to people (`TENURE_VALID_UNTIL`) and decides nothing; a kernel shifts it for no process alone, so that
//! there is nothing to try from outside.

use std::process::Command;

use super::scene::{Kind, Scene};
use crate::run_support::{boot_ms, let_time_pass};

on_both_stores!(an_hour_on_the_clock_makes_no_difference);

const HOUR_MS: u64 = 3_600_000;

/// The same command in a time namespace an hour ahead; ends with whoever started it.
fn an_hour_ahead(command: &Command) -> Command {
    let mut launched = Command::new("unshare");
    launched.args(["--time", "--boottime", "3600", "--fork", "--kill-child=KILL", "--"]);
    launched.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => launched.env(name, value),
            None => launched.env_remove(name),
        };
    }
    launched
}

fn an_hour_on_the_clock_makes_no_difference(kind: Kind) {
    let scene = Scene::of(kind, 9);
    let (one, two) = (scene.named("one"), scene.named("two"));
    let mut ahead = scene.begin(&mut an_hour_ahead(&scene.command(&["--name", "ahead"])));
    let all = [&one, &two, &ahead];
    let shared = scene.wait_for("three each", |witness| {
        all.iter().all(|member| witness.targets_of(&member.instance).len() == 3)
    });
    let shown_ms = shared.by(&ahead.instance).next().unwrap().at_ms;
    assert!(shown_ms > boot_ms() + HOUR_MS / 2, "its clock is not ahead");
    // Over several renewals it neither loses what it has nor keeps it from being lost.
    let count = shared.0.len();
    let_time_pass(std::time::Duration::from_secs(4), "several renewals");
    let later = scene.witness();
    assert!(later.0.len() > count);
    assert_eq!(later.changes_of_hands(), shared.changes_of_hands());
    ahead.kill();
    let end = scene.wait_for("the others with everything", |witness| {
        witness.owners().values().all(|owner| [&one.instance[..], &two.instance].contains(owner))
    });
    end.assert_never_two();
    // One that begins now, on the ordinary clock, is a member like any other.
    let three = scene.named("three");
    let end = scene.wait_for("three each again", |witness| {
        [&one, &two, &three].iter().all(|member| witness.targets_of(&member.instance).len() == 3)
    });
    end.assert_never_two();
}
