//! Ticks never go back, not even over a restart, and a stalled daemon ages nobody: while a deadline is
//! pending a gap between turns counts for one second at most. (DESIGN decision 5)

use super::{Scene, Verdict};
use crate::ledger::Recorded;
use crate::violation::Violation;
use tenure_engine::STALL_MS;
use tenure_kernel::{Mode, StateName, Tick};

#[derive(Default)]
pub(super) struct Ticks {
    logged: Tick,
    seen: Option<Tick>,
    /// A lease with a deadline was there when the last turn ended.
    pending: bool,
}

impl Ticks {
    pub(super) fn event(&mut self, recorded: &Recorded) -> Verdict {
        if recorded.tick < self.logged {
            let text =
                format!("the event at {} has tick {} after {}", recorded.lsn, recorded.tick, self.logged);
            return Err(Violation::new("tick_never_back", text));
        }
        self.logged = recorded.tick;
        Ok(())
    }

    pub(super) fn turn(&mut self, scene: &Scene<'_>) -> Verdict {
        let Some(engine) = scene.engine else { return Ok(()) };
        let tick = engine.tick();
        if let Some(before) = self.seen {
            if tick < before {
                return Err(Violation::new("tick_never_back", format!("tick {tick} after {before}")));
            }
            let passed = tick.ms_since(before);
            if self.pending && passed > STALL_MS {
                let text = format!("one turn aged everybody by {passed} ms");
                return Err(Violation::new("tick_never_back", text));
            }
        }
        self.seen = Some(tick);
        self.pending = scene
            .story
            .live()
            .any(|told| told.state == StateName::Active && told.policy.mode == Mode::Heartbeat);
        // The story may lag behind the engine: only a lease that both know is surely pending.
        self.pending &= engine.kernel().live_count() > 0
            && scene.story.live().any(|told| {
                told.policy.mode == Mode::Heartbeat
                    && engine
                        .kernel()
                        .live(told.id)
                        .is_some_and(|view| view.state().name() == StateName::Active)
            });
        Ok(())
    }

    /// Ticks that were never durable may come again.
    pub(super) fn restarted(&mut self, tick: Tick, logged: Tick) {
        self.logged = logged;
        self.seen = Some(tick);
        self.pending = false;
    }

    pub(super) fn new_history(&mut self) {
        *self = Self::default();
    }
}
