//! What liveness asks the engine to do, and what it refuses.

use tenure_kernel::{Evidence, LeaseId, Reason, ReclaimGround, Rejection, SessionId, Subject, Tick};

/// Something that follows from time passing or from an observation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Proof of life stopped. To be noted.
    Silent {
        /// Who.
        subject: Subject,
        /// Instant of the last proof.
        last_seen: Tick,
        /// End of the grace.
        until: Tick,
    },
    /// Proof of life resumed. To be noted.
    Returned {
        /// Who.
        subject: Subject,
    },
    /// The lease has to be revoked, in this turn.
    LeaseOver {
        /// Which.
        lease: LeaseId,
        /// Why.
        reason: Reason,
        /// What was seen.
        evidence: Evidence,
    },
    /// A grace of this session is over, in this turn.
    SessionOver(SessionOver),
    /// Neither promise nor delay stands in the way of reclaim any more.
    ReclaimDue {
        /// Which.
        lease: LeaseId,
        /// Why it is safe.
        ground: ReclaimGround,
    },
    /// Too many fell silent at once: ends are postponed.
    BreakerOpened {
        /// Distinct holders that fell silent.
        silent: u32,
        /// Holders alive before.
        alive: u32,
    },
    /// Silence counts again.
    BreakerClosed,
}

/// A grace of a session is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionOver {
    /// Which.
    pub session: SessionId,
    /// Leases with a grace up to this are to be revoked.
    pub grace_ms: u32,
    /// It was the longest: the session itself is over.
    pub closes: bool,
    /// What was seen.
    pub evidence: Evidence,
    /// Its holder closed its connection: nothing that it was promised there is waited for.
    pub is_left: bool,
}

/// Why an observation or an operator's wish was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// A rule of the kernel.
    Rejected(Rejection),
    /// This heartbeat cannot prove anything: the lease is kept by a session.
    NoLiveness,
    /// Nothing would be left to end the lease.
    PermanentLease,
    /// No such session, or it is closed.
    SessionNotFound,
    /// Reclaim is not safe yet.
    NotYet {
        /// For how long.
        remaining_ms: u64,
    },
}

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}
