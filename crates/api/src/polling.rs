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

/// How a group stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GroupState {
    /// It has pollers.
    #[default]
    Active,
    /// It had targets and has no poller any more. The daemon forgets it a day after its last target came free.
    Abandoned,
    /// The daemon knows no poller and no target of it.
    Unknown,
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
    /// It has not lived for a ttl yet. Pollers before this field never say so.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub is_new: bool,
    /// Which of its targets need attention; pollers before this field report nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<PollerReport>,
}

/// Which targets of a poller need attention.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PollerReport {
    /// Targets on its list that no poller holds.
    #[serde(default)]
    pub unowned: ReportedTargets,
    /// Targets it holds whose last polls failed.
    #[serde(default)]
    pub failing: ReportedTargets,
}

/// Targets by name, as many as fit into an attachment, and how many there are.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReportedTargets {
    /// How many there are.
    pub total: u64,
    /// Their names, or the first of them.
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
    /// What a poller of the group asks for and nobody polls.
    pub unowned_targets: Vec<String>,
    /// Since when, and who is to take it.
    pub unowned: BTreeMap<String, UnownedTarget>,
    /// Whether it has pollers.
    #[serde(default)]
    pub state: GroupState,
    /// How many targets are unowned, those included that no poller names.
    #[serde(default)]
    pub unowned_total: u64,
    /// What was polled last in a group that has no pollers any more; empty in any other.
    #[serde(default)]
    pub abandoned: BTreeMap<String, UnownedTarget>,
    /// How many targets have a poller and polls that fail, those included that no poller names.
    #[serde(default)]
    pub failing_total: u64,
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
    /// How many of them have polls that fail, as it reports itself.
    #[serde(default)]
    pub failing: u64,
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
    /// Whether its last polls failed, as its poller reports.
    #[serde(default)]
    pub failing: bool,
}

/// Every group of pollers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PollingGroups {
    /// In order of name.
    pub groups: Vec<PollingGroup>,
}

/// A group of pollers in numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PollingGroup {
    /// The group.
    pub group: String,
    /// Whether it has pollers.
    pub state: GroupState,
    /// Its pollers.
    pub pollers: u64,
    /// Targets that are polled.
    pub owned: u64,
    /// Targets whose pollers are not heard of.
    pub uncertain: u64,
    /// Targets that are handed over or let go.
    pub draining: u64,
    /// Targets that a poller asks for and nobody polls.
    pub unowned: u64,
    /// Targets that were polled last, where the group has no pollers any more.
    pub abandoned: u64,
    /// Targets that have a poller and polls that fail.
    pub failing: u64,
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
