//! Polling: how a group of pollers and its targets are shown and steered, and the names under which they live in the
//! daemon. The keys of the shown objects are those of the programs before this one, so `owner` and `node` appear.

mod name;

pub use name::{PollName, PollNameError};

use crate::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a poller stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PollerStatus {
    /// It waits for its name: another by that name may still live.
    Joining,
    /// It polls.
    #[default]
    Online,
    /// It hands its targets over and goes.
    Leaving,
    /// It went and is expected back; nobody takes its targets meanwhile.
    Absent,
    /// An operator asked that it has no targets.
    Cordoned,
}

/// How a target stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TargetState {
    /// Polled by the one who is shown.
    Owned,
    /// Polled by another than the one who shows it.
    Other,
    /// Its poller could not renew: it may not poll until it can.
    Uncertain,
    /// Being handed over or let go.
    Draining,
    /// Nobody's.
    Unowned,
}

/// What a poller tells of itself, as the attachment of its membership.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PollerFacts {
    /// Which run of which program.
    pub instance: String,
    /// How much it takes beside the others.
    pub weight: u32,
    /// How it stands, in its own word: never `cordoned`, which is an operator's.
    pub status: PollerStatus,
    /// Whether its name is one that it comes back with.
    pub fixed_name: bool,
}

/// A group of pollers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PollingView {
    /// The group.
    pub group: String,
    /// The poller that tells it; null where the daemon does.
    pub this_instance_id: Option<String>,
    /// The pollers that live, in order of name.
    pub live_nodes: Vec<PollerNode>,
    /// What nobody polls.
    pub unowned_targets: Vec<String>,
    /// Since when, and who is to take it.
    pub unowned: BTreeMap<String, UnownedTarget>,
    /// Rises with every change of membership and of who polls what.
    pub generation: u64,
    /// When this was so.
    pub timestamp: Time,
}

/// A target that nobody polls.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnownedTarget {
    /// Since when; null where it is not known.
    pub since: Option<Time>,
    /// Who polled it last; null where it is not known.
    pub last_owner_id: Option<String>,
    /// Who is to take it; null where nobody can.
    pub preferred_owner_id: Option<String>,
    /// Why it came free; null where it is not known.
    pub reason: Option<String>,
}

/// A poller that lives.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PollerNode {
    /// Which run of which program.
    pub instance_id: String,
    /// Its name: the instance without what tells two runs of it apart.
    pub name: String,
    /// Whether it is the one that tells.
    pub is_this_instance: bool,
    /// How it stands.
    pub status: PollerStatus,
    /// How much it takes beside the others.
    pub weight: u32,
    /// What it polls; what is not simply owned comes first.
    pub owned_targets: Vec<PolledTarget>,
}

/// A target that somebody polls.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PolledTarget {
    /// The target.
    pub target: String,
    /// Who polls it.
    pub owner_id: String,
    /// Who should; null where nobody can.
    pub preferred_owner_id: Option<String>,
    /// How it stands.
    pub state: TargetState,
    /// What its polls carry; rises with every change of owner. Null where an older program polls it.
    pub fence: Option<u64>,
    /// Since when its poller has it.
    pub acquired_at: Option<Time>,
    /// When it was last renewed.
    pub last_renewed_at: Option<Time>,
    /// Since when its poller cannot renew.
    pub uncertain_since: Option<Time>,
    /// Whether an operator's word keeps it here.
    #[serde(default)]
    pub pinned: bool,
}

/// Which group to show.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NodesQuery {
    /// The group, `default` unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// Moves a target.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MoveTarget {
    /// The target.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 200)))]
    pub target: String,
    /// The poller that is to have it from now on, by name or instance; without one, whoever should by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub poller: Option<String>,
}

/// A target will move.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Moved {
    /// The group.
    pub group: String,
    /// The target.
    pub target: String,
    /// Name of the poller that is to have it; null where it goes by itself again.
    pub poller: Option<String>,
    /// Who polls it now; null if nobody does.
    pub owner_id: Option<String>,
    /// As of this position in the log.
    pub lsn: u64,
}

/// Takes a poller's targets away, or lets it have some again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CordonPoller {
    /// The poller, by name or instance.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub poller: String,
}

/// A poller is cordoned, or not any more.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cordoned {
    /// The group.
    pub group: String,
    /// Name of the poller.
    pub poller: String,
    /// Whether it is.
    pub cordoned: bool,
    /// How many targets it still has.
    pub owned: u64,
    /// As of this position in the log.
    pub lsn: u64,
}
