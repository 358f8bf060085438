//! Documents: decisions are numbered, dated, listed and have their four parts, links lead somewhere,
//! the map of the architecture names every crate.

use std::collections::BTreeSet;

use super::Finding;
use super::rust_source::numbered;
use super::tree::Tree;

const DECISIONS: &str = "docs/internals/decisions/";
/// The list of decisions, in their directory.
const INDEX: &str = "README.md";
const DECISION_PARTS: &[&str] = &["Context", "Decision", "Consequences", "Alternatives"];
const ARCHITECTURE: &str = "docs/ARCHITECTURE.md";

/// `docs/internals/decisions/NNNN-title.md`, from 0001 without gaps, each with title, date, status
/// and its four parts; `README.md` beside them lists all of them as they are.
pub(super) fn check_decisions(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut rows = Vec::new();
    let mut expected = 1;
    for file in &tree.files {
        let Some(name) = file.path.strip_prefix(DECISIONS).filter(|name| *name != INDEX) else {
            continue;
        };
        let Some(number) = decision_number(name) else {
            let message = "a decision is named NNNN-title.md, in lower case";
            findings.push(Finding::error(&file.path, 1, message));
            continue;
        };
        if number != expected {
            let message = format!("decision {number:04} where {expected:04} comes next");
            findings.push(Finding::error(&file.path, 1, message));
        }
        expected = number + 1;
        match head(&file.text) {
            Ok(head) => {
                rows.push(format!(
                    "| [{number:04}]({name}) | {} | {} | {} |",
                    head.title, head.date, head.status
                ));
                findings.extend(
                    status_fault(tree, number, head.status).map(|fault| Finding::error(&file.path, 4, fault)),
                );
            }
            Err(message) => findings.push(Finding::error(&file.path, 1, message)),
        }
        for part in DECISION_PARTS {
            if !prose(&file.text).any(|(_, line)| is_heading(line, part)) {
                let message = format!("no heading `## {part}`");
                findings.push(Finding::error(&file.path, 1, message));
            }
        }
    }
    findings.extend(index_faults(tree, &rows));
    findings
}

struct Head<'a> {
    title: &'a str,
    date: &'a str,
    status: &'a str,
}

/// `# Title`, an empty line, `Date: YYYY-MM-DD`, `Status: …`, an empty line.
fn head(text: &str) -> Result<Head<'_>, &'static str> {
    const FORM: &str =
        "a decision begins with `# Title`, an empty line, `Date: YYYY-MM-DD`, `Status: …` and an empty line";
    let mut lines = text.lines();
    let mut next = |prefix: &str| lines.next().and_then(|line| line.strip_prefix(prefix)).ok_or(FORM);
    let title = next("# ")?;
    let gap = next("")?;
    let date = next("Date: ")?;
    let status = next("Status: ")?;
    let end = next("")?;
    let is_date = date.len() == 10
        && date
            .bytes()
            .enumerate()
            .all(|(at, b)| if matches!(at, 4 | 7) { b == b'-' } else { b.is_ascii_digit() });
    if gap.is_empty() && end.is_empty() && is_date { Ok(Head { title, date, status }) } else { Err(FORM) }
}

/// `accepted`, `amended by NNNN, NNNN` or `superseded by NNNN`, by later decisions that exist.
fn status_fault(tree: &Tree, number: u32, status: &str) -> Option<String> {
    if status == "accepted" {
        return None;
    }
    let Some(later) = status.strip_prefix("amended by ").or_else(|| status.strip_prefix("superseded by "))
    else {
        return Some("a status is `accepted`, `amended by NNNN` or `superseded by NNNN`".to_owned());
    };
    let exists = |text: &str| {
        let path = format!("{DECISIONS}{text}-");
        text.len() == 4
            && text.parse::<u32>().is_ok_and(|later| later > number)
            && tree.files.iter().any(|file| file.path.starts_with(&path))
    };
    let wrong = later.split(", ").find(|text| !exists(text))?;
    Some(format!("`{wrong}` in the status is not the number of a later decision"))
}

/// The index has one row for each decision, in order, and no other.
fn index_faults(tree: &Tree, rows: &[String]) -> Vec<Finding> {
    let path = format!("{DECISIONS}{INDEX}");
    if rows.is_empty() {
        return Vec::new();
    }
    let Some(index) = tree.text_of(&path) else {
        return vec![Finding::error(&path, 1, "no index of the decisions")];
    };
    let listed: Vec<(usize, &str)> = numbered(index).filter(|(_, line)| line.starts_with("| [")).collect();
    let wrong = listed.iter().zip(rows).filter(|((_, line), row)| line != row);
    let mut findings: Vec<Finding> = wrong
        .map(|((number, _), row)| Finding::error(&path, *number, format!("the row should be: {row}")))
        .collect();
    for row in rows.iter().skip(listed.len()) {
        findings.push(Finding::error(&path, index.lines().count(), format!("a row is missing: {row}")));
    }
    for (number, _) in listed.iter().skip(rows.len()) {
        findings.push(Finding::error(&path, *number, "a row of no decision"));
    }
    findings
}

/// Every relative link in Markdown leads to a file or directory of the project.
pub(super) fn check_links(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|f| f.path.ends_with(".md")) {
        for (line, link) in links(&file.text) {
            let target = link.split(['#', '?']).next().unwrap_or_default();
            let is_outside = link.contains("://") || link.starts_with("mailto:");
            if is_outside || target.is_empty() {
                continue;
            }
            match resolve(&file.path, target) {
                Some(path) if tree.contains(&path) => {}
                Some(_) | None => {
                    let message = format!("the link `{link}` leads nowhere");
                    findings.push(Finding::error(&file.path, line, message));
                }
            }
        }
    }
    findings
}

/// Once there is a map, it names every crate: as `crates/NAME` or `NAME` in code style.
pub(super) fn check_architecture(tree: &Tree) -> Vec<Finding> {
    let Some(map) = tree.text_of(ARCHITECTURE) else {
        return Vec::new();
    };
    let crates: BTreeSet<&str> = tree
        .files
        .iter()
        .filter_map(|file| file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"))
        .collect();
    let is_named = |name: &str| {
        [format!("`{name}`"), format!("`{name}/`"), format!("`tenure-{name}`")]
            .iter()
            .any(|form| map.contains(form))
            || !super::rust_source::lines_with(map, &format!("crates/{name}")).is_empty()
    };
    crates
        .iter()
        .filter(|name| !is_named(name))
        .map(|name| Finding::error(ARCHITECTURE, 1, format!("crates/{name} is not on the map")))
        .collect()
}

fn decision_number(name: &str) -> Option<u32> {
    let (number, title) = name.strip_suffix(".md")?.split_once('-')?;
    let is_title =
        !title.is_empty() && title.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if number.len() != 4 || !is_title {
        return None;
    }
    number.parse().ok()
}

fn is_heading(line: &str, name: &str) -> bool {
    let title = line.trim_start_matches('#');
    title.len() < line.len() && title.trim().starts_with(name)
}

/// Lines outside of fenced code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    numbered(text).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence
    })
}

/// `[text](target)`, `[name]: target`, `src="target"` and `href="target"`, outside of code.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in prose(text) {
        // Every second piece between back-ticks is code.
        let plain: String = line
            .split('`')
            .enumerate()
            .map(|(index, piece)| if index % 2 == 0 { piece } else { "code" })
            .collect();
        for (opening, closing) in [("](", ')'), ("src=\"", '"'), ("href=\"", '"')] {
            for (at, _) in plain.match_indices(opening) {
                let target = plain[at + opening.len()..].split(closing).next();
                links.push((number, first_word(target.unwrap_or_default())));
            }
        }
        if plain.starts_with('[')
            && let Some((name, target)) = plain.split_once("]: ")
            && !name.starts_with("[^")
        {
            links.push((number, first_word(target)));
        }
    }
    links
}

/// Without the title that may follow a target, and without the angle brackets around it.
fn first_word(target: &str) -> String {
    let word = target.split_whitespace().next().unwrap_or_default();
    word.trim_matches(['<', '>']).to_owned()
}

/// The path from the root that a link in `from` means; `None` if it leads out of the project.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    if target.starts_with('/') {
        return None;
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "# T\n\nDate: 2026-11-15\nStatus: accepted\n\n\
                         ## Context\n## Decision\n## Consequences\n## Alternatives\n";

    /// Findings in decisions with these texts, numbered from 1, and an index with these rows.
    fn in_decisions(texts: &[&str], rows: &[&str]) -> Vec<String> {
        let mut files: Vec<(String, String)> = (1..)
            .zip(texts)
            .map(|(number, text)| (format!("{DECISIONS}{number:04}-a.md"), (*text).to_owned()))
            .collect();
        files.push((format!("{DECISIONS}{INDEX}"), format!("# Index\n{}\n", rows.join("\n"))));
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let findings = shown(&check_decisions(&Tree::of(&files)));
        findings.iter().map(|line| line.replace(DECISIONS, "")).collect()
    }

    const FIRST: &str = "| [0001](0001-a.md) | T | 2026-11-15 | accepted |";
    const SECOND: &str = "| [0002](0002-a.md) | T | 2026-11-15 | accepted |";

    fn shown(findings: &[Finding]) -> Vec<String> {
        findings.iter().map(Finding::shown).collect()
    }

    #[test]
    fn decisions_are_numbered_without_gaps() {
        let index = "| [0001](0001-log-events.md) | T | 2026-11-15 | accepted |\n\
                     | [0003](0003-time.md) | T | 2026-11-15 | accepted |\n\
                     | [0004](0004-ids.md) | T | 2026-11-15 | accepted |\n";
        let tree = Tree::of(&[
            ("docs/internals/decisions/0001-log-events.md", WHOLE),
            ("docs/internals/decisions/0003-time.md", WHOLE),
            ("docs/internals/decisions/0004-ids.md", WHOLE),
            ("docs/internals/decisions/Notes.md", WHOLE),
            ("docs/internals/decisions/README.md", index),
        ]);
        assert_eq!(
            shown(&check_decisions(&tree)),
            [
                "docs/internals/decisions/0003-time.md:1: decision 0003 where 0002 comes next",
                "docs/internals/decisions/Notes.md:1: a decision is named NNNN-title.md, in lower case",
            ]
        );
    }

    #[test]
    fn decisions_have_four_parts() {
        let text =
            WHOLE.replace("## Decision", "Decision").replace("## Alternatives", "```\n## Alternatives\n```");
        assert_eq!(
            in_decisions(&[&text], &[FIRST]),
            ["0001-a.md:1: no heading `## Decision`", "0001-a.md:1: no heading `## Alternatives`"]
        );
    }

    #[test]
    fn decisions_have_a_date_and_a_status() {
        for (from, to) in [
            ("Date: 2026-11-15\n", ""),
            ("Date: 2026-11-15", "Date: yesterday"),
            ("Status: accepted\n", ""),
            ("# T\n\n", "# T\n"),
            ("accepted\n\n", "accepted\n"),
        ] {
            let found = in_decisions(&[&WHOLE.replace(from, to)], &[]);
            assert_eq!(found.len(), 1, "{from}: {found:?}");
            assert!(found[0].starts_with("0001-a.md:1: a decision begins with"), "{from}: {found:?}");
        }
    }

    #[test]
    fn a_status_names_later_decisions() {
        let amended = |by: &str| WHOLE.replace("accepted", by);
        let row = |by: &str| FIRST.replace("accepted", by);
        for by in ["amended by 0002", "superseded by 0002"] {
            assert_eq!(in_decisions(&[&amended(by), WHOLE], &[&row(by), SECOND]), [""; 0], "{by}");
        }
        for by in ["amended by 0001", "amended by 0003", "amended by 0002, 2", "draft", "superseded"] {
            let found = in_decisions(&[&amended(by), WHOLE], &[&row(by), SECOND]);
            assert_eq!(found.len(), 1, "{by}: {found:?}");
            assert!(found[0].starts_with("0001-a.md:4: "), "{by}: {found:?}");
        }
    }

    #[test]
    fn the_index_lists_every_decision_as_it_is() {
        assert_eq!(in_decisions(&[WHOLE, WHOLE], &[FIRST, SECOND]), [""; 0]);
        let other = SECOND.replace("| T |", "| Other |");
        assert_eq!(
            in_decisions(&[WHOLE, WHOLE], &[FIRST, &other]),
            [format!("README.md:3: the row should be: {SECOND}")]
        );
        assert_eq!(
            in_decisions(&[WHOLE, WHOLE], &[FIRST]),
            [format!("README.md:2: a row is missing: {SECOND}")]
        );
        assert_eq!(in_decisions(&[WHOLE], &[FIRST, SECOND]), ["README.md:3: a row of no decision"]);
        let tree = Tree::of(&[("docs/internals/decisions/0001-a.md", WHOLE)]);
        assert_eq!(
            shown(&check_decisions(&tree)),
            ["docs/internals/decisions/README.md:1: no index of the decisions"]
        );
    }

    #[test]
    fn links_lead_somewhere() {
        let text = "[a](b.md) [a](../README.md#x \"title\") [a](gone.md)\n\
                    [a](https://example.org/x) [a](#here) `[a](code.md)`\n\
                    [r]: lost.md\n<img src=\"no.png\">\n[a](../../out.md)\n\
                    ```\n[a](fenced.md)\n```\n![p](../docs)\n";
        let tree = Tree::of(&[("README.md", ""), ("docs/a.md", text), ("docs/b.md", "")]);
        assert_eq!(
            shown(&check_links(&tree)),
            [
                "docs/a.md:1: the link `gone.md` leads nowhere",
                "docs/a.md:3: the link `lost.md` leads nowhere",
                "docs/a.md:4: the link `no.png` leads nowhere",
                "docs/a.md:5: the link `../../out.md` leads nowhere",
            ]
        );
    }

    #[test]
    fn the_map_names_every_crate() {
        let crates = [("crates/log/Cargo.toml", ""), ("crates/sim/Cargo.toml", "")];
        assert!(check_architecture(&Tree::of(&crates)).is_empty());
        let map = ("docs/ARCHITECTURE.md", "The `log`. crates/simple\n");
        let tree = Tree::of(&[crates[0], crates[1], map]);
        assert_eq!(
            shown(&check_architecture(&tree)),
            ["docs/ARCHITECTURE.md:1: crates/sim is not on the map"]
        );
    }
}
