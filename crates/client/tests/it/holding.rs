//! Guards over HTTP against the real daemon: renewed, at risk, lost, given back.

use crate::daemon::{Daemon, soon, wait_until};
use crate::proxy::Proxy;
use std::time::Duration;
use tenure_client::clock::BootInstant;
use tenure_client::{Client, Guard, GuardStatus, LossReason, ReleaseError, api};

const SECOND: Duration = Duration::from_secs(1);
/// As short as a busy machine allows.
const SHORT: Duration = Duration::from_secs(2);

async fn hold(client: &Client, ttl: Duration) -> Guard {
    client.hold(["r"]).ttl(ttl).grace(Duration::ZERO).acquire().await.expect("granted")
}

async fn holder_of(client: &Client, resource: &str) -> Option<String> {
    client.resource(resource).await.expect("a resource").lease_id
}

#[tokio::test]
async fn a_guard_renews_beyond_its_ttl_and_gives_back() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let guard = hold(&client, SHORT).await;
    let first = guard.state().valid_until.expect("a promise");
    let beyond = first.after(SHORT);
    let mut states = guard.watch();
    soon("renewals", states.wait_for(|state| state.valid_until > Some(beyond))).await.expect("a state");
    assert!(guard.is_held());
    assert!(guard.remaining().expect("a promise") <= SHORT);
    assert_eq!(guard.state().status, GuardStatus::Held);
    let token = guard.token();
    guard.release().await.expect("released");
    assert!(token.is_cancelled());
    assert_eq!(holder_of(&client, "r").await, None);
}

#[tokio::test]
async fn dropping_a_guard_gives_the_lease_back() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let guard = hold(&client, Duration::from_secs(60)).await;
    let (token, id) = (guard.token(), guard.lease_id().to_owned());
    drop(guard);
    assert!(token.is_cancelled());
    wait_until("the release", || async { holder_of(&client, "r").await.is_none() }).await;
    assert_eq!(client.lease(&id).await.expect("retained").reason.as_deref(), Some("explicit"));
}

#[tokio::test]
async fn a_frozen_daemon_loses_the_lease_before_its_promise_ends_and_for_ever() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    // So wide that a busy machine does not decide the outcome.
    let margin = 3 * SECOND;
    let guard = client
        .hold(["r"])
        .ttl(6 * SECOND)
        .grace(Duration::from_secs(30))
        .margin(margin)
        .acquire()
        .await
        .expect("granted");
    daemon.freeze();
    let until = guard.state().valid_until.expect("a promise");
    let mut states = guard.watch();
    let at_risk = states.wait_for(|state| state.status != GuardStatus::Held);
    assert_eq!(soon("risk", at_risk).await.expect("a state").status, GuardStatus::AtRisk);
    soon("the loss", guard.token().cancelled()).await;
    let fired = BootInstant::now();
    assert!(fired >= until, "validity was not used up");
    assert!(fired < until.after(margin), "the promise was over when the token fired");
    assert_eq!(guard.lost().await, LossReason::Unreachable);
    daemon.thaw();
    wait_until("the daemon's answers", || async { client.health().await.is_ok() }).await;
    assert!(!guard.is_held());
    assert_eq!(guard.remaining(), Some(Duration::ZERO));
    // The daemon would still honour it; the holder that stopped says so.
    let lost = guard.release().await.expect_err("it was lost before");
    assert!(matches!(lost, ReleaseError::Lost(LossReason::Unreachable)), "{lost:?}");
    assert_eq!(holder_of(&client, "r").await, None);
}

#[tokio::test]
async fn the_clock_is_believed_also_where_the_background_task_could_not_run() {
    let daemon = Daemon::start().await;
    let guard = hold(&daemon.client(), SECOND).await;
    let until = guard.state().valid_until.expect("a promise");
    // The only thread of this runtime does something else all the time.
    while BootInstant::now() < until {
        std::thread::yield_now();
    }
    assert!(!guard.token().is_cancelled(), "nobody could fire it");
    assert!(!guard.is_held());
    soon("the token", guard.token().cancelled()).await;
    assert_eq!(guard.lost().await, LossReason::Unreachable);
}

#[tokio::test]
async fn a_daemon_that_comes_back_in_time_costs_nothing() {
    let mut daemon = Daemon::start().await;
    let client = daemon.client();
    let guard = hold(&client, Duration::from_secs(15)).await;
    let before = guard.state().valid_until;
    daemon.kill();
    daemon.start_again().await;
    let mut states = guard.watch();
    soon("a renewal", states.wait_for(|state| state.valid_until > before)).await.expect("a state");
    assert_eq!(guard.state().status, GuardStatus::Held);
    guard.release().await.expect("released");
}

#[tokio::test]
async fn a_revoke_fires_the_token_and_the_word_that_work_stopped_frees_the_resource() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let guard = hold(&client, 3 * SECOND).await;
    let other = {
        let client = client.clone();
        tokio::spawn(async move { client.hold(["r"]).wait(Duration::from_secs(60)).acquire().await })
    };
    client.revoke(guard.lease_id(), &api::OperatorCall::default()).await.expect("revoked");
    soon("the loss", guard.token().cancelled()).await;
    assert_eq!(soon("the reason", guard.lost()).await, LossReason::Revoked("admin_force".to_owned()));
    assert_eq!(client.lease(guard.lease_id()).await.expect("a lease").state, api::State::Revoking);
    let fence = guard.fence();
    guard.stopped().await.expect("acknowledged");
    let next = soon("the next holder", other).await.expect("no panic").expect("granted");
    assert!(next.fence() > fence);
    next.release().await.expect("released");
}

#[tokio::test]
async fn a_release_that_finds_the_lease_revoked_acknowledges_instead() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let guard = hold(&client, Duration::from_secs(3_600)).await;
    client.revoke(guard.lease_id(), &api::OperatorCall::default()).await.expect("revoked");
    guard.stopped().await.expect("said");
    wait_until("the reclaim", || async { holder_of(&client, "r").await.is_none() }).await;
}

#[tokio::test]
async fn a_drain_is_shown_until_it_is_taken_back() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let guard = client.hold(["r"]).ttl(SHORT).acquire().await.expect("granted");
    let mut states = guard.watch();
    client.drain(guard.lease_id(), &api::OperatorCall::default()).await.expect("drained");
    soon("the drain", states.wait_for(|state| state.draining)).await.expect("a state");
    assert!(guard.is_held());
    client.revive(guard.lease_id(), &api::OperatorCall::default()).await.expect("revived");
    soon("the revive", states.wait_for(|state| !state.draining)).await.expect("a state");
    guard.release().await.expect("released");
}

#[tokio::test]
async fn a_new_epoch_supersedes_the_guard() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let guard = hold(&client, SHORT).await;
    let rebind = api::Rebind {
        epoch: guard.epoch(),
        holder: Some("you".to_owned()),
        session: None,
        attachment: None,
        operation_id: None,
    };
    let rebound = client.rebind(guard.lease_id(), &rebind).await.expect("rebound");
    soon("the loss", guard.token().cancelled()).await;
    assert_eq!(guard.lost().await, LossReason::Superseded { current: Some(rebound.epoch) });
    guard.stopped().await.expect("nothing to say");
    let now = client.lease(&rebound.lease_id).await.expect("a lease");
    assert_eq!((now.state, now.holder.as_str()), (api::State::Active, "you"));
}

#[tokio::test]
async fn the_longest_lifetime_ends_a_lease_that_is_renewed() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let guard = client
        .hold(["r"])
        .ttl(SECOND)
        .max_lifetime(Duration::from_millis(1_500))
        .acquire()
        .await
        .expect("granted");
    let until = BootInstant::now().after(Duration::from_millis(1_500));
    soon("the end", guard.token().cancelled()).await;
    assert!(guard.state().valid_until < Some(until), "validity reached beyond the lifetime");
    assert!(matches!(guard.lost().await, LossReason::Unreachable | LossReason::Expired(_)));
}

#[tokio::test]
async fn whoever_waited_longer_than_its_ttl_is_renewed_before_it_holds() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let first = hold(&client, Duration::from_secs(60)).await;
    let waiting = {
        let client = client.clone();
        tokio::spawn(
            async move { client.hold(["r"]).ttl(SECOND).wait(Duration::from_secs(60)).acquire().await },
        )
    };
    let waits = || async { client.status().await.expect("a status").waiters == 1 };
    wait_until("the waiter", waits).await;
    // What was promised from before it asked is over at this instant.
    let over = BootInstant::now().after(SECOND);
    wait_until("a wait longer than the ttl", || async { BootInstant::now() > over }).await;
    first.release().await.expect("released");
    let guard = soon("the grant", waiting).await.expect("no panic").expect("granted");
    assert!(guard.state().valid_until > Some(over));
}

#[tokio::test]
async fn a_grant_whose_answer_was_lost_is_found_again_and_renewed_before_it_is_held() {
    let daemon = Daemon::start().await;
    let proxy = Proxy::before(daemon.socket()).await;
    let client = proxy.client();
    proxy.lose_answers(2);
    let guard = hold(&client, 30 * SECOND).await;
    assert_eq!(proxy.answers_to_lose(), 0);
    assert!(guard.lease().replayed, "it was granted at the first try");
    let listed = daemon.client().leases(&api::LeaseQuery::default()).await.expect("a list");
    assert_eq!(listed.leases.len(), 1, "no second lease");
    // The answer to a release may be lost as well.
    proxy.lose_answers(1);
    guard.release().await.expect("released at the second try");
    assert_eq!(holder_of(&daemon.client(), "r").await, None);
}

#[tokio::test]
async fn what_is_held_is_refused_at_once_or_after_the_wait() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let guard = hold(&client, Duration::from_secs(60)).await;
    let refused = client.hold(["r"]).acquire().await.expect_err("held");
    assert_eq!(refused.code(), Some(api::ErrorCode::ResourceHeld));
    let refused = client.hold(["r"]).wait(Duration::from_millis(50)).acquire().await.expect_err("held");
    assert_eq!(refused.code(), Some(api::ErrorCode::WaitTimeout));
    guard.release().await.expect("released");
}

#[tokio::test]
async fn a_waiter_survives_a_restart_of_the_daemon() {
    let mut daemon = Daemon::start().await;
    let client = daemon.client();
    let guard = hold(&client, Duration::from_secs(15)).await;
    let waiting = {
        let client = client.clone();
        tokio::spawn(async move { client.hold(["r"]).wait(Duration::from_secs(60)).acquire().await })
    };
    let waits = || async { client.status().await.is_ok_and(|status| status.waiters == 1) };
    wait_until("the waiter", waits).await;
    daemon.kill();
    daemon.start_again().await;
    wait_until("the waiter again", waits).await;
    guard.release().await.expect("released");
    soon("the grant", waiting).await.expect("no panic").expect("granted").release().await.expect("released");
}

#[tokio::test]
async fn a_lease_that_is_held_already_gets_a_guard() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let request = api::Acquire {
        resources: vec!["r".to_owned()],
        holder: "me".to_owned(),
        reserve_ms: Some(60_000),
        ..api::Acquire::default()
    };
    let reserved = client.acquire(&request).await.expect("reserved");
    assert!(client.guard(reserved.clone()).await.is_err(), "a reserved lease cannot be renewed");
    let call = api::HolderCall { epoch: reserved.epoch, ..api::HolderCall::default() };
    let active = client.activate(&reserved.lease_id, &call).await.expect("active");
    let guard = client.guard(active).await.expect("a guard");
    assert!(guard.is_held());
    guard.release().await.expect("released");
    assert_eq!(holder_of(&client, "r").await, None);
}
