//! The only place with threads, channels and the clock; the driver decides what is done, and when. A caller's thread runs the
//! turn (`helm.rs`); the keeper runs those that time brings; the log thread appends and syncs; one thread reads the log for
//! watchers, one does chores, one builds snapshots.
//!
//! While a frame syncs, the next is gathered: the log thread takes it as soon as it comes back.

mod handle;
mod helm;
mod memory;
mod pools;
mod stalls;
mod writer;

pub use handle::{Handle, HandleOf, Pending};
pub use memory::{free_bytes, resident_bytes};
pub use pools::{Account, Accounts, Asker};

use crate::driver::{Driver, gathers_after};
use crate::engine::{Appended, Completion, Engine, EngineConfig, Stop};
use crate::hub::{LogRead, LogReadDone, publish};
use crate::journal::Out;
use crate::recovery::setup;
use crate::report::Task;
use crate::request::{Request, Ticket};
use crate::ticker::Now;
use crate::upkeep::UpkeepOptions;
use handle::{Owed, Shared};
use helm::{Helm, Mailbox};
use pools::{Admitted, Places, Pools};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};
use tenure_kernel::Lsn;
use tenure_log::snapshot::SnapshotHeader;
use tenure_log::{
    AppendOutcome, Authority, Batch, Chore, ChoreKind, FileReader, OrderedLog, Proof, ReadError,
};
use writer::{Keeps, Ways, Work, Writer};

/// What runs an engine.
pub struct Host {
    handle: Handle,
    ended: Receiver<Over>,
    /// They hold the log: the directory is free only when all have ended.
    threads: Vec<JoinHandle<()>>,
}

/// There are no more turns.
pub(crate) struct Over {
    outcome: Result<(), Stop>,
    /// As the last turn left it.
    engine: Box<Engine>,
}

/// Settings of the host.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// When snapshots are taken, and how much history is kept.
    pub upkeep: UpkeepOptions,
    /// Requests not yet answered, over all callers, in each lane.
    pub outstanding_max: usize,
    /// The same of one principal.
    pub outstanding_per_principal_max: usize,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            upkeep: UpkeepOptions::default(),
            outstanding_max: 256 << 10,
            outstanding_per_principal_max: 128 << 10,
        }
    }
}

/// What reaches the writer.
pub(crate) enum Message {
    /// Requests of one caller.
    Requests {
        /// Ticket of the first.
        first: Ticket,
        /// In order.
        requests: Vec<Request>,
        /// What they take until all are answered.
        places: Places,
        /// How much of each lane they may fill, or why they are refused there.
        admitted: Admitted,
        /// Where the answers go.
        owed: Owed,
    },
    /// Somebody asks whether turns are run.
    Probe(Owed),
    /// Put behind messages that a turn left behind, at this instant of boot time.
    Mark(u64),
    /// Something finished.
    Completed(Completion),
    /// Something finished on the log.
    Logged {
        completion: Option<Completion>,
        /// Until when answers may leave.
        authority: Authority,
        /// The log has chores to run.
        wants_chore: bool,
    },
    /// A chore ended; `None`: there was none.
    ChoreDone { done: Option<(Task, Option<String>)>, wants_chore: bool },
    /// Extents went.
    Trimmed { wants_chore: bool },
    /// A snapshot attempt finished; `None`: there was nothing new.
    SnapshotDone(Result<Option<SnapshotHeader>, String>),
    /// Take a snapshot now, of the state at the last whole frame up to a position.
    TakeSnapshot(Lsn),
    /// Finish and stop.
    ShutDown,
    /// Stop as it is; somebody goes on with the engine.
    HandOver,
}

/// Receives what the engine says without being asked: pushes, gates, notices.
pub type Listener = Box<dyn FnMut(Out) + Send>;

/// How far the clocks may drift apart before that is shown.
const DRIFT_MS_MAX: u64 = 2;
type SharedLog = Arc<Mutex<Box<dyn OrderedLog>>>;

/// The host's clocks. Boot time counts suspend; wall time is for people.
///
/// The two keep their distance until they have really drifted apart: an instant told twice is told the same, to the
/// millisecond.
#[must_use]
pub fn read_clocks() -> Now {
    static DISTANCE_MS: AtomicI64 = AtomicI64::new(i64::MIN);
    let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let boot_ms = boot.tv_sec as u64 * 1_000 + boot.tv_nsec as u64 / 1_000_000;
    let measured = wall.as_millis() as i64 - boot_ms as i64;
    let kept = DISTANCE_MS.load(Ordering::Relaxed);
    let distance = if kept == i64::MIN || kept.abs_diff(measured) > DRIFT_MS_MAX {
        DISTANCE_MS.store(measured, Ordering::Relaxed);
        measured
    } else {
        kept
    };
    Now { boot_ms, wall_ms: boot_ms.saturating_add_signed(distance) }
}

/// Boot time in microseconds, for measuring how long things take.
#[must_use]
pub fn boot_us() -> u64 {
    let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    boot.tv_sec as u64 * 1_000_000 + boot.tv_nsec as u64 / 1_000
}

impl Host {
    /// Starts the threads around a recovered engine.
    #[must_use]
    pub fn start(
        engine: Engine,
        log: Box<dyn OrderedLog>,
        config: &EngineConfig,
        options: HostOptions,
        listener: Listener,
    ) -> Self {
        let (sender, inbox) = channel();
        let (end, ended) = channel();
        let setup = setup(&log.identity(), config);
        let reader = log.reader();
        let log: SharedLog = Arc::new(Mutex::new(log));
        let mailbox = Mailbox::new(sender, Helm::new());
        let (max, of_principal_max) = (options.outstanding_max, options.outstanding_per_principal_max);
        let handle = Handle::new(mailbox.clone(), Pools::new(max, of_principal_max, config.inbox_max));
        let (reader, reader_thread) = spawn_reader(reader, mailbox.clone());
        let shared = handle.shared();
        // As of before the first turn.
        shared.tell_turn(engine.tick(), engine.synced_lsn());
        let (appender, log_thread) = spawn_appender(mailbox.clone(), Arc::clone(&log), Arc::clone(&shared));
        let (chores, chores_thread) = spawn_chores(mailbox.clone(), Arc::clone(&log));
        let ways =
            Ways { mailbox: mailbox.clone(), inbox, appender, reader, chores, ended: end, listener, shared };
        let driver = Driver::new(engine, &options.upkeep);
        mailbox.helm().man(Writer::new(driver, log, setup, ways));
        let keeper = spawn("tenure-keeper", move || mailbox.helm().keep());
        Self { handle, ended, threads: vec![keeper, reader_thread, log_thread, chores_thread] }
    }

    /// A way to ask.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Finishes what is under way, ends the log cleanly and waits for that.
    ///
    /// # Errors
    /// When the engine had to stop before that.
    pub fn shut_down(self) -> Result<(), Stop> {
        self.handle.shut_down();
        self.join()
    }

    /// Waits until there are no more turns.
    ///
    /// # Errors
    /// When the engine had to stop.
    pub fn join(self) -> Result<(), Stop> {
        self.end().outcome
    }

    /// The same, unless `gives_up` says that it has waited long enough: then the engine stops without ending the log, and
    /// the answer is `None`. It says `Some` for how long it is content.
    ///
    /// # Errors
    /// When the engine had to stop.
    pub fn join_unless(self, mut gives_up: impl FnMut() -> Option<Duration>) -> Option<Result<(), Stop>> {
        loop {
            let Some(content) = gives_up() else {
                self.handle.hand_over();
                let over = self.ended.recv().expect("invariant: no turn panics");
                return self.wait_for_threads(over).outcome.err().map(Err);
            };
            match self.ended.recv_timeout(content) {
                Ok(over) => return Some(self.wait_for_threads(over).outcome),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("invariant: no turn panics"),
            }
        }
    }

    /// Stops without ending the log, and gives the engine to whoever goes on with it.
    ///
    /// # Errors
    /// When the engine had to stop before that.
    pub fn hand_over(self) -> Result<Engine, Stop> {
        self.handle.hand_over();
        let Over { outcome, engine } = self.end();
        outcome.map(|()| *engine)
    }

    fn end(self) -> Over {
        let over = self.ended.recv().expect("invariant: no turn panics");
        self.wait_for_threads(over)
    }

    fn wait_for_threads(self, over: Over) -> Over {
        for thread in self.threads {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        over
    }
}

fn spawn<T: Send + 'static>(name: &str, run: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .expect("invariant: the system lets a process start its few threads")
}

fn lock(log: &SharedLog) -> MutexGuard<'_, Box<dyn OrderedLog>> {
    log.lock().expect("invariant: nobody panics while holding the log")
}

fn append_now(log: &mut dyn OrderedLog, batch: &Batch) -> (Appended, u64) {
    let began_us = boot_us();
    let outcome = match log.append(batch) {
        AppendOutcome::Committed { .. } => Appended::Committed,
        AppendOutcome::Fenced => Appended::Fenced,
        AppendOutcome::Unknown => Appended::Unknown,
        AppendOutcome::Failed(error) => Appended::Failed(chain(&error)),
    };
    (outcome, boot_us().saturating_sub(began_us))
}

/// An error with its causes on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(": ");
        text.push_str(&source.to_string());
        cause = source.source();
    }
    text
}

fn spawn_appender(mailbox: Mailbox, log: SharedLog, shared: Arc<Shared>) -> (Sender<Work>, JoinHandle<()>) {
    let (work, todo) = channel::<Work>();
    let thread = spawn("tenure-log", move || {
        loop {
            let mut next = match wait_for_work(&todo, &log) {
                Waited::Work(work) => Some(work),
                Waited::ProofDue => {
                    let logged = prove(&log, shared.tick());
                    if mailbox.put(logged).is_err() {
                        return;
                    }
                    None
                }
                Waited::Over => return,
            };
            while let Some(work) = next.take() {
                let done = work.carry_out();
                let gathers = gathers(&done);
                if gathers.is_some() && mailbox.leave(Message::Completed(Completion::Gather(true))).is_err() {
                    return;
                }
                if mailbox.leave(done).is_err() {
                    return;
                }
                if let Some(time) = gathers {
                    mailbox.helm().drive(Keeps::Nothing);
                    std::thread::park_timeout(time);
                    if mailbox.leave(Message::Completed(Completion::Gather(false))).is_err() {
                        return;
                    }
                }
                next = mailbox.helm().drive(Keeps::Everything);
            }
        }
    });
    (work, thread)
}

enum Waited {
    Work(Work),
    ProofDue,
    Over,
}

/// Waits for the next frame, or for the instant at which a log whose authority ends wants to hear that its writer lives.
fn wait_for_work(todo: &Receiver<Work>, log: &SharedLog) -> Waited {
    let due_ms = lock(log).proof_due_ms();
    let Some(due_ms) = due_ms else {
        return todo.recv().map_or(Waited::Over, Waited::Work);
    };
    let in_ms = due_ms.saturating_sub(read_clocks().boot_ms);
    match todo.recv_timeout(Duration::from_millis(in_ms)) {
        Ok(work) => Waited::Work(work),
        Err(RecvTimeoutError::Timeout) => Waited::ProofDue,
        Err(RecvTimeoutError::Disconnected) => Waited::Over,
    }
}

fn prove(log: &SharedLog, tick: u64) -> Message {
    let mut log = lock(log);
    // Whoever appended meanwhile proved as much.
    let is_due = log.proof_due_ms().is_some_and(|due_ms| due_ms <= read_clocks().boot_ms);
    let completion = match is_due.then(|| log.prove(tick)) {
        Some(Proof::Fenced) => Some(Completion::Fenced),
        Some(Proof::Held | Proof::Unknown) | None => None,
    };
    Message::Logged { completion, authority: log.authority_until(), wants_chore: false }
}

/// For how long the frame after this one is gathered.
fn gathers(done: &Message) -> Option<Duration> {
    let Message::Logged { completion, authority, .. } = done else { return None };
    completion.as_ref().and_then(|completion| gathers_after(completion, *authority))
}

fn spawn_reader(mut reader: FileReader, mailbox: Mailbox) -> (Sender<LogRead>, JoinHandle<()>) {
    let (work, todo) = channel();
    let thread = spawn("tenure-reader", move || {
        for read in todo {
            let done = read_log(&mut reader, &read);
            if mailbox.put(Message::Completed(Completion::LogRead(done))).is_err() {
                return;
            }
        }
    });
    (work, thread)
}

/// Reads whole frames for a watcher, up to its limit.
pub fn read_log(reader: &mut FileReader, read: &LogRead) -> LogReadDone {
    let mut done = LogReadDone { watch: read.watch, events: Vec::new(), next: read.from, oldest: None };
    match reader.seek(tenure_log::Lsn(read.from.0)) {
        Ok(()) => {}
        Err(ReadError::Trimmed { oldest, .. }) => {
            done.oldest = Some(Lsn(oldest.0));
            return done;
        }
        // What cannot be read is not kept, as far as a watcher can tell.
        Err(_) => {
            done.oldest = Some(Lsn(read.upto.0 + 1));
            return done;
        }
    }
    while done.events.len() < read.limit {
        let frame = match reader.next_frame() {
            Ok(Some(frame)) => frame,
            Ok(None) => break,
            Err(_) => {
                done.oldest = Some(Lsn(read.upto.0 + 1));
                return done;
            }
        };
        if frame.header.first_lsn.0 > read.upto.0 {
            break;
        }
        let events = publish(frame.records(), frame.header.at);
        for event in events.into_iter().filter(|event| event.lsn >= read.from) {
            if done.events.len() == read.limit {
                done.next = event.lsn;
                return done;
            }
            done.events.push(event);
        }
        done.next = Lsn(frame.header.next_lsn().0);
    }
    if done.events.len() < read.limit {
        done.next = done.next.max(Lsn(read.upto.0 + 1));
    }
    done
}

/// Work for the chores' thread.
pub(crate) enum ChoreWork {
    Trim(tenure_log::Lsn),
    Chore,
}

fn spawn_chores(mailbox: Mailbox, log: SharedLog) -> (Sender<ChoreWork>, JoinHandle<()>) {
    let (work, todo) = channel();
    let thread = spawn("tenure-chores", move || {
        for work in todo {
            let done = match work {
                ChoreWork::Trim(below) => {
                    let mut log = lock(&log);
                    let _ = log.trim(below);
                    Message::Trimmed { wants_chore: log.wants_chore() }
                }
                ChoreWork::Chore => run_chore(&log),
            };
            if mailbox.put(done).is_err() {
                return;
            }
        }
    });
    (work, thread)
}

/// The log is free meanwhile.
fn run_chore(log: &SharedLog) -> Message {
    let chore = lock(log).chore();
    let done = chore.map(Chore::run);
    let report = done.as_ref().map(|done| {
        let task = match done.kind() {
            ChoreKind::Spare => Task::Spare,
            ChoreKind::Removal => Task::Trim,
        };
        (task, done.error().map(|error| chain(error)))
    });
    let mut log = lock(log);
    if let Some(done) = done {
        log.chore_done(done);
    }
    Message::ChoreDone { done: report, wants_chore: log.wants_chore() }
}
