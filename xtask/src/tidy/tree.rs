//! The files that the rules look at: paths from the root with `/`, and text where it is text.
//! Needs no git, so that an unpacked archive can be checked as well as a checkout.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::rust_source::{self, Views};

/// All files of the project, sorted by path.
pub(super) struct Tree {
    pub(super) files: Vec<File>,
}

pub(super) struct File {
    pub(super) path: String,
    /// Empty for files that are not text.
    pub(super) text: String,
    /// Only for Rust sources.
    rust: Option<Views>,
}

/// What `.gitignore` names, and git's own directory.
const SKIPPED: &[&str] = &[".git", "target", "target-*", "mutants.out*"];

impl Tree {
    /// Reads the project at `root`. Symbolic links are not followed.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        collect(root, "", &mut files).with_context(|| format!("cannot read {}", root.display()))?;
        files.sort_by(|a: &File, b: &File| a.path.cmp(&b.path));
        Ok(Self { files })
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        Self {
            files: files
                .iter()
                .map(|(path, text)| File::new((*path).to_owned(), (*text).to_owned()))
                .collect(),
        }
    }

    /// The Rust sources with their views.
    pub(super) fn rust(&self) -> impl Iterator<Item = (&File, &Views)> {
        self.files.iter().filter_map(|file| Some((file, file.rust.as_ref()?)))
    }

    pub(super) fn text_of(&self, path: &str) -> Option<&str> {
        let file = self.files.iter().find(|file| file.path == path)?;
        Some(&file.text)
    }

    /// Whether the path is a file or a directory of the project.
    pub(super) fn contains(&self, path: &str) -> bool {
        let directory = format!("{path}/");
        path.is_empty()
            || self.files.iter().any(|file| file.path == path || file.path.starts_with(&directory))
    }
}

impl File {
    fn new(path: String, text: String) -> Self {
        let rust = path.ends_with(".rs").then(|| rust_source::views(&text));
        Self { path, text, rust }
    }

    /// The views of a Rust source.
    pub(super) fn rust(&self) -> Option<&Views> {
        self.rust.as_ref()
    }

    /// Written once by a program, never edited: rules about how people write do not apply.
    pub(super) fn is_golden_or_generated(&self) -> bool {
        ["golden", "generated"].iter().any(|directory| self.path.split('/').any(|part| part == *directory))
    }

    /// A test or benchmark by its place: `tests/`, `benches/`, `tests.rs`.
    pub(super) fn is_test(&self) -> bool {
        self.path.split('/').any(|part| matches!(part, "tests" | "benches" | "tests.rs"))
    }
}

fn collect(directory: &Path, prefix: &str, files: &mut Vec<File>) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_skipped(&name) {
            continue;
        }
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(&entry.path(), &format!("{path}/"), files)?;
        } else if kind.is_file() {
            let bytes = fs::read(entry.path())?;
            files.push(File::new(path, String::from_utf8(bytes).unwrap_or_default()));
        }
    }
    Ok(())
}

fn is_skipped(name: &str) -> bool {
    SKIPPED.iter().any(|skipped| match skipped.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *skipped,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_output_is_skipped_and_nothing_else() {
        assert!(is_skipped("target") && is_skipped("target-x") && is_skipped("mutants.out.old"));
        assert!(!is_skipped("targets") && !is_skipped(".github") && !is_skipped(".gitignore"));
    }

    #[test]
    fn files_and_directories_are_found() {
        let tree = Tree::of(&[("docs/a/b.md", "x")]);
        assert!(tree.contains("docs/a/b.md") && tree.contains("docs/a") && tree.contains(""));
        assert!(!tree.contains("docs/b") && !tree.contains("doc"));
    }

    #[test]
    fn tests_and_golden_files_are_known_by_place() {
        let tree = Tree::of(&[
            ("crates/log/tests/it/main.rs", ""),
            ("crates/kernel/src/tests.rs", ""),
            ("crates/log/tests/golden/v1/x.rs", ""),
            ("crates/kernel/src/decide.rs", ""),
        ]);
        let test: Vec<bool> = tree.files.iter().map(File::is_test).collect();
        assert_eq!(test, [true, true, true, false]);
        assert!(tree.files[2].is_golden_or_generated() && !tree.files[3].is_golden_or_generated());
    }
}
