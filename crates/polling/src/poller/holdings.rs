//! What this poller holds, shared by the tasks that renew it, give it away and poll it. Every change goes through here,
//! so that "may a poll start now" has one answer.
//!
//! Invariant: a poll starts only while its target is owned and its deadline is far enough away; a lease that is given
//! away or released has no poll running.

use crate::metrics::RunOutcome;
use crate::store::{HeldTarget, ReleaseReason, TargetName};
use core::time::Duration;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tenure_client::clock::{BootInstant, wait_until};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Polls of a target that fail one after the other before it counts as failing.
const FAILING_AFTER: u32 = 3;

/// How a held target stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    Owned,
    /// Not renewed: nothing starts until it is.
    Uncertain,
    /// Being let go: nothing starts any more.
    Draining(ReleaseReason),
}

/// What a held target and its running poll share.
#[derive(Debug)]
pub(crate) struct Tie {
    valid_until: watch::Sender<BootInstant>,
    /// The running poll is to stop.
    pub(crate) stop: CancellationToken,
    /// The lease is no more: another may have the target by now.
    is_lost: AtomicBool,
}

pub(crate) struct Holding {
    pub(crate) lease: HeldTarget,
    pub(crate) standing: Standing,
    pub(crate) tie: Arc<Tie>,
    pub(crate) acquired: BootInstant,
    pub(crate) renewed: BootInstant,
    pub(crate) uncertain_since: Option<BootInstant>,
    /// It may have been handed over or released: it is not acted on until that is known.
    pub(crate) gone_maybe: bool,
    /// How many of its polls failed since the last that did not.
    failures: u32,
    /// When its next poll is due.
    due: BootInstant,
}

/// A poll that may start.
pub(crate) struct Start {
    pub(crate) target: TargetName,
    pub(crate) fence: u64,
    pub(crate) tie: Arc<Tie>,
}

/// Everything held.
#[derive(Default)]
pub(crate) struct Holdings {
    held: HashMap<TargetName, Holding>,
    due: BTreeSet<(BootInstant, TargetName)>,
    /// Due and not startable: they begin when they are renewed, or when the poll that runs has ended.
    waiting: BTreeSet<TargetName>,
    /// Targets with a poll running, be it under a lease that is no more.
    running: BTreeSet<TargetName>,
    /// What was let go of, until the store shows something newer.
    let_go: HashMap<TargetName, LetGoOf>,
    /// Since when nothing can be renewed.
    in_doubt: Option<BootInstant>,
}

/// What was let go of.
#[derive(Clone, Debug)]
pub(crate) struct LetGoOf {
    /// The fence it had. Fences rise: what the store shows with this one or less is old.
    pub(crate) fence: u64,
    /// Who has it since, by name.
    pub(crate) to: Option<String>,
}

/// What a plan needs to know of what is held.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) targets: HashSet<TargetName>,
    pub(crate) let_go: HashMap<TargetName, LetGoOf>,
}

impl Tie {
    fn new(valid_until: BootInstant) -> Self {
        Self {
            valid_until: watch::Sender::new(valid_until),
            stop: CancellationToken::new(),
            is_lost: AtomicBool::new(false),
        }
    }

    fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
        self.stop.cancel();
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    pub(crate) fn valid_until(&self) -> BootInstant {
        *self.valid_until.borrow()
    }

    /// Waits until only this much time is left, however often it is renewed meanwhile.
    pub(crate) async fn nearly_over(&self, cancel_lead: Duration) {
        let mut renewed = self.valid_until.subscribe();
        loop {
            let until = *renewed.borrow_and_update();
            tokio::select! {
                () = wait_until(until.before(cancel_lead)) => return,
                changed = renewed.changed() => if changed.is_err() { return },
            }
        }
    }
}

impl Holding {
    pub(crate) fn is_failing(&self) -> bool {
        self.failures >= FAILING_AFTER
    }
}

impl Holdings {
    pub(crate) fn get(&self, target: &TargetName) -> Option<&Holding> {
        self.held.get(target)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&TargetName, &Holding)> {
        self.held.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether a poll of the target runs, be it one that was told to stop.
    pub(crate) fn is_running(&self, target: &TargetName) -> bool {
        self.running.contains(target)
    }

    pub(crate) fn leases(&self) -> Vec<HeldTarget> {
        self.held.values().map(|holding| holding.lease.clone()).collect()
    }

    /// Takes a lease in; its first poll is due at once. `false` if a newer one, or this one, is held already.
    pub(crate) fn admit(&mut self, lease: HeldTarget, now: BootInstant) -> bool {
        let target = lease.target.clone();
        if self.held.get(&target).is_some_and(|held| held.lease.fence >= lease.fence) {
            return false;
        }
        if let Some(before) = self.remove(&target) {
            before.tie.lose();
        }
        self.let_go.remove(&target);
        let holding = Holding {
            tie: Arc::new(Tie::new(lease.valid_until)),
            lease,
            standing: self.certainty(),
            acquired: now,
            renewed: now,
            uncertain_since: self.in_doubt,
            gone_maybe: false,
            failures: 0,
            due: now,
        };
        self.due.insert((now, target.clone()));
        self.held.insert(target, holding);
        true
    }

    /// Every one of these leases that is still the one held may be acted on until then.
    pub(crate) fn renew(&mut self, leases: &[HeldTarget], until: BootInstant, now: BootInstant) {
        self.in_doubt = None;
        for lease in leases {
            let Some(holding) = self.held.get_mut(&lease.target) else { continue };
            if holding.lease.fence != lease.fence {
                continue;
            }
            holding.renewed = now;
            holding.uncertain_since = None;
            if holding.standing == Standing::Uncertain {
                holding.standing = Standing::Owned;
            }
            holding.lease.valid_until = holding.lease.valid_until.max(until);
            holding.tie.valid_until.send_if_modified(|valid_until| {
                let is_later = until > *valid_until;
                *valid_until = until.max(*valid_until);
                is_later
            });
        }
        // What was taken while nothing could be renewed is certain again too, for as long as its own promise says.
        for holding in self.held.values_mut().filter(|holding| holding.standing == Standing::Uncertain) {
            holding.standing = Standing::Owned;
            holding.uncertain_since = None;
        }
        for target in core::mem::take(&mut self.waiting) {
            if let Some(holding) = self.held.get_mut(&target) {
                self.due.remove(&(holding.due, target.clone()));
                holding.due = now;
                self.due.insert((now, target));
            }
        }
    }

    fn certainty(&self) -> Standing {
        if self.in_doubt.is_some() { Standing::Uncertain } else { Standing::Owned }
    }

    /// A renewal failed: nothing starts on these until one succeeds. How many became uncertain by it.
    pub(crate) fn doubt(&mut self, now: BootInstant) -> usize {
        self.in_doubt.get_or_insert(now);
        let mut doubted = 0;
        for holding in self.held.values_mut() {
            if holding.standing == Standing::Owned {
                holding.standing = Standing::Uncertain;
                holding.uncertain_since = Some(now);
                doubted += 1;
            }
        }
        doubted
    }

    /// Drops a lease that has ended; a running poll is cancelled at once.
    pub(crate) fn lose(&mut self, target: &TargetName, fence: u64) -> Option<Holding> {
        if self.held.get(target)?.lease.fence != fence {
            return None;
        }
        let holding = self.remove(target)?;
        holding.tie.lose();
        Some(holding)
    }

    pub(crate) fn lose_all(&mut self) -> Vec<Holding> {
        let all: Vec<TargetName> = self.held.keys().cloned().collect();
        let mut lost = Vec::with_capacity(all.len());
        for target in all {
            if let Some(holding) = self.remove(&target) {
                holding.tie.lose();
                lost.push(holding);
            }
        }
        self.let_go.clear();
        self.in_doubt = None;
        lost
    }

    /// Lets a lease go for good after the store was told, and remembers it.
    pub(crate) fn let_go(&mut self, target: &TargetName, fence: u64, to: Option<String>) -> Option<Holding> {
        let is_it = self.held.get(target).is_some_and(|holding| holding.lease.fence == fence);
        if !is_it {
            return None;
        }
        self.let_go.insert(target.clone(), LetGoOf { fence, to });
        self.remove(target)
    }

    /// Whether what the store shows with this fence is what was let go of.
    pub(crate) fn is_let_go(&self, target: &TargetName, fence: u64) -> bool {
        self.let_go.get(target).is_some_and(|let_go| fence <= let_go.fence)
    }

    /// Forgets what was let go of where the store shows something newer.
    pub(crate) fn forget_let_go(&mut self, seen: impl Fn(&TargetName) -> Option<u64>) {
        self.let_go.retain(|target, let_go| seen(target).is_none_or(|fence| fence <= let_go.fence));
    }

    /// Of targets that are no more, what was let go of is of no interest.
    pub(crate) fn forget_strangers(&mut self, is_target: impl Fn(&TargetName) -> bool) {
        self.let_go.retain(|target, _| is_target(target));
    }

    /// What a plan needs to know.
    pub(crate) fn held(&self) -> Held {
        Held { targets: self.held.keys().cloned().collect(), let_go: self.let_go.clone() }
    }

    /// Nothing starts on the target any more; with `stop` what runs is told to end.
    pub(crate) fn drain(&mut self, target: &TargetName, why: ReleaseReason, stop: bool) {
        let Some(holding) = self.held.get_mut(target) else { return };
        // What was dropped is dropped: its poll was told to stop.
        if holding.standing != Standing::Draining(ReleaseReason::TargetRemoved) {
            holding.standing = Standing::Draining(why);
        }
        if stop {
            holding.tie.stop.cancel();
        }
    }

    /// It may or may not have gone to another, or come free.
    pub(crate) fn doubt_letting_go(&mut self, target: &TargetName, is_in_doubt: bool) {
        if let Some(holding) = self.held.get_mut(target) {
            holding.gone_maybe = is_in_doubt;
        }
    }

    /// It is kept after all, unless it may have gone already.
    pub(crate) fn keep(&mut self, target: &TargetName, now: BootInstant) {
        let standing = self.certainty();
        let Some(holding) = self.held.get_mut(target) else { return };
        let drains = matches!(holding.standing, Standing::Draining(_));
        if !drains || holding.gone_maybe || holding.tie.stop.is_cancelled() {
            return;
        }
        holding.standing = standing;
        if !self.running.contains(target) {
            self.due.remove(&(holding.due, target.clone()));
            holding.due = holding.due.max(now);
            self.due.insert((holding.due, target.clone()));
        }
    }

    /// When the next poll is due.
    pub(crate) fn next_due(&self) -> Option<BootInstant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// The next poll that is due and may start; what may not start now waits for a renewal.
    pub(crate) fn start_next(&mut self, now: BootInstant, cancel_lead: Duration) -> Option<Start> {
        while let Some((due, target)) = self.due.first().cloned() {
            if due > now {
                return None;
            }
            self.due.pop_first();
            let Some(holding) = self.held.get_mut(&target) else { continue };
            if matches!(holding.standing, Standing::Draining(_)) {
                continue;
            }
            let is_certain = holding.standing == Standing::Owned;
            let is_in_time = now.after(cancel_lead) < holding.tie.valid_until();
            if !is_certain || !is_in_time || self.running.contains(&target) {
                self.waiting.insert(target);
                continue;
            }
            self.running.insert(target.clone());
            let fence = holding.lease.fence;
            return Some(Start { target, fence, tie: holding.tie.clone() });
        }
        None
    }

    /// How a poll of this lease went. Whether its target begins to fail by it, or does not any more; `None`: neither.
    pub(crate) fn went(&mut self, target: &TargetName, fence: u64, outcome: RunOutcome) -> Option<bool> {
        let holding = self.held.get_mut(target).filter(|holding| holding.lease.fence == fence)?;
        let was_failing = holding.is_failing();
        match outcome {
            RunOutcome::Ok => holding.failures = 0,
            RunOutcome::Failed | RunOutcome::TimedOut | RunOutcome::Panicked => {
                holding.failures = holding.failures.saturating_add(1);
            }
            // It was not let to its end.
            RunOutcome::Cancelled => {}
        }
        let is_failing = holding.is_failing();
        (is_failing != was_failing).then_some(is_failing)
    }

    /// Targets whose last polls failed, in order of name.
    pub(crate) fn failing(&self) -> Vec<&TargetName> {
        let failing = self.held.iter().filter(|(_, holding)| holding.is_failing());
        let mut failing: Vec<&TargetName> = failing.map(|(target, _)| target).collect();
        failing.sort();
        failing
    }

    /// A poll ended; the next is due then, or at once if another lease waited for it to end. Whether the target only
    /// waited for that to be let go.
    pub(crate) fn finished(
        &mut self,
        target: &TargetName,
        fence: u64,
        next: BootInstant,
        now: BootInstant,
    ) -> bool {
        self.running.remove(target);
        let is_waiting = self.waiting.remove(target);
        let Some(holding) = self.held.get_mut(target) else { return false };
        if matches!(holding.standing, Standing::Draining(_)) {
            return true;
        }
        let next = if is_waiting || holding.lease.fence != fence { now } else { next };
        self.due.remove(&(holding.due, target.clone()));
        holding.due = next;
        self.due.insert((next, target.clone()));
        false
    }

    fn remove(&mut self, target: &TargetName) -> Option<Holding> {
        let holding = self.held.remove(target)?;
        self.due.remove(&(holding.due, target.clone()));
        self.waiting.remove(target);
        Some(holding)
    }
}
