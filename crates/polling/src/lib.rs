//! Shares polling targets among several pollers, so that each target has exactly one.
//!
//! [`Poller`] is the loop, [`store::Store`] the coordination backend, [`source::TargetSource`] the list of targets, and
//! [`assignment`] the pure function that assigns targets to pollers.
#![doc = include_str!("../README.md")]

mod instance;
mod metrics;
mod poller;
pub mod source;
pub mod store;

pub use instance::{Instance, NameError};
pub use metrics::{MoveReason, PollerMetrics, RunOutcome, UNOWNED_BUCKETS_MS};
pub use poller::{
    BuildError, Poll, Polled, Poller, PollerBuilder, PollerError, PollerHandle, cancel_lead, max_silence,
};
pub use tenure_assignment as assignment;
