//! The Rust client of Tenure: plain calls over HTTP, the daemon's socket, and guards that renew what they hold
//! and fail closed. Imports the wire types and nothing else of ours.
//!
//! Plain calls, one per route, take and give the types of [`api`]:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use tenure_client::{Client, Endpoint, api};
//!
//! let endpoint: Endpoint = "http://127.0.0.1:5641".parse()?;
//! let client = Client::builder(endpoint).build()?;
//! let lease = client
//!     .acquire(&api::Acquire {
//!         resources: vec!["printer".to_owned()],
//!         holder: "me".to_owned(),
//!         ..api::Acquire::default()
//!     })
//!     .await?;
//! client.release(&lease.lease_id, &api::HolderCall { epoch: lease.epoch, ..Default::default() }).await?;
//! # Ok(())
//! # }
//! ```

mod backoff;
mod bytes_stream;
mod client;
pub mod clock;
mod endpoint;
mod error;
mod events;
mod guard;
mod hold;
mod operation;
mod session;
pub mod socket;
mod sse;
mod transport;

pub use bytes_stream::ByteStream;
pub use client::{BuildError, Client, ClientBuilder};
pub use endpoint::{Authority, Endpoint, EndpointError};
pub use error::{CallError, Cause};
pub use events::Events;
pub use guard::{Guard, GuardState, LossReason, ReleaseError, Standing};
pub use hold::Hold;
pub use http::Method;
pub use operation::operation_id;
pub use session::SessionKeeper;
pub use socket::Connection;
/// The wire types that calls take and give.
pub use tenure_api as api;
