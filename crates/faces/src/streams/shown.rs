//! A stream as the wire shows it: queued, live or ended, always the same object.

use super::book::{Known, Place};
use super::facts::StreamFacts;
use super::queue::Queued;
use crate::call::Reply;
use crate::caller::Caller;
use crate::dispatch::Faces;
use crate::events::told_end;
use crate::show::attachment;
use serde_json::{Map, Value};
use tenure_api::{self as api, Error, ErrorCode, SlotSessionState};
use tenure_engine::host::read_clocks;
use tenure_engine::kernel::{Actor, Change, Epitaph, Fence, LeaseId, LeaseState, Lsn, Reason, Text};
use tenure_engine::liveness::{Standing, valid_ms};
use tenure_engine::{Answer, LeaseFound, LeaseSnapshot, Request, speaks_for};
use tenure_history::rfc3339;

/// Ended for silence.
pub(crate) const LEASE_EXPIRED: &str = "LEASE_EXPIRED";
/// Ended by its client.
pub(crate) const USER_STOPPED: &str = "USER_STOPPED";
/// Not activated in time.
const START_TIMEOUT: &str = "START_TIMEOUT";
/// Ended by an operator.
pub(crate) const ADMIN_REVOKED: &str = "ADMIN_REVOKED";
/// Lived as long as it may.
const MAX_LIFETIME: &str = "MAX_LIFETIME";
/// No slot came free in time.
pub(crate) const WAIT_TIMEOUT: &str = "WAIT_TIMEOUT";
/// Stands before what a client says of its failure.
pub(crate) const FAILED: &str = "FAILED:";

/// A stream, and how much of its time is left where that counts.
pub(crate) struct Shown {
    pub(crate) stream: api::SlotSession,
    pub(crate) left: Option<Left>,
    /// An operator withdraws it; it ends when its promise does.
    pub(crate) withdrawn: bool,
}

/// Time that is left of a stream in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Left {
    /// Until it ends.
    pub(crate) until_end_ms: u64,
    /// Until its last proof of life is too old.
    pub(crate) of_ttl_ms: u64,
    /// How long one proof lasts.
    pub(crate) ttl_ms: u64,
}

/// How an ended stream is called, and why it ended, from why its lease did.
pub(crate) fn end_words(reason: Reason, text: &str) -> (SlotSessionState, String) {
    let (state, word) = match reason {
        Reason::Explicit | Reason::AdminForce if text.starts_with(FAILED) => (SlotSessionState::Failed, text),
        Reason::Explicit => (SlotSessionState::Stopped, USER_STOPPED),
        Reason::HeartbeatExpired | Reason::SessionExpired => (SlotSessionState::Stopped, LEASE_EXPIRED),
        Reason::ReservationExpired => (SlotSessionState::Failed, START_TIMEOUT),
        Reason::MaxLifetime => (SlotSessionState::Stopped, MAX_LIFETIME),
        // Whatever else ends a lease was decided by whoever runs the daemon.
        Reason::AdminForce
        | Reason::PoolRemoved
        | Reason::Shutdown
        | Reason::Rebalanced
        | Reason::Abandoned
        | Reason::Restored => (SlotSessionState::Stopped, ADMIN_REVOKED),
    };
    (state, word.to_owned())
}

/// There is no such stream.
pub(crate) fn unknown(id: &str) -> Error {
    let message = format!("session {id:?} does not exist");
    Error::new(ErrorCode::SessionNotFound, message).with("session_id", id).lost()
}

/// A stream has ended, so nothing can be done with it.
pub(crate) fn gone(stream: &api::SlotSession) -> Error {
    let reason = stream.reason.clone().unwrap_or_default();
    let code = if reason == LEASE_EXPIRED { ErrorCode::SessionExpired } else { ErrorCode::SessionGone };
    let message = format!("the session has ended: {reason}");
    Error::new(code, message)
        .with("session_id", stream.session_id.as_str())
        .with("state", stream.state.as_str())
        .with("reason", reason)
        .with("ended_at", stream.ended_at.clone())
        .lost()
}

/// Its metadata, where the attachment is that.
fn metadata(bytes: &[u8]) -> Option<Map<String, Value>> {
    match attachment(bytes) {
        Some(Value::Object(map)) => Some(map),
        Some(_) | None => None,
    }
}

/// What an ended lease leaves to say.
pub(crate) struct Remains<'a> {
    pub(crate) was: &'a Epitaph,
    pub(crate) reason: Reason,
    pub(crate) text: &'a str,
    pub(crate) fence: Fence,
    pub(crate) ended_wall_ms: u64,
    pub(crate) attachment: &'a [u8],
}

impl Faces {
    /// A stream as a caller sees it who asks for it alone.
    pub(crate) async fn show_stream(&self, caller: &Caller, id: &str) -> Result<Reply, Error> {
        let mut stream = self.stream(id).await?.stream;
        let known = self.streams().book.find(&stream.session_id);
        stream.own = known.map(|known| speaks_for(&caller.principal, &known.principal));
        Ok(Reply::Stream(Box::new(stream)))
    }

    /// Why an id leads nowhere. A leader that has just begun may not have read yet which streams have ended.
    pub(crate) fn no_stream(&self, id: &str) -> Error {
        if self.streams().is_recalling() && super::facts::read_id(id).is_some() {
            let message = "this node was just elected and still reads the ended sessions";
            return Error::new(ErrorCode::NotLeader, message).with("session_id", id);
        }
        unknown(id)
    }

    /// A stream by its id, as it is now.
    pub(crate) async fn stream(&self, id: &str) -> Result<Shown, Error> {
        let known =
            super::facts::read_id(id).and_then(|id| self.streams().book.find(&id).map(|found| (id, found)));
        match known {
            Some((id, known)) => self.shown_stream(&id, &known).await,
            None => Err(self.no_stream(id)),
        }
    }

    pub(crate) async fn shown_stream(&self, id: &str, known: &Known) -> Result<Shown, Error> {
        match &known.place {
            Place::Queued(queued) => match self.shown_queued(queued).await? {
                Some(shown) => Ok(shown),
                // Its wait is over, which the book learns in a moment.
                None => {
                    self.wait_over(id).await;
                    let known = self.streams().book.find(id).ok_or_else(|| unknown(id))?;
                    Box::pin(self.shown_stream(id, &known)).await
                }
            },
            Place::Live(lease) | Place::Ended(lease) => {
                let shown = self.shown_lease(*lease).await?;
                let mut shown = shown.ok_or_else(|| unknown(id))?;
                if let Some(ended) = known.ended_wall_ms.filter(|_| shown.stream.state.is_terminal()) {
                    shown.stream.lease_expires_at = rfc3339(ended);
                    shown.stream.ended_at = Some(rfc3339(ended));
                }
                Ok(shown)
            }
            Place::Faded(last) => {
                let lsn = self.synced_lsn().await?.0;
                let stream = api::SlotSession { server_time: self.lens().now(), lsn, ..(**last).clone() };
                Ok(Shown { stream, left: None, withdrawn: false })
            }
        }
    }

    /// The stream of a lease; `None` where it is none, or not kept any more.
    pub(crate) async fn shown_lease(&self, lease: LeaseId) -> Result<Option<Shown>, Error> {
        match self.ask(Request::Read(lease)).await {
            Answer::Read(read) => match read.lease {
                LeaseFound::Live(live) => Ok(self.shown_live(&live, read.lsn)),
                LeaseFound::Ended { ended, fence, .. } => {
                    Ok(self.shown_ended(lease, ended.ended_lsn, fence, read.lsn).await)
                }
                LeaseFound::JustEnded { .. } | LeaseFound::Retired => Ok(None),
            },
            // Too old to be shown, even by the engine.
            Answer::Refused(refused) if refused.is_gone() => Ok(None),
            other => Err(self.not_that(other, crate::refusal::Asked::AsAnyone)),
        }
    }

    /// When its last heartbeat came, which the log does not have.
    fn last_heartbeat(&self, id: &str) -> Option<api::Time> {
        self.streams().book.last_beat(id).map(rfc3339)
    }

    /// A stream whose lease lives, or is being ended.
    pub(crate) fn shown_live(&self, lease: &LeaseSnapshot, lsn: Lsn) -> Option<Shown> {
        let facts = StreamFacts::decode(&lease.face_data)?;
        let policy = &lease.policy;
        let (ttl_ms, grace_ms) = (u64::from(policy.ttl_ms), u64::from(policy.grace_ms));
        let mut valid = lease.liveness.valid_ms;
        let (state, end, left, ended) = match &lease.state {
            LeaseState::Reserved { deadline } => (SlotSessionState::Starting, *deadline, None, None),
            LeaseState::Active { since, .. } => {
                let draining = matches!(lease.liveness.standing, Some(Standing::Draining(_)));
                let deadline = lease.liveness.deadline.unwrap_or(lease.now);
                let end = if draining { deadline } else { deadline.after_ms(grace_ms) };
                let end = match policy.max_lifetime_ms {
                    0 => end,
                    lifetime_ms => end.min(since.after_ms(lifetime_ms)),
                };
                let state = if draining { SlotSessionState::Draining } else { SlotSessionState::Running };
                let of_ttl_ms = if draining { 0 } else { deadline.ms_since(lease.now) };
                let left = Left { until_end_ms: end.ms_since(lease.now), of_ttl_ms, ttl_ms };
                (state, end, Some(left), None)
            }
            LeaseState::Revoking(revocation) => {
                let given_back = revocation.actor == Actor::Holder;
                let promised = lease.liveness.deadline.filter(|_| !given_back).unwrap_or(revocation.at);
                // Withdrawn by an operator: its client is honoured for as long as it was promised.
                if promised > lease.now && revocation.active_since.is_some() {
                    valid = Some(valid_ms(promised.ms_since(lease.now)));
                    let left = Left { until_end_ms: promised.ms_since(lease.now), of_ttl_ms: 0, ttl_ms };
                    (SlotSessionState::Draining, promised, Some(left), None)
                } else {
                    let (state, reason) = end_words(revocation.reason, &revocation.text);
                    (state, promised.max(revocation.at), None, Some(reason))
                }
            }
        };
        let end_wall_ms = lease.wall_of(end);
        let stream = api::SlotSession {
            last_heartbeat: self.last_heartbeat(&facts.id),
            session_id: facts.id,
            status: None,
            state,
            lease_expires_at: rfc3339(end_wall_ms),
            heartbeat_interval: self.streams().options.heartbeat_interval_secs,
            lease_ttl: ttl_ms / 1_000,
            valid_ms: valid,
            server_time: self.lens().now(),
            service_ref: facts.service_ref,
            resources: lease.members.iter().map(Text::to_string).collect(),
            fence: Some(lease.fence.0),
            epoch: Some(lease.epoch.0),
            ended_at: ended.is_some().then(|| rfc3339(end_wall_ms)),
            reason: ended,
            correlation_id: facts.correlation_id,
            created_at: rfc3339(facts.created_wall_ms),
            metadata: metadata(&lease.attachment),
            client: lease.holder.to_string(),
            own: None,
            queue_position: None,
            lease_id: Some(self.lens().lease_id(lease.id)),
            lsn: lsn.0,
        };
        let withdrawn = matches!(lease.state, LeaseState::Revoking(_)) && !state.is_terminal();
        Some(Shown { stream, left, withdrawn })
    }

    /// A stream whose lease has ended, as the log tells.
    pub(crate) async fn shown_ended(
        &self,
        lease: LeaseId,
        ended_lsn: Lsn,
        fence: Fence,
        lsn: Lsn,
    ) -> Option<Shown> {
        let (event, ended_wall_ms) = self.logged(ended_lsn).await?;
        let told = told_end(&event.change)?;
        // Its grant may be older than what is kept of the log.
        let granted = self.logged_event(lease.lsn()).await;
        let attachment = match granted.map(|event| event.change) {
            Some(Change::Granted(granted)) => granted.attachment,
            Some(_) | None => Vec::new(),
        };
        let remains = Remains {
            was: told.was,
            reason: told.reason,
            text: told.text,
            fence,
            ended_wall_ms,
            attachment: &attachment,
        };
        self.shown_remains(&remains, lsn)
    }

    pub(crate) fn shown_remains(&self, remains: &Remains<'_>, lsn: Lsn) -> Option<Shown> {
        let was = remains.was;
        let facts = StreamFacts::decode(&was.face_data)?;
        let (state, reason) = end_words(remains.reason, remains.text);
        let stream = api::SlotSession {
            last_heartbeat: self.last_heartbeat(&facts.id),
            session_id: facts.id,
            status: None,
            state,
            lease_expires_at: rfc3339(remains.ended_wall_ms),
            heartbeat_interval: self.streams().options.heartbeat_interval_secs,
            lease_ttl: u64::from(was.policy.ttl_ms) / 1_000,
            valid_ms: None,
            server_time: self.lens().now(),
            service_ref: facts.service_ref,
            resources: was.members.iter().map(Text::to_string).collect(),
            fence: Some(remains.fence.0),
            epoch: Some(was.epoch.0),
            reason: Some(reason),
            correlation_id: facts.correlation_id,
            created_at: rfc3339(facts.created_wall_ms),
            metadata: metadata(remains.attachment),
            client: was.holder.to_string(),
            own: None,
            queue_position: None,
            lease_id: Some(self.lens().lease_id(was.lease)),
            ended_at: Some(rfc3339(remains.ended_wall_ms)),
            lsn: lsn.0,
        };
        Some(Shown { stream, left: None, withdrawn: false })
    }

    /// A stream that waits; `None` where it waits no more.
    async fn shown_queued(&self, queued: &Queued) -> Result<Option<Shown>, Error> {
        let (place, lsn) = match self.ask(Request::Waiting(queued.ticket)).await {
            Answer::Waiting { place: Some(place), lsn } => (place, lsn),
            Answer::Waiting { place: None, .. } => return Ok(None),
            other => return Err(self.not_that(other, crate::refusal::Asked::AsAnyone)),
        };
        let now = read_clocks();
        let until_end_ms = queued.lapses_in(now.boot_ms);
        let stream = api::SlotSession {
            queue_position: Some(place),
            lsn: lsn.0,
            ..self.waiting_stream(queued, now.wall_ms, now.wall_ms.saturating_add(until_end_ms))
        };
        let ttl_ms = u64::from(queued.policy.ttl_ms);
        Ok(Some(Shown {
            stream,
            left: Some(Left { until_end_ms, of_ttl_ms: until_end_ms, ttl_ms }),
            withdrawn: false,
        }))
    }

    /// A stream that waits, as far as the queue is not asked.
    pub(crate) fn waiting_stream(&self, queued: &Queued, wall_ms: u64, end_wall_ms: u64) -> api::SlotSession {
        let facts = &queued.facts;
        api::SlotSession {
            session_id: facts.id.clone(),
            status: None,
            state: SlotSessionState::New,
            lease_expires_at: rfc3339(end_wall_ms),
            heartbeat_interval: self.streams().options.heartbeat_interval_secs,
            last_heartbeat: self.last_heartbeat(&facts.id),
            lease_ttl: u64::from(queued.policy.ttl_ms) / 1_000,
            valid_ms: None,
            server_time: rfc3339(wall_ms),
            service_ref: facts.service_ref.clone(),
            resources: Vec::new(),
            fence: None,
            epoch: None,
            reason: None,
            correlation_id: facts.correlation_id.clone(),
            created_at: rfc3339(facts.created_wall_ms),
            metadata: metadata(&queued.attachment),
            client: queued.holder.to_string(),
            own: None,
            queue_position: None,
            lease_id: None,
            ended_at: None,
            lsn: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_of_a_lease_is_one_of_a_session() {
        let words = |reason, text| {
            let (state, word) = end_words(reason, text);
            (state.as_str(), word)
        };
        let of = |state: &'static str, word: &str| (state, word.to_owned());
        assert_eq!(words(Reason::HeartbeatExpired, ""), of("stopped", "LEASE_EXPIRED"));
        assert_eq!(words(Reason::Explicit, ""), of("stopped", "USER_STOPPED"));
        assert_eq!(words(Reason::Explicit, "done"), of("stopped", "USER_STOPPED"));
        assert_eq!(words(Reason::Explicit, "FAILED:no signal"), of("failed", "FAILED:no signal"));
        assert_eq!(words(Reason::ReservationExpired, ""), of("failed", "START_TIMEOUT"));
        assert_eq!(words(Reason::AdminForce, "drained"), of("stopped", "ADMIN_REVOKED"));
        assert_eq!(words(Reason::AdminForce, "FAILED:enough"), of("failed", "FAILED:enough"));
        assert_eq!(words(Reason::PoolRemoved, ""), of("stopped", "ADMIN_REVOKED"));
        assert_eq!(words(Reason::MaxLifetime, ""), of("stopped", "MAX_LIFETIME"));
        for reason in Reason::ALL {
            assert!(end_words(reason, "").0.is_terminal());
        }
    }
}
