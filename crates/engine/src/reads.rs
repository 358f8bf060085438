//! Requests that only look. What rests on an absence, and every list, depends on the newest event applied;
//! one record depends on its own last change. A read looks at a bounded number of records.

use crate::answer::{Answer, Checked, LeaseFound, LeaseRead, PoolSnapshot, SessionSnapshot, WaiterSnapshot};
use crate::engine::Engine;
use crate::request::{Check, Lane, List, Request, Ticket};
use crate::status::Status;
use tenure_kernel::limits::OPERATION_KEEP_MS_DEFAULT;
use tenure_kernel::{
    Face, Found, LeaseId, LeaseState, LeaseView, Lsn, Rejection, SessionId, SessionView, Text,
};

/// Records one read looks at; a page may be short because of it.
const EXAMINED_MAX: usize = 2_000;
/// Waiters named in one answer.
const WAITERS_SHOWN_MAX: usize = 100;
/// Records looked at per unit of work.
const EXAMINED_PER_UNIT: usize = 10;

impl Engine {
    /// Answers a read; returns about how many units of work it was.
    pub(crate) fn read(&mut self, ticket: Ticket, request: Request) -> usize {
        let newest = self.journal.newest();
        match request {
            Request::Read(lease) => self.read_lease(ticket, lease),
            Request::List(list) => return self.list(ticket, &list),
            Request::Ended { face, from } => return self.list_ended(ticket, face, from),
            Request::Resource(name) => self.read_resource(ticket, &name),
            Request::Pools => {
                let pools: Vec<PoolSnapshot> = self
                    .kernel
                    .pools()
                    .map(|pool| PoolSnapshot {
                        name: pool.name.into(),
                        size: pool.size,
                        free: pool.free,
                        removed: pool.removed,
                    })
                    .collect();
                let units = 1 + pools.len() / EXAMINED_PER_UNIT;
                self.answer(ticket, newest, Answer::Pools { pools, lsn: newest });
                return units;
            }
            Request::Session(session) => self.read_session(ticket, session),
            Request::Sessions { from, limit } => self.list_sessions(ticket, from, limit),
            Request::Check(check) => {
                let (checked, depends_on) = self.check(&check);
                self.answer(ticket, depends_on, Answer::Checked(checked));
            }
            Request::Watch { from } => {
                let from = from.max(Lsn(1));
                self.hub.begin(ticket, from);
                self.answer(ticket, Lsn(0), Answer::Watching { from });
            }
            Request::Waiting(waiting) => {
                let place = self.waiters.standing(waiting);
                let units = 1 + place.unwrap_or(0) / EXAMINED_PER_UNIT;
                let place = place.map(|place| place as u64);
                self.answer(ticket, newest, Answer::Waiting { place, lsn: newest });
                return units;
            }
            Request::Status => {
                let status = self.status();
                self.answer(ticket, newest, Answer::Status(Box::new(status)));
            }
            Request::Submit(_)
            | Request::Heartbeat { .. }
            | Request::TimelyHeartbeat { .. }
            | Request::SessionHeartbeat { .. }
            | Request::ConnectionOpened(_)
            | Request::ConnectionsTold { .. }
            | Request::Acknowledge { .. }
            | Request::HeldAs { .. }
            | Request::ResetBreaker
            | Request::Trim(_) => unreachable!("invariant: only reads are read"),
        }
        1
    }

    fn read_lease(&mut self, ticket: Ticket, lease: LeaseId) {
        let depends_on = match self.kernel.lease(lease, self.tick) {
            Found::Live(view) => view.changed_lsn(),
            Found::Ended(ended) => ended.ended_lsn,
            Found::Retired => {
                return self.refuse(ticket, self.journal.newest(), Rejection::LeaseRetired.into());
            }
            Found::NotFound => {
                return self.refuse(ticket, self.journal.newest(), Rejection::LeaseNotFound.into());
            }
        };
        let lease = self.found(lease).expect("invariant: it was just found");
        let waiters = match &lease {
            LeaseFound::Live(live) => self.waiters_behind(&live.members),
            LeaseFound::JustEnded { .. } | LeaseFound::Ended { .. } | LeaseFound::Retired => Vec::new(),
        };
        let lsn = depends_on.max(self.journal.synced());
        self.answer(ticket, depends_on, Answer::Read(Box::new(LeaseRead { lease, waiters, lsn })));
    }

    fn list(&mut self, ticket: Ticket, list: &List) -> usize {
        let mut leases = Vec::new();
        let mut next = None;
        let mut examined = 0;
        for view in self.kernel.leases_from(list.from) {
            if leases.len() >= list.limit || examined >= EXAMINED_MAX {
                next = Some(view.id());
                break;
            }
            examined += 1;
            if matches(view, list) {
                leases.push(self.snapshot(view));
            }
        }
        let lsn = self.journal.newest();
        self.answer(ticket, lsn, Answer::Leases { leases, next, lsn });
        1 + examined / EXAMINED_PER_UNIT
    }

    fn list_ended(&mut self, ticket: Ticket, face: Face, from: Lsn) -> usize {
        let mut found = self.kernel.ended_of(face, from, self.tick);
        let leases: Vec<_> = found.by_ref().take(EXAMINED_MAX).map(|(id, ended)| (id, *ended)).collect();
        let next = found.next().map(|(_, ended)| ended.ended_lsn);
        drop(found);
        let (examined, lsn) = (leases.len(), self.journal.newest());
        self.answer(ticket, lsn, Answer::Ended { leases, next, lsn });
        1 + examined / EXAMINED_PER_UNIT
    }

    fn read_resource(&mut self, ticket: Ticket, name: &Text) {
        let covering = self.kernel.covering(name);
        // Covered: its lease says so. Available: nothing newer may say otherwise.
        let depends_on = covering.map_or(self.journal.newest(), LeaseView::changed_lsn);
        let lsn = depends_on.max(self.journal.synced());
        let lease = covering.map(|view| Box::new(self.snapshot(view)));
        let waiters = self.waiters_behind(core::slice::from_ref(name));
        self.answer(ticket, depends_on, Answer::Resource { lease, waiters, lsn });
    }

    /// Requests that wait for any of these resources, first first.
    fn waiters_behind(&self, names: &[Text]) -> Vec<WaiterSnapshot> {
        let waiters = self.waiters.behind(names, WAITERS_SHOWN_MAX);
        waiters
            .filter_map(|waiter| {
                Some(WaiterSnapshot {
                    holder: waiter.request.command.action.grant()?.holder.clone(),
                    waited_ms: self.tick.ms_since(waiter.since),
                    passed: waiter.passed(),
                })
            })
            .collect()
    }

    fn read_session(&mut self, ticket: Ticket, id: SessionId) {
        let Some(session) = self.kernel.session(id) else {
            let rejection = Rejection::SessionNotFound { session: id };
            return self.refuse(ticket, self.journal.newest(), rejection.into());
        };
        let depends_on = session.changed_lsn();
        let lsn = depends_on.max(self.journal.synced());
        let session = Box::new(self.session_snapshot(session));
        self.answer(ticket, depends_on, Answer::Session { session, lsn });
    }

    fn session_snapshot(&self, session: SessionView<'_>) -> SessionSnapshot {
        SessionSnapshot {
            id: session.id(),
            holder: session.holder().into(),
            principal: session.principal().into(),
            kind: session.kind(),
            ttl_ms: session.ttl_ms(),
            grace_ms: session.grace_ms(),
            accepts_handover: session.accepts_handover().map(Into::into),
            leases: session.lease_count(),
            standing: self.liveness.session(session.id(), self.tick),
            now: self.tick,
        }
    }

    fn list_sessions(&mut self, ticket: Ticket, from: SessionId, limit: usize) {
        let limit = limit.min(EXAMINED_MAX);
        let mut found = self.kernel.sessions_from(from);
        let sessions: Vec<SessionSnapshot> =
            found.by_ref().take(limit).map(|session| self.session_snapshot(session)).collect();
        let next = found.next().map(|session| session.id());
        drop(found);
        let lsn = self.journal.newest();
        self.answer(ticket, lsn, Answer::Sessions { sessions, next, lsn });
    }

    fn check(&self, check: &Check) -> (Checked, Lsn) {
        let (view, presented) = match check {
            Check::Fence { resource, fence } => {
                let view = self.kernel.covering(resource);
                (view, view.is_some_and(|view| view.fence() == *fence))
            }
            Check::Epoch { lease, epoch } => {
                let view = self.kernel.live(*lease);
                (view, view.is_some_and(|view| view.epoch() == *epoch))
            }
        };
        let with_authority = view.filter(|view| match view.state() {
            LeaseState::Active { .. } => true,
            LeaseState::Reserved { .. } | LeaseState::Revoking(_) => false,
        });
        let depends_on = view.map_or(self.journal.newest(), LeaseView::changed_lsn);
        let checked = Checked {
            current: presented && with_authority.is_some(),
            lease: with_authority.map(LeaseView::id),
            holder: with_authority.map(|view| view.holder().clone()),
            epoch: with_authority.map(LeaseView::epoch),
            fence: with_authority.map(LeaseView::fence),
            lsn: depends_on.max(self.journal.synced()),
        };
        (checked, depends_on)
    }

    /// Numbers about everything.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            applied_lsn: self.journal.newest(),
            synced_lsn: self.journal.synced(),
            tick: self.tick,
            leases: self.kernel.counts().iter().collect(),
            retained: self.kernel.retained_count() as u64,
            operations: self.kernel.operation_count() as u64,
            operation_floor: self.kernel.operation_floor(self.tick, OPERATION_KEEP_MS_DEFAULT),
            notices: self.kernel.notices().count() as u64,
            sessions: self.liveness.session_count() as u64,
            waiters: self.waiting() as u64,
            watches: self.hub.len() as u64,
            inbox: Lane::ALL.map(|lane| (lane, self.lanes.len(lane) as u64)),
            breaker_until: self.liveness.breaker_holds_until(self.tick),
            restored_until: self.grants.not_before,
            space: self.grants.space,
            failing: self.failing_tasks(),
            counters: self.counters.clone(),
        }
    }
}

fn matches(view: LeaseView<'_>, list: &List) -> bool {
    let of_holder = list.holder.as_ref().is_none_or(|holder| view.holder() == holder);
    let prefix = list.resource_prefix.as_deref().unwrap_or("");
    of_holder && (prefix.is_empty() || view.members().any(|name| name.starts_with(prefix)))
}
