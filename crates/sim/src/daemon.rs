//! One incarnation of the daemon: the real log, and the real driver around the real engine. Its jobs take time and run
//! beside the turns; what leaves is carried out.

use crate::brief::Brief;
use crate::happening::{Happening, Sender};
use crate::invariants::{Said, Scene};
use crate::ledger::{Ledger, recorded};
use crate::network::{Ask, Caller, Turn};
use crate::violation::Violation;
use crate::world::{Break, World};
use std::collections::BTreeMap;
use tenure_engine::{
    Answer, Appended, Completion, Control, Driver, Engine, Input, Keeper, Now, Out, Push, Refused, Request,
    Submit, Ticket, Turned,
};
use tenure_kernel::names::split_pool_member;
use tenure_kernel::{Action, Change, GateReport, Grant, LeaseId, Member, Tick, Token};
use tenure_log::{AppendOutcome, Batch, Chore, FileLog, FileLogOptions, Genesis, OrderedLog};

/// Only slow seeds grant leases for this long.
const LONG_MS: u32 = 60 * 60 * 1000;

/// Where the data is.
pub(crate) const ROOT: &str = "data";

pub(crate) struct Daemon {
    pub(crate) log: FileLog,
    pub(crate) driver: Driver,
    pub(crate) tag: u32,
    pub(crate) inbox: Vec<Input>,
    pub(crate) completions: Vec<Completion>,
    pub(crate) asks: BTreeMap<Ticket, Ask>,
    /// The frame that waits for the disk.
    pub(crate) frame: Option<Batch>,
    pub(crate) chore: Option<Chore>,
    /// The turn that is planned; earlier plans no longer count.
    pub(crate) turn_token: u64,
    pub(crate) turn_at: Option<u64>,
    pub(crate) stalled_until: u64,
    /// When turns were, by their tick: a frame may tell of several.
    pub(crate) turns: BTreeMap<Tick, u64>,
}

/// A copy of the data directory, with what it stands for.
pub(crate) struct Backup {
    pub(crate) image: crate::disk::Image,
    pub(crate) ledger: Ledger,
}

impl Daemon {
    pub(crate) fn engine(&self) -> &Engine {
        self.driver.engine()
    }

    /// One turn of the driver; what it handled remembers it.
    fn work(&mut self, now: Now, inputs: Vec<Input>, completions: Vec<Completion>) -> Turned {
        let tickets: Vec<Ticket> = inputs.iter().map(|input| input.ticket).collect();
        let engine = self.driver.engine();
        let holds_until = engine.liveness().breaker_holds_until(engine.tick());
        let opened = engine.counters().breaker_opened;
        let seen = engine.applied_lsn();
        completions.into_iter().for_each(|completion| self.driver.completed(completion));
        inputs.into_iter().for_each(|input| self.driver.asked(input));
        let turned = self.driver.turn(now);
        let engine = self.driver.engine();
        let tick = engine.tick();
        // It may have opened within the turn, or been reset.
        let held = holds_until.is_some_and(|until| tick < until)
            || engine.liveness().breaker_holds_until(tick).is_some()
            || engine.counters().breaker_opened > opened;
        for ticket in tickets {
            if let Some(ask) = self.asks.get_mut(&ticket) {
                ask.turn = Some(Turn { tick, seen, held });
            }
        }
        turned
    }
}

impl World {
    pub(crate) fn log_options(&mut self) -> FileLogOptions {
        let wall_ms = self.clocks.wall_ms(self.now);
        FileLogOptions {
            genesis: Genesis { random: self.random.bytes(), unix_seconds: wall_ms / 1000, shard: 0 },
            wall_ms,
            segment_bytes: self.profile.segment_bytes,
            free_bytes_min: 2 * self.profile.segment_bytes,
            archive: None,
        }
    }

    pub(crate) fn read_clocks(&self) -> Now {
        Now { boot_ms: self.clocks.boot_ms(self.now), wall_ms: self.clocks.wall_ms(self.now) }
    }

    /// Plans a turn, or brings the planned one forward.
    pub(crate) fn turn_in(&mut self, in_ms: u64) {
        let (now, incarnation) = (self.now, self.incarnation);
        let Some(daemon) = &mut self.daemon else { return };
        let at = (now + in_ms).max(daemon.stalled_until);
        if daemon.turn_at.is_some_and(|planned| planned <= at) {
            return;
        }
        daemon.turn_at = Some(at);
        daemon.turn_token += 1;
        let token = daemon.turn_token;
        self.at(at - now, Happening::Turn { incarnation, token });
    }

    pub(crate) fn turn(&mut self, token: u64) -> Result<(), Break> {
        let now = self.read_clocks();
        let aged = self.aged();
        let Some(daemon) = &mut self.daemon else { return Ok(()) };
        if token != daemon.turn_token {
            return Ok(());
        }
        daemon.turn_at = None;
        if daemon.stalled_until > self.now {
            self.turn_in(0);
            return Ok(());
        }
        let job = self.look_at_log(now);
        let Some(daemon) = &mut self.daemon else { return Ok(()) };
        let inputs = core::mem::take(&mut daemon.inbox);
        let completions = core::mem::take(&mut daemon.completions);
        for input in &inputs {
            if let Some(ask) = daemon.asks.get_mut(&input.ticket) {
                ask.handled = Some(aged);
                ask.epoch_before = subject(&ask.request)
                    .and_then(|lease| self.story.leases.get(&lease))
                    .map(|told| told.epoch);
            }
        }
        for completion in &completions {
            if let Completion::Told(control) = completion {
                self.trace.detail(self.now, format_args!("told {control:?}"));
                self.invariants.told(aged, &self.story, control);
                if let Control::ConnectionClosed(session) = control {
                    self.memory.closed.entry(*session).or_insert(aged);
                }
            }
        }
        for input in &inputs {
            self.trace.detail(self.now, format_args!("{} asks {:?}", input.ticket.0, input.request));
            self.invariants.arrives(aged, input);
            self.note_request(&input.request);
        }
        let mut inputs = inputs;
        self.flood(&mut inputs);
        let Some(daemon) = &mut self.daemon else { return Ok(()) };
        let mut turned = daemon.work(now, inputs, completions);
        turned.jobs.extend(job);
        daemon.turns.entry(daemon.engine().tick()).or_insert(aged);
        self.after_turn(now, turned)
    }

    /// Remembers what the daemon is being told of connections and acknowledgements.
    fn note_request(&mut self, request: &Request) {
        let aged = self.aged();
        match request {
            Request::ConnectionOpened(open) => {
                self.memory.opened.insert(open.session);
            }
            Request::Acknowledge { lease, epoch, .. } => {
                self.memory.acknowledged.insert((*lease, *epoch), aged);
            }
            Request::Submit(submit) => match &*submit.action {
                Action::Reclaim(reclaim) if submit.force => {
                    self.memory.forced.insert(reclaim.lease);
                }
                Action::Rebind(rebind) => self.note_rebind(submit, &rebind.token),
                Action::Grant(grant) => self.count_wait(submit, grant),
                _ => {}
            },
            _ => {}
        }
    }

    fn count_wait(&mut self, submit: &Submit, grant: &Grant) {
        for member in grant.bundle.members.iter().filter(|_| submit.wait_ms > 0) {
            match member {
                Member::AnyOf { .. } => self.tally.waits_for_pools += 1,
                Member::Resource(name) => {
                    let pool = split_pool_member(name).and_then(|(pool, _)| self.story.pools.get(pool));
                    self.tally.waits_for_members += u64::from(pool.is_some());
                }
            }
        }
    }

    fn note_rebind(&mut self, submit: &Submit, token: &Token) {
        if let Some(connection) = submit.via {
            self.memory.rebinds_over.insert((token.lease, token.epoch, connection));
        }
        let kept_by = self.story.leases.get(&token.lease).and_then(|told| told.policy.session);
        let is_open = kept_by.is_some_and(|session| self.memory.is_open(session));
        if submit.keeper == Some(Keeper::Connection) && is_open && kept_by != submit.via {
            self.tally.resumes_of_living += 1;
        }
    }

    fn after_turn(&mut self, now: Now, outputs: Turned) -> Result<(), Break> {
        let idle = outputs.append.is_none() && outputs.outs.is_empty() && outputs.reads.is_empty();
        let caught_up =
            outputs.append.is_some() || (self.ledger.last_in_flight().is_none() && outputs.stop.is_none());
        if let Some(batch) = outputs.append {
            self.witness(&batch)?;
            let wait = self.random.below(self.profile.sync_ms_max + 1);
            if let Some(daemon) = &mut self.daemon {
                daemon.frame = Some(batch);
            }
            let incarnation = self.incarnation;
            self.at(wait, Happening::Append { incarnation });
        }
        for out in &outputs.outs {
            self.out(out)?;
        }
        for read in outputs.reads {
            self.serve_read(&read);
        }
        for job in outputs.jobs {
            self.begin(job)?;
        }
        self.invariants_after_turn(caught_up)?;
        self.judge_upkeep()?;
        if let Some(stop) = outputs.stop {
            self.kill(&format!("stopped: {stop}"));
            return Ok(());
        }
        if let Some(wake) = outputs.wake_in_ms {
            self.invariants.wakes(wake, idle)?;
            // What is left to do is done at once; what time brings may come late.
            let late_max = if wake == 0 { 0 } else { self.profile.wake_late_ms_max };
            let late = self.random.below(late_max + 1);
            self.turn_in(wake + late);
        }
        if let Some(at_ms) = outputs.upkeep_at_ms {
            self.plan_upkeep(at_ms.saturating_sub(now.boot_ms));
        }
        Ok(())
    }

    fn invariants_after_turn(&mut self, caught_up: bool) -> Result<(), Violation> {
        let mut invariants = core::mem::take(&mut self.invariants);
        let checked = invariants.turn(&self.scene(), caught_up);
        let compared = if caught_up { invariants.compare(&self.scene(), &self.ledger) } else { Ok(()) };
        self.invariants = invariants;
        checked.and(compared)
    }

    /// A frame is given out: every event in it is judged, then told.
    fn witness(&mut self, batch: &Batch) -> Result<(), Violation> {
        self.ledger.give(batch);
        let now = self.aged();
        for recorded in recorded(batch) {
            self.tally.events += 1;
            if let Change::Granted(granted) = &recorded.event.change {
                self.tally.long_grants += u64::from(granted.policy.ttl_ms >= LONG_MS);
            }
            self.line(format_args!("  {} {:?}", recorded.lsn, Brief(&recorded.event.change)));
            let turns = self.daemon.as_ref().map(|daemon| &daemon.turns);
            let aged = turns.and_then(|turns| turns.get(&recorded.tick)).copied().unwrap_or(now);
            let mut invariants = core::mem::take(&mut self.invariants);
            let judged = invariants.event(&Scene { aged, ..self.scene() }, &recorded);
            self.invariants = invariants;
            judged?;
            self.memory.follow(&self.story, aged, &recorded);
            self.story.tell(&recorded);
        }
        // Everything decided so far has been told.
        if let Some(daemon) = &mut self.daemon {
            let tick = daemon.engine().tick();
            daemon.turns.retain(|told, _| *told >= tick);
        }
        Ok(())
    }

    /// Something leaves the engine.
    fn out(&mut self, out: &Out) -> Result<(), Violation> {
        self.tally.answers += 1;
        let overloaded = matches!(out, Out::Answer(_, Answer::Refused(Refused::Overloaded { .. })));
        self.tally.overloads += u64::from(overloaded);
        self.trace.detail(self.now, format_args!("{out:?}"));
        let ask = match (out, &self.daemon) {
            (Out::Answer(ticket, _), Some(daemon)) => daemon.asks.get(ticket).cloned(),
            _ => None,
        };
        let mut invariants = core::mem::take(&mut self.invariants);
        let judged = invariants.said(&self.scene(), &Said { out, ask: ask.as_ref() });
        self.invariants = invariants;
        judged?;
        match out {
            Out::Answer(ticket, answer) => {
                let Some(ask) = ask else { return Ok(()) };
                if let Some(daemon) = &mut self.daemon {
                    daemon.asks.remove(ticket);
                }
                self.answer(&ask, answer);
                if let Answer::Watching { .. } = answer {
                    self.watch_more(*ticket);
                }
            }
            Out::Push(Push::Lost { session, lease, .. }) => {
                let (tag, delay) = (self.tag(), self.delay());
                self.at(delay, Happening::HeardLost { tag, session: *session, lease: *lease });
            }
            Out::Push(Push::Events { watch, .. }) => self.watch_more(*watch),
            Out::Push(Push::Lagged { .. } | Push::WatchTrimmed { .. }) => {}
            Out::OpenGate(lease) => {
                let (lease, incarnation) = (*lease, self.incarnation);
                let report =
                    if self.random.chance(800) { GateReport::Confirmed } else { GateReport::TimedOut };
                // Now and then a gate is never confirmed at all.
                if self.random.chance(850) {
                    let wait = self.random.within(0..=3_000);
                    let control = Control::GateDone { lease, report };
                    self.at(wait, Happening::Told { incarnation, control });
                }
            }
            Out::SendNotice { lease, .. } => {
                let (control, incarnation) = (Control::NoticeDone(*lease), self.incarnation);
                let wait = self.random.within(0..=2_000);
                self.at(wait, Happening::Told { incarnation, control });
            }
            Out::Ended(_) | Out::Followed(_) | Out::Report(_) => {}
        }
        Ok(())
    }

    fn answer(&mut self, ask: &Ask, answer: &Answer) {
        match (&ask.request, answer, ask.handled) {
            (
                Request::Heartbeat { lease, .. } | Request::TimelyHeartbeat { lease, .. },
                Answer::Renewed { .. },
                Some(at),
            ) => {
                let proof = self.memory.proofs.entry(*lease).or_insert(at);
                *proof = (*proof).max(at);
            }
            (Request::SessionHeartbeat { session, .. }, Answer::SessionRenewed { .. }, Some(at)) => {
                let proof = self.memory.session_proofs.entry(*session).or_insert(at);
                *proof = (*proof).max(at);
            }
            _ => {}
        }
        let Some(call) = self.calls.get(&ask.call) else { return };
        let in_order = call.via.is_some() || call.caller == Caller::Host;
        if !in_order && self.random.chance(self.faults.lost) {
            return;
        }
        let wait = if call.caller == Caller::Host { 0 } else { self.delay() };
        let from = Sender { tag: self.tag(), sent: ask.sent };
        self.at(wait, Happening::Heard { call: ask.call, from, answer: Box::new(answer.clone()) });
    }

    pub(crate) fn append(&mut self) -> Result<(), Break> {
        let Some(daemon) = &mut self.daemon else { return Ok(()) };
        let Some(batch) = daemon.frame.take() else { return Ok(()) };
        let outcome = daemon.log.append(&batch);
        if self.disk.has_stopped() {
            self.stopped_at_operation();
            return Ok(());
        }
        let appended = match outcome {
            AppendOutcome::Committed { .. } => {
                self.ledger.commit();
                Appended::Committed
            }
            AppendOutcome::Fenced => Appended::Fenced,
            AppendOutcome::Unknown => Appended::Unknown,
            AppendOutcome::Failed(error) => Appended::Failed(error.to_string()),
        };
        daemon.completions.push(Completion::Appended { batch, outcome: appended, took_us: 1 });
        if daemon.log.wants_chore() {
            daemon.driver.wants_chore();
        }
        let wait = self.random.below(2);
        self.turn_in(wait);
        Ok(())
    }
}

/// The lease that a request names.
fn subject(request: &Request) -> Option<LeaseId> {
    match request {
        Request::Heartbeat { lease, .. } | Request::TimelyHeartbeat { lease, .. } => Some(*lease),
        _ => None,
    }
}
