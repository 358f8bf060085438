//! The one printer: data to standard output, talk to standard error, nothing anywhere else.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use crate::failure::{Failure, Words};
use crate::table::Table;

/// Where a command says what it has to say.
pub(crate) struct Printer {
    out: BufWriter<StdoutLock<'static>>,
    json: bool,
    talk: Talk,
    /// Columns of the terminal; `None`: not a terminal, nothing has to fit.
    columns: Option<usize>,
}

/// How much a command says beside its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Talk {
    /// Only errors.
    Quiet,
    Normal,
    /// Also which daemon was used.
    Verbose,
}

/// Height of a screen that does not tell.
const ROWS: usize = 24;

impl Printer {
    pub(crate) fn new(json: bool, talk: Talk) -> Self {
        let stdout = io::stdout();
        let columns = stdout
            .is_terminal()
            .then(|| rustix::termios::tcgetwinsize(&stdout).ok())
            .flatten()
            .map(|size| usize::from(size.ws_col))
            .filter(|columns| *columns > 0);
        Self { out: BufWriter::new(stdout.lock()), json, talk, columns }
    }

    /// Whether data is asked for as JSON.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// Whether nothing is to be said unless something goes wrong.
    pub(crate) fn is_quiet(&self) -> bool {
        self.talk == Talk::Quiet
    }

    /// Whether more is to be said than usual.
    pub(crate) fn is_verbose(&self) -> bool {
        self.talk == Talk::Verbose
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

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.out.write_all(bytes)?)
    }

    /// Lets out what was said so far, for commands that go on for long.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }

    /// A table that fits the terminal.
    pub(crate) fn table(&mut self, table: &Table) -> Result<(), Failure> {
        table.lines(self.columns).into_iter().try_for_each(|line| self.line(line))
    }

    /// Whether somebody looks at a screen.
    pub(crate) fn has_screen(&self) -> bool {
        self.columns.is_some()
    }

    /// A line and a table in place of what the screen shows, cut to its height. Where there is no screen, the table.
    pub(crate) fn redraw(&mut self, line: impl Display, table: &Table) -> Result<(), Failure> {
        let Some(columns) = self.columns else {
            self.table(table)?;
            return self.flush();
        };
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
        let now = |size: u16, before: usize| if size == 0 { before } else { usize::from(size) };
        self.columns = Some(now(size.map_or(0, |size| size.ws_col), columns));
        let rows = now(size.map_or(0, |size| size.ws_row), ROWS);
        let lines = table.lines(self.columns);
        // The line above, an empty one, and the one that counts what is cut.
        let fits = rows.saturating_sub(4).max(1);
        let shown = lines.len().min(fits);
        write!(self.out, "\x1b[H\x1b[J{}\n\n", plain(&line.to_string()))?;
        lines[..shown].iter().try_for_each(|line| self.line(line))?;
        if shown < lines.len() {
            self.line(format_args!("and {} more", lines.len() - shown))?;
        }
        self.flush()
    }

    /// One line for people, beside the data.
    pub(crate) fn talk(&mut self, line: impl Display) {
        if !self.is_quiet() {
            self.say(&line);
        }
    }

    /// One line for people that is never left out: they are about to decide.
    pub(crate) fn insist(&mut self, line: impl Display) {
        self.say(&line);
    }

    /// A line to standard error, behind the data that was printed before it: both may go to one terminal.
    fn say(&mut self, line: &dyn Display) {
        self.let_out();
        // Where standard error is closed, no reader is left.
        let _ = writeln!(io::stderr(), "{}", plain(&line.to_string()));
    }

    /// Data that cannot be written stays in the buffer, and `finish` reports why.
    fn let_out(&mut self) {
        let _ = self.out.flush();
    }

    /// A bar for people who wait. Only a terminal shows it, and whoever ends it clears it away.
    pub(crate) fn progress(&self) -> ProgressBar {
        if self.is_quiet() {
            return ProgressBar::hidden();
        }
        let style = ProgressStyle::with_template("[{bar:30}] {percent:>3}%  {msg}")
            .expect("invariant: the template is a constant")
            .progress_chars("=> ");
        ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
    }

    /// A question to whoever sits at the terminal; the answer follows on the same line.
    pub(crate) fn question(&mut self, question: impl Display) {
        self.let_out();
        let mut stderr = io::stderr();
        let _ = write!(stderr, "{} ", plain(&question.to_string()));
        let _ = stderr.flush();
    }

    /// What went wrong.
    pub(crate) fn failure(&mut self, failure: &Failure) {
        if let (true, Failure::Answered { error, .. }) = (self.json, failure)
            && let Ok(object) = serde_json::to_value(error)
        {
            // Whoever reads objects reads a refusal as one too.
            let _ = self.object(&object).and_then(|()| self.flush());
        }
        match failure {
            Failure::NoDaemon { address, cause: Some(cause) } => {
                self.say(&format_args!("Error: Tenure daemon does not answer at {address}: {cause}"));
                match is_here(address) {
                    true => self.say(&"hint: the daemon may be starting, suspended or overloaded"),
                    false => self.say(&"hint: check the address, the network and the firewall"),
                }
            }
            Failure::NoDaemon { address, cause: None } => {
                // As the contract words it, capital included: programs look for this line.
                self.say(&format_args!("Error: Tenure daemon is not running at {address}"));
                match is_here(address) {
                    true => self.say(&"hint: start it with: tenure serve"),
                    false => self.say(
                        &"hint: nothing listens there; on that host, start tenure serve with --bind, or check the port",
                    ),
                }
            }
            Failure::Refused(Words { line, hint })
            | Failure::Usage(Words { line, hint })
            | Failure::Unexpected(Words { line, hint })
            | Failure::Answered { words: Words { line, hint }, .. } => {
                self.say(&format_args!("error: {line}"));
                if let Some(hint) = hint {
                    self.say(&format_args!("hint: {hint}"));
                }
            }
            Failure::Ended(_) => {}
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Failure::Output(error) => self.say(&format_args!("error: cannot write the output: {error}")),
        }
    }

    /// Makes sure that everything has left.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }
}

/// Whether an address is of this machine for certain.
fn is_here(address: &str) -> bool {
    let host = address.split_once("://").map_or("", |(_, host)| host);
    address.starts_with("unix:") || ["127.", "localhost", "[::1]"].iter().any(|here| host.starts_with(here))
}

/// A number and what it counts: `1 pool`, `2 pools`.
pub(crate) fn counted(count: impl Into<u64>, what: &str) -> String {
    let count = count.into();
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// One line, whatever a holder or the network put into it.
pub(crate) fn plain(text: &str) -> String {
    text.replace(is_hidden, "\u{fffd}")
}

/// A control, or a character that turns or hides the text around it. The dashboard has the same list (`text.js`); lines of
/// the log escape the same ones.
pub(crate) fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_neither_steers_the_terminal_nor_turns_or_hides_text() {
        for hidden in ['\u{1b}', '\n', '\u{9b}', '\u{202e}', '\u{2066}', '\u{200b}', '\u{feff}', '\u{e0041}']
        {
            assert_eq!(plain(&format!("a{hidden}b")), "a\u{fffd}b", "{hidden:?}");
        }
        // Joiners make letters and emoji of several characters.
        for shown in ["Küche 台所", "نام\u{200c}ها", "👩\u{200d}🔧"] {
            assert_eq!(plain(shown), shown);
        }
    }
}
