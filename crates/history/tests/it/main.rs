//! One binary for all tests of the history that need a log on a disk.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod dumping;
mod indexes;
mod past_states;
mod sentences;
mod stories;
mod support;
mod verifying;
