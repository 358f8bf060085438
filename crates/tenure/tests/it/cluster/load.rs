//! Callers that take, keep, give back and look at a few resources through any node, until they are told to stop; then
//! everything whose outcome is open is asked again.

mod connections;
mod services;
mod slots;
mod targets;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::caller::{Caller, Journal, Look, Outcome, Places, Session, Target, Terms};
use super::history::{Heard, Record, State};
use crate::faults::random::Random;
use crate::run_support::{boot_ms, let_time_pass};

const HOLDERS: u64 = 8;
const OBSERVERS: u64 = 2;
/// So few that callers are in each other's way.
const RESOURCES: u64 = 7;
/// Tries of one operation before it is left for the end.
const TRIES_MAX: usize = 4;
/// How long one answer may take to come once all is well.
const RESOLVE_LIMIT: Duration = Duration::from_secs(40);
/// How long after its grant a lease is looked at, so that most have ended.
const LOOK_AFTER_MS: u64 = 8_000;
/// How many of all leases are looked at once more at the end; the last ones all are.
const LOOKS_AT_END: usize = 1_000;
/// What a node has to be started with for all applications.
pub(crate) const FLAGS: [&str; 9] = [
    "--no-mdns",
    "--mdns-http-grace",
    "0s",
    "--sessions-pools",
    "tuner=3",
    "--sessions-lease-ttl",
    "3s",
    "--sessions-heartbeat-interval",
    "1",
];

/// Callers at work.
pub(crate) struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    journal: Arc<Journal>,
    nodes: Places,
    /// Where nodes listen for connections that hold.
    sockets: Vec<PathBuf>,
    is_over: Mutex<bool>,
    over: Condvar,
    /// What is to be asked again when all is well.
    open: Mutex<Vec<Open>>,
    /// Leases to be looked at, and from when on.
    looks: Mutex<VecDeque<(u64, Look)>>,
    /// Every lease that was granted.
    granted: Mutex<Vec<Look>>,
    /// What observers look at.
    resources: Vec<String>,
    /// Sessions of pollers, for those who hand over to them.
    pollers: Mutex<Vec<Option<Session>>>,
    /// What was handed over to each.
    handed: Mutex<Vec<Vec<Target>>>,
}

/// An operation whose outcome is open.
#[derive(Clone)]
enum Open {
    Acquire { operation: String, resource: String, holder: String, terms: Terms },
    Release { operation: String, lease: String, epoch: u64 },
}

/// What a caller holds.
struct Holding {
    resource: String,
    lease: String,
    epoch: u64,
    fence: u64,
}

/// One caller's thread.
struct Worker {
    shared: Arc<Shared>,
    caller: Caller,
    random: Random,
    name: String,
    asked: u64,
}

/// What a worker does.
trait Work: Send {
    fn step(&mut self, worker: &mut Worker);

    /// Once all is well: asks again for what is open. Whether nothing is left.
    fn settle(&mut self, _worker: &mut Worker) -> bool {
        true
    }
}

/// Takes and gives back leases over HTTP.
#[derive(Default)]
struct Holder {
    holding: Option<Holding>,
}

/// Looks at resources and at leases of others.
struct Observer;

impl Load {
    /// Leases over HTTP. Begins at once. The threads are where the calling thread is.
    pub(crate) fn begin(journal: &Arc<Journal>, nodes: Places, seed: u64) -> Self {
        Self::of_all(journal, nodes, Vec::new(), seed)
    }

    /// Every application, at nodes that were started with [`FLAGS`].
    pub(crate) fn of_all(journal: &Arc<Journal>, nodes: Places, sockets: Vec<PathBuf>, seed: u64) -> Self {
        let mut works: Vec<(String, Box<dyn Work>)> = Vec::new();
        let mut resources: Vec<String> = (0..RESOURCES).map(resource).collect();
        for number in 0..HOLDERS {
            works.push((format!("h{number}"), Box::new(Holder::default())));
        }
        for number in 0..OBSERVERS {
            works.push((format!("w{number}"), Box::new(Observer)));
        }
        if !sockets.is_empty() {
            works.extend(connections::works());
            works.extend(slots::works());
            works.extend(services::works());
            works.extend(targets::works());
            resources.extend(connections::resources());
            resources.extend(slots::resources());
            resources.extend(services::resources());
            resources.extend(targets::resources());
        }
        let shared = Arc::new(Shared {
            journal: Arc::clone(journal),
            nodes,
            sockets,
            is_over: Mutex::default(),
            over: Condvar::new(),
            open: Mutex::default(),
            looks: Mutex::default(),
            granted: Mutex::default(),
            resources,
            pollers: Mutex::new(vec![None; targets::POLLERS]),
            handed: Mutex::new(vec![Vec::new(); targets::POLLERS]),
        });
        let threads = works.into_iter().zip(0..).map(|((name, mut work), number)| {
            let mut worker = Worker::new(&shared, name, seed.wrapping_mul(1_000) + number);
            std::thread::spawn(move || {
                while !worker.is_over() {
                    work.step(&mut worker);
                }
                let deadline = boot_ms() + RESOLVE_LIMIT.as_millis() as u64;
                while !work.settle(&mut worker) {
                    assert!(boot_ms() < deadline, "{}: an operation could not be resolved", worker.name);
                    worker.pause();
                }
            })
        });
        let threads = threads.collect();
        Self { shared, threads }
    }

    /// Ends the load, resolves what is open and looks at leases once more. Every node has to be well.
    #[track_caller]
    pub(crate) fn finish(mut self, seed: u64) -> Vec<Record> {
        self.shared.end();
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
        let mut worker = Worker::new(&self.shared, "end".to_owned(), seed);
        let mut holder = Holder::default();
        let open = std::mem::take(&mut *self.shared.open.lock().unwrap());
        for open in open {
            let deadline = boot_ms() + RESOLVE_LIMIT.as_millis() as u64;
            while !holder.try_again(&mut worker, &open) {
                assert!(boot_ms() < deadline, "an operation could not be resolved on a cluster that is well");
            }
        }
        for resource in &self.shared.resources {
            worker.look(resource, 0);
        }
        let last = std::mem::take(&mut *self.shared.looks.lock().unwrap());
        let mut looks: Vec<Look> = last.into_iter().map(|(_, look)| look).collect();
        let all = std::mem::take(&mut *self.shared.granted.lock().unwrap());
        looks.extend(all.iter().step_by(all.len() / LOOKS_AT_END + 1).cloned());
        for look in looks {
            let deadline = boot_ms() + RESOLVE_LIMIT.as_millis() as u64;
            while worker.inspect(&look).is_none() {
                let mut why = || worker.caller.shown(0, &format!("/v1/why?lease={}", look.lease));
                assert!(boot_ms() < deadline, "{look:?} cannot be looked at: {}", why());
                worker.pause();
            }
        }
        self.shared.journal.take_records()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.end();
    }
}

impl Shared {
    fn end(&self) {
        *self.is_over.lock().unwrap() = true;
        self.over.notify_all();
    }
}

fn resource(number: u64) -> String {
    format!("shared/{number}")
}

impl Worker {
    fn new(shared: &Arc<Shared>, name: String, seed: u64) -> Self {
        let caller = Caller::at(shared.nodes.clone(), &shared.journal);
        let random = Random::new(seed);
        Self { shared: Arc::clone(shared), caller, random, name, asked: 0 }
    }

    fn is_over(&self) -> bool {
        *self.shared.is_over.lock().unwrap()
    }

    fn any_node(&mut self) -> usize {
        self.random.below(self.caller.node_count() as u64) as usize
    }

    fn next_operation(&mut self) -> String {
        self.asked += 1;
        format!("{}-{}", self.name, self.asked)
    }

    fn pause(&mut self) {
        self.pause_up_to(60);
    }

    /// Until the load is over, at the most.
    fn pause_up_to(&mut self, limit_ms: u64) {
        let time = Duration::from_millis(2 + self.random.below(limit_ms - 2));
        let is_over = self.shared.is_over.lock().unwrap();
        if *is_over {
            drop(is_over);
            let_time_pass(time, "those who only resolve what is open do not ask in a row either");
        } else {
            drop(self.shared.over.wait_timeout_while(is_over, time, |is_over| !*is_over));
        }
    }

    fn look(&mut self, resource: &str, fence: u64) {
        let (node, operation) = (self.any_node(), self.next_operation());
        self.caller.check(node, &operation, resource, fence);
    }

    /// `None`: nobody could be asked.
    fn inspect(&mut self, look: &Look) -> Option<Heard> {
        let (node, operation) = (self.any_node(), self.next_operation());
        match self.caller.inspect(node, &operation, look) {
            Outcome::Heard(heard, _) => Some(heard),
            Outcome::Unknown | Outcome::NotSent => None,
        }
    }

    /// A lease was granted: it is looked at later.
    fn granted(&self, look: Look) {
        self.shared.granted.lock().unwrap().push(look.clone());
        self.look_later(look);
    }

    fn look_later(&self, look: Look) {
        self.shared.looks.lock().unwrap().push_back((boot_ms() + LOOK_AFTER_MS, look));
    }
}

impl Work for Observer {
    fn step(&mut self, worker: &mut Worker) {
        let number = worker.random.below(worker.shared.resources.len() as u64) as usize;
        let resource = worker.shared.resources[number].clone();
        worker.look(&resource, 0);
        let mut looks = worker.shared.looks.lock().unwrap();
        let due = looks.pop_front_if(|(due_ms, _)| *due_ms <= boot_ms());
        drop(looks);
        if let Some((_, look)) = due {
            match worker.inspect(&look) {
                Some(Heard::Shown { state: State::Ended, .. } | Heard::Lost { .. } | Heard::Missing) => {}
                // Retired.
                Some(Heard::Declined { code }) if code == "lease_retired" => {}
                _ => worker.look_later(look),
            }
        }
        worker.pause();
    }
}

impl Work for Holder {
    fn step(&mut self, worker: &mut Worker) {
        match self.holding.take() {
            None => match worker.take_open() {
                // Operation ids are remembered for minutes: what is open is not left until the end of a long run.
                Some(open) => {
                    if !self.try_again(worker, &open) {
                        worker.leave_open(open);
                    }
                }
                None => self.acquire(worker),
            },
            Some(holding) => match worker.random.below(100) {
                0..=39 => self.heartbeat(worker, holding),
                40..=49 => {
                    worker.look(&holding.resource, holding.fence);
                    self.holding = Some(holding);
                }
                50..=54 => {
                    worker.inspect(&Look { lease: holding.lease.clone(), epoch: None });
                    self.holding = Some(holding);
                }
                55..=98 => release(worker, &holding),
                // Left to expire.
                _ => {}
            },
        }
        worker.pause();
    }
}

impl Holder {
    fn acquire(&mut self, worker: &mut Worker) {
        let operation = worker.next_operation();
        let resource = resource(worker.random.below(RESOURCES));
        let terms = Terms {
            ttl_ms: 2_000 + worker.random.below(3_000),
            grace_ms: worker.random.below(2) * 200,
            wait_ms: if worker.random.below(2) == 0 { 200 + worker.random.below(600) } else { 0 },
        };
        let holder = format!("holder-{operation}");
        let mut is_open = false;
        for _ in 0..TRIES_MAX {
            let node = worker.any_node();
            match worker.caller.acquire(node, &operation, (&resource, &holder), &terms) {
                Outcome::Heard(Heard::Granted { lease, fence, state, .. }, epoch) => {
                    self.hold(worker, resource, lease, (epoch, fence, state));
                    return;
                }
                Outcome::Heard(..) if !is_open => return,
                // An answer speaks for its own try: one before may still be under way.
                Outcome::Unknown | Outcome::Heard(..) => is_open = true,
                Outcome::NotSent => {}
            }
            if worker.is_over() {
                break;
            }
            worker.pause();
        }
        if is_open {
            worker.leave_open(Open::Acquire { operation, resource, holder, terms });
        }
    }

    fn hold(
        &mut self,
        worker: &Worker,
        resource: String,
        lease: String,
        (epoch, fence, state): (Option<u64>, u64, State),
    ) {
        worker.granted(Look { lease: lease.clone(), epoch: None });
        let holding = Holding { resource, lease, epoch: epoch.unwrap_or(1), fence };
        self.holding = Some(holding).filter(|_| state == State::Live);
    }

    fn heartbeat(&mut self, worker: &mut Worker, holding: Holding) {
        let (node, operation) = (worker.any_node(), worker.next_operation());
        let outcome = worker.caller.heartbeat(node, &operation, &holding.lease, holding.epoch);
        let is_lost = matches!(outcome, Outcome::Heard(Heard::Lost { .. } | Heard::Missing, _));
        self.holding = Some(holding).filter(|_| !is_lost);
    }

    /// Whether an answer came that tells the outcome of this try. What is granted by it is held.
    fn try_again(&mut self, worker: &mut Worker, open: &Open) -> bool {
        let node = worker.any_node();
        let outcome = match open {
            Open::Acquire { operation, resource, holder, terms } => {
                worker.caller.acquire(node, operation, (resource, holder), terms)
            }
            Open::Release { operation, lease, epoch } => {
                worker.caller.release(node, operation, lease, *epoch)
            }
        };
        match (outcome, open) {
            (
                Outcome::Heard(Heard::Granted { lease, fence, state, .. }, epoch),
                Open::Acquire { resource, .. },
            ) => {
                self.hold(worker, resource.clone(), lease, (epoch, fence, state));
                true
            }
            (Outcome::Heard(Heard::Declined { code }, _), _) if code != "wait_timeout" => {
                worker.pause();
                false
            }
            (Outcome::Heard(..), _) => true,
            (Outcome::Unknown | Outcome::NotSent, _) => {
                worker.pause();
                false
            }
        }
    }
}

fn release(worker: &mut Worker, holding: &Holding) {
    let operation = worker.next_operation();
    let mut is_open = false;
    for _ in 0..TRIES_MAX {
        let node = worker.any_node();
        match worker.caller.release(node, &operation, &holding.lease, holding.epoch) {
            Outcome::Heard(Heard::Released | Heard::Lost { .. } | Heard::Missing, _) => return,
            Outcome::Unknown => is_open = true,
            Outcome::NotSent | Outcome::Heard(..) => {}
        }
        worker.pause();
    }
    if is_open {
        let (lease, epoch) = (holding.lease.clone(), holding.epoch);
        worker.leave_open(Open::Release { operation, lease, epoch });
    }
}

impl Worker {
    fn leave_open(&self, open: Open) {
        self.shared.open.lock().unwrap().push(open);
    }

    fn take_open(&self) -> Option<Open> {
        self.shared.open.lock().unwrap().pop()
    }
}
