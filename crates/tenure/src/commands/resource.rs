//! `tenure resource`: what is held, seen from the things rather than from the leases.

use clap::{Args, Subcommand};
use tenure_api::{Resource as ResourceView, ResourceList, ResourceQuery};
use tenure_engine::host::read_clocks;

use super::listing::Extent;
use crate::connect::{Daemon, read, route};
use crate::failure::Failure;
use crate::printer::{Printer, counted};
use crate::show::{Now, resource_page, resource_table};

/// List held resources, or show one
#[derive(Args)]
#[command(after_help = "Examples:\n  tenure resource ls\n  tenure resource show printer")]
pub(crate) struct Resource {
    #[command(subcommand)]
    command: ResourceCommand,
}

#[derive(Subcommand)]
enum ResourceCommand {
    Ls(List),
    Show(Show),
}

/// List held resources
#[derive(Args)]
#[command(after_help = "Example:\n  tenure resource ls --prefix db/")]
struct List {
    /// Show only resources with this prefix
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    #[command(flatten)]
    extent: Extent,
}

/// Show the holder and the waiters of a resource
#[derive(Args)]
#[command(after_help = "Example:\n  tenure resource show printer")]
struct Show {
    /// Resource name
    #[arg(value_name = "RESOURCE")]
    name: String,
}

impl Resource {
    pub(crate) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        match self.command {
            ResourceCommand::Ls(list) => list.run(daemon, printer).await,
            ResourceCommand::Show(show) => show.run(daemon, printer).await,
        }
    }
}

impl List {
    async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let query = ResourceQuery { prefix: self.prefix, ..ResourceQuery::default() };
        let answer = self.extent.fetch(daemon, ("resources", "resources"), &query, printer).await?;
        if printer.json() {
            return printer.object(&answer);
        }
        let list: ResourceList = read(answer)?;
        if !list.resources.is_empty() {
            printer.table(&resource_table(&list.resources, here()))?;
        }
        printer.talk(format_args!("{} held", counted(list.resources.len() as u64, "resource")));
        Ok(())
    }
}

impl Show {
    async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let answer = daemon.get(route(&["resources", &self.name])).await?;
        if printer.json() {
            return printer.object(&answer);
        }
        let resource: ResourceView = read(answer)?;
        resource_page(&resource, here()).print(printer)
    }
}

/// These answers do not tell the daemon's clock.
fn here() -> Option<Now> {
    Some(Now::here(read_clocks().wall_ms))
}
