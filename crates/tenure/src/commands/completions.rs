//! `tenure completions`: what a shell needs to complete commands.

use clap::Args;
use clap_complete::Shell;

use crate::failure::Failure;
use crate::printer::Printer;

/// Print the completion script for a shell
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Completions {
    /// Shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

const EXAMPLE: &str = "Example:
  tenure completions bash > ~/.local/share/bash-completion/completions/tenure";

impl Completions {
    pub(crate) fn run(self, mut command: clap::Command, printer: &mut Printer) -> Result<(), Failure> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut command, "tenure", &mut text);
        printer.bytes(&text)
    }
}
