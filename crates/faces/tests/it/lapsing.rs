//! A log whose writer has authority only while the test says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tenure_engine::host::read_clocks;
use tenure_log::{
    AppendOutcome, Authority, Batch, BatchId, Chore, ChoreDone, Extent, FileLog, FileReader, Identity, Lsn,
    Moment, OrderedLog, Proof, Resolution, SnapshotStore, Space, Trimmed,
};

/// How often the writer asks for its authority.
const PROOF_MS: u64 = 10;
const LONG_MS: u64 = 3_600_000;

pub(crate) struct Lapsing {
    log: FileLog,
    holds: Arc<AtomicBool>,
}

impl Lapsing {
    pub(crate) fn over(log: FileLog, holds: Arc<AtomicBool>) -> Self {
        Self { log, holds }
    }
}

impl OrderedLog for Lapsing {
    fn identity(&self) -> Identity {
        self.log.identity()
    }
    fn writer_epoch(&self) -> u64 {
        self.log.writer_epoch()
    }
    fn authority_until(&self) -> Authority {
        let holds = self.holds.load(Ordering::SeqCst);
        Authority::Until { boot_ms: if holds { read_clocks().boot_ms + LONG_MS } else { 0 } }
    }
    fn proof_due_ms(&self) -> Option<u64> {
        Some(read_clocks().boot_ms + PROOF_MS)
    }
    fn prove(&mut self, _tick: u64) -> Proof {
        Proof::Held
    }
    fn next_lsn(&self) -> Lsn {
        self.log.next_lsn()
    }
    fn synced_lsn(&self) -> Lsn {
        self.log.synced_lsn()
    }
    fn extents(&self) -> Vec<Extent> {
        self.log.extents()
    }
    fn append(&mut self, batch: &Batch) -> AppendOutcome {
        self.log.append(batch)
    }
    fn resolve(&mut self, batch: BatchId) -> Resolution {
        self.log.resolve(batch)
    }
    fn reader(&self) -> FileReader {
        self.log.reader()
    }
    fn snapshots(&self) -> SnapshotStore {
        self.log.snapshots()
    }
    fn trim(&mut self, below: Lsn) -> Trimmed {
        self.log.trim(below)
    }
    fn space(&self) -> Space {
        self.log.space()
    }
    fn wants_chore(&self) -> bool {
        self.log.wants_chore()
    }
    fn chore(&mut self) -> Option<Chore> {
        self.log.chore()
    }
    fn chore_done(&mut self, done: ChoreDone) {
        self.log.chore_done(done);
    }
    fn close(&mut self, at: Moment) -> AppendOutcome {
        self.log.close(at)
    }
}
