//! Messages between clients and the daemon: delayed, doubled and lost in both directions. A call that is not
//! answered in time is unknown; with an operation id it is tried again, word for word unless the id says what was asked.

use crate::happening::{Happening, Sender};
use crate::violation::Violation;
use crate::world::World;
use tenure_engine::{Answer, Control, Input, Refused, Request, Ticket};
use tenure_kernel::{Action, Epoch, LeaseId, Lsn, Rejection, SessionId, Tick};

/// So many of a thousand requests that would wait arrive together with the news that their caller is gone, and so many
/// of those that are asked again.
const GONE_PERMILLE: (u64, u64) = (40, 250);

/// Number of a call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct CallId(pub(crate) u64);

/// Who calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Caller {
    /// A client by number.
    Client(usize),
    /// The operator.
    Operator,
    /// The daemon's own host.
    Host,
}

/// What a call is for: what its answer will mean to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Grant,
    Activate(LeaseId),
    Heartbeat(LeaseId, Epoch),
    SessionHeartbeat(SessionId),
    OpenSession(SessionId),
    Rebind {
        lease: LeaseId,
        to: usize,
    },
    /// The answer changes nothing the caller believes.
    Other,
    /// The last look: everything must be free.
    Probe,
}

/// One call, perhaps tried several times.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) caller: Caller,
    pub(crate) request: Request,
    /// Tag of the log whose ids the request names; `None` if it names none.
    pub(crate) tag: Option<u32>,
    /// The connection it goes over, with the daemon's incarnation.
    pub(crate) via: Option<(SessionId, u64)>,
    pub(crate) purpose: Purpose,
    pub(crate) tries: u32,
    pub(crate) settled: bool,
}

/// One try of a call that reached the engine.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) call: CallId,
    pub(crate) request: Request,
    /// When the caller sent it, aged.
    pub(crate) sent: u64,
    /// When the engine handled it, aged.
    pub(crate) handled: Option<u64>,
    /// Epoch of the lease it names, as the events told it before it was handled.
    pub(crate) epoch_before: Option<Epoch>,
    /// The turn that handled it.
    pub(crate) turn: Option<Turn>,
}

/// The turn in which a request was handled, as far as a proof of life may depend on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) tick: Tick,
    /// The newest event decided before it.
    pub(crate) seen: Lsn,
    /// The breaker may have postponed ends.
    pub(crate) held: bool,
}

impl World {
    /// Sends a call. Requests over a connection arrive in order and once.
    pub(crate) fn send(&mut self, call: Call) -> CallId {
        let id = CallId(self.next_call);
        self.next_call += 1;
        if let Caller::Client(client) = call.caller {
            self.clients[client].waiting.push(id);
        }
        self.calls.insert(id, call);
        self.try_call(id);
        id
    }

    fn try_call(&mut self, id: CallId) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        call.tries += 1;
        if call.tries > 1 {
            make_anew(&mut call.request, self.random.next_u64());
        }
        let (caller, via) = (call.caller, call.via);
        let wait_ms = match &call.request {
            Request::Submit(submit) => submit.wait_ms,
            _ => 0,
        };
        let sent = self.aged();
        let delay = self.delay();
        if caller == Caller::Host {
            self.at(0, Happening::Arrive { call: id, sent });
            return;
        }
        let mut on_the_way = 0;
        if let (Some(_), Caller::Client(client)) = (via, caller)
            && let Some(connection) = &mut self.clients[client].connection
        {
            let arrival = (self.now + delay).max(connection.last_arrival);
            connection.last_arrival = arrival;
            on_the_way = arrival - self.now;
            self.at(on_the_way, Happening::Arrive { call: id, sent });
        } else {
            if !self.random.chance(self.faults.lost) {
                self.at(delay, Happening::Arrive { call: id, sent });
            }
            if self.random.chance(self.faults.doubled) {
                let later = self.delay();
                self.at(later, Happening::Arrive { call: id, sent });
            }
        }
        let patience = on_the_way + wait_ms + 2 * self.faults.delay_ms_max + 200 + self.random.below(2_000);
        self.at(patience, Happening::GiveUp(id));
    }

    /// Asks once more under the same operation id, where there is one and it can go another way.
    pub(crate) fn try_again(&mut self, id: CallId) {
        let Some(call) = self.calls.get(&id) else { return };
        let is_operation = matches!(&call.request, Request::Submit(submit) if submit.operation.is_some());
        if is_operation && call.via.is_none() && call.tries < 4 {
            self.try_call(id);
        }
    }

    pub(crate) fn delay(&mut self) -> u64 {
        let most = self.faults.delay_ms_max;
        // Most messages are quick; a few take their time.
        if self.random.chance(850) { self.random.below(4) } else { self.random.below(most + 1) }
    }

    /// A request reaches the daemon.
    pub(crate) fn arrive(&mut self, id: CallId, sent: u64) {
        let Some(call) = self.calls.get(&id) else { return };
        let Some(daemon) = &mut self.daemon else { return };
        if call.via.is_some_and(|(_, incarnation)| incarnation != self.incarnation) {
            return;
        }
        if call.tag.is_some_and(|tag| tag != daemon.tag) {
            // An id of another log names nothing here.
            if !call.settled {
                let refused = Answer::Refused(Refused::Rejected(Rejection::LeaseNotFound));
                let from = Sender { tag: daemon.tag, sent };
                let delay = self.delay();
                self.at(delay, Happening::Heard { call: id, from, answer: Box::new(refused) });
            }
            return;
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let request = call.request.clone();
        let ask =
            Ask { call: id, request: request.clone(), sent, handled: None, epoch_before: None, turn: None };
        daemon.asks.insert(ticket, ask);
        let waits = matches!(&request, Request::Submit(submit) if submit.wait_ms > 0);
        let gone = if call.tries > 1 { GONE_PERMILLE.1 } else { GONE_PERMILLE.0 };
        daemon.inbox.push(Input::new(ticket, request));
        self.turn_in(0);
        if waits && self.random.chance(gone) {
            self.told(Control::Cancel(ticket));
        }
    }

    /// An answer reaches its caller.
    pub(crate) fn heard(&mut self, id: CallId, from: Sender, answer: &Answer) -> Result<(), Violation> {
        let Some(call) = self.calls.get_mut(&id) else { return Ok(()) };
        if call.settled {
            return Ok(());
        }
        if let Caller::Client(client) = call.caller {
            let waits = self.clients[client].paused_until;
            if waits > self.now {
                let answer = Box::new(answer.clone());
                let delay = waits - self.now;
                self.at(delay, Happening::Heard { call: id, from, answer });
                return Ok(());
            }
        }
        let may_try_again = tries_again(&call.request) && call.tries < 4 && call.via.is_none();
        let again = may_try_again && matches!(answer, Answer::Refused(_)) && !self.is_dead(id);
        if again && self.random.chance(500) {
            self.try_call(id);
            return Ok(());
        }
        let Some(call) = self.calls.get_mut(&id) else { return Ok(()) };
        call.settled = true;
        let call = call.clone();
        self.forget_call(id);
        match call.caller {
            Caller::Client(client) if self.clients[client].dead => Ok(()),
            Caller::Client(client) => self.understand(client, &call, from, answer),
            Caller::Operator => Ok(()),
            Caller::Host => self.host_heard(&call, answer),
        }
    }

    /// The caller has waited long enough.
    pub(crate) fn give_up(&mut self, id: CallId) {
        let Some(call) = self.calls.get(&id) else { return };
        let again = match &call.request {
            Request::Submit(submit) => submit.operation.is_some() && call.tries < 4,
            _ => false,
        };
        if again && call.via.is_none() && !self.is_dead(id) && self.random.chance(850) {
            self.try_call(id);
        } else {
            self.forget_call(id);
        }
    }

    /// Whether nobody is there any more to try a call again.
    fn is_dead(&self, id: CallId) -> bool {
        match self.calls.get(&id).map(|call| call.caller) {
            Some(Caller::Client(client)) => self.clients[client].dead,
            Some(Caller::Operator | Caller::Host) | None => false,
        }
    }

    fn forget_call(&mut self, id: CallId) {
        if let Some(call) = self.calls.remove(&id)
            && let Caller::Client(client) = call.caller
        {
            self.clients[client].waiting.retain(|other| *other != id);
        }
    }
}

/// Whether a retry of what was refused is decided anew.
fn tries_again(request: &Request) -> bool {
    match request {
        Request::Submit(submit) => submit.operation.as_ref().is_some_and(|operation| operation.tries_again),
        _ => false,
    }
}

/// Where the operation id says what was asked, every try draws something of its own.
fn make_anew(request: &mut Request, drawn: u64) {
    if let Request::Submit(submit) = request
        && submit.operation.as_ref().is_some_and(|operation| operation.asked.is_some())
        && let Action::Grant(grant) = &mut *submit.action
    {
        grant.face_data = drawn.to_le_bytes().to_vec();
    }
}
