//! A copy that began with a snapshot gets what came before it from another copy, whose segments end elsewhere.

use std::io::Read;
use std::path::Path;

use tenure_log::disk::OpenMode;
use tenure_log::file::{SegmentHeader, segment_name};
use tenure_log::{
    Batch, BatchBuilder, BatchId, CopyOf, Earlier, EarlierError, FileLogOptions, Junction, LogEnd, Lsn,
    Mirror, Moment, OfflineLog, SharedDisk, Taken, snapshot,
};

use crate::crash_disk::{CrashDisk, Fault, Loss};
use crate::support::{EVENT, Owned, ROOT, drain, genesis, options};

/// A log of frames, as a store has it: frame, and where the log ends with it.
pub(crate) type Frames = Vec<(Vec<u8>, LogEnd)>;

/// Every fifth frame opens a term and has no records.
pub(crate) fn frames(count: u64) -> Frames {
    let salt = genesis().identity().salt;
    let (mut end, mut frames, mut id) = (LogEnd::default(), Frames::new(), BatchId(0));
    for number in 0..count {
        let at = Moment { tick: number, wall_ms: 1_700_000_000_000 + number };
        let mut bytes = Vec::new();
        if number % 5 == 0 {
            end = end.open(end.writer_epoch + 1, at, salt, &mut bytes);
            id = BatchId::first(end.writer_epoch);
        } else {
            end = end.follow(&batch(id, end.last_lsn.next(), at), salt, &mut bytes);
            id = id.next();
        }
        frames.push((bytes, end));
    }
    frames
}

fn batch(id: BatchId, first_lsn: Lsn, at: Moment) -> Batch {
    let mut builder = BatchBuilder::new(id, first_lsn, at);
    for record in 0..1 + first_lsn.0 % 3 {
        let text = format!("record {} of {first_lsn}", first_lsn.0 + record);
        builder.push(EVENT, text.as_bytes()).unwrap();
    }
    builder.finish()
}

pub(crate) fn of_segments(bytes: u64) -> FileLogOptions {
    FileLogOptions { segment_bytes: bytes, ..options() }
}

/// A copy of `frames` that begins after the first `after` of them.
fn copy(disk: &SharedDisk, frames: &Frames, after: usize, segment_bytes: u64) -> Mirror {
    let end = after.checked_sub(1).map_or_else(LogEnd::default, |last| frames[last].1);
    if end.last_lsn > Lsn::ZERO {
        let (log_id, lsn) = (genesis().identity().log_id, end.last_lsn);
        snapshot::place(disk, Path::new(ROOT), log_id, lsn, end.at, b"a state").unwrap();
    }
    let mut mirror = open(disk, &of(after, end), segment_bytes);
    for (bytes, _) in &frames[after..] {
        mirror.copy(bytes).unwrap();
    }
    mirror.sync().unwrap();
    mirror
}

pub(crate) fn of(after: usize, end: LogEnd) -> CopyOf {
    CopyOf {
        identity: genesis().identity(),
        identity_since: Lsn(1),
        parent_log_id: 0,
        first_frame: after as u64 + 1,
        end,
    }
}

fn open(disk: &SharedDisk, of: &CopyOf, segment_bytes: u64) -> Mirror {
    Mirror::open(disk.clone(), Path::new(ROOT), of_segments(segment_bytes), of).unwrap().0
}

/// The segment of `source` with which what leads up to a junction begins.
fn leading_up_to(source: &Mirror, junction: &Junction) -> Vec<u8> {
    let extents = source.extents();
    let extent = extents.iter().rev().find(|extent| extent.first_lsn <= junction.lsn()).unwrap();
    let mut bytes = Vec::new();
    source.reader().from_segment(extent.first_lsn).unwrap().unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

/// Takes bytes in by pieces, as a network gives them.
fn take_in(junction: Junction, bytes: &[u8], piece: usize) -> Result<Earlier, EarlierError> {
    let mut earlier = Earlier::begin(junction)?;
    for piece in bytes.chunks(piece) {
        if earlier.take(piece)? == Taken::Whole {
            break;
        }
    }
    Ok(earlier)
}

/// Brings one earlier segment; `false`: the copy begins with the log.
fn bring_one(source: &Mirror, target: &mut Mirror, piece: usize) -> Result<bool, EarlierError> {
    let Some(junction) = target.beginning().junction().unwrap() else { return Ok(false) };
    let bytes = leading_up_to(source, &junction);
    let segment = take_in(junction, &bytes, piece)?.finish()?;
    target.put_before(segment)?;
    Ok(true)
}

fn records(mirror: &Mirror) -> Vec<Owned> {
    drain(&mut mirror.reader())
}

#[test]
fn a_copy_that_began_late_gets_everything_before_wherever_the_other_copys_segments_end() {
    let frames = frames(60);
    for (after, there, here) in
        [(2, 700, 2048), (31, 700, 900), (37, 1400, 700), (40, 100_000, 700), (59, 333, 5000)]
    {
        let (theirs, ours) = (CrashDisk::new().shared(), CrashDisk::new().shared());
        let source = copy(&theirs, &frames, 0, there);
        let mut target = copy(&ours, &frames, after, here);
        let mut reader = target.reader();
        let mut brought = 0;
        while bring_one(&source, &mut target, 97).unwrap() {
            brought += 1;
            assert!(brought <= 60, "it does not come to an end");
        }
        let case = format!("{after} {there} {here}: {brought} brought");
        assert!(brought > 0, "{case}");
        assert_eq!(records(&target), records(&source), "{case}");
        // One that was there before sees it too.
        assert_eq!(drain(&mut reader), records(&source), "{case}");
        assert_eq!(target.last_frame(), 60);
        drop(target);
        let found = OfflineLog::verify(ours.clone(), Path::new(ROOT)).unwrap();
        assert_eq!((found.frames, found.damage), (60, None), "{case}");
        // It goes on after a restart as if it had never been another.
        let target = open(&ours, &of(after, frames[after - 1].1), here);
        assert_eq!(records(&target), records(&source), "{case}");
        assert!(target.beginning().junction().unwrap().is_none());
    }
}

#[test]
fn every_place_to_begin_at_can_be_led_up_to() {
    let frames = frames(26);
    let theirs = CrashDisk::new().shared();
    let source = copy(&theirs, &frames, 0, 600);
    for after in 1..frames.len() {
        let ours = CrashDisk::new().shared();
        let mut target = copy(&ours, &frames, after, 600);
        let mut tries = 0;
        while bring_one(&source, &mut target, 4096).unwrap_or_else(|error| panic!("after {after}: {error}")) {
            tries += 1;
            assert!(tries <= 26, "it does not come to an end");
        }
        assert_eq!(records(&target), records(&source), "after {after}");
    }
}

#[test]
fn what_does_not_lead_up_to_the_log_here_is_refused_and_leaves_nothing() {
    let frames = frames(40);
    let (theirs, ours) = (CrashDisk::new().shared(), CrashDisk::new().shared());
    let source = copy(&theirs, &frames, 0, 100_000);
    let target = copy(&ours, &frames, 25, 2048);
    let before = ours.list(&Path::new(ROOT).join("log")).unwrap();
    let junction = || target.beginning().junction().unwrap().unwrap();
    let bytes = leading_up_to(&source, &junction());
    let refused = |bytes: &[u8]| match take_in(junction(), bytes, 256).and_then(Earlier::finish) {
        Err(error) => error,
        Ok(_) => panic!("taken in"),
    };
    // A bit of a frame, of the header, the end missing, another log, one that goes another way.
    let flipped = |at: usize| {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        bytes
    };
    assert!(matches!(refused(&flipped(700)), EarlierError::Frame { .. }));
    assert!(matches!(refused(&flipped(20)), EarlierError::Header(_)));
    let error = refused(&bytes[..1200]);
    assert!(matches!(error, EarlierError::Incomplete { .. }) && !error.is_damage(), "{error}");
    let mut missing = bytes.clone();
    missing.drain(512..512 + frames[0].0.len());
    assert!(matches!(refused(&missing), EarlierError::Chain { .. }));
    let other = other_header(&bytes);
    let error = refused(&other);
    assert!(matches!(error, EarlierError::AnotherLog) && !error.is_damage(), "{error}");
    let forked = fork(&frames, 20);
    let elsewhere = CrashDisk::new().shared();
    let bytes = leading_up_to(&copy(&elsewhere, &forked, 0, 100_000), &junction());
    let error = refused(&bytes);
    assert!(matches!(error, EarlierError::Unjoined { .. }) && error.is_damage(), "{error}");
    assert_eq!(ours.list(&Path::new(ROOT).join("log")).unwrap(), before);
}

/// The same frames with another log's header before them.
fn other_header(bytes: &[u8]) -> Vec<u8> {
    let disk = CrashDisk::new().shared();
    let mut genesis = genesis();
    genesis.random[0] ^= 1;
    let of = CopyOf { identity: genesis.identity(), ..of(0, LogEnd::default()) };
    drop(open(&disk, &of, 4096));
    let file = disk.open(&Path::new(ROOT).join("log").join(segment_name(Lsn(1))), OpenMode::Read).unwrap();
    let mut header = vec![0; 512];
    file.read_at(&mut header, 0).unwrap();
    assert!(SegmentHeader::decode(&header).is_ok());
    [&header, &bytes[512..]].concat()
}

/// The same up to a frame, then others.
fn fork(frames: &Frames, after: usize) -> Frames {
    let salt = genesis().identity().salt;
    let mut forked = frames[..after].to_vec();
    let mut end = forked[after - 1].1;
    for number in after..frames.len() {
        let at = Moment { tick: number as u64 + 7_000, wall_ms: 0 };
        let mut bytes = Vec::new();
        end = end.open(end.writer_epoch + 1, at, salt, &mut bytes);
        forked.push((bytes, end));
        let mut bytes = Vec::new();
        end = end.follow(&batch(BatchId::first(end.writer_epoch), end.last_lsn.next(), at), salt, &mut bytes);
        forked.push((bytes, end));
    }
    forked
}

#[test]
fn what_leads_up_to_a_segment_that_is_gone_is_not_put_before() {
    let frames = frames(60);
    let (theirs, ours) = (CrashDisk::new().shared(), CrashDisk::new().shared());
    let source = copy(&theirs, &frames, 0, 600);
    let mut target = copy(&ours, &frames, 30, 600);
    let junction = target.beginning().junction().unwrap().unwrap();
    let bytes = leading_up_to(&source, &junction);
    let late = take_in(junction, &bytes, 4096).unwrap().finish().unwrap();
    bring_one(&source, &mut target, 4096).unwrap();
    assert!(matches!(target.put_before(late), Err(EarlierError::Outdated)));
    assert_eq!(target.extents().windows(2).filter(|pair| pair[0].first_lsn >= pair[1].first_lsn).count(), 0);
}

#[test]
fn what_was_brought_goes_like_everything_else_once_it_is_too_old() {
    let frames = frames(60);
    let (theirs, ours) = (CrashDisk::new().shared(), CrashDisk::new().shared());
    let source = copy(&theirs, &frames, 0, 600);
    drop(copy(&ours, &frames, 30, 600));
    let newer = frames[40].1;
    let log_id = genesis().identity().log_id;
    snapshot::place(&ours, Path::new(ROOT), log_id, newer.last_lsn, newer.at, b"a later state").unwrap();
    let mut target = open(&ours, &of(30, frames[29].1), 600);
    while bring_one(&source, &mut target, 4096).unwrap() {}
    assert_eq!(target.extents()[0].first_lsn, Lsn(1));
    let below = target.extents()[2].first_lsn;
    assert_eq!(target.trim(below).extents, 2);
    while let Some(chore) = target.chore() {
        target.chore_done(chore.run());
    }
    assert_eq!(target.extents()[0].first_lsn, below);
    assert!(!ours.list(&Path::new(ROOT).join("log")).unwrap().contains(&segment_name(Lsn(1))));
    // It could be brought again: whether that is wanted is not decided here.
    assert!(bring_one(&source, &mut target, 4096).unwrap());
}

#[test]
fn a_crash_at_any_point_leaves_a_log_that_opens() {
    let frames = frames(30);
    let theirs = CrashDisk::new().shared();
    let source = copy(&theirs, &frames, 0, 900);
    let begun = |disk: &CrashDisk| copy(&disk.shared(), &frames, 20, 900);
    let counted = CrashDisk::new();
    let mut target = begun(&counted);
    let before = counted.operations().len();
    while bring_one(&source, &mut target, 300).unwrap() {}
    let after = counted.operations().len();
    assert!(after > before + 10);
    drop(target);
    for at in before..after {
        for loss in [Loss::Lost, Loss::Kept, Loss::TornAt(500), Loss::Subset(at as u64)] {
            let disk = CrashDisk::new();
            let mut target = begun(&disk);
            disk.fail_at(at, Fault::Crash);
            // However far it came.
            while bring_one(&source, &mut target, 300).is_ok_and(|goes_on| goes_on) {}
            drop(target);
            let disk = disk.after_crash(loss).shared();
            let mut target = open(&disk, &of(20, frames[19].1), 900);
            while bring_one(&source, &mut target, 300).unwrap() {}
            assert_eq!(records(&target), records(&source), "crash at {at}, {loss:?}");
        }
    }
}
