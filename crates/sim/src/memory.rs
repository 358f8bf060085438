//! When things happened that events do not tell: proofs of life, closed connections, acknowledgements. In
//! aged time: the simulated time plus what clock jumps added, so that the daemon's ticks never outrun it.

use crate::ledger::Recorded;
use crate::story::Story;
use std::collections::{BTreeMap, BTreeSet};
use tenure_kernel::{Change, Epoch, LeaseId, SessionId, Tick};

/// What the world saw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    /// When the daemon started last.
    pub(crate) started: u64,
    /// The tick from which the present leader counts.
    pub(crate) began: Tick,
    /// Last proof of life of a lease: grant, activation, rebind, revive, heartbeat.
    pub(crate) proofs: BTreeMap<LeaseId, u64>,
    /// When a lease was last bound to its session.
    pub(crate) bound: BTreeMap<LeaseId, u64>,
    /// Last proof of life of a session by hand.
    pub(crate) session_proofs: BTreeMap<SessionId, u64>,
    /// Connections that the daemon was told are gone.
    pub(crate) closed: BTreeMap<SessionId, u64>,
    /// Connections that the daemon was told are there, in this incarnation.
    pub(crate) opened: BTreeSet<SessionId>,
    /// When an operator drained a lease, and the grace it had then.
    pub(crate) drained: BTreeMap<LeaseId, (u64, u64)>,
    pub(crate) revoked: BTreeMap<LeaseId, u64>,
    /// When the daemon was last told that a holder stopped, by the epoch it named.
    pub(crate) acknowledged: BTreeMap<(LeaseId, Epoch), u64>,
    /// Rebinds that were asked over a connection, by the epoch they named.
    pub(crate) rebinds_over: BTreeSet<(LeaseId, Epoch, SessionId)>,
    pub(crate) forced: BTreeSet<LeaseId>,
}

impl Memory {
    /// The daemon started: downtime ages nobody, and no connection survived.
    pub(crate) fn restarted(&mut self, aged: u64, tick: Tick, story: &Story) {
        (self.started, self.began) = (aged, tick);
        self.opened.clear();
        let drained = story.live().filter(|told| told.drained);
        self.drained = drained.map(|told| (told.id, (aged, told.policy.grace_ms.into()))).collect();
    }

    /// Whether the daemon knows this connection to be open.
    pub(crate) fn is_open(&self, session: SessionId) -> bool {
        self.opened.contains(&session) && !self.closed.contains_key(&session)
    }

    pub(crate) fn proof(&self, lease: LeaseId) -> u64 {
        self.proofs.get(&lease).copied().unwrap_or(0).max(self.started)
    }

    /// Follows an event.
    pub(crate) fn follow(&mut self, story: &Story, aged: u64, recorded: &Recorded) {
        match &recorded.event.change {
            Change::Granted(_) => {
                let lease = LeaseId::new(0, recorded.lsn);
                self.proofs.insert(lease, aged);
                self.bound.insert(lease, aged);
            }
            Change::Activated { lease } => {
                self.proofs.insert(*lease, aged);
            }
            Change::Rebound(rebound) => {
                self.proofs.insert(rebound.lease, aged);
                self.bound.insert(rebound.lease, aged);
            }
            Change::Drained(steered) => {
                let grace = story.leases.get(&steered.lease).map_or(0, |told| told.policy.grace_ms.into());
                self.drained.insert(steered.lease, (aged, grace));
            }
            Change::Revived(steered) => {
                self.drained.remove(&steered.lease);
                self.proofs.insert(steered.lease, aged);
            }
            Change::Revoked(revoked) => {
                self.revoked.insert(revoked.lease, aged);
            }
            Change::SessionOpened(open) => {
                self.session_proofs.insert(open.session, aged);
            }
            Change::Amended(_)
            | Change::Released(_)
            | Change::Reclaimed(_)
            | Change::Expired(_)
            | Change::SessionClosed { .. }
            | Change::PoolDefined { .. }
            | Change::PoolRemoved { .. }
            | Change::Notified { .. }
            | Change::Trimmed { .. }
            | Change::Configured(_) => {}
        }
    }
}
