//! mDNS for Tenure: services announced, withdrawn and found on the local network. The only crate that knows
//! mdns-sd (in `engine.rs` alone): its thread, its queue, its panics and its peculiarities. Knows nothing of
//! leases.

mod adverts;
mod board;
mod clock;
mod ear;
mod engine;
mod farewells;
mod interface;
mod mdns;
mod pace;
mod service;
mod shelf;
mod sighting;
mod supervisor;
mod timers;
mod wire;

pub use board::{Condition, Health, Standing};
pub use farewells::Goodbye;
pub use interface::{Interface, Options};
pub use mdns::{Mdns, Renamed, StartError};
pub use service::{Service, Unfit};
pub use shelf::Browse;
pub use sighting::{Address, Record, Sighting, Wanted};

/// The port of mDNS on every network (RFC 6762 §3).
pub const PORT: u16 = 5353;

/// Name of the thread that mdns-sd runs on. A panic there ends that thread alone; it is started again.
pub const ENGINE_THREAD: &str = "mDNS_daemon";
