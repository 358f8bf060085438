//! Polling in numbers: targets by state, those that left their pollers, and how long others were nobody's.

use super::page::{Kind, Page, Unit};
use std::ops::RangeInclusive;
use tenure_faces::{LeftFor, PollingNumbers};

/// Powers of two milliseconds that are shown as bounds.
const UNOWNED_MS: RangeInclusive<u32> = 0..=22;

pub(super) fn write(page: &mut Page, numbers: &PollingNumbers) {
    page.family(
        "poll_targets",
        Kind::Gauge,
        "Polling targets, by group and state; groups beyond the first hundred share one label.",
    );
    for (group, counts) in &numbers.targets {
        for (state, count) in [
            ("owned", counts.owned),
            ("uncertain", counts.uncertain),
            ("draining", counts.draining),
            ("unowned", counts.unowned),
            ("abandoned", counts.abandoned),
        ] {
            page.sample(&[("group", group), ("state", state)], count);
        }
    }
    page.family(
        "poll_failing_targets",
        Kind::Gauge,
        "Targets whose polls fail, by group, as their pollers report.",
    );
    for (group, counts) in &numbers.targets {
        page.sample(&[("group", group)], counts.failing);
    }
    page.family("poll_moves_total", Kind::Counter, "Targets that left their poller, by group and reason.");
    for (group, moves) in &numbers.moves {
        for (left_for, count) in LeftFor::ALL.iter().zip(moves) {
            page.sample(&[("group", group), ("reason", left_for.as_str())], count);
        }
    }
    page.family(
        "poll_unowned_seconds",
        Kind::Histogram,
        "Time that targets had no poller before one took them.",
    );
    let unowned = &numbers.unowned;
    page.histogram(&[], unowned.buckets.iter().copied(), unowned.sum, Unit::Milliseconds, UNOWNED_MS);
}
