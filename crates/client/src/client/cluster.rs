//! The typed calls about a cluster, one per route: how it stands, and what operators may do to it.

use super::{Client, Manner};
use crate::error::CallError;
use http::Method;
use tenure_api::{ClusterStatus, ForgetNode, NodeForgotten, SecretRotated, SteppedDown};

/// Calls about the cluster that the daemon is a node of.
impl Client {
    /// The cluster as one of its nodes sees it.
    ///
    /// # Errors
    /// `not_clustered` where the daemon has a log of its own, ….
    pub async fn cluster(&self) -> Result<ClusterStatus, CallError> {
        self.ask(Method::GET, "/v1/cluster", None::<&()>, Manner::REPEATABLE).await
    }

    /// Has the writer give its place up; another node takes it.
    ///
    /// # Errors
    /// `not_clustered`, `forbidden` unless as an admin, ….
    pub async fn step_down(&self) -> Result<SteppedDown, CallError> {
        // Asked twice, the next writer would give its place up as well.
        self.ask(Method::POST, "/v1/cluster/step-down", None::<&()>, Manner::ONCE).await
    }

    /// Replaces the secret by which nodes know each other.
    ///
    /// # Errors
    /// `not_clustered`, `store_silent`, `forbidden` unless as an admin, ….
    pub async fn rotate_secret(&self) -> Result<SecretRotated, CallError> {
        self.ask(Method::POST, "/v1/cluster/rotate-secret", None::<&()>, Manner::ONCE).await
    }

    /// Takes a node that will not come back out of the cluster.
    ///
    /// # Errors
    /// `not_found` where no node is called so, `forbidden` unless as an admin, ….
    pub async fn forget_node(&self, node: &str) -> Result<NodeForgotten, CallError> {
        let body = ForgetNode { node: node.to_owned() };
        self.ask(Method::POST, "/v1/cluster/forget", Some(&body), Manner::ONCE).await
    }
}
