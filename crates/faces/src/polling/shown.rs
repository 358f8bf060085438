//! A group as it is shown: who polls what, who should, and what is nobody's. What is not simply owned comes first; it
//! is what the reader came for.
//!
//! A poller renews every third of its ttl. One that was not heard of for two thirds has missed a renewal and may be
//! about to lose what it has: its targets are *uncertain*, since the renewal that it missed.

use super::group::{Group, Held, Phase, Poller, is_absent, poller_name};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use tenure_api::{PolledTarget, PollerNode, PollerStatus, PollingView, TargetState, UnownedTarget};
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
    let weighed: Vec<Member<'_>> =
        members.iter().map(|poller| Member { name: poller.name, weight: poller.share() }).collect();
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
    for (name, holder) in owned.chain(group.free.keys().map(|name| (name, None))) {
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
    let statuses = statuses(group);
    let mut nodes: BTreeMap<(String, String), PollerNode> = BTreeMap::new();
    for poller in group.members() {
        let node = PollerNode {
            instance_id: poller.instance.to_owned(),
            name: poller.name.to_owned(),
            is_this_instance: false,
            status: poller.status(),
            weight: poller.facts.weight,
            owned_targets: Vec::new(),
        };
        nodes.insert((poller.name.to_owned(), poller.instance.to_owned()), node);
    }
    let aliases: HashMap<String, (String, String)> = group
        .members()
        .map(|poller| (poller.facts.instance.clone(), (poller.name.to_owned(), poller.instance.to_owned())))
        .collect();
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
        };
        nodes.entry(key).or_insert_with_key(stranger).owned_targets.push(polled);
    }
    let mut live_nodes: Vec<PollerNode> = nodes.into_values().collect();
    for node in &mut live_nodes {
        node.owned_targets.sort_by_key(|polled| polled.state == TargetState::Owned);
    }
    let unowned = group.free.iter().map(|(target, free)| {
        let unowned = UnownedTarget {
            since: Some(rfc3339(free.since_wall_ms)),
            last_owner_id: Some(free.last_holder.to_string()),
            preferred_owner_id: preferred.get(&**target).cloned(),
            reason: Some(free.left_for.as_str().to_owned()),
        };
        (target.to_string(), unowned)
    });
    PollingView {
        group: name.to_owned(),
        this_instance_id: None,
        live_nodes,
        unowned_targets: group.free.keys().map(ToString::to_string).collect(),
        unowned: unowned.collect(),
        generation: group.generation.0,
        timestamp: rfc3339(wall_ms),
    }
}

/// Somebody who has a target and is no member: it gets no more.
fn stranger((name, instance): &(String, String)) -> PollerNode {
    PollerNode {
        instance_id: instance.clone(),
        name: name.clone(),
        is_this_instance: false,
        status: PollerStatus::Leaving,
        weight: 0,
        owned_targets: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
