//! Pages that are hidden, frozen or asleep: their timers are late, and they find out at once.

use std::time::Duration;

use serde_json::json;

use super::super::proxy::Fault;
use super::{LIMIT, Stage, tuner, words};
use crate::run_support::{holds_for, wait_until};

#[test]
fn a_frozen_tab_that_wakes_beats_at_once() {
    let stage = Stage::with_ttl("12s", &[]);
    let id = stage.start(tuner());
    stage.tab.wait_until("seen('renewed') > 0");
    stage.tab.cdp("Page.setWebLifecycleState", json!({"state": "frozen"}));
    let count = || stage.proxy.seen("POST", "/heartbeat").len();
    // One may have been on its way.
    let mut quiet = false;
    wait_until("silence", LIMIT, || {
        let before = count();
        quiet = holds_for(Duration::from_millis(2_500), || count() == before);
        quiet
    });
    assert_eq!(stage.state(&id).0, "running");
    let before = count();
    stage.tab.cdp("Page.setWebLifecycleState", json!({"state": "active"}));
    wait_until("a heartbeat", LIMIT, || count() > before);
    let renewed = stage.tab.run("return seen('renewed')");
    stage.tab.wait_until_with("seen('renewed') > given[0]", &[renewed]);
    assert_eq!(stage.state(&id).0, "running");
}

#[test]
fn a_tab_that_was_frozen_for_too_long_is_told_when_it_wakes() {
    let stage = Stage::with_ttl("2s", &[]);
    let id = stage.start(tuner());
    stage.tab.wait_until("seen('renewed') > 0");
    stage.tab.cdp("Page.setWebLifecycleState", json!({"state": "frozen"}));
    stage.wait_for_state(&id, "stopped", "LEASE_EXPIRED");
    assert_eq!(stage.in_use(), 0);
    stage.tab.cdp("Page.setWebLifecycleState", json!({"state": "active"}));
    stage.tab.wait_until("seen('expired')");
    assert_eq!(
        stage.tab.run("return [s.state, s.reason, s.validFor()]"),
        json!(["stopped", "LEASE_EXPIRED", 0])
    );
}

/// Whoever comes back to a page does not wait for the end of a pause.
#[test]
fn a_page_that_is_looked_at_again_tries_at_once() {
    let stage = Stage::with_ttl("60s", &[]);
    stage.start(tuner());
    let patience = r#"{"code":"rate_limited","detail":"said the proxy"}"#;
    let refusal = Fault::Answered(429, "application/problem+json", "retry-after: 20\r\n", patience);
    stage.proxy.fault_all("POST", "/heartbeat", refusal);
    let count = || stage.proxy.seen("POST", "/heartbeat").len();
    wait_until("a long pause between two tries", LIMIT, || {
        let before = count();
        before > 0 && holds_for(Duration::from_millis(1_500), || count() == before)
    });
    for event in [
        "document.dispatchEvent(new Event('visibilitychange'))",
        "dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))",
        "document.dispatchEvent(new Event('resume'))",
        "dispatchEvent(new Event('online'))",
    ] {
        let tries = count();
        // Said again where the try before is still under way.
        wait_until(event, Duration::from_secs(2), || {
            stage.tab.run(event);
            count() > tries
        });
    }
}

/// What sleeps is noticed by the wall clock where the other one stood still.
#[test]
fn a_machine_that_slept_does_not_count_on_its_session() {
    let stage = Stage::with_ttl("30s", &[]);
    stage.start(tuner());
    stage.tab.wait_until("seen('renewed') > 0");
    stage.proxy.fault_all("POST", "/heartbeat", Fault::Broken);
    stage.tab.run("const real = Date.now; Date.now = () => real.call(Date) + 31000;");
    assert_eq!(stage.tab.run("return s.validFor()"), 0);
    stage.tab.wait_until("seen('lost')");
    stage.proxy.heal();
    stage.tab.wait_until("told.at(-1).word === 'renewed' && s.validFor() > 0");
    assert_eq!(words(&stage), json!(["lost"]));
}

/// Browsers wake timers that set themselves once a minute in a tab that was hidden for a while. They also count the time
/// that a hidden tab takes on a busy machine, and hold its timers back for seconds: the duration is long enough for that.
#[test]
fn a_hidden_tab_goes_on_beating_where_chained_timers_are_slowed_down() {
    let slowed = "--enable-features=IntensiveWakeUpThrottling:grace_period_seconds/1";
    let stage = Stage::with_ttl("12s", &["disable-background-timer-throttling", slowed]);
    let id = stage.start(tuner());
    stage.tab.hide();
    stage.tab.wait_until("document.hidden");
    stage.tab.run(
        "window.chained = 0;
         window.begun = performance.now();
         const again = () => { chained += 1; setTimeout(again, 500); };
         again();",
    );
    let count = || stage.proxy.seen("POST", "/heartbeat").len();
    let before = count();
    wait_until("four heartbeats", LIMIT, || count() >= before + 4);
    assert_eq!(stage.state(&id).0, "running");
    assert_eq!(words(&stage), json!([]));
    let per_second = stage.tab.run("return 1000 * chained / (performance.now() - begun)").as_f64().unwrap();
    assert!(per_second < 1.6, "the browser did not slow down: {per_second} timers a second instead of 2");
}
