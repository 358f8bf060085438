//! One caller of a cluster: asks through any node, keeps what it asked and heard. HTTP by hand, so that nothing is
//! retried, reconnected or interpreted behind the checker's back.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use super::harness::{Cluster, connect};
use super::history::{Asked, Authority, Heard, Record, State};
use crate::raw_http::{Answered, Http};

/// Everything that all callers asked and heard.
pub(crate) struct Journal {
    began_ns: u64,
    records: Mutex<Vec<Record>>,
    served: AtomicUsize,
}

/// Where the nodes are, for those who only call them.
pub(crate) type Places = Vec<(String, SocketAddr)>;

/// One caller, with a connection to each node.
pub(crate) struct Caller {
    journal: Arc<Journal>,
    nodes: Places,
    connections: Vec<Option<Http<TcpStream>>>,
    limit: Duration,
}

/// What an acquire asks for beside its resource and holder.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) ttl_ms: u64,
    pub(crate) grace_ms: u64,
    pub(crate) wait_ms: u64,
}

/// What came of one try.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Outcome {
    /// The node could not be reached: nothing was sent, nothing is recorded.
    NotSent,
    /// Nobody knows.
    Unknown,
    /// An answer, and the epoch of the lease in it, if there is one.
    Heard(Heard, Option<u64>),
}

impl Journal {
    pub(crate) fn begin() -> Arc<Self> {
        Arc::new(Self { began_ns: boot_ns(), records: Mutex::default(), served: AtomicUsize::new(0) })
    }

    /// Nanoseconds since it was begun.
    pub(crate) fn now_ns(&self) -> u64 {
        boot_ns() - self.began_ns
    }

    /// Everything so far.
    pub(crate) fn records(&self) -> Vec<Record> {
        self.records.lock().unwrap().clone()
    }

    /// How many answers came of which the cluster says that it carried out, or told, what was asked.
    pub(crate) fn served(&self) -> usize {
        self.served.load(Ordering::Relaxed)
    }

    fn push(&self, record: Record) {
        self.served.fetch_add(usize::from(record.is_served()), Ordering::Relaxed);
        self.records.lock().unwrap().push(record);
    }
}

impl Caller {
    pub(crate) fn new(cluster: &Cluster, journal: &Arc<Journal>) -> Self {
        Self::at(places(cluster), journal)
    }

    pub(crate) fn at(nodes: Places, journal: &Arc<Journal>) -> Self {
        let connections = nodes.iter().map(|_| None).collect();
        Self { journal: Arc::clone(journal), nodes, connections, limit: Duration::from_millis(2_500) }
    }

    pub(crate) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn acquire(
        &mut self,
        node: usize,
        operation: &str,
        wish: (&str, &str),
        terms: &Terms,
    ) -> Outcome {
        let (resource, holder) = wish;
        let mut body = json!({
            "resources": [resource], "holder": holder, "ttl_ms": terms.ttl_ms, "grace_ms": terms.grace_ms,
            "operation_id": operation,
        });
        if terms.wait_ms > 0 {
            body["wait_ms"] = json!(terms.wait_ms);
        }
        let asked = Asked::Acquire { resource: resource.to_owned(), holder: holder.to_owned() };
        self.ask(node, operation, asked, "/v1/leases", Some(&body))
    }

    pub(crate) fn heartbeat(&mut self, node: usize, operation: &str, lease: &str, epoch: u64) -> Outcome {
        let asked = Asked::Heartbeat { lease: lease.to_owned() };
        self.ask(
            node,
            operation,
            asked,
            &format!("/v1/leases/{lease}/heartbeat"),
            Some(&json!({"epoch": epoch})),
        )
    }

    pub(crate) fn release(&mut self, node: usize, operation: &str, lease: &str, epoch: u64) -> Outcome {
        let asked = Asked::Release { lease: lease.to_owned() };
        let body = json!({"epoch": epoch, "operation_id": operation});
        self.ask(node, operation, asked, &format!("/v1/leases/{lease}/release"), Some(&body))
    }

    pub(crate) fn check(&mut self, node: usize, operation: &str, resource: &str, fence: u64) -> Outcome {
        let asked = Asked::Check { resource: resource.to_owned() };
        self.ask(node, operation, asked, "/v1/check", Some(&json!({"resource": resource, "fence": fence})))
    }

    pub(crate) fn inspect(&mut self, node: usize, operation: &str, lease: &str) -> Outcome {
        let asked = Asked::Inspect { lease: lease.to_owned() };
        self.ask(node, operation, asked, &format!("/v1/leases/{lease}"), None)
    }

    fn ask(
        &mut self,
        node: usize,
        operation: &str,
        asked: Asked,
        path: &str,
        body: Option<&Value>,
    ) -> Outcome {
        let sent_ns = self.journal.now_ns();
        let http = match self.connections[node].take() {
            Some(http) => Ok(http),
            None => connect(self.nodes[node].1, self.limit),
        };
        let Ok(mut http) = http else { return Outcome::NotSent };
        let (method, body) = body.map_or(("GET", String::new()), |body| ("POST", body.to_string()));
        let answered = http.try_ask(method, path, body.as_bytes());
        let heard_ns = self.journal.now_ns();
        let heard = answered.ok().and_then(|answered| {
            self.connections[node] = Some(http);
            heard(&asked, &answered)
        });
        let outcome = match &heard {
            Some((heard, epoch)) => Outcome::Heard(heard.clone(), *epoch),
            None => Outcome::Unknown,
        };
        self.journal.push(Record {
            operation: operation.to_owned(),
            node: self.nodes[node].0.clone(),
            asked,
            sent_ns,
            heard: heard.map(|(heard, _)| (heard_ns, heard)),
        });
        outcome
    }
}

pub(crate) fn places(cluster: &Cluster) -> Places {
    cluster.nodes.iter().map(|node| (node.name.to_owned(), node.address)).collect()
}

fn boot_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// `None`: the answer leaves the outcome open.
fn heard(asked: &Asked, answered: &Answered) -> Option<(Heard, Option<u64>)> {
    let body: Value = serde_json::from_slice(&answered.body).ok()?;
    if matches!(answered.status, 200 | 201) {
        return Some((done(asked, &body)?, body["epoch"].as_u64()));
    }
    if body["definite"] != true {
        return None;
    }
    let code = body["error"].as_str()?.to_owned();
    let heard = match (asked, code.as_str()) {
        (Asked::Acquire { .. }, "resource_held") => {
            Heard::Held { by: body["blocking"][0]["lease_id"].as_str().map(str::to_owned) }
        }
        (
            Asked::Heartbeat { .. } | Asked::Release { .. },
            "stale_epoch" | "invalid_state" | "lease_retired",
        ) => Heard::Lost { code },
        (Asked::Heartbeat { .. } | Asked::Release { .. } | Asked::Inspect { .. }, "not_found") => {
            Heard::Missing
        }
        _ => Heard::Declined { code },
    };
    Some((heard, None))
}

fn done(asked: &Asked, body: &Value) -> Option<Heard> {
    let text = |name: &str| body[name].as_str().map(str::to_owned);
    let state = || match body["state"].as_str()? {
        "reserved" | "active" => Some(State::Live),
        "revoking" => Some(State::Revoking),
        "released" | "expired" | "revoked" => Some(State::Ended),
        _ => None,
    };
    let valid_ms = body["valid_ms"].as_u64().unwrap_or(0);
    Some(match asked {
        Asked::Acquire { .. } => Heard::Granted {
            lease: text("lease_id")?,
            fence: body["fence"].as_u64()?,
            valid_ms,
            state: state()?,
        },
        Asked::Heartbeat { .. } => Heard::Renewed { valid_ms },
        Asked::Release { .. } => Heard::Released,
        Asked::Check { .. } => Heard::Authority(text("lease_id").and_then(|lease| {
            Some(Authority { lease, holder: text("holder")?, fence: body["fence"].as_u64()? })
        })),
        Asked::Inspect { .. } => Heard::Shown { state: state()?, reason: text("reason") },
    })
}
