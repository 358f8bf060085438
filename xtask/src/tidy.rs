//! `cargo xtask tidy`: the rules of the house that a compiler does not know. Each rule is a pure
//! function from files or package facts to findings; its table and exceptions stand beside it.

pub(crate) mod advisories;
mod console;
mod docs;
mod functions;
mod imports;
mod manifests;
mod names;
mod reserved;
mod rust_source;
mod sources;
mod supply;
mod tree;
mod words;

use anyhow::{Result, bail};

use crate::shell;
use tree::Tree;

/// Check the rules of the house: imports, clocks, names, files, documents, wording, licences.
///
/// Prints `path:line: message` per finding and fails if there is any. Warnings do not fail.
#[derive(clap::Args)]
pub(crate) struct Arguments {}

/// One breach of a rule, at a line counted from 1.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    severity: Severity,
    message: String,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
enum Severity {
    Error,
    /// Shown, does not fail the run.
    Warning,
}

impl Finding {
    fn error(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, severity: Severity::Error, message: message.into() }
    }

    fn warning(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(path, line, message) }
    }

    fn shown(&self) -> String {
        let mark = match self.severity {
            Severity::Error => "",
            Severity::Warning => "warning: ",
        };
        format!("{}:{}: {mark}{}", self.path, self.line, self.message)
    }
}

/// Rules that need only the files.
const FILE_RULES: &[fn(&Tree) -> Vec<Finding>] = &[
    reserved::check_words,
    reserved::check_std_modules,
    reserved::check_wildcard_arms,
    sources::check_length,
    functions::check,
    sources::check_header,
    sources::check_white_space,
    sources::check_unfinished,
    sources::check_ignored_tests,
    sources::check_machine_paths,
    names::check_file_names,
    names::check_type_names,
    names::check_ticket_numbers,
    names::check_vocabulary,
    docs::check_decisions,
    docs::check_links,
    docs::check_architecture,
    console::check,
    words::check,
    manifests::check,
];

pub(crate) fn run(_: &Arguments) -> Result<()> {
    let tree = Tree::read(&shell::root())?;
    let mut findings: Vec<Finding> = FILE_RULES.iter().flat_map(|rule| rule(&tree)).collect();
    let metadata = imports::metadata()?;
    let packages = imports::packages(&metadata)?;
    findings.extend(imports::check(&packages));
    findings.extend(imports::check_planted(&packages));
    let packages = supply::packages(&metadata)?;
    findings.extend(supply::check(&tree, &packages)?);
    findings.extend(advisories::check(&tree, &packages)?);
    findings.sort();
    for finding in &findings {
        println!("{}", finding.shown());
    }
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    if errors > 0 {
        bail!("tidy: {errors} findings");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_an_editor_can_jump_to() {
        let error = Finding::error("a/b.rs", 7, "too long");
        assert_eq!(error.shown(), "a/b.rs:7: too long");
        let warning = Finding::warning("a/b.rs", 1, "long header");
        assert_eq!(warning.shown(), "a/b.rs:1: warning: long header");
    }
}
