//! A node that has just begun to lead.

use crate::daemon::{Daemon, over_http};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tenure_api::ErrorCode;
use tenure_engine::EngineConfig;
use tenure_faces::{Home, Neighbours, NodeConnections, Scope};

struct NoNeighbours;

impl Neighbours for NoNeighbours {
    fn subnets(&self, _node: &str) -> Vec<String> {
        Vec::new()
    }
}

const ENDED: &str = "00000000-0000-4000-8000-000000000000";

async fn newly_elected() -> Daemon {
    let daemon = Daemon::start(EngineConfig::default()).await;
    let home = Home { node: "a".to_owned(), host: "a".to_owned() };
    daemon.faces.belong_to_cluster(home, Arc::new(NoNeighbours), NodeConnections::default(), None);
    daemon
}

/// What is said of something that nobody knows.
async fn said_of(daemon: &Daemon, call: &Value) -> ErrorCode {
    daemon.ask(&over_http("local", Scope::Admin), call.clone()).await.unwrap_err().code
}

/// It answered 404, which says that a session is gone for good, before it had read which sessions had ended.
#[tokio::test]
async fn a_session_is_not_denied_before_the_ends_under_other_leaders_are_read() {
    let daemon = newly_elected().await;
    for call in [
        json!({ "Stream": ENDED }),
        json!({ "HeartbeatStream": [ENDED, {}] }),
        json!({ "StopStream": ENDED }),
    ] {
        assert_eq!(said_of(&daemon, &call).await, ErrorCode::NotLeader, "{call}");
    }
    assert_eq!(said_of(&daemon, &json!({ "Stream": "no id" })).await, ErrorCode::SessionNotFound);
    daemon.faces.recall_streams().await;
    assert_eq!(said_of(&daemon, &json!({ "Stream": ENDED })).await, ErrorCode::SessionNotFound);
}

/// The first question that was not answered counted as the last: from then on ended sessions were denied.
#[tokio::test]
async fn a_leader_that_lapses_while_it_reads_the_ends_reads_on_afterwards() {
    let daemon = newly_elected().await;
    let registration = "0123abcd";
    let calls = [json!({ "StopStream": ENDED }), json!({ "Unregister": registration })];
    daemon.let_authority_be(false);
    let grant = json!({ "Acquire": { "resources": ["r"], "holder": "h" } });
    while daemon.ask(&over_http("local", Scope::Admin), grant.clone()).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (faces, asked) = (daemon.faces.clone(), daemon.asked());
    let mut reading = tokio::spawn(async move {
        faces.recall_streams().await;
        faces.recall_registrations().await;
    });
    while daemon.asked() < asked + 5 && !reading.is_finished() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for call in &calls {
        assert_eq!(said_of(&daemon, call).await, ErrorCode::NotLeader, "{call}");
    }
    daemon.let_authority_be(true);
    tokio::time::timeout(Duration::from_secs(60), &mut reading).await.unwrap().unwrap();
    assert_eq!(said_of(&daemon, &calls[0]).await, ErrorCode::SessionNotFound);
    assert_eq!(said_of(&daemon, &calls[1]).await, ErrorCode::NotFound);
}

#[tokio::test]
async fn a_leader_whose_term_ends_while_it_reads_the_ends_denies_nothing() {
    let daemon = newly_elected().await;
    daemon.stop_engine();
    daemon.faces.recall_streams().await;
    daemon.faces.recall_registrations().await;
    for call in [json!({ "Stream": ENDED }), json!({ "InspectRegistration": "0123abcd" })] {
        assert_eq!(said_of(&daemon, &call).await, ErrorCode::NotLeader, "{call}");
    }
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
