//! `tenure man`: a manual page per command.

use std::fs;
use std::path::PathBuf;

use clap::Args;

use crate::failure::{Failure, Words};
use crate::printer::{Printer, counted};

/// Write the manual pages into a directory
#[derive(Args)]
#[command(after_help = "Example:\n  tenure man ~/.local/share/man/man1")]
pub(crate) struct Man {
    /// Directory; created if it does not exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Man {
    pub(crate) fn run(self, command: clap::Command, printer: &mut Printer) -> Result<(), Failure> {
        let shown = self.directory.display();
        let unwritable =
            |error| Failure::Unexpected(Words::new(format_args!("cannot write to {shown}: {error}")));
        fs::create_dir_all(&self.directory).map_err(unwritable)?;
        clap_mangen::generate_to(command, &self.directory).map_err(unwritable)?;
        let pages = fs::read_dir(&self.directory).map_err(unwritable)?.count();
        printer.talk(format_args!("{} in {shown}", counted(pages as u64, "page")));
        Ok(())
    }
}
