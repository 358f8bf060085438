//! Sessions of `/api/v3` on the real binary, held against their contract from outside.

mod configured;
mod counting;
mod crowding;
pub(crate) mod ending;
mod expiring;
mod heartbeating;
mod hook;
mod listing;
mod mistakes;
mod native;
mod principals;
mod problems;
pub(crate) mod queueing;
mod refusing;
mod replaying;
mod restarting;
pub(crate) mod starting;
mod watching;
pub(crate) mod ways;
