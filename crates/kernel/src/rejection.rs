//! Refusals. A rejection is an answer, not an error: it changes nothing and writes nothing.

use crate::ids::{Epoch, LeaseId, SessionId, Tick};
use crate::names::{NameFault, Text};
use crate::policy::Mode;

/// Why a command was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rejection {
    /// The operation id was used for another command.
    OperationConflict,
    /// A field is longer than its bound.
    TooLarge {
        /// Which.
        field: Field,
    },
    /// Nothing was asked for.
    BundleEmpty,
    /// More members or alternatives than allowed.
    BundleTooLarge,
    /// A name is not acceptable.
    InvalidName {
        /// The name.
        name: Text,
        /// What is wrong with it.
        fault: NameFault,
    },
    /// A member is named twice.
    DuplicateMember {
        /// The name.
        name: Text,
    },
    /// The reservation is shorter than one tick or longer than a day.
    TtlOutOfRange,
    /// No such pool.
    PoolNotFound {
        /// The name.
        pool: Text,
    },
    /// No such session, or it is closed.
    SessionNotFound {
        /// Which.
        session: SessionId,
    },
    /// The session id is taken.
    SessionExists {
        /// Which.
        session: SessionId,
    },
    /// A member is held.
    ResourceHeld(Held),
    /// Too few members of a pool are free.
    PoolExhausted {
        /// The pool.
        pool: Text,
        /// Wanted.
        wanted: u32,
        /// Free.
        free: u32,
    },
    /// A capacity is used up.
    CapacityExceeded {
        /// Which.
        capacity: Capacity,
        /// How much there may be.
        max: u64,
    },
    /// No lease has this id.
    LeaseNotFound,
    /// The lease ended so long ago that its record is gone.
    LeaseRetired,
    /// Another holder has it.
    HolderMismatch,
    /// The token is not the current one.
    StaleEpoch {
        /// The current one.
        current: Epoch,
    },
    /// The command does not apply in this state.
    InvalidState {
        /// The state.
        state: StateName,
    },
    /// The reservation's deadline has come.
    DeadlinePassed {
        /// When.
        deadline: Tick,
    },
    /// The lease drains already.
    AlreadyDraining,
    /// The lease does not drain.
    NotDraining,
    /// Members of the pool are held.
    PoolInUse {
        /// How many.
        held: u32,
    },
}

/// Who is in the way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    /// The resource.
    pub resource: Text,
    /// The lease that covers it.
    pub lease: LeaseId,
    /// Its holder.
    pub holder: Text,
    /// Since when.
    pub since: Tick,
}

/// A bounded field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// Holder, 1–128 bytes.
    Holder,
    /// Attachment.
    Attachment,
    /// Face data.
    FaceData,
    /// Text beside a reason.
    Text,
    /// Principal or actor.
    Principal,
    /// Pool size.
    PoolSize,
}

/// A bounded table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capacity {
    /// Live leases.
    Leases,
    /// Live leases of one principal.
    LeasesOfPrincipal,
    /// Pools.
    Pools,
    /// Open sessions.
    Sessions,
    /// Open sessions of one principal.
    SessionsOfPrincipal,
    /// Bytes of attachments.
    AttachmentBytes,
    /// Bytes of attachments of one principal.
    AttachmentBytesOfPrincipal,
    /// Notices not yet delivered.
    Notices,
}

/// Name of a lease state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StateName {
    /// Held, not yet in use.
    Reserved,
    /// In use.
    Active,
    /// Authority withdrawn, resources unavailable.
    Revoking,
    /// Given back.
    Released,
    /// Not activated in time.
    Expired,
    /// Reclaimed after a revoke.
    Revoked,
}

impl StateName {
    /// Every state, in code order.
    pub const ALL: [Self; 6] =
        [Self::Reserved, Self::Active, Self::Revoking, Self::Released, Self::Expired, Self::Revoked];

    /// Wire word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Active => "active",
            Self::Revoking => "revoking",
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }

    /// Whether a lease in this state covers resources.
    #[must_use]
    pub fn is_live(self) -> bool {
        match self {
            Self::Reserved | Self::Active | Self::Revoking => true,
            Self::Released | Self::Expired | Self::Revoked => false,
        }
    }
}

impl Rejection {
    /// Whether nothing is kept of the lease: there never was one, or it ended long ago.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        match self {
            Self::LeaseNotFound | Self::LeaseRetired => true,
            Self::OperationConflict
            | Self::TooLarge { .. }
            | Self::BundleEmpty
            | Self::BundleTooLarge
            | Self::InvalidName { .. }
            | Self::DuplicateMember { .. }
            | Self::TtlOutOfRange
            | Self::PoolNotFound { .. }
            | Self::SessionNotFound { .. }
            | Self::SessionExists { .. }
            | Self::ResourceHeld(_)
            | Self::PoolExhausted { .. }
            | Self::CapacityExceeded { .. }
            | Self::HolderMismatch
            | Self::StaleEpoch { .. }
            | Self::InvalidState { .. }
            | Self::DeadlinePassed { .. }
            | Self::AlreadyDraining
            | Self::NotDraining
            | Self::PoolInUse { .. } => false,
        }
    }

    /// Whether the lease is no longer as the caller read it: it changed, ended or is gone. A caller that read it before
    /// the command can read it again.
    #[must_use]
    pub fn has_moved(&self) -> bool {
        match self {
            Self::StaleEpoch { .. }
            | Self::InvalidState { .. }
            | Self::DeadlinePassed { .. }
            | Self::LeaseNotFound
            | Self::LeaseRetired => true,
            Self::OperationConflict
            | Self::TooLarge { .. }
            | Self::BundleEmpty
            | Self::BundleTooLarge
            | Self::InvalidName { .. }
            | Self::DuplicateMember { .. }
            | Self::TtlOutOfRange
            | Self::PoolNotFound { .. }
            | Self::SessionNotFound { .. }
            | Self::SessionExists { .. }
            | Self::ResourceHeld(_)
            | Self::PoolExhausted { .. }
            | Self::CapacityExceeded { .. }
            | Self::HolderMismatch
            | Self::AlreadyDraining
            | Self::NotDraining
            | Self::PoolInUse { .. } => false,
        }
    }
}

/// Counts of live leases for status and metrics.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CountKey {
    /// State.
    pub state: StateName,
    /// Mode.
    pub mode: Mode,
    /// Face.
    pub face: crate::policy::Face,
}
