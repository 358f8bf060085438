//! Calls that take more than one step. What a later step rests on cannot change in between: terms of a lease
//! change only with its epoch, a session's never.

use crate::ask::{Seen, Shape};
use crate::call::{Call, Reply};
use crate::caller::Caller;
use crate::dispatch::{Faces, revoke};
use crate::leases::{self, Order};
use crate::limits::{GRACE_MS_MAX, TTL_MS_MAX, TTL_MS_MIN, bounded};
use crate::refusal::Asked;
use crate::sessions;
use crate::show::Lens;
use crate::story;
use tenure_api::{self as api, Error, ErrorCode};
use tenure_engine::host::read_clocks;
use tenure_engine::kernel::{Action, LeaseId, Lsn, OpenSession, Reason, Rejection, SessionKind, Text, Tick};
use tenure_engine::{Answer, List, Refused, Request, SessionSnapshot, Submit, WaiterSnapshot};
use tenure_history::Subject;

/// Leases ended together when the daemon is told to end all.
const END_PAGE: usize = 500;

impl Faces {
    /// Calls that take more than one step. That something is not there is read in books of this node's own: it counts
    /// only while the node may answer, and not where another has led since.
    pub(crate) async fn steps(&self, caller: &Caller, call: Call) -> Result<Reply, Error> {
        match self.step_by_step(caller, call).await {
            Err(error) if matches!(error.code, ErrorCode::NotFound | ErrorCode::SessionNotFound) => {
                self.may_answer().await?;
                Err(error)
            }
            reply => reply,
        }
    }

    /// Whether what this node knows is all there is: a read of a lease that nobody has is answered with authority alone.
    pub(crate) async fn may_answer(&self) -> Result<(), Error> {
        match self.ask(Request::Read(self.no_lease())).await {
            Answer::Read(_) | Answer::Refused(Refused::Rejected(_)) => Ok(()),
            other => Err(self.not_that(other, Asked::AsAnyone)),
        }
    }

    /// What a later step rests on cannot change in between: terms of a lease change only with its epoch, a session's
    /// never.
    async fn step_by_step(&self, caller: &Caller, call: Call) -> Result<Reply, Error> {
        let (operation_id, call) = call.opened();
        match call {
            Call::OpenSession(body) => self.open_by_hand(caller, body).await,
            Call::DefinePool(name, body) => {
                let action = Action::DefinePool { name: name.as_str().into(), size: body.size };
                let lsn = self.done(caller, action, operation_id).await?;
                let answer = self.ask(Request::Pools).await;
                match self.reply(Shape::Pool(name.clone()), answer).await {
                    // It was removed since, perhaps long before this retry.
                    Err(error) if error.code == ErrorCode::PoolNotFound => Ok(removed(name, lsn)),
                    reply => reply,
                }
            }
            Call::RemovePool(name, body) => {
                let action = Action::RemovePool { name: name.as_str().into(), force: body.force };
                Ok(removed(name, self.done(caller, action, operation_id).await?))
            }
            Call::Why(query) => self.why(query).await,
            Call::EndAll => self.end_all().await,
            Call::Register(body) => self.register(caller, *body, None).await,
            Call::RegisterAt(at, body) => self.register(caller, *body, Some(at)).await,
            Call::NodeTold(told) => self.hear_node(*told).await,
            Call::ConnectionsTold(told) => self.hear_connections(*told).await,
            Call::Unregister(id) => self.unregister(caller, &id, None, operation_id).await,
            Call::UnregisterEpoch(id, epoch) => self.unregister(caller, &id, Some(epoch), operation_id).await,
            Call::HeartbeatRegistration(id, body) => self.heartbeat_registration(caller, &id, body).await,
            Call::Resolve(query) => self.resolve(caller, &query.name).await,
            Call::RegistrationStatus => self.registration_status().await,
            Call::Registrations => self.list_registrations().await,
            Call::InspectRegistration(id) => self.inspect_registration(&id).await,
            Call::EndRegistration(id) => {
                self.order_registration(caller, Order::Revoke, &id, operation_id).await
            }
            Call::DrainRegistration(id) => {
                self.order_registration(caller, Order::Drain, &id, operation_id).await
            }
            Call::ReviveRegistration(id) => {
                self.order_registration(caller, Order::Revive, &id, operation_id).await
            }
            Call::StartStream { start, operation_id } => {
                self.start_stream(caller, *start, operation_id).await
            }
            Call::Stream(id) => self.show_stream(caller, &id).await,
            Call::Streams(query) => self.list_streams(query).await,
            Call::HeartbeatStream(id, body) => self.heartbeat_stream(caller, &id, body).await,
            Call::ActivateStream(id, body) => self.activate_stream(caller, &id, body, operation_id).await,
            Call::FailStream(id, body) => self.fail_stream(caller, &id, body, operation_id).await,
            Call::StopStream(id) => self.stop_stream(caller, &id, operation_id).await,
            Call::IntendStop { stop, operation_id } => self.intend_stop(caller, stop, operation_id).await,
            Call::Polling(group) => self.show_polling(&group).await,
            Call::PollingGroups => self.list_polling().await,
            Call::MoveTarget { group, body, operation_id } => {
                self.move_target(caller, &group, body, operation_id).await
            }
            Call::CordonPoller { group, body, operation_id } => {
                self.cordon_poller(caller, &group, body, operation_id).await
            }
            Call::UncordonPoller { group, body, operation_id } => {
                self.uncordon_poller(caller, &group, body, operation_id).await
            }
            other => unreachable!("invariant: {other:?} is one request"),
        }
    }

    async fn done(
        &self,
        caller: &Caller,
        action: Action,
        operation_id: Option<String>,
    ) -> Result<Lsn, Error> {
        let operation = leases::operation(caller, operation_id)?;
        match self.ask(Request::Submit(Submit { operation, ..Submit::now(action) })).await {
            Answer::Done { lsn, .. } => Ok(lsn),
            other => Err(self.not_that(other, Asked::AsAnyone)),
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
        let accepts_handover = body.accepts_handover.as_deref().map(Text::from);
        let request = |session| {
            let open = OpenSession {
                session,
                holder: holder.clone(),
                kind: SessionKind::ByHand,
                ttl_ms,
                grace_ms,
                principal: caller.principal.clone(),
                accepts_handover: accepts_handover.clone(),
            };
            let submit = Submit { operation: operation.clone(), ..Submit::now(Action::OpenSession(open)) };
            Request::Submit(submit)
        };
        let draw = || match &body.operation_id {
            Some(id) => sessions::derived(&caller.principal, id, SessionKind::ByHand),
            None => sessions::draw(SessionKind::ByHand),
        };
        let session = self.open_session(request, draw).await?;
        let answer = match self.ask(Request::Session(session)).await {
            // A retry, and what its first try opened is closed since.
            Answer::Refused(Refused::Rejected(Rejection::SessionNotFound { .. })) => {
                let closed = SessionSnapshot {
                    id: session,
                    holder: holder.clone(),
                    principal: caller.principal.clone(),
                    kind: SessionKind::ByHand,
                    ttl_ms,
                    grace_ms,
                    accepts_handover: accepts_handover.clone(),
                    leases: 0,
                    standing: None,
                    now: Tick(0),
                };
                Answer::Session { session: Box::new(closed), lsn: self.synced_lsn().await? }
            }
            answer => answer,
        };
        self.reply(Shape::Session(Seen::Everybodys), answer).await
    }

    async fn why(&self, query: api::WhyQuery) -> Result<Reply, Error> {
        let (subject, shown) = story::subject(self.identity(), self.former_tags(), query)?;
        let told = self.story(&subject, shown.clone()).await;
        let (Subject::Resource(name), Err(unknown)) = (&subject, &told) else {
            return told.map(Reply::Why);
        };
        if unknown.code != ErrorCode::NotFound {
            return told.map(Reply::Why);
        }
        // People know services and targets by other names than those of their resources.
        let mut meant = story::also_called(self, name);
        match (meant.pop(), meant.is_empty()) {
            (None, _) => told.map(Reply::Why),
            (Some((subject, shown)), true) => self.story(&subject, shown).await.map(Reply::Why),
            (Some(last), false) => {
                meant.push(last);
                let names: Vec<String> = meant.into_iter().map(|(_, shown)| shown).collect();
                let message = format!("{shown:?} is ambiguous: {}", names.join(", "));
                Err(Error::new(ErrorCode::AmbiguousId, message).with("matches", names))
            }
        }
    }

    async fn story(&self, subject: &Subject, shown: String) -> Result<api::Story, Error> {
        let waiters = self.waiters_for(subject).await;
        // What was answered before this was asked is in the story: it is synced.
        let lsn = self.synced_lsn().await?;
        let (identity, subject) = (*self.identity(), subject.clone());
        let story = self
            .with_history(move |history| {
                let lens = Lens { identity: &identity, wall_ms: read_clocks().wall_ms };
                story::tell(&lens, history, &subject, shown, lsn.0)
            })
            .await??;
        Ok(api::Story { waiters, ..story })
    }

    /// Who waits for what a lease or a resource would set free, the next one first.
    async fn waiters_for(&self, subject: &Subject) -> Vec<api::Waiter> {
        let request = match subject {
            Subject::Lease(lease) => Request::Read(*lease),
            Subject::Resource(name) => Request::Resource(name.clone()),
            Subject::Session(_) | Subject::FaceId(_) => return Vec::new(),
        };
        let waiters = match self.ask(request).await {
            Answer::Read(read) => read.waiters,
            Answer::Resource { waiters, .. } => waiters,
            _ => Vec::new(),
        };
        let shown = |waiter: WaiterSnapshot| api::Waiter {
            holder: waiter.holder.to_string(),
            waited_ms: waiter.waited_ms,
            passed: waiter.passed,
        };
        waiters.into_iter().map(shown).collect()
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
                other => return Err(self.not_that(other, Asked::AsAnyone)),
            };
            let revokes: Vec<Request> =
                leases.iter().map(|lease| revoke(lease.id, Reason::Shutdown)).collect();
            if !revokes.is_empty() {
                for answer in self.ask_until_heard(revokes).await {
                    if let Answer::Lease(given) = answer {
                        ended = u64::saturating_add(ended, 1);
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

/// A pool that is no more.
fn removed(name: String, lsn: Lsn) -> Reply {
    Reply::Pool(api::Pool { name, size: 0, free: 0, removed: true, lsn: lsn.0 })
}
