//! `cargo xtask test`: provides what the tests need, then runs every test.

use std::process::Command;

use anyhow::Result;

use crate::{needs, shell};

/// The schedule of faults in a cluster.
const FAULTS: &str = "package(tenure) & test(=cluster::schedule::faults_of_all_kinds_leave_no_anomaly)";

/// Install what the tests need, if missing, and run every test.
///
/// Without arguments: all tests of all packages, then the examples in the documentation.
/// With arguments: they go to `cargo nextest run`, and the documentation is left out.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Arguments for `cargo nextest run`: a part of a test's name, `-p PACKAGE`, `-E FILTER`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    for_nextest: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    needs::provide(needs::FOR_TESTS)?;
    if !arguments.for_nextest.is_empty() {
        return shell::run(some().args(&arguments.for_nextest));
    }
    shell::run(&mut shipped())?;
    shell::run(&mut planted())?;
    shell::run(&mut documentation())
}

/// Runs every test and returns the runners' own closing lines.
pub(crate) fn run_all_for_ci() -> Result<Vec<String>> {
    needs::provide(needs::FOR_TESTS)?;
    // With it tests would rewrite the expected values in the sources instead of comparing with them.
    let for_ci = |mut tests: Command| {
        tests.args(["--profile", "ci"]).env_remove("UPDATE_EXPECT");
        shell::run_keeping(&mut tests, is_closing_line)
    };
    let summary = for_ci(shipped())?;
    let mut closing = for_ci(planted())?;
    closing.extend(shell::run_keeping(&mut documentation(), is_closing_line)?);
    // Last, because it counts nearly all of the tests.
    closing.extend(summary);
    Ok(closing)
}

/// Runs every test with many more cases per property, and tests that come in rounds with many more rounds.
pub(crate) fn run_with_cases(cases: u32) -> Result<()> {
    needs::provide(needs::FOR_TESTS)?;
    for mut tests in [shipped(), planted()] {
        tests.args(["--profile", "soak"]);
        shell::run(tests.env("PROPTEST_CASES", cases.to_string()).env("TENURE_SOAK", "1"))?;
    }
    Ok(())
}

/// Runs the schedule of faults in a cluster alone, for this time, and shows its figures.
pub(crate) fn run_faults(seconds: u64) -> Result<()> {
    needs::provide(needs::FOR_TESTS)?;
    let mut tests = shipped();
    tests.args(["--profile", "soak", "--success-output", "immediate", "-E", FAULTS]);
    shell::run(tests.env("TENURE_CLUSTER_SECONDS", seconds.to_string()))
}

/// Every test but those of planted bugs, of the code as it is shipped: the simulator, which needs those bugs, would have
/// them compiled into everything that is built together with it.
fn shipped() -> Command {
    let mut command = shell::cargo(["nextest", "run", "--workspace", "--exclude", "tenure-sim"]);
    command.args(["--features", "tenure-api/schema,tenure-log/contract"]).args(shell::locked());
    command
}

/// The simulator's tests, and in the crates below it those that a planted bug must make fail.
fn planted() -> Command {
    let mut command = shell::cargo(["nextest", "run", "--all-features"]);
    command.args(["-p", "tenure-sim", "-p", "tenure-liveness", "-p", "tenure-log"]).args(shell::locked());
    command.args(["-E", "package(tenure-sim) | test(/planted/)"]);
    command
}

/// What the caller chooses, with every feature.
fn some() -> Command {
    let mut command = shell::cargo(["nextest", "run", "--workspace", "--all-features"]);
    command.args(shell::locked());
    command
}

fn documentation() -> Command {
    let mut command = shell::cargo(["test", "--doc", "--workspace", "--all-features"]);
    command.args(shell::locked());
    command
}

/// nextest closes with `Summary [ 1.2s] 90 tests run: 90 passed`, the documentation tests of
/// each package with `test result: ok. 3 passed; …`.
fn is_closing_line(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("Summary [") || line.starts_with("test result:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_of_both_runners_are_known() {
        assert!(is_closing_line("     Summary [   0.012s] 3 tests run: 3 passed, 0 skipped"));
        assert!(is_closing_line("test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured"));
        assert!(!is_closing_line("        PASS [   0.004s] xtask a::b"));
    }
}
