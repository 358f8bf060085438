//! Taking, keeping and losing targets.

use super::{Fixture, LASTING, Member, SHORT, has_passed, membership};
use crate::waiting::wait_until;
use std::time::Duration;
use tenure_client::clock::BootInstant;
use tenure_polling::Instance;
use tenure_polling::store::{Outcome, ReleaseReason, Store, TargetName, Wanted};
use tokio::task::JoinSet;

pub(super) async fn of_fifty_who_want_a_target_one_gets_it<F: Fixture>(fixture: F) {
    let mut tries = JoinSet::new();
    for _ in 0..50 {
        let member = Member::lasting(&fixture).await;
        tries.spawn(async move {
            let outcome = member.try_acquire("t").await;
            (member, outcome)
        });
    }
    let mut winners = Vec::new();
    let mut others = Vec::new();
    while let Some(tried) = tries.join_next().await {
        match tried.expect("no panic") {
            (member, Outcome::Done(lease)) => winners.push((member, lease)),
            (member, Outcome::Rejected(_)) => others.push(member),
            (_, other) => panic!("{other:?}"),
        }
    }
    let [(winner, lease)] = winners.as_slice() else { panic!("{} got it", winners.len()) };
    assert_eq!(others.len(), 49);
    wait_until("everybody sees who has it", async || {
        let owner = others[0].owner("t").await;
        owner.is_some_and(|owner| owner.instance == *winner.instance() && owner.fence == Some(lease.fence))
    })
    .await;
}

pub(super) async fn renewing_creates_nothing<F: Fixture>(fixture: F) {
    let (member, watcher) = (Member::lasting(&fixture).await, Member::lasting(&fixture).await);
    let lease = member.acquire("t").await;
    let leases = [lease];
    member.store.release(&leases, ReleaseReason::Voluntary).await.expect("released");
    member.store.renew(&leases).await.expect("an answer");
    wait_until("nobody has it", async || watcher.sees_owner("t", None).await).await;
    let taken = watcher.acquire("t").await;
    member.store.renew(&leases).await.expect("an answer");
    wait_until("the other has it", async || watcher.sees_owner("t", Some(watcher.instance())).await).await;
    assert!(watcher.store.renew(&[taken]).await.expect("renewed").lost.is_empty());
}

pub(super) async fn a_lost_target_is_reported_with_its_fence<F: Fixture>(fixture: F) {
    let (member, other) = (Member::lasting(&fixture).await, Member::lasting(&fixture).await);
    let (kept, given) = (member.acquire("kept").await, member.acquire("given").await);
    let successor = member.finds(&other).await;
    let outcomes = member.store.hand_over(&[(given.clone(), successor)], ReleaseReason::Rebalanced).await;
    assert_eq!(outcomes.expect("an answer"), [Outcome::Done(())]);
    let sent = BootInstant::now();
    let renewal = member.store.renew(&[kept, given.clone()]).await.expect("an answer");
    let lost: Vec<_> = renewal.lost.iter().map(|loss| (&*loss.target, loss.fence)).collect();
    assert_eq!(lost, [("given", given.fence)]);
    let valid_until = renewal.valid_until.expect("something was renewed");
    assert!(
        valid_until >= member.membership.valid_until(sent),
        "counted from after the question was asked for"
    );
}

pub(super) async fn a_held_target_is_valid_for_the_ttl_less_a_margin<F: Fixture>(fixture: F) {
    let joining = BootInstant::now();
    let member = Member::join(&fixture, membership(Instance::generate(), LASTING)).await;
    let lease = member.acquire("t").await;
    let now = BootInstant::now();
    let ttl = LASTING - LASTING / 10;
    assert!(lease.valid_until >= joining.after(ttl) && lease.valid_until <= now.after(ttl));
    let renewal = member.store.renew(&[lease]).await.expect("renewed");
    let valid_until = renewal.valid_until.expect("something was renewed");
    assert!(valid_until >= now.after(ttl) && valid_until <= BootInstant::now().after(ttl));
    assert!(renewal.lost.is_empty());
}

pub(super) async fn renewing_keeps_others_out_beyond_the_ttl<F: Fixture>(fixture: F) {
    let holder = Member::join(&fixture, membership(Instance::generate(), SHORT)).await;
    let other = Member::lasting(&fixture).await;
    let lease = holder.acquire("t").await;
    let over = BootInstant::now().after(SHORT * 5 / 2);
    while !has_passed(over) {
        let renewal = holder.store.renew(std::slice::from_ref(&lease)).await.expect("renewed");
        assert!(renewal.lost.is_empty());
        assert!(other.is_refused("t").await);
        tokio::time::sleep(SHORT / 5).await;
    }
}

pub(super) async fn silence_frees_a_target_and_nothing_earlier_does<F: Fixture>(fixture: F) {
    let holder = Member::join(&fixture, membership(Instance::generate(), SHORT * 2)).await;
    let other = Member::lasting(&fixture).await;
    // Times of holder and target differ; both are to be over.
    tokio::time::sleep(SHORT / 4).await;
    let lease = holder.acquire("t").await;
    let asked = BootInstant::now();
    wait_until("the hold is seen", async || other.sees_owner("t", Some(holder.instance())).await).await;
    let mut seen = other.owner("t").await;
    while let Some(owner) = seen {
        assert_eq!(owner.instance, *holder.instance());
        assert!(!has_passed(asked.after(SHORT * 4)), "nobody told of the end");
        // Whatever is told first: the end that was announced, or the news of it.
        let announced = async {
            match owner.ends_at {
                Some(ends_at) => tenure_client::clock::wait_until(ends_at).await,
                None => core::future::pending().await,
            }
        };
        let _ = tokio::time::timeout(SHORT * 3, async {
            tokio::select! {
                () = announced => {}
                () = other.store.changed() => {}
            }
        })
        .await;
        seen = other.owner("t").await;
    }
    assert!(has_passed(lease.valid_until), "free before the lease was over");
    assert!(!has_passed(asked.after(SHORT * 2 + Duration::from_secs(1))), "free too late");
    let next = other.acquire("t").await;
    assert!(next.fence > lease.fence);
}

pub(super) async fn thousands_of_targets_are_held_at_once<F: Fixture>(fixture: F) {
    let (member, watcher) = (Member::lasting(&fixture).await, Member::lasting(&fixture).await);
    let targets: Vec<TargetName> = (0..2_500).map(|number| format!("t{number}").into()).collect();
    let wanted: Vec<Wanted> =
        targets.iter().map(|target| Wanted { target: target.clone(), reserved: None }).collect();
    let mut leases = Vec::new();
    for (outcome, target) in member.store.acquire(&wanted).await.expect("an answer").into_iter().zip(&targets)
    {
        let Outcome::Done(lease) = outcome else { panic!("{target}: {outcome:?}") };
        assert_eq!(lease.target, *target, "in the order of the wishes");
        leases.push(lease);
    }
    wait_until("all are seen", async || {
        watcher.store.observe(&targets).await.expect("a view").owners.len() == targets.len()
    })
    .await;
    let renewal = member.store.renew(&leases).await.expect("renewed");
    assert!(renewal.lost.is_empty() && renewal.valid_until.is_some());
    member.store.release(&leases, ReleaseReason::Shutdown).await.expect("released");
    wait_until("all are free", async || {
        watcher.store.observe(&targets).await.expect("a view").owners.is_empty()
    })
    .await;
}

pub(super) async fn what_cannot_be_a_target_is_told_apart<F: Fixture>(fixture: F) {
    let member = Member::lasting(&fixture).await;
    let names = ["good", "", "http://h/x?y=1", "grün", &"x".repeat(2_000), "last"];
    let wanted: Vec<Wanted> =
        names.iter().map(|name| Wanted { target: (*name).into(), reserved: None }).collect();
    let outcomes = member.store.acquire(&wanted).await.expect("an answer");
    let shown: Vec<char> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Outcome::Done(_) => 'd',
            Outcome::Rejected(_) => 'r',
            Outcome::InvalidTarget(_) => 'i',
            Outcome::Declined(_) | Outcome::Unknown(_) => '?',
        })
        .collect();
    assert_eq!(shown, ['d', 'i', 'd', 'd', 'i', 'd'], "{outcomes:?}");
}
