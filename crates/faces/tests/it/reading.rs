//! What callers read: costs bounded, and who did what.

use crate::daemon::{Daemon, over_http};
use core::time::Duration;
use serde_json::json;
use tenure_api::ErrorCode;
use tenure_engine::EngineConfig;
use tenure_faces::{Caller, Freshness, Scope};

#[tokio::test]
async fn a_position_that_never_comes_costs_the_engine_one_look() {
    let daemon = Daemon::start(EngineConfig::default()).await;
    let local = over_http("local", Scope::Read);
    let caller = Caller { freshness: Freshness::AtLeast(1 << 63), ..local };
    let before = daemon.asked();
    let asked = daemon.ask(&caller, json!("Pools"));
    // Long enough for many looks; it waits for 5 s in all.
    assert!(tokio::time::timeout(Duration::from_millis(300), asked).await.is_err());
    assert!(daemon.asked() - before <= 2, "{} requests", daemon.asked() - before);
}

#[tokio::test]
async fn a_position_that_comes_is_waited_for() {
    let daemon = Daemon::start(EngineConfig::default()).await;
    let pool = daemon.done(json!({ "DefinePool": ["p", { "size": 1 }] })).await;
    let lsn = pool["lsn"].as_u64().unwrap() + 1;
    let caller = Caller { freshness: Freshness::AtLeast(lsn), ..over_http("local", Scope::Admin) };
    let (reached, _) = tokio::join!(
        daemon.ask(&caller, json!("Pools")),
        daemon.done(json!({ "DefinePool": ["q", { "size": 1 }] })),
    );
    assert_eq!(reached.unwrap()["pools"].as_array().unwrap().len(), 2);
}

/// The daemon brings a silent lease back for nobody but the operator that says so, and says which that was.
#[tokio::test]
async fn why_tells_who_revived_a_silent_lease_and_for_what() {
    let daemon = Daemon::start(EngineConfig::default()).await;
    let acquire = json!({ "resources": ["a"], "holder": "h", "ttl_ms": 1_000, "grace_ms": 3_600_000 });
    let id = daemon.done(json!({ "Acquire": acquire })).await["lease_id"].clone();
    while daemon.done(json!({ "Inspect": id })).await["liveness"] != "draining" {
        tokio::task::yield_now().await;
    }
    let revive = json!({ "Revive": [id, { "reason": "its network is back" }] });
    daemon.ask(&over_http("token:carol", Scope::Admin), revive).await.unwrap();
    let story = daemon.done(json!({ "Why": { "lease": id } })).await;
    let entries = story["entries"].as_array().unwrap();
    let revived = entries.iter().find(|entry| entry["kind"] == "revived").unwrap();
    assert_eq!(revived["actor"], "operator:token:carol");
    let text = revived["text"].as_str().unwrap();
    assert!(text.contains("token:carol") && text.contains("its network is back"), "{text}");
}

/// Whose a stream is goes by its principal: what its client is called, anybody chooses.
#[tokio::test]
async fn a_stream_says_whether_it_is_the_caller_s_own() {
    let daemon = Daemon::start(EngineConfig::default()).await;
    let (ann, ben) = (over_http("uid:1", Scope::Hold), over_http("uid:2", Scope::Hold));
    for (starter, expected) in [("uid:1", [true, false]), ("local", [true, true])] {
        let start = json!({ "resources": [starter], "client": "uid:2" });
        let start = json!({ "StartStream": { "start": start, "operation_id": null } });
        let id = daemon.ask(&over_http(starter, Scope::Hold), start).await.unwrap()["session_id"].clone();
        for (caller, is_own) in [&ann, &ben].into_iter().zip(expected) {
            let shown = daemon.ask(caller, json!({ "Stream": id })).await.unwrap();
            assert_eq!(shown["own"], is_own, "{starter}: {} looks at {shown}", caller.principal);
        }
    }
}

/// `GROUP/TARGET` is how people write a target that is in several groups.
#[tokio::test]
async fn why_finds_a_target_by_its_group_and_its_name() {
    let daemon = Daemon::start(EngineConfig::default()).await;
    for (resource, holder) in [("poll/web/s17", "den"), ("poll/dns/s17", "hall"), ("poll/web/a%2Fb", "den")] {
        let acquire = json!({ "resources": [resource], "holder": holder });
        daemon.done(json!({ "Acquire": acquire })).await;
    }
    for (name, resource) in [("web/s17", "poll/web/s17"), ("dns/s17", "poll/dns/s17")] {
        let story = daemon.done(json!({ "Why": { "resource": name } })).await;
        assert_eq!(story["subject"], resource);
    }
    for unknown in ["web/s18", "other/s17", "s17/web", "web/"] {
        let asked = json!({ "Why": { "resource": unknown } });
        let refused = daemon.ask(&over_http("local", Scope::Read), asked).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::NotFound, "{unknown}: {refused}");
    }
}

#[tokio::test]
async fn an_error_names_what_the_caller_named() {
    let daemon = Daemon::start(EngineConfig::default()).await;
    let acquire = json!({ "resources": ["a"], "holder": "h", "ttl_ms": 60_000 });
    // What `local` holds belongs to every user of the machine.
    let holds = over_http("uid:8", Scope::Hold);
    let lease = daemon.ask(&holds, json!({ "Acquire": acquire })).await.unwrap();
    let id = lease["lease_id"].as_str().unwrap();
    let local = over_http("local", Scope::Admin);
    let other = over_http("uid:7", Scope::Hold);
    let fails = async |caller: &Caller, call| daemon.ask(caller, call).await.expect_err("an error").message;
    let release =
        |id: &str, holder: Option<&str>| json!({ "Release": [id, { "epoch": 1, "holder": holder }] });

    assert_eq!(fails(&other, release(id, None)).await, format!("lease {id} belongs to another principal"));
    assert_eq!(
        fails(&holds, release(id, Some("b"))).await,
        format!("lease {id} has another holder than the request names")
    );
    let unknown = format!("{}-999", id.split_once('-').unwrap().0);
    assert_eq!(fails(&local, release(&unknown, None)).await, format!("lease {unknown} does not exist"));
    assert_eq!(fails(&local, json!({ "Inspect": "0000-1" })).await, "lease 0000-1 does not exist");
    let session = "s:00000008";
    for call in [json!({ "Session": session }), json!({ "SessionHeartbeat": [session, {}] })] {
        assert_eq!(fails(&local, call).await, format!("session {session} does not exist or is closed"));
    }
    let waits = |resources| json!({ "Acquire": { "resources": resources, "holder": "b", "wait_ms": 5 } });
    assert_eq!(
        fails(&local, waits(json!(["a"]))).await,
        "the wait of 5 ms for \"a\" ended before it was free"
    );
    assert_eq!(
        fails(&local, waits(json!(["a", "b"]))).await,
        "the wait of 5 ms for \"a\" and \"b\" ended before they were free"
    );
}
