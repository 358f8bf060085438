//! Settings of liveness. Durations in milliseconds.

/// What an operator may change.
#[derive(Clone, PartialEq, Debug)]
pub struct LivenessConfig {
    /// How long reclaim waits for the holder of an open connection, or of a permanent lease, to stop.
    pub revoke_timeout_ms: u64,
    /// Least grace of a connection session after a restart.
    pub restart_grace_ms_min: u64,
    /// When the daemon suspects itself rather than its holders.
    pub breaker: BreakerConfig,
}

/// When many holders fall silent at once, the fault is likelier here than there.
#[derive(Clone, PartialEq, Debug)]
pub struct BreakerConfig {
    /// Silences within this long count together.
    pub window_ms: u64,
    /// Open when more than this part of the holders fell silent; 1.0 switches the breaker off.
    pub fraction: f64,
    /// Fewer holders than this say nothing.
    pub holders_min: u32,
    /// They must come from at least this many principals, where principals are known.
    pub principals_min: u32,
    /// How long ends are postponed at most.
    pub hold_ms: u64,
}

impl Default for LivenessConfig {
    fn default() -> Self {
        Self { revoke_timeout_ms: 10_000, restart_grace_ms_min: 5_000, breaker: BreakerConfig::default() }
    }
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self { window_ms: 10_000, fraction: 0.5, holders_min: 20, principals_min: 3, hold_ms: 30_000 }
    }
}
