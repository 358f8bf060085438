//! `tenure cluster`: several nodes over one log, looked at and steered.

mod adopt;
mod forget;
mod migrate;
mod rotate_secret;
mod step_down;
mod steps;
mod store;

use clap::{Args, Subcommand};
use serde_json::json;
use tenure_api::ClusterStatus;
use tenure_engine::host::read_clocks;

use super::asking;
use crate::connect::{Daemon, Reach, read, route};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::show::{Now, cluster_page, node_list};

/// Show and manage the nodes of a cluster
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Cluster {
    #[command(subcommand)]
    command: ClusterCommand,
}

const EXAMPLES: &str = "Examples:
  tenure cluster status
  tenure cluster nodes
  tenure cluster step-down";

#[derive(Subcommand)]
enum ClusterCommand {
    Status(Status),
    Nodes(Nodes),
    StepDown(step_down::StepDown),
    Forget(forget::Forget),
    RotateSecret(rotate_secret::RotateSecret),
    Adopt(adopt::Adopt),
    Migrate(migrate::Migrate),
}

/// Show the leader, the replication lag of this node and the health of etcd
#[derive(Args)]
#[command(after_help = "Example:\n  tenure cluster status")]
struct Status {}

/// List the nodes of the cluster
#[derive(Args)]
#[command(after_help = "Example:\n  tenure cluster nodes")]
struct Nodes {}

impl Cluster {
    pub(crate) fn run(self, reach: &Reach, printer: &mut Printer) -> Result<(), Failure> {
        match self.command {
            ClusterCommand::Status(Status {}) => {
                asking(reach, printer, async |daemon, p| status(daemon, p).await)
            }
            ClusterCommand::Nodes(Nodes {}) => {
                asking(reach, printer, async |daemon, p| nodes(daemon, p).await)
            }
            ClusterCommand::StepDown(step_down) => {
                step_down.check()?;
                asking(reach, printer, async |daemon, p| step_down.run(daemon, p).await)
            }
            ClusterCommand::Forget(forget) => {
                forget.check()?;
                asking(reach, printer, async |daemon, p| forget.run(daemon, p).await)
            }
            ClusterCommand::RotateSecret(rotate) => {
                rotate.check()?;
                asking(reach, printer, async |daemon, p| rotate.run(daemon, p).await)
            }
            ClusterCommand::Adopt(adopt) => {
                adopt.check()?;
                adopt.run(printer)
            }
            ClusterCommand::Migrate(migrate) => {
                migrate.check()?;
                migrate.run(printer)
            }
        }
    }
}

async fn status(daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
    let answer = daemon.get(route(&["cluster"])).await?;
    if printer.json() {
        return printer.object(&answer);
    }
    let status: ClusterStatus = read(answer)?;
    cluster_page(Some(here()), &status).print(printer)
}

async fn nodes(daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
    let status = cluster(daemon).await?;
    if printer.json() {
        return printer.object(&json!({"nodes": status.nodes}));
    }
    printer.table(&node_list(Some(here()), &status))
}

/// The cluster as the node that answers sees it.
async fn cluster(daemon: &Daemon) -> Result<ClusterStatus, Failure> {
    read(daemon.get(route(&["cluster"])).await?)
}

/// The answer's times are those of several machines; this one's clock is as good as any.
fn here() -> Now {
    Now::here(read_clocks().wall_ms)
}
