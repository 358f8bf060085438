//! The documents are true: every `console` block of them is run, in order, and prints what is printed there.
//!
//! Each document begins on a machine on which nothing runs: loopback only, empty directories, `tenure` in `PATH`. The
//! shell is at a terminal, 160 columns wide.
//!
//! - `$ …` is a command. It goes on below after a `\`, and in lines that begin with `> `. Other lines are its output:
//!   `…` is any text within a line, alone on a line any number of lines. A command without output is not compared.
//! - Lines of the shell about jobs and lines of the log with `INFO` are compared only where such a line is printed.
//! - A command succeeds, or prints a line that begins with `error:` or `Error:` and fails.
//! - `^C` is pressed when the lines above it were seen. A block that begins with it, or with output, is about the
//!   command that runs in its terminal.
//! - Words behind `console`: `terminal=2` for another shell; `runs` if the last command goes on when its output was
//!   seen; `host=b` for another machine. Where a host is named, or mDNS is spoken, there are a, b and c, 10.0.0.1 to
//!   10.0.0.3; `scp FILE b:` copies from one working directory to the other.

mod block;
mod matching;
mod readme_program;
mod stage;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use block::{Block, HOSTS, Step, Typed, blocks_of};
use matching::{blurred, is_about_job, is_info, is_whole, prefix_of};
use stage::{Host, Terminal};
use tempfile::TempDir;

use crate::run_support::boot_ms;

/// No command of a document takes longer.
const LIMIT_MS: u64 = 60_000;

/// For contributors, or written by the binary itself.
const NOT_RUN: [&str; 2] = ["docs/internals", "docs/reference"];

/// One test for each document, and the list of them.
macro_rules! documents {
    ($($name:ident $path:literal)*) => {
        const DOCUMENTS: &[&str] = &[$($path),*];
        $(
            #[test]
            fn $name() {
                let text = fs::read_to_string(root().join($path)).unwrap();
                if let Err(said) = run_blocks($path, &text, LIMIT_MS) {
                    panic!("{said}");
                }
            }
        )*
    };
}

documents! {
    readme "README.md"
    install "docs/install.md"
    quick_start "docs/quick-start.md"
    recipes "docs/recipes.md"
    cluster "docs/guides/cluster.md"
    containers "docs/guides/containers.md"
    dashboard "docs/guides/dashboard.md"
    fencing "docs/guides/fencing.md"
    mdns "docs/guides/mdns.md"
    operations "docs/guides/operations.md"
    polling "docs/guides/polling.md"
    polling_redis "docs/guides/polling-redis.md"
    run "docs/guides/run.md"
    security "docs/guides/security.md"
    sessions "docs/guides/sessions.md"
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The README and all documents but those in some directories: their paths and texts.
fn documents_outside(left_out: &[&str]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut paths = vec![PathBuf::from("README.md"), PathBuf::from("docs")];
    while let Some(path) = paths.pop() {
        let full = root().join(&path);
        if left_out.iter().any(|out| path == Path::new(out)) {
            continue;
        }
        if full.is_dir() {
            paths.extend(fs::read_dir(&full).unwrap().map(|entry| path.join(entry.unwrap().file_name())));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.insert(path.to_str().unwrap().to_owned(), fs::read_to_string(&full).unwrap());
        }
    }
    found
}

#[test]
fn every_document_with_blocks_to_run_has_a_test() {
    let mut found = documents_outside(&NOT_RUN);
    found.retain(|_, text| !blocks_of(text).is_ok_and(|blocks| blocks.is_empty()));
    let found: BTreeSet<String> = found.into_keys().collect();
    assert_eq!(
        found,
        DOCUMENTS.iter().map(|path| (*path).to_owned()).collect(),
        "left: with blocks, right: tested"
    );
}

/// A node without one of these does not start on an address that other machines reach, or only beside no other node.
const OF_A_NODE: [&str; 5] = ["--store etcd://", "--node ", "--bind ", "--advertise ", "--token-file "];

// The error of `tenure cluster` on a single daemon printed a command that does not start.
#[test]
fn every_printed_command_that_starts_a_node_starts() {
    let mut seen = 0;
    for (path, text) in documents_outside(&["docs/internals"]) {
        let text = text.replace("\\\n", " ");
        for line in text.lines().filter(|line| line.contains("tenure serve ") && line.contains("etcd://")) {
            let missing: Vec<&str> = OF_A_NODE.into_iter().filter(|flag| !line.contains(flag)).collect();
            assert!(missing.is_empty(), "{path}: {line}\nwithout {missing:?}");
            seen += 1;
        }
    }
    assert!(seen >= 5, "only {seen} commands found");
}

/// Runs the blocks of one document. Fails with what has to be read to mend it.
fn run_blocks(name: &str, text: &str, limit_ms: u64) -> Result<(), String> {
    let blocks = blocks_of(text).map_err(|(line, said)| format!("{name}:{line}: {said}"))?;
    if blocks.is_empty() {
        return Err(format!("{name}: no `console` block: nothing is run"));
    }
    // Machines end before their terminals, so that no process is left that could hold one open.
    let mut seats: BTreeMap<(&str, u32), Seat> = BTreeMap::new();
    let has_network = blocks.iter().any(needs_network);
    let names = if has_network { &HOSTS[..] } else { &HOSTS[..1] };
    let shared = TempDir::new().unwrap();
    let hosts: BTreeMap<&str, Host> =
        names.iter().map(|name| (*name, Host::new(name, shared.path()))).collect();
    let _switch = has_network.then(|| Host::connecting(&hosts.values().collect::<Vec<_>>(), shared.path()));
    for block in &blocks {
        let host = block.host.as_str();
        let seat = seats.entry((host, block.terminal)).or_insert_with(|| Seat::new(&hosts[host]));
        for (at, step) in block.steps.iter().enumerate() {
            let outcome = seat.take(step, block.goes_on(at), boot_ms() + limit_ms);
            outcome.map_err(|problem| seat.report(name, step, &problem))?;
        }
    }
    Ok(())
}

/// Whether the document is about several machines: the others are there from its begin.
fn needs_network(block: &Block) -> bool {
    let speaks_mdns = |step: &Step| match &step.typed {
        Typed::Command(text) => text.replace("--no-mdns", "").contains("mdns"),
        Typed::Key(_) | Typed::Nothing => false,
    };
    block.names_host || block.steps.iter().any(speaks_mdns)
}

/// A terminal and what is known of the command that runs there.
struct Seat {
    terminal: Terminal,
    /// The last command, while it may still run.
    running: Option<String>,
    /// Lines of it that were compared already.
    compared: usize,
}

impl Seat {
    fn new(host: &Host) -> Self {
        Self { terminal: Terminal::open(host), running: None, compared: 0 }
    }

    /// Types what is typed and waits for what is printed.
    fn take(&mut self, step: &Step, goes_on: bool, deadline: u64) -> Result<(), String> {
        match &step.typed {
            Typed::Command(text) => {
                if let Some(running) = &self.running {
                    let is_over = self.terminal.wait(deadline, |terminal| terminal.status().is_some());
                    is_over
                        .map_err(|why| format!("the terminal is not free: `{running}` runs there; {why}"))?;
                }
                self.terminal.command(text);
                (self.running, self.compared) = (Some(text.clone()), 0);
            }
            Typed::Key(key) => {
                self.running.as_ref().ok_or("no command runs in this terminal")?;
                self.compared = self.lines(step).len();
                self.terminal.key(*key);
            }
            Typed::Nothing => _ = self.running.as_ref().ok_or("no command runs in this terminal")?,
        }
        if goes_on || step.typed.is_background() {
            return self.see(step, deadline, goes_on);
        }
        self.terminal.wait(deadline, |terminal| terminal.status().is_some())?;
        self.running = None;
        let lines = self.lines(step);
        let lines: Vec<&str> = lines.iter().skip(self.compared).map(String::as_str).collect();
        if !step.expected.is_empty() && !is_whole(&lines, &step.expected) {
            return Err("the output differs".to_owned());
        }
        let is_error =
            step.expected.iter().any(|line| line.starts_with("error:") || line.starts_with("Error:"));
        match (self.terminal.status(), &step.typed) {
            (Some(0), Typed::Command(_)) if is_error => {
                Err("it succeeds, and an error is printed".to_owned())
            }
            (Some(status), Typed::Command(_)) if status != 0 && !is_error => {
                Err(format!("it fails with {status}"))
            }
            _ => Ok(()),
        }
    }

    /// Waits until the lines are there, however the command goes on.
    fn see(&mut self, step: &Step, deadline: u64, goes_on: bool) -> Result<(), String> {
        let mut seen = None;
        let compared = self.compared;
        self.terminal.wait(deadline, |terminal| {
            let lines = lines_of(&terminal.text(), step);
            let lines: Vec<&str> = lines.iter().skip(compared).map(String::as_str).collect();
            seen = prefix_of(&lines, &step.expected);
            let is_over = terminal.status().is_some();
            if goes_on { seen.is_some() || is_over } else { seen.is_some() && is_over }
        })?;
        self.compared += seen.ok_or("it has ended, and the output differs")?;
        if !goes_on {
            self.running = None;
        }
        Ok(())
    }

    fn lines(&self, step: &Step) -> Vec<String> {
        lines_of(&self.terminal.text(), step)
    }

    fn report(&self, name: &str, step: &Step, problem: &str) -> String {
        let indented = |lines: &[String]| match lines {
            [] => "    (nothing)".to_owned(),
            lines => lines.iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n"),
        };
        let actual = self.lines(step);
        let actual = &actual[self.compared.min(actual.len())..];
        let status =
            self.terminal.status().map_or("it still runs".to_owned(), |status| format!("status {status}"));
        let mut blurry: Vec<String> = actual.iter().map(|line| blurred(line)).collect();
        blurry.dedup_by(|next, before| *next == "…" && next == before);
        format!(
            "{name}:{}: {problem}\n{}\nexpected:\n{}\nactual ({status}):\n{}\nto paste, `…` for what looks like an id or a time:\n{}\n",
            step.line,
            step.typed.shown(),
            indented(&step.expected),
            indented(actual),
            blurry.join("\n"),
        )
    }
}

/// What was shown, line by line. Words of the shell about jobs and the daemon's ordinary log lines are there only if
/// the document prints such a line.
fn lines_of(text: &str, step: &Step) -> Vec<String> {
    let prints_jobs = step.expected.iter().any(|line| is_about_job(line));
    let prints_info = step.expected.iter().any(|line| line.contains(" INFO "));
    let lines = text.lines().filter(|line| prints_jobs || !is_about_job(line));
    lines.filter(|line| prints_info || !is_info(line)).map(|line| line.trim_end().to_owned()).collect()
}

/// Documents of the test's own: each way to say something, and each way to fail.
mod samples {
    use super::{LIMIT_MS, run_blocks};

    #[test]
    fn what_is_printed_is_what_happens() {
        run_blocks("one.md", include_str!("documents/samples/one.md"), LIMIT_MS)
            .unwrap_or_else(|said| panic!("{said}"));
    }

    #[test]
    fn machines_have_a_network() {
        run_blocks("three.md", include_str!("documents/samples/three.md"), LIMIT_MS)
            .unwrap_or_else(|said| panic!("{said}"));
    }

    #[track_caller]
    fn fails(lines: &str, words: &[&str]) {
        let said = run_blocks("sample.md", &format!("```console\n{lines}\n```\n"), 1_000).unwrap_err();
        for word in words {
            assert!(said.contains(word), "no {word:?} in\n{said}");
        }
    }

    #[test]
    fn what_differs_is_shown_to_be_pasted() {
        let printed = "$ true\n$ printf 'lease %s\\nof bob\\n' k3f9-1042\nlease 7";
        fails(
            printed,
            &["sample.md:3: the output differs", "    lease 7\n", "    lease k3f9-1042\n", "\nlease …\n"],
        );
    }

    #[test]
    fn failing_and_succeeding_are_printed() {
        fails("$ false", &["sample.md:2: it fails with 1", "$ false"]);
        fails("$ echo error: no\nerror: …", &["sample.md:2: it succeeds"]);
        fails("$ exit", &["sample.md:2: the shell has ended"]);
        fails("$ ls &&&", &["sample.md:2: it fails with 2", "syntax error"]);
    }

    #[test]
    fn a_command_that_does_not_end_is_not_waited_for() {
        fails("$ cat", &["sample.md:2: it takes too long", "it still runs"]);
        let blocks = "$ true\n```\n```console runs\n$ echo on; cat\non\n```\n```console\n$ true";
        fails(blocks, &["sample.md:9: the terminal is not free: `echo on; cat` runs there"]);
        fails("$ true\n```\n```console runs\n$ echo off\non", &["sample.md:5: it has ended", "status 0"]);
        fails("^C", &["sample.md:2: no command runs"]);
    }

    #[test]
    fn a_broken_convention_fails() {
        fails("", &["sample.md:3: a block without a command"]);
        assert!(
            run_blocks("sample.md", "```sh\n$ true\n```\n", 1_000).unwrap_err().contains("nothing is run")
        );
    }
}
