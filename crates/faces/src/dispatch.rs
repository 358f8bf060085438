//! One operation, one implementation: every transport comes through here. Calls of one read go to the engine
//! together and come back together.

use crate::ask::{Plan, Seen, Shape, acknowledge, heartbeat, lease_id, plan};
use crate::call::{Call, Reply};
use crate::caller::{Caller, Origin, Scope};
use crate::events::told_end;
use crate::leases::{self, connection_grace_ms, contradiction};
use crate::limits::{GRACE_MS_MAX, TTL_MS_MAX, TTL_MS_MIN, bounded};
use crate::refusal::{self, Asked};
use crate::sessions;
use crate::show::{Ended, Lens};
pub use crate::status::Vitals;
use crate::switchboard::{LostLease, Switchboard};
use crate::{status, story};
use std::sync::{Arc, Mutex, OnceLock};
use tenure_api::{self as api, Error, ErrorCode, LeaseQuery};
use tenure_engine::host::read_clocks;
use tenure_engine::kernel::{
    Action, Actor, EndedLease, Event, Evidence, LeaseId, Lsn, OpenSession, Policy, Reason, Rebind, ReclaimBy,
    Revoke, SessionId, SessionKind, Text,
};
use tenure_engine::{
    Answer, Handle, LeaseFound, LeaseSnapshot, List, Request, SessionSnapshot, Status, Submit, Ticket,
};
use tenure_history::{History, Identity, session_kind, wire_session};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Everything a daemon can be asked. Cheap to clone.
#[derive(Clone)]
pub struct Faces {
    shared: Arc<Shared>,
}

struct Shared {
    handle: Handle,
    identity: Identity,
    switchboard: Arc<Switchboard>,
    history: Mutex<History>,
    vitals: OnceLock<Vitals>,
}

/// A connection that is a session. However it goes out of scope, the session's end is noticed.
pub struct Opening {
    faces: Faces,
    session: SessionId,
    /// Losses of leases that the connection keeps.
    losses: UnboundedReceiver<LostLease>,
}

/// Withdraws a waiting request whose asker has gone. A lease that was granted all the same is given up,
/// unless an operation id lets the asker find it again.
struct Waiting {
    handle: Handle,
    ticket: Ticket,
    pending: Option<tenure_engine::Pending>,
    findable: bool,
}

/// Leases ended together when the daemon is told to end all.
const END_PAGE: usize = 500;
/// Drawn session ids that turn out to be taken before it is called a bug.
const DRAWS_MAX: usize = 16;

impl Faces {
    /// Composes the faces over a running engine.
    #[must_use]
    pub fn new(handle: Handle, switchboard: Arc<Switchboard>, history: History) -> Self {
        let identity = *history.identity();
        let shared =
            Shared { handle, identity, switchboard, history: Mutex::new(history), vitals: OnceLock::new() };
        Self { shared: Arc::new(shared) }
    }

    /// Tells what the daemon knows of itself, once it does.
    pub fn set_vitals(&self, vitals: Vitals) {
        // A daemon starts once.
        let _ = self.shared.vitals.set(vitals);
    }

    /// Whose log this is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.shared.identity
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.shared.handle
    }

    pub(crate) fn switchboard(&self) -> &Switchboard {
        &self.shared.switchboard
    }

    pub(crate) fn lens(&self) -> Lens<'_> {
        Lens { identity: self.identity(), wall_ms: read_clocks().wall_ms }
    }

    /// Opens a session for a connection.
    ///
    /// # Errors
    /// When the engine takes nothing more.
    pub async fn open_connection(
        &self,
        kind: SessionKind,
        principal: &Text,
        scope: Scope,
    ) -> Result<(Opening, Caller), Error> {
        let session = self
            .open_session(
                |session| {
                    Request::ConnectionOpened(OpenSession {
                        session,
                        holder: principal.clone(),
                        kind,
                        ttl_ms: 0,
                        grace_ms: connection_grace_ms(kind),
                        principal: principal.clone(),
                    })
                },
                || sessions::draw(kind),
            )
            .await?;
        let (line, losses) = unbounded_channel();
        self.switchboard().connect(session, line);
        let caller =
            Caller { principal: principal.clone(), scope, origin: Origin::Connection { session, kind } };
        Ok((Opening { faces: self.clone(), session, losses }, caller))
    }

    /// Opens a session under an id that is not taken.
    async fn open_session(
        &self,
        request: impl Fn(SessionId) -> Request,
        draw: impl Fn() -> SessionId,
    ) -> Result<SessionId, Error> {
        let mut refused = None;
        for _ in 0..DRAWS_MAX {
            let session = draw();
            match self.ask(request(session)).await {
                Answer::Refused(taken) if taken.code() == "session_exists" => refused = Some(taken),
                Answer::Refused(other) => {
                    return Err(refusal::error(&self.lens(), &other, Asked::AsAnyone));
                }
                _ => return Ok(session),
            }
        }
        let refused = refused.expect("invariant: at least one id was drawn");
        Err(refusal::error(&self.lens(), &refused, Asked::AsAnyone))
    }

    /// Carries out one call.
    ///
    /// # Errors
    /// Why it was not carried out.
    pub async fn dispatch(&self, caller: &Caller, call: Call) -> Result<Reply, Error> {
        let waits = call.wait_ms() > 0;
        match self.plan(caller, call)? {
            Plan::Ask(request, shape) => {
                let answer = if waits { self.wait(*request).await } else { self.ask(*request).await };
                self.reply(shape, answer).await
            }
            Plan::Steps(call) => self.steps(caller, call).await,
        }
    }

    /// Carries out the calls of one read. The answers come together, in the order asked.
    pub async fn dispatch_all(&self, caller: &Caller, calls: Vec<Call>) -> Vec<Result<Reply, Error>> {
        let mut requests = Vec::with_capacity(calls.len());
        let plans: Vec<Result<Planned, Error>> = calls
            .into_iter()
            .map(|call| {
                Ok(match self.plan(caller, call)? {
                    Plan::Ask(request, shape) => {
                        requests.push(*request);
                        Planned::Asked(shape)
                    }
                    Plan::Steps(call) => Planned::Steps(call),
                })
            })
            .collect();
        let mut answers = match requests.len() {
            0 => Vec::new(),
            _ => self.handle().call_all(requests).await,
        }
        .into_iter();
        let mut replies = Vec::with_capacity(plans.len());
        for planned in plans {
            replies.push(match planned {
                Ok(Planned::Asked(shape)) => match answers.next() {
                    Some(answer) => self.reply(shape, answer).await,
                    None => Err(unknown()),
                },
                Ok(Planned::Steps(call)) => self.steps(caller, call).await,
                Err(error) => Err(error),
            });
        }
        replies
    }

    fn plan(&self, caller: &Caller, call: Call) -> Result<Plan, Error> {
        if call.scope() > caller.scope {
            let message =
                format!("this needs scope {}, not {}", call.scope().as_str(), caller.scope.as_str());
            return Err(Error::new(ErrorCode::Forbidden, message).with("scope", call.scope().as_str()));
        }
        plan(self.identity(), caller, call)
    }

    async fn ask(&self, request: Request) -> Answer {
        let answer = self.handle().start(request).await.pop();
        answer.unwrap_or(Answer::Refused(tenure_engine::Refused::OutcomeUnknown))
    }

    async fn wait(&self, request: Request) -> Answer {
        let findable = matches!(&request, Request::Submit(submit) if submit.operation.is_some());
        let pending = self.handle().start(request);
        let ticket = pending.first_ticket();
        let mut waiting = Waiting { handle: self.handle().clone(), ticket, pending: Some(pending), findable };
        let answer = match &mut waiting.pending {
            Some(pending) => pending.await.pop(),
            None => None,
        };
        waiting.pending = None;
        answer.unwrap_or(Answer::Refused(tenure_engine::Refused::OutcomeUnknown))
    }

    /// Numbers about everything, as the engine counts.
    ///
    /// # Errors
    /// When the engine takes nothing more.
    pub async fn engine_status(&self) -> Result<Box<Status>, Error> {
        match self.ask(Request::Status).await {
            Answer::Status(status) => Ok(status),
            Answer::Refused(refused) => Err(refusal::error(&self.lens(), &refused, Asked::AsAnyone)),
            _ => Err(unknown()),
        }
    }

    /// The newest snapshot: its position and when it was taken, in unix milliseconds.
    #[must_use]
    pub fn last_snapshot(&self) -> Option<(u64, u64)> {
        self.handle().last_snapshot().map(|(lsn, wall_ms)| (lsn.0, wall_ms))
    }

    pub(crate) async fn synced_lsn(&self) -> Result<Lsn, Error> {
        Ok(self.engine_status().await?.synced_lsn)
    }

    /// Whether the engine answers at all.
    pub async fn is_ready(&self) -> bool {
        self.engine_status().await.is_ok()
    }

    pub(crate) async fn oldest_lsn(&self) -> Result<Lsn, Error> {
        self.with_history(|history| history.oldest_lsn()).await?.map_err(|error| unreadable(&error))
    }

    /// The event at a position, if it is still kept.
    pub(crate) async fn logged_event(&self, lsn: Lsn) -> Option<Event> {
        Some(self.logged(lsn).await?.0)
    }

    async fn logged(&self, lsn: Lsn) -> Option<(Event, u64)> {
        let record = self.with_history(move |history| history.record(lsn)).await.ok()?.ok()??;
        record.event().cloned().map(|event| (event, record.wall_ms))
    }

    async fn with_history<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut History) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let shared = Arc::clone(&self.shared);
        let task = tokio::task::spawn_blocking(move || {
            let mut history = shared.history.lock().expect("invariant: nobody panics while reading the log");
            read(&mut history)
        });
        task.await.map_err(|_| Error::new(ErrorCode::ShuttingDown, "the daemon is stopping"))
    }

    /// Makes the indexes that keep `why` quick. Blocks on the disk.
    pub async fn maintain_indexes(&self) {
        match self.with_history(|history| history.maintain_indexes()).await {
            Ok(Ok(_)) | Err(_) => {}
            Ok(Err(error)) => tracing::warn!(%error, "an index of the log could not be made"),
        }
    }

    async fn reply(&self, shape: Shape, answer: Answer) -> Result<Reply, Error> {
        let lens = self.lens();
        let answer = match answer {
            Answer::Refused(refused) => return Err(refusal::error(&lens, &refused, shape.asked())),
            answer => answer,
        };
        Ok(match (shape, answer) {
            (Shape::Lease(_), Answer::Lease(given)) => {
                let mut lease = self.found(given.lease, given.lsn).await?;
                lease.replayed = given.replayed;
                Reply::Lease(Box::new(lease))
            }
            (Shape::Lease(_), Answer::Read(read)) => {
                let mut lease = self.found(read.lease, read.lsn).await?;
                lease.waiters = Some(read.waiters.iter().map(Text::to_string).collect());
                Reply::Lease(Box::new(lease))
            }
            (Shape::Renewed { lease, epoch }, Answer::Renewed { valid_ms, remaining_ms, draining, lsn }) => {
                Reply::Renewed(api::Renewed {
                    lease_id: lens.lease_id(lease),
                    epoch,
                    valid_ms,
                    remaining_ms,
                    draining,
                    server_time: lens.now(),
                    lsn: lsn.0,
                })
            }
            (Shape::Leases(query), Answer::Leases { leases, next, lsn }) => {
                let shown = leases.iter().map(|lease| lens.lease(lease, lsn));
                Reply::Leases(api::LeaseList {
                    leases: shown.filter(|lease| matches(&query, lease)).collect(),
                    next_cursor: next.map(|next| lens.lease_id(next)),
                    lsn: lsn.0,
                })
            }
            (Shape::Resources(prefix), Answer::Leases { leases, next, lsn }) => {
                let held = leases.iter().flat_map(|lease| resources(&lens, lease, &prefix, lsn));
                Reply::Resources(api::ResourceList {
                    resources: held.collect(),
                    next_cursor: next.map(|next| lens.lease_id(next)),
                    lsn: lsn.0,
                })
            }
            (Shape::Resource(name), Answer::Resource { lease, waiters, lsn }) => {
                let waiters = Some(waiters.iter().map(Text::to_string).collect());
                Reply::Resource(resource(&lens, name, lease.as_deref(), waiters, lsn))
            }
            (Shape::Session(seen), Answer::Session { session, .. }) if !seen.includes(&session.principal) => {
                return Err(Error::new(ErrorCode::Forbidden, "the session belongs to another principal"));
            }
            (Shape::Session(_), Answer::Session { session, lsn }) => {
                Reply::Session(lens.session(&session, lsn))
            }
            (Shape::Sessions(seen), Answer::Sessions { sessions, next, lsn }) => {
                let shown = sessions.iter().filter(|session| seen.includes(&session.principal));
                Reply::Sessions(api::SessionList {
                    sessions: shown.map(|session| lens.session(session, lsn)).collect(),
                    next_cursor: next.map(wire_session),
                    lsn: lsn.0,
                })
            }
            (Shape::SessionRenewed(session), Answer::SessionRenewed { lsn, valid_ms, ended, draining }) => {
                Reply::SessionRenewed(api::SessionRenewed {
                    session: wire_session(session),
                    lsn: lsn.0,
                    valid_ms,
                    ended: ended.map(|ended| {
                        let lost = ended.iter().map(|loss| api::EndedLease {
                            lease_id: lens.lease_id(loss.lease),
                            reason: loss.reason.as_str().to_owned(),
                        });
                        lost.collect()
                    }),
                    draining: draining.iter().map(|lease| lens.lease_id(*lease)).collect(),
                    server_time: lens.now(),
                })
            }
            (Shape::SessionEnd(session), Answer::Done { lsn, .. }) => {
                Reply::SessionEnd(api::SessionEnd { session: wire_session(session), lsn: lsn.0 })
            }
            (Shape::Pools, Answer::Pools { pools, lsn }) => Reply::Pools(api::PoolList {
                pools: pools.iter().map(|pool| shown_pool(pool, lsn)).collect(),
                next_cursor: None,
                lsn: lsn.0,
            }),
            (Shape::Pool(name), Answer::Pools { pools, lsn }) => {
                let found = pools.iter().find(|pool| pool.name == name).ok_or_else(|| {
                    let message = format!("there is no pool {name:?}");
                    Error::new(ErrorCode::PoolNotFound, message).with("pool", name.as_str())
                })?;
                Reply::Pool(shown_pool(found, lsn))
            }
            (Shape::Checked, Answer::Checked(checked)) => Reply::Checked(api::CheckAnswer {
                current: checked.current,
                lease_id: checked.lease.map(|lease| lens.lease_id(lease)),
                holder: checked.holder.map(|holder| holder.to_string()),
                epoch: checked.epoch.map(|epoch| epoch.0),
                fence: checked.fence.map(|fence| fence.0),
                lsn: checked.lsn.0,
            }),
            (Shape::Status, Answer::Status(found)) => {
                let vitals = self.shared.vitals.get().cloned().unwrap_or_default();
                let (now, snapshot) = (read_clocks().boot_ms, self.last_snapshot());
                Reply::Status(Box::new(status::shown(&lens, &vitals, &found, now, snapshot)))
            }
            (Shape::BreakerReset, Answer::Done { lsn, .. }) => {
                Reply::BreakerReset(api::BreakerReset { lsn: lsn.0 })
            }
            (_, answer) => {
                tracing::error!(?answer, "an answer of another kind than was asked for");
                return Err(Error::new(ErrorCode::Internal, "the engine answered something else"));
            }
        })
    }

    /// A lease as it is shown. What ended a while ago is told by the event that ended it.
    async fn found(&self, found: LeaseFound, lsn: Lsn) -> Result<api::Lease, Error> {
        let retired = || Error::new(ErrorCode::LeaseRetired, "the lease ended too long ago to be shown");
        match found {
            LeaseFound::Live(lease) => Ok(self.lens().lease(&lease, lsn)),
            LeaseFound::JustEnded { was, state, reason, text, fence } => {
                let ended_wall_ms = read_clocks().wall_ms;
                let ended = Ended { was: &was, state, reason, text: &text, fence, ended_wall_ms };
                Ok(self.lens().ended(&ended, lsn))
            }
            LeaseFound::Ended { ended, fence, .. } => {
                let EndedLease { ended_lsn, epoch, .. } = ended;
                let (event, wall_ms) = self.logged(ended_lsn).await.ok_or_else(retired)?;
                let told = told_end(&event.change).ok_or_else(retired)?;
                let mut lease = self.lens().ended(&Ended { fence, ended_wall_ms: wall_ms, ..told }, lsn);
                lease.epoch = epoch.0;
                Ok(lease)
            }
            LeaseFound::Retired => Err(retired()),
        }
    }

    /// Calls that take more than one step. What a later step rests on cannot change in between: terms of a
    /// lease change only with its epoch, a session's never.
    async fn steps(&self, caller: &Caller, call: Call) -> Result<Reply, Error> {
        match call {
            Call::Heartbeat(id, body) => {
                let lease = self.held_as(&id, body.holder.as_deref()).await?;
                let shape = Shape::Renewed { lease, epoch: body.epoch };
                let answer = self.ask(heartbeat(caller, lease, &body)).await;
                self.reply(shape, answer).await
            }
            Call::Acknowledge(id, body) => {
                let lease = self.held_as(&id, body.holder.as_deref()).await?;
                let answer = self.ask(acknowledge(caller, lease, &body)).await;
                self.reply(Shape::Lease(Asked::AsHolder), answer).await
            }
            Call::Resume(id, body) => self.resume(caller, &id, body).await,
            Call::Rebind(id, body) => self.rebind(caller, &id, body).await,
            Call::Handover(id, body) => self.hand_over(caller, &id, body).await,
            Call::OpenSession(body) => self.open_by_hand(caller, body).await,
            Call::DefinePool(name, body) => {
                let action = Action::DefinePool { name: name.as_str().into(), size: body.size };
                self.done(Submit::now(action)).await?;
                let answer = self.ask(Request::Pools).await;
                self.reply(Shape::Pool(name), answer).await
            }
            Call::RemovePool(name, body) => {
                let action = Action::RemovePool { name: name.as_str().into(), force: body.force };
                let lsn = self.done(Submit::now(action)).await?;
                Ok(Reply::Pool(api::Pool { name, size: 0, free: 0, removed: true, lsn: lsn.0 }))
            }
            Call::Why(query) => self.why(query).await,
            Call::EndAll => self.end_all().await,
            other => unreachable!("invariant: {other:?} is one request"),
        }
    }

    async fn done(&self, submit: Submit) -> Result<Lsn, Error> {
        match self.ask(Request::Submit(submit)).await {
            Answer::Done { lsn, .. } => Ok(lsn),
            Answer::Refused(refused) => Err(refusal::error(&self.lens(), &refused, Asked::AsAnyone)),
            _ => Err(unknown()),
        }
    }

    async fn live(&self, id: &str) -> Result<LeaseSnapshot, Error> {
        let lease = lease_id(self.identity(), id, Asked::AsHolder)?;
        match self.ask(Request::Read(lease)).await {
            Answer::Read(read) => match read.lease {
                LeaseFound::Live(live) => Ok(live),
                LeaseFound::JustEnded { state, .. } => Err(ended_error(state)),
                LeaseFound::Ended { ended, .. } => Err(ended_error(ended.state)),
                LeaseFound::Retired => Err(refusal::no_lease(Asked::AsHolder)),
            },
            Answer::Refused(refused) => Err(refusal::error(&self.lens(), &refused, Asked::AsHolder)),
            _ => Err(unknown()),
        }
    }

    /// The lease, if it is held in this name.
    async fn held_as(&self, id: &str, holder: Option<&str>) -> Result<LeaseId, Error> {
        let live = self.live(id).await?;
        if holder.is_some_and(|holder| live.holder != holder) {
            return Err(Error::new(ErrorCode::HolderMismatch, "the lease is held in another name"));
        }
        Ok(live.id)
    }

    async fn rebound(
        &self,
        caller: &Caller,
        rebind: Rebind,
        operation_id: Option<String>,
    ) -> Result<Reply, Error> {
        let operation = leases::operation(caller, operation_id)?;
        let asker = Some(caller.principal.clone());
        let submit = Submit { operation, asker, ..Submit::now(Action::Rebind(rebind)) };
        let answer = self.ask(Request::Submit(submit)).await;
        self.reply(Shape::Lease(Asked::AsHolder), answer).await
    }

    /// A lease of a connection comes back on another one.
    async fn resume(&self, caller: &Caller, id: &str, body: api::HolderCall) -> Result<Reply, Error> {
        let Origin::Connection { session, .. } = caller.origin else {
            return Err(contradiction("only a connection can resume a lease"));
        };
        let live = self.live(id).await?;
        if live.policy.session.is_none_or(|kept_by| session_kind(kept_by) == SessionKind::ByHand) {
            return Err(Error::new(ErrorCode::NoLiveness, "only a lease of a connection can be resumed"));
        }
        let rebind = Rebind {
            token: leases::token(live.id, body.epoch, body.holder),
            holder: None,
            policy: Some(Policy { session: Some(session), ..live.policy }),
            attachment: None,
            face_data: None,
        };
        self.rebound(caller, rebind, body.operation_id).await
    }

    async fn rebind(&self, caller: &Caller, id: &str, body: api::Rebind) -> Result<Reply, Error> {
        let live = self.live(id).await?;
        let wanted = body.session.as_deref().map(sessions::parse).transpose()?;
        let session = self.session_by_hand(wanted.unwrap_or(SessionId(0))).await?;
        if session.principal != caller.principal {
            return Err(Error::new(ErrorCode::Forbidden, "the session belongs to another principal"));
        }
        let rebind = Rebind {
            token: leases::token(live.id, body.epoch, None),
            holder: body.holder.map(leases::holder).transpose()?,
            policy: Some(kept_by(live.policy, &session)),
            attachment: body.attachment.map(|value| leases::attachment(Some(&value))).transpose()?,
            face_data: None,
        };
        self.rebound(caller, rebind, body.operation_id).await
    }

    async fn hand_over(&self, caller: &Caller, id: &str, body: api::Handover) -> Result<Reply, Error> {
        let live = self.live(id).await?;
        let session = self.session_by_hand(sessions::parse(&body.to_session)?).await?;
        let rebind = Rebind {
            token: leases::token(live.id, body.epoch, None),
            holder: Some(session.holder.clone()),
            policy: Some(Policy { principal: session.principal.clone(), ..kept_by(live.policy, &session) }),
            attachment: None,
            face_data: None,
        };
        self.rebound(caller, rebind, body.operation_id).await
    }

    async fn session_by_hand(&self, id: SessionId) -> Result<Box<SessionSnapshot>, Error> {
        match self.ask(Request::Session(id)).await {
            Answer::Session { session, .. } if session.kind == SessionKind::ByHand => Ok(session),
            Answer::Session { .. } => Err(contradiction("the session must be one opened by hand")),
            Answer::Refused(refused) => Err(refusal::error(&self.lens(), &refused, Asked::AsAnyone)),
            _ => Err(unknown()),
        }
    }

    async fn open_by_hand(&self, caller: &Caller, body: api::OpenSession) -> Result<Reply, Error> {
        let ttl_ms = match body.ttl_ms {
            Some(ttl_ms) => bounded("ttl_ms", ttl_ms, TTL_MS_MIN, TTL_MS_MAX)?,
            None => leases::TTL_MS_DEFAULT,
        };
        let grace_ms = match body.grace_ms {
            Some(grace_ms) => bounded("grace_ms", grace_ms, 0, GRACE_MS_MAX)?,
            None => leases::GRACE_MS_DEFAULT,
        };
        let holder = leases::holder(body.holder)?;
        let operation = leases::operation(caller, body.operation_id.clone())?;
        let request = |session| {
            let open = OpenSession {
                session,
                holder: holder.clone(),
                kind: SessionKind::ByHand,
                ttl_ms,
                grace_ms,
                principal: caller.principal.clone(),
            };
            let submit = Submit { operation: operation.clone(), ..Submit::now(Action::OpenSession(open)) };
            Request::Submit(submit)
        };
        let draw = || match &body.operation_id {
            Some(id) => sessions::derived(&caller.principal, id, SessionKind::ByHand),
            None => sessions::draw(SessionKind::ByHand),
        };
        let session = self.open_session(request, draw).await?;
        let answer = self.ask(Request::Session(session)).await;
        self.reply(Shape::Session(Seen::Everybodys), answer).await
    }

    async fn why(&self, query: api::WhyQuery) -> Result<Reply, Error> {
        let (subject, shown) = story::subject(self.identity(), query)?;
        // What was answered before this was asked is in the story: it is synced.
        let lsn = self.synced_lsn().await?;
        let identity = *self.identity();
        let story = self
            .with_history(move |history| {
                let lens = Lens { identity: &identity, wall_ms: read_clocks().wall_ms };
                story::tell(&lens, history, &subject, shown, lsn.0)
            })
            .await??;
        Ok(Reply::Why(story))
    }

    /// Ends every lease because the daemon stops for good.
    async fn end_all(&self) -> Result<Reply, Error> {
        let (mut from, mut ended, mut newest) = (LeaseId::new(self.identity().shard, Lsn(0)), 0, Lsn(0));
        loop {
            let list = List { from, limit: END_PAGE, resource_prefix: None, holder: None };
            let (leases, next) = match self.ask(Request::List(list)).await {
                Answer::Leases { leases, next, lsn } => {
                    newest = newest.max(lsn);
                    (leases, next)
                }
                Answer::Refused(refused) => {
                    return Err(refusal::error(&self.lens(), &refused, Asked::AsAnyone));
                }
                _ => return Err(unknown()),
            };
            let revokes: Vec<Request> =
                leases.iter().map(|lease| revoke(lease.id, Reason::Shutdown)).collect();
            if !revokes.is_empty() {
                for answer in self.handle().call_all(revokes).await {
                    if let Answer::Lease(given) = answer {
                        ended += 1;
                        newest = newest.max(given.lsn);
                    }
                }
            }
            match next {
                Some(next) => from = next,
                None => break,
            }
        }
        Ok(Reply::Ended(api::ShuttingDown { shutting_down: true, ended, lsn: newest.0 }))
    }
}

enum Planned {
    Asked(Shape),
    Steps(Call),
}

impl Opening {
    /// How the session is written.
    #[must_use]
    pub fn session(&self) -> String {
        wire_session(self.session)
    }

    /// The next loss; waits for ever where there is none.
    pub async fn lost(&mut self) -> api::Lost {
        let Some(lost) = self.losses.recv().await else { return std::future::pending().await };
        api::Lost {
            lease_id: self.faces.lens().lease_id(lost.lease),
            epoch: lost.epoch.0,
            reason: lost.reason.as_str().to_owned(),
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.faces.switchboard().disconnect(self.session);
        drop(self.faces.handle().start(Request::ConnectionClosed(self.session)));
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(pending) = self.pending.take() else { return };
        let handle = self.handle.clone();
        drop(handle.start(Request::Cancel(self.ticket)));
        if self.findable {
            return;
        }
        // The engine answers a cancelled request too; a grant that came first is nobody's.
        tokio::spawn(async move {
            if let Some(Answer::Lease(given)) = pending.await.pop()
                && let LeaseFound::Live(lease) = given.lease
            {
                drop(handle.start(revoke(lease.id, Reason::Abandoned)));
            }
        });
    }
}

fn revoke(lease: LeaseId, reason: Reason) -> Request {
    Request::Submit(Submit::now(Action::Revoke(Revoke {
        lease,
        epoch: None,
        reason,
        text: Text::default(),
        actor: Actor::Daemon,
        evidence: Evidence::None,
        reclaim_by: ReclaimBy::Daemon,
    })))
}

/// The terms of a lease once a session by hand keeps it.
fn kept_by(terms: Policy, session: &SessionSnapshot) -> Policy {
    Policy {
        max_lifetime_ms: terms.max_lifetime_ms,
        reclaim_delay_ms: terms.reclaim_delay_ms,
        principal: terms.principal,
        face: terms.face,
        ..Policy::session(session.id, session.ttl_ms, session.grace_ms)
    }
}

fn matches(query: &LeaseQuery, lease: &api::Lease) -> bool {
    query.state.is_none_or(|state| lease.state == state)
        && query.liveness.is_none_or(|liveness| lease.liveness == Some(liveness))
        && query.mode.is_none_or(|mode| lease.mode == mode)
        && query.face.is_none_or(|face| lease.face == face)
}

fn resources<'a>(
    lens: &'a Lens<'_>,
    lease: &'a LeaseSnapshot,
    prefix: &'a str,
    lsn: Lsn,
) -> impl Iterator<Item = api::Resource> + 'a {
    let names = lease.members.iter().filter(move |name| name.starts_with(prefix));
    names.map(move |name| resource(lens, name.to_string(), Some(lease), None, lsn))
}

fn resource(
    lens: &Lens<'_>,
    name: String,
    lease: Option<&LeaseSnapshot>,
    waiters: Option<Vec<String>>,
    lsn: Lsn,
) -> api::Resource {
    let shown = lease.map(|lease| lens.lease(lease, lsn));
    api::Resource {
        name,
        lease_id: shown.as_ref().map(|lease| lease.lease_id.clone()),
        holder: shown.as_ref().map(|lease| lease.holder.clone()),
        epoch: shown.as_ref().map(|lease| lease.epoch),
        fence: shown.as_ref().map(|lease| lease.fence),
        remaining_ms: shown.as_ref().and_then(|lease| lease.remaining_ms),
        since: shown.map(|lease| lease.granted_at),
        waiters,
        lsn: lsn.0,
    }
}

fn shown_pool(pool: &tenure_engine::PoolSnapshot, lsn: Lsn) -> api::Pool {
    api::Pool {
        name: pool.name.to_string(),
        size: pool.size,
        free: pool.free,
        removed: pool.removed,
        lsn: lsn.0,
    }
}

fn ended_error(state: tenure_engine::kernel::StateName) -> Error {
    let rejection = tenure_engine::kernel::Rejection::InvalidState { state };
    let identity = Identity { log_id: 0, tag: 0, fence_base: 0, shard: 0, salt: 0 };
    let lens = Lens { identity: &identity, wall_ms: 0 };
    refusal::error(&lens, &rejection.into(), Asked::AsHolder)
}

fn unknown() -> Error {
    Error::new(ErrorCode::OutcomeUnknown, "the daemon stopped before the outcome was known")
}

fn unreadable(error: &dyn std::error::Error) -> Error {
    Error::new(ErrorCode::IoError, format!("the log cannot be read: {error}"))
}
