//! Renews the membership and everything held, in one call every third of the ttl, and says until when it holds. What
//! cannot be renewed is uncertain; what the store says is lost is lost at once.

use super::{RENEWALS, Shared};
use crate::store::{Store, StoreError};
use core::time::Duration;
use std::sync::Arc;
use tenure_client::Backoff;
use tenure_client::clock::{BootInstant, wait_until};

/// A time in which no renewal succeeded.
struct Outage {
    since: BootInstant,
    failures: u64,
}

pub(super) async fn keep<S: Store>(shared: Arc<Shared<S>>) {
    let interval = shared.membership.ttl / RENEWALS;
    let mut backoff = Backoff::new(interval / 20, interval / 4);
    // A membership may end within an outage; only a renewal ends it.
    let mut outage = None;
    loop {
        let membership = shared.until_member().await;
        let mut next = BootInstant::now().after(interval);
        while shared.is_member_since(membership) {
            tokio::select! {
                () = wait_until(next) => {}
                () = shared.keeper_wake.notified() => {}
                () = shared.membership_ended(membership) => break,
            }
            let sent = BootInstant::now();
            match renew(&shared).await {
                Ok(()) => {
                    end_of(outage.take(), &shared);
                    backoff.reset();
                    next = sent.after(interval);
                }
                Err(StoreError::NotMember(why)) => {
                    shared.lose_membership(membership, &why);
                }
                Err(error) => {
                    doubt(&shared, &mut outage, sent, &error);
                    next = BootInstant::now().after(backoff.next_pause());
                }
            }
        }
    }
}

async fn renew<S: Store>(shared: &Arc<Shared<S>>) -> Result<(), StoreError> {
    let leases = shared.holdings().leases();
    shared.counters.asked_store();
    let limit = shared.membership.call_timeout;
    // The store keeps the limit too; a store that does not must not keep a renewal from being tried again.
    let renewal = tokio::time::timeout(limit + Duration::from_millis(50), shared.store.renew(&leases)).await;
    let renewal = renewal.unwrap_or_else(|_| {
        Err(StoreError::Unreachable(format!("no answer within {} ms", limit.as_millis())))
    })?;
    let now = BootInstant::now();
    for loss in &renewal.lost {
        let lost = shared.holdings().lose(&loss.target, loss.fence);
        if lost.is_some() {
            tracing::warn!(
                instance = %shared.membership.instance, target = %loss.target, group = shared.group,
                fence = loss.fence, ttl_ms = shared.ttl_ms(), reason = loss.reason, "lease lost"
            );
        }
    }
    if let Some(valid_until) = renewal.valid_until {
        let lost: std::collections::HashSet<_> = renewal.lost.iter().map(|loss| &loss.target).collect();
        let renewed: Vec<_> = leases.into_iter().filter(|lease| !lost.contains(&lease.target)).collect();
        shared.holdings().renew(&renewed, valid_until, now);
        for lease in &renewed {
            tracing::debug!(
                instance = %shared.membership.instance, target = %lease.target, group = shared.group,
                fence = lease.fence, ttl_ms = shared.ttl_ms(), "lease renewed"
            );
        }
    }
    if shared.counters.set_paused(false) {
        tracing::info!(instance = %shared.membership.instance, group = shared.group, "polling resumed");
    }
    shared.renewals.send_modify(|renewals| *renewals += 1);
    shared.runner_wake.notify_one();
    if !renewal.lost.is_empty() {
        shared.control_wake.notify_one();
    }
    Ok(())
}

/// Logs how long renewals failed.
fn end_of<S: Store>(outage: Option<Outage>, shared: &Arc<Shared<S>>) {
    let Some(Outage { since, failures }) = outage else { return };
    let after_ms = u64::try_from(BootInstant::now().since(since).as_millis()).unwrap_or(u64::MAX);
    tracing::info!(
        instance = %shared.membership.instance, group = shared.group, ttl_ms = shared.ttl_ms(), failures, after_ms,
        "renewals succeed again"
    );
}

fn doubt<S: Store>(
    shared: &Arc<Shared<S>>,
    outage: &mut Option<Outage>,
    sent: BootInstant,
    error: &StoreError,
) {
    let now = BootInstant::now();
    let (doubted, held, last) = {
        let mut holdings = shared.holdings();
        let doubted = holdings.doubt(now);
        let last = holdings.iter().map(|(_, holding)| holding.tie.valid_until()).max();
        (doubted, holdings.len(), last)
    };
    let outage = outage.get_or_insert(Outage { since: sent, failures: 0 });
    outage.failures += 1;
    // Retries come several times a second: the first one is worth a warning.
    if outage.failures == 1 {
        tracing::warn!(
            instance = %shared.membership.instance, group = shared.group, targets = held,
            ttl_ms = shared.ttl_ms(), reason = %error, "renewal failed"
        );
    } else {
        tracing::debug!(
            instance = %shared.membership.instance, group = shared.group, targets = held,
            ttl_ms = shared.ttl_ms(), reason = %error, "renewal failed again"
        );
    }
    if doubted > 0 {
        tracing::warn!(
            instance = %shared.membership.instance, group = shared.group, targets = doubted,
            ttl_ms = shared.ttl_ms(), reason = %error, "targets are uncertain until a renewal succeeds"
        );
    }
    if last.is_none_or(|last| now >= last) && shared.counters.set_paused(true) {
        tracing::warn!(
            instance = %shared.membership.instance, group = shared.group, targets = held,
            ttl_ms = shared.ttl_ms(), reason = %error, "polling paused: no lease is valid"
        );
    }
}
