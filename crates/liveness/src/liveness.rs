//! The state of liveness and how it follows the kernel: after each event it looks at the lease again and
//! arms what is now the earliest deadline.

use crate::breaker::{Breaker, Turned};
use crate::config::LivenessConfig;
use crate::effect::Effect;
use crate::entry::{CountsFrom, Entry, NO_VOICE, Phase, Wait};
use crate::promise::{Formers, beat_ms, session_promise};
use crate::session::{SessionEntry, SessionPhase};
use crate::tables::{Entries, LastSilences, Sessions};
use crate::wheel::Wheel;
use hashbrown::HashMap;
use std::collections::VecDeque;
use tenure_kernel::planted::{Planted, planted};
use tenure_kernel::{
    Actor, Change, Event, Kept, Kernel, LeaseId, LeaseSlot, LeaseState, LeaseView, Mode, OpenSession, Policy,
    Reason, ReclaimBy, ReclaimRule, SessionId, SessionKind, Stamp, Text, Tick,
};

/// Timers of sessions have this bit set; those of leases do not.
pub(crate) const SESSION_BIT: u32 = 1 << 31;

/// An end that the breaker postponed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// As in a timer.
    pub(crate) who: u32,
    /// As in a timer: once it moved, the holder came back or the lease went another way.
    pub(crate) arming: u32,
    /// Of a lease its true end, of a session the instant its grace counts from.
    pub(crate) instant: Tick,
}

/// A connection that closed, and whether its holder closed it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closed {
    pub(crate) session: SessionId,
    pub(crate) is_left: bool,
}

/// Postponed ends that a reset makes due by itself.
const LET_GO_AT_ONCE: usize = 1_024;
/// Timers that may be left over before any is looked for.
const TIMERS_SPARE: usize = 1_024;
/// Timers looked at with each event while too many are left over.
const TIMERS_PER_EVENT: usize = 8;

/// Who is alive.
#[derive(Clone, Debug)]
pub struct Liveness {
    pub(crate) config: LivenessConfig,
    /// The instant of the start or of recovery: reclaim delays count from here again.
    pub(crate) began: Tick,
    pub(crate) wheel: Wheel,
    pub(crate) entries: Entries,
    pub(crate) sessions: Sessions,
    pub(crate) formers: Formers,
    /// What the present holder of a lease was promised before the lease came to its present keeper, where that is a rest.
    pub(crate) earlier: HashMap<LeaseSlot, Tick, foldhash::fast::FixedState>,
    pub(crate) breaker: Breaker,
    /// What the breaker postponed while it is open.
    pub(crate) held: Vec<Held>,
    /// What it postponed until it was reset, and is now due.
    let_go: Vec<Held>,
    /// Connections that closed while reclaims waited for them, and the next lease of such a one to look at.
    pub(crate) closed: VecDeque<Closed>,
    pub(crate) closed_next: Option<(LeaseSlot, Closed)>,
    /// Heartbeat leases whose voice is heard, by holder.
    voices: Vec<u32>,
    /// Holders and sessions whose voice is heard.
    pub(crate) voices_heard: u32,
    silences: LastSilences,
}

impl Liveness {
    /// Nobody is known.
    #[must_use]
    pub fn new(config: LivenessConfig, now: Tick) -> Self {
        Self {
            began: now,
            wheel: Wheel::new(now),
            entries: Entries::default(),
            sessions: Sessions::default(),
            formers: Formers::default(),
            earlier: HashMap::default(),
            breaker: Breaker::new(config.breaker.clone()),
            held: Vec::new(),
            let_go: Vec::new(),
            closed: VecDeque::new(),
            closed_next: None,
            voices: Vec::new(),
            voices_heard: 0,
            silences: LastSilences::default(),
            config,
        }
    }

    /// No deadline comes before this; `None` when nothing is pending.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Tick> {
        let is_done = self.let_go.is_empty() && self.closed.is_empty() && self.closed_next.is_none();
        if is_done { self.wheel.next_deadline() } else { Some(Tick(0)) }
    }

    /// Timers armed, those that no longer count included.
    #[must_use]
    pub fn timer_count(&self) -> usize {
        self.wheel.armed()
    }

    /// Sessions known, connections without a grant included.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Follows an event that `kernel` has just applied.
    pub fn follow(&mut self, kernel: &Kernel, at: Stamp, event: &Event) {
        self.tidy_timers(kernel);
        match &event.change {
            Change::Granted(granted) => {
                let id = LeaseId::new(kernel.shard(), at.lsn);
                let view = known(kernel, id);
                *self.entries.get_mut(view.slot()) = Entry { arming: self.next_arming(view), ..Entry::NONE };
                if granted.deadline.is_none() {
                    self.begin(view, at.tick);
                }
            }
            Change::Activated { lease } => self.begin(known(kernel, *lease), at.tick),
            Change::Rebound(rebound) => self.rebound(known(kernel, rebound.lease), at.tick),
            Change::Amended(amended) => {
                self.entries.get_mut(known(kernel, amended.lease).slot()).changed_lsn = at.lsn;
            }
            Change::Notified { .. } => {}
            Change::Drained(steered) => self.drain(known(kernel, steered.lease), at.tick),
            Change::Revived(steered) => self.revive(known(kernel, steered.lease), at.tick),
            Change::Revoked(revoked) => self.revoked(known(kernel, revoked.lease), at.tick),
            Change::Released(_) | Change::Reclaimed(_) | Change::Expired(_) => {
                unreachable!("invariant: ends are followed by `forget`, before the slot is gone")
            }
            Change::SessionOpened(open) => self.session_opened(open, at.tick),
            Change::SessionClosed { session, .. } => {
                self.session_gone(*session);
            }
            Change::PoolDefined { .. }
            | Change::PoolRemoved { .. }
            | Change::Trimmed { .. }
            | Change::Configured(_) => {}
        }
    }

    /// Timers of ended leases and of earlier armings would stay until their instant, which may be a day
    /// away. Once they outnumber those that count, each event looks at a few more than it can add.
    fn tidy_timers(&mut self, kernel: &Kernel) {
        let counting_max = kernel.live_count() + self.sessions.len();
        if self.wheel.armed() <= 2 * counting_max + TIMERS_SPARE {
            return;
        }
        let (entries, sessions) = (&self.entries, &self.sessions);
        self.wheel.tidy(TIMERS_PER_EVENT, |timer| {
            if timer.who & SESSION_BIT == 0 {
                entries.get(LeaseSlot(timer.who)).arming == timer.arming
            } else {
                sessions.get(timer.who & !SESSION_BIT).is_some_and(|entry| entry.arming == timer.arming)
            }
        });
    }

    /// Forgets a lease that is about to end; to be called before the kernel applies the ending event.
    pub fn forget(&mut self, ending: LeaseView<'_>) {
        self.unvoice(ending.slot());
        self.formers.forget(ending.slot());
        self.earlier.remove(&ending.slot());
        if let Some((slot, closed)) = self.closed_next
            && slot == ending.slot()
        {
            self.closed_next = ending.next_of_session().map(|next| (next, closed));
        }
        let entry = self.entries.get_mut(ending.slot());
        entry.phase = Phase::Idle;
        entry.arming = entry.arming.wrapping_add(1);
    }

    /// A connection was opened; its session is not durable before its first grant.
    pub fn connection_opened(&mut self, now: Tick, session: SessionId, kind: SessionKind, grace_ms: u32) {
        assert!(kind.is_connection(), "invariant: other sessions are opened by an event");
        if self.sessions.find(session).is_none() {
            self.sessions.insert(SessionEntry {
                id: session,
                kept: Kept::Connection,
                grace_ms,
                counts_from: CountsFrom::heard(now),
                promised_until: Tick(0),
                phase: SessionPhase::Alive,
                silent_at: None,
                is_gone: false,
                is_left: false,
                arming: 0,
            });
        }
    }

    /// Whether a connection's session is open.
    #[must_use]
    pub fn connection_is_open(&self, session: SessionId) -> bool {
        self.sessions.by_id(session).is_some_and(|entry| entry.kept.is_connection() && entry.is_alive())
    }

    /// Ends the breaker's hold: what it postponed is due at once. Of very many the rest follows with
    /// [`Liveness::on_deadline`].
    pub fn reset_breaker(&mut self, effects: &mut Vec<Effect>) {
        let turned = self.breaker.reset();
        let held = core::mem::take(&mut self.held);
        if self.let_go.is_empty() {
            self.let_go = held;
        } else {
            self.let_go.extend(held);
        }
        let mut looks = LET_GO_AT_ONCE;
        self.go_on_letting_go(&mut looks);
        report(turned, effects);
    }

    pub(crate) fn go_on_letting_go(&mut self, looks: &mut usize) {
        while *looks > 0
            && let Some(held) = self.let_go.pop()
        {
            *looks -= 1;
            if held.who & SESSION_BIT == 0 {
                let entry = self.entries.get_mut(LeaseSlot(held.who));
                if entry.arming != held.arming {
                    continue;
                }
                entry.phase = Phase::Draining { until: held.instant };
            } else {
                let entry = self.sessions.in_slot(held.who & !SESSION_BIT);
                match entry.filter(|entry| entry.arming == held.arming).map(|entry| &mut entry.phase) {
                    Some(SessionPhase::Draining { since, .. }) => *since = held.instant,
                    Some(SessionPhase::Alive) | None => continue,
                }
            }
            self.wheel.arm(held.instant, held.who, held.arming);
        }
    }

    /// Whether ends are postponed, and until when.
    #[must_use]
    pub fn breaker_holds_until(&self, now: Tick) -> Option<Tick> {
        self.breaker.holds_until(now)
    }

    /// The lease goes into use, or into other hands.
    fn begin(&mut self, view: LeaseView<'_>, now: Tick) {
        let slot = view.slot();
        let terms = view.terms();
        let phase = match view.session().and_then(|session| self.sessions.by_id(session)) {
            // Its connection closed while it was only reserved: it drains from here.
            Some(session) if session.kept.is_connection() && !session.is_alive() => {
                Phase::Draining { until: now.after_ms(terms.grace_ms.into()) }
            }
            None if terms.mode == Mode::Session => {
                Phase::Draining { until: now.after_ms(terms.grace_ms.into()) }
            }
            Some(_) | None => Phase::Alive,
        };
        let voice = self.keeper(view);
        let entry = self.entries.get_mut(slot);
        entry.counts_from = CountsFrom::heard(now);
        entry.phase = phase;
        entry.promised_until = Tick(0);
        entry.voice = voice;
        if terms.mode == Mode::Heartbeat {
            self.voice(view);
        }
        if let Some(promise_ms) = self.next_promise(view, now) {
            self.entries.get_mut(slot).promised_until = now.after_ms(promise_ms);
        }
        self.arm(view);
    }

    /// The lease has another holder, or the same one under other terms. What was promised before binds still.
    fn rebound(&mut self, view: LeaseView<'_>, now: Tick) {
        let slot = view.slot();
        let before = self.entries.get(slot);
        let promised_before = before.promised_until.max(self.promised_by_keeper(before));
        self.unvoice(slot);
        self.begin(view, now);
        if let Phase::Drained { until, .. } = before.phase {
            let entry = self.entries.get_mut(slot);
            entry.phase = before.phase;
            entry.promised_until = entry.promised_until.min(until);
            self.unvoice(slot);
            self.arm(view);
        }
        self.earlier.remove(&slot);
        let entry = self.entries.get_mut(slot);
        // The kernel takes the number of the new holder before it gives up that of the old one.
        if before.holder == entry.holder && !planted(Planted::SameHolderIsFormer) {
            entry.promised_until = entry.promised_until.max(promised_before);
            if promised_before > now {
                self.earlier.insert(slot, promised_before);
            }
            self.formers.add(slot, Tick(0));
        } else {
            self.formers.add(slot, promised_before);
        }
    }

    fn drain(&mut self, view: LeaseView<'_>, now: Tick) {
        let promised = self.promised_until(view);
        let until = now.after_ms(view.terms().grace_ms.into()).max(promised);
        let since_ms = u32::try_from(until.ms_since(now)).unwrap_or(u32::MAX);
        self.unvoice(view.slot());
        self.entries.get_mut(view.slot()).phase = Phase::Drained { until, since_ms };
        self.arm(view);
    }

    fn revive(&mut self, view: LeaseView<'_>, now: Tick) {
        let entry = self.entries.get_mut(view.slot());
        entry.phase = Phase::Alive;
        entry.counts_from = CountsFrom::unheard(now);
        if view.terms().mode == Mode::Heartbeat {
            self.voice(view);
        }
        self.arm(view);
    }

    fn revoked(&mut self, view: LeaseView<'_>, now: Tick) {
        let promised = self.promised_until(view);
        let (after, wait) = self.reclaim_wait(view, now, promised);
        let delayed = now.after_ms(view.terms().reclaim_delay_ms.into());
        self.unvoice(view.slot());
        let entry = self.entries.get_mut(view.slot());
        entry.promised_until = promised;
        entry.phase = Phase::Revoking { earliest: after.max(delayed), wait };
        self.arm(view);
    }

    /// Until when reclaim has to wait for the holder, and for what.
    fn reclaim_wait(&self, view: LeaseView<'_>, now: Tick, promised: Tick) -> (Tick, Wait) {
        if planted(Planted::PromiseIgnored) {
            return (now, Wait::Promise);
        }
        let LeaseState::Revoking(revocation) = view.state() else {
            unreachable!("invariant: a revoked lease is revoking")
        };
        let terms = view.terms();
        // What a former holder was promised binds under any rule.
        let former = self.former_promised_until(view, now);
        let after_former = |wait| former.map_or((now, wait), |until| (until, Wait::Promise));
        match terms.reclaim_rule {
            ReclaimRule::AtOnce => return after_former(Wait::AtOnce),
            ReclaimRule::AfterPromise => {}
        }
        // The holder that gives a lease back does not act on it any more; a former holder may.
        if revocation.actor == Actor::Holder {
            return after_former(Wait::Acknowledged);
        }
        // A lease that was never active made no promise.
        if revocation.active_since.is_none() {
            return (now, Wait::Promise);
        }
        // Under other terms a promise may have been made before a rebind; it binds still.
        let timeout = now.after_ms(self.config.revoke_timeout_ms).max(promised);
        match terms.mode {
            Mode::Heartbeat => (promised, Wait::Promise),
            Mode::Permanent => (timeout, Wait::Promise),
            Mode::Session => match view.session().and_then(|session| self.sessions.by_id(session)) {
                Some(session)
                    if session.kept.is_connection() && planted(Planted::ConnectionPromiseIgnored) =>
                {
                    (now, Wait::Promise)
                }
                Some(session) if session.kept.is_connection() && session.is_alive() => {
                    (timeout, Wait::Connection)
                }
                Some(_) | None if outlived_its_log(view) => (timeout, Wait::Promise),
                Some(_) | None => (promised, Wait::Promise),
            },
        }
    }

    fn session_opened(&mut self, open: &OpenSession, now: Tick) {
        let kept = open.kept();
        if kept == Kept::Connection {
            // Known since its connection opened; without one it drains, as after a restart.
            if self.sessions.find(open.session).is_none() {
                let slot = self.sessions.insert(SessionEntry {
                    id: open.session,
                    kept,
                    grace_ms: open.grace_ms,
                    counts_from: CountsFrom::heard(now),
                    promised_until: Tick(0),
                    phase: SessionPhase::Draining {
                        since: now,
                        grace_ms: Some(open.grace_ms),
                        longest_ms: open.grace_ms,
                    },
                    silent_at: None,
                    is_gone: true,
                    is_left: false,
                    arming: 0,
                });
                self.arm_session(slot);
            }
            return;
        }
        let slot = self.sessions.insert(SessionEntry {
            id: open.session,
            kept,
            grace_ms: open.grace_ms,
            counts_from: CountsFrom::heard(now),
            promised_until: session_promise(kept, now),
            phase: SessionPhase::Alive,
            silent_at: None,
            is_gone: false,
            is_left: false,
            arming: 0,
        });
        self.voices_heard += 1;
        self.arm_session(slot);
    }

    /// Forgets a session: it was closed, or its connection is gone and it kept nothing.
    pub(crate) fn session_gone(&mut self, session: SessionId) {
        if let Some(entry) = self.sessions.remove(session)
            && entry.kept != Kept::Connection
            && entry.is_alive()
        {
            self.voices_heard -= 1;
        }
    }

    /// The session whose promise counts for a lease, as its entry remembers it: a rebind is followed when the kernel
    /// knows only the new one.
    pub(crate) fn keeper(&self, view: LeaseView<'_>) -> u32 {
        match view.terms().reclaim_rule {
            ReclaimRule::AtOnce => return NO_VOICE,
            ReclaimRule::AfterPromise => {}
        }
        view.session().and_then(|id| self.sessions.find(id)).map_or(NO_VOICE, |slot| slot | SESSION_BIT)
    }

    /// When something about a lease is next due.
    pub(crate) fn deadline(&self, view: LeaseView<'_>) -> Option<Tick> {
        let entry = self.entries.get(view.slot());
        let terms = view.terms();
        let of_phase = match entry.phase {
            Phase::Idle => return None,
            Phase::Alive => match terms.mode {
                Mode::Heartbeat => Some(entry.counts_from.tick().after_ms(terms.ttl_ms.into())),
                Mode::Session | Mode::Permanent => None,
            },
            Phase::Draining { until } | Phase::Drained { until, .. } => Some(until),
            Phase::Revoking { earliest, .. } => return reclaimed_by_daemon(view).then_some(earliest),
        };
        match (of_phase, lifetime_end(view)) {
            (Some(phase), Some(lifetime)) => Some(phase.min(lifetime)),
            (phase, lifetime) => phase.or(lifetime),
        }
    }

    /// Arms the next deadline of a lease; timers armed before no longer count.
    pub(crate) fn arm(&mut self, view: LeaseView<'_>) {
        let deadline = self.deadline(view);
        let entry = self.entries.get_mut(view.slot());
        entry.epoch = view.epoch();
        entry.holder = view.holder_slot().0;
        entry.changed_lsn = view.changed_lsn();
        entry.beat_ms = beat_ms(view.terms());
        entry.arming = entry.arming.wrapping_add(1);
        if let Some(at) = deadline {
            let arming = entry.arming;
            assert!(view.slot().0 < SESSION_BIT, "invariant: the slab never has 2^31 leases");
            self.wheel.arm(at, view.slot().0, arming);
        }
    }

    pub(crate) fn arm_session(&mut self, slot: u32) {
        let Some(entry) = self.sessions.in_slot(slot) else { return };
        entry.arming = entry.arming.wrapping_add(1);
        let arming = entry.arming;
        if let Some(at) = entry.deadline() {
            self.wheel.arm(at, slot | SESSION_BIT, arming);
        }
    }

    /// Counts the holder of a heartbeat lease among those heard.
    pub(crate) fn voice(&mut self, view: LeaseView<'_>) {
        let holder = view.holder_slot().0;
        let entry = self.entries.get_mut(view.slot());
        if entry.voice != NO_VOICE {
            return;
        }
        entry.voice = holder;
        if self.voices.len() <= holder as usize {
            self.voices.resize(holder as usize + 1, 0);
        }
        self.voices[holder as usize] += 1;
        if self.voices[holder as usize] == 1 {
            self.voices_heard += 1;
        }
    }

    pub(crate) fn unvoice(&mut self, slot: LeaseSlot) {
        let entry = self.entries.get_mut(slot);
        if entry.voice & SESSION_BIT != 0 {
            return;
        }
        let holder = core::mem::replace(&mut entry.voice, NO_VOICE);
        self.voices[holder as usize] -= 1;
        if self.voices[holder as usize] == 0 {
            self.voices_heard -= 1;
        }
    }

    /// Tells the breaker that the holder of a heartbeat lease fell silent.
    pub(crate) fn holder_fell_silent(&mut self, view: LeaseView<'_>, now: Tick) -> Option<Turned> {
        if !self.breaker.is_on() {
            return None;
        }
        let before = self.silences.replace(view.holder_slot(), now);
        self.breaker.fell_silent(now, before, &view.terms().principal, self.voices_heard)
    }

    /// Tells the breaker that a session fell silent.
    pub(crate) fn session_fell_silent(&mut self, slot: u32, principal: &Text, now: Tick) -> Option<Turned> {
        let before = self.sessions.in_slot(slot)?.silent_at.replace(now);
        self.breaker.fell_silent(now, before, principal, self.voices_heard)
    }

    /// A slot is used again: timers of the lease that was there before must not count for this one.
    fn next_arming(&self, view: LeaseView<'_>) -> u32 {
        self.entries.get(view.slot()).arming.wrapping_add(1)
    }
}

pub(crate) fn report(turned: Option<Turned>, effects: &mut Vec<Effect>) {
    match turned {
        Some(Turned::Opened { silent, alive }) => effects.push(Effect::BreakerOpened { silent, alive }),
        Some(Turned::Closed) => effects.push(Effect::BreakerClosed),
        None => {}
    }
}

pub(crate) fn known(kernel: &Kernel, id: LeaseId) -> LeaseView<'_> {
    kernel.live(id).expect("invariant: a followed event names a live lease")
}

/// Whether a lease without a ttl was live in a backup: its connection may still be open at the daemon that the backup was
/// made of.
pub(crate) fn outlived_its_log(view: LeaseView<'_>) -> bool {
    match view.state() {
        LeaseState::Revoking(revocation) => revocation.reason == Reason::Restored && view.terms().ttl_ms == 0,
        LeaseState::Reserved { .. } | LeaseState::Active { .. } => false,
    }
}

pub(crate) fn lifetime_end(view: LeaseView<'_>) -> Option<Tick> {
    match (view.state(), view.terms().max_lifetime_ms) {
        (_, 0) | (LeaseState::Reserved { .. } | LeaseState::Revoking(_), _) => None,
        (LeaseState::Active { since, .. }, limit) => Some(since.after_ms(limit)),
    }
}

fn reclaimed_by_daemon(view: LeaseView<'_>) -> bool {
    match view.state() {
        LeaseState::Revoking(revocation) => match revocation.reclaim_by {
            ReclaimBy::Daemon => true,
            ReclaimBy::Operator => false,
        },
        LeaseState::Reserved { .. } | LeaseState::Active { .. } => false,
    }
}

/// Whether a lease with these terms can be drained: a permanent one would never end by itself.
pub(crate) fn is_permanent(terms: &Policy) -> bool {
    match terms.mode {
        Mode::Permanent => true,
        Mode::Session | Mode::Heartbeat => false,
    }
}
