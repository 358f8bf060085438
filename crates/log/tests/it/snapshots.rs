//! Snapshots: two generations, damage noticed, the older one used, the log kept as far back as it needs.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use tenure_log::snapshot::{LoadError, StoreError, decode};
use tenure_log::{FileLog, Lsn, Moment, OpenError, OrderedLog};

use crate::crash_disk::{CrashDisk, Fault};
use crate::story::{Witness, append, do_chores, encode, recovered};
use crate::support::{ROOT, Writer, open};

/// A log with two snapshots and a few frames after the second.
fn log_with_snapshots() -> (CrashDisk, Witness) {
    let disk = CrashDisk::new();
    let mut witness = Witness::default();
    let (mut log, _) = open(&disk.shared()).unwrap();
    let mut writer = Writer::new(&log);
    for step in 0..20_u8 {
        assert!(append(&mut log, &mut writer, &mut witness, &[&[step; 200]]).is_ok());
        if step == 7 || step == 15 {
            store(&log, &witness).unwrap();
        }
    }
    drop(log);
    (disk, witness)
}

fn store(log: &FileLog, witness: &Witness) -> Result<(), StoreError> {
    let at = Moment { tick: 1, wall_ms: 2 };
    log.snapshots().store(log.synced_lsn(), at, &encode(&witness.acknowledged)).map(drop)
}

fn snapshot_files(disk: &CrashDisk) -> Vec<PathBuf> {
    disk.files().into_iter().filter(|path| path.starts_with(Path::new(ROOT).join("snapshots"))).collect()
}

#[test]
fn recovery_starts_from_the_newest() {
    let (disk, witness) = log_with_snapshots();
    let (log, recovery) = open(&disk.shared()).unwrap();
    assert_eq!(recovery.snapshot.unwrap().lsn, Lsn(16));
    assert!(recovery.checked_frames < 12, "frames below the snapshot's segment are not read");
    assert_eq!(recovered(&log, &recovery), witness.acknowledged);
}

#[test]
fn one_flipped_bit_anywhere_falls_back_to_the_older_one() {
    let (disk, witness) = log_with_snapshots();
    let [_, newest] = snapshot_files(&disk).try_into().unwrap();
    for at in 0..disk.bytes(&newest).len() {
        let damaged = disk.copy();
        damaged.damage(&newest, |bytes| bytes[at] ^= 1 << (at % 8));
        let (log, recovery) = open(&damaged.shared()).unwrap();
        assert_eq!(recovery.snapshot.unwrap().lsn, Lsn(8), "byte {at}");
        assert_eq!(recovery.rejected_snapshots.len(), 1);
        assert!(matches!(recovery.rejected_snapshots[0].error, LoadError::Damaged(_)));
        assert_eq!(recovery.warnings().len(), 1);
        assert_eq!(recovered(&log, &recovery), witness.acknowledged);
    }
}

#[test]
fn a_shortened_or_lengthened_one_is_not_used() {
    let (disk, witness) = log_with_snapshots();
    let [_, newest] = snapshot_files(&disk).try_into().unwrap();
    let length = disk.bytes(&newest).len();
    for length in [0, 10, length - 1, length + 1] {
        let damaged = disk.copy();
        damaged.damage(&newest, |bytes| bytes.resize(length, 0));
        let (log, recovery) = open(&damaged.shared()).unwrap();
        assert_eq!(recovery.snapshot.unwrap().lsn, Lsn(8));
        assert_eq!(recovered(&log, &recovery), witness.acknowledged);
    }
}

#[test]
fn deleted_ones_are_replaced_by_the_log_while_it_reaches_back() {
    let (disk, witness) = log_with_snapshots();
    let files = snapshot_files(&disk);
    for deleted in [&files[..1], &files[1..], &files[..]] {
        let robbed = disk.copy();
        deleted.iter().for_each(|path| robbed.delete(path));
        let (log, recovery) = open(&robbed.shared()).unwrap();
        assert_eq!(recovered(&log, &recovery), witness.acknowledged);
    }
}

#[test]
fn trimming_keeps_what_the_older_one_needs() {
    let (disk, mut witness) = log_with_snapshots();
    let (mut log, _) = open(&disk.shared()).unwrap();
    let before = log.extents();
    let trimmed = log.trim(log.next_lsn());
    assert!(trimmed.extents > 0 && trimmed.bytes > 0);
    let after = log.extents();
    assert_eq!(before.len(), after.len() + trimmed.extents);
    assert!(after[0].first_lsn <= Lsn(9), "the older snapshot ends at 8");
    let kept_back = log.trim(Lsn(3));
    assert_eq!(kept_back.extents, 0, "nothing is left below");
    do_chores(&mut log);
    let mut writer = Writer::new(&log);
    assert!(append(&mut log, &mut writer, &mut witness, &[b"x"]).is_ok());
    let mut reader = log.reader();
    assert!(
        matches!(reader.seek(Lsn(1)), Err(tenure_log::ReadError::Trimmed { oldest }) if oldest == after[0].first_lsn)
    );
    drop(log);

    let files = snapshot_files(&disk);
    let newest_lost = disk.copy();
    newest_lost.delete(&files[1]);
    let (log, recovery) = open(&newest_lost.shared()).unwrap();
    assert_eq!(recovered(&log, &recovery), witness.acknowledged);

    let both_lost = disk.copy();
    files.iter().for_each(|path| both_lost.delete(path));
    assert!(matches!(
        open(&both_lost.shared()),
        Err(OpenError::BeginningMissing { snapshot: Lsn(0), oldest }) if oldest == after[0].first_lsn
    ));
}

#[test]
fn nothing_is_trimmed_before_there_are_two() {
    let disk = CrashDisk::new();
    let mut witness = Witness::default();
    let (mut log, _) = open(&disk.shared()).unwrap();
    let mut writer = Writer::new(&log);
    for step in 0..20_u8 {
        assert!(append(&mut log, &mut writer, &mut witness, &[&[step; 200]]).is_ok());
    }
    store(&log, &witness).unwrap();
    assert_eq!(log.trim(log.next_lsn()).extents, 0);
}

#[test]
fn two_generations_are_kept_and_a_damaged_one_does_not_count() {
    let (disk, mut witness) = log_with_snapshots();
    let [older, newest] = snapshot_files(&disk).try_into().unwrap();
    disk.damage(&newest, |bytes| bytes[70] ^= 1);
    let (mut log, _) = open(&disk.shared()).unwrap();
    let mut writer = Writer::new(&log);
    assert!(append(&mut log, &mut writer, &mut witness, &[b"x"]).is_ok());
    store(&log, &witness).unwrap();
    let files = snapshot_files(&disk);
    assert_eq!(files.len(), 2);
    assert!(files.contains(&older) && !files.contains(&newest));
    assert!(matches!(store(&log, &witness), Err(StoreError::NotNewer { .. })));
}

#[test]
fn a_log_without_segments_but_with_a_snapshot_is_refused() {
    let (disk, _) = log_with_snapshots();
    let segments = disk.files().into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "seg"));
    segments.for_each(|path| disk.delete(&path));
    assert!(matches!(open(&disk.shared()), Err(OpenError::EndMissing { last: Lsn(0), .. })));
}

#[test]
fn a_snapshot_that_knows_more_than_the_log_is_refused() {
    let disk = CrashDisk::new();
    let (log, _) = open(&disk.shared()).unwrap();
    log.snapshots().store(Lsn(5), Moment::default(), b"from nowhere").unwrap();
    drop(log);
    assert!(matches!(open(&disk.shared()), Err(OpenError::EndMissing { last: Lsn(0), snapshot: Lsn(5) })));
}

#[test]
fn a_snapshot_that_was_given_up_leaves_nothing() {
    let disk = CrashDisk::new();
    let (log, _) = open(&disk.shared()).unwrap();
    let store = log.snapshots();
    let mut writer = store.begin(Lsn(1), Moment::default()).unwrap();
    writer.write_all(b"half").unwrap();
    drop(writer);
    assert!(snapshot_files(&disk).is_empty());
    let mut writer = store.begin(Lsn(1), Moment::default()).unwrap();
    writer.write_all(b"half").unwrap();
    disk.fail_at(disk.operations().len() + 2, Fault::NoSpace);
    assert!(matches!(writer.finish(), Err(StoreError::Io { .. })));
    assert!(snapshot_files(&disk).is_empty() && store.newest().is_none());
}

#[test]
fn bytes_may_come_in_pieces_of_any_size_from_another_thread() {
    let disk = CrashDisk::new();
    let (log, _) = open(&disk.shared()).unwrap();
    let store = log.snapshots();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| (number * 7 % 251) as u8).collect();
    let pieces = bytes.clone();
    let builder = std::thread::spawn(move || {
        let mut writer = store.begin(Lsn(0), Moment { tick: 3, wall_ms: 4 }).unwrap();
        let (mut rest, mut size) = (pieces.as_slice(), 1);
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(size.min(rest.len()));
            writer.write_all(piece).unwrap();
            (rest, size) = (later, size * 3);
        }
        writer.finish().unwrap()
    });
    let header = builder.join().unwrap();
    assert_eq!(header.payload_bytes, bytes.len() as u64);
    let mut read = Vec::new();
    log.snapshots().open(header.lsn).unwrap().read_to_end(&mut read).unwrap();
    assert!(read == bytes);
    let file = disk.bytes(&snapshot_files(&disk)[0]);
    let (decoded, payload) = decode(&file).unwrap();
    assert!(decoded == header && payload == bytes);
}
