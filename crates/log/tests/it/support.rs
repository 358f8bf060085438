//! What the tests share: options for small logs, batches from strings, records as owned values.

use std::path::Path;

use tenure_log::{
    AppendOutcome, Batch, BatchBuilder, BatchId, FileLog, FileLogOptions, FileReader, Frame, Genesis, Lsn,
    Moment, OpenError, OrderedLog, Recovery, Resolution, SharedDisk,
};

pub(crate) const ROOT: &str = "data";
pub(crate) const SMALL_SEGMENT: u64 = 2048;
const TRIES_MAX: usize = 100;

pub(crate) fn genesis() -> Genesis {
    Genesis { random: *b"0123456789abcdef", unix_seconds: 1_700_000_000, shard: 0 }
}

pub(crate) fn options() -> FileLogOptions {
    FileLogOptions {
        segment_bytes: SMALL_SEGMENT,
        free_bytes_min: 0,
        ..FileLogOptions::new(genesis(), 1_700_000_000_123)
    }
}

pub(crate) fn open(disk: &SharedDisk) -> Result<(FileLog, Recovery), OpenError> {
    FileLog::open(disk.clone(), Path::new(ROOT), options())
}

/// A kind of record; what kinds there are is for the users of a log to know.
pub(crate) const EVENT: u8 = 1;
/// Another.
pub(crate) const NOTE: u8 = 2;

/// One record as a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) lsn: u64,
    pub(crate) kind: u8,
    pub(crate) bytes: Vec<u8>,
}

/// Makes batches for one incarnation of a log.
pub(crate) struct Writer {
    id: BatchId,
    pub(crate) tick: u64,
}

impl Writer {
    pub(crate) fn new(log: &dyn OrderedLog) -> Self {
        Self { id: BatchId::first(log.writer_epoch()), tick: 1_000_000 * log.writer_epoch() }
    }

    pub(crate) fn batch(&mut self, first_lsn: Lsn, records: &[&[u8]]) -> Batch {
        let at = Moment { tick: self.tick, wall_ms: 1_700_000_000_000 + self.tick };
        let mut builder = BatchBuilder::new(self.id, first_lsn, at);
        for bytes in records {
            builder.push(EVENT, bytes).unwrap();
        }
        self.id = self.id.next();
        self.tick += 10;
        builder.finish()
    }

    /// Appends one batch and expects it to be committed.
    pub(crate) fn append(&mut self, log: &mut dyn OrderedLog, records: &[&[u8]]) -> Lsn {
        let batch = self.batch(log.next_lsn(), records);
        // A log that is kept elsewhere may not answer in time: what became of the batch is asked for, as its writer does.
        for _ in 0..TRIES_MAX {
            match log.append(&batch) {
                AppendOutcome::Committed { synced } => return synced,
                AppendOutcome::Unknown => {}
                other => panic!("not committed: {other:?}"),
            }
            if let Resolution::Committed { synced } = log.resolve(batch.id()) {
                return synced;
            }
        }
        panic!("nobody knows what became of it")
    }
}

pub(crate) fn read_all(log: &dyn OrderedLog) -> Vec<Owned> {
    drain(&mut log.reader())
}

pub(crate) fn drain(reader: &mut FileReader) -> Vec<Owned> {
    let mut records = Vec::new();
    while let Some(frame) = reader.next_frame().unwrap() {
        records.extend(frame.records().map(|record| Owned {
            lsn: record.lsn.0,
            kind: record.kind,
            bytes: record.bytes.to_vec(),
        }));
    }
    records
}

/// The frame that holds the record `lsn`; `None` if it lies in a gap or ahead of the log. Reading goes on after it.
pub(crate) fn frame_with(reader: &mut FileReader, lsn: Lsn) -> Option<Frame<'_>> {
    reader.seek(lsn).unwrap();
    reader.next_frame().unwrap().filter(|frame| frame.record(lsn).is_some())
}
