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
#[command(name = "tenure", version, max_term_width = 100, after_help = EXIT_CODES)]
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

const EXIT_CODES: &str = "Data goes to standard output, notes and errors to standard error.
Exit codes: 0 done, 1 refused, 2 wrong usage, 3 unreachable or unexpected.";

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
