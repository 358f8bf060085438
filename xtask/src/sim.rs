//! `cargo xtask sim`: the deterministic simulator, optimised. Its options are defined once, there.

use anyhow::Result;

use crate::shell;

/// Run the deterministic simulator.
///
/// `cargo xtask sim SEED --trace` replays one seed, `--seeds N` runs N of them, `--plant NAME`
/// breaks the product on purpose. `cargo xtask sim --help` is the simulator's own help.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// `SEED`, `--cluster`, `--restores`, `--seeds N`, `--steps N`, `--trace`, `--plant NAME`, `--list-plants`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    for_sim: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // The profile `sim` unwinds: a panic of the product is something a seed found, not the end of the search.
    let mut command = shell::cargo(["run", "--quiet", "--profile", "sim", "--package", "tenure-sim"]);
    command.args(shell::locked()).arg("--");
    shell::run(command.args(&arguments.for_sim))
}

/// Runs that many seeds of several nodes over a remote log.
pub(crate) fn cluster_seeds(count: u64) -> Result<()> {
    run(&Arguments { for_sim: vec!["--cluster".to_owned(), "--seeds".to_owned(), count.to_string()] })
}

/// Runs that many seeds of a store that is put back to backups.
pub(crate) fn restores(count: u64) -> Result<()> {
    run(&Arguments { for_sim: vec!["--restores".to_owned(), "--seeds".to_owned(), count.to_string()] })
}

/// Runs that many seeds.
pub(crate) fn seeds(count: u64) -> Result<()> {
    run(&Arguments { for_sim: vec!["--seeds".to_owned(), count.to_string()] })
}
