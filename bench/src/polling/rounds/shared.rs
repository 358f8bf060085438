//! A sixth poller joins, and one of the six is told to stop: how much moves, how fast, and whether a target has to wait.

use super::{row, settle};
use crate::gauge::Random;
use crate::polling::group::Group;
use crate::polling::table::{Row, Times, most_in_a_second, shown};
use crate::process::wait_until;
use anyhow::Result;
use std::time::Duration;
use tenure_client::clock::BootInstant;

/// How long a stop is waited for before a target counts as never taken over.
const PATIENCE: Duration = Duration::from_secs(30);
/// What is allowed above the optimum.
const SLACK: f64 = 1.1;
/// The part of the limit on moves that pollers aim at. Most of what moves for a newcomer moves when it has lived for a ttl.
const PACE: f64 = 2.0 / 3.0;
/// Beyond the time that the limit on moves takes: noticing, waiting for others who join, and the last first poll.
const NOTICE: Duration = Duration::from_secs(2);

/// Moves of one kind of change, over all rounds.
#[derive(Default)]
struct Moves {
    /// Moves and the least there could be, for each round.
    counts: Vec<(usize, usize)>,
    busiest: usize,
    until_last: Times,
    is_settled: bool,
}

pub(crate) async fn measure(group: &mut Group<'_>, rounds: usize, random: &mut Random) -> Result<Vec<Row>> {
    let mut joins = Moves { is_settled: true, ..Moves::default() };
    let mut leaves = Moves { is_settled: true, ..Moves::default() };
    let (mut taken, mut gaps) = (Times::default(), Times::default());
    for _ in 0..rounds {
        settle(group, "a join").await?;
        let began = BootInstant::now();
        group.start(1).await?;
        let optimum = group.setting().targets / group.members().len();
        joins.is_settled &= group.settle().await?;
        joins.note(group, began, optimum)?;

        let (mut leaver, at) = group.stop(random.below(group.members().len()))?;
        let number = leaver.number;
        let held = group.witness().ledger()?.held_by(number);
        wait_until(PATIENCE, || Ok(group.witness().ledger()?.held_by(number).is_empty())).await?;
        leaver.end().await?;
        leaves.is_settled &= group.settle().await?;
        leaves.note(group, at, held.len())?;
        let ledger = group.witness().ledger()?;
        let first = ledger.first_begins(&held, at, |poller| poller != number);
        taken.add_all(at, &first);
        for (last, first) in ledger.last_ends(&held, number).into_iter().zip(first) {
            gaps.add(last, first);
        }
    }
    let mut rows = stops(group, rounds, &taken, &gaps);
    rows.extend(joins.rows(group, "a sixth joins", Some(group.setting().moves_max())));
    rows.extend(leaves.rows(group, "one of six stops", None));
    Ok(rows)
}

fn stops(group: &Group<'_>, rounds: usize, taken: &Times, gaps: &Times) -> Vec<Row> {
    let interval = group.setting().every.mul_f64(1.1);
    vec![
        Row {
            rounds,
            samples: taken.len(),
            measured: taken.shown(),
            goal: "≤ 1 s".to_owned(),
            is_reached: taken.are_within(1.0),
            figures: taken.figures(),
            ..row(group, "Q2", "SIGTERM to one of six: until each of its targets is polled by another")
        },
        Row {
            rounds,
            samples: gaps.len(),
            measured: gaps.shown(),
            goal: format!("≤ one interval, scatter included = {}", shown(interval)),
            is_reached: gaps.are_within(interval.as_secs_f64()),
            figures: gaps.figures(),
            ..row(
                group,
                "Q2",
                "the same: from the end of the last poll by the old one to the first by the new one",
            )
        },
    ]
}

impl Moves {
    fn note(&mut self, group: &Group<'_>, since: BootInstant, optimum: usize) -> Result<()> {
        let moves = group.witness().ledger()?.moves_since(since);
        self.busiest = self.busiest.max(most_in_a_second(&moves));
        self.until_last.add(since, moves.last().copied());
        self.counts.push((moves.len(), optimum));
        Ok(())
    }

    fn rows(&self, group: &Group<'_>, what: &str, moves_max: Option<usize>) -> Vec<Row> {
        let rounds = self.counts.len();
        let (moved, optimum) =
            self.counts.iter().fold((0, 0), |(moved, best), round| (moved + round.0, best + round.1));
        let worst = self.counts.iter().map(|(moved, best)| *moved as f64 / *best as f64).fold(0.0, f64::max);
        let is_few = self.counts.iter().all(|(moved, best)| *moved as f64 <= (*best as f64 * SLACK).ceil());
        let mut rows = vec![Row {
            rounds,
            samples: moved,
            measured: format!("{moved} moves for {optimum}; {worst:.2} × in the worst round"),
            goal: "≤ optimum + 10 %".to_owned(),
            is_reached: is_few,
            figures: vec![("moves", moved as f64), ("worst_ratio", worst)],
            ..row(group, "Q4", &format!("{what}: moves beside the least possible"))
        }];
        let least = self.counts.iter().map(|(_, best)| *best).max().unwrap_or(0);
        let limit = NOTICE
            + moves_max.map_or(Duration::ZERO, |per_second| {
                group.setting().ttl + Duration::from_secs_f64(least as f64 / (per_second as f64 * PACE))
            });
        let unsettled = if self.is_settled { "" } else { ", and was not shared evenly in the end" };
        rows.push(Row {
            rounds,
            samples: self.until_last.len(),
            measured: format!("{}{unsettled}", self.until_last.shown()),
            goal: match moves_max {
                Some(_) => format!("≤ ttl + moves ÷ ⅔ max_moves + 2 s = {}", shown(rounded(limit))),
                None => format!("≤ {}", shown(limit)),
            },
            is_reached: self.is_settled && self.until_last.are_within(limit.as_secs_f64()),
            figures: self.until_last.figures(),
            ..row(group, "Q4", &format!("{what}: until the last target has moved"))
        });
        if let Some(moves_max) = moves_max {
            rows.push(Row {
                rounds,
                samples: moved,
                measured: format!("{} moves", self.busiest),
                goal: format!("≤ max_moves = {moves_max}"),
                is_reached: self.busiest <= moves_max,
                figures: vec![("moves", self.busiest as f64)],
                ..row(group, "Q4", &format!("{what}: the busiest second"))
            });
        }
        rows
    }
}

fn rounded(duration: Duration) -> Duration {
    Duration::from_millis((duration.as_secs_f64() * 10.0).round() as u64 * 100)
}
