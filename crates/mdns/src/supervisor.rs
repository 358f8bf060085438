//! The supervisor: one thread that owns all of our state, gives the engine its work at a bearable pace, hears
//! what it says, and starts another one when it has died. Takes commands, never blocks, answers each once.

mod announcing;
mod browsing;
mod hearing;
mod lifecycle;
#[cfg(test)]
mod tests;
mod withdrawing;

use core::time::Duration;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, sleep_until};

use self::browsing::Browsed;
use self::lifecycle::{PULSE_EVERY, retire};
use crate::adverts::Adverts;
use crate::board::Board;
use crate::clock::{self, Instant};
use crate::ear::Ear;
use crate::engine::{Engine, Note, Notes, Withdrawn};
use crate::farewells::{Farewells, Goodbye, REPEAT_AFTER};
use crate::interface::{Local, Options, in_use};
use crate::mdns::{Renamed, StartError};
use crate::pace::{Pace, TICK};
use crate::service::Service;
use crate::shelf::Shelves;
use crate::sighting::Wanted;
use crate::timers::{Timer, Timers};
use crate::wire::Message;

/// What is asked of the supervisor.
pub(crate) enum Command {
    Advertise {
        key: u128,
        service: Service,
    },
    Withdraw {
        key: u128,
        service: Service,
        reply: oneshot::Sender<Goodbye>,
    },
    Listeners(Wanted),
    AskFor(Wanted),
    Close(oneshot::Sender<Vec<(u128, Goodbye)>>),
    Leave(oneshot::Sender<()>),
    /// Does something to the engine behind the supervisor's back.
    #[cfg(test)]
    Disturb(fn(&Engine)),
    /// Does at once what is done every now and then.
    #[cfg(test)]
    Ask,
    #[cfg(test)]
    Replace,
}

/// What the supervisor's own tasks tell it. Those of an earlier engine are not heard.
enum Report {
    Withdrawn {
        engine: u64,
        id: u64,
        withdrawn: Withdrawn,
    },
    Confirmed {
        engine: u64,
        ids: Vec<u64>,
        is_alive: bool,
    },
    Alive {
        engine: u64,
    },
    BrowseEnded {
        browse: u64,
        wanted: Wanted,
    },
    Collected(Vec<(u128, Goodbye)>),
    /// The engine that was to be replaced has ended.
    Retired,
}

/// How long the network believes what it was told last.
const REMEMBERED_FOR: Duration = Duration::from_secs(4_500);
const ENDED_WITHIN: Duration = Duration::from_secs(2);

pub(crate) struct Supervisor {
    options: Options,
    commands: mpsc::UnboundedReceiver<Command>,
    /// The handles are gone or closing was asked for.
    is_closing: bool,
    closing: Option<oneshot::Sender<Vec<(u128, Goodbye)>>>,
    collected: Option<Vec<(u128, Goodbye)>>,
    /// It is to end without any goodbye.
    leaving: Option<oneshot::Sender<()>>,
    board: Arc<Board>,
    shelves: Arc<Shelves>,
    /// Who is told of names that conflicts changed, and what was told.
    renamed: mpsc::UnboundedSender<Renamed>,
    names_told: HashMap<u128, String>,
    /// Said goodbye for while an interface was away: hosts behind it did not receive the goodbye.
    owed: Vec<(Instant, Service)>,
    reports: mpsc::UnboundedReceiver<Report>,
    report: mpsc::UnboundedSender<Report>,
    engine: Option<Engine>,
    notes: Option<Notes>,
    /// Counts engines.
    incarnation: u64,
    started_at: Instant,
    starts_failed: u32,
    pulses_missed: u32,
    /// By this engine.
    names_probed: u64,
    /// This engine mixes up two of our services.
    is_muddled: bool,
    adverts: Adverts,
    farewells: Farewells,
    /// What this engine browses for, by domain.
    browses: HashMap<Wanted, Browsed>,
    browses_ever: u64,
    locals: Vec<Local>,
    /// Addresses that the engine uses; it notices later than we do that one comes or goes.
    reachable: HashSet<IpAddr>,
    /// Those that were in use and may come back, with when they went.
    away: Vec<(Instant, Local)>,
    ear: Option<Ear>,
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
        renamed: mpsc::UnboundedSender<Renamed>,
    ) -> Result<(), StartError> {
        let (engine, notes) = Engine::start(&options).map_err(StartError::Engine)?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(StartError::Thread)?;
        let (report, reports) = mpsc::unbounded_channel();
        let supervisor = Self {
            commands,
            is_closing: false,
            closing: None,
            collected: None,
            leaving: None,
            board,
            shelves,
            renamed,
            names_told: HashMap::new(),
            owed: Vec::new(),
            reports,
            report,
            engine: Some(engine),
            notes: Some(notes),
            incarnation: 1,
            started_at: clock::now(),
            starts_failed: 0,
            pulses_missed: 0,
            names_probed: 0,
            is_muddled: false,
            adverts: Adverts::default(),
            farewells: Farewells::default(),
            browses: HashMap::new(),
            browses_ever: 0,
            locals: Vec::new(),
            away: Vec::new(),
            reachable: HashSet::new(),
            ear: None,
            timers: Timers::default(),
            pace: Pace::new(),
            options,
        };
        let body = move || runtime.block_on(supervisor.run());
        std::thread::Builder::new().name("tenure-mdns".to_owned()).spawn(body).map_err(StartError::Thread)?;
        Ok(())
    }

    async fn run(mut self) {
        self.reach_all();
        self.timers.arm(clock::now() + PULSE_EVERY, Timer::Pulse);
        self.ask_for_escaped();
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
                // Last, because the network never falls silent for certain.
                message = next_message(self.ear.as_mut()) => self.overhear(&message),
            }
        }
        self.end().await;
    }

    /// After the last answer, or when nobody is left to ask.
    fn is_done(&self) -> bool {
        let is_collected = self.closing.is_none() || self.collected.is_some();
        self.leaving.is_some() || self.is_closing && is_collected && self.farewells.is_over()
    }

    async fn end(mut self) {
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            if let Command::Close(reply) = command {
                let _ = reply.send(Vec::new());
            }
        }
        self.shelves.all().iter().for_each(|shelf| shelf.close());
        if self.leaving.is_some()
            && let Some(engine) = self.engine.take()
        {
            let mut services = self.adverts.told_services();
            services.extend(self.farewells.services());
            retire(engine, services).await;
        }
        if let Some(Ok(pulse)) = self.engine.take().map(|engine| engine.end()) {
            // Nothing is left to say; a thread that hangs is left behind.
            let _ = tokio::time::timeout(ENDED_WITHIN, pulse.answer()).await;
        }
        if let (Some(reply), Some(collected)) = (self.closing.take(), self.collected.take()) {
            let _ = reply.send(collected);
        }
        if let Some(reply) = self.leaving.take() {
            let _ = reply.send(());
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Advertise { key, service } => self.advertise(key, service),
            Command::Withdraw { key, service, reply } => self.withdraw(key, service, reply),
            Command::Listeners(wanted) => self.follow_listeners(&wanted),
            Command::AskFor(wanted) => self.ask_for(&wanted),
            Command::Close(reply) => self.close(reply),
            Command::Leave(reply) => self.leaving = Some(reply),
            #[cfg(test)]
            Command::Disturb(disturb) => self.engine.iter().for_each(disturb),
            #[cfg(test)]
            Command::Ask => self.ask_for_escaped(),
            #[cfg(test)]
            Command::Replace => self.replace_engine(),
        }
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
            Note::AddressWent(address) => {
                self.reachable.remove(&address);
                self.look_at_interfaces();
            }
            Note::Failed(error) => tracing::warn!(%error, "the mdns engine reports an error"),
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
            Report::BrowseEnded { browse, wanted } => self.browse_ended(browse, wanted),
            Report::Collected(collected) => self.collected = Some(collected),
            Report::Retired => self.restart(),
            Report::Withdrawn { .. } | Report::Confirmed { .. } | Report::Alive { .. } => {}
        }
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
                Timer::AnswerDue(id) => self.answer_early(id),
                Timer::ProbeOver(id) => self.farewells.stop_waiting(id),
                Timer::Restart => self.restart(),
                Timer::Pulse => self.feel_pulse(),
                Timer::Ask => self.ask_for_escaped(),
                Timer::Browse(wanted) => self.browse_again(&wanted),
                Timer::Replay(wanted, id) => self.replay(&wanted, id),
            }
        }
    }

    fn look_at_interfaces(&mut self) {
        let locals = in_use(&self.options.interfaces);
        if locals != self.locals {
            let now = clock::now();
            let went = self.locals.iter().filter(|local| !locals.contains(local));
            self.away.extend(went.map(|local| (now, local.clone())));
            self.locals = locals;
            self.greet_who_is_back();
            self.open_ear();
            let interfaces = self.locals.iter().map(ToString::to_string).collect();
            self.board.note(|health| health.interfaces = interfaces);
        }
    }

    /// A fresh engine begins with every interface there is, before it does anything else.
    fn reach_all(&mut self) {
        self.look_at_interfaces();
        self.reachable = self.locals.iter().map(|local| local.addr.ip()).collect();
        self.greet_who_is_back();
    }

    /// Says what those did not hear who were out of reach.
    fn greet_who_is_back(&mut self) {
        let (now, before) = (clock::now(), self.away.len());
        self.away.retain(|(since, _)| *since + REMEMBERED_FOR > now);
        let gone_for_good = before - self.away.len();
        let (locals, reachable) = (&self.locals, &self.reachable);
        self.away.retain(|(_, local)| !(locals.contains(local) && reachable.contains(&local.addr.ip())));
        if self.away.len() + gone_for_good < before {
            self.say_what_is_owed();
        }
        let (locals, reachable) = (&self.locals, &self.reachable);
        self.farewells.say_unheard(|service| is_carried(locals, reachable, service));
    }

    fn publish(&mut self, key: u128) {
        if let Some(advert) = self.adverts.get(key) {
            self.board.set_standing(key, advert.standing());
            let Some(name) = advert.network_name() else { return };
            let told = self.names_told.get(&key).unwrap_or(&advert.wanted.name);
            if told != name {
                self.names_told.insert(key, name.clone());
                let _ = self.renamed.send(Renamed { key, name: name.clone() });
            }
        }
    }
}

async fn next_note(notes: Option<&mut Notes>) -> Option<Note> {
    match notes {
        Some(notes) => notes.next().await,
        None => core::future::pending().await,
    }
}

async fn next_message(ear: Option<&mut Ear>) -> Message {
    match ear {
        Some(ear) => ear.next().await,
        None => core::future::pending().await,
    }
}

/// Whether the engine says it anywhere.
fn is_carried(locals: &[Local], reachable: &HashSet<IpAddr>, service: &Service) -> bool {
    locals
        .iter()
        .filter(|local| reachable.contains(&local.addr.ip()))
        .any(|local| service.ip.is_none_or(|ip| local.carries(ip)))
}
