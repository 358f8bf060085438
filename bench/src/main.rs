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

/// Measures Tenure beside what this machine can do at best, and beside what it promises
#[derive(Parser)]
#[command(name = "tenure-bench")]
struct Arguments {
    #[command(subcommand)]
    suite: Option<Suite>,
    /// Smaller sizes, for a quick look; the claims hold for the full ones
    #[arg(long, global = true)]
    quick: bool,
    /// Only rows whose name contains this; for polling `store=redis,targets=100,row=Q2`, each as often as wanted
    #[arg(long, global = true)]
    only: Option<String>,
}

#[derive(Subcommand)]
enum Suite {
    /// Kernel, liveness, log and engine
    Core,
    /// Pollers that share targets, through the daemon and through Redis
    Polling(polling::Arguments),
    /// Tenure beside what people would use instead
    Peers(peers::Arguments),
    /// Several machines on one etcd: beside etcd itself, and how soon another node serves
    Cluster(cluster::Arguments),
    /// One client doing its worst: what others see of it
    Worst(worst::Arguments),
    /// Earlier runs side by side
    History(history::Arguments),
    /// One of those pollers
    #[command(hide = true)]
    Poller(polling::Orders),
    /// Holds a name until it is killed
    #[command(hide = true)]
    Holder(peers::HolderOrders),
    /// Answers with a greeting until it is killed
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
