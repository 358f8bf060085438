//! The typed calls about a cluster, one per route: how it stands, and what operators may do to it.

use super::{Client, Manner};
use crate::error::CallError;
use http::Method;
use tenure_api::{ClusterStatus, ForgetNode, NodeForgotten, SecretRotated, SteppedDown};

/// Calls about the daemon's cluster.
impl Client {
    /// Returns one node's view of the cluster.
    ///
    /// # Errors
    /// `not_clustered` if the daemon is not a node of a cluster, ….
    pub async fn cluster(&self) -> Result<ClusterStatus, CallError> {
        self.ask(Method::GET, "/v1/cluster", None::<&()>, Manner::REPEATABLE).await
    }

    /// Makes the leader resign; another node is elected.
    ///
    /// # Errors
    /// `not_clustered`, `forbidden` without scope `admin`, ….
    pub async fn step_down(&self) -> Result<SteppedDown, CallError> {
        // Asked twice, the next writer would give its place up as well.
        self.ask(Method::POST, "/v1/cluster/step-down", None::<&()>, Manner::ONCE).await
    }

    /// Replaces the secret with which nodes authenticate each other.
    ///
    /// # Errors
    /// `not_clustered`, `store_silent`, `forbidden` without scope `admin`, ….
    pub async fn rotate_secret(&self) -> Result<SecretRotated, CallError> {
        self.ask(Method::POST, "/v1/cluster/rotate-secret", None::<&()>, Manner::ONCE).await
    }

    /// Removes a permanently lost node from the cluster.
    ///
    /// # Errors
    /// `not_found` if no node has this name, `forbidden` without scope `admin`, ….
    pub async fn forget_node(&self, node: &str) -> Result<NodeForgotten, CallError> {
        let body = ForgetNode { node: node.to_owned() };
        self.ask(Method::POST, "/v1/cluster/forget", Some(&body), Manner::ONCE).await
    }
}
