//! Opening, failing, running out of space, restoring, and reading meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use tenure_log::disk::{LockError, LockHolder};
use tenure_log::file::{Ended, Position, RestoreError};
use tenure_log::{
    AppendError, AppendOutcome, BatchBuilder, BatchId, FileLog, Lsn, Moment, OfflineLog, OpenError,
    OrderedLog, RECORDS_PER_FRAME_MAX, ReadError, RealDisk, Resolution, SharedDisk, Space, restore,
};

use crate::crash_disk::{CrashDisk, Fault, Loss, Operation};
use crate::story::{Witness, append, do_chores, tell};
use crate::support::{Owned, ROOT, Writer, drain, genesis, open, options, read_all};

#[test]
fn a_new_log_says_so_and_a_stopped_one_too() {
    let disk = CrashDisk::new().shared();
    let (mut log, recovery) = open(&disk).unwrap();
    assert_eq!((recovery.ended, recovery.last_lsn), (Ended::NeverBegan, Lsn(0)));
    let mut writer = Writer::new(&log);
    writer.append(&mut log, &[b"a"]);
    assert!(matches!(log.close(Moment { tick: 77, wall_ms: 78 }), AppendOutcome::Committed { .. }));
    let last_tick = log.writer_epoch() * 1_000_000;
    drop(log);
    let (log, recovery) = open(&disk).unwrap();
    assert_eq!((recovery.ended, recovery.last_lsn), (Ended::Cleanly, Lsn(2)));
    assert_eq!(recovery.last.tick, last_tick, "a close never turns the tick back");
    drop(log);
    assert_eq!(open(&disk).unwrap().1.ended, Ended::Abruptly);
}

#[test]
fn the_second_opener_is_told_who_holds_the_directory() {
    let home = tempfile::tempdir().unwrap();
    let disk: SharedDisk = Arc::new(RealDisk);
    let first = FileLog::open(disk.clone(), home.path(), options()).unwrap();
    let holder = LockHolder { pid: std::process::id(), since_wall_ms: options().wall_ms };
    match FileLog::open(disk.clone(), home.path(), options()) {
        Err(OpenError::Locked { source: LockError::Held(Some(found)), directory }) => {
            assert_eq!((found, directory.as_path()), (holder, home.path()));
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("opened twice"),
    }
    drop(first);
    FileLog::open(disk, home.path(), options()).unwrap();
}

#[test]
fn after_a_failed_sync_the_log_answers_failed_for_ever() {
    let counted = CrashDisk::new();
    assert!(tell(&counted, &mut Witness::default()).is_ok());
    let is_sync = |(index, operation): (usize, &Operation)| (*operation == Operation::Sync).then_some(index);
    let operations = counted.operations();
    let mut failed_appends = 0;
    for sync in operations.iter().enumerate().filter_map(is_sync) {
        let disk = CrashDisk::new();
        disk.fail_at(sync, Fault::Io);
        let Ok((mut log, _)) = open(&disk.shared()) else { continue };
        let mut writer = Writer::new(&log);
        for _ in 0..60 {
            let batch = writer.batch(log.next_lsn(), &[&[7; 300]]);
            if let AppendOutcome::Failed(error) = log.append(&batch) {
                assert!(matches!(error, AppendError::Io { .. }), "{error}");
                failed_appends += 1;
                assert_eq!(log.resolve(batch.id()), Resolution::Unknown);
                for _ in 0..3 {
                    let again = log.append(&batch);
                    assert!(
                        matches!(again, AppendOutcome::Failed(AppendError::FailedEarlier { .. })),
                        "{again:?}"
                    );
                }
                assert!(matches!(log.close(Moment::default()), AppendOutcome::Failed(_)));
                break;
            }
        }
    }
    assert!(failed_appends > 10);
}

#[test]
fn a_full_disk_is_low_space_until_there_is_room_again() {
    let disk = CrashDisk::new();
    let mut small = options();
    small.free_bytes_min = 10_000;
    let (mut log, _) = FileLog::open(disk.shared(), Path::new(ROOT), small).unwrap();
    do_chores(&mut log);
    assert_eq!(log.space(), Space::Ok);
    disk.set_free_bytes(9_999);
    assert_eq!(log.space(), Space::Low);
    disk.set_free_bytes(1 << 30);
    assert_eq!(log.space(), Space::Ok);
}

#[test]
fn a_reserve_that_cannot_be_made_is_low_space_and_appends_go_on() {
    let disk = CrashDisk::new();
    let (mut log, _) = open(&disk.shared()).unwrap();
    do_chores(&mut log);
    let mut writer = Writer::new(&log);
    let segments = log.extents().len();
    while log.extents().len() == segments {
        writer.append(&mut log, &[&[1; 300]]);
    }
    let chore = log.chore().unwrap();
    assert!(log.chore().is_none(), "one chore at a time");
    disk.fail_at(disk.operations().len() + 1, Fault::NoSpace);
    log.chore_done(chore.run());
    assert_eq!(log.space(), Space::Low);
    disk.set_free_bytes(100);
    assert!(log.chore().is_none(), "no use in trying while the disk is full");
    while log.extents().len() == segments + 1 {
        writer.append(&mut log, &[&[1; 300]]);
    }
    disk.set_free_bytes(1 << 30);
    do_chores(&mut log);
    assert_eq!(log.space(), Space::Ok);
}

#[test]
fn rotation_costs_no_filling_when_spares_are_ready() {
    let disk = CrashDisk::new();
    let (mut log, _) = open(&disk.shared()).unwrap();
    do_chores(&mut log);
    let mut writer = Writer::new(&log);
    while log.extents().len() == 1 {
        let before = disk.operations().len();
        writer.append(&mut log, &[&[1; 300]]);
        let done = disk.operations().split_off(before);
        if log.extents().len() == 1 {
            assert_eq!(done, [Operation::Write, Operation::Sync], "an append is one write and one sync");
        } else {
            use Operation::{Rename, Sync, SyncDir, Write};
            assert_eq!(done, [Write, Sync, Rename, SyncDir, Write, Sync, Write, Sync]);
        }
    }
}

#[test]
fn a_frame_larger_than_a_segment_gets_room() {
    let disk = CrashDisk::new().shared();
    let (mut log, _) = open(&disk).unwrap();
    let mut writer = Writer::new(&log);
    for length in [100, 5000, 200_000, 10, 3000] {
        writer.append(&mut log, &[&vec![9; length], b"x"]);
    }
    let records = read_all(&log);
    drop(log);
    let (log, recovery) = open(&disk).unwrap();
    assert!(recovery.cut.is_none());
    assert_eq!(read_all(&log), records);
}

#[test]
fn trimmed_segments_go_to_the_archive_and_can_be_read_there() {
    let home = tempfile::tempdir().unwrap();
    let archive = home.path().join("archive");
    let mut archiving = options();
    archiving.archive = Some(archive.clone());
    let (mut log, _) = FileLog::open(Arc::new(RealDisk), &home.path().join("data"), archiving).unwrap();
    let mut writer = Writer::new(&log);
    for step in 0..20_u8 {
        writer.append(&mut log, &[&[step; 300]]);
        if step == 12 || step == 19 {
            log.snapshots().store(log.synced_lsn(), Moment::default(), b"state").unwrap();
        }
    }
    let before = log.extents();
    let trimmed = log.trim(Lsn(u64::MAX));
    assert!(trimmed.extents > 0);
    do_chores(&mut log);
    let archived = std::fs::read_dir(&archive).unwrap().count();
    assert_eq!(archived, trimmed.extents);
    assert_eq!(log.extents().len(), before.len() - trimmed.extents);
    let archive = OfflineLog::open(Arc::new(RealDisk), &archive).unwrap();
    let last = before[trimmed.extents - 1].last_lsn;
    let records = drain(&mut archive.reader().unwrap());
    assert_eq!(records.iter().map(|record| record.lsn).collect::<Vec<_>>(), (1..=last.0).collect::<Vec<_>>());
}

#[test]
fn a_restored_log_is_another_log_and_its_fences_rise() {
    let disk = CrashDisk::new().shared();
    let (mut log, _) = open(&disk).unwrap();
    let mut writer = Writer::new(&log);
    for step in 0..10_u8 {
        writer.append(&mut log, &[&[step; 300]]);
    }
    log.snapshots().store(Lsn(5), Moment::default(), b"state").unwrap();
    let (old, last, records) = (log.identity(), log.synced_lsn(), read_all(&log));
    drop(log);

    let mut again = options();
    // The wall clock was set back: the old base has to count.
    again.genesis = tenure_log::Genesis { random: *b"fedcba9876543210", unix_seconds: 5, shard: 0 };
    let restored = restore(disk.clone(), Path::new(ROOT), again.clone()).unwrap();
    assert_eq!(restored.old, old);
    assert_eq!(restored.new.fence_base, old.fence_base + last.0 + (1 << 20));
    assert_eq!(restored.since, Lsn(last.0 + 1 + u64::from(RECORDS_PER_FRAME_MAX)));
    assert_ne!((restored.new.log_id, restored.new.tag, restored.new.salt), (old.log_id, old.tag, old.salt));

    let (mut log, recovery) = open(&disk).unwrap();
    assert_eq!((recovery.identity, recovery.identity_since), (restored.new, restored.since));
    assert_eq!(recovery.snapshot.unwrap().lsn, Lsn(5), "the old log's snapshot is still good");
    assert_eq!(read_all(&log), records);
    let mut writer = Writer::new(&log);
    assert_eq!(writer.append(&mut log, &[b"new life"]), restored.since);
    log.snapshots().store(restored.since, Moment::default(), b"newer").unwrap();
    drop(log);
    let (log, recovery) = open(&disk).unwrap();
    assert_eq!(recovery.snapshot.unwrap().log_id, restored.new.log_id);
    assert_eq!(log.identity(), restored.new);
    drop(log);
    assert_eq!(OfflineLog::verify(disk, Path::new(ROOT)).unwrap().damage, None);
}

#[test]
fn a_crash_while_restoring_leaves_the_old_log_or_the_new_one() {
    let original = CrashDisk::new();
    let mut witness = Witness::default();
    let (mut log, _) = open(&original.shared()).unwrap();
    let mut writer = Writer::new(&log);
    for step in 0..10_u8 {
        assert!(append(&mut log, &mut writer, &mut witness, &[&[step; 300]]).is_ok());
    }
    let old = log.identity();
    drop(log);
    let mut again = options();
    again.genesis.random = *b"fedcba9876543210";
    for operation in 0.. {
        let disk = original.copy();
        disk.fail_at(operation, Fault::Crash);
        if restore(disk.shared(), Path::new(ROOT), again.clone()).is_ok() {
            break;
        }
        for loss in [Loss::Lost, Loss::Kept, Loss::TornAt(400), Loss::Subset(7), Loss::Subset(8)] {
            let after = disk.after_crash(loss);
            let (log, recovery) = open(&after.shared()).unwrap();
            assert_eq!(read_all(&log), witness.acknowledged);
            assert!(recovery.identity == old || recovery.identity.log_id == again.genesis.identity().log_id);
            drop(log);
            let restored = restore(after.shared(), Path::new(ROOT), again.clone()).unwrap();
            assert!(restored.new.fence_base > old.fence_base + witness.acknowledged.len() as u64);
            let (mut log, _) = open(&after.shared()).unwrap();
            assert_eq!(Writer::new(&log).append(&mut log, &[b"on"]), restored.since);
        }
    }
}

#[test]
fn nothing_is_not_restored() {
    let disk = CrashDisk::new();
    let shared = disk.shared();
    shared.create_dir(&Path::new(ROOT).join("log")).unwrap();
    assert!(matches!(
        restore(shared, Path::new(ROOT), options()),
        Err(RestoreError::Read(ReadError::NoLog { .. }))
    ));
    assert!(disk.files().is_empty());
}

#[test]
fn a_removal_that_fails_is_tried_again() {
    let disk = CrashDisk::new();
    let (mut log, _) = open(&disk.shared()).unwrap();
    let mut writer = Writer::new(&log);
    for step in 0..20_u8 {
        writer.append(&mut log, &[&[step; 300]]);
        if step % 10 == 9 {
            log.snapshots().store(log.synced_lsn(), Moment::default(), b"state").unwrap();
        }
    }
    do_chores(&mut log);
    let files = disk.files().len();
    let trimmed = log.trim(log.next_lsn());
    disk.fail_at(disk.operations().len() + 2, Fault::Io);
    let done = log.chore().unwrap().run();
    assert!(done.error().is_some());
    log.chore_done(done);
    // Without another trim: the daemon tries again after a while.
    do_chores(&mut log);
    assert_eq!(disk.files().len(), files - trimmed.extents);
}

#[test]
fn a_restored_log_takes_its_fence_base_from_the_clock_if_that_is_higher() {
    let later = tenure_log::Genesis { unix_seconds: 1_800_000_000, ..genesis() };
    let old = genesis().identity();
    assert_eq!(later.restored(&old, Lsn(10)).fence_base, 1_800_000_000 << 20);
    assert!(later.identity().fence(Lsn(1 << 30)) < 1 << 53);
}

#[test]
fn a_reader_on_another_thread_sees_every_record_once_and_in_order() {
    let home = tempfile::tempdir().unwrap();
    let (mut log, _) = FileLog::open(Arc::new(RealDisk), home.path(), options()).unwrap();
    let mut reader = log.reader();
    let done = Arc::new(AtomicBool::new(false));
    let seen_done = done.clone();
    let tail = std::thread::spawn(move || {
        let mut records: Vec<Owned> = Vec::new();
        loop {
            let last_round = seen_done.load(Ordering::Acquire);
            records.extend(drain(&mut reader));
            if last_round {
                return records;
            }
            std::thread::yield_now();
        }
    });
    let mut witness = Witness::default();
    let mut writer = Writer::new(&log);
    for step in 0..200_u8 {
        assert!(append(&mut log, &mut writer, &mut witness, &[&[step; 64], b"and", &[step; 200]]).is_ok());
    }
    done.store(true, Ordering::Release);
    assert!(tail.join().unwrap() == witness.acknowledged);
}

#[test]
fn a_frame_is_found_again_by_its_position() {
    let disk = CrashDisk::new().shared();
    let (mut log, _) = open(&disk).unwrap();
    let mut writer = Writer::new(&log);
    for step in 0..30_u8 {
        writer.append(&mut log, &[&[step; 100]]);
    }
    let mut reader = log.reader();
    let mut positions: Vec<(Position, Lsn)> = Vec::new();
    while let Some((position, frame)) = reader.next_located().unwrap() {
        positions.push((position, frame.header.first_lsn));
    }
    assert_eq!(positions.len(), 31, "the opening frame counts here");
    for (position, first_lsn) in positions.into_iter().rev() {
        reader.seek_to(position).unwrap();
        assert_eq!(reader.next_located().unwrap().unwrap().1.header.first_lsn, first_lsn);
    }
    drop(log);
    let offline = OfflineLog::open(disk, Path::new(ROOT)).unwrap();
    let mut reader = offline.reader().unwrap();
    reader.seek(Lsn(17)).unwrap();
    assert_eq!(reader.next_frame().unwrap().unwrap().record(Lsn(17)).unwrap().bytes, [16; 100]);
}

/// A whole frame that a disk wrote to the place of another has a good checksum; a reader once handed it out.
#[test]
fn a_reader_refuses_a_frame_that_stands_in_the_place_of_another() {
    let disk = CrashDisk::new();
    let (mut log, _) = open(&disk.shared()).unwrap();
    let mut writer = Writer::new(&log);
    for step in 0..4_u8 {
        writer.append(&mut log, &[&[step; 100]]);
    }
    let mut reader = log.reader();
    let mut offsets = Vec::new();
    while let Some((position, _)) = reader.next_located().unwrap() {
        offsets.push(position.offset as usize);
    }
    let [_opening, first, second, third, ..] = offsets[..] else { panic!("{offsets:?}") };
    let segment = disk.files().into_iter().find(|file| file.extension().is_some_and(|e| e == "seg")).unwrap();
    disk.damage(&segment, |bytes| bytes.copy_within(first..second, second));
    assert_eq!(third - second, second - first, "the frames are of one length");
    for from in [1, 2, 3] {
        let mut reader = log.reader();
        let read = reader.seek(Lsn(from)).and_then(|()| {
            while reader.next_frame()?.is_some() {}
            Ok(())
        });
        assert!(matches!(read, Err(ReadError::Damaged(_))), "from {from}: {read:?}");
    }
}

#[test]
fn looking_at_a_log_offline_changes_nothing() {
    let disk = CrashDisk::new();
    let mut witness = Witness::default();
    disk.fail_at(60, Fault::Crash);
    assert!(tell(&disk, &mut witness).is_err());
    let after = disk.after_crash(Loss::TornAt(500));
    let offline = OfflineLog::open(after.shared(), Path::new(ROOT)).unwrap();
    let mut frames = offline.frames().unwrap();
    while frames.next_frame().unwrap().is_some() {}
    drain(&mut offline.reader().unwrap());
    OfflineLog::verify(after.shared(), Path::new(ROOT)).unwrap();
    assert!(after.operations().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_batches_come_back(
        batches in prop::collection::vec(
            prop::collection::vec((1..5_u8, prop::collection::vec(any::<u8>(), 0..400)), 1..8),
            1..20,
        ),
        reopen_every in 1..6_usize,
    ) {
        let disk = CrashDisk::new().shared();
        let mut expected: Vec<Owned> = Vec::new();
        let (mut log, _) = open(&disk).unwrap();
        let mut id = BatchId::first(log.writer_epoch());
        for (index, records) in batches.iter().enumerate() {
            if index % reopen_every == 0 {
                drop(log);
                log = open(&disk).unwrap().0;
                id = BatchId::first(log.writer_epoch());
            }
            let mut builder = BatchBuilder::new(id, log.next_lsn(), Moment { tick: index as u64, wall_ms: 0 });
            for (kind, bytes) in records {
                let lsn = builder.push(*kind, bytes).unwrap();
                expected.push(Owned { lsn: lsn.0, kind: *kind, bytes: bytes.clone() });
            }
            let outcome = log.append(&builder.finish());
            prop_assert!(matches!(outcome, AppendOutcome::Committed { .. }), "not committed");
            id = id.next();
        }
        prop_assert_eq!(&read_all(&log), &expected);
        drop(log);
        let (log, recovery) = open(&disk).unwrap();
        prop_assert!(recovery.cut.is_none() && recovery.gap.is_none());
        prop_assert_eq!(&read_all(&log), &expected);
    }

    #[test]
    fn any_bytes_decode_or_do_not(bytes in prop::collection::vec(any::<u8>(), 0..400), salt: u32) {
        let _ = tenure_log::frame::decode(&bytes, salt);
        let _ = tenure_log::snapshot::decode(&bytes);
        let _ = tenure_log::file::SegmentHeader::decode(&bytes);
        let mut magic = tenure_log::frame::FRAME_MAGIC.to_vec();
        magic.extend_from_slice(&bytes);
        let _ = tenure_log::frame::decode(&magic, salt);
    }
}
