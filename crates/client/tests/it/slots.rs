//! Sessions of `/api/v3` against the real daemon: every call, and what is told of one.

use crate::daemon::{Daemon, soon};
use tenure_client::api::{
    ErrorCode, IntentStatus, SlotSessionEvent, SlotSessionQuery, SlotSessionStart, SlotSessionState,
};
use tenure_client::{CallError, Client};

async fn with_slots(slots: u32) -> (Daemon, Client) {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    client.define_pool("tuner", slots).await.expect("a pool");
    (daemon, client)
}

fn start(client: &str) -> SlotSessionStart {
    SlotSessionStart { client: Some(client.to_owned()), ..SlotSessionStart::default() }
}

fn code<T: std::fmt::Debug>(outcome: Result<T, CallError>) -> ErrorCode {
    outcome.expect_err("a refusal").code().expect("a code of the table")
}

#[tokio::test]
async fn a_session_goes_through_its_whole_life() {
    let (_daemon, client) = with_slots(2).await;
    let wish = SlotSessionStart {
        start_timeout: Some(60),
        service_ref: Some("channel 7".to_owned()),
        metadata: serde_json::json!({"a": 1}).as_object().cloned(),
        ..start("ada")
    };
    let session = client.start_slot_session(&wish, None).await.expect("started");
    let id = session.session_id.as_str();
    assert_eq!((session.state, session.status), (SlotSessionState::Starting, Some(IntentStatus::Accepted)));
    assert_eq!((session.service_ref, session.metadata), (wish.service_ref, wish.metadata));
    assert_eq!(client.activate_slot_session(id).await.expect("activated").state, SlotSessionState::Running);
    let renewed = client.heartbeat_slot_session(id, session.epoch).await.expect("renewed");
    assert!(renewed.acknowledged && renewed.session_id == id);
    assert_eq!(code(client.heartbeat_slot_session(id, Some(99)).await), ErrorCode::StaleEpoch);
    assert!(client.slot_session(id).await.expect("shown").last_heartbeat.is_some());
    let stopped = client.stop_slot_session(id).await.expect("stopped");
    assert_eq!((stopped.state, stopped.reason.as_deref()), (SlotSessionState::Stopped, Some("USER_STOPPED")));
    let late = client.heartbeat_slot_session(id, None).await.expect_err("over");
    assert_eq!((late.code(), late.lost(), late.is_definite()), (Some(ErrorCode::SessionGone), true, true));
    let unknown = client.slot_session("00000000-0000-4000-8000-000000000000").await.expect_err("none");
    assert_eq!((unknown.code(), unknown.lost()), (Some(ErrorCode::SessionNotFound), true));
}

#[tokio::test]
async fn a_full_pool_says_when_to_ask_again_and_who_waits_gets_the_next_slot() {
    let (_daemon, client) = with_slots(1).await;
    let first = client.start_slot_session(&start("ada"), None).await.expect("started");
    let refused = client.start_slot_session(&start("bob"), None).await.expect_err("full");
    assert_eq!(refused.code(), Some(ErrorCode::NoCapacity));
    assert!(refused.retry_after().is_some_and(|after| after.as_secs() <= 60), "{refused:?}");
    let CallError::Rejected(error) = refused else { panic!("a refusal") };
    assert_eq!((&error.details["pool"], &error.details["in_use"]), (&"tuner".into(), &1.into()));

    let queued = SlotSessionStart { wait: Some(60), ..start("bob") };
    let queued = client.start_slot_session(&queued, Some("once")).await.expect("queued");
    assert_eq!((queued.state, queued.queue_position), (SlotSessionState::New, Some(1)));
    let mut events = client.slot_session_events(&queued.session_id).await.expect("followed");
    let told =
        |outcome: Result<Option<(SlotSessionEvent, _)>, CallError>| outcome.expect("told").expect("news");
    assert_eq!(told(soon("a snapshot", events.next()).await).0, SlotSessionEvent::Snapshot);
    let failed = client.fail_slot_session(&first.session_id, "no signal").await.expect("failed");
    assert_eq!(
        (failed.state, failed.reason.as_deref()),
        (SlotSessionState::Failed, Some("FAILED:no signal"))
    );
    let (news, now) = told(soon("its slot", events.next()).await);
    assert_eq!(
        (news, now.state, now.resources),
        (SlotSessionEvent::State, SlotSessionState::Running, vec!["tuner/1".into()])
    );
    client.stop_slot_session(&now.session_id).await.expect("stopped");
    let (news, now) = told(soon("its end", events.next()).await);
    assert_eq!((news, now.reason.as_deref()), (SlotSessionEvent::State, Some("USER_STOPPED")));
    assert!(soon("the end of the news", events.next()).await.expect("told").is_none());
}

#[tokio::test]
async fn a_start_under_the_same_key_is_the_same_session() {
    let (_daemon, client) = with_slots(4).await;
    let first = client.start_slot_session(&start("ada"), Some("key")).await.expect("started");
    let again = client.start_slot_session(&start("ada"), Some("key")).await.expect("replayed");
    assert_eq!((again.session_id, again.status), (first.session_id, Some(IntentStatus::IdempotentReplay)));
    assert_eq!(
        code(client.start_slot_session(&start("bob"), Some("key")).await),
        ErrorCode::OperationConflict
    );
    client.start_slot_session(&start("ada"), None).await.expect("another");
    let query = SlotSessionQuery { state: Some(SlotSessionState::Running), ..SlotSessionQuery::default() };
    assert_eq!(client.slot_sessions(&query).await.expect("a list").sessions.len(), 2);
    let unsendable = client.start_slot_session(&start("ada"), Some("a\nb")).await;
    assert!(matches!(unsendable, Err(CallError::Unsendable(_))));
}

#[tokio::test]
async fn news_end_with_the_daemon() {
    let (mut daemon, client) = with_slots(1).await;
    let session = client.start_slot_session(&start("ada"), None).await.expect("started");
    let mut events = client.slot_session_events(&session.session_id).await.expect("followed");
    assert!(matches!(soon("a snapshot", events.next()).await, Ok(Some((SlotSessionEvent::Snapshot, _)))));
    daemon.kill();
    assert!(soon("the end", events.next()).await.is_err(), "a break is no end of the session");
    daemon.start_again().await;
    assert_eq!(
        client.slot_session(&session.session_id).await.expect("shown").state,
        SlotSessionState::Running
    );
}
