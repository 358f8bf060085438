//! The machine between the pure rules and the log. [`Engine::turn`] takes what arrived and what completed,
//! and returns what may leave: no thread, no channel, no clock. Host and simulator drive the same code.

use crate::answer::{Answer, Push, Refused};
use crate::control::Facts;
use crate::endings::Endings;
use crate::gates::{Gates, Notices};
use crate::hub::{Hub, LogRead, LogReadDone};
use crate::journal::{Ending, Followed, Journal, Out};
use crate::lanes::Lanes;
use crate::mode::{EngineMode, FrameOutcome, Grants};
use crate::report::{Stall, Task};
use crate::request::{Control, Input, Request, Ticket};
use crate::retries::Retries;
use crate::status::Counters;
use crate::ticker::{Now, Ticker};
use crate::waiters::{Freed, Waiters, Wanted, queues_for};
use hashbrown::HashMap;
use tenure_kernel::codec::FORMAT;
use tenure_kernel::{
    Change, Event, Face, Hashing, Internal, Kernel, LeaseId, LeaseSlot, Limits, Lsn, Note, OpenSession,
    Rejection, Retention, SessionId, Stamp, Text, Tick,
};
use tenure_liveness::{Liveness, LivenessConfig};
use tenure_log::{Authority, Batch, Resolution, Space};

/// What an operator may change.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Requests not yet handled, over all lanes.
    pub inbox_max: usize,
    /// Requests waiting for a bundle.
    pub waiters_max: usize,
    /// Requests of one principal waiting for a bundle.
    pub waiters_per_principal_max: usize,
    /// How long a gate may take.
    pub gate_timeout_ms: u64,
    /// The same for streams, whose gate is a word to somebody outside.
    pub hook_timeout_ms: u64,
    /// After this long a notice is given up.
    pub notice_give_up_ms: u64,
    /// Capacities of the kernel.
    pub limits: Limits,
    /// Windows and caps of retention.
    pub retention: Retention,
    /// Settings of liveness.
    pub liveness: LivenessConfig,
    /// How the kernel's tables hash; never reaches any output.
    pub hashing: Hashing,
    /// The newest format in which events may be written: one that every program reads which has this log.
    pub format: u32,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            inbox_max: 64 << 10,
            waiters_max: 100_000,
            waiters_per_principal_max: 50_000,
            gate_timeout_ms: 10_000,
            hook_timeout_ms: 60_000,
            notice_give_up_ms: 24 * 60 * 60 * 1000,
            limits: Limits::default(),
            retention: Retention::default(),
            liveness: LivenessConfig::default(),
            hashing: Hashing::fixed(0),
            format: FORMAT,
        }
    }
}

/// Waiters looked at per unit of work.
const WAITERS_PER_UNIT: usize = 8;
/// What it takes to begin a wait, beside the try that came before: a waiter stands in five orders.
const UNITS_PER_WAIT: usize = 4;

/// Something the host finished for the engine.
#[derive(Debug)]
pub enum Completion {
    /// The frame given out last was appended, or not.
    Appended {
        /// The frame, given back.
        batch: Batch,
        /// What became of it.
        outcome: Appended,
        /// How long it took.
        took_us: u64,
    },
    /// What the log says of a frame whose outcome was unknown.
    Resolved {
        /// The frame, given back.
        batch: Batch,
        /// What became of it.
        resolution: Resolution,
    },
    /// Part of the log for a watcher.
    LogRead(LogReadDone),
    /// How much room the disk has.
    Space(Space),
    /// A task came to its end, with an error or without.
    Worked(Task, Option<String>),
    /// Holders could have waited long, in the turn before this one or for this one.
    Stalled {
        /// Why.
        stall: Stall,
        /// For how long.
        ms: u64,
    },
    /// The next snapshot needs a record that the newest one does not cover.
    RecordWanted,
    /// How long this writer may answer.
    Authority(Authority),
    /// Another writer took over.
    Fenced,
    /// Whether the next frame is still to be gathered, though none is in flight: who was just answered asks again.
    Gather(bool),
    /// A frame that another writer committed, for an engine that follows.
    Copied(Batch),
    /// A fact that nothing may refuse.
    Told(Control),
    /// The newest format in which events may be written from now on.
    Format(u32),
}

/// What an engine does with its log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It decides and writes.
    Writing,
    /// It applies what another one wrote, and is only looked at.
    Following,
}

/// What became of a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Appended {
    /// Durable.
    Committed,
    /// Another writer took over.
    Fenced,
    /// It may or may not be durable.
    Unknown,
    /// The log is broken.
    Failed(String),
}

/// What a turn asks of the host.
#[derive(Debug, Default)]
pub struct Outputs {
    /// What leaves.
    pub outs: Vec<Out>,
    /// A frame to append; its completion is awaited.
    pub append: Option<Batch>,
    /// A frame whose outcome is to be found out.
    pub resolve: Option<Batch>,
    /// Parts of the log to read for watchers.
    pub reads: Vec<LogRead>,
    /// Run the next turn after this long, or earlier if something arrives. `None`: only then.
    pub wake_in_ms: Option<u64>,
    /// The engine must not go on.
    pub stop: Option<Stop>,
}

/// Why the engine cannot go on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Stop {
    /// The log is broken; nothing suspect is served.
    #[error("the log failed: {0}")]
    LogFailed(String),
    /// Another writer took over; this state is no longer the truth.
    #[error("another leader was elected")]
    Fenced,
    /// Another writer wrote what this program cannot read.
    #[error("{}", newer_words(*lsn, *found, *reads))]
    Newer {
        /// Position of the record.
        lsn: Lsn,
        /// Its format.
        found: u32,
        /// The newest format that this program reads.
        reads: u32,
    },
}

/// Kernel, liveness and log as one machine.
pub struct Engine {
    pub(crate) config: EngineConfig,
    pub(crate) kernel: Kernel,
    pub(crate) liveness: Liveness,
    pub(crate) journal: Journal,
    pub(crate) ticker: Ticker,
    pub(crate) now: Now,
    pub(crate) tick: Tick,
    pub(crate) facts: Facts,
    pub(crate) lanes: Lanes,
    pub(crate) waiters: Waiters,
    /// What came free since waiters were last looked at.
    pub(crate) freed: Freed,
    /// Work that this turn may still spend on looking at waiters.
    pub(crate) serving: usize,
    pub(crate) retries: Retries,
    pub(crate) gates: Gates,
    pub(crate) endings: Endings,
    pub(crate) hub: Hub,
    pub(crate) counters: Counters,
    /// Open connections whose session is not durable yet.
    pub(crate) connections: HashMap<SessionId, OpenSession, foldhash::fast::FixedState>,
    pub(crate) notices: Notices,
    pub(crate) grants: Grants,
    /// Why the last try of each task failed.
    pub(crate) failing: [Option<String>; Task::ALL.len()],
    pub(crate) record_wanted: bool,
    pub(crate) mode: EngineMode,
    /// Slots of the leases looked at together; kept only for its memory.
    pub(crate) ahead: Vec<Option<LeaseSlot>>,
    /// What leaves with this turn.
    pub(crate) leaving: Vec<Out>,
    pub(crate) pushes: Vec<Push>,
}

impl Engine {
    /// An engine over a recovered state. `next_lsn` is where the log goes on.
    pub(crate) fn new(
        config: EngineConfig,
        kernel: Kernel,
        now: Now,
        next_lsn: Lsn,
        synced: Lsn,
        writer_epoch: u64,
        last_tick: Tick,
    ) -> Self {
        let liveness = Liveness::recover(&kernel, last_tick, config.liveness.clone());
        Self::with_liveness(config, kernel, liveness, now, next_lsn, synced, writer_epoch, last_tick)
    }

    #[expect(clippy::too_many_arguments, reason = "all that an engine begins with, named where it is called")]
    pub(crate) fn with_liveness(
        config: EngineConfig,
        kernel: Kernel,
        liveness: Liveness,
        now: Now,
        next_lsn: Lsn,
        synced: Lsn,
        writer_epoch: u64,
        last_tick: Tick,
    ) -> Self {
        Self {
            facts: Facts::default(),
            lanes: Lanes::new(config.inbox_max),
            waiters: Waiters::new(),
            gates: Gates::default(),
            endings: Endings::default(),
            config,
            kernel,
            liveness,
            journal: Journal::new(next_lsn, synced, writer_epoch, last_tick),
            ticker: Ticker::new(last_tick, now),
            now,
            tick: last_tick,
            freed: Freed::default(),
            serving: 0,
            retries: Retries::default(),
            hub: Hub::default(),
            counters: Counters::default(),
            connections: HashMap::default(),
            notices: Notices::default(),
            grants: Grants::open(),
            failing: [const { None }; Task::ALL.len()],
            record_wanted: false,
            mode: EngineMode::leads(Authority::Forever),
            ahead: Vec::new(),
            leaving: Vec::new(),
            pushes: Vec::new(),
        }
    }

    /// The state, for reading.
    #[must_use]
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Liveness, for reading.
    #[must_use]
    pub fn liveness(&self) -> &Liveness {
        &self.liveness
    }

    /// Whether events of a format may be written. Whatever decides an event that older programs cannot read asks first,
    /// and until then does what the version before did.
    #[must_use]
    pub fn may_write(&self, format: u32) -> bool {
        format <= self.config.format
    }

    /// What it does with its log.
    #[must_use]
    pub fn role(&self) -> Role {
        self.mode.role()
    }

    /// The present tick.
    #[must_use]
    pub fn tick(&self) -> Tick {
        self.tick
    }

    /// Newest decided position.
    #[must_use]
    pub fn applied_lsn(&self) -> Lsn {
        self.journal.newest()
    }

    /// Newest durable position.
    #[must_use]
    pub fn synced_lsn(&self) -> Lsn {
        self.journal.synced()
    }

    /// Everything counted since the start.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Waiters looked at since the start: how much work they were.
    #[must_use]
    pub fn waiters_looked_at(&self) -> u64 {
        self.waiters.looks()
    }

    /// Whether nothing is gathered, in flight or waiting in a lane: the log may be closed.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.journal.is_idle() && self.facts.is_empty() && self.lanes.is_empty() && self.endings.is_empty()
    }

    /// How a turn went for one who only asks whether there are any.
    #[must_use]
    pub fn probed(&self) -> Answer {
        if self.mode.stop_reason().is_some() {
            return Answer::Refused(Refused::ShuttingDown);
        }
        if !self.mode.may_answer(self.now) {
            return Answer::Refused(Refused::NotLeader);
        }
        Answer::Probed { space: self.grants.space }
    }

    /// Handles one request; returns about how many units of work it was.
    pub(crate) fn handle(&mut self, input: Input) -> usize {
        let Input { ticket, request, .. } = input;
        match request {
            Request::Submit(submit) => {
                let (looks, waiting) = (self.waiters.looks(), self.waiting());
                self.submit(ticket, submit);
                let began = self.waiting().saturating_sub(waiting);
                let looked = (self.waiters.looks() - looks) as usize;
                return 1 + looked / WAITERS_PER_UNIT + began * UNITS_PER_WAIT;
            }
            Request::Heartbeat { lease, epoch, via, asker } => {
                if self.allowed(ticket, asker.as_ref(), lease) {
                    self.heartbeat(ticket, lease, epoch, via);
                }
            }
            Request::TimelyHeartbeat { lease, epoch, asker } => {
                if self.allowed(ticket, asker.as_ref(), lease) {
                    self.timely_heartbeat(ticket, lease, epoch);
                }
            }
            Request::SessionHeartbeat { session, seen, asker } => {
                if self.allowed_session(ticket, asker.as_ref(), session) {
                    self.session_heartbeat(ticket, session, seen);
                }
            }
            Request::ConnectionOpened(open) => self.connection_opened(ticket, open),
            Request::ConnectionsTold { open, gone, left } => {
                return self.connections_told(ticket, &open, &gone, &left);
            }
            Request::Acknowledge { lease, epoch, asker } => {
                if self.allowed(ticket, asker.as_ref(), lease) {
                    self.acknowledge(ticket, lease, epoch);
                }
            }
            Request::HeldAs { holder, request } => {
                let view = request.lease().and_then(|lease| self.kernel.live(lease));
                match view.filter(|view| *view.holder() != holder) {
                    Some(view) => {
                        let depends_on = view.changed_lsn();
                        self.refuse(ticket, depends_on, Rejection::HolderMismatch.into());
                    }
                    None => return self.handle(Input::new(ticket, *request)),
                }
            }
            Request::ResetBreaker => self.reset_breaker(ticket),
            Request::Trim(below) => {
                if let Some(event) =
                    self.kernel.decide_internal(self.journal.peek(self.tick), &Internal::Trim(below))
                {
                    self.apply(&event);
                }
                self.done(ticket);
            }
            Request::Read(_)
            | Request::List(_)
            | Request::Ended { .. }
            | Request::Resource(_)
            | Request::Pools
            | Request::Session(_)
            | Request::Sessions { .. }
            | Request::Check(_)
            | Request::Watch { .. }
            | Request::Waiting(_)
            | Request::Status => return self.read(ticket, request),
        }
        1
    }

    /// Logs and applies one event, and does what follows from it.
    pub(crate) fn apply(&mut self, event: &Event) -> Stamp {
        let stamp = self.journal.record(self.now, self.tick, event, self.config.format);
        let own = LeaseId::new(self.kernel.shard(), stamp.lsn);
        if let Some(was) = event.change.epitaph() {
            let ending = self.kernel.live(was.lease).expect("invariant: what ends was live");
            self.liveness.forget(ending);
            self.kernel.evolve(stamp, event);
            self.gates.forget(was.lease);
            self.free(&was.members);
            let reason = ending_reason(&event.change);
            self.counters.end(was.policy.face, reason);
            let ending = Ending {
                lease: was.lease,
                holder: was.holder.clone(),
                members: was.members.clone(),
                policy: was.policy.clone(),
                face_data: was.face_data.clone(),
                reason,
                text: ending_text(&event.change),
                wall_ms: self.now.wall_ms,
                lsn: stamp.lsn,
            };
            self.journal.emit(stamp.lsn, Out::Ended(Box::new(ending)), &mut self.leaving);
            if was.policy.notice {
                self.notices.sent(was.lease, stamp.tick);
                let out = Out::SendNotice { lease: was.lease, ended_lsn: stamp.lsn };
                self.journal.emit(stamp.lsn, out, &mut self.leaving);
            }
            return stamp;
        }
        self.kernel.evolve(stamp, event);
        self.liveness.follow(&self.kernel, stamp, event);
        self.tell_of(stamp, &event.change);
        match &event.change {
            Change::Revoked(revoked) => self.after_revoke(stamp, revoked),
            Change::SessionClosed { session, .. } => self.endings.session(*session),
            Change::PoolRemoved { name } => {
                self.endings.pool(name.clone());
                self.freed.insert(Wanted::Pool(name.clone()));
            }
            Change::PoolDefined { name, .. } => {
                self.freed.insert(Wanted::Pool(name.clone()));
            }
            Change::Notified { lease } => {
                self.notices.settled(*lease);
            }
            Change::Granted(_)
            | Change::Activated { .. }
            | Change::Rebound(_)
            | Change::Amended(_)
            | Change::Drained(_)
            | Change::Revived(_)
            | Change::SessionOpened(_)
            | Change::Trimmed { .. }
            | Change::Configured(_) => {}
            Change::Released(_) | Change::Reclaimed(_) | Change::Expired(_) => {
                unreachable!("invariant: an ending event carries an epitaph, unlike {own}")
            }
        }
        stamp
    }

    /// Pollers' leases are told of as they change: a book of who polls what that followed the log would have every
    /// event of every face decoded.
    fn tell_of(&mut self, stamp: Stamp, change: &Change) {
        if matches!(change, Change::Granted(granted) if granted.policy.face != Face::Polling) {
            return;
        }
        let lease = change.lease(LeaseId::new(self.kernel.shard(), stamp.lsn));
        let Some(view) = lease.and_then(|lease| self.kernel.live(lease)) else { return };
        if view.terms().face != Face::Polling {
            return;
        }
        let changed_hands = matches!(change, Change::Granted(_) | Change::Rebound(_));
        let followed = Followed { lease: self.snapshot(view), changed_hands, lsn: stamp.lsn };
        self.journal.emit(stamp.lsn, Out::Followed(Box::new(followed)), &mut self.leaving);
    }

    /// Remembers what came free, for those who wait for it.
    fn free(&mut self, members: &[Text]) {
        if self.waiters.len() == 0 {
            return;
        }
        let queues = members.iter().flat_map(queues_for).filter(|key| self.waiters.is_wanted(key));
        self.freed.extend(queues);
    }

    /// Writes down something observed; without room it is only counted.
    pub(crate) fn note(&mut self, note: &Note) {
        if self.journal.note(self.now, self.tick, note).is_none() {
            self.counters.notes_dropped += 1;
        }
    }

    pub(crate) fn answer(&mut self, ticket: Ticket, depends_on: Lsn, answer: Answer) {
        self.journal.emit(depends_on, Out::Answer(ticket, answer), &mut self.leaving);
    }

    pub(crate) fn refuse(&mut self, ticket: Ticket, depends_on: Lsn, refused: Refused) {
        self.answer(ticket, depends_on, Answer::Refused(refused));
    }

    /// Answers a request that changed nothing in the log.
    pub(crate) fn done(&mut self, ticket: Ticket) {
        let lsn = self.journal.newest();
        self.answer(ticket, lsn, Answer::Done { lsn, replayed: false });
    }

    pub(crate) fn complete(&mut self, completion: Completion, outputs: &mut Outputs) {
        match completion {
            Completion::Appended { batch, outcome, took_us } => match outcome {
                Appended::Committed => {
                    self.counters.sync_us.record(took_us);
                    self.committed(batch);
                }
                Appended::Fenced => self.mode.stop(Stop::Fenced),
                Appended::Unknown => {
                    self.mode.frame_is(FrameOutcome::Unknown);
                    outputs.resolve = Some(batch);
                }
                Appended::Failed(why) => self.mode.stop(Stop::LogFailed(why)),
            },
            Completion::Resolved { batch, resolution } => match resolution {
                Resolution::Committed { .. } => self.committed(batch),
                // The same batch at the same position, never a new one; what becomes of it is still unknown.
                Resolution::Absent => outputs.append = Some(batch),
                Resolution::Fenced => self.mode.stop(Stop::Fenced),
                Resolution::Unknown => outputs.resolve = Some(batch),
                Resolution::Corrupt => {
                    let why = "it has records that this leader did not write";
                    self.mode.stop(Stop::LogFailed(why.to_owned()));
                }
            },
            Completion::LogRead(done) => self.hub.read_done(done, &mut self.pushes),
            Completion::Space(space) => self.space_is(space),
            Completion::Worked(task, error) => self.worked(task, error),
            Completion::Stalled { stall, ms } => self.stalled(stall, ms),
            Completion::RecordWanted => self.record_wanted = true,
            Completion::Authority(authority) => self.mode.authority_is(authority, self.now),
            Completion::Fenced => self.mode.stop(Stop::Fenced),
            Completion::Gather(gathers) => self.journal.gather_on(gathers),
            Completion::Copied(batch) => self.copied(batch),
            Completion::Told(control) => self.facts.push(control),
            Completion::Format(format) => self.config.format = format,
        }
    }

    fn committed(&mut self, batch: Batch) {
        self.mode.frame_is(FrameOutcome::Known);
        self.journal.committed(&mut self.leaving);
        let before = self.pushes.len();
        if let Some(spent) = self.hub.keep(batch, &mut self.pushes) {
            self.journal.recycle(spent);
        }
        // All that keeping a frame can push is that somebody lags.
        self.counters.watches_lagged += (self.pushes.len() - before) as u64;
    }
}

/// What is said of a record that this program cannot read.
pub(crate) fn newer_words(lsn: Lsn, found: u32, reads: u32) -> String {
    format!(
        "the log has a record of format {found} at lsn {lsn}, and this program reads up to format {reads}: upgrade it to the \
         version of the program that wrote the record, or a newer one"
    )
}

/// What was said to an end.
pub(crate) fn ending_text(change: &Change) -> Text {
    if let Change::Released(released) = change {
        released.text.clone()
    } else if let Change::Reclaimed(reclaimed) = change {
        reclaimed.text.clone()
    } else {
        Text::default()
    }
}

/// Why an ending event ended its lease.
pub(crate) fn ending_reason(change: &Change) -> tenure_kernel::Reason {
    match change {
        Change::Reclaimed(reclaimed) => reclaimed.reason,
        Change::Expired(_) => tenure_kernel::Reason::ReservationExpired,
        Change::Released(_)
        | Change::Granted(_)
        | Change::Activated { .. }
        | Change::Rebound(_)
        | Change::Amended(_)
        | Change::Drained(_)
        | Change::Revived(_)
        | Change::Revoked(_)
        | Change::SessionOpened(_)
        | Change::SessionClosed { .. }
        | Change::PoolDefined { .. }
        | Change::PoolRemoved { .. }
        | Change::Notified { .. }
        | Change::Trimmed { .. }
        | Change::Configured(_) => tenure_kernel::Reason::Explicit,
    }
}
