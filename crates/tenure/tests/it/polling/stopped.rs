//! A poller that stands still for longer than its ttl, and goes on as if nothing had been.

use std::time::Duration;

use rustix::process::Signal;

use super::scene::{Kind, SLACK_MS, Scene, TTL_MS};
use super::witness::Sign;
use crate::run_support::{boot_ms, is_running, signal, wait_until};

on_both_stores!(
    a_supervisor_that_stood_still_finds_its_commands_gone_and_begins_none,
    what_a_whole_family_writes_that_stood_still_is_refused_by_its_fence,
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

fn what_a_whole_family_writes_that_stood_still_is_refused_by_its_fence(kind: Kind) {
    let scene = Scene::open(kind, &TARGETS);
    let mut one = scene.named("one");
    let before = scene.wait_for_all_since(0);
    let lasting: Vec<i32> =
        before.begins().filter(|line| line.target.starts_with("long")).map(|line| line.pid).collect();
    one.freeze_all();
    assert!(lasting.iter().all(|pid| one.frozen().contains(pid) && is_running(*pid)));
    let two = scene.named("two");
    scene
        .wait_for("the other with everything", |witness| {
            witness.targets_of(&two.instance).len() == TARGETS.len()
        })
        .assert_never_two();
    // Commands first: nobody is there to end them, and only the fence protects.
    let (watching, commands) = one.frozen().split_at(2);
    for pid in commands {
        signal(*pid, Signal::CONT);
    }
    scene.wait_for("writes that come too late", |witness| {
        let late = witness.refused();
        lasting.iter().all(|pid| late.iter().any(|line| line.pid == *pid))
    });
    let continued_ms = boot_ms();
    for pid in watching.iter().rev() {
        signal(*pid, Signal::CONT);
    }
    let limit = Duration::from_millis(SLACK_MS);
    wait_until("the end of late commands", limit, || !lasting.iter().any(|pid| is_running(*pid)));
    let end = scene.wait_for("the first one again", |witness| {
        let refused: Vec<u64> = witness.refused().iter().map(|line| line.fence).collect();
        let mut ours = witness.since(continued_ms).0.into_iter();
        ours.any(|line| {
            line.instance == one.instance && line.sign == Sign::End && !refused.contains(&line.fence)
        })
    });
    end.assert_none_accepted_twice();
    for line in end.refused() {
        assert_eq!(line.instance, one.instance, "{line:?}");
        assert!(one.frozen().contains(&line.pid), "a poll that began without its target: {line:?}");
    }
}
