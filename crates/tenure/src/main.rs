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
mod write_lock;
mod writer;

use std::env::args_os;
use std::ffi::OsString;
use std::io::{IsTerminal, stdin};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use commands::Command;
use connect::Reach;
use failure::{Failure, exit_code};
use printer::Printer;

/// Decides who holds what, until when, and lets go on behalf of those who cannot.
#[derive(Parser)]
#[command(name = "tenure", version, max_term_width = 100, after_help = EXIT_CODES)]
struct Cli {
    /// Print data as JSON
    #[arg(long, global = true, display_order = 100)]
    json: bool,
    /// Say nothing on standard error unless something goes wrong
    #[arg(long, short, global = true, display_order = 101)]
    quiet: bool,
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: Option<Command>,
}

const EXIT_CODES: &str = "Data goes to standard output, talk to standard error.
Exit codes: 0 done, 1 refused, 2 wrong usage, 3 unreachable or unexpected.";

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
    let (outcome, mut printer) = match Cli::try_parse_from(arguments()) {
        Ok(cli) => {
            let mut printer = Printer::new(cli.json, cli.quiet);
            let outcome = match cli.command {
                Some(command) => command.run(&cli.reach, &mut printer),
                None if stdin().is_terminal() => printer.help(&mut Cli::command()),
                None => Command::stdio().run(&cli.reach, &mut printer),
            };
            (outcome, printer)
        }
        Err(error) if !error.use_stderr() => {
            // Help and version are data that was asked for.
            let mut printer = Printer::new(false, false);
            (printer.text(&error.render().to_string()), printer)
        }
        Err(error) => (Err(Failure::usage(&error)), Printer::new(false, false)),
    };
    let outcome = outcome.and_then(|()| printer.finish());
    if let Err(failure) = &outcome {
        printer.failure(failure);
    }
    ExitCode::from(exit_code(&outcome))
}
