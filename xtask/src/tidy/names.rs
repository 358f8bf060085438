//! Names that say nothing, names that age, and words that have another name in this project.
//! An exception to the vocabulary is a narrower scope or one more path in `except`.

use super::Finding;
use super::rust_source::{identifiers, words};
use super::tree::Tree;

/// Not in names of files, directories and types.
const EMPTY_WORDS: &[&str] =
    &["manager", "managers", "helper", "helpers", "util", "utils", "common", "misc", "impl", "v2", "legacy"];

/// Words that turn a number behind them into a ticket.
const TICKET_WORDS: &[&str] = &["issue", "ticket", "bug"];

/// A word of another system, and ours; in identifiers of Rust code below `scope`.
struct Foreign {
    word: &'static str,
    ours: &'static str,
    scope: &'static [&'static str],
    except: &'static [&'static str],
}

const EVERYWHERE: &[&str] = &["crates/"];
/// Where a word can only mean the concept of the domain.
const DOMAIN: &[&str] = &["crates/kernel/", "crates/liveness/", "crates/engine/"];
/// Shapes and libraries that are not ours name things so.
const WIRE: &[&str] = &[
    "crates/api/",
    "crates/faces/",
    "crates/server/",
    "crates/client/",
    "crates/tenure/src/commands/session",
    "crates/tenure/src/show/stream.rs",
];
const NOWHERE: &[&str] = &[];

/// Words of other systems whose meaning here is unambiguous.
const FOREIGN: &[Foreign] = &[
    foreign("expires_at", "deadline", EVERYWHERE, WIRE),
    foreign("keepalive", "heartbeat", EVERYWHERE, WIRE),
    foreign("keep_alive", "heartbeat", DOMAIN, NOWHERE),
    foreign("ping", "heartbeat", DOMAIN, NOWHERE),
    foreign("evict", "revoke, reclaim or expire", DOMAIN, NOWHERE),
    foreign("evicted", "revoked, reclaimed or expired", DOMAIN, NOWHERE),
    foreign("lessee", "holder", EVERYWHERE, NOWHERE),
    foreign("zombie", "draining", EVERYWHERE, NOWHERE),
    foreign("checkpoint", "snapshot", EVERYWHERE, NOWHERE),
    foreign("semaphore", "pool", DOMAIN, NOWHERE),
    foreign("nonce", "operation id", DOMAIN, NOWHERE),
    foreign("owner", "holder", DOMAIN, NOWHERE),
    foreign("timestamp", "tick", DOMAIN, NOWHERE),
];

const fn foreign(
    word: &'static str,
    ours: &'static str,
    scope: &'static [&'static str],
    except: &'static [&'static str],
) -> Foreign {
    Foreign { word, ours, scope, except }
}

/// Files and directories have names that say what is inside.
pub(super) fn check_file_names(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        for part in file.path.split('/') {
            if let Some(word) = empty_word(part) {
                let message = format!("`{word}` in the name `{part}` says nothing");
                findings.push(Finding::error(&file.path, 1, message));
            }
            if is_ticket(part) {
                let message = format!("the name `{part}` is a ticket number");
                findings.push(Finding::error(&file.path, 1, message));
            }
        }
    }
    findings
}

/// Types have names that say what they are.
pub(super) fn check_type_names(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, views) in tree.rust() {
        let mut before = "";
        for (line, name) in identifiers(&views.code) {
            let is_type = matches!(before, "struct" | "enum" | "trait" | "union" | "type");
            if is_type && let Some(word) = empty_word(name) {
                let message = format!("`{word}` in the name `{name}` says nothing");
                findings.push(Finding::error(&file.path, line, message));
            }
            before = name;
        }
    }
    findings
}

/// No identifier is a ticket number: it means nothing once the tracker is gone.
pub(super) fn check_ticket_numbers(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, views) in tree.rust() {
        for (line, name) in identifiers(&views.code) {
            if is_ticket(name) {
                let message = format!("`{name}` holds a ticket number: say what it is about");
                findings.push(Finding::error(&file.path, line, message));
            }
        }
    }
    findings
}

/// One word per concept.
pub(super) fn check_vocabulary(tree: &Tree) -> Vec<Finding> {
    let begins = |path: &str, prefixes: &[&str]| prefixes.iter().any(|p| path.starts_with(p));
    let mut findings = Vec::new();
    for (file, views) in tree.rust() {
        let rules: Vec<&Foreign> = FOREIGN
            .iter()
            .filter(|rule| begins(&file.path, rule.scope) && !begins(&file.path, rule.except))
            .collect();
        if rules.is_empty() {
            continue;
        }
        for (line, name) in identifiers(&views.code) {
            let spaced = format!("_{}_", words(name).join("_"));
            for rule in &rules {
                if spaced.contains(&format!("_{}_", rule.word)) {
                    let message = format!("`{name}`: here the word is {}", rule.ours);
                    findings.push(Finding::error(&file.path, line, message));
                }
            }
        }
    }
    findings
}

fn empty_word(name: &str) -> Option<&'static str> {
    let words = words(name);
    EMPTY_WORDS.iter().find(|empty| words.iter().any(|word| word == *empty)).copied()
}

/// `issue_12`, `Issue12`, `bug-7.rs`.
fn is_ticket(name: &str) -> bool {
    let is_number = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_digit());
    let words = words(name);
    let in_one_word =
        |word: &String| TICKET_WORDS.iter().any(|ticket| word.strip_prefix(ticket).is_some_and(is_number));
    let in_two_words = |pair: &[String]| TICKET_WORDS.contains(&pair[0].as_str()) && is_number(&pair[1]);
    words.iter().any(in_one_word) || words.windows(2).any(in_two_words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(findings: &[Finding]) -> Vec<(&str, usize)> {
        findings.iter().map(|finding| (finding.path.as_str(), finding.line)).collect()
    }

    #[test]
    fn files_have_names_that_say_something() {
        let tree = Tree::of(&[
            ("crates/common/src/lib.rs", ""),
            ("crates/log/src/disk_utils.rs", ""),
            ("crates/log/tests/golden/issue_12.bin", ""),
            ("docs/internals/bugs.md", ""),
            ("crates/kernel/src/decide.rs", ""),
        ]);
        let findings = check_file_names(&tree);
        let paths: Vec<&str> = findings.iter().map(|f| f.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "crates/common/src/lib.rs",
                "crates/log/src/disk_utils.rs",
                "crates/log/tests/golden/issue_12.bin"
            ]
        );
    }

    #[test]
    fn types_have_names_that_say_something() {
        let tree = Tree::of(&[(
            "a.rs",
            "struct LeaseManager;\nenum Lease {}\ntrait DiskHelper {}\nimpl Lease {}\ntype X = Y;\n",
        )]);
        assert_eq!(lines(&check_type_names(&tree)), [("a.rs", 1), ("a.rs", 3)]);
    }

    #[test]
    fn tickets_are_not_names() {
        let tree = Tree::of(&[(
            "a.rs",
            "fn issue_12_is_gone() {}\nfn bug7() {}\nfn a_bug_is_found_in_10_steps() {}\n// issue_9\n",
        )]);
        assert_eq!(lines(&check_ticket_numbers(&tree)), [("a.rs", 1), ("a.rs", 2)]);
    }

    #[test]
    fn one_word_per_concept() {
        let tree = Tree::of(&[
            ("crates/kernel/src/a.rs", "expires_at: u64\nstruct OwnerName;\nholder: X // owner"),
            ("crates/api/src/b.rs", "lease_expires_at: u64\nowner: X"),
            ("crates/log/src/c.rs", "fn last_checkpoint() {}\nshipping();"),
            ("xtask/src/d.rs", "let keepalive = 1;"),
        ]);
        assert_eq!(
            lines(&check_vocabulary(&tree)),
            [("crates/kernel/src/a.rs", 1), ("crates/kernel/src/a.rs", 2), ("crates/log/src/c.rs", 1),]
        );
    }
}
