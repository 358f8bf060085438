//! mDNS for Tenure: services announced, withdrawn and found on the local network (RFC 6762, RFC 6763). `machine.rs` decides,
//! without clock or sockets; `host.rs` runs it on a thread. Knows nothing of leases.

mod board;
mod clock;
mod host;
mod interface;
mod link;
mod links;
mod machine;
mod mdns;
mod outbox;
mod pack;
mod querier;
mod random;
mod responder;
mod service;
mod shelf;
mod sighting;
mod socket;
#[cfg(test)]
mod tests;
mod trial;
mod wire;

pub use board::{Condition, Goodbye, Health, Standing};
pub use interface::{Interface, Options};
pub use mdns::{Mdns, Renamed, StartError};
pub use service::{Service, Unfit};
pub use shelf::Browse;
pub use sighting::{Address, Record, Sighting, Wanted};
#[doc(hidden)]
pub use trial::Trial;

/// The port of mDNS on every network (RFC 6762 §3).
pub const PORT: u16 = 5353;

/// Name of the thread that the mDNS engine runs on. A panic there ends the engine alone; it is started again.
pub const ENGINE_THREAD: &str = "tenure-mdns";
