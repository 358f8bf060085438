//! A Redis that forgets, restarts, or drops those who listen.

use super::Poller;
use crate::redis_server::RedisServer;
use crate::waiting::{soon, wait_until};
use std::time::Duration;
use tenure_client::clock::BootInstant;
use tenure_polling::store::{Membership, RedisOptions, RedisStore, Store, StoreError};
use tokio::net::TcpListener;

#[tokio::test]
async fn after_a_flush_the_membership_is_over_and_fences_still_rise() {
    let server = RedisServer::start().await;
    let (poller, other) = (Poller::join(&server).await, Poller::join(&server).await);
    let lease = poller.acquire("t").await;
    server.cli(&["FLUSHALL"]);
    let renewed = poller.store.renew(std::slice::from_ref(&lease)).await;
    assert!(matches!(renewed, Err(StoreError::NotMember(_))), "{renewed:?}");
    let acquired = other.try_acquire("t").await;
    assert!(
        matches!(acquired, Err(StoreError::NotMember(_))),
        "who is no member takes nothing: {acquired:?}"
    );
    poller.store.join(&poller.membership).await.expect("joins again");
    other.store.join(&other.membership).await.expect("joins again");
    let renewal = poller.store.renew(std::slice::from_ref(&lease)).await.expect("renewed");
    assert_eq!(renewal.lost.iter().map(|loss| loss.fence).collect::<Vec<_>>(), [lease.fence]);
    assert!(other.acquire("t").await.fence > lease.fence);
}

#[tokio::test]
async fn after_a_restart_everything_goes_on_by_itself() {
    let mut server = RedisServer::start().await;
    let (poller, other) = (Poller::join(&server).await, Poller::join(&server).await);
    let lease = poller.acquire("t").await;
    server.kill();
    let renewed = poller.store.renew(std::slice::from_ref(&lease)).await;
    assert!(matches!(renewed, Err(StoreError::Unreachable(_))), "{renewed:?}");
    server.start_again().await;
    // Scripts are forgotten too: they are sent anew.
    let renewed = poller.store.renew(std::slice::from_ref(&lease)).await;
    assert!(matches!(renewed, Err(StoreError::NotMember(_))), "{renewed:?}");
    poller.store.join(&poller.membership).await.expect("joins again");
    // It was connected before the restart and had nothing to say since: nobody hears of that.
    other.store.join(&other.membership).await.expect("joins again");
    assert!(other.acquire("t").await.fence > lease.fence);
    // What is said is heard again, by itself.
    wait_until("both listen", async || listeners(&server) == 2).await;
    poller.view(&[]).await;
    let hearing = tokio::spawn({
        let store = poller.store.clone();
        async move { store.changed().await }
    });
    other.acquire("u").await;
    soon("news of the other", hearing).await.expect("no panic");
}

#[tokio::test]
async fn whoever_is_hung_up_on_listens_again() {
    let server = RedisServer::start().await;
    let (poller, other) = (Poller::join(&server).await, Poller::join(&server).await);
    wait_until("both listen", async || listeners(&server) == 2).await;
    server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    wait_until("both listen again", async || listeners(&server) == 2).await;
    poller.view(&[]).await;
    let hearing = tokio::spawn({
        let store = poller.store.clone();
        async move { store.changed().await }
    });
    other.acquire("t").await;
    soon("news of the other", hearing).await.expect("no panic");
}

#[tokio::test]
async fn scripts_that_redis_forgot_are_sent_again() {
    let server = RedisServer::start().await;
    let poller = Poller::join(&server).await;
    let lease = poller.acquire("t").await;
    server.cli(&["SCRIPT", "FLUSH"]);
    let renewal = poller.store.renew(&[lease]).await.expect("renewed");
    assert!(renewal.lost.is_empty());
    poller.store.renew(&[]).await.expect("renewed");
}

/// Frozen, or a listener that takes connections and says nothing.
#[tokio::test]
async fn whoever_never_answers_is_unreachable_within_the_limit() {
    let limit = Duration::from_millis(500);
    let server = RedisServer::start().await;
    let poller = Poller::join(&server).await;
    server.process().freeze();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let silent = format!("redis://{}", listener.local_addr().expect("an address"));
    for url in [server.url(), silent] {
        let options = RedisOptions { call_timeout: limit, ..RedisOptions::new(url) };
        let store = RedisStore::open(&options).expect("a store");
        let membership = Membership { call_timeout: limit, ..poller.membership.clone() };
        let begun = BootInstant::now();
        let answers = [
            store.observe(&["t".into()]).await.err(),
            store.group_view().await.err(),
            store.pin("t", None).await.err(),
            store.join(&membership).await.err(),
        ];
        for answer in answers {
            assert!(matches!(answer, Some(StoreError::Unreachable(_))), "{answer:?}");
        }
        let took = BootInstant::now().since(begun);
        assert!(took < limit * 8 + membership.join_timeout(), "four calls took {took:?}");
    }
    server.process().thaw();
    let store = poller.store.clone();
    wait_until("it answers again", async || store.renew(&[]).await.is_ok()).await;
}

/// A store that is gone takes its ear with it.
#[tokio::test]
async fn nobody_listens_for_a_store_that_is_gone() {
    let server = RedisServer::start().await;
    let poller = Poller::join(&server).await;
    wait_until("it listens", async || listeners(&server) == 1).await;
    drop(poller);
    wait_until("nobody listens", async || listeners(&server) == 0).await;
}

fn listeners(server: &RedisServer) -> usize {
    let answer = server.cli(&["PUBSUB", "NUMSUB", "poll:changed"]);
    answer.lines().nth(1).and_then(|count| count.parse().ok()).expect("a count")
}
