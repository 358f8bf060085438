//! The store stays small: frames that a snapshot covers go, and what is gone is compacted away. Every step is done only
//! while this writer's claim stands, and is small enough that its other steps pass in between.
//!
//! Order: the snapshot's pieces, then `floor`, then the frames below it. A reader that finds `floor` finds the
//! snapshot; below `floor` is trimmed, missing above it is damage.

use std::time::Duration;

use tenure_log::snapshot::{SnapshotHeader, SnapshotReader};
use tenure_log::{LogEnd, Lsn, SnapshotStore};

use crate::boot::BootError;
use crate::format::FIRST;
use crate::keys::{Keys, PIECES_MAX};
use crate::pieces::{FORMER_BYTES_MAX, Layout, Pieces, Put, PutError};
use crate::planted::{Planted, has};
use crate::remote::{SharedMirror, lock};
use crate::store::{Compare, Op, Store, StoreError, Txn};
use crate::values::{Floor, Head, ValueError, decode, encode};

/// A snapshot is due after this many bytes of frames, or less where the store has little room.
pub const DUE_BYTES_MAX: u64 = 64 << 20;
/// The share of the store's quota that frames may take before a snapshot is due.
const DUE_PARTS: u64 = 32;
/// The same where the snapshot is larger than that: each is written once per its own size of frames, within this share.
const LARGE_DUE_PARTS: u64 = 16;
/// The share of the store's quota that a packed snapshot may take. Three may be there at once: the one that is put, the
/// one before it, and the one before that until it is compacted away.
const SNAPSHOT_PARTS: u64 = 8;
/// What etcd allows where it does not say its quota.
pub const QUOTA_BYTES: u64 = 2 << 30;
/// Revisions of the store that are kept without a trim: one per this many bytes of its quota. A log that nobody writes to is
/// never trimmed, and its writer's proofs of life are revisions too.
const QUOTA_BYTES_PER_REVISION: u64 = 8 << 10;
/// The same where the store does not say its quota.
const REVISIONS_KEPT: u64 = 250_000;
/// Frames and pieces that go in one step: few enough that a proof of life behind it does not wait.
pub const FRAMES_PER_LOT: u64 = 250;
/// See [`FRAMES_PER_LOT`].
pub const PIECES_PER_LOT: usize = 16;
/// Lots that go in one look.
const LOTS_PER_LOOK: usize = 32;
/// Pieces that are packed or put in one look.
const PIECES_PER_LOOK: usize = 32;
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
    /// Bytes of the frames above the floor, and of all that the copy had taken in when they were counted.
    counted: Option<(u64, u64)>,
    /// The newest snapshot of this machine, as a trim would use it.
    candidate: Option<Candidate>,
    /// The snapshot that is being put.
    putting: Option<Putting>,
    /// A snapshot that does not fit, and how long it is when it is packed.
    too_large: Option<(Lsn, u64)>,
    /// Whether nothing is left below the floor.
    is_swept: bool,
    /// The first frame that may be there, where that is known.
    first_left: Option<u64>,
    /// The revision of the last trim, by this writer or an earlier one.
    floor_revision: u64,
    /// After a trim, the revision of the one before it.
    compact_at: Option<u64>,
    /// Up to here the store was compacted, as far as is known. Compacting again what is compacted does nothing.
    compacted: u64,
    compaction: Compaction,
    /// What every listed node reads.
    layout: Layout,
    /// The format of this program, and the newest snapshot that it found here.
    program: Option<(u32, Lsn)>,
}

/// A snapshot on this machine and the last frame that it covers.
#[derive(Clone, Copy)]
struct Candidate {
    header: SnapshotHeader,
    number: u64,
    end: LogEnd,
    /// Bytes of the frames above the floor that it covers.
    covered: u64,
}

/// A snapshot on its way into the store.
struct Putting {
    floor: Floor,
    pieces: Pieces<SnapshotReader>,
    /// Whether it is known to fit; until then it is packed and not put.
    fits: bool,
}

/// Whether a leader lets go of what keys of the store had before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compaction {
    /// Somebody else does.
    Never,
    /// It does, also where other programs use the store.
    Always,
    /// It does for as long as no key lies outside the prefix.
    WhileAlone,
}

/// What a look at the store's room came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tended {
    /// Nothing is due, or it goes on with the next look.
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
        /// Its packed size.
        bytes: u64,
        /// What it may be at most.
        bytes_max: u64,
    },
    /// The snapshot is too long for the layout that the oldest listed node reads, however short it is packed: frames stay.
    TooLong {
        /// How long it is before it is packed.
        bytes: u64,
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

/// After how many bytes of frames a snapshot is due, where the last one took so many bytes in the store.
#[must_use]
pub fn due_bytes(quota_bytes: u64, packed_bytes: u64) -> u64 {
    let quota = if quota_bytes == 0 { QUOTA_BYTES } else { quota_bytes };
    let small = DUE_BYTES_MAX.min(quota / DUE_PARTS);
    small.max(packed_bytes.min(quota / LARGE_DUE_PARTS))
}

/// How long a packed snapshot may be.
#[must_use]
pub fn snapshot_bytes_max(quota_bytes: u64) -> u64 {
    let quota = if quota_bytes == 0 { QUOTA_BYTES } else { quota_bytes };
    quota / SNAPSHOT_PARTS
}

/// The smallest quota with which a packed snapshot of so many bytes fits, in the newest layout.
#[must_use]
pub fn quota_for(packed_bytes: u64) -> u64 {
    packed_bytes.saturating_mul(SNAPSHOT_PARTS)
}

impl Growth {
    /// Begins with what the store has. `writer` is this claim's value.
    ///
    /// # Errors
    /// When the store does not answer, or `floor` cannot be understood.
    pub fn begin(
        store: &dyn Store,
        keys: Keys,
        writer: Vec<u8>,
        compaction: Compaction,
    ) -> Result<Self, BootError> {
        let key = keys.floor();
        let ranged = store.range(&key, &format!("{key}\0"), 1, WITHIN)?;
        let found = ranged.found.first().ok_or(BootError::Missing { key })?;
        let floor = decode("floor", &found.value)?;
        let mine = Compare::Value { key: keys.writer(), value: writer };
        let compaction = still(compaction, store, &keys)?;
        Ok(Self {
            keys,
            mine,
            floor,
            floor_bytes: found.value.clone(),
            counted: None,
            candidate: None,
            putting: None,
            too_large: None,
            // The node that raised it may not have come further.
            is_swept: false,
            first_left: None,
            floor_revision: found.revision,
            compact_at: None,
            compacted: 0,
            compaction,
            layout: Layout::of(FIRST),
            program: None,
        })
    }

    /// Whether it lets go of what keys had before. Where that was for as long as it is alone, and it was found not to be, it
    /// does not for the rest of this term.
    #[must_use]
    pub fn compaction(&self) -> Compaction {
        self.compaction
    }

    /// Lets `floor` name the format of this program where it took the snapshot: one above `found`, the newest that was here
    /// when it began. An older program may have left that one, so its checksum is not for comparing.
    pub fn snapshots_are_of(&mut self, format: u32, found: Lsn) {
        self.program = Some((format, found));
    }

    /// Lets snapshots be put in the layout of this format, which every listed node reads; until it is told, in the first.
    /// One that is being put stays in the layout in which it began.
    pub fn write_up_to(&mut self, format: u32) {
        self.layout = Layout::of(format);
    }

    /// How long a packed snapshot may be.
    fn bytes_max(&self, quota_bytes: u64) -> u64 {
        let bytes_max = snapshot_bytes_max(quota_bytes);
        match self.layout {
            Layout::ByPiece => bytes_max,
            Layout::Former => bytes_max.min(FORMER_BYTES_MAX),
        }
    }

    /// Looks whether anything is due, and does the next part of it. `revision` is how far the store has come.
    ///
    /// # Errors
    /// When something failed; the next look tries again, from where it was.
    pub fn tend(
        &mut self,
        store: &dyn Store,
        mirror: &SharedMirror,
        quota_bytes: u64,
        revision: u64,
    ) -> Result<Tended, GrowthError> {
        if let Some(tended) = self.let_go(store, quota_bytes, revision)? {
            return Ok(tended);
        }
        if self.putting.is_none()
            && let Some(tended) = self.choose(mirror, quota_bytes)?
        {
            return Ok(tended);
        }
        self.put_on(store, mirror, quota_bytes)
    }

    /// Deletes and compacts what nobody needs any more. Needs no room: where there is none, this is what can be done, also
    /// by a leader whose authority is over and whose claim still stands. `Some`: that was something.
    ///
    /// # Errors
    /// When the store did not answer, or refused.
    pub fn let_go(
        &mut self,
        store: &dyn Store,
        quota_bytes: u64,
        revision: u64,
    ) -> Result<Option<Tended>, GrowthError> {
        if !self.is_swept {
            let is_own = self.compact_at.is_some();
            match self.sweep(store)? {
                Tended::Trimmed { .. } if !is_own => {}
                tended => return Ok(Some(tended)),
            }
        }
        Ok((!self.compact(store, quota_bytes, revision)?).then_some(Tended::Fenced))
    }

    /// Decides whether a snapshot is put into the store now. `Some`: it is not.
    fn choose(&mut self, mirror: &SharedMirror, quota_bytes: u64) -> Result<Option<Tended>, GrowthError> {
        let grown = self.grown(mirror);
        let due = due_bytes(quota_bytes, self.floor.packed_bytes);
        if grown < due {
            return Ok(Some(Tended::Quiet));
        }
        let snapshots = lock(mirror).snapshots();
        let newest = snapshots.newest().filter(|header| header.lsn.0 > self.floor.snapshot_lsn);
        if self.candidate.map(|candidate| candidate.header.lsn) != newest.map(|header| header.lsn) {
            self.candidate = newest.and_then(|header| candidate(mirror, header, grown));
        }
        let Some(candidate) = self.candidate else { return Ok(Some(Tended::SnapshotDue)) };
        let left = grown.saturating_sub(candidate.covered);
        let bytes = candidate.header.payload_bytes;
        if !self.layout.takes(bytes) {
            return Ok(Some(if left >= due { Tended::SnapshotDue } else { Tended::TooLong { bytes } }));
        }
        let bytes_max = self.bytes_max(quota_bytes);
        // What did not fit is not packed again: a newer one is tried when as much was written as brings a snapshot.
        if let Some((lsn, bytes)) = self.too_large
            && lsn == candidate.header.lsn
            && bytes > bytes_max
        {
            let told = if left >= due { Tended::SnapshotDue } else { Tended::TooLarge { bytes, bytes_max } };
            return Ok(Some(told));
        }
        // One that covers little leaves as much behind: a newer one first. Where much is written there is always a newer
        // one: what was due is enough.
        if left > candidate.covered && candidate.covered < due {
            return Ok(Some(Tended::SnapshotDue));
        }
        // A frame may tell of later ticks than the one it began with; who begins here must not fall behind them.
        let end = Head::of(candidate.number, &candidate.end);
        let floor = Floor {
            frame: candidate.number + 1,
            end: Head { tick: end.tick.max(candidate.header.at.tick), ..end },
            snapshot_lsn: candidate.header.lsn.0,
            format: match self.program {
                Some((format, found)) if candidate.header.lsn > found => format,
                _ => 0,
            },
            ..Floor::default()
        };
        let fits = bytes <= bytes_max;
        // Whether it fits is found out piece by piece, whatever the layout.
        let layout = if fits { self.layout } else { Layout::ByPiece };
        self.putting = Some(Putting { floor, pieces: open(&snapshots, candidate.header.lsn, layout)?, fits });
        Ok(None)
    }

    /// Bytes of the frames above the floor.
    fn grown(&mut self, mirror: &SharedMirror) -> u64 {
        let (counted, then) =
            *self.counted.get_or_insert_with(|| bytes_from(mirror, Lsn(self.floor.end.lsn).next()));
        counted + lock(mirror).taken_bytes().saturating_sub(then)
    }

    /// Goes on with the snapshot that is being put, and raises the floor once it is whole.
    fn put_on(
        &mut self,
        store: &dyn Store,
        mirror: &SharedMirror,
        quota_bytes: u64,
    ) -> Result<Tended, GrowthError> {
        let Some(mut putting) = self.putting.take() else { return Ok(Tended::Quiet) };
        let lsn = Lsn(putting.floor.snapshot_lsn);
        let unreadable = |why: String| GrowthError::Snapshot { lsn, why };
        if !putting.fits {
            let bytes_max = self.bytes_max(quota_bytes);
            for _ in 0..PIECES_PER_LOOK {
                if putting.pieces.next().map_err(|error| unreadable(error.to_string()))?.is_some() {
                    putting.pieces.taken();
                    continue;
                }
                let bytes = putting.pieces.bytes;
                if bytes > bytes_max {
                    self.too_large = Some((lsn, bytes));
                    return Ok(Tended::TooLarge { bytes, bytes_max });
                }
                let snapshots = lock(mirror).snapshots();
                (putting.pieces, putting.fits) = (open(&snapshots, lsn, self.layout)?, true);
                break;
            }
            self.putting = Some(putting);
            return Ok(Tended::Quiet);
        }
        let put = if has(Planted::TrimBeforeSnapshot) {
            Ok(Some(Put::default()))
        } else {
            putting.pieces.put_next(store, &self.keys, &self.mine, lsn, PIECES_PER_LOOK)
        };
        match put {
            Ok(Some(put)) => {
                if let Some(instead) = self.raise(store, putting.floor.with(lsn, &put))? {
                    return Ok(instead);
                }
                self.sweep(store)
            }
            Ok(None) => {
                self.putting = Some(putting);
                Ok(Tended::Quiet)
            }
            Err(PutError::Store(error)) => {
                self.putting = Some(putting);
                Err(error.into())
            }
            Err(PutError::Changed) => Ok(Tended::Fenced),
            Err(error @ PutError::TooMany) => {
                self.too_large = Some((lsn, u64::MAX));
                Err(unreadable(error.to_string()))
            }
            Err(PutError::Read(error)) => Err(unreadable(error.to_string())),
        }
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
        // Nothing was left below the floor before it.
        self.first_left = Some(self.floor.frame);
        (self.floor, self.floor_bytes) = (floor, value);
        (self.counted, self.candidate, self.is_swept) = (None, None, false);
        self.compact_at = Some(core::mem::replace(&mut self.floor_revision, revision));
    }

    /// Deletes what lies below the floor, in lots. Needs no room in the store. `Quiet`: there is more.
    ///
    /// # Errors
    /// When the store did not answer, or refused.
    pub fn sweep(&mut self, store: &dyn Store) -> Result<Tended, GrowthError> {
        for _ in 0..LOTS_PER_LOOK {
            let (lot, revision) = self.next_lot(store)?;
            let Some(lot) = lot else {
                self.is_swept = true;
                // The end of a trim that this writer began. One that another began may have ended long ago.
                if self.compact_at.is_some() {
                    self.floor_revision = revision;
                }
                return Ok(Tended::Trimmed { floor: self.floor.frame });
            };
            let upto = match &lot {
                Op::Delete { to, .. } => self.keys.frame_number(to),
                Op::Put { .. } | Op::Get { .. } => None,
            };
            let txn = Txn { compares: vec![self.mine.clone()], then: vec![lot], otherwise: Vec::new() };
            if !store.step(&txn, WITHIN)?.held {
                return Ok(Tended::Fenced);
            }
            self.first_left = upto.or(self.first_left);
        }
        Ok(Tended::Quiet)
    }

    /// What goes next, and how far the store has come. Frames first: they are what grows.
    fn next_lot(&mut self, store: &dyn Store) -> Result<(Option<Op>, u64), StoreError> {
        // etcd 3.4 walks through all keys of a range to find its first one, and steps that write wait for that. So a lot is
        // looked for where it must be; all frames below the floor are looked at once those are gone that were known of.
        let first_left = match self.first_left {
            Some(first_left) => first_left,
            None => self.find_first_left(store)?,
        };
        let (from, floor) = (self.keys.frame(first_left), self.keys.frame(self.floor.frame));
        let to = self.keys.frame(first_left.saturating_add(FRAMES_PER_LOT)).min(floor.clone());
        if from < to {
            let lot = next_lot(store, &self.keys, &from, &to)?;
            if lot.0.is_some() {
                return Ok(lot);
            }
        }
        let frames = next_lot(store, &self.keys, &self.keys.frame(0), &floor)?;
        if frames.0.is_some() {
            return Ok(frames);
        }
        let (first_piece, _) = self.keys.snapshots();
        let (first_kept, _) = self.keys.pieces(self.floor.snapshot_lsn);
        next_lot(store, &self.keys, &first_piece, &first_kept)
    }

    /// The first frame that an earlier writer has left below the floor, if it left any: they went from the first one on, so
    /// there is no gap.
    fn find_first_left(&mut self, store: &dyn Store) -> Result<u64, StoreError> {
        let is_there = |number: u64| {
            let (from, to) = (self.keys.frame(number), self.keys.frame(number + 1));
            store.range(&from, &to, 1, WITHIN).map(|ranged| !ranged.found.is_empty())
        };
        let (mut gone, mut left) = (0, self.floor.frame);
        if left > 0 && is_there(left - 1)? {
            left -= 1;
            while gone < left {
                let middle = gone.midpoint(left);
                if is_there(middle)? { left = middle } else { gone = middle + 1 }
            }
        }
        self.first_left = Some(left);
        Ok(left)
    }

    /// Lets go of what keys had before: up to the trim before the last one, so that a reader from before a trim has
    /// had until the next one; and without a trim, all but so many revisions. Counts what the store has, not what this process wrote.
    /// `false`: another claim stands, whose matter this is.
    fn compact(&mut self, store: &dyn Store, quota_bytes: u64, revision: u64) -> Result<bool, StoreError> {
        if self.compaction == Compaction::Never {
            return Ok(true);
        }
        let kept = match quota_bytes {
            0 => REVISIONS_KEPT,
            quota => quota / QUOTA_BYTES_PER_REVISION,
        };
        let grown = revision.saturating_sub(self.compacted.max(self.compact_at.unwrap_or(0)));
        let without_trim = (grown >= kept.saturating_mul(2)).then(|| revision.saturating_sub(kept));
        if let Some(upto) = self.compact_at.max(without_trim).filter(|upto| *upto > 0) {
            if !self.stands(store)? {
                return Ok(false);
            }
            // A program that has moved in meanwhile may need the history of its keys.
            self.compaction = still(self.compaction, store, &self.keys)?;
            if self.compaction == Compaction::Never {
                return Ok(true);
            }
            store.compact(upto, WITHIN)?;
            self.compacted = self.compacted.max(upto);
        }
        self.compact_at = None;
        Ok(true)
    }

    /// Whether this writer's claim stands. A compaction compares nothing: this is the step before it that does.
    fn stands(&self, store: &dyn Store) -> Result<bool, StoreError> {
        let key = self.keys.writer();
        // It deletes nothing, and makes this a write: no store answers that with what it had a while ago, and a store that is
        // full takes it.
        let nothing = Op::Delete { from: format!("{key}\0"), to: format!("{key}\0\0") };
        let txn = Txn { compares: vec![self.mine.clone()], then: vec![nothing], otherwise: Vec::new() };
        Ok(store.step(&txn, WITHIN)?.held)
    }
}

/// What a leader does now. What is not known is asked again. A user whose role covers the prefix alone cannot know who else
/// is there.
fn still(compaction: Compaction, store: &dyn Store, keys: &Keys) -> Result<Compaction, StoreError> {
    if compaction != Compaction::WhileAlone {
        return Ok(compaction);
    }
    let (first, last) = keys.all();
    for (from, to) in [("\0", first.as_str()), (last.as_str(), "\u{10ffff}")] {
        match store.range(from, to, 1, WITHIN) {
            Ok(ranged) if ranged.found.is_empty() => {}
            Ok(_) => return Ok(Compaction::Never),
            Err(StoreError::Refused { .. }) => {
                // A store that rejects this too has another reason, which may pass.
                let key = keys.meta();
                store.range(&key, &format!("{key}\0"), 1, WITHIN)?;
                return Ok(Compaction::Never);
            }
            Err(error @ StoreError::Unanswered { .. }) => return Err(error),
        }
    }
    Ok(Compaction::WhileAlone)
}

/// A step that deletes the first few keys from `from` up to `to`, and how far the store has come. `None`: there are none.
pub(crate) fn next_lot(
    store: &dyn Store,
    keys: &Keys,
    from: &str,
    to: &str,
) -> Result<(Option<Op>, u64), StoreError> {
    let ranged = store.range(from, to, 1, WITHIN)?;
    let Some(first) = ranged.found.into_iter().next().map(|found| found.key) else {
        return Ok((None, ranged.revision));
    };
    let end = if let Some(number) = keys.frame_number(&first) {
        keys.frame(number.saturating_add(FRAMES_PER_LOT))
    } else if let Some((lsn, index)) = keys.piece_number(&first) {
        let next = index + PIECES_PER_LOT;
        if next < PIECES_MAX as usize { keys.piece(lsn, next) } else { keys.pieces(lsn).1 }
    } else {
        format!("{first}\0")
    };
    let end = end.min(to.to_owned());
    Ok((Some(Op::Delete { from: first, to: end }), ranged.revision))
}

fn open(snapshots: &SnapshotStore, lsn: Lsn, layout: Layout) -> Result<Pieces<SnapshotReader>, GrowthError> {
    let opened =
        snapshots.open(lsn).map_err(|error| GrowthError::Snapshot { lsn, why: error.to_string() })?;
    Ok(Pieces::of(opened, layout))
}

/// A snapshot as a trim would use it; `None`: the frames after it cannot be read just now.
fn candidate(mirror: &SharedMirror, header: SnapshotHeader, grown: u64) -> Option<Candidate> {
    let (mut reader, last_number, last_lsn) = {
        let mirror = lock(mirror);
        (mirror.reader(), mirror.last_frame(), mirror.end().last_lsn)
    };
    reader.seek(header.lsn).ok()?;
    let (mut end, mut frames_after, mut left) = (None, 0, 0);
    while let Ok(Some((_, frame))) = reader.next_located() {
        let last = frame.header.last_lsn();
        if last > last_lsn {
            break;
        }
        if last <= header.lsn {
            end = Some(LogEnd::after(&frame.header, frame.is_close()));
        } else {
            frames_after += 1;
            left += frame.header.frame_bytes() as u64;
        }
    }
    let end = end.filter(|end| end.last_lsn == header.lsn)?;
    Some(Candidate { header, number: last_number - frames_after, end, covered: grown.saturating_sub(left) })
}

/// Bytes of the frames in this machine's copy from a position on, and of all that it has taken in.
fn bytes_from(mirror: &SharedMirror, from: Lsn) -> (u64, u64) {
    let (mut reader, taken, last) = {
        let mirror = lock(mirror);
        (mirror.reader(), mirror.taken_bytes(), mirror.end().last_lsn)
    };
    let mut bytes = 0;
    // A copy that begins later, or cannot be read, has nothing to count.
    if reader.seek(from).is_err() {
        return (0, taken);
    }
    while let Ok(Some((_, frame))) = reader.next_located() {
        if frame.header.last_lsn() > last {
            break;
        }
        bytes += frame.header.frame_bytes() as u64;
    }
    (bytes, taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{KeyValue, Ranged, Stepped, Watching};
    use std::sync::Mutex;

    /// The floor and the claim alone, and what was compacted.
    #[derive(Default)]
    struct FloorStore(Mutex<Inner>);

    #[derive(Default)]
    struct Inner {
        revision: u64,
        floor: Option<KeyValue>,
        compacted: Vec<u64>,
        /// The value of the claim that stands.
        writer: Vec<u8>,
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
            let writer = Keys::under("t").writer();
            let mut compares = txn.compares.iter();
            let is_fenced = compares.any(|compare| {
                matches!(compare, Compare::Value { key, value } if *key == writer && *value != inner.writer)
            });
            if is_fenced {
                return Ok(Stepped { held: false, found: Vec::new(), revision: inner.revision });
            }
            for op in &txn.then {
                if let Op::Put { key, value } = op {
                    inner.revision += 1;
                    let revision = inner.revision;
                    inner.floor = Some(KeyValue { key: key.clone(), value: value.clone(), revision });
                }
            }
            Ok(Stepped { held: true, found: Vec::new(), revision: inner.revision })
        }

        fn range(&self, from: &str, _: &str, _: usize, _: Duration) -> Result<Ranged, StoreError> {
            let inner = self.inner();
            let found = inner.floor.iter().filter(|floor| floor.key == from).cloned().collect();
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
        Floor { frame, snapshot_lsn: frame, ..Floor::default() }
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
        let mut growth = Growth::begin(store, Keys::under("t"), Vec::new(), Compaction::Always).unwrap();
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

    // It went on for as long as its process ran, beside the leader, and by what its own term had found.
    #[test]
    fn a_former_leader_compacts_nothing_any_more() {
        let (store, quota) = (store(), 2 << 30);
        let kept = quota / QUOTA_BYTES_PER_REVISION;
        let mut former = begins(&store);
        assert_eq!(former.let_go(&store, quota, 3 * kept).unwrap(), None);
        assert_eq!(store.compacted(), [2 * kept], "its claim stands, whether or not it has authority");
        store.inner().writer = b"of the next leader".to_vec();
        assert_eq!(former.let_go(&store, quota, 9 * kept).unwrap(), Some(Tended::Fenced));
        assert!(store.compacted().is_empty());
    }

    #[test]
    fn who_is_not_to_compact_does_not() {
        let store = store();
        let mut growth = Growth::begin(&store, Keys::under("t"), Vec::new(), Compaction::Never).unwrap();
        trims(&mut growth, &store, 0);
        growth.compact(&store, 0, 100 * REVISIONS_KEPT).unwrap();
        assert!(store.compacted().is_empty());
    }
}
