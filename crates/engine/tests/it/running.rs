//! The host over a real directory, with real threads: what was acknowledged is there after a restart, and
//! nobody waits for an answer that never comes.

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tempfile::TempDir;
use tenure_engine::host::{Handle, Host, HostOptions, Listener, read_clocks};
use tenure_engine::{
    Answer, Control, Engine, EngineConfig, Out, Push, Refused, Request, Status, Submit, UpkeepOptions,
};
use tenure_kernel::{Action, Bundle, Grant, LeaseId, Lsn, Policy, Release, Text, Token};
use tenure_log::{
    AppendOutcome, Authority, Batch, BatchId, Chore, ChoreDone, Extent, FileLog, FileLogOptions, FileReader,
    Genesis, Identity, Moment, OpenError, OrderedLog, RealDisk, Recovery, Resolution, SnapshotStore, Space,
    Trimmed,
};

/// A condition that does not come within so many looks will not come.
const LOOKS_MAX: usize = 2_000_000;

pub(crate) fn files(directory: &Path) -> (FileLog, Recovery) {
    let now = read_clocks();
    let genesis = Genesis { random: [7; 16], unix_seconds: now.wall_ms / 1000, shard: 0 };
    let mut options = FileLogOptions::new(genesis, now.wall_ms);
    options.segment_bytes = 256 << 10;
    options.free_bytes_min = 0;
    open(directory, &options)
}

/// Opens a log that its last user has let go. A process that another test is about to start holds a copy of
/// the lock between fork and exec, so that the directory may seem in use for an instant.
pub(crate) fn open(directory: &Path, options: &FileLogOptions) -> (FileLog, Recovery) {
    for _ in 0..LOOKS_MAX {
        match FileLog::open(Arc::new(RealDisk), directory, options.clone()) {
            Err(OpenError::Locked { .. }) => std::thread::yield_now(),
            opened => return opened.unwrap(),
        }
    }
    panic!("{} stays in use", directory.display())
}

pub(crate) fn recover(directory: &Path) -> (Engine, FileLog) {
    let (log, recovery) = files(directory);
    let engine = Engine::recover(&log, &recovery, EngineConfig::default(), read_clocks()).unwrap();
    (engine, log)
}

pub(crate) fn start(
    log: impl OrderedLog + 'static,
    recovery: &Recovery,
    options: HostOptions,
    listener: Listener,
) -> Host {
    let config = EngineConfig::default();
    let engine = Engine::recover(&log, recovery, config.clone(), read_clocks()).unwrap();
    Host::start(engine, Box::new(log), &config, options, listener)
}

pub(crate) fn start_plain(directory: &TempDir) -> Host {
    let (log, recovery) = files(directory.path());
    start(log, &recovery, HostOptions::default(), Box::new(|_| {}))
}

pub(crate) fn grant(name: &str, holder: &str) -> Request {
    let grant = Grant::new(Bundle::one(name), holder, Policy::heartbeat(90_000, 30_000));
    Request::Submit(Submit::now(Action::Grant(grant)))
}

pub(crate) fn waiting_grant(name: &str, holder: &str) -> Request {
    let grant = Grant::new(Bundle::one(name), holder, Policy::heartbeat(90_000, 30_000));
    Request::Submit(Submit { wait_ms: 600_000, ..Submit::now(Action::Grant(grant)) })
}

pub(crate) fn release(lease: LeaseId) -> Request {
    let token = Token::new(lease, tenure_kernel::Epoch::FIRST);
    Request::Submit(Submit::now(Action::Release(Release { token, text: Text::default() })))
}

pub(crate) fn status(handle: &Handle) -> Status {
    match handle.call(Request::Status) {
        Answer::Status(status) => *status,
        other => panic!("{other:?}"),
    }
}

/// Looks at the status until it is as wanted.
pub(crate) fn wait_until(handle: &Handle, wanted: impl Fn(&Status) -> bool) {
    assert!((0..LOOKS_MAX).any(|_| wanted(&status(handle))), "it did not come to be");
}

#[test]
fn a_grant_survives_a_clean_restart() {
    let directory = TempDir::new().unwrap();
    let host = start_plain(&directory);
    let answer = host.handle().call(grant("printer", "alice"));
    let lease = answer.live().unwrap().clone();
    assert_eq!(lease.holder, "alice");
    assert!(matches!(host.handle().call(grant("printer", "bob")), Answer::Refused(Refused::Held(_))));
    host.shut_down().unwrap();

    let host = start_plain(&directory);
    let answer = host.handle().call(Request::Read(lease.id));
    let again = answer.live().unwrap();
    assert_eq!((again.holder.as_str(), again.epoch, again.fence), ("alice", lease.epoch, lease.fence));
    host.shut_down().unwrap();
}

#[test]
fn many_callers_are_all_answered() {
    let directory = TempDir::new().unwrap();
    let host = start_plain(&directory);
    let callers: Vec<_> = (0..8)
        .map(|caller| {
            let handle = host.handle();
            std::thread::spawn(move || {
                let mut leases: Vec<LeaseId> = Vec::new();
                for round in 0..25 {
                    let requests: Vec<Request> =
                        (0..20).map(|n| grant(&format!("r/{caller}/{round}/{n}"), "h")).collect();
                    for answer in handle.call_all(requests).wait() {
                        leases.push(answer.live().unwrap().id);
                    }
                }
                let releases: Vec<Request> = leases.iter().copied().map(release).collect();
                for answer in handle.call_all(releases).wait() {
                    assert!(!matches!(answer, Answer::Refused(_)), "{answer:?}");
                }
                leases.len()
            })
        })
        .collect();
    let total: usize = callers.into_iter().map(|caller| caller.join().unwrap()).sum();
    assert_eq!(total, 8 * 25 * 20);
    host.shut_down().unwrap();
}

#[test]
fn shutdown_answers_the_rest_with_shutting_down() {
    let directory = TempDir::new().unwrap();
    let host = start_plain(&directory);
    let handle = host.handle();
    assert!(handle.call(grant("printer", "alice")).live().is_some());
    let waiting: Vec<_> = (0..3).map(|_| handle.start(waiting_grant("printer", "bob"))).collect();
    wait_until(&handle, |status| status.waiters == 3);
    host.shut_down().unwrap();
    for pending in waiting {
        assert!(matches!(pending.wait_one(), Answer::Refused(Refused::ShuttingDown)));
    }
    assert!(matches!(handle.call(Request::Status), Answer::Refused(Refused::ShuttingDown)));
}

/// Requests that reached the writer's queue after its last look were dropped, and their callers waited for ever.
#[test]
fn callers_that_race_with_the_shutdown_are_all_answered() {
    for _ in 0..10 {
        let directory = TempDir::new().unwrap();
        let host = start_plain(&directory);
        let callers: Vec<_> = (0..4)
            .map(|_| {
                let handle = host.handle();
                std::thread::spawn(move || {
                    while !matches!(handle.call(Request::Pools), Answer::Refused(Refused::ShuttingDown)) {}
                })
            })
            .collect();
        wait_until(&host.handle(), |_| true);
        host.shut_down().unwrap();
        for caller in callers {
            caller.join().unwrap();
        }
    }
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor there is.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn answers_can_be_awaited_without_a_runtime() {
    let directory = TempDir::new().unwrap();
    let host = start_plain(&directory);
    let handle = host.handle();
    let answers =
        block_on(handle.call_all(vec![grant("a", "alice"), grant("b", "bob"), grant("a", "carol")]));
    let [first, second, third] = &answers[..] else { panic!("three answers") };
    assert_eq!(first.live().unwrap().holder, "alice");
    assert_eq!(second.live().unwrap().holder, "bob");
    assert!(matches!(third, Answer::Refused(_)));
    assert!(block_on(handle.call_all(Vec::new())).is_empty());

    let lease = first.live().unwrap().id;
    let waiting = handle.start(waiting_grant("a", "dave"));
    let woken = std::thread::spawn(move || block_on(waiting));
    wait_until(&handle, |status| status.waiters == 1);
    assert!(matches!(handle.call(release(lease)), Answer::Lease(_)));
    assert_eq!(woken.join().unwrap()[0].live().unwrap().holder, "dave");
    host.shut_down().unwrap();
}

#[test]
fn more_requests_than_may_be_outstanding_are_refused() {
    let directory = TempDir::new().unwrap();
    let (log, recovery) = files(directory.path());
    let options = HostOptions { outstanding_max: 3, ..HostOptions::default() };
    let host = start(log, &recovery, options, Box::new(|_| {}));
    let handle = host.handle();
    let answers = handle.call_all((0..4).map(|_| Request::Pools).collect()).wait();
    assert!(answers.iter().all(|answer| matches!(answer, Answer::Refused(Refused::Overloaded { .. }))));
    assert_eq!(handle.call_all((0..3).map(|_| Request::Pools).collect()).wait().len(), 3);
    host.shut_down().unwrap();
}

#[test]
fn a_second_opener_is_refused_while_the_first_runs() {
    let directory = TempDir::new().unwrap();
    let host = start_plain(&directory);
    let genesis = Genesis { random: [8; 16], unix_seconds: 1, shard: 0 };
    let second = FileLog::open(Arc::new(RealDisk), directory.path(), FileLogOptions::new(genesis, 0));
    let Err(OpenError::Locked { source, .. }) = second else { panic!("only one may have the directory") };
    let holder = source.to_string();
    assert!(holder.contains(&std::process::id().to_string()), "it says who has it: {holder}");
    host.shut_down().unwrap();
    drop(files(directory.path()));
}

#[test]
fn a_snapshot_that_was_asked_for_is_used_at_the_next_start() {
    let directory = TempDir::new().unwrap();
    let host = start_plain(&directory);
    let handle = host.handle();
    let requests = (0..100).map(|n| grant(&format!("r/{n}"), "holder")).collect();
    let leases: Vec<LeaseId> =
        handle.call_all(requests).wait().iter().map(|answer| answer.live().unwrap().id).collect();
    handle.take_snapshot();
    wait_until(&handle, |_| snapshots(&directory) > 0);
    let after = handle.call(grant("after", "holder"));
    host.shut_down().unwrap();

    let (log, recovery) = files(directory.path());
    assert!(recovery.snapshot.is_some_and(|header| header.lsn.0 >= 100), "{:?}", recovery.snapshot);
    let host = start(log, &recovery, HostOptions::default(), Box::new(|_| {}));
    for lease in leases.into_iter().chain([after.live().unwrap().id]) {
        assert!(host.handle().call(Request::Read(lease)).live().is_some(), "{lease}");
    }
    host.shut_down().unwrap();
}

/// Snapshots that are complete.
fn snapshots(directory: &TempDir) -> usize {
    let entries = std::fs::read_dir(directory.path().join("snapshots")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".snap")).count()
}

#[test]
fn history_beyond_its_bounds_is_trimmed_once_two_snapshots_cover_it() {
    let directory = TempDir::new().unwrap();
    let options = HostOptions {
        upkeep: UpkeepOptions { history_bytes_max: 1, ..UpkeepOptions::default() },
        ..HostOptions::default()
    };
    let mut trimmed = false;
    // A host takes one snapshot in five seconds; each round has its own.
    for round in 0..4 {
        let (log, recovery) = files(directory.path());
        trimmed |= recovery.oldest_lsn.0 > 1;
        let (pushes, pushed) = channel();
        let host = start(log, &recovery, options.clone(), forward(pushes));
        let handle = host.handle();
        if trimmed {
            watched_from_the_beginning(&handle, &pushed);
        }
        // More than a segment, so that something can go.
        for n in 0..100 {
            let mut grant = Grant::new(Bundle::one(&format!("r/{round}/{n}")), "h", Policy::permanent());
            grant.attachment = vec![b'x'; 4000];
            let answer = handle.call(Request::Submit(Submit::now(Action::Grant(grant))));
            assert!(answer.live().is_some(), "{answer:?}");
        }
        let before = status(&handle).applied_lsn;
        let covered = snapshots(&directory);
        handle.take_snapshot();
        if round < 1 {
            wait_until(&handle, |_| snapshots(&directory) > covered);
        } else {
            // The state is told before anything is deleted, by an event of its own.
            wait_until(&handle, |status| status.applied_lsn > before);
        }
        host.shut_down().unwrap();
    }
    assert!(trimmed);
    let (engine, _log) = recover(directory.path());
    assert_eq!(engine.kernel().live_count(), 400);
}

fn forward(pushes: Sender<Out>) -> Listener {
    // A test that is over listens no more.
    Box::new(move |out| {
        let _ = pushes.send(out);
    })
}

fn watched_from_the_beginning(handle: &Handle, pushed: &Receiver<Out>) {
    let watching = handle.start(Request::Watch { from: Lsn(1) });
    let watch = watching.first_ticket();
    assert!(matches!(watching.wait_one(), Answer::Watching { .. }));
    handle.tell(Control::WatchMore { watch, room: 10 });
    match pushed.recv().unwrap() {
        Out::Push(Push::WatchTrimmed { oldest, .. }) => assert!(oldest > Lsn(1)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_watcher_of_a_running_host_sees_everything_in_order() {
    let directory = TempDir::new().unwrap();
    let host = start_plain(&directory);
    let old = host.handle().call_all((0..50).map(|n| grant(&format!("old/{n}"), "h")).collect()).wait();
    assert_eq!(old.len(), 50);
    host.shut_down().unwrap();

    let (log, recovery) = files(directory.path());
    let (pushes, pushed) = channel();
    let host = start(log, &recovery, HostOptions::default(), forward(pushes));
    let handle = host.handle();
    let watching = handle.start(Request::Watch { from: Lsn(1) });
    let watch = watching.first_ticket();
    assert!(matches!(watching.wait_one(), Answer::Watching { .. }));
    handle.tell(Control::WatchMore { watch, room: 1_000 });
    let writer = handle.clone();
    let writing = std::thread::spawn(move || {
        for n in 0..100 {
            assert!(writer.call(grant(&format!("new/{n}"), "h")).live().is_some());
        }
    });
    let mut seen = Vec::new();
    while seen.len() < 150 {
        match pushed.recv().unwrap() {
            Out::Push(Push::Events { events, .. }) => seen.extend(events.iter().map(|event| event.lsn.0)),
            other => panic!("{other:?}"),
        }
    }
    writing.join().unwrap();
    assert!(seen.is_sorted() && seen[0] == 1, "{seen:?}");
    let distinct: std::collections::BTreeSet<u64> = seen.iter().copied().collect();
    assert_eq!(distinct.len(), 150);
    host.shut_down().unwrap();
}

/// A file log whose syncs fail once they are told to, and which remembers the threads that appended.
pub(crate) struct Failing {
    log: FileLog,
    fails: Arc<Mutex<bool>>,
    appended_by: Arc<Mutex<Vec<Option<String>>>>,
    /// There is room for this much log.
    bytes_max: u64,
}

impl Failing {
    /// One that does not fail yet.
    pub(crate) fn new(log: FileLog) -> Self {
        Self { log, fails: Arc::default(), appended_by: Arc::default(), bytes_max: u64::MAX }
    }

    /// One that never fails, on a small disk.
    pub(crate) fn small(log: FileLog, bytes_max: u64) -> Self {
        Self { bytes_max, ..Self::new(log) }
    }

    /// The names of the threads that appended, in order.
    pub(crate) fn appended_by(&self) -> Arc<Mutex<Vec<Option<String>>>> {
        Arc::clone(&self.appended_by)
    }
}

impl OrderedLog for Failing {
    fn identity(&self) -> Identity {
        self.log.identity()
    }
    fn writer_epoch(&self) -> u64 {
        self.log.writer_epoch()
    }
    fn authority_until(&self) -> Authority {
        self.log.authority_until()
    }
    fn next_lsn(&self) -> tenure_log::Lsn {
        self.log.next_lsn()
    }
    fn synced_lsn(&self) -> tenure_log::Lsn {
        self.log.synced_lsn()
    }
    fn extents(&self) -> Vec<Extent> {
        self.log.extents()
    }
    fn append(&mut self, batch: &Batch) -> AppendOutcome {
        self.appended_by.lock().unwrap().push(std::thread::current().name().map(str::to_owned));
        if *self.fails.lock().unwrap() {
            let source = std::io::Error::other("the disk is gone");
            return AppendOutcome::Failed(tenure_log::AppendError::Io { action: "sync", source });
        }
        self.log.append(batch)
    }
    fn resolve(&mut self, batch: BatchId) -> Resolution {
        self.log.resolve(batch)
    }
    fn reader(&self) -> FileReader {
        self.log.reader()
    }
    fn snapshots(&self) -> SnapshotStore {
        self.log.snapshots()
    }
    fn trim(&mut self, below: tenure_log::Lsn) -> Trimmed {
        self.log.trim(below)
    }
    fn space(&self) -> Space {
        let bytes: u64 = self.log.extents().iter().map(|extent| extent.bytes).sum();
        if bytes > self.bytes_max { Space::Low } else { self.log.space() }
    }
    fn wants_chore(&self) -> bool {
        self.log.wants_chore()
    }
    fn chore(&mut self) -> Option<Chore> {
        self.log.chore()
    }
    fn chore_done(&mut self, done: ChoreDone) {
        self.log.chore_done(done);
    }
    fn close(&mut self, at: Moment) -> AppendOutcome {
        self.log.close(at)
    }
}

// A turn waited for the log, to be able to read it for a snapshot, and the log waited for its disk.
#[test]
fn turns_go_on_while_a_snapshot_is_wanted_and_the_log_is_busy() {
    let directory = TempDir::new().unwrap();
    let (log, recovery) = files(directory.path());
    let log = Failing::new(log);
    let (fails, appended_by) = (Arc::clone(&log.fails), log.appended_by());
    let host = start(log, &recovery, HostOptions::default(), Box::new(|_| {}));
    let handle = host.handle();
    assert!(handle.call(grant("a", "alice")).live().is_some());
    // Whoever appends now waits.
    let busy = fails.lock().unwrap();
    let granting = handle.start(grant("b", "bob"));
    let comes_about = |is_so: &mut dyn FnMut() -> bool| {
        (0..10_000).any(|_| {
            std::thread::park_timeout(Duration::from_millis(1));
            is_so()
        })
    };
    assert!(comes_about(&mut || appended_by.lock().unwrap().len() == 2), "nothing is appended");
    let wanting = handle.clone();
    let wanting = std::thread::spawn(move || wanting.take_snapshot());
    assert!(comes_about(&mut || wanting.is_finished()), "whoever wants a snapshot waits for the log");
    let mut probing = handle.probe();
    assert!(comes_about(&mut || probing.take_now().is_some()), "no turn is run");
    drop(busy);
    assert!(granting.wait_one().live().is_some());
    wait_until(&handle, |_| snapshots(&directory) > 0);
    host.shut_down().unwrap();
}

/// Those who waited for a bundle were never answered.
#[test]
fn a_log_that_fails_stops_the_host_and_everyone_is_answered() {
    let directory = TempDir::new().unwrap();
    let (log, recovery) = files(directory.path());
    let failing = Failing::new(log);
    let fails = Arc::clone(&failing.fails);
    let host = start(failing, &recovery, HostOptions::default(), Box::new(|_| {}));
    let handle = host.handle();
    let kept = handle.call(grant("a", "alice")).live().unwrap().id;
    let waiting = handle.start(waiting_grant("a", "bob"));
    wait_until(&handle, |status| status.waiters == 1);
    *fails.lock().unwrap() = true;
    let lost = handle.call(grant("b", "carol"));
    assert!(matches!(lost, Answer::Refused(Refused::OutcomeUnknown)), "{lost:?}");
    assert!(matches!(waiting.wait_one(), Answer::Refused(Refused::ShuttingDown)));
    let stop = host.join().expect_err("the log failed");
    assert_eq!(stop.to_string(), "the log failed: the log failed to sync: the disk is gone");
    assert!(matches!(handle.call(Request::Status), Answer::Refused(Refused::ShuttingDown)));

    let (engine, _log) = recover(directory.path());
    assert!(engine.kernel().live(kept).is_some());
    assert_eq!(engine.kernel().live_count(), 1);
}
