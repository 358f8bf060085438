//! The daemon's outside: transports, who may do what, metrics, and the order of shutting down.
//!
//! Knows bytes and callers, nothing of leases: every call goes through `tenure-faces`. Start reading at
//! `server.rs`, then `transports/`.

mod auth;
mod dashboard;
mod docs;
mod examples;
mod followed;
mod guarded;
mod metrics;
mod node;
mod openapi;
mod places;
mod reads;
mod ready;
mod reference;
#[warn(clippy::arithmetic_side_effects)]
mod routes;
mod segments;
mod server;
mod stop;
mod tcp_owner;
mod tls;
mod transports;

pub use auth::{
    Auth, AuthError, AuthSettings, LineFault, TOKEN_NAME_BYTES_MAX, TokenEntry, TokenScope, check_token_name,
    parse_tokens, token_hash,
};
pub use guarded::{Owner, open_guarded, warn_if_readable};
pub use node::{
    APPEND_BUCKETS, Back, Done, EVENTS_PATH, FOLLOW_PATH, FollowedLine, FollowedOn, NODE_HEADER, Node,
    NodeNumbers, NodeSelf, PASS_PATH, PassedBack, PassedOn, SELF_PATH, ToldElsewhere,
};
pub use openapi::openapi;
pub use reference::reference_pages;
pub use segments::{NodeSegment, NodeSegments, SEGMENTS_PATH, Segments};
pub use server::{Backup, Bound, ReservedPort, RestartCheck, Server, ServerError, ServerOptions, Timeouts};
pub use stop::{StopWish, Stopping};
pub use tcp_owner::server_uid;
pub use tls::{CertifiedNames, Tls, TlsError, TlsFiles};
pub use transports::http::{understand, understand_call};
pub use transports::lines::understand_line;
