//! The guardian: starts the command, keeps the deadline of its lease, and leaves nothing running behind. It knows no
//! network and no lease, only until when the command may run; a supervisor that is stopped, killed or cut off changes
//! nothing for it. It ends when no descendant is left.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tenure_client::clock::BootInstant;
use tokio::signal::unix::{SignalKind, signal};

use super::alarm::Alarm;
use super::cgroup::{self, Cgroup};
use super::channel::{Begin, Channel, Order, Report};
use super::family::{Change, Family, Look};
use super::phase::{Cause, Step, Watch};
use super::spawn::{self, Place};
use super::{signals, timetable::Pace};

/// Between two strikes, as long as killing takes effect …
const STRIKE_AGAIN_MIN: Duration = Duration::from_millis(2);
/// … and when something will not go.
const STRIKE_AGAIN_MAX: Duration = Duration::from_millis(100);

/// Processes that were signalled together do not die in the same instant; who is gone by then was not left behind.
const PARTING: Duration = Duration::from_millis(50);
/// More orders than a socket holds.
const ORDERS_MAX: usize = 100_000;

const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Why there is no guardian.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GuardianError {
    /// Standard input is not a supervisor.
    #[error("tenure guardian is internal: tenure run, tenure poll run and nodes start it")]
    NoSupervisor,
    /// The system did not give what it needs.
    #[error("the guardian process failed")]
    System(#[from] io::Error),
}

/// Whether the supervisor knows why the end began.
#[derive(Clone, Copy)]
enum Tell {
    Nothing,
    At(BootInstant),
    Told,
}

/// A command under watch.
struct Guardian {
    channel: Channel,
    family: Family,
    supervisor_is_there: bool,
    watch: Watch,
    term_signal: Signal,
    cgroup: Option<Cgroup>,
    main: Pid,
    /// While the main process has not been reaped, nobody else can have its number.
    main_is_there: bool,
    /// When to tell why the end began.
    tell: Tell,
    stubborn_told: Vec<Pid>,
    strike_again: Duration,
}

/// Runs the command to its end. Has to be polled by the main thread: the command dies with the thread that starts it.
pub(crate) async fn guard(command: Vec<OsString>) -> Result<(), GuardianError> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let channel = Channel::over(input).map_err(|_| GuardianError::NoSupervisor)?;
    let first = channel.receive_with().await.map_err(|_| GuardianError::NoSupervisor)?;
    let Some((Order::Begin(begin), Some(input))) = first else {
        return Err(GuardianError::NoSupervisor);
    };
    // Nobody but the supervisor ends a guardian politely: who wants to end the command signals the supervisor.
    let _signals = signals::catch_all()?;
    // Or it would be called `exe`, after the link it was started by.
    let _ = rustix::thread::set_name(c"tenure-guardian");
    let family = Family::adopt()?;
    let mut watch = Watch::of(&begin);
    let Some(passed_on) = wait_for_time(&channel, &mut watch).await else { return Ok(()) };
    let Some(mut guardian) = Guardian::begin(channel, family, watch, &begin, input, command) else {
        return Ok(());
    };
    passed_on.into_iter().for_each(|number| guardian.obey(Ok(Some(Order::PassOn(number)))));
    Ok(guardian.work().await?)
}

/// Waits for validity that leaves time to begin: on a busy machine the first may be used up already. Gives the signals
/// that came meanwhile; `None` after the supervisor was told that nothing was begun.
async fn wait_for_time(channel: &Channel, watch: &mut Watch) -> Option<Vec<i32>> {
    let mut passed_on = Vec::new();
    while !watch.may_begin(BootInstant::now()) {
        match channel.receive().await {
            Ok(Some(Order::ValidUntil(ns))) => watch.extend(BootInstant::from_ns(ns)),
            Ok(Some(Order::PassOn(number))) => passed_on.push(number),
            Ok(Some(Order::End | Order::Begin(_)) | None) | Err(_) => {
                let message = "the lease would have ended before the command could begin".to_owned();
                let _ = channel.send(&Report::NotStarted { exit_code: None, message });
                return None;
            }
        }
    }
    Some(passed_on)
}

impl Watch {
    fn of(begin: &Begin) -> Self {
        let pace = Pace {
            kill_after: Duration::from_millis(begin.kill_after_ms),
            sweep: Duration::from_millis(begin.sweep_ms),
        };
        match begin.valid_until {
            Some(ns) => Self::bounded(pace, BootInstant::from_ns(ns)),
            None => Self::unbounded(pace),
        }
    }
}

impl Guardian {
    /// Starts the command; `None` after the supervisor was told why that is impossible.
    fn begin(
        channel: Channel,
        family: Family,
        watch: Watch,
        begin: &Begin,
        input: OwnedFd,
        command: Vec<OsString>,
    ) -> Option<Self> {
        let cgroup = begin.makes_cgroup.then(Cgroup::make).flatten();
        match start(begin, input, command, cgroup.as_ref(), watch.begins_before()) {
            Ok(main) => {
                let directory = cgroup.as_ref().and_then(|cgroup| cgroup.directory().to_str());
                let started = Report::Started {
                    pid: main.as_raw_nonzero().get(),
                    cgroup: directory.map(str::to_owned),
                };
                let _ = channel.send(&started);
                Some(Self {
                    channel,
                    family,
                    supervisor_is_there: true,
                    watch,
                    term_signal: spawn::signal(begin.term_signal).unwrap_or(Signal::TERM),
                    cgroup,
                    main,
                    main_is_there: true,
                    tell: Tell::Nothing,
                    stubborn_told: Vec::new(),
                    strike_again: STRIKE_AGAIN_MIN,
                })
            }
            Err(error) => {
                cgroup.iter().for_each(Cgroup::remove);
                let exit_code = Some(exit_code_of(&error));
                let _ = channel.send(&Report::NotStarted { exit_code, message: error.to_string() });
                None
            }
        }
    }

    async fn work(&mut self) -> io::Result<()> {
        let mut alarm = Alarm::new()?;
        let mut children = signal(SignalKind::child())?;
        while !self.look() {
            alarm.set(self.next_alarm())?;
            tokio::select! {
                // First, so that nothing else can delay it.
                biased;
                due = alarm.comes() => {
                    due?;
                    self.hear_what_was_said();
                    let now = BootInstant::now();
                    let step = self.watch.on_alarm(now);
                    self.take(step);
                    if matches!(self.tell, Tell::At(instant) if now >= instant) {
                        self.tell_cause();
                    }
                }
                order = self.channel.receive(), if self.supervisor_is_there => self.obey(order),
                // Deaths that follow each other too fast for the pause below must not put the next strike off.
                _ = children.recv() => {
                    if self.watch.is_killing() {
                        self.strike();
                    }
                }
                () = tokio::time::sleep(self.strike_again), if self.watch.is_killing() => {
                    self.strike_again = (self.strike_again * 2).min(STRIKE_AGAIN_MAX);
                    self.strike();
                }
            }
        }
        self.report(&Report::Gone);
        if let Some(cgroup) = &self.cgroup {
            cgroup::clear_away(cgroup.directory()).await;
        }
        Ok(())
    }

    /// Who was stopped for a while finds renewals that came meanwhile. They count: what was said is true.
    fn hear_what_was_said(&mut self) {
        for _ in 0..ORDERS_MAX {
            match self.channel.receive_now() {
                Ok(Some(order)) => self.obey(Ok(Some(order))),
                Ok(None) | Err(_) => break,
            }
        }
    }

    /// Looks at the children; whether nothing is left.
    fn look(&mut self) -> bool {
        let look = self.family.look();
        let none_left = look.none_left;
        let main_was_there = self.main_is_there;
        self.note(&look);
        if main_was_there && !self.main_is_there && !none_left {
            let step = self.watch.end(BootInstant::now(), Cause::Leftovers);
            self.take(step);
        }
        none_left
    }

    fn note(&mut self, look: &Look) {
        for (_, change) in look.changes.iter().filter(|(pid, _)| *pid == self.main) {
            match change {
                Change::Over(over) => {
                    self.main_is_there = false;
                    self.report(&Report::Over(*over));
                }
                Change::Stopped(signal) => self.report(&Report::Stopped(*signal)),
            }
        }
    }

    fn obey(&mut self, order: io::Result<Option<Order>>) {
        let now = BootInstant::now();
        let step = match order {
            Ok(Some(Order::ValidUntil(ns))) => {
                self.watch.extend(BootInstant::from_ns(ns));
                None
            }
            Ok(Some(Order::PassOn(number))) => {
                if let (Some(group), Some(signal)) = (self.group(), spawn::signal(number)) {
                    let _ = kill_process_group(group, signal);
                }
                None
            }
            Ok(Some(Order::End)) => self.watch.end(now, Cause::Ordered),
            // Only one command is ever begun; words that make no sense come from nobody we know.
            Ok(Some(Order::Begin(_)) | None) | Err(_) => {
                self.supervisor_is_there = false;
                self.watch.end(now, Cause::SupervisorGone)
            }
        };
        self.take(step);
    }

    fn take(&mut self, step: Option<Step>) {
        match step {
            Some(Step::Term) => {
                self.family.signal_all(self.group(), self.term_signal);
                // Who is stopped would hear it only when continued.
                self.family.signal_all(self.group(), Signal::CONT);
            }
            Some(Step::Kill) => self.strike(),
            None => {}
        }
        // After the deed: telling it takes time too.
        match (self.watch.cause(), self.tell) {
            (Some(Cause::Leftovers), Tell::Nothing) => {
                self.tell = Tell::At(BootInstant::now().after(PARTING));
            }
            (Some(_), Tell::Nothing) => self.tell_cause(),
            (None, _) | (Some(_), Tell::At(_) | Tell::Told) => {}
        }
    }

    fn tell_cause(&mut self) {
        self.tell = Tell::Told;
        self.watch.cause().into_iter().for_each(|cause| self.report(&Report::Ending(cause)));
    }

    fn next_alarm(&self) -> Option<BootInstant> {
        let tell_at = match self.tell {
            Tell::At(instant) => Some(instant),
            Tell::Nothing | Tell::Told => None,
        };
        tell_at.into_iter().chain(self.watch.next_alarm()).min()
    }

    fn strike(&mut self) {
        if let Some(group) = self.group() {
            let _ = kill_process_group(group, Signal::KILL);
        }
        self.cgroup.iter().for_each(Cgroup::kill);
        let mut looks = Vec::new();
        let stubborn = self.family.strike(|look| looks.push(look.clone()));
        looks.iter().for_each(|look| self.note(look));
        for one in stubborn {
            if !self.stubborn_told.contains(&one.pid) {
                self.stubborn_told.push(one.pid);
                let message = io::Error::from(one.error).to_string();
                self.report(&Report::Stubborn { pid: one.pid.as_raw_nonzero().get(), message });
            }
        }
    }

    fn group(&self) -> Option<Pid> {
        self.main_is_there.then_some(self.main)
    }

    /// A supervisor that does not listen changes nothing.
    fn report(&self, report: &Report) {
        let _ = self.channel.send(report);
    }
}

/// What shells say about a command that could not be started.
pub(crate) fn exit_code_of(error: &io::Error) -> u8 {
    if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE }
}

fn start(
    begin: &Begin,
    input: OwnedFd,
    command: Vec<OsString>,
    cgroup: Option<&Cgroup>,
    not_after: Option<BootInstant>,
) -> io::Result<Pid> {
    let mut words = command.into_iter();
    let program = words.next().ok_or(io::ErrorKind::InvalidInput)?;
    if Path::new(&program).is_dir() {
        // The kernel only says that permission is denied.
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let place = Place {
        cgroup_procs: cgroup.and_then(|cgroup| cgroup.entrance().ok()),
        terminal: if begin.takes_terminal { Some(input.try_clone()?) } else { None },
        not_after,
    };
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::from(input));
    let child = spawn::start(&mut command, place)?;
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData.into())
}
