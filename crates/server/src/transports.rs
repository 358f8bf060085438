//! What carries calls: HTTP over TCP, TLS and the socket, and lines over the socket. Transports frame bytes
//! and know who is asking; what is asked is decided in `tenure-faces`.

mod closing;
pub(crate) mod http;
pub(crate) mod lines;
pub(crate) mod outbox;
mod prefixed;
pub(crate) mod socket;
pub(crate) mod tcp;
mod write_limit;
