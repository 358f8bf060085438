//! What must hold, one file each, with the sentence it comes from. Events are judged before they are told,
//! everything said is judged as it leaves the engine, the whole state after turns.

pub(crate) mod acked_survives_crash;
mod active_never_expires_by_time;
mod bundle_whole;
mod closes_are_noticed;
pub(crate) mod deaths_end_in_bound;
mod dedupe;
mod drain_is_sticky;
mod every_end_has_a_reason;
mod every_holder_command_checked;
mod fence_rises;
mod gates_are_passed;
mod grace_honoured;
mod late_proof_is_none;
mod no_busy_turns;
mod no_early_reuse;
mod nothing_unsynced_leaves;
mod one_live_authority;
mod open_connection_keeps;
mod positions_never_reused;
mod promise_or_acknowledge;
pub(crate) mod replay_equals_live;
mod retention_bounded;
mod reuse_only_after_reclaim;
mod structural;
mod terminal_never_live;
mod tick_never_back;
pub(crate) mod upkeep_is_done;
mod waiters_fair;

use crate::clients::Client;
use crate::ledger::{Ledger, Recorded};
use crate::memory::Memory;
use crate::network::Ask;
use crate::profile::Profile;
use crate::story::Story;
use crate::violation::Violation;
use tenure_engine::{Control, Engine, Input, Out};
use tenure_kernel::Tick;

/// What an invariant says.
pub(crate) type Verdict = Result<(), Violation>;

/// Everything there is to see at one instant.
pub(crate) struct Scene<'a> {
    pub(crate) now: u64,
    pub(crate) aged: u64,
    pub(crate) story: &'a Story,
    pub(crate) memory: &'a Memory,
    pub(crate) clients: &'a [Client],
    pub(crate) profile: &'a Profile,
    pub(crate) tag: u32,
    pub(crate) engine: Option<&'a Engine>,
    /// Last position that the disk itself holds durably.
    pub(crate) durable_lsn: u64,
}

/// Something that leaves the engine, with the question it answers.
pub(crate) struct Said<'a> {
    pub(crate) out: &'a Out,
    pub(crate) ask: Option<&'a Ask>,
}

/// What the invariants remember from one instant to the next.
#[derive(Default)]
pub(crate) struct Invariants {
    fences: fence_rises::Fences,
    positions: positions_never_reused::Positions,
    ticks: tick_never_back::Ticks,
    queue: waiters_fair::Queue,
    proofs: late_proof_is_none::Proofs,
    idle: no_busy_turns::IdleTurns,
    upkept: upkeep_is_done::Upkept,
    closes: closes_are_noticed::Closes,
    turns: u64,
    comparisons: u64,
}

/// What is left of the invariants where several writers follow one another, judged from what is committed.
#[derive(Default)]
pub(crate) struct AcrossWriters {
    fences: fence_rises::Fences,
    positions: positions_never_reused::Positions,
}

impl AcrossWriters {
    /// An event was committed.
    pub(crate) fn committed(&self, scene: &Scene<'_>, recorded: &Recorded) -> Verdict {
        terminal_never_live::event(scene, recorded)?;
        one_live_authority::event(scene, recorded)?;
        active_never_expires_by_time::event(scene, recorded)?;
        reuse_only_after_reclaim::event(scene, recorded)?;
        every_holder_command_checked::event(scene, recorded)?;
        dedupe::event(scene, recorded)?;
        every_end_has_a_reason::event(scene, recorded)?;
        gates_are_passed::event(scene, recorded)
    }

    /// Something leaves one of the engines.
    pub(crate) fn said(&mut self, scene: &Scene<'_>, said: &Said<'_>) -> Verdict {
        nothing_unsynced_leaves::said(scene, said)?;
        every_holder_command_checked::said(scene, said)?;
        self.positions.said(scene, said)?;
        self.fences.said(scene, said)
    }
}

impl Invariants {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A request enters the engine with this turn.
    pub(crate) fn told(&mut self, aged: u64, story: &Story, control: &Control) {
        match control {
            Control::Cancel(ticket) => self.queue.cancelled(aged, story, *ticket),
            Control::ConnectionClosed(session) => self.closes.told(aged, *session),
            _ => {}
        }
    }

    pub(crate) fn arrives(&mut self, aged: u64, input: &Input) {
        self.queue.arrives(aged, input);
        self.proofs.arrives(input);
    }

    /// An event was decided.
    pub(crate) fn event(&mut self, scene: &Scene<'_>, recorded: &Recorded) -> Verdict {
        terminal_never_live::event(scene, recorded)?;
        one_live_authority::event(scene, recorded)?;
        active_never_expires_by_time::event(scene, recorded)?;
        reuse_only_after_reclaim::event(scene, recorded)?;
        every_holder_command_checked::event(scene, recorded)?;
        no_early_reuse::event(scene, recorded)?;
        promise_or_acknowledge::event(scene, recorded)?;
        open_connection_keeps::event(scene, recorded)?;
        grace_honoured::event(scene, recorded)?;
        dedupe::event(scene, recorded)?;
        every_end_has_a_reason::event(scene, recorded)?;
        gates_are_passed::event(scene, recorded)?;
        self.ticks.event(recorded)?;
        self.proofs.event(scene, recorded);
        self.queue.event(scene, recorded)
    }

    /// Something leaves.
    pub(crate) fn said(&mut self, scene: &Scene<'_>, said: &Said<'_>) -> Verdict {
        nothing_unsynced_leaves::said(scene, said)?;
        every_holder_command_checked::said(scene, said)?;
        drain_is_sticky::said(scene, said)?;
        self.positions.said(scene, said)?;
        self.fences.said(scene, said)?;
        self.proofs.said(scene, said)?;
        self.queue.said(scene, said)
    }

    /// A turn is over. `caught_up`: the story has everything that the engine has.
    pub(crate) fn turn(&mut self, scene: &Scene<'_>, caught_up: bool) -> Verdict {
        self.turns += 1;
        self.ticks.turn(scene)?;
        retention_bounded::turn(scene)?;
        self.closes.turn(scene)?;
        if self.turns.is_multiple_of(4) {
            structural::turn(scene)?;
            if caught_up {
                bundle_whole::turn(scene)?;
            }
        }
        Ok(())
    }

    /// What there is of the log after a turn.
    pub(crate) fn upkeep(&mut self, kept: &upkeep_is_done::Kept<'_>) -> Verdict {
        self.upkept.turn(kept)
    }

    /// Nothing could be done about the log: the daemon stands still, or its disk is bad.
    pub(crate) fn stood_still(&mut self) {
        self.upkept.stood_still();
    }

    /// A turn asked for the next one. `idle`: it did nothing itself.
    pub(crate) fn wakes(&mut self, in_ms: u64, idle: bool) -> Verdict {
        self.idle.wakes(in_ms, idle)
    }

    /// The engine's state against the ledger's, now and then.
    pub(crate) fn compare(&mut self, scene: &Scene<'_>, ledger: &Ledger) -> Verdict {
        self.comparisons += 1;
        match scene.engine {
            Some(engine) if self.comparisons.is_multiple_of(32) => {
                replay_equals_live::live(ledger, engine.kernel())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The daemon started again.
    pub(crate) fn restarted(&mut self, tick: Tick, story: &Story) {
        self.ticks.restarted(tick, story.last_tick);
        self.proofs.restarted(tick, story);
        self.upkept = upkeep_is_done::Upkept::default();
        self.closes.clear();
        self.queue.clear();
    }

    /// Another log, or an earlier state of this one.
    pub(crate) fn new_history(&mut self) {
        self.ticks.new_history();
        self.proofs = late_proof_is_none::Proofs::default();
        self.closes.clear();
        self.queue.clear();
    }
}
