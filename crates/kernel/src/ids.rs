//! Identifiers and instants. Each is its own type so that a tick is never taken for a position.
//! Nothing here is generated: ids come from the log or from the caller.

use core::fmt;

/// Position in the log, dense from 1. Zero is never a position.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Lsn(pub u64);

/// Logical milliseconds that never go back. Only their differences mean anything.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Tick(pub u64);

/// Lease-scoped token that holder commands present; rises whenever authority is withdrawn or moved.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Epoch(pub u64);

/// Number that rises per resource with each change of holder; what a guarded store compares.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Fence(pub u64);

/// One lease for ever: `(shard << 64) | lsn` of its grant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeaseId(pub u128);

/// A holder's live conversation; chosen by the caller, unique among open sessions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionId(pub u64);

/// Where and when a command is decided: the position its event would take, and now.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Stamp {
    /// Position the event takes if the command is accepted.
    pub lsn: Lsn,
    /// The present instant.
    pub tick: Tick,
}

impl Lsn {
    /// The position after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl Tick {
    /// This instant moved by a duration; saturates at the end of time rather than wrapping.
    #[must_use]
    pub fn after_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to here; zero when `earlier` is not earlier.
    #[must_use]
    pub fn ms_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Epoch {
    /// The epoch a new lease starts with.
    pub const FIRST: Self = Self(1);

    /// The epoch after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl LeaseId {
    /// The id of the lease granted at `lsn` in `shard`.
    #[must_use]
    pub fn new(shard: u64, lsn: Lsn) -> Self {
        Self((u128::from(shard) << 64) | u128::from(lsn.0))
    }

    /// Position of the grant.
    #[must_use]
    pub fn lsn(self) -> Lsn {
        Lsn(self.0 as u64)
    }

    /// The log the lease belongs to.
    #[must_use]
    pub fn shard(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Shard 0 prints the position alone; other shards print `shard/lsn`.
impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shard() {
            0 => self.lsn().fmt(f),
            shard => write!(f, "{shard}/{}", self.lsn()),
        }
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}
