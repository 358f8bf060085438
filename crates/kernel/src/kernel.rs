//! The state: every live lease, what it covers, who holds it, and what is remembered of the ended ones.
//! `decide` reads it, `evolve` alone changes it. The structural invariants are in `invariants.rs`.

use crate::hashing::Hashing;
use crate::ids::{Fence, LeaseId, Lsn, SessionId, Stamp, Tick};
use crate::lease::Lease;
use crate::limits::{Limits, Retention};
use crate::names::Text;
use crate::operations::Operations;
use crate::planted::{Planted, planted};
use crate::policy::{Face, Mode, Policy};
use crate::pool::Pool;
use crate::rejection::{CountKey, StateName};
use crate::retained::Retained;
use crate::session::Session;
use crate::tables::index::Index;
use crate::tables::interner::Interner;
use crate::tables::register::{Register, Where};
use crate::tables::shares::Shares;
use crate::tables::slab::Slab;
use core::hash::BuildHasher;
use std::collections::{BTreeMap, BTreeSet};

/// What is fixed for the life of a log and of a process.
#[derive(Clone, Debug)]
pub struct Setup {
    /// High half of every lease id.
    pub shard: u64,
    /// Added to a position to make a fence.
    pub fence_base: u64,
    /// Capacities.
    pub limits: Limits,
    /// How the tables hash; never reaches any output.
    pub hashing: Hashing,
}

/// The lease state machine.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(crate) setup: Setup,
    pub(crate) retention: Retention,
    pub(crate) applied: Stamp,
    pub(crate) hashing: Hashing,

    pub(crate) leases: Slab<Lease>,
    pub(crate) register: Register,
    /// Members of bundles after the first; the first stands in its lease.
    pub(crate) resources: Slab<Resource>,
    /// Covered names: slots of leases, or of `resources` where the high bit is set.
    pub(crate) resource_index: Index,
    pub(crate) holders: Interner<Text>,
    pub(crate) policies: Interner<Policy>,
    pub(crate) principals: Interner<Text>,
    /// The principal of each row of terms, so that counting leases hashes nothing.
    pub(crate) principal_of: Vec<u32>,

    pub(crate) pools: BTreeMap<Text, Pool>,
    pub(crate) sessions: Slab<Session>,
    pub(crate) session_index: BTreeMap<SessionId, u32>,

    /// Reserved leases by deadline.
    pub(crate) scheduled: BTreeSet<(Tick, Lsn)>,
    pub(crate) retained: Retained,
    pub(crate) operations: Operations,
    pub(crate) notices: BTreeMap<LeaseId, PendingNotice>,

    pub(crate) payload_bytes: u64,
    pub(crate) shares: Shares,
    pub(crate) counts: Counts,
}

/// In the index of covered names: a slot of `resources`, not of `leases`.
pub(crate) const MORE_BIT: u32 = 1 << 31;

/// A covered resource. One that is free has no record.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub(crate) name: Text,
    pub(crate) lease: u32,
}

/// An ended lease whose notice is not settled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PendingNotice {
    /// Position of the ending event, which tells the rest.
    pub ended_lsn: Lsn,
    /// When it ended.
    pub ended_tick: Tick,
}

/// Live leases by state, mode and face.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    cells: [[[u64; Face::ALL.len()]; Mode::ALL.len()]; 3],
}

impl Setup {
    /// Shard 0, fence base 0, default limits: what scripts and tests start from.
    #[must_use]
    pub fn plain() -> Self {
        Self { shard: 0, fence_base: 0, limits: Limits::default(), hashing: Hashing::fixed(0) }
    }
}

impl Counts {
    pub(crate) fn cell(&mut self, state: StateName, policy: &Policy) -> &mut u64 {
        let row = match state {
            StateName::Reserved => 0,
            StateName::Active => 1,
            StateName::Revoking => 2,
            StateName::Released | StateName::Expired | StateName::Revoked => {
                unreachable!("invariant: only live leases are counted")
            }
        };
        &mut self.cells[row][policy.mode as usize][policy.face.index()]
    }

    /// Every non-empty cell.
    pub fn iter(&self) -> impl Iterator<Item = (CountKey, u64)> {
        let states = [StateName::Reserved, StateName::Active, StateName::Revoking];
        states.into_iter().enumerate().flat_map(move |(row, state)| {
            Mode::ALL.into_iter().flat_map(move |mode| {
                Face::ALL.into_iter().filter_map(move |face| {
                    let count = self.cells[row][mode as usize][face.index()];
                    (count > 0).then_some((CountKey { state, mode, face }, count))
                })
            })
        })
    }
}

impl Kernel {
    /// An empty kernel.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let hashing = setup.hashing.clone();
        Self {
            setup,
            retention: Retention::default(),
            applied: Stamp::default(),
            leases: Slab::new(),
            register: Register::default(),
            resources: Slab::new(),
            resource_index: Index::new(),
            holders: Interner::new(hashing.clone()),
            policies: Interner::new(hashing.clone()),
            principals: Interner::new(hashing.clone()),
            principal_of: Vec::new(),
            pools: BTreeMap::new(),
            sessions: Slab::new(),
            session_index: BTreeMap::new(),
            scheduled: BTreeSet::new(),
            retained: Retained::default(),
            operations: Operations::new(hashing.clone()),
            notices: BTreeMap::new(),
            payload_bytes: 0,
            shares: Shares::default(),
            counts: Counts::default(),
            hashing,
        }
    }

    /// Stamp of the last event applied.
    #[must_use]
    pub fn applied(&self) -> Stamp {
        self.applied
    }

    /// Windows and caps in force.
    #[must_use]
    pub fn retention(&self) -> &Retention {
        &self.retention
    }

    /// The earliest reservation deadline, so that the caller can sleep exactly that long.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Tick> {
        self.scheduled.first().map(|(deadline, _)| *deadline)
    }

    /// Reserved leases whose deadline has come, earliest first.
    pub fn due(&self, now: Tick) -> impl Iterator<Item = LeaseId> {
        self.scheduled
            .iter()
            .take_while(move |(deadline, _)| *deadline <= now || planted(Planted::ExpireIgnoresDeadline))
            .map(|(_, lsn)| self.lease_id(*lsn))
    }

    pub(crate) fn lease_id(&self, lsn: Lsn) -> LeaseId {
        LeaseId::new(self.setup.shard, lsn)
    }

    /// The fence of an authority that began at a position.
    #[must_use]
    pub fn fence(&self, authority: Lsn) -> Fence {
        if planted(Planted::FenceForgetsBase) {
            return Fence(authority.0);
        }
        Fence(self.setup.fence_base + authority.0)
    }

    #[inline]
    pub(crate) fn slot_of(&self, lease: LeaseId) -> Option<u32> {
        if lease.shard() != self.setup.shard {
            return None;
        }
        match self.register.find(lease.lsn())? {
            Where::Live(slot) => Some(slot),
            Where::Ended(_) => None,
        }
    }

    /// The slot of the lease that covers a name.
    #[inline]
    pub(crate) fn covering_slot(&self, name: &str) -> Option<u32> {
        let hash = self.hashing.hash_one(name);
        let found = self.resource_index.find(hash, |&covered| self.covered_name(covered) == name)?;
        Some(self.covered_lease(found))
    }

    #[inline]
    pub(crate) fn covered_name(&self, covered: u32) -> &Text {
        name_of(&self.leases, &self.resources, covered)
    }

    pub(crate) fn covered_lease(&self, covered: u32) -> u32 {
        if covered & MORE_BIT == 0 { covered } else { self.resources[covered & !MORE_BIT].lease }
    }

    /// Names a lease covers, in request order.
    pub(crate) fn members<'a>(&'a self, lease: &'a Lease) -> impl Iterator<Item = &'a Text> {
        let more = lease.more_members().iter().map(|slot| &self.resources[*slot].name);
        core::iter::once(&lease.first_name).chain(more)
    }

    pub(crate) fn session_slot(&self, session: SessionId) -> Option<u32> {
        self.session_index.get(&session).copied()
    }

    /// The lease's terms as they were granted, with its present session.
    pub(crate) fn policy_of(&self, lease: &Lease) -> Policy {
        let mut policy = self.policies.get(lease.policy).clone();
        policy.session = self.sessions.get(lease.session.session).map(|session| session.id);
        policy
    }
}

/// The name that an entry of the index of resources stands for.
#[inline]
pub(crate) fn name_of<'a>(leases: &'a Slab<Lease>, resources: &'a Slab<Resource>, covered: u32) -> &'a Text {
    if covered & MORE_BIT == 0 { &leases[covered].first_name } else { &resources[covered & !MORE_BIT].name }
}
