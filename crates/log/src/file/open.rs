//! Opening a directory for writing: lock, look, judge, and only then touch.
//!
//! Invariant: nothing is written before the whole log from the snapshot on has been found sound. What was found is
//! returned as data; this crate never logs.

use std::io;
use std::path::{Path, PathBuf};

use crate::damage::ReadError;
use crate::disk::{DiskFile, DiskLock, LockError, LockHolder, OpenMode, SharedDisk};
use crate::end::LogEnd;
use crate::file::catalog::{Reach, Segment, read_catalog};
use crate::file::mirror::CopyOf;
use crate::file::recovery::{Ended, Recovery};
use crate::file::repair;
use crate::file::rotate::fill_of;
use crate::file::scan::{ScanEnd, Scanner};
use crate::file::segment::{SealFound, SegmentHeader, segment_name};
use crate::file::spare::{self, Spare};
use crate::file::{Directories, FileLogOptions};
use crate::ids::{Lsn, Moment};
use crate::snapshot::{RejectedSnapshot, SnapshotHeader, SnapshotStore};

/// Why a log was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process, or this one, has it open.
    #[error("{} is in use", directory.display())]
    Locked {
        /// The data directory.
        directory: PathBuf,
        /// Who holds it.
        #[source]
        source: LockError,
    },
    /// The log cannot be read or is damaged.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Records between the newest usable snapshot and the oldest segment are gone.
    #[error(
        "the log begins at lsn {oldest}, but the newest usable snapshot ends at lsn {snapshot} (hint: tenure log verify)"
    )]
    BeginningMissing {
        /// The first LSN in the log.
        oldest: Lsn,
        /// The last LSN in the snapshot; 0 without one.
        snapshot: Lsn,
    },
    /// The snapshot knows more than the log.
    #[error("the log ends at lsn {last}, before the snapshot at lsn {snapshot} (hint: tenure log verify)")]
    EndMissing {
        /// The last LSN in the log; 0 if there is none.
        last: Lsn,
        /// The last LSN in the snapshot.
        snapshot: Lsn,
    },
    /// It is a copy of a log that is kept elsewhere.
    #[error("{} holds the local log of a cluster node, which only the cluster writes", directory.display())]
    Copy {
        /// The data directory.
        directory: PathBuf,
    },
    /// The log went elsewhere, for good.
    #[error("the log in {} was moved to {to}", directory.display())]
    Moved {
        /// The data directory.
        directory: PathBuf,
        /// Where it went.
        to: String,
    },
    /// Moving a log here was not finished.
    #[error("a log is being moved to {}; run that again to finish it", directory.display())]
    Arriving {
        /// The data directory.
        directory: PathBuf,
    },
    /// It is no copy.
    #[error("{} holds the log of a standalone daemon, not of a cluster node", directory.display())]
    NoCopy {
        /// The data directory.
        directory: PathBuf,
    },
    /// The disk refused.
    #[error("cannot {action}")]
    Io {
        /// What was being done.
        action: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// A file of this name in a data directory says where its log went.
pub const MOVED_MARKER: &str = "moved";
/// A file of this name says that a log is being moved here.
pub const ARRIVING_MARKER: &str = "arriving";

/// How opening ends.
#[derive(Clone, Copy)]
pub(super) enum Begins<'a> {
    /// With a new incarnation of the writer.
    Incarnation,
    /// As it was: a copy goes on where it stopped.
    Copying(&'a CopyOf),
}

/// All that a `FileLog` starts from.
pub(super) struct Opened {
    pub(super) directories: Directories,
    pub(super) lock: Box<dyn DiskLock>,
    pub(super) segments: Vec<Segment>,
    pub(super) file: Box<dyn DiskFile>,
    pub(super) end: LogEnd,
    pub(super) offset: u64,
    /// Frames in the last segment.
    pub(super) frames: u64,
    pub(super) snapshots: SnapshotStore,
    pub(super) spares: Vec<Spare>,
    pub(super) spare_number: u64,
    pub(super) recovery: Recovery,
}

pub(super) fn open(
    disk: &SharedDisk,
    root: &Path,
    options: &FileLogOptions,
    begins: Begins<'_>,
) -> Result<Opened, OpenError> {
    let directories = Directories::under(root);
    for directory in [root, &directories.log, &directories.snapshots] {
        disk.create_dir(directory).map_err(failed("create the data directory"))?;
    }
    let lock = lock(disk, root, options.wall_ms)?;
    if let Begins::Incarnation = begins {
        refuse_moved(disk, root)?;
    }
    let mut segments = read_catalog(&**disk, &directories.log, Reach::ToTheEnd)?;
    let created = segments.is_empty();
    let is_copy = segments.last().map(|segment| segment.header.first_frame > 0);
    match (begins, is_copy) {
        (Begins::Incarnation, Some(true)) => return Err(OpenError::Copy { directory: root.to_owned() }),
        (Begins::Copying(_), Some(false)) => return Err(OpenError::NoCopy { directory: root.to_owned() }),
        (Begins::Incarnation | Begins::Copying(_), Some(_) | None) => {}
    }
    let log_ids = match begins {
        Begins::Incarnation if created => vec![options.genesis.identity().log_id],
        Begins::Copying(of) if created => vec![of.identity.log_id],
        Begins::Incarnation | Begins::Copying(_) => log_ids(&segments),
    };
    let (snapshots, rejected_snapshots) = SnapshotStore::find(disk.clone(), &directories.snapshots, &log_ids)
        .map_err(failed("list the snapshots"))?;
    let snapshot = snapshots.newest();
    if created {
        let header = match begins {
            Begins::Incarnation => {
                refuse_loss(&snapshots, &rejected_snapshots)?;
                first_header(options)
            }
            Begins::Copying(of) => of.first_header(),
        };
        segments.push(create_first(disk, &directories, options, header)?);
    }
    let (scan, checked) = scan(disk, &directories, &segments, snapshot)?;

    // From here on the directory is changed.
    snapshots.remove_unfinished().map_err(failed("remove an unfinished snapshot"))?;
    let (spares, spare_number) = spare::adopt(&**disk, &directories.log, options.segment_bytes)
        .map_err(failed("look for spare segments"))?;
    let begun = match begins {
        Begins::Incarnation => repair::repair(disk, &directories, &mut segments, &scan, options.wall_ms)?,
        Begins::Copying(_) => repair::repair_copy(disk, &directories, &mut segments, &scan)?,
    };
    let last = segments.last().expect("invariant: a log has a segment");
    let recovery = Recovery {
        ended: match (created, scan.end.closed) {
            (true, _) => Ended::NeverBegan,
            (false, true) => Ended::Cleanly,
            (false, false) => Ended::Abruptly,
        },
        identity: last.header.identity,
        identity_since: last.header.identity_since,
        last_lsn: scan.end.last_lsn,
        last: scan.end.at,
        oldest_lsn: segments[0].header.previous_lsn.next(),
        cut: scan.tail.cut,
        gap: begun.gap,
        snapshot,
        rejected_snapshots,
        checked_frames: checked.frames,
        checked_bytes: checked.bytes,
    };
    Ok(Opened {
        directories,
        lock,
        segments,
        file: begun.file,
        end: begun.end,
        offset: begun.offset,
        frames: checked.in_last_segment,
        snapshots,
        spares,
        spare_number,
        recovery,
    })
}

fn refuse_moved(disk: &SharedDisk, root: &Path) -> Result<(), OpenError> {
    let named = disk.list(root).map_err(failed("list the data directory"))?;
    if named.iter().any(|name| name == MOVED_MARKER) {
        let file = disk
            .open(&root.join(MOVED_MARKER), OpenMode::Read)
            .map_err(failed("read where the log was moved to"))?;
        let mut to =
            vec![0; file.length().map_err(failed("read where the log was moved to"))?.min(4_096) as usize];
        let read = file.read_at(&mut to, 0).map_err(failed("read where the log was moved to"))?;
        let to = String::from_utf8_lossy(&to[..read]).trim().to_owned();
        return Err(OpenError::Moved { directory: root.to_owned(), to });
    }
    if named.iter().any(|name| name == ARRIVING_MARKER) {
        return Err(OpenError::Arriving { directory: root.to_owned() });
    }
    Ok(())
}

fn lock(disk: &SharedDisk, root: &Path, wall_ms: u64) -> Result<Box<dyn DiskLock>, OpenError> {
    let holder = LockHolder { pid: std::process::id(), since_wall_ms: wall_ms };
    disk.lock(&root.join("lock"), holder)
        .map_err(|source| OpenError::Locked { directory: root.to_owned(), source })
}

/// The identities whose snapshots belong to these segments, the present one first.
pub(crate) fn log_ids(segments: &[Segment]) -> Vec<u64> {
    let mut log_ids = Vec::new();
    for header in segments.iter().rev().map(|segment| &segment.header) {
        for log_id in [header.identity.log_id, header.parent_log_id] {
            if log_id != 0 && !log_ids.contains(&log_id) {
                log_ids.push(log_id);
            }
        }
    }
    log_ids
}

/// Without a single segment, a snapshot of whatever log proves that there was one.
fn refuse_loss(snapshots: &SnapshotStore, rejected: &[RejectedSnapshot]) -> Result<(), OpenError> {
    let newest = snapshots.newest().map(|snapshot| snapshot.lsn);
    let unreadable = (!rejected.is_empty()).then_some(Lsn::ZERO);
    match newest.or(unreadable) {
        Some(snapshot) => Err(OpenError::EndMissing { last: Lsn::ZERO, snapshot }),
        None => Ok(()),
    }
}

fn first_header(options: &FileLogOptions) -> SegmentHeader {
    SegmentHeader {
        identity: options.genesis.identity(),
        identity_since: Lsn(1),
        parent_log_id: 0,
        first_lsn: Lsn(1),
        previous_lsn: Lsn::ZERO,
        previous_checksum: 0,
        writer_epoch: 0,
        at: Moment { tick: 0, wall_ms: options.wall_ms },
        file_bytes: 0,
        first_frame: 0,
    }
}

fn create_first(
    disk: &SharedDisk,
    directories: &Directories,
    options: &FileLogOptions,
    header: SegmentHeader,
) -> Result<Segment, OpenError> {
    let (_, number) =
        spare::adopt(&**disk, &directories.log, 0).map_err(failed("look for spare segments"))?;
    let spare = spare::make(&**disk, &directories.log, number, options.inline_bytes(), fill_of(&header))
        .map_err(failed("make the first segment"))?;
    let header = SegmentHeader { file_bytes: spare.bytes, ..header };
    place_segment(disk, &directories.log, spare, &header).map_err(failed("make the first segment"))
}

/// Turns a spare into a segment: the header is durable before the name is.
pub(super) fn place_segment(
    disk: &SharedDisk,
    directory: &Path,
    spare: Spare,
    header: &SegmentHeader,
) -> io::Result<Segment> {
    let file = disk.open(&spare.path, OpenMode::Write)?;
    file.write_at(&header.encode(), 0)?;
    file.sync()?;
    disk.rename(&spare.path, &directory.join(segment_name(header.first_lsn)))?;
    disk.sync_dir(directory)?;
    Ok(Segment { header: *header, seal: SealFound::Open, file_bytes: spare.bytes })
}

#[derive(Default)]
struct Checked {
    frames: u64,
    bytes: u64,
    in_last_segment: u64,
}

/// Checks every frame that replay will need, and all of the last segment.
fn scan(
    disk: &SharedDisk,
    directories: &Directories,
    segments: &[Segment],
    snapshot: Option<SnapshotHeader>,
) -> Result<(ScanEnd, Checked), OpenError> {
    let known = snapshot.map_or(Lsn::ZERO, |snapshot| snapshot.lsn);
    let oldest = segments[0].header.previous_lsn;
    if oldest > known {
        return Err(OpenError::BeginningMissing { oldest: oldest.next(), snapshot: known });
    }
    // The last segment that begins at or before the first record the snapshot does not have.
    let index = segments.partition_point(|segment| segment.header.previous_lsn <= known) - 1;
    let mut scanner = Scanner::new(disk.clone(), &directories.log, segments.to_vec(), index)?;
    let mut checked = Checked::default();
    let last_segment = segments.last().map(|segment| segment.header.first_lsn);
    while let Some(located) = scanner.next_frame()? {
        checked.frames += 1;
        checked.in_last_segment += u64::from(Some(located.segment) == last_segment);
        checked.bytes += located.frame.header.frame_bytes() as u64;
    }
    let scan = scanner.finish()?;
    if scan.end.last_lsn < known {
        return Err(OpenError::EndMissing { last: scan.end.last_lsn, snapshot: known });
    }
    Ok((scan, checked))
}

pub(super) fn failed(action: &'static str) -> impl FnOnce(io::Error) -> OpenError {
    move |source| OpenError::Io { action, source }
}
