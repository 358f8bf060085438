//! A copy is not synced frame by frame. Whatever a crash makes of it, it opens again with a beginning of the log that has
//! at least what was synced, and copies on from there.

use std::path::Path;

use tenure_log::{CopyError, LogEnd, Mirror, SharedDisk};

use crate::crash_disk::{CrashDisk, Fault, Loss, Operation};
use crate::earlier::{Frames, frames, of, of_segments};
use crate::support::{ROOT, drain};

const FRAMES: u64 = 40;
const SEGMENT_BYTES: u64 = 1_500;

fn open(disk: &SharedDisk) -> Mirror {
    let of = of(0, LogEnd::default());
    Mirror::open(disk.clone(), Path::new(ROOT), of_segments(SEGMENT_BYTES), &of).unwrap().0
}

/// Copies on to the end, syncing after every frame whose number `syncs` asks for. Returns how many are certainly on the
/// disk.
fn copy_on(mirror: &mut Mirror, frames: &Frames, syncs: impl Fn(u64) -> bool) -> u64 {
    let mut certain = mirror.last_frame();
    for (bytes, _) in &frames[mirror.last_frame() as usize..] {
        if mirror.copy(bytes).is_err() {
            return certain;
        }
        if syncs(mirror.last_frame()) {
            match mirror.sync() {
                Ok(()) => certain = mirror.last_frame(),
                Err(_) => return certain,
            }
        }
    }
    certain
}

#[test]
fn after_any_crash_a_copy_has_what_was_synced_and_copies_on() {
    let frames = frames(FRAMES);
    let calm = CrashDisk::new();
    let mut mirror = open(&calm.shared());
    copy_on(&mut mirror, &frames, |number| number % 7 == 0);
    let whole = drain(&mut mirror.reader());
    drop(mirror);
    let losses =
        [Loss::Lost, Loss::Kept, Loss::TornAt(400), Loss::Subset(1), Loss::Subset(2), Loss::Subset(3)];
    let mut holes = 0;
    for at in 0..calm.operations().len() {
        for loss in losses {
            let disk = CrashDisk::new();
            disk.fail_at(at, Fault::Crash);
            let of = of(0, LogEnd::default());
            let opened = Mirror::open(disk.shared(), Path::new(ROOT), of_segments(SEGMENT_BYTES), &of);
            let certain = match opened {
                Ok((mut mirror, _)) => copy_on(&mut mirror, &frames, |number| number % 7 == 0),
                Err(_) => 0,
            };
            let disk = disk.after_crash(loss);
            let case = format!("crash at operation {at}, {loss:?}");
            let (mut mirror, recovery) =
                Mirror::open(disk.shared(), Path::new(ROOT), of_segments(SEGMENT_BYTES), &of)
                    .unwrap_or_else(|error| panic!("{case}: {error}"));
            let here = mirror.last_frame();
            assert!(here >= certain, "{case}: {here} frames of {certain} that were synced");
            holes +=
                u64::from(recovery.cut.is_some_and(|cut| cut.bytes.len() > frames[here as usize].0.len()));
            copy_on(&mut mirror, &frames, |_| false);
            assert_eq!(mirror.last_frame(), FRAMES, "{case}");
            assert_eq!(drain(&mut mirror.reader()), whole, "{case}");
        }
    }
    assert!(holes > 10, "only {holes} crashes left more than one torn frame");
}

#[test]
fn frames_are_synced_together_and_before_a_segment_is_left() {
    let frames = frames(FRAMES);
    let disk = CrashDisk::new();
    let mut mirror = open(&disk.shared());
    let before = disk.operations().len();
    copy_on(&mut mirror, &frames, |_| false);
    let operations = disk.operations().split_off(before);
    let count = |wanted| operations.iter().filter(|operation| **operation == wanted).count();
    let segments = mirror.extents().len();
    assert!(segments > 2, "{segments} segments");
    assert!(count(Operation::Write) >= FRAMES as usize);
    assert!(count(Operation::Sync) < FRAMES as usize, "{operations:?}");
    // Everything but the last segment is on the disk, whatever happens now.
    let last = mirror.extents().pop().unwrap();
    let crashed = disk.after_crash(Loss::Lost);
    let again = open(&crashed.shared());
    assert_eq!(again.end().last_lsn.next(), last.first_lsn);
}

#[test]
fn after_a_failed_sync_nothing_more_is_taken_in() {
    let frames = frames(FRAMES);
    let disk = CrashDisk::new();
    let mut mirror = open(&disk.shared());
    mirror.copy(&frames[0].0).unwrap();
    disk.fail_at(disk.operations().len(), Fault::Io);
    mirror.sync().unwrap_err();
    assert!(matches!(mirror.copy(&frames[1].0), Err(CopyError::Write(_))));
    drop(mirror);
    // The next process finds out what is there.
    let mut mirror = open(&disk.after_crash(Loss::Lost).shared());
    copy_on(&mut mirror, &frames, |_| false);
    assert_eq!(mirror.last_frame(), FRAMES);
}

#[test]
fn what_was_synced_apart_is_on_the_disk_and_what_came_meanwhile_is_not_taken_for_it() {
    let frames = frames(6);
    let disk = CrashDisk::new();
    let mut mirror = open(&disk.shared());
    assert!(mirror.sync_apart().unwrap().is_none());
    for (bytes, _) in &frames[..4] {
        mirror.copy(bytes).unwrap();
    }
    let due = mirror.sync_apart().unwrap().unwrap();
    // Another thread syncs the same.
    let too = mirror.sync_apart().unwrap().unwrap();
    let (synced, synced_too) = (due.sync(), too.sync());
    mirror.copy(&frames[4].0).unwrap();
    mirror.synced_apart(&due, synced).unwrap();
    mirror.synced_apart(&too, synced_too).unwrap();
    assert_eq!(open(&disk.after_crash(Loss::Lost).shared()).last_frame(), 4);
    // Still owed, and then not any more.
    mirror.sync_apart().unwrap().unwrap().sync().unwrap();
    assert_eq!(open(&disk.after_crash(Loss::Lost).shared()).last_frame(), 5);
}

// A second sync succeeded, and the copy counted as durable what the system had dropped.
#[test]
fn after_a_failed_sync_apart_nothing_more_is_taken_in_or_synced() {
    let frames = frames(FRAMES);
    let disk = CrashDisk::new();
    let mut mirror = open(&disk.shared());
    mirror.copy(&frames[0].0).unwrap();
    let due = mirror.sync_apart().unwrap().unwrap();
    disk.fail_at(disk.operations().len(), Fault::Io);
    let synced = due.sync();
    mirror.synced_apart(&due, synced).unwrap_err();
    assert!(matches!(mirror.copy(&frames[1].0), Err(CopyError::Write(_))));
    assert!(mirror.sync_apart().is_err());
}
