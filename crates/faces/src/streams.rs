//! Sessions of `/api/v3`: one lease, usually over slots of a pool, renewed by heartbeat, that ends by itself when its
//! client is gone. Called streams in code, because a session is liveness' word.
//!
//! Slots are taken in the same step in which a start is decided, and come free in the same step in which a stream
//! ends: both are one command of the engine's writer. Nothing is kept here that the lease could say.

mod book;
mod counters;
mod facts;
mod follow;
mod holding;
mod hook;
mod listing;
mod options;
mod queue;
mod shown;
mod telling;

pub use counters::StreamNumbers;
pub use facts::StreamFacts;
pub use follow::ToldSoFar;
pub use hook::EndHook;
pub use options::{Reuse, StreamOptions};

pub(crate) use book::Book as StreamBook;
pub(crate) use facts::read_id;
pub(crate) use follow::StreamFollow;
pub(crate) use shown::{FAILED, LEASE_EXPIRED, end_words};

use crate::call::Reply;
use crate::caller::Caller;
use crate::dispatch::Faces;
use crate::leases::{self, contradiction};
use crate::limits::{WAIT_MS_MAX, fixed_limit, out_of_range};
use crate::polling::check_not_operators;
use crate::refusal::{Asked, counted};
use facts::draw_id;
use queue::Queued;
use shown::Shown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tenure_api::{self as api, Error, ErrorCode, IntentStatus, SlotSessionState};
use tenure_engine::host::read_clocks;
use tenure_engine::kernel::limits::{
    BUNDLE_MEMBERS_MAX, HOLDER_BYTES_MAX, OPERATION_KEEP_MS_MAX, RESERVE_MS_MAX,
};
use tenure_engine::kernel::{
    Action, Bundle, Face, Grant, LeaseId, LeaseState, Lsn, Member, Policy, Rejection, Start, Text,
};
use tenure_engine::{
    Answer, LeaseAnswer, LeaseFound, LeaseSnapshot, List, OperationId, Pending, Refused, Request, Submit,
};
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::time::Duration;

/// Slot sessions end often: a retry after this long may find a place.
const MAX_SESSIONS_RETRY_MS: u64 = 10_000;

/// Longest words about what a stream is for.
const SERVICE_REF_BYTES_MAX: usize = 1_024;
/// Longest correlation id.
const CORRELATION_ID_BYTES_MAX: usize = 256;
/// Starts under the same key go one after the other; so do some under others.
const STARTING_LANES: usize = 64;
/// Leases that are looked at to say when a slot may come free.
const RETRY_EXAMINED_MAX: usize = 1_000;
/// When no slot of a pool has an end, a retry may help after this long.
const RETRY_MS_DEFAULT: u64 = 10_000;
/// How long the engine is left alone when it had no room to say whether a start queues.
const ASK_AGAIN: Duration = Duration::from_millis(5);

/// The face's own state.
pub(crate) struct Streams {
    pub(crate) book: Arc<StreamBook>,
    pub(crate) options: StreamOptions,
    starting: Vec<Mutex<()>>,
    /// Tries to tell of ends that may be under way.
    telling: Arc<Semaphore>,
    /// How many follow a stream; the log is watched for them.
    followers: watch::Sender<usize>,
    is_watching: AtomicBool,
    /// This node leads, and has not read yet which streams ended before it did.
    recalling: AtomicBool,
}

/// What is asked for, checked.
struct Wish {
    facts: StreamFacts,
    holder: Text,
    policy: Policy,
    bundle: Bundle,
    start: Start,
    attachment: Vec<u8>,
    wait_ms: u64,
    /// The pool that slots are taken from, and how many.
    slots: Option<(Text, u32)>,
    operation: Option<OperationId>,
}

impl Streams {
    pub(crate) fn new(book: Arc<StreamBook>, options: StreamOptions) -> Self {
        let starting = (0..STARTING_LANES).map(|_| Mutex::new(())).collect();
        let telling = Arc::new(Semaphore::new(telling::AT_ONCE_MAX));
        Self {
            book,
            options,
            starting,
            telling,
            followers: watch::Sender::new(0),
            is_watching: AtomicBool::new(false),
            recalling: AtomicBool::new(false),
        }
    }

    /// Streams that ended under another leader are not known until they are recalled.
    pub(crate) fn will_recall(&self) {
        self.recalling.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_recalling(&self) -> bool {
        self.recalling.load(Ordering::Relaxed)
    }

    /// Watches of the face itself.
    pub(crate) fn watches(&self) -> u64 {
        u64::from(self.is_watching.load(Ordering::Relaxed))
    }

    fn wish(
        &self,
        caller: &Caller,
        asked: api::SlotSessionStart,
        operation_id: Option<String>,
    ) -> Result<Wish, Error> {
        let options = &self.options;
        let fits = |name: &str, text: &Option<String>, max: usize| match text {
            Some(text) if text.len() > max => {
                let message = format!("{name} must have at most {max} bytes");
                let limit = format!("{name}_bytes");
                Err(fixed_limit(ErrorCode::TooLarge, message, &limit, max).with("field", name))
            }
            _ => Ok(()),
        };
        fits("service_ref", &asked.service_ref, SERVICE_REF_BYTES_MAX)?;
        fits("correlation_id", &asked.correlation_id, CORRELATION_ID_BYTES_MAX)?;
        let operation = operation(caller, operation_id, &asked)?;
        let wait_ms = asked.wait.unwrap_or(0).saturating_mul(1_000);
        if wait_ms > WAIT_MS_MAX {
            return Err(out_of_range("wait", asked.wait.unwrap_or(0), 0, WAIT_MS_MAX / 1_000));
        }
        let start = match asked.start_timeout {
            None => Start::Active,
            Some(secs) => match secs.checked_mul(1_000).filter(|ms| (1..=RESERVE_MS_MAX).contains(ms)) {
                Some(ttl_ms) => Start::Reserved { ttl_ms },
                None => return Err(out_of_range("start_timeout", secs, 1, RESERVE_MS_MAX / 1_000)),
            },
        };
        let slots = slots(&asked, &options.default_pool)?;
        check_not_operators(asked.resources.iter(), asked.pool.iter())?;
        let named = asked.resources.iter().map(|name| Member::Resource(name.as_str().into()));
        let pooled = slots.iter().map(|(pool, count)| Member::AnyOf { pool: pool.clone(), count: *count });
        let holder = match asked.client {
            Some(client) => leases::holder(client)
                .map_err(|_| contradiction("client must have 1 to 128 bytes and no control characters"))?,
            None => named_after(&caller.principal),
        };
        let told = options.on_end.is_some();
        Ok(Wish {
            bundle: Bundle { members: named.chain(pooled).collect() },
            facts: StreamFacts {
                id: draw_id(),
                service_ref: asked.service_ref,
                correlation_id: asked.correlation_id,
                created_wall_ms: read_clocks().wall_ms,
            },
            holder,
            policy: Policy {
                face: Face::Streams,
                principal: caller.principal.clone(),
                max_lifetime_ms: options.max_lifetime_ms,
                notice: told,
                gate: told && options.reuse == Reuse::AfterHook,
                ..Policy::heartbeat(options.lease_ttl_ms, options.grace_ms)
            },
            start,
            attachment: leases::attachment(asked.metadata.map(serde_json::Value::Object).as_ref())?,
            wait_ms,
            slots,
            operation,
        })
    }
}

/// The pool that slots are asked from, and how many; `None` where only resources are named.
pub(crate) fn slots(asked: &api::SlotSessionStart, default_pool: &str) -> Result<Option<(Text, u32)>, Error> {
    if asked.pool.is_none() && asked.count.is_none() && !asked.resources.is_empty() {
        return Ok(None);
    }
    let count = asked.count.unwrap_or(1);
    if !(1..=BUNDLE_MEMBERS_MAX as u32).contains(&count) {
        let message = format!("count is {count}, but must be between 1 and {BUNDLE_MEMBERS_MAX}");
        return Err(Error::new(ErrorCode::InvalidRequest, message).with("field", "count"));
    }
    let pool = asked.pool.as_deref().unwrap_or(default_pool);
    Ok(Some((pool.into(), count)))
}

/// A holder called like a principal, as far as that fits.
pub(crate) fn named_after(principal: &Text) -> Text {
    let mut end = principal.len().min(HOLDER_BYTES_MAX);
    while !principal.is_char_boundary(end) {
        end -= 1;
    }
    principal[..end].into()
}

/// The operation under which something is asked; its outcome is kept for a day.
pub(crate) fn operation(
    caller: &Caller,
    id: Option<String>,
    asked: &impl serde::Serialize,
) -> Result<Option<OperationId>, Error> {
    let operation = leases::operation_on(caller, id, asked)?;
    Ok(operation.map(|operation| OperationId { keep_ms: OPERATION_KEEP_MS_MAX, ..operation }))
}

/// One line for a stream that ended.
pub(crate) fn log_end(id: &str, state: SlotSessionState, reason: &str) {
    let event = if reason == LEASE_EXPIRED { "session.lease_expired" } else { "session.ended" };
    tracing::info!(event = %event, session_id = %id, state = %state.as_str(), reason = %reason, "Session ended:");
}

/// One line for a stream whose lease ended.
pub fn log_stream_end(facts: &StreamFacts, reason: tenure_engine::kernel::Reason, text: &str) {
    let (state, reason) = end_words(reason, text);
    log_end(&facts.id, state, &reason);
}

impl Faces {
    /// Makes the pools that the settings name where they are missing. What is there is left as it is.
    ///
    /// # Errors
    /// When a pool cannot be made.
    pub async fn make_pools(&self) -> Result<(), Error> {
        let there = self.pools().await?;
        for (name, size) in &self.streams().options.pools {
            if there.iter().any(|pool| pool.name == name.as_str()) {
                continue;
            }
            let action = Action::DefinePool { name: name.as_str().into(), size: *size };
            match self.ask(Request::Submit(Submit::now(action))).await {
                Answer::Done { .. } => tracing::info!(pool = %name, size, "pool of the settings created"),
                other => return Err(self.not_that(other, Asked::AsAnyone)),
            }
        }
        Ok(())
    }

    pub(crate) async fn start_stream(
        &self,
        caller: &Caller,
        asked: api::SlotSessionStart,
        operation_id: Option<String>,
    ) -> Result<Reply, Error> {
        let started = match self.streams().wish(caller, asked, operation_id) {
            Ok(wish) => {
                let faces = self.clone();
                // Goes on when its caller leaves: what was granted must be in the book.
                let task = tokio::spawn(async move { faces.start_wish(wish).await });
                task.await
                    .unwrap_or_else(|_| Err(Error::new(ErrorCode::ShuttingDown, "the daemon is stopping")))
            }
            Err(error) => Err(error),
        };
        match started {
            Ok((shown, status)) => {
                let stream = api::SlotSession { status: Some(status), ..shown.stream };
                Ok(Reply::Stream(Box::new(stream)))
            }
            Err(error) => {
                self.streams().book.counters.rejected(error.code);
                Err(error)
            }
        }
    }

    async fn start_wish(&self, wish: Wish) -> Result<(Shown, IntentStatus), Error> {
        let streams = self.streams();
        let _lane = match &wish.operation {
            Some(operation) => {
                let lane = crate::sessions::bits_of(&operation.principal, &operation.id, b"start");
                Some(streams.starting[(lane % STARTING_LANES as u64) as usize].lock().await)
            }
            None => None,
        };
        if let Some(shown) = self.replayed_stream(wish.operation.as_ref()).await? {
            return Ok((shown, IntentStatus::IdempotentReplay));
        }
        let Some(admitted) = streams.book.admit(streams.options.max_sessions) else {
            let max = streams.options.max_sessions;
            let message = format!("the limit of slot sessions is reached: sessions.max_sessions = {max}");
            let hint = "end slot sessions, or raise sessions.max_sessions";
            let error =
                Error::new(ErrorCode::CapacityExceeded, message).hint(hint).with("capacity", "sessions");
            let setting = "sessions.max_sessions";
            return Err(error
                .with("limit", "max_sessions")
                .with("value", max)
                .with("setting", setting)
                .retry_after(MAX_SESSIONS_RETRY_MS));
        };
        let grant = Grant {
            start: wish.start,
            attachment: wish.attachment.clone(),
            face_data: wish.facts.encode(),
            ..Grant::new(wish.bundle.clone(), &wish.holder, wish.policy.clone())
        };
        let submit = Submit {
            operation: wish.operation.clone(),
            wait_ms: wish.wait_ms,
            asker: Some(wish.policy.principal.clone()),
            ..Submit::now(Action::Grant(grant))
        };
        let id = wish.facts.id.clone();
        let mut pending = self.start(Request::Submit(submit));
        let answer = match wish.wait_ms {
            0 => (&mut pending).await.into_iter().next(),
            _ => match self.unless_queued(&mut pending).await {
                Some(answer) => Some(answer),
                None => {
                    self.enqueue_wish(wish, pending, admitted);
                    return Ok((self.stream(&id).await?, IntentStatus::Accepted));
                }
            },
        };
        let answer = answer.unwrap_or(Answer::Refused(Refused::OutcomeUnknown));
        self.started(answer, &wish).await
    }

    /// The answer to a start that need not wait; `None` once it queues.
    async fn unless_queued(&self, pending: &mut Pending) -> Option<Answer> {
        let ticket = pending.first_ticket();
        loop {
            tokio::select! {
                biased;
                answers = &mut *pending => return answers.into_iter().next(),
                place = self.ask(Request::Waiting(ticket)) => match place {
                    Answer::Waiting { place: Some(_), .. } => return None,
                    // Not decided yet.
                    Answer::Waiting { place: None, .. } => tokio::task::yield_now().await,
                    _ => tokio::time::sleep(ASK_AGAIN).await,
                },
            }
        }
    }

    /// What the book knows of an operation: the stream that queued or left the queue under it.
    async fn replayed_stream(&self, operation: Option<&OperationId>) -> Result<Option<Shown>, Error> {
        let Some(operation) = operation else { return Ok(None) };
        let Some((id, asked)) = self.streams().book.operation(operation) else { return Ok(None) };
        if Some(asked) != operation.asked {
            let message = "the Idempotency-Key was used for another request";
            return Err(Error::new(ErrorCode::OperationConflict, message));
        }
        Ok(Some(self.stream(&id).await?))
    }

    fn enqueue_wish(&self, wish: Wish, pending: Pending, admitted: book::Admitted) {
        let Wish { facts, holder, policy, attachment, operation, .. } = wish;
        let queued = Arc::new(Queued::new(facts, holder, policy, attachment, pending.first_ticket()));
        self.streams().book.enqueue(&queued, operation.as_ref());
        // The book counts it from here on.
        drop(admitted);
        tokio::spawn(self.clone().keep_place(queued, pending));
    }

    async fn started(&self, answer: Answer, wish: &Wish) -> Result<(Shown, IntentStatus), Error> {
        let given = match answer {
            Answer::Lease(given) => *given,
            Answer::Refused(refused) => return Err(self.not_started(&refused, wish).await),
            other => return Err(self.not_that(other, Asked::AsAnyone)),
        };
        let LeaseAnswer { lsn, replayed, lease } = given;
        let status = if replayed { IntentStatus::IdempotentReplay } else { IntentStatus::Accepted };
        let shown = match lease {
            LeaseFound::Live(lease) => {
                let facts = StreamFacts::decode(&lease.face_data);
                if let Some(facts) = facts.filter(|_| !matches!(lease.state, LeaseState::Revoking(_))) {
                    self.streams().book.enter(lease.id, &facts, &lease.policy);
                }
                self.shown_live(&lease, lsn)
            }
            LeaseFound::Ended { id, ended, fence } => self.shown_ended(id, ended.ended_lsn, fence, lsn).await,
            LeaseFound::JustEnded { .. } | LeaseFound::Retired => None,
        };
        let shown = shown.ok_or_else(|| {
            Error::new(
                ErrorCode::SessionGone,
                "the session of this key ended, and its details are not kept any more",
            )
        });
        Ok((shown?, status))
    }

    /// Why a start was refused; no free slot is told with what is known of its pool.
    async fn not_started(&self, refused: &Refused, wish: &Wish) -> Error {
        let pool = match refused {
            Refused::Rejected(Rejection::PoolExhausted { pool, .. }) => Some(pool),
            // Slots are free, but others queued for them first.
            Refused::Queued { resource, .. } => Some(resource),
            _ => None,
        };
        match (pool, &wish.slots) {
            (Some(pool), Some((asked, count))) if pool == asked => self.no_capacity(asked, *count).await,
            _ => self.not_that(Answer::Refused(refused.clone()), Asked::AsAnyone),
        }
    }

    async fn no_capacity(&self, pool: &Text, wanted: u32) -> Error {
        let pools = match self.pools().await {
            Ok(pools) => pools,
            Err(error) => return error,
        };
        let Some(found) = pools.iter().find(|found| found.name == *pool) else {
            let message = format!("pool {:?} does not exist", pool.as_str());
            return Error::new(ErrorCode::PoolNotFound, message).with("pool", pool.as_str());
        };
        let (size, in_use) = (found.size, found.size.saturating_sub(found.free));
        if wanted > size {
            let message = format!(
                "the request needs {}, but pool {:?} has only {size}",
                counted(wanted, "slot"),
                pool.as_str()
            );
            return Error::new(ErrorCode::InvalidRequest, message).with("field", "count");
        }
        let message = match found.free {
            free if free >= wanted => format!("other sessions wait for pool {:?} first", pool.as_str()),
            free => format!(
                "pool {:?} has {free} of {size} slots free, the request needs {wanted}",
                pool.as_str()
            ),
        };
        let retry_ms = self.slot_may_end_in(pool).await.unwrap_or(RETRY_MS_DEFAULT).max(1_000);
        Error::new(ErrorCode::NoCapacity, message)
            .with("pool", pool.as_str())
            .with("size", size)
            .with("in_use", in_use)
            .retry_after(retry_ms)
    }

    /// When the first slot of a pool can come free by itself; `None` where none will.
    async fn slot_may_end_in(&self, pool: &Text) -> Option<u64> {
        let list = List {
            from: LeaseId::new(self.identity().shard, Lsn(0)),
            limit: RETRY_EXAMINED_MAX,
            resource_prefix: Some(format!("{pool}/").into()),
            holder: None,
        };
        match self.ask(Request::List(list)).await {
            Answer::Leases { leases, .. } => leases.iter().filter_map(ends_in).min(),
            _ => None,
        }
    }

    /// What is counted of streams.
    pub async fn stream_numbers(&self) -> StreamNumbers {
        let book = &self.streams().book;
        let (mut from, mut draining) = (LeaseId::new(self.identity().shard, Lsn(0)), 0);
        loop {
            let leases = book.live_from(from, RETRY_EXAMINED_MAX);
            let Some(last) = leases.last() else { return book.counters.read(book.queued(), draining) };
            from = LeaseId(last.0 + 1);
            let answers = self.handle().call_all(leases.into_iter().map(Request::Read).collect()).await;
            let live = answers.iter().filter_map(Answer::live);
            draining += live.filter(|lease| is_draining(lease)).count();
        }
    }

    /// Learns which streams there are. Before anybody is served.
    ///
    /// # Errors
    /// When the engine takes nothing more.
    pub async fn restore_streams(&self) -> Result<(), Error> {
        let mut from = LeaseId::new(self.identity().shard, Lsn(0));
        loop {
            let list = List { from, limit: RETRY_EXAMINED_MAX, resource_prefix: None, holder: None };
            let (leases, next) = match self.ask_for_itself(Request::List(list)).await {
                Answer::Leases { leases, next, .. } => (leases, next),
                other => return Err(self.not_that(other, Asked::AsAnyone)),
            };
            for lease in leases.iter().filter(|lease| lease.policy.face == Face::Streams) {
                if let Some(facts) = StreamFacts::decode(&lease.face_data) {
                    self.streams().book.enter(lease.id, &facts, &lease.policy);
                }
            }
            match next {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// Remembers streams that ended before the daemon started.
    pub async fn recall_streams(&self) {
        let book = &self.streams().book;
        let is_complete = self.each_ended(Face::Streams, |lease, _, event, _| {
            if let Some(was) = event.change.epitaph()
                && let Some(facts) = StreamFacts::decode(&was.face_data)
            {
                book.end(lease, &facts, &was.policy);
            }
        });
        if is_complete.await {
            self.streams().recalling.store(false, Ordering::Relaxed);
        }
    }
}

fn is_draining(lease: &LeaseSnapshot) -> bool {
    matches!(lease.liveness.standing, Some(tenure_engine::liveness::Standing::Draining(_)))
}

/// When a lease can end by itself.
fn ends_in(lease: &LeaseSnapshot) -> Option<u64> {
    let grace_ms = match lease.liveness.standing {
        Some(tenure_engine::liveness::Standing::Alive) => u64::from(lease.policy.grace_ms),
        Some(tenure_engine::liveness::Standing::Draining(_)) | None => 0,
    };
    let deadline = match lease.state {
        LeaseState::Reserved { deadline } => Some(deadline),
        LeaseState::Active { .. } | LeaseState::Revoking(_) => lease.liveness.deadline,
    };
    deadline.map(|deadline| deadline.ms_since(lease.now) + grace_ms)
}
