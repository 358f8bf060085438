//! `cargo xtask`: what people and CI run. Glue only: one file per command.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a tool of the house talks to its caller and measures its steps"
)]

mod advisories;
mod bench;
mod ci;
mod deny;
mod fix;
mod fuzz;
mod instructions;
mod mutants;
mod needs;
mod shell;
mod sim;
mod soak;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Test, check and measure Tenure.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Test(test::Arguments),
    Ci(ci::Arguments),
    Fix(fix::Arguments),
    Tidy(tidy::Arguments),
    Bench(bench::Arguments),
    Instructions(instructions::Arguments),
    Sim(sim::Arguments),
    Fuzz(fuzz::Arguments),
    Soak(soak::Arguments),
    Mutants(mutants::Arguments),
    Deny(deny::Arguments),
    Advisories(advisories::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Test(arguments) => test::run(&arguments),
        Command::Ci(arguments) => ci::run(&arguments),
        Command::Fix(arguments) => fix::run(&arguments),
        Command::Tidy(arguments) => tidy::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Instructions(arguments) => instructions::run(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::Soak(arguments) => soak::run(&arguments),
        Command::Mutants(arguments) => mutants::run(&arguments),
        Command::Deny(arguments) => deny::run(&arguments),
        Command::Advisories(arguments) => advisories::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
