//! What keeps sessions unless they say otherwise.

use super::hook::EndHook;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// When the slots of an ended session may be given to others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reuse {
    /// When the session ends.
    AtOnce,
    /// When whoever is to be told of its end has been told, or could not be told in time.
    AfterHook,
}

/// Settings of this face.
#[derive(Clone)]
pub struct StreamOptions {
    /// How long one heartbeat lasts.
    pub lease_ttl_ms: u32,
    /// Seconds between heartbeats.
    pub heartbeat_interval_secs: u64,
    /// How long silence is forgiven.
    pub grace_ms: u32,
    /// Longest life of a session; 0: as long as it is heartbeat.
    pub max_lifetime_ms: u64,
    /// Pool of sessions that name none.
    pub default_pool: String,
    /// Pools that are made at the start where they are missing.
    pub pools: BTreeMap<String, u32>,
    /// Sessions at once, queued ones included.
    pub max_sessions: u64,
    /// When slots may be used again.
    pub reuse: Reuse,
    /// Who is told of ends.
    pub on_end: Option<Arc<dyn EndHook>>,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            lease_ttl_ms: 60_000,
            heartbeat_interval_secs: 5,
            grace_ms: 0,
            max_lifetime_ms: 0,
            default_pool: "tuner".to_owned(),
            pools: BTreeMap::new(),
            max_sessions: 100_000,
            reuse: Reuse::AtOnce,
            on_end: None,
        }
    }
}

impl fmt::Debug for StreamOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamOptions")
            .field("lease_ttl_ms", &self.lease_ttl_ms)
            .field("heartbeat_interval_secs", &self.heartbeat_interval_secs)
            .field("grace_ms", &self.grace_ms)
            .field("max_lifetime_ms", &self.max_lifetime_ms)
            .field("default_pool", &self.default_pool)
            .field("pools", &self.pools)
            .field("max_sessions", &self.max_sessions)
            .field("reuse", &self.reuse)
            .field("on_end", &self.on_end.is_some())
            .finish()
    }
}
