//! Reading: what a lease, resource, pool or session looks like right now. Views borrow; they cost nothing
//! until a field is asked for.

use crate::command::Operation;
use crate::ids::{Epoch, Fence, LeaseId, Lsn, SessionId, Tick};
use crate::kernel::{Counts, Kernel, PendingNotice};
use crate::lease::{Lease, LeaseState};
use crate::names::Text;
use crate::operations::Replay;
use crate::policy::{Face, Policy};
use crate::pool::PoolView;
use crate::rejection::Rejection;
use crate::retained::EndedLease;
use crate::session::SessionView;
use crate::tables::register::Where;
use crate::tables::slab::NO_SLOT;
use core::hash::BuildHasher;

/// Leases looked up in step.
const FOUND_TOGETHER: usize = 32;

/// What is known of a lease id.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// It covers resources.
    Live(LeaseView<'a>),
    /// It ended and is still readable.
    Ended(&'a EndedLease),
    /// It ended too long ago.
    Retired,
    /// No lease has this id.
    NotFound,
}

/// Number of a live lease's slot: stable while the lease lives, used again afterwards. Lets liveness keep
/// its own records beside the kernel's without a second index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeaseSlot(pub u32);

/// Number of a holder while anything is held in its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HolderSlot(pub u32);

/// A live lease.
#[derive(Clone, Copy, Debug)]
pub struct LeaseView<'a> {
    kernel: &'a Kernel,
    lease: &'a Lease,
    slot: u32,
}

impl Kernel {
    /// Looks a lease up as of `now`.
    #[must_use]
    pub fn lease(&self, id: LeaseId, now: Tick) -> Found<'_> {
        if let Some(view) = self.live(id) {
            return Found::Live(view);
        }
        if id.shard() != self.setup.shard {
            return Found::NotFound;
        }
        let ended = match self.register.find(id.lsn()) {
            Some(Where::Ended(key)) => self.retained.get(key, id.lsn()),
            Some(Where::Live(_)) | None => None,
        };
        match ended {
            Some(ended) if !self.retained.is_retired(ended, now) => Found::Ended(ended),
            Some(_) => Found::Retired,
            None if id.lsn() <= self.retained.watermark && id.lsn() > Lsn(0) => Found::Retired,
            None => Found::NotFound,
        }
    }

    /// Looks a live lease up.
    #[must_use]
    #[inline]
    pub fn live(&self, id: LeaseId) -> Option<LeaseView<'_>> {
        self.slot_of(id).map(|slot| self.view(slot))
    }

    /// The live lease in a slot.
    #[must_use]
    #[inline]
    pub fn in_slot(&self, slot: LeaseSlot) -> Option<LeaseView<'_>> {
        self.leases.get(slot.0).map(|lease| LeaseView { kernel: self, lease, slot: slot.0 })
    }

    /// Where these leases are, `None` for those that are not live. Looking several up together lets their
    /// cache misses overlap.
    pub fn find(&self, leases: &[LeaseId], slots: &mut Vec<Option<LeaseSlot>>) {
        let mut wanted = [Lsn(0); FOUND_TOGETHER];
        let mut found = [None; FOUND_TOGETHER];
        slots.clear();
        for some in leases.chunks(FOUND_TOGETHER) {
            for (lease, wanted) in some.iter().zip(&mut wanted) {
                *wanted = lease.lsn();
            }
            self.register.find_all(&wanted[..some.len()], &mut found[..some.len()]);
            slots.extend(some.iter().zip(&found).map(|(lease, found)| match found {
                Some(Where::Live(slot)) if lease.shard() == self.setup.shard => Some(LeaseSlot(*slot)),
                Some(Where::Live(_) | Where::Ended(_)) | None => None,
            }));
        }
    }

    /// Brings into the cache what deciding about these leases will read.
    #[inline]
    pub fn warm(&self, slots: &[Option<LeaseSlot>]) {
        for slot in slots.iter().flatten() {
            core::hint::black_box(self.leases.get(slot.0).map(|lease| lease.epoch));
        }
        for slot in slots.iter().flatten() {
            core::hint::black_box(self.leases.get(slot.0).map(|lease| lease.granted_wall_ms));
        }
    }

    /// Brings into the cache where these names would be found.
    #[inline]
    pub fn warm_names<'a>(&self, names: impl Iterator<Item = &'a Text>) {
        for name in names {
            let hash = self.hashing.hash_one(name.as_str());
            core::hint::black_box(self.resource_index.find(hash, |_| true));
        }
    }

    /// Live leases with an id of at least `from`, in order of id.
    pub fn leases_from(&self, from: LeaseId) -> impl Iterator<Item = LeaseView<'_>> {
        self.register.live_from(from.lsn()).map(|(_, slot)| self.view(slot))
    }

    /// The shard of every lease id.
    #[must_use]
    pub fn shard(&self) -> u64 {
        self.setup.shard
    }

    /// Fence of the last holder of an ended lease.
    #[must_use]
    pub fn fence_of(&self, ended: &EndedLease) -> Fence {
        self.fence(ended.authority_lsn)
    }

    /// Number of live leases.
    #[must_use]
    pub fn live_count(&self) -> usize {
        self.register.live()
    }

    /// Number of ended leases still kept.
    #[must_use]
    pub fn retained_count(&self) -> usize {
        self.retained.len()
    }

    /// Ended leases of a face that are still kept, in order of their ends, from an end on.
    pub fn ended_of(&self, face: Face, from: Lsn, now: Tick) -> impl Iterator<Item = (LeaseId, &EndedLease)> {
        let kept = self.retained.of(face, from).filter(move |ended| !self.retained.is_retired(ended, now));
        kept.map(|ended| (LeaseId::new(self.shard(), ended.lsn), ended))
    }

    /// Highest lease ever retired; position 0 if none.
    #[must_use]
    pub fn watermark(&self) -> Lsn {
        self.retained.watermark
    }

    /// Live leases by state, mode and face.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Distinct holders of live leases.
    #[must_use]
    pub fn holder_count(&self) -> usize {
        self.holders.len()
    }

    /// The lease that covers a resource; `None` when it is available.
    #[must_use]
    pub fn covering(&self, resource: &str) -> Option<LeaseView<'_>> {
        self.covering_slot(resource).map(|slot| self.view(slot))
    }

    /// A pool by name.
    #[must_use]
    pub fn pool(&self, name: &str) -> Option<PoolView<'_>> {
        self.pools.get_key_value(name).map(|(name, pool)| PoolView {
            name,
            size: pool.size,
            free: pool.free.count(),
            removed: pool.removed,
        })
    }

    /// Pools in order of name.
    pub fn pools(&self) -> impl Iterator<Item = PoolView<'_>> {
        self.pools.keys().filter_map(|name| self.pool(name))
    }

    /// Numbers of the free members of a pool, lowest first.
    pub fn free_members(&self, name: &str) -> impl Iterator<Item = u32> {
        self.pools.get(name).into_iter().flat_map(|pool| pool.free.iter())
    }

    /// Leases that cover members of a pool, in order of member.
    pub fn holders_of_pool<'a>(&'a self, name: &'a str) -> impl Iterator<Item = LeaseView<'a>> {
        let size = self.pools.get(name).map_or(0, |pool| pool.size);
        (1..=size).filter_map(|number| self.holder_of_member(name, number))
    }

    /// The lease that covers a member of a pool.
    #[must_use]
    pub fn holder_of_member(&self, name: &str, number: u32) -> Option<LeaseView<'_>> {
        self.pools.get(name).filter(|pool| !pool.free.contains(number))?;
        self.covering(&crate::names::pool_member(name, number))
    }

    /// A session by id; closed ones are found until their last lease is gone.
    #[must_use]
    pub fn session(&self, id: SessionId) -> Option<SessionView<'_>> {
        self.session_slot(id).map(|slot| SessionView { session: &self.sessions[slot] })
    }

    /// Sessions with an id of at least `from`, in order of id.
    pub fn sessions_from(&self, from: SessionId) -> impl Iterator<Item = SessionView<'_>> {
        self.session_index.range(from..).map(|(_, slot)| SessionView { session: &self.sessions[*slot] })
    }

    /// Leases a session keeps: those with authority first, revoking ones last.
    pub fn leases_of(&self, session: SessionId) -> impl Iterator<Item = LeaseView<'_>> {
        self.leases_behind(session, None)
    }

    /// The first of the revoking leases that a session keeps.
    #[must_use]
    pub fn first_revoking_of(&self, session: SessionId) -> Option<LeaseSlot> {
        let first = self.sessions[self.session_slot(session)?].first_revoking;
        (first != NO_SLOT).then_some(LeaseSlot(first))
    }

    /// The same from behind one of them on; from the first one on without any.
    pub fn leases_behind(
        &self,
        session: SessionId,
        behind: Option<LeaseView<'_>>,
    ) -> impl Iterator<Item = LeaseView<'_>> {
        let first = match behind {
            Some(view) => view.lease.session.next,
            None => self.session_slot(session).map_or(NO_SLOT, |slot| self.sessions[slot].first),
        };
        core::iter::successors((first != NO_SLOT).then_some(first), |slot| {
            let next = self.leases[*slot].session.next;
            (next != NO_SLOT).then_some(next)
        })
        .map(|slot| self.view(slot))
    }

    /// The remembered outcome of an operation, with the fingerprint of its command.
    #[must_use]
    pub fn remembered(&self, key: u128, now: Tick) -> Option<(u64, &Replay)> {
        self.operations.find(key, now).map(|found| (found.fingerprint, &found.replay))
    }

    /// What became of an operation; `None`: nothing is remembered of it.
    ///
    /// # Errors
    /// When its id was used for another command.
    pub fn replay(&self, operation: &Operation, now: Tick) -> Result<Option<&Replay>, Rejection> {
        self.operations.replay(operation, now)
    }

    /// Since when every operation that is kept for `keep_ms` is remembered.
    #[must_use]
    pub fn operation_floor(&self, now: Tick, keep_ms: u64) -> Tick {
        self.operations.floor(now, keep_ms, &self.retention)
    }

    /// Operations remembered.
    #[must_use]
    pub fn operation_count(&self) -> usize {
        self.operations.len()
    }

    /// Ended leases whose notice is not settled, in order of id.
    pub fn notices(&self) -> impl Iterator<Item = (LeaseId, &PendingNotice)> {
        self.notices.iter().map(|(lease, notice)| (*lease, notice))
    }

    fn view(&self, slot: u32) -> LeaseView<'_> {
        LeaseView { kernel: self, lease: &self.leases[slot], slot }
    }
}

impl<'a> LeaseView<'a> {
    pub(crate) fn record(self) -> &'a Lease {
        self.lease
    }

    /// Its id.
    #[must_use]
    pub fn id(self) -> LeaseId {
        self.kernel.lease_id(self.lease.lsn)
    }

    /// Its slot.
    #[must_use]
    pub fn slot(self) -> LeaseSlot {
        LeaseSlot(self.slot)
    }

    /// The lease behind it among those of its session.
    #[must_use]
    pub fn next_of_session(self) -> Option<LeaseSlot> {
        let next = self.lease.session.next;
        (next != NO_SLOT).then_some(LeaseSlot(next))
    }

    /// Who holds it.
    #[must_use]
    pub fn holder(self) -> &'a Text {
        self.kernel.holders.get(self.lease.holder)
    }

    /// Number of its holder.
    #[must_use]
    pub fn holder_slot(self) -> HolderSlot {
        HolderSlot(self.lease.holder)
    }

    /// Its state.
    #[must_use]
    #[inline]
    pub fn state(self) -> &'a LeaseState {
        &self.lease.state
    }

    /// Its epoch.
    #[must_use]
    #[inline]
    pub fn epoch(self) -> Epoch {
        self.lease.epoch
    }

    /// Its fence.
    #[must_use]
    pub fn fence(self) -> Fence {
        self.kernel.fence(self.lease.authority_lsn())
    }

    /// Until when a former holder may act at most, by the terms it had; `None` where the log knows of none.
    #[must_use]
    pub fn former_until(self) -> Option<Tick> {
        self.lease.former_until()
    }

    /// Position of its last change.
    #[must_use]
    #[inline]
    pub fn changed_lsn(self) -> Lsn {
        self.lease.changed_lsn
    }

    /// When it was granted.
    #[must_use]
    pub fn granted_tick(self) -> Tick {
        self.lease.granted_tick
    }

    /// When it was granted, for people.
    #[must_use]
    pub fn granted_wall_ms(self) -> u64 {
        self.lease.granted_wall_ms
    }

    /// Its resources in request order.
    pub fn members(self) -> impl Iterator<Item = &'a Text> {
        self.kernel.members(self.lease)
    }

    /// Its terms, without the session.
    #[must_use]
    #[inline]
    pub fn terms(self) -> &'a Policy {
        self.kernel.policies.get(self.lease.policy)
    }

    /// The session that keeps it.
    #[must_use]
    #[inline]
    pub fn session(self) -> Option<SessionId> {
        self.kernel.sessions.get(self.lease.session.session).map(|session| session.id)
    }

    /// Its terms with the session.
    #[must_use]
    pub fn policy(self) -> Policy {
        self.kernel.policy_of(self.lease)
    }

    /// The user's bytes.
    #[must_use]
    pub fn attachment(self) -> &'a [u8] {
        self.lease.attachment()
    }

    /// The face's bytes.
    #[must_use]
    pub fn face_data(self) -> &'a [u8] {
        self.lease.face_data()
    }
}
