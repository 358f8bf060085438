//! What callers of a cluster asked and heard, on one clock: the only thing the checker knows.

use std::fmt::{Display, Formatter};

/// One try of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    /// Tries of one operation share it.
    pub(crate) operation: String,
    /// The node that was asked.
    pub(crate) node: String,
    pub(crate) asked: Asked,
    /// The instant before it was sent.
    pub(crate) sent_ns: u64,
    /// When which answer had come; `None`: nothing that tells the outcome ever came.
    pub(crate) heard: Option<(u64, Heard)>,
}

/// What was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// Take a resource. A `*` at the end stands for one of several that begin so: which one, the answer tells, and the
    /// record of a grant names it. Where no two operations name the same holder, a lease seen later tells whose it is.
    Acquire {
        resource: String,
        holder: String,
    },
    Heartbeat {
        lease: String,
    },
    /// Ends the authority and frees the resource in one step.
    Release {
        lease: String,
    },
    /// Ends the authority; the resource comes free later. A close of the holder's connection is one, and has no answer.
    GiveUp {
        lease: String,
    },
    /// Who has authority over a resource?
    Check {
        resource: String,
    },
    /// What became of a lease?
    Inspect {
        lease: String,
    },
}

/// What was answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Heard {
    /// To an acquire, the first time or replayed.
    Granted { lease: String, fence: u64, valid_ms: u64, state: State },
    /// To an acquire: the resource is not free, because of this lease where one was named.
    Held { by: Option<String> },
    /// To a heartbeat.
    Renewed { valid_ms: u64 },
    /// To a release.
    Released,
    /// To one who gives it up.
    GivenUp,
    /// To a heartbeat or a release: the lease has no authority any more.
    Lost { code: String },
    /// To a check.
    Authority(Option<Authority>),
    /// To an inspect.
    Shown { state: State, reason: Option<String> },
    /// To anything about a lease: no such lease was ever granted.
    Missing,
    /// It certainly had no effect, and tells nothing of the resource.
    Declined { code: String },
}

/// etcd was put back to a backup, and the operator adopted it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Restore {
    /// Before the first node was stopped.
    pub(crate) from_ns: u64,
    /// No node ran any more.
    pub(crate) stopped_ns: u64,
    /// It was adopted, and no node had been started on it.
    pub(crate) until_ns: u64,
}

/// What a lease is for, told by the name of its resource.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Application {
    /// Kept by heartbeats over HTTP.
    Leases,
    /// Kept by a connection.
    Connections,
    /// A slot of a pool, kept by a session of `/api/v3`.
    Slots,
    /// An advertised name.
    Registrations,
    /// A target of pollers, kept by a session that a poller heartbeats.
    Targets,
}

impl Application {
    pub(crate) fn of(resource: &str) -> Self {
        match resource.split('/').next() {
            Some("conn") => Self::Connections,
            Some("tuner") => Self::Slots,
            Some("mdns") => Self::Registrations,
            Some("poll") => Self::Targets,
            _ => Self::Leases,
        }
    }

    /// The reason of an end by silence.
    pub(crate) fn reason_of_silence(self) -> &'static str {
        match self {
            Self::Connections | Self::Targets => "session_expired",
            Self::Leases | Self::Slots | Self::Registrations => "heartbeat_expired",
        }
    }
}

/// Who has authority, as a check tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Authority {
    pub(crate) lease: String,
    pub(crate) holder: String,
    pub(crate) fence: u64,
}

/// What matters of a lease's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// It has authority.
    Live,
    /// It has none, its resource is not free yet.
    Revoking,
    Ended,
}

impl Record {
    /// Whether this try may have had an effect, or certainly had one.
    pub(crate) fn may_have_happened(&self) -> bool {
        !matches!(self.heard, Some((_, Heard::Declined { .. } | Heard::Held { .. } | Heard::Missing)))
    }

    /// Whether the outcome of this try is known.
    pub(crate) fn is_answered(&self) -> bool {
        self.heard.is_some()
    }

    /// Whether the cluster did what was asked, or told it.
    pub(crate) fn is_served(&self) -> bool {
        self.heard.as_ref().is_some_and(|(_, heard)| !matches!(heard, Heard::Declined { .. }))
    }
}

impl Display for Record {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}: {:?}, sent {}", self.operation, self.node, self.asked, Shown(self.sent_ns))?;
        match &self.heard {
            Some((at, heard)) => write!(f, ", at {} heard {heard:?}", Shown(*at)),
            None => write!(f, ", outcome never heard"),
        }
    }
}

/// An instant in milliseconds with three decimals.
pub(crate) struct Shown(pub(crate) u64);

impl Display for Shown {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            u64::MAX => f.write_str("never"),
            ns => write!(f, "{}.{:03} ms", ns / 1_000_000, ns / 1_000 % 1_000),
        }
    }
}
