//! What `verify` says of sound and of damaged logs.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use expect_test::expect;
use tempfile::TempDir;
use tenure_history::{Finding, History, Report, verify};
use tenure_kernel::RecordKind;
use tenure_kernel::*;
use tenure_log::{Moment, OrderedLog, ReadError};

use crate::support::{Line, START_MS, Tale, disk, files, granted, tale, tale_of};

fn told(report: &Report) -> String {
    let mut out = format!(
        "{} segments, {} frames, {} records {:?}, lsn {}-{}, clean {}, from start {}, from snapshot {:?}, to {}, snapshots {:?}, scans {}, indexes {}\n",
        report.segments,
        report.frames,
        report.records,
        report.by_kind,
        report.first_lsn,
        report.last_lsn,
        report.ended_cleanly,
        report.replayed_from_start,
        report.replayed_from_snapshot.map(|lsn| lsn.0),
        report.replayed_to,
        report.snapshots.iter().map(|check| (check.lsn.0, check.compared)).collect::<Vec<_>>(),
        report.invariant_scans,
        report.indexes,
    );
    for finding in &report.damage {
        let place = finding.place();
        writeln!(out, "damage: {} at {}: {finding}", place.file, place.offset).unwrap();
    }
    for warning in &report.warnings {
        writeln!(out, "warning: {warning}").unwrap();
    }
    out
}

fn verified(directory: &TempDir) -> Report {
    verify(disk(), directory.path()).unwrap()
}

fn segments(directory: &TempDir) -> Vec<PathBuf> {
    files(&directory.path().join("log"), ".seg")
}

fn flip(file: &Path, at: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[at] ^= 4;
    std::fs::write(file, bytes).unwrap();
}

fn snapshot(tale: &Tale, lsn: u64, state_of: u64) {
    let at = Moment { tick: 0, wall_ms: START_MS };
    tale.log.snapshots().store(tenure_log::Lsn(lsn), at, &tale.states[state_of as usize]).unwrap();
}

#[test]
fn a_sound_log_with_snapshots_and_indexes() {
    let (mut tale, _) = tale();
    snapshot(&tale, 9, 9);
    snapshot(&tale, 20, 20);
    tale.close();
    let (directory, _) = tale.stop();
    History::offline(disk(), directory.path()).unwrap().maintain_indexes().unwrap();
    let report = verified(&directory);
    assert!(report.is_sound());
    expect![[r#"
        4 segments, 29 frames, 34 records [23, 8, 1, 1, 1], lsn 1-34, clean true, from start true, from snapshot Some(9), to 34, snapshots [(9, true), (20, true)], scans 4, indexes 3
    "#]].assert_eq(&told(&report));
}

#[test]
fn a_log_that_was_killed_is_sound() {
    let (tale, _) = tale();
    let (directory, _) = tale.stop();
    expect![[r#"
        4 segments, 28 frames, 33 records [23, 8, 1, 1, 0], lsn 1-33, clean false, from start true, from snapshot None, to 33, snapshots [], scans 1, indexes 0
        warning: the log does not end with a clean stop
    "#]].assert_eq(&told(&verified(&directory)));
}

#[test]
fn a_trimmed_log_is_replayed_from_its_oldest_snapshot() {
    let (mut tale, _) = tale();
    snapshot(&tale, 18, 18);
    snapshot(&tale, 25, 25);
    assert!(tale.log.trim(tenure_log::Lsn(18)).extents > 0);
    let done = tale.log.chore().unwrap().run();
    tale.log.chore_done(done);
    tale.close();
    let (directory, _) = tale.stop();
    expect![[r#"
        3 segments, 20 frames, 24 records [16, 6, 0, 1, 1], lsn 11-34, clean true, from start false, from snapshot Some(18), to 34, snapshots [(18, false), (25, true)], scans 3, indexes 0
    "#]].assert_eq(&told(&verified(&directory)));

    for file in files(&directory.path().join("snapshots"), ".snap") {
        std::fs::remove_file(file).unwrap();
    }
    expect![[r#"
        3 segments, 20 frames, 24 records [16, 6, 0, 1, 1], lsn 11-34, clean true, from start false, from snapshot None, to 0, snapshots [], scans 0, indexes 0
        damage: 00000000000000000011.seg at 0: records before lsn 11 are gone and no snapshot replaces them
    "#]].assert_eq(&told(&verified(&directory)));
}

#[test]
fn a_flipped_bit_is_named_with_segment_and_offset() {
    let (tale, _) = tale();
    let (directory, _) = tale.stop();
    flip(&segments(&directory)[1], 1024 + 90);
    expect![[r#"
        1 segments, 9 frames, 10 records [7, 2, 1, 0, 0], lsn 1-10, clean false, from start true, from snapshot None, to 10, snapshots [], scans 1, indexes 0
        damage: 00000000000000000011.seg at 1024: the frame's checksum does not match; not a torn tail, since a later segment exists
    "#]].assert_eq(&told(&verified(&directory)));
}

#[test]
fn a_missing_segment_is_named() {
    let (tale, _) = tale();
    let (directory, _) = tale.stop();
    std::fs::remove_file(&segments(&directory)[1]).unwrap();
    expect![[r#"
        1 segments, 9 frames, 10 records [7, 2, 1, 0, 0], lsn 1-10, clean false, from start true, from snapshot None, to 10, snapshots [], scans 1, indexes 0
        damage: 00000000000000000001.seg at 512: the segment that begins at lsn 11 is missing
    "#]].assert_eq(&told(&verified(&directory)));
}

#[test]
fn a_damaged_first_segment_leaves_nothing_to_read() {
    let (tale, _) = tale();
    let (directory, _) = tale.stop();
    flip(&segments(&directory)[0], 100);
    expect![[r#"
        0 segments, 0 frames, 0 records [0, 0, 0, 0, 0], lsn 0-0, clean false, from start false, from snapshot None, to 0, snapshots [], scans 0, indexes 0
        damage: 00000000000000000001.seg at 0: the segment header is damaged
    "#]].assert_eq(&told(&verified(&directory)));
}

#[test]
fn a_torn_tail_is_a_warning_with_its_lsns() {
    let (mut tale, _) = tale();
    let last = tale
        .frame(500_000, vec![Line::Note(Note::BreakerClosed), Line::Note(Note::Stalled { gap_ms: 1_000 })]);
    let (directory, _) = tale.stop();
    let segment = segments(&directory).pop().unwrap();
    let end = std::fs::read(&segment).unwrap().iter().rposition(|byte| *byte != 0).unwrap();
    flip(&segment, end);
    let report = verified(&directory);
    assert_eq!(report.last_lsn.0, last - 1);
    expect![[r#"
        4 segments, 28 frames, 33 records [23, 8, 1, 1, 0], lsn 1-33, clean false, from start true, from snapshot None, to 33, snapshots [], scans 1, indexes 0
        warning: torn tail; at the next start: cut 94 bytes of a torn frame from 00000000000000000032.seg at offset 1241: lsn 34 to 35
    "#]].assert_eq(&told(&report));
}

#[test]
fn a_record_that_cannot_be_understood_is_damage() {
    let (mut tale, _) = tale();
    tale.frame(
        500_000,
        vec![Line::Note(Note::BreakerClosed), Line::Raw(RecordKind::Event, vec![0xee, 1, 2])],
    );
    tale.close();
    let (directory, _) = tale.stop();
    expect![[r#"
        4 segments, 30 frames, 36 records [24, 9, 1, 1, 0], lsn 1-36, clean true, from start true, from snapshot None, to 34, snapshots [], scans 0, indexes 0
        damage: 00000000000000000032.seg at 1241: record 35 cannot be decoded: unknown event code 238
    "#]].assert_eq(&told(&verified(&directory)));
}

#[test]
fn notes_that_cannot_be_understood_decide_nothing() {
    let (mut tale, _) = tale();
    tale.frame(500_000, vec![Line::Raw(RecordKind::Note, vec![99]), Line::Raw(RecordKind::Note, vec![3])]);
    tale.close();
    let (directory, _) = tale.stop();
    let report = verified(&directory);
    assert!(report.is_sound());
    assert_eq!(report.notes_unknown, 1);
    expect![[r#"
        4 segments, 30 frames, 36 records [23, 10, 1, 1, 1], lsn 1-36, clean true, from start true, from snapshot None, to 36, snapshots [], scans 1, indexes 0
        warning: notes that cannot be read: 1, the first at lsn 35; notes are advisory, and the state is complete without them
    "#]].assert_eq(&told(&report));
}

#[test]
fn records_that_cannot_follow_each_other_are_damage_and_no_panic() {
    let lease = LeaseId::new(0, Lsn(999));
    let permanent = |members: &[&str]| Change::Granted(granted("x", members, Policy::permanent()));
    let orphan = Policy::session(SessionId(77), 0, 0);
    let (_, leases) = tale();
    let cases = [
        permanent(&["r1"]),
        permanent(&["a", "a"]),
        permanent(&[]),
        Change::Granted(granted("x", &["a"], orphan)),
        Change::Activated { lease },
        Change::Activated { lease: leases.frank },
        Change::PoolRemoved { name: "gpu".into() },
        Change::PoolDefined { name: "huge".into(), size: u32::MAX },
        Change::SessionClosed { session: SessionId(77), reason: Reason::Explicit },
        Change::Notified { lease: leases.frank },
        Change::Revoked(Revoked {
            lease,
            epoch: Epoch(1),
            reason: Reason::Explicit,
            text: Text::default(),
            actor: Actor::Daemon,
            evidence: Evidence::None,
            reclaim_by: ReclaimBy::Daemon,
        }),
    ];
    let mut out = String::new();
    for change in cases {
        let (mut tale, _) = tale();
        let mut bytes = Vec::new();
        codec::encode_event(&Event { operation: None, change }, codec::FORMAT, &mut bytes);
        tale.frame(500_000, vec![Line::Raw(RecordKind::Event, bytes)]);
        let (directory, _) = tale.stop();
        let report = verified(&directory);
        writeln!(out, "{}", report.damage.first().unwrap()).unwrap();
    }
    expect![[r#"
        record 34 does not follow from the records before it: "r1" is held by lease 31
        record 34 does not follow from the records before it: it names "a" twice
        record 34 cannot be decoded: a number is out of range
        record 34 does not follow from the records before it: there is no session 0000004d
        record 34 does not follow from the records before it: lease 999 is not live
        record 34 does not follow from the records before it: lease 31 is active
        record 34 does not follow from the records before it: there is no pool "gpu"
        record 34 does not follow from the records before it: pool "huge" of 4294967295 members is too large
        record 34 does not follow from the records before it: there is no session 0000004d
        record 34 does not follow from the records before it: no notification of lease 31 is pending
        record 34 does not follow from the records before it: lease 999 is not live
    "#]]
    .assert_eq(&out);
}

#[test]
fn a_snapshot_that_disagrees_with_the_log_is_damage() {
    let (mut tale, _) = tale();
    snapshot(&tale, 9, 6);
    snapshot(&tale, 20, 20);
    tale.close();
    let (directory, _) = tale.stop();
    expect![[r#"
        4 segments, 29 frames, 34 records [23, 8, 1, 1, 1], lsn 1-34, clean true, from start true, from snapshot Some(20), to 34, snapshots [(20, true)], scans 4, indexes 0
        damage: 00000000000000000009.snap at 65: the snapshot differs from the state of the log at lsn 9
    "#]].assert_eq(&told(&verified(&directory)));
}

#[test]
fn a_damaged_snapshot_is_damage_and_a_foreign_one_is_not() {
    let (mut tale, _) = tale();
    snapshot(&tale, 9, 9);
    snapshot(&tale, 20, 20);
    tale.close();
    let (directory, _) = tale.stop();
    let (other, _) = tale_of([9; 16]);
    snapshot(&other, 15, 15);
    let (other, _) = other.stop();
    let snapshots = directory.path().join("snapshots");
    let foreign = &files(&other.path().join("snapshots"), ".snap")[0];
    std::fs::copy(foreign, snapshots.join(foreign.file_name().unwrap())).unwrap();
    let report = verified(&directory);
    assert!(report.is_sound());
    expect![[r#"
        4 segments, 29 frames, 34 records [23, 8, 1, 1, 1], lsn 1-34, clean true, from start true, from snapshot Some(9), to 34, snapshots [(9, true), (20, true)], scans 4, indexes 0
        warning: 00000000000000000015.snap belongs to another log and is not used
    "#]].assert_eq(&told(&report));

    flip(&files(&snapshots, ".snap")[0], 70);
    expect![[r#"
        4 segments, 29 frames, 34 records [23, 8, 1, 1, 1], lsn 1-34, clean true, from start true, from snapshot Some(20), to 34, snapshots [(20, true)], scans 3, indexes 0
        damage: 00000000000000000009.snap at 0: the snapshot's checksum does not match
        warning: 00000000000000000015.snap belongs to another log and is not used
    "#]].assert_eq(&told(&verified(&directory)));
}

#[test]
fn a_snapshot_that_is_no_state_is_damage() {
    let (tale, _) = tale();
    let at = Moment { tick: 0, wall_ms: START_MS };
    tale.log.snapshots().store(tenure_log::Lsn(9), at, b"not a state").unwrap();
    tale.log.snapshots().store(tenure_log::Lsn(9_000), at, &tale.states[9]).unwrap();
    let (directory, _) = tale.stop();
    expect![[r#"
        4 segments, 28 frames, 33 records [23, 8, 1, 1, 0], lsn 1-33, clean false, from start true, from snapshot None, to 33, snapshots [], scans 1, indexes 0
        damage: 00000000000000000009.snap at 0: format 110 is newer than format 2, the newest that this program reads: use a newer tenure
        damage: 00000000000000009000.snap at 0: the log ends at lsn 33, before the snapshot
        warning: the log does not end with a clean stop
    "#]].assert_eq(&told(&verified(&directory)));
}

#[test]
fn a_gap_after_a_cut_counts_as_dense() {
    let (tale, _) = tale();
    let (directory, _) = tale.stop();
    let segment = segments(&directory).pop().unwrap();
    let end = std::fs::read(&segment).unwrap().iter().rposition(|byte| *byte != 0).unwrap();
    flip(&segment, end);
    let options = crate::support::options(*b"0123456789abcdef");
    let (log, recovery) = tenure_log::FileLog::open(disk(), directory.path(), options).unwrap();
    assert!(recovery.gap.is_some());
    drop(log);
    let report = verified(&directory);
    assert!(report.is_sound(), "{report:?}");
    assert!(
        report.damage.is_empty()
            && report.warnings.iter().all(|w| !matches!(w, tenure_history::Warning::TornTail(_)))
    );
}

#[test]
fn no_flipped_bit_goes_unnoticed_or_panics() {
    let (mut tale, _) = tale();
    snapshot(&tale, 9, 9);
    tale.close();
    let (directory, _) = tale.stop();
    for file in segments(&directory).into_iter().chain(files(&directory.path().join("snapshots"), ".snap")) {
        let whole = std::fs::read(&file).unwrap();
        let used = whole.iter().rposition(|byte| *byte != 0).unwrap();
        for at in (0..=used).step_by(23) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x40;
            std::fs::write(&file, &bytes).unwrap();
            let report = verified(&directory);
            let noticed = !report.is_sound()
                || report.warnings.iter().any(|w| matches!(w, tenure_history::Warning::TornTail(_)));
            assert!(noticed, "byte {at} of {}", file.display());
        }
        std::fs::write(&file, whole).unwrap();
    }
    assert!(verified(&directory).is_sound());
}

#[test]
fn where_there_is_no_log_nothing_is_said() {
    let directory = TempDir::new().unwrap();
    assert!(matches!(verify(disk(), directory.path()), Err(ReadError::Io { .. })));
    std::fs::create_dir(directory.path().join("log")).unwrap();
    assert!(matches!(verify(disk(), directory.path()), Err(ReadError::NoLog { .. })));
    std::fs::write(directory.path().join("log").join("00000000000000000001.seg"), b"garbage").unwrap();
    let report = verified(&directory);
    assert!(matches!(report.damage.first(), Some(Finding::Bytes(_))));
}
