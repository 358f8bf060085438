//! The host keeps the log bounded by what it finds, whichever process wrote it and whatever the clocks of people say.

use crate::running::{Failing, grant, open, release, start};
use std::path::Path;
use tempfile::TempDir;
use tenure_engine::host::{Handle, Host, HostOptions, read_clocks};
use tenure_engine::{Answer, Refused, Request, Submit, UpkeepOptions};
use tenure_kernel::{Action, Bundle, Grant, Policy, RecordKind};
use tenure_log::{
    AppendOutcome, BatchBuilder, BatchId, FileLog, FileLogOptions, Genesis, Moment, OrderedLog, Recovery,
};

/// A condition that does not come within so many looks will not come.
const LOOKS_MAX: usize = 2_000_000;
const SEGMENT_BYTES: u64 = 64 << 10;
const ATTACHMENT_BYTES: usize = 4_000;
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

fn options() -> FileLogOptions {
    let genesis = Genesis { random: [9; 16], unix_seconds: 1_700_000_000, shard: 0 };
    let mut options = FileLogOptions::new(genesis, read_clocks().wall_ms);
    options.segment_bytes = SEGMENT_BYTES;
    options.free_bytes_min = 0;
    options
}

fn files(directory: &Path) -> (FileLog, Recovery) {
    open(directory, &options())
}

fn serve(directory: &Path, options: HostOptions) -> Host {
    let (log, recovery) = files(directory);
    start(log, &recovery, options, Box::new(|_| {}))
}

/// Looks until it is as wanted; every look is a turn of the engine.
fn wait_until(handle: &Handle, what: &str, wanted: impl Fn() -> bool) {
    let looked = |_| {
        let _ = handle.call(Request::Status);
        wanted()
    };
    assert!((0..LOOKS_MAX).any(looked), "{what}: it did not come to be");
}

fn large_grant(name: &str) -> Request {
    let mut grant = Grant::new(Bundle::one(name), "h", Policy::permanent());
    grant.attachment = vec![b'x'; ATTACHMENT_BYTES];
    Request::Submit(Submit::now(Action::Grant(grant)))
}

/// Makes the log longer by so many attachments; nothing of it stays alive.
fn grow(handle: &Handle, attachments: usize) {
    for _ in 0..attachments {
        let granted = handle.call(large_grant("r"));
        let lease = granted.live().unwrap_or_else(|| panic!("{granted:?}")).id;
        assert!(!matches!(handle.call(release(lease)), Answer::Refused(_)));
    }
}

fn segments(directory: &Path) -> Vec<u64> {
    let entries = std::fs::read_dir(directory.join("log")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut first: Vec<u64> =
        names.filter_map(|name| name.strip_suffix(".seg").map(|lsn| lsn.parse().unwrap())).collect();
    first.sort_unstable();
    first
}

fn snapshot_lsn(handle: &Handle) -> u64 {
    handle.last_snapshot().map_or(0, |(lsn, _)| lsn.0)
}

fn synced_lsn(handle: &Handle) -> u64 {
    match handle.call(Request::Status) {
        Answer::Status(status) => status.synced_lsn.0,
        other => panic!("{other:?}"),
    }
}

/// Each life wrote less than the threshold, and none of them ever took a snapshot.
#[test]
fn a_log_written_in_twenty_short_lives_has_snapshots_and_is_trimmed() {
    let directory = TempDir::new().unwrap();
    let due_bytes = 64 << 10;
    let host = HostOptions {
        upkeep: UpkeepOptions {
            snapshot_bytes_min: due_bytes,
            history_bytes_max: 4 * SEGMENT_BYTES,
            ..UpkeepOptions::default()
        },
        ..HostOptions::default()
    };
    for _ in 0..20 {
        let host = serve(directory.path(), host.clone());
        let handle = host.handle();
        // An attachment makes two records. Which process wrote them does not matter.
        let above = || (synced_lsn(&handle) - snapshot_lsn(&handle)) / 2 * ATTACHMENT_BYTES as u64;
        grow(&handle, 8);
        wait_until(&handle, "a snapshot of what is there", || above() < 2 * due_bytes);
        host.shut_down().unwrap();
    }
    let host = serve(directory.path(), host);
    wait_until(&host.handle(), "a bounded log", || segments(directory.path()).len() <= 7);
    assert!(segments(directory.path())[0] > 1);
    host.shut_down().unwrap();
}

/// History went only after snapshots that nothing but new log brought.
#[test]
fn a_quiet_daemon_lets_go_of_history_that_is_too_old() {
    let directory = TempDir::new().unwrap();
    let host = serve(directory.path(), HostOptions::default());
    grow(&host.handle(), 60);
    host.shut_down().unwrap();
    assert!(segments(directory.path()).len() > 3);

    let age = HostOptions {
        upkeep: UpkeepOptions {
            history_age_max: std::time::Duration::from_millis(1),
            ..UpkeepOptions::default()
        },
        ..HostOptions::default()
    };
    let host = serve(directory.path(), age);
    wait_until(&host.handle(), "history that is too old goes", || segments(directory.path()).len() == 1);
    assert!(host.handle().call(grant("after", "h")).live().is_some());
    host.shut_down().unwrap();
    assert!(files(directory.path()).1.snapshot.is_some());
}

/// With one snapshot nothing may be trimmed, and a second one was never tried.
#[test]
fn a_disk_that_the_log_has_filled_is_made_room_on_without_a_restart() {
    let directory = TempDir::new().unwrap();
    let (log, recovery) = files(directory.path());
    let small = Failing::small(log, 6 * SEGMENT_BYTES);
    let host = start(small, &recovery, HostOptions::default(), Box::new(|_| {}));
    let handle = host.handle();
    for round in 0..2 {
        let refused = (0..10_000).find_map(|_| match handle.call(large_grant("r")) {
            Answer::Refused(refused) => Some(refused),
            granted => {
                let lease = granted.live().unwrap().id;
                assert!(!matches!(handle.call(release(lease)), Answer::Refused(_)));
                None
            }
        });
        assert!(matches!(refused, Some(Refused::DiskLow)), "round {round}: {refused:?}");
        wait_until(&handle, "grants again", || match handle.call(grant("again", "h")) {
            Answer::Refused(Refused::DiskLow) => false,
            Answer::Refused(refused) => panic!("{refused:?}"),
            granted => {
                assert!(!matches!(handle.call(release(granted.live().unwrap().id)), Answer::Refused(_)));
                true
            }
        });
    }
    host.shut_down().unwrap();
}

/// A log that is an hour old by its ticks and nine days old by its wall clock: somebody set the clock.
fn log_under_a_clock_that_was_set_forward(directory: &Path) {
    let (mut log, _) = files(directory);
    let mut id = BatchId::first(log.writer_epoch());
    let wall_ms = read_clocks().wall_ms - 9 * DAY_MS;
    let mut tick = 0;
    while log.extents().len() < 4 {
        tick += 60_000;
        let at = Moment { tick, wall_ms: wall_ms + tick };
        let mut builder = BatchBuilder::new(id, log.next_lsn(), at);
        for _ in 0..1_000 {
            builder.push(RecordKind::Tick, &tick.to_le_bytes()).unwrap();
        }
        assert!(matches!(log.append(&builder.finish()), AppendOutcome::Committed { .. }));
        id = id.next();
    }
    assert!(tick < DAY_MS);
}

#[test]
fn a_clock_set_forward_by_eight_days_ages_no_history() {
    let directory = TempDir::new().unwrap();
    log_under_a_clock_that_was_set_forward(directory.path());
    let before = segments(directory.path());
    for life in 0..2 {
        let host = serve(directory.path(), HostOptions::default());
        let handle = host.handle();
        assert!(handle.call(grant(&format!("r/{life}"), "h")).live().is_some());
        let synced = synced_lsn(&handle);
        handle.take_snapshot();
        wait_until(&handle, "a snapshot", || snapshot_lsn(&handle) >= synced);
        host.shut_down().unwrap();
    }
    let (_, recovery) = files(directory.path());
    assert_eq!(recovery.oldest_lsn.0, 1);
    assert!(segments(directory.path()).starts_with(&before));
}
