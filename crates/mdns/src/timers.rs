//! What is to be looked at again, and when. A timer that comes too late or for something that is gone does no
//! harm: its receiver looks first.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::clock::Instant;
use crate::sighting::Wanted;

/// What is to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// The further announcement of an advert, known by its key and serial.
    Second(u128, u64),
    /// An advert whose announcement has to be heard of by now.
    Nudge(u128, u64),
    /// A farewell that those who wait should hear of by now.
    AnswerDue(u64),
    /// A farewell for a name that has to be probed by now.
    ProbeOver(u64),
    /// The engine's next start.
    Restart,
    /// The next sign of life.
    Pulse,
    /// Questions that the engine cannot ask.
    Ask,
    /// A browse that the engine closed or did not begin.
    Browse(Wanted),
    /// What the engine's cache has, for the browse of this number.
    Replay(Wanted, u64),
}

/// All that is armed.
#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, u64)>>,
    armed: std::collections::HashMap<u64, Timer>,
    ever: u64,
}

impl Timers {
    /// Arms one.
    pub(crate) fn arm(&mut self, at: Instant, timer: Timer) {
        self.ever += 1;
        self.heap.push(Reverse((at, self.ever)));
        self.armed.insert(self.ever, timer);
    }

    /// When the next one is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// One that is due.
    pub(crate) fn due(&mut self, now: Instant) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        let Reverse((_, id)) = self.heap.pop()?;
        self.armed.remove(&id)
    }
}
