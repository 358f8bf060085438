//! Log lines of the daemon: for people on a terminal, JSON otherwise, always on standard error.
//!
//! Levels: ERROR the daemon cannot go on; WARN something was lost or postponed; INFO starts, stops and ends of
//! leases; DEBUG connections and requests that went wrong; TRACE everything else.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// Begins logging. `filter` is a level, or levels per module.
pub(crate) fn start(filter: &str, json: Option<bool>) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let json = json.unwrap_or_else(|| !std::io::stderr().is_terminal());
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_span_events(FmtSpan::NONE)
        .with_target(false);
    // Only the first subscriber of a process counts, and a daemon starts once.
    let _ = if json {
        builder.json().flatten_event(true).with_current_span(false).try_init()
    } else {
        let ansi =
            std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
        builder.with_ansi(ansi).try_init()
    };
}
