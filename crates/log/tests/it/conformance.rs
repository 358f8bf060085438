//! What every `OrderedLog` must do, whatever carries it. A remote log runs the same suite.

use std::path::Path;
use std::sync::Arc;

use tenure_log::{
    AppendError, AppendOutcome, BatchId, BatchRefusal, CLOSE_RECORD, FileLog, Lsn, Moment, OrderedLog,
    RealDisk, Resolution,
};

use crate::support::{EVENT, Writer, drain, frame_with, options, read_all};

/// A place where one log lives; opening it again is a new incarnation of its writer.
pub(crate) trait Home {
    fn open(&self) -> Box<dyn OrderedLog>;

    /// Whether a clean end is a record of its own. A log that others go on with has none.
    fn ends_with_a_record(&self) -> bool {
        true
    }
}

pub(crate) struct FileHome(tempfile::TempDir);

impl Home for FileHome {
    fn open(&self) -> Box<dyn OrderedLog> {
        let root: &Path = self.0.path();
        Box::new(FileLog::open(Arc::new(RealDisk), root, options()).unwrap().0)
    }
}

pub(crate) fn file_home() -> FileHome {
    FileHome(tempfile::tempdir().unwrap())
}

/// Every case, over one kind of home.
macro_rules! conformance {
    ($kind:ident, $home:path) => {
        mod $kind {
            $crate::conformance::conformance!(@ $home,
                lsns_are_dense_from_one,
                what_was_committed_is_there_after_opening_again,
                the_writer_epoch_rises_with_each_open,
                a_batch_at_another_position_is_refused_and_does_no_harm,
                an_older_batch_id_is_refused,
                a_tick_that_goes_back_is_refused,
                resolve_knows_what_was_committed,
                a_closed_log_takes_nothing_more,
                a_reader_follows_the_writer,
                seeking_finds_each_record,
                identity_survives,
                snapshots_are_found_again,
            );
        }
    };
    (@ $home:path, $($name:ident),* $(,)?) => {
        $(#[test] fn $name() { $crate::conformance::$name(&$home()); })*
    };
}
pub(crate) use conformance;

conformance!(file_log, crate::conformance::file_home);

pub(crate) fn lsns_are_dense_from_one(home: &dyn Home) {
    let mut log = home.open();
    let mut writer = Writer::new(&*log);
    assert_eq!(log.next_lsn(), Lsn(1));
    assert_eq!(writer.append(&mut *log, &[b"a", b"b"]), Lsn(2));
    assert_eq!(writer.append(&mut *log, &[b"c"]), Lsn(3));
    assert_eq!(log.next_lsn(), Lsn(4));
    assert_eq!(log.synced_lsn(), Lsn(3));
    let records = read_all(&*log);
    assert_eq!(records.iter().map(|record| record.lsn).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(records[2].bytes, b"c");
}

pub(crate) fn what_was_committed_is_there_after_opening_again(home: &dyn Home) {
    let mut written = Vec::new();
    for round in 0..5_u8 {
        let mut log = home.open();
        assert_eq!(read_all(&*log).len(), written.len());
        let mut writer = Writer::new(&*log);
        for number in 0..20_u8 {
            let record = vec![round; 100 + usize::from(number)];
            writer.append(&mut *log, &[&record]);
            written.push(record);
        }
        let bytes: Vec<_> = read_all(&*log).into_iter().map(|record| record.bytes).collect();
        assert_eq!(bytes, written);
    }
}

pub(crate) fn the_writer_epoch_rises_with_each_open(home: &dyn Home) {
    let epochs: Vec<u64> = (0..3).map(|_| home.open().writer_epoch()).collect();
    assert!(epochs.windows(2).all(|pair| pair[0] < pair[1]), "{epochs:?}");
}

pub(crate) fn a_batch_at_another_position_is_refused_and_does_no_harm(home: &dyn Home) {
    let mut log = home.open();
    let mut writer = Writer::new(&*log);
    writer.append(&mut *log, &[b"a"]);
    let wrong = writer.batch(Lsn(7), &[b"b"]);
    let expected = BatchRefusal::Position { expected: Lsn(2), found: Lsn(7) };
    assert!(
        matches!(log.append(&wrong), AppendOutcome::Failed(AppendError::Refused(refusal)) if refusal == expected)
    );
    assert_eq!(writer.append(&mut *log, &[b"b"]), Lsn(2));
}

pub(crate) fn an_older_batch_id_is_refused(home: &dyn Home) {
    let mut log = home.open();
    let mut writer = Writer::new(&*log);
    writer.append(&mut *log, &[b"a"]);
    let again = Writer::new(&*log).batch(Lsn(2), &[b"b"]);
    assert!(matches!(
        log.append(&again),
        AppendOutcome::Failed(AppendError::Refused(BatchRefusal::Id { .. }))
    ));
}

pub(crate) fn a_tick_that_goes_back_is_refused(home: &dyn Home) {
    let mut log = home.open();
    let mut writer = Writer::new(&*log);
    writer.append(&mut *log, &[b"a"]);
    writer.tick -= 100;
    let earlier = writer.batch(Lsn(2), &[b"b"]);
    assert!(matches!(
        log.append(&earlier),
        AppendOutcome::Failed(AppendError::Refused(BatchRefusal::TickBack { .. }))
    ));
}

pub(crate) fn resolve_knows_what_was_committed(home: &dyn Home) {
    let mut log = home.open();
    let mut writer = Writer::new(&*log);
    let batch = writer.batch(Lsn(1), &[b"a"]);
    assert_eq!(log.resolve(batch.id()), Resolution::Absent);
    assert!(matches!(log.append(&batch), AppendOutcome::Committed { synced: Lsn(1) }));
    assert_eq!(log.resolve(batch.id()), Resolution::Committed { synced: Lsn(1) });
    assert_eq!(log.resolve(batch.id().next()), Resolution::Absent);
    assert_eq!(log.resolve(BatchId::first(log.writer_epoch() + 1)), Resolution::Unknown);
}

pub(crate) fn a_closed_log_takes_nothing_more(home: &dyn Home) {
    let mut log = home.open();
    let mut writer = Writer::new(&*log);
    writer.append(&mut *log, &[b"a"]);
    let last = Lsn(if home.ends_with_a_record() { 2 } else { 1 });
    assert!(matches!(log.close(Moment::default()), AppendOutcome::Committed { synced } if synced == last));
    let late = writer.batch(log.next_lsn(), &[b"b"]);
    assert!(matches!(log.append(&late), AppendOutcome::Failed(AppendError::Closed)));
    drop(log);
    let log = home.open();
    let kind = if home.ends_with_a_record() { CLOSE_RECORD } else { EVENT };
    assert_eq!(read_all(&*log).last().map(|record| record.kind), Some(kind));
    assert_eq!(log.next_lsn(), last.next());
}

pub(crate) fn a_reader_follows_the_writer(home: &dyn Home) {
    let mut log = home.open();
    let mut writer = Writer::new(&*log);
    let mut reader = log.reader();
    assert!(reader.next_frame().unwrap().is_none());
    for number in 0..100_u64 {
        let record = vec![7; 40 + number as usize];
        writer.append(&mut *log, &[&record]);
        let records = drain(&mut reader);
        assert_eq!(records.len(), 1);
        assert_eq!((records[0].lsn, records[0].bytes.len()), (number + 1, record.len()));
    }
}

pub(crate) fn seeking_finds_each_record(home: &dyn Home) {
    let mut log = home.open();
    let mut writer = Writer::new(&*log);
    for number in 0..60_u8 {
        writer.append(&mut *log, &[&[number; 30], &[number, 1], &[number, 2]]);
    }
    let mut reader = log.reader();
    for lsn in (1..=180).map(Lsn) {
        reader.seek(lsn).unwrap();
        let frame = reader.next_frame().unwrap().unwrap();
        assert_eq!(frame.record(lsn).unwrap().bytes[0], ((lsn.0 - 1) / 3) as u8);
    }
    let frame = frame_with(&mut reader, Lsn(7)).unwrap();
    assert_eq!((frame.header.first_lsn, frame.record(Lsn(7)).unwrap().bytes[0]), (Lsn(7), 2));
    assert!(frame_with(&mut reader, Lsn(181)).is_none());
    reader.seek(Lsn(181)).unwrap();
    assert!(reader.next_frame().unwrap().is_none());
}

pub(crate) fn identity_survives(home: &dyn Home) {
    let first = home.open().identity();
    assert_eq!(home.open().identity(), first);
}

pub(crate) fn snapshots_are_found_again(home: &dyn Home) {
    use std::io::Read;

    let mut log = home.open();
    let mut writer = Writer::new(&*log);
    writer.append(&mut *log, &[b"a", b"b"]);
    log.snapshots().store(Lsn(2), Moment { tick: 5, wall_ms: 6 }, b"the state").unwrap();
    drop(log);
    let store = home.open().snapshots();
    let newest = store.newest().unwrap();
    assert_eq!((newest.lsn, newest.at.tick), (Lsn(2), 5));
    let mut bytes = Vec::new();
    store.open(newest.lsn).unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, b"the state");
}
