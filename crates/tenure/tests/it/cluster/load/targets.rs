//! Pollers that share targets: each keeps what it has under one session, and hands over to the others.

use super::{Outcome, Work, Worker};
use crate::cluster::caller::{Beat, Session, Target};
use crate::cluster::history::{Heard, State};
use crate::run_support::boot_ms;

pub(super) const POLLERS: usize = 4;
const TARGETS: u64 = 5;
const TTL_MS: u64 = 4_000;
const BEAT_MS: u64 = 500;
const HELD_MAX: usize = 2;

struct Poller {
    number: usize,
    session: Option<Session>,
    beaten_ms: u64,
    held: Vec<Target>,
    /// What is open: takes, hand-overs and releases.
    open: Vec<Open>,
}

#[derive(Clone)]
enum Open {
    Take { operation: String, resource: String, session: Session },
    Move { operation: String, target: Target, to: Session, poller: usize },
    Release { operation: String, target: Target },
}

pub(super) fn works() -> Vec<(String, Box<dyn Work>)> {
    let poller = |number| Poller { number, session: None, beaten_ms: 0, held: Vec::new(), open: Vec::new() };
    (0..POLLERS).map(|number| (format!("p{number}"), Box::new(poller(number)) as Box<dyn Work>)).collect()
}

pub(super) fn resources() -> Vec<String> {
    (0..TARGETS).map(resource).collect()
}

fn resource(number: u64) -> String {
    format!("poll/load/t{number}")
}

impl Work for Poller {
    fn step(&mut self, worker: &mut Worker) {
        if self.is_online(worker) {
            let handed = std::mem::take(&mut worker.shared.handed.lock().unwrap()[self.number]);
            self.held.extend(handed);
            if boot_ms() >= self.beaten_ms + BEAT_MS {
                self.beat(worker);
            } else if let Some(open) = self.open.pop() {
                self.try_open(worker, open, true);
            } else {
                self.work(worker);
            }
        }
        worker.pause_up_to(90);
    }

    fn settle(&mut self, worker: &mut Worker) -> bool {
        if let Some(open) = self.open.pop() {
            self.try_open(worker, open, true);
        }
        self.open.is_empty()
    }
}

impl Poller {
    fn is_online(&mut self, worker: &mut Worker) -> bool {
        if self.session.is_none() {
            let node = worker.any_node();
            let holder = format!("poller{}", self.number);
            self.session = worker.caller.open_session(node, &holder, TTL_MS);
            worker.shared.pollers.lock().unwrap()[self.number].clone_from(&self.session);
            self.beaten_ms = boot_ms();
        }
        self.session.is_some()
    }

    fn beat(&mut self, worker: &mut Worker) {
        let (node, operation) = (worker.any_node(), worker.next_operation());
        let Some(session) = &mut self.session else { return };
        match worker.caller.beat_session(node, &operation, session, &self.held) {
            Beat::Alive { lost } => {
                self.beaten_ms = boot_ms();
                // What was handed over and came back is told as lost too.
                let (doubtful, held): (Vec<Target>, Vec<Target>) =
                    self.held.drain(..).partition(|target| lost.contains(&target.lease));
                self.held = held;
                for target in doubtful {
                    if matches!(worker.inspect(&target.look()), Some(Heard::Shown { state: State::Live, .. }))
                    {
                        self.held.push(target);
                    }
                }
            }
            Beat::Gone => {
                self.session = None;
                self.held.clear();
                worker.shared.pollers.lock().unwrap()[self.number] = None;
            }
            Beat::Unknown => {}
        }
    }

    fn work(&mut self, worker: &mut Worker) {
        let number = worker.random.below(self.held.len().max(1) as u64) as usize;
        let chance = worker.random.below(100);
        let wants_more = self.held.is_empty() || (self.held.len() < HELD_MAX && chance < 40);
        let Some(session) = self.session.clone() else { return };
        if wants_more {
            let resource = resource(worker.random.below(TARGETS));
            let open = Open::Take { operation: worker.next_operation(), resource, session };
            return self.try_open(worker, open, false);
        }
        let target = self.held[number].clone();
        match chance {
            0..=19 => worker.look(&target.resource, target.fence),
            20..=59 => {
                let target = self.held.swap_remove(number);
                let open = Open::Release { operation: worker.next_operation(), target };
                self.try_open(worker, open, false);
            }
            _ => {
                let poller = (self.number + 1 + worker.random.below(POLLERS as u64 - 1) as usize) % POLLERS;
                let to = worker.shared.pollers.lock().unwrap()[poller].clone();
                let Some(to) = to else { return };
                let target = self.held.swap_remove(number);
                let open = Open::Move { operation: worker.next_operation(), target, to, poller };
                self.try_open(worker, open, false);
            }
        }
    }

    fn try_open(&mut self, worker: &mut Worker, open: Open, is_open: bool) {
        let node = worker.any_node();
        let outcome = match &open {
            Open::Take { operation, resource, session } => {
                let outcome = worker.caller.take_target(node, operation, resource, session);
                if let Outcome::Heard(Heard::Granted { lease, fence, state, .. }, epoch) = &outcome {
                    self.took(worker, (lease, *fence, *state), epoch.unwrap_or(1), resource, session);
                }
                outcome
            }
            Open::Move { operation, target, to, poller } => {
                let (outcome, moved) = worker.caller.hand_over(node, operation, target, to);
                if let Some(moved) = moved {
                    worker.granted(moved.look());
                    worker.shared.handed.lock().unwrap()[*poller].push(moved);
                }
                outcome
            }
            Open::Release { operation, target } => worker.caller.release_target(node, operation, target),
        };
        let is_known = match &outcome {
            // Of a session that is over: asking again would tell the same.
            Outcome::Heard(Heard::Declined { code }, _) => {
                code.starts_with("session_") || code == "operation_conflict"
            }
            Outcome::Heard(..) => true,
            Outcome::Unknown | Outcome::NotSent => false,
        };
        let was_never_sent = !is_open && !matches!(outcome, Outcome::Unknown);
        match open {
            _ if is_known => {}
            Open::Take { .. } if was_never_sent => {}
            open => self.open.push(open),
        }
    }

    fn took(
        &mut self,
        worker: &Worker,
        (lease, fence, state): (&str, u64, State),
        epoch: u64,
        resource: &str,
        session: &Session,
    ) {
        // The name in the history ends with the epoch.
        let lease = lease.rsplit_once('.').map_or(lease, |(lease, _)| lease).to_owned();
        let target = Target { resource: resource.to_owned(), lease, epoch, fence };
        let is_ours = self.session.as_ref().is_some_and(|ours| ours.id == session.id);
        if state == State::Live {
            worker.granted(target.look());
            if is_ours {
                self.held.push(target);
            }
        }
    }
}
