//! `cargo xtask bench`: the benchmarks, optimised. Their options are defined once, there.

use anyhow::Result;

use crate::shell;

/// Measure, side by side in one run.
///
/// `cargo xtask bench core --quick` measures kernel, log and engine briefly.
/// `cargo xtask bench --help` is the benchmarks' own help.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// `core`, `--quick`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    for_bench: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut command = shell::cargo(["run", "--quiet", "--release", "--package", "tenure-bench"]);
    command.args(shell::locked()).arg("--");
    shell::run(command.args(&arguments.for_bench))
}
