//! Why a lease ended, who said so, and on what evidence. The words here are the words everywhere:
//! log lines, timelines, events and metrics.

use crate::ids::Tick;
use crate::names::Text;

/// Why a lease ended. Every terminal lease has exactly one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// The holder asked.
    Explicit,
    /// Its session was silent or closed for longer than the grace.
    SessionExpired,
    /// Its heartbeats stopped for longer than ttl and grace.
    HeartbeatExpired,
    /// It was never activated.
    ReservationExpired,
    /// It reached its longest lifetime.
    MaxLifetime,
    /// An operator ended it.
    AdminForce,
    /// The daemon was told to end everything it kept.
    Shutdown,
    /// The target moved to another poller.
    Rebalanced,
    /// Its pool was removed.
    PoolRemoved,
    /// It was granted to a waiter that had gone.
    Abandoned,
    /// It came out of a backup and may not rise again.
    Restored,
}

impl Reason {
    /// Every reason, in code order.
    pub const ALL: [Self; 11] = [
        Self::Explicit,
        Self::SessionExpired,
        Self::HeartbeatExpired,
        Self::ReservationExpired,
        Self::MaxLifetime,
        Self::AdminForce,
        Self::Shutdown,
        Self::Rebalanced,
        Self::PoolRemoved,
        Self::Abandoned,
        Self::Restored,
    ];

    /// Wire word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Explicit => "explicit",
            Self::SessionExpired => "session_expired",
            Self::HeartbeatExpired => "heartbeat_expired",
            Self::ReservationExpired => "reservation_expired",
            Self::MaxLifetime => "max_lifetime",
            Self::AdminForce => "admin_force",
            Self::Shutdown => "shutdown",
            Self::Rebalanced => "rebalanced",
            Self::PoolRemoved => "pool_removed",
            Self::Abandoned => "abandoned",
            Self::Restored => "restored",
        }
    }
}

/// Who caused an event.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Actor {
    /// The holder of the lease.
    Holder,
    /// The daemon, acting on a deadline or a policy.
    Daemon,
    /// A person or program with the right to administer, by principal.
    Operator(Text),
}

/// What the daemon had seen when it revoked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Evidence {
    /// Nothing was observed; the command itself is the ground.
    None,
    /// No proof of life since `last_seen`; the holder may have acted until `promised_until`.
    Silence {
        /// Instant of the last proof.
        last_seen: Tick,
        /// Instant until which the holder was told it may act.
        promised_until: Tick,
    },
    /// The connection closed.
    Disconnected {
        /// When.
        at: Tick,
    },
    /// The longest lifetime was reached.
    Lifetime {
        /// When the lease became active.
        since: Tick,
    },
    /// An operator's drain was not revived before its grace ended.
    Drained {
        /// When the drain was asked.
        since: Tick,
    },
}

/// Who reclaims a revoking lease.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReclaimBy {
    /// The daemon, as soon as gate, promise and delay allow.
    Daemon,
    /// An operator, with a command of their own.
    Operator,
}

/// How the effect between revoke and reclaim went.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GateReport {
    /// The lease had none.
    None,
    /// Done and confirmed.
    Confirmed,
    /// Not confirmed in time.
    TimedOut,
}

/// Why reclaim was safe at its instant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReclaimGround {
    /// The promise had run out, or there was none.
    PromiseOver,
    /// The holder acknowledged its loss.
    Acknowledged,
    /// The face's rule is to reclaim at once.
    AtOnce,
    /// An operator insisted.
    Forced,
}
