//! What can be asked and what can be answered, in wire types. The scope of each call stands here; a route that is
//! no call has its own.

use crate::caller::Scope;
use crate::connections::{ConnectionsHeard, ConnectionsTold};
use crate::limits::WAIT_MS_MAX;
use crate::registrations::{Home, NodeHeard, NodeTold, Settled, is_foreign};
use core::mem;
use serde::{Deserialize, Serialize};
use tenure_api as api;

/// What can be asked. Written down only between nodes of one version; the wire has its own forms.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Call {
    /// Take a bundle.
    Acquire(Box<api::Acquire>),
    /// Show one lease.
    Inspect(String),
    /// Show many.
    List(api::LeaseQuery),
    /// Take a reserved lease into use.
    Activate(String, api::HolderCall),
    /// Prove life.
    Heartbeat(String, api::HolderCall),
    /// Give a lease back.
    Release(String, api::HolderCall),
    /// Confirm a loss.
    Acknowledge(String, api::HolderCall),
    /// Replace the attachment.
    Amend(String, api::Amend),
    /// Give a lease a new holder or session.
    Rebind(String, Box<api::Rebind>),
    /// Give a lease to another session's holder.
    Handover(String, api::Handover),
    /// Bind a lease to the caller's connection.
    Resume(String, api::HolderCall),
    /// Withdraw authority.
    Revoke(String, api::OperatorCall),
    /// Make resources of a revoked lease reusable.
    Reclaim(String, api::OperatorCall),
    /// Let a lease end after its grace.
    Drain(String, api::OperatorCall),
    /// Take a drain back.
    Revive(String, api::OperatorCall),
    /// Open a session by hand.
    OpenSession(api::OpenSession),
    /// Show one session.
    Session(String),
    /// Show many.
    Sessions {
        /// At most this many.
        limit: Option<u64>,
        /// Where the page before ended.
        cursor: Option<String>,
    },
    /// Prove a session's life.
    SessionHeartbeat(String, api::SessionHeartbeat),
    /// End a session and release what it holds.
    CloseSession(String),
    /// Show one resource.
    Resource(String),
    /// Show many.
    Resources(api::ResourceQuery),
    /// Create or resize a pool.
    DefinePool(String, api::PoolSize),
    /// Show one pool.
    Pool(String),
    /// Show all.
    Pools,
    /// Remove a pool.
    RemovePool(String, api::RemovePool),
    /// Ask for a guarded store.
    Check(api::Check),
    /// Ask for a story.
    Why(api::WhyQuery),
    /// The daemon at a glance.
    Status,
    /// End the breaker's hold.
    ResetBreaker,
    /// End every lease, because the daemon stops.
    EndAll,
    /// Advertise a service.
    Register(Box<api::Register>),
    /// Advertise a service at the node that has taken it. Between nodes alone.
    RegisterAt(Settled, Box<api::Register>),
    /// A node tells that it is there, and what its network was told. Between nodes alone.
    NodeTold(Box<NodeTold>),
    /// A node gives its word for the connections that are open there.
    ConnectionsTold(Box<ConnectionsTold>),
    /// End a registration of one's own.
    Unregister(String),
    /// The same while it has this epoch: after a take-over it is another registrant's.
    UnregisterEpoch(String, u64),
    /// Prove a registrant's life.
    HeartbeatRegistration(String, api::RegistrationHeartbeat),
    /// Look one service up.
    Resolve(api::ResolveQuery),
    /// The daemon as its registrations see it.
    RegistrationStatus,
    /// Show all registrations.
    Registrations,
    /// Show one, by the beginning of its id.
    InspectRegistration(String),
    /// End any registration.
    EndRegistration(String),
    /// Let a registration end after its grace.
    DrainRegistration(String),
    /// Take a drain back.
    ReviveRegistration(String),
    /// Start a stream.
    StartStream {
        /// What is asked for.
        start: Box<api::SlotSessionStart>,
        /// Makes a retry harmless.
        operation_id: Option<String>,
    },
    /// Show one stream.
    Stream(String),
    /// Show many.
    Streams(api::SlotSessionQuery),
    /// Prove the life of a stream's client.
    HeartbeatStream(String, api::SlotSessionHeartbeat),
    /// Take a stream that has its slots into use.
    ActivateStream(String, api::SlotSessionActivate),
    /// End a stream that cannot go on.
    FailStream(String, api::SlotSessionFail),
    /// End a stream.
    StopStream(String),
    /// The same, as an intent.
    IntendStop {
        /// Which.
        stop: api::SlotSessionStop,
        /// Makes a retry harmless.
        operation_id: Option<String>,
    },
    /// Show a group of pollers.
    Polling(String),
    /// List groups of pollers.
    PollingGroups,
    /// Say which poller is to have a target.
    MoveTarget {
        /// In which group.
        group: String,
        /// Which target, to whom.
        body: api::MoveTarget,
        /// Makes a retry harmless.
        operation_id: Option<String>,
    },
    /// Take a poller's targets away.
    CordonPoller {
        /// In which group.
        group: String,
        /// Which.
        body: api::CordonPoller,
        /// Makes a retry harmless.
        operation_id: Option<String>,
    },
    /// Let a poller have targets again.
    UncordonPoller {
        /// In which group.
        group: String,
        /// Which.
        body: api::CordonPoller,
        /// Makes a retry harmless.
        operation_id: Option<String>,
    },
    /// A call without a place for an operation id, under one.
    Under {
        /// Makes a retry harmless.
        operation_id: String,
        /// What is asked.
        call: Box<Call>,
    },
}

/// What can be answered. Written down with its name only between nodes; callers get [`Reply::body`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// A lease.
    Lease(Box<api::Lease>),
    /// A page of leases.
    Leases(api::LeaseList),
    /// A heartbeat counted.
    Renewed(api::Renewed),
    /// A session.
    Session(api::Session),
    /// A page of sessions.
    Sessions(api::SessionList),
    /// A session's heartbeat counted.
    SessionRenewed(api::SessionRenewed),
    /// A session was closed.
    SessionEnd(api::SessionEnd),
    /// A resource.
    Resource(api::Resource),
    /// A page of resources.
    Resources(api::ResourceList),
    /// A pool.
    Pool(api::Pool),
    /// Every pool.
    Pools(api::PoolList),
    /// What a guarded store is told.
    Checked(api::CheckAnswer),
    /// A story.
    Why(api::Story),
    /// The daemon at a glance.
    Status(Box<api::Status>),
    /// The breaker's hold was ended.
    BreakerReset(api::BreakerReset),
    /// Every lease was ended.
    Ended(api::ShuttingDown),
    /// A service is registered.
    Registered(api::Registration),
    /// A node was heard.
    NodeHeard(NodeHeard),
    /// Connections are heard of.
    ConnectionsHeard(ConnectionsHeard),
    /// A registration ends.
    Unregistered(api::Unregistered),
    /// A registrant's heartbeat counted.
    RegistrationRenewed(api::RegistrationRenewed),
    /// A service was looked up.
    Resolved(api::Resolved),
    /// The daemon as its registrations see it.
    RegistrationStatus(api::DaemonStatus),
    /// Every registration.
    Registrations(Vec<api::AdminRegistration>),
    /// One registration.
    Registration(Box<api::AdminRegistration>),
    /// A registration drains.
    RegistrationDrained(api::RegistrationDrained),
    /// A drain was taken back.
    RegistrationRevived(api::RegistrationRevived),
    /// A stream.
    Stream(Box<api::SlotSession>),
    /// A page of streams.
    Streams(api::SlotSessionList),
    /// A stream's heartbeat counted.
    StreamRenewed(api::SlotSessionRenewed),
    /// A group of pollers.
    Polling(Box<api::PollingView>),
    /// Every group of pollers.
    PollingGroups(api::PollingGroups),
    /// A target will move.
    Moved(api::Moved),
    /// A poller is cordoned, or not any more.
    Cordoned(api::Cordoned),
}

impl Call {
    /// What a caller needs to be allowed to ask this.
    #[must_use]
    pub fn scope(&self) -> Scope {
        match self {
            Self::Under { call, .. } => call.scope(),
            Self::Inspect(_)
            | Self::List(_)
            | Self::Session(_)
            | Self::Sessions { .. }
            | Self::Resource(_)
            | Self::Resources(_)
            | Self::Pool(_)
            | Self::Pools
            | Self::Check(_)
            | Self::Why(_)
            | Self::Status
            | Self::Resolve(_)
            | Self::Polling(_)
            | Self::PollingGroups => Scope::Read,
            Self::Acquire(_)
            | Self::Activate(..)
            | Self::Heartbeat(..)
            | Self::Release(..)
            | Self::Acknowledge(..)
            | Self::Amend(..)
            | Self::Rebind(..)
            | Self::Handover(..)
            | Self::Resume(..)
            | Self::OpenSession(_)
            | Self::SessionHeartbeat(..)
            | Self::CloseSession(_)
            | Self::Register(_)
            | Self::RegisterAt(..)
            | Self::Unregister(_)
            | Self::UnregisterEpoch(..)
            | Self::HeartbeatRegistration(..)
            | Self::StartStream { .. }
            | Self::Stream(_)
            | Self::HeartbeatStream(..)
            | Self::ActivateStream(..)
            | Self::FailStream(..)
            | Self::StopStream(_)
            | Self::IntendStop { .. } => Scope::Hold,
            Self::Revoke(..)
            | Self::Reclaim(..)
            | Self::Drain(..)
            | Self::Revive(..)
            | Self::DefinePool(..)
            | Self::RemovePool(..)
            | Self::ResetBreaker
            | Self::EndAll
            | Self::NodeTold(_)
            | Self::ConnectionsTold(_)
            | Self::RegistrationStatus
            | Self::Registrations
            | Self::InspectRegistration(_)
            | Self::EndRegistration(_)
            | Self::DrainRegistration(_)
            | Self::ReviveRegistration(_)
            | Self::Streams(_)
            | Self::MoveTarget { .. }
            | Self::CordonPoller { .. }
            | Self::UncordonPoller { .. } => Scope::Admin,
        }
    }

    /// Whether it proves life, which no rate limit may hold up.
    #[must_use]
    pub fn is_heartbeat(&self) -> bool {
        matches!(
            self,
            Self::Heartbeat(..)
                | Self::SessionHeartbeat(..)
                | Self::Acknowledge(..)
                | Self::HeartbeatRegistration(..)
                | Self::HeartbeatStream(..)
        )
    }

    /// Whether it keeps what its caller has, or gives it back.
    #[must_use]
    pub fn keeps_or_gives_back(&self) -> bool {
        self.is_heartbeat()
            || matches!(
                self,
                Self::Release(..)
                    | Self::CloseSession(_)
                    | Self::Unregister(_)
                    | Self::UnregisterEpoch(..)
                    | Self::StopStream(_)
                    | Self::FailStream(..)
                    | Self::IntendStop { .. }
            )
            || matches!(self, Self::Under { call, .. } if call.keeps_or_gives_back())
    }

    /// Whether a daemon that is there for registrations alone serves it.
    pub(crate) fn is_of_registrations(&self) -> bool {
        match self {
            Self::Under { call, .. } => call.is_of_registrations(),
            Self::Register(_)
            | Self::RegisterAt(..)
            | Self::NodeTold(_)
            | Self::ConnectionsTold(_)
            | Self::Unregister(_)
            | Self::UnregisterEpoch(..)
            | Self::HeartbeatRegistration(..)
            | Self::Resolve(_)
            | Self::RegistrationStatus
            | Self::Registrations
            | Self::InspectRegistration(_)
            | Self::EndRegistration(_)
            | Self::DrainRegistration(_)
            | Self::ReviveRegistration(_)
            | Self::Status
            | Self::EndAll => true,
            Self::Acquire(_)
            | Self::Inspect(_)
            | Self::List(_)
            | Self::Activate(..)
            | Self::Heartbeat(..)
            | Self::Release(..)
            | Self::Acknowledge(..)
            | Self::Amend(..)
            | Self::Rebind(..)
            | Self::Handover(..)
            | Self::Resume(..)
            | Self::Revoke(..)
            | Self::Reclaim(..)
            | Self::Drain(..)
            | Self::Revive(..)
            | Self::OpenSession(_)
            | Self::Session(_)
            | Self::Sessions { .. }
            | Self::SessionHeartbeat(..)
            | Self::CloseSession(_)
            | Self::Resource(_)
            | Self::Resources(_)
            | Self::DefinePool(..)
            | Self::Pool(_)
            | Self::Pools
            | Self::RemovePool(..)
            | Self::Check(_)
            | Self::Why(_)
            | Self::ResetBreaker
            | Self::StartStream { .. }
            | Self::Stream(_)
            | Self::Streams(_)
            | Self::HeartbeatStream(..)
            | Self::ActivateStream(..)
            | Self::FailStream(..)
            | Self::StopStream(_)
            | Self::IntendStop { .. }
            | Self::Polling(_)
            | Self::PollingGroups
            | Self::MoveTarget { .. }
            | Self::CordonPoller { .. }
            | Self::UncordonPoller { .. } => false,
        }
    }

    /// Whether it only looks, so that one who follows may answer it from what it has applied.
    #[must_use]
    pub fn may_be_stale(&self) -> bool {
        matches!(
            self,
            Self::Inspect(_)
                | Self::List(_)
                | Self::Session(_)
                | Self::Sessions { .. }
                | Self::Resource(_)
                | Self::Resources(_)
                | Self::Pool(_)
                | Self::Pools
                | Self::Why(_)
                // As this node knows itself.
                | Self::Status
        )
    }

    /// Whether it belongs to the node that is asked, whoever writes.
    #[must_use]
    pub fn is_of_this_node(&self) -> bool {
        matches!(self, Self::Resolve(_))
    }

    /// As it is passed on by the node that has taken it.
    pub(crate) fn taken_at(self, home: &Home) -> Self {
        match self {
            Self::Register(register) => {
                let settled = Settled { home: home.clone(), is_foreign: is_foreign(register.ip) };
                Self::RegisterAt(settled, register)
            }
            other => other,
        }
    }

    /// Waits no longer than this.
    pub fn shorten_wait(&mut self, wait_ms: u64) {
        if let Self::Acquire(acquire) = self
            && let Some(wait) = &mut acquire.wait_ms
        {
            *wait = (*wait).min(wait_ms);
        }
    }

    /// How long it may take beyond an ordinary call. A caller may write any number: what is over the bound is refused
    /// where it is decided, and nobody counts with it before.
    #[must_use]
    pub fn wait_ms(&self) -> u64 {
        match self {
            Self::Acquire(acquire) => acquire.wait_ms.unwrap_or(0).min(WAIT_MS_MAX),
            _ => 0,
        }
    }

    /// What is asked, and the operation id that it has no place for.
    pub(crate) fn opened(self) -> (Option<String>, Self) {
        match self {
            Self::Under { operation_id, call } => (Some(operation_id), *call),
            other => (None, other),
        }
    }

    /// Gives it an operation id that came beside it; one in the body counts more. `true`: it has it now.
    pub fn set_operation_id(&mut self, id: &str) -> bool {
        let place = match self {
            Self::Acquire(body) => &mut body.operation_id,
            Self::Activate(_, body)
            | Self::Heartbeat(_, body)
            | Self::Release(_, body)
            | Self::Acknowledge(_, body)
            | Self::Resume(_, body) => &mut body.operation_id,
            Self::Amend(_, body) => &mut body.operation_id,
            Self::Rebind(_, body) => &mut body.operation_id,
            Self::Handover(_, body) => &mut body.operation_id,
            Self::Revoke(_, body) | Self::Reclaim(_, body) | Self::Drain(_, body) | Self::Revive(_, body) => {
                &mut body.operation_id
            }
            Self::OpenSession(body) => &mut body.operation_id,
            Self::Register(body) | Self::RegisterAt(_, body) => &mut body.operation_id,
            Self::StartStream { operation_id, .. }
            | Self::IntendStop { operation_id, .. }
            | Self::MoveTarget { operation_id, .. }
            | Self::CordonPoller { operation_id, .. }
            | Self::UncordonPoller { operation_id, .. } => operation_id,
            Self::CloseSession(_)
            | Self::DefinePool(..)
            | Self::RemovePool(..)
            | Self::Unregister(_)
            | Self::UnregisterEpoch(..)
            | Self::EndRegistration(_)
            | Self::DrainRegistration(_)
            | Self::ReviveRegistration(_)
            | Self::ActivateStream(..)
            | Self::FailStream(..)
            | Self::StopStream(_) => {
                let call = Box::new(mem::replace(self, Self::Status));
                *self = Self::Under { operation_id: id.to_owned(), call };
                return true;
            }
            Self::Under { .. } => return false,
            // Asked again, they do no more than they did.
            Self::SessionHeartbeat(..)
            | Self::HeartbeatRegistration(..)
            | Self::HeartbeatStream(..)
            | Self::ResetBreaker
            | Self::EndAll
            | Self::NodeTold(_)
            | Self::ConnectionsTold(_) => return false,
            // They look.
            Self::Inspect(_)
            | Self::List(_)
            | Self::Session(_)
            | Self::Sessions { .. }
            | Self::Resource(_)
            | Self::Resources(_)
            | Self::Pool(_)
            | Self::Pools
            | Self::Check(_)
            | Self::Why(_)
            | Self::Status
            | Self::Resolve(_)
            | Self::RegistrationStatus
            | Self::Registrations
            | Self::InspectRegistration(_)
            | Self::Stream(_)
            | Self::Streams(_)
            | Self::Polling(_)
            | Self::PollingGroups => return false,
        };
        let has_none = place.is_none();
        if has_none {
            *place = Some(id.to_owned());
        }
        has_none
    }
}

impl Reply {
    /// As callers get it.
    #[must_use]
    pub fn body(&self) -> ReplyBody<'_> {
        ReplyBody(self)
    }
}

/// A reply as callers get it: what it holds, without its name.
pub struct ReplyBody<'a>(&'a Reply);

impl Serialize for ReplyBody<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Reply::Lease(body) => body.serialize(serializer),
            Reply::Leases(body) => body.serialize(serializer),
            Reply::Renewed(body) => body.serialize(serializer),
            Reply::Session(body) => body.serialize(serializer),
            Reply::Sessions(body) => body.serialize(serializer),
            Reply::SessionRenewed(body) => body.serialize(serializer),
            Reply::SessionEnd(body) => body.serialize(serializer),
            Reply::Resource(body) => body.serialize(serializer),
            Reply::Resources(body) => body.serialize(serializer),
            Reply::Pool(body) => body.serialize(serializer),
            Reply::Pools(body) => body.serialize(serializer),
            Reply::Checked(body) => body.serialize(serializer),
            Reply::Why(body) => body.serialize(serializer),
            Reply::Status(body) => body.serialize(serializer),
            Reply::BreakerReset(body) => body.serialize(serializer),
            Reply::Ended(body) => body.serialize(serializer),
            Reply::Registered(body) => api::Registered { registered: body.clone() }.serialize(serializer),
            Reply::NodeHeard(body) => body.serialize(serializer),
            Reply::ConnectionsHeard(body) => body.serialize(serializer),
            Reply::Unregistered(body) => body.serialize(serializer),
            Reply::RegistrationRenewed(body) => body.serialize(serializer),
            Reply::Resolved(body) => body.serialize(serializer),
            Reply::RegistrationStatus(body) => body.serialize(serializer),
            Reply::Registrations(body) => body.serialize(serializer),
            Reply::Registration(body) => body.serialize(serializer),
            Reply::RegistrationDrained(body) => body.serialize(serializer),
            Reply::RegistrationRevived(body) => body.serialize(serializer),
            Reply::Stream(body) => body.serialize(serializer),
            Reply::Streams(body) => body.serialize(serializer),
            Reply::StreamRenewed(body) => body.serialize(serializer),
            Reply::Polling(body) => body.serialize(serializer),
            Reply::PollingGroups(body) => body.serialize(serializer),
            Reply::Moved(body) => body.serialize(serializer),
            Reply::Cordoned(body) => body.serialize(serializer),
        }
    }
}
