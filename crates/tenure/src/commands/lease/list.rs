//! `tenure lease ls` and `tenure lease show`.

use clap::Args;
use tenure_api::LeaseList;

use super::target::Target;
use super::{Filter, print_lease};
use crate::commands::listing::Extent;
use crate::connect::{Daemon, read};
use crate::failure::Failure;
use crate::printer::{Printer, counted};
use crate::show::lease_table;

/// List live leases by ID
#[derive(Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(super) struct List {
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    extent: Extent,
}

const LIST_EXAMPLES: &str = "Examples:
  tenure lease ls --holder alice
  tenure lease ls --application polling --all";

/// Show one lease
#[derive(Args)]
#[command(after_help = "Examples:\n  tenure lease show printer\n  tenure lease show k3f9-4")]
pub(super) struct Show {
    #[command(flatten)]
    target: Target,
}

impl List {
    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let answer = self.extent.fetch(daemon, ("leases", "leases"), &self.filter.leases(), printer).await?;
        if printer.json() {
            return printer.object(&answer);
        }
        let list: LeaseList = read(answer)?;
        if !list.leases.is_empty() {
            printer.table(&lease_table(&list.leases))?;
        }
        printer.talk(format_args!("{} at lsn {}", counted(list.leases.len() as u64, "lease"), list.lsn));
        Ok(())
    }
}

impl Show {
    pub(super) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        print_lease(printer, self.target.object(daemon).await?)
    }
}
