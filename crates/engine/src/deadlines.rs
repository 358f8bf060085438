//! What time alone brings: deadlines that a turn acts on, within its bounds, and when the next turn is due for them.

use crate::engine::Engine;
use crate::journal::{Out, RECORDS_PER_END};
use crate::report::Report;
use crate::turn::TURN_WORK_MAX;
use tenure_kernel::{Note, Tick};
use tenure_liveness::Effect;

/// Waits that run out in one turn: each takes a waiter out of several orders and answers it.
const WAITS_OVER_MAX: usize = 256;
/// While a deadline is pending the host runs a turn at least this often.
const IDLE_MS_MAX: u64 = 500;
/// While anything is live the tick is logged at least this often.
const TICK_EVERY_MS: u64 = 60_000;

impl Engine {
    pub(crate) fn on_deadlines(&mut self, room: usize) {
        let mut left = room;
        while left > 0 && self.journal.room() > 0 {
            let Some(lease) = self.kernel.due(self.tick).next() else { break };
            self.expire(lease);
            left -= 1;
        }
        let (mut effects, mut looks) = (Vec::new(), TURN_WORK_MAX);
        while !self.mode.is_daemon_stopping() && looks > 0 {
            let batch = (left / RECORDS_PER_END).min(self.journal.room_for_ends()).min(256);
            if batch == 0 {
                break;
            }
            self.liveness.on_deadline(&self.kernel, self.tick, batch, &mut looks, &mut effects);
            if effects.is_empty() {
                break;
            }
            left = left.saturating_sub(effects.len() * RECORDS_PER_END);
            for effect in effects.drain(..) {
                self.carry_out(effect);
            }
        }
        for _ in 0..WAITS_OVER_MAX {
            let Some(place) = self.waiters.overdue(self.tick) else { break };
            self.wait_over(place);
        }
        let passable = self.waiters.grown_passable(self.tick);
        self.freed.extend(passable);
        self.gate_deadlines();
        self.notice_deadlines();
    }

    /// Carries out what liveness asks for.
    pub(crate) fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Silent { subject, last_seen, until } => {
                // With no grace left to run, the end itself tells the story.
                if until > self.tick {
                    self.note(&Note::Draining { subject, last_seen, until });
                }
            }
            Effect::Returned { subject } => self.note(&Note::Returned { subject }),
            Effect::LeaseOver { lease, reason, evidence } => self.lease_over(lease, reason, evidence),
            Effect::SessionOver(over) => self.session_over(over),
            Effect::ReclaimDue { lease, .. } => self.try_reclaim(lease),
            Effect::BreakerOpened { silent, alive } => {
                self.counters.breaker_opened += 1;
                self.note(&Note::BreakerOpened { silent, alive });
                self.leaving.push(Out::Report(Report::BreakerOpened { silent, alive }));
            }
            Effect::BreakerClosed => {
                self.note(&Note::BreakerClosed);
                self.leaving.push(Out::Report(Report::BreakerClosed));
            }
        }
    }

    /// Makes the tick durable often enough while anything is live.
    pub(crate) fn keep_time(&mut self) {
        let live = self.kernel.live_count() > 0;
        let due = live && self.tick.ms_since(self.journal.newest_tick()) >= TICK_EVERY_MS;
        if (due || self.record_wanted) && self.journal.room() > 0 {
            self.record_wanted = false;
            self.journal.mark_tick(self.now, self.tick);
        }
    }

    /// The earliest thing that time alone will bring.
    pub(crate) fn next_deadline(&self) -> Option<Tick> {
        [
            self.kernel.next_deadline(),
            self.liveness.next_deadline().filter(|_| !self.mode.is_daemon_stopping()),
            self.waiters.next_deadline(),
            self.gates.next_deadline(),
            self.next_notice_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// When the turn after this one is due. `decides`: whether the outcome of the newest frame is known.
    pub(crate) fn wake_in_ms(&self, decides: bool) -> Option<u64> {
        let ends_fit = decides && self.journal.room_for_ends() > 0;
        let anything_fits = decides && self.journal.room() > 0;
        let work_left = !self.lanes.is_empty() || !self.freed.is_empty();
        let ends_left = !self.facts.is_empty() || !self.endings.is_empty();
        // Waits that run out need no room.
        let waits_over = decides && self.waiters.next_deadline().is_some_and(|at| at <= self.tick);
        if (work_left && anything_fits) || (ends_left && ends_fit) || waits_over {
            return Some(0);
        }
        let deadline = [self.next_deadline(), self.journal.notes_due()].into_iter().flatten().min();
        let deadline_in = deadline.map(|at| match at.ms_since(self.tick).min(IDLE_MS_MAX) {
            // Due, but there is no room for it: the completion of the frame in flight brings the turn.
            0 if !ends_fit => IDLE_MS_MAX,
            in_ms => in_ms,
        });
        let live = self.kernel.live_count() > 0;
        let tick_due = self.journal.newest_tick().after_ms(TICK_EVERY_MS);
        let tick_in = (live && anything_fits).then(|| tick_due.ms_since(self.tick));
        let authority_in = self.mode.authority_ends_in_ms(self.now);
        [deadline_in, tick_in, authority_in].into_iter().flatten().min()
    }
}
