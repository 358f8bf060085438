//! Registrations on the real binary, held against their contract; no packet leaves the machine.
//!
//! The daemon runs without mDNS: what it advertises is then what its own `browse` sees.

pub(crate) mod beating;
pub(crate) mod coming_back;
mod counting;
mod discovering;
pub(crate) mod ending;
mod mixing;
pub(crate) mod native;
pub(crate) mod operating;
mod restarting;
mod same_name;
mod scopes;
mod speaking;
mod stopping;
pub(crate) mod terms;
mod validating;
pub(crate) mod ways;
