//! Where a group is kept, for those who look at it and steer it: the daemon or a Redis. Both are shown as the same
//! object; the daemon makes it itself.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use tenure_api::{
    CordonPoller, Cordoned, ErrorCode, GroupState, MoveTarget, Moved, PolledTarget, Poller, PollerStatus,
    PollingGroups, PollingView, TargetState, UnownedTarget,
};
use tenure_client::clock::{BootInstant, wall_time};
use tenure_polling::assignment::{Hash, Member, Target, assign};
use tenure_polling::store::{RedisStore, StoreError, TargetName, View};

use super::arguments::{Group, StoreChoice};
use crate::connect::{Daemon, Reach, read, route};
use crate::failure::{Failure, Words};
use crate::printer::Printer;
use crate::show::names as names_of;

/// Groups that are named to a reader who asked for another.
const GROUPS_NAMED: usize = 20;

/// A group that can be asked about.
pub(super) struct Place<'a> {
    pub(super) group: &'a Group,
    pub(super) kept: Kept<'a>,
}

/// What keeps it.
pub(super) enum Kept<'a> {
    Daemon { daemon: Daemon, reach: &'a Reach },
    Redis(Box<RedisStore>),
}

/// A group as it stands, and the object that says so.
pub(super) struct Shown {
    pub(super) view: PollingView,
    pub(super) object: Value,
}

impl<'a> Place<'a> {
    /// Finds the daemon, or gets ready for the Redis.
    pub(super) async fn find(
        group: &'a Group,
        reach: &'a Reach,
        printer: &mut Printer,
    ) -> Result<Self, Failure> {
        let kept = match group.store() {
            StoreChoice::Tenure => Kept::Daemon { daemon: reach.daemon(printer).await?, reach },
            StoreChoice::Redis(url) => {
                let options = group.redis.options(url, &group.group)?;
                let store = RedisStore::open(&options)
                    .map_err(|error| Failure::Usage(Words::new(format_args!("--store: {error}"))))?;
                Kept::Redis(Box::new(store))
            }
        };
        Ok(Self { group, kept })
    }

    /// The group as it stands now.
    pub(super) async fn show(&self) -> Result<Shown, Failure> {
        match &self.kept {
            Kept::Daemon { daemon, .. } => {
                let object = daemon.get(route(&["polling", &self.group.group])).await?;
                Ok(Shown { view: read(object.clone())?, object })
            }
            Kept::Redis(store) => {
                let seen = store.group_view().await.map_err(store_failure)?;
                Shown::of(view_of(&self.group.group, self.group.redis.hash.hash(), &seen))
            }
        }
    }

    /// The same. A group that does not exist is an error.
    pub(super) async fn show_existing(&self) -> Result<Shown, Failure> {
        let shown = self.show().await?;
        match shown.view.state {
            GroupState::Active | GroupState::Abandoned => Ok(shown),
            GroupState::Unknown => Err(self.no_such_group().await),
        }
    }

    /// Says which groups there are, where that is known.
    async fn no_such_group(&self) -> Failure {
        let line = format!("there is no group {:?} with pollers or targets", self.group.group);
        let hint = match &self.kept {
            Kept::Daemon { daemon, .. } => match groups(daemon).await {
                Ok((groups, _)) if groups.groups.is_empty() => {
                    "no group has pollers; tenure poll run starts one".to_owned()
                }
                Ok((groups, _)) => {
                    let names: Vec<String> = groups.groups.into_iter().map(|group| group.group).collect();
                    format!("choose one with --group: {}", names_of(&names, GROUPS_NAMED))
                }
                Err(_) => "tenure poll lists the groups".to_owned(),
            },
            Kept::Redis(_) => "check --group and --prefix".to_owned(),
        };
        Failure::Refused(Words::new(line).hint(hint))
    }

    /// Has a target polled by one poller, or, without one, by whoever should by itself.
    pub(super) async fn move_target(&self, target: &str, poller: Option<&str>) -> Result<Value, Failure> {
        match &self.kept {
            Kept::Daemon { daemon, .. } => {
                let order = MoveTarget { target: target.to_owned(), poller: poller.map(str::to_owned) };
                daemon.post(route(&["polling", &self.group.group, "move"]), &order).await.map_err(advised)
            }
            Kept::Redis(store) => {
                store.pin(target, poller).await.map_err(store_failure)?;
                let view = self.show().await?.view;
                let poller = poller.and_then(|poller| node(&view, poller)).map(|node| node.name.clone());
                object(&Moved {
                    group: self.group.group.clone(),
                    target: target.to_owned(),
                    poller,
                    owner_id: polled(&view, target).map(|shown| shown.owner_id.clone()),
                    lsn: 0,
                })
            }
        }
    }

    /// Takes a poller's targets away, or lets it have some again.
    pub(super) async fn cordon(&self, poller: &str, is_cordoned: bool) -> Result<Value, Failure> {
        match &self.kept {
            Kept::Daemon { daemon, .. } => {
                let verb = if is_cordoned { "cordon" } else { "uncordon" };
                let order = CordonPoller { poller: poller.to_owned() };
                daemon.post(route(&["polling", &self.group.group, verb]), &order).await.map_err(advised)
            }
            Kept::Redis(store) => {
                store.cordon(poller, is_cordoned).await.map_err(store_failure)?;
                let view = self.show().await?.view;
                let node = node(&view, poller);
                object(&Cordoned {
                    group: self.group.group.clone(),
                    poller: node.map_or_else(|| poller.to_owned(), |node| node.name.clone()),
                    cordoned: is_cordoned,
                    owned: node.map_or(0, |node| node.owned_targets.len() as u64),
                    lsn: 0,
                })
            }
        }
    }
}

impl Shown {
    /// What a view says as an object.
    pub(super) fn of(view: PollingView) -> Result<Self, Failure> {
        Ok(Self { object: object(&view)?, view })
    }

    /// Counts targets that should be polled and that nobody holds.
    pub(super) fn expecting(self, targets: &[TargetName]) -> Result<Self, Failure> {
        if targets.is_empty() {
            return Ok(self);
        }
        let mut view = self.view;
        for target in targets {
            if polled(&view, target).is_none() {
                let last = view.abandoned.remove(&**target).unwrap_or_default();
                view.unowned.entry(target.to_string()).or_insert(last);
            }
        }
        view.unowned_targets = view.unowned.keys().cloned().collect();
        view.unowned_total = view.unowned_total.max(view.unowned.len() as u64);
        Self::of(view)
    }
}

/// Every group of the daemon, and the object that says so.
pub(super) async fn groups(daemon: &Daemon) -> Result<(PollingGroups, Value), Failure> {
    let object = daemon.get(route(&["polling"])).await?;
    Ok((read(object.clone())?, object))
}

/// The poller of this name or instance.
pub(super) fn node<'v>(view: &'v PollingView, poller: &str) -> Option<&'v Poller> {
    view.live_nodes.iter().find(|node| node.name == poller || node.instance_id == poller)
}

/// The target as somebody polls it.
pub(super) fn polled<'v>(view: &'v PollingView, target: &str) -> Option<&'v PolledTarget> {
    view.live_nodes.iter().flat_map(|node| &node.owned_targets).find(|polled| polled.target == target)
}

/// What a store said, as the failure of a command.
pub(super) fn store_failure(error: StoreError) -> Failure {
    match error {
        StoreError::Unreachable(line) | StoreError::NotMember(line) => Failure::Unexpected(Words::new(line)),
        StoreError::NameTaken(line) | StoreError::Rejected(line) => Failure::Refused(Words::new(line)),
    }
}

/// The same failure with the next step for somebody who steers pollers.
fn advised(failure: Failure) -> Failure {
    let Failure::Answered { error, .. } = &failure else { return failure };
    let hint = match error.code {
        ErrorCode::NotFound => "tenure poll pollers lists the pollers",
        ErrorCode::InvalidState => "tenure poll uncordon lets a poller take targets again",
        _ => return failure,
    };
    failure.with_hint(hint)
}

fn object(value: &impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(value).map_err(|error| Failure::Unexpected(Words::new(error)))
}

/// How a group in a Redis stands.
fn state_of(seen: &View) -> GroupState {
    match (seen.members.is_empty(), seen.owners.is_empty() && seen.pins.is_empty()) {
        (false, _) => GroupState::Active,
        (true, false) => GroupState::Abandoned,
        (true, true) => GroupState::Unknown,
    }
}

/// What a Redis shows, in the words of the API. Targets that nobody holds are not known there.
fn view_of(group: &str, hash: Hash, seen: &View) -> PollingView {
    let members: Vec<Member<'_>> = seen
        .members
        .iter()
        .map(|member| Member {
            name: member.instance.name(),
            weight: if member.status == PollerStatus::Cordoned { 0 } else { member.weight },
            is_new: member.is_new,
        })
        .collect();
    let known: Vec<&TargetName> = seen.owners.keys().chain(seen.pins.keys()).collect();
    let known: std::collections::BTreeSet<&TargetName> = known.into_iter().collect();
    let targets: Vec<Target<'_>> = known
        .iter()
        .map(|target| Target {
            name: target,
            held_by: seen.owners.get(*target).map(|owner| owner.instance.name()),
            pinned_to: seen.pins.get(*target).map(String::as_str),
        })
        .collect();
    let preferred: Vec<Option<String>> = assign(hash, &members, &targets)
        .into_iter()
        .map(|place| place.map(|place| seen.members[place].instance.to_string()))
        .collect();
    let mut nodes: BTreeMap<String, Poller> = seen
        .members
        .iter()
        .map(|member| {
            let node = Poller {
                instance_id: member.instance.to_string(),
                name: member.instance.name().to_owned(),
                is_this_instance: false,
                status: member.status,
                weight: member.weight,
                owned_targets: Vec::new(),
                failing: 0,
            };
            (member.instance.to_string(), node)
        })
        .collect();
    let mut unowned = BTreeMap::new();
    for (target, preferred) in known.into_iter().zip(preferred) {
        let Some(owner) = seen.owners.get(target) else {
            let told = UnownedTarget { preferred_owner_id: preferred, ..UnownedTarget::default() };
            unowned.insert(target.to_string(), told);
            continue;
        };
        let owner_id = owner.instance.to_string();
        let is_member = nodes.contains_key(&owner_id);
        // Who holds something and is no member any more: what it holds ends with its time.
        let node = nodes.entry(owner_id.clone()).or_insert_with(|| Poller {
            instance_id: owner_id.clone(),
            name: owner.instance.name().to_owned(),
            is_this_instance: false,
            status: PollerStatus::Absent,
            weight: 0,
            owned_targets: Vec::new(),
            failing: 0,
        });
        let state = match (is_member, node.status) {
            (true, PollerStatus::Leaving | PollerStatus::Absent) => TargetState::Draining,
            (true, PollerStatus::Joining | PollerStatus::Online | PollerStatus::Cordoned) => {
                TargetState::Owned
            }
            (false, _) => TargetState::Uncertain,
        };
        node.owned_targets.push(PolledTarget {
            target: target.to_string(),
            owner_id,
            preferred_owner_id: preferred,
            state,
            fence: owner.fence,
            acquired_at: owner.acquired_at.clone(),
            last_renewed_at: owner.renewed_at.clone(),
            uncertain_since: None,
            pinned: seen.pins.contains_key(target),
            failing: false,
        });
    }
    let mut live_nodes: Vec<Poller> = nodes.into_values().collect();
    for node in &mut live_nodes {
        node.owned_targets.sort_by_key(|polled| polled.state == TargetState::Owned);
    }
    PollingView {
        group: group.to_owned(),
        this_instance_id: None,
        live_nodes,
        unowned_targets: unowned.keys().cloned().collect(),
        state: state_of(seen),
        unowned_total: unowned.len() as u64,
        unowned,
        abandoned: BTreeMap::new(),
        failing_total: 0,
        generation: seen.generation,
        timestamp: wall_time(BootInstant::now()),
    }
}
