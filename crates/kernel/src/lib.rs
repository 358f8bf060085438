//! The trusted core of Tenure: who holds what.
//!
//! A [`Command`] goes in; one [`Event`], the outcome an earlier try had, or one [`Rejection`] comes out.
//! [`Kernel::decide`] holds every rule and changes nothing; [`Kernel::evolve`] is the only mutation and
//! cannot fail. No clock, no randomness, no IO, no hash order: the same events always give the same state.

pub mod codec;
mod command;
mod decide;
mod event;
mod evolve;
mod hashing;
mod ids;
mod invariants;
mod kernel;
mod lease;
pub mod limits;
pub mod names;
mod note;
mod operations;
pub mod planted;
mod policy;
mod pool;
mod reason;
mod record;
mod rejection;
mod replica;
mod retained;
mod session;
mod tables;
mod view;

pub use command::{
    Action, Amend, Bundle, Command, Grant, Internal, Member, OpenSession, Operation, Rebind, Reclaim,
    Release, Revoke, SessionKind, Start, Steer, Token,
};
pub use decide::Decision;
pub use event::{
    Amended, Change, ChangeKind, Epitaph, Event, Expired, Granted, Names, Rebound, Reclaimed, Released,
    Revoked, Steered,
};
pub use hashing::Hashing;
pub use ids::{Epoch, Fence, LeaseId, Lsn, SessionId, Stamp, Tick};
pub use invariants::Violation;
pub use kernel::{Counts, Kernel, PendingNotice, Setup};
pub use lease::{LeaseState, Revocation};
pub use limits::{Limits, Retention};
pub use names::{NameFault, Text};
pub use note::{Note, Subject};
pub use operations::{Replay, canonical_fingerprint};
pub use policy::{Face, Mode, Policy, ReclaimRule};
pub use pool::PoolView;
pub use reason::{Actor, Evidence, GateReport, Reason, ReclaimBy, ReclaimGround};
pub use record::{Content, RecordKind, RecordReader};
pub use rejection::{Capacity, CountKey, Field, Held, Rejection, StateName};
pub use replica::{Replica, StateError, Unreadable, apply_records};
pub use retained::EndedLease;
pub use session::{Kept, Loss, SessionView};
pub use view::{Found, HolderSlot, LeaseSlot, LeaseView};
