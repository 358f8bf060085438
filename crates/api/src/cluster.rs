//! Several nodes over one log: the leader, the followers, and the health of the store that keeps the log.

use crate::Time;
use core::fmt;
use serde::{Deserialize, Serialize};

/// The cluster, as the node that answers sees it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClusterStatus {
    /// Name of the node that answers.
    pub node: String,
    /// Role of that node.
    pub role: Role,
    /// The leader; null while this node knows of none.
    #[serde(flatten, with = "crate::former::leader")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::former::leader::Written<'static>"))]
    pub leader: Option<ClusterLeader>,
    /// How long a leader may answer without a new proof from the store; another node waits this long before an
    /// election.
    #[serde(flatten, with = "crate::former::leader_ttl_ms")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::former::leader_ttl_ms::Written"))]
    pub leader_ttl_ms: u64,
    /// The newest format that every listed node reads, as far as this node knows. A leader writes no newer one.
    #[serde(default = "first_format")]
    pub format: u32,
    /// Number that rises each time the log is restored or moved.
    pub generation: u64,
    /// Permanent id of the log, in hexadecimal digits.
    pub log_id: String,
    /// First four characters of every lease id.
    #[serde(flatten, with = "crate::former::log_tag")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::former::log_tag::Written<'static>"))]
    pub log_tag: String,
    /// Newest position in the log that this node has applied.
    pub applied_lsn: u64,
    /// Newest position in the log that this node knows of.
    pub head_lsn: u64,
    /// Positions that this node has not applied yet.
    pub lag_lsn: u64,
    /// For how long this node has been behind.
    pub lag_seconds: f64,
    /// Time until the leadership lease of this node ends unless it is renewed; null on a follower.
    #[serde(flatten, with = "crate::former::leadership_lease_ms")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::former::leadership_lease_ms::Written"))]
    pub leadership_lease_ms: Option<u64>,
    /// All nodes that joined and were not removed, in order of name.
    pub nodes: Vec<ClusterNode>,
    /// The store that keeps the log.
    pub store: ClusterStore,
    /// Latest changes of leader, oldest first.
    pub changes: Vec<LeaderChange>,
}

/// Role of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The node decides, and appends to the log; formerly `writer`.
    #[serde(alias = "writer")]
    Leader,
    /// The node applies the leader's records, and forwards requests that it cannot answer itself.
    Follower,
}

/// The leader of the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClusterLeader {
    /// Name of the node.
    pub node: String,
    /// URL of the node.
    pub url: String,
    /// Leader epoch: rises with each election.
    pub epoch: u64,
    /// When the node was elected.
    pub since: Time,
}

/// A node of the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClusterNode {
    /// Name of the node.
    pub node: String,
    /// URL of the node.
    pub url: String,
    /// Id of one run of the node, in hexadecimal digits.
    pub incarnation: String,
    /// Version of the daemon.
    pub version: String,
    /// Networks of the node, as address and prefix length.
    pub subnets: Vec<String>,
    /// Position of the newest snapshot of the node; 0 before the first one.
    pub snapshot_lsn: u64,
    /// The newest format that the node reads.
    #[serde(default = "first_format")]
    pub format: u32,
    /// When the node last wrote its entry in the store.
    pub seen: Time,
    /// State of the node, as far as the answering node knows.
    #[serde(default)]
    pub state: NodeState,
}

/// State of a node in the list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// The node decides, and appends to the log; formerly `writer`.
    #[serde(alias = "writer")]
    Leader,
    /// The node applies the leader's records.
    #[default]
    Follower,
    /// The node has not written its entry for long: it is stopped, or cut off from the store.
    Silent,
}

/// The store that keeps the log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClusterStore {
    /// Kind of the store: `etcd`.
    pub kind: String,
    /// URLs of the store.
    pub endpoints: Vec<String>,
    /// Members of the store that answer.
    pub members: Vec<StoreMember>,
    /// Database size of the largest member.
    pub bytes: u64,
    /// Quota of the store: it takes no more writes beyond this size.
    pub quota_bytes: u64,
    /// Problems that an operator should look into, a sentence each.
    pub warnings: Vec<String>,
    /// Present while the store does not answer this node; the other fields are from its last answer.
    #[serde(default)]
    pub silent: Option<StoreSilence>,
}

/// The store does not answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoreSilence {
    /// When the store last answered.
    pub since: Time,
    /// Milliseconds since then.
    pub for_ms: u64,
    /// Error of the last attempt.
    pub why: String,
}

/// A member of the store.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoreMember {
    /// Name of the member.
    pub name: String,
    /// Id of the member, in hexadecimal digits.
    pub id: String,
    /// Version of the member.
    pub version: String,
    /// Database size of the member.
    pub db_bytes: u64,
    /// True if the member is the Raft leader of the store.
    pub is_leader: bool,
    /// Alarms that the member raised.
    pub alarms: Vec<String>,
}

/// A change of leader.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaderChange {
    /// Leader epoch that began or ended.
    pub epoch: u64,
    /// Name of the node.
    pub node: String,
    /// When the leader changed.
    pub at: Time,
    /// What happened.
    pub how: LeaderChangeKind,
}

/// Kind of a change of leader.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LeaderChangeKind {
    /// The node was elected; formerly `claimed`.
    #[serde(alias = "claimed")]
    Elected,
    /// The node resigned.
    Resigned,
}

/// Answer to a step-down: the leader resigned.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SteppedDown {
    /// Always true.
    pub stepped_down: bool,
    /// The node that was the leader.
    pub node: String,
    /// Leader epoch that ended.
    pub epoch: u64,
}

/// Answer to a rotation of the secret with which nodes authenticate each other.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SecretRotated {
    /// Always true.
    pub rotated: bool,
    /// For how long nodes still accept the former secret.
    pub former_ms: u64,
}

/// Request to remove a permanently lost node from the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ForgetNode {
    /// Name of the node.
    pub node: String,
}

/// Answer to the removal of a node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeForgotten {
    /// Name of the removed node.
    pub forgotten: String,
}

/// What daemons read that do not say it.
fn first_format() -> u32 {
    1
}

impl Role {
    /// Wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Follower => "follower",
        }
    }
}

impl NodeState {
    /// Wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::Silent => "silent",
        }
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl LeaderChangeKind {
    /// Wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Elected => "elected",
            Self::Resigned => "resigned",
        }
    }
}

impl fmt::Display for LeaderChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_node_without_a_leader_says_so_with_null() {
        let told = json!({
            "node": "a", "role": "follower", "leader": null, "writer": null, "leader_ttl_ms": 3000, "writer_ttl_ms": 3000, "format": 2, "generation": 1,
            "log_id": "0f", "log_tag": "k3f9", "tag": "k3f9", "applied_lsn": 1, "head_lsn": 3, "lag_lsn": 2, "lag_seconds": 0.5,
            "leadership_lease_ms": null, "authority_ms": null, "nodes": [],
            "store": {"kind": "etcd", "endpoints": [], "members": [], "bytes": 1, "quota_bytes": 2, "warnings": [],
                      "silent": {"since": "2026-01-01T00:00:00.000Z", "for_ms": 12_000, "why": "no answer within 1s"}},
            "changes": [{"epoch": 6, "node": "b", "at": "2026-01-01T00:00:00.000Z", "how": "resigned"}],
        });
        let status: ClusterStatus = serde_json::from_value(told.clone()).expect("as the wire says it");
        assert_eq!((status.role, status.changes[0].how), (Role::Follower, LeaderChangeKind::Resigned));
        assert_eq!(serde_json::to_value(&status).expect("JSON"), told);
    }

    #[test]
    fn former_names_are_accepted() {
        let told = json!({
            "node": "a", "role": "writer", "writer": null, "writer_ttl_ms": 3000, "generation": 1, "log_id": "0f",
            "tag": "k3f9", "applied_lsn": 1, "head_lsn": 1, "lag_lsn": 0, "lag_seconds": 0.0, "authority_ms": 7, "nodes": [],
            "store": {"kind": "etcd", "endpoints": [], "members": [], "bytes": 1, "quota_bytes": 2, "warnings": []},
            "changes": [{"epoch": 6, "node": "b", "at": "2026-01-01T00:00:00.000Z", "how": "claimed"}],
        });
        let status: ClusterStatus = serde_json::from_value(told).expect("as an earlier version writes it");
        assert_eq!((status.log_tag.as_str(), status.leadership_lease_ms), ("k3f9", Some(7)));
        assert_eq!((status.role, status.changes[0].how), (Role::Leader, LeaderChangeKind::Elected));
    }

    #[test]
    fn wire_names_are_those_of_serde() {
        for role in [Role::Leader, Role::Follower] {
            assert_eq!(serde_json::to_value(role).expect("a string"), role.as_str());
        }
        for state in [NodeState::Leader, NodeState::Follower, NodeState::Silent] {
            assert_eq!(serde_json::to_value(state).expect("a string"), state.as_str());
        }
        for how in [LeaderChangeKind::Elected, LeaderChangeKind::Resigned] {
            assert_eq!(serde_json::to_value(how).expect("a string"), how.as_str());
        }
    }
}
