//! `tenure uninstall`: takes back what `tenure install` set up, except what people would miss.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::install::system;
use super::install::unit::{SYSUSERS_PATH, UNIT_NAME, UNIT_PATH};
use crate::config::{MACHINE_CONFIG, MACHINE_DATA};
use crate::confirm::Consent;
use crate::failure::{Failure, Words};
use crate::printer::Printer;

/// Stop the service and remove what `tenure install` wrote
///
/// Data, settings and the daemon's user remain. The command is idempotent.
#[derive(Args)]
#[command(after_help = "Examples:\n  sudo tenure uninstall --dry-run\n  sudo tenure uninstall")]
pub(crate) struct Uninstall {
    /// Remove below this directory and run no command, for packages
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Print the removals and commands without applying them
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    consent: Consent,
}

impl Uninstall {
    pub(crate) fn run(self, printer: &mut Printer) -> Result<(), Failure> {
        if self.root.is_none() && !self.dry_run {
            system::must_be_root("uninstall")?;
        }
        let paths: Vec<PathBuf> = [UNIT_PATH, SYSUSERS_PATH]
            .iter()
            .map(|path| match &self.root {
                Some(root) => root.join(path.trim_start_matches('/')),
                None => PathBuf::from(path),
            })
            .filter(|path| path.exists())
            .collect();
        let runs = self.root.is_none() && (self.dry_run || system::runs_systemd()) && !paths.is_empty();
        let before: &[&[&str]] = if runs { &[&["systemctl", "disable", "--now", UNIT_NAME]] } else { &[] };
        let after: &[&[&str]] = if runs { &[&["systemctl", "daemon-reload"]] } else { &[] };
        if self.dry_run {
            let commands = |lines: &[&[&str]]| lines.iter().map(|line| line.join(" ")).collect::<Vec<_>>();
            let removals = paths.iter().map(|path| format!("rm {}", path.display()));
            return commands(before)
                .into_iter()
                .chain(removals)
                .chain(commands(after))
                .try_for_each(|line| printer.line(line));
        }
        if runs && self.consent.asks() {
            let what = format!("service {UNIT_NAME}: it stops and does not start again");
            self.consent.obtain(printer, &[what], "remove the service?")?;
        }
        before.iter().try_for_each(|line| system::run(line))?;
        for path in &paths {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    let line = format!("cannot remove {}: {error}", path.display());
                    return Err(Failure::Unexpected(Words::new(line)));
                }
                Ok(()) | Err(_) => printer.talk(format_args!("removed {}", path.display())),
            }
        }
        after.iter().try_for_each(|line| system::run(line))?;
        if paths.is_empty() {
            printer.talk("nothing is installed");
        } else {
            printer.talk(format_args!("note: {MACHINE_DATA} and {MACHINE_CONFIG} remain"));
        }
        if printer.json() {
            printer.object(&json!({"removed": paths}))?;
        }
        Ok(())
    }
}
