//! The supervisor's side of polls that are commands: has the guardian run them, tells it how long each may run, and
//! watches the same deadlines. A guardian that is stopped or killed is killed with everything below it, and another
//! one is started for the next poll.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Pid;
use tenure_client::clock::{BootInstant, wall_time};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

use super::orders::{Ended, Order, Report, Start};
use super::template::Template;
use crate::run::{Alarm, Change, Channel, Family, Over, Pace};
use crate::secrets::Credentials;

/// Between two strikes, and two tries to tell a guardian that does not listen.
const AGAIN: Duration = Duration::from_millis(5);
/// What cannot be killed by so many strikes is left to the kernel.
const STRIKES_MAX: u32 = 400;
/// Wishes that wait for the task below.
const WISHES_MAX: usize = 4_096;

/// How commands are run.
#[derive(Clone)]
pub(crate) struct CommandsPlan {
    pub(crate) template: Template,
    /// What every command finds in its environment.
    pub(crate) environment: Vec<(&'static str, OsString)>,
    pub(crate) pace: Pace,
    /// What commands print goes to standard error, because standard output is ours.
    pub(crate) keeps_output: bool,
    pub(crate) credentials: Credentials,
}

/// One poll.
pub(crate) struct Errand {
    pub(crate) target: String,
    pub(crate) fence: u64,
    pub(crate) valid_until: BootInstant,
    pub(crate) timeout_at: BootInstant,
}

/// How a poll ended. Nothing of it runs any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finished {
    /// It ended by itself or, with a reason, was ended.
    Over { over: Over, ended: Option<Ended> },
    /// It was not started. With an exit code: it cannot be executed.
    NotStarted { exit_code: Option<u8>, message: String },
    /// The guardian was stopped or killed, and the command with it.
    GuardianDied,
}

/// Runs commands. Cheap to clone; ends everything when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct Commands {
    wishes: mpsc::Sender<Wish>,
    next_id: std::sync::Arc<AtomicU64>,
}

/// A command that was begun. It is ended when this is dropped.
pub(crate) struct Running {
    id: u64,
    wishes: mpsc::Sender<Wish>,
    told_until: BootInstant,
    finished: oneshot::Receiver<Finished>,
}

enum Wish {
    Start { start: Start, answer: oneshot::Sender<Finished> },
    Tell(Order),
}

/// A poll that the guardian was told to run.
struct Pending {
    valid_until: BootInstant,
    answer: oneshot::Sender<Finished>,
}

/// The task that speaks to the guardian.
struct Supervisor {
    plan: CommandsPlan,
    family: Family,
    guardian: Option<Guardian>,
    pending: HashMap<u64, Pending>,
    /// A guardian has no kill timer, which was logged.
    is_timer_missed: bool,
}

struct Guardian {
    pid: Pid,
    channel: Channel,
}

/// What came out of waiting.
enum News {
    Wish(Option<Wish>),
    Report(io::Result<Option<Report>>),
    Alarm,
    Child,
}

impl Commands {
    /// Begins to take polls; the task ends when nobody can ask for any more and nothing of them is left.
    pub(crate) fn begin(plan: CommandsPlan) -> io::Result<(Self, tokio::task::JoinHandle<()>)> {
        let (sender, receiver) = mpsc::channel(WISHES_MAX);
        let supervisor = Supervisor {
            plan,
            family: Family::adopt()?,
            guardian: None,
            pending: HashMap::new(),
            is_timer_missed: false,
        };
        let alarm = Alarm::new()?;
        let children = signal(SignalKind::child())?;
        let task = tokio::spawn(supervisor.work(receiver, alarm, children));
        Ok((Self { wishes: sender, next_id: std::sync::Arc::new(AtomicU64::new(1)) }, task))
    }

    /// Begins a poll.
    pub(crate) async fn start(&self, errand: Errand) -> Running {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let start = Start {
            id,
            target: errand.target,
            fence: errand.fence,
            valid_until: errand.valid_until.as_ns(),
            valid_until_shown: wall_time(errand.valid_until),
            timeout_at: errand.timeout_at.as_ns(),
        };
        let (answer, finished) = oneshot::channel();
        // Where the task is gone the answer is dropped, and that is told as the guardian's end.
        let _ = self.wishes.send(Wish::Start { start, answer }).await;
        Running { id, wishes: self.wishes.clone(), told_until: errand.valid_until, finished }
    }
}

impl Running {
    /// The target is ours until then; an earlier instant changes nothing.
    pub(crate) fn extend(&mut self, valid_until: BootInstant) {
        if valid_until > self.told_until {
            self.told_until = valid_until;
            let order = Order::ValidUntil { id: self.id, valid_until: valid_until.as_ns() };
            // Who has no room for it ends the command early, never late.
            let _ = self.wishes.try_send(Wish::Tell(order));
        }
    }

    /// Asks it to end.
    pub(crate) fn end(&self) {
        let _ = self.wishes.try_send(Wish::Tell(Order::End { id: self.id }));
    }

    /// Waits for its end. Safe to drop while waiting.
    pub(crate) async fn finished(&mut self) -> Finished {
        (&mut self.finished).await.unwrap_or(Finished::GuardianDied)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

impl Supervisor {
    async fn work(
        mut self,
        mut wishes: mpsc::Receiver<Wish>,
        mut alarm: Alarm,
        mut children: tokio::signal::unix::Signal,
    ) {
        loop {
            // Without an alarm the guardian's own deadlines are all there is.
            let _ = alarm.set(self.next_alarm());
            let news = tokio::select! {
                // What the guardian did comes before what it may have failed to do.
                biased;
                report = report(self.guardian.as_ref()) => News::Report(report),
                _ = alarm.comes() => News::Alarm,
                _ = children.recv() => News::Child,
                wish = wishes.recv() => News::Wish(wish),
            };
            match news {
                News::Report(Ok(Some(report))) => self.hear(report),
                News::Report(Ok(None) | Err(_)) => self.take_over("it is gone").await,
                News::Alarm => self.take_over("it does not keep its deadlines").await,
                News::Child => {
                    let look = self.family.look();
                    let is_over = |guardian: &Guardian| {
                        let over = |(pid, change): &(Pid, Change)| {
                            *pid == guardian.pid && matches!(change, Change::Over(_))
                        };
                        look.changes.iter().any(over)
                    };
                    if self.guardian.as_ref().is_some_and(is_over) {
                        self.take_over("it died").await;
                    }
                }
                News::Wish(Some(wish)) => self.grant(wish).await,
                News::Wish(None) => break,
            }
        }
        self.finish().await;
    }

    /// Half of the time for killing is the guardian's, the other half is ours.
    fn next_alarm(&self) -> Option<BootInstant> {
        let until = self.pending.values().map(|pending| pending.valid_until).min()?;
        Some(until.before(self.plan.pace.sweep / 2))
    }

    fn hear(&mut self, report: Report) {
        let (id, finished) = match report {
            Report::Started { .. } => return,
            Report::NotStarted { id, exit_code, message } => {
                (id, Finished::NotStarted { exit_code, message })
            }
            Report::Over { id, over, ended } => (id, Finished::Over { over, ended }),
            Report::NoKillTimer { message } => {
                if !core::mem::replace(&mut self.is_timer_missed, true) {
                    tracing::warn!(
                        error = message,
                        "no kill timer for polls: while their guardian process is stopped, nothing ends them in time"
                    );
                }
                return;
            }
            Report::Stubborn { pid, message } => {
                tracing::warn!(pid, error = message, "cannot kill a process that a poll left behind");
                return;
            }
        };
        if let Some(pending) = self.pending.remove(&id) {
            let _ = pending.answer.send(finished);
        }
    }

    async fn grant(&mut self, wish: Wish) {
        match wish {
            Wish::Start { start, answer } => {
                if self.guardian.is_none()
                    && let Err(error) = self.start_guardian()
                {
                    let message = format!("cannot start a guardian: {error}");
                    let _ = answer.send(Finished::NotStarted { exit_code: None, message });
                    return;
                }
                let valid_until = BootInstant::from_ns(start.valid_until);
                self.pending.insert(start.id, Pending { valid_until, answer });
                self.order(&Order::Start(start)).await;
            }
            Wish::Tell(order) => {
                let (Order::ValidUntil { id, .. } | Order::End { id }) = &order else { return };
                let Some(pending) = self.pending.get_mut(id) else { return };
                if let Order::ValidUntil { valid_until, .. } = &order {
                    pending.valid_until = pending.valid_until.max(BootInstant::from_ns(*valid_until));
                }
                self.order(&order).await;
            }
        }
    }

    /// Tells the guardian; while it does not listen, what it says is heard all the same.
    async fn order(&mut self, order: &Order) {
        loop {
            let Some(guardian) = &self.guardian else { return };
            match guardian.channel.send(order) {
                Ok(()) => return,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return self.take_over("it accepts no message").await,
            }
            let is_due = self.next_alarm().is_some_and(|due| BootInstant::now() >= due);
            if is_due {
                return self.take_over("it does not read messages").await;
            }
            let report = guardian.channel.receive_now();
            match report {
                Ok(Some(report)) => self.hear(report),
                Ok(None) => tokio::time::sleep(AGAIN).await,
                Err(_) => return self.take_over("its answers cannot be read").await,
            }
        }
    }

    fn start_guardian(&mut self) -> io::Result<()> {
        let (channel, theirs) = Channel::pair()?;
        // The program as it runs now, even if its file was replaced meanwhile.
        let mut guardian = Command::new("/proc/self/exe");
        guardian.arg0("tenure").args(["guardian", "--polls", "--"]).args(self.plan.template.words());
        self.plan.credentials.withhold(&mut guardian);
        guardian.envs(self.plan.environment.iter().map(|(name, value)| (name, value)));
        guardian.stdin(Stdio::from(theirs)).process_group(0);
        if self.plan.keeps_output {
            guardian.stdout(Stdio::from(io::stderr().as_fd().try_clone_to_owned()?));
        }
        let pid = i32::try_from(guardian.spawn()?.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(io::ErrorKind::InvalidData)?;
        channel.send(&Order::Begin {
            kill_after_ms: self.plan.pace.kill_after.as_millis() as u64,
            sweep_ms: self.plan.pace.sweep.as_millis() as u64,
        })?;
        self.guardian = Some(Guardian { pid, channel });
        Ok(())
    }

    /// Kills the guardian and everything below it; every poll is over then.
    async fn take_over(&mut self, why: &str) {
        if self.guardian.take().is_none() {
            return;
        }
        tracing::warn!(polls = self.pending.len(), reason = %why, "replacing the guardian process of the polls");
        self.strike_all().await;
        for (_, pending) in self.pending.drain() {
            let _ = pending.answer.send(Finished::GuardianDied);
        }
    }

    /// The guardian sees that nobody is here any more and ends everything; what it does not end, we do.
    async fn finish(&mut self) {
        let Some(guardian) = self.guardian.take() else { return };
        let until = BootInstant::now().after(self.plan.pace.kill_after);
        let Guardian { channel, .. } = guardian;
        drop(channel);
        while BootInstant::now() < until {
            if self.family.look().none_left {
                return;
            }
            tokio::time::sleep(AGAIN).await;
        }
        self.strike_all().await;
    }

    async fn strike_all(&mut self) {
        for _ in 0..STRIKES_MAX {
            let mut none_left = false;
            self.family.strike(|look| none_left = look.none_left);
            if none_left {
                return;
            }
            tokio::time::sleep(AGAIN).await;
        }
        tracing::warn!("cannot kill a process that a poll started");
    }
}

/// The next report of the guardian; for ever where there is none.
async fn report(guardian: Option<&Guardian>) -> io::Result<Option<Report>> {
    match guardian {
        Some(guardian) => guardian.channel.receive().await,
        None => std::future::pending().await,
    }
}
