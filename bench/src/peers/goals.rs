//! What Tenure is to reach beside the others, as data, and whether a run shows it.

use super::figures::{Figure, Figures, Quantity, Spread};
use super::rows::{DISK, HELLO};
use std::fmt::Write as _;

/// One promise.
pub(crate) struct Goal {
    pub(crate) work: String,
    pub(crate) claim: &'static str,
    pub(crate) measured: Measured,
    pub(crate) bound: Bound,
}

pub(crate) enum Measured {
    /// One by another, within each round.
    Ratio(Figure, Reference),
    /// A number by itself, and how it is shown.
    Value(Figure, Unit),
}

pub(crate) enum Reference {
    One(Figure),
    /// The highest of those that there are.
    Highest(Vec<Figure>),
    /// The lowest, each times its factor; all of them have to be there.
    Lowest(Vec<(Figure, f64)>),
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

#[derive(Clone, Copy)]
pub(crate) enum Unit {
    Times,
    Milliseconds,
    Percent,
    Bytes,
    /// Told by the claim.
    Count,
}

/// A promise and what the run says of it.
pub(crate) struct Judged {
    pub(crate) work: String,
    pub(crate) claim: &'static str,
    /// `None`: it was not measured.
    pub(crate) measured: Option<Spread>,
    pub(crate) is_met: bool,
    unit: Unit,
}

/// Ours, and theirs.
const TENURE: &str = "Tenure";
const TENURE_HTTP: &str = "Tenure HTTP";
const REDIS: &str = "Redis always";
const REDIS_TOOL: &str = "Redis always, redis-benchmark";
const REDIS_MEMORY_TOOL: &str = "Redis no AOF, redis-benchmark";
const ETCD: &str = "etcd";
const POSTGRES: &str = "PostgreSQL";
/// Those that keep what they granted.
const DURABLE: &[&str] = &[REDIS, "Redis always + fence", ETCD, "etcd, one lease", POSTGRES, "ZooKeeper"];
/// Connections of the HTTP row.
const WEB: f64 = 64.0;

impl Bound {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
        }
    }
}

impl Judged {
    /// The middle, and how far the rounds were apart.
    pub(crate) fn shown(&self) -> String {
        let Some(Spread { min, median, max }) = self.measured else { return "not measured".to_owned() };
        let (factor, unit) = match self.unit {
            Unit::Times => (1.0, "×"),
            Unit::Milliseconds => (1e3, "ms"),
            Unit::Percent => (1e2, "%"),
            Unit::Bytes => (1.0, "B"),
            Unit::Count => (1.0, ""),
        };
        let digits = |value: f64| match value * factor {
            scaled if scaled >= 99.95 => format!("{scaled:.0}"),
            scaled if scaled >= 9.995 => format!("{scaled:.1}"),
            scaled => format!("{scaled:.2}"),
        };
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        format!("{}{unit} ({} – {})", digits(median), digits(min), digits(max))
    }

    pub(crate) fn mark(&self) -> &'static str {
        match (self.measured, self.is_met) {
            (None, _) => "–",
            (Some(_), true) => "ok",
            (Some(_), false) => "MISSED",
        }
    }
}

/// Every promise held against a run whose largest number of leases was `many`.
pub(crate) fn judge(figures: &Figures, many: u64) -> Vec<Judged> {
    goals(many).into_iter().map(|goal| goal.judge(figures)).collect()
}

/// The promises as a Markdown table.
pub(crate) fn table(judged: &[Judged]) -> String {
    let mut text = String::from("| work | goal | measured (min – max) | |\n|---|---|---|---|\n");
    for one in judged {
        let _ = writeln!(text, "| {} | {} | {} | {} |", one.work, one.claim, one.shown(), one.mark());
    }
    text
}

impl Goal {
    pub(crate) fn judge(self, figures: &Figures) -> Judged {
        let (measured, unit) = match &self.measured {
            Measured::Value(figure, unit) => (figures.spread(figure), *unit),
            Measured::Ratio(figure, reference) => {
                let to = match reference {
                    Reference::One(to) => figures.rounds(to),
                    Reference::Highest(all) => figures.highest(all),
                    Reference::Lowest(all) => figures.lowest(all),
                };
                (figures.ratio(figure, &to), Unit::Times)
            }
        };
        let is_met = measured.is_some_and(|spread| self.bound.is_met(spread.median));
        Judged { work: self.work, claim: self.claim, measured, is_met, unit }
    }
}

fn goals(many: u64) -> Vec<Goal> {
    let of = Figure::new;
    let storm = format!("storm {many}");
    let rate = |peer: &str, what: &str| of(peer, what, Quantity::Rate);
    let ratio = |work: &str, claim, figure: Figure, to: Figure, bound| Goal {
        work: work.to_owned(),
        claim,
        measured: Measured::Ratio(figure, Reference::One(to)),
        bound,
    };
    let value = |work: &str, claim, figure: Figure, unit, bound| Goal {
        work: work.to_owned(),
        claim,
        measured: Measured::Value(figure, unit),
        bound,
    };
    let pipelined = |work: &str, claim, what: &str, peer: &str, times: f64| {
        ratio(work, claim, rate(TENURE, what), rate(peer, what), Bound::AtLeast(times))
    };
    let held = |peer: &str, quantity| of(peer, "hold", quantity);
    const ACQUIRE: &str = "durable acquire, socket, 8 connections × 32 in flight";
    const RENEW: &str = "renew, socket, 8 × 32";
    const ONE: &str = "durable acquire, 1 in flight, p50";
    const WEB_ROW: &str = "HTTP acquire, 64 connections";
    const MEMORY: &str = "memory per held lease, 16-byte names";
    const STORM: &str = "storm of 1 M, over the wire";
    let (acquire, renew, many_apart) = ("acquire 8×32", "renew 8×32", "acquire 256×1");
    let (alone, web, bundle) = ("acquire 1×1", "acquire 64×1", "acquire bundle 8×32");
    let p50 = |peer: &str, what: &str| of(peer, what, Quantity::P50);
    vec![
        pipelined(ACQUIRE, "≥ 2 × Redis `always` by `redis-benchmark`", acquire, REDIS_TOOL, 2.0),
        pipelined(ACQUIRE, "stretch: ≥ 3 × the same", acquire, REDIS_TOOL, 3.0),
        pipelined(ACQUIRE, "≥ 30 × etcd", acquire, ETCD, 30.0),
        pipelined(ACQUIRE, "≥ 5 × PostgreSQL", acquire, POSTGRES, 5.0),
        pipelined(
            "durable acquire, 256 connections × 1",
            "≥ 1.2 × Redis `always` by `redis-benchmark`",
            many_apart,
            REDIS_TOOL,
            1.2,
        ),
        ratio(
            ONE,
            "≤ 1.2 × one raw append and `fdatasync` of 512 bytes",
            p50(TENURE, alone),
            p50(DISK, "append 512"),
            Bound::AtMost(1.2),
        ),
        ratio(ONE, "≤ Redis `always`", p50(TENURE, alone), p50(REDIS, alone), Bound::AtMost(1.0)),
        pipelined(RENEW, "≥ 3 × Redis `always` by `redis-benchmark`", renew, REDIS_TOOL, 3.0),
        pipelined(RENEW, "≥ 1.5 × Redis without AOF by `redis-benchmark`", renew, REDIS_MEMORY_TOOL, 1.5),
        pipelined(RENEW, "≥ 15 × etcd", renew, ETCD, 15.0),
        value(
            RENEW,
            "no disk write: less than a byte each",
            of(TENURE, renew, Quantity::WrittenEach),
            Unit::Bytes,
            Bound::AtMost(1.0),
        ),
        ratio(WEB_ROW, "≥ 5 × etcd", rate(TENURE_HTTP, web), rate(ETCD, "acquire 8×8"), Bound::AtLeast(5.0)),
        Goal {
            work: WEB_ROW.to_owned(),
            claim: "≥ 0.4 × the lesser of a bare hello of the same stack and 64 × the raw sync rate",
            measured: Measured::Ratio(
                rate(TENURE_HTTP, web),
                Reference::Lowest(vec![(rate(HELLO, "hello 64×1"), 1.0), (rate(DISK, "append 512"), WEB)]),
            ),
            bound: Bound::AtLeast(0.4),
        },
        ratio(
            MEMORY,
            "≤ 0.25 × etcd's",
            held(TENURE, Quantity::BytesEach),
            held(ETCD, Quantity::BytesEach),
            Bound::AtMost(0.25),
        ),
        ratio(
            MEMORY,
            "≤ 1.5 × Redis's bare key",
            held(TENURE, Quantity::BytesEach),
            held(REDIS, Quantity::BytesEach),
            Bound::AtMost(1.5),
        ),
        ratio(
            STORM,
            "last one gone no later than Redis's last key",
            of(TENURE, &storm, Quantity::Lag),
            of(REDIS, &storm, Quantity::Lag),
            Bound::AtMost(1.0),
        ),
        value(
            STORM,
            "p99 of renewals meanwhile ≤ 25 ms",
            of(TENURE, &storm, Quantity::P99),
            Unit::Milliseconds,
            Bound::AtMost(0.025),
        ),
        ratio(
            "restart with 1 M leases",
            "≤ 0.5 × Redis's restart with 1 M keys",
            held(TENURE, Quantity::Lag),
            held(REDIS, Quantity::Lag),
            Bound::AtMost(0.5),
        ),
        Goal {
            work: "bundle of 8, 256 in flight".to_owned(),
            claim: "≥ 3 × the best durable peer",
            measured: Measured::Ratio(
                rate(TENURE, bundle),
                Reference::Highest(DURABLE.iter().map(|peer| rate(peer, bundle)).collect()),
            ),
            bound: Bound::AtLeast(3.0),
        },
        value(
            "holder killed → next waiter granted (socket, grace 0)",
            "p99 ≤ 20 ms",
            of(TENURE, "fail-over", Quantity::P99),
            Unit::Milliseconds,
            Bound::AtMost(0.020),
        ),
        value(
            "idle, 1 M held leases",
            "CPU ≤ 1 % of a core",
            held(TENURE, Quantity::Processor),
            Unit::Percent,
            Bound::AtMost(0.01),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_neither_met_nor_missed() {
        let judged = judge(&Figures::default(), 1_000_000);
        assert_eq!(judged.len(), 21);
        assert!(judged.iter().all(|one| one.mark() == "–" && one.shown() == "not measured"));
    }

    #[test]
    fn a_goal_is_judged_by_the_median_of_the_rounds() {
        let mut figures = Figures::default();
        for (round, ours) in [150.0, 250.0, 900.0].into_iter().enumerate() {
            figures.add(round, Figure::new(TENURE, "acquire 8×32", Quantity::Rate), ours);
            figures.add(round, Figure::new(REDIS_TOOL, "acquire 8×32", Quantity::Rate), 100.0);
        }
        let judged = judge(&figures, 1_000_000);
        assert_eq!((judged[0].mark(), judged[1].mark()), ("ok", "MISSED"));
        assert_eq!(judged[0].shown(), "2.50 × (1.50 – 9.00)");
    }

    #[test]
    fn the_limit_of_http_is_the_lesser_and_the_bundle_is_held_against_the_best() {
        let mut figures = Figures::default();
        let mut add =
            |peer: &str, what: &str, value| figures.add(0, Figure::new(peer, what, Quantity::Rate), value);
        add(TENURE_HTTP, "acquire 64×1", 30_000.0);
        add(HELLO, "hello 64×1", 90_000.0);
        add(DISK, "append 512", 1_000.0);
        add(TENURE, "acquire bundle 8×32", 60_000.0);
        add(REDIS, "acquire bundle 8×32", 10_000.0);
        add("ZooKeeper", "acquire bundle 8×32", 30_000.0);
        let judged = judge(&figures, 1_000_000);
        let measured = |claim: &str| judged.iter().find(|one| one.claim.contains(claim)).unwrap().shown();
        assert_eq!(measured("bare hello"), "0.47 × (0.47 – 0.47)");
        assert_eq!(measured("best durable"), "2.00 × (2.00 – 2.00)");
    }
}
