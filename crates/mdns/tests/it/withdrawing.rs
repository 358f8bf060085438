//! Goodbyes on loopback: that they leave, twice, whatever the circumstances.

use tenure_mdns::{Goodbye, Service};

use crate::loopback::{
    free_port, http, service, start, wait_advertised, wait_removed, wait_resolved, wait_until,
};
use crate::observer::Observer;

#[tokio::test]
async fn a_goodbye_and_its_repeat_have_left_when_a_withdrawal_resolves() {
    let port = free_port();
    let (observer, ours, theirs) = (Observer::new(port), start(port), start(port));
    let mut browse = theirs.browse(http());
    ours.advertise(1, service("stone", 1));
    wait_resolved(&mut browse, "stone").await;
    assert_eq!(ours.withdraw(1, service("stone", 1)).await, Goodbye::Sent);
    wait_until("both", || observer.goodbyes("stone") == 2).await;
    wait_removed(&mut browse, "stone").await;
    assert_eq!(ours.health().goodbyes_sent, 1);
    assert_eq!(ours.standing(1), tenure_mdns::Standing::default());
}

#[tokio::test]
async fn what_an_earlier_process_announced_is_withdrawn_without_being_announced_again() {
    let port = free_port();
    let (observer, theirs) = (Observer::new(port), start(port));
    let mut browse = theirs.browse(http());
    let ghost = service("Ghost.1", 1);
    wait_until("a query", || observer.asked("_http")).await;
    observer.announce(&ghost.name, &ghost.host, ghost.port);
    wait_resolved(&mut browse, "Ghost.1").await;
    let later = start(port);
    assert_eq!(later.withdraw(1, ghost).await, Goodbye::Sent);
    wait_removed(&mut browse, "Ghost.1").await;
    wait_until("both goodbyes", || observer.goodbyes("Ghost.1") == 2).await;
    assert_eq!(observer.announcements("Ghost.1"), 1, "only the forged one");
}

#[tokio::test]
async fn registering_and_withdrawing_in_quick_succession_leaves_nothing() {
    let port = free_port();
    let (observer, ours, theirs) = (Observer::new(port), start(port), start(port));
    for number in 0..4 {
        let name = format!("brief {number}");
        ours.advertise(number, service(&name, 1));
        let goodbye = ours.withdraw(number, service(&name, 1)).await;
        assert_eq!(goodbye, Goodbye::Sent);
    }
    // Withdrawn while it is being probed for.
    ours.advertise(99, service("probed", 1));
    wait_until("a probe", || observer.probes("probed") > 0).await;
    assert_eq!(ours.withdraw(99, service("probed", 1)).await, Goodbye::Sent);
    wait_until("its goodbyes", || observer.goodbyes("probed") == 2).await;
    // One that stays shows that the browse works.
    ours.advertise(100, service("stays", 1));
    wait_advertised(&ours, 100).await;
    let mut browse = theirs.browse(http());
    let first = browse.next().await;
    assert!(
        matches!(first, Some(tenure_mdns::Sighting::Found { ref name, .. }) if name == "stays"),
        "{first:?}"
    );
}

#[tokio::test]
async fn a_service_that_comes_back_at_once_is_not_withdrawn_by_the_repeat() {
    let port = free_port();
    let (observer, ours, theirs) = (Observer::new(port), start(port), start(port));
    let mut browse = theirs.browse(http());
    ours.advertise(1, service("back", 1));
    wait_resolved(&mut browse, "back").await;
    let gone = ours.withdraw(1, service("back", 1));
    ours.advertise(2, Service { port: 2, ..service("back", 1) });
    assert_eq!(gone.await, Goodbye::Sent);
    while wait_resolved(&mut browse, "back").await.port != Some(2) {}
    wait_advertised(&ours, 2).await;
    assert_eq!(observer.goodbyes("back"), 2);
    let last = observer.heard().into_iter().rev().find(|heard| heard.name.starts_with("back._http"));
    assert!(last.is_some_and(|heard| heard.ttl > 0));
}

#[tokio::test]
async fn a_withdrawal_goes_on_when_nobody_waits_for_it() {
    let port = free_port();
    let (observer, ours) = (Observer::new(port), start(port));
    ours.advertise(1, service("left", 1));
    wait_advertised(&ours, 1).await;
    drop(ours.withdraw(1, service("left", 1)));
    wait_until("both goodbyes", || observer.goodbyes("left") == 2).await;
}

#[tokio::test]
async fn closing_withdraws_everything_twice_and_ends_all_browses() {
    let port = free_port();
    let (observer, ours) = (Observer::new(port), start(port));
    let mut browse = ours.browse(http());
    for key in 1..=40 {
        ours.advertise(key, service(&format!("many {key}"), 1));
    }
    for key in 1..=40 {
        wait_advertised(&ours, key).await;
    }
    let mut answers = ours.close().await;
    answers.sort_unstable_by_key(|(key, _)| *key);
    assert_eq!(answers.len(), 40);
    assert!(answers.iter().all(|(_, goodbye)| *goodbye == Goodbye::Sent), "{answers:?}");
    wait_until("all goodbyes", || (1..=40).all(|key| observer.goodbyes(&format!("many {key}")) == 2)).await;
    wait_until_none(&mut browse).await;
    drop(browse);
    assert!(matches!(ours.withdraw(1, service("many 1", 1)).await, Goodbye::Unsent(_)));
    assert_eq!(ours.browse(http()).next().await, None);
    assert_eq!(ours.close().await, []);
}

async fn wait_until_none(browse: &mut tenure_mdns::Browse) {
    let end = async { while browse.next().await.is_some() {} };
    tokio::time::timeout(crate::loopback::LIMIT, end).await.expect("the browse ends");
}

#[tokio::test]
async fn a_thousand_withdrawals_at_once_are_a_thousand_goodbyes() {
    let port = free_port();
    let (observer, ours) = (Observer::new(port), start(port));
    let named = |key: u128| service(&format!("Mass {key}"), u16::try_from(key).unwrap());
    for key in 1..=1_000 {
        ours.advertise(key, named(key));
    }
    for key in 1..=1_000 {
        wait_advertised(&ours, key).await;
    }
    let withdrawals: Vec<_> = (1..=1_000).map(|key| ours.withdraw(key, named(key))).collect();
    for (number, withdrawal) in withdrawals.into_iter().enumerate() {
        assert_eq!(withdrawal.await, Goodbye::Sent, "{number}");
    }
    assert_eq!(ours.health().goodbyes_sent, 1_000);
    for key in 1..=1_000 {
        wait_until(&format!("goodbyes for {key}"), || observer.goodbyes(&format!("Mass {key}")) == 2).await;
    }
}
