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
mod daemon;
mod dumping;
mod faults;
mod fixture;
mod operations;
mod raw_events;
mod raw_http;
mod raw_lines;
mod run_desk;
mod run_guardian;
mod run_lease;
mod run_support;
mod run_witness;
mod usage;
mod verifying;
mod wire;
