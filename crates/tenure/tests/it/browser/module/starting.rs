//! Starting: what a page gets, and what it is told when it gets nothing.

use serde_json::json;

use super::super::proxy::Fault;
use super::{Stage, tuner};
use crate::daemon::LIMIT;
use crate::run_support::wait_until;

#[test]
fn a_page_that_starts_a_session_has_what_it_holds() {
    let stage = Stage::begin();
    let id = stage.start(json!({
        "pool": "tuner", "count": 2, "service_ref": "1:0:19", "client": "living room", "metadata": {"a": 1},
    }));
    let has = stage.tab.run(
        "return { state: s.state, fence: typeof s.fence, epoch: s.epoch, resources: s.resources, reason: s.reason,
                  position: s.queue_position, over: s.is_over, valid: s.validFor() }",
    );
    assert_eq!(has["state"], "running");
    assert_eq!(has["fence"], "number");
    assert_eq!(has["epoch"], 1);
    assert_eq!(has["resources"], json!(["tuner/1", "tuner/2"]));
    assert_eq!((&has["reason"], &has["position"], &has["over"]), (&json!(null), &json!(null), &json!(false)));
    let valid = has["valid"].as_f64().unwrap();
    assert!(valid > 0.0 && valid < 6_000.0, "{valid}");
    let shown = stage.shown(&id);
    assert_eq!((&shown["service_ref"], &shown["client"]), (&json!("1:0:19"), &json!("living room")));
    assert_eq!(shown["metadata"], json!({"a": 1}));
}

#[test]
fn a_start_whose_answer_is_lost_takes_no_second_slot() {
    let stage = Stage::begin();
    stage.proxy.fault("POST", "/intents", 1, Fault::AnswerLost);
    stage.proxy.fault("POST", "/intents", 1, Fault::Broken);
    stage.start(tuner());
    assert_eq!(stage.tab.run("return s.shown.status"), "idempotent_replay");
    assert_eq!(stage.in_use(), 1);
    let tries = stage.proxy.seen("POST", "/intents");
    assert_eq!(tries.len(), 3);
    let key = |index: usize| {
        tries[index]
            .headers
            .iter()
            .find(|line| line.to_ascii_lowercase().starts_with("idempotency-key"))
            .cloned()
    };
    assert!(key(0).is_some() && key(0) == key(1) && key(0) == key(2), "{tries:?}");
}

#[test]
fn a_full_pool_is_an_answer_and_not_asked_again() {
    let stage = Stage::begin();
    stage.start(json!({"count": 2}));
    let refused = stage.tab.run(
        "try { await TenureSession.start({ pool: 'tuner' }); return 'started'; } catch (e) {
           return { ours: e instanceof TenureError, code: e.code, status: e.status, problem: e.problem,
                    retry: e.retry_after_ms, message: e.message };
         }",
    );
    assert_eq!(
        (&refused["ours"], &refused["code"], &refused["status"]),
        (&json!(true), &json!("no_capacity"), &json!(503))
    );
    let problem = &refused["problem"];
    assert_eq!(
        (&problem["pool"], &problem["size"], &problem["in_use"]),
        (&json!("tuner"), &json!(2), &json!(2))
    );
    assert!(refused["retry"].as_f64().unwrap() > 0.0, "{refused}");
    assert!(!refused["message"].as_str().unwrap().is_empty());
    assert_eq!(stage.proxy.seen("POST", "/intents").len(), 2);
}

#[test]
fn what_the_daemon_refuses_is_told_with_its_words() {
    let stage = Stage::begin();
    let refused = |options: &str| {
        stage.tab.run(&format!(
            "try {{ await TenureSession.start({options}); return 'started'; }} catch (e) {{ return [e.name, e.code ?? null, e.message]; }}"
        ))
    };
    let unknown_pool = refused("{ pool: 'nowhere' }");
    assert_eq!(
        (&unknown_pool[0], &unknown_pool[1]),
        (&json!("TenureError"), &json!("pool_not_found")),
        "{unknown_pool}"
    );
    let unknown_option = refused("{ pol: 'tuner' }");
    assert_eq!(unknown_option[0], "TypeError");
    assert!(unknown_option[2].as_str().unwrap().contains("pol"), "{unknown_option}");
    let wrong = refused("{ count: 'many' }");
    assert_eq!(wrong[1], "invalid_request", "{wrong}");
}

#[test]
fn a_start_is_given_up_when_patience_is_over_or_the_page_says_so() {
    let stage = Stage::begin();
    stage.proxy.fault_all("POST", "/intents", Fault::Broken);
    let code = stage.tab.run(
        "try { await TenureSession.start({ pool: 'tuner', patience: 1 }); } catch (e) { return [e.code, e.status]; }",
    );
    assert_eq!(code, json!(["unreachable", 0]));
    stage.proxy.heal();
    stage.proxy.fault_all("POST", "/intents", Fault::Silence);
    let name = stage.tab.run(
        "const giveUp = new AbortController();
         const start = TenureSession.start({ pool: 'tuner', signal: giveUp.signal });
         giveUp.abort();
         try { await start; } catch (e) { return e.name; }",
    );
    assert_eq!(name, "AbortError");
    assert_eq!(stage.in_use(), 0);
}

#[test]
fn a_session_with_a_start_deadline_runs_when_it_is_activated() {
    let stage = Stage::begin();
    let id = stage.start(json!({"start_timeout": 20}));
    assert_eq!(stage.tab.run("return s.state"), "starting");
    assert_eq!(stage.tab.run("await s.activate(); return s.state"), "running");
    assert_eq!(stage.state(&id).0, "running");
    stage.tab.wait_until("seen('renewed') >= 2");
    assert_eq!(super::words(&stage), json!(["state"]));
}

#[test]
fn a_start_deadline_that_passes_is_told() {
    let stage = Stage::begin();
    let id = stage.start(json!({"start_timeout": 2}));
    let lost = stage.tab.wait_until("told.find(({ word, final }) => word === 'lost' && final)");
    assert_eq!((&lost["state"], &lost["reason"]), (&json!("failed"), &json!("START_TIMEOUT")));
    assert_eq!(stage.state(&id), ("failed".to_owned(), "START_TIMEOUT".to_owned()));
    assert_eq!(stage.in_use(), 0);
}

#[test]
fn a_page_is_warned_once_of_a_ttl_that_a_failover_of_the_cluster_outlasts() {
    let stage = Stage::begin();
    let status = |leader_ttl_ms: &'static str| Fault::Answered(200, "application/json", "", leader_ttl_ms);
    stage.tab.run("window.warned = []; console.warn = (text) => warned.push(text)");
    let asked = || stage.proxy.seen("GET", "/v1/status").len();
    // One daemon alone, and a cluster whose failover a ttl of six seconds survives.
    stage.start(tuner());
    wait_until("the question", LIMIT, || asked() == 1);
    stage.proxy.fault_all("GET", "/v1/status", status(r#"{"leader_ttl_ms":3000}"#));
    stage.tab.run("return s.stop()");
    stage.start(tuner());
    wait_until("the question", LIMIT, || asked() == 2);
    stage.tab.run("return s.stop()");
    stage.proxy.heal();
    stage.proxy.fault_all("GET", "/v1/status", status(r#"{"leader_ttl_ms":10000}"#));
    stage.start(tuner());
    stage.tab.wait_until("warned.length === 1");
    stage.start(tuner());
    stage.tab.wait_until("seen('renewed') > 1");
    let warned = stage.tab.run("return warned");
    let told = "tenure: a failover of the cluster takes up to 11000 ms, and a session with a ttl of 6000 ms is lost after 4790 ms";
    assert!(warned[0].as_str().unwrap().starts_with(told), "{warned}");
    assert_eq!(warned.as_array().unwrap().len(), 1);
}
