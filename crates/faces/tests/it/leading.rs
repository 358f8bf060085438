//! A node that has just begun to lead.

use crate::daemon::{Daemon, over_http};
use serde_json::json;
use std::sync::Arc;
use tenure_api::ErrorCode;
use tenure_engine::EngineConfig;
use tenure_faces::{Home, Neighbours, NodeConnections, Scope};

struct NoNeighbours;

impl Neighbours for NoNeighbours {
    fn subnets(&self, _node: &str) -> Vec<String> {
        Vec::new()
    }
}

/// It answered 404, which says that a session is gone for good, before it had read which sessions had ended.
#[tokio::test]
async fn a_session_is_not_denied_before_the_ends_under_other_leaders_are_read() {
    let daemon = Daemon::start(EngineConfig::default()).await;
    let home = Home { node: "a".to_owned(), host: "a".to_owned() };
    daemon.faces.belong_to_cluster(home, Arc::new(NoNeighbours), NodeConnections::default(), None);
    let caller = over_http("local", Scope::Admin);
    let ended = "00000000-0000-4000-8000-000000000000";
    for call in [
        json!({ "Stream": ended }),
        json!({ "HeartbeatStream": [ended, {}] }),
        json!({ "StopStream": ended }),
    ] {
        let refused = daemon.ask(&caller, call.clone()).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::NotLeader, "{call}");
    }
    let refused = daemon.ask(&caller, json!({ "Stream": "no id" })).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::SessionNotFound);
    daemon.faces.recall_streams().await;
    let refused = daemon.ask(&caller, json!({ "Stream": ended })).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::SessionNotFound);
}

/// It said that there is no such registration, without the reason by which a registrant knows whether to register again.
#[tokio::test]
async fn a_registration_is_not_denied_before_the_ends_under_other_leaders_are_read() {
    let daemon = Daemon::start(EngineConfig::default()).await;
    let home = Home { node: "a".to_owned(), host: "a".to_owned() };
    daemon.faces.belong_to_cluster(home, Arc::new(NoNeighbours), NodeConnections::default(), None);
    let caller = over_http("local", Scope::Admin);
    let ended = "0123abcd";
    let calls = [
        json!({ "HeartbeatRegistration": [ended, {}] }),
        json!({ "Unregister": ended }),
        json!({ "InspectRegistration": ended }),
        json!({ "DrainRegistration": ended }),
    ];
    for call in &calls {
        let refused = daemon.ask(&caller, call.clone()).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::NotLeader, "{call}");
    }
    let refused = daemon.ask(&caller, json!({ "Unregister": "no id" })).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::NotFound);
    daemon.faces.recall_registrations().await;
    for call in calls {
        let refused = daemon.ask(&caller, call.clone()).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::NotFound, "{call}");
    }
}
