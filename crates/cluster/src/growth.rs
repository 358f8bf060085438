//! The store stays small: frames that a snapshot covers go, and what is gone is compacted away. Every step is done only
//! while this writer's claim stands.
//!
//! Order: the snapshot's pieces, then `floor`, then the frames below it. A reader that finds `floor` finds the
//! snapshot; below `floor` is trimmed, missing above it is damage.

use std::io::Read;
use std::time::Duration;

use tenure_log::{LogReader, Lsn, SnapshotStore};
use twox_hash::XxHash64;

use crate::boot::BootError;
use crate::keys::Keys;
use crate::planted::{Planted, has};
use crate::remote::SharedMirror;
use crate::store::{Compare, Op, Store, StoreError, Txn};
use crate::values::{Floor, Head, ValueError, decode, encode};

/// A piece of a snapshot is at most this long.
pub const PIECE_BYTES_MAX: usize = 1 << 20;
/// Compressed snapshots up to this size are kept in the store.
pub const SNAPSHOT_BYTES_MAX: usize = 128 << 20;
/// A snapshot is due after this many bytes of frames, or less where the store has little room.
pub const DUE_BYTES_MAX: u64 = 64 << 20;
/// The share of the store's quota that frames may take before a snapshot is due.
const QUOTA_PARTS: u64 = 32;
/// Revisions of the store that are kept without a trim: one per this many bytes of its quota. A log that nobody writes to is
/// never trimmed, and its writer's proofs of life are revisions too.
const QUOTA_BYTES_PER_REVISION: u64 = 8 << 10;
/// The same where the store does not say its quota.
const REVISIONS_KEPT: u64 = 250_000;
/// What a byte can be unpacked to at most: the format adds up lengths in bytes of 255.
const LZ4_RATIO_MAX: usize = 256;
/// How long a step of this may take.
const WITHIN: Duration = Duration::from_secs(5);

/// What looks after the store's room, for one term.
pub struct Growth {
    keys: Keys,
    /// The value that says that this writer's claim stands.
    mine: Compare,
    floor: Floor,
    /// As the store has it.
    floor_bytes: Vec<u8>,
    /// Bytes of the frames above the floor that were copied before this process began: the copy does not remember them.
    earlier_bytes: Option<u64>,
    /// Whether nothing is left below the floor.
    is_swept: bool,
    /// The revision of the last trim, by this writer or an earlier one.
    floor_revision: u64,
    /// After a trim, the revision of the one before it.
    compact_at: Option<u64>,
    /// Up to here the store was compacted, as far as is known. Compacting again what is compacted does nothing.
    compacted: u64,
    /// Whether what keys had before is let go by us.
    compacts: bool,
}

/// What a look at the store's room came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tended {
    /// Nothing is due.
    Quiet,
    /// A snapshot is due.
    SnapshotDue,
    /// Frames below this number are gone.
    Trimmed {
        /// The first that is kept.
        floor: u64,
    },
    /// The snapshot is too large for the store: frames stay.
    TooLarge {
        /// Its compressed size.
        bytes: usize,
    },
    /// Another claim stands.
    Fenced,
}

/// Why the store's room could not be looked after. It is tried again.
#[derive(Debug, thiserror::Error)]
pub enum GrowthError {
    /// The store did not answer, or refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What stands in the store cannot be understood.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// The snapshot on this machine cannot be read.
    #[error("cannot read the snapshot at lsn {lsn}: {why}")]
    Snapshot {
        /// Which.
        lsn: Lsn,
        /// Why.
        why: String,
    },
}

/// After how many bytes of frames a snapshot is due.
#[must_use]
pub fn due_bytes(quota_bytes: u64) -> u64 {
    match quota_bytes {
        0 => DUE_BYTES_MAX,
        quota => DUE_BYTES_MAX.min(quota / QUOTA_PARTS),
    }
}

/// A checksum over a snapshot's bytes, the same on every machine.
#[must_use]
pub fn snapshot_hash(bytes: &[u8]) -> u64 {
    XxHash64::oneshot(0, bytes)
}

impl Growth {
    /// Begins with what the store has. `writer` is this claim's value.
    ///
    /// # Errors
    /// When the store does not answer, or `floor` cannot be understood.
    pub fn begin(store: &dyn Store, keys: Keys, writer: Vec<u8>, compacts: bool) -> Result<Self, BootError> {
        let key = keys.floor();
        let ranged = store.range(&key, &format!("{key}\0"), 1, WITHIN)?;
        let found = ranged.found.first().ok_or(BootError::Missing { key })?;
        let floor = decode("floor", &found.value)?;
        let mine = Compare::Value { key: keys.writer(), value: writer };
        Ok(Self {
            keys,
            mine,
            floor,
            floor_bytes: found.value.clone(),
            earlier_bytes: None,
            // The node that raised it may not have come further.
            is_swept: false,
            floor_revision: found.revision,
            compact_at: None,
            compacted: 0,
            compacts,
        })
    }

    /// Looks whether anything is due, and does the next part of it. `revision` is how far the store has come.
    ///
    /// # Errors
    /// When something failed; the next look tries again.
    pub fn tend(
        &mut self,
        store: &dyn Store,
        mirror: &SharedMirror,
        quota_bytes: u64,
        revision: u64,
    ) -> Result<Tended, GrowthError> {
        // Needs no room: where there is none, this is what can be done.
        if !self.is_swept && self.sweep(store)? == Tended::Fenced {
            return Ok(Tended::Fenced);
        }
        self.compact(store, quota_bytes, revision)?;
        let earlier = *self.earlier_bytes.get_or_insert_with(|| earlier_bytes(mirror, &self.floor));
        let (remembered, newest, snapshots) = {
            let mirror = crate::remote::lock(mirror);
            let snapshots = mirror.snapshots();
            let newest = snapshots.newest();
            let frame = newest.and_then(|header| Some((header.at.tick, mirror.frame_ending_at(header.lsn)?)));
            (mirror.bytes_after(self.floor.frame.saturating_sub(1)), frame, snapshots)
        };
        let (grown, due) = (earlier + remembered, due_bytes(quota_bytes));
        if grown < due {
            return Ok(Tended::Quiet);
        }
        let Some((tick, frame)) = newest.filter(|(_, frame)| frame.number >= self.floor.frame) else {
            return Ok(Tended::SnapshotDue);
        };
        // One that covers little leaves as much behind: a newer one first. Where much is written there is always a newer
        // one: what was due is enough.
        let left = crate::remote::lock(mirror).bytes_after(frame.number);
        let covered = grown.saturating_sub(left);
        if left > covered && covered < due {
            return Ok(Tended::SnapshotDue);
        }
        let lsn = frame.end.last_lsn;
        // A frame may tell of later ticks than the one it began with; who begins here must not fall behind them.
        let end = Head::of(frame.number, &frame.end);
        let floor = Floor {
            frame: frame.number + 1,
            end: Head { tick: end.tick.max(tick), ..end },
            snapshot_lsn: lsn.0,
            snapshot_hash: 0,
        };
        self.trim(store, &snapshots, floor).inspect(|tended| {
            if matches!(tended, Tended::Trimmed { .. }) {
                crate::remote::lock(mirror).forget_upto(frame.number);
            }
        })
    }

    fn trim(
        &mut self,
        store: &dyn Store,
        snapshots: &SnapshotStore,
        floor: Floor,
    ) -> Result<Tended, GrowthError> {
        let lsn = Lsn(floor.snapshot_lsn);
        let unreadable = |why: String| GrowthError::Snapshot { lsn, why };
        let mut bytes = Vec::new();
        let mut reader = snapshots.open(lsn).map_err(|error| unreadable(error.to_string()))?;
        reader.read_to_end(&mut bytes).map_err(|error| unreadable(error.to_string()))?;
        let floor = Floor { snapshot_hash: snapshot_hash(&bytes), ..floor };
        let packed = pack(&bytes);
        drop(bytes);
        if packed.len() > SNAPSHOT_BYTES_MAX {
            return Ok(Tended::TooLarge { bytes: packed.len() });
        }
        if !has(Planted::TrimBeforeSnapshot) && !put_pieces(store, &self.keys, &self.mine, lsn, &packed)? {
            return Ok(Tended::Fenced);
        }
        if let Some(instead) = self.raise(store, floor)? {
            return Ok(instead);
        }
        self.sweep(store)
    }

    /// Puts the new floor where the old one stands: an earlier try that arrives late must not bring back a floor below
    /// which everything is gone. `Some`: it was not done.
    fn raise(&mut self, store: &dyn Store, floor: Floor) -> Result<Option<Tended>, GrowthError> {
        let key = self.keys.floor();
        let value = encode(&floor);
        let txn = Txn {
            compares: vec![
                self.mine.clone(),
                Compare::Value { key: key.clone(), value: self.floor_bytes.clone() },
            ],
            then: vec![Op::Put { key: key.clone(), value: value.clone() }],
            otherwise: vec![Op::Get { key: self.keys.writer() }, Op::Get { key }],
        };
        let stepped = store.step(&txn, WITHIN)?;
        if stepped.held {
            self.raised(floor, value, stepped.revision);
            return Ok(None);
        }
        let mut found = stepped.found.into_iter().map(Option::unwrap_or_default);
        let writer = Compare::Value { key: self.keys.writer(), value: found.next().unwrap_or_default() };
        if writer != self.mine {
            return Ok(Some(Tended::Fenced));
        }
        // An earlier try was done after all: from there the next look goes on.
        let value = found.next().unwrap_or_default();
        self.raised(decode("floor", &value)?, value, stepped.revision);
        Ok(Some(Tended::Quiet))
    }

    /// A new floor stands in the store, at this revision or before it.
    fn raised(&mut self, floor: Floor, value: Vec<u8>, revision: u64) {
        (self.floor, self.floor_bytes) = (floor, value);
        (self.earlier_bytes, self.is_swept) = (None, false);
        self.compact_at = Some(core::mem::replace(&mut self.floor_revision, revision));
    }

    /// Deletes what lies below the floor. Needs no room in the store.
    ///
    /// # Errors
    /// When the store did not answer, or refused.
    pub fn sweep(&mut self, store: &dyn Store) -> Result<Tended, GrowthError> {
        let frames = Op::Delete { from: self.keys.frame(0), to: self.keys.frame(self.floor.frame) };
        let (first, _) = self.keys.snapshots();
        let (kept, _) = self.keys.pieces(self.floor.snapshot_lsn);
        let then = vec![frames, Op::Delete { from: first, to: kept }];
        let txn = Txn { compares: vec![self.mine.clone()], then, otherwise: Vec::new() };
        let stepped = store.step(&txn, WITHIN)?;
        if !stepped.held {
            return Ok(Tended::Fenced);
        }
        self.is_swept = true;
        // The end of a trim that this writer began. One that another began may have ended long ago.
        if self.compact_at.is_some() {
            self.floor_revision = stepped.revision;
        }
        Ok(Tended::Trimmed { floor: self.floor.frame })
    }

    /// Lets go of what keys had before: up to the trim before the last one, so that a reader from before a trim has
    /// had until the next one; and without a trim, all but so many revisions. Counts what the store has, not what this process wrote.
    fn compact(&mut self, store: &dyn Store, quota_bytes: u64, revision: u64) -> Result<(), StoreError> {
        if !self.compacts {
            return Ok(());
        }
        let kept = match quota_bytes {
            0 => REVISIONS_KEPT,
            quota => quota / QUOTA_BYTES_PER_REVISION,
        };
        let grown = revision.saturating_sub(self.compacted.max(self.compact_at.unwrap_or(0)));
        let without_trim = (grown >= kept.saturating_mul(2)).then(|| revision.saturating_sub(kept));
        if let Some(upto) = self.compact_at.max(without_trim).filter(|upto| *upto > 0) {
            store.compact(upto, WITHIN)?;
            self.compacted = self.compacted.max(upto);
        }
        self.compact_at = None;
        Ok(())
    }
}

/// A snapshot's bytes as they stand in the store.
#[must_use]
pub fn pack(bytes: &[u8]) -> Vec<u8> {
    lz4_flex::compress_prepend_size(bytes)
}

/// A snapshot's bytes again; `None`: they are not the ones with this checksum.
#[must_use]
pub fn unpack(packed: &[u8], hash: u64) -> Option<Vec<u8>> {
    let told = u32::from_le_bytes(*packed.first_chunk()?) as usize;
    // Nothing makes more of a byte than this: what claims to is not believed with memory.
    if told > packed.len().saturating_mul(LZ4_RATIO_MAX) {
        return None;
    }
    let bytes = lz4_flex::decompress_size_prepended(packed).ok()?;
    (snapshot_hash(&bytes) == hash).then_some(bytes)
}

/// Bytes of the frames above the floor that this process did not copy itself.
fn earlier_bytes(mirror: &SharedMirror, floor: &Floor) -> u64 {
    let (mut reader, remembered, last) = {
        let mirror = crate::remote::lock(mirror);
        let remembered = mirror.bytes_after(floor.frame.saturating_sub(1));
        (mirror.reader(), remembered, mirror.end().last_lsn)
    };
    let mut bytes = 0_u64;
    // A copy that begins later, or cannot be read, has nothing to count.
    if reader.seek(Lsn(floor.end.lsn).next()).is_err() {
        return 0;
    }
    while let Ok(Some((_, frame))) = reader.next_located() {
        if frame.header.last_lsn() > last {
            break;
        }
        bytes += frame.header.frame_bytes() as u64;
    }
    bytes.saturating_sub(remembered)
}

/// Puts a snapshot into the store piece by piece, for as long as a comparison holds; says its checksum.
///
/// # Errors
/// When it is too large, the comparison does not hold any more, or the store does not answer.
pub(crate) fn put_snapshot(
    store: &dyn Store,
    keys: &Keys,
    holds: &Compare,
    lsn: Lsn,
    bytes: &[u8],
) -> Result<u64, GrowthError> {
    let packed = pack(bytes);
    let failed = |why: &str| GrowthError::Snapshot { lsn, why: why.to_owned() };
    if packed.len() > SNAPSHOT_BYTES_MAX {
        return Err(failed("it is larger than the 128 MiB that the store takes"));
    }
    if !put_pieces(store, keys, holds, lsn, &packed)? {
        return Err(failed("the store changed meanwhile"));
    }
    Ok(snapshot_hash(bytes))
}

/// Puts the pieces of a snapshot for as long as a comparison holds. `false`: it does not hold any more.
fn put_pieces(
    store: &dyn Store,
    keys: &Keys,
    holds: &Compare,
    lsn: Lsn,
    packed: &[u8],
) -> Result<bool, StoreError> {
    let put =
        |(index, piece): (usize, &[u8])| Op::Put { key: keys.piece(lsn.0, index), value: piece.to_vec() };
    // What an earlier try may have put after them belongs to no snapshot.
    let surplus = keys.piece(lsn.0, packed.len().div_ceil(PIECE_BYTES_MAX));
    let clear = Op::Delete { from: surplus, to: keys.pieces(lsn.0).1 };
    for op in packed.chunks(PIECE_BYTES_MAX).enumerate().map(put).chain([clear]) {
        let txn = Txn { compares: vec![holds.clone()], then: vec![op], otherwise: Vec::new() };
        if !store.step(&txn, WITHIN)?.held {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The snapshot that `floor` names, whole; `None`: it is not in the store.
pub(crate) fn load_snapshot(
    store: &dyn Store,
    keys: &Keys,
    floor: &Floor,
) -> Result<Option<Vec<u8>>, BootError> {
    let (mut from, to) = keys.pieces(floor.snapshot_lsn);
    let mut packed = Vec::new();
    loop {
        let ranged = store.range(&from, &to, 1, WITHIN)?;
        let Some(found) = ranged.found.into_iter().next() else { break };
        packed.extend_from_slice(&found.value);
        if packed.len() > SNAPSHOT_BYTES_MAX + PIECE_BYTES_MAX {
            return Ok(None);
        }
        from = format!("{}\0", found.key);
    }
    Ok(unpack(&packed, floor.snapshot_hash))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{KeyValue, Ranged, Stepped, Watching};
    use std::sync::Mutex;

    /// The floor alone, every step of which is done, and what was compacted.
    #[derive(Default)]
    struct FloorStore(Mutex<Inner>);

    #[derive(Default)]
    struct Inner {
        revision: u64,
        floor: Option<KeyValue>,
        compacted: Vec<u64>,
    }

    impl FloorStore {
        fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
            self.0.lock().unwrap()
        }

        /// What has been compacted since the last look.
        fn compacted(&self) -> Vec<u64> {
            core::mem::take(&mut self.inner().compacted)
        }

        /// So many changes of other keys, as a writer's proofs of life are.
        fn comes_to(&self, revision: u64) {
            self.inner().revision = revision;
        }
    }

    impl Store for FloorStore {
        fn step(&self, txn: &Txn, _: Duration) -> Result<Stepped, StoreError> {
            let mut inner = self.inner();
            inner.revision += 1;
            let revision = inner.revision;
            for op in &txn.then {
                if let Op::Put { key, value } = op {
                    inner.floor = Some(KeyValue { key: key.clone(), value: value.clone(), revision });
                }
            }
            Ok(Stepped { held: true, found: Vec::new(), revision })
        }

        fn range(&self, _: &str, _: &str, _: usize, _: Duration) -> Result<Ranged, StoreError> {
            let inner = self.inner();
            let found = inner.floor.iter().cloned().collect();
            Ok(Ranged { found, more: false, revision: inner.revision })
        }

        fn watch(&self, _: &str, _: &str, _: u64, _: Duration) -> Result<Box<dyn Watching>, StoreError> {
            unreachable!("nothing here watches")
        }

        fn compact(&self, revision: u64, _: Duration) -> Result<(), StoreError> {
            self.inner().compacted.push(revision);
            Ok(())
        }
    }

    fn floor_at(frame: u64) -> Floor {
        Floor { frame, end: Head::default(), snapshot_lsn: frame, snapshot_hash: 0 }
    }

    /// A store with a floor at revision 100.
    fn store() -> FloorStore {
        let store = FloorStore::default();
        let (key, value) = (Keys::under("t").floor(), encode(&floor_at(1)));
        store.inner().floor = Some(KeyValue { key, value, revision: 100 });
        store.comes_to(100);
        store
    }

    /// Another writer begins.
    fn begins(store: &FloorStore) -> Growth {
        let mut growth = Growth::begin(store, Keys::under("t"), Vec::new(), true).unwrap();
        growth.sweep(store).unwrap();
        growth
    }

    /// The next trim and the look after it; the revision at which the floor was raised.
    fn trims(growth: &mut Growth, store: &FloorStore, quota_bytes: u64) -> u64 {
        assert_eq!(growth.raise(store, floor_at(growth.floor.frame + 1)).unwrap(), None);
        growth.sweep(store).unwrap();
        let revision = store.inner().revision;
        growth.compact(store, quota_bytes, revision).unwrap();
        store.inner().floor.as_ref().unwrap().revision
    }

    #[test]
    fn a_trim_compacts_up_to_the_trim_before_whichever_writer_did_it() {
        let store = store();
        let mut writer = begins(&store);
        store.comes_to(5_000);
        trims(&mut writer, &store, 0);
        assert_eq!(store.compacted(), [100]);
        let swept = store.inner().revision;
        store.comes_to(7_000);
        let first = trims(&mut writer, &store, 0);
        assert_eq!(store.compacted(), [swept], "with all that the trim let go");
        store.comes_to(9_000);
        let mut next = begins(&store);
        let second = trims(&mut next, &store, 0);
        assert_eq!(store.compacted(), [first], "who was reading before the trim has had until the next one");
        trims(&mut begins(&store), &store, 0);
        assert_eq!(store.compacted(), [second]);
    }

    #[test]
    fn a_log_that_is_never_trimmed_is_compacted_too_however_often_its_writer_changes() {
        let (store, quota) = (store(), 2 << 30);
        let kept = quota / QUOTA_BYTES_PER_REVISION;
        let mut oldest = 0;
        for lives in 1..=40 {
            let revision = lives * kept / 4;
            store.comes_to(revision);
            // Each writer sees less than is kept.
            let mut writer = begins(&store);
            writer.compact(&store, quota, revision).unwrap();
            writer.compact(&store, quota, revision).unwrap();
            let compacted = store.compacted();
            assert!(compacted.len() <= 1, "once is enough: {compacted:?}");
            oldest = compacted.into_iter().chain([oldest]).max().unwrap();
            assert!(revision - oldest <= 2 * kept, "life {lives}: {oldest} of {revision}");
            assert!(oldest == 0 || revision - oldest >= kept, "readers have time");
        }
        assert!(oldest > 0);
    }

    #[test]
    fn who_is_not_to_compact_does_not() {
        let store = store();
        let mut growth = Growth::begin(&store, Keys::under("t"), Vec::new(), false).unwrap();
        trims(&mut growth, &store, 0);
        growth.compact(&store, 0, 100 * REVISIONS_KEPT).unwrap();
        assert!(store.compacted().is_empty());
    }

    #[test]
    fn a_packed_snapshot_is_read_back_or_not_at_all() {
        for bytes in [&b""[..], b"state", &[0; 1 << 20]] {
            let (packed, hash) = (pack(bytes), snapshot_hash(bytes));
            assert_eq!(unpack(&packed, hash).as_deref(), Some(bytes));
            assert_eq!(unpack(&packed, hash + 1), None);
            assert_eq!(unpack(&packed[..packed.len() - 1], hash), None);
        }
        assert_eq!(unpack(&[], 0), None);
        assert_eq!(unpack(&[0xff, 0xff, 0xff, 0xff, 0], 0), None, "four gibibytes of five bytes");
    }
}
