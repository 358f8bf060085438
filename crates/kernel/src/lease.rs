//! The record of a live lease. Common fields are inline, rare ones in a box: at a million leases the
//! difference is what fits in memory. Slots refer to the kernel's other tables.

use crate::ids::{Epoch, Lsn, Tick};
use crate::names::Text;
use crate::reason::{Actor, Evidence, Reason, ReclaimBy};
use crate::rejection::StateName;
use crate::tables::slab::NO_SLOT;

/// What checks read first, then the rest.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Lease {
    pub(crate) lsn: Lsn,
    pub(crate) epoch: Epoch,
    pub(crate) changed_lsn: Lsn,
    pub(crate) state: LeaseState,
    pub(crate) policy: u32,
    pub(crate) holder: u32,
    pub(crate) session: SessionLink,

    pub(crate) granted_tick: Tick,
    pub(crate) granted_wall_ms: u64,
    pub(crate) rare: Option<Box<Rare>>,
    /// The resource, or the first of several.
    pub(crate) first_name: Text,
}

// How many leases fit is decided here and by liveness' record and timer beside it.
const _: () = assert!(size_of::<Option<Lease>>() == 112);
const _: () = assert!(core::mem::offset_of!(Lease, session) + size_of::<SessionLink>() <= 64);

/// What most leases do not have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rare {
    /// Members after the first.
    pub(crate) more_members: Vec<u32>,
    /// Position of the last rebind.
    pub(crate) rebound_lsn: Option<Lsn>,
    /// Until when a holder from before the last rebind may act, by the terms it had.
    pub(crate) former_until: Tick,
    pub(crate) face_data: Vec<u8>,
    pub(crate) attachment: Vec<u8>,
}

/// State of a live lease with the data that state needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LeaseState {
    /// Held, not yet in use.
    Reserved {
        /// The reservation expires here.
        deadline: Tick,
    },
    /// In use.
    Active {
        /// Since when; the longest lifetime counts from here.
        since: Tick,
        /// An operator asked it to end.
        drained: bool,
    },
    /// Authority withdrawn, resources unavailable.
    Revoking(Box<Revocation>),
}

/// Why and how a lease was revoked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Revocation {
    /// When.
    pub at: Tick,
    /// When it had become active; `None` if it never was.
    pub active_since: Option<Tick>,
    /// Why.
    pub reason: Reason,
    /// Why, in words.
    pub text: Text,
    /// Who.
    pub actor: Actor,
    /// What was seen.
    pub evidence: Evidence,
    /// Who reclaims.
    pub reclaim_by: ReclaimBy,
}

/// A lease's place in the list of its session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionLink {
    pub(crate) session: u32,
    pub(crate) previous: u32,
    pub(crate) next: u32,
}

impl SessionLink {
    pub(crate) const NONE: Self = Self { session: NO_SLOT, previous: NO_SLOT, next: NO_SLOT };
}

impl LeaseState {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> StateName {
        match self {
            Self::Reserved { .. } => StateName::Reserved,
            Self::Active { .. } => StateName::Active,
            Self::Revoking(_) => StateName::Revoking,
        }
    }
}

impl Lease {
    /// Members after the first.
    pub(crate) fn more_members(&self) -> &[u32] {
        self.rare.as_ref().map_or(&[], |rare| &rare.more_members)
    }

    /// Position from which the present holder's authority counts.
    pub(crate) fn authority_lsn(&self) -> Lsn {
        self.rare.as_ref().and_then(|rare| rare.rebound_lsn).unwrap_or(self.lsn)
    }

    /// Until when a former holder may act, if the lease ever had one.
    pub(crate) fn former_until(&self) -> Option<Tick> {
        self.rare.as_ref().map(|rare| rare.former_until).filter(|until| *until > Tick(0))
    }

    pub(crate) fn attachment(&self) -> &[u8] {
        self.rare.as_ref().map_or(&[], |rare| &rare.attachment)
    }

    pub(crate) fn face_data(&self) -> &[u8] {
        self.rare.as_ref().map_or(&[], |rare| &rare.face_data)
    }

    pub(crate) fn payload_bytes(&self) -> u64 {
        (self.attachment().len() + self.face_data().len()) as u64
    }
}
