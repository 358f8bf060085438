//! `cargo xtask ci`: exactly what CI runs. Stops at the first failure; writes no tracked file.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::{fuzz, instructions, shell, sim, test, tidy};

/// Run all checks: format, clippy, tidy, every test, instruction counts, simulator seeds, decoders, documentation.
///
/// This is what `.ci/run` calls. It never writes to tracked files; `cargo xtask fix` does.
#[derive(clap::Args)]
pub(crate) struct Arguments {}

struct Step {
    name: &'static str,
    /// Returns lines worth repeating at the end.
    run: fn() -> Result<Vec<String>>,
}

/// Cheap steps first. `cargo deny` is not among them: building it takes minutes, and `tidy` checks
/// licences, bans and sources against the same `deny.toml`.
const STEPS: &[Step] = &[
    Step { name: "fmt", run: || quiet(shell::run(&mut shell::cargo(["fmt", "--all", "--check"]))) },
    Step { name: "tidy", run: || quiet(tidy::run(&tidy::Arguments {})) },
    Step { name: "clippy", run: || quiet(clippy()) },
    Step { name: "test", run: test::run_all_for_ci },
    Step { name: "instructions", run: || quiet(instructions::check()) },
    Step {
        name: "sim",
        run: || {
            quiet(
                sim::seeds(SEEDS)
                    .and_then(|()| sim::cluster_seeds(CLUSTER_SEEDS))
                    .and_then(|()| sim::restores(RESTORES)),
            )
        },
    },
    Step { name: "fuzz", run: || quiet(fuzz::iterations(ITERATIONS)) },
    Step { name: "doc", run: || quiet(doc()) },
];

const SEEDS: u64 = 300;
const CLUSTER_SEEDS: u64 = 200;
const RESTORES: u64 = 5_000;
const ITERATIONS: u64 = 20_000;

pub(crate) fn run(_: &Arguments) -> Result<()> {
    let mut report = Report::default();
    let begun = Instant::now();
    let outcome = STEPS.iter().try_for_each(|step| report.take(step));
    let total = begun.elapsed();
    println!("\n{}", summary(&report.taken, total));
    // Also after a later step has failed: the end of the output says how the tests went.
    for line in report.closing {
        println!("{line}");
    }
    outcome
}

/// What is known when a run ends, well or not.
#[derive(Default)]
struct Report {
    taken: Vec<(&'static str, Duration)>,
    /// The test runners' own closing lines.
    closing: Vec<String>,
}

impl Report {
    fn take(&mut self, step: &Step) -> Result<()> {
        println!("\n=== {} ===", step.name);
        let begun = Instant::now();
        let lines = (step.run)().with_context(|| format!("ci stopped at {}", step.name))?;
        let time = begun.elapsed();
        println!("=== {} took {:.1} s ===", step.name, time.as_secs_f64());
        self.taken.push((step.name, time));
        self.closing.extend(lines);
        Ok(())
    }
}

fn quiet(outcome: Result<()>) -> Result<Vec<String>> {
    outcome.map(|()| Vec::new())
}

/// Everything with every feature; then the product alone as it is shipped, because the features
/// for planted bugs change what is compiled.
fn clippy() -> Result<()> {
    let mut command = shell::cargo(["clippy", "--workspace", "--all-targets", "--all-features"]);
    command.args(shell::locked());
    shell::run(command.args(["--", "-D", "warnings"]))?;
    let mut shipped = shell::cargo(["clippy", "--package", "tenure"]);
    shipped.args(shell::locked());
    shell::run(shipped.args(["--", "-D", "warnings"]))
}

fn doc() -> Result<()> {
    let mut command = shell::cargo(["doc", "--no-deps", "--workspace", "--all-features"]);
    command.args(shell::locked());
    shell::run(command.env("RUSTDOCFLAGS", "-D warnings"))
}

fn summary(taken: &[(&str, Duration)], total: Duration) -> String {
    let mut table = String::new();
    for (name, time) in taken {
        table += &format!("{name:<14}{:>8.1} s  ok\n", time.as_secs_f64());
    }
    table += &format!("{:<14}{:>8.1} s\n", "total", total.as_secs_f64());
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_step_is_named_and_not_counted() {
        let mut report = Report::default();
        let good = Step { name: "good", run: || Ok(vec!["Summary".to_owned()]) };
        let bad = Step { name: "bad", run: || anyhow::bail!("broken") };
        report.take(&good).unwrap();
        let error = report.take(&bad).unwrap_err();
        assert_eq!(format!("{error:#}"), "ci stopped at bad: broken");
        assert_eq!(report.taken.len(), 1);
        assert_eq!(report.closing, ["Summary"]);
    }

    #[test]
    fn summary_has_a_line_per_step_and_the_total() {
        let table = summary(&[("fmt", Duration::from_millis(1500))], Duration::from_secs(90));
        assert_eq!(table, "fmt                1.5 s  ok\ntotal             90.0 s\n");
    }
}
