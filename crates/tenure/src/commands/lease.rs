//! `tenure lease`: leases by hand.

mod acquire;
mod filter;
mod holder;
mod list;
mod operator;
mod target;

pub(super) use filter::Filter;

use clap::{Args, Subcommand};
use serde_json::Value;
use tenure_api::Lease as LeaseView;

use crate::connect::{Daemon, read};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::show::lease_page;

/// Acquire, show and end leases
///
/// Every command accepts a lease ID, or the name of a resource that the lease holds.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Lease {
    #[command(subcommand)]
    command: LeaseCommand,
}

const EXAMPLES: &str = "Examples:
  tenure lease acquire printer --ttl 60s
  tenure lease heartbeat k3f9-4
  tenure lease ls --holder alice
  tenure lease release k3f9-4";

#[derive(Subcommand)]
enum LeaseCommand {
    Acquire(acquire::Acquire),
    Ls(list::List),
    Show(list::Show),
    Heartbeat(holder::Heartbeat),
    Activate(holder::Activate),
    Release(holder::Release),
    Amend(holder::Amend),
    Acknowledge(holder::Acknowledge),
    Rebind(holder::Rebind),
    Handover(holder::Handover),
    Revoke(operator::Revoke),
    Reclaim(operator::Reclaim),
    Drain(operator::Drain),
    Revive(operator::Revive),
}

impl Lease {
    /// What can be known to be wrong before any daemon is asked.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match &self.command {
            LeaseCommand::Acquire(acquire) => acquire.check(),
            LeaseCommand::Rebind(rebind) => rebind.check(),
            LeaseCommand::Revoke(revoke) => revoke.check(),
            LeaseCommand::Reclaim(reclaim) => reclaim.check(),
            LeaseCommand::Drain(drain) => drain.check(),
            LeaseCommand::Ls(_)
            | LeaseCommand::Show(_)
            | LeaseCommand::Heartbeat(_)
            | LeaseCommand::Activate(_)
            | LeaseCommand::Release(_)
            | LeaseCommand::Amend(_)
            | LeaseCommand::Acknowledge(_)
            | LeaseCommand::Handover(_)
            | LeaseCommand::Revive(_) => Ok(()),
        }
    }

    pub(crate) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        match self.command {
            LeaseCommand::Acquire(acquire) => acquire.run(daemon, printer).await,
            LeaseCommand::Ls(list) => list.run(daemon, printer).await,
            LeaseCommand::Show(show) => show.run(daemon, printer).await,
            LeaseCommand::Heartbeat(heartbeat) => heartbeat.run(daemon, printer).await,
            LeaseCommand::Activate(activate) => activate.run(daemon, printer).await,
            LeaseCommand::Release(release) => release.run(daemon, printer).await,
            LeaseCommand::Amend(amend) => amend.run(daemon, printer).await,
            LeaseCommand::Acknowledge(acknowledge) => acknowledge.run(daemon, printer).await,
            LeaseCommand::Rebind(rebind) => rebind.run(daemon, printer).await,
            LeaseCommand::Handover(handover) => handover.run(daemon, printer).await,
            LeaseCommand::Revoke(revoke) => revoke.run(daemon, printer).await,
            LeaseCommand::Reclaim(reclaim) => reclaim.run(daemon, printer).await,
            LeaseCommand::Drain(drain) => drain.run(daemon, printer).await,
            LeaseCommand::Revive(revive) => revive.run(daemon, printer).await,
        }
    }
}

/// A lease as an answer shows it.
fn print_lease(printer: &mut Printer, answer: Value) -> Result<(), Failure> {
    if printer.json() {
        return printer.object(&answer);
    }
    let lease: LeaseView = read(answer)?;
    lease_page(&lease).print(printer)
}
