//! What a turn needs beside the engine, and what follows from one: messages in, answers and frames out. Knows
//! nothing of who runs it.

use super::handle::{Shared, Slot};
use super::helm::Mailbox;
use super::memory::resident_bytes;
use super::pools::{Admitted, Places};
use super::stalls::{Stalls, turn_over};
use super::upkeep::{Found, Step, Upkeep};
use super::{
    HostOptions, Listener, Message, Over, SharedLog, append_now, boot_us, chain, lock, read_clocks, spawn,
};
use crate::answer::{Answer, Refused};
use crate::engine::{Appended, Completion, Engine, Outputs, Role, Stop};
use crate::hub::LogRead;
use crate::journal::Out;
use crate::report::Task;
use crate::request::{Input, Request, Ticket};
use crate::snapshot::build_snapshot;
use crate::ticker::Now;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::Duration;
use tenure_kernel::{Lsn, Setup};
use tenure_log::snapshot::SnapshotHeader;
use tenure_log::{AppendOutcome, Authority, Batch, FileReader, Moment, OrderedLog, SnapshotStore, Space};

/// The host's own request; callers' tickets count up from one.
const TRIM_TICKET: Ticket = Ticket(u64::MAX);
/// Syncs quicker than this are done by whoever asked alone.
const OWN_SYNC_US_MAX: u64 = 1_500;
/// Messages taken in one turn.
const MESSAGES_MAX: usize = 4_096;
/// Frames of at least this many records are followed by one that is gathered for a while.
const GATHER_RECORDS_MIN: u32 = 32;
/// The part of a round trip that gathering may take.
const GATHER_PART: u64 = 8;

/// Which work on the log a thread keeps for itself; the rest goes to the log thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keeps {
    /// It is the log thread.
    Everything,
    /// It would only wait for it, and may.
    WhatIsQuick,
    /// It has other things to do.
    Nothing,
    /// The same, and turns are all that it does.
    NothingForLong,
}

/// Work on the log, and the log: nobody else holds on to it.
pub(crate) struct Work {
    log: SharedLog,
    chores: Sender<()>,
    what: What,
}

enum What {
    Append(Batch),
    Resolve(Batch),
}

impl Work {
    /// For how long the frame after this one is worth gathering: where one is far away and this one was well filled,
    /// those who were just answered ask again before it leaves.
    pub(crate) fn gather_after(done: &Message) -> Option<Duration> {
        if let Message::Logged(
            Some(Completion::Appended { batch, outcome: Appended::Committed, took_us }),
            Authority::Until { .. },
        ) = done
        {
            let is_worth_it = batch.count() >= GATHER_RECORDS_MIN;
            return is_worth_it.then(|| Duration::from_micros(took_us / GATHER_PART));
        }
        None
    }

    /// Does it; may block on the disk.
    pub(crate) fn carry_out(self) -> Message {
        let Self { log, chores, what } = self;
        let mut log = lock(&log);
        let completion = match what {
            What::Append(batch) => {
                let (outcome, took_us) = append_now(log.as_mut(), &batch);
                if log.wants_chore() {
                    // Who is gone has nothing left to do.
                    let _ = chores.send(());
                }
                Completion::Appended { batch, outcome, took_us }
            }
            What::Resolve(batch) => {
                let resolution = log.resolve(batch.id());
                Completion::Resolved { batch, resolution }
            }
        };
        Message::Logged(Some(completion), log.authority_until())
    }
}

/// What came of a turn.
pub(crate) struct Turned {
    /// Work that this thread kept.
    pub(crate) work: Option<Work>,
    /// When time alone brings the next turn, in boot time; zero: there is more to do at once.
    pub(crate) next_turn_at_ms: Option<u64>,
    /// There will be no more turns.
    pub(crate) outcome: Option<Result<(), Stop>>,
}

/// What turns are run with.
pub(crate) struct Writer {
    engine: Engine,
    log: SharedLog,
    setup: Setup,
    listener: Listener,
    shared: Arc<Shared>,
    mailbox: Mailbox,
    inbox: Receiver<Message>,
    /// Taken from the inbox already, for the next turn.
    peeked: Option<Message>,
    appender: Sender<Work>,
    reader: Sender<LogRead>,
    chores: Sender<()>,
    ended: Sender<Over>,
    /// What is owed to callers, by the first ticket of each.
    calls: BTreeMap<Ticket, Gathered>,
    /// Callers that ask whether turns are run; the next turn answers them.
    probes: Vec<Arc<Slot>>,
    inputs: Vec<Input>,
    completions: Vec<Completion>,
    /// How long syncs take, smoothed.
    sync_us: u64,
    /// How many came with something since the last frame was given out, and before that one.
    callers: u32,
    callers_before: u32,
    stalls: Stalls,
    upkeep: Upkeep,
    snapshots: SnapshotStore,
    space: Space,
    /// History below here is to go, once the log has recorded that.
    trim_below: Option<tenure_log::Lsn>,
    /// The log has recorded it.
    recorded_trim: Option<tenure_log::Lsn>,
    /// A snapshot up to here was asked for.
    snapshot_upto: Option<Lsn>,
    shutting_down: bool,
    handing_over: bool,
}

/// The answers of one call that are there by now.
struct Gathered {
    slot: Arc<Slot>,
    answers: Vec<Option<Answer>>,
    missing: usize,
    places: Places,
}

/// The ways out of a writer.
pub(crate) struct Ways {
    pub(crate) mailbox: Mailbox,
    pub(crate) inbox: Receiver<Message>,
    pub(crate) appender: Sender<Work>,
    pub(crate) reader: Sender<LogRead>,
    pub(crate) chores: Sender<()>,
    pub(crate) ended: Sender<Over>,
    pub(crate) listener: Listener,
    pub(crate) shared: Arc<Shared>,
}

impl Writer {
    pub(crate) fn new(
        engine: Engine,
        log: SharedLog,
        setup: Setup,
        options: &HostOptions,
        ways: Ways,
    ) -> Self {
        let Ways { mailbox, inbox, appender, reader, chores, ended, listener, shared } = ways;
        let snapshots = lock(&log).snapshots();
        if let Some(newest) = snapshots.newest() {
            shared.snapshot_taken(Lsn(newest.lsn.0), newest.at.wall_ms);
        }
        Self {
            engine,
            log,
            setup,
            listener,
            shared,
            mailbox,
            inbox,
            peeked: None,
            appender,
            reader,
            chores,
            ended,
            calls: BTreeMap::new(),
            probes: Vec::new(),
            inputs: Vec::new(),
            completions: Vec::new(),
            sync_us: 0,
            callers: 0,
            callers_before: 0,
            stalls: Stalls::default(),
            upkeep: Upkeep::new(options),
            snapshots,
            space: Space::Ok,
            trim_below: None,
            recorded_trim: None,
            snapshot_upto: None,
            shutting_down: false,
            handing_over: false,
        }
    }

    /// Takes what has arrived and runs one turn of the machine.
    pub(crate) fn turn(&mut self, keeps: Keeps) -> Turned {
        let leaves_some = self.receive();
        let now = read_clocks();
        self.completions.extend(self.stalls.waited(now.boot_ms));
        if leaves_some && self.stalls.mark() {
            // Who is at the helm needs no call.
            let _ = self.mailbox.leave(Message::Mark(now.boot_ms));
        }
        self.look_after_log(now);
        if let Some(below) = self.trim_below {
            self.inputs.push(Input::new(TRIM_TICKET, Request::Trim(Lsn(below.0))));
        }
        let outputs = self.engine.turn(now, self.inputs.drain(..), self.completions.drain(..));
        self.shared.tell_turn(self.engine.tick(), self.engine.synced_lsn());
        let wake_in_ms = outputs.wake_in_ms;
        self.answer_probes();
        let (work, stop) = self.carry_out(outputs, keeps);
        // Due by now is due at zero, whatever the clock says meanwhile.
        let wake_at_ms =
            wake_in_ms.map(|in_ms| if in_ms == 0 { 0 } else { now.boot_ms.saturating_add(in_ms) });
        // A trim that is under way is waited for, and brings its turn itself.
        let look_at_ms = self.trim_below.is_none().then(|| self.upkeep.wake_at_ms());
        // Nobody calls again for what a turn left behind.
        let rest_at_ms = leaves_some.then_some(0);
        let next_turn_at_ms = wake_at_ms.into_iter().chain(look_at_ms).chain(rest_at_ms).min();
        let outcome = match stop {
            Some(stop) => Some(Err(stop)),
            None if self.handing_over => Some(Ok(())),
            None if self.shutting_down && self.inbox_is_empty() && self.engine.is_settled() => {
                Some(self.close())
            }
            None => None,
        };
        self.completions.extend(turn_over(now.boot_ms, boot_us() / 1_000));
        Turned { work, next_turn_at_ms, outcome }
    }

    fn answer_probes(&mut self) {
        for slot in self.probes.drain(..) {
            slot.fill(vec![self.engine.probed()]);
        }
    }

    /// Takes what has arrived; `true`: some of it is left for the next turn.
    fn receive(&mut self) -> bool {
        if let Some(message) = self.peeked.take() {
            self.accept(message);
        }
        for _ in 0..MESSAGES_MAX {
            match self.inbox.try_recv() {
                Ok(message) => self.accept(message),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return false,
            }
        }
        !self.inbox_is_empty()
    }

    /// Whether nothing more has arrived. What has is kept for the next turn.
    fn inbox_is_empty(&mut self) -> bool {
        if self.peeked.is_none() {
            self.peeked = self.inbox.try_recv().ok();
        }
        self.peeked.is_none()
    }

    fn accept(&mut self, message: Message) {
        match message {
            Message::Requests { first, requests, places, admitted, owed } => {
                let slot = owed.accept();
                self.callers += 1;
                let count = requests.len();
                if self.shutting_down || count == 0 {
                    slot.refuse_all(&Refused::ShuttingDown);
                    self.shared.pools.give_back(&places);
                    return;
                }
                let call = Gathered { slot, answers: vec![None; count], missing: count, places };
                self.calls.insert(first, call);
                self.take_in(first, requests, &admitted);
            }
            Message::Probe(owed) => self.probes.push(owed.accept()),
            Message::Mark(put_ms) => self.stalls.came(put_ms),
            Message::Completed(completion) => self.completed(completion),
            Message::Logged(completion, authority) => {
                if let Some(completion) = completion {
                    self.completed(completion);
                }
                if authority != Authority::Forever {
                    self.completions.push(Completion::Authority(authority));
                }
            }
            Message::SnapshotDone(outcome) => self.snapshot_done(outcome),
            Message::TakeSnapshot(upto) => {
                self.snapshot_upto = Some(upto);
                self.upkeep.look_now();
            }
            Message::ShutDown => self.shutting_down = true,
            Message::HandOver => self.handing_over = true,
        }
    }

    /// Refuses what belongs to a lane in which too much is outstanding; the rest of the call goes on.
    fn take_in(&mut self, first: Ticket, requests: Vec<Request>, admitted: &Admitted) {
        self.inputs.reserve(requests.len());
        for (ticket, request) in (first.0..).map(Ticket).zip(requests) {
            match admitted[request.lane() as usize] {
                Ok(share) => self.inputs.push(Input { ticket, request, share }),
                Err(limit) => {
                    let max = self.shared.pools.value(limit);
                    self.gather(ticket, Answer::Refused(Refused::Overloaded { limit, max }));
                }
            }
        }
    }

    fn completed(&mut self, completion: Completion) {
        match &completion {
            Completion::Appended { batch, took_us, .. } => {
                self.sync_us = (self.sync_us * 7 + took_us) / 8;
                self.upkeep.grew(batch.payload().len() as u64);
            }
            Completion::Copied(batch) => self.upkeep.grew(batch.payload().len() as u64),
            Completion::Resolved { .. }
            | Completion::LogRead(_)
            | Completion::Space(_)
            | Completion::Worked(..)
            | Completion::Stalled { .. }
            | Completion::RecordWanted
            | Completion::Authority(_)
            | Completion::Gather(_)
            | Completion::Told(_)
            | Completion::Format(_)
            | Completion::Fenced => {}
        }
        self.completions.push(completion);
    }

    fn carry_out(&mut self, outputs: Outputs, keeps: Keeps) -> (Option<Work>, Option<Stop>) {
        let Outputs { outs, append, resolve, reads, wake_in_ms: _, stop } = outputs;
        // The frame first: it syncs while the answers are delivered.
        let work = append.map(What::Append).or(resolve.map(What::Resolve));
        let kept = work.and_then(|what| self.send_or_keep(what, keeps));
        for read in reads {
            // A reader that is gone took the process's log with it; the append will say so.
            let _ = self.reader.send(read);
        }
        for out in outs {
            self.deliver(out);
        }
        (kept, stop)
    }

    /// Gives work on the log to its thread, unless this one does it as well.
    fn send_or_keep(&mut self, what: What, keeps: Keeps) -> Option<Work> {
        // Twice in a row: among several the next are likely under way, and the log thread gathers them.
        let is_alone = self.callers.max(self.callers_before) <= 1;
        self.callers_before = core::mem::take(&mut self.callers);
        let is_kept = match (keeps, &what) {
            (Keeps::Everything, _) => true,
            (Keeps::WhatIsQuick, What::Append(_)) => {
                is_alone && self.sync_us < OWN_SYNC_US_MAX && self.inbox_is_empty()
            }
            (Keeps::WhatIsQuick, What::Resolve(_)) | (Keeps::Nothing | Keeps::NothingForLong, _) => false,
        };
        let work = Work { log: Arc::clone(&self.log), chores: self.chores.clone(), what };
        if is_kept {
            return Some(work);
        }
        self.appender.send(work).expect("invariant: the log thread lives as long as the writer");
        None
    }

    fn deliver(&mut self, out: Out) {
        match out {
            // Refused, it is asked again with the next turn.
            Out::Answer(TRIM_TICKET, Answer::Refused(_)) => {}
            Out::Answer(TRIM_TICKET, _) => {
                self.recorded_trim = self.trim_below.take();
                self.upkeep.look_now();
            }
            Out::Answer(ticket, answer) => self.gather(ticket, answer),
            Out::Push(_)
            | Out::OpenGate(_)
            | Out::SendNotice { .. }
            | Out::Ended(_)
            | Out::Followed(_)
            | Out::Report(_) => (self.listener)(out),
        }
    }

    /// Puts an answer to the others of its call; with the last one they leave together.
    fn gather(&mut self, ticket: Ticket, answer: Answer) {
        let Some((first, call)) = self.calls.range_mut(..=ticket).next_back() else { return };
        let first = *first;
        let place = call.answers.get_mut((ticket.0 - first.0) as usize);
        let Some(place) = place.filter(|place| place.is_none()) else { return };
        *place = Some(answer);
        call.missing -= 1;
        if call.missing == 0
            && let Some(Gathered { slot, answers, places, .. }) = self.calls.remove(&first)
        {
            self.shared.pools.give_back(&places);
            slot.fill(answers.into_iter().flatten().collect());
        }
    }

    /// Looks at what there is of the log, and does what is due. All that a turn needs the log for is done here: a turn never
    /// waits for the log, whose thread may wait for a disk.
    fn look_after_log(&mut self, now: Now) {
        if !self.upkeep.is_look_due(now.boot_ms) || self.trim_below.is_some() {
            return;
        }
        let log = Arc::clone(&self.log);
        // While a frame is being synced the answer can wait.
        let Ok(mut log) = log.try_lock() else { return self.upkeep.look_again(now.boot_ms) };
        if let Some(below) = self.recorded_trim.take() {
            self.trim(log.as_mut(), below);
        }
        if let Some(upto) = self.snapshot_upto.take()
            && self.upkeep.begin_snapshot(now.boot_ms)
        {
            self.build_snapshot(log.reader(), upto);
        }
        let (extents, space, wants_chore) = (log.extents(), log.space(), log.wants_chore());
        if space != self.space {
            self.space = space;
            self.completions.push(Completion::Space(space));
        }
        if space == Space::Low && wants_chore {
            // No frame may come that would ask for it.
            let _ = self.chores.send(());
        }
        let snapshots = self.snapshots.generations();
        let found = Found { extents: &extents, snapshots: &snapshots, space, tick: self.engine.tick().0 };
        match (self.upkeep.look(now.boot_ms, &found), self.engine.role()) {
            (Step::Snapshot, _) => self.build_snapshot(log.reader(), Lsn(u64::MAX)),
            (Step::Record, Role::Writing) => self.completions.push(Completion::RecordWanted),
            // The log records the trim first; the segments go once that record is durable.
            (Step::Trim(below), Role::Writing) => self.trim_below = Some(below),
            // A follower decides alone how much of its copy it keeps: the log records nothing.
            (Step::Trim(below), Role::Following) => self.trim(log.as_mut(), below),
            (Step::Record, Role::Following) | (Step::Nothing, _) => {}
        }
    }

    fn build_snapshot(&mut self, mut reader: FileReader, upto: Lsn) {
        let (setup, mailbox, store) = (self.setup.clone(), self.mailbox.clone(), self.snapshots.clone());
        let (upto, shared) = (upto.min(self.engine.synced_lsn()), Arc::clone(&self.shared));
        spawn("tenure-snapshot", move || {
            // Snapshots may take as long as they like; holders may not.
            let _ = rustix::process::setpriority_process(None, 19);
            let mut at_most = resident_bytes();
            shared.snapshot_memory().begin(at_most);
            let look = &mut || at_most = at_most.max(resident_bytes());
            let outcome = build_snapshot(setup, &store, &mut reader, upto, look);
            let outcome = outcome.map_err(|error| chain(&error));
            shared.snapshot_memory().end(at_most, resident_bytes());
            let _ = mailbox.put(Message::SnapshotDone(outcome));
        });
    }

    /// A snapshot that fails leaves the log as it was; another one is tried while it is due.
    fn snapshot_done(&mut self, outcome: Result<Option<SnapshotHeader>, String>) {
        self.upkeep.snapshot_done(matches!(outcome, Ok(Some(_))));
        if let Ok(Some(newest)) = &outcome {
            self.shared.snapshot_taken(Lsn(newest.lsn.0), newest.at.wall_ms);
        }
        self.completions.push(Completion::Worked(Task::Snapshot, outcome.err()));
    }

    fn trim(&mut self, log: &mut dyn OrderedLog, below: tenure_log::Lsn) {
        let _ = log.trim(below);
        // The chores thread removes the segments now: the next frame may be far.
        let _ = self.chores.send(());
    }

    fn close(&mut self) -> Result<(), Stop> {
        let now = read_clocks();
        let at = Moment { tick: self.engine.tick().0, wall_ms: now.wall_ms };
        self.answer_rest(&Refused::ShuttingDown);
        let log = Arc::clone(&self.log);
        let mut log = lock(&log);
        if let Some(below) = self.recorded_trim.take() {
            self.trim(log.as_mut(), below);
        }
        match log.close(at) {
            AppendOutcome::Committed { .. } => Ok(()),
            AppendOutcome::Fenced => Err(Stop::Fenced),
            AppendOutcome::Unknown => Ok(()),
            AppendOutcome::Failed(error) => Err(Stop::LogFailed(error.to_string())),
        }
    }
}

impl Writer {
    /// Tells everybody that there will be no more turns.
    pub(crate) fn over(mut self, outcome: Result<(), Stop>) {
        if outcome.is_err() {
            self.answer_rest(&Refused::OutcomeUnknown);
        }
        if self.handing_over {
            // What one who writes has taken may be in a frame.
            let is_writing = self.engine.role() == Role::Writing;
            self.answer_rest(if is_writing { &Refused::OutcomeUnknown } else { &Refused::NotLeader });
        }
        // Whoever started the host may have gone.
        let _ = self.ended.send(Over { outcome, engine: Box::new(self.engine) });
    }

    /// A turn panicked: what became of anything is not known.
    pub(crate) fn broken(mut self) {
        self.answer_rest(&Refused::OutcomeUnknown);
    }

    /// Nobody may wait for an answer that will never come.
    fn answer_rest(&mut self, refused: &Refused) {
        while let Some((_, Gathered { slot, answers, .. })) = self.calls.pop_first() {
            let refused = || Answer::Refused(refused.clone());
            slot.fill(answers.into_iter().map(|answer| answer.unwrap_or_else(refused)).collect());
        }
        for slot in self.probes.drain(..) {
            slot.refuse_all(refused);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::handle::Handle;
    use super::super::helm::Helm;
    use super::super::pools::Pools;
    use super::*;
    use crate::engine::EngineConfig;
    use crate::request::Control;
    use std::sync::Mutex;
    use std::sync::mpsc::channel;
    use tenure_log::{FileLog, FileLogOptions, Genesis, RealDisk};

    // Callers of messages that the turn before had no room for had called already: the rest waited for the next caller.
    #[test]
    fn what_a_turn_leaves_behind_brings_the_next_turn() {
        let directory = tempfile::TempDir::new().unwrap();
        let (config, now) = (EngineConfig::default(), read_clocks());
        let genesis = Genesis { random: [9; 16], unix_seconds: now.wall_ms / 1000, shard: 0 };
        let options = FileLogOptions::new(genesis, now.wall_ms);
        let (log, recovery) = FileLog::open(Arc::new(RealDisk), directory.path(), options).unwrap();
        let engine = Engine::recover(&log, &recovery, config.clone(), now).unwrap();
        let setup = super::super::setup(&log.identity(), &config);
        let log: SharedLog = Arc::new(Mutex::new(Box::new(log)));
        let (sender, inbox) = channel();
        let mailbox = Mailbox::new(sender, Helm::new());
        let shared = Handle::new(mailbox.clone(), Pools::new(1_000, 1_000, 1_000)).shared();
        let ((appender, _work), (reader, _reads)) = (channel(), channel());
        let ((chores, _wishes), (ended, _over)) = (channel(), channel());
        let listener: Listener = Box::new(|_| {});
        let ways =
            Ways { mailbox: mailbox.clone(), inbox, appender, reader, chores, ended, listener, shared };
        let mut writer = Writer::new(engine, log, setup, &HostOptions::default(), ways);
        for n in 0..3 * MESSAGES_MAX as u64 {
            let cancel = Completion::Told(Control::Cancel(Ticket(n)));
            mailbox.leave(Message::Completed(cancel)).unwrap();
        }
        let mut turns = 0;
        while !writer.inbox_is_empty() {
            turns += 1;
            let turned = writer.turn(Keeps::Nothing);
            let is_left = !writer.inbox_is_empty();
            assert!(!is_left || turned.next_turn_at_ms == Some(0), "turn {turns}");
        }
        assert!((3..6).contains(&turns), "{turns} turns");
    }
}
