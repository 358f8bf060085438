//! The supervisor: one thread that owns all of our state, gives the engine its work at a bearable pace, hears
//! what it says, and starts another one when it has died. Takes commands, never blocks, answers each once.

use core::time::Duration;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, sleep_until};

use crate::adverts::{Adverts, Leaving, Stage};
use crate::board::{Board, Condition, Standing};
use crate::clock::{self, Instant};
use crate::engine::{Addresses, Engine, Note, Notes, Refused, Source, Withdrawn};
use crate::farewells::{Farewells, Goodbye, How, REPEAT_AFTER};
use crate::interface::{Local, Options, in_use};
use crate::mdns::StartError;
use crate::pace::{Pace, TICK};
use crate::service::Service;
use crate::shelf::{Settling, Shelf, Shelves};
use crate::sighting::Wanted;
use crate::timers::{Timer, Timers};

/// What is asked of the supervisor.
pub(crate) enum Command {
    Advertise { key: u128, service: Service },
    Withdraw { key: u128, service: Service, reply: oneshot::Sender<Goodbye> },
    Listeners(Wanted),
    Close(oneshot::Sender<Vec<(u128, Goodbye)>>),
}

/// What the supervisor's own tasks tell it. Those of an earlier engine are not heard.
enum Report {
    Withdrawn { engine: u64, id: u64, withdrawn: Withdrawn },
    Confirmed { engine: u64, ids: Vec<u64>, is_alive: bool },
    Alive { engine: u64 },
    BrowseEnded { browse: u64, wanted: Wanted },
    Collected(Vec<(u128, Goodbye)>),
}

/// A browse of the engine and where its findings go.
struct Browsed {
    id: u64,
    domain: String,
    shelf: Arc<Shelf>,
    /// Times the network was asked.
    rounds: u32,
    /// When it is asked next.
    round_at: Instant,
}

/// RFC 6762 §8.3 wants two announcements at least a second apart; the engine lets none pass within one.
/// Interfaces begin to probe up to 250 ms apart.
const SECOND_AFTER: Duration = Duration::from_millis(1_300);
/// Addresses and SRV records live 120 s and are asked for after 96; the engine does not answer for names with
/// dots, so that these are announced anew before.
const REFRESH_AFTER: Duration = Duration::from_secs(60);
/// Probing takes at most a second unless it is contested.
const PROBED_WITHIN: Duration = Duration::from_millis(2_500);
/// After this without an announcement the engine is told again, then after twice as long, and so on.
const NUDGE_AFTER: Duration = Duration::from_secs(3);
const NUDGE_AFTER_MAX: Duration = Duration::from_secs(60);
/// The engine's gate waits ten seconds; the answer why it was in vain comes before.
const ANSWER_WITHIN: Duration = Duration::from_secs(8);
const RESTART_AFTER: Duration = Duration::from_millis(100);
const RESTART_AFTER_MAX: Duration = Duration::from_secs(30);
/// An engine that lived this long died of something else than the one before.
const SETTLED_AFTER: Duration = Duration::from_secs(60);
const PULSE_EVERY: Duration = Duration::from_secs(1);
/// Signs of life that may be missed before the engine counts as down.
const PULSES_MISSED_MAX: u32 = 5;
/// A browse that the engine closed is begun again after this.
const BROWSE_AGAIN_AFTER: Duration = Duration::from_millis(250);
/// The network is asked three times in the first so many seconds of a round.
const ROUND: Duration = Duration::from_secs(4);
/// Rounds follow each other after these, and then after the last one again and again.
const ROUNDS_AFTER: [Duration; 4] =
    [Duration::from_secs(15), Duration::from_secs(60), Duration::from_secs(600), Duration::from_secs(3_600)];
/// The engine does not tell of a record that comes back within the second after its goodbye, nor of one that
/// changes and changes back; between rounds its cache is compared with what was told.
const REPLAY_EVERY: Duration = Duration::from_secs(2);
/// Above so many instances its channel of a thousand might overflow, and comparing is done more rarely.
const REPLAY_INSTANCES_MAX: usize = 400;
const REPLAY_MANY_EVERY: Duration = Duration::from_secs(30);
/// What a fresh engine has not found when it has asked at 0, 1 and 3 seconds, and told its cache twice, is gone.
const ASKS_AFTER_RESTART: u32 = 4;
/// The same engine tells all it has before it asks for the first time.
const ASKS_AFTER_CLOSE: u32 = 2;
const ENDED_WITHIN: Duration = Duration::from_secs(2);

pub(crate) struct Supervisor {
    options: Options,
    commands: mpsc::UnboundedReceiver<Command>,
    /// The handles are gone or closing was asked for.
    is_closing: bool,
    closing: Option<oneshot::Sender<Vec<(u128, Goodbye)>>>,
    collected: Option<Vec<(u128, Goodbye)>>,
    board: Arc<Board>,
    shelves: Arc<Shelves>,
    reports: mpsc::UnboundedReceiver<Report>,
    report: mpsc::UnboundedSender<Report>,
    engine: Option<Engine>,
    notes: Option<Notes>,
    /// Counts engines.
    incarnation: u64,
    started_at: Instant,
    starts_failed: u32,
    pulses_missed: u32,
    adverts: Adverts,
    farewells: Farewells,
    /// What this engine browses for, by domain.
    browses: HashMap<Wanted, Browsed>,
    browses_ever: u64,
    locals: Vec<Local>,
    timers: Timers,
    pace: Pace,
}

impl Supervisor {
    /// Starts the engine, then the thread.
    pub(crate) fn start(
        options: Options,
        commands: mpsc::UnboundedReceiver<Command>,
        board: Arc<Board>,
        shelves: Arc<Shelves>,
    ) -> Result<(), StartError> {
        let (engine, notes) = Engine::start(&options).map_err(StartError::Engine)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(StartError::Thread)?;
        let (report, reports) = mpsc::unbounded_channel();
        let supervisor = Self {
            commands,
            is_closing: false,
            closing: None,
            collected: None,
            board,
            shelves,
            reports,
            report,
            engine: Some(engine),
            notes: Some(notes),
            incarnation: 1,
            started_at: clock::now(),
            starts_failed: 0,
            pulses_missed: 0,
            adverts: Adverts::default(),
            farewells: Farewells::default(),
            browses: HashMap::new(),
            browses_ever: 0,
            locals: Vec::new(),
            timers: Timers::default(),
            pace: Pace::new(),
            options,
        };
        let body = move || runtime.block_on(supervisor.run());
        std::thread::Builder::new().name("tenure-mdns".to_owned()).spawn(body).map_err(StartError::Thread)?;
        Ok(())
    }

    async fn run(mut self) {
        self.look_at_interfaces();
        self.timers.arm(clock::now() + PULSE_EVERY, Timer::Pulse);
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut handles_gone = false;
        while !self.is_done() {
            self.work();
            let due = [self.timers.next(), self.farewells.next_repeat()].into_iter().flatten().min();
            tokio::select! {
                biased;
                note = next_note(self.notes.as_mut()) => self.hear(note),
                Some(report) = self.reports.recv() => self.take_report(report),
                command = self.commands.recv(), if !handles_gone => match command {
                    Some(command) => self.obey(command),
                    None => {
                        handles_gone = true;
                        self.is_closing = true;
                    }
                },
                () = sleep_until(due.unwrap_or_else(clock::now)), if due.is_some() => self.look_at_timers(),
                _ = ticks.tick(), if !self.pace.is_full() => self.pace.tick(),
            }
        }
        self.end().await;
    }

    /// After the last answer, or when nobody is left to ask.
    fn is_done(&self) -> bool {
        let is_collected = self.closing.is_none() || self.collected.is_some();
        self.is_closing && is_collected && self.farewells.is_over()
    }

    async fn end(mut self) {
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            if let Command::Close(reply) = command {
                let _ = reply.send(Vec::new());
            }
        }
        self.shelves.all().iter().for_each(|shelf| shelf.close());
        if let Some(Ok(pulse)) = self.engine.take().map(|engine| engine.end()) {
            // Nothing is left to say; a thread that hangs is left behind.
            let _ = tokio::time::timeout(ENDED_WITHIN, pulse.answer()).await;
        }
        if let (Some(reply), Some(collected)) = (self.closing.take(), self.collected.take()) {
            let _ = reply.send(collected);
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Advertise { key, service } => self.advertise(key, service),
            Command::Withdraw { key, service, reply } => self.withdraw(key, service, reply),
            Command::Listeners(wanted) => self.follow_listeners(&wanted),
            Command::Close(reply) => self.close(reply),
        }
    }

    fn advertise(&mut self, key: u128, service: Service) {
        if self.is_closing {
            return;
        }
        if let Err(unfit) = service.check() {
            match self.adverts.get(key) {
                Some(_) => {
                    self.adverts.failed(key, unfit.to_string());
                    self.publish(key);
                }
                None => {
                    let last_error = Some(unfit.to_string());
                    self.board.set_standing(key, Standing { last_error, ..Standing::default() });
                }
            }
            return;
        }
        if let Some(leaving) = self.adverts.put(key, service) {
            self.say_farewell(leaving, None);
        }
        self.adverts.unblock();
        self.publish(key);
    }

    fn withdraw(&mut self, key: u128, service: Service, reply: oneshot::Sender<Goodbye>) {
        self.board.forget(key);
        if let Some((leaving, _)) = self.adverts.remove(key) {
            self.adverts.unblock();
            self.say_farewell(leaving, Some(reply));
        } else if let Err(unfit) = service.check() {
            let _ = reply.send(Goodbye::Unsent(unfit.to_string()));
        } else {
            self.say_farewell(Leaving { service, is_known: false, is_probed: false }, Some(reply));
        }
    }

    fn say_farewell(&mut self, leaving: Leaving, reply: Option<oneshot::Sender<Goodbye>>) {
        let how = if leaving.is_known { How::Known } else { How::Unknown { is_introduced: false } };
        let id = self.farewells.begin(leaving.service, how, leaving.is_probed, reply);
        let now = clock::now();
        self.timers.arm(now + ANSWER_WITHIN, Timer::AnswerDue(id));
        if leaving.is_probed {
            self.timers.arm(now + PROBED_WITHIN, Timer::ProbeOver(id));
        }
    }

    fn close(&mut self, reply: oneshot::Sender<Vec<(u128, Goodbye)>>) {
        if self.closing.is_some() {
            let _ = reply.send(Vec::new());
            return;
        }
        self.is_closing = true;
        self.closing = Some(reply);
        let mut answers = Vec::new();
        for key in self.adverts.keys() {
            let Some((leaving, _)) = self.adverts.remove(key) else { continue };
            let (reply, answer) = oneshot::channel();
            self.board.forget(key);
            self.say_farewell(leaving, Some(reply));
            answers.push((key, answer));
        }
        let report = self.report.clone();
        tokio::spawn(async move {
            let mut collected = Vec::with_capacity(answers.len());
            for (key, answer) in answers {
                let goodbye = answer.await.unwrap_or_else(|_| Goodbye::Unsent("not answered".to_owned()));
                collected.push((key, goodbye));
            }
            let _ = report.send(Report::Collected(collected));
        });
    }

    /// Gives the engine what waits for it, withdrawals first, until the allowance is used up.
    fn work(&mut self) {
        while self.engine.is_some()
            && (self.farewells.is_ready() || self.adverts.is_ready())
            && self.pace.take()
        {
            if self.farewells.is_ready() {
                self.say_next_farewell();
            } else {
                self.announce_next();
            }
        }
    }

    fn say_next_farewell(&mut self) {
        let Some(engine) = &self.engine else { return };
        let Some((id, farewell)) = self.farewells.next() else { return };
        farewell.is_unheard = !is_carried(&self.locals, &farewell.service);
        let introduced = match &mut farewell.how {
            How::Known => Ok(()),
            How::Unknown { is_introduced: true } | How::Forget { is_narrowed: true, .. } => Ok(()),
            How::Unknown { is_introduced } => {
                engine.announce(&farewell.service, Addresses::AsWanted, true).map(|()| *is_introduced = true)
            }
            How::Forget { addresses, is_narrowed } => engine
                .announce(&farewell.service, Addresses::Only(addresses), true)
                .map(|()| *is_narrowed = true),
        };
        match introduced.and_then(|()| engine.withdraw(&farewell.service)) {
            Ok(withdrawal) => {
                self.farewells.asked(id);
                let (report, engine) = (self.report.clone(), self.incarnation);
                tokio::spawn(async move {
                    let withdrawn = withdrawal.answer().await;
                    let _ = report.send(Report::Withdrawn { engine, id, withdrawn });
                });
            }
            Err(Refused::Full) => {
                self.farewells.put_back(id);
                self.pace.pause();
            }
            Err(Refused::Ended) => {
                self.farewells.put_back(id);
                self.engine_ended("its thread ended");
            }
            Err(Refused::Unfit(why)) => self.end_farewell(id, Goodbye::Unsent(why)),
        }
    }

    fn announce_next(&mut self) {
        let Some(engine) = &self.engine else { return };
        let Some(announcement) = self.adverts.next(&self.farewells) else {
            return self.adverts.blocked().into_iter().for_each(|key| self.publish(key));
        };
        let key = announcement.key;
        match engine.announce(&announcement.service, Addresses::AsWanted, announcement.probe) {
            Ok(()) => {
                self.adverts.told(key, announcement.service);
                self.follow_up(key);
            }
            Err(Refused::Full) => {
                self.adverts.put_back(key);
                self.pace.pause();
            }
            Err(Refused::Ended) => self.engine_ended("its thread ended"),
            Err(Refused::Unfit(why)) => self.adverts.failed(key, why),
        }
        self.publish(key);
    }

    /// Arms what must follow on a call for this advert.
    fn follow_up(&mut self, key: u128) {
        let Some(advert) = self.adverts.get(key) else { return };
        let (serial, now) = (advert.serial, clock::now());
        match advert.stage {
            Stage::Told => {
                let wait = NUDGE_AFTER.saturating_mul(1 << advert.nudges.min(5)).min(NUDGE_AFTER_MAX);
                self.timers.arm(now + wait, Timer::Nudge(key, serial));
            }
            Stage::Announced if advert.wants_second => {
                self.timers.arm(now + SECOND_AFTER, Timer::Second(key, serial));
            }
            Stage::Announced | Stage::Waiting => {}
        }
    }

    fn hear(&mut self, note: Option<Note>) {
        let Some(note) = note else { return self.engine_ended("its thread ended") };
        if self.notes.as_ref().is_some_and(Notes::is_full) {
            tracing::warn!("the mdns engine may have dropped notes: adverts not heard of are told again");
        }
        self.take_note(note);
        while let Some(note) = self.notes.as_mut().and_then(Notes::ready) {
            self.take_note(note);
        }
    }

    fn take_note(&mut self, note: Note) {
        match note {
            Note::Announced { full_name } => self.announced(&full_name),
            Note::Renamed { original, new_name, interface, is_host } => {
                self.renamed(&original, &new_name, &interface, is_host);
            }
            Note::AddressCame(address) => self.address_came(address),
            Note::AddressWent => self.look_at_interfaces(),
            Note::Failed(error) => tracing::warn!(%error, "the mdns engine reports an error"),
        }
    }

    fn announced(&mut self, full_name: &str) {
        self.farewells.announced(&full_name.to_lowercase());
        let Some((key, is_news)) = self.adverts.announced(full_name) else { return };
        if is_news && let Some(advert) = self.adverts.get(key) {
            let (serial, service) = (advert.serial, &advert.wanted);
            let now = clock::now();
            if service.has_capitals() {
                self.timers.arm(now + SECOND_AFTER, Timer::Second(key, serial));
            }
            if service.is_escaped() {
                self.timers.arm(now + REFRESH_AFTER, Timer::Second(key, serial));
            }
        }
        self.publish(key);
    }

    fn renamed(&mut self, original: &str, new_name: &str, interface: &str, is_host: bool) {
        if is_host {
            tracing::warn!(
                original,
                new_name,
                interface,
                "another host has the label of one of our services"
            );
            return;
        }
        let Some((key, out)) = self.adverts.renamed(original, new_name) else { return };
        if let Some(service) = out {
            // Where the name was not taken it was announced already, and is withdrawn; where it was taken it is
            // another's.
            let addresses: Vec<IpAddr> = self
                .locals
                .iter()
                .filter(|local| local.interface != interface)
                .map(|local| local.addr.ip())
                .collect();
            let how = How::Forget { addresses, is_narrowed: false };
            let id = self.farewells.begin(service, how, false, None);
            self.timers.arm(clock::now() + ANSWER_WITHIN, Timer::AnswerDue(id));
        }
        self.publish(key);
    }

    /// The engine announces on a new address what follows the interfaces, once; the rest is ours.
    fn address_came(&mut self, address: IpAddr) {
        self.look_at_interfaces();
        let now = clock::now();
        for key in self.adverts.keys() {
            let Some(advert) = self.adverts.get(key) else { continue };
            let serial = advert.serial;
            if advert.wanted.ip == Some(address) {
                self.adverts.enqueue(key);
            }
            self.timers.arm(now + SECOND_AFTER, Timer::Second(key, serial));
        }
    }

    fn take_report(&mut self, report: Report) {
        match report {
            Report::Withdrawn { engine, id, withdrawn } if engine == self.incarnation => match withdrawn {
                Withdrawn::Said => self.farewells.said(id, clock::now() + REPEAT_AFTER),
                Withdrawn::Unknown => {
                    self.farewells.unknown(id);
                    self.adverts.unblock();
                }
                Withdrawn::Ended => self.engine_ended("its thread ended"),
            },
            Report::Confirmed { engine, ids, is_alive } if engine == self.incarnation => {
                if is_alive {
                    self.confirm(ids);
                } else {
                    self.engine_ended("its thread ended");
                }
            }
            Report::Alive { engine } if engine == self.incarnation => self.alive(),
            Report::BrowseEnded { browse, wanted } => {
                if self.browses.get(&wanted).is_some_and(|browsed| browsed.id == browse) {
                    self.browses.remove(&wanted);
                    self.timers.arm(clock::now() + BROWSE_AGAIN_AFTER, Timer::Browse(wanted));
                }
            }
            Report::Collected(collected) => self.collected = Some(collected),
            Report::Withdrawn { .. } | Report::Confirmed { .. } | Report::Alive { .. } => {}
        }
    }

    fn confirm(&mut self, ids: Vec<u64>) {
        for id in ids {
            let goodbye = if self.farewells.is_unheard(id) {
                Goodbye::Unsent("no interface in use carries it".to_owned())
            } else {
                Goodbye::Sent
            };
            self.end_farewell(id, goodbye);
        }
    }

    fn end_farewell(&mut self, id: u64, goodbye: Goodbye) {
        let is_end = self.farewells.end(id, &goodbye);
        if is_end && goodbye == Goodbye::Sent {
            self.board.note(|health| health.goodbyes_sent += 1);
        }
        self.adverts.unblock();
    }

    fn look_at_timers(&mut self) {
        let now = clock::now();
        let ids = self.farewells.due(now);
        if !ids.is_empty() {
            self.ask_whether_repeated(ids);
        }
        while let Some(timer) = self.timers.due(now) {
            match timer {
                Timer::Second(key, serial) => self.announce_again(key, serial),
                Timer::Nudge(key, serial) => self.nudge(key, serial),
                Timer::AnswerDue(id) => {
                    let why = match self.board.health().condition {
                        Condition::Up => "it takes too long; it is still tried".to_owned(),
                        Condition::Down { error, .. } => format!("mdns is down: {error}"),
                    };
                    self.farewells.answer_early(id, &why);
                }
                Timer::ProbeOver(id) => self.farewells.stop_waiting(id),
                Timer::Restart => self.restart(),
                Timer::Pulse => self.feel_pulse(),
                Timer::Browse(wanted) if self.shelves.get(&wanted).is_none() => {
                    self.follow_listeners(&wanted)
                }
                Timer::Browse(wanted) => self.begin_browse(&wanted, Settling::AfterAsks(ASKS_AFTER_CLOSE)),
                Timer::Replay(wanted, id) => self.replay(&wanted, id),
            }
        }
    }

    /// The repeats were due; an answer of the thread says that it was not stuck before them.
    fn ask_whether_repeated(&mut self, ids: Vec<u64>) {
        let Some(engine) = &self.engine else { return };
        match engine.pulse() {
            Ok(pulse) => {
                let (report, engine) = (self.report.clone(), self.incarnation);
                tokio::spawn(async move {
                    let is_alive = pulse.answer().await;
                    let _ = report.send(Report::Confirmed { engine, ids, is_alive });
                });
            }
            Err(Refused::Ended) => self.engine_ended("its thread ended"),
            Err(Refused::Full | Refused::Unfit(_)) => {
                let again = clock::now() + TICK;
                ids.into_iter().for_each(|id| self.farewells.said(id, again));
            }
        }
    }

    fn announce_again(&mut self, key: u128, serial: u64) {
        let Some(advert) = self.adverts.same(key, serial) else { return };
        if advert.stage == Stage::Announced {
            let is_escaped = advert.wanted.is_escaped();
            self.adverts.repeat(key);
            if is_escaped {
                self.timers.arm(clock::now() + REFRESH_AFTER, Timer::Second(key, serial));
            }
        }
    }

    fn nudge(&mut self, key: u128, serial: u64) {
        let Some(advert) = self.adverts.same(key, serial) else { return };
        if advert.stage == Stage::Told {
            let is_carried = is_carried(&self.locals, &advert.wanted);
            let why = if is_carried { "not announced yet" } else { "no interface in use carries it" };
            self.adverts.nudge(key, why.to_owned());
            self.publish(key);
        }
    }

    fn feel_pulse(&mut self) {
        self.timers.arm(clock::now() + PULSE_EVERY, Timer::Pulse);
        self.look_at_interfaces();
        let Some(engine) = &self.engine else { return };
        self.pulses_missed += 1;
        match engine.pulse() {
            Ok(pulse) => {
                let (report, engine) = (self.report.clone(), self.incarnation);
                tokio::spawn(async move {
                    if pulse.answer().await {
                        let _ = report.send(Report::Alive { engine });
                    }
                });
            }
            Err(Refused::Ended) => return self.engine_ended("its thread ended"),
            Err(Refused::Full | Refused::Unfit(_)) => {}
        }
        if self.pulses_missed > PULSES_MISSED_MAX {
            self.set_down("its thread does not answer");
        }
    }

    fn alive(&mut self) {
        self.pulses_missed = 0;
        self.board.note(|health| health.condition = Condition::Up);
    }

    fn set_down(&self, error: &str) {
        self.board.note(|health| {
            if health.condition == Condition::Up {
                tracing::error!(error, "the mdns engine is down");
                health.condition =
                    Condition::Down { since_unix_ms: clock::unix_ms(), error: error.to_owned() };
            }
        });
    }

    fn engine_ended(&mut self, error: &str) {
        if self.engine.take().is_none() {
            return;
        }
        self.notes = None;
        self.incarnation += 1;
        self.set_down(error);
        self.browses.clear();
        self.adverts.engine_ended();
        self.farewells.engine_ended();
        self.adverts.keys().into_iter().for_each(|key| self.publish(key));
        let now = clock::now();
        if now.duration_since(self.started_at) > SETTLED_AFTER {
            self.starts_failed = 0;
        }
        self.restart_later();
    }

    fn restart_later(&mut self) {
        let wait = RESTART_AFTER.saturating_mul(1 << self.starts_failed.min(10)).min(RESTART_AFTER_MAX);
        self.starts_failed += 1;
        self.timers.arm(clock::now() + wait, Timer::Restart);
    }

    fn restart(&mut self) {
        if self.engine.is_some() {
            return;
        }
        match Engine::start(&self.options) {
            Ok((engine, notes)) => {
                tracing::info!("the mdns engine was started again");
                (self.engine, self.notes) = (Some(engine), Some(notes));
                (self.started_at, self.pulses_missed) = (clock::now(), 0);
                self.board.note(|health| {
                    health.condition = Condition::Up;
                    health.restarts += 1;
                });
                self.look_at_interfaces();
                for shelf in self.shelves.all() {
                    self.begin_browse(shelf.wanted(), Settling::AfterAsks(ASKS_AFTER_RESTART));
                }
            }
            Err(error) => {
                tracing::error!(%error, "the mdns engine does not start");
                self.adverts.probe_all();
                self.restart_later();
            }
        }
    }

    /// Begins a browse if someone listens, ends it if nobody does.
    fn follow_listeners(&mut self, wanted: &Wanted) {
        if self.shelves.get(wanted).is_some() {
            return self.begin_browse(wanted, Settling::Never);
        }
        let (Some(engine), Some(browsed)) = (&self.engine, self.browses.get(wanted)) else { return };
        match engine.stop_browse(&browsed.domain) {
            Ok(()) => {
                self.browses.remove(wanted);
            }
            Err(Refused::Ended) => self.engine_ended("its thread ended"),
            Err(Refused::Full | Refused::Unfit(_)) => {
                self.timers.arm(clock::now() + BROWSE_AGAIN_AFTER, Timer::Browse(wanted.clone()));
            }
        }
    }

    /// Begins a browse for a shelf that has none.
    fn begin_browse(&mut self, wanted: &Wanted, settling: Settling) {
        let (Some(shelf), Some(domain)) = (self.shelves.get(wanted), wanted.domain()) else { return };
        // The last listener may have left and another come, with a shelf of its own.
        if self.browses.get(wanted).is_some_and(|browsed| Arc::ptr_eq(&browsed.shelf, &shelf)) {
            return;
        }
        let browsed = Browsed { id: 0, domain, shelf, rounds: 0, round_at: clock::now() };
        self.look(wanted, browsed, Source::Network, settling);
    }

    /// Compares the engine's cache with what was told, and asks the network when its time has come.
    fn replay(&mut self, wanted: &Wanted, id: u64) {
        if self.browses.get(wanted).is_none_or(|browsed| browsed.id != id) {
            return;
        }
        if let Some(browsed) = self.browses.remove(wanted) {
            if browsed.round_at <= clock::now() {
                let settling = Settling::AfterAsks(ASKS_AFTER_CLOSE);
                self.look(wanted, browsed, Source::Network, settling);
            } else {
                self.look(wanted, browsed, Source::Cache, Settling::AllTold);
            }
        }
    }

    /// Has the engine tell what it has; what it finds from now on follows. An earlier look for the same ends.
    fn look(&mut self, wanted: &Wanted, mut browsed: Browsed, source: Source, settling: Settling) {
        let Some(engine) = &self.engine else { return };
        let now = clock::now();
        match engine.browse(&browsed.domain, source) {
            Ok(mut findings) => {
                self.browses_ever += 1;
                let id = self.browses_ever;
                browsed.id = id;
                let mut next =
                    if browsed.shelf.len() > REPLAY_INSTANCES_MAX { REPLAY_MANY_EVERY } else { REPLAY_EVERY };
                if source == Source::Network {
                    let round = usize::try_from(browsed.rounds).unwrap_or(usize::MAX);
                    browsed.round_at = now + ROUNDS_AFTER[round.min(ROUNDS_AFTER.len() - 1)];
                    browsed.rounds = browsed.rounds.saturating_add(1);
                    next = ROUND;
                }
                self.timers.arm(now + next, Timer::Replay(wanted.clone(), id));
                let shelf = browsed.shelf.clone();
                self.browses.insert(wanted.clone(), browsed);
                let (report, wanted) = (self.report.clone(), wanted.clone());
                shelf.doubt_all(settling);
                tokio::spawn(async move {
                    while let Some(finding) = findings.next().await {
                        shelf.take_in(finding);
                    }
                    let _ = report.send(Report::BrowseEnded { browse: id, wanted });
                });
            }
            Err(Refused::Ended) => self.engine_ended("its thread ended"),
            Err(Refused::Full | Refused::Unfit(_)) => {
                self.timers.arm(now + BROWSE_AGAIN_AFTER, Timer::Browse(wanted.clone()));
            }
        }
    }

    fn look_at_interfaces(&mut self) {
        let locals = in_use(&self.options.interfaces);
        if locals != self.locals {
            self.locals = locals;
            let interfaces = self.locals.iter().map(ToString::to_string).collect();
            self.board.note(|health| health.interfaces = interfaces);
        }
    }

    fn publish(&self, key: u128) {
        if let Some(advert) = self.adverts.get(key) {
            self.board.set_standing(key, advert.standing());
        }
    }
}

async fn next_note(notes: Option<&mut Notes>) -> Option<Note> {
    match notes {
        Some(notes) => notes.next().await,
        None => core::future::pending().await,
    }
}

/// Whether the engine says it anywhere.
fn is_carried(locals: &[Local], service: &Service) -> bool {
    locals.iter().any(|local| service.ip.is_none_or(|ip| local.carries(ip)))
}
