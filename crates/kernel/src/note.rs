//! Advisory records: what was observed but decides nothing. They have a position in the log and a place
//! in a lease's story; recovery never reads them.

use crate::ids::{LeaseId, SessionId, Tick};

/// Something observed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// Proof of life stopped; grace runs until `until`.
    Draining {
        /// Who fell silent.
        subject: Subject,
        /// Instant of the last proof.
        last_seen: Tick,
        /// End of the grace.
        until: Tick,
    },
    /// Proof of life resumed.
    Returned {
        /// Who came back.
        subject: Subject,
    },
    /// The effect between revoke and reclaim was started.
    GateOpened {
        /// For which lease.
        lease: LeaseId,
    },
    /// The daemon suspected itself and postponed ends.
    BreakerOpened {
        /// Distinct holders that fell silent.
        silent: u32,
        /// Holders alive before.
        alive: u32,
    },
    /// The daemon trusts silence again.
    BreakerClosed,
    /// The clock stood still for longer than a turn may take.
    Stalled {
        /// How long, in milliseconds of boot time.
        gap_ms: u64,
    },
    /// A daemon began to write: it started again, or took over from another node. Every holder has a full ttl from
    /// here, and every wait after a revoke begins anew.
    Restarted,
}

/// Whom a note is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// One lease.
    Lease(LeaseId),
    /// A session and all its leases.
    Session(SessionId),
}

impl Note {
    /// Wire word of the kind.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Draining { .. } => "draining",
            Self::Returned { .. } => "revived",
            Self::GateOpened { .. } => "gate_opened",
            Self::BreakerOpened { .. } => "breaker_opened",
            Self::BreakerClosed => "breaker_closed",
            Self::Stalled { .. } => "stalled",
            Self::Restarted => "restarted",
        }
    }
}
