//! `cargo xtask instructions`: how many instructions the hot paths take, beside what was accepted. Instructions are
//! counted, not timed: a busy machine counts the same. The paths are `bench/instructions/`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::MetadataCommand;
use toml::{Table, Value};

use crate::{needs, shell};

/// Count the instructions of the hot paths and compare them with what was accepted.
///
/// Installs valgrind if it is missing. A path that takes clearly more or clearly fewer instructions than the file says
/// fails the run.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Write the counts of this run to the file, to be committed with what changed them.
    #[arg(long)]
    accept: bool,
}

/// Instructions per operation, by path.
type Counts = BTreeMap<String, u64>;

/// A path that is not as it was accepted.
#[derive(Debug, PartialEq)]
struct Difference {
    path: String,
    what: String,
}

const PACKAGE: &str = "tenure-instructions";
/// As callgrind spells the function within which it counts.
const COUNTED: &str = "tenure_instructions::counted";
const ACCEPTED: &str = "bench/instructions/accepted.toml";
/// Two runs count the same to the instruction. Other versions of the C library and of valgrind may not; a needless
/// allocation in a grant, about 2.5 %, is to be noticed.
const TOLERANCE_PERCENT: f64 = 2.0;

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let counts = count_all()?;
    let file = shell::root().join(ACCEPTED);
    let accepted = match fs::read_to_string(&file) {
        Ok(text) => read_accepted(&text).with_context(|| ACCEPTED.to_owned())?,
        Err(_) => Counts::new(),
    };
    println!("{}", table(&counts, &accepted));
    if arguments.accept {
        return fs::write(&file, written(&counts)).with_context(|| format!("cannot write {ACCEPTED}"));
    }
    let differences = differences(&counts, &accepted);
    if differences.is_empty() {
        return Ok(());
    }
    for Difference { path, what } in &differences {
        println!("{path}: {what}");
    }
    let paths: Vec<&str> = differences.iter().map(|difference| difference.path.as_str()).collect();
    bail!(
        "not as accepted: {}; to see where they spend it: callgrind_annotate {}/FILE; if it is meant: cargo xtask \
         instructions --accept",
        paths.join("; "),
        dumps()?.display()
    )
}

/// Compares; never writes.
pub(crate) fn check() -> Result<()> {
    run(&Arguments { accept: false })
}

fn count_all() -> Result<Counts> {
    needs::provide(needs::FOR_INSTRUCTIONS)?;
    let mut build = shell::cargo(["build", "--quiet", "--profile", "instructions", "--package", PACKAGE]);
    shell::run(build.args(shell::locked()))?;
    let (program, dumps) = (target()?.join("instructions").join(PACKAGE), dumps()?);
    fs::create_dir_all(&dumps)?;
    let listed = shell::read(&mut Command::new(&program))?;
    listed
        .lines()
        .map(|line| {
            let (operations, path) = line.split_once('\t').context("a path without its operations")?;
            let total = count(&program, path, &dumps)?;
            Ok((path.to_owned(), total.div_ceil(operations.parse()?)))
        })
        .collect()
}

fn target() -> Result<PathBuf> {
    let metadata = MetadataCommand::new().current_dir(shell::root()).no_deps().exec()?;
    Ok(metadata.target_directory.into_std_path_buf())
}

/// What callgrind wrote, a file per path.
fn dumps() -> Result<PathBuf> {
    Ok(target()?.join("callgrind"))
}

/// All instructions of one path. A process of its own, so that none depends on what ran before it.
fn count(program: &Path, path: &str, dumps: &Path) -> Result<u64> {
    let dump = dumps.join(file_name(path));
    let name = program.file_name().context("the program has no name")?;
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--tool=callgrind", &format!("--toggle-collect={COUNTED}")]);
    command.arg(format!("--callgrind-out-file={}", dump.display()));
    // Where the stack begins moves with the environment and the program's path, and with it how bytes are copied.
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.current_dir(program.parent().unwrap_or(Path::new(".")));
    shell::read(command.arg(PathBuf::from(".").join(name)).arg(path))?;
    let text = fs::read_to_string(&dump).with_context(|| format!("{} was not written", dump.display()))?;
    let total = total(&text).with_context(|| format!("{} has no total", dump.display()))?;
    ensure!(total > 0, "nothing was counted for `{path}`: no function is called {COUNTED}");
    Ok(total)
}

fn total(dump: &str) -> Option<u64> {
    dump.lines().find_map(|line| line.strip_prefix("totals: "))?.trim().parse().ok()
}

fn file_name(path: &str) -> String {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-") + ".out"
}

fn read_accepted(text: &str) -> Result<Counts> {
    let count = |(path, value): (String, Value)| {
        let count = value.as_integer().and_then(|count| u64::try_from(count).ok());
        Ok((path.clone(), count.with_context(|| format!("{path} is no count"))?))
    };
    text.parse::<Table>()?.into_iter().map(count).collect()
}

fn written(counts: &Counts) -> String {
    let mut text = String::from(
        "# Instructions per operation of each hot path. Written by `cargo xtask instructions --accept`.\n",
    );
    for (path, count) in counts {
        let _ = writeln!(text, "{path:?} = {count}");
    }
    text
}

fn change_percent(count: u64, accepted: u64) -> f64 {
    100.0 * (count as f64 - accepted as f64) / accepted.max(1) as f64
}

fn differences(counts: &Counts, accepted: &Counts) -> Vec<Difference> {
    let mut found = Vec::new();
    for (path, &count) in counts {
        let what = match accepted.get(path) {
            None => "was never accepted".to_owned(),
            Some(&was) => match change_percent(count, was) {
                change if change > TOLERANCE_PERCENT => {
                    format!("takes {change:.1} % more than the {was} that were accepted")
                }
                change if change < -TOLERANCE_PERCENT => {
                    format!("takes {:.1} % fewer than the {was} that were accepted: keep it", -change)
                }
                _ => continue,
            },
        };
        found.push(Difference { path: path.clone(), what });
    }
    let gone = accepted.keys().filter(|path| !counts.contains_key(*path));
    found.extend(
        gone.map(|path| Difference { path: path.clone(), what: "is not counted any more".to_owned() }),
    );
    found
}

fn table(counts: &Counts, accepted: &Counts) -> String {
    let mut text = format!("{:<46}{:>13}{:>10}{:>10}\n", "path", "instructions", "accepted", "change");
    for (path, &count) in counts {
        let (was, change) = match accepted.get(path) {
            None => ("–".to_owned(), "–".to_owned()),
            Some(&was) => (was.to_string(), format!("{:+.1} %", change_percent(count, was))),
        };
        let _ = writeln!(text, "{path:<46}{count:>13}{was:>10}{change:>10}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(&str, u64)]) -> Counts {
        of.iter().map(|(path, count)| ((*path).to_owned(), *count)).collect()
    }

    fn found(now: &[(&str, u64)], accepted: &[(&str, u64)]) -> Vec<String> {
        let all = differences(&counts(now), &counts(accepted));
        all.into_iter().map(|difference| format!("{} {}", difference.path, difference.what)).collect()
    }

    #[test]
    fn what_lies_within_the_tolerance_is_as_accepted() {
        assert_eq!(found(&[("a", 1_020), ("b", 980)], &[("a", 1_000), ("b", 1_000)]), [""; 0]);
    }

    #[test]
    fn more_and_fewer_instructions_are_both_told() {
        assert_eq!(
            found(&[("a", 1_021), ("b", 900)], &[("a", 1_000), ("b", 1_000)]),
            [
                "a takes 2.1 % more than the 1000 that were accepted",
                "b takes 10.0 % fewer than the 1000 that were accepted: keep it"
            ]
        );
    }

    #[test]
    fn paths_that_came_or_went_are_told() {
        assert_eq!(found(&[("a", 1)], &[("b", 1)]), ["a was never accepted", "b is not counted any more"]);
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let some = counts(&[
            ("engine: turn of 64 acquires", 7_460),
            ("kernel: grant + release, 10,000 live", 5_978),
        ]);
        assert_eq!(read_accepted(&written(&some)).unwrap(), some);
        assert!(read_accepted("a = \"many\"").is_err());
    }

    #[test]
    fn the_total_of_a_dump_is_found() {
        assert_eq!(total("events: Ir\nsummary: 7\n\ntotals: 5257470\n"), Some(5_257_470));
        assert_eq!(total("events: Ir\n"), None);
    }

    #[test]
    fn a_path_names_its_dump() {
        assert_eq!(file_name("kernel: grant + release, 10,000 live"), "kernel-grant-release-10-000-live.out");
    }
}
