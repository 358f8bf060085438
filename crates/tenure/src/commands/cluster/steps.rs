//! What a move does, step by step. Builds for tests can be told to end after any of them, as a crash would; in those that
//! people get this is a store like any other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_cluster::store::{Ranged, Stepped, Store, StoreError, Txn, Watching};

/// A store, and how many steps are left before the crash that a test asked for.
pub(super) struct Steps<'a> {
    store: &'a dyn Store,
    left: Option<AtomicU64>,
}

impl<'a> Steps<'a> {
    pub(super) fn over(store: &'a dyn Store) -> Self {
        let told = || std::env::var("TENURE_TEST_CRASH_AFTER").ok()?.parse().ok();
        let left = cfg!(debug_assertions).then(told).flatten().map(AtomicU64::new);
        Self { store, left }
    }

    /// One more step is done, here or on the disk.
    pub(super) fn done(&self) {
        if let Some(left) = &self.left
            && left.fetch_sub(1, Ordering::SeqCst) == 1
        {
            std::process::abort();
        }
    }
}

impl Store for Steps<'_> {
    fn step(&self, txn: &Txn, within: Duration) -> Result<Stepped, StoreError> {
        let stepped = self.store.step(txn, within);
        self.done();
        stepped
    }

    fn range(&self, from: &str, to: &str, limit: usize, within: Duration) -> Result<Ranged, StoreError> {
        let ranged = self.store.range(from, to, limit, within);
        self.done();
        ranged
    }

    fn watch(
        &self,
        from: &str,
        to: &str,
        since: u64,
        within: Duration,
    ) -> Result<Box<dyn Watching>, StoreError> {
        self.store.watch(from, to, since, within)
    }

    fn compact(&self, revision: u64, within: Duration) -> Result<(), StoreError> {
        self.store.compact(revision, within)
    }
}
