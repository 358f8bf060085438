//! What happened. Events are what the log stores; replaying them is recovery, and no rule is asked again.
//! An ending event repeats what the lease was, so that its story survives the lease's record.

use crate::command::{OpenSession, Operation};
use crate::ids::{Epoch, LeaseId, Lsn, SessionId, Tick};
use crate::limits::Retention;
use crate::names::Text;
use crate::policy::Policy;
use crate::reason::{Actor, Evidence, GateReport, Reason, ReclaimBy, ReclaimGround};
use smallvec::SmallVec;

/// One accepted command as the log keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// The operation it answered, remembered for retries.
    pub operation: Option<Operation>,
    /// What changed.
    pub change: Change,
}

/// Names of resources; one costs no allocation.
pub type Names = SmallVec<[Text; 1]>;

/// What changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// A lease began. Its id is the event's position.
    Granted(Granted),
    /// A reserved lease went into use.
    Activated {
        /// Which.
        lease: LeaseId,
    },
    /// A live lease moved to a new holder or session.
    Rebound(Rebound),
    /// The payload of a live lease was replaced.
    Amended(Amended),
    /// An operator drained a lease.
    Drained(Steered),
    /// An operator took a drain back.
    Revived(Steered),
    /// The holder gave the lease back.
    Released(Released),
    /// Authority was withdrawn; resources stay unavailable.
    Revoked(Revoked),
    /// Resources of a revoking lease became reusable.
    Reclaimed(Reclaimed),
    /// A reserved lease was not activated in time.
    Expired(Expired),
    /// A session became durable.
    SessionOpened(OpenSession),
    /// A session ended; its leases follow.
    SessionClosed {
        /// Which.
        session: SessionId,
        /// `Explicit` or `SessionExpired`.
        reason: Reason,
    },
    /// A pool was created or resized.
    PoolDefined {
        /// Its name.
        name: Text,
        /// Number of members.
        size: u32,
    },
    /// A pool ended; leases on its members follow.
    PoolRemoved {
        /// Its name.
        name: Text,
    },
    /// The notice of an ended lease is settled.
    Notified {
        /// Which.
        lease: LeaseId,
    },
    /// History below this position is gone.
    Trimmed {
        /// First position still kept.
        below: Lsn,
    },
    /// New windows and caps.
    Configured(Retention),
}

/// Kind of a change; its code in the log is its place in [`ChangeKind::ALL`] plus one, for ever.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ChangeKind {
    /// A lease began.
    Granted,
    /// A reserved lease went into use.
    Activated,
    /// A live lease moved.
    Rebound,
    /// A payload was replaced.
    Amended,
    /// An operator drained a lease.
    Drained,
    /// An operator took a drain back.
    Revived,
    /// A holder gave a lease back.
    Released,
    /// Authority was withdrawn.
    Revoked,
    /// Resources became reusable after a revoke.
    Reclaimed,
    /// A reservation ran out.
    Expired,
    /// A session became durable.
    SessionOpened,
    /// A session ended.
    SessionClosed,
    /// A pool was created or resized.
    PoolDefined,
    /// A pool ended.
    PoolRemoved,
    /// A notice was settled.
    Notified,
    /// History was cut.
    Trimmed,
    /// Windows and caps changed.
    Configured,
}

/// A lease began.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Granted {
    /// Who holds it.
    pub holder: Text,
    /// Its resources in request order, pool members chosen.
    pub members: Names,
    /// Set while it is only reserved.
    pub deadline: Option<Tick>,
    /// Its durable terms.
    pub policy: Policy,
    /// Bytes of the face.
    pub face_data: Vec<u8>,
    /// Bytes of the user.
    pub attachment: Vec<u8>,
    /// Wall clock, for people.
    pub wall_ms: u64,
}

/// A live lease moved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rebound {
    /// Which.
    pub lease: LeaseId,
    /// Epoch from here on.
    pub epoch: Epoch,
    /// Who holds it now.
    pub holder: Text,
    /// Terms from here on; `None` keeps them.
    pub policy: Option<Policy>,
    /// `None` keeps the attachment.
    pub attachment: Option<Vec<u8>>,
    /// `None` keeps the face data.
    pub face_data: Option<Vec<u8>>,
    /// A grant took a draining lease over; the former holder did not ask.
    pub taken_over: bool,
}

/// The payload was replaced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Amended {
    /// Which.
    pub lease: LeaseId,
    /// `None` keeps the attachment.
    pub attachment: Option<Vec<u8>>,
    /// `None` keeps the face data.
    pub face_data: Option<Vec<u8>>,
}

/// An operator's drain or revive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Steered {
    /// Which.
    pub lease: LeaseId,
    /// Who.
    pub actor: Actor,
    /// Why, in words.
    pub text: Text,
}

/// What a lease was when it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Epitaph {
    /// Which.
    pub lease: LeaseId,
    /// Final epoch.
    pub epoch: Epoch,
    /// Who held it.
    pub holder: Text,
    /// What it covered.
    pub members: Names,
    /// Its terms.
    pub policy: Policy,
    /// Bytes of the face.
    pub face_data: Vec<u8>,
    /// When it was granted.
    pub granted_tick: Tick,
    /// When it was granted, for people.
    pub granted_wall_ms: u64,
}

/// The holder gave the lease back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Released {
    /// What it was.
    pub was: Epitaph,
    /// The holder's words.
    pub text: Text,
}

/// Authority was withdrawn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Revoked {
    /// Which.
    pub lease: LeaseId,
    /// Epoch from here on.
    pub epoch: Epoch,
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

/// Resources became reusable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reclaimed {
    /// What it was.
    pub was: Epitaph,
    /// Why it had been revoked.
    pub reason: Reason,
    /// Why, in words.
    pub text: Text,
    /// Who reclaimed.
    pub actor: Actor,
    /// Why it was safe.
    pub ground: ReclaimGround,
    /// How the gate went.
    pub gate: GateReport,
}

/// A reservation ran out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expired {
    /// What it was.
    pub was: Epitaph,
}

impl ChangeKind {
    /// Every kind, in code order. Only ever extended at the end.
    pub const ALL: [Self; 17] = [
        Self::Granted,
        Self::Activated,
        Self::Rebound,
        Self::Amended,
        Self::Drained,
        Self::Revived,
        Self::Released,
        Self::Revoked,
        Self::Reclaimed,
        Self::Expired,
        Self::SessionOpened,
        Self::SessionClosed,
        Self::PoolDefined,
        Self::PoolRemoved,
        Self::Notified,
        Self::Trimmed,
        Self::Configured,
    ];

    /// Wire word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Activated => "activated",
            Self::Rebound => "rebound",
            Self::Amended => "amended",
            Self::Drained => "draining",
            Self::Revived => "revived",
            Self::Released => "released",
            Self::Revoked => "revoked",
            Self::Reclaimed => "reclaimed",
            Self::Expired => "expired",
            Self::SessionOpened => "session_opened",
            Self::SessionClosed => "session_closed",
            Self::PoolDefined => "pool_defined",
            Self::PoolRemoved => "pool_removed",
            Self::Notified => "notified",
            Self::Trimmed => "trimmed",
            Self::Configured => "configured",
        }
    }
}

impl Change {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> ChangeKind {
        match self {
            Self::Granted(_) => ChangeKind::Granted,
            Self::Activated { .. } => ChangeKind::Activated,
            Self::Rebound(_) => ChangeKind::Rebound,
            Self::Amended(_) => ChangeKind::Amended,
            Self::Drained(_) => ChangeKind::Drained,
            Self::Revived(_) => ChangeKind::Revived,
            Self::Released(_) => ChangeKind::Released,
            Self::Revoked(_) => ChangeKind::Revoked,
            Self::Reclaimed(_) => ChangeKind::Reclaimed,
            Self::Expired(_) => ChangeKind::Expired,
            Self::SessionOpened(_) => ChangeKind::SessionOpened,
            Self::SessionClosed { .. } => ChangeKind::SessionClosed,
            Self::PoolDefined { .. } => ChangeKind::PoolDefined,
            Self::PoolRemoved { .. } => ChangeKind::PoolRemoved,
            Self::Notified { .. } => ChangeKind::Notified,
            Self::Trimmed { .. } => ChangeKind::Trimmed,
            Self::Configured(_) => ChangeKind::Configured,
        }
    }

    /// The lease it concerns; a grant's is the one its position names.
    #[must_use]
    pub fn lease(&self, granted_as: LeaseId) -> Option<LeaseId> {
        match self {
            Self::Granted(_) => Some(granted_as),
            Self::Activated { lease } | Self::Notified { lease } => Some(*lease),
            Self::Rebound(rebound) => Some(rebound.lease),
            Self::Amended(amended) => Some(amended.lease),
            Self::Drained(steered) | Self::Revived(steered) => Some(steered.lease),
            Self::Released(released) => Some(released.was.lease),
            Self::Revoked(revoked) => Some(revoked.lease),
            Self::Reclaimed(reclaimed) => Some(reclaimed.was.lease),
            Self::Expired(expired) => Some(expired.was.lease),
            Self::SessionOpened(_)
            | Self::SessionClosed { .. }
            | Self::PoolDefined { .. }
            | Self::PoolRemoved { .. }
            | Self::Trimmed { .. }
            | Self::Configured(_) => None,
        }
    }

    /// What the lease was, if this event ended it.
    #[must_use]
    pub fn epitaph(&self) -> Option<&Epitaph> {
        match self {
            Self::Released(released) => Some(&released.was),
            Self::Reclaimed(reclaimed) => Some(&reclaimed.was),
            Self::Expired(expired) => Some(&expired.was),
            Self::Granted(_)
            | Self::Activated { .. }
            | Self::Rebound(_)
            | Self::Amended(_)
            | Self::Drained(_)
            | Self::Revived(_)
            | Self::Revoked(_)
            | Self::SessionOpened(_)
            | Self::SessionClosed { .. }
            | Self::PoolDefined { .. }
            | Self::PoolRemoved { .. }
            | Self::Notified { .. }
            | Self::Trimmed { .. }
            | Self::Configured(_) => None,
        }
    }
}
