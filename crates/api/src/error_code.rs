//! THE table of error codes: wire name, HTTP status, exit code of the command line, advice on retrying.
//! Codes are only ever added.

use core::fmt;
use serde::{Deserialize, Serialize};

/// Whether asking again can help.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retry {
    /// The same request gets the same answer.
    Never,
    /// After about this many milliseconds, unless the error itself says how long.
    AfterMs(u64),
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $wire:literal, $status:literal, $exit:literal, $retry:expr;)+) => {
        /// Why a request was not carried out.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum ErrorCode {
            $($(#[doc = $doc])+ #[serde(rename = $wire)] $variant,)+
        }

        impl ErrorCode {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Wire name.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $wire,)+ }
            }

            /// Status over HTTP.
            #[must_use]
            pub fn http_status(self) -> u16 {
                match self { $(Self::$variant => $status,)+ }
            }

            /// Exit code of the command line: 1 refused, 2 wrong usage, 3 unreachable or unexpected.
            #[must_use]
            pub fn exit_code(self) -> u8 {
                match self { $(Self::$variant => $exit,)+ }
            }

            /// Whether asking again can help.
            #[must_use]
            pub fn retry(self) -> Retry {
                match self { $(Self::$variant => $retry,)+ }
            }

            /// What it means, in a sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim_ascii_start(),)+ }
            }
        }
    };
}

use Retry::{AfterMs, Never};

codes! {
    /// The request is not understood: a field is missing, unknown or contradicts another.
    InvalidRequest = "invalid_request", 400, 2, Never;
    /// The body or line is not JSON of the expected shape.
    ParseError = "parse_error", 400, 2, Never;
    /// A name is not acceptable.
    InvalidName = "invalid_name", 400, 2, Never;
    /// A service type is not acceptable.
    InvalidType = "invalid_type", 400, 2, Never;
    /// A duration is out of range.
    TtlOutOfRange = "ttl_out_of_range", 400, 2, Never;
    /// Nothing was asked for.
    BundleEmpty = "bundle_empty", 400, 2, Never;
    /// The bundle has more than 64 members.
    BundleTooLarge = "bundle_too_large", 400, 2, Never;
    /// A resource is named twice.
    DuplicateMember = "duplicate_member", 400, 2, Never;
    /// Several things begin with this id.
    AmbiguousId = "ambiguous_id", 400, 2, Never;
    /// Credentials are missing or unknown.
    Unauthorized = "unauthorized", 401, 1, Never;
    /// The credentials do not allow it, or the lease belongs to somebody else.
    Forbidden = "forbidden", 403, 1, Never;
    /// The credentials allow to hold other resources than these; `prefixes` says which.
    OutsideScope = "outside_scope", 403, 1, Never;
    /// The lease is held in another name.
    HolderMismatch = "holder_mismatch", 403, 1, Never;
    /// There is no such lease or route.
    NotFound = "not_found", 404, 1, Never;
    /// There is no such pool.
    PoolNotFound = "pool_not_found", 404, 1, Never;
    /// There is no such session, or it is closed.
    SessionNotFound = "session_not_found", 404, 1, Never;
    /// The route exists, but not for this method.
    MethodNotAllowed = "method_not_allowed", 405, 2, Never;
    /// A resource is held by somebody else, or others waited for it first.
    ResourceHeld = "resource_held", 409, 1, AfterMs(1_000);
    /// Too few members of the pool are free.
    PoolExhausted = "pool_exhausted", 409, 1, AfterMs(1_000);
    /// Members of the pool are held.
    PoolInUse = "pool_in_use", 409, 1, AfterMs(1_000);
    /// The wait was over before the bundle was free.
    WaitTimeout = "wait_timeout", 409, 1, AfterMs(0);
    /// The epoch is not the current one: authority moved on.
    StaleEpoch = "stale_epoch", 409, 1, Never;
    /// The lease is in a state in which this cannot be done.
    InvalidState = "invalid_state", 409, 1, Never;
    /// The lease drains already.
    AlreadyDraining = "already_draining", 409, 1, Never;
    /// The lease does not drain.
    NotDraining = "not_draining", 409, 1, Never;
    /// A permanent lease has no liveness to lose.
    PermanentLease = "permanent_lease", 409, 1, Never;
    /// Nothing would keep the lease alive, or its liveness is kept elsewhere.
    NoLiveness = "no_liveness", 409, 1, Never;
    /// It is not safe yet; `remaining_ms` says how long.
    NotYet = "not_yet", 409, 1, AfterMs(1_000);
    /// The operation id was used for another request.
    OperationConflict = "operation_conflict", 409, 1, Never;
    /// The reservation's deadline has come.
    DeadlinePassed = "deadline_passed", 409, 1, Never;
    /// The session id is taken.
    SessionExists = "session_exists", 409, 1, Never;
    /// This daemon has a log of its own: it is not a node of a cluster.
    NotClustered = "not_clustered", 409, 1, Never;
    /// The lease ended too long ago to be shown.
    LeaseRetired = "lease_retired", 410, 1, Never;
    /// The position in the log is not kept any more; `oldest` is.
    LsnTrimmed = "lsn_trimmed", 410, 1, Never;
    /// The session has ended.
    SessionGone = "session_gone", 410, 1, Never;
    /// The session was silent for too long and has ended.
    SessionExpired = "session_expired", 410, 1, Never;
    /// The body, the line or a field is larger than its limit.
    TooLarge = "too_large", 413, 2, Never;
    /// More requests per second than this principal may send.
    RateLimited = "rate_limited", 429, 1, AfterMs(1_000);
    /// Something unexpected happened; the daemon's log says more.
    Internal = "internal", 500, 3, Never;
    /// The mDNS engine failed.
    DaemonError = "daemon_error", 500, 3, AfterMs(1_000);
    /// A file could not be read or written.
    IoError = "io_error", 500, 3, Never;
    /// More is asked than can be queued.
    Overloaded = "overloaded", 503, 1, AfterMs(100);
    /// A table is full.
    CapacityExceeded = "capacity_exceeded", 503, 1, AfterMs(10_000);
    /// Too many requests wait for a bundle.
    TooManyWaiters = "too_many_waiters", 503, 1, AfterMs(1_000);
    /// Too many connections are open.
    TooManyConnections = "too_many_connections", 503, 3, AfterMs(1_000);
    /// The disk is nearly full: only what frees something is taken.
    DiskLow = "disk_low", 503, 1, AfterMs(10_000);
    /// No slot is free.
    NoCapacity = "no_capacity", 503, 1, AfterMs(1_000);
    /// The daemon is stopping.
    ShuttingDown = "shutting_down", 503, 3, AfterMs(1_000);
    /// This node cannot decide it and could not reach one that can.
    NotLeader = "not_leader", 503, 3, AfterMs(200);
    /// The store that carries the log does not answer this node.
    StoreSilent = "store_silent", 503, 3, AfterMs(1_000);
    /// It may have been done or not; ask again with the same operation id.
    OutcomeUnknown = "outcome_unknown", 504, 3, AfterMs(100);
    /// The service did not answer in time.
    ResolveTimeout = "resolve_timeout", 504, 1, AfterMs(1_000);
}

impl ErrorCode {
    /// Finds a code by its wire name.
    #[must_use]
    pub fn from_wire(wire: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == wire)
    }

    /// Whether the request certainly had no effect.
    #[must_use]
    pub fn is_definite(self) -> bool {
        !matches!(self, Self::OutcomeUnknown | Self::Internal | Self::IoError)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wire_name_is_its_serde_name_and_unique() {
        for code in ErrorCode::ALL {
            assert_eq!(serde_json::to_value(code).expect("a string"), code.as_str());
            assert_eq!(ErrorCode::from_wire(code.as_str()), Some(*code));
        }
    }

    #[test]
    fn exit_codes_follow_the_status() {
        for code in ErrorCode::ALL {
            let expected: &[u8] = match code.http_status() {
                400 | 405 | 413 => &[2],
                500 => &[3],
                503 | 504 => &[1, 3],
                _ => &[1],
            };
            assert!(expected.contains(&code.exit_code()), "{code}");
            assert!(
                code.meaning().ends_with(|end: char| end.is_alphanumeric() || end == '.' || end == '`'),
                "{code}"
            );
        }
    }
}
