//! The typed calls of polling, one per route: how a group of pollers stands, and what operators may say to it. Being a
//! poller is another crate's business.

use super::{Client, IDEMPOTENCY_KEY, Manner, segment};
use crate::error::CallError;
use crate::operation::operation_id;
use http::{HeaderValue, Method};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_api::{CordonPoller, Cordoned, MoveTarget, Moved, PollingGroups, PollingView};

/// Calls about groups of pollers.
impl Client {
    /// Returns all groups with their counts.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn polling_groups(&self) -> Result<PollingGroups, CallError> {
        self.ask(Method::GET, "/v1/polling", None::<&()>, Manner::REPEATABLE).await
    }

    /// Returns a group: its pollers, the poller and preferred poller of each target, and unowned targets. An unknown
    /// group is empty.
    ///
    /// # Errors
    /// `invalid_request` if the name is invalid, ….
    pub async fn polling(&self, group: &str) -> Result<PollingView, CallError> {
        self.ask(Method::GET, &path(group, ""), None::<&()>, Manner::REPEATABLE).await
    }

    /// Pins a target to a poller, by name or instance; `None` removes the pin.
    ///
    /// # Errors
    /// `not_found` with the names of live pollers, `invalid_state` if the poller takes no targets, `forbidden` without scope
    /// `admin`, ….
    pub async fn move_target(
        &self,
        group: &str,
        target: &str,
        poller: Option<&str>,
    ) -> Result<Moved, CallError> {
        let body = MoveTarget { target: target.to_owned(), poller: poller.map(str::to_owned) };
        self.steer(group, "/move", &body).await
    }

    /// Cordons a poller, by name or instance: it hands over all its targets and gets none.
    ///
    /// # Errors
    /// `not_found` with the names of live pollers, `forbidden` without scope `admin`, ….
    pub async fn cordon(&self, group: &str, poller: &str) -> Result<Cordoned, CallError> {
        self.steer(group, "/cordon", &CordonPoller { poller: poller.to_owned() }).await
    }

    /// Uncordons a poller.
    ///
    /// # Errors
    /// As [`Client::cordon`].
    pub async fn uncordon(&self, group: &str, poller: &str) -> Result<Cordoned, CallError> {
        self.steer(group, "/uncordon", &CordonPoller { poller: poller.to_owned() }).await
    }

    async fn steer<T: DeserializeOwned>(
        &self,
        group: &str,
        verb: &str,
        body: &impl Serialize,
    ) -> Result<T, CallError> {
        let key = HeaderValue::from_str(&operation_id())
            .map_err(|error| CallError::Unsendable(format!("the key: {error}")))?;
        let manner = Manner { headers: vec![(IDEMPOTENCY_KEY, key)], ..Manner::REPEATABLE };
        self.ask(Method::POST, &path(group, verb), Some(body), manner).await
    }
}

fn path(group: &str, verb: &str) -> String {
    format!("/v1/polling/{}{verb}", segment(group))
}
