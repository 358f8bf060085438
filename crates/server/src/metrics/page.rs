//! The form of the text: families, samples, histograms. Knows nothing of what is counted.

use std::fmt::{self, Display, Write};
use std::ops::RangeInclusive;

/// What stands before every name.
const PREFIX: &str = "tenure_";

/// What a family measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// What a histogram's values are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    Microseconds,
    Milliseconds,
    Count,
}

/// Text that grows family by family.
pub(super) struct Page {
    text: String,
    name: &'static str,
}

impl Page {
    pub(super) fn new() -> Self {
        Self { text: String::with_capacity(32 << 10), name: "" }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    /// Begins a family; the samples after it belong to it.
    pub(super) fn family(&mut self, name: &'static str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.name = name;
        self.write(format_args!("# HELP {PREFIX}{name} {help}\n# TYPE {PREFIX}{name} {kind}\n"));
    }

    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.line("", labels, None, &value);
    }

    /// `counts[k]` values were below two to the power of `k`, and not below the power before. Those over the last
    /// bound are shown in the bucket without one.
    pub(super) fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        counts: impl Iterator<Item = u64>,
        sum: u64,
        unit: Unit,
        bounds: RangeInclusive<u32>,
    ) {
        let mut total = 0_u64;
        for (power, count) in (0..).zip(counts) {
            total += count;
            if bounds.contains(&power) {
                self.line("_bucket", labels, Some(&unit.bound(power)), &total);
            }
        }
        self.line("_bucket", labels, Some("+Inf"), &total);
        self.line("_sum", labels, None, &unit.sum(sum));
        self.line("_count", labels, None, &total);
    }

    /// At most so many seconds took so many, each bound with all below it; `count` in all.
    pub(super) fn histogram_by_bounds(
        &mut self,
        bounds: impl Iterator<Item = (f64, u64)>,
        sum: f64,
        count: u64,
    ) {
        for (bound, below) in bounds {
            self.line("_bucket", &[], Some(&bound.to_string()), &below);
        }
        self.line("_bucket", &[], Some("+Inf"), &count);
        self.line("_sum", &[], None, &sum);
        self.line("_count", &[], None, &count);
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], bound: Option<&str>, value: &dyn Display) {
        let name = self.name;
        self.write(format_args!("{PREFIX}{name}{suffix}"));
        let bound = bound.map(|bound| ("le", bound));
        for (index, (key, value)) in labels.iter().copied().chain(bound).enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            self.write(format_args!("{before}{key}=\"{}\"", Escaped(value)));
        }
        let closing = if labels.is_empty() && bound.is_none() { "" } else { "}" };
        self.write(format_args!("{closing} {value}\n"));
    }

    fn write(&mut self, piece: fmt::Arguments<'_>) {
        self.text.write_fmt(piece).expect("invariant: a string takes every piece");
    }
}

impl Unit {
    /// Values are whole numbers of the unit, cut off. A time below the bound may have been anything up to it; a
    /// count below it is at most one less.
    fn bound(self, power: u32) -> String {
        let bound = 1_u64 << power;
        match self {
            Self::Count => (bound - 1).to_string(),
            Self::Microseconds | Self::Milliseconds => self.seconds(bound).to_string(),
        }
    }

    fn sum(self, sum: u64) -> String {
        match self {
            Self::Count => sum.to_string(),
            Self::Microseconds | Self::Milliseconds => self.seconds(sum).to_string(),
        }
    }

    pub(super) fn seconds(self, value: u64) -> f64 {
        match self {
            Self::Microseconds => value as f64 / 1e6,
            Self::Milliseconds => value as f64 / 1e3,
            Self::Count => value as f64,
        }
    }
}

/// A label's value between its quotes.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| match character {
            '\\' => f.write_str("\\\\"),
            '"' => f.write_str("\\\""),
            '\n' => f.write_str("\\n"),
            other => f.write_char(other),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut page = Page::new();
        page.family("x", Kind::Gauge, "X.");
        page.sample(&[("a", "q\"b\\c\nd"), ("b", "")], 1.5);
        assert_eq!(
            page.finish(),
            "# HELP tenure_x X.\n# TYPE tenure_x gauge\ntenure_x{a=\"q\\\"b\\\\c\\nd\",b=\"\"} 1.5\n"
        );
    }

    #[test]
    fn buckets_add_up_and_what_is_above_the_last_bound_is_not_lost() {
        let mut page = Page::new();
        page.family("h", Kind::Histogram, "H.");
        // One of 0, two of 1, three of 2 or 3, four of 4 to 7, five above.
        page.histogram(&[("r", "/")], [1, 2, 3, 4, 5].into_iter(), 99, Unit::Milliseconds, 1..=2);
        page.histogram(&[], [1, 2, 3, 4, 5].into_iter(), 99, Unit::Count, 1..=2);
        let text = page.finish();
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "tenure_h_bucket{r=\"/\",le=\"0.002\"} 3",
                "tenure_h_bucket{r=\"/\",le=\"0.004\"} 6",
                "tenure_h_bucket{r=\"/\",le=\"+Inf\"} 15",
                "tenure_h_sum{r=\"/\"} 0.099",
                "tenure_h_count{r=\"/\"} 15",
                "tenure_h_bucket{le=\"1\"} 3",
                "tenure_h_bucket{le=\"3\"} 6",
                "tenure_h_bucket{le=\"+Inf\"} 15",
                "tenure_h_sum 99",
                "tenure_h_count 15",
            ]
        );
    }
}
