//! What a turn needs beside the driver, and what follows from one: messages in, answers, frames and jobs out. Knows
//! nothing of who runs it.

use super::handle::{Shared, Slot};
use super::helm::Mailbox;
use super::memory::resident_bytes;
use super::pools::{Admitted, Places};
use super::stalls::{Stalls, turn_over};
use super::{
    ChoreWork, Listener, Message, Over, SharedLog, append_now, boot_us, chain, lock, read_clocks, spawn,
};
use crate::answer::{Answer, Refused};
use crate::driver::{Driver, Job, Turned};
use crate::engine::{Completion, Role, Stop};
use crate::hub::LogRead;
use crate::journal::Out;
use crate::request::{Input, Request, Ticket};
use crate::snapshot::build_snapshot;
use crate::ticker::Now;
use crate::upkeep::Found;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::sync::{Arc, TryLockError};
use tenure_kernel::{Lsn, Setup};
use tenure_log::snapshot::SnapshotHeader;
use tenure_log::{AppendOutcome, Authority, Batch, FileReader, SnapshotStore};

/// Syncs quicker than this are done by whoever asked alone.
const OWN_SYNC_US_MAX: u64 = 1_500;
/// Messages taken in one turn.
const MESSAGES_MAX: usize = 4_096;

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
    what: What,
}

enum What {
    Append(Batch),
    Resolve(Batch),
}

impl Work {
    /// Does it; may block on the disk.
    pub(crate) fn carry_out(self) -> Message {
        let Self { log, what } = self;
        let mut log = lock(&log);
        let completion = match what {
            What::Append(batch) => {
                let (outcome, took_us) = append_now(log.as_mut(), &batch);
                Completion::Appended { batch, outcome, took_us }
            }
            What::Resolve(batch) => {
                let resolution = log.resolve(batch.id());
                Completion::Resolved { batch, resolution }
            }
        };
        let wants_chore = log.wants_chore();
        Message::Logged { completion: Some(completion), authority: log.authority_until(), wants_chore }
    }
}

/// What came of a turn.
pub(crate) struct TurnEnd {
    /// Work that this thread kept.
    pub(crate) work: Option<Work>,
    /// When time alone brings the next turn, in boot time; zero: there is more to do at once.
    pub(crate) next_turn_at_ms: Option<u64>,
    /// There will be no more turns.
    pub(crate) outcome: Option<Result<(), Stop>>,
}

/// What turns are run with.
pub(crate) struct Writer {
    driver: Driver,
    log: SharedLog,
    /// Reads the log without it.
    log_reader: FileReader,
    snapshots: SnapshotStore,
    setup: Setup,
    listener: Listener,
    shared: Arc<Shared>,
    mailbox: Mailbox,
    inbox: Receiver<Message>,
    /// Taken from the inbox already, for the next turn.
    peeked: Option<Message>,
    appender: Sender<Work>,
    reader: Sender<LogRead>,
    chores: Sender<ChoreWork>,
    ended: Sender<Over>,
    /// What is owed to callers, by the first ticket of each.
    calls: BTreeMap<Ticket, Gathered>,
    /// Callers that ask whether turns are run; the next turn answers them.
    probes: Vec<Arc<Slot>>,
    /// How long syncs take, smoothed.
    sync_us: u64,
    /// How many came with something since the last frame was given out, and before that one.
    callers: u32,
    callers_before: u32,
    stalls: Stalls,
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
    pub(crate) chores: Sender<ChoreWork>,
    pub(crate) ended: Sender<Over>,
    pub(crate) listener: Listener,
    pub(crate) shared: Arc<Shared>,
}

impl Writer {
    pub(crate) fn new(driver: Driver, log: SharedLog, setup: Setup, ways: Ways) -> Self {
        let Ways { mailbox, inbox, appender, reader, chores, ended, listener, shared } = ways;
        let (log_reader, snapshots) = {
            let log = lock(&log);
            (log.reader(), log.snapshots())
        };
        if let Some(newest) = snapshots.newest() {
            shared.snapshot_taken(Lsn(newest.lsn.0), newest.at.wall_ms);
        }
        Self {
            driver,
            log,
            log_reader,
            snapshots,
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
            sync_us: 0,
            callers: 0,
            callers_before: 0,
            stalls: Stalls::default(),
        }
    }

    /// Takes what has arrived and runs one turn of the machine.
    pub(crate) fn turn(&mut self, keeps: Keeps) -> TurnEnd {
        let leaves_some = self.receive();
        let now = read_clocks();
        if let Some(stalled) = self.stalls.waited(now.boot_ms) {
            self.driver.completed(stalled);
        }
        if leaves_some && self.stalls.mark() {
            // Who is at the helm needs no call.
            let _ = self.mailbox.leave(Message::Mark(now.boot_ms));
        }
        let job = self.look_at_log(now);
        let mut turned = self.driver.turn(now);
        turned.jobs.extend(job);
        let engine = self.driver.engine();
        self.shared.tell_turn(engine.tick(), engine.synced_lsn());
        self.answer_probes();
        // Nobody calls again for what a turn left behind.
        let rest_at_ms = leaves_some.then_some(0);
        let next_turn_at_ms = turned.next_turn_at_ms(now).into_iter().chain(rest_at_ms).min();
        let (work, stop) = self.carry_out(turned, keeps);
        let outcome = match stop {
            Some(stop) => Some(Err(stop)),
            None if self.driver.hands_over() => Some(Ok(())),
            None => self.close(now),
        };
        if let Some(stalled) = turn_over(now.boot_ms, boot_us() / 1_000) {
            self.driver.completed(stalled);
        }
        TurnEnd { work, next_turn_at_ms, outcome }
    }

    /// Tells the driver what there is of the log, where it wants to know. A turn never waits for the log, whose thread may
    /// wait for a disk.
    fn look_at_log(&mut self, now: Now) -> Option<Job> {
        if !self.driver.wants_look(now) {
            return None;
        }
        let (extents, space, wants_chore) = match self.log.try_lock() {
            Ok(log) => (log.extents(), log.space(), log.wants_chore()),
            // While a frame is being synced the answer can wait.
            Err(TryLockError::WouldBlock) => {
                self.driver.look_again(now);
                return None;
            }
            Err(TryLockError::Poisoned(_)) => unreachable!("invariant: nobody panics while holding the log"),
        };
        let snapshots = self.snapshots.generations();
        let tick = self.driver.engine().tick().0;
        let found = Found { extents: &extents, snapshots: &snapshots, space, tick };
        self.driver.look(now, &found, wants_chore)
    }

    fn answer_probes(&mut self) {
        for slot in self.probes.drain(..) {
            slot.fill(vec![self.driver.engine().probed()]);
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
                if self.driver.is_closing() || count == 0 {
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
            Message::Completed(completion) => self.driver.completed(completion),
            Message::Logged { completion, authority, wants_chore } => {
                if let Some(Completion::Appended { took_us, .. }) = &completion {
                    self.sync_us = (self.sync_us * 7 + took_us) / 8;
                }
                if let Some(completion) = completion {
                    self.driver.completed(completion);
                }
                if authority != Authority::Forever {
                    self.driver.completed(Completion::Authority(authority));
                }
                if wants_chore {
                    self.driver.wants_chore();
                }
            }
            Message::ChoreDone { done, wants_chore } => {
                self.driver.chore_done(read_clocks(), done, wants_chore);
            }
            Message::Trimmed { wants_chore } => self.driver.trimmed(wants_chore),
            Message::SnapshotDone(outcome) => self.snapshot_done(&outcome),
            Message::TakeSnapshot(upto) => self.driver.take_snapshot(upto),
            Message::ShutDown => self.driver.shut_down(),
            Message::HandOver => self.driver.hand_over(),
        }
    }

    /// Refuses what belongs to a lane in which too much is outstanding; the rest of the call goes on.
    fn take_in(&mut self, first: Ticket, requests: Vec<Request>, admitted: &Admitted) {
        self.driver.reserve(requests.len());
        for (ticket, request) in (first.0..).map(Ticket).zip(requests) {
            match admitted[request.lane() as usize] {
                Ok(share) => self.driver.asked(Input { ticket, request, share }),
                Err(limit) => {
                    let max = self.shared.pools.value(limit);
                    self.gather(ticket, Answer::Refused(Refused::Overloaded { limit, max }));
                }
            }
        }
    }

    fn carry_out(&mut self, turned: Turned, keeps: Keeps) -> (Option<Work>, Option<Stop>) {
        let Turned { outs, append, resolve, reads, jobs, wake_in_ms: _, upkeep_at_ms: _, stop } = turned;
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
        for job in jobs {
            match job {
                Job::Snapshot { upto } => self.build_snapshot(upto),
                // A thread that has ended has nothing left to do.
                Job::Trim { below } => drop(self.chores.send(ChoreWork::Trim(below))),
                Job::Chore => drop(self.chores.send(ChoreWork::Chore)),
            }
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
        let work = Work { log: Arc::clone(&self.log), what };
        if is_kept {
            return Some(work);
        }
        self.appender.send(work).expect("invariant: the log thread lives as long as the writer");
        None
    }

    fn deliver(&mut self, out: Out) {
        match out {
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

    fn build_snapshot(&mut self, upto: Lsn) {
        let (setup, mailbox, store) = (self.setup.clone(), self.mailbox.clone(), self.snapshots.clone());
        let (mut reader, shared) = (self.log_reader.another(), Arc::clone(&self.shared));
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

    fn snapshot_done(&mut self, outcome: &Result<Option<SnapshotHeader>, String>) {
        if let Ok(Some(newest)) = outcome {
            self.shared.snapshot_taken(Lsn(newest.lsn.0), newest.at.wall_ms);
        }
        self.driver.snapshot_done(matches!(outcome, Ok(Some(_))), outcome.as_ref().err().cloned());
    }

    /// Closes the log, if everything is finished. `None`: not yet.
    fn close(&mut self, now: Now) -> Option<Result<(), Stop>> {
        let at = self.driver.may_close(now).filter(|_| self.inbox_is_empty())?;
        self.answer_rest(&Refused::ShuttingDown);
        Some(match lock(&self.log).close(at) {
            AppendOutcome::Committed { .. } | AppendOutcome::Unknown => Ok(()),
            AppendOutcome::Fenced => Err(Stop::Fenced),
            AppendOutcome::Failed(error) => Err(Stop::LogFailed(error.to_string())),
        })
    }
}

impl Writer {
    /// Tells everybody that there will be no more turns.
    pub(crate) fn over(mut self, outcome: Result<(), Stop>) {
        if outcome.is_err() {
            self.answer_rest(&Refused::OutcomeUnknown);
        }
        if self.driver.hands_over() {
            // What one who writes has taken may be in a frame.
            let is_writing = self.driver.engine().role() == Role::Writing;
            self.answer_rest(if is_writing { &Refused::OutcomeUnknown } else { &Refused::NotLeader });
        }
        // Whoever started the host may have gone.
        let _ = self.ended.send(Over { outcome, engine: Box::new(self.driver.into_engine()) });
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
    use crate::engine::{Engine, EngineConfig};
    use crate::request::Control;
    use crate::upkeep::UpkeepOptions;
    use std::sync::Mutex;
    use std::sync::mpsc::channel;
    use tenure_log::{FileLog, FileLogOptions, Genesis, OrderedLog, RealDisk};

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
        let driver = Driver::new(engine, &UpkeepOptions::default());
        let mut writer = Writer::new(driver, log, setup, ways);
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
