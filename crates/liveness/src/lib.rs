//! Who is alive, and what follows when someone is not.
//!
//! Liveness watches proofs of life beside the kernel and never changes it: [`Liveness::heartbeat`] and its
//! siblings take observations, [`Liveness::on_deadline`] says what is due, [`Liveness::follow`] keeps step
//! with the kernel's events. Time enters as a value. A renewal writes one field: no log, no timer.

mod breaker;
mod config;
mod deadline;
mod effect;
mod entry;
mod liveness;
mod observe;
mod promise;
mod recover;
mod session;
mod tables;
mod view;
mod wheel;

pub use config::{BreakerConfig, LivenessConfig};
pub use effect::{Effect, Refusal, SessionOver};
pub use liveness::Liveness;
pub use observe::Renewal;
pub use promise::valid_ms;
pub use view::{DrainCause, LivenessView, SessionStanding, Standing};
