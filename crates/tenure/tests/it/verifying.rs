//! `tenure log verify`.

use expect_test::{Expect, expect};
use tempfile::TempDir;
use tenure_kernel::{Change, LeaseId, Lsn, RecordKind};

use crate::fixture::{Fixture, flip, segments, tenure};

fn check(directory: &TempDir, expected: Expect) {
    expected.assert_eq(&tenure(Some(directory.path()), &["log", "verify", "DIR"]).all());
}

#[test]
fn a_sound_log() {
    let mut fixture = Fixture::begin();
    fixture.write_a_story();
    fixture.snapshot();
    fixture.close();
    let directory = fixture.directory;
    drop(fixture.log);
    check(
        &directory,
        expect![[r#"
            exit 0
            --- out
            log        as33, lsn 1 to 10, last written 2023-11-14T22:13:32.000Z
            read       2 segments, 11 frames, 10 records
            decoded    7 event records, 1 note record, 1 config record, 1 close record
            replayed   from the start and the snapshot at lsn 9, to lsn 10
            snapshot   lsn 9 matches the replayed log
            sound
            --- err
        "#]],
    );
    let answer = tenure(Some(directory.path()), &["log", "verify", "DIR", "--json"]);
    assert_eq!((answer.code, answer.err.as_str()), (0, ""));
    expect![[r#"
        {"sound":true,"tag":"as33","log_id":"3736353433323130","first_lsn":1,"last_lsn":10,"last_at":"2023-11-14T22:13:32.000Z","ended_cleanly":true,"segments":2,"frames":11,"records":10,"decoded":{"event":7,"note":1,"config":1,"tick":0,"close":1},"notes_unknown":0,"replayed":{"from_start":true,"from_snapshot":9,"to":10},"snapshots":[{"lsn":9,"compared":true}],"invariant_scans":3,"indexes":0,"damage":[],"warnings":[],"writer":null}
    "#]].assert_eq(&answer.out);
}

#[test]
fn a_flipped_bit_exits_with_1_and_names_the_place() {
    let directory = Fixture::stopped();
    flip(&segments(&directory)[0], 1024 + 85);
    check(
        &directory,
        expect![[r#"
            exit 1
            --- out
            log        as33, no records, last written 2023-11-14T22:13:20.000Z
            read       1 segment, 1 frame, 0 records
            decoded    nothing
            replayed   from the start, to lsn 0
            damage     00000000000000000001.seg at offset 1104: the frame header's checksum does not match; not a torn tail, since a later segment exists
            damaged
            --- err
            error: the log is damaged: 00000000000000000001.seg at offset 1104
            hint: copy the directory before you try anything else with it
        "#]],
    );
    let answer = tenure(Some(directory.path()), &["log", "verify", "DIR", "--json"]);
    assert_eq!(answer.code, 1);
    let object: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(object["sound"], false);
    assert_eq!(object["damage"][0]["file"], "00000000000000000001.seg");
    assert_eq!(object["damage"][0]["offset"], 1104);
}

#[test]
fn a_missing_segment() {
    let directory = Fixture::stopped();
    std::fs::remove_file(&segments(&directory)[1]).unwrap();
    check(
        &directory,
        expect![[r#"
            exit 1
            --- out
            log        as33, lsn 1 to 7, last written 2023-11-14T22:13:26.000Z
            read       1 segment, 8 frames, 7 records
            decoded    5 event records, 1 note record, 1 config record
            replayed   from the start, to lsn 7
            damage     00000000000000000001.seg at offset 512: the segment that begins at lsn 8 is missing
            damaged
            --- err
            error: the log is damaged: 00000000000000000001.seg at offset 512
            hint: copy the directory before you try anything else with it
        "#]],
    );
}

#[test]
fn a_torn_tail_is_a_warning() {
    let mut fixture = Fixture::begin();
    fixture.write_a_story();
    let directory = fixture.directory;
    drop(fixture.log);
    let segment = segments(&directory).pop().unwrap();
    let end = std::fs::read(&segment).unwrap().iter().rposition(|byte| *byte != 0).unwrap();
    flip(&segment, end);
    check(
        &directory,
        expect![[r#"
            exit 0
            --- out
            log        as33, lsn 1 to 8, last written 2023-11-14T22:13:31.000Z
            read       2 segments, 9 frames, 8 records
            decoded    6 event records, 1 note record, 1 config record
            replayed   from the start, to lsn 8
            warning    torn tail; at the next start: cut 107 bytes of a torn frame from 00000000000000000008.seg at offset 1121: lsn 9 to 9
            sound
            --- err
        "#]],
    );
}

#[test]
fn a_record_that_cannot_be_understood() {
    let mut fixture = Fixture::begin();
    fixture.write_a_story();
    fixture.raw(20_000, RecordKind::Event, b"\xffgarbage");
    let directory = fixture.directory;
    drop(fixture.log);
    check(
        &directory,
        expect![[r#"
            exit 1
            --- out
            log        as33, lsn 1 to 10, last written 2023-11-14T22:13:40.000Z
            read       2 segments, 11 frames, 10 records
            decoded    8 event records, 1 note record, 1 config record
            replayed   from the start, to lsn 9
            warning    the log does not end with a clean stop
            damage     00000000000000000008.seg at offset 1228: record 10 cannot be decoded: unknown event code 255
            damaged
            --- err
            error: the log is damaged: 00000000000000000008.seg at offset 1228
            hint: copy the directory before you try anything else with it
        "#]],
    );
}

#[test]
fn a_record_that_does_not_fit() {
    let mut fixture = Fixture::begin();
    fixture.write_a_story();
    let mut bytes = Vec::new();
    let change = Change::Activated { lease: LeaseId::new(0, Lsn(99)) };
    let event = tenure_kernel::Event { operation: None, change };
    tenure_kernel::codec::encode_event(&event, tenure_kernel::codec::FORMAT, &mut bytes);
    fixture.raw(20_000, RecordKind::Event, &bytes);
    let directory = fixture.directory;
    drop(fixture.log);
    check(
        &directory,
        expect![[r#"
            exit 1
            --- out
            log        as33, lsn 1 to 10, last written 2023-11-14T22:13:40.000Z
            read       2 segments, 11 frames, 10 records
            decoded    8 event records, 1 note record, 1 config record
            replayed   from the start, to lsn 9
            warning    the log does not end with a clean stop
            damage     00000000000000000008.seg at offset 1228: record 10 does not follow from the records before it: lease 99 is not live
            damaged
            --- err
            error: the log is damaged: 00000000000000000008.seg at offset 1228
            hint: copy the directory before you try anything else with it
        "#]],
    );
}

#[test]
fn the_log_of_a_running_daemon_may_be_read() {
    let mut fixture = Fixture::begin();
    fixture.write_a_story();
    let answer = tenure(Some(fixture.directory.path()), &["log", "verify", "DIR"]);
    assert_eq!(answer.code, 0, "{}", answer.err);
    let note = format!("note: pid {} has been writing this log since ", std::process::id());
    assert!(answer.err.starts_with(&note), "{}", answer.err);
    let quiet = tenure(Some(fixture.directory.path()), &["log", "verify", "DIR", "--quiet"]);
    assert_eq!((quiet.code, quiet.err.as_str(), quiet.out), (0, "", answer.out));
    let json = tenure(Some(fixture.directory.path()), &["log", "verify", "DIR", "--json", "--quiet"]);
    let object: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(object["writer"]["pid"], std::process::id());
    // Looking did not take the lock from anybody, nor write a byte.
    fixture.close();
}

#[test]
fn no_garbage_makes_it_panic() {
    let directory = Fixture::stopped();
    let segment = &segments(&directory)[0];
    let whole = std::fs::read(segment).unwrap();
    let snapshot = directory.path().join("snapshots").join("00000000000000000003.snap");
    let index = directory.path().join("log").join("00000000000000000001.idx");
    let garbage: Vec<u8> = (0..4096_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for bytes in [&[][..], &garbage[..1], &garbage, &whole[..100], &whole[..1500], &[0; 3000]] {
        std::fs::write(segment, bytes).unwrap();
        for command in [&["log", "verify", "DIR"][..], &["log", "dump", "DIR"], &["log", "at", "3", "DIR"]] {
            let answer = tenure(Some(directory.path()), command);
            let expected = if command[1] == "verify" { 1 } else { 3 };
            assert_eq!(answer.code, expected, "{command:?}: {}", answer.err);
            assert!(!answer.err.contains("panicked"), "{}", answer.err);
        }
    }
    std::fs::write(segment, &whole).unwrap();
    std::fs::write(&snapshot, &garbage).unwrap();
    std::fs::write(&index, &garbage).unwrap();
    std::fs::write(directory.path().join("log").join("stray"), &garbage).unwrap();
    std::fs::write(directory.path().join("lock"), &garbage).unwrap();
    check(
        &directory,
        expect![[r#"
            exit 1
            --- out
            log        as33, lsn 1 to 10, last written 2023-11-14T22:13:32.000Z
            read       2 segments, 11 frames, 10 records
            decoded    7 event records, 1 note record, 1 config record, 1 close record
            replayed   from the start, to lsn 10
            damage     00000000000000000003.snap at offset 0: the snapshot's header is damaged
            damaged
            --- err
            error: the log is damaged: 00000000000000000003.snap at offset 0
            hint: copy the directory before you try anything else with it
        "#]],
    );
    let answer = tenure(Some(directory.path()), &["log", "at", "9", "DIR"]);
    assert_eq!((answer.code, answer.err.as_str()), (0, ""));
}
