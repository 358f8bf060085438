//! Stores that do not answer.

use super::{Fixture, LASTING, Member, membership};
use crate::waiting::wait_until;
use std::time::Duration;
use tenure_api::PollerStatus;
use tenure_client::clock::BootInstant;
use tenure_polling::Instance;
use tenure_polling::store::{Outcome, ReleaseReason, Store, StoreError, Wanted};

pub(super) async fn a_store_that_does_not_answer_is_unreachable_within_the_limit<F: Fixture>(fixture: F) {
    let limit = Duration::from_millis(800);
    let mut brief = membership(Instance::generate(), LASTING);
    brief.call_timeout = limit;
    let member = Member::join(&fixture, brief).await;
    let other = Member::lasting(&fixture).await;
    let lease = member.acquire("t").await;
    let successor = member.finds(&other).await;
    fixture.freeze();
    let (store, leases) = (&member.store, [lease.clone()]);
    within(limit, "renew", store.renew(&leases)).await;
    let wanted = [Wanted { target: "u".into(), reserved: None }];
    within(limit, "acquire", known(store.acquire(&wanted))).await;
    within(limit, "release", store.release(&leases, ReleaseReason::Voluntary)).await;
    let handed = [(lease.clone(), successor)];
    within(limit, "hand over", known(store.hand_over(&handed, ReleaseReason::Voluntary))).await;
    within(limit, "publish_status", store.publish_status(PollerStatus::Online)).await;
    // A new connection is as silent as the first one.
    within(limit, "renew", store.renew(&leases)).await;
    fixture.thaw();
    // What was asked meanwhile may or may not have been done; from here on everything is answered again.
    wait_until("it answers again", async || store.renew(&[]).await.is_ok()).await;
    wait_until("what is free can be taken", async || {
        let seen = member.owner("v").await;
        seen.is_some() || matches!(member.try_acquire("v").await, Outcome::Done(_))
    })
    .await;
}

/// Where nothing is known of any, it is all the same whether each says so or all together do.
async fn known<T>(
    call: impl Future<Output = Result<Vec<Outcome<T>>, StoreError>>,
) -> Result<Vec<Outcome<T>>, StoreError> {
    let outcomes = call.await?;
    match outcomes.as_slice() {
        [Outcome::Unknown(why)] => Err(StoreError::Unreachable(why.clone())),
        _ => Ok(outcomes),
    }
}

async fn within<T: core::fmt::Debug>(
    limit: Duration,
    what: &str,
    call: impl Future<Output = Result<T, StoreError>>,
) {
    let begun = BootInstant::now();
    let answer = call.await;
    let took = BootInstant::now().since(begun);
    assert!(matches!(answer, Err(StoreError::Unreachable(_))), "{what}: {answer:?}");
    // A busy machine is late; a call without a limit is much later.
    assert!(took < limit * 2 + Duration::from_millis(200), "{what} took {took:?}");
}
