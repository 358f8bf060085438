//! `cargo xtask fuzz`: bytes against the decoders and parsers. The deterministic run needs only
//! the stable toolchain; libFuzzer joins in where nightly and cargo-fuzz are there.

use std::fs;
use std::process::Command;

use anyhow::Result;

use crate::shell;

/// Feed damaged bytes to every decoder and parser.
///
/// Always runs the deterministic, corpus-driven fuzzer. With `--libfuzzer SECONDS` also runs each
/// target in `fuzz/fuzz_targets` under libFuzzer, which needs a nightly toolchain and cargo-fuzz.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Inputs per target in the deterministic run.
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    iterations: u64,
    /// One target instead of all.
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// Also run libFuzzer, this many seconds per target.
    #[arg(long, value_name = "SECONDS")]
    libfuzzer: Option<u64>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    deterministic(arguments.iterations, arguments.target.as_deref())?;
    match arguments.libfuzzer {
        Some(seconds) => libfuzzer(seconds, arguments.target.as_deref()),
        None => Ok(()),
    }
}

/// Runs every target deterministically.
pub(crate) fn iterations(count: u64) -> Result<()> {
    deterministic(count, None)
}

/// Whether `--libfuzzer` can work on this machine.
pub(crate) fn has_libfuzzer() -> bool {
    shell::root().join("fuzz/fuzz_targets").is_dir()
        && shell::succeeds(Command::new("rustup").args(["run", "nightly", "cargo", "--version"]))
        && shell::succeeds(Command::new("cargo").args(["fuzz", "--version"]))
}

fn deterministic(iterations: u64, target: Option<&str>) -> Result<()> {
    let mut command = shell::cargo(["run", "--quiet", "--release", "--package", "tenure-fuzz"]);
    command.args(shell::locked());
    command.args(["--", "run", "--iterations", &iterations.to_string()]);
    if let Some(target) = target {
        command.args(["--target", target]);
    }
    shell::run(&mut command)
}

/// Runs each libFuzzer target, or the named one, for so many seconds.
pub(crate) fn libfuzzer(seconds: u64, only: Option<&str>) -> Result<()> {
    let mut targets = Vec::new();
    for entry in fs::read_dir(shell::root().join("fuzz/fuzz_targets"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs")
            && let Some(name) = path.file_stem().and_then(|stem| stem.to_str())
            && only.is_none_or(|only| only == name)
        {
            targets.push(name.to_owned());
        }
    }
    targets.sort();
    anyhow::ensure!(!targets.is_empty(), "no such target in fuzz/fuzz_targets");
    for target in targets {
        let mut command = Command::new("rustup");
        command.current_dir(shell::root());
        command.args(["run", "nightly", "cargo", "fuzz", "run", &target, "--"]);
        shell::run(command.arg(format!("-max_total_time={seconds}")))?;
    }
    Ok(())
}
