//! The only mutation. `evolve` records what happened and cannot fail: an event that does not fit the state
//! is a broken invariant, not a bad request.

use crate::event::{Amended, Change, Epitaph, Event, Granted, Rebound, Revoked, Steered};
use crate::ids::{Epoch, LeaseId, SessionId, Stamp, Tick};
use crate::kernel::{Kernel, MORE_BIT, PendingNotice, Resource, name_of};
use crate::lease::{Lease, LeaseState, Rare, Revocation, SessionLink};
use crate::limits::RETIRED_PER_EVENT_MAX;
use crate::names::{Text, pool_member, split_pool_member};
use crate::operations::Replay;
use crate::planted::{Planted, planted};
use crate::policy::{Mode, Policy, ReclaimRule};
use crate::pool::Pool;
use crate::reason::Reason;
use crate::rejection::StateName;
use crate::retained::EndedLease;
use crate::session::{Loss, Session};
use crate::tables::free_set::FreeSet;
use crate::tables::slab::NO_SLOT;
use core::hash::BuildHasher;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How a lease ended.
struct Ending {
    state: StateName,
    reason: Reason,
    epoch: Epoch,
}

impl Kernel {
    /// Records what happened. The only mutation; cannot fail.
    ///
    /// # Panics
    /// When the event does not fit the state: that is a bug, and nothing may go on.
    pub fn evolve(&mut self, at: Stamp, event: &Event) {
        assert!(at.lsn > self.applied.lsn, "invariant: positions rise");
        assert!(at.tick >= self.applied.tick, "invariant: ticks never go back");
        self.applied = at;
        match &event.change {
            Change::Granted(granted) => self.granted(at, granted),
            Change::Activated { lease } => self.activated(at, *lease),
            Change::Rebound(rebound) => self.rebound(at, rebound),
            Change::Amended(amended) => self.amended(at, amended),
            Change::Drained(steered) => self.steer(at, steered, true),
            Change::Revived(steered) => self.steer(at, steered, false),
            Change::Released(released) => {
                let epoch = released.was.epoch;
                let ending = Ending { state: StateName::Released, reason: Reason::Explicit, epoch };
                self.ended(at, &released.was, &ending);
            }
            Change::Revoked(revoked) => self.revoked(at, revoked),
            Change::Reclaimed(reclaimed) => {
                let epoch = reclaimed.was.epoch;
                let ending = Ending { state: StateName::Revoked, reason: reclaimed.reason, epoch };
                self.ended(at, &reclaimed.was, &ending);
            }
            Change::Expired(expired) => {
                let reason = Reason::ReservationExpired;
                self.lose(at, expired.was.lease, reason);
                let ending = Ending { state: StateName::Expired, reason, epoch: expired.was.epoch };
                self.ended(at, &expired.was, &ending);
            }
            Change::SessionOpened(open) => {
                let slot = self.sessions.insert(Session {
                    id: open.session,
                    holder: open.holder.clone(),
                    kind: open.kind,
                    ttl_ms: open.ttl_ms,
                    grace_ms: open.grace_ms,
                    principal: open.principal.clone(),
                    accepts_handover: open.accepts_handover.clone(),
                    opened_lsn: at.lsn,
                    opened_tick: at.tick,
                    closed: None,
                    first: NO_SLOT,
                    last: NO_SLOT,
                    first_revoking: NO_SLOT,
                    leases: 0,
                    graces: BTreeMap::new(),
                    drained: BTreeSet::new(),
                    losses: VecDeque::new(),
                    losses_complete_after: at.lsn,
                    changed_lsn: at.lsn,
                });
                self.shares.change(&open.principal, |share| share.sessions += 1);
                let before = self.session_index.insert(open.session, slot);
                assert!(before.is_none(), "invariant: an opened session is new");
            }
            Change::SessionClosed { session, reason } => {
                let slot = self.session_index[session];
                self.sessions[slot].closed = Some(*reason);
                self.sessions[slot].changed_lsn = at.lsn;
                self.drop_session_if_over(slot);
            }
            Change::PoolDefined { name, size } => self.pool_defined(name, *size),
            Change::PoolRemoved { name } => {
                let pool = self.pools.get_mut(name).expect("invariant: a removed pool exists");
                pool.removed = true;
                if pool.held() == 0 {
                    self.pools.remove(name);
                }
            }
            Change::Notified { lease } => {
                self.notices.remove(lease).expect("invariant: a settled notice was pending");
            }
            Change::Trimmed { below } => self.retained.trimmed_below = *below,
            Change::Configured(retention) => self.retention = *retention,
        }
        if let Some(operation) = &event.operation
            && !planted(Planted::DedupeForgets)
        {
            let replay = Replay {
                lsn: at.lsn,
                lease: event.change.lease(self.lease_id(at.lsn)),
                kind: event.change.kind(),
            };
            self.operations.remember(at.tick, operation, replay, &self.retention);
        }
        self.retire_ended(at);
        self.operations.retire(at.tick);
    }

    fn granted(&mut self, at: Stamp, granted: &Granted) {
        let state = match granted.deadline {
            Some(deadline) => {
                self.scheduled.insert((deadline, at.lsn));
                LeaseState::Reserved { deadline }
            }
            None => LeaseState::Active { since: at.tick, drained: false },
        };
        let rare =
            (granted.members.len() > 1 || !granted.face_data.is_empty() || !granted.attachment.is_empty())
                .then(|| {
                    Box::new(Rare {
                        more_members: Vec::new(),
                        rebound_lsn: None,
                        former_until: Tick(0),
                        face_data: granted.face_data.clone(),
                        attachment: granted.attachment.clone(),
                    })
                });
        let slot = self.install(
            Lease {
                lsn: at.lsn,
                epoch: Epoch::FIRST,
                changed_lsn: at.lsn,
                granted_tick: at.tick,
                granted_wall_ms: granted.wall_ms,
                state,
                rare,
                holder: NO_SLOT,
                policy: NO_SLOT,
                session: SessionLink::NONE,
                first_name: Text::default(),
            },
            &granted.holder,
            &granted.policy,
            &granted.members,
        );
        self.register.push_live(at.lsn, slot);
    }

    /// Puts a lease into every table. Shared by grants and by loading a snapshot.
    pub(crate) fn install(
        &mut self,
        mut lease: Lease,
        holder: &Text,
        policy: &Policy,
        members: &[Text],
    ) -> u32 {
        lease.holder = self.holders.acquire(holder);
        lease.policy = self.acquire_policy(policy);
        *self.counts.cell(lease.state.name(), policy) += 1;
        self.count_payload(lease.policy, lease.payload_bytes(), 0);
        if let Some(first) = members.first() {
            lease.first_name = first.clone();
        }
        let slot = self.leases.insert(lease);
        if let Some(session) = policy.session {
            self.link(slot, session);
        }
        for (index, name) in members.iter().enumerate() {
            if index == 0 {
                self.cover(name, slot);
                continue;
            }
            if planted(Planted::BundlePartlyGranted) {
                break;
            }
            let resource = self.resources.insert(Resource { name: name.clone(), lease: slot });
            self.leases[slot].rare.get_or_insert_default().more_members.push(resource);
            self.cover(name, resource | MORE_BIT);
        }
        slot
    }

    /// Makes room in the index of names for leases about to be installed.
    pub(crate) fn reserve_leases(&mut self, leases: usize) {
        let (held, more, hashing) = (&self.leases, &self.resources, &self.hashing);
        self.resource_index.reserve(leases, |&other| hashing.hash_one(name_of(held, more, other).as_str()));
    }

    fn retire_ended(&mut self, at: Stamp) {
        for _ in 0..RETIRED_PER_EVENT_MAX {
            let Some(ended) = self.retained.retire_one(at.tick, &self.retention) else { return };
            let retained = &self.retained;
            self.register.retire(ended.lsn, |key| retained.holds(key));
        }
    }

    fn activated(&mut self, at: Stamp, id: LeaseId) {
        let slot = self.known(id);
        let LeaseState::Reserved { deadline } = self.leases[slot].state else {
            panic!("invariant: only a reserved lease is activated")
        };
        self.scheduled.remove(&(deadline, id.lsn()));
        self.set_state(slot, LeaseState::Active { since: at.tick, drained: false });
        self.leases[slot].changed_lsn = at.lsn;
    }

    fn rebound(&mut self, at: Stamp, rebound: &Rebound) {
        let slot = self.known(rebound.lease);
        self.count_payload(self.leases[slot].policy, 0, self.leases[slot].payload_bytes());
        let former_ms = self.promise_ms_max(slot);
        let holder = self.holders.acquire(&rebound.holder);
        self.holders.release(core::mem::replace(&mut self.leases[slot].holder, holder));
        if let Some(policy) = &rebound.policy {
            self.change_policy(at, slot, policy);
        }
        self.replace_payload(slot, rebound.attachment.as_deref(), rebound.face_data.as_deref());
        self.count_payload(self.leases[slot].policy, self.leases[slot].payload_bytes(), 0);
        let lease = &mut self.leases[slot];
        lease.epoch = rebound.epoch;
        lease.changed_lsn = at.lsn;
        let rare = lease.rare.get_or_insert_default();
        if former_ms > 0 && !planted(Planted::RestartForgetsFormer) {
            rare.former_until = rare.former_until.max(at.tick.after_ms(former_ms));
        }
        if !planted(Planted::RebindKeepsFence) {
            rare.rebound_lsn = Some(at.lsn);
        }
    }

    /// How long one promise under a lease's present terms may last. Renewals are not in the log.
    fn promise_ms_max(&self, slot: u32) -> u64 {
        let lease = &self.leases[slot];
        let terms = self.policies.get(lease.policy);
        match (terms.reclaim_rule, terms.mode) {
            (ReclaimRule::AtOnce, _) | (_, Mode::Permanent) => 0,
            (ReclaimRule::AfterPromise, Mode::Heartbeat) => terms.ttl_ms.into(),
            (ReclaimRule::AfterPromise, Mode::Session) => {
                self.sessions.get(lease.session.session).map_or(0, |session| session.ttl_ms.into())
            }
        }
    }

    fn change_policy(&mut self, at: Stamp, slot: u32, policy: &Policy) {
        let state = self.leases[slot].state.name();
        let before = self.policies.get(self.leases[slot].policy).clone();
        *self.counts.cell(state, &before) -= 1;
        *self.counts.cell(state, policy) += 1;
        let row = self.acquire_policy(policy);
        let old_row = core::mem::replace(&mut self.leases[slot].policy, row);
        self.release_policy(old_row);

        let old_session = self.leases[slot].session.session;
        let kept_by = self.sessions.get(old_session).map(|session| session.id);
        if kept_by.is_some() {
            let session = &mut self.sessions[old_session];
            session.uncount_grace(before.grace_ms);
            session.count_grace(policy.grace_ms);
        }
        if kept_by != policy.session {
            if kept_by.is_some() {
                self.lose(at, self.lease_id(self.leases[slot].lsn), Reason::Rebalanced);
                self.unlink(slot);
            }
            if let Some(session) = policy.session {
                self.link(slot, session);
                self.mark_drained(slot);
                self.touch_session(at, slot);
            }
        }
    }

    fn amended(&mut self, at: Stamp, amended: &Amended) {
        let slot = self.known(amended.lease);
        let (row, before) = (self.leases[slot].policy, self.leases[slot].payload_bytes());
        self.replace_payload(slot, amended.attachment.as_deref(), amended.face_data.as_deref());
        self.count_payload(row, self.leases[slot].payload_bytes(), before);
        self.leases[slot].changed_lsn = at.lsn;
    }

    /// Counts bytes that come and go in a lease with these terms.
    fn count_payload(&mut self, policy: u32, come: u64, gone: u64) {
        if come == gone {
            return;
        }
        self.payload_bytes = self.payload_bytes + come - gone;
        let principal = &self.policies.get(policy).principal;
        self.shares.change(principal, |share| share.payload_bytes = share.payload_bytes + come - gone);
    }

    fn replace_payload(&mut self, slot: u32, attachment: Option<&[u8]>, face_data: Option<&[u8]>) {
        let lease = &mut self.leases[slot];
        if attachment.is_some() || face_data.is_some() {
            let rare = lease.rare.get_or_insert_default();
            if let Some(bytes) = attachment {
                rare.attachment = bytes.to_vec();
            }
            if let Some(bytes) = face_data {
                rare.face_data = bytes.to_vec();
            }
        }
    }

    fn steer(&mut self, at: Stamp, steered: &Steered, drained: bool) {
        let slot = self.known(steered.lease);
        let LeaseState::Active { since, .. } = self.leases[slot].state else {
            panic!("invariant: only an active lease is drained or revived")
        };
        self.leases[slot].state = LeaseState::Active { since, drained };
        self.leases[slot].changed_lsn = at.lsn;
        self.mark_drained(slot);
        self.touch_session(at, slot);
    }

    fn revoked(&mut self, at: Stamp, revoked: &Revoked) {
        let slot = self.known(revoked.lease);
        let active_since = match self.leases[slot].state {
            LeaseState::Reserved { deadline } => {
                self.scheduled.remove(&(deadline, revoked.lease.lsn()));
                None
            }
            LeaseState::Active { since, .. } => Some(since),
            LeaseState::Revoking(_) => panic!("invariant: a revoking lease is not revoked again"),
        };
        self.lose(at, revoked.lease, revoked.reason);
        let revocation = Revocation {
            at: at.tick,
            active_since,
            reason: revoked.reason,
            text: revoked.text.clone(),
            actor: revoked.actor.clone(),
            evidence: revoked.evidence,
            reclaim_by: revoked.reclaim_by,
        };
        self.set_state(slot, LeaseState::Revoking(Box::new(revocation)));
        self.leases[slot].epoch = revoked.epoch;
        self.leases[slot].changed_lsn = at.lsn;
        // Those still to be ended stay in front, so that ending a session never looks at one twice.
        if let Some(session) = self.sessions.get(self.leases[slot].session.session) {
            let session = session.id;
            self.detach(slot);
            self.link(slot, session);
        }
    }

    fn ended(&mut self, at: Stamp, was: &Epitaph, ending: &Ending) {
        let slot = self.known(was.lease);
        if let LeaseState::Reserved { deadline } = self.leases[slot].state {
            self.scheduled.remove(&(deadline, was.lease.lsn()));
        }
        let lease = self.uninstall(slot);
        let key = self.retained.push(EndedLease {
            lsn: lease.lsn,
            ended_lsn: at.lsn,
            authority_lsn: lease.authority_lsn(),
            epoch: ending.epoch,
            retire_after: at.tick.after_ms(self.retention.window_ms),
            state: ending.state,
            reason: ending.reason,
            face: was.policy.face,
        });
        self.register.end(lease.lsn, key);
        if was.policy.notice {
            let notice = PendingNotice { ended_lsn: at.lsn, ended_tick: at.tick };
            self.notices.insert(was.lease, notice);
        }
    }

    /// Takes a lease out of every table.
    fn uninstall(&mut self, slot: u32) -> Lease {
        self.unlink(slot);
        self.uncover(slot);
        for index in 0..self.leases[slot].more_members().len() {
            let resource = self.leases[slot].more_members()[index];
            self.uncover(resource | MORE_BIT);
            self.resources.remove(resource);
        }
        let lease = self.leases.remove(slot);
        self.count_payload(lease.policy, 0, lease.payload_bytes());
        *self.counts.cell(lease.state.name(), self.policies.get(lease.policy)) -= 1;
        self.holders.release(lease.holder);
        self.release_policy(lease.policy);
        lease
    }

    fn cover(&mut self, name: &Text, covered: u32) {
        let hash = self.hashing.hash_one(name.as_str());
        let (held, more, hashing) = (&self.leases, &self.resources, &self.hashing);
        let hash_of = |other: &u32| hashing.hash_one(name_of(held, more, *other).as_str());
        self.resource_index.insert(hash, covered, hash_of);
        if !self.pools.is_empty()
            && let Some((pool, number)) = split_pool_member(name)
            && let Some(pool) = self.pools.get_mut(pool)
        {
            pool.free.remove(number);
        }
    }

    fn uncover(&mut self, covered: u32) {
        let hash = self.hashing.hash_one(self.covered_name(covered).as_str());
        self.resource_index.remove(hash, covered);
        if !self.pools.is_empty() {
            let name = self.covered_name(covered).clone();
            self.uncovered_member(&name);
        }
    }

    /// A name came free; if it is a pool's member, the pool has one more.
    fn uncovered_member(&mut self, name: &Text) {
        let Some((name, number)) = split_pool_member(name) else { return };
        let Some(pool) = self.pools.get_mut(name) else { return };
        // A member beyond the size was doomed by a shrink: it does not come back.
        if number <= pool.size {
            pool.free.insert(number);
        }
        if pool.removed && pool.held() == 0 {
            self.pools.remove(name);
        }
    }

    pub(crate) fn pool_defined(&mut self, name: &Text, size: u32) {
        let before = self.pools.get(name).map_or(0, |pool| pool.size);
        let joining: Vec<u32> = (before + 1..=size)
            .filter(|number| self.covering_slot(&pool_member(name, *number)).is_none())
            .collect();
        let pool = self.pools.entry(name.clone()).or_insert_with(|| Pool {
            size: 0,
            free: FreeSet::default(),
            removed: false,
        });
        for number in size + 1..=before {
            pool.free.remove(number);
        }
        for number in joining {
            pool.free.insert(number);
        }
        pool.size = size;
    }

    fn set_state(&mut self, slot: u32, state: LeaseState) {
        let policy = self.policies.get(self.leases[slot].policy);
        *self.counts.cell(self.leases[slot].state.name(), policy) -= 1;
        *self.counts.cell(state.name(), policy) += 1;
        self.leases[slot].state = state;
    }

    fn acquire_policy(&mut self, policy: &Policy) -> u32 {
        let row = if policy.session.is_none() {
            self.policies.acquire(policy)
        } else {
            let mut terms = policy.clone();
            terms.session = None;
            self.policies.acquire(&terms)
        };
        if self.policies.uses(row) == 1 {
            // A row is used for the first time, or again by other terms than before.
            let principal = self.principals.acquire(&policy.principal);
            if self.principal_of.len() <= row as usize {
                self.principal_of.resize(row as usize + 1, NO_SLOT);
            }
            self.principal_of[row as usize] = principal;
        } else {
            self.principals.acquire_again(self.principal_of[row as usize]);
        }
        row
    }

    fn release_policy(&mut self, row: u32) {
        self.principals.release(self.principal_of[row as usize]);
        self.policies.release(row);
    }

    /// Puts a lease on the list of its session: behind those with authority, a revoking one behind all.
    fn link(&mut self, slot: u32, session: SessionId) {
        let session_slot = self.session_index[&session];
        let revoking = matches!(self.leases[slot].state, LeaseState::Revoking(_));
        let grace_ms = self.policies.get(self.leases[slot].policy).grace_ms;
        let record = &mut self.sessions[session_slot];
        let next = if revoking { NO_SLOT } else { record.first_revoking };
        if revoking && record.first_revoking == NO_SLOT {
            record.first_revoking = slot;
        }
        record.leases += 1;
        record.count_grace(grace_ms);
        let previous = if next == NO_SLOT {
            core::mem::replace(&mut record.last, slot)
        } else {
            core::mem::replace(&mut self.leases[next].session.previous, slot)
        };
        if previous == NO_SLOT {
            self.sessions[session_slot].first = slot;
        } else {
            self.leases[previous].session.next = slot;
        }
        self.leases[slot].session = SessionLink { session: session_slot, previous, next };
    }

    /// Takes a lease out of the list of its session, which may end with that.
    fn unlink(&mut self, slot: u32) {
        let session = self.leases[slot].session.session;
        if session != NO_SLOT {
            self.detach(slot);
            self.drop_session_if_over(session);
        }
    }

    fn detach(&mut self, slot: u32) {
        let link = core::mem::replace(&mut self.leases[slot].session, SessionLink::NONE);
        let lease = self.lease_id(self.leases[slot].lsn);
        let grace_ms = self.policies.get(self.leases[slot].policy).grace_ms;
        if link.previous == NO_SLOT {
            self.sessions[link.session].first = link.next;
        } else {
            self.leases[link.previous].session.next = link.next;
        }
        if link.next == NO_SLOT {
            self.sessions[link.session].last = link.previous;
        } else {
            self.leases[link.next].session.previous = link.previous;
        }
        let record = &mut self.sessions[link.session];
        if record.first_revoking == slot {
            record.first_revoking = link.next;
        }
        record.leases -= 1;
        record.uncount_grace(grace_ms);
        record.drained.remove(&lease);
    }

    pub(crate) fn mark_drained(&mut self, slot: u32) {
        let lease = &self.leases[slot];
        let id = self.lease_id(lease.lsn);
        let drained = matches!(lease.state, LeaseState::Active { drained: true, .. });
        if lease.session.session != NO_SLOT {
            let session = &mut self.sessions[lease.session.session];
            if drained {
                session.drained.insert(id);
            } else {
                session.drained.remove(&id);
            }
        }
    }

    /// Tells a lease's session that it lost it.
    fn lose(&mut self, at: Stamp, lease: LeaseId, reason: Reason) {
        let session = self.leases[self.known(lease)].session.session;
        if session != NO_SLOT {
            self.sessions[session].lose(Loss { lease, reason, lsn: at.lsn });
            self.sessions[session].changed_lsn = at.lsn;
        }
    }

    /// What a session is told of its drained leases rests on this event.
    fn touch_session(&mut self, at: Stamp, lease: u32) {
        let session = self.leases[lease].session.session;
        if session != NO_SLOT {
            self.sessions[session].changed_lsn = at.lsn;
        }
    }

    fn drop_session_if_over(&mut self, slot: u32) {
        if self.sessions[slot].closed.is_some() && self.sessions[slot].is_empty() {
            let session = self.sessions.remove(slot);
            self.shares.change(&session.principal, |share| share.sessions -= 1);
            self.session_index.remove(&session.id);
        }
    }

    fn known(&self, id: LeaseId) -> u32 {
        self.slot_of(id).expect("invariant: an event names a live lease")
    }
}
