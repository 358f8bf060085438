//! Sessions that wait for a slot.

use serde_json::json;

use super::{Stage, words};

#[test]
fn a_queued_session_keeps_its_place_and_is_told_when_it_runs() {
    let stage = Stage::with_ttl("3s", &[]);
    stage.tab.run(
        "window.first = await begin({ count: 2 }); window.second = await begin({ count: 1, wait: 60 });",
    );
    stage.tab.run("window.s = await begin({ count: 1, wait: 60 }); told.length = 0;");
    assert_eq!(
        stage.tab.run("return [s.state, s.queue_position, s.fence, s.epoch, s.resources]"),
        json!(["new", 2, null, null, []])
    );
    // Longer than a heartbeat lasts.
    let began = stage.tab.run("return performance.now()");
    stage.tab.wait_until_with("performance.now() - given[0] > 4000", &[began]);
    assert_eq!(stage.tab.run("return [second.state, s.state]"), json!(["new", "new"]));
    stage.tab.run("await second.stop()");
    stage.tab.wait_until("s.queue_position === 1");
    stage.tab.run("told.length = 0; await first.stop()");
    stage.tab.wait_until("s.state === 'running'");
    let has = stage
        .tab
        .run("return [typeof s.fence, s.epoch, s.resources.length, s.queue_position, s.validFor() > 0]");
    assert_eq!(has, json!(["number", 1, 1, null, true]));
    let renewed = stage.tab.run("return seen('renewed')");
    stage.tab.wait_until_with("seen('renewed') > given[0]", &[renewed]);
    assert_eq!(stage.in_use(), 1);
}

#[test]
fn a_queued_session_whose_wait_is_over_is_lost_for_good() {
    let stage = Stage::begin();
    stage
        .tab
        .run("window.first = await TenureSession.start({ count: 2 }); window.s = await begin({ wait: 2 });");
    let lost = stage.tab.wait_until("told.find(({ word }) => word === 'lost')");
    assert_eq!(
        (&lost["state"], &lost["reason"], &lost["final"]),
        (&json!("failed"), &json!("WAIT_TIMEOUT"), &json!(true))
    );
    assert_eq!(words(&stage), json!(["state", "lost"]));
}

#[test]
fn a_queued_session_is_forgotten_by_a_restart_and_told_so() {
    let mut stage = Stage::begin();
    stage.tab.run(
        "window.first = await TenureSession.start({ count: 2 }); window.s = await begin({ wait: 600 });",
    );
    stage.daemon.kill();
    stage.daemon.start_again();
    stage.proxy.move_to(stage.daemon.address());
    let lost = stage.tab.wait_until("told.find(({ word, final }) => word === 'lost' && final)");
    assert_eq!(lost["code"], "session_not_found");
    assert_eq!(stage.tab.run("return first.state"), "running");
}
