//! The native face: what a caller asks about leases, as commands of the kernel.

use crate::caller::{Caller, Origin};
use crate::limits::{
    GRACE_MS_MAX, LIFETIME_MS_MAX, OPERATION_ID_BYTES_MAX, RECLAIM_DELAY_MS_MAX, TTL_MS_MAX, TTL_MS_MIN,
    WAIT_MS_MAX, bounded, out_of_range,
};
use crate::polling::check_not_operators;
use crate::sessions;
use crate::streams::FAILED;
use sha2::{Digest, Sha256};
use tenure_api::{Acquire, Error, ErrorCode, HolderCall, Mode, OperatorCall};
use tenure_engine::kernel::limits::{HOLDER_BYTES_MAX, OPERATION_KEEP_MS_DEFAULT};
use tenure_engine::kernel::{
    Action, Actor, Bundle, Epoch, Evidence, Face, GateReport, Grant, LeaseId, Member, Policy, Reason,
    Reclaim, ReclaimBy, ReclaimGround, Release, Revoke, SessionKind, Start, Steer, Text, Token,
};
use tenure_engine::{OperationId, Submit};
use tenure_history::session_kind;

/// The TTL of a lease or session for which the caller names none.
pub const TTL_MS_DEFAULT: u32 = 90_000;
/// The grace of a lease or session for which the caller names none.
pub const GRACE_MS_DEFAULT: u32 = 30_000;
/// The same for a standard input, whose end is rarely an accident.
const STDIN_GRACE_MS_DEFAULT: u32 = 5_000;

/// Where polling targets live.
pub(crate) const POLLING_PREFIX: &str = "poll/";

pub(crate) fn acquire(caller: &Caller, acquire: Acquire) -> Result<Submit, Error> {
    let wait_ms = acquire.wait_ms.unwrap_or(0);
    if wait_ms > WAIT_MS_MAX {
        return Err(out_of_range("wait_ms", wait_ms, 0, WAIT_MS_MAX));
    }
    let policy = Policy {
        face: face(&acquire),
        max_lifetime_ms: lifetime(acquire.max_lifetime_ms)?,
        reclaim_delay_ms: bounded(
            "reclaim_delay_ms",
            acquire.reclaim_delay_ms.unwrap_or(0),
            0,
            RECLAIM_DELAY_MS_MAX,
        )?,
        principal: caller.principal.clone(),
        ..terms(caller, &acquire)?
    };
    check_not_operators(acquire.resources.iter(), acquire.pools.keys())?;
    let operation = operation(caller, acquire.operation_id)?;
    let bundle = bundle(acquire.resources, acquire.pools)?;
    let grant = Grant {
        start: match acquire.reserve_ms {
            Some(ttl_ms) => Start::Reserved { ttl_ms },
            None => Start::Active,
        },
        attachment: attachment(acquire.attachment.as_ref())?,
        ..Grant::new(bundle, &holder(acquire.holder)?, policy)
    };
    let asker = Some(caller.principal.clone());
    let opening = caller.opening();
    let via = caller.connection();
    Ok(Submit { operation, wait_ms, asker, via, opening, ..Submit::now(Action::Grant(grant)) })
}

/// Native leases of polling targets are counted with those of the polling face.
fn face(acquire: &Acquire) -> Face {
    let mut names = acquire.resources.iter().chain(acquire.pools.keys());
    if names.any(|name| name.starts_with(POLLING_PREFIX)) { Face::Polling } else { Face::Leases }
}

/// What keeps the lease, from what was said and how the caller came in.
fn terms(caller: &Caller, acquire: &Acquire) -> Result<Policy, Error> {
    if let Some(session) = &acquire.session {
        return session_terms(caller, acquire, session);
    }
    let permanent = acquire.ttl_ms == Some(0);
    match (acquire.mode, caller.origin) {
        (Some(Mode::Permanent), _) if acquire.ttl_ms.is_some_and(|ttl_ms| ttl_ms > 0) => {
            Err(contradiction("a permanent lease has no ttl_ms"))
        }
        (Some(Mode::Permanent), _) => permanent_terms(acquire),
        (Some(Mode::Heartbeat), _) if permanent => {
            Err(contradiction("mode heartbeat needs a ttl_ms above 0"))
        }
        (Some(Mode::Heartbeat), _) => heartbeat_terms(acquire),
        (Some(Mode::Session), Origin::Http) => {
            Err(contradiction("mode session needs a session over HTTP: open one with POST /v1/sessions"))
        }
        (Some(Mode::Session), Origin::Connection { .. }) if acquire.ttl_ms.is_some() => {
            Err(contradiction("a lease of a connection has no ttl_ms: it lasts while the connection is open"))
        }
        (None, _) if permanent => permanent_terms(acquire),
        (None, Origin::Http) => heartbeat_terms(acquire),
        (None, Origin::Connection { .. }) if acquire.ttl_ms.is_some() => heartbeat_terms(acquire),
        (None | Some(Mode::Session), Origin::Connection { session, kind, word_ms }) => {
            let grace_ms = match acquire.grace_ms {
                Some(grace_ms) => bounded("grace_ms", grace_ms, 0, GRACE_MS_MAX)?,
                None => connection_grace_ms(kind),
            };
            Ok(Policy::session(session, word_ms, grace_ms))
        }
    }
}

fn session_terms(caller: &Caller, acquire: &Acquire, session: &str) -> Result<Policy, Error> {
    let session = sessions::parse(session)?;
    match session_kind(session) {
        SessionKind::ByHand => {}
        SessionKind::Connection | SessionKind::Stdin if caller.connection() == Some(session) => {
            return terms(caller, &Acquire { session: None, ..acquire.clone() });
        }
        SessionKind::Connection | SessionKind::Stdin => {
            return Err(contradiction(
                "session must be a session from POST /v1/sessions, or this connection's own",
            ));
        }
    }
    if acquire.ttl_ms.is_some() || acquire.grace_ms.is_some() {
        return Err(contradiction(
            "ttl_ms and grace_ms cannot be given with session: the session has its own",
        ));
    }
    if acquire.mode.is_some_and(|mode| mode != Mode::Session) {
        return Err(contradiction("with session, mode must be session"));
    }
    // The engine fills in the session's own terms.
    Ok(Policy::session(session, 0, 0))
}

fn heartbeat_terms(acquire: &Acquire) -> Result<Policy, Error> {
    let ttl_ms = match acquire.ttl_ms {
        Some(ttl_ms) => bounded("ttl_ms", ttl_ms, TTL_MS_MIN, TTL_MS_MAX)?,
        None => TTL_MS_DEFAULT,
    };
    let grace_ms = match acquire.grace_ms {
        Some(grace_ms) => bounded("grace_ms", grace_ms, 0, GRACE_MS_MAX)?,
        None => GRACE_MS_DEFAULT,
    };
    Ok(Policy::heartbeat(ttl_ms, grace_ms))
}

fn permanent_terms(acquire: &Acquire) -> Result<Policy, Error> {
    if acquire.grace_ms.is_some() {
        return Err(contradiction("a permanent lease has no grace_ms"));
    }
    Ok(Policy::permanent())
}

/// How long the silence of a connection is forgiven unless told.
pub(crate) fn connection_grace_ms(kind: SessionKind) -> u32 {
    match kind {
        SessionKind::Connection | SessionKind::ByHand => GRACE_MS_DEFAULT,
        SessionKind::Stdin => STDIN_GRACE_MS_DEFAULT,
    }
}

pub(crate) fn contradiction(message: &str) -> Error {
    Error::new(ErrorCode::InvalidRequest, message)
}

fn lifetime(ms: Option<u64>) -> Result<u64, Error> {
    match ms {
        None => Ok(0),
        Some(ms) if (TTL_MS_MIN..=LIFETIME_MS_MAX).contains(&ms) => Ok(ms),
        Some(ms) => Err(out_of_range("max_lifetime_ms", ms, TTL_MS_MIN, LIFETIME_MS_MAX)),
    }
}

fn bundle(resources: Vec<String>, pools: std::collections::BTreeMap<String, u32>) -> Result<Bundle, Error> {
    if let Some((pool, _)) = pools.iter().find(|(_, count)| **count == 0) {
        return Err(contradiction(&format!("the count of pool {pool:?} must be at least 1")));
    }
    let named = resources.into_iter().map(|name| Member::Resource(name.into()));
    let pooled = pools.into_iter().map(|(pool, count)| Member::AnyOf { pool: pool.into(), count });
    Ok(Bundle { members: named.chain(pooled).collect() })
}

pub(crate) fn holder(holder: String) -> Result<Text, Error> {
    if holder.is_empty() || holder.len() > HOLDER_BYTES_MAX {
        return Err(contradiction("holder must have 1 to 128 bytes"));
    }
    if holder.chars().any(char::is_control) {
        return Err(contradiction("holder contains a control character"));
    }
    Ok(holder.into())
}

pub(crate) fn attachment(attachment: Option<&serde_json::Value>) -> Result<Vec<u8>, Error> {
    match attachment {
        None | Some(serde_json::Value::Null) => Ok(Vec::new()),
        Some(value) => Ok(serde_json::to_vec(value).expect("invariant: a JSON value can be written")),
    }
}

pub(crate) fn operation(caller: &Caller, id: Option<String>) -> Result<Option<OperationId>, Error> {
    let Some(id) = id else { return Ok(None) };
    if id.is_empty() || id.len() > OPERATION_ID_BYTES_MAX {
        return Err(contradiction(&format!("an operation id has 1 to {OPERATION_ID_BYTES_MAX} bytes")));
    }
    let principal = caller.principal.clone();
    Ok(Some(OperationId::new(principal, id.into(), OPERATION_KEEP_MS_DEFAULT)))
}

/// The same where tries of one request may become different commands: known by a digest of what is asked. A refusal is
/// decided anew.
pub(crate) fn operation_on(
    caller: &Caller,
    id: Option<String>,
    asked: &impl serde::Serialize,
) -> Result<Option<OperationId>, Error> {
    let written = serde_json::to_vec(asked).expect("invariant: requests can be written");
    let digest: [u8; 32] = Sha256::digest(written).into();
    let asked = u64::from_le_bytes(digest[..8].try_into().expect("invariant: a digest has 32 bytes"));
    let operation = operation(caller, id)?;
    Ok(operation.map(|operation| OperationId { asked: Some(asked), tries_again: true, ..operation }))
}

/// The token a holder presents.
pub(crate) fn token(lease: LeaseId, epoch: u64, holder: Option<String>) -> Token {
    Token { lease, epoch: Epoch(epoch), holder: holder.map(Into::into) }
}

pub(crate) fn activate(lease: LeaseId, body: &HolderCall) -> Action {
    Action::Activate(token(lease, body.epoch, body.holder.clone()))
}

pub(crate) fn release(lease: LeaseId, body: &HolderCall) -> Action {
    let text = body.reason.clone().unwrap_or_default().into();
    Action::Release(Release { token: token(lease, body.epoch, body.holder.clone()), text })
}

/// Something only an operator asks of a lease.
#[derive(Clone, Copy)]
pub(crate) enum Order {
    Revoke,
    Reclaim,
    Drain,
    Revive,
}

impl Order {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Revoke => "revoke",
            Self::Reclaim => "reclaim",
            Self::Drain => "drain",
            Self::Revive => "revive",
        }
    }
}

/// An operator's words. The mark of what the client of a stream says of its failure is the client's alone.
fn unmarked(mut text: String) -> String {
    if let Some(mark) = text.get_mut(..FAILED.len())
        && mark == FAILED
    {
        mark.make_ascii_lowercase();
    }
    text
}

pub(crate) fn order(
    caller: &Caller,
    order: Order,
    lease: LeaseId,
    body: OperatorCall,
) -> Result<Submit, Error> {
    let fits = |given: Option<bool>, name: &str, allowed: bool| match given {
        Some(_) if !allowed => Err(contradiction(&format!("{name} is not a field of this call"))),
        _ => Ok(()),
    };
    fits(body.reclaim, "reclaim", matches!(order, Order::Revoke))?;
    fits(body.force, "force", matches!(order, Order::Reclaim))?;
    let operation = operation(caller, body.operation_id)?;
    let epoch = body.epoch.map(Epoch);
    let actor = Actor::Operator(caller.principal.clone());
    let text: Text = unmarked(body.reason.unwrap_or_default()).into();
    let action = match order {
        Order::Revoke => Action::Revoke(Revoke {
            lease,
            epoch,
            reason: Reason::AdminForce,
            text,
            actor,
            evidence: Evidence::None,
            reclaim_by: if body.reclaim == Some(false) { ReclaimBy::Operator } else { ReclaimBy::Daemon },
        }),
        // Ground and gate are the engine's to fill in.
        Order::Reclaim => Action::Reclaim(Reclaim {
            lease,
            epoch,
            actor,
            ground: ReclaimGround::PromiseOver,
            gate: GateReport::None,
        }),
        Order::Drain => Action::Drain(Steer { lease, epoch, actor, text, silent: false }),
        Order::Revive => Action::Revive(Steer { lease, epoch, actor, text, silent: false }),
    };
    let force = body.force.unwrap_or(false);
    Ok(Submit { operation, force, ..Submit::now(action) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operators_words_are_not_a_clients_failure() {
        for (given, kept) in [
            ("FAILED: disk", "failed: disk"),
            ("FAILED:", "failed:"),
            ("failed: disk", "failed: disk"),
            ("it FAILED: disk", "it FAILED: disk"),
            ("FAILEDü", "FAILEDü"),
            ("", ""),
        ] {
            assert_eq!(unmarked(given.to_owned()), kept);
        }
    }
}
