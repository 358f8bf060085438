//! Registrations: an advertised name each. Their answers name neither lease nor fence; both are looked up.

use serde_json::{Value, json};

use super::{Caller, Outcome, Request};
use crate::cluster::history::{Asked, Heard, State};
use crate::raw_http::Answered;

const KIND: &str = "_ipp._tcp";
/// Tries of a look-up before the registration counts as one whose outcome is open.
const LOOKS_MAX: usize = 6;

/// A registration, as its registrant knows it.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) id: String,
    pub(crate) epoch: u64,
    pub(crate) lease: String,
    pub(crate) resource: String,
    pub(crate) fence: u64,
}

/// The resource behind a name that is advertised as it was asked for.
pub(crate) fn name_of(service: &str) -> String {
    format!("mdns/{KIND}/{service}")
}

impl Caller {
    /// What is asked again may be told again, long after it began: only the first try has a promise.
    pub(crate) fn register(
        &mut self,
        node: usize,
        operation: &str,
        (name, lease_s): (&str, u64),
        is_first: bool,
    ) -> (Outcome, Option<Service>) {
        let body =
            json!({"name": name, "type": KIND, "port": 631, "lease": lease_s, "operation_id": operation});
        let Some(mut sent) = self.send(node, &Request::post("/v1/mdns/services", &body)) else {
            return (Outcome::NotSent, None);
        };
        let holder = name.to_owned();
        let registered = sent.answered.as_ref().filter(|answered| answered.status == 201).map(Answered::json);
        let found = registered.and_then(|registered| {
            let registered = &registered["registered"];
            let id = registered["id"].as_str()?.to_owned();
            let epoch = registered["epoch"].as_u64()?;
            let (lease, shown) = self.lease_of(node, &id)?;
            let fence = shown["fence"].as_u64()?;
            let resource = shown["resources"][0].as_str()?.to_owned();
            let state = match shown["state"].as_str()? {
                "active" => State::Live,
                "revoking" => State::Revoking,
                _ => State::Ended,
            };
            Some((Service { id, epoch, lease, resource, fence }, state))
        });
        let (resource, heard, service) = match found {
            Some((service, state)) => {
                if state != State::Live {
                    // That it has ended was told later than that it began.
                    sent.heard_ns = self.journal.now_ns();
                }
                let valid_ms = if is_first && state == State::Live { promised_ms(lease_s) } else { 0 };
                let lease = service.lease.clone();
                let heard = Heard::Granted { lease, fence: service.fence, valid_ms, state };
                (service.resource.clone(), Some((heard, None)), Some(service))
            }
            None => (format!("{}*", name_of(name)), sent.answered.as_ref().and_then(refused), None),
        };
        let is_live = matches!(heard, Some((Heard::Granted { state: State::Live, .. }, _)));
        let outcome = self.note(node, operation, Asked::Acquire { resource, holder }, &sent, heard);
        (outcome, service.filter(|_| is_live))
    }

    /// The lease of a registration, and how it is shown.
    fn lease_of(&mut self, node: usize, id: &str) -> Option<(String, Value)> {
        let mut lease = None;
        for number in 0..LOOKS_MAX {
            let node = (node + number) % self.node_count();
            let path = match (&lease, number % 2) {
                (Some(lease), _) => format!("/v1/leases/{lease}"),
                (None, 0) => format!("/v1/mdns/admin/registrations/{id}"),
                // One that has ended meanwhile.
                (None, _) => format!("/v1/why?registration={id}"),
            };
            let answered = self.send(node, &Request::get(&path)).and_then(|sent| sent.answered);
            let Some(body) = answered.filter(|answered| answered.status == 200).map(|it| it.json()) else {
                continue;
            };
            if let Some(lease) = lease {
                return Some((lease, body));
            }
            let told = body["lease_id"].as_str().or_else(|| body["entries"][0]["lease_id"].as_str());
            lease = told.map(str::to_owned);
        }
        None
    }

    pub(crate) fn beat_service(&mut self, node: usize, operation: &str, service: &Service) -> Outcome {
        let path = format!("/v1/mdns/services/{}/heartbeat", service.id);
        let body = json!({"epoch": service.epoch});
        let request = Request { method: "PUT", ..Request::post(&path, &body) };
        let Some(sent) = self.send(node, &request) else { return Outcome::NotSent };
        let heard = sent.answered.as_ref().and_then(|answered| match answered.status {
            200 => {
                let valid_ms = promised_ms(answered.json()["lease"].as_u64()?);
                Some((Heard::Renewed { valid_ms }, None))
            }
            _ => refused(answered),
        });
        self.note(node, operation, Asked::Heartbeat { lease: service.lease.clone() }, &sent, heard)
    }

    pub(crate) fn unregister(&mut self, node: usize, operation: &str, service: &Service) -> Outcome {
        let path = format!("/v1/mdns/services/{}", service.id);
        let request = Request { method: "DELETE", key: Some(operation), ..Request::get(&path) };
        let Some(sent) = self.send(node, &request) else { return Outcome::NotSent };
        let heard = sent.answered.as_ref().and_then(|answered| match answered.status {
            200 => Some((Heard::GivenUp, None)),
            _ => refused(answered),
        });
        self.note(node, operation, Asked::GiveUp { lease: service.lease.clone() }, &sent, heard)
    }
}

/// A registration has no promise; what it was told as its lease counts, with the slack of one.
fn promised_ms(lease_s: u64) -> u64 {
    (lease_s * 995).saturating_sub(1)
}

fn refused(answered: &Answered) -> Option<(Heard, Option<u64>)> {
    let body: Value = serde_json::from_slice(&answered.body).ok()?;
    if body["definite"] != true {
        return None;
    }
    let code = body["error"].as_str()?.to_owned();
    let heard = match code.as_str() {
        "not_found" if body["reason"].is_string() => Heard::Lost { code },
        "not_found" => Heard::Missing,
        "stale_epoch" | "invalid_state" => Heard::Lost { code },
        _ => Heard::Declined { code },
    };
    Some((heard, None))
}
