//! Clients that want more slots than a pool has.

use super::{Look, Outcome, Work, Worker};
use crate::cluster::caller::{POOL, Slot};
use crate::cluster::history::Heard;

const CLIENTS: usize = 5;
/// As the pool has them.
const SLOTS: usize = 3;

#[derive(Default)]
struct Client {
    slot: Option<Slot>,
    /// Starts and stops whose outcome is open.
    starts: Vec<String>,
    stops: Vec<(String, Slot)>,
}

pub(super) fn works() -> Vec<(String, Box<dyn Work>)> {
    (0..CLIENTS).map(|number| (format!("s{number}"), Box::new(Client::default()) as Box<dyn Work>)).collect()
}

pub(super) fn resources() -> Vec<String> {
    (1..=SLOTS).map(|number| format!("{POOL}/{number}")).collect()
}

impl Work for Client {
    fn step(&mut self, worker: &mut Worker) {
        match self.slot.take() {
            None => {
                if let Some(operation) = self.starts.pop() {
                    self.start(worker, operation, true);
                } else if let Some((operation, slot)) = self.stops.pop() {
                    self.stop(worker, operation, slot);
                } else {
                    let operation = worker.next_operation();
                    self.start(worker, operation, false);
                }
            }
            Some(slot) => match worker.random.below(100) {
                0..=19 => self.beat(worker, slot),
                20..=29 => {
                    worker.look(&slot.resource, slot.fence);
                    self.slot = Some(slot);
                }
                30..=97 => {
                    let operation = worker.next_operation();
                    self.stop(worker, operation, slot);
                }
                // Left to expire.
                _ => {}
            },
        }
        worker.pause_up_to(120);
    }

    fn settle(&mut self, worker: &mut Worker) -> bool {
        if let Some(operation) = self.starts.pop() {
            self.start(worker, operation, true);
        }
        if let Some((operation, slot)) = self.stops.pop() {
            self.stop(worker, operation, slot);
        }
        self.starts.is_empty() && self.stops.is_empty()
    }
}

impl Client {
    /// `is_open`: a try before this one may have been carried out.
    fn start(&mut self, worker: &mut Worker, operation: String, is_open: bool) {
        let node = worker.any_node();
        let (outcome, slot) = worker.caller.start_slot(node, &operation, &format!("client-{operation}"));
        match outcome {
            Outcome::Heard(Heard::Granted { lease, .. }, _) => {
                worker.granted(Look { lease, epoch: None });
                self.slot = slot;
            }
            // If the try before had got one, it would have been told.
            Outcome::Heard(Heard::Declined { code }, _) if code == "no_capacity" => {}
            Outcome::Heard(..) | Outcome::NotSent if !is_open => {}
            Outcome::Heard(..) | Outcome::NotSent | Outcome::Unknown => self.starts.push(operation),
        }
    }

    fn beat(&mut self, worker: &mut Worker, slot: Slot) {
        let (node, operation) = (worker.any_node(), worker.next_operation());
        let outcome = worker.caller.beat_slot(node, &operation, &slot);
        let is_lost = matches!(outcome, Outcome::Heard(Heard::Lost { .. } | Heard::Missing, _));
        self.slot = Some(slot).filter(|_| !is_lost);
    }

    fn stop(&mut self, worker: &mut Worker, operation: String, slot: Slot) {
        let node = worker.any_node();
        match worker.caller.stop_slot(node, &operation, &slot) {
            Outcome::Heard(Heard::Released | Heard::Lost { .. } | Heard::Missing, _) => {}
            Outcome::Heard(..) | Outcome::NotSent | Outcome::Unknown => self.stops.push((operation, slot)),
        }
    }
}
