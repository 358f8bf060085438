//! Registrations against the real daemon: every call, and a keeper over everything that can happen to it.

use crate::daemon::{Daemon, soon, wait_until};
use crate::proxy::Proxy;
use serde_json::Value;
use std::fs;
use std::time::Duration;
use tenure_client::api::{self, DiscoveryEventKind, ErrorCode, Liveness, Mode, Register};
use tenure_client::{CallError, Client, RegistrationEnd, RegistrationKeeper, RegistrationStatus};

const SECOND: Duration = Duration::from_secs(1);
/// As short as a busy machine allows.
const SHORT_SECS: u64 = 3;

fn service(name: &str, lease: Option<u64>) -> Register {
    Register {
        name: name.to_owned(),
        service_type: "http".to_owned(),
        port: 8080,
        lease,
        ..Register::default()
    }
}

async fn keep(client: &Client, name: &str) -> RegistrationKeeper {
    client.keep_registration(&service(name, Some(SHORT_SECS))).await.expect("registered")
}

async fn is_registered(client: &Client, id: &str) -> bool {
    match client.registration(id).await {
        Ok(_) => true,
        Err(error) if error.code() == Some(ErrorCode::NotFound) => false,
        Err(error) => panic!("{error}"),
    }
}

async fn last_seen(client: &Client, id: &str) -> Option<String> {
    client.registration(id).await.expect("a registration").last_seen
}

/// Waits until the daemon heard of the registrant so many times.
async fn wait_for_heartbeats(client: &Client, id: &str, count: usize) {
    for _ in 0..count {
        let before = last_seen(client, id).await;
        wait_until("a heartbeat", || async { last_seen(client, id).await != before }).await;
    }
}

#[tokio::test]
async fn every_call_once() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let mut asked = service("Büro & Co. 1/2", None);
    asked.txt = [("path".to_owned(), Some("/".to_owned())), ("flag".to_owned(), None)].into();
    let registered = client.register(&asked).await.expect("registered");
    let id = registered.id.as_str();
    assert_eq!((registered.mode, registered.lease, registered.epoch), (Mode::Heartbeat, 90, 1));
    let renewed = client.heartbeat_registration(id, Some(1)).await.expect("renewed");
    assert_eq!((renewed.renewed.as_str(), renewed.lease, renewed.draining), (id, 90, false));
    client.heartbeat_registration(id, None).await.expect("renewed without an epoch");
    let stale = client.heartbeat_registration(id, Some(7)).await.expect_err("another's epoch");
    assert_eq!(stale.code(), Some(ErrorCode::StaleEpoch));
    let resolved = client.resolve("Büro & Co. 1/2._http._tcp.local").await.expect("resolved");
    assert_eq!((resolved.port, resolved.txt), (Some(8080), asked.txt.clone()));
    let listed = client.registrations().await.expect("a list");
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].name, asked.name);
    let inspected = client.registration(&id[..4]).await.expect("by the beginning of its id");
    assert_eq!((inspected.id.as_str(), inspected.state), (id, Liveness::Alive));
    let status = client.registration_status().await.expect("a status");
    assert_eq!((status.registrations.alive, status.registrations.total), (1, 1));
    assert_eq!(client.drain_registration(id).await.expect("drained").drained, id);
    let again = client.drain_registration(id).await.expect_err("it drains");
    assert_eq!(again.code(), Some(ErrorCode::AlreadyDraining));
    assert_eq!(client.revive_registration(id).await.expect("revived").revived, id);
    assert_eq!(client.unregister(id).await.expect("unregistered").unregistered, id);
    wait_until("the reason of the end", || async {
        let gone = client.unregister(id).await.expect_err("it has ended");
        let CallError::Rejected(error) = &gone else { panic!("{gone}") };
        assert_eq!(error.code, ErrorCode::NotFound);
        error.details.get("reason") == Some(&Value::from("explicit"))
    })
    .await;
    let other = client.register(&asked).await.expect("registered");
    assert_eq!(client.end_registration(&other.id).await.expect("ended").unregistered, other.id);
    let odd = client.registration("a/b?c=d#é").await.expect_err("no such id");
    assert_eq!(odd.code(), Some(ErrorCode::NotFound));
}

#[tokio::test]
async fn an_operation_registers_once_however_often_it_is_asked() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let asked = Register { operation_id: Some("once".to_owned()), ..service("App", None) };
    let first = client.register(&asked).await.expect("registered");
    let again = client.register(&asked).await.expect("replayed");
    assert_eq!((first.id, first.advertised_name), (again.id, again.advertised_name));
    assert_eq!(client.registrations().await.expect("a list").len(), 1);
}

#[tokio::test]
async fn an_answer_that_is_lost_does_not_register_twice() {
    let daemon = Daemon::start().await;
    let proxy = Proxy::before(daemon.socket()).await;
    proxy.lose_answers(2);
    let keeper = keep(&proxy.client(), "App").await;
    assert_eq!(proxy.answers_to_lose(), 0);
    let listed = daemon.client().registrations().await.expect("a list");
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].id, keeper.registration().id);
}

#[tokio::test]
async fn what_cannot_be_registered_is_refused_at_once() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let wrong = Register { service_type: "no such thing".to_owned(), ..service("App", None) };
    let error = client.keep_registration(&wrong).await.expect_err("no type");
    assert_eq!(error.code(), Some(ErrorCode::InvalidType));
    drop(daemon);
    let nobody = soon("a refusal", client.keep_registration(&service("App", None))).await;
    assert!(matches!(nobody, Err(CallError::Unreachable { .. })), "{nobody:?}");
}

#[tokio::test]
async fn a_registration_is_kept_beyond_its_lease_and_ends_with_its_keeper() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let keeper = keep(&client, "App").await;
    let id = keeper.registration().id;
    wait_for_heartbeats(&client, &id, 5).await;
    assert_eq!(keeper.state().status, RegistrationStatus::Registered);
    keeper.unregister().await.expect("unregistered");
    assert!(!is_registered(&client, &id).await);
}

#[tokio::test]
async fn dropping_a_keeper_unregisters() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let keeper = keep(&client, "App").await;
    let id = keeper.registration().id;
    drop(keeper);
    wait_until("the end", || async { !is_registered(&client, &id).await }).await;
}

#[tokio::test]
async fn a_restarted_daemon_goes_on_with_it() {
    let mut daemon = Daemon::start().await;
    let client = daemon.client();
    let keeper = keep(&client, "App").await;
    let before = keeper.registration();
    let mut states = keeper.watch();
    daemon.kill();
    let unheard = states.wait_for(|state| state.status == RegistrationStatus::Unconfirmed);
    soon("silence", unheard).await.expect("a state");
    daemon.start_again().await;
    soon("an answer", states.wait_for(|state| state.status == RegistrationStatus::Registered))
        .await
        .expect("a state");
    assert_eq!(keeper.registration(), before);
    assert!(is_registered(&client, &before.id).await);
}

#[tokio::test]
async fn a_daemon_that_forgot_it_is_told_again() {
    let mut daemon = Daemon::start().await;
    let client = daemon.client();
    let keeper = keep(&client, "App").await;
    let before = keeper.registration();
    let mut states = keeper.watch();
    daemon.kill();
    let data = daemon.socket().parent().expect("a directory").join("data");
    fs::remove_dir_all(data).expect("removed");
    daemon.start_again().await;
    let again = states.wait_for(|state| {
        state.status == RegistrationStatus::Registered && state.registration.id != before.id
    });
    soon("a new registration", again).await.expect("a state");
    let listed = client.registrations().await.expect("a list");
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].id, keeper.registration().id);
    keeper.unregister().await.expect("unregistered");
    assert_eq!(client.registrations().await.expect("a list").len(), 0);
}

#[tokio::test]
async fn what_an_operator_ends_stays_ended() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let keeper = keep(&client, "App").await;
    client.end_registration(&keeper.registration().id).await.expect("ended");
    let end = soon("the end", keeper.ended()).await;
    assert_eq!(end, RegistrationEnd::Removed { reason: "admin_force".to_owned() });
    keeper.unregister().await.expect("nothing is left to do");
    assert_eq!(client.registrations().await.expect("a list").len(), 0);
}

#[tokio::test]
async fn a_drain_is_told_and_a_revival_too() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let keeper = keep(&client, "App").await;
    let id = keeper.registration().id;
    let mut states = keeper.watch();
    client.drain_registration(&id).await.expect("drained");
    soon("word of it", states.wait_for(|state| state.registration.draining)).await.expect("a state");
    client.revive_registration(&id).await.expect("revived");
    soon("word of it", states.wait_for(|state| !state.registration.draining)).await.expect("a state");
}

#[tokio::test]
async fn one_that_was_taken_over_is_left_to_the_other() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    // So long that it does not hear of the other before it leaves.
    let patient = client.keep_registration(&service("App", Some(3_600))).await.expect("registered");
    let id = patient.registration().id;
    client.drain_registration(&id).await.expect("drained");
    let quick = keep(&client, "App").await;
    assert_eq!(quick.registration().id, id);
    patient.unregister().await.expect("it is another's");
    assert!(is_registered(&client, &id).await);
    // The next registrant takes over a registration that an operator drained.
    let third = client.register(&service("App", None)).await.expect("registered");
    assert_eq!(third.id, id);
    let end = soon("the end", quick.ended()).await;
    assert_eq!(end, RegistrationEnd::TakenOver { current: Some(third.epoch) });
    quick.unregister().await.expect("it is another's");
    assert!(is_registered(&client, &id).await);
}

#[tokio::test]
async fn heartbeats_go_on_after_answers_that_never_came() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let proxy = Proxy::before(daemon.socket()).await;
    let keeper = keep(&proxy.client(), "App").await;
    let id = keeper.registration().id;
    let mut states = keeper.watch();
    proxy.lose_answers(6);
    let unheard = states.wait_for(|state| state.status == RegistrationStatus::Unconfirmed);
    soon("silence", unheard).await.expect("a state");
    soon("an answer", states.wait_for(|state| state.status == RegistrationStatus::Registered))
        .await
        .expect("a state");
    wait_for_heartbeats(&client, &id, 2).await;
}

#[tokio::test]
async fn a_permanent_one_needs_no_heartbeats_and_ends_with_its_keeper_all_the_same() {
    let mut daemon = Daemon::start().await;
    let client = daemon.client();
    let keeper = client.keep_registration(&service("App", Some(0))).await.expect("registered");
    let registration = keeper.registration();
    assert_eq!((registration.mode, registration.lease), (Mode::Permanent, 0));
    daemon.kill();
    daemon.start_again().await;
    assert!(is_registered(&client, &registration.id).await);
    keeper.unregister().await.expect("unregistered");
    assert!(!is_registered(&client, &registration.id).await);
}

#[tokio::test]
async fn a_browse_tells_what_is_there_whole_and_ends_after_a_while_without_news() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let registered = client.register(&service("App", None)).await.expect("registered");
    let mut browse = client.browse(Some("_http._tcp"), SECOND).await.expect("a stream");
    let seen = soon("a discovery event", browse.next()).await.expect("a discovery event").expect("one");
    let api::Browsed::Found { found } = seen else { panic!("{seen:?}") };
    assert_eq!((found.name.as_str(), found.port), ("App", Some(8080)));
    client.unregister(&registered.id).await.expect("unregistered");
    let seen = soon("a discovery event", browse.next()).await.expect("a discovery event").expect("one");
    let api::Browsed::Seen(gone) = seen else { panic!("{seen:?}") };
    assert_eq!((gone.event, gone.service.name.as_str()), (DiscoveryEventKind::Removed, "App"));
    assert_eq!(soon("the end", browse.next()).await.expect("the end"), None);
    let mut types = client.browse(None, Duration::from_millis(300)).await.expect("a stream");
    assert_eq!(soon("the end", types.next()).await.expect("the end"), None);
    let wrong = client.browse(Some("no type at all"), SECOND).await.expect_err("no type");
    assert_eq!(wrong.code(), Some(ErrorCode::InvalidType));
}

#[tokio::test]
async fn a_subscription_tells_every_step_and_that_the_daemon_stops() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    client.register(&service("App", None)).await.expect("registered");
    let mut events = client.subscribe(Some("http"), Duration::ZERO).await.expect("a stream");
    for kind in [DiscoveryEventKind::Found, DiscoveryEventKind::Resolved] {
        let seen = soon("a discovery event", events.next()).await.expect("a discovery event").expect("one");
        assert_eq!((seen.event, seen.service.name.as_str()), (kind, "App"));
    }
    client.shut_down(&api::ShutDown::default()).await.expect("told");
    let end = soon("the end", events.next()).await.expect_err("the daemon stops");
    assert_eq!(end.code(), Some(ErrorCode::ShuttingDown));
}

#[tokio::test]
async fn what_nobody_answers_for_is_given_up_after_a_while() {
    let daemon = Daemon::start().await;
    let error = soon("an answer", daemon.client().resolve("Nobody._http._tcp.local")).await;
    assert_eq!(error.expect_err("nobody").code(), Some(ErrorCode::ResolveTimeout));
}

#[tokio::test]
async fn health_is_told_quickly_or_not_at_all() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    wait_until("health", || async { client.health().await.is_ok() }).await;
    daemon.freeze();
    // A signal takes a moment to reach all threads.
    wait_until("silence", || async { matches!(client.health().await, Err(CallError::TimedOut { .. })) })
        .await;
    daemon.thaw();
}
