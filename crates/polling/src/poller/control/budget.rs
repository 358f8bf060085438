//! How many targets may move between living pollers now. Pure.
//!
//! Each poller gives its part of the group's limit, by its part of the moves that it sees. Never more in any second than
//! the limit allows, for all of them together: a part that rises counts a second later, when what the others gave of it
//! before is over. Within a second moves are spread: what is given at once is noticed at once.

use core::time::Duration;
use std::collections::VecDeque;
use tenure_client::clock::BootInstant;

const SECOND: Duration = Duration::from_secs(1);
/// A rate below this is as good as none; nothing waits longer than its inverse.
const RATE_MIN: f64 = 0.02;
/// What may go in the first instant, in parts of a second.
const FIRST: f64 = 0.1;
/// How soon more may go.
const AGAIN: Duration = Duration::from_millis(100);

/// The moves of the last second, or of as long as one move takes.
#[derive(Default)]
pub(super) struct Budget {
    made: VecDeque<(BootInstant, usize)>,
    /// Rates since when, those of the last second and the one in force at its beginning.
    rates: VecDeque<(BootInstant, f64)>,
    /// What the time since the last look is worth; `None` while there was nothing to move.
    saved: Option<(BootInstant, f64)>,
}

impl Budget {
    /// How many moves are allowed now at this rate per second.
    pub(super) fn left(&mut self, now: BootInstant, rate: f64) -> usize {
        let rate = self.lowest(now, rate);
        let (window, most) = limits(rate);
        while self.made.front().is_some_and(|(at, _)| now.since(*at) >= window) {
            self.made.pop_front();
        }
        let saved = match self.saved {
            None => (rate * FIRST).max(1.0),
            Some((since, saved)) => (saved + rate * now.since(since).as_secs_f64()).min(rate.max(1.0)),
        };
        self.saved = Some((now, saved));
        let in_window = most.saturating_sub(self.made.iter().map(|(_, moves)| moves).sum());
        // What is a whole move but for rounding is one.
        in_window.min((saved + 1e-6) as usize)
    }

    /// There is nothing to move: what comes next begins anew.
    pub(super) fn rest(&mut self) {
        self.rates.clear();
        self.saved = None;
    }

    pub(super) fn spend(&mut self, now: BootInstant, moves: usize) {
        if moves > 0 {
            self.made.push_back((now, moves));
            self.saved = self.saved.map(|(since, saved)| (since, (saved - moves as f64).max(0.0)));
        }
    }

    /// When more may be allowed.
    pub(super) fn next(&self, now: BootInstant, rate: f64) -> BootInstant {
        match rate >= 1.0 {
            true => now.after(AGAIN.max(SECOND.div_f64(rate))),
            false => self.made.front().map_or(now, |(at, _)| at.after(limits(rate).0)),
        }
    }

    /// The lowest rate of the last second.
    fn lowest(&mut self, now: BootInstant, rate: f64) -> f64 {
        self.rates.push_back((now, rate));
        while self.rates.get(1).is_some_and(|(since, _)| now.since(*since) >= SECOND) {
            self.rates.pop_front();
        }
        self.rates.iter().map(|(_, rate)| *rate).fold(f64::INFINITY, f64::min)
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
    fn moves_are_spread_over_their_second() {
        let moved = moved(500.0, 10, 5_000);
        for begin in 0..4_900_u64 {
            let within = moved.iter().filter(|ms| (begin..begin + 100).contains(*ms)).count();
            assert!(within <= 100, "{within} in the tenth of a second from {begin}");
        }
        assert!(moved.len() >= 2_400, "{}", moved.len());
    }

    /// Each poller gave its part by the moves that it saw: when the others were done, the last one gave all of the limit
    /// in the second in which they had given most of it.
    #[test]
    fn pollers_together_stay_within_the_limit_when_some_are_done_early() {
        let mut left_to_give = [2_000_usize, 400, 300, 200, 100];
        let mut budgets: [Budget; 5] = core::array::from_fn(|_| Budget::default());
        let mut moved: Vec<u64> = Vec::new();
        for ms in (0..20_000).step_by(20) {
            let now = BootInstant::from_ms(ms);
            let moves: usize = left_to_give.iter().sum();
            for (budget, give) in budgets.iter_mut().zip(&mut left_to_give) {
                if *give == 0 {
                    budget.rest();
                    continue;
                }
                let allowed = budget.left(now, 500.0 * *give as f64 / moves as f64).min(*give);
                budget.spend(now, allowed);
                *give -= allowed;
                moved.extend(core::iter::repeat_n(ms, allowed));
            }
        }
        assert_eq!(left_to_give, [0; 5]);
        for begin in (0..19_000_u64).step_by(10) {
            let within = moved.iter().filter(|ms| (begin..begin + 1_000).contains(*ms)).count();
            assert!(within <= 500, "{within} in the second from {begin}");
        }
        assert!(moved.last().is_some_and(|last| *last < 12_000), "{:?}", moved.last());
    }

    #[test]
    fn a_small_part_of_the_rate_is_a_move_now_and_then() {
        assert_eq!(moved(0.25, 10, 10_000), [0, 4_000, 8_000]);
    }
}
