//! Facts that the daemon reports ([`Control`]): nothing refuses them, nothing answers them, and a turn handles them in
//! the order in which they came, behind proofs of life and before everything else.

use crate::endings::{daemon_revoke, has_authority};
use crate::engine::{Engine, Role};
use crate::request::{Control, Lane, Ticket};
use std::collections::{BTreeSet, VecDeque};
use tenure_kernel::planted::{Planted, planted};
use tenure_kernel::{Evidence, LeaseId, Reason, Text};

/// Facts handled in one turn; each takes about a microsecond.
const PER_TURN_MAX: usize = 512;

#[derive(Debug, Default)]
pub(crate) struct Facts {
    queue: VecDeque<Control>,
    /// Cancelled before the engine looked at them: they wait in the lane of grants.
    withdrawn: BTreeSet<Ticket>,
}

impl Facts {
    pub(crate) fn push(&mut self, control: Control) {
        self.queue.push_back(control);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Nothing will be decided any more.
    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        self.withdrawn.clear();
    }

    /// Whether this request was cancelled before it was looked at.
    pub(crate) fn take_withdrawn(&mut self, ticket: Ticket) -> bool {
        !self.withdrawn.is_empty() && self.withdrawn.remove(&ticket)
    }
}

impl Engine {
    /// Handles facts, as many as a turn may take and the frame has room for.
    pub(crate) fn work_facts(&mut self) {
        for _ in 0..PER_TURN_MAX {
            if self.journal.room_for_ends() == 0 {
                return;
            }
            let Some(control) = self.facts.queue.pop_front() else { return };
            self.carry_out_control(control);
        }
    }

    /// The same where another node decides: only watches are served here.
    pub(crate) fn look_at_facts(&mut self) {
        assert_eq!(self.role(), Role::Following, "invariant: an engine that decides carries facts out");
        while let Some(control) = self.facts.queue.pop_front() {
            match control {
                Control::WatchMore { watch, room } => self.hub.more(watch, room),
                Control::WatchEnd(watch) => self.hub.end(watch),
                Control::ConnectionClosed(_)
                | Control::Cancel(_)
                | Control::Abandoned(_)
                | Control::GateDone { .. }
                | Control::NoticeDone(_)
                | Control::Stopping => {}
            }
        }
    }

    /// The simulator plants the bug that a full lane loses what a fact tells.
    pub(crate) fn lose_facts_if_planted(&mut self) {
        if planted(Planted::ControlRefused) && self.lanes.is_full(Lane::Liveness) {
            self.facts.queue.clear();
        }
    }

    fn carry_out_control(&mut self, control: Control) {
        match control {
            Control::ConnectionClosed(session) => self.connection_closed(session, false),
            Control::Cancel(waiting) => self.cancel_or_withdraw(waiting),
            Control::Abandoned(lease) => self.abandoned(lease),
            Control::GateDone { lease, report } => self.gate_done(lease, report),
            Control::NoticeDone(lease) => self.settle_notice(lease),
            Control::WatchMore { watch, room } => self.hub.more(watch, room),
            Control::WatchEnd(watch) => self.hub.end(watch),
            Control::Stopping => self.mode.daemon_stops(),
        }
    }

    /// A caller may be gone before the engine has looked at what it asked: that must not begin to wait.
    fn cancel_or_withdraw(&mut self, waiting: Ticket) {
        if self.cancel(waiting) {
            return;
        }
        let asked = self.lanes.len(Lane::Granting);
        if asked == 0 {
            self.facts.withdrawn.clear();
            return;
        }
        self.facts.withdrawn.insert(waiting);
        if self.facts.withdrawn.len() > 2 * asked {
            // Most were answered before they were cancelled.
            let kept: BTreeSet<Ticket> = self.lanes.tickets(Lane::Granting).collect();
            self.facts.withdrawn.retain(|ticket| kept.contains(ticket));
        }
    }

    fn abandoned(&mut self, lease: LeaseId) {
        if self.kernel.live(lease).is_some_and(has_authority) {
            self.order(daemon_revoke(lease, Reason::Abandoned, Evidence::None, Text::default()));
        }
    }
}
