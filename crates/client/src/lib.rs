//! The Rust client of Tenure: plain calls over HTTP, the daemon's socket, and guards that renew what they hold
//! and fail closed. Imports the wire types and nothing else of ours.
//!
//! [`Client`] makes plain calls, [`Client::hold`] gives a [`Guard`], [`SessionKeeper`] keeps many leases with one
//! heartbeat, [`RegistrationKeeper`] keeps a service advertised, [`Connection`] speaks over the daemon's socket,
//! [`clock`] is the time that all of them go by.
#![doc = include_str!("../README.md")]

mod answer;
mod backoff;
mod bytes_stream;
mod client;
pub mod clock;
mod endpoint;
mod error;
mod events;
mod guard;
mod hold;
mod insist;
mod nodes;
mod operation;
mod registration;
mod session;
mod sightings;
pub mod socket;
mod sse;
mod stream_events;
mod transport;

pub use backoff::{Backoff, Scatter};
pub use bytes_stream::ByteStream;
pub use client::{BuildError, Client, ClientBuilder};
pub use endpoint::{Authority, Endpoint, EndpointError, Endpoints};
pub use error::{CallError, Cause};
pub use events::Events;
pub use guard::{Guard, GuardState, LossReason, ReleaseError, Standing};
pub use hold::Hold;
pub use http::Method;
pub use operation::operation_id;
pub use registration::{RegistrationEnd, RegistrationKeeper, RegistrationStanding, RegistrationState};
pub use session::SessionKeeper;
pub use sightings::Sightings;
pub use socket::Connection;
pub use stream_events::StreamEvents;
/// The wire types that calls take and give.
pub use tenure_api as api;
pub use transport::Peer;
