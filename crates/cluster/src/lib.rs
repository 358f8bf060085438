//! One ordered log on several machines: who may write, until when, and how everybody else follows.
//!
//! The protocol is pure (`term.rs`, `claim.rs`, `trust.rs`, `start.rs`, `listing.rs`, `adopt.rs`) and speaks to a [`store::Store`]; `etcd` is one over gRPC. Knows nothing
//! of leases, engines or HTTP. Start reading at `term.rs`, then `claim.rs` and `trust.rs`, then `follow.rs` and `remote.rs`.

#![forbid(unsafe_code)]

pub mod adopt;
mod boot;
mod claim;
mod differing;
#[cfg(feature = "etcd")]
pub mod etcd;
mod follow;
pub mod format;
pub mod growth;
mod keys;
mod listing;
mod memory;
pub mod moving;
pub mod pieces;
pub mod planted;
mod remote;
mod start;
pub mod store;
mod term;
mod trust;
pub mod values;

pub use boot::{BootError, BootOptions, Booted, Removed, boot, copy_whole, forget, fresh_progress, mark};
pub use claim::{Claimant, Claimed, Lookout, Next, SPREAD_MS_MAX, SPREAD_RESIGNED_MS_MAX};
pub use differing::Differing;
pub use follow::{FollowEnd, FollowError, Follower, Seen};
pub use keys::Keys;
pub use listing::{Double, ListedNode, Listing, read_list, removal};
pub use memory::Memory;
pub use remote::{Clock, FollowedLog, RemoteLog, SharedMirror, Vitals, step_within, sync_copy};
pub use start::{LocalEnd, NoStart, Start};
pub use term::{Beaten, Over, Term, Won, Written, resignation_of_dead};
pub use trust::{Forgot, Heard, Misfit, Peer, Progress, Remembered, TOUCH_MS, Told, Trust};
