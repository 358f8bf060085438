//! `cargo xtask fuzz`: bytes against the decoders. Deterministic, and on the stable toolchain.

use anyhow::Result;

use crate::shell;

/// Feed damaged bytes to every decoder.
///
/// Mutates the golden files in a way that is the same in every run; a finding names the iteration
/// that replays it.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Inputs per target.
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    iterations: u64,
    /// One target instead of all.
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
}

/// With fewer inputs the build would take longer than they do; what the tests were built with is there already.
const WORTH_A_RELEASE: u64 = 100_000;

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    deterministic(arguments.iterations, arguments.target.as_deref())
}

/// Runs every target deterministically.
pub(crate) fn iterations(count: u64) -> Result<()> {
    deterministic(count, None)
}

fn deterministic(iterations: u64, target: Option<&str>) -> Result<()> {
    let profile = if iterations > WORTH_A_RELEASE { "release" } else { "test" };
    let mut command = shell::cargo(["run", "--quiet", "--profile", profile, "--package", "tenure-fuzz"]);
    command.args(shell::locked());
    command.args(["--", "run", "--iterations", &iterations.to_string()]);
    if let Some(target) = target {
        command.args(["--target", target]);
    }
    shell::run(&mut command)
}
