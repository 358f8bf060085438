//! The real binary, as people and scripts meet it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod at;
mod cli_daemon;
mod cli_desk;
mod cli_finding;
mod cli_leases;
mod cli_operators;
mod cli_reference;
mod cli_restore;
mod cli_streams;
mod cli_terminal;
mod cli_usage;
mod dumping;
mod fixture;
mod run_guardian;
mod run_support;
mod usage;
mod verifying;
