//! The log of a cluster as a log: what every log must do, over a store in memory and over a real etcd.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tenure_cluster::store::Store;
use tenure_cluster::{
    BootError, BootOptions, Booted, Claimant, Clock, FollowEnd, FollowError, Follower, Keys, Lookout, Memory,
    RemoteLog, Seen, SharedMirror, Trust, boot,
};
use tenure_log::{AppendOutcome, Batch, Moment, OrderedLog, RealDisk, SharedDisk};

use crate::conformance::{Home, conformance};
use crate::members::Members;
use crate::memory::MemoryStore;
use crate::support::options;

/// How long a step is good for in these tests.
pub(crate) const TTL_MS: u64 = 300;

pub(crate) fn clock() -> Clock {
    fn boot_us() -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
    }
    Clock { boot_ms: || boot_us() / 1_000, boot_us, wall_ms: || 1_700_000_000_000 }
}

/// A node of the tests: a store and a directory.
pub(crate) struct Node {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) name: String,
    disk: SharedDisk,
    directory: TempDir,
    /// Kept for as long as the log is used.
    _etcd: Option<Members>,
}

impl Node {
    pub(crate) fn at(store: Arc<dyn Store>, name: &str) -> Self {
        Self::with_disk(store, name, Arc::new(RealDisk))
    }

    pub(crate) fn with_disk(store: Arc<dyn Store>, name: &str, disk: SharedDisk) -> Self {
        Self { store, name: name.to_owned(), disk, directory: tempfile::tempdir().unwrap(), _etcd: None }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn boot(&self) -> Booted {
        self.try_boot().unwrap()
    }

    pub(crate) fn try_boot(&self) -> Result<Booted, BootError> {
        let keys = keys();
        let with = BootOptions {
            store: &*self.store,
            keys: &keys,
            disk: Arc::clone(&self.disk),
            root: self.directory(),
            options: options(),
            secret: "5".repeat(32),
            writer_ttl_ms: TTL_MS,
            node: &self.name,
            memory: format!("memory of {}", self.name),
        };
        boot(&with, &Memory::at(self.directory()))
    }

    /// Claims the log and opens a term.
    pub(crate) fn claim(&self) -> RemoteLog {
        self.claim_with_copy().0
    }

    /// The same, with the copy that it writes.
    pub(crate) fn claim_with_copy(&self) -> (RemoteLog, SharedMirror) {
        self.try_claim(&mut |_| true).unwrap()
    }

    pub(crate) fn try_claim(
        &self,
        copied: &mut dyn FnMut(Batch) -> bool,
    ) -> Result<(RemoteLog, SharedMirror), FollowError> {
        self.claim_when(copied, Arc::default(), &|| true)
    }

    /// The same once it may. `seen` tells meanwhile how far it has come.
    pub(crate) fn claim_when(
        &self,
        copied: &mut dyn FnMut(Batch) -> bool,
        seen: Arc<Mutex<Seen>>,
        may_claim: &dyn Fn() -> bool,
    ) -> Result<(RemoteLog, SharedMirror), FollowError> {
        let (mut log, tick, mirror) = self.win_when(copied, seen, may_claim)?;
        assert!(matches!(log.open(Moment { tick, wall_ms: 1 }), AppendOutcome::Committed { .. }));
        // As the thread of the log does, which sends proofs of life from then on.
        log.proof_due_ms();
        Ok((log, mirror))
    }

    /// Claims the log; its term does not begin yet.
    pub(crate) fn win(
        &self,
        copied: &mut dyn FnMut(Batch) -> bool,
    ) -> Result<(RemoteLog, u64, SharedMirror), FollowError> {
        self.win_when(copied, Arc::default(), &|| true)
    }

    fn win_when(
        &self,
        copied: &mut dyn FnMut(Batch) -> bool,
        seen: Arc<Mutex<Seen>>,
        may_claim: &dyn Fn() -> bool,
    ) -> Result<(RemoteLog, u64, SharedMirror), FollowError> {
        let booted = self.boot();
        let mirror = Arc::new(Mutex::new(booted.mirror));
        let claimant = Claimant {
            node: self.name.clone(),
            incarnation: "1".to_owned(),
            url: "http://127.0.0.1:1".to_owned(),
            writer_ttl_ms: TTL_MS,
        };
        let mut follower = Follower::new(
            Arc::clone(&self.store),
            keys(),
            Arc::clone(&mirror),
            Lookout::new(keys(), claimant, 0),
            clock(),
            seen,
            Arc::new(Mutex::new(Trust::new(self.name.clone(), booted.known))),
        );
        let claim_id = || format!("{}-{}", self.name, (clock().boot_us)());
        let end = follower.run(copied, &AtomicBool::new(false), may_claim, &claim_id)?;
        let FollowEnd::Won { log, tick } = end else { panic!("it was not told to stop") };
        Ok((*log, tick, mirror))
    }
}

impl Home for Node {
    fn open(&self) -> Box<dyn OrderedLog> {
        Box::new(self.claim())
    }

    fn ends_with_a_record(&self) -> bool {
        false
    }
}

pub(crate) fn keys() -> Keys {
    Keys::under("test")
}

pub(crate) fn memory_home() -> Node {
    Node::at(MemoryStore::new(), "a")
}

pub(crate) fn etcd_home() -> Node {
    let etcd = Members::start(1);
    Node::at(Arc::new(etcd.store()), "a").kept_by(etcd)
}

impl Node {
    fn kept_by(self, etcd: Members) -> Self {
        Self { _etcd: Some(etcd), ..self }
    }
}

conformance!(over_memory, crate::remote::memory_home);
conformance!(over_etcd, crate::remote::etcd_home);
