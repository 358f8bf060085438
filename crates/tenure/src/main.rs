//! The one binary: parse, run one command, say what went wrong in one line, leave with one exit code.

mod atomic_file;
mod bench;
mod breadcrumb;
mod caller;
mod commands;
mod config;
mod confirm;
mod connect;
mod daemon;
mod duration;
mod failure;
mod machine;
mod poll;
mod printer;
mod run;
mod secrets;
mod show;
mod standalone;
mod stopping;
mod table;
mod trusted;
mod waiting;
mod write_lock;
mod writer;
mod wrong_usage;

use std::env::args_os;
use std::ffi::OsString;
use std::io::{IsTerminal, stdin};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use commands::Command;
use connect::Reach;
use failure::exit_code;
use printer::{Printer, Talk};
use wrong_usage::wrong_usage;

/// Durable leases and locks that clean up after crashed clients.
#[derive(Parser)]
#[command(name = "tenure", version, max_term_width = 100, after_help = AFTER_HELP)]
struct Cli {
    /// Print data as JSON
    #[arg(long, global = true, display_order = 100)]
    json: bool,
    /// Print only errors on standard error
    #[arg(long, short, global = true, display_order = 101, conflicts_with = "verbose")]
    quiet: bool,
    /// Print more on standard error, such as the daemon that is used
    #[arg(long, short, global = true, display_order = 102)]
    verbose: bool,
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: Option<Command>,
}

const AFTER_HELP: &str = "Data goes to standard output, notes and errors to standard error.
Exit codes: 0 done, 1 rejected, 2 wrong usage, 3 unreachable or unexpected.

Examples:
  tenure serve
  tenure run --resource nightly-backup --wait 1h -- /usr/local/bin/backup
  tenure lease acquire printer
  tenure why printer";

/// What `tenure` alone prints: what one does first.
const FIRST_STEPS: &str = "Durable leases and locks that clean up after crashed clients.

First steps:
  tenure serve                                  run the daemon (leave it running in its own terminal)
  tenure run --resource printer -- COMMAND      hold a lease while a command runs
  tenure status                                 show the status of the daemon
  tenure open                                   open the dashboard in a browser

All commands: tenure --help";

/// The definition of every command and flag: what is parsed, completed, printed as help and put into the manual.
pub(crate) fn command_line() -> clap::Command {
    Cli::command()
}

/// The arguments, with `tenure --daemon` read as what it is called now.
fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<OsString> = args_os().collect();
    if let Some(first) = arguments.get_mut(1).filter(|first| *first == "--daemon") {
        *first = "serve".into();
    }
    arguments
}

fn main() -> ExitCode {
    let given = arguments();
    let (outcome, mut printer) = match Cli::try_parse_from(&given) {
        Ok(cli) => {
            let talk = match (cli.quiet, cli.verbose) {
                (true, _) => Talk::Quiet,
                (false, true) => Talk::Verbose,
                (false, false) => Talk::Normal,
            };
            let mut printer = Printer::new(cli.json, talk);
            let outcome = match cli.command {
                Some(command) => command.run(&cli.reach, &mut printer),
                None if stdin().is_terminal() => printer.text(FIRST_STEPS),
                None => Command::stdio().run(&cli.reach, &mut printer),
            };
            (outcome, printer)
        }
        Err(error) if !error.use_stderr() => {
            // Help and version are data that was asked for.
            let mut printer = Printer::new(false, Talk::Normal);
            (printer.text(&error.render().to_string()), printer)
        }
        Err(error) => {
            let given: Vec<String> =
                given.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
            (Err(wrong_usage(&error, &command_line(), &given)), Printer::new(false, Talk::Normal))
        }
    };
    let outcome = outcome.and_then(|()| printer.finish());
    if let Err(failure) = &outcome {
        printer.failure(failure);
    }
    ExitCode::from(exit_code(&outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of the help that people can reach.
    fn pages(command: &clap::Command, found: &mut Vec<clap::Command>) {
        let shown = |command: &&clap::Command| command.get_name() != "help";
        for below in command.get_subcommands().filter(shown) {
            found.push(below.clone());
            pages(below, found);
        }
    }

    /// The lines below `Example:`, with continued lines in one.
    fn examples(command: &clap::Command) -> Vec<String> {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let help = help.replace("\\\n", " ");
        let mut lines = help.lines().skip_while(|line| !matches!(*line, "Example:" | "Examples:")).skip(1);
        lines.by_ref().map_while(|line| line.strip_prefix("  ")).map(str::to_owned).collect()
    }

    /// The commands of one line of a shell, as words; without its redirections.
    fn commands_in(line: &str) -> Vec<Vec<String>> {
        let mut commands = vec![vec![String::new()]];
        let mut quote = None;
        for c in line.chars() {
            let words = commands.last_mut().unwrap();
            match (quote, c) {
                (Some(open), c) if open == c => quote = None,
                (None, '\'' | '"') => quote = Some(c),
                (None, ' ') => words.push(String::new()),
                (None, '|') => commands.push(vec![String::new()]),
                (_, c) => words.last_mut().unwrap().push(c),
            }
        }
        for words in &mut commands {
            words.retain(|word| !word.is_empty() && word != "sudo");
            let end = words.iter().position(|word| word == ">").unwrap_or(words.len());
            words.truncate(end);
        }
        commands
    }

    /// The name of the command that the words call.
    fn called(words: &[String]) -> String {
        let matches = command_line().try_get_matches_from(words).unwrap_or_else(|error| panic!("{error}"));
        let mut at = &matches;
        let mut name = "tenure".to_owned();
        while let Some((below, matches)) = at.subcommand() {
            (name, at) = (below.to_owned(), matches);
        }
        name
    }

    #[test]
    fn every_help_ends_with_examples_that_can_be_parsed() {
        let mut root = command_line();
        root.build();
        let mut found = vec![root.clone()];
        pages(&root, &mut found);
        assert!(found.len() > 100);
        for command in found {
            let name = command.get_name();
            if matches!(name, "guardian" | "reference") && command.is_hide_set() {
                continue;
            }
            let path = command.get_bin_name().unwrap_or(name);
            let lines = examples(&command);
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let last = help.replace("\\\n", " ").lines().last().map(|line| line.trim_start().to_owned());
            assert_eq!(lines.last().map(|line| line.trim_start().to_owned()), last, "{path} ends otherwise");
            let commands: Vec<Vec<String>> = lines.iter().flat_map(|it| commands_in(it)).collect();
            let ours = commands.iter().filter(|words| words.first().is_some_and(|word| word == "tenure"));
            let called: Vec<String> = ours.map(|words| called(words)).collect();
            assert!(!called.is_empty(), "{path} has no example");
            let is_group = command.has_subcommands();
            assert!(is_group || called.iter().all(|called| called == name), "{path}: {called:?}");
        }
    }
}
