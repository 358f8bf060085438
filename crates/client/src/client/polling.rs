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
    /// Every group, in numbers.
    ///
    /// # Errors
    /// As any call.
    pub async fn polling_groups(&self) -> Result<PollingGroups, CallError> {
        self.ask(Method::GET, "/v1/polling", None::<&()>, Manner::REPEATABLE).await
    }

    /// A group: who polls what, who should, and what nobody polls. One that nobody ever polled in is empty.
    ///
    /// # Errors
    /// `invalid_request` where no group can be called so, ….
    pub async fn polling(&self, group: &str) -> Result<PollingView, CallError> {
        self.ask(Method::GET, &path(group, ""), None::<&()>, Manner::REPEATABLE).await
    }

    /// Has a target polled by one poller, by name or instance; `None`: by whoever should by itself.
    ///
    /// # Errors
    /// `not_found` with the names of the pollers that live, `invalid_state` where the poller takes no targets,
    /// `forbidden` unless as an admin, ….
    pub async fn move_target(
        &self,
        group: &str,
        target: &str,
        poller: Option<&str>,
    ) -> Result<Moved, CallError> {
        let body = MoveTarget { target: target.to_owned(), poller: poller.map(str::to_owned) };
        self.steer(group, "/move", &body).await
    }

    /// Has a poller, by name or instance, hand over all its targets and get none.
    ///
    /// # Errors
    /// `not_found` with the names of the pollers that live, `forbidden` unless as an admin, ….
    pub async fn cordon(&self, group: &str, poller: &str) -> Result<Cordoned, CallError> {
        self.steer(group, "/cordon", &CordonPoller { poller: poller.to_owned() }).await
    }

    /// Lets a poller have targets again.
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
