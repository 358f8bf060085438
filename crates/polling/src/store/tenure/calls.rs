//! Calls to the daemon: many at a time, each within a limit, and what a failed one means for a poller.

use crate::store::{HeldTarget, LeaseKey, Membership, StoreError, Wanted};
use core::time::Duration;
use tenure_api::{
    Acquire, Amend, Blocking, ErrorCode, Handover, Lease, PollName, PollerFacts, PollerReport, PollerStatus,
};
use tenure_client::{CallError, Client, operation_id};
use tokio::task::JoinSet;

/// Calls under way at once.
const IN_FLIGHT: usize = 64;

/// Makes one call for each item, several at a time, and gives the answers in the order of the items. Once the daemon
/// does not answer, nothing more is sent: `None` for what was not.
pub(super) async fn each<I, T, Call>(
    client: &Client,
    limit: Duration,
    items: Vec<I>,
    mut call: impl FnMut(Client, I) -> Call,
) -> Vec<Option<Result<T, CallError>>>
where
    T: Send + 'static,
    Call: Future<Output = Result<T, CallError>> + Send + 'static,
{
    let mut answers: Vec<Option<Result<T, CallError>>> = items.iter().map(|_| None).collect();
    let mut under_way = JoinSet::new();
    let mut items = items.into_iter().enumerate();
    let mut is_silent = false;
    loop {
        while !is_silent
            && under_way.len() < IN_FLIGHT
            && let Some((place, item)) = items.next()
        {
            let call = call(client.clone(), item);
            under_way.spawn(async move { (place, within(limit, call).await) });
        }
        match under_way.join_next().await {
            Some(Ok((place, answer))) => {
                is_silent |= answer.as_ref().is_err_and(is_silence);
                answers[place] = Some(answer);
            }
            // A call that panicked is one without an answer.
            Some(Err(_)) => is_silent = true,
            None => return answers,
        }
    }
}

fn is_silence(error: &CallError) -> bool {
    match error {
        CallError::TimedOut { .. } | CallError::Unreachable { .. } | CallError::Broken { .. } => true,
        CallError::Rejected(_) | CallError::Unexpected { .. } | CallError::Unsendable(_) => false,
    }
}

pub(super) async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    tokio::time::timeout(limit, call).await.unwrap_or(Err(CallError::TimedOut { limit }))
}

/// What a failed call means for a poller.
pub(super) fn understood(error: &CallError) -> StoreError {
    let told = error.to_string();
    match error.code() {
        Some(ErrorCode::SessionNotFound | ErrorCode::SessionExpired) => StoreError::NotMember(told),
        Some(_) if error.lost() => StoreError::NotMember(told),
        Some(_) if error.retry_after().is_some() || !error.is_definite() => StoreError::Unreachable(told),
        Some(_) => StoreError::Rejected(told),
        None => match error {
            CallError::Unsendable(_) => StoreError::Rejected(told),
            _ => StoreError::Unreachable(told),
        },
    }
}

/// Whether the lease that was asked about is certainly not the asker's any more.
pub(super) fn is_gone(error: &CallError) -> bool {
    error.lost()
        || matches!(
            error.code(),
            Some(
                ErrorCode::NotFound
                    | ErrorCode::LeaseRetired
                    | ErrorCode::StaleEpoch
                    | ErrorCode::InvalidState
            )
        )
}

/// Who is in the way of a name.
pub(super) fn blocking(error: &CallError) -> Option<Blocking> {
    let CallError::Rejected(refused) = error else { return None };
    let all = refused.details.get("blocking")?.as_array()?;
    serde_json::from_value(all.first()?.clone()).ok()
}

/// Takes one target, or takes up again what was left.
pub(super) async fn take(
    client: Client,
    group: &str,
    holder: String,
    session: String,
    wanted: Wanted,
) -> Result<Lease, CallError> {
    if let Some(reserved) = wanted.reserved {
        return hand_over(client, reserved.key, session).await;
    }
    let resource = PollName::Target(wanted.target.to_string())
        .resource(group)
        .map_err(|error| CallError::Unsendable(error.to_string()))?;
    let acquire = Acquire {
        resources: vec![resource],
        holder,
        session: Some(session),
        operation_id: Some(operation_id()),
        ..Acquire::default()
    };
    client.acquire(&acquire).await
}

/// Gives a lease to a session. Asked again it is the same operation: what was done once is told again.
pub(super) async fn hand_over(client: Client, key: LeaseKey, to_session: String) -> Result<Lease, CallError> {
    let operation_id = Some(format!("hand {} {} {to_session}", key.lease_id, key.epoch));
    client.handover(&key.lease_id, &Handover { epoch: key.epoch, to_session, operation_id }).await
}

/// What a poller tells of itself. One that is away reports nothing.
pub(super) fn facts(
    membership: &Membership,
    status: PollerStatus,
    is_new: bool,
    report: Option<PollerReport>,
) -> serde_json::Value {
    let facts = PollerFacts {
        instance: membership.instance.to_string(),
        weight: membership.weight,
        status,
        fixed_name: membership.instance.has_fixed_name(),
        is_new,
        report,
    };
    serde_json::to_value(facts).expect("invariant: facts can be written as JSON")
}

pub(super) fn amend(epoch: u64, facts: serde_json::Value) -> Amend {
    Amend { epoch, holder: None, attachment: facts, operation_id: Some(operation_id()) }
}

pub(super) fn keys(leases: &[HeldTarget]) -> Vec<LeaseKey> {
    leases.iter().map(|lease| lease.key.clone()).collect()
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
