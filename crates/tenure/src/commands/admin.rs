//! `tenure admin`: what only operators need.

mod registration;
mod session;

pub(super) use registration::RegistrationCommand;

use clap::{Args, Subcommand};
use tenure_api::{ShutDown, ShuttingDown, Status};

use crate::confirm::Consent;
use crate::connect::{Daemon, read, route};
use crate::failure::Failure;
use crate::printer::{Printer, counted};

/// Steer the daemon itself, and what is registered with it
#[derive(Args)]
pub(crate) struct Admin {
    #[command(subcommand)]
    command: AdminCommand,
}

#[derive(Subcommand)]
enum AdminCommand {
    #[command(flatten)]
    Registration(RegistrationCommand),
    Session(session::Session),
    Breaker(Breaker),
    Shutdown(Shutdown),
}

/// Steer what postpones ends when most holders fall silent at once
#[derive(Args)]
struct Breaker {
    #[command(subcommand)]
    command: BreakerCommand,
}

#[derive(Subcommand)]
enum BreakerCommand {
    Reset(Reset),
}

/// Let ends go on: the silence is real
#[derive(Args)]
struct Reset {
    #[command(flatten)]
    consent: Consent,
}

/// Stop the daemon; leases live on until it is back, unless told otherwise
#[derive(Args)]
struct Shutdown {
    /// End every lease first
    #[arg(long)]
    end_all: bool,
    #[command(flatten)]
    consent: Consent,
}

impl Admin {
    /// What can be known to be wrong before any daemon is asked.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match &self.command {
            AdminCommand::Shutdown(shutdown) if shutdown.end_all => shutdown.consent.can_be_had(),
            AdminCommand::Session(_)
            | AdminCommand::Registration(_)
            | AdminCommand::Shutdown(_)
            | AdminCommand::Breaker(_) => Ok(()),
        }
    }

    pub(crate) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        match self.command {
            AdminCommand::Registration(command) => command.run(daemon, printer).await,
            AdminCommand::Session(session) => session.run(daemon, printer).await,
            AdminCommand::Breaker(Breaker { command: BreakerCommand::Reset(Reset { consent }) }) => {
                if consent.asks() {
                    let status: Status = read(daemon.get(route(&["status"])).await?)?;
                    let what = counted(status.leases.total, "lease");
                    consent.obtain(printer, &[what], "let those end whose holders are silent?")?;
                }
                let answer = daemon.post(route(&["breaker", "reset"]), &serde_json::json!({})).await?;
                if printer.json() {
                    return printer.object(&answer);
                }
                printer.line("ends go on")
            }
            AdminCommand::Shutdown(shutdown) => shutdown.run(daemon, printer).await,
        }
    }
}

impl Shutdown {
    async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        if self.end_all || self.consent.asks() {
            let status: Status = read(daemon.get(route(&["status"])).await?)?;
            let (leases, sessions) =
                (counted(status.leases.total, "lease"), counted(status.sessions, "session"));
            let waiters = counted(status.waiters, "waiter");
            let what =
                format!("daemon {}, pid {}: {leases}, {sessions}, {waiters}", status.version, status.pid);
            let question = if self.end_all { "end every lease and stop it?" } else { "stop it?" };
            self.consent.obtain(printer, &[what], question)?;
        }
        let answer = daemon.post(route(&["shutdown"]), &ShutDown { end_all: self.end_all }).await?;
        if printer.json() {
            return printer.object(&answer);
        }
        let stopping: ShuttingDown = read(answer)?;
        let ended = match self.end_all {
            true => format!(", {} ended", counted(stopping.ended, "lease")),
            false => String::new(),
        };
        printer.line(format_args!("stopping{ended}"))
    }
}
