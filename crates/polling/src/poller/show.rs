//! The group as one poller sees it: what the store shows, and of its own targets what it knows itself.

use super::Shared;
use super::holdings::{Holding, Standing};
use crate::store::{Store, TargetName, View};
use std::collections::BTreeMap;
use std::sync::PoisonError;
use tenure_api::{GroupState, PolledTarget, Poller, PollingView, TargetState, UnownedTarget};
use tenure_client::clock::{BootInstant, wall_time};

impl<S: Store> Shared<S> {
    pub(super) fn show(&self) -> PollingView {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let holdings = self.holdings();
        let me = &self.membership.instance;
        let mut nodes = self.member_nodes(&seen.view);
        let mut unowned = BTreeMap::new();
        for target in seen.targets.iter() {
            let preferred = seen.preferred.get(target).cloned();
            let pinned = seen.view.pins.contains_key(target);
            let shown = match (holdings.get(target), seen.view.owners.get(target)) {
                (Some(holding), _) => own(target, holding, me.as_str(), preferred, pinned),
                (None, Some(owner)) => PolledTarget {
                    target: target.to_string(),
                    owner_id: owner.instance.to_string(),
                    preferred_owner_id: preferred,
                    state: TargetState::Other,
                    fence: owner.fence,
                    acquired_at: owner.acquired_at.clone(),
                    last_renewed_at: owner.renewed_at.clone(),
                    uncertain_since: None,
                    pinned,
                    failing: false,
                },
                (None, None) => {
                    let told = UnownedTarget { preferred_owner_id: preferred, ..UnownedTarget::default() };
                    unowned.insert(target.to_string(), told);
                    continue;
                }
            };
            let node = nodes.entry(shown.owner_id.clone()).or_insert_with(|| Poller {
                instance_id: shown.owner_id.clone(),
                name: shown.owner_id.clone(),
                is_this_instance: false,
                status: tenure_api::PollerStatus::Leaving,
                weight: 0,
                owned_targets: Vec::new(),
                failing: 0,
            });
            node.failing += u64::from(shown.failing);
            node.owned_targets.push(shown);
        }
        let mut live_nodes: Vec<Poller> = nodes.into_values().collect();
        for node in &mut live_nodes {
            let is_settled = |shown: &PolledTarget| {
                matches!(shown.state, TargetState::Owned | TargetState::Other) && !shown.failing
            };
            node.owned_targets.sort_by_key(is_settled);
        }
        PollingView {
            group: self.group.clone(),
            this_instance_id: Some(me.to_string()),
            failing_total: live_nodes.iter().map(|node| node.failing).sum(),
            live_nodes,
            unowned_targets: unowned.keys().cloned().collect(),
            state: GroupState::Active,
            unowned_total: unowned.len() as u64,
            unowned,
            abandoned: BTreeMap::new(),
            generation: seen.view.generation,
            timestamp: wall_time(BootInstant::now()),
        }
    }

    /// The members, itself among them; what they have is not in it.
    fn member_nodes(&self, view: &View) -> BTreeMap<String, Poller> {
        let me = &self.membership.instance;
        let mut nodes: BTreeMap<String, Poller> = BTreeMap::new();
        for member in &view.members {
            let instance_id = member.instance.to_string();
            let node = Poller {
                name: member.instance.name().to_owned(),
                is_this_instance: member.instance == *me,
                status: member.status,
                weight: member.weight,
                owned_targets: Vec::new(),
                failing: 0,
                instance_id: instance_id.clone(),
            };
            nodes.insert(instance_id, node);
        }
        nodes.entry(me.to_string()).or_insert_with(|| Poller {
            instance_id: me.to_string(),
            name: me.name().to_owned(),
            is_this_instance: true,
            status: *self.status.lock().unwrap_or_else(PoisonError::into_inner),
            weight: self.membership.weight,
            owned_targets: Vec::new(),
            failing: 0,
        });
        nodes
    }

    pub(super) fn count_targets(&self) {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let holdings = self.holdings();
        let [mut owned, mut other, mut uncertain, mut draining, mut unowned] = [0_u64; 5];
        for target in seen.targets.iter() {
            match (holdings.get(target).map(state), seen.view.owners.get(target)) {
                (Some(TargetState::Uncertain), _) => uncertain += 1,
                (Some(TargetState::Draining), _) => draining += 1,
                (Some(_), _) => owned += 1,
                (None, Some(_)) => other += 1,
                (None, None) => unowned += 1,
            }
        }
        let targets = [
            ("owned", owned),
            ("other", other),
            ("uncertain", uncertain),
            ("draining", draining),
            ("unowned", unowned),
        ];
        self.counters.set_targets(targets, holdings.failing().len() as u64);
    }
}

fn state(holding: &Holding) -> TargetState {
    match holding.standing {
        Standing::Owned => TargetState::Owned,
        Standing::Uncertain => TargetState::Uncertain,
        Standing::Draining(_) => TargetState::Draining,
    }
}

fn own(
    target: &TargetName,
    holding: &Holding,
    me: &str,
    preferred: Option<String>,
    pinned: bool,
) -> PolledTarget {
    PolledTarget {
        target: target.to_string(),
        owner_id: me.to_owned(),
        preferred_owner_id: preferred,
        state: state(holding),
        fence: Some(holding.lease.fence),
        acquired_at: Some(wall_time(holding.acquired)),
        last_renewed_at: Some(wall_time(holding.renewed)),
        uncertain_since: holding.uncertain_since.map(wall_time),
        pinned,
        failing: holding.is_failing(),
    }
}
