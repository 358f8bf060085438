//! Who waits for which bundle. Fair: a waiter is served when all it wants is free and no earlier waiter
//! wants any of it. It cannot deadlock: nobody holds a part while waiting for the rest. A waiter that has
//! blocked others for long may be passed while it cannot be served itself.

use crate::request::Ticket;
use std::collections::{BTreeMap, BTreeSet};
use tenure_kernel::names::split_pool_member;
use tenure_kernel::planted::{Planted, planted};
use tenure_kernel::{Action, Bundle, Command, Kernel, Member, OpenSession, Text, Tick};

/// After blocking others for this long a waiter may be passed.
pub(crate) const BLOCKING_MS_MAX: u64 = 30_000;

/// What a queue is for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Wanted {
    Resource(Text),
    Pool(Text),
}

/// Place in the order of arrival.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place(u64);

#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) ticket: Ticket,
    pub(crate) command: Command,
    /// The connection that asks, where it is open at another node.
    pub(crate) opening: Option<Box<OpenSession>>,
    pub(crate) since: Tick,
    pub(crate) deadline: Tick,
    wanted: Vec<Wanted>,
    /// Since when it kept others from something that was free.
    blocking_since: Option<Tick>,
    passed: bool,
}

#[derive(Debug)]
pub(crate) struct Waiters {
    next: u64,
    by_place: BTreeMap<Place, Waiter>,
    by_ticket: BTreeMap<Ticket, Place>,
    queues: BTreeMap<Wanted, BTreeSet<Place>>,
    deadlines: BTreeSet<(Tick, Place)>,
    /// When somebody becomes passable, its queues are worth another look.
    patience: BTreeSet<(Tick, Place)>,
    max: usize,
}

impl Waiters {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            next: 0,
            by_place: BTreeMap::new(),
            by_ticket: BTreeMap::new(),
            queues: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            patience: BTreeSet::new(),
            max,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_place.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.by_place.len() >= self.max
    }

    pub(crate) fn next_deadline(&self) -> Option<Tick> {
        let deadline = self.deadlines.first().map(|(tick, _)| *tick);
        let patience = self.patience.first().map(|(tick, _)| *tick);
        match (deadline, patience) {
            (Some(deadline), Some(patience)) => Some(deadline.min(patience)),
            (deadline, patience) => deadline.or(patience),
        }
    }

    /// Puts a waiter at the end of every queue it wants something from.
    pub(crate) fn join(
        &mut self,
        ticket: Ticket,
        command: Command,
        opening: Option<Box<OpenSession>>,
        now: Tick,
        wait_ms: u64,
    ) {
        let place = Place(self.next);
        self.next += 1;
        let wanted = match &command.action {
            Action::Grant(grant) => wanted_by(&grant.bundle),
            _ => Vec::new(),
        };
        for key in &wanted {
            let queue = self.queues.entry(key.clone()).or_default();
            queue.insert(place);
        }
        let deadline = now.after_ms(wait_ms);
        self.deadlines.insert((deadline, place));
        self.by_ticket.insert(ticket, place);
        let waiter = Waiter {
            ticket,
            command,
            opening,
            since: now,
            deadline,
            wanted,
            blocking_since: None,
            passed: false,
        };
        self.by_place.insert(place, waiter);
    }

    /// Takes a waiter out. Those behind it may be served now: look at what it wanted.
    pub(crate) fn leave(&mut self, place: Place) -> Option<(Waiter, Vec<Wanted>)> {
        let mut waiter = self.by_place.remove(&place)?;
        self.by_ticket.remove(&waiter.ticket);
        self.deadlines.remove(&(waiter.deadline, place));
        if let Some(since) = waiter.blocking_since {
            self.patience.remove(&(since.after_ms(BLOCKING_MS_MAX), place));
        }
        let wanted = core::mem::take(&mut waiter.wanted);
        for key in &wanted {
            if let Some(queue) = self.queues.get_mut(key) {
                queue.remove(&place);
                if queue.is_empty() {
                    self.queues.remove(key);
                }
            }
        }
        Some((waiter, wanted))
    }

    /// Everyone who waits; nobody will be served any more.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Ticket> {
        let max = self.max;
        core::mem::replace(self, Self::new(max)).by_ticket.into_keys()
    }

    /// How many are passed for the first time by a grant of these resources.
    pub(crate) fn passed_by(&mut self, members: &[Text]) -> u64 {
        if self.queues.is_empty() {
            return 0;
        }
        let mut places: Vec<Place> = Vec::new();
        for key in members.iter().flat_map(queues_for) {
            places.extend(self.queues.get(&key).into_iter().flatten());
        }
        places.into_iter().map(|place| self.pass(place)).sum()
    }

    pub(crate) fn find(&self, ticket: Ticket) -> Option<Place> {
        self.by_ticket.get(&ticket).copied()
    }

    /// How many are served before this one, itself included: in the queue in which it has to wait longest.
    pub(crate) fn standing(&self, ticket: Ticket) -> Option<usize> {
        let place = self.find(ticket)?;
        let queues = self.by_place[&place].wanted.iter().filter_map(|key| self.queues.get(key));
        queues.map(|queue| queue.range(..=place).count()).max()
    }

    /// A waiter whose time is over.
    pub(crate) fn overdue(&self, now: Tick) -> Option<Place> {
        self.deadlines.first().filter(|(deadline, _)| *deadline <= now).map(|(_, place)| *place)
    }

    /// Queues in which somebody has just become passable.
    pub(crate) fn grown_passable(&mut self, now: Tick) -> Vec<Wanted> {
        let mut worth_a_look = Vec::new();
        while let Some((at, place)) = self.patience.first().copied()
            && at <= now
        {
            self.patience.remove(&(at, place));
            if let Some(waiter) = self.by_place.get(&place) {
                worth_a_look.extend(waiter.wanted.iter().cloned());
            }
        }
        worth_a_look
    }

    /// How many wait for a name.
    pub(crate) fn waiting_for(&self, wanted: &Wanted) -> usize {
        self.queues.get(wanted).map_or(0, BTreeSet::len)
    }

    /// How many wait for a resource, by its name or as a member of its pool.
    pub(crate) fn waiting_behind(&self, name: &Text) -> usize {
        queues_for(name).map(|key| self.waiting_for(&key)).sum()
    }

    /// Who waits for any of these resources, by name or as members of a pool; first first, each once.
    pub(crate) fn behind(&self, names: &[Text], max: usize) -> impl Iterator<Item = &Waiter> {
        let queues = names.iter().flat_map(queues_for).filter_map(|key| self.queues.get(&key));
        let places: BTreeSet<Place> = queues.flat_map(|queue| queue.iter().copied().take(max)).collect();
        places.into_iter().take(max).map(|place| &self.by_place[&place])
    }

    /// The first name of a bundle that somebody waits for who may not be passed. Remembers that they block.
    pub(crate) fn in_the_way(&mut self, kernel: &Kernel, bundle: &Bundle, now: Tick) -> Option<Wanted> {
        if self.queues.is_empty() || planted(Planted::WaiterOvertakes) {
            return None;
        }
        for key in wanted_by(bundle) {
            let places: Vec<Place> = self.queues.get(&key).into_iter().flatten().copied().collect();
            for place in places {
                if !self.may_be_passed(kernel, place, now) {
                    self.blocks(place, now);
                    return Some(key);
                }
            }
        }
        None
    }

    /// The next waiter in this queue that can be served, going past those that may be passed.
    pub(crate) fn servable(&mut self, kernel: &Kernel, wanted: &Wanted, now: Tick) -> Option<(Place, u64)> {
        let places: Vec<Place> = self.queues.get(wanted)?.iter().copied().collect();
        let last = places.len().saturating_sub(1);
        let mut passable = Vec::new();
        for (index, place) in places.into_iter().enumerate() {
            if self.is_free(kernel, place) {
                if self.is_first_everywhere(kernel, place, now) {
                    let passed = passable.into_iter().map(|other| self.pass(other)).sum();
                    return Some((place, passed));
                }
            } else if index < last {
                self.blocks(place, now);
            }
            if !self.may_be_passed(kernel, place, now) && !planted(Planted::WaiterOvertakes) {
                return None;
            }
            passable.push(place);
        }
        None
    }

    /// Remembers that somebody was passed; counts the first time.
    fn pass(&mut self, place: Place) -> u64 {
        let waiter = self.by_place.get_mut(&place).expect("invariant: a queued waiter is known");
        u64::from(!core::mem::replace(&mut waiter.passed, true))
    }

    /// Whether everything a waiter wants is free.
    fn is_free(&self, kernel: &Kernel, place: Place) -> bool {
        match &self.by_place[&place].command.action {
            Action::Grant(grant) => is_free(kernel, &grant.bundle),
            _ => true,
        }
    }

    fn is_first_everywhere(&self, kernel: &Kernel, place: Place, now: Tick) -> bool {
        planted(Planted::WaiterOvertakes)
            || self.by_place[&place].wanted.iter().all(|key| {
                self.queues[key]
                    .iter()
                    .take_while(|other| **other < place)
                    .all(|other| self.may_be_passed(kernel, *other, now))
            })
    }

    fn may_be_passed(&self, kernel: &Kernel, place: Place, now: Tick) -> bool {
        let blocked_long =
            self.by_place[&place].blocking_since.is_some_and(|since| now.ms_since(since) >= BLOCKING_MS_MAX);
        blocked_long && !self.is_free(kernel, place)
    }

    fn blocks(&mut self, place: Place, now: Tick) {
        let waiter = self.by_place.get_mut(&place).expect("invariant: a queued waiter is known");
        if waiter.blocking_since.is_none() {
            waiter.blocking_since = Some(now);
            self.patience.insert((now.after_ms(BLOCKING_MS_MAX), place));
        }
    }
}

/// Queues in which a request for this resource may stand.
fn queues_for(name: &Text) -> impl Iterator<Item = Wanted> {
    let pool = split_pool_member(name).map(|(pool, _)| Wanted::Pool(pool.into()));
    pool.into_iter().chain([Wanted::Resource(name.clone())])
}

/// Whether nobody holds any of a bundle.
pub(crate) fn is_free(kernel: &Kernel, bundle: &Bundle) -> bool {
    bundle.members.iter().all(|member| match member {
        Member::Resource(name) => kernel.covering(name).is_none(),
        Member::AnyOf { pool, count } => {
            kernel.pool(pool).is_none_or(|pool| pool.removed || pool.free >= *count)
        }
    })
}

/// What a bundle needs, one key per member.
pub(crate) fn wanted_by(bundle: &Bundle) -> Vec<Wanted> {
    bundle
        .members
        .iter()
        .map(|member| match member {
            Member::Resource(name) => Wanted::Resource(name.clone()),
            Member::AnyOf { pool, .. } => Wanted::Pool(pool.clone()),
        })
        .collect()
}
