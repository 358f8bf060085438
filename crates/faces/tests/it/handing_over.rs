//! Hand-overs into a session of another principal, as transports ask for them (`leases.md` §2, record 0051).

use crate::daemon::{Daemon, over_http};
use serde_json::{Value, json};
use tenure_api::{Error, ErrorCode};
use tenure_engine::EngineConfig;
use tenure_faces::Scope;

/// Hands `jobs/…` of one principal over to a session of another one that was opened so.
async fn handed_over(daemon: &Daemon, resource: &str, accepts: Value) -> Result<Value, Error> {
    let (giver, receiver) = (over_http("token:giver", Scope::Hold), over_http("token:receiver", Scope::Hold));
    let open = json!({ "OpenSession": { "holder": "next", "accepts_handover": accepts } });
    let session = daemon.ask(&receiver, open).await.unwrap();
    // Its view says what it accepts, and says nothing where it accepts nothing.
    assert_eq!(session.get("accepts_handover"), Some(&accepts).filter(|accepts| !accepts.is_null()));
    let shown = daemon.ask(&receiver, json!({ "Session": session["session"] })).await.unwrap();
    assert_eq!(shown.get("accepts_handover"), session.get("accepts_handover"));
    let acquire = json!({ "Acquire": { "resources": [resource], "holder": "first" } });
    let lease = daemon.ask(&giver, acquire).await.unwrap();
    let body = json!({ "epoch": 1, "to_session": session["session"] });
    daemon.ask(&giver, json!({ "Handover": [lease["lease_id"], body] })).await
}

#[tokio::test]
async fn a_session_of_another_principal_gets_what_it_consented_to() {
    let daemon = Daemon::start(EngineConfig::default()).await;
    let given = handed_over(&daemon, "jobs/1", json!("jobs/")).await.unwrap();
    assert_eq!((given["holder"].as_str(), given["epoch"].as_u64()), (Some("next"), Some(2)));
    for accepts in [json!(null), json!("other/")] {
        let refused = handed_over(&daemon, "jobs/2", accepts).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::Forbidden, "{refused}");
        daemon.done(json!("EndAll")).await;
        let resource = daemon.done(json!({ "Resource": "jobs/2" })).await;
        let id = resource["lease_id"].as_str().unwrap().to_owned();
        daemon.done(json!({ "Reclaim": [id, { "force": true }] })).await;
    }
}

#[tokio::test]
async fn a_hand_over_counts_against_the_limit_of_the_principal_that_gets_it() {
    let mut config = EngineConfig::default();
    config.limits.leases_per_principal_max = 1;
    let daemon = Daemon::start(config).await;
    let receiver = over_http("token:receiver", Scope::Hold);
    daemon.ask(&receiver, json!({ "Acquire": { "resources": ["own"], "holder": "next" } })).await.unwrap();
    let refused = handed_over(&daemon, "jobs/1", json!("jobs/")).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::CapacityExceeded, "{refused}");
    let lease = daemon.done(json!({ "Resource": "jobs/1" })).await;
    assert_eq!(lease["holder"], "first", "it stays where it was");
}

#[tokio::test]
async fn view_drain_and_revive_of_a_silent_sessions_lease_agree() {
    let daemon = Daemon::start(EngineConfig::default()).await;
    let open = json!({ "OpenSession": { "holder": "s", "ttl_ms": 1_000, "grace_ms": 3_600_000 } });
    let session = daemon.done(open).await["session"].clone();
    let acquire = json!({ "Acquire": { "resources": ["a"], "holder": "s", "session": session } });
    let id = daemon.done(acquire).await["lease_id"].clone();
    let shown = loop {
        let shown = daemon.done(json!({ "Inspect": id })).await;
        if shown["liveness"] == "draining" {
            break shown;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(shown["drain_cause"], "silence");
    let operator = over_http("local", Scope::Admin);
    let drain = daemon.ask(&operator, json!({ "Drain": [id, {}] })).await.unwrap_err();
    let revive = daemon.ask(&operator, json!({ "Revive": [id, {}] })).await.unwrap_err();
    assert_eq!((drain.code, revive.code), (ErrorCode::AlreadyDraining, ErrorCode::NoLiveness));
    daemon.done(json!({ "SessionHeartbeat": [session, {}] })).await;
    assert_eq!(daemon.done(json!({ "Inspect": id })).await["liveness"], "alive");
}

#[tokio::test]
async fn a_proof_in_another_name_is_refused_in_one_step() {
    let daemon = Daemon::start(EngineConfig::default()).await;
    let acquire = json!({ "Acquire": { "resources": ["a"], "holder": "me" } });
    let id = daemon.done(acquire).await["lease_id"].clone();
    let operator = over_http("local", Scope::Admin);
    for call in ["Heartbeat", "Acknowledge"] {
        let asked = json!({ call: [id, { "epoch": 1, "holder": "another" }] });
        let refused = daemon.ask(&operator, asked).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::HolderMismatch, "{call}");
        daemon.done(json!({ "Heartbeat": [id, { "epoch": 1, "holder": "me" }] })).await;
    }
    daemon.done(json!({ "Revoke": [id, {}] })).await;
    for _ in 0..2 {
        daemon.done(json!({ "Acknowledge": [id, { "epoch": 1, "holder": "me" }] })).await;
    }
}
