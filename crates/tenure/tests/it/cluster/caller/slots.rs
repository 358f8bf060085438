//! Sessions of `/api/v3`: a slot of a pool each.

use serde_json::{Value, json};

use super::{Caller, Outcome, Request};
use crate::cluster::history::{Asked, Heard, State};
use crate::raw_http::Answered;

/// The pool that callers want slots of.
pub(crate) const POOL: &str = "tuner";

/// A session, as its client knows it.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) session: String,
    pub(crate) lease: String,
    pub(crate) resource: String,
    pub(crate) fence: u64,
}

impl Caller {
    /// Starts a session. Whichever slot is free is its own.
    pub(crate) fn start_slot(
        &mut self,
        node: usize,
        operation: &str,
        client: &str,
    ) -> (Outcome, Option<Slot>) {
        let body = json!({"type": "stream.start", "pool": POOL, "client": client});
        let request = Request { key: Some(operation), ..Request::post("/api/v3/intents", &body) };
        let Some(sent) = self.send(node, &request) else { return (Outcome::NotSent, None) };
        let started = sent.answered.as_ref().filter(|answered| answered.status == 202).and_then(started);
        let holder = client.to_owned();
        let (resource, heard, slot) = match started {
            Some((slot, valid_ms, state)) => {
                let heard = Heard::Granted { lease: slot.lease.clone(), fence: slot.fence, valid_ms, state };
                (slot.resource.clone(), Some((heard, None)), Some(slot).filter(|_| state == State::Live))
            }
            None => {
                let declined = sent.answered.as_ref().and_then(problem);
                (format!("{POOL}/*"), declined.map(|code| (Heard::Declined { code }, None)), None)
            }
        };
        (self.note(node, operation, Asked::Acquire { resource, holder }, &sent, heard), slot)
    }

    pub(crate) fn beat_slot(&mut self, node: usize, operation: &str, slot: &Slot) -> Outcome {
        let path = format!("/api/v3/sessions/{}/heartbeat", slot.session);
        let Some(sent) = self.send(node, &Request::post(&path, &json!({}))) else { return Outcome::NotSent };
        let heard = sent.answered.as_ref().and_then(|answered| match answered.status {
            200 => Some(Heard::Renewed { valid_ms: answered.json()["valid_ms"].as_u64()? }),
            _ => gone(answered),
        });
        let asked = Asked::Heartbeat { lease: slot.lease.clone() };
        self.note(node, operation, asked, &sent, heard.map(|heard| (heard, None)))
    }

    pub(crate) fn stop_slot(&mut self, node: usize, operation: &str, slot: &Slot) -> Outcome {
        let path = format!("/api/v3/sessions/{}", slot.session);
        let request = Request { method: "DELETE", key: Some(operation), ..Request::get(&path) };
        let Some(sent) = self.send(node, &request) else { return Outcome::NotSent };
        let heard = sent.answered.as_ref().and_then(|answered| match answered.status {
            200 => stopped(answered),
            _ => gone(answered),
        });
        let asked = Asked::Release { lease: slot.lease.clone() };
        self.note(node, operation, asked, &sent, heard.map(|heard| (heard, None)))
    }
}

fn started(answered: &Answered) -> Option<(Slot, u64, State)> {
    let body: Value = serde_json::from_slice(&answered.body).ok()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let slot = Slot {
        session: text(&body["session_id"])?,
        lease: text(&body["lease_id"])?,
        resource: text(&body["resources"][0])?,
        fence: body["fence"].as_u64()?,
    };
    let state = match body["state"].as_str()? {
        "running" => State::Live,
        "stopped" | "failed" => State::Ended,
        _ => return None,
    };
    Some((slot, body["valid_ms"].as_u64().unwrap_or(0), state))
}

/// One that was withdrawn before is told so: its client does not act any more, which is all that it could say.
fn stopped(answered: &Answered) -> Option<Heard> {
    let body: Value = serde_json::from_slice(&answered.body).ok()?;
    let reason = body["reason"].as_str()?.to_owned();
    Some(if reason == "USER_STOPPED" { Heard::Released } else { Heard::Lost { code: reason } })
}

/// The code of a refusal that is definite.
fn problem(answered: &Answered) -> Option<String> {
    let body: Value = serde_json::from_slice(&answered.body).ok()?;
    let code = body["code"].as_str()?;
    let is_open = matches!(code, "outcome_unknown" | "internal" | "io_error" | "shutting_down");
    (!is_open).then(|| code.to_owned())
}

fn gone(answered: &Answered) -> Option<Heard> {
    let code = problem(answered)?;
    Some(match code.as_str() {
        "session_gone" | "session_expired" => Heard::Lost { code },
        "session_not_found" => Heard::Missing,
        _ => Heard::Declined { code },
    })
}
