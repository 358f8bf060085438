//! The nodes of one cluster, or one daemon: a call goes to the one that answered last, and from there to one after the
//! other until one answers or its time is over. Knows which errors speak of a node and which of the request.
//! Invariant: what may not be sent twice is not; where a try may have been carried out, no later error of a node says
//! that nothing was.

use crate::answer::{accepted, is_success, unexpected};
use crate::backoff::Backoff;
use crate::clock::BootInstant;
use crate::error::CallError;
use crate::transport::{Limits, Opened, Patience, Request, Transport};
use bytes::Bytes;
use core::time::Duration;
use http::{Method, Uri};
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicUsize, Ordering};
use tenure_api::ErrorCode;

/// The ways to all nodes.
pub(crate) struct Nodes {
    transports: Vec<Transport>,
    /// Which one answered last, or is next after one that did not.
    preferred: AtomicUsize,
    request_timeout: Duration,
}

/// A call: its request, and what becomes of it when it is made again.
pub(crate) struct Asking {
    pub(crate) request: Request,
    /// The body, where it has a `wait_ms`: a later try asks for the wait that is left.
    pub(crate) waiting: Option<Map<String, Value>>,
}

/// The answer of one node.
pub(crate) struct Answered<T> {
    /// The instant before the try that was answered.
    pub(crate) sent: BootInstant,
    /// Which node.
    pub(crate) node: usize,
    pub(crate) status: u16,
    pub(crate) body: T,
}

/// How much of an answer is waited for.
#[derive(Clone, Copy)]
enum Reads {
    Whole,
    Head,
}

enum Read {
    Whole(Bytes),
    Head(Opened),
}

/// What an error says about asking another node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// The request was answered, or must not be sent again.
    Nobody,
    /// This node cannot answer it now.
    Another,
}

/// What may take no longer than it is told to leaves a silent node after this long.
const TRY_LIMIT: Duration = Duration::from_secs(2);
/// No try is shorter than this, unless the call is over before.
const TRY_LIMIT_MIN: Duration = Duration::from_millis(100);
/// A node that has not answered for so long is asked whether it is ready at all.
const SILENCE_FIRST: Duration = Duration::from_secs(1);
/// The longest pause between two such questions.
const SILENCE_LONGEST: Duration = Duration::from_secs(8);
/// How long a node may take to say that it is ready.
const READY_LIMIT: Duration = Duration::from_secs(2);
/// The first pause after every node was asked in vain.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
/// The longest of these pauses.
const PAUSE_LONGEST: Duration = Duration::from_secs(1);

impl Nodes {
    pub(crate) fn new(transports: Vec<Transport>, request_timeout: Duration) -> Self {
        Self { transports, preferred: AtomicUsize::new(0), request_timeout }
    }

    /// Whether there is more than one.
    pub(crate) fn are_several(&self) -> bool {
        self.transports.len() > 1
    }

    /// The way to the node that answered last.
    pub(crate) fn preferred(&self) -> &Transport {
        &self.transports[self.preferred.load(Ordering::Relaxed)]
    }

    pub(crate) fn node(&self, node: usize) -> &Transport {
        &self.transports[node]
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Transport> {
        self.transports.iter()
    }

    /// Something that this node had begun broke off: what comes next goes to another.
    pub(crate) fn leave(&self, node: usize) {
        let next = self.after(node);
        // A call that found another node meanwhile is right.
        let _ = self.preferred.compare_exchange(node, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Asks and reads the whole answer.
    pub(crate) async fn exchange(&self, asking: &Asking) -> Result<Answered<Bytes>, CallError> {
        let Answered { sent, node, status, body } = self.ask(asking, Reads::Whole).await?;
        match body {
            Read::Whole(body) => Ok(Answered { sent, node, status, body }),
            Read::Head(_) => unreachable!("invariant: the whole was asked for"),
        }
    }

    /// Asks and leaves the body to be read piece by piece.
    pub(crate) async fn open(&self, asking: &Asking) -> Result<Answered<Opened>, CallError> {
        let Answered { sent, node, status, body } = self.ask(asking, Reads::Head).await?;
        match body {
            Read::Head(body) => Ok(Answered { sent, node, status, body }),
            Read::Whole(_) => unreachable!("invariant: the head was asked for"),
        }
    }

    async fn ask(&self, asking: &Asking, reads: Reads) -> Result<Answered<Read>, CallError> {
        let limit = self.limit(asking.request.patience);
        // On the heap: every call of a program holds one of these, and callers hold several calls.
        if self.are_several() {
            return Box::pin(self.ask_around(asking, reads, limit)).await;
        }
        let sent = BootInstant::now();
        let limits = Limits { connect: Duration::MAX, answer: limit };
        let attempt = self.attempt(&self.transports[0], &asking.request, reads, limits);
        let (status, body) = Box::pin(attempt).await?;
        Ok(Answered { sent, node: 0, status, body })
    }

    async fn ask_around(
        &self,
        asking: &Asking,
        reads: Reads,
        limit: Duration,
    ) -> Result<Answered<Read>, CallError> {
        let begun = BootInstant::now();
        let times = Times::new(begun, limit, asking.request.patience);
        let mut backoff = Backoff::new(PAUSE_FIRST, PAUSE_LONGEST);
        let mut node = self.preferred.load(Ordering::Relaxed);
        let mut unknown = None;
        for tried in 1usize.. {
            let sent = BootInstant::now();
            let rewritten;
            let request = match asking.after(sent.since(begun)) {
                Some(request) => {
                    rewritten = request;
                    &rewritten
                }
                None => &asking.request,
            };
            let error = match self.try_one(node, request, reads, times.limits(sent, request)).await {
                Ok((status, body)) => {
                    self.preferred.store(node, Ordering::Relaxed);
                    return Ok(Answered { sent, node, status, body });
                }
                Err(error) => error,
            };
            let goes_on = next(&error, request.repeatable);
            if goes_on == Next::Nobody && error.code().is_some() {
                self.preferred.store(node, Ordering::Relaxed);
                return Err(error);
            }
            self.leave(node);
            if goes_on == Next::Nobody {
                return Err(error);
            }
            node = self.after(node);
            let mut resume = BootInstant::now();
            if tried.is_multiple_of(self.transports.len()) {
                let advised = error.retry_after().unwrap_or_default().min(PAUSE_LONGEST);
                resume = resume.after(backoff.next_pause().max(advised));
            }
            tracing::debug!(%error, "sending the request to another node");
            // Once the outcome is unknown, only an answer makes it known.
            let error = unknown.take().unwrap_or(error);
            if resume >= times.deadline {
                return Err(with_limit(error, limit));
            }
            unknown = (!error.is_definite()).then_some(error);
            tokio::time::sleep(resume.since(BootInstant::now())).await;
        }
        unreachable!("invariant: tries end at the deadline")
    }

    /// One try, which another node gets next if nobody waits for its end.
    async fn try_one(
        &self,
        node: usize,
        request: &Request,
        reads: Reads,
        limits: Limits,
    ) -> Result<(u16, Read), CallError> {
        let mut patience = Patient { nodes: self, node, is_answered: false };
        let transport = &self.transports[node];
        let answer = self.attempt(transport, request, reads, limits);
        let outcome = match (request.repeatable, request.patience) {
            (true, Patience::Longer(_)) => tokio::select! {
                outcome = answer => outcome,
                after = falls_silent(transport) => Err(CallError::TimedOut { limit: after }),
            },
            (true, Patience::AtMost(_)) | (false, _) => answer.await,
        };
        patience.is_answered = true;
        outcome
    }

    async fn attempt(
        &self,
        transport: &Transport,
        request: &Request,
        reads: Reads,
        limits: Limits,
    ) -> Result<(u16, Read), CallError> {
        let reply = match reads {
            Reads::Whole => transport.exchange(request, limits).await?,
            Reads::Head => {
                let opened = transport.open(request, limits).await?;
                if is_success(opened.status) {
                    return Ok((opened.status, Read::Head(opened)));
                }
                transport.finish(opened, self.request_timeout.min(limits.answer)).await?
            }
        };
        let status = reply.status;
        let body = accepted(reply)?;
        match reads {
            Reads::Whole => Ok((status, Read::Whole(body))),
            Reads::Head => Err(unexpected(status, "not a stream", b"", true)),
        }
    }

    fn after(&self, node: usize) -> usize {
        (node + 1) % self.transports.len()
    }

    fn limit(&self, patience: Patience) -> Duration {
        match patience {
            Patience::Longer(by) => self.request_timeout.saturating_add(by),
            Patience::AtMost(limit) => self.request_timeout.min(limit),
        }
    }
}

/// When a call ends, and how much of that each try may take.
struct Times {
    deadline: BootInstant,
    wait_until: BootInstant,
}

impl Times {
    fn new(begun: BootInstant, limit: Duration, patience: Patience) -> Self {
        let wait = match patience {
            Patience::Longer(by) => by,
            Patience::AtMost(_) => Duration::ZERO,
        };
        Self { deadline: begun.after(limit), wait_until: begun.after(wait) }
    }

    /// A third of what is left, the wait excepted, so that a node that keeps silent is left in time to ask others.
    fn limits(&self, now: BootInstant, request: &Request) -> Limits {
        let left = self.deadline.since(now);
        let wait = self.wait_until.since(now);
        let third = (left.saturating_sub(wait) / 3).max(TRY_LIMIT_MIN);
        let share = match request.patience {
            Patience::Longer(_) => wait.saturating_add(third),
            Patience::AtMost(_) => third.min(TRY_LIMIT),
        };
        let answer = if request.repeatable { share.min(left) } else { left };
        Limits { connect: third.min(TRY_LIMIT) / 2, answer }
    }
}

impl Asking {
    /// The request after so much of its wait went by; `None` where that changes nothing.
    fn after(&self, gone: Duration) -> Option<Request> {
        let gone = u64::try_from(gone.as_millis()).unwrap_or(u64::MAX);
        if gone == 0 {
            return None;
        }
        let mut body = self.waiting.clone()?;
        let left = body.get("wait_ms")?.as_u64()?.saturating_sub(gone);
        if left == 0 {
            body.remove("wait_ms");
        } else {
            body.insert("wait_ms".to_owned(), left.into());
        }
        let body = serde_json::to_vec(&body).ok()?;
        Some(Request { body: Some(body.into()), ..self.request.clone() })
    }
}

/// A call that waits for a node. One that gives up before the answer asks another node next time.
struct Patient<'a> {
    nodes: &'a Nodes,
    node: usize,
    is_answered: bool,
}

impl Drop for Patient<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.nodes.leave(self.node);
        }
    }
}

/// Ends when a node does not say that it is ready, with how long it was asked.
async fn falls_silent(transport: &Transport) -> Duration {
    let request = Request {
        method: Method::GET,
        uri: Uri::from_static("/readyz"),
        headers: Vec::new(),
        body: None,
        repeatable: true,
        patience: Patience::AtMost(READY_LIMIT),
    };
    let limits = Limits { connect: READY_LIMIT, answer: READY_LIMIT };
    let mut pause = SILENCE_FIRST;
    loop {
        tokio::time::sleep(pause).await;
        match transport.exchange(&request, limits).await {
            Ok(reply) if is_success(reply.status) => pause = (pause * 2).min(SILENCE_LONGEST),
            Ok(_) | Err(_) => return READY_LIMIT,
        }
    }
}

fn next(error: &CallError, repeatable: bool) -> Next {
    let speaks_of_node = match error {
        CallError::Rejected(refused) => matches!(
            refused.code,
            ErrorCode::NotLeader
                | ErrorCode::StoreSilent
                | ErrorCode::ShuttingDown
                | ErrorCode::Overloaded
                | ErrorCode::TooManyConnections
                | ErrorCode::OutcomeUnknown
        ),
        CallError::Unreachable { .. } | CallError::Broken { .. } | CallError::TimedOut { .. } => true,
        // A gateway that speaks of a node behind it.
        CallError::Unexpected { status: 502..=504, lost, .. } => !lost,
        CallError::Unexpected { .. } | CallError::Unsendable(_) => false,
    };
    let is_safe = repeatable || error.is_definite();
    if speaks_of_node && is_safe { Next::Another } else { Next::Nobody }
}

/// What was too short is the whole call, not one of its tries.
fn with_limit(error: CallError, limit: Duration) -> CallError {
    match error {
        CallError::TimedOut { .. } => CallError::TimedOut { limit },
        other => other,
    }
}

#[cfg(test)]
mod tests;
