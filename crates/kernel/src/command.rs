//! What can be asked of the kernel. [`Action`] is what callers can express; [`Internal`] is what only the
//! engine can say, so that no transport can ever spell an expiry.

use crate::ids::{Epoch, LeaseId, Lsn, SessionId};
use crate::limits::Retention;
use crate::names::Text;
use crate::policy::Policy;
use crate::reason::{Actor, Evidence, GateReport, Reason, ReclaimBy, ReclaimGround};
use smallvec::SmallVec;

/// A command with the key that makes its retry harmless.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Command {
    /// `None`: the caller takes the risk of asking twice.
    pub operation: Option<Operation>,
    /// What is asked.
    pub action: Action,
}

/// Identity of one operation, made from the caller's principal and operation id.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Operation {
    /// Hash of (principal, operation id); collisions are the caller's to make impossible.
    pub key: u128,
    /// Fingerprint of the command, so that another command under the same id is a conflict.
    pub fingerprint: u64,
    /// How long the outcome is remembered, in ticks; clamped to 24 h.
    pub keep_ms: u64,
    /// Whose quota it counts against.
    pub principal: Text,
}

/// What callers can ask.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Take a bundle, whole or not at all.
    Grant(Grant),
    /// Take a reserved lease into use.
    Activate(Token),
    /// Give a lease back.
    Release(Release),
    /// Give a live lease to a new holder or session.
    Rebind(Rebind),
    /// Replace the payload.
    Amend(Amend),
    /// Withdraw authority; the resources stay unavailable.
    Revoke(Revoke),
    /// Make the resources of a revoking lease reusable.
    Reclaim(Reclaim),
    /// Operator: let the lease end after its grace unless revived.
    Drain(Steer),
    /// Operator: take a drain back.
    Revive(Steer),
    /// Create or resize a pool.
    DefinePool {
        /// Its name.
        name: Text,
        /// Number of members.
        size: u32,
    },
    /// Remove a pool.
    RemovePool {
        /// Its name.
        name: Text,
        /// Also while members are held; their leases are then ended by the engine.
        force: bool,
    },
    /// Make a session durable.
    OpenSession(OpenSession),
    /// End a session; its leases are then ended by the engine.
    CloseSession {
        /// Which.
        session: SessionId,
        /// Why: `Explicit` gives its leases back, `SessionExpired` revokes them.
        reason: Reason,
    },
}

impl Action {
    /// The grant, if it is one.
    #[must_use]
    pub fn grant(&self) -> Option<&Grant> {
        if let Self::Grant(grant) = self { Some(grant) } else { None }
    }
}

/// What only the engine can say.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Internal {
    /// End a reserved lease whose deadline came. The kernel checks the deadline itself.
    Expire(LeaseId),
    /// The notice of an ended lease was delivered or given up.
    Notified(LeaseId),
    /// History below this position is gone, and with it what ended leases pointed at.
    Trim(Lsn),
    /// New windows and caps.
    Configure(Retention),
}

/// Asks for a bundle.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Grant {
    /// What is wanted.
    pub bundle: Bundle,
    /// For whom.
    pub holder: Text,
    /// How the lease begins.
    pub start: Start,
    /// Its durable terms.
    pub policy: Policy,
    /// Bytes of the face.
    pub face_data: Vec<u8>,
    /// Bytes of the user.
    pub attachment: Vec<u8>,
    /// A draining lease to rebind if it holds the bundle; liveness confirmed in the same turn that it drains.
    pub take_over: Option<LeaseId>,
    /// Bundles to try in order if the first is not free.
    pub alternatives: Vec<Bundle>,
    /// Wall clock, for people.
    pub wall_ms: u64,
}

/// How a lease begins.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Start {
    /// In use at once.
    Active,
    /// Held for the holder to activate within this long.
    Reserved {
        /// Ticks until the reservation expires.
        ttl_ms: u64,
    },
}

/// One or more resources, wanted together.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Bundle {
    /// In request order.
    pub members: SmallVec<[Member; 1]>,
}

/// One line of a bundle.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Member {
    /// This resource.
    Resource(Text),
    /// Any `count` of this pool.
    AnyOf {
        /// The pool.
        pool: Text,
        /// How many.
        count: u32,
    },
}

/// What a holder presents.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Token {
    /// The lease.
    pub lease: LeaseId,
    /// Its epoch as the holder knows it.
    pub epoch: Epoch,
    /// Checked against the lease where given.
    pub holder: Option<Text>,
}

/// Gives a lease back.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Release {
    /// Proof of authority.
    pub token: Token,
    /// Why, in the holder's words.
    pub text: Text,
}

/// Moves a live lease to a new holder or session.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Rebind {
    /// Proof of authority.
    pub token: Token,
    /// `None` keeps the holder.
    pub holder: Option<Text>,
    /// `None` keeps the terms.
    pub policy: Option<Policy>,
    /// `None` keeps the attachment.
    pub attachment: Option<Vec<u8>>,
    /// `None` keeps the face data.
    pub face_data: Option<Vec<u8>>,
}

/// Replaces the payload of a live lease.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Amend {
    /// Proof of authority.
    pub token: Token,
    /// `None` keeps the attachment.
    pub attachment: Option<Vec<u8>>,
    /// `None` keeps the face data.
    pub face_data: Option<Vec<u8>>,
}

/// Withdraws authority.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Revoke {
    /// The lease.
    pub lease: LeaseId,
    /// Refused if the epoch moved.
    pub epoch: Option<Epoch>,
    /// Why.
    pub reason: Reason,
    /// Why, in words.
    pub text: Text,
    /// Who.
    pub actor: Actor,
    /// What was seen.
    pub evidence: Evidence,
    /// Who reclaims.
    pub reclaim_by: ReclaimBy,
}

/// Makes resources reusable after a revoke. When it may be submitted is the engine's business.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Reclaim {
    /// The lease.
    pub lease: LeaseId,
    /// Refused if the epoch moved.
    pub epoch: Option<Epoch>,
    /// Who.
    pub actor: Actor,
    /// Why it is safe now.
    pub ground: ReclaimGround,
    /// How the gate went.
    pub gate: GateReport,
}

/// An operator's drain or revive.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Steer {
    /// The lease.
    pub lease: LeaseId,
    /// Refused if the epoch moved.
    pub epoch: Option<Epoch>,
    /// Who.
    pub actor: Actor,
    /// Why, in words.
    pub text: Text,
    /// Revive: the lease drains by silence; liveness confirmed that in the same turn.
    pub silent: bool,
}

/// Makes a session durable.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct OpenSession {
    /// Chosen by the caller.
    pub session: SessionId,
    /// Who speaks in it.
    pub holder: Text,
    /// What keeps it; with `ttl_ms`, see [`OpenSession::kept`].
    pub kind: SessionKind,
    /// How long one heartbeat lasts, or one keepalive of the connection's node. Zero for a connection without keepalives,
    /// which lasts while it is open.
    pub ttl_ms: u32,
    /// How long silence is forgiven.
    pub grace_ms: u32,
    /// Who asked.
    pub principal: Text,
    /// By hand: leases of other principals may be handed over to it if all their resources begin so. `None`: no lease of
    /// another principal may.
    pub accepts_handover: Option<Text>,
}

/// What keeps a session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SessionKind {
    /// An open socket.
    Connection,
    /// An open standard input.
    Stdin,
    /// Heartbeats.
    ByHand,
}

impl Action {
    /// The lease it names, if it names one.
    #[must_use]
    pub fn lease(&self) -> Option<LeaseId> {
        match self {
            Self::Activate(token) => Some(token.lease),
            Self::Release(release) => Some(release.token.lease),
            Self::Rebind(rebind) => Some(rebind.token.lease),
            Self::Amend(amend) => Some(amend.token.lease),
            Self::Revoke(revoke) => Some(revoke.lease),
            Self::Reclaim(reclaim) => Some(reclaim.lease),
            Self::Drain(steer) | Self::Revive(steer) => Some(steer.lease),
            Self::Grant(_)
            | Self::DefinePool { .. }
            | Self::RemovePool { .. }
            | Self::OpenSession(_)
            | Self::CloseSession { .. } => None,
        }
    }
}

impl Command {
    /// A command without an operation id.
    #[must_use]
    pub fn plain(action: Action) -> Self {
        Self { operation: None, action }
    }
}

impl Bundle {
    /// A bundle of one resource.
    #[must_use]
    pub fn one(name: &str) -> Self {
        Self { members: SmallVec::from_buf([Member::Resource(name.into())]) }
    }

    /// A bundle of named resources.
    #[must_use]
    pub fn of(names: &[&str]) -> Self {
        Self { members: names.iter().map(|name| Member::Resource((*name).into())).collect() }
    }

    /// Any `count` of a pool.
    #[must_use]
    pub fn any_of(pool: &str, count: u32) -> Self {
        Self { members: SmallVec::from_buf([Member::AnyOf { pool: pool.into(), count }]) }
    }
}

impl Grant {
    /// A plain active grant; the other fields are for callers that need them.
    #[must_use]
    pub fn new(bundle: Bundle, holder: &str, policy: Policy) -> Self {
        Self {
            bundle,
            holder: holder.into(),
            start: Start::Active,
            policy,
            face_data: Vec::new(),
            attachment: Vec::new(),
            take_over: None,
            alternatives: Vec::new(),
            wall_ms: 0,
        }
    }
}

impl Token {
    /// A token that names no holder.
    #[must_use]
    pub fn new(lease: LeaseId, epoch: Epoch) -> Self {
        Self { lease, epoch, holder: None }
    }
}

impl Rebind {
    /// A rebind that keeps holder, terms and payload.
    #[must_use]
    pub fn keeping(token: Token) -> Self {
        Self { token, holder: None, policy: None, attachment: None, face_data: None }
    }
}

impl SessionKind {
    /// Every kind, in code order.
    pub const ALL: [Self; 3] = [Self::Connection, Self::Stdin, Self::ByHand];

    /// Wire word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Stdin => "stdin",
            Self::ByHand => "by_hand",
        }
    }

    /// Whether an open file descriptor is the proof of life.
    #[must_use]
    pub fn is_connection(self) -> bool {
        match self {
            Self::Connection | Self::Stdin => true,
            Self::ByHand => false,
        }
    }
}
