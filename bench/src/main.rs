//! `cargo xtask bench core` and `cargo xtask bench polling`: each row beside its reference or its goal, measured in one
//! run on one machine. A ratio or a goal is the claim; the absolute numbers only say what machine it was.

#![expect(clippy::print_stdout, reason = "the table is the data this program makes")]

mod core;
mod gauge;
mod polling;
mod rows;

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
    /// One of those pollers
    #[command(hide = true)]
    Poller(polling::Orders),
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let Arguments { quick, only, .. } = arguments;
    match arguments.suite.unwrap_or(Suite::Core) {
        Suite::Core => {
            let rows = core::measure(quick, only.as_deref())?;
            println!("{}", gauge::table(&rows));
        }
        Suite::Polling(arguments) => {
            println!("{}", polling::measure(&arguments, quick, only.as_deref())?);
        }
        Suite::Poller(orders) => polling::poll(orders)?,
    }
    Ok(())
}
