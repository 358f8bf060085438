//! What a holder would call a stall, beside a gap between turns, which the engine sees itself: a turn that takes long, and
//! messages that wait long for their turn.

use crate::engine::Completion;
use crate::report::Stall;
use crate::ticker::STALL_MS;

/// A turn takes a bounded number of messages. While some are left behind, one mark is on its way through the queue: how
/// long it takes is how long a heartbeat takes that came with it.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    is_marked: bool,
    /// When the mark that this turn came upon was put.
    came: Option<u64>,
}

impl Stalls {
    /// The turn came upon the mark, put at that instant.
    pub(crate) fn came(&mut self, put_ms: u64) {
        self.came = Some(put_ms);
        self.is_marked = false;
    }

    /// How long the mark took, if that was long.
    pub(crate) fn waited(&mut self, now_ms: u64) -> Option<Completion> {
        self.came.take().and_then(|put_ms| stalled(Stall::Queue, put_ms, now_ms))
    }

    /// Messages are left behind; `true`: a mark is to be put behind them.
    pub(crate) fn mark(&mut self) -> bool {
        !core::mem::replace(&mut self.is_marked, true)
    }
}

/// A turn is over; it may have taken long.
pub(crate) fn turn_over(began_ms: u64, ended_ms: u64) -> Option<Completion> {
    stalled(Stall::Turn, began_ms, ended_ms)
}

fn stalled(stall: Stall, from_ms: u64, to_ms: u64) -> Option<Completion> {
    let ms = to_ms.saturating_sub(from_ms);
    (ms > STALL_MS).then_some(Completion::Stalled { stall, ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(completion: Option<Completion>) -> Option<u64> {
        completion.map(|completion| match completion {
            Completion::Stalled { ms, .. } => ms,
            other => panic!("{other:?}"),
        })
    }

    // A heartbeat behind 50,000 cancels waited for twelve turns of a third of a second each; no gap was longer.
    #[test]
    fn messages_that_wait_for_many_short_turns_are_a_stall() {
        let mut stalls = Stalls::default();
        assert!(stalls.mark());
        for turn in 1..12 {
            let now_ms = 300 * turn;
            assert_eq!(ms(turn_over(now_ms, now_ms + 300)), None);
            assert_eq!(ms(stalls.waited(now_ms)), None);
            assert!(!stalls.mark(), "one mark is on its way already");
        }
        stalls.came(0);
        assert_eq!(ms(stalls.waited(3_600)), Some(3_600));
        assert_eq!(ms(stalls.waited(3_600)), None, "counted once");
        assert!(stalls.mark());
        stalls.came(4_000);
        assert_eq!(ms(stalls.waited(4_000 + STALL_MS)), None);
    }

    #[test]
    fn a_long_turn_is_a_stall() {
        assert_eq!(ms(turn_over(5_000, 5_000 + STALL_MS)), None);
        assert_eq!(ms(turn_over(5_000, 8_800)), Some(3_800));
        assert_eq!(ms(turn_over(5_000, 4_000)), None, "a clock that went back");
    }
}
