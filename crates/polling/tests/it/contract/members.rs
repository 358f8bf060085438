//! Who is a member.

use super::{Fixture, LASTING, Member, SHORT, has_passed, membership, named};
use crate::waiting::{soon, wait_until};
use std::time::Duration;
use tenure_api::PollerStatus;
use tenure_client::clock::BootInstant;
use tenure_polling::Instance;
use tenure_polling::store::{SeenMember, Store, StoreError};

pub(super) async fn who_joins_is_seen_by_others<F: Fixture>(fixture: F) {
    let first = Member::lasting(&fixture).await;
    let mut heavy = membership(named("kitchen"), LASTING);
    heavy.weight = 3;
    let second = Member::join(&fixture, heavy).await;
    for from in [&first, &second] {
        for to in [&first, &second] {
            let seen = from.finds(to).await;
            assert_eq!(seen.status, PollerStatus::Online);
            assert_eq!(seen.weight, to.membership.weight);
            assert!(seen.takes_handovers);
        }
    }
    let names: Vec<String> =
        first.view(&[]).await.members.iter().map(|member| member.instance.name().to_owned()).collect();
    let mut sorted = names.clone();
    sorted.sort();
    assert_eq!(names, sorted, "in order of name");
}

pub(super) async fn a_status_that_is_told_is_seen<F: Fixture>(fixture: F) {
    let (one, other) = (Member::lasting(&fixture).await, Member::lasting(&fixture).await);
    one.store.publish_status(PollerStatus::Leaving).await.expect("told");
    wait_until("the other sees it", async || {
        other.member(one.instance()).await.is_some_and(|member| member.status == PollerStatus::Leaving)
    })
    .await;
    // A renewal says nothing else.
    one.store.renew(&[]).await.expect("renewed");
    assert_eq!(other.finds(&one).await.status, PollerStatus::Leaving);
}

pub(super) async fn a_name_whose_poller_lives_is_refused<F: Fixture>(fixture: F) {
    let first = Member::join(&fixture, membership(named("kitchen"), SHORT * 2)).await;
    let second = fixture.store();
    let wish = membership(named("kitchen"), SHORT * 2);
    let joining = second.join(&wish);
    let renewing = async {
        loop {
            tokio::time::sleep(SHORT / 2).await;
            first.store.renew(&[]).await.expect("renewed");
        }
    };
    let joined = soon("the second is refused", async {
        tokio::select! {
            joined = joining => joined,
            () = renewing => unreachable!("it renews for ever"),
        }
    })
    .await;
    assert!(matches!(joined, Err(StoreError::NameTaken(_))), "{joined:?}");
    first.store.renew(&[]).await.expect("the first is a member as before");
    assert_eq!(first.finds(&first).await.status, PollerStatus::Online);
}

pub(super) async fn a_name_is_taken_over_when_its_poller_is_silent<F: Fixture>(fixture: F) {
    let ttl = SHORT * 4;
    let before = BootInstant::now();
    let first = Member::join(&fixture, membership(named("kitchen"), ttl)).await;
    let lease = first.acquire("t").await;
    let watcher = Member::lasting(&fixture).await;
    let second = fixture.store();
    let wish = membership(named("kitchen"), ttl);
    let is_counted = async {
        // There is always somebody by that name, but for a moment in which no target moves yet.
        let mut last_seen = BootInstant::now();
        loop {
            let members = watcher.view(&[]).await.members;
            if members.iter().any(|member| member.instance.name() == "kitchen") {
                last_seen = BootInstant::now();
            }
            assert!(!has_passed(last_seen.after(SHORT / 2)), "{members:?}");
            let is_it = |member: &SeenMember| member.instance == wish.instance;
            if members.iter().any(|member| is_it(member) && member.status == PollerStatus::Online) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let joined =
        soon("the second takes over", async { tokio::join!(second.join(&wish), is_counted).0 }).await;
    joined.expect("joins");
    assert!(BootInstant::now().since(before) >= ttl, "not before the first's time is over");
    let lost = first.store.renew(std::slice::from_ref(&lease)).await;
    assert!(matches!(lost, Err(StoreError::NotMember(_))), "{lost:?}");
    let refused = first.store.join(&first.membership).await;
    // The second does not renew: either it was waited for, or it is still there.
    assert!(matches!(refused, Ok(()) | Err(StoreError::NameTaken(_))), "{refused:?}");
}

pub(super) async fn whoever_is_silent_is_no_member_and_can_join_again<F: Fixture>(fixture: F) {
    let silent = Member::join(&fixture, membership(Instance::generate(), SHORT)).await;
    let watcher = Member::lasting(&fixture).await;
    watcher.finds(&silent).await;
    wait_until("it is not seen any more", async || watcher.member(silent.instance()).await.is_none()).await;
    let renewed = silent.store.renew(&[]).await;
    assert!(matches!(renewed, Err(StoreError::NotMember(_))), "{renewed:?}");
    silent.store.join(&silent.membership).await.expect("joins again");
    watcher.finds(&silent).await;
    silent.store.renew(&[]).await.expect("renewed");
}

pub(super) async fn a_poller_is_new_until_it_has_lived_for_a_ttl<F: Fixture>(fixture: F) {
    let watcher = Member::lasting(&fixture).await;
    let ttl = SHORT * 2;
    let before = BootInstant::now();
    let member = Member::join(&fixture, membership(Instance::generate(), ttl)).await;
    assert!(watcher.finds(&member).await.is_new);
    wait_until("it is not new any more", async || {
        member.store.renew(&[]).await.expect("renewed");
        member.store.publish_status(PollerStatus::Online).await.expect("told");
        !watcher.finds(&member).await.is_new
    })
    .await;
    assert!(has_passed(before.after(ttl)), "it had not lived for so long");
}

pub(super) async fn who_dies_is_counted_and_who_leaves_is_not<F: Fixture>(fixture: F) {
    let watcher = Member::lasting(&fixture).await;
    let leaving = Member::lasting(&fixture).await;
    watcher.finds(&leaving).await;
    leaving.store.leave(&[], None).await.expect("left");
    wait_until("it has left", async || watcher.member(leaving.instance()).await.is_none()).await;
    assert_eq!(watcher.view(&[]).await.deaths, 0);
    let dying = Member::join(&fixture, membership(Instance::generate(), SHORT)).await;
    watcher.finds(&dying).await;
    wait_until("it has died", async || watcher.member(dying.instance()).await.is_none()).await;
    assert_eq!(watcher.view(&[]).await.deaths, 1);
}

pub(super) async fn an_operators_words_are_seen<F: Fixture>(fixture: F) {
    let (one, other) = (Member::lasting(&fixture).await, Member::lasting(&fixture).await);
    other.finds(&one).await;
    other.acquire("t").await;
    let name = one.instance().name();
    fixture.pin("t", Some(name)).await;
    fixture.cordon(name, true).await;
    wait_until("both are seen", async || {
        let view = other.view(&["t"]).await;
        let is_cordoned =
            |seen: &SeenMember| seen.instance == *one.instance() && seen.status == PollerStatus::Cordoned;
        view.pins.get("t").is_some_and(|poller| poller == name) && view.members.iter().any(is_cordoned)
    })
    .await;
    fixture.pin("t", None).await;
    fixture.cordon(name, false).await;
    wait_until("both are gone", async || {
        let view = other.view(&["t"]).await;
        view.pins.is_empty() && view.members.iter().all(|member| member.status == PollerStatus::Online)
    })
    .await;
}
