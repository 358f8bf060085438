//! What can be asked of the engine, and which lane it goes to. Everything here is parsed and typed already.

use tenure_kernel::{
    Action, Epoch, Face, Fence, GateReport, LeaseId, Lsn, Member, OpenSession, SessionId, Text,
};

/// Names one request between host and engine; the host makes it unique.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// One request with the ticket its answer will carry.
#[derive(Clone, Debug)]
pub struct Input {
    /// Comes back with the answer.
    pub ticket: Ticket,
    /// What is asked.
    pub request: Request,
    /// How much of its lane it may find filled.
    pub share: Share,
}

/// How much of a lane, or of a pool, a request may fill. The rest is kept for others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Share {
    /// All but a quarter: its principal has much outstanding in this lane.
    Busy,
    /// All but an eighth.
    Ordinary,
    /// All: an operator's, or the daemon's own.
    Operator,
}

impl Share {
    /// Every share, smallest first.
    pub(crate) const ALL: [Self; 3] = [Self::Busy, Self::Ordinary, Self::Operator];

    /// The share of a whole.
    pub(crate) fn of(self, whole: usize) -> usize {
        match self {
            Self::Busy => whole - whole / 4,
            Self::Ordinary => whole - whole / 8,
            Self::Operator => whole,
        }
    }
}

impl Input {
    /// A request of the daemon itself, which may fill its lane.
    #[must_use]
    pub fn new(ticket: Ticket, request: Request) -> Self {
        Self { ticket, request, share: Share::Operator }
    }
}

/// What can be asked.
#[derive(Clone, Debug)]
pub enum Request {
    /// A command of the kernel, possibly worth waiting for.
    Submit(Submit),
    /// A holder says that it lives.
    Heartbeat {
        /// The lease.
        lease: LeaseId,
        /// Its epoch as the holder knows it.
        epoch: Epoch,
        /// The connection it speaks on.
        via: Option<SessionId>,
        /// Whose lease it must be; `None` asks nobody.
        asker: Option<Text>,
    },
    /// The same, where a proof that comes too late is none: what is over by now ends first.
    TimelyHeartbeat {
        /// The lease.
        lease: LeaseId,
        /// Its epoch as the holder knows it; `None`: whichever it is.
        epoch: Option<Epoch>,
        /// Whose lease it must be; `None` asks nobody.
        asker: Option<Text>,
    },
    /// A session by hand says that it lives.
    SessionHeartbeat {
        /// Which.
        session: SessionId,
        /// What the holder has seen; losses after it are told. Zero: nothing yet.
        seen: Lsn,
        /// Whose session it must be; `None` asks nobody.
        asker: Option<Text>,
    },
    /// A connection was opened. Durable only with its first grant.
    ConnectionOpened(OpenSession),
    /// Another node reports which connections are still open there and which are gone. It asks again until it is
    /// answered.
    ConnectionsTold {
        /// Still open.
        open: Vec<SessionId>,
        /// Gone; what they keep drains.
        gone: Vec<SessionId>,
        /// Of these, the ones that their holders closed.
        left: Vec<SessionId>,
    },
    /// The holder of a revoked lease stopped.
    Acknowledge {
        /// The lease.
        lease: LeaseId,
        /// The epoch held before the revoke, or the new one.
        epoch: Epoch,
        /// Whose lease it must be; `None` asks nobody.
        asker: Option<Text>,
    },
    /// A proof of life or an acknowledge that counts only where the lease is held in this name.
    HeldAs {
        /// The name.
        holder: Text,
        /// What is asked.
        request: Box<Request>,
    },
    /// Ends the breaker's hold.
    ResetBreaker,
    /// History below this position is about to be deleted.
    Trim(Lsn),
    /// One lease.
    Read(LeaseId),
    /// Live leases in order of id.
    List(List),
    /// Ended leases of a face that are still kept, in order of their ends.
    Ended {
        /// Whose.
        face: Face,
        /// First end wanted.
        from: Lsn,
    },
    /// One resource.
    Resource(Text),
    /// Every pool.
    Pools,
    /// One session.
    Session(SessionId),
    /// Sessions in order of id.
    Sessions {
        /// First id.
        from: SessionId,
        /// At most this many.
        limit: usize,
    },
    /// Whether a holder still has authority.
    Check(Check),
    /// Events from a position on.
    Watch {
        /// First position wanted.
        from: Lsn,
    },
    /// The place of a request that waits for its bundle.
    Waiting(Ticket),
    /// Numbers about everything.
    Status,
}

/// A fact that the daemon reports. It is not a request: nothing refuses it and nothing answers it.
///
/// The queue of these facts needs no limit of its own: at most one of each kind is pending for one connection, wait,
/// gate, notice or watch, and those have limits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Control {
    /// A connection is gone.
    ConnectionClosed(SessionId),
    /// The caller of a waiting request is gone.
    Cancel(Ticket),
    /// A lease was granted to a caller that is gone, and no operation id leads back to it.
    Abandoned(LeaseId),
    /// The effect between revoke and reclaim is done.
    GateDone {
        /// The lease.
        lease: LeaseId,
        /// Confirmed or not.
        report: GateReport,
    },
    /// The effect after the end is done, or was given up.
    NoticeDone(LeaseId),
    /// A watcher took what it was given and has room for this many more.
    WatchMore {
        /// Ticket of the watch.
        watch: Ticket,
        /// Events it can take.
        room: usize,
    },
    /// A watcher is gone.
    WatchEnd(Ticket),
    /// The daemon stops: holders cannot reach it any more, so nobody ends for silence, and connections that close
    /// close for that reason.
    Stopping,
}

/// A command with who asks and how long they would wait.
#[derive(Clone, Debug)]
pub struct Submit {
    /// What is asked. Boxed: a request changes hands several times before it is decided.
    pub action: Box<Action>,
    /// Makes a retry harmless.
    pub operation: Option<OperationId>,
    /// How long a grant may wait for its bundle; zero answers at once. One with alternatives waits only for a first
    /// bundle that is coming free already.
    pub wait_ms: u64,
    /// A grant takes over the first of these leases that drains, rather than anything new. Looked at in the writer,
    /// since who asks cannot know what drains by then.
    pub take_over: Vec<TakeOver>,
    /// Reclaim: do it before gate, promise or delay allow.
    pub force: bool,
    /// Rebind: what keeps the lease from now on. The writer fills in holder and terms, from the lease and the session as
    /// they are when it decides.
    pub keeper: Option<Keeper>,
    /// The connection that asks, if the caller has one.
    pub via: Option<SessionId>,
    /// The connection that asks, where it is open at another node: made durable with what it keeps first. Boxed, as few
    /// have one.
    pub opening: Option<Box<OpenSession>>,
    /// Whose lease or session it must be; `None` asks nobody.
    pub asker: Option<Text>,
}

/// What keeps a lease after a rebind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keeper {
    /// The connection that asks; the connection that kept the lease before is closed.
    Connection,
    /// A session by hand of the principal that asks.
    Session(SessionId),
    /// A session by hand that accepts the lease, with its own holder and principal. The former holder has stopped, like
    /// one that releases: its promise binds no longer.
    Handover(SessionId),
}

/// A lease that may be taken over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TakeOver {
    /// The lease.
    pub lease: LeaseId,
    /// The face's bytes once it is.
    pub face_data: Vec<u8>,
}

/// A caller's key for one operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OperationId {
    /// Whose.
    pub principal: Text,
    /// At most 128 bytes.
    pub id: Text,
    /// How long the outcome is to be remembered.
    pub keep_ms: u64,
    /// Stands for what was asked, where every try of the same request makes another command of it.
    pub asked: Option<u64>,
    /// Whether a retry of what was refused is decided anew.
    pub tries_again: bool,
}

/// Which leases to list.
#[derive(Clone, Debug)]
pub struct List {
    /// First id.
    pub from: LeaseId,
    /// At most this many.
    pub limit: usize,
    /// Only those with a member that starts so.
    pub resource_prefix: Option<Text>,
    /// Only those of this holder.
    pub holder: Option<Text>,
}

/// What a guarded store asks.
#[derive(Clone, Debug)]
pub enum Check {
    /// Is this fence the current one of the resource?
    Fence {
        /// The resource.
        resource: Text,
        /// The number presented.
        fence: Fence,
    },
    /// Is this epoch the current one of the lease?
    Epoch {
        /// The lease.
        lease: LeaseId,
        /// The token presented.
        epoch: Epoch,
    },
}

/// Classes of requests, most urgent first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Lane {
    /// Proofs of life, and what must never wait behind work.
    Liveness,
    /// What frees something.
    Ending,
    /// What takes something.
    Granting,
    /// What only looks.
    Reading,
}

impl Lane {
    /// Every lane, most urgent first.
    pub const ALL: [Self; 4] = [Self::Liveness, Self::Ending, Self::Granting, Self::Reading];

    /// Wire word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Liveness => "liveness",
            Self::Ending => "ending",
            Self::Granting => "granting",
            Self::Reading => "reading",
        }
    }
}

impl OperationId {
    /// One whose tries are the same command each, and whose refusals are remembered for a while.
    #[must_use]
    pub fn new(principal: Text, id: Text, keep_ms: u64) -> Self {
        Self { principal, id, keep_ms, asked: None, tries_again: false }
    }
}

impl Submit {
    /// A command answered at once.
    #[must_use]
    pub fn now(action: Action) -> Self {
        Self {
            action: Box::new(action),
            operation: None,
            wait_ms: 0,
            take_over: Vec::new(),
            force: false,
            keeper: None,
            via: None,
            opening: None,
            asker: None,
        }
    }
}

impl Request {
    /// The lease it is about, if it names one.
    #[must_use]
    pub fn lease(&self) -> Option<LeaseId> {
        match self {
            Self::Submit(submit) => submit.action.lease(),
            Self::HeldAs { request, .. } => request.lease(),
            Self::Heartbeat { lease, .. }
            | Self::TimelyHeartbeat { lease, .. }
            | Self::Acknowledge { lease, .. }
            | Self::Read(lease)
            | Self::Check(Check::Epoch { lease, .. }) => Some(*lease),
            Self::SessionHeartbeat { .. }
            | Self::ConnectionOpened(_)
            | Self::ConnectionsTold { .. }
            | Self::ResetBreaker
            | Self::Trim(_)
            | Self::List(_)
            | Self::Ended { .. }
            | Self::Resource(_)
            | Self::Pools
            | Self::Session(_)
            | Self::Sessions { .. }
            | Self::Check(Check::Fence { .. })
            | Self::Watch { .. }
            | Self::Waiting(_)
            | Self::Status => None,
        }
    }

    /// The resources it names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Text> {
        let one = if let Self::Resource(name) | Self::Check(Check::Fence { resource: name, .. }) = self {
            Some(name)
        } else {
            None
        };
        let grant = if let Self::Submit(submit) = self { submit.action.grant() } else { None };
        let members = grant.into_iter().flat_map(|grant| &grant.bundle.members);
        one.into_iter().chain(members.filter_map(|member| match member {
            Member::Resource(name) => Some(name),
            Member::AnyOf { .. } => None,
        }))
    }

    /// Which lane it goes to.
    #[must_use]
    pub fn lane(&self) -> Lane {
        match self {
            Self::HeldAs { request, .. } => request.lane(),
            Self::Heartbeat { .. }
            | Self::TimelyHeartbeat { .. }
            | Self::SessionHeartbeat { .. }
            | Self::ConnectionOpened(_)
            | Self::ConnectionsTold { .. }
            | Self::Acknowledge { .. }
            | Self::ResetBreaker => Lane::Liveness,
            Self::Trim(_) => Lane::Ending,
            Self::Submit(submit) => match &*submit.action {
                Action::Release(_)
                | Action::Revoke(_)
                | Action::Reclaim(_)
                | Action::CloseSession { .. }
                | Action::RemovePool { .. }
                | Action::Drain(_)
                | Action::Revive(_) => Lane::Ending,
                Action::Grant(_)
                | Action::Activate(_)
                | Action::Rebind(_)
                | Action::Amend(_)
                | Action::DefinePool { .. }
                | Action::OpenSession(_) => Lane::Granting,
            },
            Self::Read(_)
            | Self::List(_)
            | Self::Ended { .. }
            | Self::Resource(_)
            | Self::Pools
            | Self::Session(_)
            | Self::Sessions { .. }
            | Self::Check(_)
            | Self::Watch { .. }
            | Self::Waiting(_)
            | Self::Status => Lane::Reading,
        }
    }
}
