//! One binary for all tests that need a disk, real or pretended.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod conformance;
#[cfg(feature = "contract")]
mod contract;
mod copies;
mod crash_disk;
mod crash_points;
mod damage;
mod earlier;
mod golden;
mod lifecycle;
#[cfg(feature = "plant")]
mod planted;
mod snapshots;
mod story;
mod support;
