//! What leases were, by position, remembered once for all event streams.
//!
//! A version of a lease holds from one change to the next. A stream has seen every event since it began, so a version
//! that was valid at or after that point is still valid where the stream has seen no change.

use super::known::Known;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenure_engine::kernel::{Change, LeaseId, Lsn};

/// Versions of leases that are remembered in all: some 30 MB.
const VERSIONS_MAX: usize = 100_000;

/// Shared by all streams.
pub(crate) struct Versions {
    max: usize,
    remembered: Mutex<Remembered>,
}

#[derive(Default)]
struct Remembered {
    /// By position.
    leases: HashMap<LeaseId, Vec<Version>>,
    count: usize,
    /// Times that everything was forgotten.
    forgotten: u64,
}

struct Version {
    from: Lsn,
    /// It was so at least until here.
    to: Lsn,
    known: Arc<Known>,
}

/// Since when one stream has seen every event, and nothing of it was forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seen {
    since: Lsn,
    forgotten: u64,
}

impl Default for Versions {
    fn default() -> Self {
        Self::new(VERSIONS_MAX)
    }
}

impl Versions {
    fn new(max: usize) -> Self {
        Self { max, remembered: Mutex::default() }
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For a stream that begins here.
    pub(super) fn begin(&self, from: Lsn) -> Seen {
        Seen { since: from, forgotten: self.remembered().forgotten }
    }

    /// What a lease is after a change at a position that a stream has reached. `None`: look the lease up.
    pub(super) fn find(
        &self,
        lease: LeaseId,
        at: Lsn,
        change: Option<&Change>,
        seen: &mut Seen,
    ) -> Option<Arc<Known>> {
        let mut remembered = self.remembered();
        if remembered.forgotten != seen.forgotten {
            // Changes that the stream has seen may be missing.
            *seen = Seen { since: at, forgotten: remembered.forgotten };
        }
        let versions = remembered.leases.get_mut(&lease)?;
        let newest = versions.partition_point(|version| version.from <= at).checked_sub(1)?;
        let version = &mut versions[newest];
        let was_seen = at <= version.to || version.to.next() >= seen.since;
        if version.from == at || !was_seen {
            return was_seen.then(|| Arc::clone(&version.known));
        }
        let Some(change) = change.filter(|change| version.known.is_changed_by(change)) else {
            version.to = version.to.max(at);
            return Some(Arc::clone(&version.known));
        };
        let mut changed = Known::clone(&version.known);
        changed.follow(change);
        let changed = Arc::new(changed);
        remembered.insert(lease, at, Arc::clone(&changed), self.max);
        Some(changed)
    }

    /// A lease is this from a position on.
    pub(super) fn remember(&self, lease: LeaseId, from: Lsn, known: Arc<Known>) {
        self.remembered().insert(lease, from, known, self.max);
    }
}

impl Remembered {
    fn insert(&mut self, lease: LeaseId, from: Lsn, known: Arc<Known>, max: usize) {
        if self.count >= max {
            *self = Self { forgotten: self.forgotten + 1, ..Self::default() };
        }
        let versions = self.leases.entry(lease).or_default();
        let place = versions.partition_point(|version| version.from < from);
        if versions.get(place).is_none_or(|version| version.from != from) {
            versions.insert(place, Version { from, to: from, known });
            self.count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_engine::kernel::{Face, Mode, Policy, ReclaimRule, Text};

    fn known(holder: &str) -> Arc<Known> {
        let policy = Policy {
            mode: Mode::Permanent,
            ttl_ms: 0,
            grace_ms: 0,
            max_lifetime_ms: 0,
            reclaim_delay_ms: 0,
            reclaim_rule: ReclaimRule::AtOnce,
            face: Face::Leases,
            gate: false,
            notice: false,
            session: None,
            principal: Text::default(),
        };
        let holder = Text::from(holder);
        Arc::new(Known { holder, members: Vec::new(), policy, granted_wall_ms: 0, reserved: false })
    }

    fn lease(lsn: u64) -> LeaseId {
        LeaseId::new(0, Lsn(lsn))
    }

    fn holder(versions: &Versions, of: u64, at: u64, seen: &mut Seen) -> Option<String> {
        versions.find(lease(of), Lsn(at), None, seen).map(|known| known.holder.to_string())
    }

    #[test]
    fn each_stream_finds_what_the_lease_was_where_it_reads() {
        let versions = Versions::default();
        let mut early = versions.begin(Lsn(1));
        versions.remember(lease(10), Lsn(10), known("a"));
        assert_eq!(holder(&versions, 10, 30, &mut early).as_deref(), Some("a"));
        versions.remember(lease(10), Lsn(40), known("b"));
        assert_eq!(holder(&versions, 10, 60, &mut early).as_deref(), Some("b"));
        // Another stream reads the same past later.
        let mut late = versions.begin(Lsn(5));
        assert_eq!(holder(&versions, 10, 20, &mut late).as_deref(), Some("a"));
        assert_eq!(holder(&versions, 10, 35, &mut late).as_deref(), Some("a"));
        assert_eq!(holder(&versions, 10, 40, &mut late).as_deref(), Some("b"), "the change itself is in it");
        assert_eq!(holder(&versions, 10, 9, &mut late), None, "before it was granted");
    }

    #[test]
    fn a_change_begins_a_version() {
        let versions = Versions::default();
        let mut stream = versions.begin(Lsn(1));
        let reserved = Known { reserved: true, ..Known::clone(&known("a")) };
        versions.remember(lease(10), Lsn(10), Arc::new(reserved));
        let activated = Change::Activated { lease: lease(10) };
        let after = versions.find(lease(10), Lsn(20), Some(&activated), &mut stream).unwrap();
        assert!(!after.reserved);
        let mut behind = versions.begin(Lsn(10));
        assert!(versions.find(lease(10), Lsn(19), None, &mut behind).unwrap().reserved);
        assert!(!versions.find(lease(10), Lsn(20), Some(&activated), &mut behind).unwrap().reserved);
        // One that begins after it does not take what was before for what is.
        let mut next = versions.begin(Lsn(21));
        assert!(!versions.find(lease(10), Lsn(30), None, &mut next).unwrap().reserved);
    }

    #[test]
    fn what_no_stream_has_followed_up_to_a_beginning_is_not_known_there() {
        let versions = Versions::default();
        versions.remember(lease(10), Lsn(10), known("a"));
        let mut later = versions.begin(Lsn(50));
        assert_eq!(holder(&versions, 10, 60, &mut later), None, "it may have changed hands at 30");
        let mut next = versions.begin(Lsn(11));
        assert_eq!(holder(&versions, 10, 60, &mut next).as_deref(), Some("a"), "it has seen all since 10");
        assert_eq!(holder(&versions, 10, 60, &mut later).as_deref(), Some("a"), "and now all know");
    }

    #[test]
    fn streams_have_one_bound_together_and_forget_together() {
        let versions = Versions::new(100);
        let mut stream = versions.begin(Lsn(1));
        for lsn in 1..=10_000 {
            versions.remember(lease(lsn), Lsn(lsn), known("a"));
            let remembered = versions.remembered();
            assert!(remembered.count <= 100 && remembered.leases.len() <= 100);
        }
        // A slower stream remembers an old version again: later changes of that lease were forgotten.
        versions.remember(lease(5), Lsn(5), known("old"));
        assert_eq!(holder(&versions, 5, 20_000, &mut stream), None);
        assert_eq!(stream.since, Lsn(20_000));
    }
}
