//! Wire types: requests, answers, events, and the table of error codes. Server, client and command line share these
//! types and nothing else.
//!
//! Requests with unknown fields are rejected. Answers may gain fields, so readers ignore unknown ones.

mod address;
mod caller;
mod cluster;
mod error;
mod error_code;
mod event;
mod former;
mod lease;
#[warn(clippy::arithmetic_side_effects)]
mod line;
mod polling;
mod pool;
mod registration;
mod resource;
mod session;
mod slot_session;
mod status;
mod story;

pub use address::Address;
pub use caller::{Caller, RedeemCode, Scope, SignIn, SignedIn, SignedOut};
pub use cluster::{
    ClusterLeader, ClusterNode, ClusterStatus, ClusterStore, ForgetNode, LeaderChange, LeaderChangeKind,
    NodeForgotten, NodeState, Role, SecretRotated, SteppedDown, StoreMember, StoreSilence,
};
pub use error::{Error, Lost};
pub use error_code::{ErrorCode, Retry};
pub use event::{Event, EventKind, EventLease, EventsQuery, Lagged};
pub use lease::{
    Acquire, Amend, Application, Blocking, DrainCause, Handover, HolderCall, Lease, LeaseList, LeaseQuery,
    Liveness, Mode, OperatorCall, Rebind, Renewed, State,
};
pub use line::{
    Answer, AnswerLine, ByLease, Heartbeat, Hello, Line, LineError, Nothing, PoolVerb, Tag, Unregister, Verb,
    Welcome,
};
pub use polling::{
    CordonPoller, Cordoned, GroupState, MoveTarget, Moved, NodesQuery, PollName, PollNameError, PolledTarget,
    Poller, PollerFacts, PollerReport, PollerStatus, PollingGroup, PollingGroups, PollingView,
    ReportedTargets, TargetState, UnownedTarget,
};
pub use pool::{Pool, PoolList, PoolSize, RemovePool};
pub use registration::{
    AdminRegistration, BrowseQuery, Browsed, DaemonStatus, DiscoveryEvent, DiscoveryEventKind, Register,
    Registered, Registration, RegistrationCounts, RegistrationDrained, RegistrationHeartbeat,
    RegistrationRenewed, RegistrationRevived, ResolveQuery, Resolved, ServiceRecord, Txt, UnregisterQuery,
    Unregistered,
};
pub use resource::{Check, CheckAnswer, Resource, ResourceList, ResourceQuery};
pub use session::{
    EndedLease, OpenSession, Session, SessionEnd, SessionHeartbeat, SessionKind, SessionList, SessionRenewed,
};
pub use slot_session::{
    Intent, IntentStatus, Problem, SlotSession, SlotSessionActivate, SlotSessionEvent, SlotSessionFail,
    SlotSessionHeartbeat, SlotSessionList, SlotSessionQuery, SlotSessionRenewed, SlotSessionStart,
    SlotSessionState, SlotSessionStop,
};
pub use status::{
    Advertised, Breadcrumb, BreakerReset, BreakerStatus, Counts, CredentialFile, DiskStatus, FailingTask,
    Latency, MemoryStatus, ShutDown, ShuttingDown, SnapshotStatus, Status,
};
pub use story::{Story, StoryEntry, Waiter, WhyQuery};

/// A time: RFC 3339, UTC, with milliseconds.
pub type Time = String;
