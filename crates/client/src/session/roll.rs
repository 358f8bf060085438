//! The leases of one session, and up to where their losses are known. Pure but for telling the guards.

use crate::guard::{Life, LossReason};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use tenure_api::Lease;

pub(super) struct Roll {
    leases: HashMap<String, Arc<Life>>,
    /// In whose names leases were ever admitted: whom to list.
    holders: BTreeSet<String>,
    draining: HashSet<String>,
    /// Losses up to here were reported.
    seen_lsn: u64,
    closed: bool,
}

impl Roll {
    pub(super) fn new(seen_lsn: u64) -> Self {
        Self {
            leases: HashMap::new(),
            holders: BTreeSet::new(),
            draining: HashSet::new(),
            seen_lsn,
            closed: false,
        }
    }

    pub(super) fn seen_lsn(&self) -> u64 {
        self.seen_lsn
    }

    pub(super) fn ids(&self) -> HashSet<String> {
        self.leases.keys().cloned().collect()
    }

    pub(super) fn holders(&self) -> BTreeSet<String> {
        self.holders.clone()
    }

    /// Adds a lease that was granted. `Some(true)`: losses up to there were told already, and
    /// its own may have been among them. `None`: the session is no more.
    pub(super) fn admit(&mut self, lease: &Lease, life: Arc<Life>) -> Option<bool> {
        if self.closed {
            return None;
        }
        self.leases.insert(lease.lease_id.clone(), life);
        self.holders.insert(lease.holder.clone());
        Some(lease.lsn <= self.seen_lsn)
    }

    pub(super) fn lose(&mut self, lease_id: &str, reason: &LossReason) {
        if let Some(life) = self.leases.remove(lease_id) {
            tell(&life, reason);
        }
        self.draining.remove(lease_id);
    }

    /// The leases that an operator drained, all of them.
    pub(super) fn drain(&mut self, draining: &[String]) {
        let now: HashSet<String> = draining.iter().cloned().collect();
        for changed in now.symmetric_difference(&self.draining) {
            if let Some(life) = self.leases.get(changed) {
                life.set_draining(now.contains(changed));
            }
        }
        self.draining = now;
    }

    pub(super) fn saw(&mut self, lsn: u64) {
        self.seen_lsn = self.seen_lsn.max(lsn);
    }

    pub(super) fn forget(&mut self, lease_id: &str) {
        self.leases.remove(lease_id);
    }

    pub(super) fn close(&mut self, reason: &LossReason) {
        self.closed = true;
        for (_, life) in self.leases.drain() {
            tell(&life, reason);
        }
    }
}

fn tell(life: &Life, reason: &LossReason) {
    life.lose(reason.clone());
    life.settle(None);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::{GuardState, GuardStatus};

    fn lease(id: &str, lsn: u64) -> Lease {
        serde_json::from_value(serde_json::json!({
            "lease_id": id, "holder": "me", "state": "active", "mode": "session", "epoch": 1, "fence": 1,
            "resources": ["r"], "granted_at": "", "face": "leases", "server_time": "", "lsn": lsn,
        }))
        .expect("a lease")
    }

    fn life() -> Arc<Life> {
        Arc::new(Life::new(GuardState {
            status: GuardStatus::Held,
            draining: false,
            epoch: 1,
            fence: 1,
            valid_until: None,
        }))
    }

    #[test]
    fn a_loss_is_told_to_its_lease_alone() {
        let mut roll = Roll::new(0);
        let (one, other) = (life(), life());
        roll.admit(&lease("a", 1), one.clone());
        roll.admit(&lease("b", 2), other.clone());
        roll.lose("a", &LossReason::Revoked("admin_force".to_owned()));
        assert_eq!(one.state().status, GuardStatus::Lost(LossReason::Revoked("admin_force".to_owned())));
        assert!(one.token().is_cancelled());
        assert_eq!(other.state().status, GuardStatus::Held);
        assert_eq!(roll.ids(), HashSet::from(["b".to_owned()]));
    }

    #[test]
    fn a_grant_from_before_what_was_told_is_distrusted() {
        let mut roll = Roll::new(5);
        roll.saw(10);
        roll.saw(7);
        assert_eq!(roll.seen_lsn(), 10);
        assert_eq!(roll.admit(&lease("late", 10), life()), Some(true));
        assert_eq!(roll.admit(&lease("new", 11), life()), Some(false));
    }

    #[test]
    fn draining_is_the_whole_truth_each_time() {
        let mut roll = Roll::new(0);
        let (one, other) = (life(), life());
        roll.admit(&lease("a", 1), one.clone());
        roll.admit(&lease("b", 2), other.clone());
        roll.drain(&["a".to_owned()]);
        assert!(one.state().draining && !other.state().draining);
        roll.drain(&["b".to_owned()]);
        assert!(!one.state().draining && other.state().draining);
    }

    #[test]
    fn the_end_of_the_session_is_the_end_of_all() {
        let mut roll = Roll::new(0);
        let one = life();
        roll.admit(&lease("a", 1), one.clone());
        roll.close(&LossReason::Unreachable);
        assert_eq!(one.state().status, GuardStatus::Lost(LossReason::Unreachable));
        assert_eq!(roll.admit(&lease("b", 2), life()), None);
    }
}
