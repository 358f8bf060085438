//! Ends that follow from one event but are too many for one turn: the leases of a closed session or of a
//! removed pool. The event is durable, so that a restart goes on where this stopped.

use crate::engine::Engine;
use crate::turn::TURN_WORK_MAX;
use std::collections::VecDeque;
use tenure_kernel::{
    Action, Actor, Evidence, LeaseId, LeaseState, LeaseView, Reason, ReclaimBy, Release, Revoke, SessionId,
    Text, Tick, Token,
};
use tenure_liveness::SessionOver;

#[derive(Debug, Default)]
pub(crate) struct Endings {
    queue: VecDeque<Ending>,
    /// Of the first in the queue, where it was put back: the lease up to which nothing is left to end.
    passed: Option<LeaseId>,
}

/// Leases of a session that end now.
struct Chosen {
    leases: Vec<LeaseId>,
    /// The last one that was passed over.
    passed: Option<LeaseId>,
    /// None is left.
    over: bool,
}

#[derive(Debug)]
enum Ending {
    /// Every lease of a closed session.
    Session(SessionId),
    /// Leases of a session whose own grace is over.
    Grace(SessionOver),
    /// Every lease on a member of a removed pool, from this one on.
    Pool { name: Text, next: u32 },
    /// Leases that were live when the log was restored from a backup.
    Restored(Vec<LeaseId>),
    /// Sessions that were open then: what their holders have seen belongs to the log that was lost.
    RestoredSessions(Vec<SessionId>),
}

/// How one lease is to end.
enum How {
    Release,
    Revoke(Reason, Evidence),
}

impl Endings {
    pub(crate) fn session(&mut self, session: SessionId) {
        self.queue.push_back(Ending::Session(session));
    }

    pub(crate) fn pool(&mut self, name: Text) {
        self.queue.push_back(Ending::Pool { name, next: 1 });
    }

    /// Leases first, so that they end as restored and not with their session.
    pub(crate) fn restored(&mut self, leases: Vec<LeaseId>, sessions: Vec<SessionId>) {
        if !leases.is_empty() {
            self.queue.push_back(Ending::Restored(leases));
        }
        if !sessions.is_empty() {
            self.queue.push_back(Ending::RestoredSessions(sessions));
        }
    }

    fn put_back(&mut self, over: bool, ending: Ending) {
        if !over {
            self.queue.push_front(ending);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

impl Engine {
    /// A grace of a session is over.
    pub(crate) fn session_over(&mut self, over: SessionOver) {
        if let Some(due) = self.session_due(over) {
            self.counters.expiry_lateness_ms.record(self.tick.ms_since(due));
        }
        self.endings.queue.push_back(Ending::Grace(over));
        if over.closes {
            let reason = Reason::SessionExpired;
            self.order(Action::CloseSession { session: over.session, reason });
        }
    }

    /// When the end of a session's grace was due, where the evidence tells.
    fn session_due(&self, over: SessionOver) -> Option<Tick> {
        let silent_from = match over.evidence {
            Evidence::Disconnected { at } => at,
            Evidence::Silence { last_seen, .. } => {
                last_seen.after_ms(self.kernel.session(over.session)?.ttl_ms().into())
            }
            Evidence::None | Evidence::Lifetime { .. } | Evidence::Drained { .. } => return None,
        };
        Some(silent_from.after_ms(over.grace_ms.into()))
    }

    /// Ends up to `room` leases of what is in the queue.
    pub(crate) fn go_on_ending(&mut self, room: usize) {
        let (mut left, mut looks) = (room, TURN_WORK_MAX);
        while left > 0 && looks > 0 {
            let room = left.min(self.journal.room_for_ends());
            if room == 0 {
                return;
            }
            let Some(ending) = self.endings.queue.pop_front() else { return };
            let passed = self.endings.passed.take();
            left = left.saturating_sub(self.go_on_with(ending, passed, room, &mut looks).max(1));
        }
    }

    /// Does up to `room` of one thing and puts the rest back; returns how much it did.
    fn go_on_with(
        &mut self,
        ending: Ending,
        passed: Option<LeaseId>,
        room: usize,
        looks: &mut usize,
    ) -> usize {
        match ending {
            Ending::Restored(mut leases) => {
                let now = leases.split_off(leases.len().saturating_sub(room));
                self.endings.put_back(leases.is_empty(), Ending::Restored(leases));
                for lease in &now {
                    if self.kernel.live(*lease).is_some_and(has_authority) {
                        self.end(*lease, How::Revoke(Reason::Restored, Evidence::None));
                    }
                }
                now.len()
            }
            Ending::RestoredSessions(mut sessions) => {
                let now = sessions.split_off(sessions.len().saturating_sub(room));
                self.endings.put_back(sessions.is_empty(), Ending::RestoredSessions(sessions));
                for session in &now {
                    if self.kernel.session(*session).is_some_and(|open| open.closed().is_none()) {
                        self.order(Action::CloseSession { session: *session, reason: Reason::Restored });
                    }
                }
                now.len()
            }
            // Its leases that have not ended yet are alive again.
            Ending::Grace(over) if self.has_come_back(over) => {
                self.counters.renewed_meanwhile += 1;
                0
            }
            Ending::Session(session) => {
                let closed = self.kernel.session(session).and_then(|session| session.closed());
                let explicit = closed == Some(Reason::Explicit);
                let ends = |view: LeaseView<'_>| if explicit { has_authority(view) } else { in_use(view) };
                let chosen = self.choose(session, passed, room, looks, ends);
                let how = || if explicit { How::Release } else { expired(Evidence::None) };
                self.end_chosen(ending, chosen, how)
            }
            Ending::Grace(over) => {
                let ends = |view: LeaseView<'_>| in_use(view) && view.terms().grace_ms <= over.grace_ms;
                let chosen = self.choose(over.session, passed, room, looks, ends);
                let leases = if over.is_left { chosen.leases.clone() } else { Vec::new() };
                let ended = self.end_chosen(ending, chosen, || expired(over.evidence));
                // The session may be closed by now, and with it forgotten that its holder has stopped.
                for lease in leases {
                    if let Some(view) = self.kernel.live(lease) {
                        self.liveness.holder_left(view, self.tick);
                    }
                }
                ended
            }
            Ending::Pool { name, next } => {
                let (leases, next) = self.choose_of_pool(&name, next, room, looks);
                let chosen = Chosen { over: next.is_none(), leases, passed: None };
                let how = || How::Revoke(Reason::PoolRemoved, Evidence::None);
                self.end_chosen(Ending::Pool { name, next: next.unwrap_or(0) }, chosen, how)
            }
        }
    }

    /// Whether a session was heard again after the silence for which its leases are ended.
    fn has_come_back(&self, over: SessionOver) -> bool {
        let Evidence::Silence { last_seen, .. } = over.evidence else { return false };
        let standing = self.liveness.session(over.session, self.tick);
        !over.closes && standing.is_some_and(|standing| standing.counts_from > last_seen)
    }

    fn end_chosen(&mut self, ending: Ending, chosen: Chosen, how: impl Fn() -> How) -> usize {
        self.endings.put_back(chosen.over, ending);
        self.endings.passed = chosen.passed.filter(|_| !chosen.over);
        for lease in &chosen.leases {
            self.end(*lease, how());
        }
        chosen.leases.len()
    }

    /// Up to `room` leases of a session that end, from behind the one that was passed over last: those that were chosen
    /// before have left the list or stand at its end.
    fn choose(
        &self,
        session: SessionId,
        passed: Option<LeaseId>,
        room: usize,
        looks: &mut usize,
        ends: impl Fn(LeaseView<'_>) -> bool,
    ) -> Chosen {
        let passed = passed.and_then(|lease| self.kernel.live(lease));
        let passed = passed.filter(|view| view.session() == Some(session) && has_authority(*view));
        let mut chosen = Chosen { leases: Vec::new(), passed: passed.map(LeaseView::id), over: false };
        for view in self.kernel.leases_behind(session, passed) {
            if chosen.leases.len() == room || *looks == 0 {
                return chosen;
            }
            step();
            *looks -= 1;
            if !has_authority(view) {
                break;
            }
            if ends(view) {
                chosen.leases.push(view.id());
            } else {
                chosen.passed = Some(view.id());
            }
        }
        chosen.over = true;
        chosen
    }

    /// Up to `room` leases on members of a pool, and the member to go on from. A lease may cover several members; it
    /// ends once.
    fn choose_of_pool(
        &self,
        name: &str,
        from: u32,
        room: usize,
        looks: &mut usize,
    ) -> (Vec<LeaseId>, Option<u32>) {
        let size = self.kernel.pool(name).map_or(0, |pool| pool.size);
        let mut leases = Vec::new();
        let mut numbers = from..=size;
        while leases.len() < room && *looks > 0 {
            let Some(number) = numbers.next() else { break };
            step();
            *looks -= 1;
            let holder = self.kernel.holder_of_member(name, number).filter(|view| has_authority(*view));
            leases.extend(holder.map(LeaseView::id));
        }
        leases.sort_unstable();
        leases.dedup();
        (leases, numbers.next())
    }

    fn end(&mut self, lease: LeaseId, how: How) {
        let Some(view) = self.kernel.live(lease) else { return };
        match how {
            How::Release if self.is_given_back_by_revoke(view) => {
                self.order(given_back(lease, Text::const_new("session closed")));
            }
            How::Release => {
                let token = Token::new(lease, view.epoch());
                self.order(Action::Release(Release { token, text: Text::const_new("session closed") }));
            }
            How::Revoke(reason, evidence) => {
                self.order(daemon_revoke(lease, reason, evidence, Text::default()));
            }
        }
    }

    /// Liveness says that a lease is over.
    pub(crate) fn lease_over(&mut self, lease: LeaseId, reason: Reason, evidence: Evidence) {
        let Some(view) = self.kernel.live(lease) else { return };
        if let Some(due) = due(view, evidence) {
            self.counters.expiry_lateness_ms.record(self.tick.ms_since(due));
        }
        let text = match evidence {
            Evidence::Drained { .. } => Text::const_new("drained"),
            Evidence::None
            | Evidence::Silence { .. }
            | Evidence::Disconnected { .. }
            | Evidence::Lifetime { .. } => Text::default(),
        };
        self.order(daemon_revoke(lease, reason, evidence, text));
    }
}

fn expired(evidence: Evidence) -> How {
    How::Revoke(Reason::SessionExpired, evidence)
}

/// The holder gives back a lease that is not free at once.
pub(crate) fn given_back(lease: LeaseId, text: Text) -> Action {
    Action::Revoke(Revoke {
        lease,
        epoch: None,
        reason: Reason::Explicit,
        text,
        actor: Actor::Holder,
        evidence: Evidence::None,
        reclaim_by: ReclaimBy::Daemon,
    })
}

pub(crate) fn daemon_revoke(lease: LeaseId, reason: Reason, evidence: Evidence, text: Text) -> Action {
    Action::Revoke(Revoke {
        lease,
        epoch: None,
        reason,
        text,
        actor: Actor::Daemon,
        evidence,
        reclaim_by: ReclaimBy::Daemon,
    })
}

pub(crate) fn has_authority(view: LeaseView<'_>) -> bool {
    match view.state() {
        LeaseState::Reserved { .. } | LeaseState::Active { .. } => true,
        LeaseState::Revoking(_) => false,
    }
}

fn in_use(view: LeaseView<'_>) -> bool {
    match view.state() {
        LeaseState::Active { .. } => true,
        LeaseState::Reserved { .. } | LeaseState::Revoking(_) => false,
    }
}

/// When the end was due, where the evidence tells.
fn due(view: LeaseView<'_>, evidence: Evidence) -> Option<Tick> {
    let terms = view.terms();
    match evidence {
        Evidence::Silence { last_seen, .. } => {
            Some(last_seen.after_ms(terms.ttl_ms.into()).after_ms(terms.grace_ms.into()))
        }
        Evidence::Disconnected { at } => Some(at.after_ms(terms.grace_ms.into())),
        Evidence::Lifetime { since } => Some(since.after_ms(terms.max_lifetime_ms)),
        Evidence::None | Evidence::Drained { .. } => None,
    }
}

/// A lease looked at; tests count them.
#[cfg(not(test))]
fn step() {}
#[cfg(test)]
use tests::step;

#[cfg(test)]
mod tests {
    use crate::engine::{Appended, Completion, Engine, EngineConfig, Outputs};
    use crate::recovery::GoingOn;
    use crate::request::{Control, Input, Request, Submit, Ticket};
    use crate::ticker::Now;
    use crate::turn::TURN_WORK_MAX;
    use std::cell::Cell;
    use tenure_kernel::{
        Action, Bundle, Grant, Kernel, Lsn, OpenSession, Policy, SessionId, SessionKind, Setup, Tick,
    };
    use tenure_log::Authority;

    thread_local! {
        static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn step() {
        STEPS.set(STEPS.get() + 1);
    }

    /// An engine whose frames are durable with the next turn.
    struct Driven {
        engine: Engine,
        now: Now,
        completion: Option<Completion>,
    }

    impl Driven {
        fn new() -> Self {
            let authority = Authority::Forever;
            let from = GoingOn { next_lsn: Lsn(1), writer_epoch: 1, authority, identity_since: Lsn(0) };
            let (kernel, now) = (Kernel::new(Setup::plain()), Now { boot_ms: 1_000, wall_ms: 1_000 });
            let engine = Engine::go_on(from, kernel, Tick(0), EngineConfig::default(), now);
            Self { engine, now, completion: None }
        }

        fn turn(&mut self, requests: Vec<Request>) -> Outputs {
            let inputs = requests.into_iter().map(|request| Input::new(Ticket(1), request));
            let mut outputs = self.engine.turn(self.now, inputs, self.completion.take());
            self.completion = outputs.append.take().map(|batch| {
                let outcome = Appended::Committed;
                Completion::Appended { batch, outcome, took_us: 0 }
            });
            outputs
        }

        /// Turns until nothing is left to do now.
        fn settle(&mut self) -> usize {
            let mut longest = 0;
            loop {
                STEPS.set(0);
                let outputs = self.turn(Vec::new());
                longest = longest.max(STEPS.get());
                if self.completion.is_none() && outputs.wake_in_ms != Some(0) {
                    return longest;
                }
            }
        }
    }

    // Each turn looked again at every lease of the session that it had passed over in the turn before.
    #[test]
    fn leases_with_a_longer_grace_are_passed_over_once() {
        const LEASES: usize = 6_000;
        let session = SessionId(7);
        let mut driven = Driven::new();
        let open = OpenSession {
            session,
            holder: "peer".into(),
            kind: SessionKind::Connection,
            ttl_ms: 0,
            grace_ms: 30_000,
            principal: "local".into(),
            accepts_handover: None,
        };
        driven.turn(vec![Request::ConnectionOpened(open)]);
        let grant = |n: usize| {
            let policy = Policy::session(session, 0, if n.is_multiple_of(2) { 500 } else { 30_000 });
            let grant = Grant::new(Bundle::one(&format!("r{n}")), "peer", policy);
            Request::Submit(Submit::now(Action::Grant(grant)))
        };
        for first in (0..LEASES).step_by(500) {
            driven.turn((first..first + 500).map(grant).collect());
        }
        driven.settle();
        driven.completion = Some(Completion::Told(Control::ConnectionClosed(session)));
        driven.turn(Vec::new());
        driven.settle();
        assert_eq!(driven.engine.kernel().live_count(), LEASES);
        driven.now.boot_ms += 500;
        let (mut looked_at, mut turns) = (0, 0);
        while driven.engine.kernel().live_count() > LEASES / 2 {
            STEPS.set(0);
            driven.turn(Vec::new());
            (looked_at, turns) = (looked_at + STEPS.get(), turns + 1);
        }
        assert!(turns > 10, "{turns} turns");
        assert!(looked_at <= 2 * LEASES, "{looked_at} looks at {LEASES} leases");
        driven.settle();
        assert!(driven.engine.kernel().leases_of(session).all(|view| view.terms().grace_ms == 30_000));
        for _ in 0..60 {
            driven.now.boot_ms += 500;
            driven.settle();
        }
        assert_eq!(driven.engine.kernel().live_count(), 0);
        assert!(driven.engine.kernel().session(session).is_none());
    }

    // Each turn looked again at every member of a removed pool whose lease was already ending.
    #[test]
    fn members_of_a_removed_pool_are_looked_at_once() {
        const MEMBERS: u32 = 3_000;
        let mut driven = Driven::new();
        let define = Action::DefinePool { name: "gpu".into(), size: 2 * MEMBERS };
        driven.turn(vec![Request::Submit(Submit::now(define))]);
        let grant = |_| {
            let grant = Grant::new(Bundle::any_of("gpu", 1), "holder", Policy::permanent());
            Request::Submit(Submit::now(Action::Grant(grant)))
        };
        for _ in (0..MEMBERS).step_by(500) {
            driven.turn((0..500).map(grant).collect());
        }
        driven.settle();
        assert_eq!(driven.engine.kernel().live_count(), MEMBERS as usize);
        STEPS.set(0);
        let remove = Action::RemovePool { name: "gpu".into(), force: true };
        let (mut looked_at, mut turns) = (0, 0);
        driven.turn(vec![Request::Submit(Submit::now(remove))]);
        while driven.completion.is_some() {
            let in_turn = STEPS.take();
            assert!(in_turn <= TURN_WORK_MAX, "{in_turn} looks in one turn");
            (looked_at, turns) = (looked_at + in_turn, turns + 1);
            driven.turn(Vec::new());
        }
        assert!(turns > 10, "{turns} turns");
        assert!(looked_at <= 2 * MEMBERS as usize, "{looked_at} looks at {MEMBERS} leases");
        let ending =
            driven.engine.kernel().holders_of_pool("gpu").filter(|view| !super::has_authority(*view));
        assert_eq!(ending.count(), MEMBERS as usize, "each waits for its holder");
        driven.settle();
        assert!(driven.engine.is_settled());
    }
}
