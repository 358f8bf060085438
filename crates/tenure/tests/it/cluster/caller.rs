//! One caller of a cluster: asks through any node, keeps what it asked and heard. HTTP by hand, so that nothing is
//! retried, reconnected or interpreted behind the checker's back.

mod services;
mod slots;
mod targets;

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use super::harness::{Cluster, connect};
use super::history::{Application, Asked, Authority, Heard, Record, Restore, State};
use crate::raw_http::{Answered, Http};

pub(crate) use services::{Service, name_of};
pub(crate) use slots::{POOL, Slot};
pub(crate) use targets::{Beat, Session, Target};

/// Everything that all callers asked and heard.
pub(crate) struct Journal {
    began_ns: u64,
    records: Mutex<Vec<Record>>,
    restores: Mutex<Vec<Restore>>,
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

/// A lease to look at again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Look {
    pub(crate) lease: String,
    /// Of a target: with which epoch it was held.
    pub(crate) epoch: Option<u64>,
}

/// One request.
struct Request<'a> {
    method: &'static str,
    path: &'a str,
    body: Option<&'a Value>,
    /// Makes a retry harmless, where the body does not.
    key: Option<&'a str>,
}

/// What came of sending one.
struct Sent {
    sent_ns: u64,
    heard_ns: u64,
    /// `None`: no whole answer.
    answered: Option<Answered>,
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
        Arc::new(Self {
            began_ns: boot_ns(),
            records: Mutex::default(),
            restores: Mutex::default(),
            served: AtomicUsize::new(0),
        })
    }

    /// Nanoseconds since it was begun.
    pub(crate) fn now_ns(&self) -> u64 {
        boot_ns() - self.began_ns
    }

    /// Everything so far.
    pub(crate) fn records(&self) -> Vec<Record> {
        self.records.lock().unwrap().clone()
    }

    /// Everything so far, which is not kept twice.
    pub(crate) fn take_records(&self) -> Vec<Record> {
        std::mem::take(&mut *self.records.lock().unwrap())
    }

    pub(crate) fn restored(&self, restore: Restore) {
        self.restores.lock().unwrap().push(restore);
    }

    pub(crate) fn restores(&self) -> Vec<Restore> {
        self.restores.lock().unwrap().clone()
    }

    /// How many answers came of which the cluster says that it carried out, or told, what was asked.
    pub(crate) fn served(&self) -> usize {
        self.served.load(Ordering::Relaxed)
    }

    pub(crate) fn push(&self, record: Record) {
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
        self.release_as(node, operation, asked, (lease, epoch))
    }

    fn release_as(&mut self, node: usize, operation: &str, asked: Asked, key: (&str, u64)) -> Outcome {
        let (lease, epoch) = key;
        let body = json!({"epoch": epoch, "operation_id": operation});
        self.ask(node, operation, asked, &format!("/v1/leases/{lease}/release"), Some(&body))
    }

    pub(crate) fn check(&mut self, node: usize, operation: &str, resource: &str, fence: u64) -> Outcome {
        let asked = Asked::Check { resource: resource.to_owned() };
        self.ask(node, operation, asked, "/v1/check", Some(&json!({"resource": resource, "fence": fence})))
    }

    /// What became of a lease. An id from before a restore is not known under that name any more; its story is told.
    pub(crate) fn inspect(&mut self, node: usize, operation: &str, look: &Look) -> Outcome {
        let asked = Asked::Inspect { lease: look.name() };
        let path = format!("/v1/leases/{}", look.lease);
        let Some(mut sent) = self.send(node, &Request::get(&path)) else { return Outcome::NotSent };
        let mut heard = sent.answered.as_ref().and_then(|answered| look.heard(&asked, answered));
        if matches!(heard, Some((Heard::Missing, _))) && !self.journal.restores().is_empty() {
            let path = format!("/v1/why?lease={}", look.lease);
            let Some(why) = self.send(node, &Request::get(&path)) else { return Outcome::NotSent };
            heard = why.answered.as_ref().and_then(|answered| look.told(answered));
            sent.heard_ns = why.heard_ns;
        }
        self.note(node, operation, asked, &sent, heard)
    }

    /// What a node answers, for messages of failures.
    pub(crate) fn shown(&mut self, node: usize, path: &str) -> String {
        let answered = self.send(node, &Request::get(path)).and_then(|sent| sent.answered);
        answered.map_or_else(|| "no answer".to_owned(), |answered| format!("{answered:?}"))
    }

    fn ask(
        &mut self,
        node: usize,
        operation: &str,
        asked: Asked,
        path: &str,
        body: Option<&Value>,
    ) -> Outcome {
        let method = if body.is_some() { "POST" } else { "GET" };
        let Some(sent) = self.send(node, &Request { method, path, body, key: None }) else {
            return Outcome::NotSent;
        };
        let heard = sent.answered.as_ref().and_then(|answered| heard(&asked, answered));
        self.note(node, operation, asked, &sent, heard)
    }

    /// `None`: the node could not be reached.
    fn send(&mut self, node: usize, request: &Request<'_>) -> Option<Sent> {
        let sent_ns = self.journal.now_ns();
        let http = match self.connections[node].take() {
            Some(http) => Ok(http),
            None => connect(self.nodes[node].1, self.limit),
        };
        let mut http = http.ok()?;
        let body = request.body.map(Value::to_string).unwrap_or_default();
        let key: Vec<(&str, &str)> = request.key.iter().map(|key| ("idempotency-key", *key)).collect();
        let answered = http.try_ask_with(request.method, request.path, &key, body.as_bytes()).ok();
        let heard_ns = self.journal.now_ns();
        if answered.is_some() {
            self.connections[node] = Some(http);
        }
        Some(Sent { sent_ns, heard_ns, answered })
    }

    /// Writes down what was heard, and says what it comes to.
    fn note(
        &self,
        node: usize,
        operation: &str,
        asked: Asked,
        sent: &Sent,
        heard: Option<(Heard, Option<u64>)>,
    ) -> Outcome {
        let outcome = match &heard {
            Some((heard, epoch)) => Outcome::Heard(heard.clone(), *epoch),
            None => Outcome::Unknown,
        };
        self.journal.push(Record {
            operation: operation.to_owned(),
            node: self.nodes[node].0.clone(),
            asked,
            sent_ns: sent.sent_ns,
            heard: heard.map(|(heard, _)| (sent.heard_ns, heard)),
        });
        outcome
    }
}

impl<'a> Request<'a> {
    fn get(path: &'a str) -> Self {
        Self { method: "GET", path, body: None, key: None }
    }

    fn post(path: &'a str, body: &'a Value) -> Self {
        Self { method: "POST", path, body: Some(body), key: None }
    }
}

impl Look {
    /// As the history calls it.
    pub(crate) fn name(&self) -> String {
        match self.epoch {
            Some(epoch) => format!("{}.{epoch}", self.lease),
            None => self.lease.clone(),
        }
    }

    /// A lease that went on with another epoch is lost to the one that held it with this.
    fn heard(&self, asked: &Asked, answered: &Answered) -> Option<(Heard, Option<u64>)> {
        let (heard, shown) = heard(asked, answered)?;
        let went_on = match (self.epoch, shown, &heard) {
            (Some(epoch), Some(shown), Heard::Shown { state: State::Live, .. }) => shown > epoch,
            (Some(epoch), Some(shown), Heard::Shown { .. }) => shown > epoch + 1,
            _ => false,
        };
        let gone = || Heard::Lost { code: "went_on".to_owned() };
        Some((if went_on { gone() } else { heard }, shown))
    }

    /// The same out of its story.
    fn told(&self, answered: &Answered) -> Option<(Heard, Option<u64>)> {
        let story: Value = serde_json::from_slice(&answered.body).ok()?;
        if answered.status == 404 {
            return Some((Heard::Missing, None));
        }
        let entries = story["entries"].as_array().filter(|_| answered.status == 200)?;
        let of_kind = |kind: &str| entries.iter().filter(|entry| entry["kind"] == kind).count() as u64;
        // After a restore the story does not begin with the grant: which epoch the end was of is not told.
        let is_cut = of_kind("granted") == 0;
        if self.epoch.is_some_and(|epoch| is_cut || epoch < 1 + of_kind("rebound")) {
            return Some((Heard::Lost { code: "went_on".to_owned() }, None));
        }
        let reason = entries.iter().rev().find_map(|entry| match entry["kind"].as_str()? {
            "released" => Some("explicit".to_owned()),
            "revoked" => {
                let (_, reason) = entry["text"].as_str()?.rsplit_once('(')?;
                Some(reason.split(')').next()?.to_owned())
            }
            _ => None,
        });
        if reason.is_none() && of_kind("reclaimed") > 0 {
            // It was ending when the story began.
            return Some((Heard::Lost { code: "ended_before".to_owned() }, None));
        }
        let is_free = of_kind("released") + of_kind("reclaimed") > 0;
        let state = if is_free { State::Ended } else { State::Revoking };
        reason.map(|reason| (Heard::Shown { state, reason: Some(reason) }, None))
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
    Some((refused(asked, &body)?, None))
}

/// What a refusal of the native surface says, on whichever transport.
pub(crate) fn refused(asked: &Asked, body: &Value) -> Option<Heard> {
    if body["definite"] != true {
        return None;
    }
    let code = body["error"].as_str()?.to_owned();
    Some(match (asked, code.as_str()) {
        (Asked::Acquire { resource, .. }, "resource_held") => {
            let by = body["blocking"][0]["lease_id"].as_str().map(str::to_owned);
            // Which epoch of the lease was in the way is not told.
            Heard::Held { by: by.filter(|_| Application::of(resource) != Application::Targets) }
        }
        (
            Asked::Heartbeat { .. } | Asked::Release { .. },
            "stale_epoch" | "invalid_state" | "lease_retired",
        ) => Heard::Lost { code },
        (Asked::Heartbeat { .. } | Asked::Release { .. } | Asked::Inspect { .. }, "not_found") => {
            Heard::Missing
        }
        _ => Heard::Declined { code },
    })
}

/// What a success of the native surface says, on whichever transport.
pub(crate) fn done(asked: &Asked, body: &Value) -> Option<Heard> {
    let text = |name: &str| body[name].as_str().map(str::to_owned);
    let state = || match body["state"].as_str()? {
        "reserved" | "active" => Some(State::Live),
        "revoking" => Some(State::Revoking),
        "released" | "expired" | "revoked" => Some(State::Ended),
        _ => None,
    };
    let valid_ms = body["valid_ms"].as_u64().unwrap_or(0);
    // One lease of a target is as many as it had holders. An end raises the epoch once more.
    let named = |resource: &str, is_live: bool| {
        let epoch = body["epoch"].as_u64()?.checked_sub(u64::from(!is_live))?;
        let is_target = Application::of(resource) == Application::Targets;
        Some(Look { lease: text("lease_id")?, epoch: is_target.then_some(epoch) }.name())
    };
    Some(match asked {
        Asked::Acquire { resource, .. } => {
            let state = state()?;
            let lease = named(resource, state == State::Live)?;
            Heard::Granted { lease, fence: body["fence"].as_u64()?, valid_ms, state }
        }
        Asked::Heartbeat { .. } => Heard::Renewed { valid_ms },
        // Where a former holder may still act, the resource comes free later.
        Asked::Release { .. } if body["state"] == "revoking" => Heard::GivenUp,
        Asked::Release { .. } => Heard::Released,
        Asked::GiveUp { .. } => Heard::GivenUp,
        Asked::Check { resource } if body["lease_id"].is_string() => Heard::Authority(Some(Authority {
            lease: named(resource, true)?,
            holder: text("holder")?,
            fence: body["fence"].as_u64()?,
        })),
        Asked::Check { .. } => Heard::Authority(None),
        Asked::Inspect { .. } => Heard::Shown { state: state()?, reason: text("reason") },
    })
}
