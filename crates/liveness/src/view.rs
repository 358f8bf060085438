//! Reading: what liveness says of a lease or a session right now. Reading never makes a promise.

use crate::entry::{CountsFrom, Phase};
use crate::liveness::Liveness;
use crate::promise::told_ms;
use crate::session::SessionPhase;
use tenure_kernel::{LeaseState, LeaseView, SessionId, Tick};

/// Why a lease drains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DrainCause {
    /// Its proof of life stopped.
    Silence,
    /// An operator asked.
    Operator,
}

/// Standing of a lease with authority, as people see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Proof of life is current, or none is asked.
    Alive,
    /// Honoured for a while yet.
    Draining(DrainCause),
}

/// What liveness says of a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LivenessView {
    /// `None` while reserved or revoking.
    pub standing: Option<Standing>,
    /// The instant that the deadline counts from: the last proof of life, the restart after it, or an operator's revive.
    pub counts_from: Tick,
    /// Last proof of life; `None` where none came since time began to count anew.
    pub last_seen: Option<Tick>,
    /// End of the present phase: reservation, ttl, grace or earliest reclaim.
    pub deadline: Option<Tick>,
    /// What is left of the last promise; `None` where none is made.
    pub valid_ms: Option<u64>,
}

impl LivenessView {
    /// What one who does not hear the holders can say.
    pub const UNKNOWN: Self =
        Self { standing: None, counts_from: Tick(0), last_seen: None, deadline: None, valid_ms: None };
}

/// What liveness says of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionStanding {
    /// Alive or draining by silence.
    pub standing: Standing,
    /// The instant that the deadline counts from: the last proof of life, or the restart after it.
    pub counts_from: Tick,
    /// Last proof of life; `None` where none came since the restart.
    pub last_seen: Option<Tick>,
    /// End of the present phase.
    pub deadline: Option<Tick>,
    /// What is left of the last promise; `None` for connections.
    pub valid_ms: Option<u64>,
}

impl Liveness {
    /// What is known of a live lease.
    #[must_use]
    pub fn view(&self, lease: LeaseView<'_>, now: Tick) -> LivenessView {
        let entry = self.entries.get(lease.slot());
        let session = lease.session().and_then(|id| self.sessions.by_id(id));
        let (standing, deadline) = match (lease.state(), entry.phase) {
            (LeaseState::Reserved { deadline }, _) => (None, Some(*deadline)),
            (_, Phase::Idle) => (None, None),
            (_, Phase::Alive) => match session {
                Some(session) if !session.is_alive() => {
                    (Some(Standing::Draining(DrainCause::Silence)), session.end_of(lease.terms().grace_ms))
                }
                Some(session) => (Some(Standing::Alive), session.deadline()),
                None => (Some(Standing::Alive), self.deadline(lease)),
            },
            (_, Phase::Draining { until }) => {
                // Its session may be over before its own grace is.
                let over = session.and_then(|session| session.end_of(lease.terms().grace_ms));
                (Some(Standing::Draining(DrainCause::Silence)), Some(over.map_or(until, |at| at.min(until))))
            }
            (_, Phase::Drained { until, .. }) => {
                (Some(Standing::Draining(DrainCause::Operator)), Some(until))
            }
            (_, Phase::Revoking { earliest, .. }) => (None, Some(earliest)),
        };
        let valid_ms = self.valid_ms(lease, now);
        // Of a reservation nobody was heard yet; what stands in the slot may be another's.
        let proofs = match entry.phase {
            Phase::Idle => [None, None],
            _ => [Some(entry.counts_from), session.map(|session| session.counts_from)],
        };
        let proofs = proofs.into_iter().flatten();
        let counts_from = proofs.clone().map(CountsFrom::tick).max().unwrap_or(Tick(0));
        let last_seen = proofs.filter_map(CountsFrom::last_seen).max();
        LivenessView { standing, counts_from, last_seen, deadline, valid_ms }
    }

    /// How long an operator has to wait before reclaim is safe; `None` unless the lease is revoking.
    #[must_use]
    pub fn reclaim_in_ms(&self, lease: LeaseView<'_>, now: Tick) -> Option<u64> {
        match self.entries.get(lease.slot()).phase {
            Phase::Revoking { earliest, .. } => Some(earliest.ms_since(now)),
            Phase::Idle | Phase::Alive | Phase::Draining { .. } | Phase::Drained { .. } => None,
        }
    }

    /// What is known of a session.
    #[must_use]
    pub fn session(&self, id: SessionId, now: Tick) -> Option<SessionStanding> {
        let entry = self.sessions.by_id(id)?;
        let standing = match entry.phase {
            SessionPhase::Alive => Standing::Alive,
            SessionPhase::Draining { .. } => Standing::Draining(DrainCause::Silence),
        };
        let valid_ms = (!entry.kept.is_connection()).then(|| told_ms(entry.promised_until.ms_since(now)));
        let (counts_from, last_seen) = (entry.counts_from.tick(), entry.counts_from.last_seen());
        Some(SessionStanding { standing, counts_from, last_seen, deadline: entry.deadline(), valid_ms })
    }
}
