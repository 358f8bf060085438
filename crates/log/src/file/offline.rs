//! A log at rest, read only: no lock, nothing cut, nothing written. `tenure log` and the history stand on it.

use std::path::{Path, PathBuf};

use super::Directories;
use super::catalog::{Reach, Segment, read_prefix};
use super::open::log_ids;
use super::reader::{Durable, FileReader, Published};
use super::scan::{LocatedFrame, ScanEnd, Scanner};
use super::segment::{SealFound, parse_segment_name};
use super::tail::Cut;
use super::{SegmentHeader, durable_part};
use crate::damage::{Damage, ReadError};
use crate::disk::{Disk, SharedDisk};
use crate::identity::Identity;
use crate::ids::{Lsn, Moment};
use crate::snapshot::{RejectedSnapshot, SnapshotStore};

/// A log that nobody is writing.
pub struct OfflineLog {
    disk: SharedDisk,
    directories: Directories,
    segments: Vec<Segment>,
    /// What ends the segments that can be read.
    damage: Option<Damage>,
}

/// What a full check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Segments whose frames were read.
    pub segments: usize,
    /// Valid frames.
    pub frames: u64,
    /// Records in them.
    pub records: u64,
    /// The last LSN of the last valid frame.
    pub last_lsn: Lsn,
    /// The moment of the last valid frame.
    pub last: Moment,
    /// Whether the log ends with a close frame.
    pub ended_cleanly: bool,
    /// What the next start would cut.
    pub cut: Option<Cut>,
    /// The first damage. What follows it was not looked at.
    pub damage: Option<Damage>,
}

/// Every frame of a log at rest, in order, each checked against the one before it.
pub struct OfflineFrames {
    scanner: Scanner,
    damage: Option<Damage>,
    at_end: bool,
}

impl OfflineFrames {
    /// The next frame; `None` where the valid ones end, an error where damage ends them.
    pub fn next_frame(&mut self) -> Result<Option<LocatedFrame<'_>>, ReadError> {
        if self.at_end {
            return Ok(None);
        }
        if !self.scanner.has_next()? {
            self.at_end = true;
            return match &self.damage {
                Some(damage) => Err(damage.clone().into()),
                // A torn tail is where valid frames end; anything else after them is damage.
                None => self.scanner.judge_tail().map(|_| None),
            };
        }
        self.scanner.next_frame()
    }
}

impl OfflineLog {
    /// Looks at the segments under `root`, or in `root` if that is where trimming moved them (`log.archive`), by their
    /// headers. Where one is damaged, the ones before it can still be read.
    pub fn open(disk: SharedDisk, root: &Path) -> Result<Self, ReadError> {
        match Self::is_archive(&*disk, root) {
            true => Self::open_archive(disk, root),
            false => Self::read(disk, Directories::under(root), Reach::ToTheEnd),
        }
    }

    /// Whether a directory holds segments itself, as an archive does.
    pub fn is_archive(disk: &dyn Disk, root: &Path) -> bool {
        let names = disk.list(root).unwrap_or_default();
        names.iter().any(|name| parse_segment_name(name).is_some())
    }

    /// Looks at segments that trimming has moved to `archive`.
    fn open_archive(disk: SharedDisk, archive: &Path) -> Result<Self, ReadError> {
        let directories = Directories { log: archive.to_owned(), snapshots: archive.to_owned() };
        Self::read(disk, directories, Reach::AsFarAsItGoes)
    }

    fn read(disk: SharedDisk, directories: Directories, reach: Reach) -> Result<Self, ReadError> {
        let (segments, damage) = read_prefix(&*disk, &directories.log, reach)?;
        match (segments.is_empty(), damage) {
            (false, damage) => Ok(Self { disk, directories, segments, damage }),
            (true, Some(damage)) => Err(damage.into()),
            (true, None) => Err(ReadError::NoLog { directory: directories.log }),
        }
    }

    /// Who the log is.
    pub fn identity(&self) -> Identity {
        self.segments[self.segments.len() - 1].header.identity
    }

    /// The headers of the segments, oldest first.
    pub fn segments(&self) -> impl ExactSizeIterator<Item = &SegmentHeader> {
        self.segments.iter().map(|segment| &segment.header)
    }

    /// The directory the segments are in.
    pub fn directory(&self) -> PathBuf {
        self.directories.log.clone()
    }

    /// Every frame from the oldest on.
    pub fn frames(&self) -> Result<OfflineFrames, ReadError> {
        self.frames_in(0)
    }

    /// Every frame from the segment that holds `from` on.
    pub fn frames_from(&self, from: Lsn) -> Result<OfflineFrames, ReadError> {
        let index = self.segments.partition_point(|segment| segment.header.previous_lsn < from);
        self.frames_in(index.saturating_sub(1))
    }

    /// A reader that finds records by LSN. Reads unsealed segments whole, to know where they end.
    pub fn reader(&self) -> Result<FileReader, ReadError> {
        let durable = self.segments.iter().map(|segment| self.durable(segment)).collect::<Result<_, _>>()?;
        Ok(FileReader::new(self.disk.clone(), self.directories.log.clone(), Published::new(durable)))
    }

    /// The snapshots, and those that are damaged or of another log.
    pub fn snapshots(&self) -> Result<(SnapshotStore, Vec<RejectedSnapshot>), ReadError> {
        let directory = &self.directories.snapshots;
        SnapshotStore::find(self.disk.clone(), directory, &log_ids(&self.segments))
            .map_err(ReadError::io(&directory.display().to_string()))
    }

    /// Checks every checksum, the chain and the density of LSNs. Damage is a finding; an error is a disk that refuses.
    pub fn verify(disk: SharedDisk, root: &Path) -> Result<Verification, ReadError> {
        let mut found = Verification::default();
        match Self::open(disk, root).and_then(|log| log.verify_into(&mut found)) {
            Err(ReadError::Damaged(damage)) => found.damage = Some(damage),
            other => other?,
        }
        Ok(found)
    }

    fn verify_into(&self, found: &mut Verification) -> Result<(), ReadError> {
        let mut frames = self.frames()?;
        let mut segment = Lsn::ZERO;
        while let Some(located) = frames.next_frame()? {
            if located.segment != segment {
                segment = located.segment;
                found.segments += 1;
            }
            let header = &located.frame.header;
            found.frames += 1;
            found.records += u64::from(header.count);
            (found.last_lsn, found.last) = (header.last_lsn(), header.at);
            found.ended_cleanly = located.frame.is_close();
        }
        let ScanEnd { end, tail, .. } = frames.scanner.finish()?;
        (found.last_lsn, found.last, found.cut) = (end.last_lsn, end.at, tail.cut);
        Ok(())
    }

    fn durable(&self, segment: &Segment) -> Result<Durable, ReadError> {
        if let SealFound::Sealed(seal) = segment.seal {
            return Ok(durable_part(segment, seal.end, seal.last_lsn));
        }
        let mut scanner = Scanner::new(self.disk.clone(), &self.directories.log, vec![segment.clone()], 0)?;
        while scanner.next_frame()?.is_some() {}
        let ScanEnd { end, offset, .. } = scanner.finish()?;
        Ok(durable_part(segment, offset, end.last_lsn))
    }

    fn frames_in(&self, index: usize) -> Result<OfflineFrames, ReadError> {
        let (disk, directory) = (self.disk.clone(), &self.directories.log);
        let scanner = Scanner::new(disk, directory, self.segments.clone(), index)?;
        Ok(OfflineFrames { scanner, damage: self.damage.clone(), at_end: false })
    }
}
