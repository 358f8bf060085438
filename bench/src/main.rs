//! `cargo xtask bench core`, `polling`, `peers`, `cluster` and `worst`: each row beside its reference or its goal, measured in one run on one
//! machine. A ratio or a goal is the claim; the absolute numbers only say what machine it was.

#![expect(clippy::print_stdout, reason = "the table is the data this program makes")]

mod cluster;
mod core;
mod gauge;
mod history;
mod machine;
mod peers;
mod polling;
mod process;
mod rows;
mod worst;

use clap::{Parser, Subcommand};

/// Benchmark Tenure against the limits of this machine and against its own goals
#[derive(Parser)]
#[command(name = "tenure-bench")]
struct Arguments {
    #[command(subcommand)]
    suite: Option<Suite>,
    /// Use smaller sizes, for a quick look; goals are defined for the full sizes
    #[arg(long, global = true)]
    quick: bool,
    /// Measure only rows whose name contains this; for polling `store=redis,targets=100,row=Q2` (repeatable)
    #[arg(long, global = true)]
    only: Option<String>,
}

#[derive(Subcommand)]
enum Suite {
    /// Measure kernel, liveness, log and engine
    Core,
    /// Measure pollers that share targets, through the daemon and through Redis
    Polling(polling::Arguments),
    /// Compare Tenure with etcd, Redis, ZooKeeper and PostgreSQL
    Peers(peers::Arguments),
    /// Measure a cluster on etcd, compared with etcd itself, and its failover time
    Cluster(cluster::Arguments),
    /// Measure how a hostile client affects other clients
    Worst(worst::Arguments),
    /// Show earlier runs side by side
    History(history::Arguments),
    /// Run one poller of the polling suite
    #[command(hide = true)]
    Poller(polling::Orders),
    /// Hold a name until killed
    #[command(hide = true)]
    Holder(peers::HolderOrders),
    /// Answer with a greeting until killed
    #[command(hide = true)]
    Greeter(peers::GreeterOrders),
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let Arguments { quick, only, .. } = arguments;
    match arguments.suite.unwrap_or(Suite::Core) {
        Suite::Core => {
            let rows = core::measure(quick, only.as_deref())?;
            println!("{}", gauge::table(&rows));
            history::keep("core", &gauge::kept(&rows))?;
        }
        Suite::Polling(arguments) => {
            println!("{}", polling::measure(&arguments, quick, only.as_deref())?);
        }
        Suite::Peers(arguments) => {
            println!("{}", peers::measure(arguments, quick, only)?);
        }
        Suite::Cluster(arguments) => {
            println!("{}", cluster::measure(arguments, quick, only)?);
        }
        Suite::Worst(arguments) => {
            println!("{}", worst::measure(arguments, quick, only)?);
        }
        Suite::History(arguments) => println!("{}", history::shown(&arguments)?),
        Suite::Poller(orders) => polling::poll(orders)?,
        Suite::Holder(orders) => peers::hold(&orders)?,
        Suite::Greeter(orders) => peers::greet(&orders)?,
    }
    Ok(())
}
