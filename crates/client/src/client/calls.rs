//! The typed calls, one per route. Every mutation carries an operation id, so that it can be sent again.

use super::{Client, Manner, segment, with_query};
use crate::bytes_stream::ByteStream;
use crate::clock::BootInstant;
use crate::error::CallError;
use crate::operation::operation_id;
use crate::transport::Patience;
use core::time::Duration;
use http::Method;
use serde::Serialize;
use tenure_api::{
    Acquire, Amend, BreakerReset, Check, CheckAnswer, Handover, HolderCall, Lease, LeaseList, LeaseQuery,
    OpenSession, OperatorCall, Pool, PoolList, PoolSize, Rebind, RemovePool, Renewed, Resource, ResourceList,
    ResourceQuery, Session, SessionEnd, SessionHeartbeat, SessionList, SessionRenewed, ShutDown,
    ShuttingDown, Status, Story, WhyQuery,
};

/// Default limit of [`Client::health`].
const HEALTH_LIMIT: Duration = Duration::from_millis(200);

/// Calls about leases, sessions, resources, pools and the daemon. [`CallError`] lists what all of them can fail with.
impl Client {
    /// Requests a lease on a bundle of resources.
    ///
    /// # Errors
    /// `resource_held`, `pool_exhausted`, `wait_timeout`, ….
    pub async fn acquire(&self, acquire: &Acquire) -> Result<Lease, CallError> {
        let mut acquire = acquire.clone();
        acquire.operation_id.get_or_insert_with(operation_id);
        let wait = Duration::from_millis(acquire.wait_ms.unwrap_or(0));
        let manner = Manner { patience: Patience::Longer(wait), ..Manner::REPEATABLE };
        self.ask(Method::POST, "/v1/leases", Some(&acquire), manner).await
    }

    /// Shows one lease.
    ///
    /// # Errors
    /// `not_found`, `lease_retired`, ….
    pub async fn lease(&self, lease_id: &str) -> Result<Lease, CallError> {
        self.get(&format!("/v1/leases/{}", segment(lease_id))).await
    }

    /// Shows a page of leases.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn leases(&self, query: &LeaseQuery) -> Result<LeaseList, CallError> {
        self.get(&with_query("/v1/leases", query)?).await
    }

    /// Activates a reserved lease.
    ///
    /// # Errors
    /// `stale_epoch`, `deadline_passed`, ….
    pub async fn activate(&self, lease_id: &str, call: &HolderCall) -> Result<Lease, CallError> {
        self.holder_call(lease_id, "activate", call).await
    }

    /// Renews a lease.
    ///
    /// # Errors
    /// `stale_epoch`, `invalid_state`, `no_liveness`, ….
    pub async fn heartbeat(&self, lease_id: &str, epoch: u64) -> Result<Renewed, CallError> {
        self.heartbeat_within(lease_id, epoch, Duration::MAX).await
    }

    /// Like [`Client::heartbeat`], with a limit for the answer. With several nodes the client leaves a silent node in
    /// time to try another.
    ///
    /// # Errors
    /// As [`Client::heartbeat`].
    pub async fn heartbeat_within(
        &self,
        lease_id: &str,
        epoch: u64,
        limit: Duration,
    ) -> Result<Renewed, CallError> {
        self.timed_heartbeat(lease_id, epoch, limit).await.map(|(_, renewed)| renewed)
    }

    /// The same, with the instant before the try that was answered.
    pub(crate) async fn timed_heartbeat(
        &self,
        lease_id: &str,
        epoch: u64,
        limit: Duration,
    ) -> Result<(BootInstant, Renewed), CallError> {
        let path = format!("/v1/leases/{}/heartbeat", segment(lease_id));
        let manner = Manner { patience: Patience::AtMost(limit), ..Manner::REPEATABLE };
        let body = HolderCall { epoch, ..HolderCall::default() };
        self.ask_timed(Method::POST, &path, Some(&body), manner).await
    }

    /// Releases a lease.
    ///
    /// # Errors
    /// `stale_epoch`, `invalid_state`, ….
    pub async fn release(&self, lease_id: &str, call: &HolderCall) -> Result<Lease, CallError> {
        self.holder_call(lease_id, "release", call).await
    }

    /// Replaces the attachment.
    ///
    /// # Errors
    /// `stale_epoch`, `too_large`, ….
    pub async fn amend(&self, lease_id: &str, amend: &Amend) -> Result<Lease, CallError> {
        let mut amend = amend.clone();
        amend.operation_id.get_or_insert_with(operation_id);
        self.lease_call(lease_id, "amend", &amend).await
    }

    /// Confirms that the holder of a revoked lease has stopped. Pass the epoch from before the revoke.
    ///
    /// # Errors
    /// `invalid_state` on a lease that is still live, ….
    pub async fn acknowledge(&self, lease_id: &str, call: &HolderCall) -> Result<Lease, CallError> {
        self.holder_call(lease_id, "acknowledge", call).await
    }

    /// Gives a lease a new holder, session or attachment; epoch and fence rise.
    ///
    /// # Errors
    /// `stale_epoch`, `session_not_found`, ….
    pub async fn rebind(&self, lease_id: &str, rebind: &Rebind) -> Result<Lease, CallError> {
        let mut rebind = rebind.clone();
        rebind.operation_id.get_or_insert_with(operation_id);
        self.lease_call(lease_id, "rebind", &rebind).await
    }

    /// Gives a lease to the holder of another session.
    ///
    /// # Errors
    /// `stale_epoch`, `session_not_found`, ….
    pub async fn handover(&self, lease_id: &str, handover: &Handover) -> Result<Lease, CallError> {
        let mut handover = handover.clone();
        handover.operation_id.get_or_insert_with(operation_id);
        self.lease_call(lease_id, "handover", &handover).await
    }

    /// Revokes a lease.
    ///
    /// # Errors
    /// `stale_epoch`, `invalid_state`, `forbidden`, ….
    pub async fn revoke(&self, lease_id: &str, call: &OperatorCall) -> Result<Lease, CallError> {
        self.operator_call(lease_id, "revoke", call).await
    }

    /// Makes the resources of a revoked lease reusable.
    ///
    /// # Errors
    /// `not_yet` with `remaining_ms`, `invalid_state`, ….
    pub async fn reclaim(&self, lease_id: &str, call: &OperatorCall) -> Result<Lease, CallError> {
        self.operator_call(lease_id, "reclaim", call).await
    }

    /// Lets a lease end after its grace.
    ///
    /// # Errors
    /// `already_draining`, `permanent_lease`, ….
    pub async fn drain(&self, lease_id: &str, call: &OperatorCall) -> Result<Lease, CallError> {
        self.operator_call(lease_id, "drain", call).await
    }

    /// Cancels a drain.
    ///
    /// # Errors
    /// `not_draining`, `no_liveness`, ….
    pub async fn revive(&self, lease_id: &str, call: &OperatorCall) -> Result<Lease, CallError> {
        self.operator_call(lease_id, "revive", call).await
    }

    /// Opens a session.
    ///
    /// # Errors
    /// `ttl_out_of_range`, ….
    pub async fn open_session(&self, open: &OpenSession) -> Result<Session, CallError> {
        let mut open = open.clone();
        open.operation_id.get_or_insert_with(operation_id);
        self.ask(Method::POST, "/v1/sessions", Some(&open), Manner::REPEATABLE).await
    }

    /// Shows a page of sessions; the first without a cursor.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn sessions(&self, cursor: Option<&str>) -> Result<SessionList, CallError> {
        #[derive(Serialize)]
        struct Page<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            cursor: Option<&'a str>,
        }
        self.get(&with_query("/v1/sessions", &Page { cursor })?).await
    }

    /// Shows one session.
    ///
    /// # Errors
    /// `session_not_found`, ….
    pub async fn session(&self, session: &str) -> Result<Session, CallError> {
        self.get(&format!("/v1/sessions/{}", segment(session))).await
    }

    /// Closes a session and releases its leases.
    ///
    /// # Errors
    /// `session_not_found`, ….
    pub async fn close_session(&self, session: &str) -> Result<SessionEnd, CallError> {
        let path = format!("/v1/sessions/{}", segment(session));
        self.ask(Method::DELETE, &path, None::<&()>, Manner::REPEATABLE).await
    }

    /// Renews a session and all its leases.
    ///
    /// # Errors
    /// `session_not_found`, `session_expired`, ….
    pub async fn session_heartbeat(
        &self,
        session: &str,
        heartbeat: &SessionHeartbeat,
    ) -> Result<SessionRenewed, CallError> {
        self.timed_session_heartbeat(session, heartbeat, Duration::MAX).await.map(|(_, renewed)| renewed)
    }

    /// The same within a limit, with the instant before the try that was answered.
    pub(crate) async fn timed_session_heartbeat(
        &self,
        session: &str,
        heartbeat: &SessionHeartbeat,
        limit: Duration,
    ) -> Result<(BootInstant, SessionRenewed), CallError> {
        let path = format!("/v1/sessions/{}/heartbeat", segment(session));
        let manner = Manner { patience: Patience::AtMost(limit), ..Manner::REPEATABLE };
        self.ask_timed(Method::POST, &path, Some(heartbeat), manner).await
    }

    /// Shows a page of resources that are held.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn resources(&self, query: &ResourceQuery) -> Result<ResourceList, CallError> {
        self.get(&with_query("/v1/resources", query)?).await
    }

    /// Shows one resource.
    ///
    /// # Errors
    /// `invalid_name`, ….
    pub async fn resource(&self, name: &str) -> Result<Resource, CallError> {
        self.get(&format!("/v1/resources/{}", segment(name))).await
    }

    /// Creates or resizes a pool.
    ///
    /// # Errors
    /// `pool_in_use`, `forbidden`, ….
    pub async fn define_pool(&self, name: &str, size: u32) -> Result<Pool, CallError> {
        let path = format!("/v1/pools/{}", segment(name));
        self.ask(Method::PUT, &path, Some(&PoolSize { size }), Manner::REPEATABLE).await
    }

    /// Shows every pool.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn pools(&self) -> Result<PoolList, CallError> {
        self.get("/v1/pools").await
    }

    /// Removes a pool, with `force` also while members are held.
    ///
    /// # Errors
    /// `pool_not_found`, `pool_in_use`, ….
    pub async fn remove_pool(&self, name: &str, remove: &RemovePool) -> Result<Pool, CallError> {
        let path = with_query(&format!("/v1/pools/{}", segment(name)), remove)?;
        self.ask(Method::DELETE, &path, None::<&()>, Manner::REPEATABLE).await
    }

    /// Checks whether an epoch or a fencing token is the current one, for systems that protect writes.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn check(&self, check: &Check) -> Result<CheckAnswer, CallError> {
        self.ask(Method::POST, "/v1/check", Some(check), Manner::REPEATABLE).await
    }

    /// Returns the history of a lease, a resource, a registration or a session.
    ///
    /// # Errors
    /// `not_found`, `invalid_request` unless exactly one is given, ….
    pub async fn why(&self, query: &WhyQuery) -> Result<Story, CallError> {
        self.get(&with_query("/v1/why", query)?).await
    }

    /// Returns the status of the daemon: version, counts, limits and health.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn status(&self) -> Result<Status, CallError> {
        self.get("/v1/status").await
    }

    /// Stops the daemon.
    ///
    /// # Errors
    /// `forbidden`, ….
    pub async fn shut_down(&self, shut_down: &ShutDown) -> Result<ShuttingDown, CallError> {
        self.ask(Method::POST, "/v1/shutdown", Some(shut_down), Manner::ONCE).await
    }

    /// Resumes expiry at once after mass-expiry protection (the breaker) has paused it.
    ///
    /// # Errors
    /// `forbidden`, ….
    pub async fn reset_breaker(&self) -> Result<BreakerReset, CallError> {
        self.ask(Method::POST, "/v1/breaker/reset", None::<&()>, Manner::REPEATABLE).await
    }

    /// Downloads a backup: a tar archive, piece by piece.
    ///
    /// # Errors
    /// `forbidden`, ….
    pub async fn backup(&self) -> Result<ByteStream, CallError> {
        self.ask_stream(Method::POST, "/v1/backup", Manner::ONCE).await
    }

    /// Returns the daemon's metrics in the text format of Prometheus.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn metrics(&self) -> Result<String, CallError> {
        self.ask_text("/metrics", Manner::REPEATABLE).await
    }

    /// Succeeds if the daemon answers within 200 ms, connecting included.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn health(&self) -> Result<(), CallError> {
        self.health_within(HEALTH_LIMIT).await
    }

    /// Like [`Client::health`], with a limit.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn health_within(&self, limit: Duration) -> Result<(), CallError> {
        let manner = Manner { patience: Patience::AtMost(limit), ..Manner::REPEATABLE };
        self.ask_text("/healthz", manner).await.map(drop)
    }

    /// Succeeds if the daemon is ready to serve.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn ready(&self) -> Result<(), CallError> {
        self.ask_text("/readyz", Manner::REPEATABLE).await.map(drop)
    }

    async fn get<T: serde::de::DeserializeOwned>(&self, path_and_query: &str) -> Result<T, CallError> {
        self.ask(Method::GET, path_and_query, None::<&()>, Manner::REPEATABLE).await
    }

    async fn holder_call(&self, lease_id: &str, verb: &str, call: &HolderCall) -> Result<Lease, CallError> {
        let mut call = call.clone();
        call.operation_id.get_or_insert_with(operation_id);
        self.lease_call(lease_id, verb, &call).await
    }

    async fn operator_call(
        &self,
        lease_id: &str,
        verb: &str,
        call: &OperatorCall,
    ) -> Result<Lease, CallError> {
        let mut call = call.clone();
        call.operation_id.get_or_insert_with(operation_id);
        self.lease_call(lease_id, verb, &call).await
    }

    async fn lease_call(
        &self,
        lease_id: &str,
        verb: &str,
        body: &impl Serialize,
    ) -> Result<Lease, CallError> {
        let path = format!("/v1/leases/{}/{verb}", segment(lease_id));
        self.ask(Method::POST, &path, Some(body), Manner::REPEATABLE).await
    }
}
