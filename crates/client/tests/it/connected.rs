//! Guards on a connection, against the real daemon.

use crate::daemon::{Daemon, soon, wait_until};
use std::time::Duration;
use tenure_client::{LossReason, api};

#[tokio::test]
async fn a_lease_lives_while_its_connection_is_open_and_comes_back_on_another() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let connection = daemon.connection().await;
    let mut guard = connection.hold(["r"]).acquire().await.expect("granted");
    assert_eq!(guard.lease().session.as_deref(), Some(connection.session()));
    assert_eq!(guard.remaining(), None);
    let (id, fence) = (guard.lease_id().to_owned(), guard.fence());
    connection.close();
    soon("the loss", guard.token().cancelled()).await;
    assert_eq!(guard.lost().await, LossReason::Unreachable);
    let drains =
        || async { client.lease(&id).await.expect("a lease").liveness == Some(api::Liveness::Draining) };
    wait_until("the drain", drains).await;
    let next = daemon.connection().await;
    guard.resume(&next).await.expect("resumed");
    assert!(guard.is_held());
    assert!(guard.fence() > fence);
    assert_eq!(guard.epoch(), 2);
    assert_eq!(guard.lease_id(), id);
    guard.release().await.expect("released");
    assert_eq!(client.resource("r").await.expect("a resource").lease_id, None);
}

#[tokio::test]
async fn a_loss_is_pushed_and_its_acknowledgement_frees_the_resource_at_once() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let connection = daemon.connection().await;
    let guard = connection.hold(["r"]).acquire().await.expect("granted");
    let waiting = {
        let client = client.clone();
        tokio::spawn(async move { client.hold(["r"]).wait(Duration::from_secs(60)).acquire().await })
    };
    client.revoke(guard.lease_id(), &api::OperatorCall::default()).await.expect("revoked");
    soon("the loss", guard.token().cancelled()).await;
    assert_eq!(guard.lost().await, LossReason::Revoked("admin_force".to_owned()));
    drop(guard);
    let next = soon("the next holder", waiting).await.expect("no panic").expect("granted");
    next.release().await.expect("released");
}

#[tokio::test]
async fn a_killed_daemon_loses_the_guard_and_the_lease_is_resumed_after_its_restart() {
    let mut daemon = Daemon::start().await;
    let connection = daemon.connection().await;
    let mut guard = connection.hold(["r"]).acquire().await.expect("granted");
    daemon.kill();
    soon("the loss", guard.token().cancelled()).await;
    daemon.start_again().await;
    let next = daemon.connection().await;
    guard.resume(&next).await.expect("resumed");
    assert!(guard.is_held());
    guard.release().await.expect("released");
}

#[tokio::test]
async fn many_leases_are_taken_and_given_back_in_flight_together() {
    let daemon = Daemon::start().await;
    let connection = daemon.connection().await;
    let mut pending = Vec::new();
    for number in 0..500 {
        let acquire = api::Acquire {
            resources: vec![format!("r/{number}")],
            holder: "me".to_owned(),
            ..api::Acquire::default()
        };
        pending.push(connection.begin(api::Verb::Acquire(Box::new(acquire))).await.expect("sent"));
    }
    let mut leases = Vec::new();
    for answer in pending {
        let api::Answer::Acquired(lease) = soon("a grant", answer).await.expect("granted") else {
            panic!("not acquired")
        };
        leases.push(*lease);
    }
    let call = api::HolderCall { epoch: 1, ..api::HolderCall::default() };
    for lease in &leases {
        connection.release(&lease.lease_id, &call).await.expect("released");
    }
    assert_eq!(connection.status().await.expect("a status").leases.total, 0);
}

#[tokio::test]
async fn a_watch_tells_what_happens_beside_everything_else() {
    let daemon = Daemon::start().await;
    let connection = daemon.connection().await;
    let from = connection.status().await.expect("a status").synced_lsn;
    let query = api::EventsQuery { from: Some(from), ..api::EventsQuery::default() };
    let mut watch = connection.watch(&query).await.expect("a watch");
    let guard = connection.hold(["r"]).acquire().await.expect("granted");
    let id = guard.lease_id().to_owned();
    guard.release().await.expect("released");
    let mut kinds = Vec::new();
    while kinds.last() != Some(&api::EventKind::Released) {
        let event = soon("an event", watch.next()).await.expect("an event").expect("no end");
        if event.lease.is_some_and(|lease| lease.lease_id == id) {
            kinds.push(event.kind);
        }
    }
    assert_eq!(kinds, [api::EventKind::Granted, api::EventKind::Released]);
}
