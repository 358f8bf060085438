//! What the client of a stream asks: heartbeat, activate, fail, stop. Its principal may, and operators may.

use super::book::{BEATS_PER_INTERVAL, Known, Place};
use super::facts::read_id;
use super::queue::Queued;
use super::shown::{FAILED, Remains, Shown, USER_STOPPED, gone, unknown};
use crate::call::Reply;
use crate::caller::{Caller, Scope};
use crate::dispatch::Faces;
use crate::leases::{self, Order};
use crate::limits::{attempts_used_up, fixed_limit};
use crate::refusal::Asked;
use core::time::Duration;
use std::sync::Arc;
use tenure_api::{self as api, Error, ErrorCode, IntentStatus, SlotSessionState};
use tenure_engine::host::read_clocks;
use tenure_engine::kernel::limits::REASON_TEXT_BYTES_MAX;
use tenure_engine::kernel::{Action, Epoch, LeaseId, LeaseState, Lsn, Rejection, Release, Text, Token};
use tenure_engine::{Answer, LeaseAnswer, LeaseFound, OperationId, Refused, Request, Submit, speaks_for};
use tenure_history::rfc3339;

/// What is read and what is decided may differ so often before it is called overload.
const TRIES_MAX: usize = 8;
/// How long a place in the queue may take to be given up.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// How a stream is told to end.
struct Parting {
    /// What is said to it.
    text: String,
    operation: Option<OperationId>,
}

/// A stream that is somebody's to hold.
struct Held {
    id: String,
    known: Known,
    /// Another principal's, and the caller is an operator.
    is_anothers: bool,
}

impl Faces {
    /// A stream whose client the caller may be.
    fn held(&self, caller: &Caller, id: &str) -> Result<Held, Error> {
        let known = read_id(id).and_then(|id| self.streams().book.find(&id).map(|known| (id, known)));
        let Some((id, known)) = known else { return Err(self.no_stream(id)) };
        let is_anothers = !speaks_for(&caller.principal, &known.principal);
        if is_anothers && caller.scope < Scope::Admin {
            let message = format!("session {id:?} belongs to another principal");
            return Err(Error::new(ErrorCode::Forbidden, message).with("session_id", id));
        }
        Ok(Held { id, known, is_anothers })
    }

    pub(crate) async fn heartbeat_stream(
        &self,
        caller: &Caller,
        id: &str,
        body: api::SlotSessionHeartbeat,
    ) -> Result<Reply, Error> {
        let Held { id, known, .. } = self.held(caller, id)?;
        let renewed = match &known.place {
            Place::Queued(queued) => {
                self.check_beats(&id)?;
                let now = read_clocks();
                queued.beat(now.boot_ms);
                self.streams().book.renewed(&id, now.wall_ms);
                let end = now.wall_ms.saturating_add(queued.policy.ttl_ms.into());
                self.acknowledged(&id, rfc3339(end), None, self.synced_lsn().await?)
            }
            Place::Live(lease) => self.heartbeat_lease(&id, &known, *lease, body).await?,
            Place::Ended(_) | Place::Faded(_) => {
                let shown = self.shown_stream(&id, &known).await?;
                return Err(self.too_late(&shown.stream));
            }
        };
        self.streams().book.counters.heartbeat();
        Ok(Reply::StreamRenewed(renewed))
    }

    async fn heartbeat_lease(
        &self,
        id: &str,
        known: &Known,
        lease: LeaseId,
        body: api::SlotSessionHeartbeat,
    ) -> Result<api::SlotSessionRenewed, Error> {
        self.check_beats(id)?;
        let request = Request::TimelyHeartbeat { lease, epoch: body.epoch.map(Epoch), asker: None };
        match self.ask(request).await {
            Answer::Renewed { valid_ms, remaining_ms, draining, wall_ms, lsn } => {
                self.streams().book.renewed(id, wall_ms);
                if known.max_lifetime_ms > 0 {
                    let shown = self.stream(id).await?;
                    return Ok(self.acknowledged(id, shown.stream.lease_expires_at, valid_ms, lsn));
                }
                let grace_ms = if draining { 0 } else { u64::from(known.grace_ms) };
                let end = wall_ms.saturating_add(remaining_ms.unwrap_or(0)).saturating_add(grace_ms);
                Ok(self.acknowledged(id, rfc3339(end), valid_ms, lsn))
            }
            Answer::Refused(refused) if refused.has_moved() => {
                let Shown { stream, withdrawn, .. } = self.stream(id).await?;
                let is_starting = stream.state == SlotSessionState::Starting
                    && matches!(refused, Refused::Rejected(Rejection::InvalidState { .. }));
                if stream.state.is_terminal() {
                    Err(self.too_late(&stream))
                } else if is_starting || withdrawn {
                    // Acknowledged; its deadline stays where it is.
                    let api::SlotSession { lease_expires_at, valid_ms, lsn, .. } = stream;
                    Ok(self.acknowledged(id, lease_expires_at, valid_ms, Lsn(lsn)))
                } else {
                    let error = self.not_that(Answer::Refused(refused), Asked::AsHolder);
                    Err(error.with("session_id", id))
                }
            }
            other => Err(self.not_that(other, Asked::AsHolder).with("session_id", id)),
        }
    }

    /// Rejects more heartbeats than a client needs.
    fn check_beats(&self, id: &str) -> Result<(), Error> {
        let interval_ms = self.streams().options.heartbeat_interval_secs.saturating_mul(1_000);
        self.streams().book.beat(id, read_clocks().boot_ms, interval_ms).map_err(|wait_ms| {
            let secs = self.streams().options.heartbeat_interval_secs;
            let message = format!(
                "session {id:?} sent more than {BEATS_PER_INTERVAL} heartbeats in {secs} s, its heartbeat_interval"
            );
            fixed_limit(ErrorCode::RateLimited, message, "heartbeats_per_interval", BEATS_PER_INTERVAL)
                .hint("send one heartbeat per `heartbeat_interval` (setting sessions.heartbeat_interval)")
                .with("setting", "sessions.heartbeat_interval")
                .with("session_id", id)
                .retry_after(wait_ms)
        })
    }

    fn acknowledged(
        &self,
        id: &str,
        lease_expires_at: api::Time,
        valid_ms: Option<u64>,
        lsn: Lsn,
    ) -> api::SlotSessionRenewed {
        api::SlotSessionRenewed {
            session_id: id.to_owned(),
            lease_expires_at,
            acknowledged: true,
            server_time: self.lens().now(),
            next_heartbeat_in: self.streams().options.heartbeat_interval_secs,
            valid_ms,
            lsn: lsn.0,
        }
    }

    /// A heartbeat came after the end.
    fn too_late(&self, stream: &api::SlotSession) -> Error {
        let error = gone(stream);
        if error.code == ErrorCode::SessionExpired {
            self.streams().book.counters.heartbeat_late();
        }
        error
    }

    pub(crate) async fn activate_stream(
        &self,
        caller: &Caller,
        id: &str,
        body: api::SlotSessionActivate,
        operation_id: Option<String>,
    ) -> Result<Reply, Error> {
        let operation = super::operation(caller, operation_id, &("activate", id, &body))?;
        let held = self.held(caller, id)?;
        for _ in 0..TRIES_MAX {
            let Shown { stream, left, withdrawn } = self.stream(&held.id).await?;
            if stream.state.is_terminal() {
                return match self.activated_before(&held, operation).await {
                    Some(shown) => Ok(reply(shown)),
                    None => Err(gone(&stream)),
                };
            }
            if let (Some(asked), Some(current)) = (body.epoch, stream.epoch)
                && asked != current
                && !withdrawn
            {
                let refused = Refused::Rejected(Rejection::StaleEpoch { current: Epoch(current) });
                let error = self.not_that(Answer::Refused(refused), Asked::AsHolder);
                return Err(error.with("session_id", held.id));
            }
            match (stream.state, self.lease_of(&held.id)) {
                // Whoever asks again has what it asked for.
                (SlotSessionState::Running | SlotSessionState::Draining, _) => {
                    return Ok(reply(Shown { stream, left, withdrawn }));
                }
                (SlotSessionState::Starting, Some(lease)) => {
                    let token = Token::new(lease, Epoch(stream.epoch.unwrap_or(0)));
                    let operation = operation.clone();
                    let submit = Submit { operation, ..Submit::now(Action::Activate(token)) };
                    match self.ask(Request::Submit(submit)).await {
                        Answer::Lease(given) => {
                            if let Some(shown) = self.after(*given, &[]).await {
                                return Ok(reply(shown));
                            }
                        }
                        // It was activated or ended meanwhile.
                        Answer::Refused(refused) if refused.has_moved() => {}
                        other => return Err(self.not_that(other, Asked::AsHolder)),
                    }
                }
                _ => {
                    let message = "the session still waits for a slot and cannot be activated yet";
                    return Err(Error::new(ErrorCode::InvalidState, message)
                        .with("session_id", held.id.as_str())
                        .with("state", stream.state.as_str()));
                }
            }
        }
        Err(changes_too_fast(&held.id))
    }

    /// A stream that has ended, if an earlier try of this operation took it into use.
    async fn activated_before(&self, held: &Held, operation: Option<OperationId>) -> Option<Shown> {
        let (Place::Live(lease) | Place::Ended(lease)) = held.known.place else { return None };
        let token = Token::new(lease, Epoch(0));
        let submit = Submit { operation: Some(operation?), ..Submit::now(Action::Activate(token)) };
        match self.ask(Request::Submit(submit)).await {
            Answer::Lease(given) if given.replayed => self.after(*given, &[]).await,
            _ => None,
        }
    }

    pub(crate) async fn fail_stream(
        &self,
        caller: &Caller,
        id: &str,
        body: api::SlotSessionFail,
        operation_id: Option<String>,
    ) -> Result<Reply, Error> {
        let max = REASON_TEXT_BYTES_MAX - FAILED.len();
        if body.reason.is_empty() || body.reason.len() > max {
            let message = format!("reason must have 1 to {max} bytes");
            return Err(Error::new(ErrorCode::InvalidRequest, message).with("field", "reason"));
        }
        let operation = super::operation(caller, operation_id, &("fail", id, &body))?;
        let parting = Parting { text: format!("{FAILED}{}", body.reason), operation };
        Ok(reply(self.part(caller, id, &parting).await?.0))
    }

    pub(crate) async fn stop_stream(
        &self,
        caller: &Caller,
        id: &str,
        operation_id: Option<String>,
    ) -> Result<Reply, Error> {
        let operation = super::operation(caller, operation_id, &("stop", id))?;
        let parting = Parting { text: String::new(), operation };
        Ok(reply(self.part(caller, id, &parting).await?.0))
    }

    pub(crate) async fn intend_stop(
        &self,
        caller: &Caller,
        stop: api::SlotSessionStop,
        operation_id: Option<String>,
    ) -> Result<Reply, Error> {
        let operation = super::operation(caller, operation_id, &stop)?;
        let parting = Parting { text: String::new(), operation };
        let (shown, status) = self.part(caller, &stop.session_id, &parting).await?;
        let stream = api::SlotSession { status: Some(status), ..shown.stream };
        Ok(Reply::Stream(Box::new(stream)))
    }

    /// Ends a stream, or shows the one that an earlier try ended.
    async fn part(
        &self,
        caller: &Caller,
        id: &str,
        parting: &Parting,
    ) -> Result<(Shown, IntentStatus), Error> {
        match self.replayed_stream(parting.operation.as_ref()).await? {
            Some(shown) => Ok((shown, IntentStatus::IdempotentReplay)),
            None => self.end_stream(caller, id, parting).await,
        }
    }

    /// Ends a stream. Its own client gives it back, so that its slots are free at once; an operator withdraws it, and
    /// what its client was promised is kept.
    async fn end_stream(
        &self,
        caller: &Caller,
        id: &str,
        parting: &Parting,
    ) -> Result<(Shown, IntentStatus), Error> {
        let held = self.held(caller, id)?;
        let was_queued = matches!(held.known.place, Place::Queued(_));
        if let Place::Queued(queued) = &held.known.place {
            self.leave(&held.id, queued, &parting.text).await;
        }
        for _ in 0..TRIES_MAX {
            let known = self.streams().book.find(&held.id).ok_or_else(|| unknown(&held.id))?;
            let lease = match &known.place {
                Place::Live(lease) | Place::Ended(lease) => *lease,
                Place::Queued(_) => return Err(changes_too_fast(&held.id)),
                Place::Faded(_) => {
                    let shown = self.shown_stream(&held.id, &known).await?;
                    if !was_queued {
                        return Err(gone(&shown.stream));
                    }
                    self.streams().book.keep_operation(&held.id, parting.operation.as_ref());
                    return Ok((shown, IntentStatus::Accepted));
                }
            };
            if let Some(ended) = self.end_lease(caller, &held, lease, parting).await? {
                return Ok(ended);
            }
        }
        Err(changes_too_fast(&held.id))
    }

    /// Ends the lease of a stream. `None`: look again at where its id leads.
    async fn end_lease(
        &self,
        caller: &Caller,
        held: &Held,
        lease: LeaseId,
        parting: &Parting,
    ) -> Result<Option<(Shown, IntentStatus)>, Error> {
        let live = match self.ask(Request::Read(lease)).await {
            Answer::Read(read) => match read.lease {
                LeaseFound::Live(live) => Some(live),
                LeaseFound::JustEnded { .. } | LeaseFound::Ended { .. } | LeaseFound::Retired => None,
            },
            Answer::Refused(refused) if refused.is_gone() => None,
            other => return Err(self.not_that(other, Asked::AsHolder)),
        };
        let is_revoking = matches!(live.as_ref().map(|live| &live.state), Some(LeaseState::Revoking(_)));
        // Where there is an operation, an earlier try may have revoked it.
        if is_revoking && parting.operation.is_none() {
            return self.end_revoked(held, lease, parting).await;
        }
        let (attachment, epoch) = match live {
            Some(live) => (live.attachment, live.epoch),
            // Only a retry can find what it did.
            None if parting.operation.is_some() => (Vec::new(), Epoch(0)),
            None => return Err(gone(&self.stream(&held.id).await?.stream)),
        };
        let submit = if held.is_anothers {
            let mut submit = leases::order(caller, Order::Revoke, lease, api::OperatorCall::default())?;
            if let Action::Revoke(revoke) = &mut *submit.action {
                revoke.text = Text::from(parting.text.as_str());
            }
            submit
        } else {
            let release =
                Release { token: Token::new(lease, epoch), text: Text::from(parting.text.as_str()) };
            Submit::now(Action::Release(release))
        };
        let submit = Submit { operation: parting.operation.clone(), ..submit };
        match self.ask(Request::Submit(submit)).await {
            Answer::Lease(given) => {
                let status =
                    if given.replayed { IntentStatus::IdempotentReplay } else { IntentStatus::Accepted };
                let shown = self.after(*given, &attachment).await;
                Ok(shown.map(|shown| (shown, status)))
            }
            Answer::Refused(refused) if refused.has_moved() && is_revoking => {
                self.end_revoked(held, lease, parting).await
            }
            Answer::Refused(refused) if refused.has_moved() => {
                let shown = self.stream(&held.id).await?;
                if shown.stream.state.is_terminal() { Err(gone(&shown.stream)) } else { Ok(None) }
            }
            other => Err(self.not_that(other, Asked::AsHolder)),
        }
    }

    /// A stream that is being withdrawn: its own client need not be waited for any longer once it says that it has
    /// stopped.
    async fn end_revoked(
        &self,
        held: &Held,
        lease: LeaseId,
        parting: &Parting,
    ) -> Result<Option<(Shown, IntentStatus)>, Error> {
        let shown = self.stream(&held.id).await?;
        if shown.stream.state.is_terminal() {
            return Err(gone(&shown.stream));
        }
        if !held.is_anothers {
            let epoch = Epoch(shown.stream.epoch.unwrap_or(0));
            let _ = self.ask(Request::Acknowledge { lease, epoch, asker: None }).await;
            self.until_ended(&held.id).await;
        }
        self.streams().book.keep_operation(&held.id, parting.operation.as_ref());
        Ok(Some((self.stream(&held.id).await?, IntentStatus::Accepted)))
    }

    /// Waits until a stream whose client has stopped is over.
    async fn until_ended(&self, id: &str) {
        let Some((_, mut changed)) = self.streams().book.follow(id) else { return };
        let ended = async {
            while self.stream(id).await.is_ok_and(|shown| !shown.stream.state.is_terminal()) {
                if changed.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(LEAVE_WITHIN, ended).await;
    }

    /// Has a queued stream leave, and waits until it has, or has its lease.
    async fn leave(&self, id: &str, queued: &Arc<Queued>, text: &str) {
        queued.leave(if text.is_empty() { USER_STOPPED.to_owned() } else { text.to_owned() });
        self.wait_over(id).await;
    }

    /// Waits until a stream does not queue any more.
    pub(crate) async fn wait_over(&self, id: &str) {
        let Some((_, mut changed)) = self.streams().book.follow(id) else { return };
        let left = async {
            while let Some(Known { place: Place::Queued(_), .. }) = self.streams().book.find(id) {
                if changed.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(LEAVE_WITHIN, left).await;
    }

    fn lease_of(&self, id: &str) -> Option<LeaseId> {
        match self.streams().book.find(id)?.place {
            Place::Live(lease) => Some(lease),
            Place::Queued(_) | Place::Ended(_) | Place::Faded(_) => None,
        }
    }

    /// A stream as a command left it.
    async fn after(&self, given: LeaseAnswer, attachment: &[u8]) -> Option<Shown> {
        match given.lease {
            LeaseFound::Live(lease) => self.shown_live(&lease, given.lsn),
            LeaseFound::JustEnded { was, reason, text, fence, wall_ms, .. } => {
                let remains =
                    Remains { was: &was, reason, text: &text, fence, ended_wall_ms: wall_ms, attachment };
                self.shown_remains(&remains, given.lsn)
            }
            LeaseFound::Ended { id, ended, fence } => {
                self.shown_ended(id, ended.ended_lsn, fence, given.lsn).await
            }
            LeaseFound::Retired => None,
        }
    }
}

fn reply(shown: Shown) -> Reply {
    Reply::Stream(Box::new(shown.stream))
}

fn changes_too_fast(id: &str) -> Error {
    let message = format!("session {id:?} changed during each of {TRIES_MAX} attempts");
    attempts_used_up(message, TRIES_MAX)
}
