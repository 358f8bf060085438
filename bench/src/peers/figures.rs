//! Every number of a run, by peer, by what was done, and by round. Ratios are taken within a round, so that what slowed
//! everybody down for a while is in both of its parts. Knows nothing of how a number came about.

use crate::gauge::median;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What a number is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Quantity {
    /// Per second.
    Rate,
    /// Seconds.
    P50,
    /// Seconds.
    P99,
    /// Seconds.
    Longest,
    /// Seconds of the server's processors for each operation.
    ProcessorEach,
    /// Bytes that the server gave to the disk for each operation. Whether it is zero is all that can be said for sure:
    /// the system counts the whole of what it keeps together in memory, a mebibyte at times, for a few bytes of it.
    WrittenEach,
    /// Answers that were refusals, a part of all.
    Refused,
    /// Bytes for each.
    BytesEach,
    /// Part of one processor.
    Processor,
    /// Seconds.
    Lag,
    /// Part of all grants that the luckiest had.
    Luckiest,
    /// Part of all grants that the unluckiest had.
    Unluckiest,
    /// Of how many.
    Count,
    /// Seconds, when nothing happened.
    CalmP99,
    /// Revisions that the store under it went through, in every `writer_ttl`.
    Revisions,
    /// Times that the server let everybody wait.
    Stalls,
}

impl Quantity {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Rate => "rate_per_second",
            Self::P50 => "p50_seconds",
            Self::P99 => "p99_seconds",
            Self::Longest => "longest_seconds",
            Self::ProcessorEach => "processor_seconds_each",
            Self::WrittenEach => "written_bytes_each",
            Self::Refused => "refused_part",
            Self::BytesEach => "bytes_each",
            Self::Processor => "processor_part",
            Self::Lag => "lag_seconds",
            Self::Luckiest => "luckiest_part",
            Self::Unluckiest => "unluckiest_part",
            Self::Count => "count",
            Self::CalmP99 => "calm_p99_seconds",
            Self::Revisions => "revisions_per_writer_ttl",
            Self::Stalls => "stalls",
        }
    }
}

/// One number, whatever the round.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Figure {
    pub(crate) peer: String,
    /// "acquire 8×32", "storm 1,000,000".
    pub(crate) what: String,
    pub(crate) quantity: Quantity,
}

/// Lowest, middle and highest of several rounds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

/// A number for each round that has one.
pub(crate) type Rounds = BTreeMap<usize, f64>;

#[derive(Default)]
pub(crate) struct Figures {
    by_round: BTreeMap<Figure, Rounds>,
    /// In the order in which they were first measured.
    peers: Vec<String>,
}

impl Figure {
    pub(crate) fn new(peer: &str, what: &str, quantity: Quantity) -> Self {
        Self { peer: peer.to_owned(), what: what.to_owned(), quantity }
    }
}

impl Spread {
    pub(crate) fn of(values: Vec<f64>) -> Option<Self> {
        let min = values.iter().copied().min_by(f64::total_cmp)?;
        let max = values.iter().copied().max_by(f64::total_cmp)?;
        Some(Self { min, median: median(values), max })
    }
}

impl Figures {
    pub(crate) fn add(&mut self, round: usize, figure: Figure, value: f64) {
        if !self.peers.contains(&figure.peer) {
            self.peers.push(figure.peer.clone());
        }
        self.by_round.entry(figure).or_default().insert(round, value);
    }

    /// Something that was measured before and after something else counts as the middle of both.
    pub(crate) fn add_around(&mut self, round: usize, figure: Figure, value: f64) {
        let before = self.by_round.get(&figure).and_then(|rounds| rounds.get(&round)).copied();
        self.add(round, figure, before.map_or(value, |before| f64::midpoint(before, value)));
    }

    pub(crate) fn spread(&self, figure: &Figure) -> Option<Spread> {
        Spread::of(self.by_round.get(figure)?.values().copied().collect())
    }

    pub(crate) fn median(&self, figure: &Figure) -> Option<f64> {
        self.spread(figure).map(|spread| spread.median)
    }

    /// What was measured in each round.
    pub(crate) fn rounds(&self, figure: &Figure) -> Rounds {
        self.by_round.get(figure).cloned().unwrap_or_default()
    }

    /// The highest in each round, of those that there are.
    pub(crate) fn highest(&self, figures: &[Figure]) -> Rounds {
        let mut highest = Rounds::new();
        for rounds in figures.iter().map(|figure| self.rounds(figure)) {
            for (round, value) in rounds {
                let known = highest.entry(round).or_insert(value);
                *known = known.max(value);
            }
        }
        highest
    }

    /// The lowest in each round, each times its factor, in those rounds that have all of them.
    pub(crate) fn lowest(&self, figures: &[(Figure, f64)]) -> Rounds {
        let all: Vec<Rounds> = figures
            .iter()
            .map(|(figure, factor)| {
                self.rounds(figure).into_iter().map(|(round, value)| (round, value * factor)).collect()
            })
            .collect();
        let Some(first) = all.first() else { return Rounds::new() };
        let lowest = |round: &usize| {
            let values = all.iter().map(|rounds| rounds.get(round).copied()).collect::<Option<Vec<_>>>()?;
            values.into_iter().min_by(f64::total_cmp)
        };
        first.keys().filter_map(|round| Some((*round, lowest(round)?))).collect()
    }

    /// One by the other, in every round that has both. What was measured in one round only stands for all.
    pub(crate) fn ratio(&self, figure: &Figure, to: &Rounds) -> Option<Spread> {
        let upper = self.by_round.get(figure)?;
        let at = |rounds: &Rounds, round: usize| match rounds.get(&round) {
            None if rounds.len() == 1 => rounds.values().next().copied(),
            value => value.copied(),
        };
        let known: BTreeSet<usize> = upper.keys().chain(to.keys()).copied().collect();
        let ratios = known
            .into_iter()
            .filter_map(|round| Some((at(upper, round)?, at(to, round)?)))
            .filter(|(_, lower)| *lower > 0.0)
            .map(|(upper, lower)| upper / lower);
        Spread::of(ratios.collect())
    }

    /// Peers that have a number for this, in the order in which they were first measured.
    pub(crate) fn peers_with(&self, what: &str, quantity: Quantity) -> Vec<&str> {
        let known = |peer: &&String| self.by_round.contains_key(&Figure::new(peer, what, quantity));
        self.peers.iter().filter(known).map(String::as_str).collect()
    }

    /// Everything that was done.
    pub(crate) fn whats(&self) -> BTreeSet<&str> {
        self.by_round.keys().map(|figure| figure.what.as_str()).collect()
    }

    /// A row for each peer and each thing it did, with the medians.
    pub(crate) fn to_json(&self) -> Value {
        let mut rows: BTreeMap<(&str, &str), Value> = BTreeMap::new();
        for figure in self.by_round.keys() {
            let named = || json!({"what": figure.what, "peer": figure.peer});
            let row = rows.entry((&figure.what, &figure.peer)).or_insert_with(named);
            row[figure.quantity.as_str()] = json!(self.median(figure));
        }
        rows.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        let mut figures = Figures::default();
        for (round, (ours, theirs)) in [(300.0, 100.0), (200.0, 100.0), (80.0, 20.0)].into_iter().enumerate()
        {
            figures.add(round, Figure::new("Tenure", "acquire 8×32", Quantity::Rate), ours);
            figures.add(round, Figure::new("Redis", "acquire 8×32", Quantity::Rate), theirs);
        }
        figures.add(0, Figure::new("etcd", "acquire 8×32", Quantity::Rate), 10.0);
        figures
    }

    #[test]
    fn a_ratio_is_taken_within_each_round() {
        let figures = figures();
        let of = |peer: &str| Figure::new(peer, "acquire 8×32", Quantity::Rate);
        let ratio = figures.ratio(&of("Tenure"), &figures.rounds(&of("Redis"))).unwrap();
        assert_eq!(ratio, Spread { min: 2.0, median: 3.0, max: 4.0 });
        assert_eq!(figures.median(&of("Tenure")), Some(200.0));
    }

    #[test]
    fn what_was_measured_once_stands_for_all_rounds() {
        let figures = figures();
        let of = |peer: &str| Figure::new(peer, "acquire 8×32", Quantity::Rate);
        let ratio = figures.ratio(&of("Tenure"), &figures.rounds(&of("etcd"))).unwrap();
        assert_eq!(ratio, Spread { min: 8.0, median: 20.0, max: 30.0 });
        assert_eq!(figures.ratio(&of("Tenure"), &figures.rounds(&of("ZooKeeper"))), None);
    }

    #[test]
    fn what_was_measured_before_and_after_is_the_middle_of_both() {
        let (mut figures, disk) = (Figures::default(), Figure::new("disk", "append 512", Quantity::P50));
        figures.add_around(0, disk.clone(), 1.0);
        assert_eq!(figures.median(&disk), Some(1.0));
        figures.add_around(0, disk.clone(), 2.0);
        assert_eq!(figures.median(&disk), Some(1.5));
    }

    #[test]
    fn rows_are_kept_with_their_medians() {
        let kept = figures().to_json();
        let row = json!({"what": "acquire 8×32", "peer": "Tenure", "rate_per_second": 200.0});
        assert!(kept.as_array().unwrap().contains(&row), "{kept}");
    }
}
