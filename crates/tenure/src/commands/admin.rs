//! `tenure admin`: what only operators need.

mod registration;
mod restart;
mod session;

pub(super) use registration::RegistrationCommand;

use clap::{Args, Subcommand, ValueEnum};
use tenure_api::{Advertised, ShutDown, ShuttingDown, Status};

use crate::confirm::Consent;
use crate::connect::{Daemon, Reach, read, route};
use crate::failure::{Failure, Words};
use crate::printer::{Printer, counted};

/// Manage the daemon: registrations, sessions, mass-expiry protection, restart, shutdown
#[derive(Args)]
#[command(after_help = ADMIN_EXAMPLES)]
pub(crate) struct Admin {
    #[command(subcommand)]
    command: AdminCommand,
}

const ADMIN_EXAMPLES: &str = "Examples:
  tenure admin registrations
  tenure admin session ls
  tenure admin restart";

#[derive(Subcommand)]
enum AdminCommand {
    #[command(flatten)]
    Registration(RegistrationCommand),
    Session(session::Session),
    Breaker(Breaker),
    Shutdown(Shutdown),
    Restart(restart::Restart),
}

/// Manage mass-expiry protection, which pauses expiry if most holders fall silent at once
#[derive(Args)]
#[command(after_help = "Example:\n  tenure admin breaker reset")]
struct Breaker {
    #[command(subcommand)]
    command: BreakerCommand,
}

#[derive(Subcommand)]
enum BreakerCommand {
    Reset(Reset),
}

/// Resume expiry now
#[derive(Args)]
#[command(after_help = "Example:\n  tenure admin breaker reset")]
struct Reset {
    #[command(flatten)]
    consent: Consent,
}

/// Stop the daemon; without --end-all, leases survive until it starts again
#[derive(Args)]
#[command(after_help = SHUTDOWN_EXAMPLES)]
struct Shutdown {
    /// End every lease first
    #[arg(long)]
    end_all: bool,
    /// Choose what happens to the services that it advertises by mDNS
    #[arg(long, value_name = "ACTION", value_enum, default_value_t)]
    advertised: Services,
    #[command(flatten)]
    consent: Consent,
}

const SHUTDOWN_EXAMPLES: &str = "Examples:
  tenure admin shutdown
  tenure admin shutdown --advertised keep --yes
  tenure admin shutdown --end-all";

/// What becomes of advertised services.
#[derive(Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Services {
    /// Send a goodbye packet for each
    #[default]
    Withdraw,
    /// Send no goodbye packets: the next start announces them again, and peers see no change
    Keep,
}

impl Admin {
    /// What can be known to be wrong before any daemon is asked.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match &self.command {
            AdminCommand::Shutdown(shutdown) if shutdown.end_all => shutdown.check(),
            AdminCommand::Session(_)
            | AdminCommand::Registration(_)
            | AdminCommand::Shutdown(_)
            | AdminCommand::Restart(_)
            | AdminCommand::Breaker(_) => Ok(()),
        }
    }

    pub(crate) async fn run(
        self,
        reach: &Reach,
        daemon: &Daemon,
        printer: &mut Printer,
    ) -> Result<(), Failure> {
        match self.command {
            AdminCommand::Registration(command) => command.run(daemon, printer).await,
            AdminCommand::Session(session) => session.run(daemon, printer).await,
            AdminCommand::Breaker(Breaker { command: BreakerCommand::Reset(Reset { consent }) }) => {
                if consent.asks() {
                    let status: Status = read(daemon.get(route(&["status"])).await?)?;
                    let what = counted(status.leases.total, "lease");
                    consent.obtain(printer, &[what], "resume expiry of leases with silent holders?")?;
                }
                let answer = daemon.post(route(&["breaker", "reset"]), &serde_json::json!({})).await?;
                if printer.json() {
                    return printer.object(&answer);
                }
                printer.line("expiry resumed")
            }
            AdminCommand::Shutdown(shutdown) => shutdown.run(daemon, printer).await,
            AdminCommand::Restart(restart) => restart.run(reach, daemon, printer).await,
        }
    }
}

/// The status of the very daemon that is asked: a node of a cluster would pass the question on to the one that writes.
async fn own_status(daemon: &Daemon) -> Result<Status, Failure> {
    read(daemon.get(route(&["status"]).query(&[("consistency", "stale")])).await?)
}

/// A daemon and what depends on it, shown before the question whether to stop it.
fn at_stake(status: &Status) -> String {
    let (leases, sessions) = (counted(status.leases.total, "lease"), counted(status.sessions, "session"));
    let waiters = counted(status.waiters, "waiter");
    format!("daemon {}, pid {}: {leases}, {sessions}, {waiters}", status.version, status.pid)
}

impl Shutdown {
    /// What ends everything is not done by mistake.
    fn check(&self) -> Result<(), Failure> {
        if self.advertised == Services::Keep {
            let line = "--end-all sends a goodbye packet for each registration, --advertised keep sends none";
            return Err(Failure::Usage(Words::new(line).hint("give one of the two")));
        }
        self.consent.can_be_had()
    }

    async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        if self.end_all || self.consent.asks() {
            let status = own_status(daemon).await?;
            let question =
                if self.end_all { "end every lease and stop the daemon?" } else { "stop the daemon?" };
            self.consent.obtain(printer, &[at_stake(&status)], question)?;
        }
        let advertised = match self.advertised {
            Services::Withdraw => Advertised::Withdraw,
            Services::Keep => Advertised::Keep,
        };
        let wish = ShutDown { end_all: self.end_all, advertised, restart: false };
        let answer = daemon.post(route(&["shutdown"]), &wish).await?;
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
