//! Every record as it stands.

use std::fmt::Write;

use expect_test::expect;
use tenure_history::{Content, LoggedRecord, Point, StateError, dump, state_at};
use tenure_kernel::{Lsn, RecordKind};
use tenure_log::{OfflineLog, ReadError};

use crate::support::{Line, Tale, disk, files, tale};

fn line(record: &LoggedRecord) -> String {
    let what = match &record.content {
        Content::Event(event) => event.change.kind().as_str().to_owned(),
        Content::Note(note) => note.kind().to_owned(),
        Content::UnknownNote { bytes } => format!("unknown note {bytes:?}"),
        Content::Tick | Content::Close => String::new(),
        Content::Unreadable { error, bytes } => format!("unreadable: {error} {bytes:?}"),
    };
    let place = (record.frame.segment.0, record.frame.offset);
    format!(
        "{} {} {:?} {} {what}",
        record.lsn,
        record.tick,
        place,
        record.kind.map_or("unknown", RecordKind::name)
    )
}

#[test]
fn every_record_is_told_with_its_place() {
    let (mut tale, _) = tale();
    tale.frame(
        500_000,
        vec![
            Line::Raw(RecordKind::Note, vec![99, 1]),
            Line::Raw(RecordKind::Note, vec![3]),
            Line::Raw(RecordKind::Event, vec![0xff]),
            Line::Raw(RecordKind::Tick, vec![1, 2]),
        ],
    );
    tale.close();
    let (directory, _) = tale.stop();
    let log = OfflineLog::open(disk(), directory.path()).unwrap();
    let mut out = String::new();
    for record in dump(&log, Lsn(0)).unwrap() {
        writeln!(out, "{}", line(&record.unwrap()).trim_end()).unwrap();
    }
    expect![[r#"
        1 1000 (1, 1104) config configured
        2 1000 (1, 1104) event session_opened
        3 1000 (1, 1104) event pool_defined
        4 2000 (1, 1242) event granted
        5 2000 (1, 1371) event granted
        6 3000 (1, 1499) event activated
        7 4000 (1, 1588) event granted
        8 92000 (1, 1719) note draining
        9 100000 (1, 1813) note revived
        10 101000 (1, 1902) event amended
        11 102000 (11, 1024) event rebound
        12 103000 (11, 1123) event draining
        13 104000 (11, 1231) event revived
        14 105000 (11, 1328) event released
        15 110000 (11, 1461) note draining
        16 111000 (11, 1555) note breaker_opened
        17 112000 (11, 1643) note breaker_closed
        18 113000 (11, 1729) note stalled
        19 115000 (11, 1817) event session_closed
        20 115000 (11, 1817) event revoked
        21 115000 (11, 1817) note gate_opened
        22 115250 (22, 1024) event reclaimed
        23 116000 (22, 1163) event notified
        24 117000 (22, 1252) event granted
        25 118000 (22, 1379) event expired
        26 119000 (22, 1507) event pool_removed
        27 200000 (22, 1598) note draining
        28 230000 (22, 1693) event revoked
        29 231000 (22, 1794) event reclaimed
        30 231500 (22, 1794) tick
        31 231500 (22, 1794) event granted
        32 232000 (32, 1024) event trimmed
        33 233000 (32, 1112) event granted
        34 500000 (32, 1241) note unknown note [99, 1]
        35 500000 (32, 1241) note unreadable: the bytes end in the middle of a field [3]
        36 500000 (32, 1241) event unreadable: unknown event code 255 [255]
        37 500000 (32, 1241) tick unreadable: the bytes end in the middle of a field [1, 2]
        38 500000 (32, 1347) close
    "#]]
    .assert_eq(&out);
}

#[test]
fn a_dump_begins_where_it_is_asked_to() {
    let (tale, _) = tale();
    let last = tale.states.len() as u64 - 1;
    let (directory, _) = tale.stop();
    let log = OfflineLog::open(disk(), directory.path()).unwrap();
    for from in 1..=last + 1 {
        let lsns: Vec<u64> = dump(&log, Lsn(from)).unwrap().map(|record| record.unwrap().lsn.0).collect();
        assert_eq!(lsns, (from..=last).collect::<Vec<_>>());
    }
}

#[test]
fn a_dump_ends_with_the_damage() {
    // Also in the last segment, where damage in the middle looks like the end of the log at first.
    for damaged in [1, 3] {
        let (mut tale, _) = tale();
        tale.close();
        let (directory, _) = tale.stop();
        let segments = files(&directory.path().join("log"), ".seg");
        assert_eq!(segments.len(), 4);
        let mut bytes = std::fs::read(&segments[damaged]).unwrap();
        bytes[1024 + 83] ^= 1;
        std::fs::write(&segments[damaged], bytes).unwrap();
        let log = OfflineLog::open(disk(), directory.path()).unwrap();
        let read: Vec<_> = dump(&log, Lsn(0)).unwrap().collect();
        let (last, whole) = read.split_last().unwrap();
        assert!(!whole.is_empty() && whole.iter().all(Result::is_ok));
        assert!(matches!(last, Err(ReadError::Damaged(_))), "segment {damaged}: {last:?}");
        for point in [Point::Lsn(Lsn(33)), Point::Wall(u64::MAX)] {
            let state = state_at(&log, point);
            assert!(matches!(state, Err(StateError::Read(ReadError::Damaged(_)))), "{point:?}");
        }
    }
}

#[test]
fn an_empty_log_has_no_records() {
    let (directory, _) = Tale::begin([7; 16]).stop();
    let log = OfflineLog::open(disk(), directory.path()).unwrap();
    assert_eq!(dump(&log, Lsn(0)).unwrap().count(), 0);
}
