//! The segments of a directory by their headers and seals alone: cheap enough to look at all of them at every start.
//!
//! Invariant: the segments of a catalog continue each other as far as headers and seals can tell.

use std::path::{Path, PathBuf};

use crate::damage::{Damage, DamageCause, ReadError};
use crate::disk::{Disk, OpenMode};
use crate::file::segment::{
    BLOCK, SEAL_AT, SEGMENT_HEADER_BYTES, SealFound, SegmentHeader, parse_segment_name, segment_name,
};
use crate::ids::Lsn;

/// One segment as its first two blocks describe it.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) header: SegmentHeader,
    pub(crate) seal: SealFound,
    pub(crate) file_bytes: u64,
}

impl Segment {
    pub(crate) fn name(&self) -> String {
        segment_name(self.header.first_lsn)
    }

    pub(crate) fn path(&self, directory: &Path) -> PathBuf {
        directory.join(self.name())
    }

    pub(crate) fn damage(&self, offset: u64, cause: DamageCause) -> Damage {
        Damage { file: self.name(), offset, cause }
    }
}

/// What the last segment of a directory must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The one being written: the directory holds the log to its end.
    ToTheEnd,
    /// Any: the directory holds what was archived so far.
    AsFarAsItGoes,
}

/// Reads the headers of all segments in `directory`, oldest first, and checks that they continue each other.
pub(crate) fn read_catalog(
    disk: &dyn Disk,
    directory: &Path,
    reach: Reach,
) -> Result<Vec<Segment>, ReadError> {
    match read_prefix(disk, directory, reach)? {
        (segments, None) => Ok(segments),
        (_, Some(damage)) => Err(damage.into()),
    }
}

/// Like `read_catalog`, but gives the segments before the first damage, and the damage.
pub(crate) fn read_prefix(
    disk: &dyn Disk,
    directory: &Path,
    reach: Reach,
) -> Result<(Vec<Segment>, Option<Damage>), ReadError> {
    let names = disk.list(directory).map_err(ReadError::io(&directory.display().to_string()))?;
    let mut starts: Vec<Lsn> = names.iter().filter_map(|name| parse_segment_name(name)).collect();
    starts.sort_unstable();
    let mut segments: Vec<Segment> = Vec::with_capacity(starts.len());
    for first_lsn in starts {
        let read = read_segment(disk, directory, first_lsn).and_then(|segment| match segments.last() {
            Some(earlier) => check_link(earlier, &segment).map(|()| segment).map_err(ReadError::from),
            None => Ok(segment),
        });
        match read {
            Ok(segment) => segments.push(segment),
            Err(ReadError::Damaged(damage)) => return Ok((segments, Some(damage))),
            Err(other) => return Err(other),
        }
    }
    let end = segments.last().filter(|_| reach == Reach::ToTheEnd).map_or(Ok(()), check_last);
    Ok((segments, end.err()))
}

/// Reads the header and the seal of one segment.
pub(crate) fn read_segment(disk: &dyn Disk, directory: &Path, first_lsn: Lsn) -> Result<Segment, ReadError> {
    let name = segment_name(first_lsn);
    let damage = |offset, cause| Damage { file: name.clone(), offset, cause };
    let file = disk.open(&directory.join(&name), OpenMode::Read).map_err(ReadError::io(&name))?;
    let mut blocks = [0; SEGMENT_HEADER_BYTES as usize];
    let read = file.read_at(&mut blocks, 0).map_err(ReadError::io(&name))?;
    let header = SegmentHeader::decode(&blocks[..read]).map_err(|cause| damage(0, cause))?;
    if header.first_lsn != first_lsn {
        return Err(damage(0, DamageCause::SegmentName(header.first_lsn)).into());
    }
    let file_bytes = file.length().map_err(ReadError::io(&name))?;
    if file_bytes < header.file_bytes {
        let cause = DamageCause::SegmentTruncated { expected: header.file_bytes, found: file_bytes };
        return Err(damage(file_bytes, cause).into());
    }
    let seal = SealFound::decode(&blocks[BLOCK..read.max(BLOCK)], header.identity.salt);
    Ok(Segment { header, seal, file_bytes })
}

fn check_link(earlier: &Segment, later: &Segment) -> Result<(), Damage> {
    let same_log = earlier.header.identity == later.header.identity;
    let restored = later.header.parent_log_id == earlier.header.identity.log_id
        && later.header.identity_since == later.header.first_lsn;
    if !same_log && !restored {
        return Err(later.damage(0, DamageCause::SegmentOrder(later.header.previous_lsn)));
    }
    match earlier.seal {
        // Whether an unsealed segment may have a successor depends on the frames of that one; the scan decides.
        SealFound::Open | SealFound::Invalid => Ok(()),
        SealFound::Sealed(seal) if seal.next_segment != later.header.first_lsn => {
            Err(earlier.damage(SEAL_AT, DamageCause::SegmentMissing(seal.next_segment)))
        }
        SealFound::Sealed(seal)
            if seal.last_lsn != later.header.previous_lsn
                || seal.checksum != later.header.previous_checksum =>
        {
            Err(later.damage(0, DamageCause::SegmentOrder(seal.last_lsn)))
        }
        SealFound::Sealed(_) => Ok(()),
    }
}

fn check_last(last: &Segment) -> Result<(), Damage> {
    match last.seal {
        SealFound::Open => Ok(()),
        SealFound::Sealed(seal) => Err(last.damage(SEAL_AT, DamageCause::SegmentMissing(seal.next_segment))),
        // A seal is torn only while the next segment already exists.
        SealFound::Invalid => Err(last.damage(SEAL_AT, DamageCause::Seal)),
    }
}
