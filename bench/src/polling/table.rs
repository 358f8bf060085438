//! Rows, the times they are made of, and the table.

use crate::history::{self, Figures};
use serde_json::Value;
use std::fmt::Write as _;
use std::time::Duration;
use tenure_client::clock::BootInstant;

/// Times in seconds; below zero is before.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    seconds: Vec<f64>,
    /// What did not come about while it was waited for.
    pub(super) never: usize,
}

/// One line of the table.
pub(super) struct Row {
    /// Number of the promise.
    pub(super) promise: &'static str,
    pub(super) what: String,
    pub(super) store: String,
    pub(super) targets: String,
    pub(super) rounds: usize,
    pub(super) samples: usize,
    pub(super) measured: String,
    pub(super) goal: String,
    pub(super) is_reached: bool,
    /// What was measured as numbers, for comparing runs.
    pub(super) figures: Figures,
}

impl Row {
    /// As it stands in the table.
    pub(super) fn line(&self) -> String {
        let Self { promise, what, store, targets, rounds, samples, measured, goal, is_reached, .. } = self;
        let mark = if *is_reached { "PASS" } else { "**miss**" };
        format!(
            "| {promise} | {what} | {store} | {targets} | {rounds} | {samples} | {measured} | {goal} | {mark} |"
        )
    }

    /// As it is kept for later runs.
    pub(super) fn kept(&self) -> Value {
        let Self { promise, what, store, targets, .. } = self;
        let name = format!("{promise} {what}; {store}, {targets} targets");
        history::row(&name, &self.figures, &self.measured, self.is_reached)
    }
}

impl Times {
    pub(super) fn add(&mut self, from: BootInstant, until: Option<BootInstant>) {
        match until {
            Some(until) => self.seconds.push(seconds_between(from, until)),
            None => self.never += 1,
        }
    }

    pub(super) fn add_all(&mut self, from: BootInstant, all: &[Option<BootInstant>]) {
        all.iter().for_each(|until| self.add(from, *until));
    }

    pub(super) fn len(&self) -> usize {
        self.seconds.len() + self.never
    }

    /// The value that this part of the times does not exceed.
    pub(super) fn part(&self, part: f64) -> f64 {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        let place = (sorted.len() as f64 * part).ceil() as usize;
        sorted.get(place.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }

    pub(super) fn longest(&self) -> f64 {
        self.part(1.0)
    }

    /// Whether there are any, none is longer, and none never came.
    pub(super) fn are_within(&self, limit: f64) -> bool {
        self.never == 0 && self.longest() <= limit
    }

    /// The same as numbers.
    pub(super) fn figures(&self) -> Figures {
        let [half, most, all] = [0.5, 0.99, 1.0].map(|part| self.part(part));
        vec![("p50_seconds", half), ("p99_seconds", most), ("max_seconds", all), ("never", self.never as f64)]
    }

    /// Half of them, nearly all, all.
    pub(super) fn shown(&self) -> String {
        let [half, most, all] = [0.5, 0.99, 1.0].map(|part| seconds(self.part(part)));
        let never = if self.never > 0 { format!(", {} never", self.never) } else { String::new() };
        format!("p50 {half}, p99 {most}, max {all}{never}")
    }
}

/// Signed.
pub(super) fn seconds_between(from: BootInstant, until: BootInstant) -> f64 {
    if until >= from { until.since(from).as_secs_f64() } else { -from.since(until).as_secs_f64() }
}

pub(super) fn seconds(seconds: f64) -> String {
    match seconds {
        s if s.is_nan() => "–".to_owned(),
        s if s.abs() < 0.1 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

pub(super) fn shown(duration: Duration) -> String {
    let ms = duration.as_millis();
    if ms.is_multiple_of(1_000) { format!("{} s", ms / 1_000) } else { format!("{} s", ms as f64 / 1e3) }
}

/// The most instants that lie within any one second; they are in order.
pub(super) fn most_in_a_second(instants: &[BootInstant]) -> usize {
    let second = Duration::from_secs(1);
    let mut first = 0;
    let mut most = 0;
    for (place, instant) in instants.iter().enumerate() {
        while instant.since(instants[first]) >= second {
            first += 1;
        }
        most = most.max(place - first + 1);
    }
    most
}

/// The rows as Markdown.
pub(super) fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| | what | store | targets | rounds | samples | measured | goal | |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let _ = writeln!(text, "{}", row.line());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_few_times_are_among_them() {
        let mut times = Times::default();
        let zero = BootInstant::from_ms(1_000);
        for ms in [1_030, 1_010, 1_020, 990] {
            times.add(zero, Some(BootInstant::from_ms(ms)));
        }
        assert_eq!(times.shown(), "p50 10.0 ms, p99 30.0 ms, max 30.0 ms");
        assert!(times.are_within(0.030) && !times.are_within(0.029));
        times.add(zero, None);
        assert!(!times.are_within(9.0));
        assert!(!Times::default().are_within(9.0));
    }

    #[test]
    fn the_busiest_second_may_begin_anywhere() {
        let instants = [0, 600, 900, 1_500, 1_599, 1_600, 5_000].map(BootInstant::from_ms);
        assert_eq!(most_in_a_second(&instants), 4);
        assert_eq!(most_in_a_second(&[]), 0);
    }
}
