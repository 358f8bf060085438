//! The examples run, against the real daemon, and do what they claim.

#[path = "../../examples/bundle.rs"]
#[expect(dead_code, reason = "an example has a main of its own")]
mod bundle;
#[path = "../../examples/fenced_writer.rs"]
#[expect(dead_code, reason = "an example has a main of its own")]
mod fenced_writer;
#[path = "../../examples/leader_election.rs"]
#[expect(dead_code, reason = "an example has a main of its own")]
mod leader_election;
#[path = "../../examples/mutex.rs"]
#[expect(dead_code, reason = "an example has a main of its own")]
mod mutex;
#[path = "../../examples/pool_of_slots.rs"]
#[expect(dead_code, reason = "an example has a main of its own")]
mod pool_of_slots;
#[path = "../../examples/register.rs"]
#[expect(dead_code, reason = "an example has a main of its own")]
mod register;
#[path = "../../examples/slot_session.rs"]
#[expect(dead_code, reason = "an example has a main of its own")]
mod slot_session;

use crate::daemon::{Daemon, soon, wait_until};
use std::fs;
use tenure_client::api;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_mutex_loses_no_count() {
    let daemon = Daemon::start().await;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("count");
    fs::write(&file, "0").expect("a file");
    let (one, other) = (daemon.client(), daemon.client());
    let (first, second) = tokio::join!(mutex::count(&one, &file, 10), mutex::count(&other, &file, 10));
    first.and(second).expect("counted");
    assert_eq!(fs::read_to_string(&file).expect("a number"), "20");
}

#[tokio::test]
async fn philosophers_with_bundles_all_eat() {
    let daemon = Daemon::start().await;
    assert_eq!(soon("dinner", bundle::dine(&daemon.client(), 5, 6)).await.expect("eaten"), 30);
}

#[tokio::test]
async fn leaders_follow_one_another_and_their_fences_rise() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let (step_down, never) = (CancellationToken::new(), CancellationToken::new());
    let first = tokio::spawn({
        let (client, step_down) = (client.clone(), step_down.clone());
        async move { leader_election::stand(&client, "ada", step_down).await }
    });
    let leads = |name: &'static str| {
        let client = client.clone();
        move || {
            let client = client.clone();
            async move { leader_election::leader(&client).await.expect("an answer").as_deref() == Some(name) }
        }
    };
    wait_until("ada to lead", leads("ada")).await;
    let second = tokio::spawn({
        let client = client.clone();
        async move { leader_election::stand(&client, "grace", never).await }
    });
    let waits = || async { client.status().await.expect("a status").waiters == 1 };
    wait_until("grace to wait", waits).await;
    step_down.cancel();
    let ada = soon("the end of the term", first).await.expect("no panic").expect("a term");
    assert!(!ada.lost);
    wait_until("grace to lead", leads("grace")).await;
    let lease = client.resource("example/leader").await.expect("a resource").lease_id.expect("a lease");
    client.revoke(&lease, &api::OperatorCall::default()).await.expect("revoked");
    let grace = soon("the end of the term", second).await.expect("no panic").expect("a term");
    assert!(grace.lost);
    assert!(grace.fence > ada.fence);
}

#[tokio::test]
async fn a_fenced_store_refuses_a_holder_of_the_past() {
    let daemon = Daemon::start().await;
    let (late, entry) = fenced_writer::run(&daemon.client()).await.expect("written");
    assert!(late.is_err());
    assert_eq!(entry, "by the second");
}

#[tokio::test]
async fn a_pool_admits_no_more_than_its_size() {
    let daemon = Daemon::start().await;
    let most = pool_of_slots::work(&daemon.client(), 3, 12).await.expect("worked");
    assert!((1..=3).contains(&most), "{most}");
}

#[tokio::test]
async fn a_service_is_found_while_it_serves() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let mut found = Vec::new();
    let serving = async { found = register::others(&client).await.expect("a list") };
    let end = register::advertise_while(&client, "App", 8080, serving).await.expect("advertised");
    assert_eq!(end, None);
    let names: Vec<&str> = found.iter().map(|service| service.name.as_str()).collect();
    assert_eq!(names, ["App"]);
    assert_eq!(client.registrations().await.expect("a list").len(), 0);
}

#[tokio::test]
async fn a_slot_is_held_while_somebody_watches() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    client.define_pool("tuner", 1).await.expect("a pool");
    let free = async || client.pools().await.expect("a list").pools[0].free;
    let watching = async { assert_eq!(free().await, 0) };
    let lost = slot_session::hold_slot_while(&client, "tuner", watching).await.expect("held");
    assert!(lost.is_none());
    assert_eq!(free().await, 1);
}
