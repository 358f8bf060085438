//! `tenure run`: a lease is held for as long as a command runs, and the command runs for no longer than the lease is
//! valid. Two processes do it: the *supervisor* talks to the daemon and to whoever sits at the terminal, the *guardian*
//! is the command's parent and keeps the deadline. Each of them alone suffices to end everything in time.
//!
//! ```text
//! daemon ── heartbeats ── supervisor ── "valid until" ──▶ guardian ──▶ command ──▶ …
//! ```

mod alarm;
mod cgroup;
mod channel;
mod family;
mod guardian;
mod holding;
mod phase;
mod signals;
mod spawn;
mod supervisor;
mod terminal;
mod timetable;

use std::ffi::OsString;
use std::time::Duration;

use clap::ValueEnum;
use tenure_api::Acquire;
use tenure_client::Client;
use tenure_history::duration;

pub(crate) use alarm::Alarm;
pub(crate) use channel::{Channel, Over};
pub(crate) use family::{Change, Family, children};
pub(crate) use guardian::{GuardianError, exit_code_of, guard};
pub(crate) use phase::{Cause, Step, Watch};
pub(crate) use signals::{SignalNumber, catch_all, is_ignored};
pub(crate) use spawn::{KillTimer, Place, TOO_LATE, readable, start as start_command, start_alone};
pub(crate) use timetable::Pace;

use crate::failure::{Failure, Words};
use crate::printer::Printer;
use crate::secrets::Credentials;
use crate::waiting::Waiting;
use holding::{Asking, Holding, Validity};
use supervisor::{Ending, Errand, Supervisor};

/// What becomes of a command whose lease is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum OnLost {
    /// End the process tree before another holder can get the resources
    Kill,
    /// Let the command run on, possibly at the same time as another holder
    Warn,
}

/// For how long a command goes on without a renewal.
pub(crate) struct Silence {
    pub(crate) ttl: Duration,
    pub(crate) max_silence: Duration,
    /// What happens then.
    pub(crate) then: &'static str,
}

/// What to hold, and what to run meanwhile.
pub(crate) struct Run {
    pub(crate) acquire: Acquire,
    pub(crate) ttl: Duration,
    pub(crate) wait: Duration,
    pub(crate) pace: Pace,
    pub(crate) on_lost: OnLost,
    pub(crate) term_signal: SignalNumber,
    /// `None`: a drain is not told.
    pub(crate) drain_signal: Option<SignalNumber>,
    /// A cgroup may be made for the command.
    pub(crate) makes_cgroup: bool,
    pub(crate) credentials: Credentials,
    pub(crate) command: Vec<OsString>,
}

/// How long the cluster may take to say how long a failover takes.
const TOLD_WITHIN: Duration = Duration::from_millis(500);
/// The exit code of a run whose lease was lost: EX_TEMPFAIL of sysexits.
pub(crate) const EXIT_LOST: u8 = 75;

/// Acquires, runs, gives back. The exit code is the command's own, if it came to its end.
pub(crate) async fn run(run: Run, client: Client, printer: &mut Printer) -> Result<(), Failure> {
    let unexpected = |error: std::io::Error| Failure::Unexpected(Words::new(error));
    let mut signals = catch_all().map_err(unexpected)?;
    let mut asking = Asking::new(client.clone(), run.acquire, run.ttl, run.wait);
    let interrupted = async {
        loop {
            match signals.recv().await {
                Some(number) if number.ends_by_default() => break number,
                Some(number) if number.stops_by_default() => signals::stop_ourselves(),
                Some(_) => {}
                None => std::future::pending().await,
            }
        }
    };
    let waiting = Waiting::new(&client, asking.acquire(), run.wait.as_millis() as u64);
    let begun = tokio::select! {
        begun = waiting.show(begin(&mut asking), printer) => begun,
        number = interrupted => {
            asking.abandon().await;
            return Err(Failure::Ended(Over::Signal(number.0).exit_code()));
        }
    };
    let (holding, validity) = begun?;
    let silence =
        Silence { ttl: run.ttl, max_silence: run.pace.max_silence(run.ttl), then: "the command ends" };
    silence.warn(&client, |ttl| Pace::new(ttl, None).max_silence(ttl), printer).await;
    let errand = Errand {
        command: run.command,
        environment: environment(&holding, &validity),
        pace: run.pace,
        on_lost: run.on_lost,
        term_signal: run.term_signal,
        drain_signal: run.drain_signal,
        makes_cgroup: run.makes_cgroup,
        credentials: run.credentials,
    };
    let program = errand.command.first().map(|program| program.to_string_lossy().into_owned());
    let news = holding.keep(run.pace, &validity);
    let ending = match Supervisor::start(errand, validity.until, printer) {
        // Where this fails something may still be running: then the lease ends by its ttl, not by a release.
        Ok(supervisor) => supervisor.work(news, &mut signals).await.map_err(unexpected)?,
        Err(error) => {
            holding.release("the command could not be started").await;
            return Err(unexpected(error));
        }
    };
    give_back(&holding, &ending, printer).await;
    match ending {
        Ending::Over(over) => Err(Failure::Ended(over.exit_code())),
        Ending::NotStarted { exit_code, message } => {
            printer.insist(format_args!("error: cannot run {}: {message}", program.unwrap_or_default()));
            Err(Failure::Ended(exit_code))
        }
        Ending::Lost { .. } => {
            printer.insist("error: tenure run lost the lease and ended the command");
            Err(Failure::Ended(EXIT_LOST))
        }
        Ending::GuardianDied => {
            Err(Failure::Unexpected(Words::new("the guardian process was killed, and the command with it")))
        }
    }
}

impl Silence {
    /// Warns if a failover takes longer than this. Does not wait for a daemon that does not report its leader ttl.
    /// `max_silence` is how long a holder of a ttl continues without a renewal.
    pub(crate) async fn warn(
        self,
        client: &Client,
        max_silence: impl Fn(Duration) -> Duration,
        printer: &mut Printer,
    ) {
        let asked = tokio::time::timeout(TOLD_WITHIN, client.failover()).await;
        let Ok(Ok(Some(failover))) = asked else { return };
        if self.max_silence < failover.duration() {
            let shown = |time: Duration| duration(time.as_millis() as u64);
            printer.talk(format_args!(
                "warning: a failover takes up to {}, but with --ttl {} {} after {} without a renewal; use --ttl {} or \
                 longer to survive a failover",
                shown(failover.duration()),
                shown(self.ttl),
                self.then,
                shown(self.max_silence),
                shown(failover.min_ttl(max_silence)),
            ));
        }
    }
}

async fn begin(asking: &mut Asking) -> Result<(Holding, Validity), Failure> {
    let holding = asking.grant().await?;
    match holding.first_validity().await {
        Ok(validity) => Ok((holding, validity)),
        Err(failure) => {
            holding.release("never begun").await;
            Err(failure)
        }
    }
}

/// Only now: nothing acts on the lease any more.
async fn give_back(holding: &Holding, ending: &Ending, printer: &mut Printer) {
    let reason = match ending {
        Ending::Lost { told_by_daemon: true } => return holding.acknowledge().await,
        Ending::Lost { told_by_daemon: false } => {
            return holding.release_lost("not renewed in time, the command was ended").await;
        }
        Ending::Over(Over::Code(code)) => format!("the command ended with {code}"),
        Ending::Over(Over::Signal(number)) => format!("the command was killed by {}", SignalNumber(*number)),
        Ending::NotStarted { .. } => "the command could not be started".to_owned(),
        Ending::GuardianDied => "the guardian was killed, and the command with it".to_owned(),
    };
    if let Some(message) = holding.release(&reason).await {
        printer.talk(format_args!("note: cannot release the lease; it ends after its ttl: {message}"));
    }
}

fn environment(holding: &Holding, validity: &Validity) -> Vec<(&'static str, String)> {
    let lease = &holding.lease;
    let mut environment = vec![
        ("TENURE_LEASE_ID", lease.lease_id.clone()),
        ("TENURE_EPOCH", lease.epoch.to_string()),
        ("TENURE_FENCE", lease.fence.to_string()),
        ("TENURE_RESOURCES", lease.resources.join("\n")),
    ];
    let deadline = validity.until_wall_ms.map(tenure_history::rfc3339);
    environment.extend(deadline.map(|deadline| ("TENURE_DEADLINE", deadline)));
    environment
}
