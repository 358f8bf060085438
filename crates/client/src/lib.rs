//! The Rust client of Tenure: typed calls over HTTP, the daemon's socket, and guards that renew their leases and fail
//! closed.
//!
//! [`Client`] makes typed calls, [`Client::hold`] returns a [`Guard`], [`SessionKeeper`] keeps many leases alive with
//! one heartbeat, [`RegistrationKeeper`] keeps a service advertised, [`Connection`] is a connection to the daemon's
//! socket, and [`clock`] is the clock that all of them use.
#![doc = include_str!("../README.md")]

mod answer;
mod backoff;
mod bytes_stream;
mod client;
pub mod clock;
mod discovery;
mod endpoint;
mod error;
mod events;
mod failover;
mod guard;
mod hold;
mod insist;
mod messages;
mod nodes;
mod operation;
mod registration;
mod session;
mod slot_session_events;
pub mod socket;
mod sse;
mod transport;
#[doc(hidden)]
pub mod web;

pub use backoff::{Backoff, Jitter};
pub use bytes_stream::ByteStream;
pub use client::{BuildError, Client, ClientBuilder};
pub use discovery::DiscoveryStream;
pub use endpoint::{Authority, Endpoint, EndpointError, Endpoints};
pub use error::{CallError, Cause};
pub use events::Events;
pub use failover::Failover;
pub use guard::{Guard, GuardState, GuardStatus, LossReason, ReleaseError};
pub use hold::Hold;
pub use http::Method;
pub use operation::operation_id;
pub use registration::{RegistrationEnd, RegistrationKeeper, RegistrationState, RegistrationStatus};
pub use session::SessionKeeper;
pub use slot_session_events::SlotSessionEvents;
pub use socket::Connection;
/// The request and response types of the calls.
pub use tenure_api as api;
pub use transport::Peer;
