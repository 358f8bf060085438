//! Refusals of engine and kernel as errors of the table, in sentences. The kernel's code and the table's are
//! the same word, except where the table says otherwise.

use crate::limits::over_limit;
use crate::show::Lens;
use tenure_api::{Blocking, Error, ErrorCode};
use tenure_engine::kernel::{Capacity, Field, Rejection, StateName};
use tenure_engine::liveness::Refusal;
use tenure_engine::{Blocker, CallLimit, Refused, WaitLimit};
use tenure_history::rfc3339;

/// Whether the caller asked as the holder of something, and so has lost it if that is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    AsHolder,
    AsAnyone,
}

/// A connection that its holder lost is noticed within about this long.
const CONNECTION_OPEN_RETRY_MS: u64 = 200;

pub(crate) fn error(lens: &Lens<'_>, refused: &Refused, asked: Asked) -> Error {
    let error = match refused {
        Refused::Rejected(rejection) => rejected(rejection, asked),
        Refused::Liveness(refusal) => not_live(refusal, asked),
        Refused::Held(blockers) => held(lens, blockers),
        Refused::Forbidden => Error::new(ErrorCode::Forbidden, "it belongs to another principal"),
        Refused::ConnectionOpen => Error::new(
            ErrorCode::NotDraining,
            "an open connection keeps it; close that connection and ask again, or ask on it",
        )
        .retry_after(CONNECTION_OPEN_RETRY_MS),
        Refused::Queued { resource, waiters } => queued(resource, *waiters),
        Refused::WaitTimeout => {
            Error::new(ErrorCode::WaitTimeout, "the wait was over before everything asked for was free")
        }
        Refused::TooManyWaiters { limit, max } => too_many_waiters(*limit, *max),
        Refused::Overloaded { limit, max } => overloaded(*limit, *max),
        Refused::DiskLow => {
            Error::new(ErrorCode::DiskLow, "the disk is nearly full; only what frees something is taken")
        }
        Refused::NotYet { remaining_ms } => not_yet(
            "the log was restored from a backup; grants wait until holders of its past have stopped",
            *remaining_ms,
        ),
        Refused::Cancelled => Error::new(ErrorCode::WaitTimeout, "the request was withdrawn while it waited"),
        Refused::Trimmed { oldest } => {
            Error::new(ErrorCode::LsnTrimmed, format!("the oldest position that is kept is {oldest}"))
                .with("oldest", oldest.0)
        }
        Refused::OutcomeUnknown => Error::new(
            ErrorCode::OutcomeUnknown,
            "the daemon stopped before the outcome was known; ask again with the same operation id",
        ),
        Refused::NotLeader => {
            Error::new(ErrorCode::NotLeader, "this node does not write, and does not know who does")
        }
        Refused::ShuttingDown => Error::new(ErrorCode::ShuttingDown, "the daemon is stopping"),
    };
    debug_assert!(
        matches!(refused.code(), "lease_not_found" | "cancelled") || error.code.as_str() == refused.code(),
        "{refused:?} became {error:?}"
    );
    error
}

fn too_many_waiters(limit: WaitLimit, max: usize) -> Error {
    let of = |whose: &str, limit: &str| {
        let message = format!("{max} requests{whose} wait already");
        over_limit(ErrorCode::TooManyWaiters, message, limit, &format!("limits.{limit}"), max)
    };
    match limit {
        WaitLimit::Waiters => of("", "waiters"),
        WaitLimit::WaitersOfPrincipal => of(" of this principal", "waiters_per_principal"),
        // No setting moves it.
        WaitLimit::TriesOfOperation => {
            let message = format!("{max} tries of this operation wait already");
            new(ErrorCode::TooManyWaiters, message).with("limit", "tries_per_operation").with("value", max)
        }
    }
}

fn overloaded(limit: CallLimit, max: usize) -> Error {
    let of = |message: String, limit: &str| {
        over_limit(ErrorCode::Overloaded, message, limit, &format!("limits.{limit}"), max)
    };
    match limit {
        CallLimit::Inbox => of("more is asked than can be queued".to_owned(), "inbox"),
        CallLimit::Calls => of(format!("{max} requests of this kind may be unanswered"), "calls"),
        CallLimit::CallsOfPrincipal => {
            let message = format!("{max} requests of this kind and of this principal may be unanswered");
            of(message, "calls_per_principal")
        }
        // No setting moves it.
        CallLimit::FrameBytes => new(ErrorCode::Overloaded, "more ends than fit into one write")
            .with("limit", "frame_bytes")
            .with("value", max),
    }
}

fn new(code: ErrorCode, message: impl Into<String>) -> Error {
    Error::new(code, message)
}

fn rejected(rejection: &Rejection, asked: Asked) -> Error {
    match rejection {
        Rejection::OperationConflict => {
            new(ErrorCode::OperationConflict, "the operation id was used for another request")
        }
        Rejection::TooLarge { field } => too_large(*field),
        Rejection::BundleEmpty => new(ErrorCode::BundleEmpty, "no resource and no pool is named"),
        Rejection::BundleTooLarge => {
            new(ErrorCode::BundleTooLarge, "a bundle has at most 64 resources, pool members included")
        }
        Rejection::InvalidName { name, fault } => {
            new(ErrorCode::InvalidName, format!("the name {:?} {}", name.as_str(), fault.as_str()))
                .with("name", name.as_str())
        }
        Rejection::DuplicateMember { name } => {
            new(ErrorCode::DuplicateMember, format!("{:?} is named twice", name.as_str()))
                .with("name", name.as_str())
        }
        Rejection::TtlOutOfRange => {
            new(ErrorCode::TtlOutOfRange, "reserve_ms must be between 1 and 86400000")
                .with("field", "reserve_ms")
        }
        Rejection::PoolNotFound { pool } => {
            new(ErrorCode::PoolNotFound, format!("there is no pool {:?}", pool.as_str()))
                .with("pool", pool.as_str())
        }
        Rejection::SessionNotFound { .. } => no_session(asked),
        Rejection::SessionExists { .. } => new(ErrorCode::SessionExists, "the session id is taken"),
        Rejection::ResourceHeld(held) => {
            new(ErrorCode::ResourceHeld, format!("{:?} is held by {:?}", held.resource.as_str(), held.holder))
        }
        Rejection::PoolExhausted { pool, wanted, free } => {
            let message = format!("{wanted} of pool {:?} asked for, {free} free", pool.as_str());
            new(ErrorCode::PoolExhausted, message)
                .with("pool", pool.as_str())
                .with("wanted", *wanted)
                .with("free", *free)
        }
        Rejection::CapacityExceeded { capacity, max } => {
            let what = capacity_word(*capacity);
            let error =
                new(ErrorCode::CapacityExceeded, format!("the daemon's limit of {what} is reached: {max}"))
                    .with("capacity", what)
                    .with("limit", what)
                    .with("value", *max);
            match capacity {
                // No setting moves it.
                Capacity::Notices => error,
                _ => error.with("setting", format!("limits.{what}")),
            }
        }
        Rejection::LeaseNotFound => no_lease(asked),
        Rejection::LeaseRetired => {
            mark(new(ErrorCode::LeaseRetired, "the lease ended too long ago to be shown"), asked)
        }
        Rejection::HolderMismatch => new(ErrorCode::HolderMismatch, "the lease is held in another name"),
        Rejection::StaleEpoch { current } => {
            let message = format!("the epoch is not the current one; that is {current}");
            mark(new(ErrorCode::StaleEpoch, message).with("current", current.0), asked)
        }
        Rejection::InvalidState { state } => invalid_state(*state, asked),
        Rejection::DeadlinePassed { .. } => {
            mark(new(ErrorCode::DeadlinePassed, "the reservation was not activated in time"), asked)
        }
        Rejection::AlreadyDraining => new(ErrorCode::AlreadyDraining, "the lease drains already"),
        Rejection::NotDraining => new(ErrorCode::NotDraining, "the lease does not drain"),
        Rejection::PoolInUse { held } => {
            let message = format!("{held} of its members are held; force ends their leases");
            new(ErrorCode::PoolInUse, message).with("held", *held)
        }
    }
}

fn not_live(refusal: &Refusal, asked: Asked) -> Error {
    match refusal {
        Refusal::Rejected(rejection) => rejected(rejection, asked),
        Refusal::NoLiveness => Error::new(
            ErrorCode::NoLiveness,
            "the lease lives by a session or a connection: heartbeat that session, or come back on a connection",
        ),
        Refusal::PermanentLease => {
            Error::new(ErrorCode::PermanentLease, "a permanent lease has no liveness; revoke it instead")
        }
        Refusal::SessionNotFound => no_session(asked),
        Refusal::NotYet { remaining_ms } => {
            not_yet("gate, promise or delay stand in the way; force would override them", *remaining_ms)
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
            "{:?} is held by {:?}, and {} more of the bundle are held",
            first.resource.as_str(),
            first.holder.as_str(),
            blockers.len().saturating_sub(1)
        ),
        [] => "a resource is held".to_owned(),
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
    blocked(format!("{resource:?} is free, but {waiters} waited for it first"), &[blocking])
}

fn blocked(message: String, blocking: &[Blocking]) -> Error {
    let blocking = serde_json::to_value(blocking).expect("invariant: blocking resources are plain data");
    Error::new(ErrorCode::ResourceHeld, message).with("blocking", blocking)
}

fn not_yet(message: &str, remaining_ms: u64) -> Error {
    Error::new(ErrorCode::NotYet, message).with("remaining_ms", remaining_ms).retry_after(remaining_ms)
}

fn too_large(field: Field) -> Error {
    let (name, bound) = match field {
        Field::Holder => ("holder", "must have 1 to 128 bytes"),
        Field::Attachment => ("attachment", "has at most 4096 bytes as JSON"),
        Field::FaceData => ("face_data", "has at most 4096 bytes"),
        Field::Text => ("reason", "has at most 256 bytes"),
        Field::Principal => ("principal", "has at most 256 bytes"),
        Field::PoolSize => ("size", "is at most 65536"),
    };
    Error::new(ErrorCode::TooLarge, format!("{name} {bound}")).with("field", name)
}

/// The lease is in a state in which this cannot be done.
pub(crate) fn invalid_state(state: StateName, asked: Asked) -> Error {
    let message = match state {
        StateName::Reserved => "the lease is only reserved; activate it first",
        StateName::Active => "the lease is in use",
        StateName::Revoking => "the lease is revoked and waits to be reclaimed",
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

/// There is no such lease. An id of another log is not one of ours.
pub(crate) fn no_lease(asked: Asked) -> Error {
    mark(Error::new(ErrorCode::NotFound, "there is no such lease"), asked)
}

pub(crate) fn no_session(asked: Asked) -> Error {
    mark(Error::new(ErrorCode::SessionNotFound, "there is no such session, or it is closed"), asked)
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
        Capacity::Notices => "notices",
    }
}
