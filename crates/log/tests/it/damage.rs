//! Damage of every kind: refused, or the one legal exception at the very end; never accepted, never silently shorter.

use std::path::{Path, PathBuf};

use tenure_log::file::{Ended, SEGMENT_HEADER_BYTES};
use tenure_log::frame::FRAME_HEADER_BYTES;
use tenure_log::{
    AppendOutcome, DamageCause, FileLog, Lsn, Moment, OfflineLog, OpenError, OrderedLog,
    RECORDS_PER_FRAME_MAX, ReadError,
};

use crate::crash_disk::CrashDisk;
use crate::story::{Witness, append, recovered};
use crate::support::{Owned, ROOT, Writer, frame_with, open};

const GAP: u64 = RECORDS_PER_FRAME_MAX as u64;

/// A log of `steps` frames over a few small segments, as a crash leaves it.
fn log_of(steps: u8) -> (CrashDisk, Witness) {
    let disk = CrashDisk::new();
    let mut witness = Witness::default();
    let (mut log, _) = open(&disk.shared()).unwrap();
    let mut writer = Writer::new(&log);
    for step in 0..steps {
        let record = vec![b'a' + step; 150];
        assert!(append(&mut log, &mut writer, &mut witness, &[&record, b"tail"]).is_ok());
    }
    drop(log);
    (disk, witness)
}

fn close(disk: &CrashDisk) {
    let (mut log, _) = open(&disk.shared()).unwrap();
    assert!(matches!(log.close(Moment::default()), AppendOutcome::Committed { .. }));
}

fn segments(disk: &CrashDisk) -> Vec<PathBuf> {
    disk.files()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "seg"))
        .collect()
}

/// Where each frame stands: segment, offset, length.
fn frames(disk: &CrashDisk) -> Vec<(PathBuf, usize, usize)> {
    let log = OfflineLog::open(disk.shared(), Path::new(ROOT)).unwrap();
    let mut frames = log.frames().unwrap();
    let mut found = Vec::new();
    while let Some(located) = frames.next_frame().unwrap() {
        let path = log.directory().join(tenure_log::file::segment_name(located.segment));
        found.push((path, located.offset as usize, located.frame.header.frame_bytes()));
    }
    found
}

fn damage_of(result: Result<(FileLog, tenure_log::Recovery), OpenError>) -> tenure_log::Damage {
    match result {
        Err(OpenError::Read(ReadError::Damaged(damage))) => damage,
        Err(other) => panic!("another error: {other}"),
        Ok((_, recovery)) => panic!("accepted: {recovery:?}"),
    }
}

/// Flips every bit of every segment in turn and says what opening made of it.
fn flip_every_bit(disk: &CrashDisk, judge: impl Fn(&Path, usize, Result<Vec<Owned>, OpenError>, bool)) {
    for path in segments(disk) {
        for bit in 0..disk.bytes(&path).len() * 8 {
            let damaged = disk.copy();
            damaged.damage(&path, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
            let mut cut = false;
            let outcome = open(&damaged.shared()).map(|(log, recovery)| {
                cut = recovery.cut.is_some();
                recovered(&log, &recovery)
            });
            judge(&path, bit / 8, outcome, cut);
        }
    }
}

#[test]
fn one_flipped_bit_anywhere_is_refused_or_costs_only_the_last_frame() {
    let (disk, witness) = log_of(8);
    let (last_segment, last_offset, last_bytes) = frames(&disk).pop().unwrap();
    assert!(segments(&disk).len() >= 2);
    let before_last = &witness.acknowledged[..witness.acknowledged.len() - 2];
    flip_every_bit(&disk, |path, at, outcome, cut| {
        let in_last_frame = path == last_segment && (last_offset..last_offset + last_bytes).contains(&at);
        let after_last_frame = path == last_segment && at >= last_offset + last_bytes;
        match outcome {
            Err(OpenError::Read(ReadError::Damaged(_))) => assert!(!in_last_frame, "the exception at {at}"),
            Err(other) => panic!("{path:?} {at}: {other}"),
            Ok(records) if in_last_frame => {
                assert!(cut);
                assert_eq!(records, before_last, "the last frame was to be cut at {at}");
            }
            Ok(records) => {
                assert!(cut && after_last_frame, "{path:?} {at} was accepted");
                assert_eq!(records, witness.acknowledged);
            }
        }
    });
}

#[test]
fn one_flipped_bit_in_a_log_that_was_stopped_cleanly_costs_at_most_the_close_frame() {
    let (disk, witness) = log_of(2);
    close(&disk);
    let (last_segment, last_offset, last_bytes) = frames(&disk).pop().unwrap();
    flip_every_bit(&disk, |path, at, outcome, cut| match outcome {
        Err(OpenError::Read(ReadError::Damaged(_))) => {}
        Err(other) => panic!("{path:?} {at}: {other}"),
        Ok(records) => {
            let opening_frame = FRAME_HEADER_BYTES;
            let exception = last_offset..last_offset + last_bytes + opening_frame;
            assert!(cut && path == last_segment && exception.contains(&at), "{path:?} {at} was accepted");
            assert_eq!(records[..witness.acknowledged.len()], witness.acknowledged);
        }
    });
}

#[test]
fn a_last_frame_torn_at_any_byte_is_cut_and_named() {
    let (disk, witness) = log_of(3);
    let (path, offset, bytes) = frames(&disk).pop().unwrap();
    for kept in 0..bytes {
        let torn = disk.copy();
        torn.damage(&path, |file| file[offset + kept..].fill(0));
        // The tail of a frame may happen to be zeros; then nothing is missing.
        if torn.bytes(&path) == disk.bytes(&path) {
            continue;
        }
        let (log, recovery) = open(&torn.shared()).unwrap();
        let records = recovered(&log, &recovery);
        assert_eq!(records, witness.acknowledged[..witness.acknowledged.len() - 2]);
        let last = records.last().unwrap().lsn;
        if kept == 0 {
            assert!(recovery.cut.is_none(), "a tail of zeros is no tear");
            assert_eq!(log.next_lsn().0, last + 1);
            continue;
        }
        let cut = recovery.cut.as_ref().unwrap();
        assert_eq!((cut.offset, cut.first_lsn), (offset as u64, Lsn(last + 1)));
        assert!(cut.bytes.len() <= kept);
        // 76 bytes hold all the fields; the last four are the checksum over the whole.
        let lsns_known = kept >= 76;
        assert_eq!(cut.last_lsn, lsns_known.then_some(Lsn(last + 2)), "kept {kept}");
        assert_eq!(log.next_lsn().0, last + 1 + GAP);
        assert_eq!(recovery.warnings().len(), 1);
        assert!(recovery.warnings()[0].contains(&format!("lsn {}", last + 1)), "{:?}", recovery.warnings());
    }
}

#[test]
fn the_gap_is_recorded_and_counts_as_dense() {
    let (disk, _) = log_of(3);
    let (path, offset, _) = frames(&disk).pop().unwrap();
    disk.damage(&path, |file| file[offset + 100..].fill(0));
    let (mut log, recovery) = open(&disk.shared()).unwrap();
    assert_eq!(recovery.ended, Ended::Abruptly);
    let gap = recovery.gap.unwrap();
    assert_eq!((gap.after, gap.next), (Lsn(4), Lsn(4 + 1 + GAP)));
    assert_eq!(log.next_lsn(), gap.next);
    Writer::new(&log).append(&mut log, &[b"after the gap"]);
    let mut reader = log.reader();
    reader.seek(Lsn(100)).unwrap();
    assert_eq!(
        reader.next_frame().unwrap().unwrap().header.first_lsn,
        gap.next,
        "seeking into a gap goes past it"
    );
    assert!(frame_with(&mut reader, Lsn(100)).is_none(), "nothing is in a gap");
    drop(log);
    let (log, recovery) = open(&disk.shared()).unwrap();
    assert!(recovery.gap.is_none() && recovery.cut.is_none());
    assert_eq!(log.next_lsn(), gap.next.next());
    let verified = OfflineLog::verify(disk.shared(), Path::new(ROOT)).unwrap();
    assert_eq!((verified.damage, verified.last_lsn), (None, gap.next));
}

#[test]
fn damage_before_a_valid_frame_names_segment_and_offset() {
    let (disk, _) = log_of(3);
    let frames = frames(&disk);
    let (path, offset, _) = &frames[1];
    // One flipped length bit in mid-log once made recovery discard synced commands as a "torn tail".
    disk.damage(path, |file| file[offset + 64] ^= 0x40);
    let damage = damage_of(open(&disk.shared()));
    assert_eq!(damage.file, path.file_name().unwrap().to_str().unwrap());
    assert_eq!(damage.offset, *offset as u64);
    assert!(
        matches!(damage.cause, DamageCause::BeforeValidFrame { later, .. } if later == frames[2].1 as u64)
    );
    let verified = OfflineLog::verify(disk.shared(), Path::new(ROOT)).unwrap();
    assert_eq!((verified.frames, verified.damage), (1, Some(damage)));
}

#[test]
fn a_damaged_frame_before_a_torn_one_is_not_cut_with_it() {
    let (disk, _) = log_of(3);
    let frames = frames(&disk);
    let ((path, damaged, _), (_, torn, _)) = (&frames[2], &frames[3]);
    disk.damage(path, |file| {
        file[damaged + 100] ^= 1;
        file[torn + 90..].fill(0);
    });
    let damage = damage_of(open(&disk.shared()));
    assert_eq!(damage.offset, *damaged as u64);
}

#[test]
fn frames_that_changed_places_are_refused() {
    let (disk, _) = log_of(3);
    let frames = frames(&disk);
    let ((path, first, bytes), (_, second, _)) = (&frames[1], &frames[2]);
    disk.damage(path, |file| {
        let copy = file[*first..first + bytes].to_vec();
        file[*second..second + bytes].copy_from_slice(&copy);
    });
    let damage = damage_of(open(&disk.shared()));
    assert_eq!(damage.cause, DamageCause::Chain(Lsn(2)));
}

#[test]
pub(crate) fn a_frame_of_another_history_is_refused() {
    // Two logs that differ in one record: the frame after it has the same place, the same LSN and its own checksum right.
    let histories = [b"this", b"that"].map(|differing| {
        let disk = CrashDisk::new();
        let mut witness = Witness::default();
        let (mut log, _) = open(&disk.shared()).unwrap();
        let mut writer = Writer::new(&log);
        for record in [differing, b"same", b"last"] {
            assert!(append(&mut log, &mut writer, &mut witness, &[record]).is_ok());
        }
        disk
    });
    let (path, offset, bytes) = frames(&histories[1]).remove(2);
    let foreign = histories[1].bytes(&path)[offset..offset + bytes].to_vec();
    // Without the frames after it, so that nothing but the chain can tell.
    histories[0].damage(&path, |file| {
        file[offset..].fill(0);
        file[offset..offset + bytes].copy_from_slice(&foreign);
    });
    assert_eq!(damage_of(open(&histories[0].copy().shared())).cause, DamageCause::Chain(Lsn(1)));
}

#[test]
fn what_lies_before_the_damage_can_be_read_offline() {
    let (disk, witness) = log_of(16);
    let segments = segments(&disk);
    disk.damage(&segments[1], |file| file[20] ^= 1);
    let offline = OfflineLog::open(disk.shared(), Path::new(ROOT)).unwrap();
    let mut frames = offline.frames().unwrap();
    let mut records = 0;
    let damage = loop {
        match frames.next_frame() {
            Ok(Some(located)) => records += located.frame.records().len(),
            Ok(None) => panic!("the damage was not told"),
            Err(error) => break error,
        }
    };
    assert!(records > 2 && records < witness.acknowledged.len());
    let ReadError::Damaged(damage) = damage else { panic!("{damage}") };
    let name = segments[1].file_name().unwrap().to_str().unwrap();
    assert_eq!((damage.file.as_str(), damage.offset, damage.cause), (name, 0, DamageCause::SegmentHeader));
    let verified = OfflineLog::verify(disk.shared(), Path::new(ROOT)).unwrap();
    assert_eq!((verified.records, verified.damage), (records as u64, Some(damage)));
}

#[test]
fn a_deleted_segment_is_refused_whichever_it_is() {
    let (disk, _) = log_of(16);
    let segments = segments(&disk);
    assert!(segments.len() >= 3);
    for (index, path) in segments.iter().enumerate() {
        let robbed = disk.copy();
        robbed.delete(path);
        match open(&robbed.shared()) {
            Err(OpenError::BeginningMissing { .. }) => assert_eq!(index, 0),
            Err(OpenError::Read(ReadError::Damaged(damage))) => {
                assert!(matches!(damage.cause, DamageCause::SegmentMissing(_)), "{damage}");
            }
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("{path:?} was not missed"),
        }
    }
}

#[test]
fn a_shortened_segment_is_refused() {
    let (disk, _) = log_of(3);
    let (path, offset, _) = frames(&disk).pop().unwrap();
    disk.damage(&path, |file| file.truncate(offset));
    assert!(matches!(damage_of(open(&disk.shared())).cause, DamageCause::SegmentTruncated { .. }));
}

#[test]
fn a_segment_under_another_name_is_refused() {
    let (disk, _) = log_of(3);
    let (path, ..) = frames(&disk).pop().unwrap();
    let bytes = disk.bytes(&path);
    let other = path.with_file_name(tenure_log::file::segment_name(Lsn(999)));
    disk.shared().open(&other, tenure_log::disk::OpenMode::Create).unwrap().write_at(&bytes, 0).unwrap();
    assert_eq!(damage_of(open(&disk.shared())).cause, DamageCause::SegmentName(Lsn(1)));
}

#[test]
fn a_record_that_looks_like_a_frame_is_not_taken_for_one() {
    // A client that knew the format but not the salt.
    let (disk, _) = log_of(1);
    let (path, offset, bytes) = frames(&disk).pop().unwrap();
    let copied = disk.bytes(&path)[offset..offset + bytes].to_vec();
    let other = CrashDisk::new();
    let mut options = crate::support::options();
    options.genesis.random[8] ^= 1;
    let (mut log, _) = FileLog::open(other.shared(), Path::new(ROOT), options).unwrap();
    Writer::new(&log).append(&mut log, &[&copied]);
    drop(log);
    let (path, offset, _) = frames(&other).pop().unwrap();
    other.damage(&path, |file| file[offset] ^= 1);
    let (_, recovery) = open(&other.shared()).unwrap();
    assert!(recovery.cut.is_some(), "only a real frame behind it would make this damage");
    assert!(offset as u64 >= SEGMENT_HEADER_BYTES);
}
