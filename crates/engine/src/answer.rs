//! What the engine says. Owned values: an answer may wait for a sync and then cross threads.

use crate::request::Ticket;
use crate::status::Status;
use std::sync::Arc;
use tenure_kernel::{
    ChangeKind, EndedLease, Epitaph, Epoch, Event, Fence, LeaseId, LeaseState, LeaseView, Loss, Lsn, Names,
    Note, Policy, Reason, Rejection, SessionId, SessionKind, StateName, Text, Tick,
};
use tenure_liveness::{LivenessView, Refusal, SessionStanding};
use tenure_log::Space;

/// The answer to one request.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A command about a lease was carried out.
    Lease(Box<LeaseAnswer>),
    /// A command about something else was carried out.
    Done {
        /// Position of its event; of the newest applied where nothing was logged.
        lsn: Lsn,
        /// It had been carried out before.
        replayed: bool,
    },
    /// A heartbeat counted.
    Renewed {
        /// How long the holder may act, from before it asked.
        valid_ms: Option<u64>,
        /// Until the present phase ends.
        remaining_ms: Option<u64>,
        /// An operator asked the lease to end.
        draining: bool,
        /// When it counted, for people.
        wall_ms: u64,
        /// As of.
        lsn: Lsn,
    },
    /// A session's heartbeat counted.
    SessionRenewed {
        /// Everything up to here is told.
        lsn: Lsn,
        /// How long its leases may be acted on, from before it asked.
        valid_ms: u64,
        /// What was lost since `seen`; `None` if more than is remembered: list the leases.
        ended: Option<Vec<Loss>>,
        /// Leases that an operator drained.
        draining: Vec<LeaseId>,
    },
    /// Turns are run, and answers may leave.
    Probed {
        /// How much room the disk has.
        space: Space,
    },
    /// Connections are heard of.
    ConnectionsKept {
        /// Those of which nothing is known, or nothing any more.
        unknown: Vec<SessionId>,
    },
    /// One lease as it is.
    Read(Box<LeaseRead>),
    /// A page of leases.
    Leases {
        /// In order of id.
        leases: Vec<LeaseSnapshot>,
        /// Where to go on; `None` at the end.
        next: Option<LeaseId>,
        /// As of.
        lsn: Lsn,
    },
    /// Ended leases that are still kept.
    Ended {
        /// In order of their ends.
        leases: Vec<(LeaseId, EndedLease)>,
        /// Where to go on; `None` at the end.
        next: Option<Lsn>,
        /// As of.
        lsn: Lsn,
    },
    /// One resource.
    Resource {
        /// Who covers it; `None` when available.
        lease: Option<Box<LeaseSnapshot>>,
        /// Waiters for it, first first.
        waiters: Vec<WaiterSnapshot>,
        /// As of.
        lsn: Lsn,
    },
    /// Every pool.
    Pools {
        /// In order of name.
        pools: Vec<PoolSnapshot>,
        /// As of.
        lsn: Lsn,
    },
    /// One session.
    Session {
        /// As it is.
        session: Box<SessionSnapshot>,
        /// As of.
        lsn: Lsn,
    },
    /// A page of sessions.
    Sessions {
        /// In order of id.
        sessions: Vec<SessionSnapshot>,
        /// Where to go on; `None` at the end.
        next: Option<SessionId>,
        /// As of.
        lsn: Lsn,
    },
    /// Whether what was presented is current.
    Checked(Checked),
    /// The watch began; its events follow as pushes.
    Watching {
        /// First position that will come.
        from: Lsn,
    },
    /// Where a request waits.
    Waiting {
        /// 1 for the next to be served; `None`: it does not wait, not yet or not any more.
        place: Option<u64>,
        /// As of.
        lsn: Lsn,
    },
    /// Numbers about everything.
    Status(Box<Status>),
    /// Refused.
    Refused(Refused),
}

/// A command about a lease was carried out.
#[derive(Clone, Debug)]
pub struct LeaseAnswer {
    /// Position of its event; of a replay, that as of which the lease is shown.
    pub lsn: Lsn,
    /// It had been carried out before; the lease is shown as it is now.
    pub replayed: bool,
    /// The lease.
    pub lease: LeaseFound,
}

/// One lease as it is, and who waits behind it.
#[derive(Clone, Debug)]
pub struct LeaseRead {
    /// The lease.
    pub lease: LeaseFound,
    /// Requests that wait for any of its resources, first first, each once.
    pub waiters: Vec<WaiterSnapshot>,
    /// As of.
    pub lsn: Lsn,
}

/// A request that waits for its bundle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaiterSnapshot {
    /// Who is to hold it.
    pub holder: Text,
    /// For how long it has waited.
    pub waited_ms: u64,
    /// How many later requests were granted something that it wants.
    pub passed: u64,
}

/// A lease that can be shown.
#[derive(Clone, Debug)]
pub enum LeaseFound {
    /// It covers resources.
    Live(LeaseSnapshot),
    /// It just ended: the event tells all.
    JustEnded {
        /// What it was.
        was: Epitaph,
        /// Released, expired or revoked.
        state: StateName,
        /// Why.
        reason: Reason,
        /// Why, in words.
        text: Text,
        /// Fence of its last holder.
        fence: Fence,
        /// When, for people.
        wall_ms: u64,
    },
    /// It ended earlier; the event at `ended_lsn` tells the rest.
    Ended {
        /// Which.
        id: LeaseId,
        /// What is left of it.
        ended: EndedLease,
        /// Fence of its last holder.
        fence: Fence,
    },
    /// It ended too long ago to be shown.
    Retired,
}

/// A live lease, copied.
#[derive(Clone, Debug)]
pub struct LeaseSnapshot {
    /// Its id.
    pub id: LeaseId,
    /// Who holds it.
    pub holder: Text,
    /// Its state.
    pub state: LeaseState,
    /// Its epoch.
    pub epoch: Epoch,
    /// Its fence.
    pub fence: Fence,
    /// Its resources in request order.
    pub members: Names,
    /// Its terms.
    pub policy: Policy,
    /// When it was granted.
    pub granted_tick: Tick,
    /// When it was granted, for people.
    pub granted_wall_ms: u64,
    /// The user's bytes.
    pub attachment: Vec<u8>,
    /// The face's bytes.
    pub face_data: Vec<u8>,
    /// What liveness says.
    pub liveness: LivenessView,
    /// When this was so.
    pub now: Tick,
    /// When this was so, for people.
    pub now_wall_ms: u64,
}

/// A pool, copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolSnapshot {
    /// Its name.
    pub name: Text,
    /// Members.
    pub size: u32,
    /// Free members.
    pub free: u32,
    /// Removed, but members are still held.
    pub removed: bool,
}

/// A session, copied.
#[derive(Clone, Debug)]
pub struct SessionSnapshot {
    /// Its id.
    pub id: SessionId,
    /// Who speaks.
    pub holder: Text,
    /// Who asked for it.
    pub principal: Text,
    /// What keeps it.
    pub kind: SessionKind,
    /// As in [`tenure_kernel::OpenSession::ttl_ms`].
    pub ttl_ms: u32,
    /// How long silence is forgiven.
    pub grace_ms: u32,
    /// What other principals may hand over to it.
    pub accepts_handover: Option<Text>,
    /// Leases it keeps.
    pub leases: u32,
    /// What liveness says; `None` once it is closed.
    pub standing: Option<SessionStanding>,
    /// When this was so.
    pub now: Tick,
}

/// What a guarded store is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checked {
    /// The holder that presented it has authority now.
    pub current: bool,
    /// The lease with authority, if any.
    pub lease: Option<LeaseId>,
    /// Its holder.
    pub holder: Option<Text>,
    /// Its epoch.
    pub epoch: Option<Epoch>,
    /// Its fence.
    pub fence: Option<Fence>,
    /// As of.
    pub lsn: Lsn,
}

/// A resource that is in the way of a grant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blocker {
    /// The resource.
    pub resource: Text,
    /// The lease that covers it.
    pub lease: LeaseId,
    /// Its holder.
    pub holder: Text,
    /// When it was granted, for people.
    pub since_wall_ms: u64,
    /// Until its present phase ends.
    pub remaining_ms: Option<u64>,
    /// How many wait for the resource.
    pub waiters: usize,
}

/// Why a request was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// A rule of the kernel.
    Rejected(Rejection),
    /// Members of the bundle are held.
    Held(Vec<Blocker>),
    /// The lease or session belongs to another principal.
    Forbidden,
    /// An open connection keeps it, and did not ask.
    ConnectionOpen,
    /// A rule of liveness.
    Liveness(Refusal),
    /// The resources are free, but others waited first.
    Queued {
        /// One of the names they wait for.
        resource: Text,
        /// How many wait for it.
        waiters: usize,
    },
    /// The wait was over before the bundle was free.
    WaitTimeout,
    /// Enough requests wait already.
    TooManyWaiters {
        /// Which bound is reached.
        limit: WaitLimit,
        /// What it is.
        max: usize,
    },
    /// Too much is asked.
    Overloaded {
        /// Which bound is reached.
        limit: CallLimit,
        /// What it is.
        max: usize,
    },
    /// The disk is nearly full: only what frees something is taken.
    DiskLow,
    /// Not before that long: a restored log waits for the holders of its past.
    NotYet {
        /// How long.
        remaining_ms: u64,
    },
    /// The asker cancelled.
    Cancelled,
    /// The position is not kept any more.
    Trimmed {
        /// The oldest that is.
        oldest: Lsn,
    },
    /// The engine stopped before the outcome was known.
    OutcomeUnknown,
    /// This engine follows another writer, or does not know whether it still is the one.
    NotLeader,
    /// The engine takes nothing more.
    ShuttingDown,
}

/// A bound on requests that wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitLimit {
    /// Over everybody.
    Waiters,
    /// Of one principal.
    WaitersOfPrincipal,
    /// Tries of one operation.
    TriesOfOperation,
}

/// A bound on requests that are not answered yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallLimit {
    /// Not handled yet, over all lanes. Each lane has a quarter, and keeps a part of that for operators and for callers
    /// that ask for little.
    Inbox,
    /// Of everybody, in the request's lane.
    Calls,
    /// Of one principal, in the request's lane.
    CallsOfPrincipal,
    /// Bytes that may be written to the log together.
    FrameBytes,
}

/// Something said without being asked.
#[derive(Clone, Debug)]
pub enum Push {
    /// A connection's holder lost a lease.
    Lost {
        /// The connection.
        session: SessionId,
        /// The lease.
        lease: LeaseId,
        /// The epoch from now on.
        epoch: Epoch,
        /// Why.
        reason: Reason,
    },
    /// Events for a watcher.
    Events {
        /// The watch.
        watch: Ticket,
        /// In order.
        events: Vec<Arc<Published>>,
    },
    /// The watcher was too slow; its watch ended.
    Lagged {
        /// The watch.
        watch: Ticket,
        /// Where to begin again.
        resume: Lsn,
    },
    /// The watch began below what is kept; it ended.
    WatchTrimmed {
        /// The watch.
        watch: Ticket,
        /// The oldest position that is kept.
        oldest: Lsn,
    },
}

/// One record of the log, as watchers see it. Only synced ones are ever published.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Published {
    /// Its position.
    pub lsn: Lsn,
    /// When.
    pub tick: Tick,
    /// When, for people.
    pub wall_ms: u64,
    /// What.
    pub news: News,
}

/// What is published.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum News {
    /// Something happened.
    Event(Event),
    /// Something was observed.
    Note(Note),
}

impl LeaseSnapshot {
    pub(crate) fn new(view: LeaseView<'_>, liveness: LivenessView, now: Tick, now_wall_ms: u64) -> Self {
        Self {
            id: view.id(),
            holder: view.holder().clone(),
            state: view.state().clone(),
            epoch: view.epoch(),
            fence: view.fence(),
            members: view.members().cloned().collect(),
            policy: view.policy(),
            granted_tick: view.granted_tick(),
            granted_wall_ms: view.granted_wall_ms(),
            attachment: view.attachment().to_vec(),
            face_data: view.face_data().to_vec(),
            liveness,
            now,
            now_wall_ms,
        }
    }

    /// When a tick was or will be, for people.
    #[must_use]
    pub fn wall_of(&self, tick: Tick) -> u64 {
        let later = self.now_wall_ms.saturating_add(tick.ms_since(self.now));
        later.saturating_sub(self.now.ms_since(tick))
    }
}

impl Answer {
    /// The live lease in it, if it is about one.
    #[must_use]
    pub fn live(&self) -> Option<&LeaseSnapshot> {
        let found = if let Self::Lease(answer) = self {
            &answer.lease
        } else if let Self::Read(read) = self {
            &read.lease
        } else {
            return None;
        };
        match found {
            LeaseFound::Live(lease) => Some(lease),
            LeaseFound::JustEnded { .. } | LeaseFound::Ended { .. } | LeaseFound::Retired => None,
        }
    }
}

impl News {
    /// The kind of event; `None` for notes.
    #[must_use]
    pub fn change_kind(&self) -> Option<ChangeKind> {
        match self {
            Self::Event(event) => Some(event.change.kind()),
            Self::Note(_) => None,
        }
    }
}

impl Refused {
    /// The rule of the kernel that it is, if it is one.
    #[must_use]
    pub fn rejection(&self) -> Option<&Rejection> {
        match self {
            Self::Rejected(rejection) | Self::Liveness(Refusal::Rejected(rejection)) => Some(rejection),
            Self::Liveness(
                Refusal::NoLiveness
                | Refusal::PermanentLease
                | Refusal::SessionNotFound
                | Refusal::NotYet { .. },
            )
            | Self::Held(_)
            | Self::Forbidden
            | Self::ConnectionOpen
            | Self::Queued { .. }
            | Self::WaitTimeout
            | Self::TooManyWaiters { .. }
            | Self::Overloaded { .. }
            | Self::DiskLow
            | Self::NotYet { .. }
            | Self::Cancelled
            | Self::Trimmed { .. }
            | Self::OutcomeUnknown
            | Self::NotLeader
            | Self::ShuttingDown => None,
        }
    }

    /// Whether nothing is kept of the lease: [`Rejection::is_gone`].
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.rejection().is_some_and(Rejection::is_gone)
    }

    /// Whether the lease is no longer as the caller read it: [`Rejection::has_moved`].
    #[must_use]
    pub fn has_moved(&self) -> bool {
        self.rejection().is_some_and(Rejection::has_moved)
    }
}

impl From<Rejection> for Refused {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Rejected(rejection) => Self::Rejected(rejection),
            Refusal::NoLiveness
            | Refusal::PermanentLease
            | Refusal::SessionNotFound
            | Refusal::NotYet { .. } => Self::Liveness(refusal),
        }
    }
}
