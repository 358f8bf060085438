//! Log lines of the daemon: for people on a terminal, JSON otherwise, always on standard error.
//!
//! Levels: ERROR the daemon cannot go on; WARN something was lost or postponed; INFO starts, stops and ends of
//! leases; DEBUG connections and requests that went wrong; TRACE everything else.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::printer::is_hidden;

/// Begins logging. `filter` is a level, or levels per module.
pub(crate) fn start(filter: &str, json: Option<bool>) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let json = json.unwrap_or_else(|| !io::stderr().is_terminal());
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_span_events(FmtSpan::NONE)
        .with_target(false);
    // Only the first subscriber of a process counts, and a daemon starts once.
    let _ = if json {
        builder.json().flatten_event(true).with_current_span(false).try_init()
    } else {
        let ansi = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
        builder.with_ansi(ansi).with_writer(|| OneLine(io::stderr())).try_init()
    };
}

/// Writes each event on one line, whatever a caller put into it: a second line would pass for an event of its own.
/// JSON has its own escapes.
struct OneLine<W>(W);

impl<W: Write> Write for OneLine<W> {
    /// The formatter writes an event in one piece.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.0.write_all(&one_line(event))?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// An event with what would turn, hide or break its line escaped; the formatter's own colours stay.
fn one_line(event: &[u8]) -> Cow<'_, [u8]> {
    let text = String::from_utf8_lossy(event);
    let (line, end) = text.split_at(text.len() - usize::from(text.ends_with('\n')));
    let is_escaped = |character: char| is_hidden(character) && !matches!(character, '\x1b' | '\t');
    if !line.contains(is_escaped) {
        return Cow::Borrowed(event);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for character in line.chars() {
        match is_escaped(character) {
            true => escaped.extend(character.escape_default()),
            false => escaped.push(character),
        }
    }
    Cow::Owned((escaped + end).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let mut written = Vec::new();
        let mut lines = OneLine(&mut written);
        lines.write_all(b"INFO ended reason=x\n2026-11-16 INFO told to stop\r\n").unwrap();
        lines.write_all(b"INFO plain\n").unwrap();
        lines.write_all(b"").unwrap();
        assert_eq!(written, b"INFO ended reason=x\\n2026-11-16 INFO told to stop\\r\nINFO plain\n");
    }

    #[test]
    fn what_turns_or_hides_text_is_escaped_and_what_people_write_is_not() {
        let mut written = Vec::new();
        let mut lines = OneLine(&mut written);
        lines
            .write_all("INFO holder=\u{202e}kcul\u{2028}2026 INFO \u{200b}\u{7f}\u{85}\n".as_bytes())
            .unwrap();
        lines.write_all("\x1b[32mINFO\x1b[0m holder=Küche 台所\n".as_bytes()).unwrap();
        let expected = concat!(
            r"INFO holder=\u{202e}kcul\u{2028}2026 INFO \u{200b}\u{7f}\u{85}",
            "\n\x1b[32mINFO\x1b[0m holder=Küche 台所\n",
        );
        assert_eq!(String::from_utf8(written).unwrap(), expected);
    }
}
