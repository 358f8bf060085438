//! Groups of pollers over HTTP, on the real binary. The tests are the pollers: sessions by hand, leases under `poll/`,
//! hand-overs, silence.

mod counting;
pub(crate) mod freeing;
mod many;
mod permitting;
pub(crate) mod reporting;
mod restarting;
mod showing;
pub(crate) mod steering;
mod telling;
pub(crate) mod ways;
