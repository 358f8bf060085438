//! Things that only certain places may do: read a clock, sleep, start a thread, do IO; and matches
//! that must name every arm. Clippy bans some of it by type; this also knows the places.
//! An exception is one more path in `places`, with the reason in the commit.

use super::Finding;
use super::rust_source::{identifiers, lines_with, numbered};
use super::tree::{File, Tree};

/// Words that only `places` may contain in code. Paths are prefixes.
struct ReservedWords {
    words: &'static [&'static str],
    scope: &'static [&'static str],
    places: &'static [&'static str],
    tests: Tests,
    why: &'static str,
}

/// Whether tests and benchmarks are bound by the rule too.
#[derive(PartialEq, Eq)]
enum Tests {
    Bound,
    Free,
}

const WORDS: &[ReservedWords] = &[
    ReservedWords {
        words: &[
            "Instant::now",
            "SystemTime::now",
            "UNIX_EPOCH.elapsed",
            "clock_gettime",
            "rustix::time",
            "Timespec",
        ],
        scope: &[""],
        places: &[
            "crates/engine/src/host.rs",
            "crates/client/src/clock.rs",
            // Deadlines of its own work; nothing durable rests on them.
            "crates/mdns/src/clock.rs",
            // A timer of the system on boot time; it is set, not read.
            "crates/tenure/src/run/alarm.rs",
            "crates/tenure/src/commands/bench",
            "bench/",
            "xtask/",
        ],
        tests: Tests::Free,
        why: "time enters as a value; only engine/host.rs, client/clock.rs, mdns/clock.rs and the load of `tenure bench` read a clock",
    },
    ReservedWords {
        words: &["thread::sleep"],
        scope: &[""],
        places: &["xtask/"],
        tests: Tests::Bound,
        why: "nobody sleeps: wait for a deadline, a readiness line or a condition",
    },
    ReservedWords {
        words: &["process::exit"],
        scope: &[""],
        places: &[],
        tests: Tests::Bound,
        why: "main returns ExitCode",
    },
    ReservedWords {
        words: &["thread::spawn", "thread::Builder", "thread::scope", "mpsc"],
        scope: &["crates/engine/src/"],
        places: &["crates/engine/src/host.rs", "crates/engine/src/host/"],
        tests: Tests::Free,
        why: "a turn has no thread and no channel; engine/host.rs alone adds them",
    },
    ReservedWords {
        words: &["RandomState"],
        scope: PURE,
        places: &[],
        tests: Tests::Free,
        why: "iteration order never depends on a hash; use a fixed hasher or a BTreeMap",
    },
];

/// Crates that are functions of their input.
const PURE: &[&str] = &["crates/kernel/src/", "crates/liveness/src/"];

/// Modules and types of `std` that a crate must not use, directly or in a braced `use`.
struct ReservedStd {
    modules: &'static [&'static str],
    scope: &'static [&'static str],
    why: &'static str,
}

const STD_MODULES: &[ReservedStd] = &[
    ReservedStd {
        modules: &["env", "fs", "io", "net", "os", "process", "thread"],
        scope: PURE,
        why: "kernel and liveness are pure: no IO, no threads, no environment",
    },
    ReservedStd {
        modules: &["collections::HashMap", "collections::HashSet"],
        scope: PURE,
        why: "its order is random; use a fixed hasher or a BTreeMap",
    },
    ReservedStd {
        modules: &["fs", "net"],
        scope: &["crates/sim/src/"],
        why: "the simulator has no real disk and no network",
    },
];

/// Files in which a match names every arm, so that a new state does not compile until answered.
/// Where bytes are matched, bind the rest by name: `unknown => Err(…)`.
const EXHAUSTIVE: &[&str] = &[
    "crates/kernel/src/decide",
    "crates/kernel/src/evolve",
    "crates/kernel/src/codec",
    "crates/engine/src",
    "crates/faces/src/dispatch",
];

/// Clocks, sleeping, exits, threads and channels.
pub(super) fn check_words(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, views) in tree.rust() {
        for rule in WORDS {
            if !begins_with_any(file, rule.scope)
                || begins_with_any(file, rule.places)
                || (rule.tests == Tests::Free && file.is_test())
            {
                continue;
            }
            for word in rule.words {
                for line in lines_with(&views.code, word) {
                    let message = format!("`{word}`: {}", rule.why);
                    findings.push(Finding::error(&file.path, line, message));
                }
            }
        }
    }
    findings
}

/// What pure crates must not take from `std`. Tests are free to read golden files.
pub(super) fn check_std_modules(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, views) in tree.rust().filter(|(file, _)| !file.is_test()) {
        for rule in STD_MODULES {
            if !begins_with_any(file, rule.scope) {
                continue;
            }
            for (line, used) in std_paths(&views.code) {
                let is_reserved = |module: &&&str| {
                    used.strip_prefix(**module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
                };
                if let Some(module) = rule.modules.iter().find(is_reserved) {
                    let message = format!("`std::{module}`: {}", rule.why);
                    findings.push(Finding::error(&file.path, line, message));
                }
            }
        }
    }
    findings
}

/// `_ =>` and `_ if … =>` where every arm must be named.
pub(super) fn check_wildcard_arms(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, views) in tree.rust() {
        if !begins_with_any(file, EXHAUSTIVE) || file.is_test() {
            continue;
        }
        for (number, line) in numbered(&views.code) {
            let is_wildcard = |arm: &str| {
                let arm = arm.trim_end();
                let arm = arm.rfind(" if ").map_or(arm, |guard| &arm[..guard]).trim();
                arm == "_" || arm.ends_with("{ _") || arm.ends_with(", _") || arm.ends_with("| _")
            };
            if line.match_indices("=>").any(|(at, _)| is_wildcard(&line[..at])) {
                let message = "`_ =>`: name every arm; for numbers use `if` or bind a name";
                findings.push(Finding::error(&file.path, number, message));
            }
        }
    }
    findings
}

fn begins_with_any(file: &File, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| file.path.starts_with(prefix))
}

/// Every path below `std` that the code names, with braces expanded: `std::{fs, io::Read}` gives
/// `fs` and `io::Read`. A path behind `::std` or in a nested brace counts like any other.
fn std_paths(code: &str) -> Vec<(usize, String)> {
    let mut paths = Vec::new();
    let mut line = 1;
    let mut rest = code;
    while let Some((offset, word)) = identifiers(rest).find(|(_, word)| *word == "std") {
        let start = word.as_ptr() as usize - rest.as_ptr() as usize + word.len();
        line += offset - 1;
        rest = &rest[start..];
        if let Some(path) = rest.strip_prefix("::") {
            expand(path, "", line, &mut paths);
        }
    }
    paths
}

/// Reads one path or one braced list and returns the text behind it.
fn expand<'a>(text: &'a str, prefix: &str, line: usize, paths: &mut Vec<(usize, String)>) -> &'a str {
    let end =
        text.find(|c: char| !(super::rust_source::is_identifier_part(c) || c == ':')).unwrap_or(text.len());
    let path = format!("{prefix}{}", &text[..end]);
    let mut rest = &text[end..];
    if !(rest.starts_with('{') && (path.is_empty() || path.ends_with("::"))) {
        paths.push((line, path));
        return rest;
    }
    let line_of = |rest: &str| line + text[..text.len() - rest.len()].matches('\n').count();
    loop {
        rest = rest[1..].trim_start();
        rest = expand(rest, &path, line_of(rest), paths);
        let Some(at) = rest.find([',', '}', ';']) else {
            return "";
        };
        rest = &rest[at..];
        if !rest.starts_with(',') {
            return &rest[1..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(findings: &[Finding]) -> Vec<(&str, usize)> {
        findings.iter().map(|finding| (finding.path.as_str(), finding.line)).collect()
    }

    #[test]
    fn a_clock_is_read_only_in_its_places() {
        let reads = "//! x\nlet t = Instant::now();";
        let tree = Tree::of(&[
            ("crates/engine/src/host.rs", reads),
            ("crates/client/src/clock.rs", reads),
            ("crates/log/tests/it/main.rs", reads),
            ("bench/src/main.rs", reads),
            ("crates/tenure/src/commands/bench.rs", reads),
            ("crates/engine/src/turn.rs", reads),
            ("crates/sim/src/world.rs", "rustix::time::clock_gettime(id)"),
            ("crates/kernel/src/lease.rs", "// Instant::now is not for us\n"),
        ]);
        let findings = check_words(&tree);
        assert_eq!(
            lines(&findings),
            [
                ("crates/engine/src/turn.rs", 2),
                ("crates/sim/src/world.rs", 1),
                ("crates/sim/src/world.rs", 1),
            ]
        );
    }

    #[test]
    fn nobody_sleeps_not_even_a_test() {
        let sleeps = "std::thread::sleep(d);";
        let tree = Tree::of(&[
            ("crates/log/tests/it/main.rs", sleeps),
            ("bench/src/main.rs", sleeps),
            ("xtask/src/ci.rs", sleeps),
        ]);
        assert_eq!(check_words(&tree).len(), 2);
    }

    #[test]
    fn nobody_exits_and_only_the_host_starts_threads() {
        let tree = Tree::of(&[
            ("crates/tenure/src/main.rs", "std::process::exit(1)"),
            ("crates/engine/src/hub.rs", "thread::spawn(f); mpsc::channel()"),
            ("crates/engine/src/host.rs", "thread::spawn(f); mpsc::channel()"),
            ("crates/sim/src/main.rs", "thread::spawn(f)"),
            ("crates/kernel/src/kernel.rs", "HashMap<K, V, RandomState>"),
        ]);
        assert_eq!(
            lines(&check_words(&tree)),
            [
                ("crates/tenure/src/main.rs", 1),
                ("crates/engine/src/hub.rs", 1),
                ("crates/engine/src/hub.rs", 1),
                ("crates/kernel/src/kernel.rs", 1),
            ]
        );
    }

    #[test]
    fn pure_crates_take_no_io_from_std() {
        let tree = Tree::of(&[
            ("crates/kernel/src/a.rs", "use std::collections::BTreeMap;\nuse std::io::Write;"),
            (
                "crates/liveness/src/b.rs",
                "use std::{\n    fmt,\n    collections::{BTreeMap, HashMap},\n    thread,\n};\nstd::envy();",
            ),
            ("crates/kernel/src/tests.rs", "use std::fs;"),
            ("crates/log/src/disk.rs", "use std::fs;"),
            ("crates/sim/src/world.rs", "use std::{fs::File, process::ExitCode};"),
        ]);
        assert_eq!(
            lines(&check_std_modules(&tree)),
            [
                ("crates/kernel/src/a.rs", 2),
                ("crates/liveness/src/b.rs", 4),
                ("crates/liveness/src/b.rs", 3),
                ("crates/sim/src/world.rs", 1),
            ]
        );
    }

    #[test]
    fn rules_name_every_arm() {
        let source = "match s {\n    A => 1,\n    _ => 2,\n    _ if x => 3,\n    B | _ => 4,\n    (_, C) => 5,\n    Some(_) => 6,\n    unknown => 7,\n}\nmatch s { A => 1, _ => 2 }";
        let tree = Tree::of(&[
            ("crates/kernel/src/decide/grant.rs", source),
            ("crates/kernel/src/limits.rs", source),
        ]);
        let findings = check_wildcard_arms(&tree);
        let found: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(found, [3, 4, 5, 10]);
        assert!(findings.iter().all(|finding| finding.path.contains("decide")));
    }
}
