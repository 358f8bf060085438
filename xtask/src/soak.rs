//! `cargo xtask soak`: the long loops, for nights and before releases.

use anyhow::Result;

use crate::{fuzz, mutants, sim, test};

/// Run the long loops: many seeds, many cases per property, long fuzzing, mutants.
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
    /// Seconds per libFuzzer target, where nightly, cargo-fuzz and targets are there.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    libfuzzer: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    test::run_with_cases(arguments.cases)?;
    sim::seeds(arguments.seeds)?;
    fuzz::iterations(arguments.iterations)?;
    if fuzz::has_libfuzzer() {
        fuzz::libfuzzer(arguments.libfuzzer, None)?;
    } else {
        println!("libFuzzer: no targets, no nightly or no cargo-fuzz; the deterministic run stands alone");
    }
    mutants::run_all()
}
