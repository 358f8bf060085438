//! `tenure mdns`: services on the network, advertised and found. Each command works with the daemon, or, where there is
//! none, by itself for as long as it runs.

mod arguments;
mod browse;
mod register;
mod resolve;
mod unregister;

pub(crate) use browse::{Browse, Subscribe};
pub(crate) use register::Register;
pub(crate) use resolve::Resolve;
pub(crate) use unregister::Unregister;

use clap::{Args, Subcommand};
use tenure_api::ErrorCode;

use super::admin::RegistrationCommand;
use super::asking;
use crate::connect::Reach;
use crate::failure::Failure;
use crate::printer::Printer;

/// Advertise and discover services by mDNS
#[derive(Args)]
#[command(after_help = SHORTER)]
pub(crate) struct Mdns {
    #[command(subcommand)]
    command: MdnsCommand,
}

const SHORTER: &str =
    "tenure register, unregister, browse, resolve and subscribe are short forms of these commands.
Without a daemon, all but unregister and admin use mDNS themselves while they run.

Examples:
  tenure mdns register \"My App\" _http._tcp 8080
  tenure mdns browse _http._tcp";

#[derive(Subcommand)]
enum MdnsCommand {
    Register(Register),
    Unregister(Unregister),
    Browse(Browse),
    Resolve(Resolve),
    Subscribe(Subscribe),
    Admin(Admin),
}

/// Manage registrations; the same as in tenure admin
#[derive(Args)]
#[command(after_help = "Examples:\n  tenure mdns admin registrations\n  tenure mdns admin inspect 9430")]
struct Admin {
    #[command(subcommand)]
    command: RegistrationCommand,
}

impl Mdns {
    pub(crate) fn run(self, reach: &Reach, printer: &mut Printer) -> Result<(), Failure> {
        match self.command {
            MdnsCommand::Register(register) => register.run(reach, printer),
            MdnsCommand::Unregister(unregister) => unregister.run(reach, printer),
            MdnsCommand::Browse(browse) => browse.run(reach, printer),
            MdnsCommand::Resolve(resolve) => resolve.run(reach, printer),
            MdnsCommand::Subscribe(subscribe) => subscribe.run(reach, printer),
            MdnsCommand::Admin(Admin { command }) => {
                asking(reach, printer, async |daemon, p| command.run(daemon, p).await)
            }
        }
    }
}

/// The same failure with the next step for somebody who deals with registrations.
pub(super) fn advised(failure: Failure) -> Failure {
    let Failure::Answered { error, .. } = &failure else { return failure };
    let hint = match error.code {
        ErrorCode::NotFound => "tenure admin registrations lists the registrations",
        ErrorCode::AlreadyDraining => "tenure admin revive cancels the drain",
        ErrorCode::PermanentLease => "tenure admin unregister ends the registration",
        ErrorCode::NotDraining | ErrorCode::NoLiveness => "tenure admin inspect shows its state",
        ErrorCode::InvalidType => "expected a type like _http._tcp or _ipp._udp",
        ErrorCode::TtlOutOfRange => "--lease 0 registers without heartbeats",
        ErrorCode::ResourceHeld => "all variants of the name are taken; choose another name",
        ErrorCode::ResolveTimeout => "tenure mdns browse TYPE lists the instances",
        _ => return failure,
    };
    failure.with_hint(hint)
}
