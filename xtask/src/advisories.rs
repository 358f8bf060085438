//! `cargo xtask advisories`: writes the list of advisories that `tidy` checks the locked crates against.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use toml::{Table, Value};

use crate::shell;
use crate::tidy::advisories::{LIST, parse};

/// Write the list of security advisories from a clone of the RustSec database.
///
/// Advisories that were withdrawn, and notes that a crate is not maintained, are left out.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The clone.
    directory: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut git = Command::new("git");
    git.arg("-C").arg(&arguments.directory).args(["log", "-1", "--format=%cs, commit %H"]);
    let commit = shell::read(&mut git)?;
    let mut lines = Vec::new();
    let crates = arguments.directory.join("crates");
    for package in fs::read_dir(&crates).with_context(|| format!("{} has no crates", crates.display()))? {
        for file in fs::read_dir(package?.path())? {
            lines.extend(line_of(&file?.path())?);
        }
    }
    lines.sort();
    let text = format!(
        "# Advisories of the RustSec database (CC0) as of {}: id, crate, versions that are not affected.\n{}\n",
        commit.trim(),
        lines.join("\n")
    );
    parse(&text)?;
    fs::write(shell::root().join(LIST), text)?;
    println!("{} advisories in {LIST}", lines.len());
    Ok(())
}

/// `None`: the file holds no advisory that counts.
fn line_of(path: &Path) -> Result<Option<String>> {
    if path.extension().is_none_or(|extension| extension != "md") {
        return Ok(None);
    }
    let text = fs::read_to_string(path)?;
    let Some((_, rest)) = text.split_once("```toml") else { bail!("{} has no table", path.display()) };
    let (table, _) = rest.split_once("```").with_context(|| format!("{} has no end", path.display()))?;
    let table: Table = table.parse().with_context(|| path.display().to_string())?;
    let part = |name: &str| table.get(name).and_then(Value::as_table);
    let advisory = part("advisory").with_context(|| path.display().to_string())?;
    let text = |name: &str| advisory.get(name).and_then(Value::as_str);
    let is_note = matches!(text("informational"), Some("unmaintained" | "notice"));
    let (Some(id), Some(package)) = (text("id"), text("package")) else {
        bail!("{} names no id or no package", path.display());
    };
    if is_note || advisory.contains_key("withdrawn") {
        return Ok(None);
    }
    let requirements = |name: &str| {
        let list = part("versions").and_then(|versions| versions.get(name)).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let unaffected = [requirements("patched"), requirements("unaffected")].concat();
    Ok(Some(format!("{id} {package}: {}", unaffected.join("; ")).trim_end().to_owned()))
}
