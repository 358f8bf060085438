//! What the program can do: one file per command, its documentation comment is its help.

mod log;

use clap::Subcommand;

use crate::failure::Failure;
use crate::printer::Printer;

/// Every command.
#[derive(Subcommand)]
pub(crate) enum Command {
    Log(log::Log),
}

impl Command {
    pub(crate) fn run(self, printer: &mut Printer) -> Result<(), Failure> {
        match self {
            Self::Log(log) => log.run(printer),
        }
    }
}
