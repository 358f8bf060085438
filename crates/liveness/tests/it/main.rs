//! Liveness against its contract, in one binary.
//!
//! | module | question |
//! |---|---|
//! | [`desk`] | the engine's role without log or waiters |
//! | [`script`] | the language of the tests: one line a step, everything that follows printed with its tick |
//! | [`registry_cases`] | the cases of the seed, by name |
//! | [`promises`] | how long a holder may act |
//! | [`clock_rates`] | a holder that counts exactly, on another clock, stops before the daemon acts |
//! | [`reclaim`] | what stands between revoke and reclaim |
//! | [`liveness_rules`] | which proof counts, coming back, reserved leases, lifetimes, graces |
//! | [`operator`] | drain and revive |
//! | [`sessions`] | sessions by hand and connections |
//! | [`recovery`] | the restart rule |
//! | [`breaker`] | each condition, the hold, the reset |
//! | [`timers`] | slots used again, storms, months, the end of the clock |
//! | [`effects`] | what the pieces say of themselves |
//! | [`model`], [`property`] | random lives against a naive model |
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod breaker;
mod clock_rates;
mod desk;
mod effects;
mod kept_connections;
mod liveness_rules;
mod model;
mod operator;
mod promises;
mod property;
mod reclaim;
mod recovery;
mod registry_cases;
mod script;
mod sessions;
mod timers;
