//! Records and the batches that carry them: what the log's users build and read. Payload bytes are opaque here.
//!
//! A payload is records one after another, each `kind u8, length u32 le, bytes`. A `Batch` that exists is within
//! the limits and numbers its records densely from `first_lsn`.

use crate::frame::{FRAME_HEADER_BYTES, Frame};
use crate::ids::{BatchId, Lsn, Moment};

/// The most records one frame holds; also how many LSNs are skipped after a cut.
pub const RECORDS_PER_FRAME_MAX: u32 = 4096;
/// The most bytes one frame takes, header included. A remote log stores a frame as one value of at most this size.
pub const FRAME_BYTES_MAX: usize = 1 << 20;
/// The most bytes the records of one frame take, their own headers included.
pub const PAYLOAD_BYTES_MAX: usize = FRAME_BYTES_MAX - FRAME_HEADER_BYTES;
/// Kind and length before each record's bytes.
pub const RECORD_HEADER_BYTES: usize = 5;
/// The longest single record.
pub const RECORD_BYTES_MAX: usize = PAYLOAD_BYTES_MAX - RECORD_HEADER_BYTES;

/// The one kind of record that the log writes itself: the writer closed it in order.
pub const CLOSE_RECORD: u8 = 5;

/// One record, lent by the batch or the reader that holds its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its position.
    pub lsn: Lsn,
    /// Its kind, which only the users of the log understand.
    pub kind: u8,
    /// Its bytes, as they were pushed.
    pub bytes: &'a [u8],
}

/// Why a record cannot join a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// No batch ever takes it.
    #[error("a record of {bytes} bytes is longer than the {RECORD_BYTES_MAX} that one frame holds")]
    RecordTooLong {
        /// How long it is.
        bytes: usize,
    },
    /// This batch is full; the next one takes it.
    #[error("the batch is full")]
    BatchFull,
    /// Close records are written by `close`.
    #[error("a close record is written by closing the log")]
    CloseReserved,
}

/// Gathers records for one frame.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    batch: Batch,
}

/// Records that go to the log whole: one frame, one sync, one outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    id: BatchId,
    first_lsn: Lsn,
    at: Moment,
    count: u32,
    payload: Vec<u8>,
}

impl BatchBuilder {
    /// An empty batch whose first record will have `first_lsn`.
    pub fn new(id: BatchId, first_lsn: Lsn, at: Moment) -> Self {
        Self { batch: Batch { id, first_lsn, at, count: 0, payload: Vec::new() } }
    }

    /// An empty batch in the memory of one that is done with.
    pub fn recycle(done: Batch, id: BatchId, first_lsn: Lsn, at: Moment) -> Self {
        let mut payload = done.payload;
        payload.clear();
        Self { batch: Batch { id, first_lsn, at, count: 0, payload } }
    }

    /// Whether one more record of `bytes` bytes fits.
    pub fn fits(&self, bytes: usize) -> bool {
        self.fits_all(1, bytes)
    }

    /// Whether `records` more records of `bytes` bytes in all fit: a turn goes in whole or waits.
    pub fn fits_all(&self, records: usize, bytes: usize) -> bool {
        let records_left = (RECORDS_PER_FRAME_MAX - self.batch.count) as usize;
        let bytes_left = PAYLOAD_BYTES_MAX - self.batch.payload.len();
        records <= records_left
            && records.saturating_mul(RECORD_HEADER_BYTES).saturating_add(bytes) <= bytes_left
    }

    /// Adds a record and says which LSN it will have.
    pub fn push(&mut self, kind: impl Into<u8>, bytes: &[u8]) -> Result<Lsn, PushError> {
        let kind = kind.into();
        if kind == CLOSE_RECORD {
            return Err(PushError::CloseReserved);
        }
        if bytes.len() > RECORD_BYTES_MAX {
            return Err(PushError::RecordTooLong { bytes: bytes.len() });
        }
        if !self.fits(bytes.len()) {
            return Err(PushError::BatchFull);
        }
        Ok(self.batch.put(kind, bytes))
    }

    /// The LSN the next pushed record would get.
    pub fn next_lsn(&self) -> Lsn {
        self.batch.next_lsn()
    }

    /// How many records are in.
    pub fn count(&self) -> u32 {
        self.batch.count
    }

    /// Bytes of the records so far, their headers included.
    pub fn payload_bytes(&self) -> usize {
        self.batch.payload.len()
    }

    /// Whether nothing has been pushed.
    pub fn is_empty(&self) -> bool {
        self.batch.count == 0
    }

    /// The batch, ready to append.
    pub fn finish(self) -> Batch {
        self.batch
    }
}

impl Batch {
    /// The batch with the single close record.
    pub(crate) fn close(id: BatchId, first_lsn: Lsn, at: Moment) -> Self {
        let mut batch = BatchBuilder::new(id, first_lsn, at).finish();
        batch.put(CLOSE_RECORD, &[]);
        batch
    }

    /// The batch that a frame was made from.
    #[must_use]
    pub fn of_frame(frame: &Frame<'_>) -> Self {
        Self {
            id: frame.header.batch,
            first_lsn: frame.header.first_lsn,
            at: frame.header.at,
            count: frame.header.count,
            payload: frame.payload().to_vec(),
        }
    }

    /// Its name.
    pub fn id(&self) -> BatchId {
        self.id
    }

    /// The LSN of its first record.
    pub fn first_lsn(&self) -> Lsn {
        self.first_lsn
    }

    /// The LSN after its last record.
    pub fn next_lsn(&self) -> Lsn {
        self.first_lsn.plus(u64::from(self.count))
    }

    /// When it was begun.
    pub fn at(&self) -> Moment {
        self.at
    }

    /// How many records it holds.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The records as they will stand in the frame.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Its records in order.
    pub fn records(&self) -> Records<'_> {
        Records::trusted(self.first_lsn, self.count, &self.payload)
    }

    fn put(&mut self, kind: u8, bytes: &[u8]) -> Lsn {
        let lsn = self.next_lsn();
        self.payload.push(kind);
        self.payload.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.payload.extend_from_slice(bytes);
        self.count += 1;
        lsn
    }
}

/// The records of one frame or batch, in order. Its payload has been checked.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    next_lsn: Lsn,
    left: u32,
    payload: &'a [u8],
}

impl<'a> Records<'a> {
    pub(crate) fn trusted(first_lsn: Lsn, count: u32, payload: &'a [u8]) -> Self {
        Self { next_lsn: first_lsn, left: count, payload }
    }

    /// Whether `payload` is exactly `count` well-formed records.
    pub(crate) fn check(count: u32, mut payload: &[u8]) -> bool {
        for _ in 0..count {
            match split_record(payload) {
                Some((_, _, rest)) => payload = rest,
                None => return false,
            }
        }
        payload.is_empty()
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (kind, bytes, rest) = split_record(self.payload).expect("invariant: the payload was checked");
        let lsn = self.next_lsn;
        self.next_lsn = lsn.next();
        self.payload = rest;
        Some(Record { lsn, kind, bytes })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Records<'_> {}

fn split_record(payload: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&kind, rest) = payload.split_first()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    let (bytes, rest) = rest.split_at_checked(length)?;
    Some((kind, bytes, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: u8 = 1;
    const NOTE: u8 = 2;

    fn builder() -> BatchBuilder {
        BatchBuilder::new(BatchId::first(1), Lsn(7), Moment::default())
    }

    #[test]
    fn records_come_back_with_dense_lsns() {
        let mut builder = builder();
        assert_eq!(builder.push(EVENT, b"one"), Ok(Lsn(7)));
        assert_eq!(builder.push(NOTE, b""), Ok(Lsn(8)));
        let batch = builder.finish();
        let records: Vec<_> = batch.records().collect();
        assert_eq!(records[0], Record { lsn: Lsn(7), kind: EVENT, bytes: b"one" });
        assert_eq!(records[1], Record { lsn: Lsn(8), kind: NOTE, bytes: b"" });
        assert!(Records::check(2, batch.payload()));
    }

    #[test]
    fn a_batch_is_full_by_count_and_by_bytes() {
        let mut by_count = builder();
        for _ in 0..RECORDS_PER_FRAME_MAX {
            by_count.push(EVENT, b"x").expect("fits");
        }
        assert_eq!(by_count.push(EVENT, b"x"), Err(PushError::BatchFull));

        let mut by_bytes = builder();
        assert!(by_bytes.fits(RECORD_BYTES_MAX));
        by_bytes.push(EVENT, &vec![0; RECORD_BYTES_MAX]).expect("one record of the longest kind fits");
        assert_eq!(by_bytes.push(EVENT, b""), Err(PushError::BatchFull));
    }

    #[test]
    fn a_record_longer_than_a_frame_is_refused_for_ever() {
        let bytes = RECORD_BYTES_MAX + 1;
        assert_eq!(builder().push(EVENT, &vec![0; bytes]), Err(PushError::RecordTooLong { bytes }));
    }

    #[test]
    fn payloads_that_lie_about_lengths_are_not_records() {
        assert!(!Records::check(1, &[1, 255, 255, 255, 255]));
        assert!(!Records::check(1, &[1, 0, 0, 0, 0, 9]), "left-over bytes");
        assert!(Records::check(1, &[9, 0, 0, 0, 0]), "kinds are their users' affair");
        assert!(!Records::check(2, &[1, 0, 0, 0, 0]), "too few");
    }
}
