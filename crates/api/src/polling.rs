//! Polling: groups of pollers and their targets, requests of operators, and the resource names of a group. Field names
//! are those of the programs that Tenure replaces, so that `owner` and `live_nodes` appear.

mod name;

pub use name::{PollName, PollNameError};

use crate::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Status of a poller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PollerStatus {
    /// The poller waits for its name: an earlier run with that name may still be alive.
    Joining,
    /// The poller polls.
    #[default]
    Online,
    /// The poller hands its targets over and stops.
    Leaving,
    /// The poller stopped and is expected back; until then no other poller takes its targets.
    Absent,
    /// An operator cordoned the poller: it gets no targets.
    Cordoned,
}

/// State of a target.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TargetState {
    /// The poller under which the target is listed polls it.
    Owned,
    /// Another poller than the one that sent the list polls it.
    Other,
    /// Its poller could not renew, and does not poll it until it can.
    Uncertain,
    /// Its poller hands it over or releases it.
    Draining,
    /// No poller holds the target.
    Unowned,
}

/// State of a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GroupState {
    /// The group has pollers.
    #[default]
    Active,
    /// The group had targets and has no poller any more. The daemon forgets it a day after its last target became
    /// unowned.
    Abandoned,
    /// The daemon has no poller and no target of the group.
    Unknown,
}

/// Attachment of a poller's membership: what the poller reports about itself.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PollerFacts {
    /// Id of this run of the poller.
    pub instance: String,
    /// Relative weight: how many targets the poller takes compared with others.
    pub weight: u32,
    /// Status as the poller reports it; never `cordoned`, which only an operator sets.
    pub status: PollerStatus,
    /// Whether the poller uses the same name after a restart.
    pub fixed_name: bool,
    /// The poller has not lived for a ttl yet. Earlier versions do not send this field.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub is_new: bool,
    /// Targets of the poller that need attention. Earlier versions do not send this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<PollerReport>,
}

/// Targets of a poller that need attention.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PollerReport {
    /// Targets on its list that no poller holds.
    #[serde(default)]
    pub unowned: ReportedTargets,
    /// Targets of this poller whose last polls failed.
    #[serde(default)]
    pub failing: ReportedTargets,
}

/// Names of targets, as many as fit into an attachment, and their total number.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReportedTargets {
    /// Total number of targets.
    pub total: u64,
    /// Names of all targets, or of the first ones.
    pub names: Vec<String>,
}

impl ReportedTargets {
    /// Bytes that names may take, written as JSON. Two such lists and the other facts fit into an attachment.
    pub const NAMES_BYTES_MAX: usize = 1_500;

    /// Names the first targets, as far as there is room for them, and counts all.
    pub fn of<'a>(targets: impl IntoIterator<Item = &'a str>) -> Self {
        let (mut reported, mut bytes) = (Self::default(), 0_usize);
        for target in targets {
            reported.total += 1;
            let written = serde_json::to_string(target).map_or(usize::MAX, |written| written.len());
            bytes = bytes.saturating_add(written).saturating_add(1);
            if bytes <= Self::NAMES_BYTES_MAX {
                reported.names.push(target.to_owned());
            }
        }
        reported
    }

    /// Whether every target is named.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.names.len() as u64 >= self.total
    }
}

/// A group of pollers and its targets.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PollingView {
    /// Name of the group.
    pub group: String,
    /// Instance of the poller that answers; null if the daemon answers.
    pub this_instance_id: Option<String>,
    /// Live pollers, in order of name.
    pub live_nodes: Vec<Poller>,
    /// Names of targets that a poller of the group has on its list and no poller holds.
    pub unowned_targets: Vec<String>,
    /// For each unowned target: since when, and which poller will take it.
    pub unowned: BTreeMap<String, UnownedTarget>,
    /// State of the group.
    #[serde(default)]
    pub state: GroupState,
    /// Number of unowned targets, including those that no report names.
    #[serde(default)]
    pub unowned_total: u64,
    /// Last targets of a group that has no pollers any more; empty for other groups.
    #[serde(default)]
    pub abandoned: BTreeMap<String, UnownedTarget>,
    /// Number of targets whose polls fail, including those that no report names.
    #[serde(default)]
    pub failing_total: u64,
    /// Number that rises when a poller joins or leaves and when a target changes its poller.
    pub generation: u64,
    /// Time of this view.
    pub timestamp: Time,
}

/// A target that no poller holds.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnownedTarget {
    /// Since when; null if unknown.
    pub since: Option<Time>,
    /// Instance of the poller that held it last; null if unknown.
    pub last_owner_id: Option<String>,
    /// Instance of the poller that will take it; null if no poller can.
    pub preferred_owner_id: Option<String>,
    /// Why its last poller lost or released it; null if unknown.
    pub reason: Option<String>,
}

/// A live poller.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Poller {
    /// Id of this run of the poller.
    pub instance_id: String,
    /// Name of the poller: the instance without the part that tells two runs apart.
    pub name: String,
    /// True for the poller that answers.
    pub is_this_instance: bool,
    /// Status of the poller.
    pub status: PollerStatus,
    /// Relative weight: how many targets the poller takes compared with others.
    pub weight: u32,
    /// Targets of the poller; those in another state than `owned` come first.
    pub owned_targets: Vec<PolledTarget>,
    /// Number of its targets whose polls fail, as the poller reports.
    #[serde(default)]
    pub failing: u64,
}

/// A target that a poller holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PolledTarget {
    /// Name of the target.
    pub target: String,
    /// Instance of the poller that holds the target.
    pub owner_id: String,
    /// Instance of the poller that should hold the target; null if no poller can.
    pub preferred_owner_id: Option<String>,
    /// State of the target.
    pub state: TargetState,
    /// Fencing token of its polls; rises with each change of poller. Null if the poller is a program of an earlier
    /// version.
    pub fence: Option<u64>,
    /// When its poller took it.
    pub acquired_at: Option<Time>,
    /// When its poller last renewed it.
    pub last_renewed_at: Option<Time>,
    /// Since when its poller cannot renew.
    pub uncertain_since: Option<Time>,
    /// True if an operator pinned the target to this poller.
    #[serde(default)]
    pub pinned: bool,
    /// True if its last polls failed, as its poller reports.
    #[serde(default)]
    pub failing: bool,
}

/// All groups of pollers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PollingGroups {
    /// Groups, in order of name.
    pub groups: Vec<PollingGroup>,
}

/// Numbers of a group of pollers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PollingGroup {
    /// Name of the group.
    pub group: String,
    /// State of the group.
    pub state: GroupState,
    /// Number of pollers.
    pub pollers: u64,
    /// Number of targets that a poller holds.
    pub owned: u64,
    /// Number of targets whose pollers could not renew.
    pub uncertain: u64,
    /// Number of targets that their pollers hand over or release.
    pub draining: u64,
    /// Number of targets that a poller has on its list and no poller holds.
    pub unowned: u64,
    /// Number of last targets, if the group has no pollers any more.
    pub abandoned: u64,
    /// Number of targets whose polls fail.
    pub failing: u64,
}

/// Group to show.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NodesQuery {
    /// Name of the group [default: default].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// Request to pin a target to a poller, or to withdraw the pin.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MoveTarget {
    /// Name of the target.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 200)))]
    pub target: String,
    /// Name or instance of the poller that the target is pinned to; absent to withdraw the pin, so that the assignment
    /// decides again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub poller: Option<String>,
}

/// Answer to a move.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Moved {
    /// Name of the group.
    pub group: String,
    /// Name of the target.
    pub target: String,
    /// Name of the poller that the target is pinned to; null if the pin is withdrawn.
    pub poller: Option<String>,
    /// Instance of the poller that holds the target now; null if none does.
    pub owner_id: Option<String>,
    /// Position in the log that the answer reflects.
    pub lsn: u64,
}

/// Request to cordon or uncordon a poller.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CordonPoller {
    /// Name or instance of the poller.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub poller: String,
}

/// Answer to cordon and uncordon.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cordoned {
    /// Name of the group.
    pub group: String,
    /// Name of the poller.
    pub poller: String,
    /// Whether the poller is cordoned.
    pub cordoned: bool,
    /// Number of targets that the poller still holds.
    pub owned: u64,
    /// Position in the log that the answer reflects.
    pub lsn: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An attachment takes 4096 bytes.
    #[test]
    fn a_report_of_any_size_fits_into_an_attachment() {
        let names: Vec<String> = (0..100_000).map(|number| format!("\u{1}\"{number}")).collect();
        let all = ReportedTargets::of(names.iter().map(String::as_str));
        assert_eq!((all.total, all.is_whole()), (100_000, false));
        assert_eq!(all.names[0], names[0], "the first are named");
        let facts = PollerFacts {
            instance: "i".repeat(128),
            weight: u32::MAX,
            status: PollerStatus::Leaving,
            fixed_name: false,
            is_new: true,
            report: Some(PollerReport { unowned: all.clone(), failing: all }),
        };
        let written = serde_json::to_vec(&facts).unwrap();
        assert!(written.len() < 4_096, "{}", written.len());
        assert_eq!(serde_json::from_slice::<PollerFacts>(&written).unwrap(), facts);
    }

    #[test]
    fn few_targets_are_all_named() {
        let few = ReportedTargets::of(["a", "b"]);
        assert_eq!((few.total, few.names.len(), few.is_whole()), (2, 2, true));
        assert!(ReportedTargets::default().is_whole());
    }

    #[test]
    fn facts_of_older_pollers_report_nothing() {
        let old = r#"{"instance":"a","weight":1,"status":"online","fixed_name":false}"#;
        let facts: PollerFacts = serde_json::from_str(old).unwrap();
        assert_eq!(facts.report, None);
        assert_eq!(serde_json::to_string(&facts).unwrap(), old, "and are written as before");
    }
}
