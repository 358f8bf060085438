//! What earlier runs gave. Every run is a line of JSON in `bench/history/SUITE.jsonl` of the target directory; runs are
//! shown side by side, with the change from each to the next.
//!
//! Rows are an array of objects. The texts of a row together are its name, the same in every run; its numbers are the
//! figures that are compared; lists, objects and the rest are kept and not looked at.

use crate::machine;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tenure_client::clock::{BootInstant, wall_time};

/// What a row measured, each with its name.
pub(crate) type Figures = Vec<(&'static str, f64)>;

/// Which runs are shown.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Show `core`, `polling`, `peers` or `cluster` [default: all with a history]
    suite: Option<String>,
    /// Show this many of the newest runs
    #[arg(long, value_name = "N", default_value_t = 4)]
    last: usize,
}

/// One run as it was kept.
#[derive(Clone, PartialEq, Debug)]
struct Run {
    date: String,
    revision: String,
    machine: String,
    /// The suite and its options.
    asked: String,
    /// Row, figure, value; in the order of the rows.
    figures: Vec<(String, String, f64)>,
}

/// A row as it is kept. Figures that are no number are left out: they were not measured.
pub(crate) fn row(name: &str, figures: &Figures, shown: &str, is_reached: bool) -> Value {
    let mut row = json!({ "name": name, "told": { "shown": shown, "reached": is_reached } });
    for (figure, value) in figures.iter().filter(|(_, value)| value.is_finite()) {
        row[*figure] = json!(value);
    }
    row
}

/// Keeps the rows of a run that has just ended.
pub(crate) fn keep(suite: &str, rows: &Value) -> Result<()> {
    let directory = directory()?;
    fs::create_dir_all(&directory)?;
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let run = json!({
        "date": wall_time(BootInstant::now()),
        "revision": revision(),
        "machine": machine::described()?,
        "asked": asked.join(" "),
        "rows": rows,
    });
    let path = directory.join(suite).with_extension("jsonl");
    let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
    // One write: two runs at once leave two lines.
    file.write_all(format!("{run}\n").as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

/// The last runs of one suite, or of all that were ever run.
pub(crate) fn shown(arguments: &Arguments) -> Result<String> {
    let directory = directory()?;
    let mut text = String::new();
    for suite in suites(&directory) {
        if arguments.suite.as_ref().is_some_and(|wanted| *wanted != suite) {
            continue;
        }
        let lines = fs::read_to_string(directory.join(&suite).with_extension("jsonl"))?;
        let runs: Vec<Run> = lines.lines().filter_map(read).collect();
        let _ = writeln!(text, "## {suite}\n\n{}", side_by_side(&runs, arguments.last));
        let unreadable = lines.lines().count() - runs.len();
        if unreadable > 0 {
            let _ = writeln!(text, "{unreadable} lines could not be read.\n");
        }
    }
    if text.is_empty() {
        bail!("there is no run in {} yet", directory.display());
    }
    Ok(text)
}

/// Beside the directory of the build that runs.
fn directory() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).context("this program stands in no target directory")?;
    Ok(target.join("bench").join("history"))
}

fn suites(directory: &Path) -> Vec<String> {
    let paths = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let kept = paths.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    let mut suites: Vec<String> =
        kept.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    suites.sort();
    suites
}

/// What was measured, as git names it; marked where it was not committed.
fn revision() -> String {
    let output = Command::new("git").args(["describe", "--always", "--dirty=+", "--exclude=*"]).output();
    let text = output.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    let text = text.and_then(|text| String::from_utf8(text).ok()).unwrap_or_default();
    if text.trim().is_empty() { "unknown".to_owned() } else { text.trim().to_owned() }
}

fn read(line: &str) -> Option<Run> {
    let run: Value = serde_json::from_str(line).ok()?;
    let text = |key: &str| run[key].as_str().map(str::to_owned);
    let mut figures = Vec::new();
    for row in run["rows"].as_array()? {
        let row = row.as_object()?;
        let name = row.values().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
        let numbers = row.iter().filter_map(|(figure, value)| Some((figure, value.as_f64()?)));
        figures.extend(numbers.map(|(figure, value)| (name.clone(), figure.clone(), value)));
    }
    let (date, revision, machine, asked) =
        (text("date")?, text("revision")?, text("machine")?, text("asked")?);
    Some(Run { date, revision, machine, asked, figures })
}

fn side_by_side(runs: &[Run], last: usize) -> String {
    let first = runs.len().saturating_sub(last);
    let mut text = String::new();
    for (number, Run { date, revision, machine, asked, .. }) in runs.iter().enumerate().skip(first) {
        let minute = date.get(..16).unwrap_or(date).replace('T', " ");
        let _ = writeln!(text, "{}. {minute}, {revision}, `{asked}`, {machine}", number + 1);
    }
    let numbers = (first..runs.len()).map(|number| format!(" {} |", number + 1));
    let _ = writeln!(text, "\n| row | figure |{}", numbers.collect::<String>());
    let _ = writeln!(text, "|---|---|{}", "---|".repeat(runs.len() - first));
    let by_run: Vec<HashMap<(&str, &str), f64>> = runs
        .iter()
        .map(|run| run.figures.iter().map(|(row, figure, value)| ((&**row, &**figure), *value)).collect())
        .collect();
    let mut listed: Vec<(&str, &str)> = Vec::new();
    // The newest run's order; what only earlier ones have comes after.
    for (row, figure, _) in runs[first..].iter().rev().flat_map(|run| &run.figures) {
        if !listed.contains(&(row, figure)) {
            listed.push((row, figure));
        }
    }
    for key in listed {
        let _ = write!(text, "| {} | {} |", key.0, key.1);
        for number in first..runs.len() {
            let Some(value) = by_run[number].get(&key) else {
                text.push_str(" – |");
                continue;
            };
            // Another machine or other options make another number; that is no change.
            let is_alike =
                |other: &Run| (&other.asked, &other.machine) == (&runs[number].asked, &runs[number].machine);
            let before = (0..number)
                .rev()
                .filter(|&before| is_alike(&runs[before]))
                .find_map(|before| by_run[before].get(&key));
            let change = before.map(|before| change(*before, *value)).unwrap_or_default();
            let _ = write!(text, " {}{change} |", number_of(*value));
        }
        text.push('\n');
    }
    text
}

fn change(before: f64, now: f64) -> String {
    if before == 0.0 {
        return if now == 0.0 { " (=)".to_owned() } else { String::new() };
    }
    format!(" ({:+.1} %)", 100.0 * (now - before) / before.abs())
}

/// Four digits are more than any of these figures is good for.
fn number_of(value: f64) -> String {
    match value.abs() {
        v if v >= 1e6 => format!("{:.2} M", value / 1e6),
        v if v >= 1e4 => format!("{:.1} k", value / 1e3),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 1.0 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(asked: &str, machine: &str, ratio: f64) -> Run {
        let date = "2026-01-02T03:04:05.678Z".to_owned();
        let figures = vec![("grants".to_owned(), "ratio".to_owned(), ratio)];
        Run {
            date,
            revision: "abc".to_owned(),
            machine: machine.to_owned(),
            asked: asked.to_owned(),
            figures,
        }
    }

    #[test]
    fn a_row_is_read_as_it_was_kept() {
        let row = row("grants", &vec![("ratio", 0.5), ("p99_ms", f64::NAN)], "0.50 ×", true);
        let kept = json!({ "date": "2026-01-02T03:04:05.678Z", "revision": "abc", "machine": "m", "asked": "core",
                           "rows": [row] });
        assert_eq!(read(&kept.to_string()), Some(run("core", "m", 0.5)));
        assert_eq!(read("{\"date\":"), None);
    }

    #[test]
    fn a_row_is_known_by_all_of_its_texts() {
        let row = json!({ "peer": "Redis", "what": "acquire", "median": 3.0, "rounds": [2.0, 3.0, 4.0] });
        let kept = json!({ "date": "", "revision": "", "machine": "", "asked": "peers", "rows": [row] });
        let figures = read(&kept.to_string()).map(|run| run.figures);
        assert_eq!(figures, Some(vec![("Redis, acquire".to_owned(), "median".to_owned(), 3.0)]));
    }

    #[test]
    fn only_runs_of_the_same_kind_are_compared() {
        let runs = [
            run("core", "m", 0.5),
            run("core --quick", "m", 0.9),
            run("core", "m", 0.55),
            run("core", "other", 2.0),
        ];
        let text = side_by_side(&runs, 3);
        assert!(text.starts_with("2. 2026-01-02 03:04, abc, `core --quick`, m\n3. "), "{text}");
        assert!(text.ends_with("| grants | ratio | 0.900 | 0.550 (+10.0 %) | 2.00 |\n"), "{text}");
    }

    #[test]
    fn a_change_from_nothing_has_no_part() {
        assert_eq!(change(0.0, 0.0), " (=)");
        assert_eq!(change(0.0, 3.0), "");
        assert_eq!(change(-2.0, -1.0), " (+50.0 %)");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [1_072_345.0, 11_400.0, 254.2, 17.25, 0.126].map(number_of).join(" "),
            "1.07 M 11.4 k 254 17.25 0.126"
        );
    }
}
