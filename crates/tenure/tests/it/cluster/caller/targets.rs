//! Targets of pollers: leases under a session by hand, handed over from one session to the next.

use serde_json::{Value, json};

use super::{Caller, Look, Outcome, Request};
use crate::cluster::history::{Asked, Heard, State};

/// A session that a poller heartbeats.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) holder: String,
    /// Losses up to here are known.
    pub(crate) seen_lsn: u64,
}

/// A target, as its poller knows it.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) resource: String,
    pub(crate) lease: String,
    pub(crate) epoch: u64,
    pub(crate) fence: u64,
}

/// What a heartbeat of a session came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Beat {
    Unknown,
    /// The session is over.
    Gone,
    /// It lives, and it may have lost these leases.
    Alive {
        lost: Vec<String>,
    },
}

impl Target {
    pub(crate) fn look(&self) -> Look {
        Look { lease: self.lease.clone(), epoch: Some(self.epoch) }
    }
}

impl Caller {
    pub(crate) fn open_session(&mut self, node: usize, holder: &str, ttl_ms: u64) -> Option<Session> {
        let body = json!({"holder": holder, "ttl_ms": ttl_ms, "grace_ms": 0});
        let answered = self.send(node, &Request::post("/v1/sessions", &body))?.answered?;
        let opened = matches!(answered.status, 200 | 201).then(|| answered.json())?;
        let id = opened["session"].as_str()?.to_owned();
        Some(Session { id, holder: holder.to_owned(), seen_lsn: opened["lsn"].as_u64()? })
    }

    /// One heartbeat for everything that is held.
    pub(crate) fn beat_session(
        &mut self,
        node: usize,
        operation: &str,
        session: &mut Session,
        held: &[Target],
    ) -> Beat {
        let path = format!("/v1/sessions/{}/heartbeat", session.id);
        let body = json!({"seen_lsn": session.seen_lsn});
        let Some(sent) = self.send(node, &Request::post(&path, &body)) else { return Beat::Unknown };
        let Some(answered) = &sent.answered else { return Beat::Unknown };
        let Ok(body) = serde_json::from_slice::<Value>(&answered.body) else { return Beat::Unknown };
        if answered.status != 200 {
            let code = body["error"].as_str().unwrap_or_default();
            let is_gone = matches!(code, "session_not_found" | "session_expired" | "session_gone");
            return if is_gone { Beat::Gone } else { Beat::Unknown };
        }
        session.seen_lsn = body["lsn"].as_u64().unwrap_or(session.seen_lsn);
        let Some(ended) = body["ended"].as_array() else {
            return Beat::Alive { lost: held.iter().map(|target| target.lease.clone()).collect() };
        };
        let valid_ms = body["valid_ms"].as_u64().unwrap_or(0);
        let mut lost = Vec::new();
        for target in held {
            if ended.iter().any(|ended| ended["lease_id"] == *target.lease) {
                lost.push(target.lease.clone());
                continue;
            }
            let asked = Asked::Heartbeat { lease: target.look().name() };
            self.note(node, operation, asked, &sent, Some((Heard::Renewed { valid_ms }, None)));
        }
        Beat::Alive { lost }
    }

    pub(crate) fn take_target(
        &mut self,
        node: usize,
        operation: &str,
        resource: &str,
        session: &Session,
    ) -> Outcome {
        let body = json!({
            "resources": [resource], "holder": session.holder, "session": session.id,
            "operation_id": operation,
        });
        let asked = Asked::Acquire { resource: resource.to_owned(), holder: session.holder.clone() };
        self.ask(node, operation, asked, "/v1/leases", Some(&body))
    }

    pub(crate) fn release_target(&mut self, node: usize, operation: &str, target: &Target) -> Outcome {
        let asked = Asked::Release { lease: target.look().name() };
        self.release_as(node, operation, asked, (&target.lease, target.epoch))
    }

    /// Gives a target to another session; gives it as that one has it.
    pub(crate) fn hand_over(
        &mut self,
        node: usize,
        operation: &str,
        target: &Target,
        to: &Session,
    ) -> (Outcome, Option<Target>) {
        let path = format!("/v1/leases/{}/handover", target.lease);
        let body = json!({"epoch": target.epoch, "to_session": to.id, "operation_id": operation});
        let Some(sent) = self.send(node, &Request::post(&path, &body)) else {
            return (Outcome::NotSent, None);
        };
        let release = Asked::Release { lease: target.look().name() };
        let acquire = Asked::Acquire { resource: target.resource.clone(), holder: to.holder.clone() };
        let body = sent.answered.as_ref().and_then(|it| serde_json::from_slice::<Value>(&it.body).ok());
        let is_done = sent.answered.as_ref().is_some_and(|answered| answered.status == 200);
        let (released, granted) = match body.as_ref() {
            Some(body) if is_done => (Some(Heard::Released), moved(body, target)),
            Some(body) => {
                let released = super::refused(&release, body);
                let declined = released.as_ref().map(|_| Heard::Declined { code: "not moved".to_owned() });
                (released, declined)
            }
            None => (None, None),
        };
        let next = granted.as_ref().and_then(|granted| match granted {
            Heard::Granted { fence, state: State::Live, .. } => {
                Some(Target { epoch: target.epoch + 1, fence: *fence, ..target.clone() })
            }
            _ => None,
        });
        let outcome = self.note(node, operation, release, &sent, released.map(|heard| (heard, None)));
        self.note(node, operation, acquire, &sent, granted.map(|heard| (heard, None)));
        (outcome, next)
    }
}

/// The target in the hands of the next, as far as the answer tells of it: a replay may tell of later ones.
fn moved(body: &Value, target: &Target) -> Option<Heard> {
    let is_live = body["state"] == "active";
    let is_next = body["epoch"].as_u64()? == target.epoch + 1 + u64::from(!is_live);
    let lease = Look { lease: target.lease.clone(), epoch: Some(target.epoch + 1) }.name();
    is_next.then_some(Heard::Granted {
        lease,
        fence: body["fence"].as_u64()?,
        valid_ms: body["valid_ms"].as_u64().unwrap_or(0),
        state: if is_live { State::Live } else { State::Ended },
    })
}
