//! The typed calls of mDNS registrations, one per route. The streams are in `discovery.rs`, what keeps a
//! registration in `registration.rs`.

use super::{Client, Manner, segment, with_query};
use crate::error::CallError;
use crate::operation::operation_id;
use crate::transport::Patience;
use core::time::Duration;
use http::Method;
use serde::de::DeserializeOwned;
use tenure_api::{
    AdminRegistration, DaemonStatus, Register, Registered, Registration, RegistrationDrained,
    RegistrationHeartbeat, RegistrationRenewed, RegistrationRevived, ResolveQuery, Resolved, ServiceRecord,
    UnregisterQuery, Unregistered,
};

/// How long the daemon asks the network for one service.
const RESOLVE_WAIT: Duration = Duration::from_secs(5);

const SERVICES: &str = "/v1/mdns/services";
const ADMIN: &str = "/v1/mdns/admin/registrations";

/// Calls about mDNS registrations. Calls of registrants need the whole id, those of operators a unique prefix of at
/// least two characters.
impl Client {
    /// Registers a service. The caller has to send the heartbeats; [`Client::keep_registration`] sends them itself.
    ///
    /// # Errors
    /// `invalid_type`, `invalid_name`, `ttl_out_of_range`, `overloaded` while the name is being withdrawn, ….
    pub async fn register(&self, register: &Register) -> Result<Registration, CallError> {
        let mut register = register.clone();
        register.operation_id.get_or_insert_with(operation_id);
        let registered: Registered =
            self.ask(Method::POST, SERVICES, Some(&register), Manner::REPEATABLE).await?;
        Ok(registered.registered)
    }

    /// Ends the caller's registration; the daemon sends a goodbye packet.
    ///
    /// # Errors
    /// `not_found`, with `reason` if it has ended, ….
    pub async fn unregister(&self, id: &str) -> Result<Unregistered, CallError> {
        self.unregister_epoch(id, None).await
    }

    /// Like [`Client::unregister`]. With an epoch the call fails if the registration belongs to another registrant.
    ///
    /// # Errors
    /// `not_found`, with `reason` if it has ended; `stale_epoch`; ….
    pub async fn unregister_epoch(&self, id: &str, epoch: Option<u64>) -> Result<Unregistered, CallError> {
        let path = with_query(&format!("{SERVICES}/{}", segment(id)), &UnregisterQuery { epoch })?;
        self.ask(Method::DELETE, &path, None::<&()>, Manner::REPEATABLE).await
    }

    /// Renews a registration. With an epoch the call fails if the registration belongs to another registrant.
    ///
    /// # Errors
    /// `not_found`, with `reason` if it is known; `stale_epoch`; ….
    pub async fn heartbeat_registration(
        &self,
        id: &str,
        epoch: Option<u64>,
    ) -> Result<RegistrationRenewed, CallError> {
        self.heartbeat_registration_within(id, epoch, Duration::MAX).await
    }

    pub(crate) async fn heartbeat_registration_within(
        &self,
        id: &str,
        epoch: Option<u64>,
        limit: Duration,
    ) -> Result<RegistrationRenewed, CallError> {
        let path = format!("{SERVICES}/{}/heartbeat", segment(id));
        let manner = Manner { patience: Patience::AtMost(limit), ..Manner::REPEATABLE };
        self.ask(Method::PUT, &path, Some(&RegistrationHeartbeat { epoch }), manner).await
    }

    /// Resolves a service by its full name, like `My App._http._tcp.local`. Takes up to 5 s.
    ///
    /// # Errors
    /// `resolve_timeout` without an answer, `invalid_request` if the name is invalid, ….
    pub async fn resolve(&self, name: &str) -> Result<ServiceRecord, CallError> {
        let path = with_query("/v1/mdns/resolve", &ResolveQuery { name: name.to_owned() })?;
        let manner = Manner { patience: Patience::Longer(RESOLVE_WAIT), ..Manner::REPEATABLE };
        let resolved: Resolved = self.ask(Method::GET, &path, None::<&()>, manner).await?;
        Ok(resolved.resolved)
    }

    /// Returns the state of the daemon and the number of registrations.
    ///
    /// # Errors
    /// `forbidden`, ….
    pub async fn registration_status(&self) -> Result<DaemonStatus, CallError> {
        self.admin(Method::GET, "/v1/mdns/admin/status").await
    }

    /// Returns all registrations, ordered by name.
    ///
    /// # Errors
    /// `forbidden`, ….
    pub async fn registrations(&self) -> Result<Vec<AdminRegistration>, CallError> {
        self.admin(Method::GET, ADMIN).await
    }

    /// One registration.
    ///
    /// # Errors
    /// `not_found`, `ambiguous_id`, ….
    pub async fn registration(&self, id: &str) -> Result<AdminRegistration, CallError> {
        self.admin(Method::GET, &format!("{ADMIN}/{}", segment(id))).await
    }

    /// Ends any registration, whatever its state.
    ///
    /// # Errors
    /// `not_found`, `ambiguous_id`, ….
    pub async fn end_registration(&self, id: &str) -> Result<Unregistered, CallError> {
        self.admin(Method::DELETE, &format!("{ADMIN}/{}", segment(id))).await
    }

    /// Lets a registration end after its grace.
    ///
    /// # Errors
    /// `not_found`, `ambiguous_id`, `already_draining`, `permanent_lease`, ….
    pub async fn drain_registration(&self, id: &str) -> Result<RegistrationDrained, CallError> {
        self.admin(Method::POST, &format!("{ADMIN}/{}/drain", segment(id))).await
    }

    /// Cancels a drain.
    ///
    /// # Errors
    /// `not_found`, `ambiguous_id`, `not_draining`, `no_liveness`, ….
    pub async fn revive_registration(&self, id: &str) -> Result<RegistrationRevived, CallError> {
        self.admin(Method::POST, &format!("{ADMIN}/{}/revive", segment(id))).await
    }

    async fn admin<T: DeserializeOwned>(&self, method: Method, path: &str) -> Result<T, CallError> {
        // A drain that is asked for twice is refused the second time.
        let manner = if method == Method::POST { Manner::ONCE } else { Manner::REPEATABLE };
        self.ask(method, path, None::<&()>, manner).await
    }
}
