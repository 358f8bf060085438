//! A waiter is never overtaken by a later one that wants any of the same, except when it has blocked others
//! for 30 s and cannot be served. (DESIGN decision 13)

use super::{Said, Scene, Verdict};
use crate::ledger::Recorded;
use crate::story::Story;
use crate::violation::Violation;
use std::collections::{BTreeMap, BTreeSet};
use tenure_engine::{Answer, Input, Out, Refused, Request, Ticket};
use tenure_kernel::names::split_pool_member;
use tenure_kernel::{Action, Bundle, Change, Member, Text};

/// After blocking others for this long a waiter may be passed.
const PATIENCE_MS: u64 = 30_000;

/// Who waits, in order of arrival, by the number of the operation.
#[derive(Default)]
pub(super) struct Queue {
    arrivals: u64,
    waiting: BTreeMap<u64, Waiting>,
    tickets: BTreeMap<Ticket, u64>,
    /// Operations that came before: a retry may be answered from memory and never wait.
    seen: BTreeSet<u64>,
}

struct Waiting {
    order: u64,
    since: u64,
    until: u64,
    wants: Vec<Text>,
    /// Otherwise it counts as the last of all and is answered at once.
    waits: bool,
    /// It was cancelled, joined or replayed: its place is not known from outside.
    unsure: bool,
    /// Somebody later got something it wanted; a violation if it turns out to have been waiting.
    overtaken: Option<String>,
}

impl Queue {
    pub(super) fn arrives(&mut self, aged: u64, input: &Input) {
        let Request::Submit(submit) = &input.request else { return };
        let Action::Grant(grant) = &*submit.action else { return };
        let Some(number) = number(&grant.attachment) else { return };
        self.arrivals += 1;
        self.tickets.insert(input.ticket, number);
        let order = self.arrivals;
        let waits = submit.wait_ms > 0;
        let first = self.seen.insert(number);
        let waiting = Waiting {
            order,
            since: aged,
            until: if waits { aged + submit.wait_ms } else { 0 },
            wants: wants(&grant.bundle),
            waits,
            unsure: !first,
            overtaken: None,
        };
        self.waiting.entry(number).and_modify(|known| known.unsure = true).or_insert(waiting);
    }

    /// The caller of a waiting request is gone.
    pub(super) fn cancelled(&mut self, ticket: Ticket) {
        let waiting = self.tickets.get(&ticket).and_then(|number| self.waiting.get_mut(number));
        if let Some(waiting) = waiting {
            waiting.unsure = true;
        }
    }

    pub(super) fn event(&mut self, scene: &Scene<'_>, recorded: &Recorded) -> Verdict {
        let Change::Granted(granted) = &recorded.event.change else { return Ok(()) };
        let Some(number) = number(&granted.attachment) else { return Ok(()) };
        let Some(served) = self.waiting.remove(&number) else { return Ok(()) };
        if let Some(by) = &served.overtaken
            && !served.unsure
        {
            return Err(Violation::new("waiters_fair", format!("operation {number} was overtaken: {by}")));
        }
        let got: Vec<Text> = granted.members.iter().map(|name| queue_of(scene.story, name)).collect();
        for (other, waiting) in &mut self.waiting {
            let sure = waiting.waits && !waiting.unsure && !served.unsure;
            let earlier = waiting.order < served.order && sure;
            let patient = scene.aged < waiting.since + PATIENCE_MS && scene.aged < waiting.until;
            if earlier && patient && waiting.wants.iter().any(|name| got.contains(name)) {
                let by = format!("{number} got {got:?} at {}, {other} came first", recorded.lsn);
                waiting.overtaken.get_or_insert(by);
            }
        }
        Ok(())
    }

    pub(super) fn said(&mut self, said: &Said<'_>) -> Verdict {
        let Out::Answer(ticket, answer) = said.out else { return Ok(()) };
        let Some(number) = self.tickets.remove(ticket) else { return Ok(()) };
        let Some(waiting) = self.waiting.remove(&number) else { return Ok(()) };
        match (&waiting.overtaken, answer) {
            (Some(by), Answer::Refused(Refused::WaitTimeout)) if !waiting.unsure => {
                Err(Violation::new("waiters_fair", format!("operation {number} waited in vain: {by}")))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.tickets.clear();
    }
}

fn number(attachment: &[u8]) -> Option<u64> {
    attachment.try_into().ok().map(u64::from_le_bytes)
}

fn wants(bundle: &Bundle) -> Vec<Text> {
    let name = |member: &Member| match member {
        Member::Resource(name) => name.clone(),
        Member::AnyOf { pool, .. } => pool.clone(),
    };
    bundle.members.iter().map(name).collect()
}

/// The queue a granted member came from.
fn queue_of(story: &Story, name: &Text) -> Text {
    match split_pool_member(name) {
        Some((pool, _)) if story.pools.contains_key(pool) => pool.into(),
        Some(_) | None => name.clone(),
    }
}
