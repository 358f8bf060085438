//! What a lease carries for others to read. No rule of the kernel looks inside a policy except for
//! principal and face, which limits and retention count by.

use crate::ids::SessionId;
use crate::names::Text;

/// How a holder proves that it lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mode {
    /// Its session lives.
    Session,
    /// Heartbeats within the ttl.
    Heartbeat,
    /// No proof is asked.
    Permanent,
}

/// Which surface granted the lease and writes its face data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Face {
    /// The native face.
    Leases,
    /// mDNS services.
    Registrations,
    /// Sessions of `/api/v3`.
    Streams,
    /// Polling targets.
    Polling,
}

/// When reclaim may follow revoke.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReclaimRule {
    /// Not before the promise ran out or the loss was acknowledged.
    AfterPromise,
    /// At once: the face's gate is what makes reuse safe.
    AtOnce,
}

/// The durable terms of a lease. Durations in milliseconds.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Policy {
    /// How the holder proves that it lives.
    pub mode: Mode,
    /// How long one proof lasts: a heartbeat, or a keepalive of the connection's node. Zero for permanent leases and for
    /// those of a connection without keepalives.
    pub ttl_ms: u32,
    /// How long silence is forgiven after that.
    pub grace_ms: u32,
    /// The lease ends after this long however alive its holder is; zero means never.
    pub max_lifetime_ms: u64,
    /// Reclaim comes no sooner than this after the revoke.
    pub reclaim_delay_ms: u32,
    /// When reclaim may follow revoke.
    pub reclaim_rule: ReclaimRule,
    /// Which surface the lease belongs to.
    pub face: Face,
    /// An effect stands between revoke and reclaim.
    pub gate: bool,
    /// An effect follows the end and must be confirmed.
    pub notice: bool,
    /// The session that keeps the lease; mode `Session` has one, the others do not.
    pub session: Option<SessionId>,
    /// Who asked.
    pub principal: Text,
}

impl Mode {
    /// Every mode, in code order.
    pub const ALL: [Self; 3] = [Self::Session, Self::Heartbeat, Self::Permanent];

    /// Wire word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Heartbeat => "heartbeat",
            Self::Permanent => "permanent",
        }
    }
}

impl Face {
    /// Every face, in code order.
    pub const ALL: [Self; 4] = [Self::Leases, Self::Registrations, Self::Streams, Self::Polling];

    /// Wire word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Leases => "leases",
            Self::Registrations => "registrations",
            Self::Streams => "streams",
            Self::Polling => "polling",
        }
    }

    /// Name of the application, as views and metrics say it.
    #[must_use]
    pub fn application(self) -> &'static str {
        match self {
            Self::Streams => "slots",
            other => other.as_str(),
        }
    }

    /// Place in [`Face::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

impl Policy {
    /// Heartbeat terms of the native face.
    #[must_use]
    pub fn heartbeat(ttl_ms: u32, grace_ms: u32) -> Self {
        Self { mode: Mode::Heartbeat, ttl_ms, grace_ms, ..Self::permanent() }
    }

    /// Terms of a lease kept by a session.
    #[must_use]
    pub fn session(session: SessionId, ttl_ms: u32, grace_ms: u32) -> Self {
        Self { mode: Mode::Session, ttl_ms, grace_ms, session: Some(session), ..Self::permanent() }
    }

    /// A lease that asks for no proof of life.
    #[must_use]
    pub fn permanent() -> Self {
        Self {
            mode: Mode::Permanent,
            ttl_ms: 0,
            grace_ms: 0,
            max_lifetime_ms: 0,
            reclaim_delay_ms: 0,
            reclaim_rule: ReclaimRule::AfterPromise,
            face: Face::Leases,
            gate: false,
            notice: false,
            session: None,
            principal: Text::const_new("local"),
        }
    }
}
