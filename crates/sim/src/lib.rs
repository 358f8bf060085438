//! The deterministic simulator: the real kernel, liveness, engine and file log over a simulated disk, clock
//! and clients. One seed reproduces everything; nothing here reads a clock, a disk or a random device.
//!
//! Start reading at `world.rs`, then `invariants.rs`; `profile.rs` says what a seed switches on.

mod brief;
mod clients;
pub mod cluster;
mod conversations;
mod daemon;
mod disk;
mod faults;
mod happening;
mod healing;
mod heartbeats;
mod holder;
mod host;
mod incarnation;
mod invariants;
mod ledger;
mod memory;
mod network;
mod operator;
mod plants;
mod profile;
mod random;
mod search;
mod story;
mod trace;
mod violation;
mod workload;
mod world;

pub use disk::{DiskFault, Loss, SimDisk};
pub use plants::Plant;
pub use profile::{Faults, Profile, Work};
pub use random::Random;
pub use search::{Found, Search, run_planted};
pub use trace::Trace;
pub use violation::Violation;
pub use world::{Options, Report, Tally, run};
