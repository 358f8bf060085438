//! The guardian of many polls: starts their commands, keeps their deadlines, and leaves nothing of them behind. It
//! knows no store and no lease, only until when each command may run. A timer of the kernel's kills a guardian that is
//! stopped when the first of its commands has to be gone, and with it its commands.
//!
//! Invariant: a process group is signalled only while its leader has not been reaped, so that its number is nobody
//! else's.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::process::Stdio;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, WaitOptions, kill_process, kill_process_group, waitid,
    waitpid,
};
use tenure_client::clock::BootInstant;
use tokio::signal::unix::{SignalKind, signal};

use super::orders::{Ended, Order, Report, Start};
use super::template::Template;
use crate::run::{
    Alarm, Cause, Channel, Family, GuardianError, KillTimer, Over, Pace, Place, Step, TOO_LATE, Watch,
    catch_all, children, exit_code_of, start_command,
};

/// Between two looks at what was killed and is not gone, or at a supervisor that does not listen.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// What a command leaves behind is struck so often in one go; the rest follows at the next look.
const STRIKES: usize = 16;
/// How long the end of a poll is kept back because something that it left behind will not go.
const PARTING_MAX: Duration = Duration::from_millis(500);
/// A program that is being started shows its environment within this time.
const TRACE_WITHIN: Duration = Duration::from_millis(100);
/// More orders than a socket holds.
const ORDERS_MAX: usize = 100_000;
/// What tells the processes of one poll from those of another.
const POLL_ID: &str = "TENURE_POLL_ID";

/// A command that runs.
struct Run {
    id: u64,
    main: Pid,
    watch: Watch,
    timeout_at: BootInstant,
    ended: Option<Ended>,
}

struct Guardian {
    channel: Channel,
    template: Template,
    pace: Pace,
    runs: HashMap<u64, Run>,
    /// For a guardian that is stopped; without one, where the system gives none, the supervisor is all there is.
    kill_timer: Option<KillTimer>,
    /// Reports that could not be sent yet.
    outbox: VecDeque<Report>,
    /// Ends that are told once nothing of them is left, and since when they wait for that.
    parting: VecDeque<(BootInstant, Report)>,
    /// Something of a poll that is over may still be there.
    has_strays: bool,
    /// Children without a trace of the poll that they came from; since when.
    suspects: Vec<(Pid, BootInstant)>,
    stubborn_told: Vec<Pid>,
    supervisor_is_there: bool,
}

/// Guards polls until the supervisor is gone and nothing is left. Has to be polled by the main thread: commands die
/// with the thread that starts them.
pub(crate) async fn guard_polls(command: Vec<OsString>) -> Result<(), GuardianError> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let channel = Channel::over(input).map_err(|_| GuardianError::NoSupervisor)?;
    let first = channel.receive().await.map_err(|_| GuardianError::NoSupervisor)?;
    let Some(Order::Begin { kill_after_ms, sweep_ms }) = first else {
        return Err(GuardianError::NoSupervisor);
    };
    // Nobody but the supervisor ends a guardian politely.
    let _signals = catch_all()?;
    // Or it would be called `exe`, after the link it was started by.
    let _ = rustix::thread::set_name(c"tenure-guardian");
    let mut family = Family::adopt()?;
    let (kill_timer, outbox) = match KillTimer::new() {
        Ok(timer) => (Some(timer), VecDeque::new()),
        Err(error) => (None, VecDeque::from([no_kill_timer(&error)])),
    };
    let mut guardian = Guardian {
        channel,
        template: Template::new(command),
        pace: Pace {
            kill_after: Duration::from_millis(kill_after_ms),
            sweep: Duration::from_millis(sweep_ms),
        },
        runs: HashMap::new(),
        kill_timer,
        outbox,
        parting: VecDeque::new(),
        has_strays: false,
        suspects: Vec::new(),
        stubborn_told: Vec::new(),
        supervisor_is_there: true,
    };
    guardian.work().await?;
    // Nobody renews any more and nobody waits for an answer: everything goes, at once.
    while !strike(&mut family) {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(())
}

/// Kills all that is left; whether that was nothing.
fn strike(family: &mut Family) -> bool {
    let mut none_left = family.look().none_left;
    if !none_left {
        family.strike(|look| none_left = look.none_left);
    }
    none_left
}

impl Guardian {
    /// Until the supervisor is gone.
    async fn work(&mut self) -> io::Result<()> {
        let mut alarm = Alarm::new()?;
        let mut child = signal(SignalKind::child())?;
        while self.supervisor_is_there {
            self.look();
            self.report_all();
            alarm.set(self.next_alarm())?;
            self.arm_kill_timer(None);
            let looks_again = self.has_strays
                || !self.outbox.is_empty()
                || self.runs.values().any(|run| run.watch.is_killing());
            tokio::select! {
                // First, so that nothing else can delay it.
                biased;
                due = alarm.comes() => {
                    due?;
                    self.hear_what_was_said();
                    self.on_alarm(BootInstant::now());
                }
                order = self.channel.receive() => self.obey(order),
                _ = child.recv() => {}
                () = tokio::time::sleep(LOOK_AGAIN), if looks_again => {}
            }
        }
        Ok(())
    }

    fn next_alarm(&self) -> Option<BootInstant> {
        let due = |run: &Run| {
            let timeout = run.ended.is_none().then(|| run.timeout_at.before(self.pace.kill_after));
            run.watch.next_alarm().into_iter().chain(timeout).min()
        };
        self.runs.values().filter_map(due).min()
    }

    /// Who is stopped keeps no deadline.
    fn arm_kill_timer(&mut self, beginning: Option<BootInstant>) {
        let all = self.runs.values().filter_map(|run| run.watch.last_moment());
        let first = all.chain(beginning).min();
        let armed = self.kill_timer.as_mut().map_or(Ok(()), |timer| timer.arm(first));
        if let Err(error) = armed {
            // It may be armed for a deadline that is no more.
            self.kill_timer = None;
            self.outbox.push_back(no_kill_timer(&error));
        }
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

    fn on_alarm(&mut self, now: BootInstant) {
        for run in self.runs.values_mut() {
            if let Some(step) = run.watch.on_alarm(now) {
                run.ended.get_or_insert(Ended::Deadline);
                take(run, step);
            } else if run.ended.is_none() && now >= run.timeout_at.before(self.pace.kill_after) {
                run.ended = Some(Ended::TimedOut);
                let step = run.watch.end(now, Cause::Ordered);
                step.into_iter().for_each(|step| take(run, step));
            }
        }
    }

    fn obey(&mut self, order: io::Result<Option<Order>>) {
        match order {
            Ok(Some(Order::Start(start))) => self.begin(start),
            Ok(Some(Order::ValidUntil { id, valid_until })) => {
                if let Some(run) = self.runs.get_mut(&id) {
                    run.watch.extend(BootInstant::from_ns(valid_until));
                }
            }
            Ok(Some(Order::End { id })) => {
                if let Some(run) = self.runs.get_mut(&id) {
                    run.ended.get_or_insert(Ended::Ordered);
                    let step = run.watch.end(BootInstant::now(), Cause::Ordered);
                    step.into_iter().for_each(|step| take(run, step));
                }
            }
            // Words that make no sense come from nobody we know.
            Ok(Some(Order::Begin { .. }) | None) | Err(_) => self.supervisor_is_there = false,
        }
    }

    fn begin(&mut self, start: Start) {
        let Start { id, target, fence, valid_until, valid_until_shown, timeout_at } = start;
        let watch = Watch::bounded(self.pace, BootInstant::from_ns(valid_until));
        let timeout_at = BootInstant::from_ns(timeout_at);
        let now = BootInstant::now();
        if !watch.may_begin(now) || now >= timeout_at {
            let message = "the lease would have ended before the poll could begin".to_owned();
            self.outbox.push_back(Report::NotStarted { id, exit_code: None, message });
            return;
        }
        // Before it begins: a guardian that is stopped right after could not.
        self.arm_kill_timer(watch.last_moment());
        let not_after = watch.begins_before().map_or(timeout_at, |before| before.min(timeout_at));
        let started = self.template.of(&target).and_then(|mut command| {
            command
                .env("TENURE_TARGET", target)
                .env("TENURE_FENCE", fence.to_string())
                .env("TENURE_VALID_UNTIL", valid_until_shown)
                .env(POLL_ID, id.to_string())
                .stdin(Stdio::null());
            let place = Place { cgroup_procs: None, terminal: None, not_after: Some(not_after) };
            let child = start_command(&mut command, place)?;
            i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData.into())
        });
        match started {
            Ok(main) => {
                self.runs.insert(id, Run { id, main, watch, timeout_at, ended: None });
                self.outbox.push_back(Report::Started { id });
            }
            Err(error) => {
                let is_late = error.raw_os_error() == Some(TOO_LATE.raw_os_error());
                let exit_code = (!is_late).then(|| exit_code_of(&error));
                self.outbox.push_back(Report::NotStarted { id, exit_code, message: error.to_string() });
            }
        }
    }

    /// Finds out what is over and clears up behind it.
    fn look(&mut self) {
        let peek = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if let Ok(Some(_)) = waitid(WaitId::All, peek) {
            // What is over and no main process of a run was left behind by one.
            self.has_strays = true;
            let over: Vec<(u64, Over)> = self
                .runs
                .values()
                .filter_map(|run| {
                    let status = waitid(WaitId::Pid(run.main), peek).ok().flatten()?;
                    Some((run.id, over(&status)))
                })
                .collect();
            for (id, over) in over {
                let Some(run) = self.runs.remove(&id) else { continue };
                // The number is its group's until it is reaped: only then could somebody else have it.
                let _ = kill_process_group(run.main, Signal::KILL);
                let _ = waitpid(Some(run.main), WaitOptions::NOHANG);
                let report = Report::Over { id, over, ended: run.ended };
                self.parting.push_back((BootInstant::now(), report));
            }
        }
        for run in self.runs.values().filter(|run| run.watch.is_killing()) {
            let _ = kill_process_group(run.main, Signal::KILL);
        }
        if self.has_strays {
            self.strike_strays();
        }
        let now = BootInstant::now();
        let may_be_told = |since: BootInstant| !self.has_strays || now >= since.after(PARTING_MAX);
        while self.parting.front().is_some_and(|(since, _)| may_be_told(*since)) {
            self.outbox.extend(self.parting.pop_front().map(|(_, report)| report));
        }
    }

    /// Kills what outlived its poll, in whatever group or session it is. All of it comes to us as a child sooner or
    /// later: who is killed leaves us its own children.
    fn strike_strays(&mut self) {
        for _ in 0..STRIKES {
            let (strays, suspects) = self.look_for_strays();
            self.has_strays = !strays.is_empty() || !suspects.is_empty();
            self.suspects = suspects;
            let mut reaped = 0;
            for stray in strays {
                // Only we reap our children, so the number cannot have been given to anybody else.
                match kill_process(stray, Signal::KILL) {
                    Ok(()) | Err(Errno::SRCH) => {}
                    Err(error) => self.tell_stubborn(stray, error),
                }
                reaped += usize::from(matches!(waitpid(Some(stray), WaitOptions::NOHANG), Ok(Some(_))));
            }
            if reaped == 0 {
                return;
            }
        }
    }

    /// Children that belong to no poll that runs, and those that may yet turn out not to: one without a trace of the poll
    /// that it came from does not, but a program that is just being started shows none for a moment either.
    fn look_for_strays(&self) -> (Vec<Pid>, Vec<(Pid, BootInstant)>) {
        let (mut strays, mut suspects) = (Vec::new(), Vec::new());
        let now = BootInstant::now();
        for child in children() {
            if self.runs.values().any(|run| run.main == child) {
                continue;
            }
            match poll_of(child) {
                Some(id) if self.runs.contains_key(&id) => {}
                Some(_) => strays.push(child),
                None => match self.suspects.iter().find(|(suspect, _)| *suspect == child) {
                    Some((_, since)) if now >= since.after(TRACE_WITHIN) => strays.push(child),
                    Some(suspect) => suspects.push(*suspect),
                    None => suspects.push((child, now)),
                },
            }
        }
        (strays, suspects)
    }

    fn tell_stubborn(&mut self, pid: Pid, error: Errno) {
        if !self.stubborn_told.contains(&pid) {
            self.stubborn_told.push(pid);
            let message = io::Error::from(error).to_string();
            self.outbox.push_back(Report::Stubborn { pid: pid.as_raw_nonzero().get(), message });
        }
    }

    /// A supervisor that does not listen for a while hears it later.
    fn report_all(&mut self) {
        while let Some(report) = self.outbox.front() {
            match self.channel.send(report) {
                Ok(()) => drop(self.outbox.pop_front()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // It is gone; reading finds that out too.
                Err(_) => self.outbox.clear(),
            }
        }
    }
}

fn no_kill_timer(error: &io::Error) -> Report {
    Report::NoKillTimer { message: error.to_string() }
}

/// The poll that a process came from, if it shows a trace of one.
fn poll_of(process: Pid) -> Option<u64> {
    let environment = std::fs::read(format!("/proc/{}/environ", process.as_raw_nonzero())).ok()?;
    let begins = format!("{POLL_ID}=");
    environment.split(|byte| *byte == 0).find_map(|entry| {
        let id = entry.strip_prefix(begins.as_bytes())?;
        core::str::from_utf8(id).ok()?.parse::<u64>().ok()
    })
}

fn take(run: &Run, step: Step) {
    match step {
        Step::Term => {
            let _ = kill_process_group(run.main, Signal::TERM);
            // Who is stopped would hear it only when continued.
            let _ = kill_process_group(run.main, Signal::CONT);
        }
        Step::Kill => {
            let _ = kill_process_group(run.main, Signal::KILL);
        }
    }
}

fn over(status: &WaitIdStatus) -> Over {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Over::Code(code as u8),
        (None, Some(signal)) => Over::Signal(signal),
        (None, None) => Over::Signal(Signal::KILL.as_raw()),
    }
}
