//! The one printer: data to standard output, talk to standard error, nothing anywhere else.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use serde_json::Value;

use crate::failure::{Failure, Words};
use crate::table::Table;

/// Where a command says what it has to say.
pub(crate) struct Printer {
    out: BufWriter<StdoutLock<'static>>,
    json: bool,
    quiet: bool,
    /// Columns of the terminal; `None`: not a terminal, nothing has to fit.
    columns: Option<usize>,
}

impl Printer {
    pub(crate) fn new(json: bool, quiet: bool) -> Self {
        let stdout = io::stdout();
        let columns = stdout
            .is_terminal()
            .then(|| rustix::termios::tcgetwinsize(&stdout).ok())
            .flatten()
            .map(|size| usize::from(size.ws_col))
            .filter(|columns| *columns > 0);
        Self { out: BufWriter::new(stdout.lock()), json, quiet, columns }
    }

    /// Whether data is asked for as JSON.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// One line of data.
    pub(crate) fn line(&mut self, line: impl Display) -> Result<(), Failure> {
        Ok(writeln!(self.out, "{line}")?)
    }

    /// A piece of a line of data, for objects that are too large to be built first.
    pub(crate) fn piece(&mut self, piece: impl Display) -> Result<(), Failure> {
        Ok(write!(self.out, "{piece}")?)
    }

    /// Several lines of data, without blanks at their ends.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        text.trim_end().lines().try_for_each(|line| self.line(line.trim_end()))
    }

    /// One JSON object on one line.
    pub(crate) fn object(&mut self, object: &Value) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.out, object).map_err(io::Error::from)?;
        Ok(self.out.write_all(b"\n")?)
    }

    /// A table that fits the terminal.
    pub(crate) fn table(&mut self, table: &Table) -> Result<(), Failure> {
        table.lines(self.columns).into_iter().try_for_each(|line| self.line(line))
    }

    /// What the program can do.
    pub(crate) fn help(&mut self, command: &mut clap::Command) -> Result<(), Failure> {
        let help = command.render_help();
        self.text(&help.to_string())
    }

    /// One line for people, beside the data.
    pub(crate) fn talk(&mut self, line: impl Display) {
        if !self.quiet {
            say(&line);
        }
    }

    /// What went wrong.
    pub(crate) fn failure(&mut self, failure: &Failure) {
        match failure {
            Failure::Refused(Words { line, hint })
            | Failure::Usage(Words { line, hint })
            | Failure::Unexpected(Words { line, hint }) => {
                say(&format_args!("error: {line}"));
                if let Some(hint) = hint {
                    say(&format_args!("hint: {hint}"));
                }
            }
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Failure::Output(error) => say(&format_args!("error: cannot write the output: {error}")),
        }
    }

    /// Makes sure that everything has left.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }
}

/// A number and what it counts: `1 pool`, `2 pools`.
pub(crate) fn counted(count: impl Into<u64>, what: &str) -> String {
    let count = count.into();
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Where standard error is closed there is nobody left to tell.
fn say(line: &dyn Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
