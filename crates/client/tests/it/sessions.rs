//! Sessions by hand: one heartbeat for many leases, and word of each that is lost.

use crate::daemon::{Daemon, soon, wait_until};
use crate::tiny::{TinyHttp, answer, read_request};
use serde_json::{Value, json};
use std::time::Duration;
use tenure_client::{GuardStatus, LossReason, api};

const SECOND: Duration = Duration::from_secs(1);

fn open(ttl_ms: u64) -> api::OpenSession {
    api::OpenSession { holder: "me".to_owned(), ttl_ms: Some(ttl_ms), ..api::OpenSession::default() }
}

#[tokio::test]
async fn one_heartbeat_renews_all_and_each_loss_is_told_to_its_own_guard() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let keeper = client.keep_session(&open(2_000)).await.expect("a session");
    let mut guards = Vec::new();
    for number in 0..20 {
        let hold = keeper.hold([format!("r/{number}")]);
        guards.push(hold.acquire().await.expect("granted"));
    }
    let beyond = keeper.state().valid_until.expect("a promise").after(2 * SECOND);
    let mut states = keeper.watch();
    soon("renewals", states.wait_for(|state| state.valid_until > Some(beyond))).await.expect("a state");
    assert!(guards.iter().all(|guard| guard.is_held()));
    client.revoke(guards[3].lease_id(), &api::OperatorCall::default()).await.expect("revoked");
    client.drain(guards[4].lease_id(), &api::OperatorCall::default()).await.expect("drained");
    assert_eq!(soon("the loss", guards[3].lost()).await, LossReason::Revoked("admin_force".to_owned()));
    let mut drained = guards[4].watch();
    soon("the drain", drained.wait_for(|state| state.draining)).await.expect("a state");
    let held = guards.iter().filter(|guard| guard.is_held()).count();
    assert_eq!(held, 19);
    guards.remove(5).release().await.expect("released");
    assert_eq!(client.resource("r/5").await.expect("a resource").lease_id, None);
    let token = guards[0].token();
    keeper.close().await.expect("closed");
    assert!(token.is_cancelled());
    assert!(guards.iter().all(|guard| !guard.is_held()));
    assert_eq!(client.resource("r/0").await.expect("a resource").lease_id, None);
}

#[tokio::test]
async fn a_session_that_cannot_be_renewed_is_lost_with_everything_under_it() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let keeper = client.keep_session(&open(1_000)).await.expect("a session");
    let guard = keeper.hold(["r"]).acquire().await.expect("granted");
    let until = keeper.state().valid_until;
    daemon.freeze();
    soon("the loss", guard.token().cancelled()).await;
    assert!(keeper.token().is_cancelled());
    assert_eq!(keeper.lost().await, LossReason::Unreachable);
    assert_eq!(guard.state().status, GuardStatus::Lost(LossReason::Unreachable));
    assert!(until.is_some());
    daemon.thaw();
    assert!(keeper.hold(["s"]).acquire().await.is_err(), "nothing is held under a lost session");
    wait_until("what was granted meanwhile to be given back", || async {
        client.resource("s").await.is_ok_and(|resource| resource.lease_id.is_none())
    })
    .await;
}

#[tokio::test]
async fn dropping_the_keeper_closes_the_session() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let keeper = client.keep_session(&open(60_000)).await.expect("a session");
    let guard = keeper.hold(["r"]).acquire().await.expect("granted");
    drop(keeper);
    assert!(!guard.is_held());
    wait_until("the release", || async {
        client.resource("r").await.expect("a resource").lease_id.is_none()
    })
    .await;
}

#[tokio::test]
async fn terms_that_belong_to_the_session_cannot_be_given_beside_it() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let keeper = client.keep_session(&open(60_000)).await.expect("a session");
    assert!(keeper.hold(["r"]).ttl(SECOND).acquire().await.is_err());
    assert!(keeper.hold(["r"]).grace(SECOND).acquire().await.is_err());
    assert!(daemon.connection().await.hold(["r"]).ttl(SECOND).acquire().await.is_err());
    keeper.close().await.expect("closed");
}

fn lease(number: u64) -> Value {
    json!({
        "lease_id": format!("k3f9-{number}"), "holder": "me", "state": "active", "liveness": "alive",
        "mode": "session", "epoch": 1, "fence": 1, "resources": [format!("r/{number}")], "granted_at": "",
        "face": "leases", "session": "s:01", "server_time": "", "lsn": 10 + number,
    })
}

/// Answers as a daemon that forgot what was lost, and that still has lease 2 alone.
fn forgetful(head: &str, body: &str) -> Value {
    let path = head.split(' ').nth(1).expect("a path");
    if path.starts_with("/v1/sessions/") && path.ends_with("/heartbeat") {
        return json!({"session": "s:01", "lsn": 30, "valid_ms": 1_000, "ended": null, "draining": [],
            "server_time": ""});
    }
    match path.split('?').next().expect("a path") {
        "/v1/sessions" => json!({"session": "s:01", "holder": "me", "kind": "by_hand", "ttl_ms": 1_000,
            "grace_ms": 0, "leases": 0, "liveness": "alive", "last_seen": null, "valid_ms": 1_000,
            "remaining_ms": null, "deadline": null, "server_time": "", "lsn": 10}),
        "/v1/leases" if head.starts_with("POST") => {
            let number = if body.contains("r/1") { 1 } else { 2 };
            lease(number)
        }
        "/v1/leases" => json!({"leases": [lease(2)], "next_cursor": null, "lsn": 30}),
        _ => lease(1),
    }
}

#[tokio::test]
async fn losses_that_the_daemon_forgot_are_found_by_listing() {
    let server = TinyHttp::serve(|_, mut stream| async move {
        while let Some(request) = read_request(&mut stream).await {
            let said = forgetful(&request.head, &request.body).to_string();
            answer(&mut stream, 200, &said).await;
        }
    })
    .await;
    let keeper = server.client().keep_session(&open(1_000)).await.expect("a session");
    let gone = keeper.hold(["r/1"]).acquire().await.expect("granted");
    let kept = keeper.hold(["r/2"]).acquire().await.expect("granted");
    soon("the loss", gone.token().cancelled()).await;
    assert_eq!(gone.lost().await, LossReason::Expired("not_listed".to_owned()));
    assert!(kept.is_held());
}

#[tokio::test]
async fn a_grant_from_before_what_a_heartbeat_told_is_looked_up() {
    let server = TinyHttp::serve(|_, mut stream| async move {
        while let Some(request) = read_request(&mut stream).await {
            let mut said = forgetful(&request.head, &request.body);
            if request.head.contains("/heartbeat") {
                said["ended"] = json!([]);
            }
            if request.head.starts_with("GET /v1/leases/") {
                said["state"] = json!("revoking");
                said["epoch"] = json!(2);
            }
            answer(&mut stream, 200, &said.to_string()).await;
        }
    })
    .await;
    let keeper = server.client().keep_session(&open(1_000)).await.expect("a session");
    keeper.hold(["r/1"]).acquire().await.expect("granted after what was told").stopped().await.expect("said");
    // The first heartbeat tells everything up to 30, and the grant is of position 11.
    let mut states = keeper.watch();
    let first = keeper.state().valid_until;
    soon("a heartbeat", states.wait_for(|state| state.valid_until > first)).await.expect("a state");
    let error = keeper.hold(["r/1"]).acquire().await.expect_err("it was lost before it was known");
    assert!(error.lost(), "{error:?}");
}
