//! Who should poll what, put into practice: looks at the group, takes what is nobody's, hands over what is another's,
//! lets go of what is gone. One round after the other; renewing and polling go on beside it.

mod budget;
mod deaths;
mod orphans;
mod parting;
mod refusals;
mod reporting;

use super::holdings::Standing;
use super::plan::{Plan, Situation, key, plan};
use super::{PollerError, Shared};
use crate::metrics::MoveReason;
use crate::store::{
    HeldTarget, HolderState, Outcome, ReleaseReason, SeenMember, Store, StoreError, TargetName, View, Wanted,
};
use budget::{Budget, Quota, quotas};
use core::time::Duration;
use deaths::{Deaths, Flapping};
use orphans::Orphans;
use refusals::Refusals;
use reporting::Reporting;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tenure_api::PollerStatus;
use tenure_client::Backoff;
use tenure_client::clock::{BootInstant, wait_until};
use tokio::sync::watch;

/// Rounds follow each other no faster than this.
const PACE: Duration = Duration::from_millis(10);
/// Looking and planning take at most one part in so many of the time.
const PACE_PARTS: u32 = 2;
/// Targets given away together, and at most half of what a store remembers: each lot is news to the others.
const LOT: usize = 1_000;
/// Targets taken together; before the next ones the group is looked at again.
const TAKEN_LOT: usize = 1_024;
/// Pollers aim at this part of the limit on moves. What is handed over evenly is noticed in lots, one for each look: with
/// looks less than half a second apart a second has at most half as much again as it should.
const PART_OF_LIMIT: f64 = 2.0 / 3.0;
/// Moves wait this long after the last change of membership: those that join together are served together. What a
/// poller with a fixed name left is not taken for as long, because it may be back in the next instant.
const SETTLE: Duration = Duration::from_millis(500);

pub(super) struct Control<S> {
    shared: Arc<Shared<S>>,
    targets: watch::Receiver<Option<Arc<[TargetName]>>>,
    /// Which membership it is.
    membership: u64,
    orphans: Orphans,
    refusals: Refusals,
    /// What may be stopped in order to move, and what may then move.
    draining: Budget,
    handing: Budget,
    /// This poller's part of the limit, and the moves per second of it that count now.
    quota: Quota,
    share: usize,
    /// The members at the last look, and since when they are the same.
    members: Vec<String>,
    settled_since: BootInstant,
    impossible: HashSet<TargetName>,
    /// To whom what drains is to go, by the fence that it has here.
    successors: HashMap<TargetName, (u64, SeenMember)>,
    /// What was given to whom lately: who did not want it is not given it again at once.
    given: HashMap<TargetName, (String, BootInstant)>,
    moved_since_renewal: usize,
    reporting: Reporting,
    deaths: Deaths,
    /// When it has lived for a ttl, until that was published to the group.
    proven_at: Option<BootInstant>,
    is_leaving: bool,
}

/// When to look again at the latest.
struct Wake(BootInstant);

impl Wake {
    fn by(&mut self, instant: BootInstant) {
        self.0 = self.0.min(instant);
    }
}

/// Why rounds ended.
enum RoundsEnd {
    Stopped,
    MembershipLost,
    Failed(PollerError),
}

impl<S: Store> Control<S> {
    pub(super) fn new(shared: Arc<Shared<S>>, targets: watch::Receiver<Option<Arc<[TargetName]>>>) -> Self {
        let now = BootInstant::now();
        let deaths = Deaths::new(shared.membership.ttl);
        Self {
            refusals: Refusals::new(shared.options.discovery),
            shared,
            targets,
            membership: 0,
            orphans: Orphans::default(),
            draining: Budget::default(),
            handing: Budget::default(),
            quota: Quota::default(),
            share: 0,
            members: Vec::new(),
            settled_since: now,
            impossible: HashSet::new(),
            successors: HashMap::new(),
            given: HashMap::new(),
            moved_since_renewal: 0,
            reporting: Reporting::begin(now),
            deaths,
            proven_at: None,
            is_leaving: false,
        }
    }

    /// Goes on until the poller is stopped and has handed over, or cannot go on.
    pub(super) async fn run(mut self) -> Result<(), PollerError> {
        let stop = self.shared.stop.clone();
        tokio::select! {
            // One without a list would be given targets that it cannot poll.
            () = has_list(self.targets.clone()) => {}
            () = stop.cancelled() => return Ok(()),
        }
        loop {
            let joined = tokio::select! {
                joined = self.join() => joined,
                () = stop.cancelled() => {
                    // What was begun is ended, as far as that can be done at once.
                    let _ = self.shared.store.leave(&[], None).await;
                    return Ok(());
                }
            };
            joined?;
            match self.rounds().await {
                RoundsEnd::Stopped => return self.part().await,
                RoundsEnd::MembershipLost => {}
                RoundsEnd::Failed(error) => {
                    let _ = self.part().await;
                    return Err(error);
                }
            }
        }
    }

    async fn join(&mut self) -> Result<(), PollerError> {
        let mut backoff = Backoff::new(Duration::from_millis(100), self.shared.membership.ttl / 3);
        let begun = BootInstant::now();
        loop {
            self.shared.counters.asked_store();
            match self.shared.store.join(&self.shared.membership).await {
                Ok(()) => {
                    self.membership = self.shared.set_member();
                    let now = BootInstant::now();
                    self.reporting = Reporting::begin(now);
                    self.proven_at = Some(now.after(self.shared.membership.ttl));
                    return Ok(());
                }
                Err(StoreError::NameTaken(why)) => return Err(PollerError::NameTaken(why)),
                Err(StoreError::Rejected(why)) => return Err(PollerError::Rejected(why)),
                Err(error) if self.gives_up(&error, begun) => {
                    return Err(PollerError::Unreachable(error.to_string()));
                }
                Err(error) => {
                    tracing::warn!(
                        instance = %self.shared.membership.instance, group = self.shared.group,
                        reason = %error, "cannot join"
                    );
                    tokio::time::sleep(backoff.next_pause()).await;
                }
            }
        }
    }

    /// Whether a poller that never joined ends. A session that lapsed while it joined is no reason: the machine is busy.
    fn gives_up(&self, error: &StoreError, begun: BootInstant) -> bool {
        let is_busy = matches!(error, StoreError::NotMember(_))
            && BootInstant::now().since(begun) < self.shared.membership.join_timeout();
        !self.shared.has_been_member() && !self.shared.options.wait_for_store && !is_busy
    }

    /// Round after round while it is a member.
    async fn rounds(&mut self) -> RoundsEnd {
        let shared = self.shared.clone();
        let mut wake = BootInstant::now();
        loop {
            tokio::select! {
                () = shared.store.changed() => {}
                () = wait_until(wake) => {}
                changed = self.targets.changed() => if changed.is_err() { core::future::pending::<()>().await },
                () = shared.control_wake.notified() => {}
                () = shared.stop.cancelled() => return RoundsEnd::Stopped,
            }
            if !shared.is_member_since(self.membership) {
                return RoundsEnd::MembershipLost;
            }
            let mut busy = Duration::ZERO;
            let round = tokio::select! {
                round = self.round(&mut busy) => round,
                // What was under way and is not known to have been done is asked for again when it is handed over.
                () = shared.stop.cancelled() => return RoundsEnd::Stopped,
            };
            match round {
                Ok(next) => wake = next,
                Err(StoreError::NotMember(why)) => {
                    shared.lose_membership(self.membership, &why);
                    return RoundsEnd::MembershipLost;
                }
                Err(StoreError::NameTaken(why)) => return RoundsEnd::Failed(PollerError::NameTaken(why)),
                Err(StoreError::Rejected(why)) => return RoundsEnd::Failed(PollerError::Rejected(why)),
                Err(StoreError::Unreachable(why)) => {
                    tracing::debug!(group = shared.group, reason = why, "cannot read the group");
                    wake = BootInstant::now().after(shared.options.discovery / 10);
                }
            }
            tokio::time::sleep(PACE.max(busy.min(Duration::from_secs(1)) * (PACE_PARTS - 1))).await;
        }
    }

    async fn round(&mut self, busy: &mut Duration) -> Result<BootInstant, StoreError> {
        let begun = BootInstant::now();
        let Some(targets) = self.targets.borrow_and_update().clone() else {
            return Ok(begun.after(self.shared.options.discovery));
        };
        let view = self.look(&targets).await?;
        let plan = self.planned(&targets, &view);
        let now = BootInstant::now();
        *busy = now.since(begun);
        let mut wake = Wake(now.after(self.shared.options.discovery));
        if let Some(again) = plan.read_again_at {
            wake.by(again.max(now.after(PACE)));
        }
        self.note_members(&view, now);
        self.note_deaths(&view, now);
        self.note_quota(&plan, targets.len(), &mut wake, now);
        self.drain(&plan, &view, &mut wake, now);
        self.let_go(&mut wake).await?;
        if self.take(plan, &view, &mut wake).await? {
            // What is nobody's does not wait.
            *busy = Duration::ZERO;
        }
        self.prove(&mut wake).await;
        self.report(&targets, &mut wake).await;
        Ok(wake.0)
    }

    /// What the store shows, with what it means for what is held.
    async fn look(&mut self, targets: &[TargetName]) -> Result<Arc<View>, StoreError> {
        self.shared.counters.asked_store();
        let view = self.shared.store.observe(targets).await?;
        let (mut lost, mut handed) = (Vec::new(), Vec::new());
        {
            let mut holdings = self.shared.holdings();
            holdings.forget_let_go(|target| view.owners.get(target)?.fence);
            holdings.forget_strangers(|target| targets.binary_search(target).is_ok());
            let is_gone = |lease: &HeldTarget| match view.owners.get(&lease.target) {
                Some(seen) if seen.fence == Some(lease.fence) => seen.state != HolderState::Active,
                // Fences rise with every change of hands.
                Some(seen) => seen.fence.is_none_or(|fence| fence > lease.fence),
                // A view that is older than the lease does not show it yet.
                None => lease.key.lsn <= view.as_of,
            };
            for lease in holdings.leases().into_iter().filter(is_gone) {
                if targets.binary_search(&lease.target).is_ok()
                    && holdings.lose(&lease.target, lease.fence).is_some()
                {
                    lost.push(lease);
                }
            }
            let me = &self.shared.membership.instance;
            let now = BootInstant::now();
            for (target, seen) in view.owners.iter().filter(|(_, seen)| seen.instance == *me) {
                let Some(fence) = seen.fence.filter(|fence| !holdings.is_let_go(target, *fence)) else {
                    continue;
                };
                if holdings.get(target).is_some_and(|holding| holding.lease.fence >= fence) {
                    continue;
                }
                let adopted = self.shared.store.adopt(target, seen);
                if adopted.is_some_and(|lease| holdings.admit(lease, now)) {
                    if self.is_leaving {
                        holdings.drain(target, ReleaseReason::Shutdown, false);
                    }
                    handed.push((target.clone(), fence));
                }
            }
        }
        for lease in lost {
            self.log_lost(&lease);
        }
        for (target, fence) in handed {
            self.log_acquired(&target, fence, "handed over");
        }
        self.shared.runner_wake.notify_one();
        Ok(Arc::new(view))
    }

    fn planned(&mut self, targets: &Arc<[TargetName]>, view: &Arc<View>) -> Plan {
        let held = self.shared.holdings().held();
        let mut plan = plan(&Situation {
            me: &self.shared.membership.instance,
            weight: self.shared.membership.weight,
            is_leaving: self.is_leaving,
            hash: self.shared.options.hash,
            targets,
            view,
            held: &held,
        });
        self.orphans.look(view, targets, BootInstant::now());
        self.shared.saw(targets.clone(), view.clone(), &mut plan);
        plan
    }

    /// Moves wait until membership has been the same for a moment.
    fn note_members(&mut self, view: &View, now: BootInstant) {
        let names: Vec<String> =
            view.members.iter().map(|member| format!("{} {:?}", member.instance, member.status)).collect();
        if names != self.members {
            self.members = names;
            self.settled_since = now;
            // Who could not keep what it was given may be able to now.
            self.given.clear();
        }
    }

    fn note_deaths(&mut self, view: &View, now: BootInstant) {
        let (new, flapping) = self.deaths.note(view.deaths, now);
        self.shared.counters.saw_deaths(new);
        if let Some(Flapping { deaths, within }) = flapping {
            tracing::warn!(
                instance = %self.shared.membership.instance, group = self.shared.group, deaths,
                within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX), "pollers of the group keep dying"
            );
        }
    }

    /// Tells the others once it has lived for a ttl: a member by then has renewed, and may be given its share.
    async fn prove(&mut self, wake: &mut Wake) {
        let now = BootInstant::now();
        match self.proven_at {
            None => return,
            Some(proven_at) if now < proven_at => return wake.by(proven_at),
            Some(_) => {}
        }
        self.shared.counters.asked_store();
        match self.shared.store.publish_status(PollerStatus::Online).await {
            Ok(()) => self.proven_at = None,
            Err(error) => {
                tracing::debug!(group = self.shared.group, %error, "cannot report the status of this poller to the group");
                wake.by(now.after(SETTLE));
            }
        }
    }

    /// This poller's part of what the group may move.
    fn note_quota(&mut self, plan: &Plan, targets: usize, wake: &mut Wake, now: BootInstant) {
        // What is a whole move but for rounding is one.
        let limit = (self.shared.options.moves_per_second(targets) * PART_OF_LIMIT + 1e-6) as usize;
        let limit = limit.max(1);
        let me = key(self.shared.options.hash, &self.shared.membership.instance);
        let own = quotas(&plan.givers, limit).get(me).copied().unwrap_or(0);
        let own = Some(own).filter(|_| !plan.givers.is_empty());
        self.share = self.quota.note(now, own).min(limit);
        if self.share == 0
            && let Some(turn) = self.quota.turn()
        {
            wake.by(turn);
        }
    }

    /// Stops what is to go, as far as moves are allowed now; keeps what is to stay after all.
    fn drain(&mut self, plan: &Plan, view: &View, wake: &mut Wake, now: BootInstant) {
        let mut holdings = self.shared.holdings();
        let (successors, given) = (&mut self.successors, &mut self.given);
        // A lease that was lost and taken anew is another one.
        successors.retain(|target, (fence, _)| {
            holdings.get(target).is_some_and(|holding| holding.lease.fence == *fence)
        });
        for target in &plan.keep {
            if holdings.get(target).is_some_and(|holding| !holding.gone_maybe) {
                successors.remove(target);
                holdings.keep(target, now);
            }
        }
        for target in &plan.drop {
            holdings.drain(target, ReleaseReason::TargetRemoved, true);
        }
        given.retain(|_, (_, at)| now.since(*at) < self.shared.options.discovery);
        let why = if self.is_leaving { ReleaseReason::Shutdown } else { ReleaseReason::Rebalanced };
        let settled = self.settled_since.after(SETTLE);
        let may_move = self.is_leaving || now >= settled;
        let share = self.share;
        let waits = share == 0 && !self.is_leaving;
        let mut allowed = match (self.is_leaving, may_move && !plan.give.is_empty()) {
            (true, _) => usize::MAX,
            (false, true) => self.draining.left(now, share),
            (false, false) => {
                self.draining.rest();
                0
            }
        };
        let mut spent = 0;
        for (target, successor) in &plan.give {
            let Some(holding) = holdings.get(target) else { continue };
            let fence = holding.lease.fence;
            // Until it is known what became of it, it can go nowhere else.
            if holding.gone_maybe {
                continue;
            }
            let is_declined = !view.pins.contains_key(target)
                && given.get(target).is_some_and(|(name, _)| name == successor.instance.name());
            if waits {
                // Until its turn comes the target is polled here, also one that waited for its poll to end.
                if successors.remove(target).is_some() {
                    holdings.keep(target, now);
                }
            } else if successors.contains_key(target) {
                successors.insert(target.clone(), (fence, successor.clone()));
            } else if !may_move {
                wake.by(settled);
            } else if is_declined && !self.is_leaving {
                wake.by(now.after(self.shared.options.discovery));
            } else if allowed > 0 {
                allowed -= 1;
                spent += 1;
                holdings.drain(target, why, false);
                successors.insert(target.clone(), (fence, successor.clone()));
            } else {
                wake.by(self.draining.next(now, share));
            }
        }
        self.draining.spend(now, spent);
    }

    /// Hands over and releases what drains and has no poll running.
    async fn let_go(&mut self, wake: &mut Wake) -> Result<(), StoreError> {
        let mut handed: HashMap<ReleaseReason, Vec<(HeldTarget, SeenMember)>> = HashMap::new();
        let mut released: HashMap<ReleaseReason, Vec<HeldTarget>> = HashMap::new();
        let mut in_doubt: Vec<(HeldTarget, SeenMember)> = Vec::new();
        {
            let holdings = self.shared.holdings();
            for (target, holding) in holdings.iter() {
                let Standing::Draining(why) = holding.standing else { continue };
                if holdings.is_running(target) {
                    continue;
                }
                let lease = holding.lease.clone();
                match self.successors.get(target).map(|(_, to)| to) {
                    // Asked for again, it is counted already.
                    Some(to)
                        if to.takes_handovers && holding.gone_maybe && why == ReleaseReason::Rebalanced =>
                    {
                        in_doubt.push((lease, to.clone()));
                    }
                    Some(to) if to.takes_handovers && why != ReleaseReason::TargetRemoved => {
                        handed.entry(why).or_default().push((lease, to.clone()));
                    }
                    // While a successor may be found it is not given up.
                    None if why == ReleaseReason::Rebalanced && !holding.tie.stop.is_cancelled() => {}
                    _ => released.entry(why).or_default().push(lease),
                }
            }
        }
        let now = BootInstant::now();
        match handed.get_mut(&ReleaseReason::Rebalanced) {
            // A poll that ran on put its move off: these are counted again when they move.
            Some(moves) if !self.is_leaving => {
                let allowed = self.handing.left(now, self.share);
                if allowed < moves.len() {
                    moves.truncate(allowed);
                    wake.by(self.handing.next(now, self.share));
                }
                self.handing.spend(now, moves.len());
            }
            Some(_) | None => self.handing.rest(),
        }
        self.hand_over(&in_doubt, ReleaseReason::Rebalanced, wake).await?;
        for (why, leases) in handed {
            self.hand_over(&leases, why, wake).await?;
        }
        for (why, leases) in released {
            self.release(&leases, why).await?;
        }
        Ok(())
    }

    async fn hand_over(
        &mut self,
        leases: &[(HeldTarget, SeenMember)],
        why: ReleaseReason,
        wake: &mut Wake,
    ) -> Result<(), StoreError> {
        for lot in leases.chunks(LOT.min(S::MOVES_PER_RENEWAL / 2)) {
            self.renew_after_many(lot.len()).await;
            self.doubt(lot.iter().map(|(lease, _)| lease));
            self.shared.counters.asked_store();
            let outcomes = self.shared.store.hand_over(lot, why).await?;
            for ((lease, to), outcome) in lot.iter().zip(outcomes) {
                self.handed(lease, to, outcome, why, wake);
            }
        }
        Ok(())
    }

    fn handed(
        &mut self,
        lease: &HeldTarget,
        to: &SeenMember,
        outcome: Outcome<()>,
        why: ReleaseReason,
        wake: &mut Wake,
    ) {
        let now = BootInstant::now();
        let target = &lease.target;
        match outcome {
            Outcome::Done(()) => {
                let name = to.instance.name().to_owned();
                self.successors.remove(target);
                self.given.insert(target.clone(), (name.clone(), now));
                self.shared.holdings().let_go(target, lease.fence, Some(name));
                self.shared.counters.moved(MoveReason::Released(why));
                tracing::info!(
                    instance = %self.shared.membership.instance, target = %target,
                    group = self.shared.group, fence = lease.fence, ttl_ms = self.shared.ttl_ms(),
                    reason = why.as_str(), to = %to.instance, "lease handed over"
                );
            }
            Outcome::Declined(reason) => {
                tracing::debug!(target = %target, reason, "the other poller declined the target");
                self.successors.remove(target);
                let mut holdings = self.shared.holdings();
                holdings.doubt_letting_go(target, false);
                if !self.is_leaving {
                    holdings.keep(target, now);
                }
            }
            Outcome::Rejected(reason) | Outcome::InvalidTarget(reason) => {
                tracing::debug!(target = %target, reason, "cannot hand over a target that this poller does not hold");
                self.successors.remove(target);
                let lost = self.shared.holdings().lose(target, lease.fence);
                if lost.is_some() {
                    self.log_lost(lease);
                }
            }
            Outcome::Unknown(reason) => {
                tracing::debug!(target = %target, reason, "outcome of a handover is unknown");
                wake.by(now.after(SETTLE));
            }
        }
    }

    /// A store tells only so many losses at a renewal; what is handed over counts as one.
    async fn renew_after_many(&mut self, moves: usize) {
        self.moved_since_renewal += moves;
        if self.moved_since_renewal <= S::MOVES_PER_RENEWAL {
            return;
        }
        let mut renewals = self.shared.renewals.subscribe();
        self.shared.keeper_wake.notify_one();
        // A renewal that fails is tried again by the keeper; moves do not wait for it for ever.
        let _ = tokio::time::timeout(self.shared.membership.call_timeout, renewals.changed()).await;
        self.moved_since_renewal = moves;
    }

    /// Until the answer is there, and if there is none, nothing is known of these.
    fn doubt<'a>(&self, leases: impl Iterator<Item = &'a HeldTarget>) {
        let mut holdings = self.shared.holdings();
        leases.for_each(|lease| holdings.doubt_letting_go(&lease.target, true));
    }

    async fn release(&mut self, leases: &[HeldTarget], why: ReleaseReason) -> Result<(), StoreError> {
        for lot in leases.chunks(LOT.min(S::MOVES_PER_RENEWAL / 2)) {
            self.doubt(lot.iter());
            self.shared.counters.asked_store();
            self.shared.store.release(lot, why).await?;
            for lease in lot {
                self.successors.remove(&lease.target);
                self.shared.holdings().let_go(&lease.target, lease.fence, None);
                self.shared.counters.moved(MoveReason::Released(why));
                self.log_released(lease, why);
            }
        }
        Ok(())
    }

    /// Takes what is ours to take, and orphans that whoever should take them did not. Whether there is more.
    async fn take(&mut self, plan: Plan, view: &View, wake: &mut Wake) -> Result<bool, StoreError> {
        let now = BootInstant::now();
        self.refusals.forget(now);
        let mut wanted = plan.take;
        for (target, rank) in plan.orphans {
            let due = self.orphans.due(&target, rank, now);
            if due <= now {
                wanted.push(Wanted { target, reserved: None });
            } else {
                wake.by(due);
            }
        }
        let is_member = |name: &str| view.members.iter().any(|member| member.instance.name() == name);
        wanted.retain(|wanted| {
            let may_be_back = self.orphans.left_by(&wanted.target).filter(|(last, _)| {
                wanted.reserved.is_none() && last.has_fixed_name() && !is_member(last.name())
            });
            let not_before = may_be_back
                .map(|(_, since)| since.after(SETTLE))
                .max(self.refusals.until(&wanted.target))
                .filter(|until| *until > now);
            if let Some(until) = not_before {
                wake.by(until);
            }
            not_before.is_none() && !self.impossible.contains(&wanted.target)
        });
        if wanted.is_empty() {
            return Ok(false);
        }
        // Others may join meanwhile: what is left is looked at anew.
        let lot = &wanted[..wanted.len().min(TAKEN_LOT)];
        let has_more = lot.len() < wanted.len();
        if has_more {
            wake.by(now);
        }
        self.shared.counters.asked_store();
        let outcomes = self.shared.store.acquire(lot).await?;
        for (wanted, outcome) in lot.iter().zip(outcomes) {
            self.taken(wanted, outcome, wake);
        }
        self.shared.runner_wake.notify_one();
        Ok(has_more)
    }

    fn taken(&mut self, wanted: &Wanted, outcome: Outcome<HeldTarget>, wake: &mut Wake) {
        let now = BootInstant::now();
        match outcome {
            Outcome::Done(lease) => {
                let (target, fence) = (lease.target.clone(), lease.fence);
                self.refusals.succeeded(&target);
                if self.shared.holdings().admit(lease, now) {
                    self.note_taken(&target, fence, now);
                }
            }
            Outcome::Rejected(reason) | Outcome::Unknown(reason) | Outcome::Declined(reason) => {
                tracing::debug!(target = %wanted.target, reason, "lease not acquired");
                wake.by(self.refusals.refused(&wanted.target, now));
            }
            Outcome::InvalidTarget(reason) => {
                tracing::warn!(
                    instance = %self.shared.membership.instance, target = %wanted.target,
                    group = self.shared.group, reason, "the store rejects this target"
                );
                self.impossible.insert(wanted.target.clone());
            }
        }
    }

    fn note_taken(&mut self, target: &TargetName, fence: u64, now: BootInstant) {
        let orphan = self.orphans.taken(target, now);
        if let Some((unowned, _)) = &orphan {
            self.shared.counters.taken_after(*unowned);
        }
        let last = orphan.and_then(|(_, last)| last);
        if last.is_some_and(|last| last != self.shared.membership.instance) {
            self.shared.counters.moved(MoveReason::TtlExpiry);
            self.log_taken_over(target, fence);
        } else {
            self.log_acquired(target, fence, "unowned");
        }
    }

    fn log_acquired(&self, target: &TargetName, fence: u64, reason: &str) {
        tracing::info!(
            instance = %self.shared.membership.instance, target = %target, group = self.shared.group,
            fence, ttl_ms = self.shared.ttl_ms(), reason, "lease acquired"
        );
    }

    fn log_taken_over(&self, target: &TargetName, fence: u64) {
        tracing::info!(
            instance = %self.shared.membership.instance, target = %target, group = self.shared.group,
            fence, ttl_ms = self.shared.ttl_ms(), reason = MoveReason::TtlExpiry.as_str(), "lease taken over"
        );
    }

    fn log_lost(&self, lease: &HeldTarget) {
        tracing::warn!(
            instance = %self.shared.membership.instance, target = %lease.target, group = self.shared.group,
            fence = lease.fence, ttl_ms = self.shared.ttl_ms(), reason = "not held by this poller", "lease lost"
        );
    }

    fn log_released(&self, lease: &HeldTarget, why: ReleaseReason) {
        tracing::info!(
            instance = %self.shared.membership.instance, target = %lease.target,
            group = self.shared.group, fence = lease.fence, ttl_ms = self.shared.ttl_ms(),
            reason = why.as_str(), "lease released"
        );
    }
}

async fn has_list(mut targets: watch::Receiver<Option<Arc<[TargetName]>>>) {
    if targets.wait_for(Option::is_some).await.is_err() {
        core::future::pending::<()>().await;
    }
}
