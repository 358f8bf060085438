//! `cargo xtask bench core`: each row beside its reference, measured in the same run on the same machine.
//! A ratio is the claim; the absolute numbers only say what machine it was.

#![expect(clippy::print_stdout, reason = "the table is the data this program makes")]

mod core;
mod gauge;
mod rows;

use clap::{Parser, Subcommand};

/// Measures Tenure beside what this machine can do at best
#[derive(Parser)]
#[command(name = "tenure-bench")]
struct Arguments {
    #[command(subcommand)]
    suite: Option<Suite>,
    /// Smaller sizes, for a quick look; the claims hold for the full ones
    #[arg(long, global = true)]
    quick: bool,
    /// Only rows whose name contains this
    #[arg(long, global = true)]
    only: Option<String>,
}

#[derive(Subcommand, Clone, Copy)]
enum Suite {
    /// Kernel, liveness, log and engine
    Core,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    match arguments.suite.unwrap_or(Suite::Core) {
        Suite::Core => {
            let rows = core::measure(arguments.quick, arguments.only.as_deref())?;
            println!("{}", gauge::table(&rows));
        }
    }
    Ok(())
}
