//! Typed requests over the socket.

use super::desk::Abandoned;
use super::{Connection, limit_of, within};
use crate::error::CallError;
use crate::operation::operation_id;
use tenure_api::{
    Acquire, Amend, Answer, ByLease, Check, CheckAnswer, Heartbeat, HolderCall, Lease, LeaseList, LeaseQuery,
    Nothing, OperatorCall, Pool, PoolList, PoolVerb, RemovePool, Renewed, Status, Story, Verb, WhyQuery,
};

/// An answer of another kind than was asked for.
pub(super) fn unexpected(answer: &Answer) -> CallError {
    let message = format!("unexpected answer: {answer:?}").chars().take(200).collect();
    CallError::Unexpected { status: 0, message, definite: false, lost: false }
}

/// Gives back a lease that nobody knows of.
pub(super) fn give_back(lease: &Lease) -> Verb {
    let body = HolderCall {
        epoch: lease.epoch,
        reason: Some("the caller dropped the request".to_owned()),
        ..HolderCall::default()
    };
    Verb::Release(ByLease { lease_id: lease.lease_id.clone(), body })
}

fn by_lease<T>(lease_id: &str, body: T) -> ByLease<T> {
    ByLease { lease_id: lease_id.to_owned(), body }
}

fn with_operation(call: &HolderCall) -> HolderCall {
    let mut call = call.clone();
    call.operation_id.get_or_insert_with(operation_id);
    call
}

macro_rules! answered {
    ($answer:expr, $variant:ident) => {
        match $answer {
            Answer::$variant(body) => Ok(body),
            other => Err(unexpected(&other)),
        }
    };
}

/// Requests over the socket. [`CallError`] lists what all of them can fail with.
impl Connection {
    /// Requests a lease, kept by this connection unless `mode`, `ttl_ms` or `session` say otherwise. A grant that
    /// arrives after the future was dropped is released, unless the caller chose the operation id.
    ///
    /// # Errors
    /// `resource_held`, `pool_exhausted`, `wait_timeout`, ….
    pub async fn acquire(&self, acquire: &Acquire) -> Result<Lease, CallError> {
        let abandoned = if acquire.operation_id.is_some() { Abandoned::Ignore } else { Abandoned::GiveBack };
        let mut acquire = acquire.clone();
        acquire.operation_id.get_or_insert_with(operation_id);
        let verb = Verb::Acquire(Box::new(acquire));
        let limit = limit_of(&verb);
        let answer = within(limit, self.begin_as(verb, abandoned).await?).await?;
        answered!(answer, Acquired).map(|lease| *lease)
    }

    /// Activates a reserved lease.
    ///
    /// # Errors
    /// `stale_epoch`, `deadline_passed`, ….
    pub async fn activate(&self, lease_id: &str, call: &HolderCall) -> Result<Lease, CallError> {
        let verb = Verb::Activate(by_lease(lease_id, with_operation(call)));
        answered!(self.call(verb).await?, Activated).map(|lease| *lease)
    }

    /// Renews a lease.
    ///
    /// # Errors
    /// `stale_epoch`, `no_liveness`, ….
    pub async fn heartbeat(&self, lease_id: &str, epoch: u64) -> Result<Renewed, CallError> {
        let call = HolderCall { epoch, ..HolderCall::default() };
        answered!(self.call(Verb::Heartbeat(Heartbeat::Lease(by_lease(lease_id, call)))).await?, Renewed)
    }

    /// Releases a lease.
    ///
    /// # Errors
    /// `stale_epoch`, `invalid_state`, ….
    pub async fn release(&self, lease_id: &str, call: &HolderCall) -> Result<Lease, CallError> {
        let verb = Verb::Release(by_lease(lease_id, with_operation(call)));
        answered!(self.call(verb).await?, Released).map(|lease| *lease)
    }

    /// Confirms that the holder of a revoked lease has stopped.
    ///
    /// # Errors
    /// `invalid_state` on a lease that is still live, ….
    pub async fn acknowledge(&self, lease_id: &str, call: &HolderCall) -> Result<Lease, CallError> {
        let verb = Verb::Acknowledge(by_lease(lease_id, with_operation(call)));
        answered!(self.call(verb).await?, Acknowledged).map(|lease| *lease)
    }

    /// Replaces the attachment.
    ///
    /// # Errors
    /// `stale_epoch`, `too_large`, ….
    pub async fn amend(&self, lease_id: &str, amend: &Amend) -> Result<Lease, CallError> {
        let mut amend = amend.clone();
        amend.operation_id.get_or_insert_with(operation_id);
        answered!(self.call(Verb::Amend(by_lease(lease_id, amend))).await?, Amended).map(|lease| *lease)
    }

    /// Moves a draining lease of a closed connection to this one; epoch and fence rise.
    ///
    /// # Errors
    /// `stale_epoch`, `invalid_state`, ….
    pub async fn resume(&self, lease_id: &str, call: &HolderCall) -> Result<Lease, CallError> {
        let verb = Verb::Resume(by_lease(lease_id, with_operation(call)));
        answered!(self.call(verb).await?, Resumed).map(|lease| *lease)
    }

    /// Shows one lease.
    ///
    /// # Errors
    /// `not_found`, `lease_retired`, ….
    pub async fn inspect(&self, lease_id: &str) -> Result<Lease, CallError> {
        answered!(self.call(Verb::Inspect(by_lease(lease_id, Nothing {}))).await?, Lease).map(|lease| *lease)
    }

    /// Shows a page of leases.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn list(&self, query: &LeaseQuery) -> Result<LeaseList, CallError> {
        answered!(self.call(Verb::List(query.clone())).await?, Leases)
    }

    /// Checks whether a fence or an epoch is current.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn check(&self, check: &Check) -> Result<CheckAnswer, CallError> {
        answered!(self.call(Verb::Check(check.clone())).await?, Checked)
    }

    /// Returns the history of a lease, a resource, a registration or a session.
    ///
    /// # Errors
    /// `not_found`, ….
    pub async fn why(&self, query: &WhyQuery) -> Result<Story, CallError> {
        answered!(self.call(Verb::Why(query.clone())).await?, Why)
    }

    /// Returns the daemon's status.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn status(&self) -> Result<Status, CallError> {
        answered!(self.call(Verb::Status(Nothing {})).await?, Status).map(|status| *status)
    }

    /// Shows every pool.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn pools(&self) -> Result<PoolList, CallError> {
        answered!(self.call(Verb::Pool(PoolVerb::default())).await?, Pools)
    }

    /// Creates or resizes a pool.
    ///
    /// # Errors
    /// `pool_in_use`, `forbidden`, ….
    pub async fn define_pool(&self, name: &str, size: u32) -> Result<Pool, CallError> {
        let pool = PoolVerb { name: Some(name.to_owned()), size: Some(size), ..PoolVerb::default() };
        answered!(self.call(Verb::Pool(pool)).await?, Pool)
    }

    /// Removes a pool.
    ///
    /// # Errors
    /// `pool_not_found`, `pool_in_use`, ….
    pub async fn remove_pool(&self, name: &str, remove: &RemovePool) -> Result<Pool, CallError> {
        let name = Some(name.to_owned());
        let pool = PoolVerb { name, remove: true, force: remove.force, ..PoolVerb::default() };
        answered!(self.call(Verb::Pool(pool)).await?, Pool)
    }

    /// Lets a lease end after its grace.
    ///
    /// # Errors
    /// `already_draining`, `permanent_lease`, ….
    pub async fn drain(&self, lease_id: &str, call: &OperatorCall) -> Result<Lease, CallError> {
        answered!(self.call(Verb::Drain(by_lease(lease_id, call.clone()))).await?, Drained)
            .map(|lease| *lease)
    }

    /// Cancels a drain.
    ///
    /// # Errors
    /// `not_draining`, `no_liveness`, ….
    pub async fn revive(&self, lease_id: &str, call: &OperatorCall) -> Result<Lease, CallError> {
        answered!(self.call(Verb::Revive(by_lease(lease_id, call.clone()))).await?, Revived)
            .map(|lease| *lease)
    }

    /// Revokes a lease.
    ///
    /// # Errors
    /// `stale_epoch`, `forbidden`, ….
    pub async fn revoke(&self, lease_id: &str, call: &OperatorCall) -> Result<Lease, CallError> {
        answered!(self.call(Verb::Revoke(by_lease(lease_id, call.clone()))).await?, Revoked)
            .map(|lease| *lease)
    }

    /// Makes the resources of a revoked lease reusable.
    ///
    /// # Errors
    /// `not_yet`, `invalid_state`, ….
    pub async fn reclaim(&self, lease_id: &str, call: &OperatorCall) -> Result<Lease, CallError> {
        let verb = Verb::Reclaim(by_lease(lease_id, call.clone()));
        answered!(self.call(verb).await?, Reclaimed).map(|lease| *lease)
    }
}
