//! What kernel, liveness and engine reject, as errors of the table. Only this module gives a rejection its code; code
//! that acts on a rejection matches its type.

use crate::call::Call;
use crate::limits::{fixed_limit, over_limit};
use crate::show::Lens;
use tenure_api::{Blocking, Error, ErrorCode};
use tenure_engine::kernel::limits::{
    ATTACHMENT_BYTES_MAX, BUNDLE_MEMBERS_MAX, HOLDER_BYTES_MAX, POOL_SIZE_MAX, PRINCIPAL_BYTES_MAX,
    REASON_TEXT_BYTES_MAX,
};
use tenure_engine::kernel::{Capacity, Field, LeaseId, Rejection, SessionId, StateName};
use tenure_engine::liveness::Refusal;
use tenure_engine::{Blocker, CallLimit, Refused, WaitLimit};
use tenure_history::{duration, rfc3339, wire_session};

/// Whether the caller asked as the holder of something, and so has lost it if that is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    AsHolder,
    AsAnyone,
}

/// What a request was about, as far as its caller named it: an error repeats the id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct About {
    asked: Asked,
    named: Named,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Named {
    Nothing,
    Lease(LeaseId),
    Session(SessionId),
}

impl Asked {
    pub(crate) fn of_lease(self, lease: LeaseId) -> About {
        About { asked: self, named: Named::Lease(lease) }
    }

    pub(crate) fn of_session(self, session: SessionId) -> About {
        About { asked: self, named: Named::Session(session) }
    }
}

impl From<Asked> for About {
    fn from(asked: Asked) -> Self {
        Self { asked, named: Named::Nothing }
    }
}

impl About {
    /// The subject of a message, such as `lease k3f9-12`.
    fn subject(self, lens: &Lens<'_>) -> String {
        match self.named {
            Named::Nothing => "the lease".to_owned(),
            Named::Lease(lease) => format!("lease {}", lens.lease_id(lease)),
            Named::Session(session) => format!("session {}", wire_session(session)),
        }
    }
}

/// What a request waits for, and how long: for the error if its wait ends first.
pub(crate) struct Wait {
    ms: u64,
    names: Vec<String>,
}

impl Wait {
    /// `None`: the call does not wait.
    pub(crate) fn of(call: &Call) -> Option<Self> {
        let ms = call.wait_ms();
        let Call::Acquire(body) = call else { return None };
        if ms == 0 {
            return None;
        }
        let resources = body.resources.iter().map(|name| format!("{name:?}"));
        let members =
            body.pools.iter().map(|(pool, count)| format!("{} of {pool:?}", counted(*count, "member")));
        Some(Self { ms, names: resources.chain(members).collect() })
    }

    /// The error, which says what was waited for if the wait is over.
    pub(crate) fn name_in(&self, error: Error) -> Error {
        if error.message != WAIT_OVER {
            return error;
        }
        let (names, were) = match self.names.as_slice() {
            [only] => (only.clone(), "it was"),
            [first, second] => (format!("{first} and {second}"), "they were"),
            [first, rest @ ..] => (format!("{first} and {} more", rest.len()), "they were"),
            [] => return error,
        };
        let message = format!("the wait of {} for {names} ended before {were} free", duration(self.ms));
        Error { message, ..error }
    }
}

/// A connection that its holder lost is noticed within about this long.
const CONNECTION_OPEN_RETRY_MS: u64 = 200;
/// The message that [`Wait`] completes.
const WAIT_OVER: &str = "the wait ended before the resources were free";

pub(crate) fn error(lens: &Lens<'_>, refused: &Refused, about: impl Into<About>) -> Error {
    let about = about.into();
    match refused {
        Refused::Rejected(rejection) => rejected(lens, rejection, about),
        Refused::Liveness(refusal) => not_live(lens, refusal, about),
        Refused::Held(blockers) => held(lens, blockers),
        Refused::Forbidden => {
            let message = format!("{} belongs to another principal", about.subject(lens));
            Error::new(ErrorCode::Forbidden, message)
        }
        Refused::ConnectionOpen => {
            Error::new(ErrorCode::NotDraining, "the connection that keeps the lease is open")
                .hint("close that connection, or send the request on it")
                .retry_after(CONNECTION_OPEN_RETRY_MS)
        }
        Refused::Queued { resource, waiters } => queued(resource, *waiters),
        Refused::WaitTimeout => Error::new(ErrorCode::WaitTimeout, WAIT_OVER),
        Refused::TooManyWaiters { limit, max } => too_many_waiters(*limit, *max),
        Refused::Overloaded { limit, max } => overloaded(*limit, *max),
        Refused::DiskLow => Error::new(
            ErrorCode::DiskLow,
            "the disk is nearly full: grants are rejected, renewals and releases continue",
        ),
        Refused::NotYet { remaining_ms } => not_yet(
            "the log was restored from a backup: grants wait until holders of earlier leases have stopped",
            *remaining_ms,
        )
        .with("restored", true),
        Refused::Cancelled => Error::new(ErrorCode::WaitTimeout, "the request was cancelled while it waited"),
        Refused::Trimmed { oldest } => Error::new(
            ErrorCode::LsnTrimmed,
            format!("the position is older than the log, which begins at {oldest}"),
        )
        .with("oldest", oldest.0),
        Refused::OutcomeUnknown => {
            Error::new(ErrorCode::OutcomeUnknown, "the daemon stopped before the outcome was known")
        }
        Refused::NotLeader => {
            Error::new(ErrorCode::NotLeader, "this node is not the leader, and knows of no leader")
        }
        Refused::ShuttingDown => Error::new(ErrorCode::ShuttingDown, "the daemon is stopping"),
    }
}

/// The disk is low: where, how much is free, and how much is needed.
pub(crate) fn disk_low(data_dir: &str, free: Option<u64>, needed: u64) -> Error {
    let error = new(ErrorCode::DiskLow, "").with("path", data_dir).with("needed_bytes", needed);
    let (message, error) = match free {
        Some(free) if free < needed => (
            format!(
                "{data_dir} has {} free and needs {} (log.free_bytes): grants are rejected, renewals and releases continue",
                mebibytes(free),
                mebibytes(needed)
            ),
            error.with("free_bytes", free).with("setting", "log.free_bytes"),
        ),
        // The store of a cluster has a quota of its own, and the next segment of the log may not fit.
        _ => (
            "the log in DIR or the store of the cluster is nearly full: grants are rejected, renewals and releases continue"
                .replace("DIR", data_dir),
            error,
        ),
    };
    Error { message, ..error }
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

fn too_many_waiters(limit: WaitLimit, max: usize) -> Error {
    let of = |whose: &str, limit: &str| {
        let message =
            format!("{max} requests{whose} already wait, which is the limit (limits.{limit} = {max})");
        over_limit(ErrorCode::TooManyWaiters, message, limit, &format!("limits.{limit}"), max)
    };
    match limit {
        WaitLimit::Waiters => of("", "waiters"),
        WaitLimit::WaitersOfPrincipal => of(" of this principal", "waiters_per_principal"),
        // No setting moves it.
        WaitLimit::TriesOfOperation => {
            let message = format!("{max} attempts of this operation already wait, which is the limit");
            fixed_limit(ErrorCode::TooManyWaiters, message, "tries_per_operation", max)
        }
    }
}

fn overloaded(limit: CallLimit, max: usize) -> Error {
    let of = |message: String, limit: &str| {
        over_limit(ErrorCode::Overloaded, message, limit, &format!("limits.{limit}"), max)
    };
    match limit {
        CallLimit::Inbox => of(format!("the request queue is full (limits.inbox = {max})"), "inbox"),
        CallLimit::Calls => of(
            format!("{max} requests of this kind are in progress, which is the limit (limits.calls = {max})"),
            "calls",
        ),
        CallLimit::CallsOfPrincipal => {
            let message = format!(
                "{max} requests of this kind and principal are in progress, which is the limit \
                 (limits.calls_per_principal = {max})"
            );
            of(message, "calls_per_principal")
        }
        // No setting moves it.
        CallLimit::FrameBytes => {
            let message = format!("the request would end more leases than fit into one write of {max} bytes");
            fixed_limit(ErrorCode::Overloaded, message, "frame_bytes", max)
                .hint("end the leases in several requests")
        }
    }
}

fn new(code: ErrorCode, message: impl Into<String>) -> Error {
    Error::new(code, message)
}

fn rejected(lens: &Lens<'_>, rejection: &Rejection, about: About) -> Error {
    let asked = about.asked;
    match rejection {
        Rejection::OperationConflict => {
            new(ErrorCode::OperationConflict, "the operation id was used for a different request")
        }
        Rejection::TooLarge { field } => too_large(*field),
        Rejection::BundleEmpty => new(ErrorCode::BundleEmpty, "the request names no resource and no pool"),
        Rejection::BundleTooLarge => {
            let message =
                format!("a lease covers at most {BUNDLE_MEMBERS_MAX} resources, pool members included");
            fixed_limit(ErrorCode::BundleTooLarge, message, "resources_per_lease", BUNDLE_MEMBERS_MAX)
        }
        Rejection::InvalidName { name, fault } => {
            new(ErrorCode::InvalidName, format!("the name {:?} {}", name.as_str(), fault.as_str()))
                .with("name", name.as_str())
        }
        Rejection::DuplicateMember { name } => {
            new(ErrorCode::DuplicateMember, format!("the request names {:?} twice", name.as_str()))
                .with("name", name.as_str())
        }
        Rejection::TtlOutOfRange => new(ErrorCode::TtlOutOfRange, "reserve_ms must be between 1ms and 24h")
            .with("field", "reserve_ms"),
        Rejection::PoolNotFound { pool } => {
            new(ErrorCode::PoolNotFound, format!("pool {:?} does not exist", pool.as_str()))
                .with("pool", pool.as_str())
        }
        Rejection::SessionNotFound { session } => no_session(*session, asked),
        Rejection::SessionExists { session } => {
            new(ErrorCode::SessionExists, format!("session id {} is taken", wire_session(*session)))
        }
        Rejection::ResourceHeld(held) => {
            new(ErrorCode::ResourceHeld, format!("{:?} is held by {:?}", held.resource.as_str(), held.holder))
        }
        Rejection::PoolExhausted { pool, wanted, free } => {
            let free_members = counted(*free, "free member");
            let message = format!("pool {:?} has {free_members}, the request needs {wanted}", pool.as_str());
            new(ErrorCode::PoolExhausted, message)
                .with("pool", pool.as_str())
                .with("wanted", *wanted)
                .with("free", *free)
        }
        Rejection::CapacityExceeded { capacity, max } => {
            let what = capacity_word(*capacity);
            let of = |message: String| {
                new(ErrorCode::CapacityExceeded, message)
                    .with("capacity", what)
                    .with("limit", what)
                    .with("value", *max)
            };
            match capacity {
                // No setting moves it.
                Capacity::Notices => of(format!("{max} notifications are pending, which is the limit"))
                    .hint("check why the on_end hook fails"),
                _ => of(format!("the limit of {} is reached: limits.{what} = {max}", spaced(what)))
                    .hint(format!("end what is not needed any more, or raise limits.{what}"))
                    .with("setting", format!("limits.{what}")),
            }
        }
        Rejection::LeaseNotFound => no_lease(&about.subject(lens), asked),
        Rejection::LeaseRetired => mark(
            new(
                ErrorCode::LeaseRetired,
                format!("{} ended, and its details are not kept any more", about.subject(lens)),
            ),
            asked,
        ),
        Rejection::HolderMismatch => {
            let message = format!("{} has another holder than the request names", about.subject(lens));
            new(ErrorCode::HolderMismatch, message)
        }
        Rejection::StaleEpoch { current } => {
            let message = format!("stale epoch: the current epoch is {current}");
            mark(new(ErrorCode::StaleEpoch, message).with("current", current.0), asked)
        }
        Rejection::InvalidState { state } => invalid_state(*state, asked),
        Rejection::DeadlinePassed { .. } => {
            mark(new(ErrorCode::DeadlinePassed, "the reservation was not activated in time"), asked)
        }
        Rejection::AlreadyDraining => new(ErrorCode::AlreadyDraining, "the lease is already draining"),
        Rejection::NotDraining => new(ErrorCode::NotDraining, "the lease is not draining"),
        Rejection::PoolInUse { held } => {
            let are = if *held == 1 { "is" } else { "are" };
            let message = format!("{} of the pool {are} held", counted(*held, "member"));
            new(ErrorCode::PoolInUse, message).with("held", *held)
        }
    }
}

fn not_live(lens: &Lens<'_>, refusal: &Refusal, about: About) -> Error {
    match refusal {
        Refusal::Rejected(rejection) => rejected(lens, rejection, about),
        Refusal::NoLiveness => Error::new(
            ErrorCode::NoLiveness,
            "a session or a connection keeps the lease: a heartbeat of the lease itself does not count",
        ),
        Refusal::PermanentLease => {
            Error::new(ErrorCode::PermanentLease, "a permanent lease has no heartbeat and cannot drain")
        }
        Refusal::SessionNotFound => match about.named {
            Named::Session(session) => no_session(session, about.asked),
            Named::Nothing | Named::Lease(_) => mark(
                new(ErrorCode::SessionNotFound, "the session that keeps the lease is closed"),
                about.asked,
            ),
        },
        Refusal::NotYet { remaining_ms } => {
            let message = format!(
                "cannot reclaim yet: the former holder, a finalizer or the reclaim delay needs another {}",
                duration(*remaining_ms)
            );
            not_yet(&message, *remaining_ms)
        }
    }
}

fn held(lens: &Lens<'_>, blockers: &[Blocker]) -> Error {
    let blocking: Vec<Blocking> = blockers
        .iter()
        .map(|blocker| Blocking {
            resource: blocker.resource.to_string(),
            lease_id: Some(lens.lease_id(blocker.lease)),
            holder: Some(blocker.holder.to_string()),
            since: Some(rfc3339(blocker.since_wall_ms)),
            remaining_ms: blocker.remaining_ms,
            waiters: blocker.waiters as u64,
        })
        .collect();
    let message = match blockers {
        [only] => format!("{:?} is held by {:?}", only.resource.as_str(), only.holder.as_str()),
        [first, ..] => format!(
            "{:?} is held by {:?}, and {} more of the resources are held",
            first.resource.as_str(),
            first.holder.as_str(),
            blockers.len().saturating_sub(1)
        ),
        [] => "one of the requested resources is held".to_owned(),
    };
    blocked(message, &blocking)
}

fn queued(resource: &str, waiters: usize) -> Error {
    let blocking = Blocking {
        resource: resource.to_owned(),
        lease_id: None,
        holder: None,
        since: None,
        remaining_ms: None,
        waiters: waiters as u64,
    };
    blocked(format!("{resource:?} is free, but other requests ({waiters}) waited for it first"), &[blocking])
}

fn blocked(message: String, blocking: &[Blocking]) -> Error {
    let blocking = serde_json::to_value(blocking).expect("invariant: blocking resources are plain data");
    Error::new(ErrorCode::ResourceHeld, message).with("blocking", blocking)
}

fn not_yet(message: &str, remaining_ms: u64) -> Error {
    Error::new(ErrorCode::NotYet, message).with("remaining_ms", remaining_ms).retry_after(remaining_ms)
}

fn too_large(field: Field) -> Error {
    let (field, message, limit, max) = match field {
        Field::Holder => ("holder", "holder must have 1 to 128 bytes", "holder_bytes", HOLDER_BYTES_MAX),
        Field::Attachment => {
            let message = "attachment must have at most 4096 bytes as JSON";
            ("attachment", message, "attachment_bytes_per_lease", ATTACHMENT_BYTES_MAX)
        }
        Field::FaceData => {
            let message = "the data of a registration or slot session (TXT record, metadata, names) must have at most \
                           4096 bytes";
            ("data", message, "data_bytes_per_lease", ATTACHMENT_BYTES_MAX)
        }
        Field::Text => {
            ("reason", "reason must have at most 256 bytes", "reason_bytes", REASON_TEXT_BYTES_MAX)
        }
        Field::Principal => {
            ("principal", "principal must have at most 256 bytes", "principal_bytes", PRINCIPAL_BYTES_MAX)
        }
        Field::PoolSize => ("size", "size must be at most 65536", "pool_size", POOL_SIZE_MAX as usize),
    };
    fixed_limit(ErrorCode::TooLarge, message, limit, max).with("field", field)
}

/// The lease is in a state in which this cannot be done.
pub(crate) fn invalid_state(state: StateName, asked: Asked) -> Error {
    let message = match state {
        StateName::Reserved => "the lease is only reserved and not active yet",
        StateName::Active => "the lease is active",
        StateName::Revoking => "the lease is revoked and not reclaimed yet",
        StateName::Released => "the lease was released",
        StateName::Expired => "the reservation expired",
        StateName::Revoked => "the lease was revoked",
    };
    let error = Error::new(ErrorCode::InvalidState, message).with("state", state.as_str());
    match state {
        StateName::Reserved | StateName::Active => error,
        StateName::Revoking | StateName::Released | StateName::Expired | StateName::Revoked => {
            mark(error, asked)
        }
    }
}

/// There is no such lease; an id of another log is none.
pub(crate) fn no_lease(subject: &str, asked: Asked) -> Error {
    mark(Error::new(ErrorCode::NotFound, format!("{subject} does not exist")), asked)
}

fn no_session(session: SessionId, asked: Asked) -> Error {
    let message = format!("session {} does not exist or is closed", wire_session(session));
    mark(Error::new(ErrorCode::SessionNotFound, message), asked)
}

/// `1 free member`, `2 free members`.
pub(crate) fn counted(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The error, telling whoever asked as the holder that it has lost.
pub(crate) fn mark(error: Error, asked: Asked) -> Error {
    match asked {
        Asked::AsHolder => error.lost(),
        Asked::AsAnyone => error,
    }
}

fn capacity_word(capacity: Capacity) -> &'static str {
    match capacity {
        Capacity::Leases => "leases",
        Capacity::LeasesOfPrincipal => "leases_per_principal",
        Capacity::Pools => "pools",
        Capacity::Sessions => "sessions",
        Capacity::SessionsOfPrincipal => "sessions_per_principal",
        Capacity::AttachmentBytes => "attachment_bytes",
        Capacity::AttachmentBytesOfPrincipal => "attachment_bytes_per_principal",
        Capacity::Notices => "notifications",
    }
}

/// `leases_per_principal` as people read it.
fn spaced(word: &str) -> String {
    word.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_engine::kernel::{Epoch, Held, Lsn, NameFault, Text, Tick};
    use tenure_history::Identity;

    fn of(refused: &Refused) -> Error {
        let identity = Identity { log_id: 1, tag: 1, fence_base: 0, shard: 0, salt: 0 };
        error(&Lens { identity: &identity, wall_ms: 0 }, refused, Asked::AsAnyone)
    }

    /// The words of docs/reference/errors.md, written down here by hand: clients match on them.
    #[test]
    fn every_rejection_has_its_code_of_the_table() {
        for (rejection, word) in rejections() {
            let refusal = Refusal::Rejected(rejection.clone());
            for refused in [Refused::Rejected(rejection), Refused::Liveness(refusal)] {
                assert_eq!(of(&refused).code.as_str(), word, "{refused:?}");
            }
        }
        let refusals = [
            (Refusal::NoLiveness, "no_liveness"),
            (Refusal::PermanentLease, "permanent_lease"),
            (Refusal::SessionNotFound, "session_not_found"),
            (Refusal::NotYet { remaining_ms: 1 }, "not_yet"),
        ];
        for (refusal, word) in refusals {
            assert_eq!(of(&Refused::Liveness(refusal.clone())).code.as_str(), word, "{refusal:?}");
        }
        let refused = [
            (Refused::Held(Vec::new()), "resource_held"),
            (Refused::Forbidden, "forbidden"),
            (Refused::ConnectionOpen, "not_draining"),
            (Refused::Queued { resource: "r".into(), waiters: 1 }, "resource_held"),
            (Refused::WaitTimeout, "wait_timeout"),
            (Refused::TooManyWaiters { limit: WaitLimit::Waiters, max: 1 }, "too_many_waiters"),
            (Refused::TooManyWaiters { limit: WaitLimit::WaitersOfPrincipal, max: 1 }, "too_many_waiters"),
            (Refused::TooManyWaiters { limit: WaitLimit::TriesOfOperation, max: 1 }, "too_many_waiters"),
            (Refused::Overloaded { limit: CallLimit::Inbox, max: 1 }, "overloaded"),
            (Refused::Overloaded { limit: CallLimit::Calls, max: 1 }, "overloaded"),
            (Refused::Overloaded { limit: CallLimit::CallsOfPrincipal, max: 1 }, "overloaded"),
            (Refused::Overloaded { limit: CallLimit::FrameBytes, max: 1 }, "overloaded"),
            (Refused::DiskLow, "disk_low"),
            (Refused::NotYet { remaining_ms: 1 }, "not_yet"),
            // A wait that its caller cancelled ended before the resources were free.
            (Refused::Cancelled, "wait_timeout"),
            (Refused::Trimmed { oldest: Lsn(1) }, "lsn_trimmed"),
            (Refused::OutcomeUnknown, "outcome_unknown"),
            (Refused::NotLeader, "not_leader"),
            (Refused::ShuttingDown, "shutting_down"),
        ];
        for (refused, word) in refused {
            assert_eq!(of(&refused).code.as_str(), word, "{refused:?}");
        }
    }

    fn rejections() -> [(Rejection, &'static str); 22] {
        let name = || Text::from("r");
        let held = Held { resource: name(), lease: LeaseId::new(0, Lsn(1)), holder: name(), since: Tick(0) };
        [
            (Rejection::OperationConflict, "operation_conflict"),
            (Rejection::TooLarge { field: Field::Holder }, "too_large"),
            (Rejection::BundleEmpty, "bundle_empty"),
            (Rejection::BundleTooLarge, "bundle_too_large"),
            (Rejection::InvalidName { name: name(), fault: NameFault::Empty }, "invalid_name"),
            (Rejection::DuplicateMember { name: name() }, "duplicate_member"),
            (Rejection::TtlOutOfRange, "ttl_out_of_range"),
            (Rejection::PoolNotFound { pool: name() }, "pool_not_found"),
            (Rejection::SessionNotFound { session: SessionId(1) }, "session_not_found"),
            (Rejection::SessionExists { session: SessionId(1) }, "session_exists"),
            (Rejection::ResourceHeld(held), "resource_held"),
            (Rejection::PoolExhausted { pool: name(), wanted: 2, free: 1 }, "pool_exhausted"),
            (Rejection::CapacityExceeded { capacity: Capacity::Leases, max: 1 }, "capacity_exceeded"),
            // Every unknown id has this code.
            (Rejection::LeaseNotFound, "not_found"),
            (Rejection::LeaseRetired, "lease_retired"),
            (Rejection::HolderMismatch, "holder_mismatch"),
            (Rejection::StaleEpoch { current: Epoch(2) }, "stale_epoch"),
            (Rejection::InvalidState { state: StateName::Released }, "invalid_state"),
            (Rejection::DeadlinePassed { deadline: Tick(1) }, "deadline_passed"),
            (Rejection::AlreadyDraining, "already_draining"),
            (Rejection::NotDraining, "not_draining"),
            (Rejection::PoolInUse { held: 1 }, "pool_in_use"),
        ]
    }

    #[test]
    fn an_error_over_a_limit_names_the_limit_and_its_value() {
        let fields = [
            (Field::Holder, "holder_bytes", 128),
            (Field::Attachment, "attachment_bytes_per_lease", 4_096),
            (Field::FaceData, "data_bytes_per_lease", 4_096),
            (Field::Text, "reason_bytes", 256),
            (Field::Principal, "principal_bytes", 256),
            (Field::PoolSize, "pool_size", 65_536),
        ];
        let too_large = fields.map(|(field, limit, max)| (Rejection::TooLarge { field }, limit, max));
        for (rejection, limit, max) in
            too_large.into_iter().chain([(Rejection::BundleTooLarge, "resources_per_lease", 64)])
        {
            let error = of(&Refused::Rejected(rejection));
            assert_eq!(
                (&error.details["limit"], &error.details["value"]),
                (&limit.into(), &max.into()),
                "{error}"
            );
            assert!(error.message.contains(&max.to_string()), "{error}");
        }
    }

    #[test]
    fn counts_are_singular_or_plural() {
        let exhausted = |free| {
            let pool = "gpu".into();
            of(&Refused::Rejected(Rejection::PoolExhausted { pool, wanted: 2, free })).message
        };
        assert_eq!(exhausted(0), "pool \"gpu\" has 0 free members, the request needs 2");
        assert_eq!(exhausted(1), "pool \"gpu\" has 1 free member, the request needs 2");
    }
}
