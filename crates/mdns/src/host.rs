//! The thread that runs the machine: sockets, clock and wishes in, packets and events out. Decides nothing about mDNS. A
//! panic in the machine ends the machine, not the process: the next one announces everything anew.

use core::time::Duration;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, sleep_until};

use crate::board::{Board, Condition, Goodbye};
use crate::clock::{self, Clock, Instant};
use crate::interface::Options;
use crate::links::{Change, Links, Received, Reports};
use crate::machine::Machine;
use crate::mdns::{Renamed, StartError};
use crate::responder::Event;
use crate::service::Service;
use crate::shelf::Shelves;
use crate::sighting::Wanted;
use crate::socket;

/// What is asked of the thread.
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
    Close {
        says_goodbye: bool,
        reply: oneshot::Sender<Vec<(u128, Goodbye)>>,
    },
    /// Makes the machine panic, as a bug in it might.
    #[cfg(test)]
    Break,
    /// Has the machine find that it slept.
    #[cfg(test)]
    Sleep(Duration),
}

pub(crate) struct Host {
    options: Options,
    clock: Clock,
    commands: mpsc::UnboundedReceiver<Command>,
    board: Arc<Board>,
    shelves: Arc<Shelves>,
    renamed: mpsc::UnboundedSender<Renamed>,
    /// What is to be on the network, so that a fresh machine can be told.
    wanted: BTreeMap<u128, Service>,
    withdrawals: HashMap<u64, Withdrawal>,
    tokens_ever: u64,
    closing: Option<Closing>,
    starts_failed: u32,
    send_failed_at: Option<Instant>,
}

struct Withdrawal {
    key: u128,
    service: Service,
    /// `None`: the answer is collected for the caller that closes.
    reply: Option<oneshot::Sender<Goodbye>>,
}

/// All that is advertised goes.
#[derive(Default)]
struct Closing {
    reply: Option<oneshot::Sender<Vec<(u128, Goodbye)>>>,
    collected: Vec<(u128, Goodbye)>,
}

const LOOK_EVERY: Duration = Duration::from_secs(1);
const RESTART_AFTER: Duration = Duration::from_millis(100);
const RESTART_AFTER_MAX: Duration = Duration::from_secs(30);
/// A machine that ran this long broke of something else than the one before.
const SETTLED_AFTER: Duration = Duration::from_secs(60);
/// Packets and wishes that are taken in before what is due is looked at again.
const PACKETS_AT_ONCE: usize = 32;
const COMMANDS_AT_ONCE: usize = 1_024;
const LOG_EVERY: Duration = Duration::from_secs(60);

impl Host {
    /// Looks whether the port can be had, and starts the thread.
    pub(crate) fn start(
        options: Options,
        commands: mpsc::UnboundedReceiver<Command>,
        board: Arc<Board>,
        shelves: Arc<Shelves>,
        renamed: mpsc::UnboundedSender<Renamed>,
    ) -> Result<(), StartError> {
        socket::try_port(options.port)
            .map_err(|error| StartError::Engine(format!("cannot use port {}: {error}", options.port)))?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(StartError::Thread)?;
        let mut host = Self {
            options,
            clock: Clock::new(),
            commands,
            board,
            shelves,
            renamed,
            wanted: BTreeMap::new(),
            withdrawals: HashMap::new(),
            tokens_ever: 0,
            closing: None,
            starts_failed: 0,
            send_failed_at: None,
        };
        let body = move || {
            while catch_unwind(AssertUnwindSafe(|| runtime.block_on(host.run()))).is_err() {
                runtime.block_on(host.broke());
            }
        };
        let thread = std::thread::Builder::new().name(crate::ENGINE_THREAD.to_owned());
        thread.spawn(body).map(|_| ()).map_err(StartError::Thread)
    }

    /// Runs one machine until it is closed.
    async fn run(&mut self) {
        let now = self.clock.now();
        let mut machine = Machine::new(self.options.port, clock::seed());
        let (mut links, Reports { received: mut packets, mut writable }) = Links::new(self.options.clone());
        self.follow_links(now, &mut machine, &mut links);
        self.tell_all(now, &mut machine);
        let started = now;
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut handles_gone = false;
        loop {
            // Before anything is done that was decided before.
            if self.clock.has_slept() {
                machine.woke(self.clock.now());
            }
            self.go_on(&mut machine, &mut links);
            if self.closing.is_some() && self.withdrawals.is_empty() {
                break;
            }
            let due = machine.next_due(self.clock.now()).map(|due| self.clock.for_timer(due));
            tokio::select! {
                biased;
                command = self.commands.recv(), if !handles_gone => match command {
                    Some(command) => self.obey_all(&mut machine, command),
                    None => {
                        handles_gone = true;
                        self.close(&mut machine, None, true);
                    }
                },
                _ = looks.tick() => {
                    let now = self.clock.now();
                    self.follow_links(now, &mut machine, &mut links);
                    if now > started + SETTLED_AFTER {
                        self.starts_failed = 0;
                    }
                }
                () = sleep_until(due.unwrap_or_else(clock::now)), if due.is_some() => {}
                Some(link) = writable.recv() => machine.takes_again(self.clock.now(), link),
                // Last, because the network never falls silent for certain.
                Some(packet) = packets.recv() => receive(self.clock.now(), &mut machine, packet, &mut packets),
            }
        }
        self.end();
    }

    /// Does what is due, sends what may leave and tells what happened. Waits for no socket.
    fn go_on(&mut self, machine: &mut Machine, links: &mut Links) {
        machine.tick(self.clock.now());
        // Before it can be seen on the network, so that a peer that looks here next finds it.
        self.tell_all_events(machine);
        while let Some(transmit) = machine.next_transmit(self.clock.now()) {
            let sent = links.send(transmit.link, transmit.to, &transmit.bytes);
            let now = self.clock.now();
            if sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
                links.wait(transmit.link);
                machine.not_taken(now, transmit);
                continue;
            }
            if let Err(error) = &sent
                && self.send_failed_at.is_none_or(|at| at + LOG_EVERY <= now)
            {
                self.send_failed_at = Some(now);
                tracing::info!(%error, "cannot send an mDNS packet");
            }
            machine.transmitted(now, transmit.link, &transmit.goodbyes, sent.is_ok());
        }
        self.tell_all_events(machine);
        for finding in machine.take_findings() {
            if let Some(shelf) = self.shelves.get(&finding.wanted) {
                shelf.take_in(finding.name, finding.seen);
            }
        }
    }

    fn tell_all_events(&mut self, machine: &mut Machine) {
        machine.take_events().into_iter().for_each(|event| self.tell(event));
    }

    fn tell(&mut self, event: Event) {
        match event {
            Event::Standing(key, Some(standing)) => self.board.set_standing(key, standing),
            Event::Standing(key, None) => self.board.forget(key),
            // Nobody need listen.
            Event::Renamed(key, name) => drop(self.renamed.send(Renamed { key, name })),
            Event::Withdrawn(token, goodbye) => self.withdrawn(token, goodbye),
        }
    }

    fn withdrawn(&mut self, token: u64, goodbye: Goodbye) {
        let Some(withdrawal) = self.withdrawals.remove(&token) else { return };
        // Counted before the answer is sent: its receiver may look at once.
        if goodbye == Goodbye::Sent {
            self.board.note(|health| health.goodbyes_sent += 1);
        }
        match (withdrawal.reply, &mut self.closing) {
            (Some(reply), _) => drop(reply.send(goodbye)),
            (None, Some(closing)) => closing.collected.push((withdrawal.key, goodbye)),
            (None, None) => {}
        }
    }

    /// A fresh machine knows nothing yet.
    fn tell_all(&mut self, now: Instant, machine: &mut Machine) {
        for (key, service) in &self.wanted {
            machine.advertise(now, *key, service.clone());
        }
        for (token, withdrawal) in &self.withdrawals {
            machine.withdraw(now, withdrawal.key, withdrawal.service.clone(), *token);
        }
        for wanted in self.shelves.wanted() {
            machine.browse(now, &wanted);
        }
        if self.closing.is_some() {
            machine.close(now);
        }
    }

    fn obey_all(&mut self, machine: &mut Machine, command: Command) {
        self.obey(machine, command);
        for _ in 0..COMMANDS_AT_ONCE {
            match self.commands.try_recv() {
                Ok(command) => self.obey(machine, command),
                Err(_) => break,
            }
        }
    }

    fn obey(&mut self, machine: &mut Machine, command: Command) {
        let now = self.clock.now();
        match command {
            Command::Advertise { key, service } if self.closing.is_none() => {
                self.wanted.insert(key, service.clone());
                machine.advertise(now, key, service);
            }
            Command::Advertise { .. } => {}
            Command::Withdraw { key, service, reply } => {
                self.wanted.remove(&key);
                self.withdraw(now, machine, key, service, Some(reply));
            }
            Command::Listeners(wanted) if self.shelves.get(&wanted).is_some() => machine.browse(now, &wanted),
            Command::Listeners(wanted) => machine.stop_browse(&wanted),
            Command::AskFor(wanted) => machine.ask(now, &wanted),
            Command::Close { says_goodbye, reply } => self.close(machine, Some(reply), says_goodbye),
            #[cfg(test)]
            Command::Sleep(time) => self.clock.pretend(time),
            #[cfg(test)]
            Command::Break => panic!("asked to break"),
        }
    }

    fn withdraw(
        &mut self,
        now: Instant,
        machine: &mut Machine,
        key: u128,
        service: Service,
        reply: Option<oneshot::Sender<Goodbye>>,
    ) {
        self.tokens_ever += 1;
        let withdrawal = Withdrawal { key, service: service.clone(), reply };
        self.withdrawals.insert(self.tokens_ever, withdrawal);
        machine.withdraw(now, key, service, self.tokens_ever);
    }

    /// Withdraws everything, or nothing; withdrawals that are under way are waited for.
    fn close(
        &mut self,
        machine: &mut Machine,
        reply: Option<oneshot::Sender<Vec<(u128, Goodbye)>>>,
        says_goodbye: bool,
    ) {
        if self.closing.is_some() {
            return reply.into_iter().for_each(|reply| drop(reply.send(Vec::new())));
        }
        let now = self.clock.now();
        self.closing = Some(Closing { reply, collected: Vec::new() });
        for (key, service) in core::mem::take(&mut self.wanted) {
            if says_goodbye {
                self.withdraw(now, machine, key, service, None);
            }
        }
        machine.close(now);
    }

    fn end(&mut self) {
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            if let Command::Close { reply, .. } = command {
                let _ = reply.send(Vec::new());
            }
        }
        self.shelves.close();
        let closing = self.closing.take().unwrap_or_default();
        closing.reply.into_iter().for_each(|reply| drop(reply.send(closing.collected.clone())));
    }

    fn follow_links(&self, now: Instant, machine: &mut Machine, links: &mut Links) {
        let changes = links.look();
        if changes.is_empty() {
            return;
        }
        for change in changes {
            match change {
                Change::Up(link) => machine.link_up(now, link),
                Change::Changed(link) => machine.link_changed(now, link),
                Change::Down(link) => machine.link_down(now, link),
            }
        }
        let interfaces = links.in_words();
        self.board.note(|health| health.interfaces = interfaces);
    }

    /// Says that the machine broke, and waits before the next one is started.
    async fn broke(&mut self) {
        tracing::error!("the mDNS engine failed; restarting it");
        self.board.note(|health| {
            let error = "the mDNS engine failed; see the log".to_owned();
            health.condition = Condition::Down { since_unix_ms: clock::unix_ms(), error };
        });
        self.board.forget_all();
        self.shelves.forget_all();
        let wait = RESTART_AFTER.saturating_mul(1 << self.starts_failed.min(10)).min(RESTART_AFTER_MAX);
        self.starts_failed += 1;
        tokio::time::sleep(wait).await;
        self.board.note(|health| {
            health.restarts += 1;
            health.condition = Condition::Up;
        });
    }
}

fn receive(now: Instant, machine: &mut Machine, first: Received, packets: &mut mpsc::Receiver<Received>) {
    machine.receive(now, first.link, first.source, &first.bytes);
    for _ in 1..PACKETS_AT_ONCE {
        let Ok(Received { link, source, bytes }) = packets.try_recv() else { break };
        machine.receive(now, link, source, &bytes);
    }
}
