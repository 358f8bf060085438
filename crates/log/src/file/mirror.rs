//! A copy of a log that is kept elsewhere: the same frames, byte for byte, in the same segments. It writes nothing of its
//! own; whatever is torn is cut and copied again. So its frames need not be synced one by one: a caller that waits for
//! one waits for where the log is kept.
//!
//! Invariant: a frame is taken in only if it continues the one before it. Only in the last segment may frames be unsynced,
//! and only its last [`UNSYNCED_BYTES_MAX`].

use std::io;
use std::path::{Path, PathBuf};

use super::open::Begins;
use super::{FileLog, FileLogOptions, FileReader, OpenError, Recovery, SegmentHeader, State, segment_name};
use crate::disk::{OpenMode, SharedDisk};
use crate::end::LogEnd;
use crate::frame::{self, FrameError, FrameHeader};
use crate::identity::Identity;
use crate::ids::Lsn;
use crate::ordered::{AppendError, Chore, ChoreDone, Extent, OrderedLog, Space, Trimmed};
use crate::snapshot::SnapshotStore;

/// What is copied, and from where on if there is nothing yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyOf {
    /// Who the log is.
    pub identity: Identity,
    /// The LSN at which that identity began.
    pub identity_since: Lsn,
    /// The log it continues; 0: none.
    pub parent_log_id: u64,
    /// The number of the first frame to copy.
    pub first_frame: u64,
    /// What that frame continues.
    pub end: LogEnd,
}

/// A node's own copy of a log.
pub struct Mirror {
    pub(super) log: FileLog,
    /// Bytes of all frames that this process has taken in.
    taken_bytes: u64,
    /// So many of them are synced, the first ones.
    synced_bytes: u64,
}

/// Bytes of frames that may be written before they are synced together.
const UNSYNCED_BYTES_MAX: u64 = 1 << 20;

/// Why a frame was not taken in. The copy is as it was.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The bytes are no frame.
    #[error("frame {number} cannot be read")]
    Frame {
        /// Which.
        number: u64,
        /// What is wrong.
        #[source]
        source: FrameError,
    },
    /// It does not continue what is here.
    #[error("frame {number} does not continue the log at lsn {after}")]
    Chain {
        /// Which.
        number: u64,
        /// Where the log here ends.
        after: Lsn,
    },
    /// The disk refused.
    #[error(transparent)]
    Write(#[from] AppendError),
}

/// Frames of a copy that are to be synced. Frames in earlier segments are synced already.
pub struct SyncApart {
    disk: SharedDisk,
    path: PathBuf,
    /// What the copy had taken in when this began.
    taken_bytes: u64,
}

impl SyncApart {
    /// Syncs them; may take a while.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn sync(&self) -> io::Result<()> {
        self.disk.open(&self.path, OpenMode::Write)?.sync()
    }
}

impl CopyOf {
    pub(super) fn first_header(&self) -> SegmentHeader {
        SegmentHeader {
            identity: self.identity,
            identity_since: self.identity_since,
            parent_log_id: self.parent_log_id,
            first_lsn: self.end.last_lsn.next(),
            previous_lsn: self.end.last_lsn,
            previous_checksum: self.end.checksum,
            writer_epoch: self.end.writer_epoch,
            at: self.end.at,
            file_bytes: 0,
            first_frame: self.first_frame,
        }
    }
}

impl Mirror {
    /// Opens the copy under `root`, or begins one.
    ///
    /// # Errors
    /// When it is in use, or cannot be read.
    pub fn open(
        disk: SharedDisk,
        root: &Path,
        options: FileLogOptions,
        of: &CopyOf,
    ) -> Result<(Self, Recovery), OpenError> {
        let (log, recovery) = FileLog::open_as(disk, root, options, Begins::Copying(of))?;
        Ok((Self { log, taken_bytes: 0, synced_bytes: 0 }, recovery))
    }

    /// Takes in the next frame and says what it is. `bytes` is exactly one frame.
    ///
    /// # Errors
    /// When it is not the next one, or the disk refused it or one before it.
    pub fn copy(&mut self, bytes: &[u8]) -> Result<FrameHeader, CopyError> {
        if let State::Failed { first } = &self.log.state {
            return Err(AppendError::FailedEarlier { first: first.clone() }.into());
        }
        let number = self.last_frame() + 1;
        let salt = self.log.header.identity.salt;
        let frame = frame::decode(bytes, salt).map_err(|source| CopyError::Frame { number, source })?;
        let fits = frame.header.frame_bytes() == bytes.len() && self.log.end.is_continued_by(&frame.header);
        if !fits {
            return Err(CopyError::Chain { number, after: self.log.end.last_lsn });
        }
        let header = frame.header;
        let end = LogEnd::after(&header, frame.is_close());
        let is_full = self.log.offset + bytes.len() as u64 > self.log.file_bytes;
        if is_full || self.unsynced_bytes() >= UNSYNCED_BYTES_MAX {
            self.sync()?;
        }
        self.log.make_room(bytes.len() as u64)?;
        self.log.frame.clear();
        self.log.frame.extend_from_slice(bytes);
        self.log.write_frame()?;
        self.log.frame_placed(end);
        self.taken_bytes += bytes.len() as u64;
        Ok(header)
    }

    fn unsynced_bytes(&self) -> u64 {
        self.taken_bytes - self.synced_bytes
    }

    /// Makes sure that everything taken in is on the disk. After a failure nothing more is taken in.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn sync(&mut self) -> Result<(), AppendError> {
        if self.unsynced_bytes() == 0 {
            return Ok(());
        }
        let synced = self.log.file.sync().map_err(super::failed("sync the local log"));
        match &synced {
            Ok(()) => self.synced_bytes = self.taken_bytes,
            Err(error) => self.log.state = State::Failed { first: super::describe(error) },
        }
        synced
    }

    /// What is to be synced, for a thread that syncs it without keeping others from this copy; `None`: nothing.
    ///
    /// # Errors
    /// When an earlier write or sync failed.
    pub fn sync_apart(&self) -> Result<Option<SyncApart>, AppendError> {
        if let State::Failed { first } = &self.log.state {
            return Err(AppendError::FailedEarlier { first: first.clone() });
        }
        let path = self.log.directories.log.join(segment_name(self.log.header.first_lsn));
        let (disk, taken_bytes) = (self.log.disk.clone(), self.taken_bytes);
        Ok((self.unsynced_bytes() > 0).then_some(SyncApart { disk, path, taken_bytes }))
    }

    /// Takes in what became of such a sync. After a failure nothing more is taken in: the system may drop what it could
    /// not write, and the next sync would succeed without it.
    ///
    /// # Errors
    /// When the sync failed.
    pub fn synced_apart(&mut self, done: &SyncApart, synced: io::Result<()>) -> Result<(), AppendError> {
        let synced = synced.map_err(super::failed("sync the local log"));
        match &synced {
            // Another thread may have synced more meanwhile.
            Ok(()) => self.synced_bytes = self.synced_bytes.max(done.taken_bytes),
            Err(error) => self.log.state = State::Failed { first: super::describe(error) },
        }
        synced
    }

    /// Bytes of all frames that were taken in since it was opened.
    #[must_use]
    pub fn taken_bytes(&self) -> u64 {
        self.taken_bytes
    }

    /// Makes a log of its own of this copy; what it was copied from must have ended for good.
    ///
    /// # Errors
    /// When the disk refuses; trying again does no harm.
    pub fn become_log(mut self) -> Result<(), AppendError> {
        self.log.header.first_frame = 0;
        self.log
            .file
            .write_at(&self.log.header.encode(), 0)
            .map_err(super::failed("write a segment's header"))?;
        self.log.file.sync().map_err(super::failed("sync a segment's header"))
    }

    /// The number of the last frame here.
    #[must_use]
    pub fn last_frame(&self) -> u64 {
        self.log.header.first_frame + self.log.frames - 1
    }

    /// Where the copy ends.
    #[must_use]
    pub fn end(&self) -> LogEnd {
        self.log.end
    }

    /// Who the log is.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.log.identity()
    }

    /// A reader for another thread.
    #[must_use]
    pub fn reader(&self) -> FileReader {
        self.log.reader()
    }

    /// Where snapshots are stored and loaded.
    #[must_use]
    pub fn snapshots(&self) -> SnapshotStore {
        self.log.snapshots()
    }

    /// What is kept, oldest first.
    #[must_use]
    pub fn extents(&self) -> Vec<Extent> {
        self.log.extents()
    }

    /// Lets go of history; see [`OrderedLog::trim`].
    pub fn trim(&mut self, below: Lsn) -> Trimmed {
        self.log.trim(below)
    }

    /// Whether there is room on this machine.
    #[must_use]
    pub fn space(&self) -> Space {
        self.log.space()
    }

    /// See [`OrderedLog::wants_chore`].
    #[must_use]
    pub fn wants_chore(&self) -> bool {
        self.log.wants_chore()
    }

    /// See [`OrderedLog::chore`].
    pub fn chore(&mut self) -> Option<Chore> {
        self.log.chore()
    }

    /// See [`OrderedLog::chore_done`].
    pub fn chore_done(&mut self, done: ChoreDone) {
        self.log.chore_done(done);
    }
}
