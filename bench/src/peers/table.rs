//! The numbers as Markdown tables for people.

use super::figures::{Figure, Figures, Quantity, Spread};
use std::fmt::Write as _;

/// Work in the order of a lease's life; anything else comes after.
const WORK: &[&str] = &["acquire", "renew", "release", "acquire bundle", "append", "hello"];

/// All tables that have something in them, each with its heading.
pub(crate) fn tables(figures: &Figures) -> String {
    let parts = [
        ("Work", work(figures)),
        ("Held leases", held(figures)),
        ("One deadline for many", storms(figures)),
        ("64 contenders for one name", contention(figures)),
        ("A holder is killed", fail_over(figures)),
    ];
    let mut text = String::new();
    for (heading, table) in parts.into_iter().filter(|(_, table)| table.lines().count() > 2) {
        let _ = writeln!(text, "## {heading}\n\n{table}");
    }
    text
}

fn work(figures: &Figures) -> String {
    let mut text = String::from(
        "| work | in flight | peer | ops/s (min – max) | p50 ms | p99 ms | server CPU µs/op |\n\
         |---|---|---|---|---|---|---|\n",
    );
    let mut whats: Vec<(usize, u64, &str)> =
        figures.whats().into_iter().filter_map(|what| Some((place(what)?, in_flight(what), what))).collect();
    whats.sort_unstable();
    for (_, _, what) in whats {
        let (work, shape) = what.rsplit_once(' ').unwrap_or((what, ""));
        for peer in figures.peers_with(what, Quantity::Rate) {
            let of = |quantity| figures.spread(&Figure::new(peer, what, quantity));
            let scaled = |quantity, factor: f64, digits: usize| {
                of(quantity).map_or("–".to_owned(), |it| format!("{:.digits$}", it.median * factor))
            };
            let _ = writeln!(
                text,
                "| {work} | {shape} | {peer} | {} | {} | {} | {} |",
                of(Quantity::Rate).map_or("–".to_owned(), whole),
                scaled(Quantity::P50, 1e3, 3),
                scaled(Quantity::P99, 1e3, 2),
                scaled(Quantity::ProcessorEach, 1e6, 2),
            );
        }
    }
    text
}

fn held(figures: &Figures) -> String {
    let mut text = String::from(
        "| peer | leases | bytes each | idle CPU, % of a core | killed → first answer, s |\n|---|---|---|---|---|\n",
    );
    each(figures, "hold", Quantity::BytesEach, |peer, of| {
        let _ = writeln!(
            text,
            "| {peer} | {} | {} | {} | {} |",
            shown(of(Quantity::Count), 1.0, 0),
            shown(of(Quantity::BytesEach), 1.0, 0),
            shown(of(Quantity::Processor), 1e2, 2),
            shown(of(Quantity::Lag), 1.0, 2),
        );
    });
    text
}

fn storms(figures: &Figures) -> String {
    let mut text = String::from(
        "| leases | peer | last gone after, s | renewals meanwhile p50, p99, longest ms | p99 before ms | samples |\n\
         |---|---|---|---|---|---|\n",
    );
    let mut storms: Vec<(u64, &str)> = figures
        .whats()
        .into_iter()
        .filter_map(|what| Some((what.strip_prefix("storm ")?.parse().ok()?, what)))
        .collect();
    storms.sort_unstable();
    for (count, what) in storms {
        each(figures, what, Quantity::Lag, |peer, of| {
            let _ = writeln!(
                text,
                "| {} | {peer} | {} | {}, {}, {} | {} | {} |",
                grouped(count as f64),
                shown(of(Quantity::Lag), 1.0, 2),
                shown(of(Quantity::P50), 1e3, 2),
                shown(of(Quantity::P99), 1e3, 1),
                shown(of(Quantity::Longest), 1e3, 1),
                shown(of(Quantity::CalmP99), 1e3, 2),
                shown(of(Quantity::Count), 1.0, 0),
            );
        });
    }
    text
}

fn contention(figures: &Figures) -> String {
    let mut text = String::from(
        "| peer | grants/s (min – max) | share of the unluckiest and the luckiest, % (fair: 1.56) |\n|---|---|---|\n",
    );
    each(figures, "contention 64", Quantity::Rate, |peer, of| {
        let _ = writeln!(
            text,
            "| {peer} | {} | {} – {} |",
            of(Quantity::Rate).map_or("–".to_owned(), whole),
            shown(of(Quantity::Unluckiest), 1e2, 2),
            shown(of(Quantity::Luckiest), 1e2, 2),
        );
    });
    text
}

fn fail_over(figures: &Figures) -> String {
    let mut text = String::from("| peer | p50 ms | p99 ms | deaths |\n|---|---|---|---|\n");
    each(figures, "fail-over", Quantity::P50, |peer, of| {
        let _ = writeln!(
            text,
            "| {peer} | {} | {} | {} |",
            shown(of(Quantity::P50), 1e3, 1),
            shown(of(Quantity::P99), 1e3, 1),
            shown(of(Quantity::Count), 1.0, 0),
        );
    });
    text
}

/// Gives every peer that has a number for this to `row`.
fn each(
    figures: &Figures,
    what: &str,
    quantity: Quantity,
    mut row: impl FnMut(&str, &dyn Fn(Quantity) -> Option<Spread>),
) {
    for peer in figures.peers_with(what, quantity) {
        row(peer, &|quantity| figures.spread(&Figure::new(peer, what, quantity)));
    }
}

pub(crate) fn shown(spread: Option<Spread>, factor: f64, digits: usize) -> String {
    match spread {
        None => "–".to_owned(),
        Some(spread) if digits == 0 => grouped(spread.median * factor),
        Some(spread) => format!("{:.digits$}", spread.median * factor),
    }
}

fn whole(Spread { min, median, max }: Spread) -> String {
    format!("{} ({} – {})", grouped(median), grouped(min), grouped(max))
}

/// A whole number with its thousands apart.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.max(0.0));
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Where a kind of work stands in the table; `None`: it is not work.
fn place(what: &str) -> Option<usize> {
    let (work, _) = what.rsplit_once(' ')?;
    WORK.iter().position(|known| *known == work)
}

/// The product of a shape, "8×32", or the number that stands there.
fn in_flight(what: &str) -> u64 {
    let shape = what.rsplit(' ').next().unwrap_or_default();
    shape.split('×').map(|number| number.parse::<u64>().unwrap_or(0)).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_thousands_apart() {
        for (value, text) in [(0.0, "0"), (999.4, "999"), (1_000.0, "1,000"), (1_234_567.8, "1,234,568")] {
            assert_eq!(grouped(value), text);
        }
    }

    #[test]
    fn work_is_listed_in_the_order_of_a_life_and_by_what_is_in_flight() {
        let mut figures = Figures::default();
        for what in ["renew 1×1", "acquire 8×32", "acquire 8×2", "contention 64", "acquire 64×1"] {
            figures.add(0, Figure::new("Tenure", what, Quantity::Rate), 1_500.0);
        }
        let listed: Vec<String> = work(&figures)
            .lines()
            .skip(2)
            .map(|line| line.split('|').skip(1).take(2).map(str::trim).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(listed, ["acquire 8×2", "acquire 64×1", "acquire 8×32", "renew 1×1"]);
        assert!(tables(&figures).contains("| Tenure | 1,500 (1,500 – 1,500) |"));
        assert!(tables(&figures).contains("## 64 contenders"));
        assert!(!tables(&figures).contains("## A holder"));
    }
}
