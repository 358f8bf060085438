//! `cargo xtask soak`: the long loops, for nights and before releases.

use anyhow::Result;

use crate::{fuzz, mutants, sim, test};

/// Run the long loops: many seeds, many cases per property, hundreds of kills, half an hour of faults in a cluster, long
/// fuzzing, mutants.
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
    /// Seconds of real faults in a cluster under load. From 1,800 on the run must reach its minimum of faults, operations
    /// and contested grants.
    #[arg(long, value_name = "SECONDS", default_value_t = 1_800)]
    faults_seconds: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    test::run_with_cases(arguments.cases)?;
    test::run_faults(arguments.faults_seconds)?;
    sim::seeds(arguments.seeds)?;
    sim::cluster_seeds(arguments.seeds)?;
    sim::restores(arguments.seeds)?;
    fuzz::iterations(arguments.iterations)?;
    mutants::run_all()
}
