//! Calls of holders, to any node or by a connection: tried again under the same operation id until somebody answers or it is
//! not worth it any more. What an answer means is the holder's business.

use super::network::{CallId, Packet};
use super::world::{Happening, NODES, World};
use tenure_engine::{OperationId, Request, Submit};
use tenure_kernel::{Epoch, LeaseId, SessionId};

/// Tries of one command before its outcome is given up.
const TRIES_MAX: u32 = 6;
/// The same of a proof of life; the next one is as good.
const BEATS_MAX: u32 = 3;
/// The same of bringing a lease onto another connection: asked with another id it would be refused.
const RESUMES_MAX: u32 = 30;

/// One call, perhaps tried several times.
pub(super) struct Call {
    pub(super) holder: usize,
    pub(super) request: Request,
    pub(super) purpose: Purpose,
    is_stale_good: bool,
    tries: u32,
    way: Way,
}

/// How a call gets to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// This one first; then the others in turn.
    AnyNode { first: usize },
    /// By the holder's connection: only that one, or whichever it has.
    Connection { only: Option<SessionId> },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    Grant,
    Activate(LeaseId),
    Heartbeat(LeaseId, Epoch),
    /// A lease goes on by another connection.
    Resume(LeaseId),
    OpenSession(SessionId),
    SessionHeartbeat(SessionId),
    Other,
    Probe,
}

impl Call {
    pub(super) fn is_for(&self, holder: usize, purpose: Purpose) -> bool {
        self.holder == holder && self.purpose == purpose
    }

    /// Whether it means something only by this connection.
    pub(super) fn needs(&self, session: SessionId) -> bool {
        self.way == Way::Connection { only: Some(session) }
    }
}

impl World {
    pub(super) fn submit(&mut self, number: usize, submit: Submit, purpose: Purpose) {
        let way = self.any_node();
        self.submit_over(number, submit, purpose, way);
    }

    pub(super) fn submit_over(&mut self, number: usize, mut submit: Submit, purpose: Purpose, way: Way) {
        let principal = self.holders[number].name.clone();
        let id = format!("op{}", self.next_number);
        submit.operation = Some(OperationId::new(principal, id.into(), 120_000));
        self.call_over(number, Request::Submit(submit), purpose, way);
    }

    pub(super) fn any_node(&mut self) -> Way {
        Way::AnyNode { first: self.random.below(NODES as u64) as usize }
    }

    pub(super) fn call(&mut self, holder: usize, request: Request, purpose: Purpose, is_stale_good: bool) {
        let way = self.any_node();
        self.begin_call(Call { holder, request, purpose, is_stale_good, tries: 0, way });
    }

    pub(super) fn call_over(&mut self, holder: usize, request: Request, purpose: Purpose, way: Way) {
        self.begin_call(Call { holder, request, purpose, is_stale_good: false, tries: 0, way });
    }

    fn begin_call(&mut self, call: Call) {
        self.next_number += 1;
        let id = self.next_number;
        self.holders[call.holder].waiting += 1;
        self.calls.insert(id, call);
        self.try_call(id);
    }

    fn try_call(&mut self, id: CallId) {
        let (sent, patience) = (self.now, self.random.within(300..=2_500));
        let is_doubled = self.random.chance(self.faults().lost / 2);
        let Some(call) = self.calls.get_mut(&id) else { return };
        call.tries += 1;
        let (holder, tries, way) = (call.holder, call.tries, call.way);
        let (mut request, is_stale_good) = (call.request.clone(), call.is_stale_good);
        let to = match way {
            Way::AnyNode { first } => Some(((first + tries as usize - 1) % NODES, None)),
            Way::Connection { only } => {
                self.over_connection(holder, only, &mut request).map(|(node, session)| (node, Some(session)))
            }
        };
        let wait_ms = match &request {
            Request::Submit(submit) => submit.wait_ms,
            _ => 0,
        };
        if let Some((node, via)) = to {
            let packet = Packet::Ask { call: id, sent, via, request, is_stale_good };
            if is_doubled && via.is_none() {
                self.send_to_node(None, (node + 1) % NODES, packet.clone());
            }
            self.send_to_node(None, node, packet);
        }
        self.at(wait_ms + patience, Happening::GiveUp { call: id, tries });
    }

    /// A try was not answered. What changes something is tried again under its id.
    pub(super) fn give_up(&mut self, id: CallId, tries: u32) {
        let Some(call) = self.calls.get(&id).filter(|call| call.tries == tries) else { return };
        let tries_max = match (&call.request, call.purpose) {
            (_, Purpose::Resume(_)) => RESUMES_MAX,
            (Request::Submit(_), _) => TRIES_MAX,
            (_, Purpose::Heartbeat(..) | Purpose::SessionHeartbeat(_)) => BEATS_MAX,
            _ => 1,
        };
        let is_worth_it = tries < tries_max;
        let is_dead = self.holders[call.holder].is_dead && call.purpose != Purpose::Probe;
        if is_worth_it && !is_dead {
            return self.try_call(id);
        }
        self.forget_call(id);
    }

    pub(super) fn forget_call(&mut self, id: CallId) -> Option<Call> {
        let call = self.calls.remove(&id)?;
        self.holders[call.holder].waiting -= 1;
        Some(call)
    }
}
