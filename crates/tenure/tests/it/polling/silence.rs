//! A store that does not answer: all polling stops before anybody could take over, and goes on by itself.

use std::time::Duration;

use super::hole::Hole;
use super::scene::{Kind, Scene, TTL_MS};
use crate::run_support::{boot_ms, let_time_pass};

on_both_stores!(
    while_the_store_stands_still_nothing_is_polled,
    while_the_way_to_the_store_is_blocked_nothing_is_polled,
);

const TARGETS: usize = 50;

#[track_caller]
fn assert_silence(scene: &Scene, shut: impl FnOnce(), open: impl FnOnce()) {
    scene.wait_for_all_since(0);
    shut();
    let shut_ms = boot_ms();
    let_time_pass(Duration::from_millis(TTL_MS * 2), "as long again as the validity lasts");
    let silent = scene.witness();
    for (target, instance) in silent.owners() {
        let last = silent.0.iter().rfind(|line| line.target == target).unwrap();
        assert!(
            last.at_ms <= shut_ms + TTL_MS,
            "{instance} went on for {} ms: {last:?}",
            last.at_ms - shut_ms
        );
    }
    assert_eq!(scene.witness().since(shut_ms + TTL_MS).0.len(), 0, "nobody could know whose they are");
    open();
    let end = scene.wait_for_all_since(boot_ms());
    end.assert_never_two();
}

fn while_the_store_stands_still_nothing_is_polled(kind: Kind) {
    let scene = Scene::of(kind, TARGETS);
    let flags = ["--every", "1s"];
    let _pollers = [scene.poller(&flags), scene.poller(&flags)];
    assert_silence(&scene, || scene.freeze_store(), || scene.thaw_store());
}

fn while_the_way_to_the_store_is_blocked_nothing_is_polled(kind: Kind) {
    let scene = Scene::of(kind, TARGETS);
    let hole = Hole::before(&scene.socket());
    let poller = || match kind {
        Kind::Daemon => {
            let mut command = scene.command(&["--every", "1s"]);
            scene.begin(command.env("TENURE_ENDPOINT", format!("http://{}", hole.address)))
        }
        Kind::Redis => scene.poller(&["--every", "1s", "--store", &format!("redis://{}", hole.address)]),
    };
    let _pollers = [poller(), poller()];
    assert_silence(&scene, || hole.shut(), || hole.open());
}
