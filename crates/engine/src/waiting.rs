//! Requests that wait for their bundle: how they come to wait, are served, run out, and are interrupted. The order is
//! that of `waiters.rs`; what is decided is decided as for any other command.

use crate::answer::{Answer, LeaseFound, Refused, WaitLimit};
use crate::commands::{Outcome, face_of};
use crate::engine::Engine;
use crate::request::{Submit, Ticket};
use crate::retries::TRIES_MAX;
use crate::status::GrantOutcome;
use crate::waiters::{Place, Servable, Try, Wanted, is_free, wanted_by};
use tenure_kernel::planted::{Planted, planted};
use tenure_kernel::{Action, Bundle, Grant, Lsn, Operation};

impl Engine {
    /// A grant counts as the last in every queue: bundles that others wait for are not its to take.
    pub(crate) fn yield_to_waiters(&mut self, grant: &mut Grant) -> Result<(), Refused> {
        self.confirm_take_over(grant);
        if self.waiters.len() == 0 || grant.take_over.is_some_and(|lease| self.kernel.live(lease).is_some()) {
            return Ok(());
        }
        let wanted = match self.waiters.admit(&self.kernel, &grant.bundle, self.tick) {
            Ok(chosen) if is_free(&self.kernel, &grant.bundle) => {
                grant.bundle = chosen.unwrap_or_else(|| core::mem::take(&mut grant.bundle));
                return Ok(());
            }
            Ok(_) => None,
            Err(wanted) => Some(wanted),
        };
        let mut free: Vec<Bundle> = Vec::new();
        for bundle in core::mem::take(&mut grant.alternatives) {
            if let Ok(chosen) = self.waiters.admit(&self.kernel, &bundle, self.tick) {
                free.push(chosen.unwrap_or(bundle));
            }
        }
        let Some(wanted) = wanted else {
            grant.alternatives = free;
            return Ok(());
        };
        if free.is_empty() {
            let waiters = self.waiters.waiting_for(&wanted).max(1);
            let resource = match wanted {
                // Held is the better answer where it is true: it names the holder.
                Wanted::Resource(name) if self.kernel.covering(&name).is_some() => return Ok(()),
                Wanted::Resource(name) | Wanted::Pool(name) => name,
            };
            return Err(Refused::Queued { resource, waiters });
        }
        grant.bundle = free.remove(0);
        grant.alternatives = free;
        Ok(())
    }

    /// Requests that wait: the waiters, and further tries that joined them.
    pub(crate) fn waiting(&self) -> usize {
        self.waiters.len() + self.retries.joined()
    }

    pub(crate) fn wait(&mut self, mut request: Try, wait_ms: u64) {
        // What drained when it was asked may not when it is served.
        if let Action::Grant(grant) = &mut request.command.action {
            grant.take_over = None;
        }
        if let Err(refused) = self.check_room_to_wait(&request) {
            return self.refuse(request.ticket, Lsn(0), refused);
        }
        let operation = request.command.operation.as_ref();
        let before = operation.and_then(|operation| self.retries.waits(operation, self.tick));
        // All of it may be free, and wanted by somebody earlier: that one is to know whom it holds back.
        let bundle = request.command.action.grant().map(|grant| &grant.bundle);
        let free = bundle.filter(|bundle| is_free(&self.kernel, bundle));
        let behind = free.map_or_else(Vec::new, wanted_by);
        self.waiters.join(request, self.tick, wait_ms, before);
        self.freed.extend(behind);
    }

    /// One more try of an operation that waits. It waits for the same outcome, and counts as a waiter.
    pub(crate) fn join(&mut self, mut request: Try) {
        if let Action::Grant(grant) = &mut request.command.action {
            grant.take_over = None;
        }
        let ticket = request.ticket;
        if let Err(refused) = self.check_room_to_wait(&request) {
            return self.refuse(ticket, Lsn(0), refused);
        }
        let operation = request.command.operation.clone();
        if !operation.is_some_and(|operation| self.retries.join(&operation, request)) {
            let refused = Refused::TooManyWaiters { limit: WaitLimit::TriesOfOperation, max: TRIES_MAX };
            self.refuse(ticket, Lsn(0), refused);
        }
    }

    /// Whether one more request may wait, of all and of its principal's.
    fn check_room_to_wait(&self, request: &Try) -> Result<(), Refused> {
        let full = |limit, max| Err(Refused::TooManyWaiters { limit, max });
        if self.waiting() >= self.config.waiters_max {
            return full(WaitLimit::Waiters, self.config.waiters_max);
        }
        let principal = request.principal();
        let own = self.waiters.of(principal) + self.retries.joined_of(principal);
        if own >= self.config.waiters_per_principal_max {
            return full(WaitLimit::WaitersOfPrincipal, self.config.waiters_per_principal_max);
        }
        Ok(())
    }

    /// Serves whom it can of those who wait for what came free. The rest is for the next turn.
    pub(crate) fn serve_waiters(&mut self) {
        while self.journal.room() > 0
            && self.serving > 0
            && let Some(wanted) = self.freed.first()
        {
            let before = self.waiters.looks();
            match self.waiters.servable(&self.kernel, wanted, self.tick) {
                Some(servable) => self.serve(servable),
                None => self.freed.remove_first(),
            }
            let looked = self.waiters.looks().saturating_sub(before);
            self.serving = self.serving.saturating_sub(1 + looked as usize);
        }
    }

    fn serve(&mut self, servable: Servable) {
        let Some((waiter, behind)) = self.waiters.leave(servable.place) else { return };
        self.freed.extend(behind);
        let Try { ticket, mut command, opening } = waiter.request;
        if let Action::Grant(grant) = &mut command.action {
            grant.wall_ms = self.now.wall_ms;
            if let Some(chosen) = servable.chosen {
                grant.bundle = chosen;
            }
        }
        let session = command.action.grant().and_then(|grant| grant.policy.session);
        let open = self
            .grants
            .check(self.tick)
            .and_then(|()| self.make_durable(session, opening.as_deref(), &command));
        let outcome = match open {
            Ok(()) => self.decide(&command),
            Err(refused) => Outcome { answer: Answer::Refused(refused), depends_on: self.journal.newest() },
        };
        self.counters.wait_ms.record(self.tick.ms_since(waiter.since));
        self.count_passed(&outcome, servable.place);
        self.granted_or_not(&command, &outcome);
        self.tell_all(ticket, command.operation.as_ref(), &outcome);
    }

    /// A grant may have passed others.
    pub(crate) fn count_passed(&mut self, outcome: &Outcome, place: Place) {
        let Answer::Lease(given) = &outcome.answer else { return };
        let LeaseFound::Live(lease) = &given.lease else { return };
        if !given.replayed {
            self.counters.waiters_passed += self.waiters.passed_by(&lease.members, place);
        }
    }

    /// A waiter's time is over.
    pub(crate) fn wait_over(&mut self, place: Place) {
        let Some((waiter, behind)) = self.waiters.leave(place) else { return };
        self.freed.extend(behind);
        self.counters.grant(face_of(&waiter.request.command), GrantOutcome::TimedOut);
        let depends_on = self.journal.newest();
        let outcome = Outcome { answer: Answer::Refused(Refused::WaitTimeout), depends_on };
        self.tell_all(waiter.request.ticket, waiter.operation(), &outcome);
    }

    fn tell_all(&mut self, ticket: Ticket, operation: Option<&Operation>, outcome: &Outcome) {
        self.answer(ticket, outcome.depends_on, outcome.answer.clone());
        if let Some(operation) = operation {
            for other in self.retries.settled(operation) {
                let via = other.command.action.grant().and_then(|grant| grant.policy.session);
                let answer = self.as_heard_on(via, outcome.answer.clone());
                self.answer(other.ticket, outcome.depends_on, answer);
            }
        }
        self.remember_refusal(operation, outcome);
    }

    /// Withdraws a request that waits, because its caller is gone; `false`: none waits under this ticket.
    pub(crate) fn cancel(&mut self, waiting: Ticket) -> bool {
        let withdrawn = self.interrupt(waiting);
        if withdrawn {
            self.refuse(waiting, Lsn(0), Refused::Cancelled);
        }
        withdrawn
    }

    /// The simulator plants the bug that a try cancelled before it arrived costs its operation the place.
    pub(crate) fn lose_place_if_planted(&mut self, submit: &Submit) {
        if planted(Planted::CancelLosesPlace)
            && let Some(operation) = &submit.operation
        {
            let operation = self.identify(operation, submit);
            self.waiters.move_operation_to_end(&operation);
        }
    }

    /// Ends the wait of one request. Its place goes to another try of the same operation, or is kept for the next one
    /// without standing in anybody's way. `false`: it does not wait.
    fn interrupt(&mut self, waiting: Ticket) -> bool {
        let Some(place) = self.waiters.find(waiting) else { return self.retries.withdraw(waiting) };
        let operation = self.waiters.get(place).and_then(|waiter| waiter.operation().cloned());
        if let Some(heir) = operation.as_ref().and_then(|operation| self.retries.heir(operation)) {
            self.waiters.succeed(place, heir);
            return true;
        }
        let Some((waiter, behind)) = self.waiters.leave(place) else { return false };
        self.freed.extend(behind);
        if let Some(operation) = &operation {
            self.retries.interrupted(operation, waiter.into_standing(), self.tick);
        }
        true
    }
}
