//! Connections at nodes of a cluster: each is a session that its node keeps, whoever writes. Written from the contract
//! alone, in raw lines: nothing here knows how a node keeps them.

use std::io::ErrorKind;
use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{Cluster, LIMIT};
use crate::raw_http::Answered;
use crate::raw_lines::Lines;
use crate::run_support::{boot_ms, let_time_pass, wait_until};

mod changing;
mod closing;
mod contending;
mod crowding;
mod registering;
mod silent;
mod steering;
mod terms;

/// How long a node's call keeps its connections, and the longest promise that a holder on one is given.
const TTL_MS: u64 = 10_000;
/// What is done at once is seen within this, on a machine that does much else.
const AT_ONCE: Duration = Duration::from_secs(4);
/// Between two looks, so that looking is not what keeps the machine busy.
const LOOK: Duration = Duration::from_millis(50);

/// One connection to a node. Dropped, it is closed.
struct Connection {
    lines: Lines,
}

/// What came on a connection within a time.
#[derive(PartialEq, Debug)]
enum Heard {
    Line(Value),
    Nothing,
    HungUp,
}

/// A promise as its holder counts it.
#[derive(Clone, Copy, Debug)]
struct Promise {
    until_ms: u64,
}

impl Connection {
    #[track_caller]
    fn open(cluster: &Cluster, place: usize) -> Self {
        Self { lines: cluster.nodes[place].daemon.lines() }
    }

    #[track_caller]
    fn say(&mut self, line: &Value) {
        self.lines.say(line);
    }

    #[track_caller]
    fn ask(&mut self, line: &Value) -> Value {
        self.say(line);
        match self.heard(LIMIT) {
            Heard::Line(answer) => answer,
            other => panic!("{line}: {other:?}"),
        }
    }

    /// Asks, and takes what is answered under this name.
    #[track_caller]
    fn good(&mut self, line: &Value, name: &str) -> Value {
        let answer = self.ask(line);
        assert!(answer[name].is_object(), "{line}: {answer}");
        answer[name].clone()
    }

    #[track_caller]
    fn refused(&mut self, line: &Value, code: &str) {
        let answer = self.ask(line);
        assert_eq!(answer["error"], code, "{line}: {answer}");
    }

    #[track_caller]
    fn hello(&mut self) -> String {
        self.good(&json!({"hello": {}}), "hello")["session"].as_str().unwrap().to_owned()
    }

    /// Takes a resource.
    #[track_caller]
    fn acquire(&mut self, resource: &str, more: Value) -> Value {
        self.good(&wish(resource, more), "acquired")
    }

    /// Takes a lease over from a connection whose end may not have been noticed yet.
    #[track_caller]
    fn resume(&mut self, lease: &Value) -> Value {
        let mut answer = Value::Null;
        wait_until("the lease drains", LIMIT, || {
            answer = self.ask(&resume(lease));
            answer["error"] != "not_draining"
        });
        assert!(answer["resumed"].is_object(), "{lease}: {answer}");
        answer["resumed"].clone()
    }

    /// A proof of life that has to count.
    #[track_caller]
    fn renew(&mut self, lease: &Value) -> Promise {
        let sent_ms = boot_ms();
        let renewed = self.good(&heartbeat(lease), "renewed");
        assert_eq!((&renewed["lease_id"], &renewed["epoch"]), (&lease["lease_id"], &lease["epoch"]));
        Promise { until_ms: sent_ms + promised_ms(&renewed) }
    }

    /// The next line, if one comes in time.
    fn heard(&mut self, limit: Duration) -> Heard {
        self.lines.stream().set_read_timeout(Some(limit)).unwrap();
        match self.lines.try_next() {
            Ok(Some(line)) => Heard::Line(line),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Heard::Nothing
            }
            Err(error) if error.kind() == ErrorKind::InvalidData => panic!("no line: {error}"),
            Ok(None) | Err(_) => Heard::HungUp,
        }
    }

    /// Nothing was said unasked, and the connection is open.
    #[track_caller]
    fn assert_quiet(&mut self) {
        assert_eq!(self.heard(Duration::from_millis(10)), Heard::Nothing);
    }
}

fn wish(resource: &str, more: Value) -> Value {
    let mut body = json!({"resources": [resource], "holder": "alice"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "acquire": body })
}

fn heartbeat(lease: &Value) -> Value {
    json!({"heartbeat": {"lease_id": lease["lease_id"], "epoch": lease["epoch"]}})
}

fn resume(lease: &Value) -> Value {
    json!({"resume": {"lease_id": lease["lease_id"], "epoch": lease["epoch"]}})
}

/// The promise in an answer to a holder on a connection.
#[track_caller]
fn promised_ms(answer: &Value) -> u64 {
    let valid_ms = answer["valid_ms"].as_u64().unwrap_or_else(|| panic!("no promise: {answer}"));
    assert!((1..=TTL_MS).contains(&valid_ms), "{answer}");
    valid_ms
}

fn id(lease: &Value) -> &str {
    lease["lease_id"].as_str().unwrap()
}

#[track_caller]
fn inspect(cluster: &Cluster, place: usize, lease: &Value) -> Value {
    cluster.nodes[place].get(&format!("/v1/leases/{}", id(lease)))
}

/// What a node answers to the principal that holds leases of connections.
#[track_caller]
fn over_socket(cluster: &Cluster, place: usize, method: &str, path: &str, body: &Value) -> Answered {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    cluster.nodes[place].daemon.http_over_socket().ask(method, path, body.as_bytes())
}

/// Looks at a lease through a node until it is as wanted.
#[track_caller]
fn wait_for_lease(
    cluster: &Cluster,
    place: usize,
    lease: &Value,
    limit: Duration,
    wanted: impl Fn(&Value) -> bool,
) -> Value {
    let deadline_ms = boot_ms() + limit.as_millis() as u64;
    loop {
        let shown = inspect(cluster, place, lease);
        if wanted(&shown) {
            return shown;
        }
        let story = || cluster.nodes[place].get(&format!("/v1/why?lease={}", id(lease)));
        assert!(boot_ms() < deadline_ms, "{shown}\n{}\n{}", story(), cluster.said_lately());
        let_time_pass(LOOK, "between two looks");
    }
}

#[track_caller]
fn wait_until_draining(cluster: &Cluster, place: usize, lease: &Value) -> Value {
    wait_for_lease(cluster, place, lease, AT_ONCE, |shown| shown["liveness"] == "draining")
}

/// Withdrawn; its resources may still wait for the promise.
fn is_ended(shown: &Value) -> bool {
    shown["state"] == "revoking" || shown["state"] == "revoked"
}

#[track_caller]
fn assert_alive(cluster: &Cluster, place: usize, lease: &Value) {
    let shown = inspect(cluster, place, lease);
    assert_eq!(
        (&shown["state"], &shown["liveness"], &shown["epoch"], &shown["session"]),
        (&json!("active"), &json!("alive"), &lease["epoch"], &lease["session"]),
        "{shown}\n{}",
        cluster.said_lately()
    );
}

/// The session as a node lists it; `None` if it does not.
#[track_caller]
fn listed(cluster: &Cluster, place: usize, session: &str) -> Option<Value> {
    let list = cluster.nodes[place].get("/v1/sessions");
    list["sessions"].as_array().unwrap().iter().find(|listed| listed["session"] == session).cloned()
}

/// Waits until a session of a connection is known to be over or draining.
#[track_caller]
fn wait_until_gone(cluster: &Cluster, place: usize, session: &str) {
    wait_until(&format!("the end of {session} is known"), AT_ONCE, || {
        let_time_pass(LOOK, "between two looks");
        listed(cluster, place, session).is_none_or(|listed| listed["liveness"] != "alive")
    });
}

/// When somebody who waits for resources heard of each grant; ends when all have come.
struct Waiting {
    thread: std::thread::JoinHandle<Vec<(String, u64)>>,
}

impl Waiting {
    /// Waits on one connection, with leases that live longer than any test.
    #[track_caller]
    fn begin(cluster: &Cluster, place: usize, resources: &[&str]) -> Self {
        let mut connection = Connection::open(cluster, place);
        for resource in resources {
            let more = json!({"holder": "next", "ttl_ms": 120_000, "wait_ms": 60_000});
            let mut line = wish(resource, more);
            line["tag"] = json!(resource);
            connection.say(&line);
        }
        let count = resources.len();
        let thread = std::thread::spawn(move || {
            let mut granted = Vec::new();
            while granted.len() < count {
                match connection.heard(LIMIT) {
                    Heard::Line(line) if line["acquired"].is_object() => {
                        granted.push((line["tag"].as_str().unwrap().to_owned(), boot_ms()));
                    }
                    other => panic!("{other:?} after {granted:?}"),
                }
            }
            granted
        });
        Self { thread }
    }

    #[track_caller]
    fn finish(self) -> Vec<(String, u64)> {
        self.thread.join().unwrap()
    }
}

/// When a resource was granted, in milliseconds since boot.
#[track_caller]
fn granted_ms(granted: &[(String, u64)], resource: &str) -> u64 {
    granted.iter().find(|(name, _)| name == resource).unwrap().1
}
