//! The stream of events: what the engine publishes, with the lease it concerns, filtered.
//!
//! An event names its lease; who holds it and what it covers may stand in an earlier one. Streams together remember
//! what they have seen and ask for the rest.

mod known;
mod versions;

use crate::caller::Freshness;
use crate::dispatch::Faces;
use crate::refusal::Asked;
use crate::show::{Ended, Terms, application, attachment, mode, state, words};
use crate::switchboard::WatchNews;
use known::Known;
use std::collections::VecDeque;
use std::sync::Arc;
use tenure_api::{self as api, Error, ErrorCode, EventKind, EventLease, EventsQuery};
use tenure_engine::kernel::{Change, Event, LeaseId, Lsn, Note, Reason, StateName, Subject};
use tenure_engine::{Answer, Control, News, Published, Request, Ticket};
use tenure_history::{WireLease, rfc3339, wire_session};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use versions::Seen;
pub(crate) use versions::Versions;

/// Events that may be on their way to one stream.
const ROOM: usize = 128;

/// What a stream says next.
#[derive(Clone, PartialEq, Debug)]
pub enum Streamed {
    /// Something happened.
    Event(Box<api::Event>),
    /// The reader was too slow; the stream is over.
    Lagged(api::Lagged),
    /// History below this position went away meanwhile; the stream is over.
    Trimmed(Error),
}

/// Events from a position on. Ends its watch when dropped.
pub struct EventStream {
    faces: Faces,
    watch: Ticket,
    news: UnboundedReceiver<WatchNews>,
    ready: VecDeque<Arc<Published>>,
    /// Taken since the engine was last told of room.
    taken: usize,
    filter: EventsQuery,
    seen: Seen,
    over: bool,
}

impl Faces {
    /// Begins a stream; `from` is what the reader has seen last.
    ///
    /// # Errors
    /// When history from there on is not kept, or the position lies in the future.
    pub async fn events(&self, query: EventsQuery) -> Result<EventStream, Error> {
        self.check_served(false)?;
        if let (true, Some(after)) = (self.is_of_cluster(), query.from) {
            // Seen at another node, which was a moment ahead of this one.
            self.reach(Freshness::AtLeast(after)).await?;
        }
        let newest = self.synced_lsn().await?;
        let from = match query.from {
            None => newest.next(),
            Some(after) if after > newest.0 => {
                let message = format!("from is {after}, but the log ends at {newest}");
                return Err(Error::new(ErrorCode::InvalidRequest, message).with("newest", newest.0));
            }
            Some(after) => {
                let from = Lsn(after + 1);
                self.check_kept(from, newest).await?;
                from
            }
        };
        let (line, news) = unbounded_channel();
        let watch = self.handle().draw_ticket();
        self.switchboard().watch(watch, line);
        let stream = EventStream {
            faces: self.clone(),
            watch,
            news,
            ready: VecDeque::new(),
            taken: ROOM,
            filter: query,
            seen: self.versions().begin(from),
            over: false,
        };
        match self.handle().start_as(watch, Request::Watch { from }).await.pop() {
            Some(Answer::Watching { .. }) => Ok(stream),
            Some(Answer::Refused(refused)) => Err(self.refused(&refused, Asked::AsAnyone)),
            _ => Err(Error::new(ErrorCode::Internal, "the watch did not start")),
        }
    }

    /// The position that an opaque event id stands for.
    ///
    /// # Errors
    /// When it is an id of another log: what followed it there is not kept here.
    pub async fn event_position(&self, id: &str) -> Result<u64, Error> {
        let wire: WireLease = id
            .parse()
            .map_err(|_| Error::new(ErrorCode::InvalidRequest, format!("{id:?} is not an event id")))?;
        if wire.lease(self.identity()).is_some() {
            return Ok(wire.lsn.0);
        }
        let oldest = self.oldest_lsn().await?;
        let message = "the event id is from another log";
        Err(Error::new(ErrorCode::LsnTrimmed, message).with("oldest", oldest.0))
    }

    /// How a position is written as an event id.
    #[must_use]
    pub fn event_id(&self, lsn: u64) -> String {
        self.lens().lease_id(LeaseId::new(self.identity().shard, Lsn(lsn)))
    }

    async fn check_kept(&self, from: Lsn, newest: Lsn) -> Result<(), Error> {
        let oldest = self.oldest_lsn().await?;
        if from >= oldest || from > newest {
            return Ok(());
        }
        let message = format!("the position is older than the log, which begins at {oldest}");
        Err(Error::new(ErrorCode::LsnTrimmed, message).with("oldest", oldest.0))
    }
}

impl EventStream {
    /// The next event that passes the filter; `None` when the stream is over. Nothing is lost when this is
    /// dropped before it is ready.
    pub async fn next(&mut self) -> Option<Streamed> {
        while !self.over {
            // Taken away only once it is told: a reader may stop waiting at any moment and come again.
            while let Some(published) = self.ready.front().cloned() {
                let shown = self.shown(&published).await;
                self.ready.pop_front();
                self.taken += 1;
                if let Some(event) = shown {
                    return Some(Streamed::Event(Box::new(event)));
                }
            }
            self.make_room();
            match self.news.recv().await {
                Some(WatchNews::Events(events)) => self.ready.extend(events),
                Some(WatchNews::Lagged(resume)) => {
                    self.over = true;
                    // `from` is what was seen last.
                    return Some(Streamed::Lagged(api::Lagged { resume: resume.0.saturating_sub(1) }));
                }
                Some(WatchNews::Trimmed(oldest)) => {
                    self.over = true;
                    let message = format!("the position is older than the log, which begins at {oldest}");
                    let error = Error::new(ErrorCode::LsnTrimmed, message).with("oldest", oldest.0);
                    return Some(Streamed::Trimmed(error));
                }
                None => self.over = true,
            }
        }
        None
    }

    fn make_room(&mut self) {
        if self.taken > ROOM / 2 {
            let room = core::mem::take(&mut self.taken);
            self.faces.handle().tell(Control::WatchMore { watch: self.watch, room });
        }
    }

    async fn shown(&mut self, published: &Published) -> Option<api::Event> {
        let event = |kind: EventKind, lease: Option<EventLease>| api::Event {
            lsn: published.lsn.0,
            at: rfc3339(published.wall_ms),
            kind,
            lease,
            session: None,
            pool: None,
        };
        let shown = match &published.news {
            News::Event(happened) => {
                let kind = kind(&happened.change)?;
                let lease = self.lease_of(published.lsn, happened).await;
                api::Event {
                    session: match &happened.change {
                        Change::SessionOpened(open) => Some(wire_session(open.session)),
                        Change::SessionClosed { session, .. } => Some(wire_session(*session)),
                        _ => None,
                    },
                    pool: match &happened.change {
                        Change::PoolDefined { name, .. } | Change::PoolRemoved { name } => {
                            Some(name.to_string())
                        }
                        _ => None,
                    },
                    ..event(kind, lease)
                }
            }
            News::Note(Note::Draining { subject, .. }) => {
                self.noted(*subject, event(EventKind::Draining, None), api::Liveness::Draining).await
            }
            News::Note(Note::Returned { subject }) => {
                self.noted(*subject, event(EventKind::Revived, None), api::Liveness::Alive).await
            }
            News::Note(
                Note::GateOpened { .. }
                | Note::BreakerOpened { .. }
                | Note::BreakerClosed
                | Note::Stalled { .. }
                | Note::Restarted,
            ) => return None,
        };
        passes(&self.filter, &shown).then_some(shown)
    }

    /// An observation: of one lease, or of a session and all its leases.
    async fn noted(&mut self, subject: Subject, mut event: api::Event, now: api::Liveness) -> api::Event {
        match subject {
            Subject::Session(session) => event.session = Some(wire_session(session)),
            Subject::Lease(lease) => {
                let known = self.known(lease, Lsn(event.lsn), None).await;
                let mut shown = self.lease(lease, known.as_deref());
                shown.state = Some(api::State::Active);
                shown.liveness = Some(now);
                shown.drain_cause = (now == api::Liveness::Draining).then_some(api::DrainCause::Silence);
                event.lease = Some(shown);
            }
        }
        event
    }

    /// The lease of an event, as the event left it.
    async fn lease_of(&mut self, lsn: Lsn, event: &Event) -> Option<EventLease> {
        let shard = self.faces.identity().shard;
        let lease = event.change.lease(LeaseId::new(shard, lsn))?;
        if let Change::Granted(granted) = &event.change {
            self.faces.versions().remember(lease, lsn, Arc::new(Known::granted(granted)));
        }
        let known = match event.change.epitaph() {
            Some(was) => Some(Arc::new(Known::was(was))),
            None => self.known(lease, lsn, Some(&event.change)).await,
        };
        let held = if known.as_ref().is_some_and(|known| known.reserved) {
            StateName::Reserved
        } else {
            StateName::Active
        };
        let mut shown = self.lease(lease, known.as_deref());
        let alive = Some(api::Liveness::Alive);
        match &event.change {
            Change::Granted(granted) => {
                shown.state = Some(state(held));
                shown.liveness = alive.filter(|_| held == StateName::Active);
                shown.epoch = Some(1);
                shown.fence = Some(self.faces.identity().fence_base + lsn.0);
                shown.attachment = attachment(&granted.attachment);
            }
            Change::Activated { .. } => (shown.state, shown.liveness) = (Some(api::State::Active), alive),
            Change::Rebound(rebound) => {
                shown.state = Some(state(held));
                shown.epoch = Some(rebound.epoch.0);
                shown.fence = Some(self.faces.identity().fence_base + lsn.0);
            }
            Change::Amended(amended) => {
                shown.state = Some(state(held));
                shown.attachment = amended.attachment.as_deref().and_then(attachment);
            }
            Change::Drained(steered) => {
                shown.state = Some(api::State::Active);
                shown.liveness = Some(api::Liveness::Draining);
                shown.drain_cause = Some(api::DrainCause::Operator);
                shown.reason_text = words(&steered.text);
            }
            Change::Revived(steered) => {
                (shown.state, shown.liveness) = (Some(api::State::Active), alive);
                shown.reason_text = words(&steered.text);
            }
            Change::Revoked(revoked) => {
                shown.state = Some(api::State::Revoking);
                shown.epoch = Some(revoked.epoch.0);
                shown.reason = Some(revoked.reason.as_str().to_owned());
                shown.reason_text = words(&revoked.text);
            }
            change @ (Change::Released(_) | Change::Reclaimed(_) | Change::Expired(_)) => {
                if let Some(ended) = told_end(change) {
                    shown.state = Some(state(ended.state));
                    shown.epoch = Some(ended.was.epoch.0);
                    shown.reason = Some(ended.reason.as_str().to_owned());
                    shown.reason_text = words(ended.text);
                }
            }
            Change::Notified { .. }
            | Change::SessionOpened(_)
            | Change::SessionClosed { .. }
            | Change::PoolDefined { .. }
            | Change::PoolRemoved { .. }
            | Change::Trimmed { .. }
            | Change::Configured(_) => {}
        }
        Some(shown)
    }

    fn lease(&self, lease: LeaseId, known: Option<&Known>) -> EventLease {
        let terms = known.map(|known| Terms::of(&known.policy));
        EventLease {
            lease_id: self.faces.lens().lease_id(lease),
            holder: known.map(|known| known.holder.to_string()),
            resources: known.map(|known| known.members.clone()),
            state: None,
            liveness: None,
            drain_cause: None,
            mode: known.map(|known| mode(known.policy.mode)),
            epoch: None,
            fence: None,
            ttl_ms: terms.as_ref().and_then(|terms| terms.ttl_ms),
            grace_ms: terms.as_ref().and_then(|terms| terms.grace_ms),
            granted_at: known.map(|known| rfc3339(known.granted_wall_ms)),
            reason: None,
            reason_text: None,
            session: known.and_then(|known| known.policy.session).map(wire_session),
            application: known.map(|known| application(known.policy.face)),
            attachment: None,
        }
    }

    /// What a lease is after a change at this position.
    async fn known(&mut self, lease: LeaseId, at: Lsn, change: Option<&Change>) -> Option<Arc<Known>> {
        if let Some(known) = self.faces.versions().find(lease, at, change, &mut self.seen) {
            return Some(known);
        }
        let mut known = self.looked_up(lease, at, change).await?;
        if let Some(change) = change {
            known.follow(change);
        }
        let known = Arc::new(known);
        self.faces.versions().remember(lease, at, Arc::clone(&known));
        Some(known)
    }

    async fn looked_up(&self, lease: LeaseId, at: Lsn, change: Option<&Change>) -> Option<Known> {
        let told = match change {
            // It says itself who holds the lease from here on, and on which terms.
            Some(Change::Rebound(rebound)) if rebound.policy.is_some() => {
                self.faces.lease_in_use(lease).await
            }
            _ => None,
        };
        let unused = matches!(change, Some(Change::Amended(_)));
        match told {
            Some(known) => Some(known),
            None => self.faces.known_lease(lease, at, unused).await,
        }
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.faces.switchboard().unwatch(self.watch);
        self.faces.handle().tell(Control::WatchEnd(self.watch));
    }
}

/// How an ending event says that the lease ended. The fence is not in it.
pub(crate) fn told_end(change: &Change) -> Option<Ended<'_>> {
    let of = |was, state, reason, text| {
        Some(Ended { was, state, reason, text, fence: tenure_engine::kernel::Fence(0), ended_wall_ms: 0 })
    };
    match change {
        Change::Released(released) => {
            of(&released.was, StateName::Released, Reason::Explicit, released.text.as_str())
        }
        Change::Reclaimed(reclaimed) => {
            of(&reclaimed.was, StateName::Revoked, reclaimed.reason, reclaimed.text.as_str())
        }
        Change::Expired(expired) => of(&expired.was, StateName::Expired, Reason::ReservationExpired, ""),
        Change::Granted(_)
        | Change::Activated { .. }
        | Change::Rebound(_)
        | Change::Amended(_)
        | Change::Drained(_)
        | Change::Revived(_)
        | Change::Revoked(_)
        | Change::SessionOpened(_)
        | Change::SessionClosed { .. }
        | Change::PoolDefined { .. }
        | Change::PoolRemoved { .. }
        | Change::Notified { .. }
        | Change::Trimmed { .. }
        | Change::Configured(_) => None,
    }
}

/// The kind watchers know; `None` for what only the daemon cares about.
fn kind(change: &Change) -> Option<EventKind> {
    Some(match change {
        Change::Granted(_) => EventKind::Granted,
        Change::Activated { .. } => EventKind::Activated,
        Change::Rebound(_) => EventKind::Rebound,
        Change::Amended(_) => EventKind::Amended,
        Change::Drained(_) => EventKind::Draining,
        Change::Revived(_) => EventKind::Revived,
        Change::Released(_) => EventKind::Released,
        Change::Revoked(_) => EventKind::Revoked,
        Change::Reclaimed(_) => EventKind::Reclaimed,
        Change::Expired(_) => EventKind::Expired,
        Change::SessionOpened(_) => EventKind::SessionOpened,
        Change::SessionClosed { .. } => EventKind::SessionClosed,
        Change::PoolDefined { .. } => EventKind::PoolDefined,
        Change::PoolRemoved { .. } => EventKind::PoolRemoved,
        Change::Notified { .. } | Change::Trimmed { .. } | Change::Configured(_) => return None,
    })
}

/// Whether an event passes. With a filter, what concerns no lease does not.
fn passes(filter: &EventsQuery, event: &api::Event) -> bool {
    let EventsQuery { from: _, holder, state, liveness, mode, resource_prefix, application } = filter;
    let unfiltered = holder.is_none()
        && state.is_none()
        && liveness.is_none()
        && mode.is_none()
        && resource_prefix.is_none()
        && application.is_none();
    if unfiltered {
        return true;
    }
    let Some(lease) = &event.lease else { return false };
    let begins =
        |prefix: &String| lease.resources.iter().flatten().any(|name| name.starts_with(prefix.as_str()));
    holder.as_ref().is_none_or(|holder| lease.holder.as_ref() == Some(holder))
        && state.is_none_or(|state| lease.state == Some(state))
        && liveness.is_none_or(|liveness| lease.liveness == Some(liveness))
        && mode.is_none_or(|mode| lease.mode == Some(mode))
        && resource_prefix.as_ref().is_none_or(begins)
        && application.is_none_or(|wanted| lease.application == Some(wanted))
}
