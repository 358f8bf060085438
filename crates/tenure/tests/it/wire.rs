//! The daemon as strangers meet it: bytes over TCP, the Unix socket and standard input, held against the contract.
//!
//! Nothing here uses our own client: it must not hide what is wrong on the wire.

mod breaker;
mod contract;
pub(crate) mod contract_faults;
pub(crate) mod contract_leases;
pub(crate) mod contract_queues;
pub(crate) mod daemon;
pub(crate) mod events;
pub(crate) mod http;
mod http_names;
mod http_wire;
mod leaving;
pub(crate) mod lines;
mod lines_sessions;
mod lines_streams;
mod lines_wire;
mod liveness;
mod openapi;
mod restart;
mod script;
mod sessions;
mod shown;
mod watching;
