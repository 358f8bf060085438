//! When a holder was last heard, as every view shows it: only what came from the holder counts.

use crate::daemon::Daemon;
use serde_json::{Value, json};
use tenure_engine::EngineConfig;

/// One of each that is kept by heartbeats.
struct Kept {
    lease: Value,
    session: Value,
    of_session: Value,
    registration: Value,
    stream: Value,
}

impl Kept {
    async fn taken(daemon: &Daemon) -> Self {
        let lease = daemon.done(json!({ "Acquire": { "resources": ["a"], "holder": "h" } })).await;
        let session = daemon.done(json!({ "OpenSession": { "holder": "s" } })).await["session"].clone();
        let acquire = json!({ "Acquire": { "resources": ["b"], "holder": "s", "session": session } });
        let of_session = daemon.done(acquire).await;
        let service = json!({ "Register": { "name": "App", "type": "_http._tcp", "port": 8080 } });
        let registered = daemon.done(service).await;
        let start = json!({ "StartStream": { "start": { "resources": ["c"] }, "operation_id": null } });
        let stream = daemon.done(start).await;
        Self {
            lease: lease["lease_id"].clone(),
            session,
            of_session: of_session["lease_id"].clone(),
            registration: registered["registered"]["id"].clone(),
            stream: stream["session_id"].clone(),
        }
    }

    /// What each view says of the last proof of life, and since when it waits for one.
    async fn seen(&self, daemon: &Daemon) -> Vec<(&'static str, bool, bool)> {
        let stream = daemon.done(json!({ "Stream": self.stream })).await;
        let views = [
            ("lease", daemon.done(json!({ "Inspect": self.lease })).await),
            ("lease of a session", daemon.done(json!({ "Inspect": self.of_session })).await),
            ("session", daemon.done(json!({ "Session": self.session })).await),
            ("registration", daemon.done(json!({ "InspectRegistration": self.registration })).await),
            ("lease of a stream", daemon.done(json!({ "Inspect": stream["lease_id"] })).await),
        ];
        let is_time = |value: &Value| value.is_string();
        views
            .map(|(what, view)| (what, is_time(&view["last_seen"]), is_time(&view["unheard_since"])))
            .to_vec()
    }

    async fn heartbeat(&self, daemon: &Daemon) {
        let body = json!({ "epoch": 1 });
        daemon.done(json!({ "Heartbeat": [self.lease, body] })).await;
        daemon.done(json!({ "SessionHeartbeat": [self.session, {}] })).await;
        daemon.done(json!({ "HeartbeatRegistration": [self.registration, {}] })).await;
        daemon.done(json!({ "HeartbeatStream": [self.stream, {}] })).await;
    }
}

fn all(heard: bool) -> Vec<(&'static str, bool, bool)> {
    ["lease", "lease of a session", "session", "registration", "lease of a stream"]
        .map(|what| (what, heard, !heard))
        .to_vec()
}

#[tokio::test]
async fn a_restart_is_no_proof_of_life() {
    let daemon = Daemon::start(EngineConfig::default()).await;
    let kept = Kept::taken(&daemon).await;
    assert_eq!(kept.seen(&daemon).await, all(true), "a grant is asked for by its holder");
    let daemon = daemon.restart().await;
    assert_eq!(kept.seen(&daemon).await, all(false));
    kept.heartbeat(&daemon).await;
    assert_eq!(kept.seen(&daemon).await, all(true));
}

#[tokio::test]
async fn an_operator_who_revives_a_lease_is_not_its_holder() {
    let daemon = Daemon::start(EngineConfig::default()).await;
    let kept = Kept::taken(&daemon).await;
    daemon.done(json!({ "Drain": [kept.lease, {}] })).await;
    daemon.done(json!({ "Revive": [kept.lease, {}] })).await;
    daemon.done(json!({ "DrainRegistration": kept.registration })).await;
    daemon.done(json!({ "ReviveRegistration": kept.registration })).await;
    for view in [json!({ "Inspect": kept.lease }), json!({ "InspectRegistration": kept.registration })] {
        let shown = daemon.done(view).await;
        assert!(shown["last_seen"].is_null() && shown["unheard_since"].is_string(), "{shown}");
    }
    kept.heartbeat(&daemon).await;
    assert_eq!(kept.seen(&daemon).await, all(true));
}

#[tokio::test]
async fn a_reservation_has_not_been_heard_yet() {
    let daemon = Daemon::start(EngineConfig::default()).await;
    let acquire = json!({ "resources": ["a"], "holder": "h", "reserve_ms": 60_000 });
    let lease = daemon.done(json!({ "Acquire": acquire })).await;
    let shown = daemon.done(json!({ "Inspect": lease["lease_id"] })).await;
    assert!(shown["last_seen"].is_null() && shown.get("unheard_since").is_none(), "{shown}");
}
