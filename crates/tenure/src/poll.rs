//! Polls that are commands: each runs in a process group of its own, never longer than its target is ours. Two
//! processes do it: the *supervisor* is the poller, the *guardian* starts the commands and keeps their deadlines, so
//! that a supervisor that is stopped, killed or cut off leaves none of them running.
//!
//! ```text
//! store ── renewals ── supervisor ── start, "valid until" ──▶ guardian ──▶ command, command, …
//! ```

mod commands;
mod guardian;
mod metrics;
mod orders;
mod template;

pub(crate) use commands::{Commands, CommandsPlan, Errand, Finished};
pub(crate) use guardian::guard_polls;
pub(crate) use metrics::{metrics_page, serve_metrics};
pub(crate) use orders::Ended;
pub(crate) use template::Template;
