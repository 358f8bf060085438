//! The ordered log as its users see it: append at an expected position, read what is durable, keep it bounded.
//!
//! Nothing here says file. A remote log answers the same calls; what only it needs (unknown, fenced, authority that
//! ends) is part of the contract from the start.

use std::io;

use crate::batch::Batch;
use crate::file::{ChoreResult, FileReader};
use crate::identity::Identity;
use crate::ids::{BatchId, Lsn, Moment};
use crate::snapshot::SnapshotStore;

/// What became of a batch.
#[derive(Debug)]
#[must_use]
pub enum AppendOutcome {
    /// Durable, with everything before it. `synced` is the last durable LSN.
    Committed {
        /// The last durable LSN.
        synced: Lsn,
    },
    /// Another writer has taken over; this one's state is void.
    Fenced,
    /// It may or may not be in the log: freeze outputs, [`OrderedLog::resolve`], append the same batch again if absent.
    Unknown,
    /// Not committed and never will be by this writer; the process stops.
    Failed(AppendError),
}

/// Why an append failed.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The disk refused a write or a sync. Never retried: after a failed sync nobody knows what is on the disk.
    #[error("the log failed to {action}")]
    Io {
        /// What was being done.
        action: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// An earlier append failed, so this one was not tried.
    #[error("the log failed earlier: {first}")]
    FailedEarlier {
        /// The first failure.
        first: String,
    },
    /// The log has been closed.
    #[error("the log is closed")]
    Closed,
    /// The log holds what this writer did not write.
    #[error("the log is not what this leader wrote: {why}")]
    Foreign {
        /// What is wrong.
        why: String,
    },
    /// The caller's idea of the log is wrong. Nothing was written.
    #[error("the batch does not fit the log: {0}")]
    Refused(#[from] BatchRefusal),
}

/// What is wrong with a batch at this position. A mistake of the caller; the log is unharmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchRefusal {
    /// It has no records.
    #[error("it has no records")]
    Empty,
    /// It does not begin at the next LSN.
    #[error("it begins at lsn {found}, the log continues at {expected}")]
    Position {
        /// Where the log goes on.
        expected: Lsn,
        /// Where the batch begins.
        found: Lsn,
    },
    /// Its id is not above the last one, or belongs to another incarnation.
    #[error("its id {found} does not follow {last}")]
    Id {
        /// The last id committed.
        last: BatchId,
        /// The batch's id.
        found: BatchId,
    },
    /// Its tick lies before one already in the log.
    #[error("its tick {found} is before {last}")]
    TickBack {
        /// The last frame's tick.
        last: u64,
        /// The batch's tick.
        found: u64,
    },
}

/// What is known about a batch whose outcome was unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It is in the log, durably.
    Committed {
        /// The last durable LSN.
        synced: Lsn,
    },
    /// It is not in the log; the same batch may be appended again at the same position.
    Absent,
    /// Another writer has taken over.
    Fenced,
    /// Still not known.
    Unknown,
    /// The log holds what this writer did not write; the process stops.
    Corrupt,
}

/// How long this writer may answer from its own state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    /// No other writer can take over while this one lives.
    Forever,
    /// Until this instant on CLOCK_BOOTTIME.
    Until {
        /// Milliseconds of CLOCK_BOOTTIME.
        boot_ms: u64,
    },
}

/// What became of a writer's proof of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It counts: authority lasts longer now.
    Held,
    /// Another writer has taken over.
    Fenced,
    /// Nobody answered; it does not count.
    Unknown,
}

/// Whether there is room to grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Room for ordinary work.
    Ok,
    /// Only what frees something should still be written.
    Low,
}

/// A stretch of the log that is kept or trimmed as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first LSN it may hold.
    pub first_lsn: Lsn,
    /// The last LSN it holds; below `first_lsn` if it holds none.
    pub last_lsn: Lsn,
    /// What it takes from the store.
    pub bytes: u64,
    /// Of them, those that hold frames.
    pub used_bytes: u64,
    /// Tick of the last frame before it: nothing in it is older.
    pub began_tick: u64,
}

impl Extent {
    /// Bytes of frames after `lsn`. Where `lsn` lies inside, its records count as equally long.
    fn used_bytes_above(&self, lsn: Lsn) -> u64 {
        let records = self.last_lsn.next().0.saturating_sub(self.first_lsn.0);
        let above = self.last_lsn.0.saturating_sub(lsn.0).min(records);
        let share = u128::from(self.used_bytes) * u128::from(above) / u128::from(records.max(1));
        u64::try_from(share).unwrap_or(self.used_bytes)
    }
}

/// Bytes of frames after `lsn`, whichever process wrote them.
#[must_use]
pub fn bytes_above(extents: &[Extent], lsn: Lsn) -> u64 {
    extents.iter().map(|extent| extent.used_bytes_above(lsn)).sum()
}

/// How much of the past is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryWindow {
    /// In bytes of log.
    pub bytes_max: u64,
    /// By age: the tick of the oldest that is wanted. Ticks count the time that the log was served, so that neither a
    /// clock that was set nor a stop ages anything.
    pub oldest_tick: u64,
}

impl HistoryWindow {
    /// The newest of `extents` (oldest first) with which the past is more or older than wanted: it is the last one that
    /// is kept. `None`: there is room for more.
    #[must_use]
    pub fn filled_by<'a>(&self, extents: &'a [Extent]) -> Option<&'a Extent> {
        let mut bytes = 0_u64;
        extents.iter().rev().find(|extent| {
            bytes = bytes.saturating_add(extent.bytes);
            bytes > self.bytes_max || extent.began_tick < self.oldest_tick
        })
    }
}

/// What [`OrderedLog::trim`] let go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// How many extents.
    pub extents: usize,
    /// How many bytes come free once the chore that removes them has run.
    pub bytes: u64,
}

/// Work the log wants done away from the hot path, on any thread.
#[must_use]
pub struct Chore(pub(crate) Box<dyn FnOnce() -> ChoreDone + Send>);

impl Chore {
    /// Does the work; the result goes back to [`OrderedLog::chore_done`].
    pub fn run(self) -> ChoreDone {
        (self.0)()
    }
}

/// What a chore is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChoreKind {
    /// A segment is made ahead.
    Spare,
    /// Trimmed segments are deleted or moved to the archive.
    Removal,
}

/// The result of a chore.
#[derive(Debug)]
#[must_use]
pub struct ChoreDone(pub(crate) ChoreResult);

impl ChoreDone {
    /// Which work it was.
    #[must_use]
    pub fn kind(&self) -> ChoreKind {
        match &self.0 {
            ChoreResult::SpareMade(_) | ChoreResult::SpareFailed(_) => ChoreKind::Spare,
            ChoreResult::Removed | ChoreResult::RemovalFailed { .. } => ChoreKind::Removal,
        }
    }

    /// Why the work failed, for people. The log itself learns of it by [`OrderedLog::chore_done`] and copes.
    pub fn error(&self) -> Option<&io::Error> {
        match &self.0 {
            ChoreResult::SpareMade(_) | ChoreResult::Removed => None,
            ChoreResult::SpareFailed(error) | ChoreResult::RemovalFailed { error, .. } => Some(error),
        }
    }
}

/// Bytes in order, durable when acknowledged, one writer at a time.
pub trait OrderedLog: Send {
    /// Who this log is.
    fn identity(&self) -> Identity;
    /// This writer's incarnation; in every frame it writes.
    fn writer_epoch(&self) -> u64;
    /// How long this writer may answer from its own state.
    fn authority_until(&self) -> Authority;
    /// When authority should be made longer, in milliseconds of CLOCK_BOOTTIME, unless a batch does so first. `None`:
    /// it does not end.
    fn proof_due_ms(&self) -> Option<u64> {
        None
    }
    /// Makes authority longer without writing. `tick` is the writer's present one.
    fn prove(&mut self, _tick: u64) -> Proof {
        Proof::Held
    }
    /// The LSN at which the next batch must begin; after a cut, past the gap.
    fn next_lsn(&self) -> Lsn;
    /// The last durable LSN.
    fn synced_lsn(&self) -> Lsn;
    /// What is kept, oldest first; the last one is being written.
    fn extents(&self) -> Vec<Extent>;
    /// Writes the batch at its position and makes it durable.
    fn append(&mut self, batch: &Batch) -> AppendOutcome;
    /// Finds out what became of a batch of this incarnation.
    fn resolve(&mut self, batch: BatchId) -> Resolution;
    /// A reader for another thread. It sees only durable frames, however the append goes on.
    fn reader(&self) -> FileReader;
    /// Where snapshots are stored and loaded; works from any thread, without the log.
    fn snapshots(&self) -> SnapshotStore;
    /// Lets go of whole extents that lie below `below` and below the older of two snapshots. With fewer than two
    /// snapshots nothing is let go: one damaged file must not cost the state.
    fn trim(&mut self, below: Lsn) -> Trimmed;
    /// Whether there is room for more than what frees something.
    fn space(&self) -> Space;
    /// Whether asking for a chore is worth it. Cheap: asked after every append.
    fn wants_chore(&self) -> bool;
    /// The next piece of work away from the hot path, if there is any and none is under way. What failed is offered
    /// again: after a [`ChoreDone::error`] the caller waits a while before it asks.
    fn chore(&mut self) -> Option<Chore>;
    /// Takes back the result of a chore.
    fn chore_done(&mut self, done: ChoreDone);
    /// Ends the log with a close record, durably. Nothing can be appended after it. A tick before the last one is raised to it.
    fn close(&mut self, at: Moment) -> AppendOutcome;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extents(of: &[(u64, u64)]) -> Vec<Extent> {
        let extent = |(bytes, began_tick): &(u64, u64)| Extent {
            first_lsn: Lsn(*began_tick),
            last_lsn: Lsn(*began_tick + 99),
            bytes: *bytes,
            used_bytes: *bytes,
            began_tick: *began_tick,
        };
        of.iter().map(extent).collect()
    }

    #[test]
    fn a_window_is_filled_by_the_extent_that_is_too_much_or_too_old() {
        let kept = extents(&[(10, 100), (10, 200), (10, 300)]);
        let filled_by = |bytes_max, oldest_tick| {
            let window = HistoryWindow { bytes_max, oldest_tick };
            window.filled_by(&kept).map(|extent| extent.began_tick)
        };
        assert_eq!(filled_by(30, 100), None);
        assert_eq!(filled_by(29, 0), Some(100));
        assert_eq!(filled_by(19, 0), Some(200));
        assert_eq!(filled_by(5, 0), Some(300));
        assert_eq!(filled_by(30, 101), Some(100));
        assert_eq!(filled_by(30, 250), Some(200));
    }

    #[test]
    fn bytes_above_a_position_are_those_of_the_extents_after_it_and_a_share_of_its_own() {
        let kept = extents(&[(1_000, 100), (1_000, 200), (500, 300)]);
        let above = |lsn| bytes_above(&kept, Lsn(lsn));
        assert_eq!((above(0), above(99), above(199)), (2_500, 2_500, 1_500));
        assert_eq!((above(249), above(399), above(1_000)), (1_000, 0, 0));
        let empty = Extent { last_lsn: Lsn(399), first_lsn: Lsn(400), ..kept[2] };
        assert_eq!(bytes_above(&[empty], Lsn(0)), 0, "no record, nothing to cover");
    }
}
