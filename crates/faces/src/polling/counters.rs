//! What is counted of polling since the start. Groups have names that anybody gives, so only the first ones seen are
//! counted under their own.

use super::why::LeftFor;
use std::collections::BTreeMap;

/// Groups that are counted under their own names.
const GROUPS_MAX: usize = 100;
/// What the others are counted under.
const OTHER: &str = "other";
/// Bucket `k` holds times below two to the power of `k` milliseconds.
const BUCKETS: usize = 40;

#[derive(Default)]
pub(super) struct Counters {
    moves: BTreeMap<String, Moves>,
    unowned: UnownedTimes,
}

/// Targets that left their pollers, by why; in the order of [`LeftFor::ALL`].
pub(super) type Moves = [u64; LeftFor::ALL.len()];

/// How long targets were nobody's before they were taken, in milliseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnownedTimes {
    /// Bucket `k` counts times below two to the power of `k`, and not below the power before.
    pub buckets: [u64; BUCKETS],
    /// Their sum.
    pub sum: u64,
}

impl Default for UnownedTimes {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], sum: 0 }
    }
}

impl UnownedTimes {
    fn record(&mut self, ms: u64) {
        let bucket = (u64::BITS - ms.leading_zeros()) as usize;
        self.buckets[bucket.min(BUCKETS - 1)] += 1;
        self.sum = self.sum.saturating_add(ms);
    }
}

impl Counters {
    /// What a group is counted under.
    pub(super) fn label<'a>(&self, group: &'a str) -> &'a str {
        if self.moves.contains_key(group) { group } else { OTHER }
    }

    /// A group was seen.
    pub(super) fn meet(&mut self, group: &str) {
        if !self.moves.contains_key(group) && self.moves.len() < GROUPS_MAX {
            self.moves.insert(group.to_owned(), Moves::default());
        }
    }

    pub(super) fn left(&mut self, group: &str, why: LeftFor) {
        let moves = match self.moves.get_mut(group) {
            Some(moves) => moves,
            None => self.moves.entry(OTHER.to_owned()).or_default(),
        };
        moves[why as usize] += 1;
    }

    /// A target was taken that had been nobody's for this long.
    pub(super) fn taken_after(&mut self, ms: u64) {
        self.unowned.record(ms);
    }

    pub(super) fn moves(&self) -> impl Iterator<Item = (&str, &Moves)> {
        self.moves.iter().map(|(group, moves)| (group.as_str(), moves))
    }

    pub(super) fn unowned(&self) -> &UnownedTimes {
        &self.unowned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_groups_are_counted_under_their_names() {
        let mut counters = Counters::default();
        for number in 0..GROUPS_MAX + 5 {
            let group = format!("g{number:03}");
            counters.meet(&group);
            counters.left(&group, LeftFor::Rebalanced);
        }
        assert_eq!((counters.label("g000"), counters.label("g104")), ("g000", "other"));
        assert_eq!(counters.moves().count(), GROUPS_MAX + 1);
        let other = counters.moves().find(|(group, _)| *group == "other").map(|(_, moves)| *moves);
        assert_eq!(other, Some([0, 5, 0, 0, 0, 0]));
    }

    #[test]
    fn times_are_counted_by_powers_of_two() {
        let mut times = UnownedTimes::default();
        for ms in [0, 1, 3, 900, u64::MAX] {
            times.record(ms);
        }
        assert_eq!((times.buckets[0], times.buckets[1], times.buckets[2], times.buckets[10]), (1, 1, 1, 1));
        assert_eq!(times.buckets[BUCKETS - 1], 1);
    }
}
