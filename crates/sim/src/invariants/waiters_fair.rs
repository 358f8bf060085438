//! A waiter is served before any later request that wants any of the same. It may be passed only after it has blocked
//! others for 30 s, and only while it cannot be served itself. (DESIGN decision 13)
//!
//! Judged from requests, answers and events alone. A request for any of a pool wants every member of it; one that names
//! a member wants that one. Tries of one operation are one waiter, which keeps its place when one of them goes, and for
//! some seconds when all of them have gone. A try that was cancelled before it arrived, or refused without a wait, is not
//! one of them. Where the order cannot be known from outside, nothing is claimed.

use super::{Said, Scene, Verdict};
use crate::ledger::Recorded;
use crate::story::Story;
use crate::violation::Violation;
use std::collections::{BTreeMap, BTreeSet};
use tenure_engine::{Answer, Input, Out, Refused, Request, Submit, Ticket};
use tenure_kernel::names::{pool_member, split_pool_member};
use tenure_kernel::{Action, Bundle, Change, Member, Text};

/// After blocking others for this long a waiter may be passed.
const PATIENCE_MS: u64 = 30_000;
/// For this long the place of an interrupted wait is certainly kept.
const PLACE_KEPT_MS: u64 = 9_000;

/// Who asks for what, in order of arrival, by the number of the operation.
#[derive(Default)]
pub(super) struct Queue {
    arrivals: u64,
    asking: BTreeMap<u64, Asking>,
    tickets: BTreeMap<Ticket, u64>,
    /// Cancelled before they arrived: such a try never waits. It neither gives its operation a place nor costs it one.
    cancelled_before: BTreeSet<Ticket>,
    /// Operations that were answered: a retry may be answered from memory and never wait.
    answered: BTreeSet<u64>,
    /// Waits whose askers have all gone, and when.
    interrupted: BTreeMap<u64, (Asking, u64)>,
    /// When a resource came free last.
    free_since: BTreeMap<Text, u64>,
}

struct Asking {
    /// Its place when others pass it.
    order: u64,
    /// Its place at best, when it passes others.
    order_at_best: u64,
    arrived: u64,
    /// An interrupted wait has its place again after this; until then others may take what is free.
    away_until: u64,
    until: u64,
    wants: Wants,
    /// Otherwise it counts as the last of all and is answered at once.
    waits: bool,
    /// Its tries, with the order in which they arrived.
    tries: BTreeMap<Ticket, u64>,
    /// Its place or what it waits for is not known from outside.
    unsure: bool,
    /// Since when at the earliest it kept a later request from something free.
    blocking_since: Option<u64>,
    /// Somebody later got something it wanted; a violation if it turns out to have been waiting.
    overtaken: Option<String>,
}

struct Wants {
    names: Vec<Text>,
    pools: Vec<(Text, u32)>,
}

impl Queue {
    pub(super) fn arrives(&mut self, aged: u64, input: &Input) {
        if let Request::Submit(submit) = &input.request {
            self.submitted(aged, input.ticket, submit);
        }
    }

    fn submitted(&mut self, aged: u64, ticket: Ticket, submit: &Submit) {
        let Action::Grant(grant) = &*submit.action else { return };
        let Some(number) = number(&grant.attachment) else { return };
        self.arrivals += 1;
        self.tickets.insert(ticket, number);
        if self.cancelled_before.remove(&ticket) {
            return;
        }
        let is_operation = submit.operation.is_some();
        if let Some(known) = self.asking.get_mut(&number) {
            known.tries.insert(ticket, self.arrivals);
            known.unsure |= !is_operation || !known.waits;
            return;
        }
        let before = self.interrupted.remove(&number).filter(|_| is_operation);
        let returned = before.as_ref().map_or(self.arrivals, |(before, _)| before.order_at_best);
        let kept = before.as_ref().is_some_and(|(_, at)| aged < at + PLACE_KEPT_MS);
        let was_unsure = before.as_ref().map_or(self.answered.contains(&number), |(before, _)| before.unsure);
        let asking = Asking {
            order: if kept { returned } else { self.arrivals },
            order_at_best: returned,
            arrived: aged,
            away_until: if before.is_some() { aged } else { 0 },
            until: aged + submit.wait_ms,
            wants: Wants::of(&grant.bundle),
            waits: submit.wait_ms > 0,
            tries: BTreeMap::from([(ticket, self.arrivals)]),
            // What is taken over is not what was asked for.
            unsure: was_unsure || !submit.take_over.is_empty(),
            blocking_since: before.and_then(|(before, _)| before.blocking_since),
            overtaken: None,
        };
        self.asking.insert(number, asking);
    }

    /// The caller of a waiting request is gone. Until then it may have kept others waiting.
    pub(super) fn cancelled(&mut self, aged: u64, story: &Story, ticket: Ticket) {
        self.look_who_blocks(story);
        let Some(number) = self.tickets.get(&ticket) else {
            self.cancelled_before.insert(ticket);
            return;
        };
        let Some(asking) = self.asking.get_mut(number) else { return };
        // It may come after the end of the wait.
        asking.unsure |= asking.until <= aged;
        if asking.tries.remove(&ticket).is_some()
            && asking.tries.is_empty()
            && let Some(asking) = self.asking.remove(number)
        {
            self.interrupted.insert(*number, (asking, aged));
        }
    }

    pub(super) fn event(&mut self, scene: &Scene<'_>, recorded: &Recorded) -> Verdict {
        self.look_who_blocks(scene.story);
        if let Some(was) = recorded.event.change.epitaph() {
            for name in &was.members {
                self.free_since.insert(name.clone(), scene.aged);
            }
        }
        let Change::Granted(granted) = &recorded.event.change else { return Ok(()) };
        let Some(number) = number(&granted.attachment) else { return Ok(()) };
        let Some(served) = self.asking.remove(&number) else { return Ok(()) };
        if let Some(by) = &served.overtaken
            && !served.unsure
        {
            return Err(Violation::new("waiters_fair", format!("operation {number} was overtaken: {by}")));
        }
        if served.unsure {
            return Ok(());
        }
        for (other, waiting) in &mut self.asking {
            let earlier = waiting.order < served.order_at_best && scene.aged < waiting.until;
            let sure = waiting.waits
                && !waiting.unsure
                && (waiting.away_until == 0 || waiting.away_until < scene.aged);
            if sure
                && earlier
                && granted.members.iter().any(|name| waiting.wants.name(scene.story, name))
                && !waiting.may_be_passed(scene)
            {
                let got = &granted.members;
                let by = format!("{number} got {got:?} at {}, {other} came first", recorded.lsn);
                waiting.overtaken.get_or_insert(by);
            }
        }
        Ok(())
    }

    /// Remembers who kept a later request from something that was free, as the events tell it so far.
    fn look_who_blocks(&mut self, story: &Story) {
        let mut found = Vec::new();
        for (number, first) in self.asking.iter().filter(|(_, first)| first.waits) {
            let later = self.asking.values().filter(|later| later.order > first.order_at_best);
            let since = later.filter_map(|later| {
                let free = later.wants.free_of(story, &first.wants);
                let since = free.map(|name| self.free_since.get(&name).copied().unwrap_or(0)).min()?;
                Some(since.max(later.arrived).max(first.arrived))
            });
            if let Some(since) = since.min() {
                found.push((*number, since));
            }
        }
        for (number, since) in found {
            if let Some(first) = self.asking.get_mut(&number) {
                first.blocking_since = Some(first.blocking_since.map_or(since, |known| known.min(since)));
            }
        }
    }

    pub(super) fn said(&mut self, scene: &Scene<'_>, said: &Said<'_>) -> Verdict {
        let Out::Answer(ticket, answer) = said.out else { return Ok(()) };
        let Some(number) = self.tickets.remove(ticket) else { return Ok(()) };
        self.look_who_blocks(scene.story);
        // The wait had ended before its asker was gone; the answer only leaves later.
        if !matches!(answer, Answer::Refused(Refused::Cancelled))
            && let Some((asking, _)) = self.interrupted.get_mut(&number)
        {
            asking.unsure = true;
        }
        let Some(asking) = self.asking.get_mut(&number) else { return Ok(()) };
        let Some(arrival) = asking.tries.remove(ticket) else {
            // It was cancelled too late: the wait of the others was over.
            asking.unsure |= !matches!(answer, Answer::Refused(Refused::Cancelled));
            return Ok(());
        };
        let for_all = match answer {
            Answer::Refused(refused) => matches!(refused, Refused::WaitTimeout),
            _ => true,
        };
        if let (false, Some(first)) = (for_all, asking.tries.values().min()) {
            asking.go_on_without(arrival, *first);
            return Ok(());
        }
        self.answered.insert(number);
        let Some(asking) = self.asking.remove(&number) else { return Ok(()) };
        match (&asking.overtaken, answer) {
            (Some(by), Answer::Refused(Refused::WaitTimeout)) if !asking.unsure => {
                Err(Violation::new("waiters_fair", format!("operation {number} waited in vain: {by}")))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self {
            arrivals: self.arrivals,
            answered: core::mem::take(&mut self.answered),
            ..Self::default()
        };
    }
}

impl Asking {
    /// A try was refused without a wait, so its place was never theirs; `first` is the earliest of the others.
    fn go_on_without(&mut self, refused: u64, first: u64) {
        if refused < first {
            self.order = self.order.max(first);
            self.overtaken = None;
        }
    }

    /// Whether it has blocked others for long enough and cannot be served as things stand.
    fn may_be_passed(&self, scene: &Scene<'_>) -> bool {
        let long = self.blocking_since.is_some_and(|since| scene.aged >= since + PATIENCE_MS);
        long && !self.wants.is_free(scene.story)
    }
}

impl Wants {
    fn of(bundle: &Bundle) -> Self {
        let (mut names, mut pools) = (Vec::new(), Vec::new());
        for member in &bundle.members {
            match member {
                Member::Resource(name) => names.push(name.clone()),
                Member::AnyOf { pool, count } => pools.push((pool.clone(), *count)),
            }
        }
        Self { names, pools }
    }

    /// Whether this resource is among what is wanted.
    fn name(&self, story: &Story, name: &Text) -> bool {
        let pool = pool_of(story, name);
        self.names.contains(name) || self.pools.iter().any(|(wanted, _)| pool == Some(wanted.as_str()))
    }

    fn is_free(&self, story: &Story) -> bool {
        let named_free = self.names.iter().all(|name| !story.covered.contains_key(name));
        named_free
            && self.pools.iter().all(|(pool, count)| {
                let others = free_members(story, pool).filter(|name| !self.names.contains(name));
                !story.pools.contains_key(pool) || others.count() >= *count as usize
            })
    }

    /// What is free of all that both want.
    fn free_of<'a>(&'a self, story: &'a Story, earlier: &'a Self) -> impl Iterator<Item = Text> + 'a {
        let named = self.names.iter().filter(|name| !story.covered.contains_key(*name)).cloned();
        let any = self.pools.iter().flat_map(|(pool, _)| free_members(story, pool));
        named.chain(any).filter(|name| earlier.name(story, name))
    }
}

fn number(attachment: &[u8]) -> Option<u64> {
    attachment.try_into().ok().map(u64::from_le_bytes)
}

/// The pool of which a resource is a member.
fn pool_of<'a>(story: &Story, name: &'a Text) -> Option<&'a str> {
    let (pool, number) = split_pool_member(name)?;
    story.pools.get(pool).is_some_and(|size| number <= *size).then_some(pool)
}

fn free_members<'a>(story: &'a Story, pool: &'a Text) -> impl Iterator<Item = Text> + 'a {
    let size = story.pools.get(pool).copied().unwrap_or(0);
    (1..=size).map(|number| pool_member(pool, number)).filter(|name| !story.covered.contains_key(name))
}
