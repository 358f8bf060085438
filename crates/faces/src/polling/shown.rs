//! A group as it is shown: who polls what, who should, what is nobody's and what fails. What is not simply owned comes
//! first; it is what the reader came for.
//!
//! A poller renews every third of its ttl. One that was not heard of for two thirds has missed a renewal and may be
//! about to lose what it has: its targets are *uncertain*, since the renewal that it missed.

use super::group::{Free, Group, Held, Phase, Poller, is_absent, poller_name};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use tenure_api::{
    self as api, GroupState, PolledTarget, PollerStatus, PollingView, TargetState, UnownedTarget,
};
use tenure_assignment::{self as assignment, Member, Target, assign};
use tenure_engine::kernel::{LeaseId, SessionId};
use tenure_history::rfc3339;

/// What keeps leases alive: a session for many, or the lease itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Keeper {
    Session(SessionId),
    Lease(LeaseId),
}

/// When a keeper was heard of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Beat {
    /// Its time is over, grace aside.
    pub(crate) is_silent: bool,
    pub(crate) last_seen_wall_ms: u64,
    /// How long one proof of life lasts; zero: for as long as a connection is open, or for ever.
    pub(crate) ttl_ms: u64,
    /// When this was so.
    pub(crate) now_wall_ms: u64,
}

/// Who was heard of; a keeper that is not here is gone.
pub(crate) type Beats = HashMap<Keeper, Beat>;

impl Held {
    pub(crate) fn keeper(&self) -> Keeper {
        self.session.map_or(Keeper::Lease(self.lease), Keeper::Session)
    }
}

impl Beat {
    /// Since when a renewal is missing, in unix milliseconds.
    fn missing_since(&self) -> Option<u64> {
        let age_ms = self.now_wall_ms.saturating_sub(self.last_seen_wall_ms);
        let is_late = self.ttl_ms > 0 && age_ms * 3 > self.ttl_ms * 2;
        (self.is_silent || is_late).then_some(self.last_seen_wall_ms + self.ttl_ms / 3)
    }
}

/// How a target stands, and since when its poller is not heard of.
pub(crate) fn stands(
    held: &Held,
    status: Option<PollerStatus>,
    beat: Option<&Beat>,
) -> (TargetState, Option<u64>) {
    match held.phase {
        Phase::Drained | Phase::Revoking => return (TargetState::Draining, None),
        Phase::Kept => {}
    }
    // What keeps the place of one that is away is never heard of.
    let Some(beat) = beat.filter(|_| status != Some(PollerStatus::Absent)) else {
        return (TargetState::Draining, None);
    };
    match (beat.missing_since(), status) {
        (Some(since), _) => (TargetState::Uncertain, Some(since)),
        (None, Some(PollerStatus::Leaving)) => (TargetState::Draining, None),
        (None, _) => (TargetState::Owned, None),
    }
}

/// Statuses of members by instance. Who has a target and is no member has none.
pub(crate) fn statuses(group: &Group) -> HashMap<String, PollerStatus> {
    let mut statuses = HashMap::new();
    for poller in group.members() {
        let status = match poller.status() {
            // It is the word of an operator; whether its poller is going is not in it.
            PollerStatus::Cordoned => poller.facts.status,
            status => status,
        };
        statuses.insert(poller.facts.instance.clone(), status);
        statuses.insert(poller.instance.to_owned(), status);
    }
    statuses
}

/// By target.
pub(crate) type Preferred = HashMap<Arc<str>, String>;

/// Who should have each target that is known, owned or not, by instance: what the pollers themselves work out.
pub(crate) fn preferred(group: &Group) -> Preferred {
    let members: Vec<Poller<'_>> = group.members().filter(Poller::counts).collect();
    let weighed: Vec<Member<'_>> = members
        .iter()
        .map(|poller| Member { name: poller.name, weight: poller.share(), is_new: poller.facts.is_new })
        .collect();
    let member_names: HashSet<&str> = members.iter().map(|poller| poller.name).collect();
    let is_member = |name: &str| member_names.contains(name);
    let pins: BTreeMap<&str, String> = group
        .pins
        .keys()
        .filter_map(|target| group.pinned_to(target).map(|poller| (&**target, poller)))
        .collect();
    let mut preferred = HashMap::new();
    let (mut names, mut targets) = (Vec::new(), Vec::new());
    let owned = group.targets.iter().map(|(name, held)| (name, Some(held.holder.as_str())));
    let unowned = group.unowned().names;
    for (name, holder) in owned.chain(unowned.keys().map(|name| (name, None))) {
        let held_by = holder.map(poller_name);
        if let Some(holder) =
            holder.filter(|holder| is_absent(holder) && held_by.is_none_or(|by| !is_member(by)))
        {
            preferred.insert(Arc::clone(name), holder.to_owned());
            continue;
        }
        names.push(Arc::clone(name));
        targets.push(Target { name, held_by, pinned_to: pins.get(&**name).map(String::as_str) });
    }
    let assigned = assign(assignment::Hash::Xxh64, &weighed, &targets);
    let chosen = names.into_iter().zip(assigned);
    preferred.extend(chosen.filter_map(|(name, to)| Some((name, members[to?].instance.to_owned()))));
    preferred
}

/// The whole group.
pub(crate) fn shown(
    name: &str,
    group: &Group,
    preferred: &Preferred,
    beats: &Beats,
    wall_ms: u64,
) -> PollingView {
    let live_nodes = live_nodes(group, preferred, beats);
    let unowned = group.unowned();
    let told = |target: &str, free: Option<&Free>| UnownedTarget {
        since: free.map(|free| rfc3339(free.since_wall_ms)),
        last_owner_id: free.map(|free| free.last_holder.to_string()),
        preferred_owner_id: preferred.get(target).cloned(),
        reason: free.map(|free| free.left_for.as_str().to_owned()),
    };
    let state = group.state();
    let abandoned = group.free.iter().filter(|_| state == GroupState::Abandoned);
    PollingView {
        group: name.to_owned(),
        this_instance_id: None,
        failing_total: live_nodes.iter().map(|node| node.failing).fold(0, u64::saturating_add),
        live_nodes,
        unowned_targets: unowned.names.keys().map(ToString::to_string).collect(),
        unowned: unowned
            .names
            .iter()
            .map(|(target, free)| (target.to_string(), told(target, free.as_deref())))
            .collect(),
        state,
        unowned_total: unowned.total,
        abandoned: abandoned.map(|(target, free)| (target.to_string(), told(target, Some(free)))).collect(),
        generation: group.generation.0,
        timestamp: rfc3339(wall_ms),
    }
}

/// The pollers with what each has.
fn live_nodes(group: &Group, preferred: &Preferred, beats: &Beats) -> Vec<api::Poller> {
    let statuses = statuses(group);
    let members: Vec<Poller<'_>> = group.members().collect();
    let mut nodes: BTreeMap<(String, String), api::Poller> = BTreeMap::new();
    let mut aliases: HashMap<&str, (String, String)> = HashMap::new();
    let mut failing: HashSet<(&str, &str)> = HashSet::new();
    for poller in &members {
        let node = api::Poller {
            instance_id: poller.instance.to_owned(),
            name: poller.name.to_owned(),
            is_this_instance: false,
            status: poller.status(),
            weight: poller.facts.weight,
            owned_targets: Vec::new(),
            failing: failing_of(group, poller),
        };
        let key = (poller.name.to_owned(), poller.instance.to_owned());
        aliases.insert(&poller.facts.instance, key.clone());
        nodes.insert(key, node);
        let reported = poller.facts.report.iter().flat_map(|report| &report.failing.names);
        failing.extend(reported.map(|target| (poller.name, target.as_str())));
    }
    for (target, held) in &group.targets {
        let holder = held.holder.as_str();
        let own = (poller_name(holder).to_owned(), holder.to_owned());
        let key = if nodes.contains_key(&own) { own } else { aliases.get(holder).cloned().unwrap_or(own) };
        let beat = beats.get(&held.keeper());
        let (state, uncertain_since) = stands(held, statuses.get(holder).copied(), beat);
        let polled = PolledTarget {
            target: target.to_string(),
            owner_id: key.1.clone(),
            preferred_owner_id: preferred.get(&**target).cloned(),
            state,
            fence: Some(held.fence.0),
            acquired_at: held.acquired_wall_ms.map(rfc3339),
            last_renewed_at: beat.map(|beat| rfc3339(beat.last_seen_wall_ms)),
            uncertain_since: uncertain_since.map(rfc3339),
            pinned: group.pinned_to(target).as_deref() == Some(key.0.as_str()),
            failing: failing.contains(&(poller_name(holder), target)),
        };
        nodes.entry(key).or_insert_with_key(stranger).owned_targets.push(polled);
    }
    let mut live_nodes: Vec<api::Poller> = nodes.into_values().collect();
    for node in &mut live_nodes {
        node.owned_targets.sort_by_key(|polled| polled.state == TargetState::Owned && !polled.failing);
    }
    live_nodes
}

/// How many targets of a poller have polls that fail. What it named and does not hold any more does not count.
pub(crate) fn failing_of(group: &Group, poller: &Poller<'_>) -> u64 {
    let Some(reported) = poller.facts.report.as_ref().map(|report| &report.failing) else { return 0 };
    let is_its = |name: &String| {
        group.targets.get(name.as_str()).is_some_and(|held| poller_name(&held.holder) == poller.name)
    };
    let gone = reported.names.iter().filter(|name| !is_its(name)).count();
    reported.total.saturating_sub(gone as u64)
}

/// Somebody who has a target and is no member: it gets no more.
fn stranger((name, instance): &(String, String)) -> api::Poller {
    api::Poller {
        instance_id: instance.clone(),
        name: name.clone(),
        is_this_instance: false,
        status: PollerStatus::Leaving,
        weight: 0,
        owned_targets: Vec::new(),
        failing: 0,
    }
}

#[cfg(test)]
pub(super) mod tests;
