//! How many targets this poller may move to other living pollers now. Pure.
//!
//! The limit of the group is divided into quotas, in whole moves per second, by what each poller has to give; every poller
//! computes the same ones. A poller with a quota of 0 waits for its turn. All pollers together never move more targets in
//! any second than the limit allows: a quota that rises counts a second later, when what the others gave of it before is
//! over. Within a second moves are spread: what is given at once is noticed at once.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use tenure_client::clock::BootInstant;

const SECOND: Duration = Duration::from_secs(1);
/// What may go in the first instant, in parts of a second.
const FIRST: f64 = 0.1;
/// How soon more may go.
const AGAIN: Duration = Duration::from_millis(100);

/// Divides the limit among the pollers that give, by how many moves each has to make; what is left goes to the first by
/// name. Quotas are whole moves: when each poller made one move for its part of a move, they exceeded the limit together.
pub(super) fn quotas(givers: &BTreeMap<String, usize>, limit: usize) -> BTreeMap<&str, usize> {
    let moves: usize = givers.values().sum();
    let part = |own: usize| (limit as u128 * own as u128 / moves.max(1) as u128) as usize;
    let mut left = limit - givers.values().map(|own| part(*own)).sum::<usize>();
    let mut quotas = BTreeMap::new();
    for (name, own) in givers {
        let extra = usize::from(left > 0);
        left -= extra;
        quotas.insert(name.as_str(), part(*own) + extra);
    }
    quotas
}

/// This poller's quota, and the earlier ones that still count.
#[derive(Default)]
pub(super) struct Quota {
    /// Each quota since when: those of the last second, and the one in force at its beginning.
    noted: VecDeque<(BootInstant, usize)>,
}

impl Quota {
    /// Takes in the present quota; `None` if no poller has anything to give. Returns the lowest of the last second.
    pub(super) fn note(&mut self, now: BootInstant, quota: Option<usize>) -> usize {
        let quota = quota.unwrap_or(usize::MAX);
        if self.noted.back().is_none_or(|(_, last)| *last != quota) {
            self.noted.push_back((now, quota));
        }
        while self.noted.get(1).is_some_and(|(since, _)| now.since(*since) >= SECOND) {
            self.noted.pop_front();
        }
        self.noted.iter().map(|(_, quota)| *quota).min().unwrap_or(quota)
    }

    /// When the turn comes of a poller that waits; `None` if that depends on the others.
    pub(super) fn turn(&self) -> Option<BootInstant> {
        let since = self.noted.iter().rev().take_while(|(_, quota)| *quota > 0).last();
        since.map(|(since, _)| since.after(SECOND))
    }
}

/// The moves of the last second.
#[derive(Default)]
pub(super) struct Budget {
    made: VecDeque<(BootInstant, usize)>,
    /// What the time since the last look is worth; `None` while there was nothing to move, or no turn to move it.
    saved: Option<(BootInstant, f64)>,
}

impl Budget {
    /// How many moves are allowed now with this quota.
    pub(super) fn left(&mut self, now: BootInstant, quota: usize) -> usize {
        while self.made.front().is_some_and(|(at, _)| now.since(*at) >= SECOND) {
            self.made.pop_front();
        }
        if quota == 0 {
            self.saved = None;
            return 0;
        }
        let rate = quota as f64;
        let saved = match self.saved {
            None => (rate * FIRST).max(1.0),
            Some((since, saved)) => (saved + rate * now.since(since).as_secs_f64()).min(rate),
        };
        self.saved = Some((now, saved));
        // What is a whole move but for rounding is one.
        self.in_second(quota).min((saved + 1e-6) as usize)
    }

    /// There is nothing to move: what comes next begins anew.
    pub(super) fn rest(&mut self) {
        self.saved = None;
    }

    pub(super) fn spend(&mut self, now: BootInstant, moves: usize) {
        if moves > 0 {
            self.made.push_back((now, moves));
            self.saved = self.saved.map(|(since, saved)| (since, (saved - moves as f64).max(0.0)));
        }
    }

    /// When more may be allowed with this quota, where it is not 0.
    pub(super) fn next(&self, now: BootInstant, quota: usize) -> BootInstant {
        let (since, saved) = self.saved.unwrap_or((now, 0.0));
        let whole = SECOND.mul_f64((1.0 - saved).clamp(0.0, 1.0) / quota.max(1) as f64);
        let is_free = match self.made.front() {
            Some((at, _)) if self.in_second(quota) == 0 => at.after(SECOND),
            _ => now,
        };
        now.after(AGAIN).max(since.after(whole)).max(is_free)
    }

    fn in_second(&self, quota: usize) -> usize {
        quota.saturating_sub(self.made.iter().map(|(_, moves)| moves).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(quota: usize, every_ms: usize, until_ms: u64) -> Vec<u64> {
        let mut budget = Budget::default();
        let mut moved = Vec::new();
        for ms in (0..until_ms).step_by(every_ms) {
            let now = BootInstant::from_ms(ms);
            let allowed = budget.left(now, quota);
            budget.spend(now, allowed);
            moved.extend(std::iter::repeat_n(ms, allowed));
        }
        moved
    }

    /// When each target moved, until none is left to move: pollers that look at the same group at the same time.
    fn moved_together(limit: usize, to_give: &[usize]) -> Vec<u64> {
        let mut givers: BTreeMap<String, usize> =
            to_give.iter().enumerate().map(|(number, moves)| (format!("p{number}"), *moves)).collect();
        let names: Vec<String> = givers.keys().cloned().collect();
        let mut pollers: Vec<(Quota, Budget)> = names.iter().map(|_| Default::default()).collect();
        let mut moved: Vec<u64> = Vec::new();
        for ms in (0..1_000_000).step_by(20) {
            let now = BootInstant::from_ms(ms);
            let seen = givers.clone();
            let quotas = quotas(&seen, limit);
            for (name, (quota, budget)) in names.iter().zip(&mut pollers) {
                let own = quotas.get(name.as_str()).copied().unwrap_or(0);
                let own = quota.note(now, Some(own).filter(|_| !seen.is_empty()));
                let Some(give) = givers.get_mut(name) else {
                    budget.rest();
                    continue;
                };
                let allowed = budget.left(now, own).min(*give);
                budget.spend(now, allowed);
                *give -= allowed;
                moved.extend(core::iter::repeat_n(ms, allowed));
            }
            givers.retain(|_, give| *give > 0);
            if givers.is_empty() {
                return moved;
            }
        }
        panic!("{givers:?} were never moved");
    }

    fn most_in_a_second(moved: &[u64]) -> usize {
        let from = |begin: u64| moved.iter().filter(|ms| (begin..begin + 1_000).contains(*ms)).count();
        moved.iter().map(|begin| from(*begin)).max().unwrap_or(0)
    }

    #[test]
    fn no_second_has_more_moves_than_the_quota_and_none_is_lost_to_slow_rounds() {
        for every_ms in [7, 130, 900] {
            let moved = moved(50, every_ms, 10_000);
            assert!(most_in_a_second(&moved) <= 50, "with a round every {every_ms} ms");
            assert!(moved.len() >= 250, "{} with a round every {every_ms} ms", moved.len());
        }
    }

    #[test]
    fn moves_are_spread_over_their_second() {
        let moved = moved(500, 10, 5_000);
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
        let moved = moved_together(500, &[2_000, 400, 300, 200, 100]);
        assert_eq!(moved.len(), 3_000);
        assert!(most_in_a_second(&moved) <= 500, "{} in a second", most_in_a_second(&moved));
        assert!(moved.last().is_some_and(|last| *last < 12_000), "{:?}", moved.last());
    }

    /// Each poller whose part of the limit was below one move in a second made its first move at once: five for a limit
    /// of 1.
    #[test]
    fn more_pollers_than_the_limit_take_turns() {
        for limit in [1, 2, 3] {
            for to_give in [&[4, 7, 10, 13, 16][..], &[5; 5], &[1; 7], &[40, 1, 2, 1, 1, 1, 9]] {
                let moved = moved_together(limit, to_give);
                let most = most_in_a_second(&moved);
                assert!(most <= limit, "{most} moves in a second with a limit of {limit} for {to_give:?}");
                let moves: usize = to_give.iter().sum();
                assert_eq!(moved.len(), moves);
                // One second for each change of turn.
                let latest_ms = 1_000 * (moves.div_ceil(limit) + 2 * to_give.len()) as u64;
                let last = moved.last().copied().unwrap_or(0);
                assert!(last <= latest_ms, "{last} ms with a limit of {limit} for {to_give:?}");
            }
        }
    }

    #[test]
    fn quotas_add_up_to_the_limit_and_the_first_by_name_get_what_is_left() {
        let of = |moves: &[(&str, usize)], limit| {
            let givers = moves.iter().map(|(name, moves)| ((*name).to_owned(), *moves)).collect();
            quotas(&givers, limit).into_values().collect::<Vec<_>>()
        };
        assert_eq!(of(&[("a", 10), ("b", 10), ("c", 10)], 1), [1, 0, 0]);
        assert_eq!(of(&[("a", 1), ("b", 10), ("c", 10)], 2), [1, 1, 0]);
        assert_eq!(of(&[("a", 100), ("b", 50), ("c", 50)], 333), [167, 83, 83]);
        assert_eq!(of(&[("a", 1), ("b", 1_000)], 33), [1, 32]);
        assert_eq!(of(&[("a", usize::MAX / 2)], usize::MAX), [usize::MAX]);
        assert!(of(&[], 33).is_empty());
    }

    #[test]
    fn a_poller_that_waited_begins_a_second_after_its_turn_came_and_one_after_a_pause_at_once() {
        let mut quota = Quota::default();
        let at = BootInstant::from_ms;
        assert_eq!(quota.note(at(0), Some(5)), 5, "no poller moved anything before");
        assert_eq!((quota.note(at(500), Some(0)), quota.turn()), (0, None));
        assert_eq!((quota.note(at(3_000), Some(2)), quota.turn()), (0, Some(at(4_000))));
        assert_eq!((quota.note(at(3_500), Some(3)), quota.turn()), (0, Some(at(4_000))));
        assert_eq!(quota.note(at(4_000), Some(3)), 2);
        assert_eq!(quota.note(at(4_500), Some(3)), 3);
        assert_eq!(quota.note(at(5_000), Some(0)), 0);
        // The others are done: what they moved in the last second counts still.
        quota.note(at(6_000), None);
        assert_eq!((quota.note(at(6_500), Some(4)), quota.turn()), (0, Some(at(7_000))));
        assert_eq!(quota.note(at(7_000), Some(4)), 4);
    }

    #[test]
    fn the_next_look_is_when_more_may_move() {
        let mut budget = Budget::default();
        let at = BootInstant::from_ms;
        for (begin, quota, next) in [(0, 1, 1_000), (5_000, 4, 5_250), (10_000, 500, 10_100)] {
            let allowed = budget.left(at(begin), quota);
            budget.spend(at(begin), allowed);
            assert_eq!(budget.next(at(begin), quota), at(next), "with {quota}");
            assert!(budget.left(at(next), quota) > 0, "with {quota}");
            budget.rest();
        }
    }
}
