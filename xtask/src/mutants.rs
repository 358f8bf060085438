//! `cargo xtask mutants`: changes the rules one by one and asks whether a test notices.

use std::fs;

use anyhow::{Result, bail};

use crate::{needs, shell};

/// Mutate kernel and liveness and report the changes that no test notices.
///
/// Installs cargo-mutants if missing. Survivors are listed in `mutants.out/missed.txt`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Arguments for `cargo mutants`: `--file PATTERN`, `--shard 1/4`, `--list`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    for_mutants: Vec<String>,
}

const PACKAGES: &[&str] = &["tenure-kernel", "tenure-liveness"];

/// `cargo mutants` ends with these when it has judged every mutant: all caught, some missed, some
/// that ran out of time. Anything else means that it did not get that far.
const JUDGED: &[i32] = &[0, 2, 3];

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    needs::provide(needs::FOR_MUTANTS)?;
    let mut command = shell::cargo(["mutants"]);
    for package in PACKAGES {
        command.args(["--package", package]);
    }
    let status = shell::status(command.args(&arguments.for_mutants))?;
    if !status.code().is_some_and(|code| JUDGED.contains(&code)) {
        bail!("cargo mutants did not finish: {status}");
    }
    let count = |list: &str| {
        fs::read_to_string(shell::root().join("mutants.out").join(list)).map_or(0, |text| lines(&text))
    };
    let (caught, missed, timeout) = (count("caught.txt"), count("missed.txt"), count("timeout.txt"));
    println!(
        "mutants: {missed} survived of {} ({caught} caught, {timeout} ran out of time)",
        missed + caught + timeout
    );
    Ok(())
}

/// Runs over all of kernel and liveness.
pub(crate) fn run_all() -> Result<()> {
    run(&Arguments { for_mutants: Vec::new() })
}

fn lines(text: &str) -> usize {
    text.lines().filter(|line| !line.trim().is_empty()).count()
}

#[cfg(test)]
mod tests {
    #[test]
    fn empty_lines_are_no_mutants() {
        assert_eq!(super::lines("a.rs:1: x\n\nb.rs:2: y\n"), 2);
    }
}
