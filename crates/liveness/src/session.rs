//! What liveness knows of one session. A connection's session is known here from its first byte, in the
//! kernel only from its first grant.

use crate::entry::CountsFrom;
use tenure_kernel::{Kept, SessionId, SessionView, Tick};

#[derive(Clone, Debug)]
pub(crate) struct SessionEntry {
    pub(crate) id: SessionId,
    pub(crate) kept: Kept,
    pub(crate) grace_ms: u32,
    pub(crate) counts_from: CountsFrom,
    pub(crate) promised_until: Tick,
    pub(crate) phase: SessionPhase,
    /// When it last fell silent.
    pub(crate) silent_at: Option<Tick>,
    /// Its connection closed: no heartbeat brings it back.
    pub(crate) is_gone: bool,
    /// The holder closed it, and with that says that it has stopped: what it was promised on it is over.
    pub(crate) is_left: bool,
    /// Timers of earlier armings no longer count.
    pub(crate) arming: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SessionPhase {
    /// Heartbeats are current, or the connection is open.
    Alive,
    /// Silent or closed.
    Draining {
        /// From here graces count.
        since: Tick,
        /// The grace that ends next, those of its leases included; `None` once all are over.
        grace_ms: Option<u32>,
        /// The one that ends last. The session is over with it.
        longest_ms: u32,
    },
}

impl SessionPhase {
    /// Silent or closed from an instant on; no grace is shorter than `least_ms`.
    pub(crate) fn draining(session: Option<SessionView<'_>>, since: Tick, least_ms: u32) -> Self {
        let (first_ms, longest_ms) = session.map_or((0, 0), |session| {
            let (own, leases) = (session.grace_ms(), kept_by_connection(session));
            let first = leases.and_then(|leases| leases.lease_grace_from(0)).unwrap_or(own);
            let longest = leases.and_then(SessionView::lease_grace_longest).unwrap_or(own);
            (own.min(first), own.max(longest))
        });
        let (first_ms, longest_ms) = (first_ms.max(least_ms), longest_ms.max(least_ms));
        Self::Draining { since, grace_ms: Some(first_ms), longest_ms }
    }

    /// When the last of its leases ends if it stays silent.
    pub(crate) fn over_at(self) -> Tick {
        match self {
            Self::Alive => Tick(u64::MAX),
            Self::Draining { since, longest_ms, .. } => since.after_ms(longest_ms.into()),
        }
    }
}

/// The grace that ends after one of a session's, not later than the longest; `None` behind that.
pub(crate) fn grace_after(session: Option<SessionView<'_>>, grace_ms: u32, longest_ms: u32) -> Option<u32> {
    let least_ms = grace_ms.checked_add(1).filter(|least| *least <= longest_ms)?;
    let own = session.map(SessionView::grace_ms).filter(|own| *own >= least_ms);
    let leases = session.and_then(kept_by_connection);
    let next = leases.and_then(|leases| leases.lease_grace_from(least_ms));
    Some(own.into_iter().chain(next).fold(longest_ms, u32::min))
}

/// Leases of a connection have graces of their own; those of a session by hand have the session's.
fn kept_by_connection(session: SessionView<'_>) -> Option<SessionView<'_>> {
    session.kept().is_connection().then_some(session)
}

impl SessionEntry {
    /// The next instant at which something about this session is due.
    pub(crate) fn deadline(&self) -> Option<Tick> {
        match self.phase {
            SessionPhase::Alive => {
                let renewal_ms = match self.kept {
                    Kept::Connection => return None,
                    Kept::NodeConnection { ttl_ms } => ttl_ms.get(),
                    Kept::Heartbeat { ttl_ms } => ttl_ms,
                };
                Some(self.counts_from.tick().after_ms(renewal_ms.into()))
            }
            SessionPhase::Draining { since, grace_ms, .. } => {
                grace_ms.map(|grace| since.after_ms(grace.into()))
            }
        }
    }

    /// When a lease with this grace ends if the session stays silent; `None` while it lives.
    pub(crate) fn end_of(&self, lease_grace_ms: u32) -> Option<Tick> {
        match self.phase {
            SessionPhase::Alive => None,
            SessionPhase::Draining { since, grace_ms, longest_ms } => {
                grace_ms.map(|grace| since.after_ms(grace.max(lease_grace_ms).min(longest_ms).into()))
            }
        }
    }

    /// What its leases are promised by a grant, or by their holder's own heartbeat: only where the keepalive of a node keeps
    /// it.
    pub(crate) fn lease_promise_ms(&self) -> Option<u32> {
        match self.kept {
            Kept::NodeConnection { ttl_ms } => Some(ttl_ms.get()),
            Kept::Connection | Kept::Heartbeat { .. } => None,
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        match self.phase {
            SessionPhase::Alive => true,
            SessionPhase::Draining { .. } => false,
        }
    }
}
