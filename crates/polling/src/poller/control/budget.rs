//! How many targets may move between living pollers now: never more in any second than the rate allows. Pure.

use core::time::Duration;
use std::collections::VecDeque;
use tenure_client::clock::BootInstant;

const SECOND: Duration = Duration::from_secs(1);
/// A rate below this is as good as none; nothing waits longer than its inverse.
const RATE_MIN: f64 = 0.02;

/// The moves of the last second, or of as long as one move takes.
#[derive(Default)]
pub(super) struct Budget {
    made: VecDeque<(BootInstant, usize)>,
}

impl Budget {
    /// How many moves are allowed now at this rate per second.
    pub(super) fn left(&mut self, now: BootInstant, rate: f64) -> usize {
        let (window, most) = limits(rate);
        while self.made.front().is_some_and(|(at, _)| now.since(*at) >= window) {
            self.made.pop_front();
        }
        most.saturating_sub(self.made.iter().map(|(_, moves)| moves).sum())
    }

    pub(super) fn spend(&mut self, now: BootInstant, moves: usize) {
        if moves > 0 {
            self.made.push_back((now, moves));
        }
    }

    /// When more may be allowed.
    pub(super) fn next(&self, now: BootInstant, rate: f64) -> BootInstant {
        self.made.front().map_or(now, |(at, _)| at.after(limits(rate).0))
    }
}

/// In how long how many may move.
fn limits(rate: f64) -> (Duration, usize) {
    if rate >= 1.0 { (SECOND, rate as usize) } else { (SECOND.div_f64(rate.max(RATE_MIN)), 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(rate: f64, every_ms: usize, until_ms: u64) -> Vec<u64> {
        let mut budget = Budget::default();
        let mut moved = Vec::new();
        for ms in (0..until_ms).step_by(every_ms) {
            let now = BootInstant::from_ms(ms);
            let allowed = budget.left(now, rate);
            budget.spend(now, allowed);
            moved.extend(std::iter::repeat_n(ms, allowed));
        }
        moved
    }

    #[test]
    fn no_second_has_more_moves_than_the_rate_and_none_is_lost_to_slow_rounds() {
        for every_ms in [7, 130, 900] {
            let moved = moved(50.0, every_ms, 10_000);
            for begin in 0..9_000_u64 {
                let within = moved.iter().filter(|ms| (begin..begin + 1_000).contains(*ms)).count();
                assert!(within <= 50, "{within} in the second from {begin}");
            }
            assert!(moved.len() >= 250, "{} with a round every {every_ms} ms", moved.len());
        }
    }

    #[test]
    fn a_small_part_of_the_rate_is_a_move_now_and_then() {
        assert_eq!(moved(0.25, 10, 10_000), [0, 4_000, 8_000]);
    }
}
