//! One file per row, each with its reference beside it.

pub(crate) mod driven;
pub(crate) mod durable;
pub(crate) mod heartbeat;
pub(crate) mod kernel;
pub(crate) mod memory;
pub(crate) mod recovery;
pub(crate) mod snapshot;
pub(crate) mod storm;
pub(crate) mod tools;
pub(crate) mod turns;
pub(crate) mod waiting;
