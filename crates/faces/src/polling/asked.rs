//! Which targets of a group nobody polls although a poller asks for them, and for how long the book remembers others.
//!
//! Pollers know their own lists. Each reports those of its targets that no poller holds (`PollerReport`), within two
//! of its ttls. A target that came free counts as asked for until then, and after that only while a poller reports
//! it. A poller of an older version reports nothing and asks for everything that came free.

use super::group::{Free, Group, Poller};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use tenure_api::{GroupState, PollerStatus, ReportedTargets};
use tenure_engine::kernel::Lsn;

/// For how long a group without pollers is remembered: as long as the longest ttl, after which no poller of it lives.
const ABANDONED_MS: u64 = 24 * 60 * 60 * 1_000;

/// Targets that a poller asks for and nobody holds.
pub(crate) struct Unowned {
    /// With what is known of their last poller.
    pub(crate) names: BTreeMap<Arc<str>, Option<Arc<Free>>>,
    /// How many there are, those included that no poller names.
    pub(crate) total: u64,
}

impl Group {
    pub(crate) fn state(&self) -> GroupState {
        match (self.is_empty(), self.pollers.is_empty()) {
            (true, _) => GroupState::Unknown,
            (false, true) => GroupState::Abandoned,
            (false, false) => GroupState::Active,
        }
    }

    /// Pollers that ask for targets. One that is away asks for nothing while others are there.
    fn askers(&self) -> Vec<Poller<'_>> {
        let is_here = |poller: &Poller<'_>| poller.status() != PollerStatus::Absent;
        let here: Vec<Poller<'_>> = self.members().filter(is_here).collect();
        if here.is_empty() { self.members().collect() } else { here }
    }

    pub(crate) fn unowned(&self) -> Unowned {
        let askers = self.askers();
        let mut names = BTreeMap::new();
        if !askers.is_empty() {
            names.extend(self.free.iter().map(|(name, free)| (Arc::clone(name), Some(Arc::clone(free)))));
        }
        let mut total = 0;
        for reported in askers.iter().filter_map(unowned_of) {
            let (held, missing): (Vec<&String>, Vec<&String>) =
                reported.names.iter().partition(|name| self.targets.contains_key(name.as_str()));
            total = reported.total.saturating_sub(held.len() as u64).max(total);
            for name in missing {
                names.entry(Arc::from(name.as_str())).or_insert(None);
            }
        }
        Unowned { total: total.max(names.len() as u64), names }
    }

    /// Free targets that nobody asks for any more, and where they came free.
    pub(crate) fn forgettable(&self, now_wall_ms: u64) -> Vec<(Arc<str>, Lsn)> {
        let askers = self.askers();
        let reported: Option<Vec<&ReportedTargets>> =
            askers.iter().map(|poller| unowned_of(poller).filter(|reported| reported.is_whole())).collect();
        let (named, keep_ms): (HashSet<&str>, u64) = match reported {
            _ if askers.is_empty() => (HashSet::new(), ABANDONED_MS),
            Some(reported) => {
                let ttl_ms = askers.iter().map(|poller| poller.held.ttl_ms).max().unwrap_or(0);
                let named = reported.iter().flat_map(|reported| &reported.names).map(String::as_str);
                (named.collect(), 2 * u64::from(ttl_ms))
            }
            None => return Vec::new(),
        };
        let is_over = |name: &str, free: &Free| {
            free.since_wall_ms.saturating_add(keep_ms) < now_wall_ms && !named.contains(name)
        };
        let over = self.free.iter().filter(|(name, free)| is_over(name, free));
        over.map(|(name, free)| (Arc::clone(name), free.lsn)).collect()
    }

    /// Whether it has, or had, a target of this name, or a poller asks for one.
    pub(crate) fn knows(&self, target: &str) -> bool {
        let is_reported = |poller: &Poller<'_>| {
            unowned_of(poller).is_some_and(|all| all.names.iter().any(|name| name == target))
        };
        self.targets.contains_key(target)
            || self.free.contains_key(target)
            || self.members().any(|poller| is_reported(&poller))
    }
}

/// What a poller reports to be nobody's; `None`: it reports nothing.
fn unowned_of<'a>(poller: &'a Poller<'_>) -> Option<&'a ReportedTargets> {
    poller.facts.report.as_ref().map(|report| &report.unowned)
}

#[cfg(test)]
mod tests;
