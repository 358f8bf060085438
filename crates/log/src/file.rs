//! The log in files: zero-filled segments, one frame per batch, one sync per frame.
//!
//! Invariant: everything before `offset` in the current segment is durable, `end` describes its last frame, and at most
//! one frame after it is in the file unsynced. After the first failed write or sync nothing is written any more.

mod catalog;
mod earlier;
mod mirror;
mod offline;
mod open;
mod raw;
mod reader;
mod recovery;
mod repair;
mod restore;
mod rotate;
mod scan;
mod segment;
mod spare;
mod tail;
mod window;

pub use earlier::{Beginning, Earlier, EarlierError, EarlierSegment, Junction, Taken};
pub use mirror::{CopyError, CopyOf, Mirror, SyncApart};
pub use offline::{OfflineFrames, OfflineLog, Verification};
pub use open::{ARRIVING_MARKER, MOVED_MARKER, OpenError};
pub use raw::RawFrames;
pub use reader::{FileReader, Position};
pub use recovery::{Ended, Gap, Recovery};
pub use restore::{RestoreError, Restored, restore};
pub use scan::LocatedFrame;
pub use segment::{
    SEGMENT_HEADER_BYTES, SEGMENT_VERSION, Seal, SegmentHeader, parse_segment_name, segment_name,
};
pub use tail::Cut;

pub(crate) use spare::ChoreResult;

use std::io;
use std::path::{Path, PathBuf};

use crate::batch::Batch;
use crate::disk::{DiskFile, DiskLock, SharedDisk};
use crate::end::LogEnd;
use crate::frame::FRAME_HEADER_BYTES;
use crate::identity::{Genesis, Identity};
use crate::ids::{BatchId, Lsn, Moment};
use crate::ordered::{
    AppendError, AppendOutcome, Authority, BatchRefusal, Chore, ChoreDone, Extent, OrderedLog, Resolution,
    Space, Trimmed,
};
use crate::planted::{self, Planted};
use crate::snapshot::SnapshotStore;

use open::Begins;
use reader::{Durable, Published};
use segment::SealFound;
use spare::{SPARES_KEPT, Spare};

/// The usual length of a segment.
pub const SEGMENT_BYTES: u64 = 64 << 20;
/// The longest segment made on the hot path, when no spare is ready; also the first one, so that a start is quick.
pub const INLINE_SEGMENT_BYTES_MAX: u64 = 4 << 20;

/// How a file log is opened.
#[derive(Clone, Debug)]
pub struct FileLogOptions {
    /// What a new log's identity is made from; unused if the log exists.
    pub genesis: Genesis,
    /// Unix milliseconds now, for people.
    pub wall_ms: u64,
    /// How long segments are made. Small ones are for tests.
    pub segment_bytes: u64,
    /// Below this many free bytes on the file system [`Space::Low`] is answered.
    pub free_bytes_min: u64,
    /// Where trimmed segments go; `None`: they are deleted.
    pub archive: Option<PathBuf>,
}

impl FileLogOptions {
    /// The usual settings.
    pub fn new(genesis: Genesis, wall_ms: u64) -> Self {
        Self {
            genesis,
            wall_ms,
            segment_bytes: SEGMENT_BYTES,
            free_bytes_min: 3 * SEGMENT_BYTES,
            archive: None,
        }
    }

    fn inline_bytes(&self) -> u64 {
        self.segment_bytes.clamp(SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES as u64, INLINE_SEGMENT_BYTES_MAX)
    }
}

/// Where things are in a data directory.
#[derive(Clone, Debug)]
struct Directories {
    log: PathBuf,
    snapshots: PathBuf,
}

impl Directories {
    fn under(root: &Path) -> Self {
        Self { log: root.join("log"), snapshots: root.join("snapshots") }
    }
}

/// The embedded log of one data directory. Dropping it lets go of the directory; [`OrderedLog::close`] ends it cleanly.
pub struct FileLog {
    disk: SharedDisk,
    directories: Directories,
    options: FileLogOptions,
    /// The segment being written.
    header: SegmentHeader,
    file: Box<dyn DiskFile>,
    file_bytes: u64,
    offset: u64,
    next_lsn: Lsn,
    end: LogEnd,
    /// Frames in the segment being written.
    frames: u64,
    published: Published,
    snapshots: SnapshotStore,
    spares: Vec<Spare>,
    spare_number: u64,
    spare_failed: bool,
    chore_under_way: bool,
    to_remove: Vec<PathBuf>,
    /// Removing failed: a spare that is wanted comes before the next try.
    removal_failed: bool,
    frame: Vec<u8>,
    state: State,
    _lock: Box<dyn DiskLock>,
}

/// Whether the log still takes batches.
enum State {
    Open,
    Closed,
    /// What is on the disk is not known any more.
    Failed {
        first: String,
    },
}

impl FileLog {
    /// Opens the log under `root`, creating it if there is none, and says what was found.
    pub fn open(
        disk: SharedDisk,
        root: &Path,
        options: FileLogOptions,
    ) -> Result<(Self, Recovery), OpenError> {
        Self::open_as(disk, root, options, Begins::Incarnation)
    }

    fn open_as(
        disk: SharedDisk,
        root: &Path,
        options: FileLogOptions,
        begins: Begins<'_>,
    ) -> Result<(Self, Recovery), OpenError> {
        let opened = open::open(&disk, root, &options, begins)?;
        let current = opened.segments.last().expect("invariant: a log has a segment");
        let (header, file_bytes) = (current.header, current.file_bytes);
        let published = Published::new(durable_parts(&opened));
        let log = Self {
            disk,
            directories: opened.directories,
            options,
            header,
            file: opened.file,
            file_bytes,
            offset: opened.offset,
            next_lsn: opened.end.last_lsn.next(),
            end: opened.end,
            frames: opened.frames,
            published,
            snapshots: opened.snapshots,
            spares: opened.spares,
            spare_number: opened.spare_number,
            spare_failed: false,
            chore_under_way: false,
            to_remove: Vec::new(),
            removal_failed: false,
            frame: Vec::new(),
            state: State::Open,
            _lock: opened.lock,
        };
        Ok((log, opened.recovery))
    }

    /// Where the log ends.
    #[must_use]
    pub fn end(&self) -> LogEnd {
        self.end
    }

    fn check(&self, batch: &Batch) -> Result<(), AppendError> {
        match &self.state {
            State::Open => {}
            State::Closed => return Err(AppendError::Closed),
            State::Failed { first } => return Err(AppendError::FailedEarlier { first: first.clone() }),
        }
        let refused = |refusal: BatchRefusal| Err(refusal.into());
        if batch.count() == 0 {
            return refused(BatchRefusal::Empty);
        }
        if batch.first_lsn() != self.next_lsn {
            return refused(BatchRefusal::Position { expected: self.next_lsn, found: batch.first_lsn() });
        }
        let last = self.end.last_batch;
        if batch.id() <= last || batch.id().writer_epoch() != last.writer_epoch() {
            return refused(BatchRefusal::Id { last, found: batch.id() });
        }
        if batch.at().tick < self.end.at.tick {
            return refused(BatchRefusal::TickBack { last: self.end.at.tick, found: batch.at().tick });
        }
        Ok(())
    }

    fn write(&mut self, batch: &Batch) -> Result<(), AppendError> {
        self.make_room((FRAME_HEADER_BYTES + batch.payload().len()) as u64)?;
        self.frame.clear();
        let end = self.end.follow(batch, self.header.identity.salt, &mut self.frame);
        self.write_frame()?;
        if !planted::has(Planted::SyncSkipped) {
            self.file.sync().map_err(failed("sync a frame"))?;
        }
        self.frame_placed(end);
        Ok(())
    }

    /// Goes on in the next segment if this one has no room.
    fn make_room(&mut self, frame_bytes: u64) -> Result<(), AppendError> {
        let holds_records = self.next_lsn > self.header.first_lsn;
        // A segment without records grows instead: its successor would get the same name.
        if self.offset + frame_bytes > self.file_bytes && holds_records {
            self.rotate(frame_bytes)?;
        }
        Ok(())
    }

    /// Writes the frame that has been prepared.
    fn write_frame(&mut self) -> Result<(), AppendError> {
        self.file.write_at(&self.frame, self.offset).map_err(failed("write a frame"))
    }

    /// The frame that was written is part of the log.
    fn frame_placed(&mut self, end: LogEnd) {
        self.offset += self.frame.len() as u64;
        self.file_bytes = self.file_bytes.max(self.offset);
        self.frames += 1;
        self.next_lsn = end.last_lsn.next();
        self.end = end;
        self.published.advance(self.offset, self.end.last_lsn);
    }

    fn commit(&mut self, batch: &Batch) -> AppendOutcome {
        if let Err(error) = self.check(batch) {
            return AppendOutcome::Failed(error);
        }
        match self.write(batch) {
            Ok(()) => AppendOutcome::Committed { synced: self.end.last_lsn },
            Err(error) => {
                self.state = State::Failed { first: describe(&error) };
                AppendOutcome::Failed(error)
            }
        }
    }
}

impl OrderedLog for FileLog {
    fn identity(&self) -> Identity {
        self.header.identity
    }

    fn writer_epoch(&self) -> u64 {
        self.end.writer_epoch
    }

    fn authority_until(&self) -> Authority {
        Authority::Forever
    }

    fn next_lsn(&self) -> Lsn {
        self.next_lsn
    }

    fn synced_lsn(&self) -> Lsn {
        self.end.last_lsn
    }

    fn extents(&self) -> Vec<Extent> {
        self.published.lock().iter().map(Durable::extent).collect()
    }

    fn append(&mut self, batch: &Batch) -> AppendOutcome {
        self.commit(batch)
    }

    fn resolve(&mut self, batch: BatchId) -> Resolution {
        let last = self.end.last_batch;
        let mine = batch.writer_epoch() == last.writer_epoch();
        match &self.state {
            State::Open | State::Closed | State::Failed { .. } if mine && batch <= last => {
                Resolution::Committed { synced: self.end.last_lsn }
            }
            State::Open | State::Closed if mine => Resolution::Absent,
            // Only the next start can say whether a frame whose sync failed is on the disk.
            State::Open | State::Closed | State::Failed { .. } => Resolution::Unknown,
        }
    }

    fn reader(&self) -> FileReader {
        FileReader::new(self.disk.clone(), self.directories.log.clone(), self.published.clone())
    }

    fn snapshots(&self) -> SnapshotStore {
        self.snapshots.clone()
    }

    fn trim(&mut self, below: Lsn) -> Trimmed {
        let floor = self.snapshots.trim_floor();
        let mut trimmed = Trimmed::default();
        let mut segments = self.published.lock();
        let sealed = segments.len() - 1;
        let whole = |segment: &Durable| segment.last_lsn < below && segment.last_lsn <= floor;
        let count = segments[..sealed].iter().take_while(|segment| whole(segment)).count();
        for segment in segments.drain(..count) {
            trimmed.extents += 1;
            trimmed.bytes += segment.file_bytes;
            self.to_remove.push(self.directories.log.join(segment_name(segment.first_lsn)));
        }
        trimmed
    }

    fn space(&self) -> Space {
        let enough =
            self.disk.free_bytes(&self.directories.log).is_ok_and(|free| free >= self.options.free_bytes_min);
        if enough && !self.spare_failed { Space::Ok } else { Space::Low }
    }

    fn wants_chore(&self) -> bool {
        !self.chore_under_way && (!self.to_remove.is_empty() || self.spares.len() < SPARES_KEPT)
    }

    fn chore(&mut self) -> Option<Chore> {
        if self.chore_under_way {
            return None;
        }
        let makes_spare = self.spares.len() < SPARES_KEPT && self.spare_may_succeed();
        let comes_after_spare = self.removal_failed && makes_spare;
        let chore = if !self.to_remove.is_empty() && !comes_after_spare {
            let files = std::mem::take(&mut self.to_remove);
            spare::remove_chore(self.disk.clone(), files, self.options.archive.clone())
        } else if makes_spare {
            self.spare_number += 1;
            let directory = self.directories.log.clone();
            let (number, bytes) = (self.spare_number - 1, self.options.segment_bytes);
            spare::make_chore(self.disk.clone(), directory, number, bytes, self.fill())
        } else {
            return None;
        };
        self.chore_under_way = true;
        Some(chore)
    }

    fn chore_done(&mut self, done: ChoreDone) {
        self.chore_under_way = false;
        match done.0 {
            ChoreResult::SpareMade(spare) => {
                self.spare_failed = false;
                self.spares.push(spare);
            }
            ChoreResult::SpareFailed(_) => (self.spare_failed, self.removal_failed) = (true, false),
            ChoreResult::Removed => self.removal_failed = false,
            ChoreResult::RemovalFailed { left, .. } => {
                self.removal_failed = true;
                self.to_remove.splice(0..0, left);
            }
        }
    }

    fn close(&mut self, at: Moment) -> AppendOutcome {
        let at = Moment { tick: at.tick.max(self.end.at.tick), wall_ms: at.wall_ms };
        let outcome = self.commit(&Batch::close(self.end.last_batch.next(), self.next_lsn, at));
        if matches!(outcome, AppendOutcome::Committed { .. }) {
            self.end.closed = true;
            self.state = State::Closed;
        }
        outcome
    }
}

/// What readers may see of the segments that were found.
fn durable_parts(opened: &open::Opened) -> Vec<Durable> {
    let last = opened.segments.len() - 1;
    let durable = |(index, segment): (usize, &catalog::Segment)| {
        let (end, last_lsn) = match segment.seal {
            SealFound::Sealed(seal) => (seal.end, seal.last_lsn),
            SealFound::Open | SealFound::Invalid => {
                assert_eq!(index, last, "invariant: all segments but the last are sealed once a log is open");
                (opened.offset, opened.end.last_lsn)
            }
        };
        durable_part(segment, end, last_lsn)
    };
    opened.segments.iter().enumerate().map(durable).collect()
}

fn durable_part(segment: &catalog::Segment, end: u64, last_lsn: Lsn) -> Durable {
    Durable {
        first_lsn: segment.header.first_lsn,
        previous_lsn: segment.header.previous_lsn,
        last_lsn,
        end,
        file_bytes: segment.file_bytes,
        salt: segment.header.identity.salt,
        began_tick: segment.header.at.tick,
    }
}

fn failed(action: &'static str) -> impl FnOnce(io::Error) -> AppendError {
    move |source| AppendError::Io { action, source }
}

fn describe(error: &AppendError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
