//! Calls as transports make them, carried out by a live engine over real files.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod daemon;
mod handing_over;
mod lapsing;
mod leading;
mod memory;
mod reading;
mod retrying;
mod seen;
