//! Making a log that was found sound fit to be continued: the only part of opening that writes to segments.
//!
//! Whatever the new writer builds on is durable before it builds. A sync that failed in the last process leaves bytes and
//! names that can be read and will never reach the disk by themselves, so they are written and synced again.

use std::io;
use std::ops::Range;

use crate::batch::RECORDS_PER_FRAME_MAX;
use crate::disk::{DiskFile, OpenMode, SharedDisk, fill_with_zeros};
use crate::end::LogEnd;
use crate::file::Directories;
use crate::file::catalog::Segment;
use crate::file::open::{OpenError, failed};
use crate::file::recovery::Gap;
use crate::file::scan::{ScanEnd, Scanner};
use crate::file::segment::{SEAL_AT, Seal, SealFound, SegmentHeader};
use crate::frame::FRAME_HEADER_BYTES;
use crate::ids::{Lsn, Moment};
use crate::planted::{self, Planted};

/// Where the new writer goes on.
pub(super) struct Begun {
    pub(super) file: Box<dyn DiskFile>,
    pub(super) end: LogEnd,
    pub(super) offset: u64,
    pub(super) gap: Option<Gap>,
}

pub(super) fn repair(
    disk: &SharedDisk,
    directories: &Directories,
    segments: &mut [Segment],
    scan: &ScanEnd,
    wall_ms: u64,
) -> Result<Begun, OpenError> {
    let file = confirm(disk, directories, segments, scan)?;
    let last = segments.last_mut().expect("invariant: a log has a segment");
    let gap = gap_after(scan, &last.header);
    let end = begin_incarnation(&*file, last, scan, gap, wall_ms)?;
    Ok(Begun { file, end, offset: scan.offset + FRAME_HEADER_BYTES as u64, gap })
}

/// The same for a copy: what was torn is read again from where it was copied, so that nothing is skipped.
pub(super) fn repair_copy(
    disk: &SharedDisk,
    directories: &Directories,
    segments: &mut [Segment],
    scan: &ScanEnd,
) -> Result<Begun, OpenError> {
    let file = confirm(disk, directories, segments, scan)?;
    let cut_end = scan.tail.cut.as_ref().map_or(0, |cut| cut.offset + cut.bytes.len() as u64);
    erase(&*file, scan.offset, cut_end)?;
    Ok(Begun { file, end: scan.end, offset: scan.offset, gap: None })
}

/// Makes sure that everything before the end is on the disk.
fn confirm(
    disk: &SharedDisk,
    directories: &Directories,
    segments: &mut [Segment],
    scan: &ScanEnd,
) -> Result<Box<dyn DiskFile>, OpenError> {
    for directory in [&directories.log, &directories.snapshots] {
        disk.sync_dir(directory).map_err(failed("sync the data directory"))?;
    }
    let (last, earlier) = segments.split_last_mut().expect("invariant: a log has a segment");
    if let Some(predecessor) = earlier.last_mut()
        && scan.last_frame.is_none()
    {
        seal(disk, directories, predecessor, &last.header)?;
    }
    let file =
        disk.open(&last.path(&directories.log), OpenMode::Write).map_err(failed("open the last segment"))?;
    if let Some(last_frame) = &scan.last_frame
        && !planted::has(Planted::LastFrameNotConfirmed)
    {
        write_again(&*file, last_frame).map_err(failed("confirm the last frame"))?;
    }
    Ok(file)
}

/// The last process may have stopped at any step of a rotation: the seal may be missing, torn, or only seem to be there.
fn seal(
    disk: &SharedDisk,
    directories: &Directories,
    segment: &mut Segment,
    next: &SegmentHeader,
) -> Result<(), OpenError> {
    let end = match segment.seal {
        SealFound::Sealed(seal) => seal.end,
        SealFound::Open | SealFound::Invalid => {
            let mut frames = Scanner::new(disk.clone(), &directories.log, vec![segment.clone()], 0)?;
            while frames.next_frame()?.is_some() {}
            frames.finish()?.offset
        }
    };
    let seal = Seal {
        last_lsn: next.previous_lsn,
        next_segment: next.first_lsn,
        end,
        checksum: next.previous_checksum,
    };
    let file =
        disk.open(&segment.path(&directories.log), OpenMode::Write).map_err(failed("open a segment"))?;
    write_seal(&*file, segment.header.identity.salt, &seal).map_err(failed("seal a segment"))?;
    segment.seal = SealFound::Sealed(seal);
    Ok(())
}

pub(super) fn write_seal(file: &dyn DiskFile, salt: u32, seal: &Seal) -> io::Result<()> {
    file.write_at(&seal.encode(salt), SEAL_AT)?;
    file.sync()
}

/// Writes the bytes of `range` over themselves and syncs. Only the last frame can need it: the ones before it were synced.
fn write_again(file: &dyn DiskFile, range: &Range<u64>) -> io::Result<()> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    file.read_at(&mut bytes, range.start)?;
    file.write_at(&bytes, range.start)?;
    file.sync()
}

/// LSNs are skipped after a cut, and at the beginning of a restored log, whose first segment is named past a gap.
fn gap_after(scan: &ScanEnd, segment: &SegmentHeader) -> Option<Gap> {
    let after = scan.end.last_lsn;
    let cut = scan.tail.cut.is_some() && !planted::has(Planted::GapNotTaken);
    let named_past_gap = segment.first_lsn > after.next();
    (cut || named_past_gap).then(|| Gap { after, next: next_after_gap(after) })
}

/// The first LSN after the gap that follows `after`: past every record that the lost frame can have held.
pub(super) fn next_after_gap(after: Lsn) -> Lsn {
    after.plus(1 + u64::from(RECORDS_PER_FRAME_MAX))
}

/// Writes the opening frame, which makes the new writer epoch and the gap durable, and only then erases what was cut:
/// the torn bytes are the only witness of the gap until then.
fn begin_incarnation(
    file: &dyn DiskFile,
    segment: &mut Segment,
    scan: &ScanEnd,
    gap: Option<Gap>,
    wall_ms: u64,
) -> Result<LogEnd, OpenError> {
    let cut_end = scan.tail.cut.as_ref().map_or(0, |cut| cut.offset + cut.bytes.len() as u64);
    if planted::has(Planted::CutBeforeGap) {
        erase(file, scan.offset, cut_end)?;
    }
    let first_lsn = gap.map_or(scan.end.last_lsn.next(), |gap| gap.next);
    let at = Moment { tick: scan.end.at.tick, wall_ms };
    let mut bytes = Vec::with_capacity(FRAME_HEADER_BYTES);
    let salt = segment.header.identity.salt;
    let end = scan.end.open_at(first_lsn, scan.end.writer_epoch + 1, at, salt, &mut bytes);
    file.write_at(&bytes, scan.offset).map_err(failed("write the opening frame"))?;
    file.sync().map_err(failed("sync the opening frame"))?;
    let offset = scan.offset + FRAME_HEADER_BYTES as u64;
    erase(file, offset, cut_end)?;
    segment.file_bytes = segment.file_bytes.max(offset);
    Ok(end)
}

fn erase(file: &dyn DiskFile, from: u64, to: u64) -> Result<(), OpenError> {
    if to <= from {
        return Ok(());
    }
    fill_with_zeros(file, from, to).map_err(failed("erase a torn frame"))?;
    file.sync().map_err(failed("erase a torn frame"))
}
