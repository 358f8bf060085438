//! Asking before something is ended that others rely on.

use std::io::{self, BufRead, IsTerminal};

use clap::Args;

use crate::failure::{Failure, Words};
use crate::printer::Printer;

/// Whether to ask.
#[derive(Args)]
pub(crate) struct Consent {
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

impl Consent {
    /// Fails at once where consent is needed and there is nobody to ask; before anything else is done.
    pub(crate) fn can_be_had(&self) -> Result<(), Failure> {
        if self.yes || (io::stdin().is_terminal() && io::stderr().is_terminal()) {
            return Ok(());
        }
        let line = "this ends something that others may rely on, and there is no terminal to ask on";
        Err(Failure::Usage(Words::new(line).hint("--yes does it without asking")))
    }

    /// Shows what will be ended and asks.
    pub(crate) fn obtain(
        &self,
        printer: &mut Printer,
        what: &[String],
        question: &str,
    ) -> Result<(), Failure> {
        if self.yes {
            what.iter().for_each(|line| printer.talk(line));
            return Ok(());
        }
        what.iter().for_each(|line| printer.insist(line));
        printer.question(format_args!("{question} [y/N]"));
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Failure::Refused(Words::new("nothing was done"))),
        }
    }
}
