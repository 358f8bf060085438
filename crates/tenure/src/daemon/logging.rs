//! Log lines of the daemon: for people on a terminal, JSON otherwise, always on standard error.
//!
//! Levels: ERROR the daemon cannot go on; WARN something was lost or postponed; INFO starts, stops and ends of
//! leases; DEBUG connections and requests that went wrong; TRACE everything else.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

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

fn one_line(event: &[u8]) -> Cow<'_, [u8]> {
    let (line, end) = event.split_at(event.len() - usize::from(event.ends_with(b"\n")));
    if !line.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return Cow::Borrowed(event);
    }
    let mut escaped = Vec::with_capacity(event.len() + 8);
    for byte in line {
        match byte {
            b'\n' => escaped.extend_from_slice(b"\\n"),
            b'\r' => escaped.extend_from_slice(b"\\r"),
            byte => escaped.push(*byte),
        }
    }
    escaped.extend_from_slice(end);
    Cow::Owned(escaped)
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
}
