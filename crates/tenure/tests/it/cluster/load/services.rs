//! Registrants that want the same few names.

use super::{Look, Outcome, Work, Worker};
use crate::cluster::caller::{Service, name_of};
use crate::cluster::history::Heard;

const REGISTRANTS: usize = 4;
const NAMES: u64 = 3;
const LEASE_S: u64 = 3;

#[derive(Default)]
struct Registrant {
    service: Option<Service>,
    /// Registrations, by operation and name, and their ends, whose outcome is open.
    begins: Vec<(String, String)>,
    ends: Vec<(String, Service)>,
}

pub(super) fn works() -> Vec<(String, Box<dyn Work>)> {
    let work = |number| (format!("r{number}"), Box::new(Registrant::default()) as Box<dyn Work>);
    (0..REGISTRANTS).map(work).collect()
}

pub(super) fn resources() -> Vec<String> {
    // The second of two with one name is advertised as another.
    (0..NAMES)
        .flat_map(|number| ["", "%20%282%29"].map(|more| format!("{}{more}", name_of(&name(number)))))
        .collect()
}

fn name(number: u64) -> String {
    format!("printer{number}")
}

impl Work for Registrant {
    fn step(&mut self, worker: &mut Worker) {
        match self.service.take() {
            None => {
                if let Some((operation, name)) = self.begins.pop() {
                    self.register(worker, operation, name, true);
                } else if let Some((operation, service)) = self.ends.pop() {
                    self.unregister(worker, operation, service);
                } else {
                    let operation = worker.next_operation();
                    let name = name(worker.random.below(NAMES));
                    self.register(worker, operation, name, false);
                }
            }
            Some(service) => match worker.random.below(100) {
                0..=24 => self.beat(worker, service),
                25..=34 => {
                    worker.look(&service.resource, service.fence);
                    self.service = Some(service);
                }
                35..=97 => {
                    let operation = worker.next_operation();
                    self.unregister(worker, operation, service);
                }
                // Left to expire.
                _ => {}
            },
        }
        worker.pause_up_to(120);
    }

    fn settle(&mut self, worker: &mut Worker) -> bool {
        if let Some((operation, name)) = self.begins.pop() {
            self.register(worker, operation, name, true);
        }
        if let Some((operation, service)) = self.ends.pop() {
            self.unregister(worker, operation, service);
        }
        self.begins.is_empty() && self.ends.is_empty()
    }
}

impl Registrant {
    fn register(&mut self, worker: &mut Worker, operation: String, name: String, is_open: bool) {
        let node = worker.any_node();
        let (outcome, service) = worker.caller.register(node, &operation, (&name, LEASE_S), !is_open);
        match outcome {
            Outcome::Heard(Heard::Granted { lease, .. }, _) => {
                worker.granted(Look { lease, epoch: None });
                self.service = service;
            }
            // It was registered by an earlier try, and has ended.
            Outcome::Heard(Heard::Missing, _) => {}
            Outcome::Heard(..) | Outcome::NotSent if !is_open => {}
            Outcome::Heard(..) | Outcome::NotSent | Outcome::Unknown => self.begins.push((operation, name)),
        }
    }

    fn beat(&mut self, worker: &mut Worker, service: Service) {
        let (node, operation) = (worker.any_node(), worker.next_operation());
        let outcome = worker.caller.beat_service(node, &operation, &service);
        let is_lost = matches!(outcome, Outcome::Heard(Heard::Lost { .. } | Heard::Missing, _));
        self.service = Some(service).filter(|_| !is_lost);
    }

    fn unregister(&mut self, worker: &mut Worker, operation: String, service: Service) {
        let node = worker.any_node();
        match worker.caller.unregister(node, &operation, &service) {
            Outcome::Heard(Heard::GivenUp | Heard::Lost { .. } | Heard::Missing, _) => {}
            Outcome::Heard(..) | Outcome::NotSent | Outcome::Unknown => self.ends.push((operation, service)),
        }
    }
}
