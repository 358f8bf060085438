//! Requests that may change something: commands, waits, proofs of life. Each is decided in one step inside
//! the turn; nobody checks first and acts later.

use crate::answer::{Answer, Blocker, CallLimit, LeaseAnswer, LeaseFound, LeaseSnapshot, Refused};
use crate::engine::{Engine, Role, ending_reason, ending_text};
use crate::hands::{Hands, speaks_for};
use crate::request::{Submit, TakeOver, Ticket};
use crate::retries::Known;
use crate::status::GrantOutcome;
use crate::waiters::{Place, Try};
use tenure_kernel::planted::{Planted, planted};
use tenure_kernel::{
    Action, Bundle, Change, Command, Decision, Epoch, Face, Found, GateReport, Grant, Internal, Kept,
    LeaseId, LeaseState, LeaseView, Lsn, Member, OpenSession, Operation, Reclaim, ReclaimGround, Rejection,
    Replay, SessionId, StateName, Steer, Text,
};
use tenure_liveness::{LivenessView, Refusal, Renewal, Standing};
use tenure_log::PAYLOAD_BYTES_MAX;

/// How a command came out, and the position its answer rests on.
pub(crate) struct Outcome {
    pub(crate) answer: Answer,
    pub(crate) depends_on: Lsn,
}

/// An earlier try of the same operation.
enum Earlier {
    /// Nothing: it is decided now.
    None,
    /// Another try of it waits.
    InFlight,
    /// It had an outcome, and this try has been answered by it.
    Answered,
}

impl Engine {
    pub(crate) fn submit(&mut self, ticket: Ticket, submit: Submit) {
        if self.facts.take_withdrawn(ticket) {
            self.lose_place_if_planted(&submit);
            return self.refuse(ticket, Lsn(0), Refused::Cancelled);
        }
        let operation = submit.operation.as_ref().map(|operation| self.identify(operation, &submit));
        let mut in_flight = false;
        if let Some(operation) = &operation {
            let tries_again = submit.operation.as_ref().is_some_and(|asked| asked.tries_again);
            let via = submit.via.or(submit.opening.as_ref().map(|open| open.session));
            match self.answer_again(ticket, operation, tries_again, via) {
                Earlier::Answered => return,
                Earlier::InFlight => in_flight = true,
                Earlier::None => {}
            }
        }
        let Submit { action, wait_ms, take_over, force, keeper, via, opening, asker, .. } = submit;
        let mut command = Command { operation, action: *action };
        let hands = Hands { keeper, via, opening: opening.as_deref(), asker: asker.as_ref() };
        let allowed = self
            .check_asker(asker.as_ref(), &command.action)
            .and_then(|()| self.change_hands(&mut command, hands));
        if let Err(refused) = allowed {
            let outcome = Outcome { answer: Answer::Refused(refused), depends_on: self.journal.newest() };
            self.remember_refusal(command.operation.as_ref(), &outcome);
            return self.answer(ticket, outcome.depends_on, outcome.answer);
        }
        if let Action::Grant(grant) = &mut command.action {
            grant.wall_ms = self.now.wall_ms;
            self.adopt_session_terms(grant);
            if in_flight {
                return self.join(Try { ticket, command, opening });
            }
            self.choose_take_over(grant, take_over);
            self.grant(ticket, command, opening, wait_ms);
            return;
        }
        let lease = command.action.lease();
        let has_stopped = self.has_former_stopped(&command.action, keeper);
        let dispossessed = self.dispossessed(&command.action, via);
        let outcome = self.settle(&mut command, opening.as_deref(), force);
        if let (true, Some(lease), Answer::Lease(_)) = (has_stopped, lease, &outcome.answer) {
            self.liveness.former_holder_stopped(&self.kernel, self.tick, lease);
        }
        if let (Some(connection), Some(lease)) = (dispossessed, lease) {
            self.push_lost(connection, lease, &outcome);
        }
        self.remember_refusal(command.operation.as_ref(), &outcome);
        self.answer(ticket, outcome.depends_on, self.as_heard_on(via, outcome.answer));
    }

    /// Answers a retry by what became of the operation, before anything else is looked at: owner, session and state
    /// may have changed because the first try succeeded.
    fn answer_again(
        &mut self,
        ticket: Ticket,
        operation: &Operation,
        tries_again: bool,
        via: Option<SessionId>,
    ) -> Earlier {
        match self.kernel.replay(operation, self.tick) {
            Ok(Some(replay)) => {
                let outcome = self.replayed(replay);
                self.answer(ticket, outcome.depends_on, self.as_heard_on(via, outcome.answer));
                return Earlier::Answered;
            }
            Ok(None) => {}
            Err(conflict) => {
                self.refuse(ticket, Lsn(0), conflict.into());
                return Earlier::Answered;
            }
        }
        match self.retries.look_up(operation, self.tick) {
            Known::New => return Earlier::None,
            Known::InFlight => return Earlier::InFlight,
            Known::Refused(..) if tries_again => return Earlier::None,
            Known::Refused(refused, depends_on) => {
                let forgets = planted(Planted::RefusalForgetsGround);
                self.refuse(ticket, if forgets { Lsn(0) } else { depends_on }, refused);
            }
            Known::Conflict => self.refuse(ticket, Lsn(0), Rejection::OperationConflict.into()),
        }
        Earlier::Answered
    }

    /// Whether this principal may speak for a lease.
    pub(crate) fn may_speak_for(&self, asker: Option<&Text>, lease: Option<LeaseView<'_>>) -> bool {
        match (asker, lease) {
            (Some(asker), Some(lease)) => speaks_for(asker, &lease.terms().principal),
            (None, _) | (_, None) => true,
        }
    }

    /// Refuses a proof of life from somebody else; says whether it may go on.
    pub(crate) fn allowed(&mut self, ticket: Ticket, asker: Option<&Text>, lease: LeaseId) -> bool {
        let view = self.kernel.live(lease);
        let allowed = self.may_speak_for(asker, view);
        if !allowed {
            let depends_on = view.map_or(self.journal.newest(), LeaseView::changed_lsn);
            self.refuse(ticket, depends_on, Refused::Forbidden);
        }
        allowed
    }

    /// The same for a session.
    pub(crate) fn allowed_session(
        &mut self,
        ticket: Ticket,
        asker: Option<&Text>,
        session: SessionId,
    ) -> bool {
        let checked = self.check_session_asker(asker, session);
        if let Err(refused) = &checked {
            self.refuse(ticket, self.journal.newest(), refused.clone());
        }
        checked.is_ok()
    }

    /// Holders command only what is theirs; a grant is kept only by a session of the same principal.
    fn check_asker(&self, asker: Option<&Text>, action: &Action) -> Result<(), Refused> {
        let session = match action {
            Action::Grant(grant) => grant.policy.session,
            Action::CloseSession { session, .. } => Some(*session),
            Action::Activate(_)
            | Action::Release(_)
            | Action::Rebind(_)
            | Action::Amend(_)
            | Action::Revoke(_)
            | Action::Reclaim(_)
            | Action::Drain(_)
            | Action::Revive(_)
            | Action::DefinePool { .. }
            | Action::RemovePool { .. }
            | Action::OpenSession(_) => None,
        };
        if let Some(session) = session {
            self.check_session_asker(asker, session)?;
        }
        let lease = action.lease().and_then(|lease| self.kernel.live(lease));
        if self.may_speak_for(asker, lease) { Ok(()) } else { Err(Refused::Forbidden) }
    }

    fn check_session_asker(&self, asker: Option<&Text>, session: SessionId) -> Result<(), Refused> {
        let principal = self.kernel.session(session).map(|session| session.principal());
        let is_anothers =
            asker.zip(principal).is_some_and(|(asker, principal)| !speaks_for(asker, principal));
        if is_anothers { Err(Refused::Forbidden) } else { Ok(()) }
    }

    /// A lease kept by a session by hand has that session's terms.
    fn adopt_session_terms(&self, grant: &mut Grant) {
        let session = grant.policy.session.and_then(|session| self.kernel.session(session));
        if let Some(session) = session
            && let Kept::Heartbeat { ttl_ms } = session.kept()
        {
            grant.policy.ttl_ms = ttl_ms;
            grant.policy.grace_ms = session.grace_ms();
        }
    }

    /// What is in the way of a bundle, in the order it was asked for.
    fn blockers(&self, bundle: &Bundle) -> Vec<Blocker> {
        let names = bundle.members.iter().filter_map(|member| match member {
            Member::Resource(name) => Some(name),
            Member::AnyOf { .. } => None,
        });
        names
            .filter_map(|name| {
                let view = self.kernel.covering(name)?;
                let deadline = self.liveness.view(view, self.tick).deadline;
                Some(Blocker {
                    resource: name.clone(),
                    lease: view.id(),
                    holder: view.holder().clone(),
                    since_wall_ms: view.granted_wall_ms(),
                    remaining_ms: deadline.map(|deadline| deadline.ms_since(self.tick)),
                    waiters: self.waiters.waiting_behind(name),
                })
            })
            .collect()
    }

    /// Carries out a command that never waits.
    fn settle(&mut self, command: &mut Command, opening: Option<&OpenSession>, force: bool) -> Outcome {
        let checked = match &mut command.action {
            Action::Drain(steer) => self.check_drain(steer),
            Action::Revive(steer) => self.check_revive(steer),
            Action::Reclaim(reclaim) => self.check_reclaim(reclaim, force),
            Action::Activate(token) => {
                let lease = token.lease;
                let outcome = self.decide(command);
                if let Answer::Refused(Refused::Rejected(Rejection::DeadlinePassed { .. })) = outcome.answer {
                    self.expire(lease);
                    return Outcome { depends_on: self.journal.newest(), ..outcome };
                }
                return outcome;
            }
            // A connection's session is made durable by what it keeps first, resumed leases too.
            Action::Rebind(rebind) => {
                let session = rebind.policy.as_ref().and_then(|policy| policy.session);
                self.make_durable(session, opening, command)
            }
            Action::Release(release) => {
                let view = self.kernel.live(release.token.lease);
                if view.is_some_and(|view| self.is_given_back_by_revoke(view)) {
                    self.give_back_by_revoke(command)
                } else {
                    Ok(())
                }
            }
            Action::Grant(_)
            | Action::Amend(_)
            | Action::Revoke(_)
            | Action::DefinePool { .. }
            | Action::RemovePool { .. }
            | Action::OpenSession(_) => Ok(()),
            Action::CloseSession { session, .. } => self.check_close(*session),
        };
        if let Err(refused) = checked {
            let depends_on = self.journal.newest();
            return Outcome { answer: Answer::Refused(refused), depends_on };
        }
        self.decide(command)
    }

    fn check_drain(&self, steer: &Steer) -> Result<(), Refused> {
        match self.kernel.live(steer.lease) {
            Some(view) => Ok(self.liveness.check_drain(view)?),
            None => Ok(()),
        }
    }

    /// An operator may also bring back a lease that fell silent.
    fn check_revive(&self, steer: &mut Steer) -> Result<(), Refused> {
        let Some(view) = self.kernel.live(steer.lease) else { return Ok(()) };
        if steer.epoch.is_some_and(|epoch| epoch != view.epoch()) {
            return Ok(());
        }
        self.liveness.check_revive(view)?;
        steer.silent = self.liveness.drains_by_itself(view);
        Ok(())
    }

    /// Fills in why an operator's reclaim is safe, or refuses it.
    fn check_reclaim(&self, reclaim: &mut Reclaim, force: bool) -> Result<(), Refused> {
        let Some(view) = self.kernel.live(reclaim.lease) else { return Ok(()) };
        let LeaseState::Revoking(_) = view.state() else { return Ok(()) };
        if reclaim.epoch.is_some_and(|epoch| epoch != view.epoch()) {
            return Ok(());
        }
        let gate = self.gate_report(reclaim.lease);
        let ground = self.liveness.reclaim_ground(view, self.tick);
        reclaim.gate = gate.unwrap_or(GateReport::TimedOut);
        reclaim.ground = match (gate, ground) {
            (Some(_), Some(ground)) => ground,
            (None, _) | (_, None) if force => ReclaimGround::Forced,
            (None, _) | (_, None) => {
                let promise_ms = self.liveness.reclaim_in_ms(view, self.tick).unwrap_or(0);
                let gate_ms = self.gates.remaining_ms(reclaim.lease, self.tick);
                return Err(Refusal::NotYet { remaining_ms: promise_ms.max(gate_ms).max(1) }.into());
            }
        };
        Ok(())
    }

    /// Ends a reserved lease whose deadline has come.
    pub(crate) fn expire(&mut self, lease: LeaseId) {
        let expired = self.kernel.decide_internal(self.journal.peek(self.tick), &Internal::Expire(lease));
        if let Some(event) = expired {
            self.apply(&event);
        }
    }

    pub(crate) fn decide(&mut self, command: &Command) -> Outcome {
        match self.kernel.decide(self.journal.peek(self.tick), command) {
            Ok(Decision::Event(event)) => {
                let stamp = self.apply(&event);
                let lease = event.change.lease(LeaseId::new(self.kernel.shard(), stamp.lsn));
                let answer = match lease {
                    Some(id) => {
                        let lease = self.found_after(id, &event.change);
                        Answer::Lease(Box::new(LeaseAnswer { lsn: stamp.lsn, replayed: false, lease }))
                    }
                    None => Answer::Done { lsn: stamp.lsn, replayed: false },
                };
                // A reclaim may have followed in the same frame; the answer shows it, so it rests on it.
                Outcome { answer, depends_on: self.journal.newest() }
            }
            Ok(Decision::Replay(replay)) => self.replayed(&replay),
            Err(rejection) => {
                let depends_on = self.ground_of(command, &rejection);
                Outcome { answer: Answer::Refused(rejection.into()), depends_on }
            }
        }
    }

    fn replayed(&self, replay: &Replay) -> Outcome {
        let newest = self.journal.newest();
        let answer = match replay.lease {
            Some(id) => {
                let lease = self.found(id).unwrap_or(LeaseFound::Retired);
                Answer::Lease(Box::new(LeaseAnswer { lsn: newest, replayed: true, lease }))
            }
            None => Answer::Done { lsn: replay.lsn, replayed: true },
        };
        Outcome { answer, depends_on: newest }
    }

    /// The newest position among the records a refusal rests on.
    fn ground_of(&self, command: &Command, rejection: &Rejection) -> Lsn {
        let lease = match rejection {
            Rejection::TooLarge { .. }
            | Rejection::BundleEmpty
            | Rejection::BundleTooLarge
            | Rejection::InvalidName { .. }
            | Rejection::DuplicateMember { .. }
            | Rejection::TtlOutOfRange => return Lsn(0),
            Rejection::ResourceHeld(held) => Some(held.lease),
            Rejection::HolderMismatch | Rejection::StaleEpoch { .. } | Rejection::InvalidState { .. } => {
                command.action.lease()
            }
            // These rest on an absence, on a table, or on a deadline just acted on.
            Rejection::OperationConflict
            | Rejection::PoolNotFound { .. }
            | Rejection::SessionNotFound { .. }
            | Rejection::SessionExists { .. }
            | Rejection::PoolExhausted { .. }
            | Rejection::CapacityExceeded { .. }
            | Rejection::LeaseNotFound
            | Rejection::LeaseRetired
            | Rejection::DeadlinePassed { .. }
            | Rejection::AlreadyDraining
            | Rejection::NotDraining
            | Rejection::PoolInUse { .. } => None,
        };
        match lease.and_then(|id| self.kernel.live(id)) {
            Some(view) => view.changed_lsn(),
            None => self.journal.newest(),
        }
    }

    fn grant(
        &mut self,
        ticket: Ticket,
        mut command: Command,
        opening: Option<Box<OpenSession>>,
        wait_ms: u64,
    ) {
        if wait_ms > 0 && self.is_coming_free(&command) {
            return self.wait(Try { ticket, command, opening }, wait_ms);
        }
        let wait_ms = if has_alternatives(&command) { 0 } else { wait_ms };
        let asked = if wait_ms > 0 { bundle_of(&command).cloned() } else { None };
        let outcome = match self.try_grant(&mut command, opening.as_deref()) {
            Ok(outcome) => outcome,
            Err(refused) if wait_ms > 0 && can_be_waited_for(&refused) => {
                // For what was asked, not for what is left of it beside others who wait.
                if let (Action::Grant(grant), Some(asked)) = (&mut command.action, asked) {
                    grant.bundle = asked;
                }
                return self.wait(Try { ticket, command, opening }, wait_ms);
            }
            Err(refused) => self.not_granted(&command, refused),
        };
        self.count_passed(&outcome, Place::LAST);
        self.granted_or_not(&command, &outcome);
        self.remember_refusal(command.operation.as_ref(), &outcome);
        self.answer(ticket, outcome.depends_on, outcome.answer);
    }

    /// Whether the bundle asked for first is held only by leases that are ending. It is worth a moment's wait then,
    /// where there are alternatives that would be taken otherwise.
    fn is_coming_free(&self, command: &Command) -> bool {
        let Action::Grant(grant) = &command.action else { return false };
        if grant.alternatives.is_empty() || grant.take_over.is_some() {
            return false;
        }
        let ending = |name: &Text| {
            let view = self.kernel.covering(name)?;
            Some(matches!(view.state(), LeaseState::Revoking(_)))
        };
        let mut held = grant.bundle.members.iter().filter_map(|member| match member {
            Member::Resource(name) => ending(name),
            Member::AnyOf { .. } => None,
        });
        let Some(first) = held.next() else { return false };
        first && held.all(|ending| ending)
    }

    /// A grant was refused: says who is in the way where somebody is, and what the answer rests on.
    fn not_granted(&self, command: &Command, refused: Refused) -> Outcome {
        let depends_on = match &refused {
            Refused::Rejected(Rejection::ResourceHeld(held)) => {
                let Action::Grant(grant) = &command.action else {
                    unreachable!("invariant: only grants are held up")
                };
                let mut blockers = self.blockers(&grant.bundle);
                if blockers.is_empty() {
                    // What is held belongs to an alternative.
                    blockers = self.blockers(&Bundle::one(&held.resource));
                }
                let ground = blockers.iter().filter_map(|blocker| self.kernel.live(blocker.lease));
                let depends_on = ground.map(LeaseView::changed_lsn).max().unwrap_or(self.journal.newest());
                return Outcome { answer: Answer::Refused(Refused::Held(blockers)), depends_on };
            }
            Refused::Rejected(rejection) => self.ground_of(command, rejection),
            Refused::Held(_)
            | Refused::Forbidden
            | Refused::ConnectionOpen
            | Refused::Liveness(_)
            | Refused::Queued { .. }
            | Refused::WaitTimeout
            | Refused::TooManyWaiters { .. }
            | Refused::Overloaded { .. }
            | Refused::DiskLow
            | Refused::NotYet { .. }
            | Refused::Cancelled
            | Refused::Trimmed { .. }
            | Refused::OutcomeUnknown
            | Refused::NotLeader
            | Refused::ShuttingDown => self.journal.newest(),
        };
        Outcome { answer: Answer::Refused(refused), depends_on }
    }

    /// Grants at once, or says why not.
    fn try_grant(
        &mut self,
        command: &mut Command,
        opening: Option<&OpenSession>,
    ) -> Result<Outcome, Refused> {
        self.grants.check(self.tick)?;
        let Action::Grant(grant) = &mut command.action else {
            unreachable!("invariant: only grants are granted")
        };
        self.yield_to_waiters(grant)?;
        let session = grant.policy.session;
        self.make_durable(session, opening, command)?;
        let outcome = self.decide(command);
        if let Answer::Refused(refused) = outcome.answer { Err(refused) } else { Ok(outcome) }
    }

    /// The first lease that can be taken over is what is asked for.
    fn choose_take_over(&self, grant: &mut Grant, offered: Vec<TakeOver>) {
        let found = offered.into_iter().find_map(|offer| {
            let view = self.kernel.live(offer.lease)?;
            let members = view.members().map(|name| Member::Resource(name.clone())).collect();
            self.can_be_taken_over(view).then_some((offer, Bundle { members }))
        });
        if let Some((offer, bundle)) = found {
            (grant.take_over, grant.bundle, grant.face_data) = (Some(offer.lease), bundle, offer.face_data);
        }
    }

    /// Whether a lease drains and every promise on it has run out. An operator may drain one whose connection is open:
    /// that holder goes on believing.
    fn can_be_taken_over(&self, view: LeaseView<'_>) -> bool {
        let standing = self.liveness.view(view, self.tick).standing;
        matches!(standing, Some(Standing::Draining(_)))
            && self.liveness.promises_nothing(view, self.tick)
            && !self.is_kept_by_open_connection(view)
    }

    /// A take-over counts only while the lease named covers the bundle, drains, and promises nothing to its
    /// holder any more; the caller looked before this turn. Otherwise the grant is like any other.
    pub(crate) fn confirm_take_over(&self, grant: &mut Grant) {
        let Some(view) = grant.take_over.and_then(|lease| self.kernel.live(lease)) else { return };
        let covers = grant.bundle.members.iter().all(|member| match member {
            Member::Resource(name) => view.members().any(|held| held == name),
            Member::AnyOf { .. } => false,
        });
        let real = covers && self.can_be_taken_over(view);
        if !real && !planted(Planted::TakeOverUnconfirmed) {
            grant.take_over = None;
        }
    }

    pub(crate) fn granted_or_not(&mut self, command: &Command, outcome: &Outcome) {
        let is_refused = matches!(outcome.answer, Answer::Refused(_));
        let came_out = if is_refused { GrantOutcome::Refused } else { GrantOutcome::Granted };
        self.counters.grant(face_of(command), came_out);
    }

    pub(crate) fn remember_refusal(&mut self, operation: Option<&Operation>, outcome: &Outcome) {
        if let (Some(operation), Answer::Refused(refused)) = (operation, &outcome.answer) {
            // The id is that of another command, whose own retry must go on finding its outcome.
            if matches!(refused, Refused::Rejected(Rejection::OperationConflict)) {
                return;
            }
            self.retries.refused(operation, refused, outcome.depends_on, self.tick);
        }
    }

    pub(crate) fn heartbeat(&mut self, ticket: Ticket, lease: LeaseId, epoch: Epoch, via: Option<SessionId>) {
        let mut effects = Vec::new();
        let renewed = self.liveness.heartbeat(&self.kernel, self.tick, lease, epoch, via, &mut effects);
        match renewed {
            Ok(renewal) => {
                for effect in effects {
                    self.carry_out(effect);
                }
                let view = self.kernel.live(lease).expect("invariant: a renewed lease is live");
                let deadline = self.liveness.view(view, self.tick).deadline;
                let remaining_ms = deadline.map(|deadline| deadline.ms_since(self.tick));
                let depends_on = view.changed_lsn();
                self.renewed(ticket, &renewal, remaining_ms, depends_on);
            }
            Err(refusal) => {
                let depends_on = match self.kernel.lease(lease, self.tick) {
                    Found::Live(view) => view.changed_lsn(),
                    Found::Ended(ended) => ended.ended_lsn,
                    Found::Retired | Found::NotFound => self.journal.newest(),
                };
                if matches!(refusal, Refusal::Rejected(Rejection::StaleEpoch { .. })) {
                    self.counters.heartbeats_stale += 1;
                } else {
                    self.counters.heartbeats_unknown += 1;
                }
                self.refuse(ticket, depends_on, refusal.into());
            }
        }
    }

    /// A heartbeat that counts only while the lease is not over, whether its end was recorded or not.
    pub(crate) fn timely_heartbeat(&mut self, ticket: Ticket, lease: LeaseId, epoch: Option<Epoch>) {
        let looks = !self.mode.is_daemon_stopping() && !planted(Planted::LateHeartbeatRenews);
        let due = |view: &LeaseView<'_>| looks && self.liveness.is_due(*view, self.tick);
        if let Some(view) = self.kernel.live(lease).filter(due) {
            if self.journal.room_for_ends() == 0 {
                let limit = CallLimit::FrameBytes;
                return self.refuse(ticket, Lsn(0), Refused::Overloaded { limit, max: PAYLOAD_BYTES_MAX });
            }
            let mut effects = Vec::new();
            self.liveness.look_at_lease(view, self.tick, &mut effects);
            for effect in effects {
                self.carry_out(effect);
            }
        }
        let current = self.kernel.live(lease).map_or(Epoch(0), LeaseView::epoch);
        self.heartbeat(ticket, lease, epoch.unwrap_or(current), None);
    }

    /// Answers a heartbeat that counted.
    pub(crate) fn renewed(
        &mut self,
        ticket: Ticket,
        renewal: &Renewal,
        remaining_ms: Option<u64>,
        depends_on: Lsn,
    ) {
        self.count_renewal(renewal.margin_ms, renewal.valid_ms);
        let Renewal { valid_ms, draining, .. } = *renewal;
        let lsn = depends_on.max(self.journal.synced());
        let wall_ms = self.now.wall_ms;
        self.answer(ticket, depends_on, Answer::Renewed { valid_ms, remaining_ms, draining, wall_ms, lsn });
    }

    fn count_renewal(&mut self, margin_ms: Option<u64>, valid_ms: Option<u64>) {
        self.counters.heartbeats_renewed += 1;
        match margin_ms {
            Some(margin_ms) if margin_ms > 0 => self.counters.renewal_margin_ms.record(margin_ms),
            // At the very end of a promise nothing of it is left: the lease may be draining already.
            Some(_) | None if valid_ms.is_some() => self.counters.heartbeats_late += 1,
            Some(_) | None => {}
        }
    }

    pub(crate) fn session_heartbeat(&mut self, ticket: Ticket, session: SessionId, seen: Lsn) {
        let mut effects = Vec::new();
        let renewed = self.liveness.session_heartbeat(&self.kernel, self.tick, session, &mut effects);
        match renewed {
            Ok(renewal) => {
                self.count_renewal(renewal.margin_ms, renewal.valid_ms);
                for effect in effects {
                    self.carry_out(effect);
                }
                let open = self.kernel.session(session).expect("invariant: a renewed session is known");
                let depends_on = open.changed_lsn();
                // Who has seen nothing yet is told everything since the beginning.
                let seen = if seen == Lsn(0) { open.opened_lsn() } else { seen };
                let answer = Answer::SessionRenewed {
                    lsn: depends_on.max(self.journal.synced()),
                    valid_ms: renewal.valid_ms.unwrap_or(0),
                    ended: open.losses_after(seen).map(Iterator::collect),
                    draining: open.drained().collect(),
                };
                self.answer(ticket, depends_on, answer);
            }
            Err(refusal) => {
                self.counters.heartbeats_unknown += 1;
                let depends_on = self.journal.newest();
                self.refuse(ticket, depends_on, refusal.into());
            }
        }
    }

    pub(crate) fn acknowledge(&mut self, ticket: Ticket, lease: LeaseId, epoch: Epoch) {
        match self.liveness.acknowledge(&self.kernel, self.tick, lease, epoch) {
            Ok(()) => {
                let view = self.kernel.live(lease).expect("invariant: an acknowledged lease is live");
                let (lsn, found) = (view.changed_lsn(), LeaseFound::Live(self.snapshot(view)));
                let answer = LeaseAnswer { lsn, replayed: false, lease: found };
                self.answer(ticket, lsn, Answer::Lease(Box::new(answer)));
            }
            Err(refusal) => match self.was_acknowledged(lease, epoch) {
                Some(found) => {
                    let lsn = self.journal.newest();
                    let answer = LeaseAnswer { lsn, replayed: true, lease: found };
                    self.answer(ticket, lsn, Answer::Lease(Box::new(answer)));
                }
                None => {
                    let depends_on = self.journal.newest();
                    self.refuse(ticket, depends_on, refusal.into());
                }
            },
        }
    }

    /// A lease that was reclaimed after the revoke which the holder acknowledges: nothing is left to do, and a retry hears
    /// no other outcome than the first try.
    fn was_acknowledged(&self, lease: LeaseId, epoch: Epoch) -> Option<LeaseFound> {
        let Found::Ended(ended) = self.kernel.lease(lease, self.tick) else { return None };
        let is_its_end = epoch == ended.epoch || epoch.0.checked_add(1) == Some(ended.epoch.0);
        (ended.state == StateName::Revoked && is_its_end).then(|| self.found(lease)).flatten()
    }

    pub(crate) fn reset_breaker(&mut self, ticket: Ticket) {
        let mut effects = Vec::new();
        self.liveness.reset_breaker(&mut effects);
        for effect in effects {
            self.carry_out(effect);
        }
        self.done_now(ticket);
    }

    /// Answers what concerns memory alone.
    pub(crate) fn done_now(&mut self, ticket: Ticket) {
        let lsn = self.journal.synced();
        self.answer(ticket, lsn, Answer::Done { lsn, replayed: false });
    }

    /// The lease right after an event: live, or as the event buried it.
    fn found_after(&self, id: LeaseId, change: &Change) -> LeaseFound {
        if let Some(was) = change.epitaph() {
            let state = if matches!(change, Change::Expired(_)) {
                StateName::Expired
            } else if matches!(change, Change::Reclaimed(_)) {
                StateName::Revoked
            } else {
                StateName::Released
            };
            let text = ending_text(change);
            let fence = match self.kernel.lease(id, self.tick) {
                Found::Ended(ended) => self.kernel.fence_of(ended),
                // Retention kept it for no time at all; its first fence is what is left to say.
                Found::Live(_) | Found::Retired | Found::NotFound => self.kernel.fence(id.lsn()),
            };
            let (was, reason) = (was.clone(), ending_reason(change));
            let wall_ms = self.now.wall_ms;
            return LeaseFound::JustEnded { was, state, reason, text, fence, wall_ms };
        }
        self.found(id).unwrap_or(LeaseFound::Retired)
    }

    /// A lease that can still be shown.
    pub(crate) fn found(&self, id: LeaseId) -> Option<LeaseFound> {
        match self.kernel.lease(id, self.tick) {
            Found::Live(view) => Some(LeaseFound::Live(self.snapshot(view))),
            Found::Ended(ended) => {
                let fence = self.kernel.fence_of(ended);
                Some(LeaseFound::Ended { id, ended: *ended, fence })
            }
            Found::Retired | Found::NotFound => None,
        }
    }

    pub(crate) fn snapshot(&self, view: LeaseView<'_>) -> LeaseSnapshot {
        let liveness = match self.role() {
            Role::Writing => self.liveness.view(view, self.tick),
            Role::Following => LivenessView::UNKNOWN,
        };
        LeaseSnapshot::new(view, liveness, self.tick, self.now.wall_ms)
    }
}

fn has_alternatives(command: &Command) -> bool {
    matches!(&command.action, Action::Grant(grant) if !grant.alternatives.is_empty())
}

fn bundle_of(command: &Command) -> Option<&Bundle> {
    command.action.grant().map(|grant| &grant.bundle)
}

fn can_be_waited_for(refused: &Refused) -> bool {
    match refused {
        Refused::Queued { .. } => true,
        Refused::Rejected(rejection) => {
            matches!(rejection, Rejection::ResourceHeld(_) | Rejection::PoolExhausted { .. })
        }
        Refused::Held(_)
        | Refused::Forbidden
        | Refused::ConnectionOpen
        | Refused::Liveness(_)
        | Refused::WaitTimeout
        | Refused::TooManyWaiters { .. }
        | Refused::Overloaded { .. }
        | Refused::DiskLow
        | Refused::NotYet { .. }
        | Refused::Cancelled
        | Refused::Trimmed { .. }
        | Refused::OutcomeUnknown
        | Refused::NotLeader
        | Refused::ShuttingDown => false,
    }
}

pub(crate) fn face_of(command: &Command) -> Face {
    command.action.grant().map_or(Face::Leases, |grant| grant.policy.face)
}
