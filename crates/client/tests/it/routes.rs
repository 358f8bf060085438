//! Every route once, against the real daemon.

use crate::daemon::{Daemon, soon};
use serde_json::{Value, json};
use std::time::Duration;
use tenure_client::{Client, Method, api, operation_id};

fn acquire(resource: &str) -> api::Acquire {
    api::Acquire { resources: vec![resource.to_owned()], holder: "me".to_owned(), ..api::Acquire::default() }
}

fn holder_call(epoch: u64) -> api::HolderCall {
    api::HolderCall { epoch, ..api::HolderCall::default() }
}

#[tokio::test]
async fn a_lease_goes_through_its_life() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let reserved =
        client.acquire(&api::Acquire { reserve_ms: Some(60_000), ..acquire("a") }).await.expect("reserved");
    assert_eq!(reserved.state, api::State::Reserved);
    let id = reserved.lease_id.as_str();
    let active = client.activate(id, &holder_call(reserved.epoch)).await.expect("active");
    assert_eq!(active.state, api::State::Active);
    let renewed = client.heartbeat(id, active.epoch).await.expect("renewed");
    assert_eq!(renewed.valid_ms, Some(89_549));
    let amend = api::Amend {
        epoch: active.epoch,
        holder: None,
        attachment: json!({"colour": "red"}),
        operation_id: None,
    };
    let amended = client.amend(id, &amend).await.expect("amended");
    assert_eq!(amended.attachment, Some(json!({"colour": "red"})));
    let rebind = api::Rebind {
        epoch: amended.epoch,
        holder: Some("you".to_owned()),
        session: None,
        attachment: None,
        operation_id: None,
    };
    let rebound = client.rebind(id, &rebind).await.expect("rebound");
    assert!(rebound.epoch > amended.epoch && rebound.fence > amended.fence);
    let query = api::LeaseQuery { holder: Some("you".to_owned()), ..api::LeaseQuery::default() };
    assert_eq!(client.leases(&query).await.expect("a list").leases.len(), 1);
    let stale = client.heartbeat(id, amended.epoch).await.expect_err("stale");
    assert_eq!(stale.code(), Some(api::ErrorCode::StaleEpoch));
    assert!(stale.lost());
    let released = client.release(id, &holder_call(rebound.epoch)).await.expect("released");
    // The former holder was promised more than has passed.
    assert_eq!(released.state, api::State::Revoking);
    assert_eq!(client.lease(id).await.expect("shown").state, api::State::Revoking);
    let story = client.why(&api::WhyQuery { lease: Some(id.to_owned()), ..api::WhyQuery::default() }).await;
    assert!(story.expect("a story").entries.len() >= 4);
}

#[tokio::test]
async fn operators_drain_revive_revoke_and_reclaim() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let operator = api::OperatorCall::default();
    let lease = client.acquire(&acquire("a")).await.expect("granted");
    let id = lease.lease_id.as_str();
    let drained = client.drain(id, &operator).await.expect("drained");
    assert_eq!(drained.drain_cause, Some(api::DrainCause::Operator));
    assert!(client.heartbeat(id, lease.epoch).await.expect("renewed").draining);
    let revived = client.revive(id, &operator).await.expect("revived");
    assert_eq!(revived.liveness, Some(api::Liveness::Alive));
    let by_hand = api::OperatorCall { reclaim: Some(false), ..operator.clone() };
    let revoked = client.revoke(id, &by_hand).await.expect("revoked");
    assert_eq!(revoked.state, api::State::Revoking);
    let early = client.reclaim(id, &operator).await.expect_err("not yet");
    assert_eq!(early.code(), Some(api::ErrorCode::NotYet));
    client.acknowledge(id, &holder_call(lease.epoch)).await.expect("acknowledged");
    let reclaimed = client.reclaim(id, &operator).await.expect("reclaimed");
    assert_eq!(reclaimed.state, api::State::Revoked);
    client.reset_breaker().await.expect("reset");
}

#[tokio::test]
async fn sessions_pools_and_resources() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let open = api::OpenSession { holder: "me".to_owned(), ..api::OpenSession::default() };
    let session = client.open_session(&open).await.expect("open");
    let other = client.open_session(&open).await.expect("open");
    assert_ne!(session.session, other.session);
    assert_eq!(client.session(&session.session).await.expect("a session").holder, "me");
    assert_eq!(client.sessions(None).await.expect("a list").sessions.len(), 2);
    let under = api::Acquire { session: Some(session.session.clone()), ..acquire("rack/1/port 2") };
    let lease = client.acquire(&under).await.expect("granted");
    let found = client.resource("rack/1/port 2").await.expect("a resource");
    assert_eq!(found.lease_id.as_deref(), Some(&*lease.lease_id));
    let query = api::ResourceQuery { prefix: Some("rack/".to_owned()), ..api::ResourceQuery::default() };
    assert_eq!(client.resources(&query).await.expect("a list").resources.len(), 1);
    let by_fence = api::Check::Fence { resource: "rack/1/port 2".to_owned(), fence: lease.fence };
    assert!(client.check(&by_fence).await.expect("checked").current);
    let by_epoch = api::Check::Epoch { lease_id: lease.lease_id.clone(), epoch: lease.epoch + 1 };
    assert!(!client.check(&by_epoch).await.expect("checked").current);
    let beat = api::SessionHeartbeat { seen_lsn: Some(session.lsn) };
    let renewed = client.session_heartbeat(&session.session, &beat).await.expect("renewed");
    assert_eq!(renewed.ended, Some(vec![]));
    let handover =
        api::Handover { epoch: lease.epoch, to_session: other.session.clone(), operation_id: None };
    let handed = client.handover(&lease.lease_id, &handover).await.expect("handed over");
    assert_eq!(handed.session, Some(other.session.clone()));
    client.close_session(&other.session).await.expect("closed");
    assert_eq!(client.resource("rack/1/port 2").await.expect("a resource").lease_id, None);
    assert_eq!(client.define_pool("hall/slots", 3).await.expect("a pool").free, 3);
    assert_eq!(client.pools().await.expect("a list").pools.len(), 1);
    client.remove_pool("hall/slots", &api::RemovePool::default()).await.expect("removed");
    assert_eq!(client.pools().await.expect("a list").pools.len(), 0);
}

#[tokio::test]
async fn the_daemon_tells_of_itself_over_tcp_and_stops_when_told() {
    let daemon = Daemon::start().await;
    let http = daemon.client().status().await.expect("a status").http.expect("an address");
    let text = if http.starts_with("http") { http } else { format!("http://{http}") };
    let client = Client::builder(text.parse().expect("an endpoint")).build().expect("a client");
    client.health().await.expect("healthy");
    client.ready().await.expect("ready");
    assert!(client.metrics().await.expect("metrics").contains("tenure_"));
    let value: Value = client
        .call_value(Method::GET, "/v1/status", None::<&()>, Duration::ZERO)
        .await
        .expect("the daemon's own object");
    assert!(value["version"].is_string());
    client.acquire(&acquire("a")).await.expect("granted");
    let mut backup = client.backup().await.expect("a stream");
    let mut bytes = 0;
    while let Some(piece) = backup.next().await.expect("a piece") {
        bytes += piece.len();
    }
    assert!(bytes > 1_024, "an archive ends with two blocks of nothing: {bytes}");
    assert!(client.shut_down(&api::ShutDown::default()).await.expect("told").shutting_down);
}

#[tokio::test]
async fn an_operation_is_carried_out_once_however_often_it_is_asked() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let request = api::Acquire { operation_id: Some(operation_id()), ..acquire("a") };
    let first = client.acquire(&request).await.expect("granted");
    let again = client.acquire(&request).await.expect("replayed");
    assert_eq!(first.lease_id, again.lease_id);
    assert!(again.replayed && !first.replayed);
    let held = client.acquire(&acquire("a")).await.expect_err("held");
    assert_eq!(held.code(), Some(api::ErrorCode::ResourceHeld));
    let api_error = match held {
        tenure_client::CallError::Rejected(error) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(api_error.details["blocking"][0]["holder"], "me");
}

#[tokio::test]
async fn events_go_on_over_a_restart_without_a_gap() {
    let mut daemon = Daemon::start().await;
    let client = daemon.client();
    let events = client.events(api::EventsQuery::default()).await.expect("a stream");
    let mut events = events.resuming().await.expect("a stream");
    let mut granted = Vec::new();
    for round in 0..3 {
        for number in 0..5 {
            let lease = client.acquire(&acquire(&format!("r/{round}/{number}"))).await.expect("granted");
            granted.push(lease.lease_id);
        }
        if round == 1 {
            daemon.kill();
            daemon.start_again().await;
        }
    }
    let mut seen = Vec::new();
    while seen.len() < granted.len() {
        let event = soon("an event", events.next()).await.expect("an event").expect("no end");
        if event.kind == api::EventKind::Granted {
            seen.push(event.lease.expect("a lease").lease_id);
        }
    }
    assert_eq!(seen, granted);
    assert!(events.resumptions() >= 1);
}

#[tokio::test]
async fn a_group_of_pollers_is_shown_and_steered() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    assert_eq!(client.polling("web").await.expect("a group").live_nodes, []);
    for (instance, target) in [("kitchen~1", "http:%2F%2Fh%2Fx"), ("hall~1", "s1")] {
        let name = instance.trim_end_matches("~1");
        let facts = api::PollerFacts {
            instance: instance.to_owned(),
            weight: 1,
            fixed_name: true,
            ..Default::default()
        };
        let attachment = Some(serde_json::to_value(facts).expect("plain data"));
        let membership = acquire(&format!("poll/web/@poller/{name}"));
        let membership = api::Acquire { holder: instance.to_owned(), attachment, ..membership };
        client.acquire(&membership).await.expect("a member");
        let polled = api::Acquire { holder: instance.to_owned(), ..acquire(&format!("poll/web/{target}")) };
        client.acquire(&polled).await.expect("a target");
    }
    let seen = client.polling("web").await.expect("a group");
    let names: Vec<&str> = seen.live_nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["hall", "kitchen"]);
    let moved = client.move_target("web", "http://h/x", Some("hall")).await.expect("moved");
    assert_eq!((moved.poller.as_deref(), moved.owner_id.as_deref()), (Some("hall"), Some("kitchen~1")));
    assert_eq!(client.move_target("web", "http://h/x", None).await.expect("taken back").poller, None);
    let cordoned = client.cordon("web", "kitchen~1").await.expect("cordoned");
    assert!(cordoned.cordoned && cordoned.owned == 1);
    let seen = client.polling("web").await.expect("a group");
    assert_eq!(seen.live_nodes[1].status, api::PollerStatus::Cordoned);
    let refused = client.move_target("web", "s1", Some("kitchen")).await.expect_err("cordoned");
    assert_eq!(refused.code(), Some(api::ErrorCode::InvalidState));
    assert!(!client.uncordon("web", "kitchen").await.expect("uncordoned").cordoned);
    let unknown = client.cordon("web", "attic").await.expect_err("nobody");
    assert_eq!(unknown.code(), Some(api::ErrorCode::NotFound));
    let wrong = client.polling("no group").await.expect_err("no name");
    assert_eq!(wrong.code(), Some(api::ErrorCode::InvalidRequest));
}
