//! Leaving, for good and for a while.

use super::{Fixture, LASTING, Member, SHORT, has_passed, membership, named};
use crate::waiting::{soon, wait_until};
use tenure_api::PollerStatus;
use tenure_client::clock::BootInstant;
use tenure_polling::Instance;
use tenure_polling::store::{Outcome, Store, StoreError, Wanted};

pub(super) async fn who_leaves_is_forgotten_at_once<F: Fixture>(fixture: F) {
    let (leaver, other) = (Member::lasting(&fixture).await, Member::lasting(&fixture).await);
    let lease = leaver.acquire("t").await;
    wait_until("the hold is seen", async || other.sees_owner("t", Some(leaver.instance())).await).await;
    let listening = tokio::spawn({
        let store = other.store.clone();
        let leaver = leaver.instance().clone();
        async move {
            loop {
                store.changed().await;
                let view = store.observe(&["t".into()]).await.expect("a view");
                if view.owners.is_empty() && view.members.iter().all(|member| member.instance != leaver) {
                    return;
                }
            }
        }
    });
    leaver.store.leave(std::slice::from_ref(&lease), None).await.expect("left");
    soon("the other hears of it", listening).await.expect("no panic");
    assert!(other.acquire("t").await.fence > lease.fence);
    let renewed = leaver.store.renew(&[]).await;
    assert!(matches!(renewed, Err(StoreError::NotMember(_))), "{renewed:?}");
}

pub(super) async fn with_a_window_nobody_takes_what_was_left<F: Fixture>(fixture: F) {
    let leaver = Member::join(&fixture, membership(named("kitchen"), LASTING)).await;
    let other = Member::lasting(&fixture).await;
    let lease = leaver.acquire("t").await;
    leaver.store.leave(std::slice::from_ref(&lease), Some(LASTING)).await.expect("left");
    let absent = Instance::absent("kitchen");
    wait_until("the target is kept for the name", async || other.sees_owner("t", Some(&absent)).await).await;
    wait_until("the name is expected back", async || {
        other.member(&absent).await.is_some_and(|member| member.status == PollerStatus::Absent)
    })
    .await;
    assert_eq!(other.view(&[]).await.members.len(), 2, "nothing else is left of it");
    assert!(other.is_refused("t").await);
    let owner = other.owner("t").await.expect("a holder");
    assert!(other.store.adopt(&"t".into(), &owner).is_none());
}

pub(super) async fn whoever_comes_back_takes_back_what_it_left<F: Fixture>(fixture: F) {
    let leaver = Member::join(&fixture, membership(named("kitchen"), LASTING)).await;
    let other = Member::lasting(&fixture).await;
    let lease = leaver.acquire("t").await;
    leaver.store.leave(std::slice::from_ref(&lease), Some(LASTING)).await.expect("left");
    let returning = Member::join(&fixture, membership(named("kitchen"), LASTING));
    let back = tokio::time::timeout(LASTING / 4, returning).await.expect("at once");
    assert_ne!(back.instance(), leaver.instance());
    let mut reserved = None;
    wait_until("what was left is seen", async || {
        reserved = back.owner("t").await.filter(|owner| owner.instance.is_absent());
        reserved.is_some()
    })
    .await;
    let wanted = Wanted { target: "t".into(), reserved };
    let outcomes = back.store.acquire(&[wanted]).await.expect("an answer");
    let [Outcome::Done(taken)] = outcomes.as_slice() else { panic!("{outcomes:?}") };
    assert!(taken.fence > lease.fence);
    wait_until("the others see it", async || other.sees_owner("t", Some(back.instance())).await).await;
    wait_until("the name is there once", async || {
        let members = other.view(&[]).await.members;
        members.len() == 2 && members.iter().any(|member| member.instance == *back.instance())
    })
    .await;
    assert!(back.store.renew(std::slice::from_ref(taken)).await.expect("renewed").lost.is_empty());
}

pub(super) async fn what_nobody_comes_back_for_is_free_after_the_window<F: Fixture>(fixture: F) {
    let leaver = Member::join(&fixture, membership(named("kitchen"), LASTING)).await;
    let other = Member::lasting(&fixture).await;
    let lease = leaver.acquire("t").await;
    let before = BootInstant::now();
    leaver.store.leave(std::slice::from_ref(&lease), Some(SHORT)).await.expect("left");
    let absent = Instance::absent("kitchen");
    wait_until("the target is kept", async || other.sees_owner("t", Some(&absent)).await).await;
    wait_until("the target is free", async || other.sees_owner("t", None).await).await;
    assert!(has_passed(before.after(SHORT)), "not before the window is over");
    wait_until("the name is forgotten", async || other.member(&Instance::absent("kitchen")).await.is_none())
        .await;
    assert!(other.acquire("t").await.fence > lease.fence);
}
