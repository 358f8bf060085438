//! Who has which target, group by group, and which targets came free. Kept from what the engine says as it happens,
//! before whoever asked for it has its answer; nobody watches the log for it.
//!
//! Targets that nobody has are remembered until somebody takes them or nobody asks for them any more (`asked.rs`), up to
//! a number; the oldest are forgotten.

use super::counters::{Counters, UnownedTimes};
use super::group::{Free, Group, Held, poller_name};
use super::why::LeftFor;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use tenure_api::PollName;
use tenure_engine::kernel::{Fence, LeaseId, Lsn, Reason, Text};
use tenure_engine::{Ending, Followed, LeaseSnapshot};

/// Targets that nobody has, in all groups.
const FREE_MAX: usize = 100_000;

#[derive(Default)]
pub(crate) struct Book {
    pages: Mutex<Pages>,
}

struct Pages {
    groups: BTreeMap<String, Arc<Group>>,
    /// Free targets, those first that have been for longest.
    free: BTreeSet<(Lsn, String, String)>,
    /// What happened while the past was still being looked up; `None` once that is done.
    meanwhile: Option<Meanwhile>,
    /// No group that was forgotten had a newer change.
    forgotten: Lsn,
    /// Changes so far.
    versions: u64,
    counters: Counters,
}

/// What is newer than what is being looked up.
#[derive(Default)]
struct Meanwhile {
    ended: HashSet<LeaseId>,
    settled: HashSet<(String, String)>,
}

impl Default for Pages {
    fn default() -> Self {
        Self {
            groups: BTreeMap::new(),
            free: BTreeSet::new(),
            meanwhile: Some(Meanwhile::default()),
            forgotten: Lsn(0),
            versions: 0,
            counters: Counters::default(),
        }
    }
}

/// How a lease ended, as its event or the engine tells.
pub(crate) struct End<'a> {
    pub(crate) lease: LeaseId,
    pub(crate) holder: &'a Text,
    pub(crate) members: &'a [Text],
    pub(crate) reason: Reason,
    pub(crate) text: &'a str,
    pub(crate) wall_ms: u64,
    pub(crate) lsn: Lsn,
}

impl<'a> From<&'a Ending> for End<'a> {
    fn from(ending: &'a Ending) -> Self {
        Self {
            lease: ending.lease,
            holder: &ending.holder,
            members: &ending.members,
            reason: ending.reason,
            text: &ending.text,
            wall_ms: ending.wall_ms,
            lsn: ending.lsn,
        }
    }
}

impl Book {
    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().expect("invariant: nobody panics over the book")
    }

    /// A group as it is; `None` where nothing is known of it. With it, what its generation is at least.
    pub(crate) fn group(&self, group: &str) -> (Option<Arc<Group>>, Lsn) {
        let pages = self.pages();
        (pages.groups.get(group).cloned(), pages.forgotten)
    }

    /// Every group, and what it is counted under.
    pub(crate) fn groups(&self) -> Vec<(String, Arc<Group>)> {
        let pages = self.pages();
        let labelled = |(name, group): (&String, &Arc<Group>)| {
            (pages.counters.label(name).to_owned(), Arc::clone(group))
        };
        pages.groups.iter().map(labelled).collect()
    }

    /// Every group by its name.
    pub(crate) fn named_groups(&self) -> Vec<(String, Arc<Group>)> {
        let pages = self.pages();
        pages.groups.iter().map(|(name, group)| (name.clone(), Arc::clone(group))).collect()
    }

    /// Forgets targets of a group that nobody asks for any more. Looked for outside of the lock, which the engine's
    /// writer waits for.
    pub(crate) fn forget_over(&self, name: &str, wall_ms: u64) {
        let Some(group) = self.pages().groups.get(name).cloned() else { return };
        let over = group.forgettable(wall_ms);
        drop(group);
        if over.is_empty() {
            return;
        }
        let mut pages = self.pages();
        for (target, lsn) in over {
            let free = pages.groups.get(name).and_then(|group| group.free.get(&target));
            if free.is_some_and(|free| free.lsn == lsn) {
                pages.unset_free(name, &target);
            }
        }
        pages.forget_if_empty(name);
    }

    /// The same of every group.
    pub(crate) fn forget_all_over(&self, wall_ms: u64) {
        let names: Vec<String> = self.pages().groups.keys().cloned().collect();
        for name in names {
            self.forget_over(&name, wall_ms);
        }
    }

    /// Targets that left their pollers by what their group is counted under, and how long others were nobody's.
    pub(crate) fn counted(&self) -> (Vec<(String, [u64; LeftFor::ALL.len()])>, UnownedTimes) {
        let pages = self.pages();
        let moves = pages.counters.moves().map(|(group, moves)| (group.to_owned(), *moves)).collect();
        (moves, pages.counters.unowned().clone())
    }

    /// A lease was granted or has changed.
    pub(crate) fn follow(&self, followed: &Followed) {
        let Followed { lease, changed_hands, lsn } = followed;
        let mut pages = self.pages();
        for (group, name) in lease.members.iter().filter_map(|name| PollName::of_resource(name)) {
            let acquired = changed_hands.then_some(lease.now_wall_ms);
            pages.enter(group, &name, Held::of(lease, acquired, &name), *lsn);
            if let (PollName::Target(target), true) = (&name, *changed_hands) {
                pages.settle(group, target);
                pages.taken(group, target, lease.now_wall_ms);
            }
        }
    }

    /// A lease ended.
    pub(crate) fn end(&self, end: &End<'_>) {
        let mut pages = self.pages();
        if let Some(meanwhile) = &mut pages.meanwhile {
            meanwhile.ended.insert(end.lease);
        }
        for (group, name) in end.members.iter().filter_map(|name| PollName::of_resource(name)) {
            pages.change(group, end.lsn, |group| {
                let (place, name) = group.place(&name);
                if place.get(name).is_some_and(|held| held.lease == end.lease) {
                    place.remove(name);
                }
            });
            if let PollName::Target(target) = &name {
                pages.settle(group, target);
                pages.came_free(group, target, end);
            }
            pages.forget_if_empty(group);
        }
    }

    /// Enters a lease that was there before, unless something newer is known of it.
    pub(crate) fn restore(&self, lease: &LeaseSnapshot, acquired_wall_ms: Option<u64>, lsn: Lsn) {
        let mut pages = self.pages();
        if pages.meanwhile.as_ref().is_some_and(|meanwhile| meanwhile.ended.contains(&lease.id)) {
            return;
        }
        for (group, name) in lease.members.iter().filter_map(|name| PollName::of_resource(name)) {
            if pages.groups.get(group).is_none_or(|group| group.held(&name).is_none()) {
                pages.enter(group, &name, Held::of(lease, acquired_wall_ms, &name), lsn);
            }
        }
    }

    /// Remembers how a lease ended before all that was restored began; called in the order of the ends.
    pub(crate) fn recall(&self, end: &End<'_>) {
        let mut pages = self.pages();
        for (group, name) in end.members.iter().filter_map(|name| PollName::of_resource(name)) {
            // A group that is met later is no older than this.
            pages.forgotten = pages.forgotten.max(end.lsn);
            let PollName::Target(target) = name else { continue };
            let key = (group.to_owned(), target);
            let is_newer = pages.meanwhile.as_ref().is_some_and(|known| known.settled.contains(&key));
            let is_held =
                pages.groups.get(group).is_some_and(|group| group.targets.contains_key(key.1.as_str()));
            if !is_newer && !is_held {
                pages.set_free(group, &key.1, end);
                pages.forget_if_empty(group);
            }
        }
    }

    /// Since when a holder has a target, as the log tells.
    pub(crate) fn acquired(&self, group: &str, target: &str, fence: Fence, wall_ms: u64) {
        let mut pages = self.pages();
        let Some(group) = pages.groups.get_mut(group).map(Arc::make_mut) else { return };
        if let Some(held) = group.targets.get_mut(target).filter(|held| held.fence == fence) {
            Arc::make_mut(held).acquired_wall_ms.get_or_insert(wall_ms);
        }
    }

    /// The past has been looked up.
    pub(crate) fn is_complete(&self) {
        self.pages().meanwhile = None;
    }
}

impl Pages {
    fn change(&mut self, group: &str, lsn: Lsn, change: impl FnOnce(&mut Group)) {
        if !self.groups.contains_key(group) {
            self.counters.meet(group);
            let begun = Group { generation: self.forgotten, ..Group::default() };
            self.groups.insert(group.to_owned(), Arc::new(begun));
        }
        let Some(group) = self.groups.get_mut(group).map(Arc::make_mut) else { return };
        self.versions += 1;
        group.version = self.versions;
        group.generation = group.generation.max(lsn);
        change(group);
    }

    fn enter(&mut self, group: &str, name: &PollName, held: Held, lsn: Lsn) {
        let mut left_for = None;
        self.change(group, lsn, |group| {
            let (place, key) = group.place(name);
            let mut held = held;
            let before = place.get(key).cloned();
            if let Some(before) = &before {
                held.acquired_wall_ms = held.acquired_wall_ms.or(before.acquired_wall_ms);
            }
            let held = Arc::new(held);
            place.insert(key.into(), Arc::clone(&held));
            // Between runs of one poller nothing moves.
            if let Some(before) = before
                && before.lease == held.lease
                && poller_name(&before.holder) != poller_name(&held.holder)
                && matches!(name, PollName::Target(_))
            {
                left_for = Some(LeftFor::of_handover(group.is_leaving(&before.holder)));
            }
        });
        if let Some(left_for) = left_for {
            self.counters.left(group, left_for);
        }
    }

    /// What is looked up of the past says nothing new of this target.
    fn settle(&mut self, group: &str, target: &str) {
        if let Some(meanwhile) = &mut self.meanwhile {
            meanwhile.settled.insert((group.to_owned(), target.to_owned()));
        }
    }

    /// Somebody has a target.
    fn taken(&mut self, group: &str, target: &str, wall_ms: u64) {
        if let Some(free) = self.unset_free(group, target) {
            self.counters.taken_after(wall_ms.saturating_sub(free.since_wall_ms));
        }
    }

    /// A target left its poller, and nobody has it.
    fn came_free(&mut self, group: &str, target: &str, end: &End<'_>) {
        let left_for = self.set_free(group, target, end);
        self.counters.left(group, left_for);
    }

    fn set_free(&mut self, group: &str, target: &str, end: &End<'_>) -> LeftFor {
        let is_leaving = self.groups.get(group).is_some_and(|group| group.is_leaving(end.holder));
        let left_for = LeftFor::of_end(end.reason, end.text, is_leaving);
        self.unset_free(group, target);
        if left_for == LeftFor::TargetRemoved {
            return left_for;
        }
        let free =
            Free { since_wall_ms: end.wall_ms, last_holder: end.holder.clone(), left_for, lsn: end.lsn };
        self.change(group, end.lsn, |group| _ = group.free.insert(target.into(), Arc::new(free)));
        self.free.insert((end.lsn, group.to_owned(), target.to_owned()));
        while self.free.len() > FREE_MAX {
            let Some((lsn, group, target)) = self.free.pop_first() else { break };
            self.change(&group, lsn, |group| _ = group.free.remove(target.as_str()));
            self.forget_if_empty(&group);
        }
        left_for
    }

    fn unset_free(&mut self, group: &str, target: &str) -> Option<Arc<Free>> {
        if !self.groups.get(group)?.free.contains_key(target) {
            return None;
        }
        let changed = Arc::make_mut(self.groups.get_mut(group)?);
        self.versions += 1;
        changed.version = self.versions;
        let free = changed.free.remove(target)?;
        self.free.remove(&(free.lsn, group.to_owned(), target.to_owned()));
        Some(free)
    }

    fn forget_if_empty(&mut self, group: &str) {
        let Some(found) = self.groups.get(group) else { return };
        if found.is_empty() {
            self.forgotten = self.forgotten.max(found.generation);
            self.groups.remove(group);
        }
    }
}

#[cfg(test)]
mod tests;
