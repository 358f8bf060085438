//! One turn of the machine: completions, then proofs of life, then facts, then deadlines, then everything else by lane.
//! The mode decides how far a turn goes (`mode.rs`); budgets decide how much of each it does.
//!
//! Invariant: a turn is a function of its inputs. It has no thread, no channel and no clock.

use crate::answer::{Answer, CallLimit, Refused};
use crate::engine::{Completion, Engine, Outputs};
use crate::journal::Out;
use crate::lanes::AHEAD;
use crate::mode::Turn;
use crate::report::Stall;
use crate::request::{Input, Lane, Request};
use crate::ticker::Now;
use tenure_kernel::{LeaseId, Lsn, Note};
use tenure_liveness::Liveness;

/// A turn ends after this many events: a heartbeat while many leases end at once waits for a turn of ends or two.
pub const TURN_EVENTS_MAX: usize = 1024;
/// A turn ends after this much work; a unit is about a microsecond, so that a turn takes about 2 ms.
pub const TURN_WORK_MAX: usize = 2_000;

/// Position 0 is never a grant's: looking this up finds nothing.
const NO_LEASE: LeaseId = LeaseId(0);

impl Engine {
    /// One turn of the machine.
    pub fn turn(
        &mut self,
        now: Now,
        inputs: impl IntoIterator<Item = Input>,
        completions: impl IntoIterator<Item = Completion>,
    ) -> Outputs {
        let mut outputs = Outputs::default();
        self.now = now;
        let deadline_pending = self.next_deadline().is_some();
        let stalls = self.counters.stalls;
        for completion in completions {
            self.complete(completion, &mut outputs);
        }
        let decides = match self.mode.begin(now) {
            Turn::Over => return self.stopped(inputs, outputs),
            Turn::Looks => return self.look_only(inputs, outputs),
            Turn::Waits => return self.without_authority(inputs, outputs),
            Turn::Works { regains, decides } => {
                if regains {
                    self.regain();
                }
                decides
            }
        };
        let passed = self.ticker.pass(now, deadline_pending);
        self.tick = passed.now;
        if let Some(gap_ms) = passed.stalled_ms {
            self.note(&Note::Stalled { gap_ms });
            // A turn that took long is a gap too.
            if self.counters.stalls == stalls {
                self.stalled(Stall::Gap, gap_ms);
            }
        }
        for input in inputs {
            if let Err(ticket) = self.lanes.push(input) {
                let refused = Refused::Overloaded { limit: CallLimit::Inbox, max: self.config.inbox_max };
                self.refuse(ticket, Lsn(0), refused);
            }
        }
        self.lose_facts_if_planted();
        if decides {
            self.work();
        }
        self.hub.deliver(self.journal.synced(), &mut self.pushes, &mut outputs.reads);
        if decides {
            self.keep_time();
            outputs.append = self.journal.take_frame(self.tick);
            if let Some(batch) = &outputs.append {
                self.counters.frames += 1;
                self.counters.batch_records.record(batch.count().into());
                self.counters.log_bytes += batch.payload().len() as u64;
            }
        }
        self.leaving.extend(self.pushes.drain(..).map(Out::Push));
        outputs.outs.append(&mut self.leaving);
        outputs.wake_in_ms = self.wake_in_ms(decides);
        outputs
    }

    /// A spell without authority is downtime: nothing is decided, nothing leaves, and time does not count. What was not
    /// decided yet may be asked elsewhere; what may be in a frame is not known.
    fn without_authority(
        &mut self,
        inputs: impl IntoIterator<Item = Input>,
        mut outputs: Outputs,
    ) -> Outputs {
        self.ticker.stand_still(self.now);
        let mut unknown = self.journal.take_answers();
        // What rests on nothing unsynced waits for authority alone.
        self.leaving.retain(|out| match out {
            Out::Answer(ticket, _) => {
                unknown.push(*ticket);
                false
            }
            Out::Push(_)
            | Out::OpenGate(_)
            | Out::SendNotice { .. }
            | Out::Ended(_)
            | Out::Followed(_)
            | Out::Report(_) => true,
        });
        for ticket in unknown {
            outputs.outs.push(Out::Answer(ticket, Answer::Refused(Refused::OutcomeUnknown)));
        }
        let unheard = self.lanes.drain().chain(inputs).map(|input| input.ticket);
        for ticket in unheard.chain(self.waiters.drain()) {
            outputs.outs.push(Out::Answer(ticket, Answer::Refused(Refused::NotLeader)));
        }
        for ticket in self.retries.drain() {
            outputs.outs.push(Out::Answer(ticket, Answer::Refused(Refused::NotLeader)));
        }
        outputs
    }

    /// Authority is back: what recovery does is done again, from this instant.
    fn regain(&mut self) {
        self.ticker.stand_still(self.now);
        self.liveness = Liveness::recover(&self.kernel, self.tick, self.config.liveness.clone());
    }

    /// Answers what can be answered and takes nothing more.
    fn stopped(&mut self, inputs: impl IntoIterator<Item = Input>, mut outputs: Outputs) -> Outputs {
        self.facts.clear();
        let mut suspect = self.journal.abandon();
        if self.mode.may_answer(self.now) {
            outputs.outs.append(&mut self.leaving);
        } else {
            suspect.append(&mut self.leaving);
        }
        for out in suspect {
            if let Out::Answer(ticket, _) = out {
                outputs.outs.push(Out::Answer(ticket, Answer::Refused(Refused::OutcomeUnknown)));
            }
        }
        let unheard = self.lanes.drain().chain(inputs).map(|input| input.ticket);
        let waiting = self.waiters.drain().chain(self.retries.drain());
        for ticket in unheard.chain(waiting) {
            outputs.outs.push(Out::Answer(ticket, Answer::Refused(Refused::ShuttingDown)));
        }
        outputs.stop = self.mode.stop_reason().cloned();
        outputs
    }

    fn work(&mut self) {
        self.serving = TURN_WORK_MAX / 2;
        self.work_liveness();
        // Behind them: a connection that opened and closed within one turn is gone.
        self.work_facts();
        let events = TURN_EVENTS_MAX.min(self.journal.room());
        let share = events / 10;
        self.on_deadlines(events.saturating_sub(3 * share));
        self.go_on_ending(share.max(1));
        self.serve_waiters();
        let mut work = TURN_WORK_MAX;
        for lane in [Lane::Ending, Lane::Granting, Lane::Reading] {
            self.work_lane(lane, TURN_WORK_MAX / 10);
            work -= TURN_WORK_MAX / 10;
        }
        for lane in [Lane::Ending, Lane::Granting, Lane::Reading] {
            work -= self.work_lane(lane, work);
        }
        self.serve_waiters();
    }

    /// Handles every proof of life that waits. What was looked up for a few of them together holds for each, until one
    /// comes too late and ends its lease.
    fn work_liveness(&mut self) {
        for handled in 0..self.lanes.len(Lane::Liveness) {
            if handled % AHEAD == 0 {
                self.find_ahead(Lane::Liveness);
                self.liveness.warm(&self.ahead);
            }
            let Some(input) = self.lanes.pop(Lane::Liveness) else { return };
            if let (Request::Heartbeat { lease, epoch, asker, .. }, Some(slot)) =
                (&input.request, self.ahead[handled % AHEAD])
            {
                let found = self.kernel.in_slot(slot);
                let is_its_slot = found.is_some_and(|view| view.id() == *lease);
                assert!(is_its_slot, "invariant: what was looked up is where the lease is");
                if self.may_speak_for(asker.as_ref(), found)
                    && let Some((renewal, changed_lsn)) =
                        self.liveness.quick_heartbeat(slot, self.tick, *epoch)
                {
                    self.renewed(input.ticket, &renewal, renewal.promise_ms, changed_lsn);
                    continue;
                }
            }
            let before = self.journal.newest();
            self.handle(input);
            if self.journal.newest() != before {
                self.ahead.fill(None);
            }
        }
    }

    /// Where the leases are that the next requests of a lane name.
    fn find_ahead(&mut self, lane: Lane) {
        let mut leases = [NO_LEASE; AHEAD];
        let mut count = 0;
        for (request, lease) in self.lanes.ahead(lane).zip(&mut leases) {
            *lease = request.lease().unwrap_or(NO_LEASE);
            count += 1;
        }
        self.kernel.find(&leases[..count], &mut self.ahead);
    }

    /// Touches what the next requests of a lane will need, so that their cache misses overlap.
    fn look_ahead(&mut self, lane: Lane) {
        self.find_ahead(lane);
        self.kernel.warm(&self.ahead);
        self.liveness.warm(&self.ahead);
        self.kernel.warm_names(self.lanes.ahead(lane).flat_map(Request::names));
    }

    /// Handles up to `work` units of a lane; returns how many it took.
    fn work_lane(&mut self, lane: Lane, work: usize) -> usize {
        let mut done = 0;
        let mut handled = 0;
        while done < work {
            if handled % AHEAD == 0 {
                self.look_ahead(lane);
            }
            handled += 1;
            // A full frame admits nothing that could write; looking is always allowed.
            if lane != Lane::Reading && self.journal.room() == 0 {
                break;
            }
            let Some(input) = self.lanes.pop(lane) else { break };
            if lane == Lane::Granting {
                self.serve_waiters();
            }
            done += self.handle(input);
        }
        done.min(work)
    }
}
