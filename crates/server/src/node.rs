//! A node of a cluster, as its outside sees it: what it shows of itself, what it can be told, and the calls that other
//! nodes pass on to it.

use crate::segments::Segments;
use bytes::Bytes;
use core::future::Future;
use core::pin::Pin;
use serde::{Deserialize, Serialize};
use tenure_api::{
    ClusterStatus, Error, EventsQuery, NodeForgotten, SecretRotated, SlotSession, SlotSessionEvent,
    SlotSessionState, SteppedDown, Time,
};
use tenure_engine::kernel::{SessionId, SessionKind};
use tenure_faces::{Call, Caller, Freshness, Origin, Reply, Scope, Stage, ToldSoFar};
use tokio::sync::mpsc::Receiver;

/// Where nodes pass calls on to each other.
pub const PASS_PATH: &str = "/v1/cluster/pass";
/// Where a node tells events on behalf of one that has not kept them.
pub const EVENTS_PATH: &str = "/v1/cluster/events";
/// Where the leader tells what happens to a session of `/api/v3`, for another node's caller.
pub const FOLLOW_PATH: &str = "/v1/cluster/follow";
/// Where a node tells which one it is.
pub const SELF_PATH: &str = "/v1/cluster/self";
/// The header that shows that a node asks.
pub const NODE_HEADER: &str = "tenure-node";
/// The largest body of passed calls.
pub(crate) const PASSED_BYTES_MAX: usize = 8 << 20;

/// What a node does when it is told to.
pub type Done<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// A stream of server-sent events as another node tells it. Dropped, the stream is over.
pub type ToldElsewhere = Receiver<Bytes>;

/// A node of a cluster.
pub trait Node: Send + Sync {
    /// The cluster as this node sees it.
    fn shown(&self) -> ClusterStatus;
    /// Has whoever writes give the log up.
    fn step_down(&self) -> Done<'_, SteppedDown>;
    /// Gives the log up, if this node writes.
    fn step_down_here(&self) -> Done<'_, SteppedDown>;
    /// Strikes a node off the list.
    fn forget(&self, node: String) -> Done<'_, NodeForgotten>;
    /// Replaces the secret by which nodes know each other.
    fn rotate_secret(&self) -> Done<'_, SecretRotated>;
    /// Whether somebody is a node of this cluster.
    fn is_node(&self, secret: &str) -> bool;
    /// The node's memory of the log, as JSON of the cluster crate. The node writes the asking node down before it answers.
    fn memory(&self, asker: serde_json::Value) -> Done<'_, serde_json::Value>;
    /// Which node it is.
    fn myself(&self) -> NodeSelf;
    /// Its copy of the log; `None`: it has none at present.
    fn segments(&self) -> Option<Box<dyn Segments>>;
    /// Events from a position that this node has not kept, from one that has; `None`: there is none.
    fn events_elsewhere(&self, query: EventsQuery) -> Done<'_, Option<ToldElsewhere>>;
    /// Whether it knows enough to be asked.
    ///
    /// # Errors
    /// Why it does not.
    fn ready(&self) -> Result<(), Error>;
    /// Whether the store does not answer this node.
    fn is_store_silent(&self) -> bool;
    /// Its numbers.
    fn numbers(&self) -> NodeNumbers;
}

/// Numbers about a node.
#[derive(Clone, Debug, Default)]
pub struct NodeNumbers {
    /// Whether it writes.
    pub writes: bool,
    /// Positions it is behind.
    pub lag_lsn: u64,
    /// For how long it has been behind.
    pub lag_seconds: f64,
    /// Claims: won, lost, unknown.
    pub claims: [u64; 3],
    /// How long appends took: seconds in all, count, and per bucket of [`APPEND_BUCKETS`].
    pub append_seconds: f64,
    /// How many.
    pub appends: u64,
    /// At most that long, each.
    pub append_buckets: [u64; APPEND_BUCKETS.len()],
    /// Frames whose outcome was unknown: committed, absent, fenced.
    pub unknown: [u64; 3],
    /// Size of the store.
    pub store_bytes: u64,
    /// For how long it has not answered; zero while it does.
    pub store_silent_seconds: f64,
    /// Listed nodes that have not told of themselves for long.
    pub silent_nodes: u64,
    /// Listed nodes whose state differs from the leader's.
    pub differing_nodes: u64,
    /// The newest format that every listed node reads.
    pub format: u32,
}

/// Upper ends of the buckets of appends, in seconds.
pub const APPEND_BUCKETS: [f64; 10] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0];

/// Calls that one node passes on to another.
#[derive(Serialize, Deserialize)]
pub struct PassedOn {
    /// Who asks.
    pub principal: String,
    /// What it may do.
    pub scope: String,
    /// The connection it asks on, where that is a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<PassedConnection>,
    /// What is asked, in order.
    pub calls: Vec<Call>,
    /// Nothing is asked: the writer is to give the log up.
    #[serde(default)]
    pub step_down: bool,
    /// Nothing is asked but what the node remembers of the log.
    #[serde(default)]
    pub memory: bool,
    /// Who asks for that.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub asker: serde_json::Value,
}

/// A connection that is open at the node that passes its calls on.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct PassedConnection {
    session: u64,
    is_stdin: bool,
    word_ms: u32,
}

/// A session that another node's caller follows, and what that node has told of it. A query has no place for more.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FollowedOn {
    session_id: String,
    /// `None`: nothing was told yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<SlotSessionState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_heartbeat: Option<Time>,
    #[serde(default)]
    warned: bool,
    #[serde(default)]
    expired: bool,
}

/// One line of what happens to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FollowedLine {
    /// What happened.
    pub news: SlotSessionEvent,
    /// The session after it.
    pub session: SlotSession,
}

/// Which node answers at an address.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeSelf {
    /// Its name.
    pub node: String,
    /// Which run of it.
    pub incarnation: String,
}

/// What passed calls came to, in order.
#[derive(Serialize, Deserialize)]
pub struct PassedBack {
    /// One for each call.
    pub replies: Vec<Back>,
}

/// What one passed call came to.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Back {
    /// It was carried out.
    Reply(Box<Reply>),
    /// It was not.
    Error(Error),
}

impl PassedOn {
    /// Calls of a caller.
    #[must_use]
    pub fn new(caller: &Caller, calls: Vec<Call>) -> Self {
        Self {
            principal: caller.principal.to_string(),
            scope: caller.scope.as_str().to_owned(),
            connection: PassedConnection::of(caller.origin),
            calls,
            step_down: false,
            memory: false,
            asker: serde_json::Value::Null,
        }
    }

    /// Who asks; `None`: the scope is none.
    pub(crate) fn caller(&self, stage: &Stage) -> Option<Caller> {
        let principal = self.principal.as_str().into();
        Some(Caller {
            account: stage.account(&principal),
            principal,
            scope: Scope::from_word(&self.scope)?,
            // The node that took the call has checked it.
            within: None,
            origin: self.connection.map_or(Origin::Http, PassedConnection::origin),
            freshness: Freshness::Present,
        })
    }
}

impl FollowedOn {
    /// A session, after what was told of it.
    #[must_use]
    pub fn new(session_id: &str, told: Option<&ToldSoFar>) -> Self {
        Self {
            session_id: session_id.to_owned(),
            state: told.map(|told| told.state),
            last_heartbeat: told.and_then(|told| told.last_heartbeat.clone()),
            warned: told.is_some_and(|told| told.warned),
            expired: told.is_some_and(|told| told.expired),
        }
    }

    pub(crate) fn into_parts(self) -> (String, Option<ToldSoFar>) {
        let Self { session_id, state, last_heartbeat, warned, expired } = self;
        (session_id, state.map(|state| ToldSoFar { state, last_heartbeat, warned, expired }))
    }
}

impl PassedConnection {
    fn of(origin: Origin) -> Option<Self> {
        match origin {
            Origin::Http => None,
            Origin::Connection { session, kind, word_ms } => {
                Some(Self { session: session.0, is_stdin: kind == SessionKind::Stdin, word_ms })
            }
        }
    }

    fn origin(self) -> Origin {
        let kind = if self.is_stdin { SessionKind::Stdin } else { SessionKind::Connection };
        Origin::Connection { session: SessionId(self.session), kind, word_ms: self.word_ms }
    }
}

impl From<Result<Reply, Error>> for Back {
    fn from(reply: Result<Reply, Error>) -> Self {
        match reply {
            Ok(reply) => Self::Reply(Box::new(reply)),
            Err(error) => Self::Error(error),
        }
    }
}

impl From<Back> for Result<Reply, Error> {
    fn from(back: Back) -> Self {
        match back {
            Back::Reply(reply) => Ok(*reply),
            Back::Error(error) => Err(error),
        }
    }
}
