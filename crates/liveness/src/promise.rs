//! All arithmetic of validity: how long a promise lasts, what part of it the holder hears, and until when the promises
//! to former holders bind.
//!
//! Reclaim waits for the whole promise `p`; the holder hears `valid_ms(p)`, counts it exactly, from before it sent its
//! request, and needs no factor of its own. Two errors lie between the two clocks:
//!
//! - *Rates.* The holder's clock may run slower than the daemon's by less than 0.5 %: `v` of its milliseconds take less
//!   than `v / 0.995` of the daemon's.
//! - *Rounding.* The daemon floors boot time to milliseconds. A promise made at `t` ends at the tick `⌊t⌋ + p`, and the
//!   daemon acts on it at some `u` with `⌊u⌋ ≥ ⌊t⌋ + p`, hence `u > t + p − 1`.
//!
//! With `v = ⌊0.995 p⌋ − 1` the holder stops within `v / 0.995 ≤ p − 1 / 0.995 < p − 1`, before the daemon acts.

use crate::entry::{Entry, NO_VOICE, Phase};
use crate::liveness::{Liveness, SESSION_BIT, known, lifetime_end};
use hashbrown::HashMap;
use tenure_kernel::planted::{Planted, planted};
use tenure_kernel::{
    Kept, Kernel, LeaseId, LeaseSlot, LeaseState, LeaseView, Mode, Policy, ReclaimRule, Tick,
};

/// One part in so many, rounded up, is kept back for clocks that run at different rates: 0.5 %.
const RATE_PART: u64 = 200;
/// Kept back because the daemon's clock is read in whole milliseconds.
const ROUNDING_MS: u64 = 1;

/// What a holder may count on of a promise: `⌊p × 0.995⌋ − 1`.
#[must_use]
#[inline]
pub const fn valid_ms(promise_ms: u64) -> u64 {
    // ⌊p × 0.995⌋ = p − ⌈p / 200⌉. Every heartbeat comes here: one division, and no overflow for any number.
    (promise_ms - promise_ms.saturating_add(RATE_PART - 1) / RATE_PART).saturating_sub(ROUNDING_MS)
}

/// [`valid_ms`], as answers carry it.
#[inline]
pub(crate) fn told_ms(promise_ms: u64) -> u64 {
    if planted(Planted::WholePromiseTold) { promise_ms } else { valid_ms(promise_ms) }
}

/// Promises to former holders of leases that changed hands and are still live. Few leases are here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Formers(HashMap<LeaseSlot, Former, foldhash::fast::FixedState>);

#[derive(Clone, Copy, Debug)]
struct Former {
    /// Until when every former holder but the last may act.
    before_last: Tick,
    /// The same with the last one.
    until: Tick,
}

impl Formers {
    pub(crate) fn until(&self, slot: LeaseSlot) -> Tick {
        self.0.get(&slot).map_or(Tick(0), |former| former.until)
    }

    /// The lease was bound anew; its last holder, if it is another one now, may act until `promised`.
    pub(crate) fn add(&mut self, slot: LeaseSlot, promised: Tick) {
        let before_last = self.until(slot);
        if before_last.max(promised) > Tick(0) {
            self.0.insert(slot, Former { before_last, until: before_last.max(promised) });
        }
    }

    /// The last one has stopped.
    fn last_stopped(&mut self, slot: LeaseSlot) {
        if let Some(former) = self.0.get_mut(&slot) {
            former.until = former.before_last;
        }
    }

    pub(crate) fn forget(&mut self, slot: LeaseSlot) {
        if !self.0.is_empty() {
            self.0.remove(&slot);
        }
    }
}

impl Liveness {
    /// How long a promise made now would last; `None` where no promise is made.
    pub(crate) fn next_promise(&self, view: LeaseView<'_>, now: Tick) -> Option<u64> {
        let terms = view.terms();
        match terms.reclaim_rule {
            ReclaimRule::AtOnce => return None,
            ReclaimRule::AfterPromise => {}
        }
        let LeaseState::Active { since, .. } = view.state() else { return None };
        let ttl_ms = match terms.mode {
            Mode::Heartbeat => u64::from(terms.ttl_ms),
            Mode::Session => {
                let session = view.session().and_then(|session| self.sessions.by_id(session))?;
                u64::from(session.lease_promise_ms()?)
            }
            Mode::Permanent => return None,
        };
        let lifetime_left = match terms.max_lifetime_ms {
            0 => u64::MAX,
            limit => since.after_ms(limit).ms_since(now),
        };
        let drain_left = match self.entries.get(view.slot()).phase {
            Phase::Drained { until, .. } => until.ms_since(now),
            Phase::Idle | Phase::Alive | Phase::Draining { .. } | Phase::Revoking { .. } => u64::MAX,
        };
        Some(ttl_ms.min(lifetime_left).min(drain_left))
    }

    /// The end of the last promise: to the holder, by its own heartbeats or its session's, or to a former holder.
    pub(crate) fn promised_until(&self, view: LeaseView<'_>) -> Tick {
        let session = view.session().and_then(|session| self.sessions.by_id(session));
        if session.is_some_and(|session| session.is_left) {
            return self.promised_elsewhere(view.slot());
        }
        let own = self.entries.get(view.slot()).promised_until;
        let of_session = session.map_or(Tick(0), |entry| entry.promised_until);
        own.max(of_session).max(self.formers.until(view.slot()))
    }

    /// The end of the last promise that was not made on the present connection: to a former holder, or to this one before
    /// it came to this connection.
    pub(crate) fn promised_elsewhere(&self, slot: LeaseSlot) -> Tick {
        self.earlier.get(&slot).copied().unwrap_or(Tick(0)).max(self.formers.until(slot))
    }

    /// The end of the last promise to a former holder, if that is yet to come. A release or an acknowledge says that the
    /// present holder has stopped; it says nothing of a former one.
    #[must_use]
    pub fn former_promised_until(&self, view: LeaseView<'_>, now: Tick) -> Option<Tick> {
        let until = self.formers.until(view.slot());
        (until > now && !planted(Planted::FormerPromiseForgotten)).then_some(until)
    }

    /// Whether every promise, to present and former holders, has run out.
    #[must_use]
    pub fn promises_nothing(&self, view: LeaseView<'_>, now: Tick) -> bool {
        match view.terms().reclaim_rule {
            ReclaimRule::AtOnce => self.former_promised_until(view, now).is_none(),
            ReclaimRule::AfterPromise => self.promised_until(view) <= now,
        }
    }

    /// The last former holder has stopped: the promise to it no longer binds.
    pub fn former_holder_stopped(&mut self, kernel: &Kernel, now: Tick, lease: LeaseId) {
        let view = known(kernel, lease);
        let promised = self.next_promise(view, now).map_or(Tick(0), |promise_ms| now.after_ms(promise_ms));
        self.formers.last_stopped(view.slot());
        let entry = self.entries.get_mut(view.slot());
        entry.promised_until = match entry.phase {
            Phase::Drained { until, .. } => promised.min(until),
            Phase::Idle | Phase::Alive | Phase::Draining { .. } | Phase::Revoking { .. } => promised,
        };
    }

    /// What the session that kept a lease had promised it, as its entry remembers that session.
    pub(crate) fn promised_by_keeper(&self, entry: Entry) -> Tick {
        if entry.voice == NO_VOICE || entry.voice & SESSION_BIT == 0 {
            return Tick(0);
        }
        self.sessions.get(entry.voice & !SESSION_BIT).map_or(Tick(0), |session| session.promised_until)
    }

    /// What is left, for the present holder of a lease in use, of the last promise made to it. What reclaim waits for
    /// may lie later: a former holder's promise binds, but is not this one's to use.
    #[must_use]
    pub fn valid_ms(&self, lease: LeaseView<'_>, now: Tick) -> Option<u64> {
        let terms = lease.terms();
        match (terms.reclaim_rule, lease.state()) {
            (ReclaimRule::AtOnce, _) | (_, LeaseState::Reserved { .. } | LeaseState::Revoking(_)) => {
                return None;
            }
            (ReclaimRule::AfterPromise, LeaseState::Active { .. }) => {}
        }
        let entry = self.entries.get(lease.slot());
        // Under other terms, before a rebind, the same holder may have been promised more.
        let bounded =
            |ttl_ms: u32| entry.promised_until.min(entry.counts_from.tick().after_ms(ttl_ms.into()));
        let promised = match terms.mode {
            Mode::Heartbeat => bounded(terms.ttl_ms),
            Mode::Session => {
                let session = lease.session().and_then(|id| self.sessions.by_id(id))?;
                match session.kept {
                    Kept::Connection => return None,
                    Kept::NodeConnection { .. } if session.is_left => Tick(0),
                    Kept::NodeConnection { ttl_ms } => bounded(ttl_ms.get()),
                    Kept::Heartbeat { .. } => session.promised_until,
                }
            }
            Mode::Permanent => return None,
        };
        let drained = match entry.phase {
            Phase::Drained { until, .. } => Some(until),
            Phase::Idle | Phase::Alive | Phase::Draining { .. } | Phase::Revoking { .. } => None,
        };
        let end = lifetime_end(lease).into_iter().chain(drained).fold(promised, Tick::min);
        Some(told_ms(end.ms_since(now)))
    }
}

/// The end of the promise to a session as a whole. Behind a connection each lease has its own promise: the keepalive of the
/// connection's node keeps the session, but the holder has not heard it.
pub(crate) fn session_promise(kept: Kept, now: Tick) -> Tick {
    match kept {
        Kept::Connection | Kept::NodeConnection { .. } => Tick(0),
        Kept::Heartbeat { ttl_ms } => now.after_ms(ttl_ms.into()),
    }
}

/// What a heartbeat promises under these terms if nothing but the ttl bounds it; zero otherwise.
pub(crate) fn beat_ms(terms: &Policy) -> u32 {
    match (terms.mode, terms.reclaim_rule, terms.max_lifetime_ms) {
        (Mode::Heartbeat, ReclaimRule::AfterPromise, 0) => terms.ttl_ms,
        (Mode::Heartbeat | Mode::Session | Mode::Permanent, _, _) => 0,
    }
}
