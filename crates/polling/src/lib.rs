//! Many pollers, each target with exactly one. Pollers of a group share its targets without configuration: each knows
//! who lives and who holds what, computes who should, and takes, renews, hands over and lets go accordingly. A dead
//! poller's targets move by themselves; nobody polls what it cannot prove to hold.
//!
//! [`Poller`] is the loop, [`store::Store`] what pollers agree through, [`source::TargetSource`] where targets come from,
//! [`assignment`] the pure function that says who should poll what.

mod instance;
mod numbers;
mod poller;
pub mod source;
pub mod store;

pub use instance::{Instance, NameError};
pub use numbers::{MoveReason, Numbers, RunOutcome, UNOWNED_BUCKETS_MS};
pub use poller::{BuildError, Poll, Polled, Poller, PollerBuilder, PollerError, PollerHandle, lead};
pub use tenure_assignment as assignment;
