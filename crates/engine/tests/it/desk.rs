//! A desk where turns are made by hand, over a real log in a directory of its own. The desk decides what time
//! it is, when a frame is durable and with which outcome, so that what leaves before the sync can be seen.
//!
//! A script has one step per line. `name: words` puts a request or a fact into the inbox of the next turn (see
//! `words.rs`); the other steps are:
//!
//! | step | does |
//! |---|---|
//! | `turn` | runs a turn |
//! | `+500` | lets that many milliseconds pass, then runs a turn |
//! | `stopped 500` | lets that many milliseconds pass, without a turn |
//! | `until 90000` | lives on as the host would, frames synced at once, up to that tick |
//! | `sync` | the frame in flight is durable; runs a turn |
//! | `settle` | turns and syncs until nothing is left to do |
//! | `unknown`, `fenced`, `failed` | the other outcomes of the frame in flight |
//! | `resolve committed`, `resolve absent` … | what the log says of the frame whose outcome was unknown |
//! | `authority 5000`, `authority forever` | how long this writer may answer, from now on |
//! | `space low`, `space ok` | what the disk says |
//! | `disk` | answers the reads that watchers wait for |
//! | `wake` | prints how long the engine would sleep |
//! | `snapshot` | stores the state at the newest durable frame |
//! | `forget 500` | deletes whole segments below that position |
//! | `restart`, `restore` | drops everything and recovers; as a restored backup |
//! | `down 3600000` | is down for that long, then recovers |
//!
//! Every turn prints what left: `tick who <- answer`, `tick frame …`, `tick push …`. Fences are printed
//! without the base of the log.

use crate::{running, words};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use tempfile::TempDir;
use tenure_engine::host::read_log;
use tenure_engine::{
    Answer, Appended, Completion, Control, Engine, EngineConfig, Input, LeaseFound, LeaseSnapshot, LogRead,
    News, Now, Out, Outputs, Push, Refused, Request, Stop, Task, Ticket, WaiterSnapshot, build_snapshot,
    publish, setup,
};
use tenure_kernel::codec::encode_state;
use tenure_kernel::{Epoch, Fence, Kernel, LeaseId, LeaseState, RecordKind, Rejection};
use tenure_liveness::{DrainCause, Standing};
use tenure_log::file::RestoreError;
use tenure_log::{
    AppendOutcome, Authority, Batch, FileLog, FileLogOptions, Genesis, OpenError, OrderedLog, RealDisk,
    Resolution, Space, restore,
};

/// More records than this are counted, not listed.
const LISTED_MAX: usize = 12;

pub(crate) struct Desk {
    pub(crate) engine: Engine,
    pub(crate) log: FileLog,
    pub(crate) config: EngineConfig,
    pub(crate) now: Now,
    pub(crate) inbox: Vec<Input>,
    /// Facts for the next turn.
    pub(crate) facts: Vec<Control>,
    /// The frame given out whose outcome the engine does not know.
    pub(crate) flight: Option<Batch>,
    /// The frame whose outcome is to be found out.
    pub(crate) unresolved: Option<Batch>,
    pub(crate) reads: Vec<LogRead>,
    pub(crate) wake_in_ms: Option<u64>,
    pub(crate) stop: Option<Stop>,
    /// Every answer so far, the last under each name.
    pub(crate) answers: BTreeMap<String, Answer>,
    pub(crate) answered: usize,
    /// What each grant came to.
    pub(crate) leases: BTreeMap<String, LeaseId>,
    pub(crate) pushes: Vec<Push>,
    /// Whether turns are written down; off where thousands of answers would be in the way.
    pub(crate) told: bool,
    /// The state when each frame was given out, where asked for.
    pub(crate) states: Option<BTreeMap<u64, Vec<u8>>>,
    story: String,
    names: BTreeMap<Ticket, String>,
    next_ticket: u64,
    genesis: u8,
    directory: TempDir,
}

/// Runs a script over an empty log and returns what left.
pub(crate) fn tell(script: &str) -> String {
    tell_with(EngineConfig::default(), script)
}

pub(crate) fn tell_with(config: EngineConfig, script: &str) -> String {
    let mut desk = Desk::with(config);
    desk.play(script);
    desk.take_story()
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self::with(EngineConfig::default())
    }

    pub(crate) fn with(config: EngineConfig) -> Self {
        let directory = TempDir::new().unwrap();
        let now = Now { boot_ms: 5_000_000, wall_ms: 1_700_000_000_000 };
        let (engine, log) = open(&directory, &config, now, 1);
        Self {
            engine,
            log,
            config,
            now,
            inbox: Vec::new(),
            facts: Vec::new(),
            flight: None,
            unresolved: None,
            reads: Vec::new(),
            wake_in_ms: None,
            stop: None,
            answers: BTreeMap::new(),
            answered: 0,
            leases: BTreeMap::new(),
            pushes: Vec::new(),
            told: true,
            states: None,
            story: String::new(),
            names: BTreeMap::new(),
            next_ticket: 1,
            genesis: 1,
            directory,
        }
    }

    pub(crate) fn play(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            self.step(line);
        }
    }

    pub(crate) fn take_story(&mut self) -> String {
        core::mem::take(&mut self.story)
    }

    fn step(&mut self, line: &str) {
        if let Some((name, asked)) = line.split_once(": ") {
            match words::control(self, asked) {
                Some(control) => self.facts.push(control),
                None => {
                    let request = words::request(self, name, asked);
                    self.ask(name, request);
                }
            }
            return;
        }
        if let Some(ms) = line.strip_prefix('+') {
            self.pass(ms.parse().unwrap());
            self.turn();
            return;
        }
        match line.split_once(' ').unwrap_or((line, "")) {
            ("turn", _) => self.turn(),
            ("stopped", ms) => self.pass(ms.parse().unwrap()),
            ("sync", _) => self.commit(),
            ("settle", _) => self.settle(),
            ("until", tick) => self.live_until(tick.parse().unwrap()),
            ("unknown", _) => {
                let batch = self.flight.take().expect("a frame is in flight");
                self.complete(Completion::Appended { batch, outcome: Appended::Unknown, took_us: 0 });
            }
            ("fenced", _) => self.finish_flight(Appended::Fenced),
            ("failed", _) => self.finish_flight(Appended::Failed("no space left on device".to_owned())),
            ("resolve", "committed") => {
                let batch = self.unresolved.take().expect("a frame is in doubt");
                let synced = self.write(&batch);
                self.complete(Completion::Resolved { batch, resolution: Resolution::Committed { synced } });
            }
            ("resolve", how) => {
                let resolution = match how {
                    "absent" => Resolution::Absent,
                    "fenced" => Resolution::Fenced,
                    _ => Resolution::Unknown,
                };
                let batch = self.unresolved.take().expect("a frame is in doubt");
                self.complete(Completion::Resolved { batch, resolution });
            }
            ("authority", "forever") => self.complete(Completion::Authority(Authority::Forever)),
            ("authority", ms) => {
                let boot_ms = self.now.boot_ms + ms.parse::<u64>().unwrap();
                self.complete(Completion::Authority(Authority::Until { boot_ms }));
            }
            ("task", word) => {
                let error = (word == "fails").then(|| "no room".to_owned());
                self.complete(Completion::Worked(Task::Snapshot, error));
            }
            ("space", "low") => self.complete(Completion::Space(Space::Low)),
            ("space", _) => self.complete(Completion::Space(Space::Ok)),
            ("disk", _) => self.answer_reads(),
            ("wake", _) => {
                let line =
                    self.wake_in_ms.map_or("nothing to wake for".to_owned(), |ms| format!("wake in {ms}"));
                self.write_line(&line);
            }
            ("snapshot", _) => {
                let header = self.snapshot();
                let line = header.map_or("nothing new".to_owned(), |lsn| format!("snapshot at {lsn}"));
                self.write_line(&line);
            }
            ("forget", below) => self.forget(below.parse().unwrap()),
            ("restart", _) => self.restart(),
            ("down", ms) => {
                self.pass(ms.parse().unwrap());
                self.restart();
            }
            // Somebody sets the clock of people forward.
            ("wall", ms) => self.now.wall_ms += ms.parse::<u64>().unwrap(),
            ("restore", _) => self.restore(),
            _ => panic!("no such step: {line}"),
        }
    }

    pub(crate) fn ask(&mut self, name: &str, request: Request) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.names.insert(ticket, name.to_owned());
        self.inbox.push(Input::new(ticket, request));
        ticket
    }

    /// The ticket last given under a name.
    pub(crate) fn ticket(&self, name: &str) -> Ticket {
        let found = self.names.iter().rev().find(|(_, known)| *known == name);
        *found.unwrap_or_else(|| panic!("nobody is called {name}")).0
    }

    pub(crate) fn lease(&self, name: &str) -> LeaseId {
        *self.leases.get(name).unwrap_or_else(|| panic!("{name} was granted nothing"))
    }

    pub(crate) fn fence_base(&self) -> u64 {
        self.log.identity().fence_base
    }

    pub(crate) fn fence(&self, fence: Fence) -> i64 {
        fence.0 as i64 - self.log.identity().fence_base as i64
    }

    pub(crate) fn pass(&mut self, ms: u64) {
        self.now.boot_ms += ms;
        self.now.wall_ms += ms;
    }

    pub(crate) fn turn(&mut self) {
        self.turn_with(Vec::new());
    }

    fn complete(&mut self, completion: Completion) {
        self.turn_with(vec![completion]);
    }

    fn finish_flight(&mut self, outcome: Appended) {
        let batch = self.flight.take().expect("a frame is in flight");
        self.complete(Completion::Appended { batch, outcome, took_us: 700 });
    }

    /// Makes the frame in flight durable.
    pub(crate) fn commit(&mut self) {
        let batch = self.flight.as_ref().expect("a frame is in flight").clone();
        self.write(&batch);
        self.finish_flight(Appended::Committed);
    }

    fn write(&mut self, batch: &Batch) -> tenure_log::Lsn {
        match self.log.append(batch) {
            AppendOutcome::Committed { synced } => synced,
            other => panic!("the log refused a frame: {other:?}"),
        }
    }

    /// Turns and syncs until nothing is left to do now.
    pub(crate) fn settle(&mut self) {
        if !self.inbox.is_empty() || !self.facts.is_empty() {
            self.turn();
        }
        loop {
            if self.flight.is_some() {
                self.commit();
            } else if !self.reads.is_empty() {
                self.answer_reads();
            } else if self.wake_in_ms == Some(0) {
                self.turn();
            } else {
                return;
            }
        }
    }

    /// Lives on as the host would: sleeps as long as it is told to, frames synced at once.
    pub(crate) fn live_until(&mut self, tick: u64) {
        self.turn();
        self.settle();
        while self.engine.tick().0 < tick {
            let left = tick - self.engine.tick().0;
            self.pass(self.wake_in_ms.map_or(left, |ms| ms.clamp(1, left)));
            self.turn();
            self.settle();
        }
    }

    pub(crate) fn answer_reads(&mut self) {
        let mut reader = self.log.reader();
        let reads = core::mem::take(&mut self.reads);
        let done = reads.iter().map(|read| Completion::LogRead(read_log(&mut reader, read))).collect();
        self.turn_with(done);
    }

    /// Stores the state at the newest durable frame, as the host does beside the writer.
    pub(crate) fn snapshot(&mut self) -> Option<u64> {
        let setup = setup(&self.log.identity(), &self.config);
        let mut reader = self.log.reader();
        let upto = self.engine.synced_lsn();
        let built = build_snapshot(setup, &self.log.snapshots(), &mut reader, upto, &mut || {}).unwrap();
        built.map(|header| header.lsn.0)
    }

    fn forget(&mut self, below: u64) {
        let _ = self.log.trim(tenure_log::Lsn(below));
        while let Some(chore) = self.log.chore() {
            self.log.chore_done(chore.run());
        }
    }

    pub(crate) fn restart(&mut self) {
        self.reopen(|_| {});
    }

    fn restore(&mut self) {
        self.genesis += 1;
        let (genesis, wall_ms) = (self.genesis, self.now.wall_ms);
        self.reopen(|directory| {
            while let Err(error) = restore(Arc::new(RealDisk), directory.path(), options(genesis, wall_ms)) {
                // As in `running::open`.
                assert!(matches!(error, RestoreError::Open(OpenError::Locked { .. })), "{error}");
            }
        });
    }

    fn reopen(&mut self, meanwhile: impl FnOnce(&TempDir)) {
        self.inbox.clear();
        self.facts.clear();
        self.reads.clear();
        (self.flight, self.unresolved, self.wake_in_ms, self.stop) = (None, None, None, None);
        // Only one process may have the directory: let go of it by opening another in its place.
        let elsewhere = TempDir::new().unwrap();
        (self.engine, self.log) = open(&elsewhere, &self.config, self.now, 99);
        meanwhile(&self.directory);
        (self.engine, self.log) = open(&self.directory, &self.config, self.now, self.genesis);
        self.engine.kernel().check_invariants().unwrap();
    }

    fn turn_with(&mut self, mut completions: Vec<Completion>) {
        let inputs = core::mem::take(&mut self.inbox);
        completions.extend(self.facts.drain(..).map(Completion::Told));
        let outputs = self.engine.turn(self.now, inputs, completions);
        self.take(outputs);
    }

    fn take(&mut self, outputs: Outputs) {
        let Outputs { outs, append, resolve, reads, wake_in_ms, stop } = outputs;
        for out in outs {
            self.left(out);
        }
        if let Some(batch) = append {
            assert!(self.flight.is_none(), "two frames in flight");
            if self.told {
                let frame = frame_line(&batch);
                self.write_line(&frame);
            }
            if let Some(states) = &mut self.states {
                states.insert(batch.next_lsn().0 - 1, bytes_of(self.engine.kernel()));
            }
            self.flight = Some(batch);
        }
        if let Some(batch) = resolve {
            let line = format!("resolve {}", batch.id());
            self.write_line(&line);
            self.unresolved = Some(batch);
        }
        for read in reads {
            if self.told {
                let line = format!(
                    "read for {} from {} up to {}, {} at most",
                    self.names[&read.watch], read.from, read.upto, read.limit
                );
                self.write_line(&line);
            }
            self.reads.push(read);
        }
        if let Some(stop) = &stop {
            self.write_line(&format!("stop: {stop}"));
        }
        self.wake_in_ms = wake_in_ms;
        self.stop = stop;
    }

    fn left(&mut self, out: Out) {
        match out {
            Out::Answer(ticket, answer) => {
                let name = self.names[&ticket].clone();
                self.answered += 1;
                if self.told {
                    let line = format!("{name} <- {}", self.answer_words(&answer));
                    self.write_line(&line);
                }
                if let Answer::Lease(given) = &answer
                    && let LeaseFound::Live(lease) = &given.lease
                {
                    self.leases.entry(name.clone()).or_insert(lease.id);
                }
                self.answers.insert(name, answer);
            }
            Out::Push(push) => {
                if self.told {
                    let line = self.push_words(&push);
                    self.write_line(&line);
                }
                self.pushes.push(push);
            }
            Out::OpenGate(lease) => self.write_line(&format!("gate of lease {lease}")),
            Out::SendNotice { lease, ended_lsn } => {
                self.write_line(&format!("notice of lease {lease}, ended at {ended_lsn}"));
            }
            Out::Ended(_) => {}
            Out::Report(report) => self.write_line(&format!("report: {report:?}")),
            Out::Followed(followed) => {
                let hands = if followed.changed_hands { " in new hands" } else { "" };
                let line =
                    format!("followed at {}{hands}: {}", followed.lsn, self.live_words(&followed.lease));
                self.write_line(&line);
            }
        }
    }

    fn write_line(&mut self, line: &str) {
        let tick = self.engine.tick();
        writeln!(self.story, "{tick:<6} {line}").unwrap();
    }

    fn push_words(&self, push: &Push) -> String {
        match push {
            Push::Lost { session, lease, epoch, reason } => {
                format!("push to {}: lost lease {lease} epoch {epoch} {}", session.0, reason.as_str())
            }
            Push::Events { watch, events } => {
                let told: Vec<String> =
                    events.iter().map(|event| format!("{} {}", event.lsn, news_word(&event.news))).collect();
                let told = match told.as_slice() {
                    [first, .., last] if told.len() > LISTED_MAX => {
                        format!("{first} … {last}, {} in all", told.len())
                    }
                    all => all.join(", "),
                };
                format!("push to {}: {told}", self.names[watch])
            }
            Push::Lagged { watch, resume } => {
                format!("push to {}: lagged, resume {resume}", self.names[watch])
            }
            Push::WatchTrimmed { watch, oldest } => {
                format!("push to {}: trimmed, oldest {oldest}", self.names[watch])
            }
        }
    }

    pub(crate) fn answer_words(&self, answer: &Answer) -> String {
        match answer {
            Answer::Probed { space } => format!("probed, disk {space:?}"),
            Answer::Lease(given) => {
                let again = if given.replayed { ", replayed" } else { "" };
                format!("{}{again}", self.found_words(&given.lease))
            }
            Answer::Done { replayed, .. } => if *replayed { "done, replayed" } else { "done" }.to_owned(),
            Answer::Renewed { valid_ms, remaining_ms, draining, .. } => format!(
                "renewed{}{}{}",
                optional(" valid", *valid_ms),
                optional(" left", *remaining_ms),
                if *draining { " draining" } else { "" }
            ),
            Answer::ConnectionsKept { unknown } => format!("connections heard, {} unknown", unknown.len()),
            Answer::SessionRenewed { lsn, valid_ms, ended, draining } => {
                let ended = match ended {
                    None => "more than remembered".to_owned(),
                    Some(ended) => ended
                        .iter()
                        .map(|loss| format!("{} {}", loss.lease, loss.reason.as_str()))
                        .collect::<Vec<_>>()
                        .join(", "),
                };
                let draining: Vec<String> = draining.iter().map(ToString::to_string).collect();
                format!(
                    "renewed lsn {lsn} valid {valid_ms} ended [{ended}] draining [{}]",
                    draining.join(", ")
                )
            }
            Answer::Read(read) => self.found_words(&read.lease),
            Answer::Leases { leases, next, lsn } => {
                let ids: Vec<String> = leases.iter().map(|lease| lease.id.to_string()).collect();
                format!("leases [{}] at {lsn}{}", ids.join(", "), optional(" next", *next))
            }
            Answer::Resource { lease, waiters, lsn } => {
                let held = lease.as_ref().map_or("available".to_owned(), |lease| self.live_words(lease));
                format!("{held}, waiters [{}] at {lsn}", named(waiters))
            }
            Answer::Pools { pools, lsn } => {
                let pools: Vec<String> = pools
                    .iter()
                    .map(|pool| {
                        let removed = if pool.removed { " removed" } else { "" };
                        format!("{} {}/{}{removed}", pool.name, pool.free, pool.size)
                    })
                    .collect();
                format!("pools [{}] at {lsn}", pools.join(", "))
            }
            Answer::Session { session, lsn } => {
                format!("session {} keeps {} at {lsn}", session.id, session.leases)
            }
            Answer::Sessions { sessions, next, lsn } => {
                let sessions: Vec<String> = sessions
                    .iter()
                    .map(|session| {
                        let standing =
                            session.standing.map_or("closed", |found| standing_word(found.standing));
                        format!("{} {} {standing} leases {}", session.id.0, session.holder, session.leases)
                    })
                    .collect();
                let next = optional(" next", next.map(|id| id.0));
                format!("sessions [{}] at {lsn}{next}", sessions.join(", "))
            }
            Answer::Checked(checked) => {
                let current = if checked.current { "current" } else { "not current" };
                format!("{current}, lease{} at {}", optional("", checked.lease), checked.lsn)
            }
            Answer::Watching { from } => format!("watching from {from}"),
            Answer::Status(status) => {
                format!("status at {}, synced {}", status.applied_lsn, status.synced_lsn)
            }
            Answer::Ended { leases, .. } => {
                let ids: Vec<String> = leases.iter().map(|(id, _)| id.lsn().to_string()).collect();
                format!("ended [{}]", ids.join(", "))
            }
            Answer::Waiting { place, .. } => {
                place.map_or("does not wait".to_owned(), |place| format!("waits at place {place}"))
            }
            Answer::Refused(refused) => refusal_words(refused),
        }
    }

    fn found_words(&self, found: &LeaseFound) -> String {
        match found {
            LeaseFound::Live(lease) => self.live_words(lease),
            LeaseFound::JustEnded { was, state, reason, .. } => {
                format!("lease {} {} ({}) epoch {}", was.lease, state.as_str(), reason.as_str(), was.epoch)
            }
            LeaseFound::Ended { id, ended, fence } => format!(
                "lease {id} {} ({}) epoch {} fence {}",
                ended.state.as_str(),
                ended.reason.as_str(),
                ended.epoch,
                self.fence(*fence)
            ),
            LeaseFound::Retired => "lease retired".to_owned(),
        }
    }

    fn live_words(&self, lease: &LeaseSnapshot) -> String {
        let reason = match &lease.state {
            LeaseState::Reserved { .. } | LeaseState::Active { .. } => String::new(),
            LeaseState::Revoking(revocation) => format!(" ({})", revocation.reason.as_str()),
        };
        let standing = match lease.liveness.standing {
            None | Some(Standing::Alive) => String::new(),
            Some(draining) => format!(" {}", standing_word(draining)),
        };
        format!(
            "lease {} {}{reason}{standing} [{}] {} epoch {} fence {}{}",
            lease.id,
            lease.state.name().as_str(),
            lease.members.join(", "),
            lease.holder,
            lease.epoch,
            self.fence(lease.fence),
            optional(" valid", lease.liveness.valid_ms),
        )
    }

    /// The epoch a holder would present now.
    pub(crate) fn epoch(&self, lease: LeaseId) -> Epoch {
        self.engine.kernel().live(lease).map_or(Epoch::FIRST, |view| view.epoch())
    }
}

fn options(genesis: u8, wall_ms: u64) -> FileLogOptions {
    let genesis = Genesis { random: [genesis; 16], unix_seconds: 1_700_000_000, shard: 0 };
    let mut options = FileLogOptions::new(genesis, wall_ms);
    options.segment_bytes = 128 << 10;
    options.free_bytes_min = 0;
    options
}

fn open(directory: &TempDir, config: &EngineConfig, now: Now, genesis: u8) -> (Engine, FileLog) {
    let options = options(genesis, now.wall_ms);
    let (log, recovery) = running::open(directory.path(), &options);
    let engine = Engine::recover(&log, &recovery, config.clone(), now).unwrap();
    (engine, log)
}

/// The bytes that a snapshot of this state would hold.
pub(crate) fn bytes_of(kernel: &Kernel) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_state(kernel, &mut |part| bytes.extend_from_slice(part));
    bytes
}

fn frame_line(batch: &Batch) -> String {
    let mut said: Vec<String> = Vec::new();
    if batch.count() as usize <= LISTED_MAX {
        let mut published = publish(batch.records(), batch.at()).into_iter();
        for record in batch.records() {
            said.push(match RecordKind::from_code(record.kind).unwrap() {
                RecordKind::Tick => "tick".to_owned(),
                RecordKind::Event | RecordKind::Config => {
                    published.next().map_or("?".to_owned(), |event| news_word(&event.news))
                }
                RecordKind::Note => published
                    .next()
                    .map_or("?".to_owned(), |event| format!("note {}", news_word(&event.news))),
                RecordKind::Close => "close".to_owned(),
            });
        }
    } else {
        said.push(format!("{} records", batch.count()));
    }
    format!("frame {} at {}: {}", batch.id(), batch.first_lsn(), said.join(", "))
}

fn news_word(news: &News) -> String {
    match news {
        News::Event(event) => event.change.kind().as_str().to_owned(),
        News::Note(note) => note.kind().to_owned(),
    }
}

fn standing_word(standing: Standing) -> &'static str {
    match standing {
        Standing::Alive => "alive",
        Standing::Draining(DrainCause::Silence) => "draining",
        Standing::Draining(DrainCause::Operator) => "drained",
    }
}

/// Who waits, and how often each was passed.
fn named(waiters: &[WaiterSnapshot]) -> String {
    let named = |waiter: &WaiterSnapshot| match waiter.passed {
        0 => waiter.holder.to_string(),
        passed => format!("{} passed {passed}", waiter.holder),
    };
    waiters.iter().map(named).collect::<Vec<_>>().join(", ")
}

fn optional(word: &str, value: Option<impl std::fmt::Display>) -> String {
    value.map_or(String::new(), |value| format!("{word} {value}"))
}

fn refusal_words(refused: &Refused) -> String {
    let code = words::code(refused);
    match refused {
        Refused::Held(blockers) => {
            let held: Vec<String> = blockers
                .iter()
                .map(|held| format!("{} by lease {} of {}", held.resource, held.lease, held.holder))
                .collect();
            format!("{code}: {}", held.join(", "))
        }
        Refused::Rejected(Rejection::PoolExhausted { pool, wanted, free }) => {
            format!("{code}: {wanted} of {pool}, {free} free")
        }
        Refused::Rejected(Rejection::StaleEpoch { current }) => format!("{code}: current {current}"),
        Refused::Rejected(Rejection::InvalidState { state }) => format!("{code}: {}", state.as_str()),
        Refused::Queued { resource, waiters } => format!("{code}: {waiters} wait for {resource}"),
        Refused::NotYet { remaining_ms } => format!("{code}: {remaining_ms} ms"),
        Refused::Liveness(tenure_liveness::Refusal::NotYet { remaining_ms }) => {
            format!("{code}: {remaining_ms} ms")
        }
        Refused::Trimmed { oldest } => format!("{code}: oldest {oldest}"),
        _ => code,
    }
}
