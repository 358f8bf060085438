//! How files are written: length, module header, white space, nothing unfinished, no test switched
//! off without a reason, no path of somebody's machine.

use super::Finding;
use super::rust_source::{is_identifier_part, lines_with, numbered};
use super::tree::{File, Tree};

const LINES_MAX: usize = 1000;
/// A header of 1–6 lines is the norm; above this it is an essay.
const HEADER_LINES_MAX: usize = 12;

/// Files that people write and editors touch.
const WRITTEN: &[&str] = &["rs", "md", "toml", "yml", "yaml", "sh", "json", "html", "css", "js", "run"];

/// Said in code; each has a better form.
const UNFINISHED_CODE: &[(&str, &str)] = &[
    ("todo!", "write it or leave it out"),
    ("unimplemented!", "write it or leave it out"),
    ("dbg!", "take it out"),
];

/// Said in comments.
const UNFINISHED_COMMENTS: &[&str] = &["TODO", "FIXME", "XXX", "HACK"];

/// Directories in the root of a machine that no text of ours names.
const MACHINE_ROOTS: &[&str] = &["root", "work", "home"];

/// No Rust source over 1000 lines, golden and generated ones excepted.
pub(super) fn check_length(tree: &Tree) -> Vec<Finding> {
    tree.rust()
        .filter(|(file, _)| !file.is_golden_or_generated())
        .filter_map(|(file, _)| {
            let lines = file.text.lines().count();
            let message = format!("{lines} lines, at most {LINES_MAX}: split along a concept");
            (lines > LINES_MAX).then(|| Finding::error(&file.path, LINES_MAX + 1, message))
        })
        .collect()
}

/// Each source file says first what it owns.
pub(super) fn check_header(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, _) in tree.rust() {
        let in_src = file.path.split('/').any(|part| part == "src");
        if !in_src || file.is_golden_or_generated() {
            continue;
        }
        let lines = file.text.lines().take_while(|line| line.starts_with("//!")).count();
        if lines == 0 {
            let message = "no module header: begin with `//!` and what this file owns";
            findings.push(Finding::error(&file.path, 1, message));
        } else if lines > HEADER_LINES_MAX {
            let message = format!("module header of {lines} lines; 1 to 6 is the norm");
            findings.push(Finding::warning(&file.path, 1, message));
        }
    }
    findings
}

/// No tabs, no white space at the end of a line, a newline at the end of the file.
pub(super) fn check_white_space(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        if file.is_golden_or_generated() || !is_written(file) {
            continue;
        }
        for (number, line) in numbered(&file.text) {
            if line.contains('\t') {
                findings.push(Finding::error(&file.path, number, "tab"));
            }
            if line.ends_with(char::is_whitespace) {
                let message = "white space at the end of the line";
                findings.push(Finding::error(&file.path, number, message));
            }
        }
        if !file.text.is_empty() && !file.text.ends_with('\n') {
            let last = file.text.lines().count();
            findings.push(Finding::error(&file.path, last, "no newline at the end"));
        }
    }
    findings
}

/// Nothing unfinished is committed.
pub(super) fn check_unfinished(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, views) in tree.rust() {
        for (word, advice) in UNFINISHED_CODE {
            for line in lines_with(&views.code, word) {
                findings.push(Finding::error(&file.path, line, format!("`{word}`: {advice}")));
            }
        }
        for word in UNFINISHED_COMMENTS {
            for line in lines_with(&views.comments, word) {
                let message = format!("{word}: do it, or say why not without the mark");
                findings.push(Finding::error(&file.path, line, message));
            }
        }
    }
    findings
}

/// A test that is switched off says why.
pub(super) fn check_ignored_tests(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, views) in tree.rust() {
        for (number, line) in numbered(&views.code) {
            let compact: String = line.chars().filter(|c| !c.is_whitespace()).collect();
            let bare = compact.contains("#[ignore]")
                || (compact.contains("cfg_attr(") && compact.contains(",ignore)"));
            if bare {
                let message = "#[ignore] without a reason: write #[ignore = \"…\"]";
                findings.push(Finding::error(&file.path, number, message));
            }
        }
    }
    findings
}

/// No text names a path of somebody's machine. Licences are quoted as they are.
pub(super) fn check_machine_paths(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        if file.path.starts_with("LICENSE") {
            continue;
        }
        for (number, line) in numbered(&file.text) {
            if let Some(path) = machine_path(line) {
                let message = format!("`{path}` is a path of one machine");
                findings.push(Finding::error(&file.path, number, message));
            }
        }
    }
    findings
}

fn is_written(file: &File) -> bool {
    let name = file.path.rsplit('/').next().unwrap_or(&file.path);
    let ending = name.rsplit('.').next().unwrap_or(name);
    WRITTEN.contains(&ending)
}

/// The first absolute path into a machine's root: `/` NAME `/`, for homes `/home/` NAME `/`.
fn machine_path(line: &str) -> Option<&str> {
    line.match_indices('/').find_map(|(at, _)| {
        let before = line[..at].chars().next_back();
        let continues_a_path = |c: char| is_identifier_part(c) || matches!(c, '.' | '~' | '-' | '}' | '*');
        if before.is_some_and(continues_a_path) {
            return None;
        }
        let parts: Vec<&str> = line[at + 1..].splitn(3, '/').collect();
        let root = MACHINE_ROOTS.iter().find(|root| Some(*root) == parts.first())?;
        let is_home = *root == "home";
        let user_is_named =
            || parts.len() > 2 && !parts[1].is_empty() && parts[1].chars().all(|c| c.is_ascii_lowercase());
        let length = match (is_home, parts.len()) {
            (true, _) if user_is_named() => root.len() + parts[1].len() + 3,
            (false, 2..) => root.len() + 2,
            (true | false, _) => return None,
        };
        Some(&line[at..at + length])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_sources_are_split_unless_generated() {
        let long = "x\n".repeat(LINES_MAX + 1);
        let fits = "x\n".repeat(LINES_MAX);
        let tree = Tree::of(&[
            ("crates/a/src/long.rs", &long),
            ("crates/a/src/fits.rs", &fits),
            ("crates/a/tests/golden/long.rs", &long),
            ("docs/long.md", &long),
        ]);
        let findings = check_length(&tree);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].path, "crates/a/src/long.rs");
    }

    #[test]
    fn sources_begin_with_a_header() {
        let essay = "//! x\n".repeat(HEADER_LINES_MAX + 1);
        let tree = Tree::of(&[
            ("crates/a/src/good.rs", "//! Owns x.\n"),
            ("crates/a/src/bad.rs", "use x;\n//! late\n"),
            ("crates/a/src/essay.rs", &essay),
            ("crates/a/tests/it/main.rs", "use x;\n"),
        ]);
        let shown: Vec<String> = check_header(&tree).iter().map(Finding::shown).collect();
        assert_eq!(
            shown,
            [
                "crates/a/src/bad.rs:1: no module header: begin with `//!` and what this file owns",
                "crates/a/src/essay.rs:1: warning: module header of 13 lines; 1 to 6 is the norm",
            ]
        );
    }

    #[test]
    fn white_space_is_plain() {
        let tree = Tree::of(&[
            ("a.rs", "x\ty\n"),
            ("b.md", "x \n"),
            (".ci/run", "x"),
            ("good.toml", "x = 1\n"),
            ("picture.svg", "x \t"),
            ("tests/golden/a.json", "x \t"),
        ]);
        let found: Vec<String> = check_white_space(&tree).iter().map(Finding::shown).collect();
        assert_eq!(
            found,
            ["a.rs:1: tab", "b.md:1: white space at the end of the line", ".ci/run:1: no newline at the end",]
        );
    }

    #[test]
    fn nothing_is_left_unfinished() {
        let tree = Tree::of(&[
            ("a.rs", "fn f() { todo!() }\nfn g() { dbg!(1); }\nunimplemented!(\"x\")"),
            ("b.rs", concat!("// FIX", "ME later\n/* TO", "DO */")),
            ("good.rs", "let s = \"todo!\"; my_todo!(); // todo! is banned"),
        ]);
        assert_eq!(check_unfinished(&tree).len(), 5);
        assert!(check_unfinished(&tree).iter().all(|f| f.path != "good.rs"));
    }

    #[test]
    fn a_test_switched_off_says_why() {
        let tree = Tree::of(&[(
            "a.rs",
            "#[ignore]\n#[ignore = \"needs root\"]\n#[cfg_attr(miri, ignore)]\n// #[ignore]\n",
        )]);
        let lines: Vec<usize> = check_ignored_tests(&tree).iter().map(|f| f.line).collect();
        assert_eq!(lines, [1, 3]);
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        for (start, rest) in [("/ro", "ot/x"), ("see /wo", "rk/main"), ("\"/ho", "me/ann/x\"")] {
            let line = format!("{start}{rest}");
            assert!(machine_path(&line).is_some(), "{line}");
            assert_eq!(check_machine_paths(&Tree::of(&[("docs/a.md", &line)])).len(), 1);
            assert!(check_machine_paths(&Tree::of(&[("LICENSE-MIT", &line)])).is_empty());
        }
        for line in
            ["~/.local/x", "docs/work/x", "/workspace/x", "/home/$USER/x", "/home/ann", "/root", "$HOME/x"]
        {
            assert_eq!(machine_path(line), None, "{line}");
        }
    }
}
