//! Holders on connections to a node: what one holds is its own while the connection is open and it heartbeats.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Holding, Look, Work, Worker};
use crate::cluster::caller::{done, refused};
use crate::cluster::history::{Asked, Heard, Record, State};
use crate::raw_lines::Lines;

const HOLDERS: usize = 5;
const RESOURCES: u64 = 6;
const LIMIT: Duration = Duration::from_millis(2_500);

#[derive(Default)]
struct Holder {
    connection: Option<Connection>,
    holding: Option<Holding>,
    /// Acquires whose outcome is open: operation and resource.
    open: Vec<(String, String)>,
}

struct Connection {
    lines: Lines,
    node: usize,
}

/// What came of a line.
enum Answer {
    Line(Value),
    /// Nothing in time: the caller hangs up.
    Silence,
    /// The node hung up, or is gone.
    HungUp,
}

pub(super) fn works() -> Vec<(String, Box<dyn Work>)> {
    (0..HOLDERS).map(|number| (format!("c{number}"), Box::new(Holder::default()) as Box<dyn Work>)).collect()
}

pub(super) fn resources() -> Vec<String> {
    (0..RESOURCES).map(resource).collect()
}

fn resource(number: u64) -> String {
    format!("conn/{number}")
}

impl Work for Holder {
    fn step(&mut self, worker: &mut Worker) {
        if self.is_connected(worker) {
            match (&self.holding, worker.random.below(100)) {
                (None, chance) => match self.open.pop() {
                    Some((operation, resource)) => self.acquire(worker, operation, resource, true),
                    // To another node now and then.
                    None if chance < 3 => self.connection = None,
                    None => {
                        let operation = worker.next_operation();
                        let resource = resource(worker.random.below(RESOURCES));
                        self.acquire(worker, operation, resource, false);
                    }
                },
                (Some(_), 0..=39) => self.say(worker, "heartbeat"),
                (Some(holding), 40..=49) => {
                    let (resource, fence) = (holding.resource.clone(), holding.fence);
                    worker.look(&resource, fence);
                }
                (Some(_), 50..=89) => self.say(worker, "release"),
                (Some(_), _) => self.close(worker),
            }
        }
        worker.pause();
    }

    fn settle(&mut self, worker: &mut Worker) -> bool {
        if self.is_connected(worker)
            && let Some((operation, resource)) = self.open.pop()
        {
            self.acquire(worker, operation, resource, true);
        }
        // The end of the thread is the end of its connection.
        self.close(worker);
        self.open.is_empty()
    }
}

impl Holder {
    fn is_connected(&mut self, worker: &mut Worker) -> bool {
        if self.connection.is_none() {
            let node = worker.any_node();
            let stream = UnixStream::connect(&worker.shared.sockets[node]).ok();
            self.connection = stream.map(|stream| {
                stream.set_read_timeout(Some(LIMIT)).unwrap();
                stream.set_write_timeout(Some(LIMIT)).unwrap();
                Connection { lines: Lines::new(stream), node }
            });
        }
        self.connection.is_some()
    }

    fn acquire(&mut self, worker: &mut Worker, operation: String, resource: String, is_open: bool) {
        let holder = format!("holder-{operation}");
        // The same words for every try.
        let wait_ms = if operation.len().is_multiple_of(2) { 300 } else { 0 };
        let mut body =
            json!({"resources": [resource], "holder": holder, "grace_ms": 0, "operation_id": operation});
        if wait_ms > 0 {
            body["wait_ms"] = json!(wait_ms);
        }
        let asked = Asked::Acquire { resource: resource.clone(), holder };
        let line = json!({"acquire": body, "tag": operation});
        let heard = self.ask(worker, &operation, asked, &line, "acquired");
        match heard {
            Some((Heard::Granted { lease, fence, state, .. }, view)) => {
                worker.granted(Look { lease: lease.clone(), epoch: None });
                // Nothing is promised to one who asks again on another connection than that of its grant.
                let is_held = state == State::Live && view["valid_ms"] != 0;
                let epoch = view["epoch"].as_u64().unwrap_or(1);
                self.holding = is_held.then_some(Holding { resource, lease, epoch, fence });
            }
            Some((Heard::Declined { code }, _)) if is_open && code != "wait_timeout" => {
                self.open.push((operation, resource));
            }
            Some(_) => {}
            None => self.open.push((operation, resource)),
        }
    }

    /// A heartbeat or a release of what is held.
    fn say(&mut self, worker: &mut Worker, verb: &str) {
        let Some(holding) = self.holding.take() else { return };
        let lease = holding.lease.clone();
        let (asked, name) = match verb {
            "heartbeat" => (Asked::Heartbeat { lease }, "renewed"),
            _ => (Asked::Release { lease }, "released"),
        };
        let operation = worker.next_operation();
        let mut body = json!({"lease_id": holding.lease, "epoch": holding.epoch});
        if verb == "release" {
            body["operation_id"] = json!(operation);
        }
        self.holding = Some(holding);
        match self.ask(worker, &operation, asked, &json!({ verb: body }), name) {
            Some((Heard::Renewed { .. } | Heard::Declined { .. }, _)) => {}
            _ => self.holding = None,
        }
    }

    /// Closes the connection: its holder's word that it gives up what it holds.
    fn close(&mut self, worker: &mut Worker) {
        if let (Some(holding), Some(connection)) = (self.holding.take(), &self.connection) {
            give_up(worker, connection.node, holding.lease);
        }
        self.connection = None;
    }

    /// Asks on the connection. One that does not answer is closed, and what is held with it given up; where the node hung
    /// up, the holder gave nothing up.
    fn ask(
        &mut self,
        worker: &mut Worker,
        operation: &str,
        asked: Asked,
        line: &Value,
        name: &str,
    ) -> Option<(Heard, Value)> {
        let connection = self.connection.as_mut()?;
        let (journal, node) = (worker.shared.journal.clone(), connection.node);
        let sent_ns = journal.now_ns();
        let held = self.holding.as_ref().map(|holding| holding.lease.clone());
        let (answer, lost) = connection.ask(line, held.as_deref());
        let heard_ns = journal.now_ns();
        let heard = match &answer {
            Answer::Line(body) if body[name].is_object() => {
                done(&asked, &body[name]).map(|heard| (heard, body[name].clone()))
            }
            Answer::Line(body) => refused(&asked, body).map(|heard| (heard, Value::Null)),
            Answer::Silence | Answer::HungUp => None,
        };
        journal.push(Record {
            operation: operation.to_owned(),
            node: worker.shared.nodes[node].0.clone(),
            asked,
            sent_ns,
            heard: heard.as_ref().map(|(heard, _)| (heard_ns, heard.clone())),
        });
        match answer {
            // It was told to stop, and does.
            _ if lost => self.close(worker),
            Answer::Line(_) if heard.is_some() => {}
            Answer::Line(_) | Answer::Silence => self.close(worker),
            Answer::HungUp => (self.connection, self.holding) = (None, None),
        }
        heard
    }
}

fn give_up(worker: &mut Worker, node: usize, lease: String) {
    let operation = worker.next_operation();
    let journal = &worker.shared.journal;
    journal.push(Record {
        operation,
        node: worker.shared.nodes[node].0.clone(),
        asked: Asked::GiveUp { lease },
        sent_ns: journal.now_ns(),
        heard: None,
    });
}

impl Connection {
    /// The answer, and whether what is held was said to be lost before it.
    fn ask(&mut self, line: &Value, held: Option<&str>) -> (Answer, bool) {
        let mut lost = false;
        if self.lines.raw(format!("{line}\n").as_bytes()).is_err() {
            return (Answer::HungUp, lost);
        }
        loop {
            match self.lines.try_next() {
                Ok(Some(line)) if line["lost"].is_object() => {
                    lost |= held.is_some_and(|held| line["lost"]["lease_id"] == *held);
                }
                Ok(Some(line)) => return (Answer::Line(line), lost),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return (Answer::Silence, lost);
                }
                Ok(None) | Err(_) => return (Answer::HungUp, lost),
            }
        }
    }
}
