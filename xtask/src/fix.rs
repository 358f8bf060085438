//! `cargo xtask fix`: the one command that rewrites sources and generated pages.

use anyhow::Result;

use crate::shell;

/// Format, apply the suggestions of clippy that are safe to apply, and generate the reference anew.
#[derive(clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(_: &Arguments) -> Result<()> {
    shell::run(&mut shell::cargo([
        "clippy",
        "--fix",
        "--allow-dirty",
        "--allow-staged",
        "--workspace",
        "--all-targets",
        "--all-features",
    ]))?;
    shell::run(&mut shell::cargo(["fmt", "--all"]))?;
    shell::run(&mut shell::cargo(["run", "--package", "tenure", "--", "reference", "docs/reference"]))
}
