//! The table of error codes: wire name, HTTP status, exit code of the command line, advice on retrying, cause and fix.
//! Codes are only ever added.

use core::fmt;
use serde::{Deserialize, Serialize};

/// Whether a retry can help.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retry {
    /// The same request gets the same error.
    Never,
    /// After about this many milliseconds, unless the error itself says how long.
    AfterMs(u64),
}

macro_rules! codes {
    ($(
        $(#[doc = $doc:literal])+
        $variant:ident = $wire:literal, $status:literal, $exit:literal, $retry:expr, $cause:literal, $fix:literal;
    )+) => {
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

            /// Exit code of the command line: 1 rejected, 2 wrong usage, 3 unreachable or unexpected.
            #[must_use]
            pub fn exit_code(self) -> u8 {
                match self { $(Self::$variant => $exit,)+ }
            }

            /// Whether a retry can help.
            #[must_use]
            pub fn retry(self) -> Retry {
                match self { $(Self::$variant => $retry,)+ }
            }

            /// Meaning of the code, in a sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim_ascii_start(),)+ }
            }

            /// Usual cause.
            #[must_use]
            pub fn cause(self) -> &'static str {
                match self { $(Self::$variant => $cause,)+ }
            }

            /// What to do about it: the `hint` of an error that has no hint of its own.
            #[must_use]
            pub fn fix(self) -> &'static str {
                match self { $(Self::$variant => $fix,)+ }
            }

            /// Path of the daemon's page that explains it.
            #[must_use]
            pub fn docs(self) -> &'static str {
                match self { $(Self::$variant => concat!("/docs/errors#", $wire),)+ }
            }
        }
    };
}

use Retry::{AfterMs, Never};

codes! {
    /// A field or parameter is missing, unknown, of the wrong type or contradicts another.
    InvalidRequest = "invalid_request", 400, 2, Never,
        "a misspelt field, a wrong type, or two fields that exclude each other",
        "correct the field that the message names; the HTTP reference and /docs list the fields of every operation";
    /// The body or the line is not valid JSON, or its transfer broke off.
    ParseError = "parse_error", 400, 2, Never,
        "a syntax error in the JSON, a body that ended early, or bytes that are not HTTP",
        "send one complete JSON object";
    /// A name breaks the rules for names.
    InvalidName = "invalid_name", 400, 2, Never,
        "an empty name, a control character, more than 255 bytes, or an empty part between slashes",
        "use 1 to 255 bytes of text without control characters";
    /// A service type breaks the rules of DNS-SD.
    InvalidType = "invalid_type", 400, 2, Never,
        "a type that is not of the form _name._tcp or _name._udp",
        "write the type as _http._tcp; the name has at most 15 letters, digits and hyphens";
    /// A duration is outside its range.
    TtlOutOfRange = "ttl_out_of_range", 400, 2, Never,
        "a ttl, grace, wait, lifetime or delay that is too short or too long",
        "use a value within the range that the message names";
    /// The request names no resource and no pool.
    BundleEmpty = "bundle_empty", 400, 2, Never,
        "empty or missing `resources` and `pools`",
        "name at least one resource or pool";
    /// The request covers more than 64 resources.
    BundleTooLarge = "bundle_too_large", 400, 2, Never,
        "more than 64 resources in one lease, pool members included",
        "take several leases in one session, or cover the resources with one name";
    /// The request names a resource twice.
    DuplicateMember = "duplicate_member", 400, 2, Never,
        "the same name twice, or a resource that is also a member of a requested pool",
        "name every resource once";
    /// Several ids begin with the given characters.
    AmbiguousId = "ambiguous_id", 400, 2, Never,
        "an id that was shortened too much",
        "give more characters; `matches` lists the ids";
    /// The credentials are missing or unknown.
    Unauthorized = "unauthorized", 401, 1, Never,
        "no token, a token that was removed or mistyped, or a certificate without a scope",
        "send `Authorization: Bearer TOKEN` (command line: --token or TENURE_TOKEN); `tenure token new` makes a token";
    /// The credentials do not allow the request, or the object belongs to another principal.
    Forbidden = "forbidden", 403, 1, Never,
        "a token with a smaller scope, an object of another principal, or a Host or Origin that the daemon does not accept",
        "use credentials with the needed scope, or those of the principal that owns the object";
    /// The credentials are limited to other resources; `prefixes` lists the allowed prefixes.
    OutsideScope = "outside_scope", 403, 1, Never,
        "a token of scope hold:PREFIX* and a resource outside the prefix",
        "use a name under an allowed prefix, or get a token for this one: tenure token new NAME --scope hold:PREFIX*";
    /// The lease has another holder than the request names.
    HolderMismatch = "holder_mismatch", 403, 1, Never,
        "`holder` names another holder than the lease has",
        "send the holder that took the lease, or leave `holder` out; an operator ends the lease with revoke";
    /// The lease, registration, target or route does not exist.
    NotFound = "not_found", 404, 1, Never,
        "a mistyped id or path, or an object of another daemon",
        "check the id or the path; `tenure lease ls` and GET /v1/leases list leases, /docs lists routes";
    /// The pool does not exist.
    PoolNotFound = "pool_not_found", 404, 1, Never,
        "a mistyped name, or a pool that was not defined yet",
        "define the pool with PUT /v1/pools/NAME or `tenure pool set`; GET /v1/pools lists pools";
    /// The session does not exist or is closed.
    SessionNotFound = "session_not_found", 404, 1, Never,
        "a mistyped id, a session that was closed, or one that ended because no heartbeat came",
        "open a new session and take its leases again";
    /// The route exists, but not for this method.
    MethodNotAllowed = "method_not_allowed", 405, 2, Never,
        "GET instead of POST, or the other way round",
        "use a method of `allowed`";
    /// Another lease covers the resource, or other requests waited for it first.
    ResourceHeld = "resource_held", 409, 1, AfterMs(1_000),
        "another holder has the resource; `blocking` names the holder and since when",
        "wait for the resource with `wait_ms` (command line: --wait), or ask GET /v1/why?resource=NAME who holds it";
    /// Too few members of the pool are free.
    PoolExhausted = "pool_exhausted", 409, 1, AfterMs(1_000),
        "the members are held",
        "wait for members with `wait_ms` (command line: --wait), or enlarge the pool";
    /// Leases hold members of the pool.
    PoolInUse = "pool_in_use", 409, 1, AfterMs(1_000),
        "a request to remove or shrink the pool while leases hold members of it",
        "wait until the leases end, or send `force=true`, which ends them";
    /// The wait ended before the resources were free.
    WaitTimeout = "wait_timeout", 409, 1, AfterMs(0),
        "the holders kept their leases for longer than `wait_ms`",
        "send the request again, with a longer `wait_ms` if need be; GET /v1/why?resource=NAME shows who holds it and who waits";
    /// The request carries an epoch that is not the current one of the lease.
    StaleEpoch = "stale_epoch", 409, 1, Never,
        "the lease was revoked, rebound or handed over after the caller last saw it",
        "stop using the resource if you are its holder; otherwise read the lease again and use its epoch";
    /// The state of the lease does not allow the operation.
    InvalidState = "invalid_state", 409, 1, Never,
        "a lease that is only reserved, or one that has ended or is being reclaimed",
        "read the lease for its state and GET /v1/why for its history";
    /// The lease is already draining.
    AlreadyDraining = "already_draining", 409, 1, Never,
        "a second drain",
        "no action is needed; revive cancels the drain";
    /// The lease is not draining.
    NotDraining = "not_draining", 409, 1, Never,
        "a revive without a drain, or of a lease that an open connection keeps",
        "no action is needed; read the lease for its state";
    /// A permanent lease has no heartbeat and cannot drain.
    PermanentLease = "permanent_lease", 409, 1, Never,
        "a heartbeat, drain or revive of a lease with ttl 0",
        "release the lease, or revoke it as an operator";
    /// A session or a connection keeps the lease: a heartbeat of the lease itself does not count.
    NoLiveness = "no_liveness", 409, 1, Never,
        "a heartbeat or rebind of a lease whose mode is `session`",
        "send the heartbeat to the session: POST /v1/sessions/ID/heartbeat; a connection needs none";
    /// The operation is not safe yet; `remaining_ms` says for how long.
    NotYet = "not_yet", 409, 1, AfterMs(1_000),
        "the former holder may still act, a finalizer runs, or the log was restored from a backup",
        "wait for `remaining_ms`; reclaim with `force` (command line: --force) overrides it and is recorded";
    /// The operation id was used for a different request.
    OperationConflict = "operation_conflict", 409, 1, Never,
        "an idempotency key that was reused",
        "use a new operation id for a new request";
    /// The reservation was not activated in time.
    DeadlinePassed = "deadline_passed", 409, 1, Never,
        "activate came after `reserve_ms`",
        "acquire again, with a longer `reserve_ms` if need be";
    /// The session id is taken.
    SessionExists = "session_exists", 409, 1, Never,
        "two sessions with the same id",
        "leave the id out, or use another one";
    /// The daemon is not a node of a cluster.
    NotClustered = "not_clustered", 409, 1, Never,
        "a cluster operation on a standalone daemon",
        "start nodes with: tenure serve --store etcd://HOST:PORT/PREFIX --node NAME --bind ADDRESS --advertise URL \
         --token-file FILE";
    /// The lease ended, and its details are not kept any more.
    LeaseRetired = "lease_retired", 410, 1, Never,
        "the lease ended longer ago than ended leases are kept",
        "ask GET /v1/why?lease=ID for what is still recorded";
    /// The position is older than the log; `oldest` is the oldest position that is kept.
    LsnTrimmed = "lsn_trimmed", 410, 1, Never,
        "a watch that was away for longer than the log reaches back",
        "list leases and watch from the `lsn` of that list";
    /// The slot session has ended.
    SessionGone = "session_gone", 410, 1, Never,
        "the session was stopped, failed, or ended at its maximum duration",
        "start a new session";
    /// The slot session ended because no heartbeat came in time.
    SessionExpired = "session_expired", 410, 1, Never,
        "the client was silent for longer than the ttl",
        "stop using the slot, then start a new session; send heartbeats every third of the ttl";
    /// The body, the line or a field is larger than its limit.
    TooLarge = "too_large", 413, 2, Never,
        "an attachment over 4 KiB, a long name, or a large body",
        "send less; the message names the field and its limit";
    /// The principal sent more requests per second than its limit, or a slot session too many heartbeats.
    RateLimited = "rate_limited", 429, 1, AfterMs(1_000),
        "more requests than limits.requests_per_second per principal, where heartbeats of leases and sessions are not counted; or more than two heartbeats of a slot session in one heartbeat_interval",
        "wait for `retry_after_ms`; for requests raise limits.requests_per_second, for heartbeats of a slot session send one per heartbeat_interval";
    /// The daemon failed in an unexpected way.
    Internal = "internal", 500, 3, Never,
        "a defect of Tenure",
        "look into the daemon's log, and report what it says";
    /// mDNS does not work.
    DaemonError = "daemon_error", 500, 3, AfterMs(1_000),
        "the mDNS engine stopped, or has no usable network interface",
        "look into the daemon's log; GET /v1/mdns/admin/status shows the health of mDNS";
    /// A file could not be read or written.
    IoError = "io_error", 500, 3, Never,
        "a full or damaged disk, or missing permissions",
        "look into the daemon's log; the message names the file";
    /// Too many requests are in progress.
    Overloaded = "overloaded", 503, 1, AfterMs(100),
        "more requests at once than the limit that `limit` names",
        "send the request again after `retry_after_ms`, or raise the setting that `setting` names";
    /// A limit of the daemon is reached; `limit`, `value` and `setting` name it.
    CapacityExceeded = "capacity_exceeded", 503, 1, Never,
        "as many leases, sessions, pools or bytes as the setting allows",
        "end what is not needed any more, or raise the setting that `setting` names";
    /// Too many requests wait for a lease.
    TooManyWaiters = "too_many_waiters", 503, 1, AfterMs(1_000),
        "more waiting requests than the limit that `limit` names",
        "wait with fewer requests, or raise the setting that `setting` names";
    /// Too many connections are open.
    TooManyConnections = "too_many_connections", 503, 3, AfterMs(1_000),
        "more connections than limits.connections, or than the system has files for",
        "share connections, or raise limits.connections";
    /// The disk is nearly full: the daemon rejects grants; renewals and releases continue.
    DiskLow = "disk_low", 503, 1, AfterMs(10_000),
        "less space than log.free_bytes is free in the data directory, or the cluster's store is nearly full",
        "free space in the directory that the message names";
    /// No slot of the pool is free.
    NoCapacity = "no_capacity", 503, 1, AfterMs(1_000),
        "every slot is taken (`/api/v3`; `/v1` answers `pool_exhausted`)",
        "queue for a slot with `wait` (command line: --wait), or enlarge the pool";
    /// The daemon is stopping.
    ShuttingDown = "shutting_down", 503, 3, AfterMs(1_000),
        "the daemon stops or restarts",
        "send the request again once the daemon runs, or to another node of the cluster";
    /// The node is not the leader and could not reach the leader.
    NotLeader = "not_leader", 503, 3, AfterMs(200),
        "an election is under way, or the leader is down or cut off",
        "send the request again, or to another node; GET /v1/cluster and `tenure cluster status` show the leader";
    /// The store that keeps the cluster's log does not answer this node.
    StoreSilent = "store_silent", 503, 3, AfterMs(1_000),
        "etcd is down, has no quorum, or cannot be reached",
        "check etcd; GET /v1/cluster and `tenure cluster status` show since when it is silent and why";
    /// The request may have been carried out or not.
    OutcomeUnknown = "outcome_unknown", 504, 3, AfterMs(100),
        "the daemon stopped, or lost its store, while the request was under way",
        "send the request again with the same operation id: it is carried out once";
    /// The mDNS service did not answer in time.
    ResolveTimeout = "resolve_timeout", 504, 1, AfterMs(1_000),
        "the service is gone, or on another network",
        "check the name with GET /v1/mdns/browse or `tenure mdns browse`, then try again";
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
            for phrase in [code.cause(), code.fix()] {
                assert!(!phrase.is_empty() && !phrase.ends_with('.') && !phrase.contains('|'), "{code}");
            }
            assert!(code.docs().ends_with(&format!("#{code}")), "{code}");
            assert!(
                code.meaning().ends_with(|end: char| end.is_alphanumeric() || end == '.' || end == '`'),
                "{code}"
            );
        }
    }
}
