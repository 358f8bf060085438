//! Heartbeats, and what may happen to them.

use std::time::Duration;

use serde_json::json;

use super::super::proxy::Fault;
use super::{Stage, prepared, tuner, words};
use crate::run_support::wait_until;
use crate::security::write_tokens;

#[test]
fn heartbeats_keep_a_session_beyond_its_ttl() {
    let stage = Stage::with_ttl("3s", &[]);
    let id = stage.start(tuner());
    let began = stage.tab.run("return performance.now()").as_f64().unwrap();
    stage.tab.wait_until_with("performance.now() - given[0] > 5000", &[json!(began)]);
    assert_eq!(stage.state(&id).0, "running");
    assert_eq!(words(&stage), json!([]), "nothing to worry about");
    let beats = stage.proxy.seen("POST", "/heartbeat").len();
    assert!((3..=7).contains(&beats), "{beats} in five seconds");
}

/// A lost packet, a lost answer, a proxy's error page: none of them ends a session.
#[test]
fn one_heartbeat_that_fails_does_not_matter() {
    let stage = Stage::begin();
    let id = stage.start(tuner());
    for fault in [
        Fault::Broken,
        Fault::AnswerLost,
        Fault::Silence,
        Fault::Answered(
            500,
            "application/problem+json",
            "",
            r#"{"code":"internal","detail":"said the proxy"}"#,
        ),
        Fault::Answered(502, "text/html", "", "<h1>Bad gateway</h1>"),
        Fault::Answered(429, "application/problem+json", "retry-after: 1\r\n", r#"{"code":"rate_limited"}"#),
        Fault::Answered(401, "application/problem+json", "", r#"{"code":"unauthorized"}"#),
        Fault::Answered(403, "application/problem+json", "", r#"{"code":"forbidden"}"#),
        Fault::Answered(200, "text/html", "", "<h1>Welcome to our hotel</h1>"),
        Fault::Answered(302, "text/html", "location: /healthz\r\n", ""),
    ] {
        let before = stage.proxy.seen("POST", "/heartbeat").len();
        stage.proxy.fault("POST", "/heartbeat", 1, fault);
        wait_until("the heartbeat that fails", super::LIMIT, || {
            stage.proxy.seen("POST", "/heartbeat").len() > before
        });
        let renewed = stage.tab.run("return seen('renewed')");
        stage.tab.wait_until_with("seen('renewed') > given[0]", &[renewed]);
    }
    assert_eq!(stage.state(&id).0, "running");
    let lost = stage.tab.run("return told.filter(({ word }) => word === 'lost' || word === 'expired')");
    assert_eq!(lost, json!([]));
}

#[test]
fn heartbeats_that_fail_are_repeated_ever_more_slowly() {
    let stage = Stage::with_ttl("8s", &[]);
    stage.start(tuner());
    stage.tab.wait_until("seen('renewed') > 0");
    let before = stage.proxy.seen("POST", "/heartbeat").len();
    stage.proxy.fault_all("POST", "/heartbeat", Fault::Answered(500, "text/plain", "", "no"));
    stage.tab.wait_until("seen('lost')");
    let told = stage.tab.run("return told.find(({ word }) => word === 'lost')");
    assert_eq!(
        (&told["final"], &told["code"], &told["valid_ms"]),
        (&json!(false), &json!("http_500"), &json!(0))
    );
    let tries: Vec<u64> =
        stage.proxy.seen("POST", "/heartbeat")[before..].iter().map(|seen| seen.at_ms).collect();
    // Between a quarter of a second and an eighth of the ttl apart, for about seven seconds.
    assert!((5..=20).contains(&tries.len()), "{tries:?}");
    let gaps: Vec<u64> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| *gap >= 200), "{gaps:?}");
    assert_eq!(words(&stage), json!(["expiring", "lost"]));
}

#[test]
fn a_daemon_that_asks_for_patience_gets_it() {
    let stage = Stage::with_ttl("20s", &[]);
    stage.start(tuner());
    stage.tab.wait_until("seen('renewed') > 0");
    let refusal =
        Fault::Answered(429, "application/problem+json", "retry-after: 4\r\n", r#"{"code":"rate_limited"}"#);
    let before = stage.proxy.seen("POST", "/heartbeat").len();
    stage.proxy.fault("POST", "/heartbeat", 1, refusal);
    wait_until("the next but one", super::LIMIT, || {
        stage.proxy.seen("POST", "/heartbeat").len() > before + 1
    });
    let seen = stage.proxy.seen("POST", "/heartbeat");
    assert!(seen[before + 1].at_ms - seen[before].at_ms >= 3_990, "{seen:?}");
}

#[test]
fn validity_counts_from_before_the_heartbeat_was_sent() {
    let stage = Stage::begin();
    stage.start(tuner());
    stage.proxy.fault("POST", "/heartbeat", 1, Fault::Late(Duration::from_millis(1_200)));
    let renewed = stage.tab.wait_until("told.find(({ word }) => word === 'renewed')");
    let valid = renewed["valid_ms"].as_f64().unwrap();
    assert!(valid <= 6_000.0 - 1_200.0, "{valid}");
    let next = stage.tab.wait_until("told.filter(({ word }) => word === 'renewed')[1]");
    assert!(next["valid_ms"].as_f64().unwrap() > valid, "an answer in time is worth more: {next}");
}

#[test]
fn a_session_that_hears_nothing_is_lost_and_comes_back_with_the_daemon() {
    let stage = Stage::with_ttl("3s", &[]);
    let id = stage.start(tuner());
    // The daemon hears every heartbeat; the page hears nothing.
    stage.proxy.fault_all("POST", "/heartbeat", Fault::AnswerLost);
    stage.tab.wait_until("seen('lost')");
    assert_eq!(stage.tab.run("return [s.validFor(), s.is_over]"), json!([0, false]));
    stage.proxy.heal();
    stage.tab.wait_until("told.at(-1).word === 'renewed' && s.validFor() > 0");
    assert_eq!(words(&stage), json!(["expiring", "lost"]));
    assert_eq!(stage.state(&id).0, "running");
    stage.proxy.fault_all("POST", "/heartbeat", Fault::AnswerLost);
    stage.tab.wait_until("seen('lost') === 2");
    assert_eq!(words(&stage), json!(["expiring", "lost", "expiring", "lost"]), "each renewal begins anew");
}

#[test]
fn a_session_survives_a_restart_of_the_daemon() {
    let mut stage = Stage::begin();
    let id = stage.start(tuner());
    stage.tab.wait_until("seen('renewed') > 0");
    stage.daemon.kill();
    stage.daemon.start_again();
    stage.proxy.move_to(stage.daemon.address());
    let renewed = stage.tab.run("return seen('renewed')");
    stage.tab.wait_until_with("seen('renewed') > given[0] + 1", &[renewed]);
    assert_eq!(stage.state(&id).0, "running");
    assert_eq!(stage.in_use(), 1);
}

#[test]
fn a_listener_that_throws_does_no_harm_and_one_that_was_taken_away_hears_nothing() {
    let stage = Stage::begin();
    stage.start(tuner());
    stage.tab.run(
        "window.heard = 0;
         s.on('renewed', () => { throw new Error('a page that cannot draw'); });
         const away = s.on('renewed', () => { heard += 1; });
         away();
         const other = () => { heard += 1; };
         s.on('renewed', other);
         s.off('renewed', other);",
    );
    let renewed = stage.tab.run("return seen('renewed')");
    stage.tab.wait_until_with("seen('renewed') > given[0] + 1", &[renewed]);
    assert_eq!(stage.tab.run("return heard"), 0);
    assert_ne!(stage.tab.run("return witnessed"), json!([]), "it was reported");
    let unknown =
        stage.tab.run("try { s.on('renewd', () => {}); } catch (e) { return [e.name, e.message]; }");
    assert_eq!(unknown[0], "TypeError");
    assert!(unknown[1].as_str().unwrap().contains("renewd"));
}

#[test]
fn a_rotated_token_is_asked_for_with_every_heartbeat() {
    let daemon = prepared(&["--token-file", "DIR/tokens"], "6s");
    write_tokens(&daemon.path("tokens"), &[("first", "admin"), ("second", "admin")]);
    let stage = Stage::of(daemon, &[]);
    stage.tab.run(
        "window.token = 'secret-first'; window.s = await begin({ pool: 'tuner', token: () => window.token });",
    );
    stage.tab.wait_until("seen('renewed') > 0");
    stage.tab.run("window.token = 'secret-second';");
    let bearer = |token: &str| {
        let line = format!("authorization: bearer secret-{token}");
        let seen = stage.proxy.seen("POST", "/heartbeat");
        seen.iter().any(|seen| seen.headers.iter().any(|header| header.to_ascii_lowercase() == line))
    };
    wait_until("both tokens", super::LIMIT, || bearer("first") && bearer("second"));
}
