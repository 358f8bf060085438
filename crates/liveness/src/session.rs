//! What liveness knows of one session. A connection's session is known here from its first byte, in the
//! kernel only from its first grant.

use tenure_kernel::{SessionId, SessionKind, Tick};

#[derive(Clone, Debug)]
pub(crate) struct SessionEntry {
    pub(crate) id: SessionId,
    pub(crate) kind: SessionKind,
    pub(crate) ttl_ms: u32,
    pub(crate) grace_ms: u32,
    pub(crate) last_seen: Tick,
    pub(crate) promised_until: Tick,
    pub(crate) phase: SessionPhase,
    /// When it last fell silent.
    pub(crate) silent_at: Option<Tick>,
    /// Its connection closed: no heartbeat brings it back.
    pub(crate) is_gone: bool,
    /// Timers of earlier armings no longer count.
    pub(crate) arming: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SessionPhase {
    /// Heartbeats are current, or the connection is open.
    Alive,
    /// Silent or closed.
    Draining {
        /// From here graces count.
        since: Tick,
        /// Graces still running, longest first: leases of one connection may differ.
        graces_ms: Vec<u32>,
    },
}

impl SessionEntry {
    /// The next instant at which something about this session is due.
    pub(crate) fn deadline(&self) -> Option<Tick> {
        match &self.phase {
            SessionPhase::Alive if self.lives_by_connection() => None,
            SessionPhase::Alive => Some(self.last_seen.after_ms(self.ttl_ms.into())),
            SessionPhase::Draining { since, graces_ms } => {
                graces_ms.last().map(|grace| since.after_ms((*grace).into()))
            }
        }
    }

    /// When a lease with this grace ends if the session stays silent; `None` while it lives.
    pub(crate) fn end_of(&self, lease_grace_ms: u32) -> Option<Tick> {
        match &self.phase {
            SessionPhase::Alive => None,
            SessionPhase::Draining { since, graces_ms } => graces_ms
                .iter()
                .rev()
                .find(|grace| **grace >= lease_grace_ms)
                .or(graces_ms.first())
                .map(|grace| since.after_ms((*grace).into())),
        }
    }

    /// Whether a connection to this daemon keeps it by being open. One with a ttl is open at another node, whose word
    /// for it lasts that long.
    pub(crate) fn lives_by_connection(&self) -> bool {
        self.kind.is_connection() && self.ttl_ms == 0
    }

    /// What its leases are promised by a grant, or by their holder's own heartbeat: only where a node's word keeps it.
    pub(crate) fn lease_promise_ms(&self) -> Option<u32> {
        (self.kind.is_connection() && self.ttl_ms > 0).then_some(self.ttl_ms)
    }

    pub(crate) fn is_alive(&self) -> bool {
        match self.phase {
            SessionPhase::Alive => true,
            SessionPhase::Draining { .. } => false,
        }
    }
}
