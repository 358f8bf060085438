//! `tenure admin status`, `registrations` and the rest: what operators ask about registrations.

use clap::{Args, Subcommand};
use serde_json::Value;
use tenure_api::{AdminRegistration, DaemonStatus, RegistrationDrained, RegistrationRevived, Unregistered};
use tenure_client::Method;
use tenure_engine::host::read_clocks;

use crate::commands::mdns::advised;
use crate::confirm::Consent;
use crate::connect::{Daemon, Route, read, route};
use crate::failure::Failure;
use crate::printer::{Printer, counted};
use crate::show::{Now, daemon_lines, registration_lines, registration_table, registration_words};

/// What operators do with registrations.
#[derive(Subcommand)]
pub(crate) enum RegistrationCommand {
    Status(Status),
    #[command(visible_alias = "ls")]
    Registrations(Registrations),
    Inspect(Inspect),
    Unregister(Unregister),
    Drain(Drain),
    Revive(Revive),
}

/// Show the daemon and the number of its registrations
#[derive(Args)]
#[command(after_help = "Example:\n  tenure admin status")]
pub(crate) struct Status {}

/// List registrations by name, with mode and time left
#[derive(Args)]
#[command(after_help = "Examples:\n  tenure admin registrations\n  tenure admin registrations --json")]
pub(crate) struct Registrations {}

/// Show one registration
#[derive(Args)]
#[command(after_help = "Example:\n  tenure admin inspect 9430")]
pub(crate) struct Inspect {
    #[command(flatten)]
    which: Which,
}

/// End a registration in any state and send its goodbye packet
///
/// On a terminal the command shows the registration and asks for confirmation.
#[derive(Args)]
#[command(after_help = "Example:\n  tenure admin unregister 9430")]
pub(crate) struct Unregister {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    consent: Consent,
}

/// Drain a registration: it ends after its grace period unless it is revived
///
/// On a terminal the command shows the registration and asks for confirmation.
#[derive(Args)]
#[command(after_help = "Example:\n  tenure admin drain 9430")]
pub(crate) struct Drain {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    consent: Consent,
}

/// Cancel a drain
#[derive(Args)]
#[command(after_help = "Example:\n  tenure admin revive 9430")]
pub(crate) struct Revive {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    _consent: Consent,
}

#[derive(Args)]
struct Which {
    /// Registration ID, or a unique prefix of at least two characters
    #[arg(value_name = "ID")]
    id: String,
}

impl Which {
    fn route(&self) -> Route {
        route(&["mdns", "admin", "registrations", &self.id])
    }

    fn verb(&self, verb: &str) -> Route {
        route(&["mdns", "admin", "registrations", &self.id, verb])
    }
}

/// Shows a registration and asks, where there is a terminal; scripts go ahead.
async fn ask_about(
    which: &Which,
    consent: &Consent,
    question: &str,
    daemon: &Daemon,
    printer: &mut Printer,
) -> Result<(), Failure> {
    if !consent.asks() {
        return Ok(());
    }
    let of: AdminRegistration = read(daemon.get(which.route()).await.map_err(advised)?)?;
    consent.obtain(printer, &[registration_words(&of)], question)
}

impl RegistrationCommand {
    pub(crate) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        match &self {
            Self::Unregister(unregister) => {
                let question = "end this registration?";
                ask_about(&unregister.which, &unregister.consent, question, daemon, printer).await?;
            }
            Self::Drain(drain) => {
                let question = "end this registration after its grace period?";
                ask_about(&drain.which, &drain.consent, question, daemon, printer).await?;
            }
            Self::Status(_) | Self::Registrations(_) | Self::Inspect(_) | Self::Revive(_) => {}
        }
        let (get, nothing) = (Method::GET, None::<&()>);
        let call = async |method: Method, route: Route| daemon.call(method, route, nothing).await;
        let answer = match &self {
            Self::Status(_) => call(get, route(&["mdns", "admin", "status"])).await,
            Self::Registrations(_) => call(get, route(&["mdns", "admin", "registrations"])).await,
            Self::Inspect(inspect) => call(get, inspect.which.route()).await,
            Self::Unregister(unregister) => call(Method::DELETE, unregister.which.route()).await,
            Self::Drain(drain) => call(Method::POST, drain.which.verb("drain")).await,
            Self::Revive(revive) => call(Method::POST, revive.which.verb("revive")).await,
        };
        let answer = answer.map_err(advised)?;
        if printer.json() {
            return printer.object(&answer);
        }
        self.print(answer, printer)
    }

    fn print(&self, answer: Value, printer: &mut Printer) -> Result<(), Failure> {
        match self {
            Self::Status(_) => {
                let status: DaemonStatus = read(answer)?;
                daemon_lines(&status).into_iter().try_for_each(|line| printer.line(line))
            }
            Self::Registrations(_) => {
                let registrations: Vec<AdminRegistration> = read(answer)?;
                if !registrations.is_empty() {
                    printer.table(&registration_table(&registrations))?;
                }
                printer.talk(counted(registrations.len() as u64, "registration"));
                Ok(())
            }
            Self::Inspect(_) => {
                let registration: AdminRegistration = read(answer)?;
                let now = Now::here(read_clocks().wall_ms);
                registration_lines(&registration, now).into_iter().try_for_each(|line| printer.line(line))
            }
            Self::Unregister(_) => {
                let Unregistered { unregistered } = read(answer)?;
                printer.line(format_args!("unregistered {unregistered}"))
            }
            Self::Drain(_) => {
                let RegistrationDrained { drained } = read(answer)?;
                printer.line(format_args!("drained {drained}"))
            }
            Self::Revive(_) => {
                let RegistrationRevived { revived } = read(answer)?;
                printer.line(format_args!("revived {revived}"))
            }
        }
    }
}
