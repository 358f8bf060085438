//! The state as it was.

use tenure_history::{Point, StateError, state_at};
use tenure_kernel::Lsn;
use tenure_log::{Moment, OfflineLog, OrderedLog};

use crate::support::{START_MS, Tale, bytes_of, disk, files, tale};

fn snapshot(tale: &Tale, lsn: u64) {
    let at = Moment { tick: 0, wall_ms: START_MS };
    tale.log.snapshots().store(tenure_log::Lsn(lsn), at, &tale.states[lsn as usize]).unwrap();
}

#[test]
fn the_state_at_every_lsn_is_what_replay_came_to_then() {
    let (mut tale, _) = tale();
    tale.close();
    let (directory, states) = tale.stop();
    let log = OfflineLog::open(disk(), directory.path()).unwrap();
    for (lsn, expected) in states.iter().enumerate() {
        let state = state_at(&log, Point::Lsn(Lsn(lsn as u64))).unwrap();
        assert_eq!(state.lsn, Lsn(lsn as u64));
        assert_eq!(&bytes_of(&state.kernel), expected, "after lsn {lsn}");
        assert_eq!(state.built_on, None);
    }
}

#[test]
fn a_snapshot_shortens_the_way_and_changes_nothing() {
    let (tale, _) = tale();
    snapshot(&tale, 9);
    snapshot(&tale, 20);
    let (directory, states) = tale.stop();
    let log = OfflineLog::open(disk(), directory.path()).unwrap();
    for (lsn, expected) in states.iter().enumerate() {
        let state = state_at(&log, Point::Lsn(Lsn(lsn as u64))).unwrap();
        assert_eq!(&bytes_of(&state.kernel), expected, "after lsn {lsn}");
        let newest = [20, 9].into_iter().find(|snapshot| *snapshot <= lsn as u64);
        assert_eq!(state.built_on, newest.map(Lsn));
    }
}

#[test]
fn a_damaged_snapshot_is_passed_over() {
    let (tale, _) = tale();
    snapshot(&tale, 9);
    snapshot(&tale, 20);
    let (directory, states) = tale.stop();
    let newest = &files(&directory.path().join("snapshots"), ".snap")[1];
    let mut bytes = std::fs::read(newest).unwrap();
    bytes[70] ^= 1;
    std::fs::write(newest, bytes).unwrap();
    let log = OfflineLog::open(disk(), directory.path()).unwrap();
    let state = state_at(&log, Point::Lsn(Lsn(25))).unwrap();
    assert_eq!((state.built_on, bytes_of(&state.kernel)), (Some(Lsn(9)), states[25].clone()));
}

#[test]
fn a_time_means_the_last_frame_up_to_it() {
    let (tale, _) = tale();
    let (directory, states) = tale.stop();
    let log = OfflineLog::open(disk(), directory.path()).unwrap();
    let at = |tick: u64| state_at(&log, Point::Wall(START_MS + tick)).unwrap();
    assert_eq!(at(1_000).lsn, Lsn(3));
    assert_eq!(at(1_999).lsn, Lsn(3));
    assert_eq!(at(2_000).lsn, Lsn(5));
    assert_eq!(bytes_of(&at(2_000).kernel), states[5]);
    assert_eq!(at(99_999_999).lsn, Lsn(states.len() as u64 - 1));
    let before = state_at(&log, Point::Wall(START_MS)).unwrap_err();
    assert!(matches!(before, StateError::BeforeLog { began_wall_ms } if began_wall_ms == START_MS + 1_000));
}

#[test]
fn what_is_not_there_yet_cannot_be_told() {
    let (tale, _) = tale();
    let (directory, states) = tale.stop();
    let log = OfflineLog::open(disk(), directory.path()).unwrap();
    let last = Lsn(states.len() as u64 - 1);
    let error = state_at(&log, Point::Lsn(last.next())).unwrap_err();
    assert!(matches!(error, StateError::Ahead { last: found } if found == last));
}

#[test]
fn what_has_been_trimmed_cannot_be_told() {
    let (mut tale, _) = tale();
    snapshot(&tale, 18);
    snapshot(&tale, 20);
    let trimmed = tale.log.trim(tenure_log::Lsn(18));
    assert!(trimmed.extents > 0);
    let done = tale.log.chore().unwrap().run();
    assert!(done.error().is_none());
    tale.log.chore_done(done);
    let (directory, states) = tale.stop();
    let log = OfflineLog::open(disk(), directory.path()).unwrap();
    let error = state_at(&log, Point::Lsn(Lsn(17))).unwrap_err();
    assert!(matches!(error, StateError::Trimmed { lsn: Lsn(17), oldest: Some(Lsn(18)) }), "{error}");
    for (lsn, expected) in states.iter().enumerate().skip(18) {
        let state = state_at(&log, Point::Lsn(Lsn(lsn as u64))).unwrap();
        assert_eq!(&bytes_of(&state.kernel), expected, "after lsn {lsn}");
    }
}
