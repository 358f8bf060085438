//! `cargo xtask deny`: licences, bans, sources and advisories of the outside crates.

use anyhow::Result;

use crate::{needs, shell};

/// Check the outside crates with cargo-deny (installed if missing).
///
/// Licences, bans and sources are also part of `cargo xtask tidy`, from the same `deny.toml`;
/// cargo-deny adds duplicate versions and, if asked, advisories.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Also fetch and check security advisories; needs the network.
    #[arg(long)]
    advisories: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    needs::provide(needs::FOR_DENY)?;
    let mut command = shell::cargo(["deny", "check", "licenses", "bans", "sources"]);
    if arguments.advisories {
        command.arg("advisories");
    }
    shell::run(&mut command)
}
