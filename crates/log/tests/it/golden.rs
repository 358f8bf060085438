//! Files written once by version 1 of the format: still read, still written byte for byte.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use expect_test::expect;
use tenure_log::{
    AppendOutcome, BatchBuilder, BatchId, CLOSE_RECORD, FileLog, Lsn, Moment, OfflineLog, OrderedLog,
    RealDisk,
};

use crate::crash_disk::CrashDisk;
use crate::support::{EVENT, NOTE, ROOT, open, options};

const CONFIG: u8 = 3;
const TICK: u8 = 4;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1")
}

fn name(kind: u8) -> &'static str {
    match kind {
        EVENT => "event",
        NOTE => "note",
        CONFIG => "config",
        TICK => "tick",
        CLOSE_RECORD => "close",
        _ => "unknown",
    }
}

fn append(log: &mut FileLog, id: &mut BatchId, tick: u64, records: &[(u8, &[u8])]) {
    let mut builder =
        BatchBuilder::new(*id, log.next_lsn(), Moment { tick, wall_ms: 1_700_000_000_000 + tick });
    for (kind, bytes) in records {
        builder.push(*kind, bytes).unwrap();
    }
    *id = id.next();
    assert!(matches!(log.append(&builder.finish()), AppendOutcome::Committed { .. }));
}

/// The same log, written by the program as it is now.
fn written_now() -> CrashDisk {
    let disk = CrashDisk::new();
    let (mut log, _) = open(&disk.shared()).unwrap();
    let mut id = BatchId::first(log.writer_epoch());
    append(&mut log, &mut id, 10, &[(CONFIG, b"retention"), (EVENT, b"granted"), (NOTE, b"silent")]);
    append(&mut log, &mut id, 20, &[(EVENT, b"released"), (TICK, &25_u64.to_le_bytes()), (EVENT, b"")]);
    append(&mut log, &mut id, 30, &[(EVENT, &[0xaa; 400])]);
    drop(log);
    let segment =
        disk.files().into_iter().find(|path| path.extension().is_some_and(|ext| ext == "seg")).unwrap();
    disk.damage(&segment, |file| {
        let torn = file.iter().rposition(|byte| *byte == 0xaa).unwrap();
        file[torn] = 0;
    });
    let (mut log, recovery) = open(&disk.shared()).unwrap();
    assert!(recovery.gap.is_some());
    let mut id = BatchId::first(log.writer_epoch());
    append(&mut log, &mut id, 40, &[(EVENT, &[0xbb; 500])]);
    log.snapshots()
        .store(log.synced_lsn(), Moment { tick: 40, wall_ms: 1_700_000_000_040 }, b"opaque state")
        .unwrap();
    append(&mut log, &mut id, 50, &[(EVENT, &[0xcc; 300])]);
    assert_eq!(log.extents().len(), 2);
    assert!(matches!(
        log.close(Moment { tick: 60, wall_ms: 1_700_000_000_060 }),
        AppendOutcome::Committed { .. }
    ));
    drop(log);
    disk
}

#[test]
#[ignore = "writes the golden files, once per format version"]
fn write_golden_files() {
    let disk = written_now();
    for path in disk.files() {
        let target = golden().join(path.strip_prefix(ROOT).unwrap());
        assert!(!target.exists(), "golden files are never written again");
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(target, disk.bytes(&path)).unwrap();
    }
}

#[test]
fn the_program_still_writes_the_same_bytes() {
    let disk = written_now();
    let files = disk.files();
    assert_eq!(files.len(), 3);
    for path in files {
        let file = path.strip_prefix(ROOT).unwrap();
        assert!(fs::read(golden().join(file)).unwrap() == disk.bytes(&path), "{file:?} differs");
    }
}

#[test]
fn the_program_still_reads_them() {
    let offline = OfflineLog::open(Arc::new(RealDisk), &golden()).unwrap();
    let mut frames = offline.frames().unwrap();
    let mut told = String::new();
    while let Some(located) = frames.next_frame().unwrap() {
        let header = &located.frame.header;
        write!(told, "{}+{} {}", located.segment, located.offset, header.batch).unwrap();
        write!(told, " lsn {} after {} tick {}", header.first_lsn, header.previous_lsn, header.at.tick)
            .unwrap();
        for record in located.frame.records() {
            write!(told, " {}[{}]", name(record.kind), record.bytes.len()).unwrap();
        }
        told.push('\n');
    }
    expect![[r#"
        1+1024 1.0 lsn 1 after 0 tick 0
        1+1104 1.1 lsn 1 after 0 tick 10 config[9] event[7] note[6]
        1+1221 1.2 lsn 4 after 3 tick 20 event[8] tick[8] event[0]
        1+1332 2.0 lsn 4103 after 6 tick 20
        1+1412 2.1 lsn 4103 after 4102 tick 40 event[500]
        4104+1024 2.2 lsn 4104 after 4103 tick 50 event[300]
        4104+1409 2.3 lsn 4105 after 4104 tick 60 close[0]
    "#]]
    .assert_eq(&told);
    let (snapshots, rejected) = offline.snapshots().unwrap();
    assert!(rejected.is_empty());
    assert_eq!(snapshots.newest().unwrap().lsn, Lsn(4103));
    assert_eq!(OfflineLog::verify(Arc::new(RealDisk), &golden()).unwrap().damage, None);
}

#[test]
fn the_program_still_goes_on_from_them() {
    let home = tempfile::tempdir().unwrap();
    for directory in ["log", "snapshots"] {
        fs::create_dir(home.path().join(directory)).unwrap();
        for entry in fs::read_dir(golden().join(directory)).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), home.path().join(directory).join(entry.file_name())).unwrap();
        }
    }
    let (mut log, recovery) = FileLog::open(Arc::new(RealDisk), home.path(), options()).unwrap();
    assert!(recovery.warnings().is_empty());
    let mut id = BatchId::first(log.writer_epoch());
    append(&mut log, &mut id, 70, &[(EVENT, b"more")]);
}
