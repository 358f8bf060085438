//! Documents: decisions are numbered and have their four parts, links lead somewhere, the map of
//! the architecture names every crate.

use std::collections::BTreeSet;

use super::Finding;
use super::rust_source::numbered;
use super::tree::Tree;

const DECISIONS: &str = "docs/decisions/";
const DECISION_PARTS: &[&str] = &["Context", "Decision", "Consequences", "Alternatives"];
const ARCHITECTURE: &str = "docs/ARCHITECTURE.md";

/// `docs/decisions/NNNN-title.md`, from 0001 without gaps, each with its four parts.
pub(super) fn check_decisions(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut expected = 1;
    for file in &tree.files {
        let Some(name) = file.path.strip_prefix(DECISIONS) else {
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
        for part in DECISION_PARTS {
            if !prose(&file.text).any(|(_, line)| is_heading(line, part)) {
                let message = format!("no heading `## {part}`");
                findings.push(Finding::error(&file.path, 1, message));
            }
        }
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

    const WHOLE: &str = "# T\n## Context\n## Decision\n## Consequences\n## Alternatives\n";

    fn shown(findings: &[Finding]) -> Vec<String> {
        findings.iter().map(Finding::shown).collect()
    }

    #[test]
    fn decisions_are_numbered_without_gaps() {
        let tree = Tree::of(&[
            ("docs/decisions/0001-log-events.md", WHOLE),
            ("docs/decisions/0003-time.md", WHOLE),
            ("docs/decisions/0004-ids.md", WHOLE),
            ("docs/decisions/Notes.md", WHOLE),
        ]);
        assert_eq!(
            shown(&check_decisions(&tree)),
            [
                "docs/decisions/0003-time.md:1: decision 0003 where 0002 comes next",
                "docs/decisions/Notes.md:1: a decision is named NNNN-title.md, in lower case",
            ]
        );
    }

    #[test]
    fn decisions_have_four_parts() {
        let text = "# T\n## Context\nDecision\n## Consequences\n```\n## Alternatives\n```\n";
        let tree = Tree::of(&[("docs/decisions/0001-a.md", text)]);
        assert_eq!(
            shown(&check_decisions(&tree)),
            [
                "docs/decisions/0001-a.md:1: no heading `## Decision`",
                "docs/decisions/0001-a.md:1: no heading `## Alternatives`",
            ]
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
