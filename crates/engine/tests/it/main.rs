//! The engine as its callers meet it. Contents:
//! - `desk`: drives turns by hand, with a log in memory of the test's own making
//! - `turns`: what leaves when, and what it rests on
//! - `waiting`: fairness, passing, cancelling
//! - `ends`: sessions, pools, gates, notices, restored logs
//! - `watching`: resume from memory and from disk, lagging
//! - `running`: the host with real files and threads

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

mod running;
