//! Where a registration lives in a cluster: the node that took it alone advertises it. What nodes tell each other about
//! that; no state.

use serde::{Deserialize, Serialize};
use tenure_engine::kernel::LeaseId;

/// A node that advertises registrations.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Home {
    /// Its name.
    pub node: String,
    /// How its host is called.
    pub host: String,
}

/// What the node that took a registration knows of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Settled {
    /// Where it is to live.
    pub home: Home,
    /// Its address is none of that host.
    pub is_foreign: bool,
}

/// A goodbye that was said, or is to be.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Said {
    lease: String,
    /// For which node's advertisement.
    pub(crate) node: String,
}

/// What a node tells whoever writes: that it is there, and what has happened on its network.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodeTold {
    /// Which.
    pub node: String,
    /// Goodbyes that it has said.
    pub said: Vec<Said>,
    /// Services that have another name on the network.
    pub renamed: Vec<(String, String)>,
}

/// What it is told in return.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodeHeard {
    /// What the writer has decided so far: who was away for long knows that much before it advertises again.
    pub lsn: u64,
    /// Goodbyes that it is to say for nodes that cannot.
    pub farewells: Vec<Said>,
    /// Another node is saying goodbye for this one: it waits before it advertises again.
    pub waits: bool,
}

/// How long a node that was heard may advertise without being heard again.
pub(crate) const PROMISE_MS: u64 = 10_000;
/// A node that was not heard for this long does not advertise any more, whatever its clock's rate.
pub(crate) const GONE_MS: u64 = PROMISE_MS + PROMISE_MS / 100;

impl Said {
    pub(crate) fn new(lease: LeaseId, node: &str) -> Self {
        Self { lease: written(lease), node: node.to_owned() }
    }

    /// Of which registration; `None`: it makes no sense.
    pub(crate) fn lease(&self) -> Option<LeaseId> {
        read(&self.lease)
    }
}

pub(crate) fn written(lease: LeaseId) -> String {
    format!("{:032x}", lease.0)
}

pub(crate) fn read(text: &str) -> Option<LeaseId> {
    u128::from_str_radix(text, 16).ok().map(LeaseId)
}
