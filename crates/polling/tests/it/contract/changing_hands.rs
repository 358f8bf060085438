//! Targets from one poller to another.

use super::{Fixture, Member};
use crate::waiting::{soon, wait_until};
use tenure_polling::store::{Outcome, ReleaseReason, Store};

pub(super) async fn a_fence_rises_with_every_change_of_hands<F: Fixture>(fixture: F) {
    let (one, other) = (Member::lasting(&fixture).await, Member::lasting(&fixture).await);
    let mut fences = Vec::new();
    let lease = one.acquire("t").await;
    fences.push(lease.fence);
    one.store.release(&[lease], ReleaseReason::Voluntary).await.expect("released");
    let lease = one.acquire("t").await;
    fences.push(lease.fence);
    let successor = one.finds(&other).await;
    one.store.hand_over(&[(lease, successor)], ReleaseReason::Rebalanced).await.expect("handed over");
    let lease = other.adopts("t").await;
    fences.push(lease.fence);
    let successor = other.finds(&one).await;
    other.store.hand_over(&[(lease, successor)], ReleaseReason::Rebalanced).await.expect("handed over");
    let lease = one.adopts_above("t", fences[2]).await;
    fences.push(lease.fence);
    one.store.leave(&[lease], None).await.expect("left");
    wait_until("it is free", async || other.sees_owner("t", None).await).await;
    fences.push(other.acquire("t").await.fence);
    assert!(fences.is_sorted_by(|earlier, later| earlier < later), "{fences:?}");
}

pub(super) async fn a_successor_hears_of_what_it_is_handed_and_adopts_it<F: Fixture>(fixture: F) {
    let (giver, taker) = (Member::lasting(&fixture).await, Member::lasting(&fixture).await);
    let lease = giver.acquire("t").await;
    let successor = giver.finds(&taker).await;
    wait_until("the hold is seen", async || taker.sees_owner("t", Some(giver.instance())).await).await;
    let listening = tokio::spawn({
        let store = taker.store.clone();
        let (own, lease) = (taker.instance().clone(), lease.clone());
        async move {
            loop {
                store.changed().await;
                let view = store.observe(std::slice::from_ref(&lease.target)).await.expect("a view");
                let owner = view.owners.get(&lease.target).expect("never nobody's").clone();
                if owner.instance == own {
                    return owner;
                }
            }
        }
    });
    let handed = giver.store.hand_over(&[(lease.clone(), successor)], ReleaseReason::Rebalanced).await;
    assert_eq!(handed.expect("an answer"), [Outcome::Done(())]);
    let owner = soon("the successor hears of it", listening).await.expect("no panic");
    let adopted = taker.store.adopt(&"t".into(), &owner).expect("a lease");
    assert!(adopted.fence > lease.fence);
    assert_eq!(owner.fence, Some(adopted.fence));
    let renewal = taker.store.renew(&[adopted]).await.expect("renewed");
    assert!(renewal.lost.is_empty() && renewal.valid_until.is_some());
    // What is another's is nobody else's to adopt.
    let seen = giver.owner("t").await;
    assert!(seen.is_none_or(|owner| giver.store.adopt(&"t".into(), &owner).is_none()));
}

pub(super) async fn whoever_handed_over_has_nothing_left_to_let_go<F: Fixture>(fixture: F) {
    let (giver, taker) = (Member::lasting(&fixture).await, Member::lasting(&fixture).await);
    let lease = giver.acquire("t").await;
    let successor = giver.finds(&taker).await;
    giver
        .store
        .hand_over(&[(lease.clone(), successor.clone())], ReleaseReason::Rebalanced)
        .await
        .expect("handed over");
    giver.store.release(std::slice::from_ref(&lease), ReleaseReason::Voluntary).await.expect("an answer");
    let again = giver.store.hand_over(&[(lease.clone(), successor)], ReleaseReason::Rebalanced).await;
    // Whoever cannot tell a try from the one before it refuses; whoever can gives the first answer again.
    assert!(matches!(again.expect("an answer").as_slice(), [Outcome::Rejected(_) | Outcome::Done(())]));
    let adopted = taker.adopts("t").await;
    let renewal = taker.store.renew(&[adopted]).await.expect("renewed");
    assert!(renewal.lost.is_empty(), "{:?}", renewal.lost);
}

pub(super) async fn nothing_is_handed_to_one_who_left<F: Fixture>(fixture: F) {
    let (giver, gone) = (Member::lasting(&fixture).await, Member::lasting(&fixture).await);
    let lease = giver.acquire("t").await;
    let successor = giver.finds(&gone).await;
    gone.store.leave(&[], None).await.expect("left");
    let handed = giver.store.hand_over(&[(lease.clone(), successor)], ReleaseReason::Rebalanced).await;
    assert!(matches!(handed.expect("an answer").as_slice(), [Outcome::Declined(_)]));
    let renewal = giver.store.renew(&[lease]).await.expect("renewed");
    assert!(renewal.lost.is_empty(), "it stays where it was");
}
