//! What the crate's outside relies on, held against files.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod golden;
