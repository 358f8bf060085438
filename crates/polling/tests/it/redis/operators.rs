//! What people see of a group, and how they steer it.

use super::{Poller, membership};
use crate::redis_server::RedisServer;
use tenure_api::PollerStatus;
use tenure_polling::Instance;
use tenure_polling::store::{RedisOptions, RedisStore, Store, StoreError};

#[tokio::test]
async fn a_group_is_shown_without_joining_it() {
    let server = RedisServer::start().await;
    let (poller, other) = (Poller::join(&server).await, Poller::join(&server).await);
    let lease = poller.acquire("a").await;
    other.acquire("b").await;
    let operator = RedisStore::connect(&RedisOptions::new(server.url())).await.expect("a store");
    let view = operator.group_view().await.expect("a view");
    assert_eq!(view.members.len(), 2);
    let targets: Vec<&str> = view.owners.keys().map(|target| &**target).collect();
    assert_eq!(targets, ["a", "b"]);
    let owner = &view.owners["a"];
    assert_eq!((owner.instance.as_str(), owner.fence), (poller.instance(), Some(lease.fence)));
    assert!(
        owner.acquired_at.as_ref().is_some_and(|at| at.starts_with("20") && at.ends_with('Z')),
        "{owner:?}"
    );
    assert!(owner.renewed_at >= owner.acquired_at, "{owner:?}");
    let again = operator.group_view().await.expect("a view");
    assert_eq!(again.generation, view.generation, "nothing changed");
    other.acquire("c").await;
    assert!(operator.group_view().await.expect("a view").generation > view.generation);
    assert_eq!(server.cli(&["ZCARD", "poll:members"]), "2");
    server.cli(&["SET", "poll:node:old-1-2", "1", "PX", "30000"]);
    server.cli(&["SET", "poll:lease:d", "old-1-2", "PX", "30000"]);
    let view = operator.group_view().await.expect("a view");
    assert_eq!((view.members.len(), view.owners.len()), (3, 4), "older programs are shown");
    assert_eq!(poller.view(&[]).await.members.len(), 2, "pollers do not look for them");
}

#[tokio::test]
async fn an_operator_names_pollers_that_live() {
    let server = RedisServer::start().await;
    let poller = Poller::join(&server).await;
    let operator = RedisStore::open(&RedisOptions::new(server.url())).expect("a store");
    for refused in [operator.pin("t", Some("nobody")).await, operator.cordon("nobody", true).await] {
        let Err(StoreError::Rejected(why)) = refused else { panic!("{refused:?}") };
        assert!(why.contains(poller.instance()), "{why}");
    }
    operator.cordon(poller.instance(), true).await.expect("cordoned");
    operator.cordon(poller.instance(), true).await.expect("twice is once");
    let refused = operator.pin("t", Some(poller.instance())).await;
    assert!(matches!(refused, Err(StoreError::Rejected(_))), "a cordoned poller gets nothing: {refused:?}");
    let about = server.cli(&["HGET", "poll:cordons", poller.instance()]);
    assert!(about.contains("\"at_ms\":1") && about.contains("\"by\":"), "{about}");
    operator.cordon("nobody", false).await.expect("nothing to take back");
}

/// A name that was drawn does not come back.
#[tokio::test]
async fn what_was_said_of_a_drawn_name_ends_with_it() {
    let server = RedisServer::start().await;
    let (poller, other) = (Poller::join(&server).await, Poller::join(&server).await);
    let kitchen = membership(Instance::with_name("kitchen").expect("a name"));
    let fixed = RedisStore::open(&RedisOptions::new(server.url())).expect("a store");
    fixed.join(&kitchen).await.expect("joins");
    let operator = RedisStore::open(&RedisOptions::new(server.url())).expect("a store");
    for name in [poller.instance(), "kitchen"] {
        operator.pin(&format!("of {name}"), Some(name)).await.expect("pinned");
        operator.cordon(name, true).await.expect("cordoned");
    }
    poller.store.leave(&[], None).await.expect("left");
    fixed.leave(&[], None).await.expect("left");
    assert_eq!(server.cli(&["HKEYS", "poll:cordons"]), "kitchen");
    assert_eq!(server.cli(&["HKEYS", "poll:pins"]), "of kitchen");
    fixed.join(&kitchen).await.expect("joins");
    let view = other.view(&[]).await;
    let back = view.members.iter().find(|member| member.instance.name() == "kitchen").expect("seen");
    assert_eq!(back.status, PollerStatus::Cordoned);
}
