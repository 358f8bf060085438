//! The supervisor: has the guardian run the command, tells it how long the lease is valid, and passes signals on. It
//! watches the same deadline: should the guardian be stopped or killed, it kills what the guardian was to kill.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tenure_client::clock::BootInstant;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::OnLost;
use super::alarm::Alarm;
use super::cgroup;
use super::channel::{Begin, Channel, Order, Over, Report};
use super::family::{Change, Family};
use super::holding::News;
use super::phase::Cause;
use super::signals::SignalNumber;
use super::terminal::Terminal;
use super::timetable::Pace;
use crate::printer::Printer;
use crate::secrets::Credentials;

/// Between two strikes of the supervisor's own.
const STRIKE_AGAIN: Duration = Duration::from_millis(5);

/// What is run, and how it is ended.
pub(super) struct Errand {
    /// The command and its arguments.
    pub(super) command: Vec<OsString>,
    /// What is added to its environment.
    pub(super) environment: Vec<(&'static str, String)>,
    pub(super) pace: Pace,
    pub(super) on_lost: OnLost,
    pub(super) term_signal: SignalNumber,
    /// `None`: a drain is not told.
    pub(super) drain_signal: Option<SignalNumber>,
    /// A cgroup may be made for the command.
    pub(super) makes_cgroup: bool,
    pub(super) credentials: Credentials,
}

/// How a run ended. Whatever it is, nothing of the command runs any more.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The command came to its end.
    Over(Over),
    /// It could not be started, with the exit code that says so.
    NotStarted { exit_code: u8, message: String },
    /// It was ended because the lease was lost: the daemon said so, or it could not be renewed.
    Lost { told_by_daemon: bool },
    /// The guardian died, and the command with it.
    GuardianDied,
}

/// What goes on around one command.
pub(super) struct Supervisor<'a> {
    printer: &'a mut Printer,
    errand: Errand,
    channel: Channel,
    family: Family,
    terminal: Option<Terminal>,
    guardian: Pid,
    guardian_is_there: bool,
    valid_until: BootInstant,
    main: Option<Pid>,
    cgroup: Option<PathBuf>,
    over: Option<Over>,
    not_started: Option<(Option<u8>, String)>,
    /// Whether the daemon said so.
    lost: Option<bool>,
    renewals_fail: bool,
    /// The guardian said that nothing is left.
    is_gone: bool,
    /// The guardian cannot be relied on any more.
    takes_over: bool,
}

impl<'a> Supervisor<'a> {
    /// Starts the guardian, and through it the command.
    pub(super) fn start(
        errand: Errand,
        valid_until: BootInstant,
        printer: &'a mut Printer,
    ) -> io::Result<Self> {
        let family = Family::adopt()?;
        let terminal = Terminal::at_standard_input();
        let (channel, theirs) = Channel::pair()?;
        // The program as it runs now, even if its file was replaced meanwhile.
        let mut guardian = Command::new("/proc/self/exe");
        guardian.arg0("tenure").args(["guardian", "--"]).args(&errand.command);
        errand.credentials.withhold(&mut guardian);
        guardian.envs(errand.environment.iter().map(|(name, value)| (name, value)));
        let guardian = guardian.stdin(Stdio::from(theirs)).process_group(0).spawn()?;
        let guardian = i32::try_from(guardian.id()).ok().and_then(Pid::from_raw);
        let begin = Begin {
            valid_until: (errand.on_lost == OnLost::Kill).then_some(valid_until.as_ns()),
            kill_after_ms: errand.pace.kill_after.as_millis() as u64,
            sweep_ms: errand.pace.sweep.as_millis() as u64,
            term_signal: errand.term_signal.0,
            takes_terminal: terminal.as_ref().is_some_and(Terminal::is_given_at_once),
            makes_cgroup: errand.makes_cgroup,
        };
        channel.send_with(&Order::Begin(begin), Some(io::stdin().as_fd()))?;
        Ok(Self {
            printer,
            errand,
            channel,
            family,
            terminal,
            guardian: guardian.ok_or(io::ErrorKind::InvalidData)?,
            guardian_is_there: true,
            valid_until,
            main: None,
            cgroup: None,
            over: None,
            not_started: None,
            lost: None,
            renewals_fail: false,
            is_gone: false,
            takes_over: false,
        })
    }

    /// Until nothing of the command is left.
    pub(super) async fn work(
        mut self,
        mut news: mpsc::Receiver<News>,
        signals: &mut mpsc::Receiver<SignalNumber>,
    ) -> io::Result<Ending> {
        let mut alarm = Alarm::new()?;
        let mut children = signal(SignalKind::child())?;
        let mut channel_is_open = true;
        while !self.is_finished() {
            alarm.set(self.next_alarm())?;
            tokio::select! {
                // What the guardian did comes before what it may have failed to do.
                biased;
                report = self.channel.receive(), if channel_is_open => match report {
                    Ok(Some(report)) => self.hear(report),
                    Ok(None) | Err(_) => {
                        channel_is_open = false;
                        self.takes_over |= !self.is_gone;
                    }
                },
                due = alarm.comes() => {
                    due?;
                    self.takes_over = true;
                }
                Some(number) = signals.recv() => self.pass_on(number),
                Some(news) = news.recv() => self.follow(news),
                _ = children.recv() => {
                    if self.takes_over {
                        self.strike();
                    }
                }
                () = tokio::time::sleep(STRIKE_AGAIN), if self.takes_over => self.strike(),
            }
        }
        if let (Some(terminal), Some(main)) = (&self.terminal, self.main) {
            terminal.take_back_from(main);
        }
        if let (true, Some(directory)) = (self.takes_over, &self.cgroup) {
            cgroup::clear_away(directory).await;
        }
        Ok(self.ending())
    }

    /// The guardian's own end is waited for, so that we leave nothing behind either.
    fn is_finished(&mut self) -> bool {
        let look = self.family.look();
        for (pid, change) in look.changes {
            if pid == self.guardian && matches!(change, Change::Over(_)) {
                self.guardian_is_there = false;
            }
        }
        !self.guardian_is_there && (self.is_gone || (self.takes_over && look.none_left))
    }

    /// Half of the time for killing is the guardian's, the other half is ours.
    fn next_alarm(&self) -> Option<BootInstant> {
        let is_due = self.errand.on_lost == OnLost::Kill && !self.takes_over && !self.is_gone;
        let kill_at = self.errand.pace.timetable(self.valid_until).kill_at;
        is_due.then(|| kill_at.after(self.errand.pace.sweep / 2))
    }

    fn hear(&mut self, report: Report) {
        match report {
            Report::Started { pid, cgroup } => {
                self.main = Pid::from_raw(pid);
                self.cgroup = cgroup.map(PathBuf::from);
            }
            Report::NotStarted { exit_code, message } => {
                self.not_started = Some((exit_code, message));
                self.is_gone = true;
            }
            Report::Stopped(number) => self.on_stop(number),
            Report::Over(over) => self.over = Some(over),
            Report::Ending(Cause::Deadline) => {
                self.lost.get_or_insert(false);
                self.printer.talk("tenure run: the lease could not be renewed in time: ending the command");
            }
            Report::Ending(Cause::Leftovers) => {
                self.printer.talk("tenure run: the command left processes behind: ending them");
            }
            Report::Ending(Cause::Ordered | Cause::SupervisorGone) => {}
            Report::Stubborn { pid, message } => {
                self.printer.insist(format_args!("warning: process {pid} cannot be killed: {message}"));
            }
            Report::Gone => self.is_gone = true,
        }
    }

    fn follow(&mut self, news: News) {
        match news {
            News::ValidUntil(until) => {
                if self.renewals_fail {
                    self.renewals_fail = false;
                    self.printer.talk("tenure run: the lease is renewed again");
                }
                if until > self.valid_until {
                    self.valid_until = until;
                    self.order(&Order::ValidUntil(until.as_ns()));
                }
            }
            News::Failed(message) => {
                if !self.renewals_fail {
                    self.renewals_fail = true;
                    self.printer
                        .talk(format_args!("tenure run: cannot renew the lease, retrying: {message}"));
                }
            }
            News::Draining => match self.errand.drain_signal {
                Some(signal) => {
                    let line = format!("tenure run: an operator drains the lease: {signal} to the command");
                    self.printer.talk(line);
                    self.order(&Order::PassOn(signal.0));
                }
                None => self.printer.talk("tenure run: an operator drains the lease"),
            },
            News::Lost(message) => match self.errand.on_lost {
                OnLost::Kill => {
                    self.lost = Some(true);
                    self.printer
                        .talk(format_args!("tenure run: the lease is lost, ending the command: {message}"));
                    self.order(&Order::End);
                }
                OnLost::Warn => {
                    self.printer.insist(format_args!(
                        "warning: the lease is lost, the command keeps running: {message}"
                    ));
                }
            },
        }
    }

    fn order(&mut self, order: &Order) {
        // Who cannot be told anything cannot be relied on. After the command's end nothing has to be told.
        let is_told = self.channel.send(order).is_ok();
        self.takes_over |= !is_told && !self.is_gone;
    }

    fn pass_on(&mut self, number: SignalNumber) {
        if number.0 == Signal::CONT.as_raw()
            && let (Some(terminal), Some(main)) = (&self.terminal, self.main)
            && terminal.is_given_at_once()
        {
            terminal.give_to(main);
        }
        self.order(&Order::PassOn(number.0));
    }

    /// Job control: a command that wants the terminal gets it; one that was stopped from the terminal stops us too, or
    /// the shell would never come back.
    fn on_stop(&mut self, number: i32) {
        let (Some(terminal), Some(main)) = (&self.terminal, self.main) else { return };
        let wants_terminal = [Signal::TTIN.as_raw(), Signal::TTOU.as_raw()].contains(&number);
        let is_from_terminal = wants_terminal || number == Signal::TSTP.as_raw();
        if wants_terminal && terminal.is_ours() {
            terminal.give_to(main);
            self.order(&Order::PassOn(Signal::CONT.as_raw()));
        } else if is_from_terminal && !terminal.has_job_control() {
            self.order(&Order::PassOn(Signal::CONT.as_raw()));
        } else if is_from_terminal {
            let left = self.valid_until.since(BootInstant::now()).as_secs();
            self.printer.talk(format_args!(
                "tenure run: stopped; the lease is lost if the command is not continued within {left} s"
            ));
            terminal.take_back_from(main);
            terminal.stop_our_job();
        }
    }

    /// Kills the guardian and everything below it.
    fn strike(&mut self) {
        if let Some(directory) = &self.cgroup {
            cgroup::kill(directory);
        }
        let guardian = self.guardian;
        let mut guardian_is_there = self.guardian_is_there;
        self.family.strike(|look| {
            guardian_is_there &= !look.changes.iter().any(|(pid, _)| *pid == guardian);
        });
        self.guardian_is_there = guardian_is_there;
    }

    fn ending(self) -> Ending {
        match (self.not_started, self.lost, self.over) {
            (Some((Some(exit_code), message)), _, _) => Ending::NotStarted { exit_code, message },
            (Some((None, _)), _, _) => Ending::Lost { told_by_daemon: false },
            (None, Some(told_by_daemon), _) => Ending::Lost { told_by_daemon },
            (None, None, Some(over)) => Ending::Over(over),
            (None, None, None)
                if BootInstant::now() >= self.errand.pace.timetable(self.valid_until).term_at =>
            {
                Ending::Lost { told_by_daemon: false }
            }
            (None, None, None) => Ending::GuardianDied,
        }
    }
}
