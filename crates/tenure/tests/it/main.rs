//! The real binary, as people and scripts meet it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod at;
mod dumping;
mod fixture;
mod usage;
mod verifying;
