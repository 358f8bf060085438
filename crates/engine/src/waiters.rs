//! Who waits for which bundle. Fair: a waiter is served when all it wants is free and no earlier waiter wants any of
//! it. It cannot deadlock: nobody holds a part while waiting for the rest, and each stands only behind earlier ones. A
//! waiter that has blocked others for long may be passed while it cannot be served itself.
//!
//! A pool and its named members: an earlier waiter for any of a pool wants every member of it, one for a named member
//! wants that one. A grant of any of a pool gets members that no earlier waiter names.

use crate::quota::Quota;
use crate::request::Ticket;
use core::cell::Cell;
use core::ops::Bound;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tenure_kernel::names::{pool_member, split_pool_member};
use tenure_kernel::planted::{Planted, planted};
use tenure_kernel::{Bundle, Command, Kernel, Member, OpenSession, Operation, Text, Tick};

/// After blocking others for this long a waiter may be passed.
pub(crate) const BLOCKING_MS_MAX: u64 = 30_000;
/// Waiters of one queue that one grant is counted to have passed.
const PASSED_PER_QUEUE_MAX: usize = 64;
/// While one that has blocked for long could be served, and is not, those behind it are looked at this often.
const LOOK_AGAIN_MS: u64 = 1_000;
/// Waiters that become passable in one turn.
const PASSABLE_PER_TURN_MAX: usize = 256;

/// What a queue is for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Wanted {
    Resource(Text),
    Pool(Text),
}

/// Place in the order of arrival.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place(u64);

impl Place {
    /// Behind everyone: the place of a grant that does not wait.
    pub(crate) const LAST: Self = Self(u64::MAX);
}

/// A request that waits for its bundle, or would.
#[derive(Debug)]
pub(crate) struct Try {
    pub(crate) ticket: Ticket,
    pub(crate) command: Command,
    /// The connection that asks, where it is open at another node.
    pub(crate) opening: Option<Box<OpenSession>>,
}

#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) request: Try,
    pub(crate) since: Tick,
    pub(crate) deadline: Tick,
    standing: Standing,
    /// Queues in which it kept somebody else from what was free: worth a look once it no longer does.
    holds_back: BTreeSet<Wanted>,
}

/// What a waiter has come to by waiting.
#[derive(Debug)]
pub(crate) struct Standing {
    place: Place,
    wanted: Vec<Wanted>,
    /// Since when it kept others from something that was free.
    blocking_since: Option<Tick>,
    /// Later requests that were granted something it wants.
    passed: u64,
}

/// Why a bundle is not to be had yet: who is before, and what they want of it.
struct Obstacle {
    wanted: Wanted,
    places: Vec<Place>,
}

/// A waiter that can be served.
pub(crate) struct Servable {
    pub(crate) place: Place,
    /// What it is to take, where that is not left to the kernel.
    pub(crate) chosen: Option<Bundle>,
}

/// Queues to look at, in the order in which something came free in them.
#[derive(Default)]
pub(crate) struct Freed {
    order: VecDeque<Wanted>,
    known: BTreeSet<Wanted>,
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
    /// Waiters and members looked at so far: the measure of work.
    looks: Cell<u64>,
    quota: Quota,
}

impl Freed {
    pub(crate) fn insert(&mut self, wanted: Wanted) {
        if self.known.insert(wanted.clone()) {
            self.order.push_back(wanted);
        }
    }

    pub(crate) fn extend(&mut self, wanted: impl IntoIterator<Item = Wanted>) {
        wanted.into_iter().for_each(|wanted| self.insert(wanted));
    }

    pub(crate) fn first(&self) -> Option<&Wanted> {
        self.order.front()
    }

    pub(crate) fn remove_first(&mut self) {
        if let Some(first) = self.order.pop_front() {
            self.known.remove(&first);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

impl Standing {
    fn has_blocked_long(&self, now: Tick) -> bool {
        self.blocking_since.is_some_and(|since| now.ms_since(since) >= BLOCKING_MS_MAX)
    }
}

impl Waiter {
    pub(crate) fn operation(&self) -> Option<&Operation> {
        self.request.command.operation.as_ref()
    }

    /// What it keeps of its wait if it comes back.
    pub(crate) fn into_standing(self) -> Standing {
        self.standing
    }

    /// How many later requests were granted something it wants.
    pub(crate) fn passed(&self) -> u64 {
        self.standing.passed
    }

    fn bundle(&self) -> Option<&Bundle> {
        self.request.command.action.grant().map(|grant| &grant.bundle)
    }

    /// Queues in which somebody may go on once this one is no longer in the way.
    fn behind(&self) -> impl Iterator<Item = Wanted> {
        let pools = self.standing.wanted.iter().filter_map(|wanted| match wanted {
            Wanted::Resource(name) => pool_of(name),
            Wanted::Pool(_) => None,
        });
        self.standing.wanted.iter().cloned().chain(pools).chain(self.holds_back.iter().cloned())
    }
}

impl Waiters {
    pub(crate) fn new() -> Self {
        Self {
            next: 0,
            by_place: BTreeMap::new(),
            by_ticket: BTreeMap::new(),
            queues: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            patience: BTreeSet::new(),
            looks: Cell::new(0),
            quota: Quota::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_place.len()
    }

    /// How many of one principal wait.
    pub(crate) fn of(&self, principal: Option<&Text>) -> usize {
        self.quota.of(principal)
    }

    /// Waiters and members looked at so far.
    pub(crate) fn looks(&self) -> u64 {
        self.looks.get()
    }

    fn look(&self) {
        self.looks.set(self.looks.get() + 1);
    }

    pub(crate) fn next_deadline(&self) -> Option<Tick> {
        let deadline = self.deadlines.first().map(|(tick, _)| *tick);
        let patience = self.patience.first().map(|(tick, _)| *tick);
        match (deadline, patience) {
            (Some(deadline), Some(patience)) => Some(deadline.min(patience)),
            (deadline, patience) => deadline.or(patience),
        }
    }

    /// Puts a waiter into every queue it wants something from: where it stood before it was interrupted, else at the
    /// end.
    pub(crate) fn join(&mut self, request: Try, now: Tick, wait_ms: u64, before: Option<Standing>) -> Place {
        let wanted = request.command.action.grant().map_or_else(Vec::new, |grant| wanted_by(&grant.bundle));
        let standing = before.filter(|before| before.wanted == wanted).unwrap_or_else(|| {
            self.next += 1;
            Standing { place: Place(self.next), wanted, blocking_since: None, passed: 0 }
        });
        let place = standing.place;
        for key in &standing.wanted {
            let queue = self.queues.entry(key.clone()).or_default();
            queue.insert(place);
        }
        if let Some(since) = standing.blocking_since {
            self.patience.insert((since.after_ms(BLOCKING_MS_MAX), place));
        }
        let deadline = now.after_ms(wait_ms);
        self.deadlines.insert((deadline, place));
        self.by_ticket.insert(request.ticket, place);
        self.quota.add(&request);
        let waiter = Waiter { request, since: now, deadline, standing, holds_back: BTreeSet::new() };
        self.by_place.insert(place, waiter);
        place
    }

    /// Another try of the same operation goes on waiting at this place.
    pub(crate) fn succeed(&mut self, place: Place, heir: Try) {
        if planted(Planted::HeirLosesPlace) {
            return self.move_to_end(place, Some(heir));
        }
        let waiter = self.by_place.get_mut(&place).expect("invariant: a place in use has a waiter");
        self.by_ticket.remove(&waiter.request.ticket);
        self.by_ticket.insert(heir.ticket, place);
        self.quota.remove(&waiter.request);
        self.quota.add(&heir);
        waiter.request = heir;
    }

    /// For planted bugs: a waiter loses its place.
    fn move_to_end(&mut self, place: Place, heir: Option<Try>) {
        let Some((waiter, _)) = self.leave(place) else { return };
        let left_ms = waiter.deadline.ms_since(waiter.since);
        self.join(heir.unwrap_or(waiter.request), waiter.since, left_ms, None);
    }

    /// For planted bugs: the waiter of an operation loses its place.
    pub(crate) fn move_operation_to_end(&mut self, operation: &Operation) {
        let waits = |waiter: &Waiter| waiter.operation().is_some_and(|own| own.key == operation.key);
        let found = self.by_place.iter().find(|(_, waiter)| waits(waiter)).map(|(place, _)| *place);
        if let Some(place) = found {
            self.move_to_end(place, None);
        }
    }

    /// Takes a waiter out. Those behind it may be served now: look at these queues.
    pub(crate) fn leave(&mut self, place: Place) -> Option<(Waiter, Vec<Wanted>)> {
        let waiter = self.by_place.remove(&place)?;
        self.quota.remove(&waiter.request);
        self.by_ticket.remove(&waiter.request.ticket);
        self.deadlines.remove(&(waiter.deadline, place));
        if let Some(since) = waiter.standing.blocking_since {
            self.patience.remove(&(since.after_ms(BLOCKING_MS_MAX), place));
        }
        for key in &waiter.standing.wanted {
            if let Some(queue) = self.queues.get_mut(key) {
                queue.remove(&place);
                if queue.is_empty() {
                    self.queues.remove(key);
                }
            }
        }
        let behind = waiter.behind().filter(|key| self.is_wanted(key)).collect();
        Some((waiter, behind))
    }

    /// Everyone who waits; nobody will be served any more. Places are never given twice.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Ticket> {
        let fresh = Self { next: self.next, looks: self.looks.clone(), ..Self::new() };
        core::mem::replace(self, fresh).by_ticket.into_keys()
    }

    /// How many are passed for the first time by a grant of these resources to one that stood here.
    pub(crate) fn passed_by(&mut self, members: &[Text], place: Place) -> u64 {
        if self.queues.is_empty() {
            return 0;
        }
        let queues = members.iter().flat_map(queues_for).filter_map(|key| self.queues.get(&key));
        let earlier = queues.flat_map(|queue| queue.range(..place).take(PASSED_PER_QUEUE_MAX));
        // One that wants several of them is passed once.
        let earlier: BTreeSet<Place> = earlier.copied().collect();
        let mut first = 0;
        for other in earlier {
            let waiter = self.by_place.get_mut(&other).expect("invariant: a queued waiter is known");
            first += u64::from(waiter.standing.passed == 0);
            waiter.standing.passed += 1;
        }
        first
    }

    pub(crate) fn find(&self, ticket: Ticket) -> Option<Place> {
        self.by_ticket.get(&ticket).copied()
    }

    pub(crate) fn get(&self, place: Place) -> Option<&Waiter> {
        self.by_place.get(&place)
    }

    /// How many are served before this one, itself included: in the queue in which it has to wait longest.
    pub(crate) fn standing(&self, ticket: Ticket) -> Option<usize> {
        let place = self.find(ticket)?;
        let queues = self.by_place[&place].standing.wanted.iter().filter_map(|key| self.queues.get(key));
        queues.map(|queue| queue.range(..=place).count()).max()
    }

    /// A waiter whose time is over.
    pub(crate) fn overdue(&self, now: Tick) -> Option<Place> {
        self.deadlines.first().filter(|(deadline, _)| *deadline <= now).map(|(_, place)| *place)
    }

    /// Queues in which somebody has just become passable. The rest of them is for the next turn.
    pub(crate) fn grown_passable(&mut self, now: Tick) -> Vec<Wanted> {
        let mut worth_a_look = Vec::new();
        for _ in 0..PASSABLE_PER_TURN_MAX {
            let Some((at, place)) = self.patience.first().copied().filter(|(at, _)| *at <= now) else {
                break;
            };
            self.patience.remove(&(at, place));
            if let Some(waiter) = self.by_place.get(&place) {
                worth_a_look.extend(waiter.behind());
            }
        }
        worth_a_look
    }

    /// Whether anybody stands in this queue.
    pub(crate) fn is_wanted(&self, wanted: &Wanted) -> bool {
        self.queues.contains_key(wanted)
    }

    /// How many wait for this, by name or as a member of its pool.
    pub(crate) fn waiting_for(&self, wanted: &Wanted) -> usize {
        match wanted {
            Wanted::Resource(name) => self.waiting_behind(name),
            Wanted::Pool(_) => self.queues.get(wanted).map_or(0, BTreeSet::len),
        }
    }

    /// How many wait for a resource, by its name or as a member of its pool.
    pub(crate) fn waiting_behind(&self, name: &Text) -> usize {
        queues_for(name).filter_map(|key| self.queues.get(&key)).map(BTreeSet::len).sum()
    }

    /// Who waits for any of these resources, by name or as members of a pool; first first, each once.
    pub(crate) fn behind(&self, names: &[Text], max: usize) -> impl Iterator<Item = &Waiter> {
        let queues = names.iter().flat_map(queues_for).filter_map(|key| self.queues.get(&key));
        let places: BTreeSet<Place> = queues.flat_map(|queue| queue.iter().copied().take(max)).collect();
        places.into_iter().take(max).map(|place| &self.by_place[&place])
    }

    /// Whether a grant that does not wait may have a bundle, and what it is to take of it where that is not left to the
    /// kernel.
    ///
    /// # Errors
    /// The key that an earlier waiter wants and may not be passed for. Records that the waiter blocks, where the key is free.
    pub(crate) fn admit(
        &mut self,
        kernel: &Kernel,
        bundle: &Bundle,
        now: Tick,
    ) -> Result<Option<Bundle>, Wanted> {
        if self.queues.is_empty() {
            return Ok(None);
        }
        self.look_before(kernel, bundle, Place::LAST, now).map_err(|obstacle| {
            if has_free(kernel, &obstacle.wanted) {
                obstacle.places.into_iter().for_each(|place| self.blocks(place, now));
            }
            obstacle.wanted
        })
    }

    /// The next waiter in this queue that can be served, going past those that may be passed.
    pub(crate) fn servable(&mut self, kernel: &Kernel, wanted: &Wanted, now: Tick) -> Option<Servable> {
        let mut after = Bound::Unbounded;
        loop {
            let mut queue = self.queues.get(wanted)?.range((after, Bound::Unbounded)).copied();
            let place = queue.next()?;
            let is_last = queue.next().is_none();
            self.look();
            let waiter = &self.by_place[&place];
            if waiter.bundle().is_none_or(|bundle| is_free(kernel, bundle)) {
                let found = match waiter.bundle() {
                    Some(bundle) => self.look_before(kernel, bundle, place, now),
                    None => Ok(None),
                };
                match found {
                    Ok(chosen) => return Some(Servable { place, chosen }),
                    Err(obstacle) => self.held_back(&obstacle, wanted, now),
                }
                return None;
            }
            if !is_last && has_free(kernel, wanted) {
                self.blocks(place, now);
            }
            if !self.may_be_passed(kernel, place, now) && !planted(Planted::WaiterOvertakes) {
                return None;
            }
            after = Bound::Excluded(place);
        }
    }

    /// Somebody in this queue could be served but for those.
    fn held_back(&mut self, obstacle: &Obstacle, wanted: &Wanted, now: Tick) {
        for place in &obstacle.places {
            self.blocks(*place, now);
            let waiter = self.by_place.get_mut(place).expect("invariant: a queued waiter is known");
            waiter.holds_back.insert(wanted.clone());
            // It may not be passed only because it could be served. That may change with no word of it in this queue.
            if waiter.standing.has_blocked_long(now) {
                self.patience.insert((now.after_ms(LOOK_AGAIN_MS), *place));
            }
        }
    }

    /// Whether anybody before this place wants any of a bundle and may not be passed; if not, what is to be taken of
    /// it where that is not left to the kernel.
    fn look_before(
        &self,
        kernel: &Kernel,
        bundle: &Bundle,
        place: Place,
        now: Tick,
    ) -> Result<Option<Bundle>, Obstacle> {
        if planted(Planted::WaiterOvertakes) {
            return Ok(None);
        }
        let mut chosen = Vec::new();
        for member in &bundle.members {
            let wanted = wanted_of(member);
            let mut earlier = self.first_before(kernel, &wanted, place, now);
            if let (None, Member::Resource(name)) = (earlier, member)
                && let Some(pool) = pool_of(name)
                && is_member(kernel, name)
                && !planted(Planted::PoolAndMembersApart)
            {
                earlier = self.first_before(kernel, &pool, place, now);
            }
            if let Some(earlier) = earlier {
                return Err(Obstacle { wanted, places: vec![earlier] });
            }
            if let Member::AnyOf { pool, count } = member
                && !planted(Planted::PoolAndMembersApart)
                && let Some(names) = self.choose(kernel, bundle, pool, *count, place, now)?
            {
                chosen.push((pool, names));
            }
        }
        Ok((!chosen.is_empty()).then(|| with_names(bundle, chosen)))
    }

    /// The first in a queue before this place that may not be passed.
    fn first_before(&self, kernel: &Kernel, wanted: &Wanted, place: Place, now: Tick) -> Option<Place> {
        let mut earlier = self.queues.get(wanted)?.range(..place).copied();
        earlier.find(|other| {
            self.look();
            !self.may_be_passed(kernel, *other, now)
        })
    }

    /// The lowest free members of a pool that nobody before this place names; `None`: those that the kernel takes.
    fn choose(
        &self,
        kernel: &Kernel,
        bundle: &Bundle,
        pool: &Text,
        count: u32,
        place: Place,
        now: Tick,
    ) -> Result<Option<Vec<Text>>, Obstacle> {
        if !self.names_members_of(pool) {
            return Ok(None);
        }
        let count = count as usize;
        let (mut names, mut places) = (Vec::new(), Vec::new());
        for number in kernel.free_members(pool) {
            if names.len() == count {
                break;
            }
            self.look();
            let name = pool_member(pool, number);
            if is_named(bundle, &name) {
                continue;
            }
            match self.first_before(kernel, &Wanted::Resource(name.clone()), place, now) {
                Some(earlier) => places.push(earlier),
                None => names.push(name),
            }
        }
        match (names.len() == count, places.is_empty()) {
            (true, false) => Ok(Some(names)),
            (_, true) => Ok(None),
            (false, false) if names.len() + places.len() < count => Ok(None),
            (false, false) => {
                places.truncate(count);
                Err(Obstacle { wanted: Wanted::Pool(pool.clone()), places })
            }
        }
    }

    /// Whether anybody may wait for a member of a pool by its name.
    fn names_members_of(&self, pool: &Text) -> bool {
        let mut prefix = pool.clone();
        prefix.push('/');
        let first = self.queues.range(Wanted::Resource(prefix.clone())..).next();
        matches!(first, Some((Wanted::Resource(name), _)) if name.starts_with(prefix.as_str()))
    }

    fn may_be_passed(&self, kernel: &Kernel, place: Place, now: Tick) -> bool {
        let waiter = &self.by_place[&place];
        waiter.standing.has_blocked_long(now)
            && waiter.bundle().is_some_and(|bundle| !is_free(kernel, bundle))
    }

    fn blocks(&mut self, place: Place, now: Tick) {
        let waiter = self.by_place.get_mut(&place).expect("invariant: a queued waiter is known");
        if waiter.standing.blocking_since.is_none() {
            waiter.standing.blocking_since = Some(now);
            self.patience.insert((now.after_ms(BLOCKING_MS_MAX), place));
        }
    }
}

/// Queues in which a request for this resource may stand.
pub(crate) fn queues_for(name: &Text) -> impl Iterator<Item = Wanted> {
    pool_of(name).into_iter().chain([Wanted::Resource(name.clone())])
}

/// The queue of the pool that a resource would be a member of, by its name.
fn pool_of(name: &Text) -> Option<Wanted> {
    split_pool_member(name).map(|(pool, _)| Wanted::Pool(pool.into()))
}

/// Whether a resource is a member of a pool that there is.
fn is_member(kernel: &Kernel, name: &Text) -> bool {
    split_pool_member(name).is_some_and(|(pool, number)| {
        kernel.pool(pool).is_some_and(|found| !found.removed && number <= found.size)
    })
}

/// A bundle with members named where any would have done.
fn with_names(bundle: &Bundle, mut chosen: Vec<(&Text, Vec<Text>)>) -> Bundle {
    let mut members = Vec::with_capacity(bundle.members.len());
    for member in &bundle.members {
        match chosen.first() {
            Some((pool, _)) if wanted_of(member) == Wanted::Pool((*pool).clone()) => {
                members.extend(chosen.remove(0).1.into_iter().map(Member::Resource));
            }
            Some(_) | None => members.push(member.clone()),
        }
    }
    Bundle { members: members.into() }
}

fn is_named(bundle: &Bundle, name: &Text) -> bool {
    bundle.members.iter().any(|member| matches!(member, Member::Resource(named) if named == name))
}

/// Whether anything of what a queue is for is free.
fn has_free(kernel: &Kernel, wanted: &Wanted) -> bool {
    match wanted {
        Wanted::Resource(name) => kernel.covering(name).is_none(),
        Wanted::Pool(pool) => kernel.pool(pool).is_none_or(|found| found.removed || found.free > 0),
    }
}

/// Whether nobody holds any of a bundle.
pub(crate) fn is_free(kernel: &Kernel, bundle: &Bundle) -> bool {
    bundle.members.iter().all(|member| match member {
        Member::Resource(name) => kernel.covering(name).is_none(),
        Member::AnyOf { pool, count } => kernel.pool(pool).is_none_or(|found| {
            // Members that the bundle names itself are not any others.
            let named = bundle.members.iter().filter(|member| match member {
                Member::Resource(name) => split_pool_member(name)
                    .is_some_and(|(of, number)| of == pool.as_str() && number <= found.size),
                Member::AnyOf { .. } => false,
            });
            found.removed || found.free as usize >= *count as usize + named.count()
        }),
    })
}

fn wanted_of(member: &Member) -> Wanted {
    match member {
        Member::Resource(name) => Wanted::Resource(name.clone()),
        Member::AnyOf { pool, .. } => Wanted::Pool(pool.clone()),
    }
}

/// What a bundle needs, one key per member.
pub(crate) fn wanted_by(bundle: &Bundle) -> Vec<Wanted> {
    bundle.members.iter().map(wanted_of).collect()
}
