//! What a call asks of the engine, and how the engine's answer becomes the reply. Most calls are one
//! request; the few that need several steps are told apart here and carried out in `dispatch.rs`.

use crate::call::Call;
use crate::caller::{Caller, Scope};
use crate::leases::{self, Order};
use crate::limits::page;
use crate::refusal::{About, Asked, mark, no_lease};
use crate::sessions;
use tenure_api::{Check, Error, ErrorCode, LeaseQuery};
use tenure_engine::kernel::{Action, Amend, Epoch, Fence, LeaseId, Lsn, Reason, Rebind, SessionId, Text};
use tenure_engine::{Check as Asking, Keeper, List, Request, Submit, speaks_for};
use tenure_history::{Identity, WireLease};

/// What to do about a call.
pub(crate) enum Plan {
    /// One request; its answer takes this shape.
    Ask(Request, Shape),
    /// Several steps.
    Steps(Call),
}

/// How an answer is told.
pub(crate) enum Shape {
    Lease(About),
    Renewed { lease: LeaseId, epoch: u64 },
    Leases(LeaseQuery),
    Session(Seen),
    Sessions(Seen),
    SessionRenewed(SessionId),
    SessionEnd(SessionId),
    Resource(String),
    Resources(String),
    Pool(String),
    Pools,
    Checked,
    Status,
    BreakerReset,
}

/// Whose sessions a caller may look at.
pub(crate) enum Seen {
    Everybodys,
    Only(Text),
}

impl Seen {
    fn by(caller: &Caller) -> Self {
        match caller.scope {
            Scope::Read | Scope::Hold => Self::Only(caller.principal.clone()),
            Scope::Admin => Self::Everybodys,
        }
    }

    pub(crate) fn includes(&self, principal: &str) -> bool {
        match self {
            Self::Everybodys => true,
            Self::Only(own) => speaks_for(own, principal),
        }
    }
}

impl Shape {
    /// What the caller named, and whether it asked as its holder.
    pub(crate) fn about(&self) -> About {
        match self {
            Self::Lease(about) => *about,
            Self::Renewed { lease, .. } => Asked::AsHolder.of_lease(*lease),
            Self::SessionRenewed(session) | Self::SessionEnd(session) => Asked::AsHolder.of_session(*session),
            Self::Leases(_)
            | Self::Session(_)
            | Self::Sessions(_)
            | Self::Resource(_)
            | Self::Resources(_)
            | Self::Pool(_)
            | Self::Pools
            | Self::Checked
            | Self::Status
            | Self::BreakerReset => Asked::AsAnyone.into(),
        }
    }
}

/// Reads a lease id; one of another log names nothing here.
pub(crate) fn lease_id(identity: &Identity, text: &str, asked: Asked) -> Result<LeaseId, Error> {
    let wire: WireLease = text.parse().map_err(|error| {
        let message = format!("{text:?} is not a lease id: {error}");
        mark(Error::new(ErrorCode::NotFound, message), asked)
    })?;
    wire.lease(identity).ok_or_else(|| no_lease(&format!("lease {text}"), asked))
}

pub(crate) fn plan(identity: &Identity, caller: &Caller, call: Call) -> Result<Plan, Error> {
    let held = |id: &str| lease_id(identity, id, Asked::AsHolder);
    let seen = |id: &str| lease_id(identity, id, Asked::AsAnyone);
    let ask = |request: Request, shape: Shape| Ok(Plan::Ask(request, shape));
    let own = |lease: LeaseId, action: Action, operation_id: Option<String>| {
        let operation = leases::operation(caller, operation_id)?;
        let asker = Some(caller.principal.clone());
        let submit = Submit { operation, asker, via: caller.connection(), ..Submit::now(action) };
        Ok(Plan::Ask(Request::Submit(submit), Shape::Lease(Asked::AsHolder.of_lease(lease))))
    };
    let moved = |keeper: Option<Keeper>, rebind: Rebind, operation_id: Option<String>| {
        let shape = Shape::Lease(Asked::AsHolder.of_lease(rebind.token.lease));
        let operation = leases::operation(caller, operation_id)?;
        let (asker, via, opening) = (Some(caller.principal.clone()), caller.connection(), caller.opening());
        let now = Submit::now(Action::Rebind(rebind));
        let submit = Submit { operation, keeper, asker, via, opening, ..now };
        Ok(Plan::Ask(Request::Submit(submit), shape))
    };
    let order = |order: Order, id: &str, body| {
        let lease = seen(id)?;
        let submit = leases::order(caller, order, lease, body)?;
        Ok(Plan::Ask(Request::Submit(submit), Shape::Lease(Asked::AsAnyone.of_lease(lease))))
    };
    let close = |id: &str, operation_id: Option<String>| {
        let session = sessions::parse(id)?;
        let operation = leases::operation(caller, operation_id)?;
        let asker = Some(caller.principal.clone());
        let action = Action::CloseSession { session, reason: Reason::Explicit };
        let submit = Submit { operation, asker, ..Submit::now(action) };
        Ok(Plan::Ask(Request::Submit(submit), Shape::SessionEnd(session)))
    };
    match call {
        Call::Acquire(body) => {
            ask(Request::Submit(leases::acquire(caller, *body)?), Shape::Lease(Asked::AsAnyone.into()))
        }
        Call::Inspect(id) => {
            let lease = seen(&id)?;
            ask(Request::Read(lease), Shape::Lease(Asked::AsAnyone.of_lease(lease)))
        }
        Call::List(query) => {
            let list = list(identity, &query)?;
            ask(Request::List(list), Shape::Leases(query))
        }
        Call::Activate(id, body) => {
            let lease = held(&id)?;
            own(lease, leases::activate(lease, &body), body.operation_id)
        }
        Call::Release(id, body) => {
            let lease = held(&id)?;
            own(lease, leases::release(lease, &body), body.operation_id)
        }
        Call::Amend(id, body) => {
            let lease = held(&id)?;
            let token = leases::token(lease, body.epoch, body.holder);
            let attachment = Some(leases::attachment(Some(&body.attachment))?);
            own(lease, Action::Amend(Amend { token, attachment, face_data: None }), body.operation_id)
        }
        Call::Heartbeat(id, body) => {
            let (lease, epoch) = (held(&id)?, body.epoch);
            ask(held_as(body.holder, heartbeat(caller, lease, epoch)), Shape::Renewed { lease, epoch })
        }
        Call::Acknowledge(id, body) => {
            let lease = held(&id)?;
            let request = acknowledge(caller, lease, body.epoch);
            ask(held_as(body.holder, request), Shape::Lease(Asked::AsHolder.of_lease(lease)))
        }
        Call::Rebind(id, body) => {
            let rebind = Rebind {
                holder: body.holder.map(leases::holder).transpose()?,
                attachment: body.attachment.map(|value| leases::attachment(Some(&value))).transpose()?,
                ..Rebind::keeping(leases::token(held(&id)?, body.epoch, None))
            };
            let session = body.session.as_deref().map(sessions::parse).transpose()?;
            moved(session.map(Keeper::Session), rebind, body.operation_id)
        }
        Call::Handover(id, body) => {
            let session = sessions::parse(&body.to_session)?;
            let rebind = Rebind::keeping(leases::token(held(&id)?, body.epoch, None));
            moved(Some(Keeper::Handover(session)), rebind, body.operation_id)
        }
        Call::Resume(id, body) => {
            if caller.connection().is_none() {
                return Err(leases::contradiction("only a connection can resume a lease"));
            }
            let rebind = Rebind::keeping(leases::token(held(&id)?, body.epoch, body.holder));
            moved(Some(Keeper::Connection), rebind, body.operation_id)
        }
        Call::Revoke(id, body) => order(Order::Revoke, &id, body),
        Call::Reclaim(id, body) => order(Order::Reclaim, &id, body),
        Call::Drain(id, body) => order(Order::Drain, &id, body),
        Call::Revive(id, body) => order(Order::Revive, &id, body),
        Call::Session(id) => ask(Request::Session(sessions::parse(&id)?), Shape::Session(Seen::by(caller))),
        Call::Sessions { limit, cursor } => {
            let from = cursor.as_deref().map(sessions::parse).transpose()?.unwrap_or(SessionId(0));
            ask(Request::Sessions { from, limit: page(limit)? }, Shape::Sessions(Seen::by(caller)))
        }
        Call::SessionHeartbeat(id, body) => {
            let session = sessions::parse(&id)?;
            let (seen, asker) = (Lsn(body.seen_lsn.unwrap_or(0)), Some(caller.principal.clone()));
            ask(Request::SessionHeartbeat { session, seen, asker }, Shape::SessionRenewed(session))
        }
        Call::CloseSession(id) => close(&id, None),
        Call::Under { operation_id, call } => match *call {
            Call::CloseSession(id) => close(&id, Some(operation_id)),
            call => Ok(Plan::Steps(Call::Under { operation_id, call: Box::new(call) })),
        },
        Call::Resource(name) => ask(Request::Resource(name.as_str().into()), Shape::Resource(name)),
        Call::Resources(query) => {
            let prefix = query.prefix.unwrap_or_default();
            let list = List {
                from: cursor(identity, query.cursor.as_deref())?,
                limit: page(query.limit)?,
                resource_prefix: Some(prefix.as_str().into()),
                holder: None,
            };
            ask(Request::List(list), Shape::Resources(prefix))
        }
        Call::Pool(name) => ask(Request::Pools, Shape::Pool(name)),
        Call::Pools => ask(Request::Pools, Shape::Pools),
        Call::Check(check) => ask(Request::Check(checked(identity, check)?), Shape::Checked),
        Call::Status => ask(Request::Status, Shape::Status),
        Call::ResetBreaker => ask(Request::ResetBreaker, Shape::BreakerReset),
        Call::OpenSession(_)
        | Call::DefinePool(..)
        | Call::RemovePool(..)
        | Call::Why(_)
        | Call::EndAll
        | Call::Register(_)
        | Call::RegisterAt(..)
        | Call::NodeTold(_)
        | Call::ConnectionsTold(_)
        | Call::Unregister(_)
        | Call::UnregisterEpoch(..)
        | Call::HeartbeatRegistration(..)
        | Call::Resolve(_)
        | Call::RegistrationStatus
        | Call::Registrations
        | Call::InspectRegistration(_)
        | Call::EndRegistration(_)
        | Call::DrainRegistration(_)
        | Call::ReviveRegistration(_)
        | Call::StartStream { .. }
        | Call::Stream(_)
        | Call::Streams(_)
        | Call::HeartbeatStream(..)
        | Call::ActivateStream(..)
        | Call::FailStream(..)
        | Call::StopStream(_)
        | Call::IntendStop { .. }
        | Call::Polling(_)
        | Call::PollingGroups
        | Call::MoveTarget { .. }
        | Call::CordonPoller { .. }
        | Call::UncordonPoller { .. } => Ok(Plan::Steps(call)),
    }
}

fn heartbeat(caller: &Caller, lease: LeaseId, epoch: u64) -> Request {
    let (via, asker) = (caller.connection(), Some(caller.principal.clone()));
    Request::Heartbeat { lease, epoch: Epoch(epoch), via, asker }
}

fn acknowledge(caller: &Caller, lease: LeaseId, epoch: u64) -> Request {
    Request::Acknowledge { lease, epoch: Epoch(epoch), asker: Some(caller.principal.clone()) }
}

/// A request that counts only for a lease held in this name.
fn held_as(holder: Option<String>, request: Request) -> Request {
    match holder {
        Some(holder) => Request::HeldAs { holder: holder.into(), request: Box::new(request) },
        None => request,
    }
}

fn list(identity: &Identity, query: &LeaseQuery) -> Result<List, Error> {
    Ok(List {
        from: cursor(identity, query.cursor.as_deref())?,
        limit: page(query.limit)?,
        resource_prefix: query.resource_prefix.as_deref().map(Into::into),
        holder: query.holder.as_deref().map(Into::into),
    })
}

/// A cursor is the id to go on with.
fn cursor(identity: &Identity, cursor: Option<&str>) -> Result<LeaseId, Error> {
    match cursor {
        None => Ok(LeaseId::new(identity.shard, Lsn(0))),
        Some(text) => text.parse::<WireLease>().ok().and_then(|wire| wire.lease(identity)).ok_or_else(|| {
            Error::new(ErrorCode::InvalidRequest, format!("{text:?} is not a cursor of this log"))
        }),
    }
}

fn checked(identity: &Identity, check: Check) -> Result<Asking, Error> {
    Ok(match check {
        Check::Fence { resource, fence } => Asking::Fence { resource: resource.into(), fence: Fence(fence) },
        Check::Epoch { lease_id: id, epoch } => {
            // An id of another log is simply not current; nobody has position 0.
            let lease = id.parse::<WireLease>().ok().and_then(|wire| wire.lease(identity));
            let lease = lease.unwrap_or(LeaseId::new(identity.shard, Lsn(0)));
            Asking::Epoch { lease, epoch: Epoch(epoch) }
        }
    })
}
