//! Callers that take, keep, give back and look at a few resources through any node, until they are told to stop; then
//! everything whose outcome is open is asked again.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::caller::{Caller, Journal, Outcome, Places, Terms};
use super::history::{Asked, Heard, Record, State};
use crate::faults::random::Random;
use crate::run_support::{boot_ms, holds_for};

const HOLDERS: u64 = 8;
const OBSERVERS: u64 = 2;
/// So few that callers are in each other's way.
const RESOURCES: u64 = 7;
/// Tries of one operation before it is left for the end.
const TRIES_MAX: usize = 4;
const RESOLVE_LIMIT: Duration = Duration::from_secs(60);

/// Callers at work.
pub(crate) struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    journal: Arc<Journal>,
    nodes: Places,
    is_over: AtomicBool,
    /// What is to be asked again when all is well.
    open: Mutex<Vec<Open>>,
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
    holding: Option<Holding>,
}

impl Load {
    /// Begins at once. The threads are where the calling thread is.
    pub(crate) fn begin(journal: &Arc<Journal>, nodes: Places, seed: u64) -> Self {
        let shared = Arc::new(Shared {
            journal: Arc::clone(journal),
            nodes,
            is_over: AtomicBool::new(false),
            open: Mutex::default(),
        });
        let threads = (0..HOLDERS + OBSERVERS).map(|number| {
            let name = if number < HOLDERS { format!("h{number}") } else { format!("w{number}") };
            let mut worker = Worker::new(&shared, name, seed.wrapping_mul(1_000) + number);
            std::thread::spawn(move || {
                while !worker.shared.is_over.load(Ordering::Relaxed) {
                    if number < HOLDERS { worker.hold() } else { worker.observe() }
                }
            })
        });
        let threads = threads.collect();
        Self { shared, threads }
    }

    /// Ends the load, resolves what is open and looks at every lease once more. Every node has to be well.
    #[track_caller]
    pub(crate) fn finish(mut self, seed: u64) -> Vec<Record> {
        self.stop();
        let mut worker = Worker::new(&self.shared, "end".to_owned(), seed);
        let open = std::mem::take(&mut *self.shared.open.lock().unwrap());
        let deadline = boot_ms() + RESOLVE_LIMIT.as_millis() as u64;
        for open in open {
            while !worker.try_again(&open) {
                assert!(boot_ms() < deadline, "an operation could not be resolved on a cluster that is well");
            }
        }
        for number in 0..RESOURCES {
            worker.look(&resource(number), 0);
        }
        let mut leases: Vec<String> =
            self.shared.journal.records().iter().filter_map(granted_lease).collect();
        leases.sort_unstable();
        leases.dedup();
        for lease in leases {
            loop {
                let (node, operation) = (worker.any_node(), worker.next_operation());
                if matches!(worker.caller.inspect(node, &operation, &lease), Outcome::Heard(..)) {
                    break;
                }
                assert!(boot_ms() < deadline, "{lease} cannot be looked at on a cluster that is well");
            }
        }
        self.shared.journal.records()
    }

    fn stop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }
}

fn granted_lease(record: &Record) -> Option<String> {
    match (&record.asked, &record.heard) {
        (Asked::Acquire { .. }, Some((_, Heard::Granted { lease, .. }))) => Some(lease.clone()),
        _ => None,
    }
}

fn resource(number: u64) -> String {
    format!("shared/{number}")
}

impl Worker {
    fn new(shared: &Arc<Shared>, name: String, seed: u64) -> Self {
        let caller = Caller::at(shared.nodes.clone(), &shared.journal);
        let random = Random::new(seed);
        Self { shared: Arc::clone(shared), caller, random, name, asked: 0, holding: None }
    }

    fn any_node(&mut self) -> usize {
        self.random.below(self.caller.node_count() as u64) as usize
    }

    fn next_operation(&mut self) -> String {
        self.asked += 1;
        format!("{}-{}", self.name, self.asked)
    }

    fn pause(&mut self) {
        let time = Duration::from_millis(2 + self.random.below(25));
        holds_for(time, || true);
    }

    /// One step in the life of a holder.
    fn hold(&mut self) {
        match self.holding.take() {
            None => match self.take_open() {
                // Operation ids are remembered for minutes: what is open is not left until the end of a long run.
                Some(open) => {
                    if !self.try_again(&open) {
                        self.leave_open(open);
                    }
                }
                None => self.acquire(),
            },
            Some(holding) => match self.random.below(100) {
                0..=39 => self.heartbeat(holding),
                40..=54 => {
                    self.look(&holding.resource, holding.fence);
                    self.holding = Some(holding);
                }
                55..=64 => {
                    let (node, operation) = (self.any_node(), self.next_operation());
                    self.caller.inspect(node, &operation, &holding.lease);
                    self.holding = Some(holding);
                }
                65..=98 => self.release(&holding),
                // Left to expire.
                _ => {}
            },
        }
        self.pause();
    }

    fn observe(&mut self) {
        let resource = resource(self.random.below(RESOURCES));
        self.look(&resource, 0);
        self.pause();
    }

    fn look(&mut self, resource: &str, fence: u64) {
        let (node, operation) = (self.any_node(), self.next_operation());
        self.caller.check(node, &operation, resource, fence);
    }

    fn acquire(&mut self) {
        let operation = self.next_operation();
        let resource = resource(self.random.below(RESOURCES));
        let terms = Terms {
            ttl_ms: 2_000 + self.random.below(3_000),
            grace_ms: self.random.below(2) * 200,
            wait_ms: if self.random.below(2) == 0 { 200 + self.random.below(600) } else { 0 },
        };
        let holder = format!("holder-{operation}");
        let mut is_open = false;
        for _ in 0..TRIES_MAX {
            let node = self.any_node();
            match self.caller.acquire(node, &operation, (&resource, &holder), &terms) {
                Outcome::Heard(Heard::Granted { lease, fence, state, .. }, epoch) => {
                    let holding = Holding { resource, lease, epoch: epoch.unwrap_or(1), fence };
                    self.holding = Some(holding).filter(|_| state == State::Live);
                    return;
                }
                Outcome::Heard(..) if !is_open => return,
                // An answer speaks for its own try: one before may still be under way.
                Outcome::Unknown | Outcome::Heard(..) => is_open = true,
                Outcome::NotSent => {}
            }
            if self.shared.is_over.load(Ordering::Relaxed) {
                break;
            }
            self.pause();
        }
        if is_open {
            self.leave_open(Open::Acquire { operation, resource, holder, terms });
        }
    }

    fn heartbeat(&mut self, holding: Holding) {
        let (node, operation) = (self.any_node(), self.next_operation());
        let outcome = self.caller.heartbeat(node, &operation, &holding.lease, holding.epoch);
        let is_lost = matches!(outcome, Outcome::Heard(Heard::Lost { .. } | Heard::Missing, _));
        self.holding = Some(holding).filter(|_| !is_lost);
    }

    fn release(&mut self, holding: &Holding) {
        let operation = self.next_operation();
        let mut is_open = false;
        for _ in 0..TRIES_MAX {
            let node = self.any_node();
            match self.caller.release(node, &operation, &holding.lease, holding.epoch) {
                Outcome::Heard(Heard::Released | Heard::Lost { .. } | Heard::Missing, _) => return,
                Outcome::Unknown => is_open = true,
                Outcome::NotSent | Outcome::Heard(..) => {}
            }
            self.pause();
        }
        if is_open {
            let (lease, epoch) = (holding.lease.clone(), holding.epoch);
            self.leave_open(Open::Release { operation, lease, epoch });
        }
    }

    fn leave_open(&self, open: Open) {
        self.shared.open.lock().unwrap().push(open);
    }

    fn take_open(&self) -> Option<Open> {
        self.shared.open.lock().unwrap().pop()
    }

    /// Whether an answer came that tells the outcome of this try. What is granted by it is held.
    fn try_again(&mut self, open: &Open) -> bool {
        let node = self.any_node();
        let outcome = match open {
            Open::Acquire { operation, resource, holder, terms } => {
                self.caller.acquire(node, operation, (resource, holder), terms)
            }
            Open::Release { operation, lease, epoch } => self.caller.release(node, operation, lease, *epoch),
        };
        match (outcome, open) {
            (
                Outcome::Heard(Heard::Granted { lease, fence, state, .. }, epoch),
                Open::Acquire { resource, .. },
            ) => {
                let holding = Holding { resource: resource.clone(), lease, epoch: epoch.unwrap_or(1), fence };
                self.holding = Some(holding).filter(|_| state == State::Live);
                true
            }
            (Outcome::Heard(Heard::Declined { code }, _), _) if code != "wait_timeout" => {
                self.pause();
                false
            }
            (Outcome::Heard(..), _) => true,
            (Outcome::Unknown | Outcome::NotSent, _) => {
                self.pause();
                false
            }
        }
    }
}
