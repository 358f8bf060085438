//! The log: 64 events into a frame, its checksums, and the calls that write and sync it. What the system does within
//! a call is not counted.

use crate::kernel::{Asked, grant};
use crate::{HotPath, Round};
use std::hint::black_box;
use std::sync::Arc;
use tenure_kernel::codec::{FORMAT, encode_event};
use tenure_kernel::{Event, RecordKind};
use tenure_log::{
    AppendOutcome, Batch, BatchBuilder, BatchId, FileLog, FileLogOptions, Genesis, Moment, OrderedLog,
    RealDisk,
};

const FRAMES: usize = 20;
const EVENTS: usize = 64;
const WALL_MS: u64 = 1_767_225_600_000;

pub(crate) const APPEND: HotPath =
    HotPath { name: "log: encode and append a frame of 64 events", operations: FRAMES, prepare: append };

fn append() -> anyhow::Result<Round> {
    let mut asked = Asked::new();
    let events: anyhow::Result<Vec<Event>> =
        (0..EVENTS).map(|number| Ok(asked.ask(&grant(number))?.1)).collect();
    let events = events?;
    let directory = tempfile::tempdir()?;
    let genesis = Genesis { random: [9; 16], unix_seconds: WALL_MS / 1_000, shard: 0 };
    let mut options = FileLogOptions::new(genesis, WALL_MS);
    (options.free_bytes_min, options.segment_bytes) = (0, 4 << 20);
    let (mut log, _) = FileLog::open(Arc::new(RealDisk), directory.path(), options)?;
    let mut done: Option<Batch> = None;
    let mut bytes = Vec::with_capacity(1 << 10);
    let mut id = BatchId::first(log.writer_epoch());
    let at = Moment { tick: 0, wall_ms: WALL_MS };
    Ok(Box::new(move || {
        for _ in 0..FRAMES {
            let mut batch = match done.take() {
                Some(done) => BatchBuilder::recycle(done, id, log.next_lsn(), at),
                None => BatchBuilder::new(id, log.next_lsn(), at),
            };
            for event in &events {
                bytes.clear();
                encode_event(black_box(event), FORMAT, &mut bytes);
                batch.push(RecordKind::Event, &bytes).expect("invariant: a frame holds 64 events");
            }
            let batch = batch.finish();
            let outcome = log.append(&batch);
            assert!(matches!(outcome, AppendOutcome::Committed { .. }), "invariant: the disk has room");
            done = Some(batch);
            id = id.next();
        }
        // Stays for as long as the log is written.
        black_box(&directory);
    }))
}
