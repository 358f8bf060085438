//! A poller that stands still for longer than its ttl, and goes on as if nothing had been.

use rustix::process::Signal;

use super::scene::{Kind, Scene, TTL_MS};
use super::witness::Sign;
use crate::run_support::{boot_ms, is_running};

on_both_stores!(
    a_supervisor_that_stood_still_finds_its_commands_gone_and_begins_none,
    a_whole_family_that_stood_still_writes_nothing_afterwards,
);

const TARGETS: [&str; 6] = ["long1", "long2", "t1", "t2", "t3", "t4"];

fn a_supervisor_that_stood_still_finds_its_commands_gone_and_begins_none(kind: Kind) {
    let scene = Scene::open(kind, &TARGETS);
    let one = scene.named("one");
    let before = scene.wait_for_all_since(0);
    let lasting: Vec<i32> =
        before.begins().filter(|line| line.target.starts_with("long")).map(|line| line.pid).collect();
    assert_eq!(lasting.len(), 2);
    one.running.signal(Signal::STOP);
    let stopped_ms = boot_ms();
    let two = scene.named("two");
    let after = scene.wait_for("the other with everything", |witness| {
        witness.targets_of(&two.instance).len() == TARGETS.len()
    });
    assert!(!lasting.iter().any(|pid| is_running(*pid)), "commands of one that lost their targets");
    let last_ms = after.by(&one.instance).last().unwrap().at_ms;
    assert!(last_ms <= stopped_ms + TTL_MS, "it went on for {} ms", last_ms - stopped_ms);
    after.assert_never_two();
    one.running.signal(Signal::CONT);
    let continued_ms = boot_ms();
    // It is a member again and gets its part; lasting polls of the other are let finish, so that few move now.
    let end = scene.wait_for("the first one again", |witness| {
        witness.since(continued_ms).by(&one.instance).any(|line| line.sign == Sign::End)
    });
    end.assert_never_two();
}

/// They used to run on when they were continued, and only the fence protected.
fn a_whole_family_that_stood_still_writes_nothing_afterwards(kind: Kind) {
    let scene = Scene::open(kind, &TARGETS);
    let mut one = scene.named("one");
    let before = scene.wait_for_all_since(0);
    let lasting: Vec<i32> =
        before.begins().filter(|line| line.target.starts_with("long")).map(|line| line.pid).collect();
    one.freeze_all();
    assert!(lasting.iter().all(|pid| one.frozen().contains(pid)));
    let two = scene.named("two");
    scene
        .wait_for("the other with everything", |witness| {
            witness.targets_of(&two.instance).len() == TARGETS.len()
        })
        .assert_never_two();
    assert!(!lasting.iter().any(|pid| is_running(*pid)), "the kernel ends what nobody else can");
    let continued_ms = boot_ms();
    one.running.signal(Signal::CONT);
    let end = scene.wait_for("the first one again", |witness| {
        witness.since(continued_ms).by(&one.instance).any(|line| line.sign == Sign::End)
    });
    end.assert_never_two();
    assert!(end.refused().is_empty(), "{:?}", end.refused());
}
