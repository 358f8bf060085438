//! Several nodes over one log: the leader, the followers, and the health of the store that keeps the log.

use crate::Time;
use core::fmt;
use serde::{Deserialize, Serialize};

/// The cluster as one node sees it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClusterStatus {
    /// The node that answers.
    pub node: String,
    /// Its role at present.
    pub role: Role,
    /// The leader; null while this node knows of none.
    #[serde(flatten, with = "crate::former::leader")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::former::leader::Written<'static>"))]
    pub leader: Option<ClusterLeader>,
    /// A leader that was silent for this long is replaced.
    #[serde(flatten, with = "crate::former::leader_ttl_ms")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::former::leader_ttl_ms::Written"))]
    pub leader_ttl_ms: u64,
    /// The newest format that every listed node reads, as far as this node knows. A leader writes no newer one.
    #[serde(default = "first_format")]
    pub format: u32,
    /// Rises each time the log is restored or moved.
    pub generation: u64,
    /// Names the log for good, in hexadecimal digits.
    pub log_id: String,
    /// First four characters of every lease id.
    pub tag: String,
    /// Newest position in the log that this node has applied.
    pub applied_lsn: u64,
    /// Newest position in the log that this node knows of.
    pub head_lsn: u64,
    /// How many positions it is behind.
    pub lag_lsn: u64,
    /// For how long it has been behind.
    pub lag_seconds: f64,
    /// For how long its leadership lease still lasts; null on a follower.
    pub authority_ms: Option<u64>,
    /// Every node that has joined and was not removed, in order of name.
    pub nodes: Vec<ClusterNode>,
    /// The store that keeps the log.
    pub store: ClusterStore,
    /// The latest changes of leader, oldest first.
    pub changes: Vec<WriterChange>,
}

/// The role of a node at present.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It decides, and appends to the log; formerly `writer`.
    #[serde(alias = "writer")]
    Leader,
    /// It applies the leader's records, and forwards requests that it cannot answer itself.
    Follower,
}

/// The leader.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClusterLeader {
    /// Its name.
    pub node: String,
    /// Where it is reached.
    pub url: String,
    /// Rises with every election.
    pub epoch: u64,
    /// Since when.
    pub since: Time,
}

/// One node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClusterNode {
    /// Its name.
    pub node: String,
    /// Where it is reached.
    pub url: String,
    /// Names one run of it, in hexadecimal digits.
    pub incarnation: String,
    /// Version of the daemon.
    pub version: String,
    /// The networks it is on, as address and length of the prefix.
    pub subnets: Vec<String>,
    /// Position of its newest snapshot; 0 before the first.
    pub snapshot_lsn: u64,
    /// The newest format that it reads.
    #[serde(default = "first_format")]
    pub format: u32,
    /// When it last wrote its entry.
    pub seen: Time,
    /// Its state, as far as this node knows.
    #[serde(default)]
    pub state: NodeState,
}

/// The state of a listed node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// It decides, and appends to the log; formerly `writer`.
    #[serde(alias = "writer")]
    Leader,
    /// It applies the leader's records.
    #[default]
    Follower,
    /// It has not written its entry for long: it is stopped, or cut off from the store.
    Silent,
}

/// The store that keeps the log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClusterStore {
    /// Which kind: `etcd`.
    pub kind: String,
    /// Where it is reached.
    pub endpoints: Vec<String>,
    /// Its members, as far as they answer.
    pub members: Vec<StoreMember>,
    /// Size of the largest member.
    pub bytes: u64,
    /// Beyond this size it takes no more writes.
    pub quota_bytes: u64,
    /// What an operator should look into, a sentence each.
    pub warnings: Vec<String>,
    /// Set while it does not answer this node; the other fields are from its last answer.
    #[serde(default)]
    pub silent: Option<StoreSilence>,
}

/// The store does not answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoreSilence {
    /// When it last answered.
    pub since: Time,
    /// How long ago that is.
    pub for_ms: u64,
    /// The error.
    pub why: String,
}

/// One member of the store.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoreMember {
    /// Its name.
    pub name: String,
    /// Its id, in hexadecimal digits.
    pub id: String,
    /// Its version.
    pub version: String,
    /// Size of its database.
    pub db_bytes: u64,
    /// The other members follow it.
    pub is_leader: bool,
    /// Alarms it has raised.
    pub alarms: Vec<String>,
}

/// A change of leader.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WriterChange {
    /// The epoch of the leader it concerns.
    pub epoch: u64,
    /// Its name.
    pub node: String,
    /// When.
    pub at: Time,
    /// How.
    pub how: ChangeOfWriter,
}

/// How a leader changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChangeOfWriter {
    /// The node was elected.
    Claimed,
    /// The node resigned.
    Resigned,
}

/// The leader resigned.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SteppedDown {
    /// Always true.
    pub stepped_down: bool,
    /// The node that was the leader.
    pub node: String,
    /// Its epoch.
    pub epoch: u64,
}

/// The secret with which nodes authenticate each other was replaced.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SecretRotated {
    /// Always true.
    pub rotated: bool,
    /// For how long nodes still accept the former secret.
    pub former_ms: u64,
}

/// Removes a permanently lost node from the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ForgetNode {
    /// Its name.
    pub node: String,
}

/// A node was removed from the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeForgotten {
    /// Its name.
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

impl ChangeOfWriter {
    /// Wire name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Resigned => "resigned",
        }
    }
}

impl fmt::Display for ChangeOfWriter {
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
            "log_id": "0f", "tag": "k3f9", "applied_lsn": 1, "head_lsn": 3, "lag_lsn": 2, "lag_seconds": 0.5,
            "authority_ms": null, "nodes": [],
            "store": {"kind": "etcd", "endpoints": [], "members": [], "bytes": 1, "quota_bytes": 2, "warnings": [],
                      "silent": {"since": "2026-01-01T00:00:00.000Z", "for_ms": 12_000, "why": "no answer within 1s"}},
            "changes": [{"epoch": 6, "node": "b", "at": "2026-01-01T00:00:00.000Z", "how": "resigned"}],
        });
        let status: ClusterStatus = serde_json::from_value(told.clone()).expect("as the wire says it");
        assert_eq!((status.role, status.changes[0].how), (Role::Follower, ChangeOfWriter::Resigned));
        assert_eq!(serde_json::to_value(&status).expect("JSON"), told);
    }

    #[test]
    fn wire_names_are_those_of_serde() {
        for role in [Role::Leader, Role::Follower] {
            assert_eq!(serde_json::to_value(role).expect("a string"), role.as_str());
        }
        for state in [NodeState::Leader, NodeState::Follower, NodeState::Silent] {
            assert_eq!(serde_json::to_value(state).expect("a string"), state.as_str());
        }
        for how in [ChangeOfWriter::Claimed, ChangeOfWriter::Resigned] {
            assert_eq!(serde_json::to_value(how).expect("a string"), how.as_str());
        }
    }
}
