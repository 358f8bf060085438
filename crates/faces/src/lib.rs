//! What can be asked of a daemon, once: a typed [`Call`] by a [`Caller`] becomes a typed [`Reply`] or an error
//! of the table, whatever transport carried it. Transports frame bytes and know who is asking; the engine
//! decides. Start reading at `dispatch.rs`.
//!
//! Modules in which a caller's numbers arrive may not let one overflow: a panic stops the daemon.

#[warn(clippy::arithmetic_side_effects)]
mod ask;
#[warn(clippy::arithmetic_side_effects)]
mod call;
#[warn(clippy::arithmetic_side_effects)]
mod caller;
mod connection;
mod connections;
mod dispatch;
mod elsewhere;
mod events;
mod following;
mod gates;
#[warn(clippy::arithmetic_side_effects)]
mod leases;
#[warn(clippy::arithmetic_side_effects)]
mod limits;
mod polling;
#[warn(clippy::arithmetic_side_effects)]
mod refusal;
mod registrations;
#[warn(clippy::arithmetic_side_effects)]
mod reply;
#[warn(clippy::arithmetic_side_effects)]
mod sessions;
#[warn(clippy::arithmetic_side_effects)]
mod show;
#[warn(clippy::arithmetic_side_effects)]
mod stage;
mod status;
#[warn(clippy::arithmetic_side_effects)]
mod steps;
#[warn(clippy::arithmetic_side_effects)]
mod story;
mod streams;
mod switchboard;
mod tally;
mod within;

pub use call::{Call, Reply, ReplyBody};
pub use caller::{Caller, Freshness, Origin, Scope};
pub use connection::Opening;
pub use connections::{ConnectionsHeard, ConnectionsTold, NodeConnections};
pub use dispatch::{Begun, Faces, Planned, UnderWay, Vitals};
pub use elsewhere::{Elsewhere, FollowedElsewhere, Following, Passed};
pub use events::{EventStream, Streamed};
pub use following::SessionEvents;
pub use leases::{GRACE_MS_DEFAULT, TTL_MS_DEFAULT};
pub use limits::{
    ATTACHMENT_BYTES_MAX, GRACE_MS_MAX, LIFETIME_MS_MAX, OPERATION_ID_BYTES_MAX, PAGE_MAX, TTL_MS_MAX,
    TTL_MS_MIN, WAIT_MS_MAX, over_limit,
};
pub use polling::{LeftFor, PollingNumbers, TargetCounts, UnownedTimes};
pub use registrations::{
    Announcing, Facts, Goodbye, Health, Home, Later, Neighbours, Network, NodeHeard, NodeTold, Quiet, Record,
    RegistrationOptions, Renamed, Said, Seen, Service, ServiceType, Settled, Sightings, Sightseeing,
    Standing, Unfit, Wanted, log_end, understand_instance, understand_registration,
};
pub use stage::Stage;
pub use story::{readings_at_rest, story_at_rest};
pub use streams::{EndHook, Reuse, StreamFacts, StreamNumbers, StreamOptions, ToldSoFar, log_stream_end};
pub use switchboard::{Ends, Switchboard};
pub use tally::{Counted, Full, Tally};
pub use within::Within;
