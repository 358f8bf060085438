//! The only place with threads, channels and the clock. The writer thread runs turns; the log thread appends
//! and syncs; one thread reads the log for watchers, one does chores, one builds snapshots.
//!
//! While a frame syncs, the next is gathered. When nothing else is waiting and syncs are quick, the writer
//! syncs itself and spares two changes of thread.

mod handle;

pub use handle::{Handle, Pending};

use crate::answer::{Answer, Refused};
use crate::engine::{Appended, Completion, Engine, EngineConfig, Outputs, Stop};
use crate::hub::{LogRead, LogReadDone, publish};
use crate::journal::Out;
use crate::recovery::setup;
use crate::request::{Input, Request, Ticket};
use crate::snapshot::build_snapshot;
use crate::ticker::Now;
use handle::{Owed, Shared, Slot};
use hashbrown::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};
use tenure_kernel::{Lsn, Setup};
use tenure_log::{AppendOutcome, Batch, LogReader, Moment, OrderedLog, ReadError, Space};

/// What runs an engine.
pub struct Host {
    handle: Handle,
    writer: JoinHandle<Result<(), Stop>>,
    /// They hold the log too: the directory is free only when all have ended.
    others: Vec<JoinHandle<()>>,
}

/// Settings of the host.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// A snapshot is taken after this many bytes of new log, or twice the last snapshot.
    pub snapshot_bytes_min: u64,
    /// History kept at most, in bytes of log.
    pub history_bytes_max: u64,
    /// History kept at most, by age.
    pub history_age_max: Duration,
    /// Requests not yet answered, over all callers.
    pub outstanding_max: usize,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            snapshot_bytes_min: 256 << 20,
            history_bytes_max: 1 << 30,
            history_age_max: Duration::from_secs(7 * 24 * 60 * 60),
            outstanding_max: 256 << 10,
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
        /// Where the answers go.
        owed: Owed,
    },
    /// Something finished.
    Completed(Completion),
    /// A snapshot attempt finished.
    SnapshotDone,
    /// Take a snapshot now.
    TakeSnapshot,
    /// Finish and stop.
    ShutDown,
}

/// Receives what the engine says without being asked: pushes, gates, notices.
pub type Listener = Box<dyn FnMut(Out) + Send>;

/// The host's own request; callers' tickets count up from one.
const TRIM_TICKET: Ticket = Ticket(u64::MAX);
/// Syncs quicker than this are done by the writer itself when nothing else waits.
const OWN_SYNC_US_MAX: u64 = 1_500;
/// Frames with fewer records than this come from few callers, who all wait for it. With more, the next
/// requests are likely under way and can be gathered while the log thread syncs.
const OWN_SYNC_RECORDS_MAX: u32 = 32;
/// Messages taken in one turn.
const MESSAGES_MAX: usize = 4_096;
/// How often room on the disk is looked at.
const SPACE_EVERY_MS: u64 = 1_000;
/// How far the clocks may drift apart before that is shown.
const DRIFT_MS_MAX: u64 = 2;
/// Pause after work away from the hot path failed.
const RETRY_AFTER_MS: u64 = 5_000;

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
        let (sender, receiver) = channel();
        let handle = Handle::new(sender.clone(), options.outstanding_max);
        let setup = setup(&log.identity(), config);
        let (reader, reader_thread) = spawn_reader(log.reader(), sender.clone());
        let log: SharedLog = Arc::new(Mutex::new(log));
        let (appender, log_thread) = spawn_appender(Arc::clone(&log), sender.clone());
        let (chores, chores_thread) = spawn_chores(Arc::clone(&log));
        let shared = handle.shared();
        if let Some(newest) = lock(&log).snapshots().newest() {
            shared.snapshot_taken(Lsn(newest.lsn.0), newest.at.wall_ms);
        }
        let writer = spawn("tenure-writer", move || {
            Writer {
                engine,
                log,
                setup,
                options,
                listener,
                shared,
                sender,
                appender,
                reader,
                chores,
                slots: HashMap::default(),
                sync_us: 0,
                bytes_since_snapshot: 0,
                snapshot_bytes: 0,
                snapshot_under_way: false,
                space: Space::Ok,
                space_at_ms: 0,
                retry_at_ms: 0,
                trim_below: None,
                shutting_down: false,
            }
            .run(&receiver)
        });
        Self { handle, writer, others: vec![reader_thread, log_thread, chores_thread] }
    }

    /// A way to ask.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Finishes what is under way, ends the log cleanly and waits for the writer.
    ///
    /// # Errors
    /// When the engine had to stop before that.
    pub fn shut_down(self) -> Result<(), Stop> {
        self.handle.shut_down();
        self.join()
    }

    /// Waits until the writer stops.
    ///
    /// # Errors
    /// When the engine had to stop.
    pub fn join(self) -> Result<(), Stop> {
        let ended = self.writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        for other in self.others {
            other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        ended
    }
}

struct Writer {
    engine: Engine,
    log: SharedLog,
    setup: Setup,
    options: HostOptions,
    listener: Listener,
    shared: Arc<Shared>,
    sender: Sender<Message>,
    appender: Sender<Append>,
    reader: Sender<LogRead>,
    chores: Sender<()>,
    slots: HashMap<Ticket, (Arc<Slot>, usize), foldhash::fast::FixedState>,
    /// How long syncs take, smoothed.
    sync_us: u64,
    bytes_since_snapshot: u64,
    snapshot_bytes: u64,
    snapshot_under_way: bool,
    space: Space,
    space_at_ms: u64,
    retry_at_ms: u64,
    /// History below here is to go.
    trim_below: Option<tenure_log::Lsn>,
    shutting_down: bool,
}

enum Append {
    Append(Batch),
    Resolve(Batch),
}

impl Writer {
    fn run(mut self, receiver: &Receiver<Message>) -> Result<(), Stop> {
        let mut inputs = Vec::new();
        let mut completions = Vec::new();
        let mut wake_in_ms = Some(0);
        loop {
            self.receive(receiver, wake_in_ms, &mut inputs, &mut completions);
            let now = read_clocks();
            self.look_at_space(now, &mut completions);
            if let Some(below) = self.trim_below {
                inputs.push(Input { ticket: TRIM_TICKET, request: Request::Trim(Lsn(below.0)) });
            }
            let outputs = self.engine.turn(now, inputs.drain(..), completions.drain(..));
            wake_in_ms = outputs.wake_in_ms;
            if let Some(stop) = self.carry_out(outputs, receiver, &mut inputs, &mut completions) {
                self.answer_rest(&Refused::OutcomeUnknown);
                return Err(stop);
            }
            if !completions.is_empty() || !inputs.is_empty() {
                wake_in_ms = Some(0);
            }
            if self.shutting_down && inputs.is_empty() && completions.is_empty() && self.engine.is_settled() {
                return self.close();
            }
        }
    }

    /// Takes what has arrived, waiting for the first if there is time.
    fn receive(
        &mut self,
        receiver: &Receiver<Message>,
        wake_in_ms: Option<u64>,
        inputs: &mut Vec<Input>,
        completions: &mut Vec<Completion>,
    ) {
        let first = match wake_in_ms {
            Some(0) => receiver.try_recv().ok(),
            Some(ms) => receiver.recv_timeout(Duration::from_millis(ms)).ok(),
            None => receiver.recv().ok(),
        };
        let Some(first) = first else { return };
        self.accept(first, inputs, completions);
        for _ in 1..MESSAGES_MAX {
            match receiver.try_recv() {
                Ok(message) => self.accept(message, inputs, completions),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
    }

    fn accept(&mut self, message: Message, inputs: &mut Vec<Input>, completions: &mut Vec<Completion>) {
        match message {
            Message::Requests { first, requests, owed } => {
                let slot = owed.accept();
                for (index, request) in requests.into_iter().enumerate() {
                    let ticket = Ticket(first.0 + index as u64);
                    if self.shutting_down {
                        slot.fill(index, Answer::Refused(Refused::ShuttingDown));
                        self.shared.answered(1);
                        continue;
                    }
                    self.slots.insert(ticket, (Arc::clone(&slot), index));
                    inputs.push(Input { ticket, request });
                }
            }
            Message::Completed(completion) => {
                if let Completion::Appended { batch, took_us, .. } = &completion {
                    self.appended(batch.payload().len() as u64, *took_us);
                }
                completions.push(completion);
            }
            Message::SnapshotDone => {
                self.snapshot_under_way = false;
                self.trim();
            }
            Message::TakeSnapshot => self.begin_snapshot(),
            Message::ShutDown => self.shutting_down = true,
        }
    }

    fn carry_out(
        &mut self,
        outputs: Outputs,
        receiver: &Receiver<Message>,
        inputs: &mut Vec<Input>,
        completions: &mut Vec<Completion>,
    ) -> Option<Stop> {
        let Outputs { outs, append, resolve, reads, wake_in_ms: _, stop } = outputs;
        // The frame first: it syncs while the answers are delivered.
        let own = append.and_then(|batch| self.send_or_keep(batch, receiver, inputs, completions));
        if let Some(batch) = resolve {
            self.to_appender(Append::Resolve(batch));
        }
        for read in reads {
            // A reader that is gone took the process's log with it; the append will say so.
            let _ = self.reader.send(read);
        }
        for out in outs {
            self.deliver(out);
        }
        if let Some(batch) = own {
            let bytes = batch.payload().len() as u64;
            let (outcome, took_us) = append_now(&self.log, &batch);
            self.appended(bytes, took_us);
            completions.push(Completion::Appended { batch, outcome, took_us });
        }
        stop
    }

    /// Gives a frame to the log thread, or keeps it when the writer has nothing better to do than sync it.
    fn send_or_keep(
        &mut self,
        batch: Batch,
        receiver: &Receiver<Message>,
        inputs: &mut Vec<Input>,
        completions: &mut Vec<Completion>,
    ) -> Option<Batch> {
        if self.sync_us < OWN_SYNC_US_MAX && batch.count() < OWN_SYNC_RECORDS_MAX {
            match receiver.try_recv() {
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Some(batch),
                Ok(message) => self.accept(message, inputs, completions),
            }
        }
        self.to_appender(Append::Append(batch));
        None
    }

    fn to_appender(&self, work: Append) {
        self.appender.send(work).expect("invariant: the log thread lives as long as the writer");
    }

    fn deliver(&mut self, out: Out) {
        match out {
            // Refused, it is asked again with the next turn.
            Out::Answer(TRIM_TICKET, Answer::Refused(_)) => {}
            Out::Answer(TRIM_TICKET, _) => {
                if let Some(below) = self.trim_below.take() {
                    let _ = lock(&self.log).trim(below);
                    // What is let go is removed away from the hot path, and now: the next frame may be far.
                    let _ = self.chores.send(());
                }
            }
            Out::Answer(ticket, answer) => {
                if let Some((slot, index)) = self.slots.remove(&ticket) {
                    slot.fill(index, answer);
                    self.shared.answered(1);
                }
            }
            Out::Push(_) | Out::OpenGate(_) | Out::SendNotice { .. } | Out::Ended(_) | Out::Followed(_) => {
                (self.listener)(out)
            }
        }
    }

    fn appended(&mut self, bytes: u64, took_us: u64) {
        self.sync_us = (self.sync_us * 7 + took_us) / 8;
        self.bytes_since_snapshot += bytes;
        let due = self.options.snapshot_bytes_min.max(2 * self.snapshot_bytes);
        if self.bytes_since_snapshot >= due {
            self.begin_snapshot();
        }
        // Wakes the chores; a full queue of wishes says the same as one.
        let _ = self.chores.send(());
    }

    fn look_at_space(&mut self, now: Now, completions: &mut Vec<Completion>) {
        if now.boot_ms < self.space_at_ms {
            return;
        }
        self.space_at_ms = now.boot_ms + SPACE_EVERY_MS;
        // While a frame is being synced the answer can wait.
        let Ok(log) = self.log.try_lock() else { return };
        let space = log.space();
        drop(log);
        if space != self.space {
            self.space = space;
            completions.push(Completion::Space(space));
            if space == Space::Low {
                self.begin_snapshot();
            }
        }
    }

    fn begin_snapshot(&mut self) {
        let now_ms = read_clocks().boot_ms;
        if self.snapshot_under_way || now_ms < self.retry_at_ms {
            return;
        }
        self.retry_at_ms = now_ms + RETRY_AFTER_MS;
        self.snapshot_under_way = true;
        self.bytes_since_snapshot = 0;
        let (setup, sender) = (self.setup.clone(), self.sender.clone());
        let (store, mut reader) = {
            let log = lock(&self.log);
            (log.snapshots(), log.reader())
        };
        let upto = self.engine.synced_lsn();
        spawn("tenure-snapshot", move || {
            // Snapshots may take as long as they like; holders may not.
            let _ = rustix::process::setpriority_process(None, 19);
            // A snapshot that fails leaves the log as it was; the next attempt comes with more log.
            let _ = build_snapshot(setup, &store, reader.as_mut(), upto);
            let _ = sender.send(Message::SnapshotDone);
        });
    }

    /// Decides what history goes. The state is told first; the disk follows once that is durable.
    fn trim(&mut self) {
        let (store, extents) = {
            let log = lock(&self.log);
            (log.snapshots(), log.extents())
        };
        let newest = store.newest();
        self.snapshot_bytes = newest.map_or(0, |header| header.payload_bytes);
        if let Some(newest) = newest {
            self.shared.snapshot_taken(Lsn(newest.lsn.0), newest.at.wall_ms);
        }
        let [older, _newest] = store.generations()[..] else { return };
        let oldest_ms = read_clocks().wall_ms.saturating_sub(self.options.history_age_max.as_millis() as u64);
        let mut bytes = 0;
        // From the newest back: the first extent that is too much or too old is where history ends.
        let surplus = extents.iter().rev().find(|extent| {
            bytes += extent.bytes;
            bytes > self.options.history_bytes_max
                || extent.began_wall_ms < oldest_ms
                || self.space == Space::Low
        });
        let Some(surplus) = surplus else { return };
        let bound = surplus.first_lsn.min(older.lsn);
        let kept = extents.iter().find(|extent| extent.last_lsn >= bound);
        if let Some(kept) = kept
            && extents.first().is_some_and(|first| first.first_lsn < kept.first_lsn)
        {
            self.trim_below = Some(kept.first_lsn);
        }
    }

    fn close(mut self) -> Result<(), Stop> {
        let now = read_clocks();
        let at = Moment { tick: self.engine.tick().0, wall_ms: now.wall_ms };
        self.answer_rest(&Refused::ShuttingDown);
        match lock(&self.log).close(at) {
            AppendOutcome::Committed { .. } => Ok(()),
            AppendOutcome::Fenced => Err(Stop::Fenced),
            AppendOutcome::Unknown => Ok(()),
            AppendOutcome::Failed(error) => Err(Stop::LogFailed(error.to_string())),
        }
    }
}

impl Writer {
    /// Nobody may wait for an answer that will never come.
    fn answer_rest(&mut self, refused: &Refused) {
        for (_, (slot, index)) in self.slots.drain() {
            slot.fill(index, Answer::Refused(refused.clone()));
        }
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

fn append_now(log: &SharedLog, batch: &Batch) -> (Appended, u64) {
    let began_us = boot_us();
    let outcome = match lock(log).append(batch) {
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

fn spawn_appender(log: SharedLog, sender: Sender<Message>) -> (Sender<Append>, JoinHandle<()>) {
    let (work, todo) = channel();
    let thread = spawn("tenure-log", move || {
        for append in todo {
            let completion = match append {
                Append::Append(batch) => {
                    let (outcome, took_us) = append_now(&log, &batch);
                    Completion::Appended { batch, outcome, took_us }
                }
                Append::Resolve(batch) => {
                    let resolution = lock(&log).resolve(batch.id());
                    Completion::Resolved { batch, resolution }
                }
            };
            if sender.send(Message::Completed(completion)).is_err() {
                return;
            }
        }
    });
    (work, thread)
}

fn spawn_reader(
    mut reader: Box<dyn LogReader>,
    sender: Sender<Message>,
) -> (Sender<LogRead>, JoinHandle<()>) {
    let (work, todo) = channel();
    let thread = spawn("tenure-reader", move || {
        for read in todo {
            let done = read_log(reader.as_mut(), &read);
            if sender.send(Message::Completed(Completion::LogRead(done))).is_err() {
                return;
            }
        }
    });
    (work, thread)
}

/// Reads whole frames for a watcher, up to its limit.
pub fn read_log(reader: &mut dyn LogReader, read: &LogRead) -> LogReadDone {
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

fn spawn_chores(log: SharedLog) -> (Sender<()>, JoinHandle<()>) {
    let (wish, wishes) = channel::<()>();
    let thread = spawn("tenure-chores", move || {
        while wishes.recv().is_ok() {
            while wishes.try_recv().is_ok() {}
            loop {
                let chore = lock(&log).chore();
                let Some(chore) = chore else { break };
                let done = chore.run();
                let failed = done.error().is_some();
                lock(&log).chore_done(done);
                if failed {
                    // Not at once again: a full disk stays full for a while.
                    let _ = wishes.recv_timeout(Duration::from_millis(RETRY_AFTER_MS));
                    break;
                }
            }
        }
    });
    (wish, thread)
}
