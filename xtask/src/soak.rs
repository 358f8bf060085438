//! `cargo xtask soak`: the long loops, for nights and before releases.

use anyhow::Result;

use crate::{fuzz, mutants, sim, test};

/// Run the long loops: many seeds, many cases per property, hundreds of kills, long fuzzing, mutants.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Simulator seeds.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    seeds: u64,
    /// Cases per property test.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    cases: u32,
    /// Inputs per decoder in the deterministic fuzz run.
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    iterations: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    test::run_with_cases(arguments.cases)?;
    sim::seeds(arguments.seeds)?;
    sim::cluster_seeds(arguments.seeds)?;
    sim::restores(arguments.seeds)?;
    fuzz::iterations(arguments.iterations)?;
    mutants::run_all()
}
