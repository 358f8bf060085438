//! Asking before something is ended that others rely on.

use std::io::{self, BufRead, IsTerminal};

use clap::Args;

use crate::failure::{Failure, Words};
use crate::printer::Printer;

/// Whether to ask.
#[derive(Args)]
pub(crate) struct Consent {
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

fn has_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

impl Consent {
    /// Fails at once where consent is needed and there is nobody to ask; before anything else is done.
    pub(crate) fn can_be_had(&self) -> Result<(), Failure> {
        if self.yes || has_terminal() {
            return Ok(());
        }
        let line = "this command needs confirmation, but standard input is not a terminal";
        Err(Failure::Usage(Words::new(line).hint("--yes does it without asking")))
    }

    /// Whether a command that goes ahead in scripts asks: there is a terminal, and no --yes.
    pub(crate) fn asks(&self) -> bool {
        !self.yes && has_terminal()
    }

    /// Shows what will be ended and asks.
    pub(crate) fn obtain(
        &self,
        printer: &mut Printer,
        what: &[String],
        question: &str,
    ) -> Result<(), Failure> {
        self.can_be_had()?;
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
            _ => Err(Failure::Refused(Words::new("aborted: nothing was changed"))),
        }
    }
}

#[cfg(test)]
mod tests {
    /// Every command that ends or withdraws something takes --yes, whether it asks or not: scripts need not know which.
    const ENDING: &[&str] = &[
        "lease release",
        "lease revoke",
        "lease reclaim",
        "lease drain",
        "lease revive",
        "pool rm",
        "session fail",
        "session stop",
        "mdns unregister",
        "mdns admin unregister",
        "mdns admin drain",
        "mdns admin revive",
        "unregister",
        "admin unregister",
        "admin drain",
        "admin revive",
        "admin session close",
        "admin breaker reset",
        "admin shutdown",
        "admin restart",
        "cluster rotate-secret",
        "cluster step-down",
        "cluster forget",
        "cluster adopt",
        "cluster migrate",
        "token rm",
        "uninstall",
    ];

    /// A new command of one of these names belongs into the table.
    const VERBS: &[&str] = &[
        "release",
        "revoke",
        "reclaim",
        "drain",
        "revive",
        "rm",
        "fail",
        "stop",
        "unregister",
        "close",
        "reset",
        "shutdown",
        "restart",
        "step-down",
        "forget",
        "adopt",
        "migrate",
        "uninstall",
        "end",
        "delete",
        "remove",
        "kill",
    ];

    fn leaves(command: &clap::Command, path: &str, found: &mut Vec<(String, bool)>) {
        let children: Vec<&clap::Command> =
            command.get_subcommands().filter(|child| child.get_name() != "help").collect();
        if children.is_empty() {
            let takes_yes = command.get_arguments().any(|argument| argument.get_long() == Some("yes"));
            found.push((path.to_owned(), takes_yes));
        }
        for child in children {
            let name = child.get_name();
            leaves(child, &if path.is_empty() { name.to_owned() } else { format!("{path} {name}") }, found);
        }
    }

    #[test]
    fn what_ends_something_takes_yes_and_nothing_else_does() {
        let mut found = Vec::new();
        leaves(&crate::command_line(), "", &mut found);
        for (path, takes_yes) in &found {
            assert_eq!(*takes_yes, ENDING.contains(&path.as_str()), "{path}");
            let verb = path.rsplit(' ').next().unwrap_or_default();
            assert!(*takes_yes || !VERBS.contains(&verb), "{path} ends something by its name");
        }
        for path in ENDING {
            assert!(found.iter().any(|(is, _)| is == path), "there is no {path}");
        }
    }
}
